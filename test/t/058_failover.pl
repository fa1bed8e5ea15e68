# A node with a standby: option host names both. The standby is promoted under load, and the coordinator goes on with it without
# a restart: statements that run fail, later ones find it, and its engine; it is the node that is on record; no row is lost. The old
# primary, which comes back, is refused.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $conf = "rdma_fdw.peer_timeout = '3s'\nrdma_fdw.connect_timeout = '4s'\nlog_min_messages = log\n";
my ($coord, $n1) = map { rdma_node($_, conf => $conf) } qw(coord n1);
my $n2 = rdma_node('n2', conf => $conf . "wal_level = replica\nmax_wal_senders = 4\nhot_standby = on\n");

$n2->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($n2, 'base', has_streaming => 1);
$standby->start;
# what is committed is on both
$n2->append_conf('postgresql.conf', "synchronous_standby_names = '*'\n");
$n2->reload;

$_->safe_psql('postgres', 'CREATE EXTENSION rdma_fdw') foreach ($coord, $n1, $n2);
my ($p1, $p2, $p3) = map { $_->port } ($n1, $n2, $standby);
$coord->safe_psql('postgres', qq{
	CREATE SERVER n1 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port '$p1', dbname 'postgres');
	CREATE SERVER n2 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1,127.0.0.1', port '$p2,$p3', dbname 'postgres', target_session_attrs 'read-write', connect_timeout '5');
	CREATE USER MAPPING FOR postgres SERVER n1 OPTIONS (user 'postgres');
	CREATE USER MAPPING FOR postgres SERVER n2 OPTIONS (user 'postgres');
	CREATE SERVER many FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n1, n2');
	CREATE TABLE d AS SELECT k, 0 AS v, repeat('x', 100) AS filler FROM generate_series(1, 20000) k;
	CREATE TABLE other AS SELECT k, k * 7 AS far FROM generate_series(1, 5000) k;
	CREATE TABLE c AS SELECT k, 'name ' || k AS name FROM generate_series(1, 5) k;
	SELECT rdma.distribute_table('d', 'many', 'k');
	SELECT rdma.distribute_table('other', 'many', 'k');
	SELECT rdma.distribute_table('c', 'many', replicated => true);
});
# many rows come through the engines, and some move between those of the nodes
my $all = 'SELECT count(*), sum(length(filler)) FROM (SELECT * FROM d OFFSET 0) s WHERE random() >= 0';
my $moved = 'SELECT count(*) FROM other JOIN d ON d.k = other.far';
is($coord->safe_psql('postgres', $all), '20000|2000000', 'all rows come');
is($coord->safe_psql('postgres', $moved), '2857', 'and meet');

# ---- load: one client writes rows of both nodes by their keys, one reads. What a transaction wrote is in the journal, too.
$coord->safe_psql('postgres', q{
	CREATE TABLE journal (k int);
	CREATE PROCEDURE load(statement text, key int) LANGUAGE plpgsql AS $$
	DECLARE i int := 0;
	BEGIN
		WHILE NOT EXISTS (SELECT FROM pg_tables WHERE tablename = 'stopped') LOOP
			i := i + 1;
			EXECUTE statement USING key + i % 10;
			INSERT INTO journal VALUES (key);
			COMMIT;
		END LOOP;
	END $$;
});
my %statements = (
	writer => ['UPDATE d SET v = v + 1 WHERE k = $1', 1000],
	reader => ['SELECT count(*) FROM d WHERE k > $1', -1000]);
my @jobs;
foreach my $who (sort keys %statements)
{
	my ($sql, $key) = @{ $statements{$who} };

	# a call that fails, while the node is away, is followed by another one
	push @jobs, rdma_begin($coord, ("CALL load('$sql', $key)", "SELECT pg_sleep(0.2) WHERE NOT EXISTS (SELECT FROM pg_tables WHERE tablename = 'stopped')") x 500);
}
ok(rdma_wait($coord, 'SELECT count(*) > 50 FROM journal WHERE k > 0'), 'rows are written');
ok(rdma_wait($coord, 'SELECT count(*) > 5 FROM journal WHERE k < 0'), 'and read');

# a session that has used the node before, idle meanwhile
my $idle = $coord->background_psql('postgres', on_error_stop => 0);
is($idle->query($all), '20000|2000000', 'a session has read all rows');

# ---- the primary dies, the standby takes its place
$n2->stop('immediate');
is($coord->safe_psql('postgres', 'SELECT count(*) FROM c'), '5', 'copies are read meanwhile');
my ($status, $out, $err) = $coord->psql('postgres', $all);
like($err, qr/could not connect to server "n2".*node 1 of server "many"/s, 'other rows are not');
$standby->promote;
ok(rdma_wait($standby, 'SELECT NOT pg_is_in_recovery()'), 'the standby is promoted');
my $before = $coord->safe_psql('postgres', 'SELECT count(*) FROM journal WHERE k > 0');
ok(rdma_wait($coord, "SELECT count(*) > $before + 50 FROM journal WHERE k > 0"), 'the load writes again');
is($idle->query($all), '20000|2000000', 'the idle session goes on');
is($idle->query($moved), '2857', 'rows move between the engines of the nodes that there are now');
$idle->quit;
$coord->safe_psql('postgres', 'CREATE TABLE stopped ()');
ok(rdma_outcome($_), 'a client of the load ends') foreach (@jobs);

like($jobs[1]{err}, qr/ERROR:  08/, 'it was told of the loss');
ok(rdma_wait($coord, 'SELECT count(*) = 0 FROM rdma.transactions'), 'no transaction is left in doubt');
is($coord->safe_psql('postgres', 'SELECT sum(v) - (SELECT count(*) FROM journal WHERE k > 0) FROM d'), '0', 'all that was committed is there, and nothing else');
is($coord->safe_psql('postgres', "SELECT count(*) FROM rdma.check('n2') WHERE status = 'problem'"), '0', 'rdma.check finds the promoted node in order');
is($coord->safe_psql('postgres', "SELECT sum(misplaced) FROM rdma.check_distribution('d')"), '0', 'rows lie where they belong');
is($coord->safe_psql('postgres', "UPDATE c SET name = 'new' WHERE k = 1; SELECT bool_or(differs) FROM rdma.check_distribution('c')"), 'f', 'copies are written again');
rdma_healthy($coord, $all, '20000|2000000', 'after the failover');

# ---- the old primary comes back, on the port that it had: it is not taken for the node any more
my $timelines = q{SELECT array_to_string(timelines, ',') FROM rdma.placement};
is($coord->safe_psql('postgres', $timelines), '0,2', 'the timeline of the promoted standby is on record');
my $during = $coord->background_psql('postgres', on_error_stop => 0);
is($during->query($all), '20000|2000000', 'a session uses the promoted standby');
$n2->start;
foreach my $query ($all, 'UPDATE c SET name = name', 'INSERT INTO d SELECT i FROM generate_series(30001, 30010) i', $moved)
{
	($status, $out, $err) = $coord->psql('postgres', $query);
	like($err, qr/server "n2" does not lead to the node.*on timeline 1, and node 1 has been on timeline 2 since.*pg_rewind.*rdma\.replace_node/s, "the old primary is refused: $query");
}
is($coord->safe_psql('postgres', 'SELECT count(*) FROM c'), '5', 'copies of the other node are read');
is($coord->safe_psql('postgres', "SELECT count(*) > 0 FROM rdma.check('many') WHERE status = 'problem' AND value ~ 'timeline|does not lead'"), 't', 'rdma.check tells');
is($during->query($all), '20000|2000000', 'the session goes on with the promoted one');
$during->quit;
$coord->restart;
($status, $out, $err) = $coord->psql('postgres', $all);
like($err, qr/on timeline 1/, 'also after a restart of the coordinator');
$n2->stop('immediate');
is($coord->safe_psql('postgres', $all), '20000|2000000', 'once it is stopped, the promoted one is found again');

# what was seen is kept by transactions that only read, whatever snapshot they have
my $key = $coord->safe_psql('postgres', q{SELECT min(k) FROM rdma.buckets('many') b, generate_series(1, 100) k WHERE b[rdma.hash_node(cardinality(b), k) + 1] = 1});
foreach my $begin ('BEGIN READ ONLY', 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY', 'BEGIN ISOLATION LEVEL SERIALIZABLE')
{
	$coord->safe_psql('postgres', "UPDATE rdma.placement SET timelines = '{0,0}'");
	$coord->safe_psql('postgres', "$begin; SELECT v FROM d WHERE k = $key; COMMIT");
	is($coord->safe_psql('postgres', $timelines), '0,2', "$begin keeps the timeline");
}
# a transaction does not wait for a session that has locked the record; the next one keeps it
$coord->safe_psql('postgres', "UPDATE rdma.placement SET timelines = '{0,0}'");
my $holder = $coord->background_psql('postgres');
$holder->query_safe('BEGIN; SELECT FROM rdma.placement FOR UPDATE');
my $reader = $coord->background_psql('postgres');
is($reader->query_safe('SELECT count(*) FROM d'), '20000', 'a row lock on the record keeps nobody');
$holder->query_safe('COMMIT');
$holder->quit;
is($coord->safe_psql('postgres', $timelines), '0,0', 'and nothing was written');
is($reader->query_safe('SELECT count(*) FROM d'), '20000', 'the same session goes on');
$reader->quit;
is($coord->safe_psql('postgres', $timelines), '0,2', 'and then keeps the timeline');

# ---- the old primary on purpose
$standby->stop;
$n2->append_conf('postgresql.conf', "synchronous_standby_names = ''\n");
$n2->start;
$coord->safe_psql('postgres', "SELECT rdma.replace_node('many', 'n2')");
is($coord->safe_psql('postgres', 'SELECT count(*) FROM d'), '20000', 'the owner may go on with the old primary');

$_->stop foreach ($coord, $n1, $n2);
done_testing();
