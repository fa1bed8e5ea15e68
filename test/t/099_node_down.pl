# A node of several is down: what needs only the others goes on, copies of replicated tables are read from another node, and
# what cannot go on is an error that says what is missing. And statements that need all nodes run on them at the same time.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($coord, $n1, $n2) = rdma_trio(conf => "rdma_fdw.peer_timeout = '3s'\nrdma_fdw.connect_timeout = '4s'\nlog_min_messages = log\n");

# held: gives no row while the lock is held
foreach my $node ($n1, $n2)
{
	my $name = $node->name;

	$node->safe_psql('postgres', "CREATE SCHEMA there; CREATE VIEW there.held AS SELECT '$name'::text AS node FROM (SELECT pg_advisory_xact_lock_shared(1)::text) l");
}
$coord->safe_psql('postgres', q{
	CREATE SERVER many FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n1, n2');
	CREATE TABLE d AS SELECT k, k AS v, k % 5 + 1 AS r FROM generate_series(1, 1000) k;
	CREATE TABLE c AS SELECT k, 'name ' || k AS name FROM generate_series(1, 5) k;
	SELECT rdma.distribute_table('d', 'many', 'k');
	SELECT rdma.distribute_table('c', 'many', replicated => true);
	CREATE SCHEMA there;
	IMPORT FOREIGN SCHEMA there FROM SERVER many INTO there;
	ALTER FOREIGN TABLE there.held OPTIONS (ADD replicated 'true');
	CREATE TABLE parts (k int, v int, r int) PARTITION BY HASH (k);
	CREATE FOREIGN TABLE parts1 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 0) SERVER n2 OPTIONS (table_name 'd');
	CREATE FOREIGN TABLE parts2 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 1) SERVER n1 OPTIONS (table_name 'd');
});
my $live = $coord->safe_psql('postgres', 'SELECT min(k) FROM generate_series(1, 1000) k WHERE rdma.hash_node(2, k) = 1');
my $dead = $coord->safe_psql('postgres', 'SELECT min(k) FROM generate_series(1, 1000) k WHERE rdma.hash_node(2, k) = 0');

# ---- all nodes at the same time
my $locked = "SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND state = 'active'";
my @held = map { $_->background_psql('postgres', on_error_stop => 1) } ($n1, $n2);
$_->query_safe('BEGIN; SELECT FROM d FOR UPDATE') foreach (@held);
my $job = rdma_begin($coord, "SET application_name = 'victim'", 'UPDATE d SET v = v + 1');
ok(rdma_wait($n1, $locked), 'an UPDATE works on the first node');
ok(rdma_wait($n2, $locked), 'and at the same time on the second');
$coord->safe_psql('postgres', "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'victim'");
ok(rdma_outcome($job), 'it can be cancelled');
like($job->{err}, qr/57014/, 'with the error of a cancel');
ok(rdma_wait($_, "SELECT count(*) = 0 FROM pg_stat_activity WHERE query ~ 'UPDATE public.d' AND state = 'active' AND pid <> pg_backend_pid()"), 'which ends it on ' . $_->name) foreach ($n1, $n2);
$_->query_safe('ROLLBACK') foreach (@held);
$_->quit foreach (@held);
is($coord->safe_psql('postgres', 'UPDATE d SET v = v + 1; SELECT sum(v) - sum(k) FROM d'), '1000', 'all rows are written once');

# ---- a node is lost while it looks for the first row of a copy: another one gives all of them
my $lock = $n1->background_psql('postgres', on_error_stop => 1);
$lock->query_safe('SELECT pg_advisory_lock(1)');
my $waiting = "SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
$job = rdma_begin($coord, 'SELECT node FROM there.held');
ok(rdma_wait($n1, $waiting), 'a copy is read from the first node');
$n1->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted");
rdma_outcome($job);
is("$job->{out}$job->{err}", "n2\n", 'and from the second when that is lost');

# not if the transaction has used the node before
$job = rdma_begin($coord, 'BEGIN', "SELECT count(*) FROM c WHERE k > 2", 'SELECT node FROM there.held', 'COMMIT');
ok(rdma_wait($n1, $waiting), 'a transaction reads from the first node again');
$n1->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted");
rdma_outcome($job);
like($job->{err}, qr/ERROR:  08006: connection to server "n1" was lost/, 'what it has read there is lost with the node');
is($job->{out}, "3\n", 'and nothing comes from another one');
$lock->query_safe('SELECT pg_advisory_unlock(1)');
$lock->quit;

# ---- the first node goes down under sessions that have used it
my $session = $coord->background_psql('postgres', on_error_stop => 0);
is($session->query('SELECT count(*) FROM c'), '5', 'a session reads a copy');
my $open = $coord->background_psql('postgres', on_error_stop => 0);
is($open->query('BEGIN; SELECT count(*) FROM c'), '5', 'a transaction, too');
$n1->stop('immediate');
is($session->query('SELECT count(*) FROM c'), '5', 'the session goes on with the other node');
my $parts = 'SET rdma_fdw.exchange_strategy = repartition_both; SELECT count(*) FROM parts a JOIN parts b ON a.r = b.v';
like($coord->safe_psql('postgres', $parts =~ s/SELECT/EXPLAIN SELECT/r), qr/Strategy: /, 'partitions on several servers are joined on them');
like(($coord->psql('postgres', $parts))[2], qr/ERROR:  could not connect to server "n1"/, 'which says so if one is down');
$open->query('SELECT count(*) FROM c');
like($open->{stderr}, qr/connection to server "n1" was lost/, 'the transaction has lost what it saw');
$_->quit foreach ($session, $open);

my @works = (
	['a replicated table', 'SELECT count(*), max(name) FROM c', '5|name 5'],
	['sorted, with a limit', 'SELECT name FROM c ORDER BY k DESC LIMIT 2', "name 5\nname 4"],
	['two of them', 'SELECT count(*) FROM c a JOIN c b ON a.k < b.k', '10'],
	['in a sub-select', 'SELECT (SELECT name FROM c WHERE k = x) FROM generate_series(4, 5) x', "name 4\nname 5"],
	['a row by its key', "SELECT k FROM d WHERE k = $live", $live],
	['with a function of rows', "SELECT count(*), avg(v) > 0, stddev(v) IS NULL FROM d WHERE k = $live", '1|t|t'],
	['joined with a replicated table', "SELECT count(*) FROM d JOIN c ON c.k = d.r WHERE d.k = $live", '1'],
	['both in one transaction', "BEGIN; SELECT count(*) FROM d WHERE k = $live; SELECT count(*) FROM c; COMMIT", "1\n5"],
	['SERIALIZABLE', 'BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM c; COMMIT', '5'],
	['by a parameter', "PREPARE q(int) AS SELECT k FROM d WHERE k = \$1; EXECUTE q($live); EXECUTE q($live)", "$live\n$live"],
	['UPDATE by the key', "UPDATE d SET v = 0 WHERE k = $live RETURNING v", '0'],
	['DELETE by the key', "DELETE FROM d WHERE k = $live RETURNING k", $live],
	['INSERT', "INSERT INTO d VALUES ($live, $live, 1) RETURNING k", $live],
	['COPY', "COPY (SELECT name FROM c WHERE k = 1) TO STDOUT", 'name 1'],
	['ANALYZE of a replicated table', "ANALYZE c; SELECT reltuples FROM pg_class WHERE relname = 'c'", '5']);

foreach my $statement (@works)
{
	my ($what, $sql, $expected) = @$statement;

	is($coord->safe_psql('postgres', $sql), $expected, "while the first node is down: $what");
}
like($coord->safe_psql('postgres', 'EXPLAIN (ANALYZE, VERBOSE, COSTS OFF, TIMING OFF) SELECT name FROM c'), qr/Any of Nodes: n1, n2.*Node n2: rows=5/s, 'EXPLAIN says who can, and who did');

# ---- what cannot go on, and why
foreach my $statement (
	['all rows', 'SELECT count(*) FROM d'],
	['a row of that node', "SELECT * FROM d WHERE k = $dead"],
	['UPDATE of it', "UPDATE d SET v = 1 WHERE k = $dead"],
	['INSERT of one', "INSERT INTO d VALUES ($dead, 1, 1)"],
	['UPDATE of all copies', "UPDATE c SET name = 'stale'"],
	['INSERT of copies', "INSERT INTO c VALUES (6, 'stale')"],
	['COPY of copies', "COPY c FROM STDIN;\n6\tstale\n\\.\n"],
	['a lock on copies', 'SELECT k FROM c FOR UPDATE'],
	['TRUNCATE', 'TRUNCATE c'])
{
	my ($what, $sql) = @$statement;
	my ($status, $out, $err) = $coord->psql('postgres', $sql);

	like($err, qr/could not connect to server "n1".*node 0 of server "many": it has 420 of the 840 buckets.*HINT:/s, "an error that says what is missing: $what");
}
is($coord->safe_psql('postgres', "SELECT count(*) FROM c WHERE name = 'stale'"), '0', 'no copy was written');

# ---- and when both are down
$n2->stop('immediate');
my ($status, $out, $err) = $coord->psql('postgres', 'SELECT count(*) FROM c');
like($err, qr/could not connect to any node that has the rows.*"n1".*"n2"/s, 'an error names all nodes that have copies');
$_->start foreach ($n1, $n2);
rdma_healthy($coord, 'SELECT (SELECT count(*) FROM d), (SELECT count(*) FROM c)', '1000|5', 'after the nodes have come back');
is($coord->safe_psql('postgres', "SELECT bool_or(differs) FROM rdma.check_distribution('c')"), 'f', 'and all copies are the same');

$_->stop foreach ($coord, $n1, $n2);
done_testing();
