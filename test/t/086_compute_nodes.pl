# One fragment of a statement fails, or a node, an engine or a session dies, or the user has enough, while the other fragments still
# have two minutes to go: all stop at once (the time is a note), where the nodes that hold the rows join them and where other nodes do.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my ($coord, $n1, $n2) = rdma_trio(conf => "rdma_fdw.peer_timeout = '3s'\nrdma_fdw.connect_timeout = '4s'\njit = off\nmax_parallel_workers_per_gather = 0\n");
my $n3 = rdma_node('n3', conf => "rdma_fdw.peer_timeout = '3s'\nrdma_fdw.connect_timeout = '4s'\njit = off\n");
rdma_connect($coord, n3 => $n3);
my %node = (n1 => $n1, n2 => $n2, n3 => $n3);
my %half = (n1 => 1, n2 => 2);

# a sleeping node sleeps in a row of a scan, where only a cancel reaches it; a busy one has rows to send all the time
foreach my $node ($n1, $n2)
{
	my ($name, $first) = ($node->name, $half{ $node->name });

	$node->safe_psql('postgres', qq{
		CREATE TABLE o AS SELECT g AS k, g % 7 AS c FROM generate_series($first, 4000, 2) g;
		CREATE TABLE l AS SELECT (g * 7919) % 4000 + 1 AS k, g AS v FROM generate_series($first, 8000, 2) g;
		CREATE VIEW bad AS SELECT k, CASE WHEN '$name' = 'n1' THEN 1 / (v - 5001) ELSE v END AS v FROM l;
		CREATE VIEW sleeps AS SELECT k, c FROM o WHERE CASE WHEN '$name' = 'n2' THEN pg_sleep(120) IS NOT NULL ELSE true END;
		CREATE VIEW busy AS SELECT g % 4000 + 1 AS k, g % 7 AS c FROM (SELECT generate_series(1, 2000000000) AS g) s;
		ANALYZE;
	});
}
$coord->safe_psql('postgres', q{
	CREATE SERVER many FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n1, n2', compute_nodes 'n3');
	CREATE FOREIGN TABLE o (k int, c int) SERVER many;
	CREATE FOREIGN TABLE l (k int, v int) SERVER many;
	CREATE FOREIGN TABLE bad (k int, v int) SERVER many;
	CREATE FOREIGN TABLE sleeps (k int, c int) SERVER many;
	CREATE FOREIGN TABLE busy (k int, c int) SERVER many;
	ALTER DATABASE postgres SET rdma_fdw.exchange_strategy = 'repartition_both';
});
my $sum = 'SELECT count(*), sum(c), sum(v) FROM l JOIN o USING (k)';
my $right = $coord->safe_psql('postgres', "SET rdma_fdw.exchange_strategy = pull; $sum");

my $running = "FROM pg_stat_activity WHERE application_name = 'rdma_fdw' AND state = 'active'";
my $own = q{FROM pg_stat_activity WHERE query LIKE '%JOIN % USING%' AND pid <> pg_backend_pid() AND state = 'active'};

# From now on: until nothing of the statement runs anywhere.
sub all_stop
{
	my ($job, $error, $where, @left) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $since = time();

	ok(rdma_wait($coord, "SELECT count(*) = 0 $own", 60), "the statement ends: $where");
	foreach my $node (@left)
	{
		ok(rdma_wait($node, "SELECT count(*) = 0 $running", 60), $node->name . " stops: $where");
	}
	note(sprintf('%.2f seconds: %s', time() - $since, $where));
	rdma_outcome($job);
	like($job->{err}, $error, "the error is the user's: $where");
	return;
}

sub healthy
{
	my ($where) = @_;

	rdma_healthy($coord, $sum, $right, $where);
	foreach my $node ($n1, $n2, $n3)
	{
		ok(rdma_wait($node, 'SELECT count(*) = 0 FROM rdma.stat_flows', 60), $node->name . " has no flow left: $where");
	}
	return;
}

my %disable = (off => 'compute_nodes', on => 'compute_node_costs');
foreach my $compute ('off', 'on')
{
	my @members = $compute eq 'on' ? ($n1, $n2, $n3) : ($n1, $n2);

	$coord->safe_psql('postgres', "ALTER DATABASE postgres SET rdma_fdw.disable = $disable{$compute}");
	like($coord->safe_psql('postgres', "EXPLAIN (COSTS OFF) $sum"), $compute eq 'on' ? qr/Compute Nodes: n3.*Exchange 2: \w+ 2:1/s : qr/Strategy: repartition both/, "compute nodes are $compute");
	healthy("compute nodes $compute");

	foreach my $long ('sleeps', 'busy')
	{
		my $join = "JOIN $long USING (k)";
		my $where = "other fragments are $long, compute nodes $compute";
		# a node that only sends, and has no more to send, has ended
		my @last = $compute eq 'on' && $long eq 'sleeps' ? ($n2, $n3) : @members;

		# ---- an error in one fragment
		my $job = rdma_begin($coord, "SELECT count(*), sum(v) FROM bad $join");
		all_stop($job, qr/ERROR:  22012: division by zero.*n1/s, "an error on n1, $where", @members);

		# ---- the user has enough
		$job = rdma_begin($coord, "SELECT count(*), sum(v) FROM l $join");
		ok(rdma_wait($_, "SELECT count(*) = 1 $running", 60), $_->name . " runs its fragment: $where") foreach (@last);
		$coord->safe_psql('postgres', "SELECT pg_cancel_backend(pid) $own");
		all_stop($job, qr/57014: canceling statement due to user request/, "a cancel, $where", @members);

		# ---- a session or an engine dies
		foreach my $how ('session', 'engine')
		{
			my $victim = $compute eq 'on' ? $n3 : $n1;
			my $name = $victim->name;

			$job = rdma_begin($coord, "SELECT count(*), sum(v) FROM l $join");
			ok(rdma_wait($_, "SELECT count(*) = 1 $running", 60), $_->name . " runs its fragment: $where") foreach (@last);
			ok(rdma_wait($victim, 'SELECT count(*) > 0 FROM rdma.stat_flows', 60), "rows come to $name or go from it");
			kill('KILL', rdma_engine_pid($victim)) if $how eq 'engine';
			$victim->safe_psql('postgres', "SELECT pg_terminate_backend(pid) $running") if $how eq 'session';
			all_stop($job, qr/ERROR/, "the $how on $name died, $where", @members);
			ok(rdma_wait($_, 'SELECT pid IS NOT NULL FROM rdma.stat_engine', 60), $_->name . ' has an engine') foreach (@members);
		}
	}
	healthy("errors, cancels and deaths, compute nodes $compute");

	# ---- a node dies: one that computes, then one that holds rows
	foreach my $victim ($compute eq 'on' ? ($n3, $n2) : ($n1))
	{
		my $name = $victim->name;
		my $job = rdma_begin($coord, 'SELECT count(*), sum(v) FROM l JOIN sleeps USING (k)');

		ok(rdma_wait($_, "SELECT count(*) = 1 $running", 60), $_->name . " runs its fragment before $name dies") foreach ($n2, $victim);
		$victim->stop('immediate');
		all_stop($job, qr/ERROR/, "$name died, compute nodes $compute", grep { $_ != $victim } @members);
		$victim->start;
		healthy("$name died, compute nodes $compute");
	}
}

# ---- an early end, and the same sessions again, while senders have much left
# the hash table must be the other side's
$coord->safe_psql('postgres', q{UPDATE pg_class SET reltuples = 1e9, relpages = 1e7 WHERE relname = 'busy'});
foreach my $compute ('off', 'on')
{
	my $job = rdma_begin($coord, "BEGIN; SET LOCAL rdma_fdw.disable = $disable{$compute}; SELECT count(*) FROM (SELECT v FROM l JOIN busy USING (k) LIMIT 3) t; $sum; COMMIT");

	ok(rdma_outcome($job), "a query that ends early ends, compute nodes $compute");
	is($job->{out} . $job->{err}, "3\n$right\n", 'and so does the next one');
	healthy("early ends, compute nodes $compute");
}
done_testing();
