# Two data nodes in one query: both work from the start, and when one dies the error names it.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($coord, $n1, $n2) = rdma_trio(conf => "rdma_fdw.peer_timeout = '3s'\nrdma_fdw.connect_timeout = '4s'\nlog_min_messages = log\n");

# held: makes no row while the lock is held. big: makes more rows than buffers hold, and does not end while its lock is held.
foreach my $node ($n1, $n2)
{
	$node->safe_psql('postgres', q{
		CREATE TABLE small AS SELECT g AS a, 'row ' || g AS b FROM generate_series(1, 1000) g;
		CREATE VIEW held AS SELECT 1 AS a, pg_advisory_xact_lock_shared(1)::text AS b;
		CREATE VIEW big AS SELECT g AS a, repeat('x', 100) AS b FROM (SELECT generate_series(1::bigint, 100000) AS g) s
			UNION ALL SELECT 0, pg_advisory_xact_lock_shared(2)::text;
	});
}
$coord->safe_psql('postgres', "CREATE SCHEMA $_; IMPORT FOREIGN SCHEMA public FROM SERVER $_ INTO $_") foreach ('n1', 'n2');
$coord->safe_psql('postgres', "CREATE VIEW two_$_ AS SELECT * FROM n1.$_ UNION ALL SELECT * FROM n2.$_") foreach ('small', 'held', 'big');

my $waiting = "SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
foreach my $async ('', 'true')
{
	my $kind = $async ? 'asynchronous' : 'early start';

	$coord->safe_psql('postgres', "ALTER SERVER $_ OPTIONS (ADD async_capable '$async')") foreach ($async ? ('n1', 'n2') : ());
	my $plan = $coord->safe_psql('postgres', 'EXPLAIN SELECT a FROM two_big WHERE a + random() >= 0');
	is(scalar(() = $plan =~ /Async Foreign Scan/g), $async ? 2 : 0, "the plan is that of $kind");

	# ---- both nodes have the query before either has given a row
	my @held = map { $_->background_psql('postgres', on_error_stop => 1) } ($n1, $n2);
	$_->query_safe('SELECT pg_advisory_lock(1)') foreach (@held);
	my $job = rdma_begin($coord, "SELECT count(*), sum(a) FROM (SELECT * FROM two_held OFFSET 0) t WHERE length(b) >= 0");
	ok(rdma_wait($n1, $waiting, 60), "$kind: the first node runs its query");
	ok(rdma_wait($n2, $waiting, 60), "$kind: and at the same time the second");
	$_->query_safe('SELECT pg_advisory_unlock(1)') foreach (reverse @held);
	$_->quit foreach (@held);
	rdma_outcome($job);
	is($job->{out}, "2|2\n", "$kind: the result is right");
	is($job->{err}, '', "$kind: without an error");

	# ---- a node dies under it: the one read first, or the other
	foreach my $victim ($n2, $n1)
	{
		my $name = $victim->name;

		my %held = map { $_->name => $_->background_psql('postgres', on_error_stop => 1) } ($n1, $n2);
		$_->query_safe('SELECT pg_advisory_lock(2)') foreach (values %held);
		$job = rdma_begin($coord, 'SELECT count(*), max(length(b)) FROM (SELECT * FROM two_big OFFSET 0) t WHERE random() >= 0');
		ok(rdma_wait($coord, 'SELECT count(*) = 2 AND bool_and(bytes > 0 OR state IS NOT NULL) FROM rdma.stat_flows', 60), "$kind: a pull from both is under way");
		$victim->stop('immediate');
		$_->quit foreach (values %held);
		rdma_outcome($job);
		isnt($job->{err}, '', "$kind: the pull fails when $name dies");
		like($job->{err}, qr/$name/, "$kind: and the error names $name");
		$victim->start;
		rdma_healthy($coord, 'SELECT count(*), sum(a) FROM (SELECT * FROM two_small OFFSET 0) t', '2000|1001000', "($kind, $name died)");
	}
}

# ---- buffers for one node at a time: children of Append queue, and each is read once
$coord->append_conf('postgresql.conf', "rdma_fdw.buffer_memory = '4MB'\nrdma_fdw.inline_limit = 0\n");
$coord->restart;
$coord->safe_psql('postgres', 'CREATE VIEW six AS ' . join(' UNION ALL ', map { "SELECT a FROM $_.small" } qw(n1 n2 n1 n1 n2 n2)));
is($coord->safe_psql('postgres', 'SELECT count(*), sum(a) FROM (SELECT * FROM six OFFSET 0) t'), '6000|3003000', 'six children in turn');
is($coord->safe_psql('postgres', 'SELECT count(*), sum(n) FROM generate_series(1, 5) x, LATERAL (SELECT count(*) AS n FROM (SELECT a FROM six WHERE a + random() > x LIMIT 1500) s) t'),
	'5|7500', 'and again, when each time some were not read');
done_testing();
