# Checks.pm: what must hold after the faults of a round have ended. Each function returns what does
# not, as texts; none is good.
package Checks;

use strict;
use warnings;
use Time::HiRes qw(time sleep);
use Node;
use Setup;
use Shapes;
use Wire;
use Workload;

# Every shape over one schema each, others in the next round, on new sessions, with rows through the
# engines. Each has until a minute after the faults to come right.
sub works
{
	my ($co, $pace, $round) = @_;
	my $began = time();
	my @wrong;

	foreach my $place (0 .. $#Setup::SCHEMAS)
	{
		my $schema = $Setup::SCHEMAS[$place];
		my $c;
		foreach my $i (grep { ($_ + $round) % @Setup::SCHEMAS == $place } 0 .. $#Shapes::list)
		{
			my $shape = $Shapes::list[$i];
			my $why;
			while (1)
			{
				# at least one attempt of its own
				my $late = time() > $began + 60;
				my $deadline = time() + 60 * ($pace < 1 ? 1 : $pace);
				my $got;

				if (!$c && ($c = Wire->connect(port => $co->port, deadline => $deadline, name => 'chaos check')))
				{
					$c->query(Shapes::session($schema) . '; SET rdma_fdw.inline_limit = 0', deadline => $deadline);
				}
				my $r = $c ? $c->query($shape->{sql}, deadline => $deadline) : { lost => 1 };
				if ($r->{error}) { $why = "$r->{error}{C} $r->{error}{M} " . ($r->{error}{D} // ''); }
				elsif ($r->{lost} || $r->{late})
				{
					$why = $r->{late} ? 'no answer within 60 s' : 'connection lost';
					$c->drop if $c;
					$c = undef;
				}
				else { $got = Shapes::text($r->{rows}); $why = "got $got, right is $shape->{answer}"; }
				if (defined $got && $got eq $shape->{answer}) { $why = undef; last; }
				# a wrong answer does not become right by waiting
				last if $late || defined $got;
				sleep(0.5);
			}
			push @wrong, sprintf('%.0f s after the faults: %s in schema %s: %s', time() - $began, $shape->{name},
				$schema, substr($why, 0, 500)) if defined $why;
			return @wrong if @wrong > 5;
		}
		$c->close if $c;
	}
	return @wrong;
}

# The books of every client against what the data nodes have, asked there and through the
# coordinator.
sub written
{
	my ($nodes, $dir, @clients) = @_;
	my @wrong;

	foreach my $client (@clients)
	{
		my $batches = Workload::load($dir, $client->{number});
		if (!$batches)
		{
			push @wrong, "client $client->{number} left no books";
			next;
		}
		foreach my $node ($nodes->{"n$client->{home}"}, $nodes->{co})
		{
			my $rows = $node->ask(sprintf($Workload::look, 'many.w', $client->{number}), 60);
			my $what = $rows ? Workload::books($batches, $rows) : $node->{why};
			push @wrong, 'on ' . $node->name . ", client $client->{number}: $what" if $what;
		}
		my $away = $nodes->{ 'n' . (3 - $client->{home}) };
		my $rows = $away->value("SELECT count(*) FROM many.w WHERE client = $client->{number}");
		push @wrong, 'on ' . $away->name . ": rows of client $client->{number} on the wrong node" if ($rows // 0) > 0;
	}
	return @wrong;
}

# Statements about things that may take until peers have noticed and sessions have ended; each has a
# minute.
my %idle = (
	'streams' => "SELECT count(*), string_agg(concat_ws(' ', role, state, host, pid), ', ') FROM rdma.stat_flows",
	'buffers' => 'SELECT buffer_used FROM rdma.stat_engine',
	'segments that cannot be lent' => 'SELECT segments_held FROM rdma.stat_engine',
	'value memory' => 'SELECT value_used FROM rdma.stat_engine',
	'bytes in flight' => 'SELECT bytes_in_flight FROM rdma.stat_engine',
	'sessions' => "SELECT count(*), string_agg(concat_ws(' ', pid, application_name, state, wait_event, left(query, 60)), ', ') FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type IN ('client backend', 'parallel worker')",
	'prepared transactions' => 'SELECT count(*) FROM pg_prepared_xacts',
	'locks' => "SELECT count(*) FROM pg_locks l WHERE pid <> pg_backend_pid() AND NOT EXISTS (SELECT FROM pg_stat_activity a WHERE a.pid = l.pid AND backend_type LIKE 'autovacuum%')",
	'temporary files' => 'SELECT count(*), min(name) FROM pg_ls_tmpdir()');

sub held
{
	my (@nodes) = @_;
	my $end = time() + 60;
	my @wrong;

	foreach my $node (@nodes)
	{
		foreach my $what (sort keys %idle)
		{
			my $row;
			while (1)
			{
				$row = ($node->ask($idle{$what}) // [ [undef] ])->[0];
				last if defined $row->[0] && $row->[0] eq '0' || time() > $end;
				sleep(0.3);
			}
			push @wrong, $node->name . " still holds $what a minute later: " . join(' ', map { $_ // 'unknown' } @$row)
				unless defined $row->[0] && $row->[0] eq '0';
		}
	}
	return @wrong;
}

# What the operating system has of a server: descriptors and memory of its engine, shared memory;
# compared with a round before.
sub resources
{
	my (@nodes) = @_;
	my %have;

	foreach my $node (@nodes)
	{
		my %memfds;
		my ($fds) = Node::descriptors($node->engine // next);
		foreach my $p ($node->processes)
		{
			my ($count, $memfds) = Node::descriptors($p->{pid});
			@memfds{ keys %$memfds } = ();
		}
		$have{ $node->name . ': descriptors of the engine' } = $fds;
		$have{ $node->name . ': memfds' } = keys %memfds;
		$have{ $node->name . ': processes' } = $node->processes;
	}
	$have{'files in /dev/shm that nobody maps'} = unmapped();
	return \%have;
}

# Shared memory that its processes have left behind. Other servers of the same user may come and go.
sub unmapped
{
	my %mapped;
	opendir(my $d, '/dev/shm') or return 0;
	my @files = grep { (stat("/dev/shm/$_"))[4] == $< } grep { -f "/dev/shm/$_" } readdir($d);
	foreach my $maps (glob('/proc/[0-9]*/maps'))
	{
		open(my $f, '<', $maps) or next;
		while (my $line = <$f>)
		{
			$mapped{$1} = 1 if $line =~ m{/dev/shm/(\S+)};
		}
	}
	return scalar(grep { !$mapped{$_} && -e "/dev/shm/$_" } @files);
}

sub growth
{
	my ($before, $after) = @_;
	# a few connections more or less, a worker that is about to end
	return map { "$_: $before->{$_} before, $after->{$_} after" } grep { exists $before->{$_} && $after->{$_} > $before->{$_} + 12 } sort keys %$after;
}

# An engine with nothing to do sleeps.
sub restless
{
	my (@nodes) = @_;
	my %pid = map { $_->name => $_->engine } @nodes;
	my %before = map { $_ => ticks($pid{$_}) } keys %pid;
	sleep(2);
	return map { "the engine of $_ uses the processor although nothing happens" } grep { ticks($pid{$_}) - $before{$_} > 100 } sort keys %pid;
}

sub ticks
{
	my ($pid) = @_;
	open(my $f, '<', '/proc/' . ($pid // 0) . '/stat') or return 0;
	my @fields = split(' ', (<$f> // '') =~ s/.*\) //r);
	return ($fields[11] // 0) + ($fields[12] // 0);
}

# Ends of processes that the injector did not cause, and what no server may ever say; from an offset
# of the log on.
sub log
{
	my ($node, $from, $killed) = @_;
	my @wrong;
	my $recalcitrant = 0;

	open(my $f, '<', $node->log) or return $node->name . ' has no log';
	seek($f, $from, 0);
	while (my $line = <$f>)
	{
		$recalcitrant = 1 if $line =~ /issuing SIGKILL/;
		if ($line =~ /\(PID (\d+)\) was terminated by signal (\d+)/)
		{
			next if $2 == 9 && ($killed->{$1} || $recalcitrant) || $2 == 15;
			push @wrong, $node->name . ": $line";
		}
		elsif ($line =~ /PANIC|TRAP:|AddressSanitizer|runtime error:|internal error|damaged|out of memory|stack smashing|(?<!possibly )corrupt/)
		{
			next if $line =~ /\bLOG:  (statement|execute)/;
			# what PostgreSQL says when recovery itself was ended
			next if $line =~ /HINT:  This probably means that some data is corrupted/;
			push @wrong, $node->name . ": $line";
		}
	}
	push @wrong, $node->name . ": core dump $_" foreach glob($node->data . '/core*');
	chomp @wrong;
	return @wrong > 5 ? (@wrong[ 0 .. 4 ], 'and ' . (@wrong - 5) . ' more lines') : @wrong;
}

1;
