# READ COMMITTED over nodes is what it is on one server: who waited for a row looks at it again, every statement has a snapshot of its own, also
# after a write and beside a cursor, and what a statement finds on all nodes is of one moment.
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
	CREATE SERVER nodes FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n1, n2');
	CREATE USER MAPPING FOR CURRENT_USER SERVER nodes;
});
$coord->safe_psql('postgres', q{
	CREATE TABLE acc (id int, v int, part int);
	INSERT INTO acc SELECT i, 100, i % 7 FROM generate_series(1, 200) i;
	SELECT rdma.distribute_table('acc', 'nodes', 'id');
	CREATE TABLE parts (part int, id int);
	INSERT INTO parts SELECT i, i FROM generate_series(0, 6) i;
	INSERT INTO parts SELECT 3, i FROM generate_series(10, 12) i;
	SELECT rdma.distribute_table('parts', 'nodes', 'id');
	CREATE TABLE copies (id int, v int);
	INSERT INTO copies SELECT i, 100 FROM generate_series(1, 20) i;
	SELECT rdma.distribute_table('copies', 'nodes', replicated => true);
	ANALYZE acc, parts, copies;
});
my ($one, $two) = map { $_->safe_psql('postgres', 'SELECT min(id) FROM acc') } ($n1, $n2);
isnt($one, $two, 'there are rows on both nodes');

# The first transaction changes rows, the second statement waits for it there (until somebody waits on that node), and then the first one
# commits. Returns what the second one says.
sub second
{
	my ($first, $waits_on, @second) = @_;
	my $holder = $coord->background_psql('postgres');

	$holder->query_safe("BEGIN; $first");
	my $job = rdma_begin($coord, @second);
	ok(rdma_wait($waits_on, 'SELECT count(*) > 0 FROM pg_locks WHERE NOT granted', 120), "waits: $second[-1]");
	$holder->query_safe('COMMIT');
	$holder->quit;
	ok(rdma_outcome($job), 'and goes on');
	return $job;
}

sub value { return $coord->safe_psql('postgres', "SELECT v FROM acc WHERE id = $_[0]"); }
sub reset_rows { $coord->safe_psql('postgres', "UPDATE acc SET v = 100 WHERE v <> 100"); }

# ---- who waited for a row looks at it again
my $job = second("UPDATE acc SET v = v + 1 WHERE id = $one", $n1, "UPDATE acc SET v = v + 10 WHERE id = $one");
is($job->{err} . value($one), '111', 'a statement of one node');
$job = second("UPDATE acc SET v = v + 1 WHERE id = $one", $n1, 'BEGIN', "UPDATE acc SET v = v + 1 WHERE id = $two", "UPDATE acc SET v = v + 10 WHERE id = $one", 'COMMIT');
is($job->{err} . value($one) . ' ' . value($two), '122 101', 'also after a write elsewhere');
$job = second("UPDATE acc SET v = v + 1 WHERE id IN ($one, $two)", $n1, 'UPDATE acc SET v = v * 2');
is($job->{err} . value($one) . ' ' . value($two), '246 204', 'a statement of all nodes');
$job = second("UPDATE acc SET v = 1 WHERE id = $one", $n1, "WITH u AS (UPDATE acc SET v = v + 1 WHERE v > 200 RETURNING id) SELECT count(*) FROM u");
is($job->{err} . $job->{out} . value($one), "1\n1", 'whose condition does not hold any more for a row');
reset_rows();
$job = second("UPDATE acc SET v = v + 1 WHERE id = $two", $n2, "UPDATE acc SET v = v + 10 WHERE id = $two AND random() >= 0");
is($job->{err} . value($two), '111', 'rows that are found first, and locked by that');
$job = second("UPDATE acc SET v = v + 1 WHERE id = $two", $n2, "SELECT id, v FROM acc WHERE id IN ($one, $two) ORDER BY id FOR UPDATE");
like($job->{err} . $job->{out}, qr/^\Q$two\E\|112$/m, 'SELECT FOR UPDATE');
$job = second("UPDATE acc SET v = v + 1 WHERE id = $two", $n2, "UPDATE acc SET id = id + 1000 WHERE id = $two");
is($job->{err} . value($two + 1000), '113', 'a row that changes its node');
$coord->safe_psql('postgres', "UPDATE acc SET id = id - 1000 WHERE id = $two + 1000");
$job = second("UPDATE acc SET v = 7 WHERE id = $two", $n2, "DELETE FROM acc WHERE id = $two AND v = 113");
is($job->{err} . value($two), '7', 'DELETE, of a row that is not meant any more');
$job = second("UPDATE copies SET v = v + 1 WHERE id = 3", $n1, 'UPDATE copies SET v = v * 2 WHERE id = 3');
is($job->{err} . $coord->safe_psql('postgres', 'SELECT v FROM copies WHERE id = 3'), '202', 'a replicated table');
is($_->safe_psql('postgres', 'SELECT v FROM copies WHERE id = 3'), '202', 'on each node') foreach ($n1, $n2);

# ---- rows that a join over nodes has found are not locked: what has changed since is an error, never overwritten
reset_rows();
my $join = "UPDATE acc a SET v = a.v + 10 FROM parts p WHERE p.part = a.part AND a.id = $one";
like($coord->safe_psql('postgres', "EXPLAIN (COSTS off) $join"), qr/Exchange/, 'they are found by an exchange');
foreach my $batch (0, 1)
{
	$coord->safe_psql('postgres', "ALTER FOREIGN TABLE acc OPTIONS (ADD batch_size '1')") if $batch;
	$job = second("UPDATE acc SET v = v + 1 WHERE id = $one", $n1, $join);
	like($job->{err}, qr/40001: could not serialize access due to concurrent update/, 'who waited for one fails');
	is(value($one), 101 + 11 * $batch, 'and nothing is lost');
	$job = second("UPDATE acc SET v = v WHERE id = $one", $n1, $join =~ s/UPDATE acc a SET v = a.v \+ 10 FROM/DELETE FROM acc a USING/r);
	like($job->{err}, qr/40001: could not serialize access due to concurrent update/, 'DELETE, too');
	$coord->safe_psql('postgres', $join);
	is(value($one), 111 + 11 * $batch, 'it goes through when it is tried again');
}
$coord->safe_psql('postgres', "ALTER FOREIGN TABLE acc OPTIONS (DROP batch_size)");
my $twice = 'UPDATE acc a SET v = a.v + 1 FROM parts p WHERE p.part = a.part';
is($coord->safe_psql('postgres', "UPDATE acc SET v = 0; $twice; SELECT min(v), max(v), count(*) FROM acc"), '1|1|200', 'a row that is joined with several is written once');

# ---- each statement has a snapshot, and one of all nodes
my $s = $coord->background_psql('postgres');
my $transfer = "BEGIN; UPDATE acc SET v = v - 1 WHERE id = $one; UPDATE acc SET v = v + 1 WHERE id = $two; COMMIT";
my $both = "SELECT sum(v), (SELECT v FROM acc WHERE id = $two) FROM acc";

$s->query_safe('BEGIN');
is($s->query_safe($both), '200|1', 'a statement');
$s->query_safe('DECLARE c CURSOR FOR SELECT id, (SELECT b.v FROM acc b WHERE b.id = a.id AND random() >= 0) FROM acc a ORDER BY id DESC');
$s->query_safe('FETCH c');
$coord->safe_psql('postgres', $transfer);
is($s->query_safe($both), '200|2', 'the next one sees what was committed between them');
$s->query_safe("UPDATE acc SET v = v + 100 WHERE id = $one");
$coord->safe_psql('postgres', "UPDATE acc SET v = v WHERE id = $two");
is($s->query_safe($both), '300|2', 'also after a write');
$s->query_safe('SAVEPOINT a');
$s->query_safe("UPDATE acc SET v = v + 100 WHERE id = $two");
is($s->query_safe($both), '400|102', 'below a savepoint');
$s->query_safe('ROLLBACK TO a');
is($s->query_safe($both), '300|2', 'and after that was rolled back');
like($s->query_safe('FETCH ALL FROM c'), qr/\A(?:\d+\|1\n)+\d+\|1\z/, 'a cursor reads on what it began with, of all nodes');
$s->query_safe('COMMIT');
is($s->query_safe($both), '300|2', 'it committed');
$s->quit;

# ---- nothing is kept on a node beyond the transaction (that it is not beyond a statement, 46_parallel tells, which has more of them in one
# transaction than a node keeps)
my $xmin = q{SELECT count(*) FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid() AND backend_type = 'client backend'};
is($_->safe_psql('postgres', $xmin), '0', 'no session holds a snapshot') foreach ($n1, $n2);

done_testing();
