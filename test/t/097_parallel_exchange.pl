# Bad days of parallel workers that share the rows of exchanges, and of those that send them: one is stopped for a while, ended or killed; their leader is cancelled; another
# node goes away while rows are collected; an error comes up in one of them. There is an error or the whole result, never a part of it, and
# afterwards no worker, no flow, no buffer and no file is left, and the next statement works.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use RdmaExchange;
use IPC::Run qw(start finish);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $conf = "jit = off\nrdma_fdw.peer_timeout = '20s'\nwork_mem = '64kB'\nhash_mem_multiplier = 64\nmax_parallel_workers_per_gather = 2\nmax_parallel_workers = 8\n"
  . "parallel_setup_cost = 0\nparallel_tuple_cost = 0\nmin_parallel_table_scan_size = 0\nenable_mergejoin = off\nenable_nestloop = off\n";
my %node = map { $_ => rdma_node($_, conf => $conf) } qw(n1 n2);
my $coord = $node{n1};

exchange_setup($coord, %node);
foreach my $name (qw(n1 n2))
{
	$node{$name}->safe_psql('postgres', q{
		CREATE TABLE t AS SELECT n AS id, md5(n::text) AS t FROM generate_series(1, 4000) n;
		-- waits until the gate is open: a file, as its snapshot would not show it a row
		CREATE FUNCTION held(i int) RETURNS int LANGUAGE plpgsql PARALLEL SAFE AS $$
		BEGIN
			WHILE pg_stat_file('gate', true) IS NULL LOOP PERFORM pg_sleep(0.01); END LOOP;
			RETURN i;
		END $$;
		ANALYZE;
	});
}

sub join_of
{
	my ($output, $probe) = @_;
	return "SELECT $output FROM rdma_internal.exchange('number=1 kind=repartition keys=1 rows=4000', '$probe') AS p(id int, t text)"
	  . " JOIN rdma_internal.exchange('number=2 kind=repartition keys=1 rows=4000', 'SELECT id, t FROM t') AS b(id int, t text) USING (id)";
}
my $fast = 'SELECT id, t FROM t';
# what the processes of a Gather do, and what is done before they are there
my $held_above = join_of('count(held(id))', $fast);
my $held_below = join_of('count(*)', 'SELECT held(id), t FROM t');

sub whole
{
	my ($when) = @_;
	my %r = exchange_run($coord, 'n1,n2', 2, join_of('count(*)', $fast));

	is(($r{n1} // 0) + ($r{n2} // 0), 16000, "a join is whole $when") or diag(explain(\%r));
	return %r;
}

sub nothing_left
{
	my ($when) = @_;
	foreach my $name (sort keys %node)
	{
		ok(rdma_wait($node{$name}, 'SELECT count(*) = 0 FROM rdma.stat_flows', 60), "no flow is left on $name $when");
		ok(rdma_wait($node{$name}, 'SELECT coalesce(buffer_used, 0) = 0 FROM rdma.stat_engine', 60), "no buffer is held on $name $when");
		ok(rdma_wait($node{$name}, "SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'parallel worker'", 60), "no worker is left on $name $when");
		ok(rdma_wait($node{$name}, "SELECT count(*) = 0 FROM pg_ls_dir('base/pgsql_tmp', true, false)", 60), "no file is left on $name $when");
	}
	return;
}

sub open_gate
{
	my ($open) = @_;
	foreach my $name (sort keys %node)
	{
		my $gate = $node{$name}->data_dir . '/gate';

		append_to_file($gate, '') if $open;
		unlink $gate if !$open;
	}
	return;
}

my %stats = whole('with workers');
like("$stats{stats_n1} $stats{stats_n2}", qr/,[1-9][0-9]{4,},\w+,\d+\/\d+\/\d+\)/, 'of which some rows were in a file, and those of each process are counted') or diag(explain(\%stats));
nothing_left('after it');

# Runs the statement until `until` holds on n2, lets `what` happen to process $pid there, and returns the answers.
sub bad_day
{
	my ($sql, $until, $what, $when) = @_;
	my ($out, $err) = ('', '');
	my $job = start([ 'psql', '-X', '-A', '-t', '-q', '-d', $coord->connstr('postgres'), '-c', exchange_sql('n1,n2', 2, $sql) ],
		'<', '/dev/null', '>', \$out, '2>', \$err);

	ok(rdma_wait($node{n2}, "SELECT count(*) > 0 FROM ($until) s", 60), "it runs $when");
	$what->($node{n2}->safe_psql('postgres', "SELECT pid FROM ($until) s LIMIT 1"));
	finish($job);
	return (exchange_parse($out), error => $err);
}
my $leader = "SELECT pid FROM pg_stat_activity WHERE application_name = 'member_n2' AND backend_type = 'client backend' AND query LIKE '%rdma_internal.exchange(''number%' AND state = 'active'";
# one that has the rows and is held
my $worker = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'parallel worker' AND leader_pid IN ($leader) AND wait_event = 'PgSleep'";

# ---- a worker that stands still: its part comes late
my %r = bad_day($held_above, $worker, sub { my ($pid) = @_; kill 'STOP', $pid; open_gate(1); kill 'CONT', $pid; }, 'when a worker stands still');
is(($r{n1} // 0) + ($r{n2} // 0), 16000, 'which loses nothing') or diag(explain(\%r));
open_gate(0);
nothing_left('after a worker stood still');
%r = bad_day($held_below, $worker, sub { my ($pid) = @_; kill 'STOP', $pid; open_gate(1); kill 'CONT', $pid; }, 'when a worker that sends stands still');
is(($r{n1} // 0) + ($r{n2} // 0), 16000, 'which loses nothing') or diag(explain(\%r));
open_gate(0);
nothing_left('after a worker that sends stood still');

# ---- rows come late: the workers that are to share them are there before the last one is
my $sharer = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'parallel worker' AND query LIKE '%rdma_internal.exchange(''number%' AND leader_pid IN ($leader)";
%r = bad_day($held_below, $sharer, sub { open_gate(1) }, 'while rows come');
is(($r{n1} // 0) + ($r{n2} // 0), 16000, 'and they get all of them') or diag(explain(\%r));
open_gate(0);
nothing_left('after rows came late');

# ---- a worker or its leader ends. The other node may have all of its rows already, or hear of it.
my %ends = (
	'a worker is terminated' => [ $held_above, $worker, sub { $node{n2}->safe_psql('postgres', "SELECT pg_terminate_backend($_[0])"); open_gate(1) } ],
	'a worker that sends is terminated' => [ $held_below, $worker, sub { $node{n2}->safe_psql('postgres', "SELECT pg_terminate_backend($_[0])"); open_gate(1) } ],
	'a worker that sends is killed' => [ $held_below, $worker, sub { kill 'KILL', $_[0]; ok(rdma_wait($node{n2}, 'SELECT pid IS NOT NULL FROM rdma.stat_engine', 60), 'the node comes back'); open_gate(1) } ],
	'the leader is cancelled' => [ $held_above, $leader . " AND EXISTS ($worker)", sub { $node{n2}->safe_psql('postgres', "SELECT pg_cancel_backend($_[0])"); open_gate(1) } ],
	'the leader is cancelled as it collects' => [ $held_below, $leader . " AND wait_event = 'PgSleep'", sub { $node{n2}->safe_psql('postgres', "SELECT pg_cancel_backend($_[0])"); open_gate(1) } ],
	'a worker is killed' => [ $held_above, $worker, sub { kill 'KILL', $_[0]; ok(rdma_wait($node{n2}, 'SELECT pid IS NOT NULL FROM rdma.stat_engine', 60), 'the node comes back'); open_gate(1) } ]);
foreach my $end (sort keys %ends)
{
	my %answers = bad_day(@{ $ends{$end} }, "when $end");

	like($answers{n2} // $answers{error}, qr/ERROR: /, "its node fails when $end") or diag(explain(\%answers));
	open_gate(0);
	nothing_left("after $end");
	whole("after $end");
}

# ---- a node whose rows others collect goes away
%r = bad_day($held_below, $leader . " AND wait_event = 'PgSleep'", sub { $node{n2}->safe_psql('postgres', "SELECT pg_terminate_backend($_[0])"); open_gate(1) }, 'when a node goes away');
like($r{n1} // $r{error}, qr/ERROR: (?!canceling statement due to statement timeout)/, 'which fails where its rows are missing') or diag(explain(\%r));
open_gate(0);
nothing_left('after a node went away');

# ---- an error in what a worker that sends computes, or its leader
%r = exchange_run($coord, 'n1,n2', 2, join_of('count(*)', 'SELECT 4100 / (id - 1700), t FROM t'));
like(join(' ', map { $_ // '' } @r{qw(n1 n2)}), qr/ERROR: .*division by zero/, 'an error in a process that sends');
nothing_left('after an error of a process that sends');

# ---- an error in what the processes do
%r = exchange_run($coord, 'n1,n2', 2, join_of('sum(1 / (id - 1700))', $fast));
like(join(' ', map { $_ // '' } @r{qw(n1 n2)}), qr/ERROR: .*division by zero/, 'an error in a process of a Gather');
nothing_left('after an error');
whole('after all of that');

done_testing();
