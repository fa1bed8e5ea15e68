# rdma.stat_moves: another session sees what a move does while it is held up, in each of its phases; and nothing is left of it when it
# ends, fails, is cancelled, or its process is killed.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($coord, $n1, $n2) = rdma_trio();

$coord->safe_psql('postgres', q{
	CREATE SERVER many FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n1, n2');
	CREATE TABLE t AS SELECT i AS id, repeat('x', 200) AS x FROM generate_series(1, 20000) i;
	CREATE TABLE r AS SELECT i AS x FROM generate_series(1, 5000) i;
	SELECT rdma.distribute_table('t', 'many', 'id'), rdma.distribute_table('r', 'many', replicated => true);
	CREATE ROLE somebody LOGIN;
	CREATE ROLE monitor LOGIN IN ROLE pg_monitor});
# a row that the new node takes only while nobody has that lock; buckets are moved there once and back
$n2->safe_psql('postgres', q{
	CREATE FUNCTION halt(id int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS 'BEGIN IF id % 50 = 7 THEN PERFORM pg_advisory_xact_lock_shared(104); END IF; RETURN true; END';
	ALTER TABLE t ADD CONSTRAINT halt CHECK (halt(id)) NOT VALID});
$n1->safe_psql('postgres', q{
	CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN OLD; END'});

sub moves
{
	my ($columns, $user) = @_;

	return $coord->safe_psql('postgres', "SELECT $columns FROM rdma.stat_moves", extra_params => [ '-U', $user // 'postgres' ]);
}

sub nothing_left
{
	my ($when) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	is(moves('*'), '', "nothing is left $when");
	is($coord->safe_psql('postgres', q{SELECT count(*) FROM rdma.metrics WHERE name ~ '^rdma_fdw_move_'}), '0', 'nor in the metrics');
	is($coord->safe_psql('postgres', 'SELECT count(*), sum(id), count(DISTINCT id) FROM t'), '20000|200010000|20000', 'all rows are there');
	return;
}

my $wanted = q{ARRAY(SELECT b.number::integer - 1 FROM unnest(rdma.buckets('many')) WITH ORDINALITY b(place, number) WHERE place = 0 ORDER BY 1 LIMIT 100)};
my $move = "SELECT rdma.move_buckets('many', 'n1', 'n2', $wanted, 60000)";
my $mover = sub { return rdma_begin($coord, q{SET application_name = 'mover'}, @_) };

nothing_left('before there was something');

# ---- it waits for a reader here, then for a session on a node; then rows do
{
	my $reader = $coord->background_psql('postgres');
	$reader->query_safe('BEGIN; SELECT count(*) FROM t');
	my $direct = $n2->background_psql('postgres');
	$direct->query_safe('BEGIN; LOCK TABLE t IN ACCESS SHARE MODE');
	my $holder = $n2->background_psql('postgres');
	$holder->query_safe('SELECT pg_advisory_lock(104)');
	my $job = $mover->($move);

	ok(rdma_wait($coord, q{SELECT phase = 'waiting for locks' FROM rdma.stat_moves}), 'it waits for locks');
	is(moves('command, server, source, target, buckets, first_bucket, last_bucket, relation, rows, bytes, estimated_rows, moves, buckets_left'),
		'move_buckets|many|n1|n2|100|0|198||0|0||0|', 'with all that is known then');
	is(moves(q{usename, pid = (SELECT pid FROM pg_stat_activity WHERE application_name = 'mover'), move_started <= now()}), 'postgres|t|t', 'and who it is');
	is(moves('pid > 0, usename, server, command, phase, source, rows, total_rows, buckets_left', 'somebody'), 't|postgres|||||||', 'others see that there is one');
	is(moves('pid > 0, usename, server, phase', 'monitor'), 't|postgres|many|waiting for locks', 'and monitors what it does');
	$reader->quit;
	ok(rdma_wait($coord, q{SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'mover' AND wait_event_type = 'Extension'}), 'it goes on to the node');
	is(moves('phase'), 'waiting for locks', 'and waits there');
	$direct->quit;
	ok(rdma_wait($coord, q{SELECT phase = 'copying' AND rows > 0 FROM rdma.stat_moves}), 'rows move');
	like(moves('relation, estimated_rows BETWEEN 1000 AND 4000, rows <= 20000, bytes > rows * 200, total_rows = rows'), qr/^public\.t\|t\|t\|t\|t$/, 'and are counted before they are there');
	is($coord->safe_psql('postgres', q{SELECT labels ->> 'command', value FROM rdma.metrics WHERE name = 'rdma_fdw_move_running'}), 'move_buckets|1', 'the metrics have it');
	my $rows = moves('rows');
	$holder->quit;
	ok(rdma_outcome($job), 'it ends');
	is($job->{err}, '', 'without an error');
	cmp_ok($job->{out}, '>=', $rows, 'having moved those rows');
	nothing_left('when it is done');
}

# ---- it ends otherwise
foreach my $end ([ 'cancelled', q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'mover'}, qr/57014/ ],
	[ 'terminated', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'mover'}, qr/57P01/ ],
	[ 'killed', undef, qr/terminat|connection/i ])
{
	my ($how, $sql, $error) = @$end;
	my $holder = $n2->background_psql('postgres');
	$holder->query_safe('SELECT pg_advisory_lock(104)');
	my $job = $mover->(q{CALL rdma.drain_node('many', 'n1', rest => 0, wait => 60000, goal => 100000)});

	ok(rdma_wait($coord, q{SELECT phase = 'copying' AND rows > 0 FROM rdma.stat_moves}), "rows move before it is $how");
	like(moves(q{command, source, target, moves, buckets_left}), qr/^drain_node\|n1\|n2\|\d+\|\d+$/, 'as part of a larger command');
	if (defined $sql) { $coord->safe_psql('postgres', $sql); }
	else { kill 'KILL', moves('pid'); }
	ok(rdma_outcome($job), 'it ends');
	like($job->{err}, $error, 'with an error');
	$holder->quit;
	ok(rdma_wait($coord, 'SELECT (SELECT count(*) FROM rdma.decisions) + (SELECT count(*) FROM rdma.transactions) = 0', 120), 'nothing is in doubt');
	nothing_left("when it was $how");
}

# ---- a subtransaction that fails takes its move along, and the session goes on
{
	my $session = $coord->background_psql('postgres');

	$session->query_safe(qq{BEGIN; DO \$\$ BEGIN
		PERFORM rdma.move_buckets('many', 'n1', 'n2', $wanted); RAISE division_by_zero;
		EXCEPTION WHEN division_by_zero THEN NULL; END \$\$});
	is(moves('*'), '', 'nothing is left when its subtransaction was rolled back');
	$session->query_safe(qq{ROLLBACK; BEGIN; SAVEPOINT s; SELECT rdma.move_buckets('many', 'n1', 'n2', $wanted); RELEASE s});
	is(moves('phase'), 'committing', 'one that was released is done with its transaction');
	$session->query_safe('ROLLBACK');
	nothing_left('after its transaction');
	$session->quit;
}

# ---- a drain adds up, gives way to who uses the tables, and is visible between its moves
{
	my $reader = $coord->background_psql('postgres');
	$reader->query_safe('BEGIN; SELECT count(*) FROM t');
	my $job = $mover->(q{CALL rdma.drain_node('many', 'n1', rest => 600000, wait => 10)});

	ok(rdma_wait($coord, q{SELECT phase = 'giving way' AND source IS NULL AND rows IS NULL AND moves = 0 AND buckets_left = 320 FROM rdma.stat_moves}), 'it gives way');
	$reader->quit;
	ok(rdma_wait($coord, q{SELECT phase = 'resting' FROM rdma.stat_moves}), 'it rests after a move');
	is(moves('command, moves, source, rows, move_started, total_rows > 0, total_bytes > total_rows * 200'), 'drain_node|1||||t|t', 'and shows what was done so far');
	$coord->safe_psql('postgres', q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'mover'});
	ok(rdma_outcome($job), 'it ends');
	like($job->{err}, qr/57014/, 'when it is cancelled');
	nothing_left('when it was cancelled at rest');
	$coord->safe_psql('postgres', q{CALL rdma.drain_node('many', 'n1', rest => 0)});
	nothing_left('when all is drained');
	is($n1->safe_psql('postgres', 'SELECT count(*) FROM t'), '0', 'really');
}

# ---- the other commands, and who may note
{
	my $direct = $n1->background_psql('postgres');
	$direct->query_safe('BEGIN; LOCK TABLE t IN ACCESS SHARE MODE');
	my $job = $mover->(q{SELECT rdma.remove_node('many', 'n1', 60000)});
	ok(rdma_wait($coord, q{SELECT command = 'remove_node' AND phase = 'waiting for locks' AND source = 'n1' FROM rdma.stat_moves}), 'removing a node is seen');
	$direct->quit;
	ok(rdma_outcome($job) && $job->{err} eq '', 'and ends') or diag($job->{err});
	$n1->safe_psql('postgres', 'DROP TABLE t, r');
	$direct = $n2->background_psql('postgres');
	$direct->query_safe('BEGIN; LOCK TABLE r IN ROW EXCLUSIVE MODE');
	$job = $mover->(q{SELECT rdma.add_node('many', 'n1', 60000)});
	ok(rdma_wait($coord, q{SELECT command = 'add_node' AND phase = 'waiting for locks' AND source = 'n2' AND target = 'n1' FROM rdma.stat_moves}), 'adding a node is seen');
	$direct->quit;
	ok(rdma_outcome($job), 'and ends');
	like($job->{err}, qr/halt/, 'with an error: its constraint uses what that node lacks');
	nothing_left('after that');
	like(($coord->psql('postgres', q{SELECT rdma_internal.note_move('many', 'x', 'n1', 'n2', NULL)}, extra_params => [ '-U', 'somebody' ]))[2], qr/must be owner/, 'only the owner may note');
}

# ---- which node's indexes would wait for the mover's own transaction: those of its database, and not those of a physical copy of it
{
	$coord->stop;
	$coord->backup_fs_cold('cold');
	my $copy = PostgreSQL::Test::Cluster->new('copy');
	$copy->init_from_backup($coord, 'cold');
	$_->start foreach ($coord, $copy);
	rdma_connect($coord, copy => $copy, own => $coord);
	$coord->safe_psql('postgres', q{
		CREATE SCHEMA alike;
		CREATE SERVER alike FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'copy, own')});
	$copy->safe_psql('postgres', 'CREATE SCHEMA alike');
	foreach my $node ($coord, $copy) { $node->safe_psql('postgres', 'CREATE TABLE alike.there (id int)'); }
	$coord->safe_psql('postgres', q{CREATE FOREIGN TABLE alike.t (id int) SERVER alike OPTIONS (schema_name 'alike', table_name 'there', distributed_by 'id')});
	is($coord->safe_psql('postgres', q{SELECT string_agg(node || ' ' || same, ', ' ORDER BY node) FROM rdma_internal.bucket_indexes('alike')}), 'copy false, own true',
		'a copy of the database is another one');
	$copy->stop;
}

done_testing();
