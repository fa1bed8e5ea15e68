# Each technique of the engine at work in a real query, seen in its counter; those with a setting switched off, too: the counter stands still.
# test/unit and bench/engine switch off the others. Settings change on the running engine by ALTER SYSTEM and a reload.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use Time::HiRes qw(time);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $coord = rdma_node('coord');
my $n1    = rdma_node('n1');
rdma_connect($coord, n1 => $n1);

# Small buffers and many of them: requests pile up before the lane.
$n1->safe_psql('postgres', "CREATE TABLE t AS SELECT i AS a, repeat('x', 100) AS b FROM generate_series(1, 40000) i; ANALYZE t");
$coord->safe_psql('postgres', q{
	CREATE FOREIGN TABLE t (a int, b text) SERVER n1 OPTIONS (receive_buffers '16', receive_buffer_size '4kB')});

# On the data node, whose engine sends; what is not named goes back to its default.
sub settings
{
	my (%settings) = @_;
	my $mode = $settings{polling_mode} // 'adaptive';

	# The lanes take all settings together: when the view shows a mode that was not there before, the others are in force, too.
	foreach my $polling ($mode eq 'busy' ? 'adaptive' : 'busy', $mode)
	{
		$n1->safe_psql('postgres', 'ALTER SYSTEM RESET ALL');
		$n1->safe_psql('postgres', "ALTER SYSTEM SET rdma_fdw.$_ = '$settings{$_}'") foreach sort keys %settings;
		$n1->safe_psql('postgres', "ALTER SYSTEM SET rdma_fdw.polling_mode = $polling");
		$n1->safe_psql('postgres', 'SELECT pg_reload_conf()');
		rdma_wait($n1, "SELECT bool_and(polling_mode = '$polling') FROM rdma.stat_lanes", 60)
		  or die 'the lanes did not take their settings';
	}
	rdma_wait($n1, 'SELECT count(*) = 0 FROM rdma.stat_flows', 60) or die 'a stream does not end';
	return;
}

# random() keeps the sum on the coordinator, so every row comes.
sub pull
{
	my $got = $coord->safe_psql('postgres', 'SELECT count(b), sum(a) FROM t WHERE random() >= 0');

	die "the pull brought $got" if $got ne '40000|800020000';
	rdma_wait($n1, 'SELECT count(*) = 0 FROM rdma.stat_flows', 60) or die 'a stream does not end';
	return;
}

# An expression over rdma.stat_lanes.
sub counter
{
	return $n1->safe_psql('postgres', "SELECT $_[0] FROM rdma.stat_lanes");
}

# How far a pile builds up is a matter of chance, so pull until the counter has moved.
sub moves
{
	my ($expression, $what) = @_;
	my $before = counter($expression);
	my $end    = time() + 60;
	my $after;

	do
	{
		pull();
		$after = counter($expression);
	} while ($after == $before && time() < $end);
	cmp_ok($after, '>', $before, $what);
	return;
}

sub stands_still
{
	my ($expression, $what) = @_;
	my $before = counter($expression);

	pull() for 1 .. 3;
	is(counter($expression), $before, $what);
	return;
}

pull();

moves('sum(requests)', 'requests are counted');
moves('sum(merged)', 'neighbouring buffers merge');
moves('sum(chained)', 'work requests are chained');
moves('sum(work_requests - signaled)', 'some work requests ask for no completion');

# Too little for more than one buffer at a time.
settings(admission_window => '4kB');
moves('sum(throttled)', 'a full admission window makes the lane wait');
moves('sum(throttled_ms)', 'for a time');
settings(admission_window => 0);
stands_still('sum(throttled)', 'rdma_fdw.admission_window = 0: never');

# Polling. A lane arms before it sleeps; a busy one does neither.
settings();
is(counter('min(polling_mode)'), 'adaptive', 'adaptive polling');
moves('sum(sleeps)', 'an adaptive lane sleeps');
settings(polling_mode => 'busy');
stands_still("sum(sleeps + armed)", 'a busy lane does not even arm its queue');
moves('sum(empty_polls)', 'and polls in vain');
moves('sum(busy_ms)', 'which takes CPU time');
settings();
moves('sum(sleeps)', 'an adaptive lane sleeps again');
is(rdma_wait($n1, 'SELECT bool_and(asleep) FROM rdma.stat_lanes', 60), 1, 'and in the end it sleeps on');

done_testing();
