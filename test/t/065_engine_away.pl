# An engine that is away: stopped, restarted under its sessions, without its port, or behind a firewall. What needs it fails with an error
# that says why and after a wait that can be set, what does not need it goes on, and everything works again afterwards.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use IO::Socket::INET;
use Time::HiRes qw(time);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($coord, $n1, $n2) = rdma_trio(conf => "rdma_fdw.peer_timeout = '2s'\nrdma_fdw.connect_timeout = '3s'\n");
foreach my $node ($n1, $n2)
{
	$node->safe_psql('postgres', q{
		CREATE TABLE t AS SELECT g AS a, repeat(md5(g::text), 4) AS b FROM generate_series(1, 50000) g;
		ALTER TABLE t ADD PRIMARY KEY (a);
	});
}
$coord->safe_psql('postgres', "CREATE SCHEMA $_; IMPORT FOREIGN SCHEMA public FROM SERVER $_ INTO $_") foreach ('n1', 'n2');
my $all = 'SELECT count(*), sum(a), bool_and(b = repeat(md5(a::text), 4)) FROM (SELECT * FROM %s.t OFFSET 0) x';
my $right = '50000|1250025000|t';
is($coord->safe_psql('postgres', sprintf($all, 'n1')), $right, 'it works before');

# ---- engines are restarted while a session stays: each of its streams finds the memory that the new engine lends
my $session = $coord->background_psql('postgres', on_error_stop => 0);
foreach my $round (1 .. 3)
{
	foreach my $server ('n1', 'n2')
	{
		is($session->query(sprintf($all, $server)), $right, "round $round: the session reads from $server");
	}
	foreach my $node ($round == 2 ? $n1 : $coord)
	{
		my $pid = rdma_engine_pid($node);
		kill 'TERM', $pid;
		ok(rdma_wait($node, "SELECT pid <> $pid FROM rdma.stat_engine WHERE pid IS NOT NULL", 60), 'an engine is restarted');
	}
	ok(rdma_wait($coord, 'SELECT count(*) = 1 FROM n2.t WHERE a = 1', 60), 'and the nodes are connected again');
}
is($session->query(sprintf($all, 'n1')), $right, 'the session still reads');
# Its time limit runs until then.
$session->quit;

# ---- the reader's own engine is stopped for longer than the other one waits for it
my $log_end = -s $n1->logfile;
my $engine = rdma_engine_pid($coord);
kill 'STOP', $engine;
ok(eval { $n1->wait_for_log(qr/it has not answered for 2000 ms/, $log_end); 1 }, 'the data node gives the stopped engine up');
my $begin = time();
my ($status, $out, $err) = $coord->psql('postgres', "\\set VERBOSITY verbose\n" . sprintf($all, 'n1'));
cmp_ok(time() - $begin, '>', 2.5, 'a statement waits for it for connect_timeout');
like($err, qr/ERROR:\s+08006: the reading node's engine is not connected to this node/, 'and then the connection has failed');
like($err, qr/HINT:.*rdma_fdw\.connect_timeout/, 'with a hint that names the setting');
kill 'CONT', $engine;
ok(rdma_wait($coord, sprintf("SELECT count(*) = 50000 FROM (SELECT * FROM n1.t OFFSET 0) x"), 60), 'it works when the engine goes on');

# ---- the engine's port is refused: rows that fit an answer come, and nothing else. (No server listens on 127.0.0.2.)
$n1->append_conf('postgresql.conf', "rdma_fdw.engine_address = '127.0.0.2'");
$n1->reload;
$engine = rdma_engine_pid($coord);
kill 'TERM', $engine;
ok(rdma_wait($coord, "SELECT pid <> $engine FROM rdma.stat_engine WHERE pid IS NOT NULL", 60), 'the engines have to connect again');
($status, $out, $err) = $coord->psql('postgres', q{
	\set VERBOSITY verbose
	SELECT a FROM n1.t WHERE a = 17;
	SELECT count(*) FROM n1.t;
	SELECT sum(a) FROM n1.t WHERE a < 0;
	SELECT a FROM n1.t WHERE a = 18;
});
is($out, "17\n50000\n\n18", 'rows that fit an answer come over libpq');
like($err, qr/WARNING:\s+08006: only rows that fit option inline_limit can come from server "n1".*DETAIL:\s+The engines cannot connect: could not connect to the engine/s, 'a warning says so');
is(scalar(() = $err =~ /WARNING/g), 1, 'once in a session');
($status, $out, $err) = $coord->psql('postgres', "\\set VERBOSITY verbose\nSELECT count(*) FROM n1.t;\n" . sprintf($all, 'n1'));
like($err, qr/ERROR:\s+08006: could not connect to the engine at.*DETAIL:.*do not fit option inline_limit/s, 'more rows are an error that says why');
is($coord->safe_psql('postgres', sprintf($all, 'n2')), $right, 'another node is not concerned');
$n1->append_conf('postgresql.conf', "rdma_fdw.engine_address = ''");
$n1->reload;
is($coord->safe_psql('postgres', sprintf($all, 'n1')), $right, 'with the port open all rows come');

# ---- the engine's port is taken when it starts
my $taken = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1', Proto => 'tcp') or die $!;
my $port = $taken->sockport;
$log_end = -s $n1->logfile;
$n1->append_conf('postgresql.conf', "rdma_fdw.engine_port = $port");
$n1->restart;
ok(rdma_wait($n1, q{SELECT device_problem LIKE 'could not listen%' FROM rdma.stat_engine WHERE pid IS NULL}, 60), 'rdma.stat_engine says why there is no engine');
$n1->safe_psql('postgres', q{
	CREATE SERVER self FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port '} . $n1->port . q{', dbname 'postgres');
	CREATE USER MAPPING FOR CURRENT_USER SERVER self;
	CREATE FOREIGN TABLE far (a int) SERVER self OPTIONS (table_name 't');
});
like($n1->safe_psql('postgres', q{SELECT * FROM rdma."check"('self')}), qr/not running: could not listen on address 127\.0\.0\.1, port $port/, 'so does rdma.check');
($status, $out, $err) = $n1->psql('postgres', 'SELECT sum(a) FROM (SELECT * FROM far OFFSET 0) x');
like($err, qr/could not listen on address 127\.0\.0\.1, port $port/, 'and whoever needs it');
my $log = slurp_file($n1->logfile, $log_end);
is(scalar(() = $log =~ /could not listen for other engines/g), 1, 'the log has one line about it');
unlike($log, qr/could not listen for other engines.*exited with exit code 1/s, 'and no restarts');
$taken->close;
ok(rdma_wait($n1, 'SELECT pid IS NOT NULL FROM rdma.stat_engine', 60), 'when the port comes free the engine listens');
is($n1->safe_psql('postgres', 'SELECT sum(a) FROM (SELECT * FROM far OFFSET 0) x'), '1250025000', 'and all is well');

done_testing();
