# Bad days of rdma_internal.exchange: a backend, an engine or a query fails while nodes build or probe, or one is stopped for a while. Every other node gets an error that
# says so, within the deadline, nobody gets a result that is not whole, and afterwards no flow and no buffer is held anywhere and the next statement works.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use RdmaEngine;
use RdmaExchange;
use X25519;
use IPC::Run qw(start finish);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $conf = "max_parallel_workers_per_gather = 0\njit = off\nrdma_fdw.peer_timeout = '20s'\n";
my %node = map { $_ => rdma_node($_, conf => $conf) } qw(n1 n2 n3);
my $coord = $node{n3};
my @all = values %node;

exchange_setup($coord, %node);
foreach my $name (qw(n1 n2))
{
	# A row of these takes its time on this node: the build side, or the probe side.
	$node{$name}->safe_psql('postgres', q{
		CREATE TABLE t AS SELECT n AS id, md5(n::text) AS t FROM generate_series(1, 4000) n;
		CREATE FUNCTION slowly(int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.02); RETURN $1; END $$;
		ANALYZE;
	});
}

my $fast = 'SELECT id, t FROM t';
my $slow = 'SELECT slowly(id), t FROM t';
sub join_of
{
	my ($probe, $build) = @_;
	return "SELECT count(*) FROM rdma_internal.exchange('number=1 kind=repartition keys=1 rows=100000', '$probe') AS p(id int, t text)"
	  . " JOIN rdma_internal.exchange('number=2 kind=repartition keys=1 rows=1000', '$build') AS b(id int, t text) USING (id)";
}
my %phase = (build => join_of($fast, $slow), probe => join_of($slow, $fast));
my %whole = exchange_run($coord, 'n1,n2', 2, join_of($fast, $fast));
my $total = $whole{n1} + $whole{n2};
is($total, 16000, 'the join works');

sub buffers_back
{
	my ($when) = @_;
	foreach my $name (sort keys %node)
	{
		ok(rdma_wait($node{$name}, 'SELECT count(*) = 0 FROM rdma.stat_flows', 60), "no flow is left on $name $when");
		ok(rdma_wait($node{$name}, 'SELECT coalesce(buffer_used, 0) = 0 FROM rdma.stat_engine', 60), "no buffer is held on $name $when");
	}
	return;
}

sub bad_day
{
	my ($phase, $how, $survivor_says) = @_;
	my $when = "when n2 $how in the $phase phase";
	my ($out, $err) = ('', '');
	my $sql = exchange_sql('n1,n2', 2, $phase{$phase}, slot_size => 4096, slots => 2, settings => { all => 'SET enable_mergejoin = off; SET enable_nestloop = off' });
	my $job = start([ 'psql', '-X', '-A', '-t', '-q', '-d', $coord->connstr('postgres'), '-c', $sql ], '<', '/dev/null', '>', \$out, '2>', \$err);

	ok(rdma_wait($node{n2}, "SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name = 'member_n2' AND query LIKE '%rdma_internal.exchange(''number%' AND state = 'active'", 60), "it runs $when");
	ok(rdma_wait($node{n1}, 'SELECT coalesce(sum(rows), 0) > 50 FROM rdma.stat_flows', 60), "rows move $when");
	my $pid = $node{n2}->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE application_name = 'member_n2'");

	if ($how eq 'is cancelled') { $node{n2}->safe_psql('postgres', "SELECT pg_cancel_backend($pid)"); }
	elsif ($how eq 'is terminated') { $node{n2}->safe_psql('postgres', "SELECT pg_terminate_backend($pid)"); }
	elsif ($how eq 'is killed') { kill 'KILL', $pid; }
	elsif ($how eq 'loses its engine') { kill 'KILL', rdma_engine_pid($node{n2}); }
	finish($job);
	my %answers = exchange_parse($out);

	like($answers{n1} // $err, qr/ERROR: .*$survivor_says/s, "n1 gets an error $when");
	like($answers{n2} // $err, qr/ERROR: /, "n2 too $when");
	ok(rdma_wait($node{n2}, 'SELECT pid IS NOT NULL FROM rdma.stat_engine', 60), "the node works again $when");
	buffers_back($when);
	return;
}

foreach my $phase (qw(build probe))
{
	bad_day($phase, 'is cancelled', 'ended before the end of its stream|of the flow failed');
	bad_day($phase, 'is terminated', 'ended before the end of its stream|of the flow failed');
	bad_day($phase, 'is killed', 'ended before the end of its stream|of the flow failed|connection|engine');
	bad_day($phase, 'loses its engine', 'ended before the end of its stream|of the flow failed|connection|engine');
}

# ---- one node's query fails in the middle
foreach my $failing ('probe', 'build')
{
	my $bad = "SELECT id / (CASE WHEN id = 3500 AND inet_server_port() = " . $node{n2}->port . " THEN 0 ELSE 1 END), t FROM t";
	my %answers = exchange_run($coord, 'n1,n2', 2, $failing eq 'probe' ? join_of($bad, $fast) : join_of($fast, $bad), slot_size => 4096, slots => 2);

	like($answers{n1}, qr/ERROR: .*(ended before the end of its stream|of the flow failed)/, "n1 hears of an error in n2's $failing side");
	like($answers{n2}, qr/ERROR: .*division by zero/, 'which says what it was');
	buffers_back("after an error in the $failing side");
}

# ---- a node that stands still for a while: the other waits, and nothing is lost
foreach my $phase (qw(build probe))
{
	my ($out, $err) = ('', '');
	my $sql = exchange_sql('n1,n2', 2, $phase{$phase} . ' WHERE p.id < 50', slot_size => 4096, slots => 1);
	my $small = $phase eq 'build' ? join_of($fast, "$slow WHERE id < 200") : join_of("$slow WHERE id < 200", $fast);
	$sql = exchange_sql('n1,n2', 2, $small, slot_size => 4096, slots => 1);
	my $job = start([ 'psql', '-X', '-A', '-t', '-q', '-d', $coord->connstr('postgres'), '-c', $sql ], '<', '/dev/null', '>', \$out, '2>', \$err);

	ok(rdma_wait($node{n2}, "SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name = 'member_n2' AND query LIKE '%rdma_internal.exchange(''number%' AND state = 'active'", 60), 'it runs');
	my $pid = $node{n2}->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE application_name = 'member_n2'");

	kill 'STOP', $pid;
	sleep 2;
	kill 'CONT', $pid;
	finish($job);
	my %answers = exchange_parse($out);
	is(($answers{n1} // 0) + ($answers{n2} // 0), 199 * 4, "a node that stands still in the $phase phase loses nothing") or diag($out . $err);
	buffers_back("after it stood still in the $phase phase");
}

# ---- a set-up that is not what it should be
my $node = $node{n1};
my $no_group = qr/description of a flow is not valid|invalid set-up/;
foreach my $call ("exchange_listen(0, '{}')", "exchange_listen(0, NULL)", "exchange_listen(0, ARRAY[NULL::bytea])", "exchange_listen(0, ARRAY[''::bytea])", "exchange_listen(0, ARRAY['\\x0011'::bytea])",
	"exchange_open(0, '{}')", "exchange_open(0, ARRAY['\\x00'::bytea])", "exchange_connect('n2', '\\x0011')")
{
	my ($status, $out, $err) = $node->psql('postgres', "SELECT rdma_internal.$call");
	like($err, qr/$no_group|answer of a node to rdma_internal.hello is not valid/, "rdma_internal.$call is refused");
}

# ---- where an engine may be sent to
$node->safe_psql('postgres', q{CREATE ROLE stranger LOGIN; SELECT rdma.grant_access('stranger', 'exchange')});
my $greeting = $node->safe_psql('postgres', 'SELECT rdma_internal.exchange_greet()');
my $hello = $node{n2}->safe_psql('postgres', "SELECT rdma_internal.hello('$greeting')");
# of a node that is not connected, with another key: RfHelloReply.node and key
my $key = x25519("o" x 32, $X25519_BASE);
my $other = "overlay(overlay('$hello'::bytea PLACING '\\x" . unpack('H*', identity($key)) . "'::bytea FROM 17 FOR 16) PLACING '\\x" . unpack('H*', $key) . "'::bytea FROM 65 FOR 32)";
sub sent_to
{
	my ($address) = @_;
	my ($status, $out, $err) = $node->psql('postgres', "SET rdma_fdw.connect_timeout = '1s'; SET ROLE stranger; \\set VERBOSITY verbose\nSELECT rdma_internal.exchange_connect('$address', $other)");
	return $err;
}
sub allow
{
	my ($hosts) = @_;
	$node->safe_psql('postgres', "ALTER SYSTEM SET rdma_fdw.exchange_hosts = '$hosts'");
	$node->reload;
	$node->poll_query_until('postgres', "SELECT current_setting('rdma_fdw.exchange_hosts') = '$hosts'") or die "n1 does not see exchange_hosts = $hosts";
	return;
}
allow('samehost');
like(sent_to($_), qr/42501: .*engine may not connect to \Q$_\E/, "an engine is not sent to $_") foreach ('203.0.113.1', '::ffff:127.0.0.1', '0.0.0.0');
like(sent_to('127.0.0.1'), qr/08006: this node's engine could not connect to the engine of node "127.0.0.1"/, 'but to its own host, where another node answers');
# What listens on a port, if anything does, is not told: an engine, a server that is none, nobody.
my $at = "overlay($other PLACING %s FROM 13 FOR 4)";	# RfHelloReply.port
my %told;
foreach my $port (1, $node->port, $node->safe_psql('postgres', 'SELECT port FROM rdma.stat_engine'))
{
	my $there = sprintf($at, "'\\x" . unpack('H*', pack('V', $port)) . "'::bytea");
	my $start = time();
	my (undef, undef, $err) = $node->psql('postgres', "SET rdma_fdw.connect_timeout = '1s'; SET ROLE stranger; \\set VERBOSITY verbose\nSELECT rdma_internal.exchange_connect('127.0.0.1', $there)");
	cmp_ok(time() - $start, '>=', 1, 'what a port does is not told by the time either');
	$err =~ s/^psql:<stdin>:\d+: //mg;
	$told{$err}++;
}
is(scalar(keys %told), 1, 'an ordinary role learns the same of every port') or diag(join("\n", keys %told));
allow('203.0.113.0/24');
like(sent_to('127.0.0.1'), qr/42501: .*engine may not connect to 127.0.0.1/, 'exchange_hosts does not list its own host');
allow('127.0.0.1');
unlike(sent_to('127.0.0.1'), qr/42501/, 'exchange_hosts lists an address');
allow('127.0.0.0/8');
unlike(sent_to('127.0.0.1'), qr/42501/, 'exchange_hosts lists a network');
foreach my $bad ('127.0.0.0/99', 'n1/8', ',')
{
	my ($status, $out, $err) = $node->psql('postgres', "ALTER SYSTEM SET rdma_fdw.exchange_hosts = '$bad'");
	like($err, qr/invalid value for parameter/, "exchange_hosts = '$bad' is refused");
}
$node->safe_psql('postgres', 'ALTER SYSTEM RESET rdma_fdw.exchange_hosts');
$node->reload;

$coord->safe_psql('postgres', q{
	CREATE FUNCTION make(kind int, slots int, size int) RETURNS bytea LANGUAGE sql AS $$
		SELECT kinds_make(kind, ARRAY[g, g], ARRAY[g, g], slots, size) FROM (SELECT rdma_internal.exchange_greet() g) s $$});
my %forged = (
	'another kind of flow' => 'make(2, 4, 65536)',
	'a byte too many' => "make(3, 4, 65536) || '\\x00'",
	'a byte less' => 'substr(make(3, 4, 65536), 1, 100)',
	'another magic' => 'set_byte(make(3, 4, 65536), 0, 1)',
	'another version' => 'set_byte(make(3, 4, 65536), 4, 200)',
	'too many members' => 'set_byte(make(3, 4, 65536), 13, 255)');
foreach my $what (sort keys %forged)
{
	my ($status, $out, $err) = $coord->psql('postgres', "SELECT rdma_internal.exchange_listen(0, ARRAY[$forged{$what}])");
	like($err, qr/$no_group|has version/, "a group with $what is refused");
}
foreach my $places ("0, ARRAY[make(3, 4, 65536)], '{2}'", "0, ARRAY[make(3, 4, 65536)], '{-2}'", "7, ARRAY[make(3, 4, 65536)]", "0, ARRAY[make(3, 4, 65536)], '{0,0}'")
{
	my ($status, $out, $err) = $coord->psql('postgres', "SELECT rdma_internal.exchange_listen($places)");
	like($err, qr/invalid set-up/, "places $places are refused");
}
my ($status, $out, $err) = $coord->psql('postgres', q{BEGIN; SELECT rdma_internal.exchange_listen(0, ARRAY[g], '{0}', '{NULL}') IS NULL FROM make(3, 4, 65536) g; SELECT rdma_internal.exchange_open(0, ARRAY[make(3, 4, 65536)])});
like($err, qr/cannot be merged/, 'opening another group than was listened for is refused');
($status, $out, $err) = $coord->psql('postgres', q{BEGIN; CREATE TEMP TABLE g AS SELECT make(3, 4, 65536) g; SELECT rdma_internal.exchange_listen(0, ARRAY[g], '{0}', '{NULL}') IS NULL FROM g; SELECT rdma_internal.exchange_open(0, ARRAY[g]) FROM g});
like($err, qr/does not listen yet/, 'opening before others listen is refused');
($status, $out, $err) = $node->psql('postgres', "SELECT rdma_internal.exchange('number=1 kind=replicate', 'SELECT 1')");
like($err, qr/cannot be called like other functions|record/, 'calling rdma_internal.exchange itself is refused');
($status, $out, $err) = $node->psql('postgres', q{CREATE ROLE nobody; SET ROLE nobody; SELECT * FROM rdma_internal.exchange('number=1 kind=replicate', 'SELECT 1') AS x(a int)});
like($err, qr/permission denied for function exchange/, 'who may not execute it cannot use it in FROM');

# A statement that fails inside a savepoint takes the set with it; what runs then has nothing to do with it.
($status, $out, $err) = $coord->psql('postgres', q{
	BEGIN;
	CREATE TEMP TABLE g AS SELECT kinds_make(3, ARRAY[g], ARRAY[g], 4, 65536) g FROM (SELECT rdma_internal.exchange_greet() g) s;
	SELECT rdma_internal.exchange_listen(0, ARRAY[g]) IS NULL FROM g;
	SELECT rdma_internal.exchange_open(0, ARRAY[g]) FROM g;
	SAVEPOINT s;
	SELECT 1 / (n - 5) FROM rdma_internal.exchange('number=1 kind=replicate', 'SELECT generate_series(1, 10)') AS x(n int);
	ROLLBACK TO s;
	SELECT n FROM rdma_internal.exchange('number=1 kind=replicate', 'SELECT 1') AS x(n int);
	ROLLBACK TO s;
	SELECT rdma_internal.exchange_listen(0, ARRAY[g]) IS NULL FROM g;
	SELECT rdma_internal.exchange_open(0, ARRAY[g]) FROM g;
	SAVEPOINT s;
	SELECT 'alone ' || sum(n) FROM rdma_internal.exchange('number=1 kind=repartition keys=1', 'SELECT generate_series(1, 10)') AS x(n int);
	COMMIT}, on_error_stop => 0);
like($err, qr/division by zero.*exchange 1 is not set up/s, 'a set ends with the savepoint that its statement failed in');
like($out, qr/^alone 55$/m, 'and the next one works, also for one node alone');

%whole = exchange_run($coord, 'n1,n2', 2, join_of($fast, $fast));
is($whole{n1} + $whole{n2}, 16000, 'after all that the join works');
buffers_back('at the end');

done_testing();
