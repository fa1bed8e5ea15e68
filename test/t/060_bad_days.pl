# Bad days: if anything dies, hangs or is refused in the middle of a pull, the user gets an error that says so, the other side is free
# again within rdma_fdw.peer_timeout, the next query works, and no flow, slot or remote query is left.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use IO::Select;
use IO::Socket::INET;
use IPC::Run qw(start finish pump);
use POSIX ();
use Time::HiRes qw(time usleep);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $conf = "rdma_fdw.peer_timeout = '3s'\nrdma_fdw.connect_timeout = '4s'\nlog_min_messages = log\n";
my ($coord, $n1, $n2) = rdma_trio(conf => $conf);

# An endless source of rows of unknown length, a short one, and one that fails after a while.
foreach my $node ($n1, $n2)
{
	$node->safe_psql('postgres', q{
		CREATE TABLE small AS SELECT g AS a, 'row ' || g AS b FROM generate_series(1, 1000) g;
		CREATE VIEW big AS SELECT g AS a, repeat('x', 100) AS b FROM (SELECT generate_series(1::bigint, 20000000) AS g) s;
		CREATE VIEW failing AS SELECT g AS a, 1000 / (300000 - g) AS b FROM (SELECT generate_series(1, 400000) AS g) s;
		CREATE VIEW quiet AS SELECT 1 AS a FROM pg_sleep(3600);
	});
}
$coord->safe_psql('postgres', "CREATE SCHEMA $_; IMPORT FOREIGN SCHEMA public FROM SERVER $_ INTO $_") foreach ('n1', 'n2');

my $check = 'SELECT count(*), sum(a) FROM n1.small WHERE length(b) + random() > 0';
my $expected = '1000|500500';
my $big = 'SELECT count(*), max(length(b)) FROM n1.big WHERE random() >= 0';
is($coord->safe_psql('postgres', $check), $expected, 'the cluster works before anything goes wrong');
my $streaming = "SELECT coalesce(bool_or(bytes > 1000000), false) FROM rdma.stat_flows";

# Start a query in a psql of its own; returns the harness, wait_for it to stream.
sub background
{
	my ($node, $sql) = @_;
	my %job = (out => '', err => '');
	$job{run} = start([ 'psql', '-X', '-A', '-t', '-q', '-v', 'VERBOSITY=verbose', '-d', $node->connstr('postgres'), '-c', "SET application_name = 'victim'", '-c', $sql ],
		'<', '/dev/null', '>', \$job{out}, '2>', \$job{err});
	return \%job;
}

sub outcome
{
	my ($job, $seconds) = @_;
	my $begin = time();
	my $done = eval {
		local $SIG{ALRM} = sub { die "late\n" };
		alarm($seconds);
		finish($job->{run});
		alarm(0);
		1;
	};
	alarm(0);
	$job->{run}->kill_kill unless $done || defined $done;
	return time() - $begin;
}

sub victim_pid { return $_[0]->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE application_name = 'victim'"); }
sub serving_pid { return $_[0]->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'rdma_fdw%' AND pid <> pg_backend_pid() AND state = 'active'"); }
sub no_remote_query
{
	my ($node, $when) = @_;
	ok(rdma_wait($node, "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name LIKE 'rdma_fdw%' AND pid <> pg_backend_pid() AND state = 'active'", 60), "no query is left on the data node $when");
	ok(rdma_wait($node, 'SELECT count(*) = 0 FROM rdma.stat_flows', 60), "no flow is left on the data node $when");
	return;
}

# ---- the remote query fails in mid-stream
my ($status, $out, $err) = $coord->psql('postgres', "\\set VERBOSITY verbose\nSELECT sum(b) FROM n1.failing WHERE random() >= 0");
like($err, qr/22012.*division by zero/s, 'a remote error in mid-stream keeps its SQLSTATE');
like($err, qr/remote SQL command on server "\w+":/, 'and names the remote SQL');
rdma_healthy($coord, $check, $expected, 'after a remote error');
no_remote_query($n1, 'after a remote error');

# ---- statement_timeout and cancel
($status, $out, $err) = $coord->psql('postgres', "SET statement_timeout = '500ms'; $big");
like($err, qr/statement timeout/, 'statement_timeout ends a pull');
no_remote_query($n1, 'after a timeout');
my $begin = time();
($status, $out, $err) = $coord->psql('postgres', "SET statement_timeout = '500ms'; SELECT * FROM n1.quiet");
like($err, qr/statement timeout/, 'statement_timeout ends a wait for a silent data node');
ok(rdma_wait($n1, "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name LIKE 'rdma_fdw%' AND pid <> pg_backend_pid() AND state = 'active'", 60), 'the cancel reached the silent data node');
cmp_ok(time() - $begin, '<', 60, 'which would have been silent for longer');

my $job = background($coord, $big);
ok(rdma_wait($coord, $streaming), 'a pull is under way');
$coord->safe_psql('postgres', 'SELECT pg_cancel_backend(' . victim_pid($coord) . ')');
cmp_ok(outcome($job, 20), '<', 5, 'pg_cancel_backend ends it');
like($job->{err}, qr/57014/, 'with query_canceled');
no_remote_query($n1, 'after a cancel');
rdma_healthy($coord, $check, $expected, 'after a cancel');

# ---- backends are terminated or killed
$job = background($coord, $big);
ok(rdma_wait($coord, $streaming), 'a pull is under way');
$coord->safe_psql('postgres', 'SELECT pg_terminate_backend(' . victim_pid($coord) . ')');
outcome($job, 20);
like($job->{err}, qr/57P01|terminating|server closed/, 'pg_terminate_backend of the reader');
no_remote_query($n1, 'after the reader was terminated');
rdma_healthy($coord, $check, $expected, 'after the reader was terminated');

$job = background($coord, $big);
ok(rdma_wait($coord, $streaming), 'a pull is under way');
$n1->safe_psql('postgres', 'SELECT pg_terminate_backend(' . serving_pid($n1) . ')');
outcome($job, 20);
like($job->{err}, qr/ERROR:\s+(57P01|08\w\w\w)/, 'pg_terminate_backend of the serving session is an error, not a short result');
rdma_healthy($coord, $check, $expected, 'after the serving session was terminated');

$job = background($coord, $big);
ok(rdma_wait($coord, $streaming), 'a pull is under way');
kill 'KILL', serving_pid($n1);
outcome($job, 90);
like($job->{err}, qr/ERROR:\s+08\w\w\w|57P0\d/, 'kill -9 of the serving session');
rdma_healthy($coord, $check, $expected, 'after kill -9 of the serving session');

$job = background($coord, $big);
ok(rdma_wait($coord, $streaming), 'a pull is under way');
kill 'KILL', victim_pid($coord);
outcome($job, 90);
rdma_healthy($coord, $check, $expected, 'after kill -9 of the reader');
no_remote_query($n1, 'after kill -9 of the reader');

# ---- engines end, die, hang
foreach my $case ([ 'TERM', $n1, 'the data node\'s engine was terminated' ], [ 'KILL', $n1, 'kill -9 of the data node\'s engine' ],
	[ 'TERM', $coord, 'the coordinator\'s engine was terminated' ], [ 'KILL', $coord, 'kill -9 of the coordinator\'s engine' ])
{
	my ($signal, $node, $when) = @$case;
	$job = background($coord, $big);
	ok(rdma_wait($coord, $streaming), 'a pull is under way');
	my $pid = rdma_engine_pid($node);
	my $other = $node == $n1 ? $coord : $n1;
	my $log_end = -s $other->logfile;
	kill $signal, $pid;
	outcome($job, 90);
	like($job->{err}, qr/ERROR:|FATAL:|WARNING:|server closed/, "an error when $when");
	unlike($job->{out}, qr/\d+\|100/, "and no result when $when");
	ok(eval { $other->wait_for_log(qr/the other engine was stopped/, $log_end); 1 }, "the other node was told when $when") if $signal eq 'TERM';
	ok(rdma_wait($node, "SELECT pid <> $pid FROM rdma.stat_engine WHERE pid IS NOT NULL", 60), 'the engine comes back');
	rdma_healthy($coord, $check, $expected, "after $when");
}

$job = background($coord, $big);
ok(rdma_wait($coord, $streaming), 'a pull is under way');
my $engine = rdma_engine_pid($n1);
my $shared = $coord->safe_psql('postgres', q{SELECT count(*) > 0 FROM rdma.stat_peers WHERE transport = 'shm'});
kill 'STOP', $engine;
cmp_ok(outcome($job, 90), '<', 60, 'a peer that stops answering is noticed within peer_timeout');
like($job->{err}, qr/ERROR:\s+08\w\w\w/, 'and the error is a connection failure');
like($job->{err}, qr/HINT:.*peer_timeout/s, 'whose hint names the setting');
ok(rdma_wait($coord, "SELECT segments_held > 0 FROM rdma.stat_engine", 60), 'memory that the stopped engine may still write into is not lent again') if $shared eq 't';
kill 'CONT', $engine;
ok(rdma_wait($coord, "SELECT segments_held = 0 FROM rdma.stat_engine", 60), 'until it goes on');
rdma_healthy($coord, $check, $expected, 'after the peer woke up');
no_remote_query($n1, 'after the peer woke up');

# ---- a whole node dies; the other one still works
$job = background($coord, $big);
ok(rdma_wait($coord, $streaming), 'a pull is under way');
$n1->stop('immediate');
outcome($job, 90);
like($job->{err}, qr/ERROR:\s+(08\w\w\w|57P0\d)/, 'a node that dies in mid-pull is an error');
($status, $out, $err) = $coord->psql('postgres', $check);
isnt($status, 0, 'while it is down, queries fail');
like($err, qr/n1/, 'and name the server');
is($coord->safe_psql('postgres', 'SELECT count(*) FROM n2.small'), '1000', 'the other node still answers');
$n1->start;
rdma_healthy($coord, $check, $expected, 'after the node came back');

# ---- the same session goes on after its node restarted
my $session = $coord->safe_psql('postgres', 'SELECT 1');
{
	my ($in, $o, $e) = ('', '', '');
	my $psql = start([ 'psql', '-X', '-A', '-t', '-q', '-d', $coord->connstr('postgres') ], '<', \$in, '>', \$o, '2>', \$e);
	$in = "$check;\n";
	pump $psql until $o =~ /\Q$expected\E/ || $e;
	$n1->restart;
	$o = '';
	$in = "$check;\n\\echo done\n";
	pump $psql until $o =~ /done/;
	like($o, qr/\Q$expected\E/, 'a session reconnects by itself after its data node restarted') or diag($e);
	$in = "\\q\n";
	finish $psql;
}

# ---- the pool is exhausted
$coord->append_conf('postgresql.conf', "rdma_fdw.buffer_memory = '4MB'\nrdma_fdw.max_flows = 16\n");
$coord->restart;
{
	# receive buffers and sizes that need more than there is
	($status, $out, $err) = $coord->psql('postgres', "SET rdma_fdw.receive_buffers = 16; SET rdma_fdw.receive_buffer_size = '1MB'; SET rdma_fdw.buffer_wait = '500ms'; $big");
	like($err, qr/rdma_fdw\.buffer_memory/, 'a flow that never fits names the setting');
	my @jobs = map { background($coord, "SET rdma_fdw.receive_buffers = 7; $big") } 1 .. 2;
	ok(rdma_wait($coord, "SELECT count(*) = 2 FROM rdma.stat_flows WHERE bytes > 1000000"), 'two pulls hold the pool');
	($status, $out, $err) = $coord->psql('postgres', "SET rdma_fdw.receive_buffers = 8; SET rdma_fdw.buffer_wait = '1s'; $big");
	like($err, qr/within 1000 ms.*rdma_fdw\.buffer_memory/s, 'a third one waits as long as its session says, then names the setting');
	cmp_ok($coord->safe_psql('postgres', 'SELECT buffer_waits FROM rdma.stat_engine'), '>', 0, 'the wait is counted');

	# One that gives up while it waits leaves its entry behind; the next user of that entry must not notice.
	my $waits = $coord->safe_psql('postgres', 'SELECT buffer_waits FROM rdma.stat_engine');
	my $given_up = background($coord, "SET rdma_fdw.receive_buffers = 8; SET rdma_fdw.buffer_wait = '1h'; $big");
	ok(rdma_wait($coord, "SELECT buffer_waits > $waits FROM rdma.stat_engine"), 'another one waits');
	$given_up->{run}->signal('INT');
	outcome($given_up, 20);
	ok(rdma_wait($coord, 'SELECT count(*) = 2 FROM rdma.stat_flows'), 'and is gone when it is cancelled');
	ok(rdma_wait($n1, 'SELECT count(*) = 2 FROM rdma.stat_flows', 60), 'on the data node, too');
	($status, $out, $err) = $coord->psql('postgres', "SET rdma_fdw.inline_limit = 0; SET rdma_fdw.receive_buffers = 2; SET rdma_fdw.receive_buffer_size = '64kB';\n" . "$check;\n" x 20);
	is($out, join("\n", ($expected) x 20), 'queries that use each entry of the table once more work') or diag($err);
	$coord->safe_psql('postgres', "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'victim'");
	outcome($_, 20) foreach @jobs;
}
rdma_healthy($coord, $check, $expected, 'after the pool was exhausted');
no_remote_query($n1, 'after the pool was exhausted');

# Where not all of a stream's buffers are to be had, here or on the data node, it has fewer.
foreach my $short ($coord, $n1)
{
	my $where = $short == $coord ? 'reading' : 'sending';
	$_->append_conf('postgresql.conf', $_ == $short ? "rdma_fdw.buffer_memory = '4MB'" :
		  "rdma_fdw.buffer_memory = '64MB'") foreach ($coord, $n1);
	$_->restart foreach ($coord, $n1);
	my @jobs = map { background($coord, "SET rdma_fdw.receive_buffers = 5; $big") } 1 .. 3;
	ok(rdma_wait($coord, 'SELECT count(*) = 3 FROM rdma.stat_flows WHERE bytes > 1000000'), "short on the $where node: three pulls run");
	is($short->safe_psql('postgres', q{SELECT string_agg(buffers::text, ' ' ORDER BY buffers) FROM rdma.stat_flows}), '2 5 5', 'the last has fewer buffers');
	is($coord->safe_psql('postgres', 'SET rdma_fdw.receive_buffers = 5; SELECT count(*), sum(a), sum(length(b)) FROM (SELECT * FROM n1.big WHERE random() >= 0 LIMIT 300000) s'),
		'300000|45000150000|30000000', 'and so has one more, whose rows are right');
	is($short->safe_psql('postgres', 'SELECT buffer_waits FROM rdma.stat_engine'), 0, 'none of them waits');
	$coord->safe_psql('postgres', "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'victim'");
	outcome($_, 20) foreach @jobs;
	no_remote_query($n1, "after it was short on the $where node");
}

# ---- the link is cut in mid-pull: the engines talk over TCP through a proxy that dies
{
	my $listen = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 16, ReuseAddr => 1) or die $!;
	my $engine_port = $n1->safe_psql('postgres', 'SELECT port FROM rdma.stat_engine');
	my $start_proxy = sub {
		my $pid = fork() // die $!;
		return $pid if $pid;
		eval { proxy($listen, $engine_port) };
		POSIX::_exit(0);
	};
	foreach my $node ($coord, $n1)
	{
		$node->append_conf('postgresql.conf', "rdma_fdw.provider = tcp\nrdma_fdw.engine_port = " . ($node == $n1 ? $engine_port : 0) . "\n");
	}
	$n1->append_conf('postgresql.conf', "rdma_fdw.engine_address = '127.0.0.1:" . $listen->sockport . "'\n");
	$n1->restart;
	$coord->restart;
	my $proxy = $start_proxy->();
	is($coord->safe_psql('postgres', "SET rdma_fdw.inline_limit = 0; $check"), $expected, 'engines connect to the address and port that engine_address names');
	$job = background($coord, $big);
	ok(rdma_wait($coord, $streaming), 'a pull is under way');
	kill 'KILL', $proxy;
	waitpid($proxy, 0);
	cmp_ok(outcome($job, 90), '<', 60, 'a link that is cut is noticed');
	like($job->{err}, qr/ERROR:\s+08\w\w\w/, 'as a connection failure');
	no_remote_query($n1, 'after the link was cut');
	$proxy = $start_proxy->();
	rdma_healthy($coord, $check, $expected, 'after the link came back');

	# The same with a link that goes silent: nothing is closed, nothing arrives any more.
	$job = background($coord, $big);
	ok(rdma_wait($coord, $streaming), 'a pull is under way');
	kill 'STOP', $proxy;
	cmp_ok(outcome($job, 90), '<', 60, 'a link that goes silent is noticed within peer_timeout');
	like($job->{err}, qr/ERROR:\s+08\w\w\w.*peer_timeout/s, 'and the hint names the setting');
	kill 'KILL', $proxy;
	waitpid($proxy, 0);
	$proxy = $start_proxy->();
	rdma_healthy($coord, $check, $expected, 'after the silence');
	no_remote_query($n1, 'after the silence');
	kill 'KILL', $proxy;
	waitpid($proxy, 0);
	$n1->append_conf('postgresql.conf', "rdma_fdw.engine_address = ''\n");
	$n1->reload;
}

# ---- an early end is no bad day: LIMIT stops the stream
is($coord->safe_psql('postgres', 'SELECT count(*) FROM (SELECT * FROM n1.big WHERE random() >= 0 LIMIT 100000) x'), '100000', 'LIMIT stops a stream early');
no_remote_query($n1, 'after LIMIT');

$_->stop foreach ($coord, $n1, $n2);
done_testing();

# Forward every connection to a port of this host, until killed.
sub proxy
{
	my ($listen, $port) = @_;
	my $select = IO::Select->new($listen);
	my %other;
	while (1)
	{
		foreach my $from ($select->can_read)
		{
			if ($from == $listen)
			{
				my $in = $listen->accept or next;
				my $out = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port) or next;
				@other{ $in, $out } = ($out, $in);
				$select->add($in, $out);
				next;
			}
			my $to = $other{$from} or next;
			my $n = sysread($from, my $bytes, 1 << 18);
			my $at = 0;
			while ($n && $at < $n)
			{
				my $written = syswrite($to, $bytes, $n - $at, $at);
				$n = 0 unless $written;
				$at += $written // 0;
			}
			next if $n;
			delete @other{ $from, $to };
			foreach my $end ($from, $to)
			{
				$select->remove($end);
				close($end);
			}
		}
	}
}
