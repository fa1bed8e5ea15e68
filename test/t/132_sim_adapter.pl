# Joins over nodes whose engine has an adapter with the limits that SMART found: with more requests outstanding than its cache holds, each
# takes longer. Throttling begins by itself, ends by itself when the adapter has no such limit any more, and rdma.stat_lanes shows both. The
# adapter is the simulated one of the unit tests, as a libibverbs (test/modules/sim_adapter).
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use Time::HiRes qw(time);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $limits = PostgreSQL::Test::Utils::tempdir() . '/limits';

# Microseconds for a request and from its execution to its acknowledgement; and how many fit the cache (0: any number).
sub adapter
{
	my ($service, $latency, $cache) = @_;

	open(my $file, -e $limits ? '+<' : '>', $limits) or die "$limits: $!";
	syswrite($file, pack('L3', $service, $latency, $cache)) == 12 or die "$limits: $!";
	close($file);
	return;
}

# All bytes stay in one process: the nodes are databases of one cluster. Small buffers make many requests.
my ($library) = run_command([ 'pg_config', '--pkglibdir' ]);
my $node = rdma_node('node', no_start => 1, conf => "rdma_fdw.provider = verbs\nrdma_fdw.engine_lanes = 1\n"
	  . "rdma_fdw.receive_buffers = 16\nrdma_fdw.receive_buffer_size = '4kB'\n");
adapter(200, 300, 4);
{
	local $ENV{LD_PRELOAD} = "$library/sim_adapter.so";
	local $ENV{SIM_ADAPTER} = $limits;
	$node->start;
}
$node->safe_psql('postgres', 'CREATE EXTENSION rdma_fdw');
foreach my $name ('s1', 's2', 's3')
{
	$node->safe_psql('postgres', "CREATE DATABASE $name");
	$node->safe_psql($name, 'CREATE EXTENSION rdma_fdw');
	$node->safe_psql('postgres', "CREATE SERVER $name FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port '" . $node->port
		  . "', dbname '$name'); CREATE USER MAPPING FOR postgres SERVER $name OPTIONS (user 'postgres')");
}
$node->safe_psql('postgres', q{
	CREATE SERVER nodes FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 's1, s2, s3');
	CREATE TABLE o AS SELECT g AS ok, g % 100 AS ck, repeat('x', 100 + g % 7) AS v FROM generate_series(1, 20000) g;
	CREATE TABLE l AS SELECT g % 20000 + 1 AS ok, g AS q, repeat('y', 100) AS w FROM generate_series(1, 40000) g;
	CREATE TABLE want AS SELECT count(*), sum(q) AS q, sum(length(v)) AS v, sum(length(w)) AS w FROM o JOIN l USING (ok);
	SELECT rdma.distribute_table('o', 'nodes', 'ck');
	SELECT rdma.distribute_table('l', 'nodes', 'q');
	ANALYZE o;
	ANALYZE l;
	ALTER DATABASE postgres SET rdma_fdw.exchange_strategy = 'repartition_both';
});
is($node->safe_psql('postgres', "SELECT provider, lanes FROM rdma.stat_engine"), 'verbs|1', 'the engine uses the adapter');

my $join = 'SELECT count(*), sum(q), sum(length(v)), sum(length(w)) FROM o JOIN l USING (ok)';
my $want = $node->safe_psql('postgres', 'TABLE want');

# Joins, until the condition over rdma.stat_lanes is true, for two minutes at most.
sub joins_until
{
	my ($condition, $what) = @_;
	my $end   = time() + 120;
	my $wrong = 0;
	my $done;

	do
	{
		$wrong++ if $node->safe_psql('postgres', $join) ne $want;
		$done = $node->safe_psql('postgres', "SELECT $condition FROM rdma.stat_lanes");
	} while ($done ne 't' && time() < $end);
	is($done, 't', $what);
	is($wrong, 0, 'all joins were right');
	diag($node->safe_psql('postgres', 'SELECT * FROM rdma.stat_lanes')) if $done ne 't';
	return;
}

sub lanes { return $node->safe_psql('postgres', "SELECT $_[0] FROM rdma.stat_lanes"); }

joins_until('c_max IS NOT NULL AND credit_waits > 0', 'throttling begins by itself, and streams wait for credit');
is(lanes('epoch > 0 AND (SELECT max(r) FROM unnest(candidate_rates) r) > candidate_rates[1] * 1.05'), 't', 'the rate was higher with a limit');
my $c_max = lanes('c_max');
is(lanes('throttling'), "acts: at most $c_max requests are outstanding on a queue pair", 'the view says so in words');
is($node->safe_psql('postgres', "SELECT bool_and(c_max = $c_max), sum(credit_waits) > 0 FROM rdma.qps"), 't|t', 'rdma.qps shows where');

# A statement that ends while its streams wait for credit leaves nothing behind.
my (undef, undef, $err) = $node->psql('postgres', "SET statement_timeout = 100; $join");
like($err, qr/statement timeout/, 'a join is canceled');
ok(rdma_wait($node, 'SELECT count(*) = 0 FROM rdma.stat_flows', 60), 'no flow is left');
ok(rdma_wait($node, 'SELECT buffer_used = 0 FROM rdma.stat_engine', 60), 'no buffer is held');

# A cache for any number, and a round trip that a few requests do not fill.
my $epoch = lanes('epoch');
adapter(1, 3000, 0);
joins_until("c_max IS NULL AND epoch > $epoch + 1", 'throttling ends by itself');
like(lanes('throttling'), qr/^(no limit seen|nothing to limit): /, 'the view says why');

done_testing();
