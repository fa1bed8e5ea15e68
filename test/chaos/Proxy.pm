# Proxy.pm: the network between the clusters, as far as it is TCP: a process that forwards
# connections and misbehaves on demand.
#
#   my $proxy = Proxy->start({ pq_n1 => 5433, engine_n1 => 7001 });     # link => the real port; returns after it listens
#   $proxy->port('pq_n1')
#   $proxy->tell('pq_n1', 'stall');      # for connections that there are and those to come, until another command
#   $proxy->end
#
#   pass     forward                                  stall    nothing moves; new connections are accepted and stay silent
#   trickle  some bytes every 20 ms                   slow     64 kB/s in each direction, each piece 50 ms late
#   deaf     those that there are forward; new ones are accepted and stay silent until another command
#   first    the same behind the next new one, which forwards
#   hang     those that there are stay silent until another command, new ones forward
#   refuse   new connections are closed at once       cut      close those that there are (reset), then pass
#   half     shut down one direction of each, which then gets no more bytes, then pass for new ones
package Proxy;

use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;
use POSIX ();
use Socket qw(SOL_SOCKET SO_LINGER);
use Time::HiRes qw(time);

use constant ROOM => 1 << 20;		# bytes that wait in one direction of a connection

sub start
{
	my ($class, $links) = @_;
	my %listen;

	foreach my $link (sort keys %$links)
	{
		$listen{$link} = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 64, ReuseAddr => 1) or die "proxy: $!\n";
		$listen{$link}->blocking(0);
	}
	pipe(my $commands, my $control) or die "proxy: $!\n";
	my $pid = fork() // die "proxy: $!\n";
	if (!$pid)
	{
		close($control);
		$SIG{PIPE} = 'IGNORE';
		$SIG{INT} = $SIG{TERM} = 'DEFAULT';
		eval { forward($commands, \%listen, $links); 1 } or print STDERR "proxy: $@";
		POSIX::_exit(0);
	}
	close($commands);
	$control->autoflush(1);
	my %port = map { $_ => $listen{$_}->sockport } keys %listen;
	return bless { pid => $pid, control => $control, port => \%port }, $class;
}

sub port { return $_[0]{port}{ $_[1] }; }
sub links { return sort keys %{ $_[0]{port} }; }
sub tell { my ($self, $link, $mode) = @_; return print { $self->{control} } "$link $mode\n"; }

sub end
{
	my ($self) = @_;
	close($self->{control});			# the end of its commands is the end of the proxy
	waitpid($self->{pid}, 0);
	return;
}

# A connection has two ends; each end knows the other, what waits to be written to it, and from when
# on that may leave.
sub forward
{
	my ($commands, $listen, $links) = @_;
	my %mode = map { $_ => 'pass' } keys %$listen;
	my %link_of = map { ($listen->{$_} => $_) } keys %$listen;
	my %end;
	my $text = '';

	while (1)
	{
		my ($read, $write) = (IO::Select->new($commands, values %$listen), IO::Select->new);
		my $wait = 1;
		my $now = time();

		foreach my $e (values %end)
		{
			my $mode = $mode{ $e->{link} };
			my $waiting = length($e->{out});
			next if $mode eq 'stall' || $e->{silent} && ($mode eq 'deaf' || $mode eq 'hang');
			$read->add($e->{socket}) if !$e->{ended} && length($end{ $e->{other} }{out}) < ROOM;
			if ($waiting && $now >= $e->{not_before}) { $write->add($e->{socket}); }
			elsif ($waiting) { $wait = 0.01; }
		}
		my ($readable, $writable) = IO::Select::select($read, $write, undef, $wait);
		$now = time();
		foreach my $socket (@{ $readable // [] })
		{
			if ($socket == $commands)
			{
				return unless sysread($commands, $text, 4096, length($text));
				while ($text =~ s/^(\S+) (\S+)\n//)
				{
					command(\%end, \%mode, $1, $2);
				}
			}
			elsif (my $link = $link_of{$socket})
			{
				my $in = $socket->accept or next;
				next if $mode{$link} eq 'refuse';
				# on this host, so that it does not wait
				my $out = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $links->{$link}) or next;
				$_->blocking(0) foreach ($in, $out);
				my $silent = $mode{$link} eq 'deaf';
				$mode{$link} = 'deaf' if $mode{$link} eq 'first';
				my %both = (link => $link, out => '', not_before => 0, ended => 0, silent => $silent);
				$end{$in} = { socket => $in, other => $out, %both };
				$end{$out} = { socket => $out, other => $in, %both };
			}
			elsif (my $e = $end{$socket})
			{
				my $other = $end{ $e->{other} };
				my $n = sysread($socket, $other->{out}, 1 << 17, length($other->{out}));
				next if !defined $n && $!{EAGAIN};
				$e->{ended} = 1 unless $n;
				$other->{not_before} = $now + 0.05 if $n && $mode{ $e->{link} } eq 'slow' && $other->{not_before} < $now;
			}
		}
		foreach my $socket (@{ $writable // [] })
		{
			my $e = $end{$socket} or next;
			my $mode = $mode{ $e->{link} };
			my $most = $mode eq 'trickle' ? 1 + int(rand(40)) : $mode eq 'slow' ? 3200 : length($e->{out});
			my $n = syswrite($socket, $e->{out}, $most);
			next if !defined $n && $!{EAGAIN};
			if (!defined $n)
			{
				both(\%end, $e, 0);
				next;
			}
			substr($e->{out}, 0, $n) = '';
			$e->{not_before} = $now + 0.02 if $mode eq 'trickle';
			$e->{not_before} = $now + 0.05 if $mode eq 'slow';
		}
		# An end is passed on after the bytes before it; both ends over, the connection is over.
		my @ends = values %end;
		foreach my $e (@ends)
		{
			my $other = $end{ $e->{other} } // next;
			next if $mode{ $e->{link} } eq 'stall' || $e->{silent} && $mode{ $e->{link} } =~ /^(deaf|hang)$/ || !$e->{ended} || length($other->{out});
			shutdown($other->{socket}, 1) if $e->{ended} == 1;
			$e->{ended} = 2;
			both(\%end, $e, 0) if $other->{ended} == 2;
		}
	}
}

sub both
{
	my ($end, $e, $reset) = @_;
	foreach my $socket ($e->{socket}, $e->{other})
	{
		setsockopt($socket, SOL_SOCKET, SO_LINGER, pack('ii', 1, 0)) if $reset;
		delete $end->{$socket};
		close($socket);
	}
	return;
}

sub command
{
	my ($end, $mode, $link, $what) = @_;

	my @ends = values %$end;
	foreach my $e (@ends)
	{
		next unless $e->{link} eq $link && $end->{ $e->{socket} };
		both($end, $e, 1) if $what eq 'cut';
		$e->{silent} = 1 if $what eq 'hang';
		# one direction of two: the end that comes first in the hash
		if ($what eq 'half' && !$e->{ended} && !$end->{ $e->{other} }{ended})
		{
			$end->{ $e->{other} }{out} = '';
			$e->{ended} = 1;
		}
	}
	$mode->{$link} = $what eq 'cut' || $what eq 'half' ? 'pass' : $what;
	return;
}

1;
