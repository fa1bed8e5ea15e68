# Each technique of the engine at work in a real query, seen in its counter; and switched off, the counter stands still.
#
# Settings change on the running engine by ALTER SYSTEM and a reload. Every change also sets rdma_fdw.poll_time to a value of its own: the lanes take
# all settings together, so when the view shows that value the others are in force, too.
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

my $sentinel = 10;

# On the data node, whose engine sends; what is not named goes back to its default.
sub settings
{
	my (%settings) = @_;

	$sentinel++;
	$n1->safe_psql('postgres', 'ALTER SYSTEM RESET ALL');
	$n1->safe_psql('postgres', "ALTER SYSTEM SET rdma_fdw.poll_time = $sentinel");
	$n1->safe_psql('postgres', "ALTER SYSTEM SET rdma_fdw.$_ = '$settings{$_}'") foreach sort keys %settings;
	$n1->safe_psql('postgres', 'SELECT pg_reload_conf()');
	rdma_wait($n1, "SELECT bool_and(poll_time = $sentinel) FROM rdma.stat_lanes", 60)
	  or die 'the lanes did not take their settings';
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

settings();
moves('sum(requests)', 'requests are counted');
moves('sum(merged)', 'neighbouring buffers merge');
settings(merge_limit => 0);
stands_still('sum(merged)', 'rdma_fdw.merge_limit = 0: none');
stands_still('sum(requests - work_requests)', 'and every request is a work request');

moves('sum(chained)', 'work requests are chained');
settings(merge_limit => 0, chain_limit => 1);
stands_still('sum(chained)', 'rdma_fdw.chain_limit = 1: none');
stands_still('sum(work_requests - doorbells)', 'and each has a doorbell of its own');

settings(merge_limit => 0);
moves('sum(work_requests - signaled)', 'some work requests ask for no completion');
settings(merge_limit => 0, selective_signaling => 'off');
stands_still('sum(work_requests - signaled)', 'rdma_fdw.selective_signaling = off: all ask for one');

settings(merge_limit => 0, admission_window => '4kB');
moves('sum(throttled)', 'a full admission window makes the lane wait');
moves('sum(throttled_ms)', 'for a time');
settings(merge_limit => 0, admission_policy => 'none', admission_window => '4kB');
stands_still('sum(throttled)', 'rdma_fdw.admission_policy = none: never');
settings(merge_limit => 0);
stands_still('sum(throttled)', 'nor with rdma_fdw.admission_window = 0');

# Credit throttling: at most that many work requests are outstanding on a queue pair.
settings(merge_limit => 0, credit_limit => 1);
is(counter('max(c_max)'), 1, 'rdma_fdw.credit_limit = 1 is in force');
moves('sum(credit_waits)', 'streams wait for credit');
settings(merge_limit => 0, credit_limit => 0);
is(counter('max(c_max)'), '', 'rdma_fdw.credit_limit = 0: no limit');
stands_still('sum(credit_waits)', 'nobody waits');
is( $n1->safe_psql('postgres', 'SELECT bool_and(c_max IS NULL AND outstanding = 0 AND outstanding_max > 1) FROM rdma.qps'), 't', 'and the queue pair had more outstanding');

# Polling. A lane arms before it sleeps; a busy one does neither.
settings();
is(counter('min(polling_mode)'), 'adaptive', 'adaptive polling is the default');
moves('sum(sleeps)', 'an adaptive lane sleeps');
settings(polling_mode => 'busy');
stands_still("sum(sleeps + armed)", 'a busy lane does not even arm its queue');
moves('sum(empty_polls)', 'and polls in vain');
moves('sum(busy_ms)', 'which takes CPU time');
settings(polling_mode => 'event');
{
	my ($armed, $completions) = split /\|/, counter('sum(armed) AS a, sum(completions) AS c');

	pull() for 1 .. 3;
	my ($armed_after, $completions_after) = split /\|/, counter('sum(armed) AS a, sum(completions) AS c');
	cmp_ok($completions_after, '>', $completions, 'an event lane gets completions');
	cmp_ok($armed_after - $armed + 1, '>=', $completions_after - $completions, 'and arms for each');
}
foreach my $mode ('event_batch', 'hybrid', 'adaptive')
{
	settings(polling_mode => $mode);
	is(counter('min(polling_mode)'), $mode, "polling mode $mode is in force");
	moves('sum(sleeps)', 'the lane sleeps');
}
is(rdma_wait($n1, 'SELECT bool_and(asleep) FROM rdma.stat_lanes', 60), 1, 'and in the end it sleeps on');

done_testing();
