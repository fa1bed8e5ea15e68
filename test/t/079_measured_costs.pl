# Costs that know the network: behind a proxy that passes 8 MB a second and delays what it passes, both ends of a pull wait for the
# network, its bandwidth and round trip show in rdma.stat_peers, and the planner counts them unless options or a setting say otherwise.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use IO::Select;
use IO::Socket::INET;
use POSIX ();
use Time::HiRes qw(usleep);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# The data node's engine listens on 127.0.0.1 and says that it is to be found at 127.0.0.2, where the proxy is.
my $tcp = "rdma_fdw.provider = tcp\nrdma_fdw.peer_timeout = '6s'\n";
my $coord = rdma_node('coord', conf => $tcp);
my $port = PostgreSQL::Test::Cluster::get_free_port();
my $n1 = rdma_node('n1', conf => "$tcp\nrdma_fdw.engine_address = '127.0.0.2'\nrdma_fdw.engine_port = $port\n");
$n1->safe_psql('postgres', q{
	CREATE EXTENSION rdma_fdw;
	CREATE TABLE t AS SELECT g AS a, repeat('x', 100) AS b FROM generate_series(1, 60000) g;
	ANALYZE t;
});

my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.2', LocalPort => $port, Proto => 'tcp', Listen => 20, ReuseAddr => 1)
  or plan skip_all => "no proxy can listen at 127.0.0.2: $!";

sub proxy
{
	my $select = IO::Select->new($listener);
	my %other;
	while (my @ready = $select->can_read)
	{
		foreach my $from (@ready)
		{
			if ($from == $listener)
			{
				my $client = $listener->accept or next;
				my $server = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Proto => 'tcp');
				next unless $server;
				($other{$client}, $other{$server}) = ($server, $client);
				$select->add($client, $server);
				next;
			}
			my $to = $other{$from} or next;
			my $got = sysread($from, my $bytes, 65536);
			if (!$got)
			{
				$select->remove($from, $to);
				delete @other{ $from, $to };
				close($from);
				close($to);
				next;
			}
			usleep(3000 + $got / 8);
			for (my $sent = 0; $sent < $got;)
			{
				my $wrote = syswrite($to, $bytes, $got - $sent, $sent);
				last unless defined $wrote;
				$sent += $wrote;
			}
		}
	}
	return;
}

my $proxy = fork();
die "fork: $!" unless defined $proxy;
if ($proxy == 0)
{
	$SIG{PIPE} = 'IGNORE';
	$SIG{TERM} = 'DEFAULT';
	eval { proxy() };
	POSIX::_exit(0);
}

rdma_connect($coord, n1 => $n1);
$coord->safe_psql('postgres', 'IMPORT FOREIGN SCHEMA public FROM SERVER n1 INTO public; ANALYZE t');

# Cost of reading the table, with settings before.
sub cost
{
	my ($settings) = @_;
	my $plan = $coord->safe_psql('postgres', "$settings; EXPLAIN SELECT * FROM t");

	return $plan =~ /cost=([\d.]+)\.\.([\d.]+)/ ? ($1, $2) : die $plan;
}

my ($startup, $total) = cost('SET rdma_fdw.measured_costs = off');
cmp_ok($startup, '==', 100, 'what starting costs by default');
is($coord->safe_psql('postgres', q{SELECT count(*), sum(length(b)) FROM t WHERE a + random() > 0}), '60000|6000000', 'rows come through the proxy');
my ($bandwidth, $round_trip) = split /\|/, $coord->safe_psql('postgres', "SELECT bandwidth, usual_round_trip_us FROM rdma.stat_peers WHERE state = 'connected'");
cmp_ok($bandwidth || 0, '>', 0, 'the bandwidth was measured');
cmp_ok($bandwidth || 0, '<', 20e6, 'and is about what the proxy passes');
ok(rdma_wait($coord, "SELECT coalesce(max(usual_round_trip_us), 0) >= 6000 FROM rdma.stat_peers"), 'the round trip was measured');

my ($slow_startup, $slow_total) = cost('SET rdma_fdw.measured_costs = on');
cmp_ok($slow_startup, '>=', 100 + 0.1 * 5000, 'starting costs more');
cmp_ok($slow_total - $slow_startup, '>', ($total - $startup) * 2, 'and so does every byte');
my ($again_startup, $again_total) = cost('SET rdma_fdw.measured_costs = off');
cmp_ok($again_startup + $again_total, '==', $startup + $total, 'not when the setting is off');
$coord->safe_psql('postgres', "ALTER SERVER n1 OPTIONS (fdw_startup_cost '100', fdw_tuple_cost '0.01')");
($again_startup, $again_total) = cost('SET rdma_fdw.measured_costs = on');
cmp_ok($again_startup + $again_total, '==', $startup + $total, 'nor when options say what it costs');

$coord->stop;
$n1->stop;
kill 'TERM', $proxy;
waitpid($proxy, 0);
done_testing();
