# Transactions that wait for each other over two nodes, or over a node and here: the youngest that waits for a node fails with
# 40P01 and a detail that names both sides, the others go on. rdma.locks shows who waits for whom. Nobody is cancelled who is in
# no circle, and nothing looks when nobody waits.
use strict;
use warnings;
use FindBin;
use IO::Socket::INET;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($coord, $n1, $n2) = rdma_trio(conf => "deadlock_timeout = '200ms'\n");
$_->safe_psql('postgres', 'CREATE TABLE t (k int PRIMARY KEY, v int); INSERT INTO t SELECT g, 0 FROM generate_series(1, 9) g') foreach ($n1, $n2);
$coord->safe_psql('postgres', "CREATE SCHEMA $_; IMPORT FOREIGN SCHEMA public FROM SERVER $_ INTO $_") foreach ('n1', 'n2');
$coord->safe_psql('postgres', 'CREATE TABLE here (k int PRIMARY KEY, v int); INSERT INTO here SELECT g, 0 FROM generate_series(1, 9) g');

my %session = map { $_ => $coord->background_psql('postgres', on_error_stop => 0, timeout => 400) } qw(a b c);
my %pid = map { $_ => scalar $session{$_}->query('SELECT pg_backend_pid()') } keys %session;

sub says { my ($who, $sql) = @_; return scalar $session{$who}->query($sql); }

# Sent, and not waited for; then what it said.
sub sends { my ($who, $sql) = @_; $session{$who}{stderr} = ''; $session{$who}->query_until(qr/sent/, "\\echo sent\n$sql;\n"); }
sub hears { my ($who) = @_; my $out = $session{$who}->query('\echo'); return "$out$session{$who}{stderr}"; }

sub waits { my ($count) = @_; return rdma_wait($coord, "SELECT count(*) = $count FROM rdma.locks", 120); }

# Each begins with its first statement, in the order a, b, c; then all send their second, and $victim fails.
sub circle
{
	my ($what, $victim, @steps) = @_;
	my @who = (qw(a b c))[ 0 .. $#steps ];
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	says($who[$_], "BEGIN; $steps[$_][0]") foreach 0 .. $#steps;
	sends($who[$_], $steps[$_][1]) foreach 0 .. $#steps;
	my $said = hears($victim);
	like($said, qr/ERROR:  deadlock detected/, "$what: the youngest fails");
	like($said, qr/Process $pid{$_} waits/, "the detail names $_") foreach @who;
	says($victim, 'ROLLBACK');
	foreach my $other (grep { $_ ne $victim } reverse @who)
	{
		unlike(hears($other), qr/ERROR/, "$other goes on");
		says($other, 'COMMIT');
	}
	return $said;
}

my $said = circle('two nodes', 'b',
	[ 'UPDATE n1.t SET v = v + 1 WHERE k = 1', 'UPDATE n2.t SET v = v + 1 WHERE k = 1' ],
	[ 'UPDATE n2.t SET v = v + 1 WHERE k = 1', 'UPDATE n1.t SET v = v + 1 WHERE k = 1' ]);
like($said, qr/Process $pid{a} waits on server "n2" for process $pid{b}\./, 'with the node on which one waits');
like($said, qr/Process $pid{b} waits on server "n1" for process $pid{a}\./, 'and the other');
is($n1->safe_psql('postgres', 'SELECT v FROM t WHERE k = 1'), 1, 'one of them has written');
circle('row locks', 'b',
	[ 'SELECT k FROM n1.t WHERE k = 2 FOR UPDATE', 'SELECT k FROM n2.t WHERE k = 2 FOR UPDATE' ],
	[ 'SELECT k FROM n2.t WHERE k = 2 FOR UPDATE', 'SELECT k FROM n1.t WHERE k = 2 FOR UPDATE' ]);
circle('unique keys', 'b',
	[ 'INSERT INTO n1.t VALUES (11, 0)', 'INSERT INTO n2.t SELECT g, 0 FROM generate_series(13, 11, -1) g' ],
	[ 'INSERT INTO n2.t VALUES (11, 0)', 'INSERT INTO n1.t SELECT g, 0 FROM generate_series(100000, 11, -1) g' ]);
circle('three sessions', 'c',
	[ 'SELECT k FROM n1.t WHERE k = 3 FOR UPDATE', 'SELECT k FROM n2.t WHERE k = 3 FOR UPDATE' ],
	[ 'SELECT k FROM n2.t WHERE k = 3 FOR UPDATE', 'SELECT k FROM n1.t WHERE k = 4 FOR UPDATE' ],
	[ 'SELECT k FROM n1.t WHERE k = 4 FOR UPDATE', 'SELECT k FROM n1.t WHERE k = 3 FOR UPDATE' ]);
circle('a node and here', 'a',
	[ 'UPDATE here SET v = v + 1 WHERE k = 1', 'UPDATE n1.t SET v = v + 1 WHERE k = 5' ],
	[ 'UPDATE n1.t SET v = v + 1 WHERE k = 5', 'UPDATE here SET v = v + 1 WHERE k = 1' ]);

# One that waits and is in no circle, while another circle is found
says('a', 'BEGIN; UPDATE n1.t SET v = 10 WHERE k IN (6, 7)');
sends('b', 'UPDATE n1.t SET v = v + 1 WHERE k = 6');
ok(waits(1), 'b waits for a');
is($coord->safe_psql('postgres', 'SELECT server_name, waiting_backend, blocking_backend FROM rdma.locks'), "n1|$pid{b}|$pid{a}", 'rdma.locks says so');
is($coord->safe_psql('postgres', 'SELECT (SELECT waiting_pid FROM rdma.locks) <> (SELECT blocking_pid FROM rdma.locks)'), 't', 'with the processes there');
says('c', 'BEGIN; UPDATE n2.t SET v = 10 WHERE k = 6');
sends('a', 'UPDATE n2.t SET v = 10 WHERE k = 6');
ok(waits(2), 'a waits for c');
sends('c', 'UPDATE n1.t SET v = 10 WHERE k = 7');
like(hears('c'), qr/ERROR:  deadlock detected/, 'a circle beside it is found');
says('c', 'ROLLBACK');
unlike(hears('a'), qr/ERROR/, 'a goes on');
says('a', 'ROLLBACK');
unlike(hears('b'), qr/ERROR/, 'so does b, which was in no circle');
is($n1->safe_psql('postgres', 'SELECT v FROM t WHERE k = 6'), 1, 'and it has written');

# Of one process, which asks as the owner of the table what it has read as another role
$coord->safe_psql('postgres', q{
CREATE ROLE owner; GRANT USAGE ON FOREIGN SERVER n1 TO owner; CREATE USER MAPPING FOR owner SERVER n1 OPTIONS (user 'postgres', password_required 'false');
ALTER FOREIGN TABLE n1.t OPTIONS (ADD propagate_ddl 'true'); ALTER FOREIGN TABLE n1.t OWNER TO owner});
says('a', 'BEGIN; SELECT count(*) FROM n1.t');
sends('a', 'DROP FOREIGN TABLE n1.t');
like(hears('a'), qr/deadlock detected.*waits on server "n1" for its own session of another role/s, 'a process that waits for itself');
says('a', 'ROLLBACK');
$coord->safe_psql('postgres', 'ALTER FOREIGN TABLE n1.t OWNER TO postgres');

# Locks here are there, too; an ordinary role sees none of it
says('a', 'BEGIN; UPDATE here SET v = 1 WHERE k = 7');
sends('b', 'UPDATE here SET v = 2 WHERE k = 7');
ok(waits(1), 'a wait here is shown');
is($coord->safe_psql('postgres', 'SELECT server_name, waiting_pid, blocking_pid FROM rdma.locks'), "|$pid{b}|$pid{a}", 'without a server');
says('a', 'COMMIT');
hears('b');
$coord->safe_psql('postgres', 'CREATE ROLE nobody_special LOGIN');
my ($status, $out, $err) = $coord->psql('postgres', 'SELECT * FROM rdma.locks', extra_params => [ '-U', 'nobody_special' ]);
like($err, qr/permission denied for view locks/, 'an ordinary role may not ask');

# Who looks is a superuser in a database whose owner is none, and whose search_path has operators of the owner
$coord->safe_psql('postgres', 'CREATE ROLE tenant LOGIN; CREATE DATABASE tenants OWNER tenant');
$coord->safe_psql('tenants', 'CREATE EXTENSION rdma_fdw; CREATE SCHEMA trap AUTHORIZATION tenant');
$coord->safe_psql('tenants', q{
CREATE FUNCTION trap.more(int, int) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
	IF (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname OPERATOR(pg_catalog.=) current_user) THEN
		ALTER ROLE tenant SUPERUSER;
	END IF;
	RETURN pg_catalog.int4gt($1, $2);
END $$;
CREATE OPERATOR trap.> (LEFTARG = int, RIGHTARG = int, FUNCTION = trap.more);
ALTER DATABASE tenants SET search_path = trap, pg_catalog, public; ALTER DATABASE tenants SET statement_timeout = '20s'}, extra_params => [ '-U', 'tenant' ]);
$coord->safe_psql('tenants', "SET statement_timeout = 0; CREATE SERVER n1 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port '" . $n1->port . "', dbname 'postgres');
CREATE USER MAPPING FOR postgres SERVER n1 OPTIONS (" . $coord->safe_psql('postgres', q{SELECT string_agg(format('%s %L', option_name, option_value), ', ')
FROM pg_user_mappings, pg_options_to_table(umoptions) WHERE srvname = 'n1' AND usename = 'postgres'}) . "); CREATE FOREIGN TABLE public.t (k int, v int) SERVER n1");
my %tenant = map { $_ => $coord->background_psql('tenants', on_error_stop => 0, timeout => 400) } qw(a b c d);
$_->query('SET statement_timeout = 0; SET search_path = pg_catalog') foreach values %tenant;
$tenant{a}->query('BEGIN; UPDATE public.t SET v = 1 WHERE k = 8');
$tenant{c}->query('SELECT pg_advisory_lock(7)');
$tenant{b}->query_until(qr/sent/, "\\echo sent\nUPDATE public.t SET v = 2 WHERE k = 8;\n");
$tenant{d}->query_until(qr/sent/, "\\echo sent\nSELECT pg_advisory_lock(7);\n");
ok(rdma_wait($coord, q{SELECT count(*) > 0 FROM pg_stat_activity WHERE backend_type = 'rdma_fdw deadlock detector' AND datname = 'tenants'}, 120), 'one looks in a database of another owner');
sleep 1;	# and looks some times
is($coord->safe_psql('postgres', q{SELECT rolsuper FROM pg_roles WHERE rolname = 'tenant'}), 'f', 'and does not call its operators');
$tenant{a}->query('COMMIT');
$tenant{c}->query('SELECT pg_advisory_unlock(7)');
$_->quit foreach values %tenant;

# Who waits for a connection waits for nobody's lock
my $silent = IO::Socket::INET->new(Listen => 5, LocalAddr => '127.0.0.1');
$coord->safe_psql('postgres', "CREATE SERVER silent FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port '" . $silent->sockport . "', connect_timeout '2');"
	. "CREATE USER MAPPING FOR postgres SERVER silent; CREATE FOREIGN TABLE silent (k int) SERVER silent");
($status, $out, $err) = $coord->psql('postgres', 'SELECT * FROM silent');
like($err, qr/Timeout expired/, 'a server that does not answer');
unlike(slurp_file($coord->logfile), qr/without having selected a database|deadlock detector.*exited with/, 'is no cause to look');

$_->quit foreach values %session;
ok(rdma_wait($coord, q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'rdma_fdw deadlock detector'}, 120), 'nothing looks when nobody waits');
$_->stop foreach ($coord, $n1, $n2);
done_testing();
