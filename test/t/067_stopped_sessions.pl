# Sessions that stand still at the worst moment: their cancel request gets no answer, or they are stopped or killed
# while the engines connect for them, or their engine is restarted meanwhile. They end when they should, keep no thread and no
# descriptor, and others go on.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl", "$FindBin::Bin/../chaos";
use Proxy;
use RdmaCluster;
use Time::HiRes qw(time usleep);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $tcp = "rdma_fdw.provider = tcp\n";
my $n1 = rdma_node('n1', no_start => 1, conf => $tcp);
my $n2 = rdma_node('n2', conf => $tcp);
my $coord = rdma_node('coord', conf => $tcp . "rdma_fdw.connect_timeout = '60s'\n");

# All that n1 has is reached through the proxy.
my $engine_port = PostgreSQL::Test::Cluster::get_free_port();
my $proxy = Proxy->start({ libpq => $n1->port, engine => $engine_port });
$n1->append_conf('postgresql.conf',
	"authentication_timeout = '10min'\nrdma_fdw.engine_port = $engine_port\nrdma_fdw.engine_address = '127.0.0.1:" . $proxy->port('engine') . "'\n");
$n1->start;
rdma_connect($coord, n1 => $n1, n2 => $n2, options => "inline_limit '0'");
$coord->safe_psql('postgres', "ALTER SERVER n1 OPTIONS (SET port '" . $proxy->port('libpq') . "')");
foreach my $node ($n1, $n2)
{
	$node->safe_psql('postgres', q{
		CREATE TABLE t AS SELECT g AS a FROM generate_series(1, 1000) g;
		CREATE VIEW quiet AS SELECT 1 AS a FROM pg_sleep(3600);
		CREATE VIEW long AS SELECT x.a FROM t x, t y, t z;
	});
}
$coord->safe_psql('postgres', "CREATE SCHEMA $_; IMPORT FOREIGN SCHEMA public FROM SERVER $_ INTO $_") foreach ('n1', 'n2');
my $check = 'SELECT count(*), sum(a) FROM (SELECT * FROM n1.t OFFSET 0) x';
my $right = '1000|500500';
is($coord->safe_psql('postgres', $check), $right, 'it works before');

sub threads { my ($pid) = @_; my @all = glob("/proc/$pid/task/*"); return scalar @all; }
sub descriptors { my ($pid) = @_; return scalar grep { (readlink($_) // '') =~ /^socket:|eventfd/ } glob("/proc/$pid/fd/*"); }

sub wait_until
{
	my ($true) = @_;
	my $end = time() + 120;
	usleep(50_000) until $true->() || time() > $end;
	return $true->();
}

sub sleeps
{
	my ($count) = @_;
	return rdma_wait($n1, "SELECT count(*) = $count FROM pg_stat_activity WHERE wait_event = 'PgSleep'", 120);
}

# ---- a cancel request is under way, and its session goes on, or ends
my %session = map { $_ => $coord->background_psql('postgres', on_error_stop => 0, timeout => 400) } qw(cancelled savepoint);
my %pid = map { $_ => scalar $session{$_}->query('SELECT pg_backend_pid()') } keys %session;
is(scalar $session{$_}->query($check), $right, "session $_ is connected") foreach sort keys %session;
my %had = map { $_ => descriptors($pid{$_}) } keys %pid;
$session{savepoint}->query('BEGIN; SAVEPOINT s');
$session{$_}->query_until(qr/begins/, "\\echo begins\nSELECT * FROM n1.quiet;\n") foreach sort keys %session;
my $ended = rdma_begin($coord, "SET application_name = 'ended'", 'SELECT * FROM n1.quiet');
ok(sleeps(3), 'three sessions wait for a data node');
$pid{ended} = $coord->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE application_name = 'ended'");
$proxy->tell('libpq', 'deaf');
my $log_end = -s $coord->logfile;
my $begin = time();
$coord->safe_psql('postgres', "SELECT pg_terminate_backend($pid{ended})");
$coord->safe_psql('postgres', "SELECT pg_cancel_backend($_)") foreach @pid{qw(cancelled savepoint)};
ok(wait_until(sub { threads($pid{$_}) > 1 }), "the cancel request of $_ is under way") foreach qw(cancelled savepoint);
ok(wait_until(sub { !-e "/proc/$pid{ended}" }), 'a session that is terminated meanwhile ends');
ok(rdma_outcome($ended), 'its client, too');
like($ended->{err}, qr/57P01/, 'and hears why');
$session{$_}->query("\\echo") foreach qw(cancelled savepoint);	# both have their prompt again
is($coord->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE pid IN ($pid{cancelled}, $pid{savepoint}) AND state LIKE 'idle%'"),
	2, 'sessions that were cancelled come back without an answer to the request');
cmp_ok(time() - $begin, '<', 25, 'sooner than a data node that has heard the request is given up');
ok(threads($pid{$_}) > 1, "that of $_ is still under way") foreach qw(cancelled savepoint);
ok(sleeps(3), 'and the data node has not heard');

# The request arrives when the session has another connection already; it may not hit that.
$proxy->tell('libpq', 'pass');
is(scalar $session{cancelled}->query($check), $right, 'the next statement is right') for 1 .. 5;
$session{savepoint}->{stderr} = '';
$session{savepoint}->query("ROLLBACK TO s; $check");
like($session{savepoint}->{stderr}, qr/connection to server "n1" was lost/, 'a transaction that lost its connection says so');
$session{savepoint}->query('ROLLBACK');
is(scalar $session{savepoint}->query($check), $right, 'and the next one is right');
ok(rdma_wait($n1, "SELECT count(*) <= 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'", 120),
	'the requests that came late have ended what ran');		# unless the session ended before its request had left
$n1->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'");
foreach my $which (qw(cancelled savepoint))
{
	ok(wait_until(sub { threads($pid{$which}) == 1 }), "no thread of $which is left");
	is(scalar $session{$which}->query($check), $right, "$which works");
	is(descriptors($pid{$which}), $had{$which}, "with as many descriptors as before");
	$session{$which}->quit;
}
unlike(slurp_file($coord->logfile, $log_end), qr/terminated by signal|PANIC/, 'no process crashed');

# ---- the engines connect for a session that is stopped, or killed, meanwhile
sub connect_anew
{
	my $pid = rdma_engine_pid($coord);

	kill 'TERM', $pid;
	return rdma_wait($coord, "SELECT pid <> $pid FROM rdma.stat_engine WHERE pid IS NOT NULL", 60);
}

foreach my $signal (qw(STOP KILL))
{
	$proxy->tell('engine', 'deaf');
	ok(connect_anew(), 'engines have to connect anew, and get no answer');
	my $waiter = rdma_begin($coord, "SET application_name = 'waiter'", $check);
	ok(rdma_wait($coord, "SELECT count(*) = 1 FROM pg_stat_activity, rdma.stat_peers p
		WHERE application_name = 'waiter' AND wait_event_type = 'Extension' AND p.state = 'connecting'", 60), 'a session waits for that');
	my $pid = $coord->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE application_name = 'waiter'");
	kill $signal, $pid;
	$proxy->tell('engine', 'pass');
	rdma_healthy($coord, $check, $right, "while one that waits got SIG$signal");
	if ($signal eq 'STOP')
	{
		ok(connect_anew(), 'the engines connect once more');
		rdma_healthy($coord, $check, $right, 'while it is still stopped');
		kill 'CONT', $pid;
	}
	ok(rdma_outcome($waiter), "the session ends after SIG$signal");
	ok($waiter->{out} eq "$right\n" || $waiter->{err} =~ /ERROR:\s+08\w\w\w|server closed the connection|57P0\d/, 'with the right answer or an error that says why')
	  or diag("$waiter->{out} $waiter->{err}");
	rdma_healthy($coord, $check, $right, "after SIG$signal");
}
# ---- its engine is restarted when the data node's has seen the token, which is good for one attempt
$proxy->tell('engine', 'first');
ok(connect_anew(), 'engines have to connect anew, and get half way');
my $waiter = rdma_begin($coord, $check);
ok(rdma_wait($n1, "SELECT count(*) = 1 FROM rdma.stat_peers WHERE state = 'connecting'", 60), 'the data node has seen the token');
ok(connect_anew(), "the session's engine is restarted");
$proxy->tell('engine', 'pass');
ok(rdma_outcome($waiter), 'the session goes on');
is($waiter->{out}, "$right\n", 'with another token') or diag($waiter->{err});
rdma_healthy($coord, $check, $right, 'after all');
# ---- a data node's session stands still when the transaction ends, for which PostgreSQL has no time-out; it hears no
# cancel request either. What only read needs no answer any more.
foreach my $read ('DECLARE c CURSOR FOR SELECT * FROM n1.long; FETCH 5 FROM c', $check)
{
	my $reader = $coord->background_psql('postgres', timeout => 400);

	$reader->query("BEGIN; $read");
	my $pid = $n1->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE application_name = 'rdma_fdw' AND xact_start IS NOT NULL");
	like($pid, qr/^\d+$/, 'one session of the data node is in a transaction');
	kill 'STOP', $pid;
	$reader->query('COMMIT');
	is(scalar $reader->query($check), $right, "the transaction ends, and the next one is right: $read");
	kill 'CONT', $pid;
	$reader->quit;
}
$proxy->end;
$_->stop foreach ($coord, $n1, $n2);
done_testing();
