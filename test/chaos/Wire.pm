# Wire.pm: a client of PostgreSQL's protocol whose every call has a deadline, so that a hang is a
# result and not the end of the test.
#
#   my $c = Wire->connect(port => 5432, deadline => time + 30);          # user postgres, no password; undef and $Wire::why when it fails
#   my $r = $c->query($sql, deadline => time + 60, copy => $lines);      # one simple query, which may be several statements
#                                                                        # more => sub { seconds to add when the deadline has come }
#
# A result has rows (array of arrays of text, NULL is undef), tags, and at most one of
#   error => { C => SQLSTATE, M => message, D, H, W ... }    lost => 1 (the server closed)    late => 1 (no answer by the deadline)
# After "lost" the connection is of no more use. After "late" it is of use for $c->exchange('', deadline => ...), which goes on waiting.
# $c->drop closes it without a word, as a client that dies. $c->{parameters} is what the server reported.
package Wire;

use strict;
use warnings;
use IO::Socket::INET;
use IO::Select;
use Time::HiRes qw(time);

our $why;

sub connect
{
	my ($class, %args) = @_;
	my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $args{port}, Proto => 'tcp', Timeout => 20);

	$why = "connect: $!";
	return undef unless $socket;
	$socket->blocking(0);
	my $self = bless { socket => $socket, select => IO::Select->new($socket), in => '' }, $class;
	my %start = (user => $args{user} // 'postgres', database => $args{db} // 'postgres', client_encoding => 'UTF8',
		application_name => $args{name} // 'chaos');
	my $body = pack('N', 196608) . join('', map { "$_\0$start{$_}\0" } sort keys %start) . "\0";
	my $r = $self->exchange(pack('N', length($body) + 4) . $body, %args);

	return $self if !$r->{error} && !$r->{lost} && !$r->{late};
	$why = $r->{error} ? "$r->{error}{C} $r->{error}{M}" : $r->{lost} ? 'lost' : 'late';
	CORE::close($socket);
	return undef;
}

sub query
{
	my ($self, $sql, %args) = @_;

	return $self->exchange('Q' . pack('N', length($sql) + 5) . "$sql\0", %args);
}

sub pid { return $_[0]{pid}; }

sub close
{
	my ($self) = @_;
	syswrite($self->{socket}, 'X' . pack('N', 4));
	CORE::close($self->{socket});
	return;
}

# Only that: $c->exchange('', ...) takes the answer.
sub send
{
	my ($self, $sql) = @_;
	my $out = 'Q' . pack('N', length($sql) + 5) . "$sql\0";

	local $SIG{PIPE} = 'IGNORE';
	while (length($out))
	{
		IO::Select::select(undef, $self->{select}, undef, 1);
		my $n = syswrite($self->{socket}, $out);
		if (defined $n) { substr($out, 0, $n) = ''; }
		elsif (!$!{EAGAIN}) { $out = ''; }
	}
	return;
}

# as if the client had died; with sql, right after asking for it
sub drop
{
	my ($self, $sql) = @_;
	syswrite($self->{socket}, 'Q' . pack('N', length($sql) + 5) . "$sql\0") if defined $sql;
	CORE::close($self->{socket});
	return;
}

# Send, then take messages until the server is ready for the next query.
sub exchange
{
	my ($self, $out, %args) = @_;
	my %result = (rows => [], tags => []);

	while (1)
	{
		while (length($self->{in}) >= 5)
		{
			my ($type, $length) = unpack('aN', $self->{in});
			last if length($self->{in}) < $length + 1;
			my $body = substr($self->{in}, 5, $length - 4);
			substr($self->{in}, 0, $length + 1) = '';

			if ($type eq 'Z') { return \%result; }
			elsif ($type eq 'D') { push @{ $result{rows} }, columns($body); }
			elsif ($type eq 'C') { push @{ $result{tags} }, substr($body, 0, -1); }
			elsif ($type eq 'E') { $result{error} //= fields($body); return \%result if $result{error}{S} eq 'FATAL'; }
			elsif ($type eq 'S') { my ($name, $value) = split(/\0/, $body); $self->{parameters}{$name} = $value; }
			elsif ($type eq 'K') { $self->{pid} = unpack('N', $body); }
			elsif ($type eq 'G') { $out .= 'd' . pack('N', length($args{copy}) + 4) . $args{copy} . 'c' . pack('N', 4); }
			elsif ($type eq 'R' && unpack('N', $body) != 0) { $result{error} = { C => '28000', M => 'the test wants trust authentication' }; return \%result; }
		}
		my $left = $args{deadline} - time();
		if ($left <= 0)
		{
			my $more = $args{more} ? $args{more}->() : 0;
			if ($more > 0)
			{
				$args{deadline} += $more;
				next;
			}
			$result{late} = 1;
			return \%result;
		}
		my ($readable, $writable) = IO::Select::select($self->{select}, length($out) ? $self->{select} : undef, undef, $left < 1 ? $left : 1);
		if ($writable && @$writable)
		{
			local $SIG{PIPE} = 'IGNORE';
			my $n = syswrite($self->{socket}, $out);
			if (defined $n) { substr($out, 0, $n) = ''; }
			elsif (!$!{EAGAIN}) { $out = ''; }				# what the server said before it closed is still to be read
		}
		if ($readable && @$readable)
		{
			my $n = sysread($self->{socket}, $self->{in}, 1 << 18, length($self->{in}));
			if (defined $n ? $n == 0 : !$!{EAGAIN})
			{
				$result{lost} = 1;
				return \%result;
			}
		}
	}
}

sub columns
{
	my ($body) = @_;
	my $count = unpack('n', $body);
	my @columns;

	for (my $at = 2; $count > 0; $count--)
	{
		my $length = unpack('l>', substr($body, $at, 4));
		$at += 4;
		push @columns, $length < 0 ? undef : substr($body, $at, $length);
		$at += $length if $length > 0;
	}
	return \@columns;
}

sub fields
{
	my ($body) = @_;
	return { map { (substr($_, 0, 1) => substr($_, 1)) } grep { length } split(/\0/, $body) };
}

1;
