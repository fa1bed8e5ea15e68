# Statements that read several nodes see each transaction on all of them or on none. Steps are held where they are without fault
# points: a synchronous standby that does not exist holds a local commit after its flush until it is cancelled, a deferred
# trigger on a node waits for an advisory lock, and a proxy holds what is said to a node.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl", "$FindBin::Bin/../chaos";
use Proxy;
use RdmaCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($n1, $n2) = map { rdma_node($_) } qw(n1 n2);
my $coord = rdma_node('coord', conf => "wal_level = replica\nmax_wal_senders = 2\nsynchronous_standby_names = 'nobody'\nsynchronous_commit = local\n");
my $proxy = Proxy->start({ n2 => $n2->port });

# n1 and n2 are the nodes; slow leads to n2 by the proxy.
rdma_connect($coord, n1 => $n1, n2 => $n2, slow => $n2);
$coord->safe_psql('postgres', "ALTER SERVER slow OPTIONS (SET port '" . $proxy->port('n2') . "')");
foreach my $node ($n1, $n2)
{
	$node->safe_psql('postgres', q{
		CREATE TABLE t (k int PRIMARY KEY, v int);
		INSERT INTO t SELECT g, 0 FROM generate_series(1, 9) g;
		CREATE TABLE late (k int);
		CREATE FUNCTION wait_here() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NULL; END';
		CREATE CONSTRAINT TRIGGER wait_here AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION wait_here();
	});
}
$coord->safe_psql('postgres', "CREATE SCHEMA $_; IMPORT FOREIGN SCHEMA public FROM SERVER $_ INTO $_") foreach qw(n1 n2 slow);
$coord->safe_psql('postgres', q{
	CREATE TABLE here (k int);
	CREATE SERVER many FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n1, n2');
	CREATE TABLE acc (id int PRIMARY KEY, balance bigint NOT NULL);
	INSERT INTO acc SELECT i, 100 FROM generate_series(1, 400) i;
	SELECT rdma.distribute_table('acc', 'many', 'id');
	ANALYZE acc;
});

my $both = 'SELECT (SELECT v FROM n1.t WHERE k = 1), (SELECT v FROM n2.t WHERE k = 1)';
my $move = 'BEGIN; UPDATE n1.t SET v = v + 1 WHERE k = 1; UPDATE n2.t SET v = v + 1 WHERE k = 1; COMMIT';
my $move_here = $move =~ s/BEGIN;/BEGIN; INSERT INTO here VALUES (1);/r;

sub now { return $coord->safe_psql('postgres', $both); }

# A session that waits for the gate.
sub at_gate { return rdma_wait($coord, qq{SELECT count(*) = $_[0] FROM pg_stat_activity WHERE wait_event = 'userlock'}, 120); }

sub session { return $coord->background_psql('postgres', on_error_stop => 0, timeout => 400); }

my $s = session();
sub says { my ($sql) = @_; $s->{stderr} = ''; my $out = $s->query("$sql;"); return $s->{stderr} =~ /ERROR/ ? $s->{stderr} : $out; }

# ---- the second node is used later, and something was committed on both meanwhile
my $before = now();
says("BEGIN ISOLATION LEVEL REPEATABLE READ");
says('SELECT v FROM n1.t WHERE k = 1');
$coord->safe_psql('postgres', $move);
like(says('SELECT v FROM n2.t WHERE k = 1'), qr/could not take one snapshot of several nodes.*rdma_fdw\.snapshot/s,
	'REPEATABLE READ: what has changed since is an error');
says('ROLLBACK');
says('BEGIN ISOLATION LEVEL REPEATABLE READ');
$before = now();
says('SELECT v FROM n1.t WHERE k = 1');
$coord->safe_psql('postgres', $move);
is(says($both), $before, 'who tries again begins on both');
says('COMMIT');
isnt(now(), $before, 'and the next transaction sees the change');
$s->quit;
$s = session();
says('BEGIN ISOLATION LEVEL REPEATABLE READ');
says('SELECT v FROM n1.t WHERE k = 1');
is(says($both), now(), 'without a change the snapshots are one');
says('COMMIT');

my ($one, $other) = map { $_->safe_psql('postgres', 'SELECT min(id) FROM acc') } ($n1, $n2);
my $transfer = "BEGIN; UPDATE acc SET balance = balance - 7 WHERE id = $one; UPDATE acc SET balance = balance + 7 WHERE id = $other; COMMIT";
$s->quit;
$s = session();
says('BEGIN ISOLATION LEVEL REPEATABLE READ');
$before = says("SELECT balance FROM acc WHERE id = $one");
$coord->safe_psql('postgres', $transfer);
is(says("SELECT balance FROM acc WHERE id = $other") + $before, 200, 'a block in REPEATABLE READ begins on all nodes of a server');
is(says('SELECT sum(balance) FROM acc'), 40000, 'and reads all in that snapshot');
says('COMMIT');
says('BEGIN');
says("SELECT balance FROM acc WHERE id = $one");
$coord->safe_psql('postgres', $transfer);
is(says('SELECT sum(balance) FROM acc'), 40000, 'READ COMMITTED takes another snapshot');
is(says("SELECT balance FROM acc WHERE id = $one"), $coord->safe_psql('postgres', "SELECT balance FROM acc WHERE id = $one"), 'a later one');
$coord->safe_psql('postgres', $transfer);
says('SAVEPOINT a');
is(says('SELECT sum(balance), min(balance) FROM acc'), $coord->safe_psql('postgres', 'SELECT sum(balance), min(balance) FROM acc'),
	'also below a savepoint');
says('ROLLBACK TO a');
is(says('SELECT count(*) FROM acc'), 400, 'which can be rolled back');
says("DECLARE c CURSOR FOR SELECT id FROM acc ORDER BY id");
says('FETCH c');
$coord->safe_psql('postgres', $transfer);
is(says('SELECT sum(balance) FROM acc'), 40000, 'a cursor keeps the snapshots that are one');
says('COMMIT');

# Nor is it in the way of the next statement that something was written.
says('BEGIN');
says('UPDATE n1.t SET v = v WHERE k = 2');
$coord->safe_psql('postgres', $move);
$before = now();
is(says($both), $before, 'a statement after a write sees what has been committed');
$coord->safe_psql('postgres', $move);
isnt(now(), $before, 'something has');
is(says($both), now(), 'so does the next one');
says('COMMIT');
says("SET rdma_fdw.snapshot = 'each_node'");
says('BEGIN ISOLATION LEVEL REPEATABLE READ');
$before = says('SELECT v FROM n1.t WHERE k = 1');
$coord->safe_psql('postgres', $move);
is(says($both), "$before|" . ($before + 1), 'each node has its own snapshot where that is wanted');
says('COMMIT');
$s->quit;

# ---- who reads one node takes no common snapshot
sub snapshots { return $coord->safe_psql('postgres', 'SELECT snapshots FROM rdma.stat_gate'); }
my $count = snapshots();
$coord->safe_psql('postgres', "$_; $_") foreach ('SELECT v FROM n1.t WHERE k = 1', "SELECT balance FROM acc WHERE id = $one",
	"BEGIN; SELECT balance FROM acc WHERE id = $one; SELECT balance FROM acc WHERE id = $other; COMMIT", 'UPDATE n1.t SET v = v WHERE k = 1',
	"SET plan_cache_mode = force_generic_plan; PREPARE p AS SELECT balance FROM acc WHERE id = \$1; EXECUTE p($one); DEALLOCATE p");
is(snapshots(), $count, 'a statement of one node takes no common snapshot');
now();
is(snapshots(), $count + 1, 'one of two nodes takes one');

# ---- a transaction commits on both, and a statement reads both
sub held_commit
{
	my ($sql) = @_;
	my $job = rdma_begin($coord, "SET application_name = 'victim'", "SET synchronous_commit = on; $sql");

	ok(rdma_wait($coord, q{SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'victim' AND wait_event = 'SyncRep'}, 120),
		'a commit is held after its flush');
	return $job;
}
sub release_commit { $coord->safe_psql('postgres', q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'victim'}); }

$before = now();
my ($v) = split(/\|/, $before);
my $commit = held_commit($move);
is(now(), $before, 'who reads both does not wait for that, and sees nothing of it');
release_commit();
rdma_outcome($commit);
isnt(now(), $before, 'then it has committed');
$before = now();
($v) = split(/\|/, $before);
$commit = held_commit($move_here);
my $reader = rdma_begin($coord, $both);
ok(at_gate(1), 'but for one that wrote here, too');
is($coord->safe_psql('postgres', 'SELECT v FROM n1.t WHERE k = 1'), $v, 'who reads one does not');
my $writer = rdma_begin($coord, 'UPDATE n1.t SET v = v + 1 WHERE k = 3');
ok(at_gate(2), 'who commits later waits behind them');
release_commit();
rdma_outcome($_) foreach ($commit, $reader, $writer);
is($reader->{out}, ($v + 1) . '|' . ($v + 1) . "\n", 'and then sees it on both');
is($writer->{err}, '', 'and the other has committed');
ok($coord->safe_psql('postgres', 'SELECT snapshot_waits > 0 AND commit_waits > 0 AND commits > snapshot_waits FROM rdma.stat_gate') eq 't',
	'rdma.stat_gate counts it');

# ---- snapshots are being taken
my $waits_for_slow = 'SELECT (SELECT v FROM n1.t WHERE k = 1), (SELECT v FROM slow.t WHERE k = 1)';
$s = session();
says('SELECT v FROM slow.t WHERE k = 1');
my $taking = q{SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'userlock' AND mode = 'ShareLock' AND granted};
sub stalled_reader
{
	$proxy->tell('n2', 'stall');
	$s->query_until(qr/sent/, "\\echo sent\n$waits_for_slow;\n");
	ok(rdma_wait($coord, $taking, 120), 'snapshots are being taken');
}
sub seen { return join(' ', $n1->safe_psql('postgres', 'SELECT sum(v) FROM t WHERE k IN (4, 5)'), $coord->safe_psql('postgres', 'SELECT v FROM n1.t WHERE k = 4')); }

# The reader gives up after 10 seconds, which a loaded machine may need to look; then it begins once more.
my $in_time = 0;
for (my $attempt = 1; $attempt <= 5 && !$in_time; $attempt++)
{
	my $was = seen();
	stalled_reader();
	my $w1 = rdma_begin($coord, 'UPDATE n1.t SET v = v + 1 WHERE k = 4');
	ok(at_gate(1), 'a commit on one node waits for that');
	my $w2 = rdma_begin($coord, "SET rdma_fdw.commit = 'best_effort'", 'BEGIN; UPDATE n1.t SET v = v + 1 WHERE k = 5; UPDATE n2.t SET v = v + 1 WHERE k = 5; COMMIT');
	ok(at_gate(2), 'so do those that commit on each node for itself');
	my $now = seen();
	$in_time = $coord->safe_psql('postgres', $taking) eq 't';
	is($now, $was, 'and nothing of them is seen, on the node or by who reads one node') if $in_time;
	rdma_outcome($_) foreach ($w1, $w2);
	is($w1->{err} . $w2->{err}, '', 'they go on');
	isnt(seen(), $was, 'and are seen then');
	$proxy->tell('n2', 'pass');
	$s->query('\echo');
	like($s->{stderr}, qr/server "slow" did not take a snapshot within 10 seconds/, 'after the reader has given up');
	is(says($waits_for_slow) . "\n", $reader->{out}, 'which can read again');
}
ok($in_time, 'what is held was looked at while it was');

# ---- nobody waits for a row in the gate
foreach my $how ('INSERT INTO n1.late VALUES (1)', 'BEGIN; INSERT INTO n1.late VALUES (2); INSERT INTO n2.late VALUES (2); COMMIT',
	"SET rdma_fdw.commit = 'best_effort'; BEGIN; INSERT INTO n1.late VALUES (3); INSERT INTO n2.late VALUES (3); COMMIT")
{
	my @holders = map { $_->background_psql('postgres') } ($n1, $n2);
	$_->query_safe('SELECT pg_advisory_lock(1)') foreach @holders;
	my $job = rdma_begin($coord, split(/; (?=BEGIN)/, $how));
	ok(rdma_wait($n1, q{SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted}, 120), "a deferred trigger waits: $how");
	is(now() . "\n", $reader->{out}, 'and who reads both nodes does not wait for it');
	$_->quit foreach @holders;
	rdma_outcome($job);
	is($job->{err}, '', 'it commits');
}

# ---- a transaction is finished on one node, and in doubt on the other
my $via_slow = 'BEGIN; UPDATE n1.t SET v = v + 1 WHERE k = 1; UPDATE slow.t SET v = v + 1 WHERE k = 1; COMMIT';
$before = now();
($v) = split(/\|/, $before);
$commit = held_commit($via_slow);
$proxy->tell('n2', 'stall');
release_commit();
$reader = rdma_begin($coord, $both);
rdma_outcome($commit);
like($commit->{err}, qr/has committed, and server "slow" has not confirmed/, 'a commit does not get through to one of its nodes');
is($n1->safe_psql('postgres', 'SELECT v FROM t WHERE k = 1'), $v + 1, 'it has committed on one');
is($n2->safe_psql('postgres', 'SELECT v FROM t WHERE k = 1'), $v, 'and not on the other');
is($coord->safe_psql('postgres', 'SELECT v FROM n1.t WHERE k = 1'), $v + 1, 'one node can be read');
rdma_outcome($reader);
like($reader->{err}, qr/55P03: could not take one snapshot.*rdma\.transactions/s, 'both cannot, and the error says where to look');
$proxy->tell('n2', 'cut');
ok(rdma_wait($coord, 'SELECT count(*) = 0 FROM rdma.transactions', 120), 'it is finished');
is(now(), ($v + 1) . '|' . ($v + 1), 'and seen on both');

# ---- the same, found after a crash
$coord->append_conf('postgresql.conf', "rdma_fdw.resolve = off\n");
$coord->reload;
$commit = held_commit($move);
$coord->stop('immediate');
rdma_outcome($commit);
$coord->start;
$n1->safe_psql('postgres', q{COMMIT PREPARED '} . $n1->safe_psql('postgres', 'SELECT gid FROM pg_prepared_xacts') . q{'});
my ($status, $out, $err) = $coord->psql('postgres', $both);
like($err, qr/could not take one snapshot of several nodes/, 'what was decided before a crash is in doubt after it');
$coord->append_conf('postgresql.conf', "rdma_fdw.resolve = on\n");
$coord->reload;
ok(rdma_wait($coord, 'SELECT count(*) = 0 FROM rdma.decisions', 120), 'until it is finished');
is(now(), ($v + 2) . '|' . ($v + 2), 'and seen on both');

# ---- many at the same time
sub script
{
	my ($file, $count, $line) = @_;
	my $path = PostgreSQL::Test::Utils::tempdir() . "/$file.sql";

	append_to_file($path, join('', map { $line->($_) . "\n" } 1 .. $count));
	return $path;
}
srand(94);
my @writers = map { script("transfers$_", 250, sub {
	my ($a, $b, $sum) = (1 + int(rand(400)), 1 + int(rand(400)), 1 + int(rand(9)));
	return "BEGIN; UPDATE acc SET balance = balance - $sum WHERE id = $a; UPDATE acc SET balance = balance + $sum WHERE id = $b; COMMIT;"; }) } (1, 2);
push @writers, script('each', 250, sub {
	my $sum = 1 + int(rand(9));
	return "SET rdma_fdw.commit = 'best_effort'; BEGIN; UPDATE acc SET balance = balance - $sum WHERE id = $one; UPDATE acc SET balance = balance + $sum WHERE id = $other; COMMIT;"; });
push @writers, script('ordered', 500, sub { my ($i) = @_; return "UPDATE n1.t SET v = $i WHERE k = 9; UPDATE n2.t SET v = $i WHERE k = 9;"; });
my @kinds = (
	'SELECT sum(balance) FROM acc;',
	'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT sum(a.balance) FROM acc a JOIN acc b USING (balance, id); COMMIT;',
	q{SELECT sum(a.balance) FROM acc a JOIN acc b ON a.id = 401 - b.id;},
	q{SELECT CASE WHEN b.v <= a.v THEN 40000 ELSE a.v - b.v END FROM (SELECT v FROM n1.t WHERE k = 9) a, (SELECT v FROM n2.t WHERE k = 9) b;});
my @reads = (script('reads0', 800, sub { return $kinds[ $_[0] % 4 ]; }), script('reads1', 800, sub { return $kinds[ $_[0] % 4 ]; }));
my @jobs = map { my %job = (out => '', err => ''); $job{run} = IPC::Run::start(
	[ 'psql', '-X', '-A', '-t', '-q', '-d', $coord->connstr('postgres'), '-f', $_ ], '<', '/dev/null', '>', \$job{out}, '2>', \$job{err}); \%job } (@writers, @reads);
foreach my $job (@jobs)
{
	IPC::Run::finish($job->{run});
}
my @sums = map { split(/\n/, $_->{out}) } @jobs[ @writers .. $#jobs ];
is(scalar(@sums), 1600, 'all reads have an answer') or diag(map { $_->{err} } @jobs[ @writers .. $#jobs ]);
is(scalar(grep { $_ != 40000 } @sums), 0, 'each of a state that was there') or diag(join(' ', grep { $_ != 40000 } @sums));
is($coord->safe_psql('postgres', 'SELECT sum(balance) FROM acc'), 40000, 'and nothing was lost');
$s->quit;
$proxy->end;
done_testing();
