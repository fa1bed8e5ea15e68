# Proxy.pm: in front of the nodes, as far as it is libpq. It strikes one connection or one round trip, which it counts.
#
#   my $proxy = Refuse::Proxy->start({ n1 => 5433, n2 => 5434 });   # name => the real port
#   $proxy->port('n1')
#   $proxy->plan('n1', 'refuse', 1);         # counts from 1 again; no arguments: nothing is struck
#   my $struck = $proxy->struck;             # was it? The plan is over then
#   $proxy->end
#
#   refuse   the k-th new connection is closed at once
#   late     nothing moves on the k-th new connection for DELAY seconds
#   cut      the connection on which the k-th round trip begins is reset, before the node gets that
#   slow     the k-th round trip reaches the node DELAY seconds later
#   torn     the connection ends in the middle of the answer to the k-th round trip
#   dribble  the answer to the k-th round trip comes in PIECES pieces of a few bytes, STEP seconds apart, and then the rest
#
# A round trip begins when the client sends something for the first time or after the node has sent something.
package Refuse::Proxy;

use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;
use POSIX ();
use Socket qw(SOL_SOCKET SO_LINGER IPPROTO_TCP TCP_NODELAY);
use Time::HiRes qw(time);

use constant { DELAY => 0.05, PIECES => 40, STEP => 0.002 };			# some transactions of the writer

sub start
{
	my ($class, $nodes) = @_;
	my %listen;

	foreach my $name (sort keys %$nodes)
	{
		$listen{$name} = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 64, ReuseAddr => 1) or die "proxy: $!\n";
		$listen{$name}->blocking(0);
	}
	pipe(my $commands, my $control) or die "proxy: $!\n";
	pipe(my $answers, my $reply) or die "proxy: $!\n";
	my $pid = fork() // die "proxy: $!\n";
	if (!$pid)
	{
		close($_) foreach ($control, $answers);
		$SIG{PIPE} = 'IGNORE';
		$SIG{INT} = $SIG{TERM} = 'DEFAULT';
		$reply->autoflush(1);
		eval { forward($commands, $reply, \%listen, $nodes); 1 } or print STDERR "proxy: $@";
		POSIX::_exit(0);
	}
	close($_) foreach ($commands, $reply);
	$control->autoflush(1);
	return bless { pid => $pid, control => $control, answers => $answers, port => { map { $_ => $listen{$_}->sockport } keys %listen } }, $class;
}

sub port { return $_[0]{port}{ $_[1] }; }

sub say_to
{
	my ($self, $line) = @_;
	my $answers = $self->{answers};

	print { $self->{control} } "$line\n";
	chomp(my $answer = <$answers> // die "proxy: gone\n");
	return $answer;
}

sub plan { my ($self, $node, $what, $k) = @_; return $self->say_to(join(' ', 'plan', $node // '-', $what // '-', $k // 0)); }
sub struck { return $_[0]->say_to('report') eq '1'; }

sub end
{
	my ($self) = @_;

	close($self->{control});			# the end of its commands is the end of the proxy
	waitpid($self->{pid}, 0);
	return;
}

sub reset_both
{
	my ($ends, $end) = @_;

	foreach my $e ($ends->{ $end->{other} }, $end)
	{
		next unless $e && delete $ends->{ $e->{socket} };
		setsockopt($e->{socket}, SOL_SOCKET, SO_LINGER, pack('ii', 1, 0));
		close($e->{socket});
	}
	return;
}

sub forward
{
	my ($commands, $reply, $listen, $nodes) = @_;
	my %name_of = map { ($listen->{$_} => $_) } keys %$listen;
	my (%ends, %connections, %trips);
	my ($text, $node, $what, $k, $struck) = ('', '-', '-', 0, 0);

	# Is this the one that the plan strikes?
	my $strikes = sub {
		my ($name, $number, @kinds) = @_;

		return 0 unless $name eq $node && $number == $k && grep { $_ eq $what } @kinds;
		return $struck = 1;
	};

	while (1)
	{
		my ($read, $write) = (IO::Select->new($commands, values %$listen), IO::Select->new);
		my ($now, $wait) = (time(), 1);

		foreach my $e (values %ends)
		{
			$read->add($e->{socket}) if !$e->{ended};
			if (length($e->{out}) == 0 && !$e->{closing}) { next; }
			elsif ($now >= $e->{not_before}) { $write->add($e->{socket}); }
			else { $wait = $e->{not_before} - $now if $e->{not_before} - $now < $wait; }
		}
		my ($readable, $writable) = IO::Select::select($read, $write, undef, $wait);
		$now = time();
		foreach my $socket (@{ $readable // [] })
		{
			if ($socket == $commands)
			{
				return unless sysread($commands, $text, 4096, length($text));
				while ($text =~ s/^(.*)\n//)
				{
					my @words = split(/ /, $1);

					if ($words[0] eq 'plan')
					{
						(%connections, %trips) = ();
						(undef, $node, $what, $k) = @words;
						$struck = 0;
						print $reply "ok\n";
					}
					else
					{
						print $reply "$struck\n";
						$node = '-';
					}
				}
			}
			elsif (my $name = $name_of{$socket})
			{
				my $in = $socket->accept or next;

				next if $strikes->($name, ++$connections{$name}, 'refuse');
				my $out = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $nodes->{$name}) or next;
				my %both = (name => $name, out => '', ended => 0, closing => 0,
					not_before => $strikes->($name, $connections{$name}, 'late') ? $now + DELAY : 0);
				foreach my $s ($in, $out)
				{
					$s->blocking(0);
					setsockopt($s, IPPROTO_TCP, TCP_NODELAY, 1);
				}
				$ends{$in} = { socket => $in, other => $out, client => 1, turn => 1, %both };
				$ends{$out} = { socket => $out, other => $in, client => 0, %both };
			}
			elsif (my $e = $ends{$socket})
			{
				my $other = $ends{ $e->{other} };
				my $n = sysread($socket, my $data, 1 << 17);

				next if !defined $n && $!{EAGAIN};
				if (!$n)
				{
					$e->{ended} = $other->{closing} = 1;
					next;
				}
				if ($e->{client} && $e->{turn})
				{
					$e->{turn} = 0;
					$trips{ $e->{name} }++;
					if ($strikes->($e->{name}, $trips{ $e->{name} }, 'cut'))
					{
						reset_both(\%ends, $e);
						next;
					}
					$other->{not_before} = $now + DELAY if $strikes->($e->{name}, $trips{ $e->{name} }, 'slow');
					$other->{torn} = $strikes->($e->{name}, $trips{ $e->{name} }, 'torn');
					$e->{pieces} = $strikes->($e->{name}, $trips{ $e->{name} }, 'dribble') ? PIECES : 0;
				}
				$other->{turn} = 1 if $other->{client};
				if ($e->{torn})
				{
					substr($data, length($data) >> 1) = '';
					$e->{ended} = $other->{closing} = 1;
				}
				$other->{out} .= $data;
			}
		}
		foreach my $socket (@{ $writable // [] })
		{
			my $e = $ends{$socket} or next;
			my $n = length($e->{out}) ? syswrite($socket, $e->{out}, $e->{pieces} ? 7 : length($e->{out})) : 0;

			next if !defined $n && $!{EAGAIN};
			substr($e->{out}, 0, $n) = '' if $n;
			($e->{pieces}, $e->{not_before}) = ($e->{pieces} - 1, $now + STEP) if $n && $e->{pieces};
			next if defined $n && (length($e->{out}) || !$e->{closing});
			# all that came before the end is written; a client that is gone needs no more either
			delete $ends{$socket};
			my $other = delete $ends{ $e->{other} };
			close($socket);
			close($other->{socket}) if $other;
		}
	}
}

1;
