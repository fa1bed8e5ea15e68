# Several lanes: many pulls at a time are spread over them and right, whichever process dies; the admission window, weights and the counters of
# the merge queue on running clusters.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use IPC::Run qw(start finish);
use Time::HiRes qw(time usleep);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $conf = "rdma_fdw.admission_window = 0\nrdma_fdw.peer_timeout = '20s'\nlog_min_messages = log\n";
my ($coord, $n1) = map { rdma_node($_, conf => $conf . "rdma_fdw.engine_lanes = 4\n") } qw(coord n1);
my $n2 = rdma_node('n2', conf => $conf . "rdma_fdw.engine_lanes = 2\n");
rdma_connect($coord, n1 => $n1, n2 => $n2);
foreach my $node ($n1, $n2)
{
	$node->safe_psql('postgres', q{
		CREATE TABLE t AS SELECT g AS a, md5(g::text) AS b, repeat('x', g % 300) AS c FROM generate_series(1, 40000) g;
		ANALYZE t;
		CREATE VIEW big AS SELECT g AS a, repeat('x', 100) AS b FROM (SELECT generate_series(1::bigint, 200000000) AS g) s;
	});
}
$coord->safe_psql('postgres', "CREATE SCHEMA $_; IMPORT FOREIGN SCHEMA public FROM SERVER $_ INTO $_") foreach ('n1', 'n2');

sub query { return "SELECT count(*), sum(a), sum(hashtext(b)::bigint), sum(length(c)) FROM $_[0] WHERE random() >= 0"; }
my $expected = $n1->safe_psql('postgres', query('t'));

sub begin
{
	my ($node, $sql) = @_;
	my %job = (out => '', err => '');
	$job{run} = start([ 'psql', '-X', '-A', '-t', '-q', '-v', 'VERBOSITY=verbose', '-d', $node->connstr('postgres'), '-c', "SET application_name = 'victim'", '-c', $sql ],
		'<', '/dev/null', '>', \$job{out}, '2>', \$job{err});
	return \%job;
}

# Pulls from both nodes at the same time; true when all are right.
sub many
{
	my ($count) = @_;
	my @jobs = map { begin($coord, query(($_ % 2 ? 'n1' : 'n2') . '.t')) } 1 .. $count;
	my $right = 0;

	foreach my $job (@jobs)
	{
		finish($job->{run});
		chomp $job->{out};
		$right++ if $job->{out} eq $expected;
		diag($job->{out} . $job->{err}) if $job->{out} ne $expected;
	}
	return $right;
}

is(many(12), 12, 'pulls at the same time are right');
is($n1->safe_psql('postgres', 'SELECT lanes FROM rdma.stat_engine'), '4', 'four lanes run');
is($n1->safe_psql('postgres', 'SELECT count(*) FROM rdma.stat_lanes'), '4', 'and are in the view');

# Flows that are open at the same time lie on different lanes, as far as both nodes have them.
# A flow keeps the lane it was given, so those of before must be gone, and each must be there before the next one comes.
sub four_streams
{
	my @streams;

	ok(rdma_wait($_, 'SELECT count(*) = 0 FROM rdma.stat_flows', 60), 'the earlier flows are gone from ' . $_->name) foreach ($coord, $n1, $n2);
	for my $open (1 .. 4)
	{
		push @streams, begin($coord, "SELECT count(*), max(length(b)) FROM n1.big WHERE random() >= 0");
		rdma_wait($n1, "SELECT count(*) = $open FROM rdma.stat_flows WHERE role = 'sender' AND bytes > 0", 60);
	}
	return @streams;
}
my @endless = four_streams();
ok(rdma_wait($n1, "SELECT count(DISTINCT lane) = 4 FROM rdma.stat_flows WHERE role = 'sender' AND bytes > 0", 120), 'four streams of one node lie on four lanes');
my @endless2;
for my $open (1 .. 2)
{
	push @endless2, begin($coord, "SELECT count(*), max(length(b)) FROM n2.big WHERE random() >= 0");
	rdma_wait($n2, "SELECT count(*) = $open FROM rdma.stat_flows WHERE role = 'sender' AND bytes > 0", 60);
}
ok(rdma_wait($n2, "SELECT count(DISTINCT lane) = 2 FROM rdma.stat_flows WHERE role = 'sender' AND bytes > 0", 60), 'two of the node that has two lanes lie on both');
is($n1->safe_psql('postgres', 'SELECT count(*) FROM rdma.stat_lanes WHERE bytes_sent > 0'), '4', 'each lane has sent');
is($n1->safe_psql('postgres', 'SELECT count(*) FROM rdma.stat_lanes WHERE requests < work_requests OR work_requests < doorbells OR work_requests < signaled'),
	'0', 'no more work requests than requests, no more doorbells and signals than work requests');
is(many(6), 6, 'others are right beside them');

# One of the readers dies, the other streams go on.
my $victims = "SELECT pid FROM pg_stat_activity WHERE application_name = 'victim' AND query LIKE '%n1.big%' LIMIT 1";
kill 'KILL', $coord->safe_psql('postgres', $victims);
foreach my $job (@endless, @endless2)
{
	finish($job->{run});
	like($job->{err}, qr/server closed|57P0|08\w\w\w|terminat/, 'kill -9 of a reader ends all sessions of its cluster, as always');
}
rdma_healthy($coord, query('n1.t'), $expected, 'after kill -9 of a reader');
ok(rdma_wait($_, 'SELECT count(*) = 0 FROM rdma.stat_flows', 60), 'no flow is left on ' . $_->name) foreach ($n1, $n2);
is(many(8), 8, 'pulls at the same time are right again');

# The engine of the data node dies with four streams on four lanes.
@endless = four_streams();
ok(rdma_wait($n1, "SELECT count(DISTINCT lane) = 4 FROM rdma.stat_flows WHERE role = 'sender' AND bytes > 0", 60), 'four streams on four lanes');
my $engine = rdma_engine_pid($n1);
kill 'TERM', $engine;
foreach my $job (@endless)
{
	finish($job->{run});
	like($job->{err}, qr/ERROR:/, 'a stream whose engine ends is an error');
}
ok(rdma_wait($n1, "SELECT pid <> $engine FROM rdma.stat_engine WHERE pid IS NOT NULL", 60), 'the engine comes back');
rdma_healthy($coord, query('n1.t'), $expected, 'after an engine ended');
ok(rdma_wait($_, 'SELECT count(*) = 0 FROM rdma.stat_flows', 60), 'no flow is left on ' . $_->name) foreach ($coord, $n1, $n2);
is(many(8), 8, 'and pulls at the same time are right');

# The admission window: off, nothing is counted; on, it is kept, and results stay right. It is smaller than a buffer (256 kB): one at a time, so any two
# that are ready at the same time on all lanes make one wait.
is($n1->safe_psql('postgres', 'SELECT sum(throttled), max(e.bytes_in_flight_max) FROM rdma.stat_lanes, rdma.stat_engine e'), '0|0', 'without a window nothing waits');
$n1->append_conf('postgresql.conf', "rdma_fdw.admission_window = '64kB'\n");
$n1->reload;
@endless = map { begin($coord, "SELECT count(*), max(length(b)) FROM n1.big WHERE random() >= 0") } 1 .. 8;
ok(rdma_wait($n1, 'SELECT sum(throttled) > 0 FROM rdma.stat_lanes', 120), 'with one lanes wait');
is(many(4), 4, 'pulls beside them are right');
cmp_ok($n1->safe_psql('postgres', 'SELECT bytes_in_flight_max FROM rdma.stat_engine'), '<=', 256 * 1024, 'never two were in flight');
$coord->safe_psql('postgres', "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'victim'");
finish($_->{run}) foreach @endless;
ok(rdma_wait($n1, "SELECT bytes_in_flight = 0 FROM rdma.stat_engine", 60), 'and nothing is, afterwards');
$n1->append_conf('postgresql.conf', "rdma_fdw.admission_window = 0\n");
$n1->reload;

# The reader's weight reaches the node that sends; an administrator there may change it.
$coord->safe_psql('postgres', 'ALTER ROLE postgres SET rdma_fdw.flow_weight = 40');
my $job = begin($coord, "SELECT count(*), max(length(b)) FROM n1.big WHERE random() >= 0");
ok(rdma_wait($n1, "SELECT weight = 40 FROM rdma.stat_flows WHERE role = 'sender' AND bytes > 0", 60), 'the weight of the reader\'s role reaches the sender');
is($n1->safe_psql('postgres', "SELECT rdma.set_flow_weight(flow, 7) FROM rdma.stat_flows WHERE role = 'sender'"), 't', 'it is changed');
is($n1->safe_psql('postgres', "SELECT weight FROM rdma.stat_flows WHERE role = 'sender'"), '7', 'while the stream runs');
my ($status, $out, $err) = $n1->psql('postgres', 'SELECT rdma.set_flow_weight(0, 101)');
like($err, qr/between 1 and 100/, 'a weight out of range is refused');
is($n1->safe_psql('postgres', 'SELECT rdma.set_flow_weight(-1, 5) OR rdma.set_flow_weight(1000000, 5)'), 'f', 'a stream that does not exist has none');
$coord->safe_psql('postgres', "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'victim'");
finish($job->{run});
ok(rdma_wait($_, 'SELECT count(*) = 0 FROM rdma.stat_flows', 60), 'no flow is left on ' . $_->name) foreach ($coord, $n1, $n2);

done_testing();
