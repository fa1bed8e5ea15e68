# A scan of a server that stands for two nodes, when one of them is killed, fails, is stopped, or the user has enough: the
# error says which, the other node stops, the next query works, and no flow is left anywhere.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($coord, $n1, $n2) = rdma_trio(conf => "rdma_fdw.peer_timeout = '3s'\nrdma_fdw.connect_timeout = '4s'\nlog_min_messages = log\n");
my %other = (n1 => $n2, n2 => $n1);

# endless: as good as; fails: on one node, at a row in the middle
foreach my $node ($n1, $n2)
{
	my $name = $node->name;

	$node->safe_psql('postgres', qq{
		CREATE TABLE small AS SELECT g AS a, 'row ' || g AS b FROM generate_series(1, 1000) g;
		CREATE VIEW endless AS SELECT g AS a, repeat('x', 100) AS b FROM (SELECT generate_series(1::bigint, 1000000000) AS g) s;
		CREATE VIEW fails_on_n1 AS SELECT g AS a, (1 / CASE WHEN '$name' = 'n1' THEN g - 100000 ELSE 1 END)::text AS b
			FROM (SELECT generate_series(1::bigint, 1000000000) AS g) s;
		CREATE VIEW fails_on_n2 AS SELECT g AS a, (1 / CASE WHEN '$name' = 'n2' THEN g - 100000 ELSE 1 END)::text AS b
			FROM (SELECT generate_series(1::bigint, 1000000000) AS g) s;
		CREATE VIEW slow AS SELECT g AS a, pg_sleep(0.001)::text AS b FROM (SELECT generate_series(1::bigint, 500) AS g) s;
	});
}
$coord->safe_psql('postgres', q{
	CREATE SERVER pair FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n1, n2');
	CREATE FOREIGN TABLE small (a bigint, b text) SERVER pair;
	CREATE FOREIGN TABLE endless (a bigint, b text) SERVER pair;
	CREATE FOREIGN TABLE fails_on_n1 (a bigint, b text) SERVER pair;
	CREATE FOREIGN TABLE fails_on_n2 (a bigint, b text) SERVER pair;
	CREATE FOREIGN TABLE slow (a bigint, b text) SERVER pair;
});

my $worker = "FROM pg_stat_activity WHERE application_name = 'rdma_fdw' AND state = 'active'";
my $idle = "SELECT count(*) = 0 $worker";
my $flowing = 'SELECT count(*) = 2 AND bool_and(bytes > 0) FROM rdma.stat_flows';

sub healthy
{
	my ($when) = @_;

	rdma_healthy($coord, 'SELECT count(*), sum(a) FROM (SELECT * FROM small OFFSET 0) t', '2000|1001000', $when);
	foreach my $node ($n1, $n2)
	{
		ok(rdma_wait($node, 'SELECT count(*) = 0 FROM rdma.stat_flows', 60), $node->name . " has no flow left $when");
	}
	return;
}

my %query = (
	'any order' => 'SELECT count(*), max(length(b)) FROM (SELECT * FROM %s OFFSET 0) t WHERE random() >= 0',
	'merged' => 'SELECT count(*), max(length(b)) FROM (SELECT * FROM %s ORDER BY a OFFSET 0) t WHERE random() >= 0');
# an endless view has to be in order by itself to give rows in order
$_->safe_psql('postgres', 'CREATE VIEW sorted AS SELECT a, b FROM endless LIMIT 3000000') foreach ($n1, $n2);
$coord->safe_psql('postgres', 'CREATE FOREIGN TABLE sorted (a bigint, b text) SERVER pair');

foreach my $victim ($n1, $n2)
{
	my $name = $victim->name;

	# ---- one node fails
	my $job = rdma_begin($coord, sprintf($query{'any order'}, "fails_on_$name"));
	rdma_outcome($job);
	like($job->{err}, qr/22012: division by zero.*$name/s, "an error on $name is the user's, with its SQLSTATE, and names it");
	ok(rdma_wait($other{$name}, $idle, 60), "and the other node stops");
	healthy("(error on $name)");

	# ---- one node dies
	$job = rdma_begin($coord, sprintf($query{'any order'}, 'endless'));
	ok(rdma_wait($coord, $flowing, 60), 'a scan of both nodes is under way');
	$victim->stop('immediate');
	rdma_outcome($job);
	like($job->{err}, qr/ERROR.*$name/s, "the scan fails when $name dies, and the error names it");
	ok(rdma_wait($other{$name}, $idle, 60), 'and the other node stops');
	$victim->start;
	healthy("($name died)");

	# ---- the session on one node ends
	$job = rdma_begin($coord, sprintf($query{'any order'}, 'endless'));
	ok(rdma_wait($coord, $flowing, 60), 'a scan of both nodes is under way');
	is($victim->safe_psql('postgres', "SELECT count(pg_terminate_backend(pid)) > 0 $worker"), 't', "the session on $name is ended");
	rdma_outcome($job);
	like($job->{err}, qr/ERROR.*$name/s, "the scan fails, and the error names $name");
	ok(rdma_wait($other{$name}, $idle, 60), 'and the other node stops');
	healthy("(session on $name ended)");

	# ---- the engine of one node dies
	$job = rdma_begin($coord, sprintf($query{'any order'}, 'endless'));
	ok(rdma_wait($coord, $flowing, 60), 'a scan of both nodes is under way');
	kill('KILL', rdma_engine_pid($victim));
	rdma_outcome($job);
	like($job->{err}, qr/ERROR/, "the scan fails when the engine of $name dies");
	ok(rdma_wait($other{$name}, $idle, 60), 'and the other node stops');
	healthy("(engine of $name died)");

	# ---- one node hangs, and the user cancels: the other one is told at once, and the hanging one when it can listen
	$job = rdma_begin($coord, sprintf($query{'any order'}, 'endless'));
	ok(rdma_wait($coord, $flowing, 60), 'a scan of both nodes is under way');
	my $pid = $victim->safe_psql('postgres', "SELECT pid $worker");
	kill('STOP', $pid);
	$coord->safe_psql('postgres', q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE '%endless%' AND pid <> pg_backend_pid()});
	ok(rdma_wait($other{$name}, $idle, 60), "a cancel reaches the other node while $name hangs");
	kill('CONT', $pid);
	rdma_outcome($job);
	like($job->{err}, qr/57014: canceling statement due to user request/, 'and the user gets it');
	ok(rdma_wait($victim, $idle, 60), "$name stops, too");
	healthy("(cancel while $name hung)");

	# ---- one node pauses
	$job = rdma_begin($coord, 'SELECT count(*), sum(a) FROM (SELECT * FROM slow OFFSET 0) t WHERE length(b) >= 0');
	ok(rdma_wait($victim, "SELECT count(*) = 1 $worker", 60), "$name runs a slow query");
	$pid = $victim->safe_psql('postgres', "SELECT pid $worker");
	if ($pid)
	{
		kill('STOP', $pid);
		ok(rdma_wait($other{$name}, $idle, 60), 'the other node ends while it pauses');
		kill('CONT', $pid);
	}
	rdma_outcome($job);
	is($job->{out} . $job->{err}, "1000|250500\n", 'and all rows are there');
}

foreach my $kind (sort keys %query)
{
	my $job = rdma_begin($coord, sprintf($query{$kind}, $kind eq 'merged' ? 'sorted' : 'endless'));
	ok(rdma_wait($coord, $kind eq 'merged' ? 'SELECT count(*) = 2 FROM rdma.stat_flows' : $flowing, 60), "$kind: a scan of both nodes is under way");
	$coord->safe_psql('postgres', q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE '%FROM%OFFSET 0%' AND pid <> pg_backend_pid()});
	rdma_outcome($job);
	like($job->{err}, qr/57014/, "$kind: a cancel ends it");
	ok(rdma_wait($_, $idle, 60), "$kind: " . $_->name . ' stops') foreach ($n1, $n2);
	healthy("($kind, cancelled)");
}

# ---- early ends and the same session again, many times in one transaction
is($coord->safe_psql('postgres', 'BEGIN; '
		. join(' ', map { "SELECT count(*) FROM (SELECT * FROM endless WHERE random() >= 0 LIMIT $_) t;" } (1, 10, 1000, 5))
		. ' SELECT count(*) FROM (SELECT * FROM small OFFSET 0) t; COMMIT'),
	"1\n10\n1000\n5\n2000", 'early ends in one transaction');
healthy('(early ends)');
done_testing();
