# RdmaEngine.pm: an engine of another node as far as the handshake goes, for tests that speak the engines' protocol (wire.h) to a node.
#
#   my $engine = RdmaEngine->new($node, 'k');                # with a key of its own, and the identity of that
#   my ($id, $secret) = $engine->token('joe');               # rdma_internal.hello on the node, as this role
#   my $socket = $engine->connect;
#   my $said = $engine->proof($socket, $id, $secret);        # 'welcome', 'refused', 'closed'; $engine->{said}: the payload
#   my ($type, $payload) = read_message($socket);
#
# It knows no TLS: behind WELCOME the node needs rdma_fdw.encryption = off. Nothing that blocks does so longer than a minute.
# It asserts nothing.
package RdmaEngine;
use strict;
use warnings;
use Digest::SHA qw(hmac_sha256 sha256);
use Exporter 'import';
use IO::Socket::INET;
use X25519;

use constant { MAGIC => 0x31464452, VERSION => 2 };
our %TYPE = (hello => 1, challenge => 2, proof => 3, welcome => 4, refused => 5, attach => 6, open => 10, ping => 13, pong => 14);
our @EXPORT = qw(MAGIC VERSION %TYPE message read_bytes read_message closed identity);

sub message { my ($type, $payload) = @_; return pack('VvvVV', MAGIC, $TYPE{$type} // $type, VERSION, length($payload), 0) . $payload; }

# Of the engine with that public key
sub identity { my ($public) = @_; return substr(sha256($public), 0, 16); }

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

# Its type's number and its payload; nothing: the connection was closed
sub read_message
{
	my ($s) = @_;
	my $header = read_bytes($s, 16);
	return if length($header) < 16;
	my (undef, $type, undef, $length) = unpack('VvvV', $header);
	return ($type, read_bytes($s, $length));
}

sub new
{
	my ($class, $node, $letter) = @_;
	my $public = x25519($letter x 32, $X25519_BASE);
	my $self = bless { node => $node, port => $node->safe_psql('postgres', 'SELECT port FROM rdma.stat_engine'), public => $public, id => identity($public) }, $class;
	my $reply = $self->ask($self->request("\0" x 16, $self->{id}, $public));

	$self->{reply} = $reply;
	# what this node says of itself: only a client with its type image gets a token worth having
	$self->{image} = substr($reply, 32, 16);
	$self->{its_public} = substr($reply, 64, 32);
	$self->{shared} = x25519($letter x 32, $self->{its_public});
	return $self;
}

# RfHelloRequest, with the identity and the key of somebody else perhaps
sub request
{
	my ($self, $image, $id, $public) = @_;
	return pack('VV', VERSION, 1) . ($id // $self->{id}) . ($image // $self->{image}) . ($public // $self->{public});
}

sub hello_sql { my ($request) = @_; return "rdma_internal.hello(decode('" . unpack('H*', $request) . "', 'hex'))"; }

sub ask
{
	my ($self, $request, $role) = @_;
	return pack('H*', $self->{node}->safe_psql('postgres', ($role ? "SET ROLE $role; " : '') . "SELECT encode(" . hello_sql($request) . ", 'hex')"));
}

sub token
{
	my ($self, $role) = @_;
	my $id = substr($self->ask($self->request, $role), 48, 16);
	return ($id, token_secret($self->{shared}, $id, $self->{public}, $self->{its_public}));
}

sub connect
{
	my ($self, $from) = @_;
	my $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $self->{port}, LocalAddr => $from // '127.0.0.1', Proto => 'tcp', Timeout => 5)
	  or die "connect: $!";
	$s->autoflush(1);
	return $s;
}

# RfControlHello: of one lane, with the software transport
sub hello
{
	my ($self, $id, $node) = @_;
	return ($node // $self->{id}) . $self->{image} . ("\1" x 16) . ($id // "n" x 16) . ("n" x 16) . pack('VV', 1, 1) . ("\0" x 64) . pack('VV', 0, 0);
}

# The beginning of a handshake, to where PROOF is sent and not answered. Returns false when the node has closed before
sub prove
{
	my ($self, $s, $id, $secret, $node) = @_;
	my $hello = $self->hello(undef, $node);

	print $s message(hello => $hello);
	my ($type, $challenge) = read_message($s);
	return 0 unless defined $type && $type == $TYPE{challenge};
	print $s message(proof => $id . hmac_sha256('initiator' . $hello . $challenge, $secret));
	return 1;
}

sub outcome
{
	my ($self, $s) = @_;
	my ($type, $payload) = read_message($s);

	$self->{said} = $payload;
	return !defined $type ? 'closed' : $type == $TYPE{welcome} ? 'welcome' : $type == $TYPE{refused} ? 'refused' : "type $type";
}

sub proof
{
	my ($self, $s, @proof) = @_;
	return $self->prove($s, @proof) ? $self->outcome($s) : 'closed';
}

1;
