# The engine's port, seen from outside: garbage, truncated and oversized messages, slow ones, wrong and replayed tokens. Nobody gets in, nothing
# breaks, everything is counted.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use X25519;
use Digest::SHA qw(hmac_sha256);
use IO::Select;
use IO::Socket::INET;
use Socket;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = rdma_node('victim', conf => "rdma_fdw.peer_timeout = '3s'\n");
rdma_connect($node, self => $node);
$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT g AS a FROM generate_series(1, 100000) g; CREATE SCHEMA f; IMPORT FOREIGN SCHEMA public LIMIT TO (t) FROM SERVER self INTO f');
my $check = 'SELECT count(*), sum(a) FROM f.t WHERE random() >= 0';
my $expected = '100000|5000050000';
is($node->safe_psql('postgres', $check), $expected, 'works before');
my $port = $node->safe_psql('postgres', 'SELECT port FROM rdma.stat_engine');

use constant { MAGIC => 0x31464452, VERSION => 2 };	# wire.h
my ($HELLO, $CHALLENGE, $PROOF, $WELCOME, $REFUSED, $ATTACH, $OPEN) = (1, 2, 3, 4, 5, 6, 10);

sub connect_engine
{
	my ($from) = @_;
	my $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, LocalAddr => $from // '127.0.0.1', Proto => 'tcp', Timeout => 5) or die "connect: $!";
	$s->autoflush(1);
	return $s;
}
sub message { my ($type, $payload) = @_; return pack('VvvVV', MAGIC, $type, VERSION, length($payload), 0) . $payload; }

sub read_bytes
{
	my ($s, $n) = @_;
	my $got = '';
	local $SIG{ALRM} = sub { die "timeout\n" };
	alarm(60);
	while (length($got) < $n)
	{
		my $r = sysread($s, my $piece, $n - length($got));
		last unless $r;
		$got .= $piece;
	}
	alarm(0);
	return $got;
}
sub closed { my ($s) = @_; return eval { read_bytes($s, 65536); 1 } || 0; }

# What this node says in its own hello: the image is at a fixed place of the reply.
my $private = "k" x 32;
my $public = x25519($private, $X25519_BASE);
my $request = pack('VV', VERSION, 1) . pack('Q<Q<', 7, 9) . ("\0" x 16) . $public;
my $reply = pack('H*', $node->safe_psql('postgres', "SELECT encode(rdma.hello(decode('" . unpack('H*', $request) . "', 'hex')), 'hex')"));
my $image = substr($reply, 32, 16);
my $its_public = substr($reply, 64, 32);
my $shared = x25519($private, $its_public);

# Only a client with our type image gets a token worth having.
$request = pack('VV', VERSION, 1) . pack('Q<Q<', 7, 9) . $image . $public;
sub token
{
	my $r = pack('H*', $node->safe_psql('postgres', "SELECT encode(rdma.hello(decode('" . unpack('H*', $request) . "', 'hex')), 'hex')"));
	my $id = substr($r, 48, 16);
	return ($id, token_secret($shared, $id, $public, $its_public));
}
sub hello { my ($id) = @_; return pack('Q<Q<', 7, 9) . $image . ("\1" x 16) . ($id // "n" x 16) . ("n" x 16) . pack('VV', 1, 1) . ("\0" x 64); }

sub proof
{
	my ($s, $id, $secret) = @_;
	my $hello = hello();
	print $s message($HELLO, $hello);
	my $header = read_bytes($s, 16);
	my (undef, $type, undef, $length) = unpack('VvvV', $header);
	return 'closed' unless defined $type && $type == $CHALLENGE;
	my $challenge = read_bytes($s, $length);
	print $s message($PROOF, $id . hmac_sha256('initiator' . $hello . $challenge, $secret));
	$header = read_bytes($s, 16);
	return 'closed' if length($header) < 16;
	(undef, $type, undef, $length) = unpack('VvvV', $header);
	my $payload = read_bytes($s, $length);
	return $type == $WELCOME ? 'welcome' : $type == $REFUSED ? 'refused' : "type $type";
}

my %garbage = (
	'nothing at all' => '',
	'an HTTP request' => "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
	'zeros' => "\0" x 5000,
	'random bytes' => join('', map { chr((($_ * 7919) >> 3) & 255) } 1 .. 5000),
	'a truncated header' => substr(message($HELLO, hello()), 0, 7),
	'a truncated hello' => substr(message($HELLO, hello()), 0, 60),
	'a length beyond the limit' => pack('VvvVV', MAGIC, $HELLO, VERSION, 0x7fffffff, 0) . 'x' x 1000,
	'a length of -1' => pack('VvvVV', MAGIC, $HELLO, VERSION, 0xffffffff, 0),
	'another protocol version' => pack('VvvVV', MAGIC, $HELLO, 77, length(hello()), 0) . hello(),
	'an unknown message' => message(999, 'x'),
	'an OPEN before the handshake' => message($OPEN, "\0" x 32),
	'a PROOF before HELLO' => message($PROOF, "\0" x 48),
	'an ATTACH to nothing' => message($ATTACH, "\0" x 56),
	'a hello of the wrong size' => message($HELLO, hello() . 'more'));
foreach my $what (sort keys %garbage)
{
	my $s = connect_engine();
	print $s $garbage{$what};
	shutdown($s, 1);
	ok(closed($s), "$what: the connection is closed");
	close($s);
}
is($node->safe_psql('postgres', $check), $expected, 'works after garbage');

my ($id, $secret) = token();
is(proof(connect_engine(), "\x55" x 16, $secret), 'refused', 'an unknown token is refused');
is(proof(connect_engine(), $id, "\x55" x 32), 'refused', 'a wrong secret is refused');
($id, $secret) = token();
my $first = connect_engine();
is(proof($first, $id, $secret), 'welcome', 'a right token is welcome');
is(proof(connect_engine(), $id, $secret), 'refused', 'but only once');
close($first);
# What SQL carries is of no use: the keys are public, and a stranger with all of it gets nowhere.
foreach my $known ($public, $its_public)
{
	($id) = token();
	is(proof(connect_engine(), $id, $known), 'refused', 'nobody gets in with what rdma.hello was told and has answered');
	($id) = token();
	is(proof(connect_engine(), $id, token_secret($known, $id, $public, $its_public)), 'refused', 'nor with what can be computed of that');
}
# However often they try, the log gets 20 lines and one a second.
is(proof(connect_engine(), "\x55" x 16, "\x55" x 32), 'refused', 'refused again') foreach 1 .. 40;
my $refusals = () = slurp_file($node->logfile) =~ /refused a connection/g;
cmp_ok($refusals, '<=', 22 + time() - $^T, 'those that are refused do not fill the log');
cmp_ok($node->safe_psql('postgres', 'SELECT handshakes_refused FROM rdma.stat_engine'), '>=', 40, 'and are counted');
my ($bad) = ($request =~ s/\Q$public\E\z/"\0" x 32/er);
like(($node->psql('postgres', "SELECT rdma.hello(decode('" . unpack('H*', $bad) . "', 'hex'))"))[2], qr/key of the other node's engine is not valid/, 'a key with which everybody would know the secret is refused');

# After the handshake: garbage on an authenticated connection closes it and nothing else.
($id, $secret) = token();
my $inside = connect_engine();
is(proof($inside, $id, $secret), 'welcome', 'inside');
print $inside 'garbage garbage garbage garbage garbage';
ok(closed($inside), 'garbage after the handshake closes the connection');

# A role that asks for one token after the other takes none away from another, and one that listens for all flows does not get all.
$node->safe_psql('postgres', q{CREATE ROLE greedy; SELECT rdma.grant_access('greedy', 'exchange')});
($id, $secret) = token();
$node->safe_psql('postgres', "SET ROLE greedy; SELECT count(rdma.hello(CASE WHEN g > 0 THEN decode('" . unpack('H*', $request) . "', 'hex') END)) FROM (SELECT generate_series(1, 2000) g) s");
is(proof(connect_engine(), $id, $secret), 'welcome', "a token outlives another role's thousands");

# A group of so many producers and one consumer, all of them this node: RfGroupHeader in wire.h
my $self = substr($reply, 16, 16);
sub group { my ($producers) = @_; return pack('VvvVvva16VV', 0x50524752, VERSION, 3, 40 + ($producers + 1) * 16 + $producers * 16, $producers, 1, join('', map { chr(rand(256)) } 1 .. 16), 4, 4096)
	. $self x ($producers + 1) . ("\0" x 16) x $producers; }
my $listen = sub
{
	my ($groups) = @_;
	return 'SELECT array_length(rdma.exchange_listen(0, ARRAY[' . join(',', map { "decode('" . unpack('H*', group(16)) . "', 'hex')" } 1 .. $groups) . ']'
		. ", array_fill(NULL::int, ARRAY[$groups]), array_fill(0, ARRAY[$groups])), 1)";
};
my ($listens, $said, $refusal) = $node->psql('postgres', 'SET rdma_fdw.receive_pool = off; SET ROLE greedy; BEGIN; ' . $listen->(33));
like($refusal, qr/role "greedy" has 512 flows of rdma_fdw, as many as one role may have/, 'a role may have half of all flows');
like($refusal, qr/rdma_fdw\.role_share/, 'and learns which setting says so');
$node->safe_psql('postgres', 'ALTER ROLE greedy SET rdma_fdw.role_share = 100');
($listens, $said, $refusal) = $node->psql('postgres', 'SET ROLE greedy; SET rdma_fdw.role_share = 100');
like($refusal, qr/permission denied to set parameter/, 'which it may not change');

# A crowd that is larger than what there is room for, of clients that begin to speak and then do not go on, pushes out its own: an engine in the
# middle of its handshake, which has named its token, stays; so does the number of sockets.
($id, $secret) = token();
my $slow = connect_engine();
print $slow message($HELLO, hello($id));
my $answer = substr(read_bytes($slow, 16 + length(hello())), 16);
my $elsewhere = connect_engine('127.0.0.2');
print $elsewhere 'R';
my @mob = map { my $s = connect_engine(); print $s 'R'; $s } 1 .. 400;
ok(closed($mob[0]), 'the oldest of a crowd gives way');
ok(!IO::Select->new($elsewhere)->can_read(0), 'and not one that came before from another address');
close($elsewhere);
my $engine = $node->safe_psql('postgres', 'SELECT pid FROM rdma.stat_engine');
my @sockets = grep { (readlink($_) // '') =~ /^socket/ } glob("/proc/$engine/fd/*");
cmp_ok(scalar(@sockets), '<', 350, 'and does not grow');
print $slow message($PROOF, $id . hmac_sha256('initiator' . hello($id) . $answer, $secret));
is(unpack('x4v', read_bytes($slow, 16)), $WELCOME, 'an engine that has named its token stays');
# The same from a client that names none, or one that another connection has named: it is one of the crowd.
($id, $secret) = token();
my ($named, $again) = (connect_engine(), connect_engine());
foreach my $s ($named, $again)
{
	print $s message($HELLO, hello($id));
	$answer = substr(read_bytes($s, 16 + length(hello())), 16);
}
close($_) foreach @mob;
@mob = map { my $s = connect_engine(); print $s 'R'; $s } 1 .. 400;
ok(closed($again), 'a token keeps one connection');
close($_) foreach @mob;
print $named message($HELLO, '');
ok(closed($named), 'and that only as long as it says what it should');
close($slow);

# A client that connects and says nothing does not stay.
my $silent = connect_engine();
ok(closed($silent), 'a silent client is thrown out');
my @crowd = map { connect_engine() } 1 .. 100;
is($node->safe_psql('postgres', $check), $expected, 'a crowd of silent clients keeps nobody out');
close($_) foreach @crowd;

rdma_healthy($node, $check, $expected, 'after all intruders');
cmp_ok($node->safe_psql('postgres', 'SELECT handshakes_refused FROM rdma.stat_engine'), '>=', 3, 'refused handshakes are counted');
cmp_ok($node->safe_psql('postgres', 'SELECT garbage_connections FROM rdma.stat_engine'), '>=', 10, 'garbage connections are counted');
$node->stop;
done_testing();
