# X25519 (RFC 7748) in Perl, for tests that speak the engines' protocol: what base/agree.c computes.
package X25519;
use strict;
use warnings;
use Digest::SHA qw(hmac_sha256);
use Exporter 'import';
use Math::BigInt;

our @EXPORT = qw(x25519 token_secret $X25519_BASE);
our $X25519_BASE = "\x09" . "\0" x 31;

my $p = Math::BigInt->new(2)->bpow(255)->bsub(19);

sub number { my ($bytes) = @_; return Math::BigInt->from_hex(unpack('H*', scalar reverse $bytes)); }

# A private key and a point, 32 bytes each, to a point
sub x25519
{
	my ($private, $point) = @_;
	my @k = unpack('C32', $private);
	$k[0] &= 248;
	$k[31] = $k[31] & 127 | 64;
	my $bits = unpack('b256', pack('C32', @k));
	my $x1 = number($point)->bmod(Math::BigInt->new(2)->bpow(255));
	my ($x2, $z2, $x3, $z3) = (Math::BigInt->new(1), Math::BigInt->new(0), $x1->copy, Math::BigInt->new(1));

	foreach my $t (reverse 0 .. 254)
	{
		my $bit = substr($bits, $t, 1);
		($x2, $z2, $x3, $z3) = ($x3, $z3, $x2, $z2) if $bit;
		my ($sum, $difference) = (($x2 + $z2) % $p, ($x2 - $z2) % $p);
		my ($aa, $bb) = ($sum * $sum % $p, $difference * $difference % $p);
		my $e = ($aa - $bb) % $p;
		my ($da, $cb) = (($x3 - $z3) * $sum % $p, ($x3 + $z3) * $difference % $p);
		$x3 = ($da + $cb)->bpow(2)->bmod($p);
		$z3 = $x1 * ($da - $cb)->bpow(2)->bmod($p) % $p;
		$x2 = $aa * $bb % $p;
		$z2 = $e * (($aa + $e * 121665) % $p) % $p;
		($x2, $z2, $x3, $z3) = ($x3, $z3, $x2, $z2) if $bit;
	}
	my $hex = substr(($x2 * $z2->bmodpow($p - 2, $p) % $p)->as_hex, 2);
	return scalar reverse pack('H64', '0' x (64 - length($hex)) . $hex);
}

# The secret of a token, from what two engines share (x25519 of one's private and the other's public key)
sub token_secret
{
	my ($shared, $id, $initiator, $acceptor) = @_;
	return hmac_sha256("rdma_fdw token$initiator$acceptor\x01", hmac_sha256($shared, $id));
}

1;
