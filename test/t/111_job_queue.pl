# SELECT ... LIMIT n FOR UPDATE over several nodes locks the rows that it returns, as one server does: a job queue gives every job to one
# worker, whichever way it is written, and others wait for no row but these.
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
	CREATE TABLE job (id int, state text);
	SELECT rdma.distribute_table('job', 'nodes', 'id');
	CREATE TABLE parted (id int, part int, state text) PARTITION BY LIST (part);
	CREATE TABLE parted_0 PARTITION OF parted FOR VALUES IN (0);
	CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (1);
	INSERT INTO parted SELECT i, i % 2, 'new' FROM generate_series(1, 60) i;
	SELECT rdma.distribute_table('parted', 'nodes', 'id');
	CREATE TABLE kind (id int, urgent int);
	INSERT INTO kind SELECT i, i % 3 FROM generate_series(1, 60) i;
	SELECT rdma.distribute_table('kind', 'nodes', 'id');
	CREATE VIEW free AS SELECT * FROM job WHERE state = 'new';
	CREATE TABLE copies (id int, state text);
	INSERT INTO copies SELECT i, 'new' FROM generate_series(1, 10) i;
	SELECT rdma.distribute_table('copies', 'nodes', replicated => true);
});

sub new_jobs { $coord->safe_psql('postgres', "DELETE FROM job; INSERT INTO job SELECT i, 'new' FROM generate_series(1, 60) i; ANALYZE job") }
sub new_parted { $coord->safe_psql('postgres', "DELETE FROM parted; INSERT INTO parted SELECT i, i % 2, 'new' FROM generate_series(1, 60) i; ANALYZE parted") }

# ---- three workers at once
my $next = "SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED";
my $any = "SELECT id FROM job WHERE state = 'new' LIMIT 1 FOR UPDATE SKIP LOCKED";
my $joined = "SELECT job.id FROM job JOIN kind USING (id) WHERE state = 'new' ORDER BY urgent, id LIMIT 1 FOR UPDATE OF job SKIP LOCKED";
my %claims = (
	'a single value' => "UPDATE job SET state = 'taken' WHERE id = ($next) RETURNING id",
	'without an order' => "UPDATE job SET state = 'taken' WHERE id = ($any) RETURNING id",
	'DELETE ... IN' => "DELETE FROM job WHERE id IN ($next) RETURNING id",
	'an array' => "DELETE FROM job WHERE id = ANY (ARRAY($any)) RETURNING id",
	'WITH' => "WITH n AS ($next) UPDATE job SET state = 'taken' FROM n WHERE n.id = job.id RETURNING job.id",
	'joined' => "UPDATE job SET state = 'taken' WHERE id IN ($joined) RETURNING id",
	'who waits' => "UPDATE job SET state = 'taken' WHERE id = (SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE) RETURNING id",
);
# rows of the nodes' partitions are at the same places (ctid); workers take them in whatever way, also to the other partition
foreach my $way (keys %claims)
{
	$claims{"$way, partitioned"} = $claims{$way} =~ s/\bjob\b/parted/gr unless $way eq 'without an order';
}
sub work
{
	my ($claim) = @_;
	my @workers = map { rdma_begin($coord, ($claim) x 30) } 1 .. 3;
	my ($ids, $errors) = ('', '');

	foreach my $worker (@workers)
	{
		rdma_outcome($worker);
		$ids .= "$worker->{out}\n";
		$errors .= $worker->{err};
	}
	return (join(' ', sort { $a <=> $b } $ids =~ /^(\d+)$/mg), $errors);
}
foreach my $way (sort keys %claims)
{
	$way =~ /partitioned/ ? new_parted() : new_jobs();
	my ($ids, $errors) = work($claims{$way});
	is($errors, '', "$way: no error");
	is($ids, join(' ', 1 .. 60), "$way: every job once");
}
# a row that another session has moved to another partition is an error, as on one server
new_parted();
my ($moved, $errors) = work($claims{'DELETE ... IN, partitioned'} =~ s/DELETE FROM parted/UPDATE parted SET part = 1 - part, state = 'taken'/r);
unlike($errors =~ s/ERROR:  40001: .*(moved to another partition|concurrent update)//gr, qr/ERROR/, 'to the other partition: no other error');
is($moved, $coord->safe_psql('postgres', "SELECT string_agg(id::text, ' ' ORDER BY id) FROM parted WHERE state = 'taken' AND part <> id % 2"), 'to the other partition: every job once');
is($coord->safe_psql('postgres', "SELECT count(*), count(DISTINCT id) FROM parted WHERE state = 'taken' OR part = id % 2"), '60|60', 'and no row is lost');

# ---- what is locked
my $first = $coord->background_psql('postgres');
my $second = $coord->background_psql('postgres', on_error_stop => 0);
sub both { my ($locked, $sql) = @_; $first->query_safe("BEGIN; $locked"); my $got = $second->query($sql); $first->query_safe('ROLLBACK'); return $got; }

new_jobs();
is(both($next, $next), '2', 'the next worker gets the next job');
is(both($next =~ s/LIMIT 1/LIMIT 59/r, $next), '60', 'also the last one');
is(both($next =~ s/LIMIT 1/LIMIT 60/r, $next), '', 'if there is one');
is(both($next =~ s/LIMIT 1/LIMIT 2 OFFSET 1/r, $next), '4', 'rows that OFFSET passes over are locked, as on one server');
# rows of several partitions, and of both nodes, are at the same place (ctid)
new_parted();
my $parted = $next =~ s/job/parted/r;
is(both($parted =~ s/LIMIT 1/LIMIT 5/r, $parted =~ s/LIMIT 1/LIMIT 60/r), join("\n", 6 .. 60), 'a row of a partitioned table');
is(both("SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 1 FOR SHARE", 'SELECT id FROM job ORDER BY id LIMIT 1 FOR SHARE SKIP LOCKED'), '1', 'FOR SHARE');
is(both("SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 1 FOR KEY SHARE", 'SELECT id FROM job ORDER BY id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED'), '1', 'FOR KEY SHARE');
is(both("SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 1 FOR NO KEY UPDATE", 'SELECT id FROM job ORDER BY id LIMIT 1 FOR SHARE SKIP LOCKED'), '2', 'FOR NO KEY UPDATE');
is(both('SELECT id FROM free LIMIT 1 FOR UPDATE', 'SELECT count(*) FROM (SELECT id FROM job LIMIT 99 FOR UPDATE SKIP LOCKED) f'), '59', 'a view');
my $free = 'SELECT count(*) FROM (SELECT id FROM job LIMIT 99 FOR UPDATE SKIP LOCKED) f';
is(both('WITH n AS (SELECT id FROM job FOR UPDATE) SELECT * FROM n LIMIT 2', $free), '58', 'a WITH query, as far as it is read');
is(both('WITH n AS (SELECT id FROM job FOR UPDATE) SELECT (SELECT id FROM n LIMIT 1)', $free), '59', 'or its reader');
is(both('WITH n AS (SELECT id FROM job FOR UPDATE) SELECT count(*) FROM n', $free), '0', 'all of it');
is(both($joined, $joined), '6', 'of the joined tables the one that is named');
is(both('SELECT * FROM job WHERE id = 7 LIMIT 1 FOR UPDATE', 'SELECT count(*) FROM (SELECT id FROM job LIMIT 99 FOR UPDATE SKIP LOCKED) f'), '59', 'a row of one node');
like($coord->safe_psql('postgres', 'EXPLAIN (VERBOSE, COSTS off) SELECT * FROM job WHERE id = 7 LIMIT 1 FOR UPDATE'), qr/LIMIT 1 FOR UPDATE$/m, 'whose LIMIT is sent');
is(both('SELECT id FROM copies ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED', 'SELECT id FROM copies ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED'), '2', 'a replicated table');
both($next, "SELECT id FROM job ORDER BY id LIMIT 1 FOR UPDATE NOWAIT");
like($second->{stderr}, qr/could not obtain lock on row/, 'NOWAIT');
is(both($next, "UPDATE job SET state = 'new' WHERE id = 40 RETURNING id"), '40', 'other rows can be written');
$first->query_safe("BEGIN; SAVEPOINT a; $next");
$first->query_safe('ROLLBACK TO a');
is($second->query($next), '1', 'a savepoint that is rolled back lets the row go');
$first->query_safe("$next; UPDATE job SET state = 'taken' WHERE id = 1");
is($first->query_safe($next), '2', 'what the transaction has written is seen');
$first->query_safe('ROLLBACK');

# ---- rows that have changed since they were read: the second statement waits, and then the first one commits
sub second
{
	my ($change, @second) = @_;

	$first->query_safe("BEGIN; $change");
	my $job = rdma_begin($coord, @second);
	ok(rdma_wait($_, 'SELECT count(*) > 0 FROM pg_locks WHERE NOT granted', 120), "waits: $change") foreach ($coord->safe_psql('postgres', 'SELECT rdma.hash_node(2, 1)') ? $n2 : $n1);
	$first->query_safe('COMMIT');
	rdma_outcome($job);
	return $job->{err} . $job->{out} =~ s/\s+\z//r;
}

my $wait = "SELECT id, state FROM job WHERE state <> 'taken' ORDER BY id LIMIT 1 FOR UPDATE";
is(second("UPDATE job SET state = 'late' WHERE id = 1", $wait), '1|late', 'the last version is returned');
is(second("UPDATE job SET state = 'taken' WHERE id = 1", $wait), '2|new', 'if it still meets the condition');
new_jobs();
is(second('DELETE FROM job WHERE id = 1', $wait), '2|new', 'and is there at all');
new_jobs();
foreach my $change ("UPDATE job SET state = 'late' WHERE id = 1", 'DELETE FROM job WHERE id = 1')
{
	like(second($change, 'BEGIN ISOLATION LEVEL REPEATABLE READ', $wait), qr/40001: could not serialize access due to concurrent (update|delete)/, "REPEATABLE READ: $change");
}
$_->quit foreach ($first, $second);

done_testing();
