# A transaction that wrote on two nodes, or on one and here, commits on all or on none, whoever is killed, stopped or cut off
# when; what is left prepared is finished in the background. Steps are held where they are without fault points: a deferred
# trigger on a node waits for an advisory lock (its PREPARE), a synchronous standby that does not exist holds the local commit
# after its flush until it is cancelled, and a proxy holds what is said to a node.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl", "$FindBin::Bin/../chaos";
use Proxy;
use RdmaCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($n1, $n2) = map { rdma_node($_, conf => "log_statement = 'all'\n") } qw(n1 n2);
my $coord = rdma_node('coord', conf => "wal_level = replica\nmax_wal_senders = 2\nsynchronous_standby_names = 'nobody'\nsynchronous_commit = local\n");
my $proxy = Proxy->start({ n1 => $n1->port, n2 => $n2->port });
rdma_connect($coord, n1 => $n1, n2 => $n2);
$coord->safe_psql('postgres', "ALTER SERVER $_ OPTIONS (SET port '" . $proxy->port($_) . "')") foreach ('n1', 'n2');
foreach my $node ($n1, $n2)
{
	$node->safe_psql('postgres', q{
		CREATE TABLE t (k int PRIMARY KEY, v int);
		CREATE FUNCTION wait_here() RETURNS trigger LANGUAGE plpgsql AS
			'BEGIN IF new.v = -1 THEN RAISE EXCEPTION $x$not this one$x$; END IF; PERFORM pg_advisory_xact_lock_shared(1); RETURN NULL; END';
		CREATE CONSTRAINT TRIGGER wait_here AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION wait_here();
		CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_notify($x$x$x$, $x$y$x$); RETURN NULL; END';
		CREATE TABLE told (k int);
		CREATE TRIGGER tell AFTER INSERT ON told FOR EACH ROW EXECUTE FUNCTION tell();
	});
}
$coord->safe_psql('postgres', "CREATE SCHEMA $_; IMPORT FOREIGN SCHEMA public FROM SERVER $_ INTO $_") foreach ('n1', 'n2');
$coord->safe_psql('postgres', 'CREATE TABLE here (k int, v int)');

# What is there of transaction K: here, on n1, on n2.
sub found
{
	my ($k) = @_;

	return join(' ', map { $_->[0]->safe_psql('postgres', "SELECT count(*) FROM $_->[1] WHERE k = $k") } [ $coord, 'here' ], [ $n1, 't' ], [ $n2, 't' ]);
}

sub everywhere { my ($k, $v) = @_; return "BEGIN; INSERT INTO here VALUES ($k); INSERT INTO n1.t VALUES ($k, $v); INSERT INTO n2.t VALUES ($k, $v); COMMIT"; }

sub prepared { my ($node, $count) = @_; return rdma_wait($node, "SELECT count(*) = $count FROM pg_prepared_xacts", 120); }

# All are up: within seconds nothing is prepared, no row is left, nothing is in doubt.
sub settles
{
	my ($when) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	ok(prepared($n1, 0) && prepared($n2, 0), "nothing stays prepared $when");
	ok(rdma_wait($coord, 'SELECT (SELECT count(*) FROM rdma.decisions) + (SELECT count(*) FROM rdma.transactions) = 0', 120), "and nothing in doubt")
	  or diag($coord->safe_psql('postgres', 'SELECT * FROM rdma.decisions; SELECT * FROM rdma.transactions'));
}

sub victim
{
	my ($sql) = @_;

	return rdma_begin($coord, "SET application_name = 'victim'", $sql);
}

sub victim_pid { return $coord->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE application_name = 'victim'"); }

# PREPARE on n2 waits, that on n1 is done.
my $holder;
sub hold_prepare
{
	$holder = $n2->background_psql('postgres');
	$holder->query_safe('SELECT pg_advisory_lock(1)');
}

sub prepare_is_held
{
	return prepared($n1, 1) && rdma_wait($n2, q{SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted}, 120);
}

sub release_prepare { $holder->quit; }

# Its local commit is flushed, and waits.
sub slow_victim { my ($sql) = @_; return victim("SET synchronous_commit = on; $sql"); }

sub commit_is_held
{
	return prepared($n1, 1) && prepared($n2, 1)
	  && rdma_wait($coord, q{SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'victim' AND wait_event = 'SyncRep'}, 120);
}

sub release_commit { $coord->safe_psql('postgres', 'SELECT pg_cancel_backend(' . victim_pid() . ')'); }

sub crash_and_start { my ($node) = @_; $node->stop('immediate'); $node->start; }

sub comes_back { my ($node) = @_; return rdma_wait($node, 'SELECT true', 120); }

# ---- without faults
is($coord->safe_psql('postgres', q{SELECT current_setting('max_prepared_transactions')::int > 0}), 't', 'the library allows prepared transactions');
$coord->safe_psql('postgres', everywhere(1, 0));
is(found(1), '1 1 1', 'a transaction commits everywhere');
settles('after it');
my ($status, $out, $err) = $coord->psql('postgres', 'BEGIN; INSERT INTO here VALUES (2); INSERT INTO n1.t VALUES (2, 0); INSERT INTO n2.t VALUES (2, -1); COMMIT');
like($err, qr/not this one/, 'a deferred check fails on n2');
is(found(2), '0 0 0', 'and nothing is left anywhere');
($status, $out, $err) = $coord->psql('postgres', 'BEGIN; INSERT INTO n1.told VALUES (1); INSERT INTO n2.told VALUES (1); COMMIT');
like($err, qr/NOTIFY.*rdma_fdw\.commit = best_effort/s, 'what cannot be prepared is an error that names the setting');
is($n1->safe_psql('postgres', 'SELECT count(*) FROM told'), 0, 'and writes nothing');
$coord->safe_psql('postgres', "SET rdma_fdw.commit = 'best_effort'; BEGIN; INSERT INTO n1.told VALUES (1); INSERT INTO n2.told VALUES (1); COMMIT");
is($n1->safe_psql('postgres', 'SELECT count(*) FROM told'), 1, 'which lets it commit');

# Only nodes that wrote prepare, and a single one does not.
my %log = map { $_->name => -s $_->logfile } ($n1, $n2);
$coord->safe_psql('postgres', 'BEGIN; SELECT * FROM n1.t; INSERT INTO n2.t VALUES (3, 0); COMMIT');
$coord->safe_psql('postgres', 'INSERT INTO n1.t VALUES (4, 0)');
$coord->safe_psql('postgres', 'BEGIN; UPDATE n1.t SET v = 1 WHERE k = 77; UPDATE n2.t SET v = 1 WHERE k = 3; COMMIT');
$coord->safe_psql('postgres', 'BEGIN; INSERT INTO here VALUES (5); SELECT * FROM n1.t; SELECT * FROM n2.t; COMMIT');
unlike(slurp_file($_->logfile, $log{ $_->name }), qr/PREPARE TRANSACTION/, 'one writer commits in one step, on ' . $_->name) foreach ($n1, $n2);
$coord->safe_psql('postgres', 'BEGIN; INSERT INTO here VALUES (6); INSERT INTO n1.t VALUES (6, 0); COMMIT');
like(slurp_file($n1->logfile, $log{n1}), qr/PREPARE TRANSACTION/, 'not if something was written here');
is(found(6), '1 1 0', 'and both are there');

# ---- while n2 prepares
foreach my $how ('pg_cancel_backend', 'pg_terminate_backend')
{
	my $k = 10 + length $how;

	hold_prepare();
	my $job = victim(everywhere($k, 0));
	ok(prepare_is_held(), 'n1 has prepared, n2 not yet');
	is($coord->safe_psql('postgres', "SELECT $how(" . victim_pid() . ')'), 't', $how);
	ok(rdma_outcome($job), 'ends it');
	like($job->{err}, qr/57014|57P01/, 'with its error');
	release_prepare();
	settles("after $how");
	is(found($k), '0 0 0', 'and it is undone everywhere');
}
hold_prepare();
my $job = victim(everywhere(40, 0));
ok(prepare_is_held(), 'n1 has prepared, n2 not yet');
kill 'KILL', victim_pid();
rdma_outcome($job);
ok(comes_back($coord), 'the coordinator restarts after a kill');
release_prepare();
settles('after that');
is(found(40), '0 0 0', 'and it is undone everywhere');

hold_prepare();
$job = victim(everywhere(41, 0));
ok(prepare_is_held(), 'n1 has prepared, n2 not yet');
crash_and_start($n1);
is($n1->safe_psql('postgres', 'SELECT count(*) FROM pg_prepared_xacts'), 1, 'n1 crashes, and comes back prepared');
release_prepare();
ok(rdma_outcome($job), 'the transaction ends');
like($job->{err}, qr/server "n1" has not confirmed/, 'with a warning');
unlike($job->{err}, qr/ERROR/, 'and without an error');
settles('after that');
is(found(41), '1 1 1', 'and it is there everywhere');

hold_prepare();
$job = victim(everywhere(42, 0));
ok(prepare_is_held(), 'n1 has prepared, n2 not yet');
$proxy->tell('n2', 'cut');
ok(rdma_outcome($job), 'the connection to n2 is cut');
like($job->{err}, qr/connection to server "n2" was lost/, 'which is an error');
release_prepare();
settles('after that');
is(found(42), '0 0 0', 'and it is undone everywhere');

# ---- when it is decided
$job = slow_victim(everywhere(50, 0));
ok(commit_is_held(), 'all have prepared, and the local commit is flushed');
crash_and_start($coord);
rdma_outcome($job);
settles('after a crash of the coordinator');
is(found(50), '1 1 1', 'the commit is everywhere');

$job = slow_victim(everywhere(51, 0));
ok(commit_is_held(), 'all have prepared, and the local commit is flushed');
$n2->stop('immediate');
kill 'KILL', victim_pid();
rdma_outcome($job);
ok(comes_back($coord), 'the coordinator restarts without n2');
ok(prepared($n1, 0), 'n1 hears at once');
ok(rdma_wait($coord, q{SELECT count(*) = 1 FROM rdma.transactions WHERE server_name = 'n2' AND user_name = 'postgres' AND decision = 'commit' AND problem IS NOT NULL}, 120),
	'n2 is in doubt');
($status, $out, $err) = $coord->psql('postgres', 'DROP SERVER n2 CASCADE');
like($err, qr/cannot drop the \w.* while a transaction is to be finished on server "n2"/, 'and cannot be dropped');
($status, $out, $err) = $coord->psql('postgres', 'DROP USER MAPPING FOR postgres SERVER n2');
like($err, qr/cannot drop the user mapping while/, 'nor its mapping');
($status, $out, $err) = $coord->psql('postgres', 'DROP EXTENSION rdma_fdw CASCADE');
like($err, qr/cannot drop .* while a transaction is to be finished/, 'nor the extension');
$n2->start;
settles('when n2 is there again');
is(found(51), '1 1 1', 'the commit is everywhere');

$job = slow_victim(everywhere(52, 0));
ok(commit_is_held(), 'all have prepared, and the local commit is flushed');
my $pid = victim_pid();
$proxy->tell('n2', 'stall');
release_commit();
ok(prepared($n1, 0), 'n1 commits, n2 does not answer');
ok(rdma_wait($coord, "SELECT pg_cancel_backend($pid)", 120), 'a cancel');
ok(rdma_outcome($job), 'ends the wait');
like($job->{err}, qr/WARNING:.*server "n2" has not confirmed/, 'with a warning');
unlike($job->{err}, qr/ERROR/, 'and without an error');
is($coord->safe_psql('postgres', q{SELECT server_name, decision FROM rdma.transactions}), 'n2|commit', 'n2 is in doubt');
$proxy->tell('n2', 'cut');
settles('when the network works again');
is(found(52), '1 1 1', 'the commit is everywhere');

# ---- rdma.resolve, without the resolver
$coord->append_conf('postgresql.conf', "rdma_fdw.resolve = off\n");
$coord->restart;
$job = slow_victim(everywhere(60, 0));
ok(commit_is_held(), 'all have prepared, and the local commit is flushed');
crash_and_start($coord);
rdma_outcome($job);
is($coord->safe_psql('postgres', 'SELECT server_name, decision, problem FROM rdma.transactions ORDER BY 1'), "n1|commit|\nn2|commit|", 'both are in doubt');
is($coord->safe_psql('postgres', q{SELECT rdma.resolve('n1')}), 1, 'rdma.resolve finishes it on one');
ok(prepared($n1, 0), 'which has it then');
is($coord->safe_psql('postgres', q{SELECT rdma.resolve('n2', true)}), 1, 'or forgets it');
is($coord->safe_psql('postgres', 'SELECT (SELECT count(*) FROM rdma.decisions) + (SELECT count(*) FROM rdma.transactions)'), 0, 'and nothing is in doubt');
is($n2->safe_psql('postgres', 'SELECT count(*) FROM pg_prepared_xacts'), 1, 'although it is still prepared there');
$n2->safe_psql('postgres', 'COMMIT PREPARED ' . $n2->safe_psql('postgres', 'SELECT quote_literal(gid) FROM pg_prepared_xacts'));
is(found(60), '1 1 1', 'for an administrator to finish');

# ---- a commit that is told is durable, whatever the setting; xids that come back mean nothing
$coord->safe_psql('postgres', 'SET synchronous_commit = off; ' . everywhere(70, 0));
crash_and_start($coord);
is(found(70), '1 1 1', 'after a crash straight behind an asynchronous commit');
hold_prepare();
$job = victim(everywhere(71, 0));
ok(prepare_is_held(), 'n1 has prepared, n2 not yet');
crash_and_start($coord);
rdma_outcome($job);
$coord->safe_psql('postgres', 'INSERT INTO here VALUES (1000)');	# with the xid that the other one had
$coord->adjust_conf('postgresql.conf', 'rdma_fdw.resolve', 'on');
$coord->reload;
release_prepare();
settles('after a crash before the decision');
is(found(71), '0 0 0', 'and it is undone everywhere');

# ---- a role with a mapping of its own, and one for everybody
$_->safe_psql('postgres', q{CREATE ROLE app LOGIN PASSWORD 'app'; GRANT ALL ON t TO app; SELECT rdma.grant_access('app', 'write')}) foreach ($n1, $n2);
$coord->safe_psql('postgres', q{
	CREATE ROLE app LOGIN; GRANT USAGE ON FOREIGN SERVER n1, n2 TO app; GRANT USAGE ON SCHEMA n1, n2 TO app; GRANT ALL ON n1.t, n2.t, here TO app;
	CREATE USER MAPPING FOR app SERVER n1 OPTIONS (user 'app', password_required 'false');
	CREATE USER MAPPING FOR PUBLIC SERVER n2 OPTIONS (user 'app', password_required 'false');
});
$job = slow_victim('SET ROLE app; ' . everywhere(80, 0));
ok(commit_is_held(), 'all have prepared for an ordinary role');
crash_and_start($coord);
rdma_outcome($job);
settles('after a crash');
is(found(80), '1 1 1', 'the commit is everywhere');

# ---- a node that has no prepared transactions
my $bare = rdma_node('bare', preload => 0);
rdma_connect($coord, bare => $bare);
$bare->safe_psql('postgres', 'CREATE TABLE u (k int)');

sub both
{
	my ($mode, @writes) = @_;
	my %write = (bare => q{SELECT FROM rdma.run_on('bare', 'INSERT INTO public.u VALUES (%1$d)')}, n1 => 'INSERT INTO n1.t VALUES (%1$d, 0)');
	my $k = shift @writes;

	return $coord->psql('postgres', join('; ', "SET rdma_fdw.commit = '$mode'", 'BEGIN', (map { sprintf($write{$_}, $k) } @writes), 'COMMIT'));
}

($status, $out, $err) = both('atomic', 90, 'bare', 'n1');
like($err, qr/WARNING:  the transaction commits on each node for itself\nDETAIL:  Server "bare" has no prepared transactions/, 'is named in a warning');
is($status, 0, 'and the transaction commits');
($status, $out, $err) = both('required', 91, 'n1', 'bare');
like($err, qr/ERROR:  cannot write elsewhere and on server "bare" in one transaction/, 'where that is required nothing is written there');
($status, $out, $err) = both('required', 91, 'bare', 'n1');
like($err, qr/ERROR:  cannot commit on all nodes atomically/, 'or not committed');
($status, $out, $err) = both('best_effort', 92, 'bare', 'n1');
is($err, '', 'and who wants no more gets no warning');
is($bare->safe_psql('postgres', 'SELECT string_agg(k::text, $$ $$ ORDER BY k) FROM u'), '90 92', 'the rows are those of transactions that committed');
is($n1->safe_psql('postgres', 'SELECT string_agg(k::text, $$ $$ ORDER BY k) FROM t WHERE k BETWEEN 90 AND 99'), '90 92', 'on both');
is($coord->safe_psql('postgres', q{SELECT string_agg(status, ' ' ORDER BY s) FROM (VALUES ('bare'), ('n1')) v(s), rdma."check"(s) WHERE item = 'prepared transactions'}),
	'info ok', 'rdma.check says which can prepare');

unlike(slurp_file($_->logfile), qr/PANIC|signal 11|signal 6/, $_->name . ' did not crash by itself') foreach ($coord, $n1, $n2);
$proxy->end;
$_->stop foreach ($coord, $n1, $n2, $bare);
done_testing();
