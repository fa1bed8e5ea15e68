# Bad days of parallel scans: if leader, worker, serving session, an engine or the data node ends in the middle, the query fails with an
# error, never returns a part of the result, nothing hangs, and nothing is left.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use IPC::Run qw(start finish);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $conf = "rdma_fdw.peer_timeout = '5s'\nmax_parallel_workers_per_gather = 2\nmin_parallel_table_scan_size = 0\nparallel_setup_cost = 0\nparallel_tuple_cost = 0\n";
my ($coord, $n1, $n2) = rdma_trio(conf => $conf);

foreach my $node ($n1, $n2)
{
	$node->safe_psql('postgres', q{
		CREATE TABLE small AS SELECT g AS a, 'row ' || g AS b FROM generate_series(1, 20000) g;
		CREATE VIEW big AS SELECT g AS a, repeat('x', 100) AS b FROM (SELECT generate_series(1::bigint, 2000000000) AS g) s;
		CREATE VIEW failing AS SELECT g AS a, 1000 / (1000000 - g) AS b FROM (SELECT generate_series(1, 1000001) AS g) s;
		ANALYZE;
	});
}
$coord->safe_psql('postgres', q{
	CREATE FUNCTION here(bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$ BEGIN RETURN $1; END $$;
});
foreach my $name ('n1', 'n2')
{
	$coord->safe_psql('postgres', "ALTER SERVER $name OPTIONS (ADD parallel_scan 'true'); CREATE SCHEMA $name; IMPORT FOREIGN SCHEMA public FROM SERVER $name INTO $name");
	# its planner knows how many rows a view has
	$coord->safe_psql('postgres', "ALTER FOREIGN TABLE $name.$_ OPTIONS (ADD use_remote_estimate 'true')") foreach ('big', 'failing', 'small');
}
# both as one server
$coord->safe_psql('postgres', q{
	CREATE SERVER many FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n1, n2', parallel_scan 'true');
	CREATE SCHEMA many;
	CREATE FOREIGN TABLE many.big (a bigint, b text) SERVER many OPTIONS (schema_name 'public');
	CREATE FOREIGN TABLE many.failing (a int, b int) SERVER many OPTIONS (schema_name 'public');
	CREATE FOREIGN TABLE many.gated (a int, b text) SERVER many OPTIONS (schema_name 'public');
});
$n1->safe_psql('postgres', q{CREATE VIEW gated AS SELECT g AS a, repeat('y', 100) AS b FROM pg_advisory_lock_shared(78) l, generate_series(1, 20000) g});
$n2->safe_psql('postgres', q{CREATE VIEW gated AS SELECT g AS a, repeat('y', 100) AS b FROM generate_series(20001, 100000) g});
my $check = 'SELECT count(*), sum(here(a)) FROM n1.small';
my $expected = '20000|200010000';
my $big = 'SELECT count(*), sum(here(a)), max(length(b)) FROM n1.big';
my $both = 'SELECT count(*), sum(here(a)), max(length(b)) FROM (SELECT * FROM n1.big UNION ALL SELECT * FROM n2.big) t';
my $by_workers = 'SET parallel_leader_participation = off';
my $failing = 'SELECT count(*), sum(here(b)) FROM n1.failing';
my $nodes = 'SELECT count(*), sum(here(a)), max(length(b)) FROM many.big';
my $nodes_failing = 'SELECT count(*), sum(here(b)) FROM many.failing';
my $gated = 'SELECT count(*), sum(here(a)), max(length(b)) FROM many.gated';
foreach my $query ($check, $big, $both, $failing, $nodes, $nodes_failing, $gated)
{
	like($coord->safe_psql('postgres', "EXPLAIN $query"), qr/Parallel Foreign Scan/, 'it is a parallel plan');
	like($coord->safe_psql('postgres', "$by_workers; EXPLAIN $query"), qr/Parallel Foreign Scan/, 'also when only workers read');
}
is($coord->safe_psql('postgres', $check), $expected, 'the cluster works before anything goes wrong');
is($coord->safe_psql('postgres', "$by_workers; $check"), $expected, 'also when only workers read');

sub background
{
	my (@commands) = @_;
	my %job = (out => '', err => '');
	$job{run} = start([ 'psql', '-X', '-A', '-t', '-q', '-v', 'VERBOSITY=verbose', '-v', 'ON_ERROR_STOP=1', '-d', $coord->connstr('postgres'),
			'-c', "SET application_name = 'victim'", map { ('-c', $_) } @commands ],
		'<', '/dev/null', '>', \$job{out}, '2>', \$job{err}, IPC::Run::timeout(180));
	return \%job;
}

my $workers = "pg_stat_activity WHERE backend_type = 'parallel worker' AND application_name = 'victim'";
sub victim_pid { return $coord->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND application_name = 'victim'"); }
sub worker_pid { return $coord->safe_psql('postgres', "SELECT min(pid) FROM $workers"); }
sub under_way
{
	my ($streams) = @_;
	ok(rdma_wait($coord, "SELECT count(*) FILTER (WHERE bytes > 3000000) = $streams AND (SELECT count(*) > 0 FROM $workers) FROM rdma.stat_flows"), 'a parallel scan is under way');
	return;
}

sub fails
{
	my ($job, $error, $when) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	eval { finish($job->{run}); 1 } or do { $job->{run}->kill_kill; fail("it ends $when"); };
	like($job->{err}, $error, "an error when $when");
	is($job->{out}, '', "and no result when $when");
	rdma_healthy($coord, $check, $expected, "after $when");
	ok(rdma_wait($coord, "SELECT count(*) = 0 FROM $workers"), "no worker is left after $when");
	foreach my $node ($n1, $n2)
	{
		ok(rdma_wait($node, 'SELECT count(*) = 0 FROM rdma.stat_flows'), 'no flow is left on ' . $node->name . " after $when");
	}
	return;
}

# ---- the remote query fails in mid-stream
my $job = background($failing);
fails($job, qr/22012.*division by zero/s, 'the remote query fails');
$job = background($by_workers, $failing);
fails($job, qr/08006.*did not arrive complete|22012.*division by zero/s, 'the remote query fails and the leader does not read');

$job = background($nodes_failing);
fails($job, qr/22012.*division by zero/s, 'the query of several nodes fails');

# ---- one node has nothing yet: all read what the other has, as fast as they get it, and no worker is lost when the first one goes on
foreach my $commands ([$gated], [ $by_workers, $gated ])
{
	my $gate = $n1->background_psql('postgres', on_error_stop => 1);
	$gate->query_safe('SELECT pg_advisory_lock(78)');
	$job = background(@$commands);
	# the leader, if it reads, has closed the flow by then
	ok(rdma_wait($coord, "SELECT (sum(rows) = 80000 OR count(*) = 1) AND (SELECT count(*) = 2 FROM $workers) FROM rdma.stat_flows"), 'the rows of one node are read while the other one has none');
	usleep(300_000);
	is($coord->safe_psql('postgres', "SELECT count(*) FROM $workers"), '2', 'and no worker has left (' . scalar(@$commands) . ')');
	$gate->query_safe('SELECT pg_advisory_unlock(78)');
	eval { finish($job->{run}); 1 } or do { $job->{run}->kill_kill; fail('it ends when the other node goes on'); };
	is("$job->{out}$job->{err}", "100000|5000050000|100\n", 'and all rows are there in the end (' . scalar(@$commands) . ')');
	$gate->quit;
}

# ---- cancel, termination
foreach my $case ([ [$big], 1 ], [ [ $by_workers, $big ], 1 ], [ [$both], 2 ], [ [$nodes], 2 ], [ [ $by_workers, $nodes ], 2 ])
{
	my ($commands, $streams) = @$case;
	$job = background(@$commands);
	under_way($streams);
	$coord->safe_psql('postgres', 'SELECT pg_cancel_backend(' . victim_pid() . ')');
	fails($job, qr/57014/, "it is cancelled ($streams, " . scalar(@$commands) . ')');
}
$job = background($big);
under_way(1);
$coord->safe_psql('postgres', 'SELECT pg_terminate_backend(' . victim_pid() . ')');
fails($job, qr/57P01|terminating|server closed/, 'the leader is terminated');
$job = background($big);
under_way(1);
$coord->safe_psql('postgres', 'SELECT pg_terminate_backend(' . worker_pid() . ')');
fails($job, qr/57P01|lost connection to parallel worker/, 'a worker is terminated');
$job = background($nodes);
under_way(2);
$coord->safe_psql('postgres', 'SELECT pg_terminate_backend(' . worker_pid() . ')');
fails($job, qr/57P01|lost connection to parallel worker/, 'a worker that reads from two nodes is terminated');
$job = background($nodes);
under_way(2);
kill 'KILL', worker_pid();
fails($job, qr/57P02|crash of another server process|server closed/, 'a worker is killed');

# ---- the other side
$job = background($big);
under_way(1);
$n1->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'rdma_fdw%' AND pid <> pg_backend_pid()");
fails($job, qr/ERROR:\s+(57P01|08\w\w\w)/, 'the serving session is terminated');
$job = background($by_workers, $big);
under_way(1);
$n1->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'rdma_fdw%' AND pid <> pg_backend_pid()");
fails($job, qr/ERROR:\s+(57P01|08\w\w\w)/, 'the serving session is terminated and the leader does not read');
$job = background($both);
under_way(2);
$n2->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'rdma_fdw%' AND pid <> pg_backend_pid()");
fails($job, qr/ERROR:\s+(57P01|08\w\w\w)/, 'one of two serving sessions is terminated');
foreach my $commands ([$nodes], [ $by_workers, $nodes ])
{
	$job = background(@$commands);
	under_way(2);
	$n2->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'rdma_fdw%' AND pid <> pg_backend_pid()");
	fails($job, qr/ERROR:\s+(57P01|08\w\w\w)/, 'the serving session of one of two nodes is terminated (' . scalar(@$commands) . ')');
}

# ---- engines
$job = background($nodes);
under_way(2);
kill 'TERM', rdma_engine_pid($n2);
fails($job, qr/ERROR:\s+(08\w\w\w|57P01|55000)/, 'the engine of one of two nodes is terminated');
foreach my $commands ([$big], [ $by_workers, $big ])
{
	foreach my $node ($coord, $n1)
	{
		$job = background(@$commands);
		under_way(1);
		my $pid = rdma_engine_pid($node);
		kill 'TERM', $pid;
		fails($job, qr/ERROR:\s+(08\w\w\w|57P01|55000)/, 'the engine of ' . $node->name . ' is terminated (' . scalar(@$commands) . ')');
	}
}

# ---- an early end is none of these
is($coord->safe_psql('postgres', 'SELECT count(*) FROM (SELECT here(a) FROM n1.big WHERE here(a) > 0 LIMIT 10000) t'), '10000', 'LIMIT stops a parallel scan');
is($coord->safe_psql('postgres', "$by_workers; SELECT count(*) FROM (SELECT here(a) FROM n1.big WHERE here(a) > 0 LIMIT 10000) t"), '10000', 'also when only workers read');
is($coord->safe_psql('postgres', "SELECT count(*) FROM (SELECT here(a) FROM many.big WHERE here(a) > 0 LIMIT 10000) t"), '10000', 'LIMIT stops one of several nodes');
is($coord->safe_psql('postgres', "$by_workers; SELECT count(*) FROM (SELECT here(a) FROM many.big WHERE here(a) > 0 LIMIT 10000) t"), '10000', 'also when only workers read');
rdma_healthy($coord, $check, $expected, 'after LIMIT');

# ---- the data node goes
$job = background($big);
under_way(1);
$n1->stop('immediate');
finish($job->{run});
like($job->{err}, qr/ERROR:\s+(57P0\d|08\w\w\w)/, 'an error when the data node goes');
is($job->{out}, '', 'and no result when the data node goes');
$n1->start;
rdma_healthy($coord, $check, $expected, 'when the data node is back');
$n1->stop;
$n2->stop;
$coord->stop;
done_testing();
