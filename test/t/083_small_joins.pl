# A thousand small distributed joins from twenty sessions at once, with room for all of them and in a pool of buffers that only has
# room for a few: all are right, and afterwards no flow, no buffer and no session is left anywhere.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($coord, $n1, $n2) = rdma_trio(conf => "max_connections = 60\nrdma_fdw.receive_buffer_size = '32kB'\n"
		. "rdma_fdw.receive_buffers = 2\n");
my %half = (n1 => 1, n2 => 2);

foreach my $node ($n1, $n2)
{
	my $first = $half{ $node->name };

	$node->safe_psql('postgres', qq{
		CREATE TABLE o AS SELECT g AS k, g % 7 AS c FROM generate_series($first, 500, 2) g;
		CREATE TABLE l AS SELECT (g * 7919) % 500 + 1 AS k, g AS v FROM generate_series($first, 1000, 2) g;
		ANALYZE;
	});
}
$coord->safe_psql('postgres', q{
	CREATE SERVER pair FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n1, n2');
	CREATE FOREIGN TABLE o (k int, c int) SERVER pair;
	CREATE FOREIGN TABLE l (k int, v int) SERVER pair;
	ALTER DATABASE postgres SET rdma_fdw.exchange_strategy = 'repartition_both';
});

# a wrong result is an error, which ends the session
my $whole = 'SELECT count(*), sum(c), sum(v) FROM o JOIN l USING (k)';
my $rows = 'SELECT count(*), count(*), sum(v) FROM (SELECT v FROM l JOIN o USING (k) WHERE c < 3 OFFSET 0) t';
my $script = $coord->basedir . '/joins.sql';
foreach my $query ($whole, $rows)
{
	my $right = $coord->safe_psql('postgres', "SET rdma_fdw.exchange_strategy = pull; $query");

	like($coord->safe_psql('postgres', "EXPLAIN (COSTS OFF) $query"), qr/Exchange 1: repartition 2:2.*Exchange 2: repartition 2:2/s, 'the join moves both sides');
	is($coord->safe_psql('postgres', $query), $right, 'and is right');
	$right =~ tr/|/,/;
	append_to_file($script, "SELECT 1 / (q::text = '($right)')::int FROM ($query) q;\n");
}

sub joins
{
	my ($transactions, $when) = @_;

	$coord->command_like([ 'pgbench', '-n', '-c', '20', '-j', '2', '-t', $transactions, '-f', $script, '-h', $coord->host, '-p', $coord->port, 'postgres' ],
		qr{actually processed: ${\(20 * $transactions)}/}, "twenty sessions' joins $when");
	foreach my $node ($coord, $n1, $n2)
	{
		my $name = $node->name;

		ok(rdma_wait($node, 'SELECT count(*) = 0 FROM rdma.stat_flows', 60), "no flow is left on $name $when");
		ok(rdma_wait($node, 'SELECT coalesce(buffer_used, 0) = 0 FROM rdma.stat_engine', 60), "no buffer is held on $name $when");
		ok(rdma_wait($node, q{SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'rdma_fdw'}, 60), "no session is left on $name $when");
	}
	return;
}

joins(25, 'with room for all');

foreach my $node ($coord, $n1, $n2)
{
	$node->safe_psql('postgres', "ALTER SYSTEM SET rdma_fdw.buffer_memory = '6MB'");
	$node->restart;
}
joins(3, 'in a pool that is too small');
done_testing();
