# Shared receive pools: the memory of a consumer's receive buffers with 2, 8 and 32 producers, which flows claim and which ask, that the counters
# stand still when it is off, and that no end of a member leaves anything behind. The members are SQL functions of
# test/modules/flow_kinds; 073_flow_kinds_pooled.pl has all flow kinds over the smallest pool.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use IPC::Run qw(start finish);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $buffer = 65536;
my $consumer = rdma_node('consumer', conf => "max_connections = 100\n");
my $producers = rdma_node('producers', conf => "max_connections = 100\n");
my $other = rdma_node('other');

foreach my $node ($consumer, $producers, $other)
{
	$node->safe_psql('postgres', q{
		CREATE EXTENSION rdma_fdw;
		CREATE FUNCTION kinds_greet() RETURNS bytea AS '$libdir/flow_kinds_test' LANGUAGE C;
		CREATE FUNCTION kinds_connect(text, bytea) RETURNS int AS '$libdir/flow_kinds_test' LANGUAGE C;
		CREATE FUNCTION kinds_make(int, bytea[], bytea[], int, int) RETURNS bytea AS '$libdir/flow_kinds_test' LANGUAGE C;
		CREATE FUNCTION kinds_listen(bytea, int) RETURNS bytea AS '$libdir/flow_kinds_test' LANGUAGE C;
		CREATE FUNCTION kinds_open(bytea, int) RETURNS void AS '$libdir/flow_kinds_test' LANGUAGE C;
		CREATE FUNCTION kinds_produce(int, int, bigint, bigint, int, boolean) RETURNS text AS '$libdir/flow_kinds_test' LANGUAGE C;
		CREATE FUNCTION kinds_consume(bytea, int, bigint, bigint, int, bigint,
			OUT how text, OUT batches bigint, OUT sum bigint, OUT hash bigint, OUT per_producer bigint[])
			AS '$libdir/flow_kinds_test' LANGUAGE C;
		CREATE FUNCTION kinds_expected(int, bigint) RETURNS bigint AS '$libdir/flow_kinds_test' LANGUAGE C;
		CREATE EXTENSION dblink;

		-- A gather flow: the consumer in this session, its producers on the nodes whose connection strings are given, in turn. The buffers that the
		-- consumer's node has in use once all have opened their streams, and what it read then.
		CREATE FUNCTION gather(nodes text[], producers int, batches bigint, pause int, OUT used bigint, OUT how text, OUT sum bigint, OUT count bigint)
		LANGUAGE plpgsql AS $$
		DECLARE d bytea; greetings bytea[]; node text; problem text;
		BEGIN
			FOR i IN 0 .. producers - 1 LOOP
				node := nodes[1 + i % cardinality(nodes)];
				PERFORM dblink_connect('p' || i, node || ' application_name=p' || i);
				PERFORM dblink_exec('p' || i, 'BEGIN');
				greetings := greetings || (SELECT r FROM dblink('p' || i, 'SELECT kinds_greet()') t(r bytea));
				IF i < cardinality(nodes) THEN
					PERFORM kinds_connect('127.0.0.1', (SELECT r FROM dblink('p' || i, format('SELECT rdma_internal.hello(%L)', kinds_greet())) t(r bytea)));
				END IF;
			END LOOP;
			d := kinds_listen(kinds_make(3, greetings, ARRAY[kinds_greet()], 4, 65536), 0);
			FOR i IN 0 .. producers - 1 LOOP
				PERFORM r FROM dblink('p' || i, format('SELECT kinds_open(%L, %s)', d, i)) t(r text);
			END LOOP;
			used := buffer_used FROM rdma.stat_engine;
			FOR i IN 0 .. producers - 1 LOOP
				PERFORM dblink_send_query('p' || i, format('SELECT kinds_produce(%s, 1, 0, %s, 60000, true)', i, batches));
			END LOOP;
			SELECT t.how, t.sum, t.batches INTO how, sum, count FROM kinds_consume(d, 0, 0, 0, pause, 0) t;
			FOR i IN 0 .. producers - 1 LOOP
				PERFORM r FROM dblink_get_result('p' || i) t(r text);
				PERFORM r FROM dblink_get_result('p' || i) t(r text);
				PERFORM dblink_exec('p' || i, 'COMMIT');
				PERFORM dblink_disconnect('p' || i);
			END LOOP;
		END $$;
	});
}

sub connstr { my ($node) = @_; return 'host=127.0.0.1 port=' . $node->port . ' dbname=postgres user=postgres'; }

# used, how, sum, count
sub gather
{
	my ($settings, $nodes, $count, $batches, $pause) = @_;
	my $list = join(',', map { "'" . connstr($_) . "'" } @$nodes);
	return split /\|/, $consumer->safe_psql('postgres',
		"SET rdma_fdw.receive_buffers = 4; SET rdma_fdw.receive_buffer_size = 64; $settings; SELECT used, how, sum, count FROM gather(ARRAY[$list], $count, $batches, $pause)");
}

sub expected { return $consumer->safe_psql('postgres', "SELECT kinds_expected($_[0], $_[1])"); }

sub lanes
{
	my ($node) = @_;
	my %row;
	@row{qw(claims lost asked grants at_once)} = split /\|/, $node->safe_psql('postgres',
		'SELECT sum(claims), sum(claims_lost), sum(claims_asked), sum(grants), max(claims_at_once) FROM rdma.stat_lanes');
	return \%row;
}

sub nothing_left
{
	my ($when) = @_;
	ok(rdma_wait($consumer, 'SELECT count(*) = 0 FROM rdma.stat_flows', 60), "no flow is left $when");
	ok(rdma_wait($producers, 'SELECT count(*) = 0 FROM rdma.stat_flows', 60), "nor at the producers $when");
	ok(rdma_wait($consumer, 'SELECT buffer_used = 0 FROM rdma.stat_engine', 60), "and no buffer $when");
	return;
}

# ---- memory: by the number of consumers, not of producers
my %used;
my %disabled = (off => 'receive_pool', on => 'receive_pool_costs', auto => "''");
foreach my $count (2, 8, 32)
{
	foreach my $how ('off', 'on', 'auto')
	{
		my ($used, $end, $sum, $batches) = gather("SET rdma_fdw.disable = $disabled{$how}", [$producers], $count, 20, 0);

		$used{$how}{$count} = $used;
		is("$end $sum $batches", 'ended ' . expected($count, 20) . ' ' . $count * 20, "$count producers, pool $how: every batch came once");
	}
	is($used{off}{$count}, $count * 4 * $buffer, "$count producers: buffers of their own need four each");
}
is($used{on}{$_}, 4096 + 16 * $buffer, "$_ producers: a pool needs sixteen and its words") foreach (2, 8, 32);
is((gather('SET rdma_fdw.disable = receive_pool_costs; RESET rdma_fdw.receive_buffer_size', [$producers], 32, 20, 0))[0], 4096 + 32 * $buffer,
	'where buffers are smaller than configured it has one for each producer');
is($used{auto}{2}, $used{off}{2}, 'auto: two producers have their own');
is($used{auto}{$_}, $used{on}{$_}, "auto: $_ share") foreach (8, 32);
nothing_left('after flows of all sizes');

# ---- which flows claim, and which ask
my $before = lanes($producers);
gather('SET rdma_fdw.disable = receive_pool', [$producers], 8, 50, 0);
is_deeply(lanes($producers), $before, 'off: no counter moves at the producers');

SKIP:
{
	skip 'the device has no atomics', 3 if $consumer->safe_psql('postgres', 'SELECT bool_or(atomics) FROM rdma_internal.devices() WHERE in_use') ne 't';
	my ($used, $end) = gather('SET rdma_fdw.disable = receive_pool_costs; SET rdma_fdw.receive_buffers = 16', [$producers], 8, 50, 0);
	my $after = lanes($producers);
	is($end, 'ended', 'a pool with room for all');
	cmp_ok($after->{claims} - $before->{claims}, '>=', 8, 'its buffers are claimed');
	cmp_ok($after->{at_once}, '>=', 1, 'so many at once as the view says');
}
$before = lanes($producers);
my $granted = lanes($consumer)->{grants};
my ($used, $end, $sum, $batches) = gather('SET rdma_fdw.disable = receive_pool_costs, receive_claims', [$producers], 8, 50, 0);
my $after = lanes($producers);
is("$end $sum", 'ended ' . expected(8, 50), 'granted: every batch came');
is($after->{claims}, $before->{claims}, 'and none by compare-and-swap');
is($after->{asked} - $before->{asked}, lanes($consumer)->{grants} - $granted, 'all that were asked for were granted');
cmp_ok($after->{asked} - $before->{asked}, '>=', 8 * 50, 'one for each');

# ---- a consumer that is slow, and a pool that is too small for its producers
$before = lanes($producers);
($used, $end, $sum, $batches) = gather('SET rdma_fdw.disable = receive_pool_costs; SET rdma_fdw.receive_buffers = 1', [$producers, $other], 20, 10, 1000);
is("$end $sum $batches", 'ended ' . expected(20, 10) . ' 200', 'twenty producers of two nodes take turns in four buffers');
is($used, 4096 + 4 * $buffer, 'in that memory');
$after = lanes($producers);
cmp_ok($after->{asked} + $after->{lost} - $before->{asked} - $before->{lost}, '>', 0, 'who finds none free tries again, or asks');
nothing_left('after a crowded pool');

# ---- bad days
sub start_endless
{
	my $list = join(',', map { "'" . connstr($_) . "'" } $producers, $other);
	my ($out, $err) = ('', '');
	my $job = start([ 'psql', '-X', '-A', '-t', '-q', '-d', $consumer->connstr('postgres') . ' application_name=reader', '-c', 'SET rdma_fdw.disable = receive_pool_costs',
		'-c', 'SET rdma_fdw.receive_buffers = 1; SET rdma_fdw.receive_buffer_size = 64', '-c', "SELECT how FROM gather(ARRAY[$list], 12, 100000000, 0)" ],
		'<', '/dev/null', '>', \$out, '2>', \$err);
	ok(rdma_wait($consumer, 'SELECT coalesce(sum(bytes) > 20000000, false) FROM rdma.stat_flows WHERE pool_buffers = 4', 60), 'batches move through a small pool');
	return ($job, \$err);
}

foreach my $bad ([ 'a producer is killed', sub { kill 'KILL', $producers->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE application_name = 'p2'"); } ],
	[ 'a producer is cancelled', sub { $producers->safe_psql('postgres', "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'p2'"); } ],
	[ 'the consumer is cancelled', sub { $consumer->safe_psql('postgres', "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'reader'"); } ],
	[ 'the engine of some producers is killed', sub { kill 'KILL', rdma_engine_pid($other); } ],
	[ 'the consumer is terminated', sub { $consumer->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'reader'"); } ])
{
	my ($when, $do) = @$bad;
	my ($job, $err) = start_endless();

	$do->();
	finish($job);
	like($$err, qr/ERROR|FATAL/, "the reader has an error when $when");
	ok(rdma_wait($_, 'SELECT pid IS NOT NULL FROM rdma.stat_engine', 60), "the engine of " . $_->name . " runs when $when") foreach ($producers, $other);
	nothing_left("when $when");
	($used, $end, $sum) = gather('SET rdma_fdw.disable = receive_pool_costs; SET rdma_fdw.receive_buffers = 1', [$producers, $other], 12, 10, 0);
	is("$end $sum", 'ended ' . expected(12, 10), "and the next flow works after $when");
}

done_testing();
