# Who an engine is: its key. A role that may ask for tokens gets none with which it could speak for another node, and a connection
# that works is not given up for a second one of the same engine.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use RdmaEngine;
use IO::Select;
use IO::Socket::INET;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# n1 asks for no TLS, which RdmaEngine does not know; co does, and so it is used between them
my $n1 = rdma_node('n1', conf => "rdma_fdw.provider = tcp\nrdma_fdw.encryption = off\n");
my $co = rdma_node('co', conf => "rdma_fdw.provider = tcp\n");

$n1->safe_psql('postgres', q{
	CREATE EXTENSION rdma_fdw;
	CREATE TABLE big AS SELECT i, repeat('x', 200) AS t FROM generate_series(1, 100000) i;
	CREATE ROLE joe LOGIN;
	SELECT rdma.grant_access('joe', 'read');
});

# The engines of the two find each other through a process that can be stopped: one child for each connection.
my $listen = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 64, ReuseAddr => 1) or die $!;
my $engine_port = $n1->safe_psql('postgres', 'SELECT port FROM rdma.stat_engine');
my $children = PostgreSQL::Test::Utils::tempdir() . '/children';
append_to_file($children, '');

sub forward
{
	my ($from) = @_;
	my $to = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $engine_port) or return;
	my %other = ($from => $to, $to => $from);
	my $select = IO::Select->new($from, $to);

	while (1)
	{
		foreach my $ready ($select->can_read)
		{
			my $got = sysread($ready, my $bytes, 65536);
			return unless $got;
			for (my $at = 0; $at < $got;)
			{
				$at += syswrite($other{$ready}, $bytes, $got - $at, $at) // return;
			}
		}
	}
}

my $proxy = fork() // die $!;
if ($proxy == 0)
{
	$SIG{PIPE} = 'IGNORE';
	$SIG{CHLD} = 'IGNORE';
	while (my $from = $listen->accept)
	{
		my $child = fork();
		POSIX::_exit(1) unless defined $child;
		if ($child == 0)
		{
			append_to_file($children, "$$\n");
			forward($from);
			POSIX::_exit(0);
		}
		close($from);
	}
	POSIX::_exit(0);
}
$n1->append_conf('postgresql.conf', "rdma_fdw.engine_port = $engine_port\nrdma_fdw.engine_address = '127.0.0.1:" . $listen->sockport . "'\n");
$n1->restart;
rdma_connect($co, n1 => $n1);
$co->safe_psql('postgres', 'IMPORT FOREIGN SCHEMA public LIMIT TO (big) FROM SERVER n1 INTO public');
my $check = 'SELECT count(*), sum(length(t)) FROM big WHERE random() >= 0';
my $expected = '100000|20000000';

# ---- a role that names another node
my $reader = $co->background_psql('postgres', on_error_stop => 0);
$reader->query_safe("BEGIN; DECLARE c CURSOR FOR SELECT i, t FROM big");
is($reader->query_safe('MOVE 10 FROM c; SELECT 1'), 1, 'a reader is in the middle of its rows');

my $joe = RdmaEngine->new($n1, 'j');
my $its_name = pack('H*', $co->safe_psql('postgres', 'SELECT node FROM rdma.stat_engine'));
my $its_key = substr(pack('H*', substr($co->safe_psql('postgres', 'SELECT rdma_internal.exchange_greet()'), 2)), 40, 32);
is(identity($its_key), $its_name, "a node's identity is its key's");
my ($status, $out, $err) = $n1->psql('postgres', 'SET ROLE joe; SELECT ' . RdmaEngine::hello_sql($joe->request(undef, $its_name)));
like($err, qr/the other node does not have the identity that it claims/, "a role gets no token for another node's engine with a key of its own");
my $id = substr($joe->ask($joe->request(undef, $its_name, $its_key), 'joe'), 48, 16);
isnt($id, "\0" x 16, 'one that is for the key of that engine it may have');
my (undef, $secret) = $joe->token('joe');
is($joe->proof($joe->connect, $id, $secret, $its_name), 'refused', 'but cannot use');
($id, $secret) = $joe->token('joe');
is($joe->proof($joe->connect, $id, $secret, $its_name), 'refused', 'nor use its own in that name');
is($reader->query_safe('MOVE ALL FROM c; SELECT 2'), 2, 'the reader gets all of its rows');
$reader->query_safe('COMMIT');
$reader->quit;
is($n1->safe_psql('postgres', "SELECT connections_lost FROM rdma.stat_engine"), 0, 'no connection was lost');

# ---- two connections of one engine: a machine that is slow to answer may lose the first, so that this is tried again
my ($first, $second, $outcome);
for (1 .. 5)
{
	($id, $secret) = $joe->token;
	$first = $joe->connect;
	is($joe->proof($first, $id, $secret), 'welcome', 'an engine is welcome') or last;
	read_message($first);		# its description of the queue pair
	($id, $secret) = $joe->token;
	$second = $joe->connect;
	$joe->prove($second, $id, $secret);
	my ($type, $stamp) = read_message($first);
	next unless defined $type;
	is($type, $TYPE{ping}, 'when it comes again, its first connection is asked for a sign of life');
	print $first message(pong => $stamp);
	$outcome = $joe->outcome($second);
	last if $outcome eq 'refused';
}
is($outcome, 'refused', 'and is kept when it gives one');
like($joe->{said}, qr/there is a connection of the same engine, which works and is kept/, 'with the reason');

# the first one ends, or says nothing
($id, $secret) = $joe->token;
close($first);
$first = $joe->connect;
is($joe->proof($first, $id, $secret), 'welcome', 'when the first has ended, the next takes its place');
($id, $secret) = $joe->token;
is($joe->proof($joe->connect, $id, $secret), 'welcome', 'and also when it says nothing');
ok(closed($first), 'it is closed then');

# ---- the same of two engines: what is between them stops, and one makes a new connection
is($co->safe_psql('postgres', $check), $expected, 'the two are connected');
my @stopped = split /\n/, slurp_file($children);
kill 'STOP', @stopped;
my $engine = rdma_engine_pid($co);
my $key = $co->safe_psql('postgres', 'SELECT node FROM rdma.stat_engine');
kill 'TERM', $engine;
ok(rdma_wait($co, "SELECT pid <> $engine FROM rdma.stat_engine WHERE pid IS NOT NULL", 60), 'an engine starts again');
is($co->safe_psql('postgres', 'SELECT node FROM rdma.stat_engine'), $key, 'as the same node');
is($co->safe_psql('postgres', $check), $expected, 'and takes the place of its connection that says nothing');
is($n1->safe_psql('postgres', "SELECT connections_lost FROM rdma.stat_engine"), 1, 'which is given up');

# ---- a server that was restarted is another node
$co->restart;
isnt($co->safe_psql('postgres', 'SELECT node FROM rdma.stat_engine'), $key, 'a server that starts has a new identity');
is($co->safe_psql('postgres', $check), $expected, 'and is connected at once');

kill 'KILL', $proxy, split /\n/, slurp_file($children);
waitpid($proxy, 0);
$_->stop foreach ($co, $n1);
done_testing();
