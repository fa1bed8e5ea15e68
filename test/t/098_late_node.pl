# A node that cannot be connected when a statement over nodes begins, and can be a moment later: the statement fails with the error of the
# attempt. When the node could still join, the others were asked for their snapshots, while they waited for its rows.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl", "$FindBin::Bin/../chaos";
use Proxy;
use RdmaCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($coord, $n1, $n2) = rdma_trio();
my $proxy = Proxy->start({ n2 => $n2->port });

$coord->safe_psql('postgres', "ALTER SERVER n2 OPTIONS (SET port '" . $proxy->port('n2') . "', ADD connect_timeout '2')");
$coord->safe_psql('postgres', q{
	CREATE SERVER many FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n1, n2');
	CREATE TABLE a AS SELECT i AS id, i % 100 AS x FROM generate_series(1, 20000) i;
	CREATE TABLE b AS SELECT i AS id, i % 70 AS y FROM generate_series(1, 20000) i;
	SELECT rdma.distribute_table('a', 'many', 'id'), rdma.distribute_table('b', 'many', 'id');
});
my $query = 'SELECT count(*) FROM a JOIN b ON a.x = b.y AND a.id < 1000 AND b.id < 1000';
my $expected = $coord->safe_psql('postgres', $query);
like($coord->safe_psql('postgres', "EXPLAIN $query"), qr/Exchange 1: re/, 'rows move between the nodes');

foreach my $isolation ('READ COMMITTED', 'REPEATABLE READ')
{
	# the attempt to connect takes two seconds, and fails; another one would get its answer
	$proxy->tell('n2', 'stall');
	my $job = rdma_begin($coord, "BEGIN ISOLATION LEVEL $isolation", $query, 'COMMIT');

	sleep(3);
	$proxy->tell('n2', 'pass');
	ok(rdma_outcome($job), "$isolation: the statement comes to its end");
	is($job->{out}, '', 'without rows');
	like($job->{err}, qr/08001: could not connect to server "n2".*connect_timeout/s, 'with the error of the attempt to connect');
	is($coord->safe_psql('postgres', $query), $expected, 'and the next one works');
}
$proxy->end;
done_testing();
