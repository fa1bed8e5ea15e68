#!/usr/bin/perl
# chaos.pl: clients that know the right answers, and a seeded injector of faults. README.md tells
# how to run it and what it checks.
#
#   chaos.pl DIR      the folder of clusters co, n1 and n2 as test/cluster.sh has started them, as the user that owns them
#
# From the environment: SEED, DURATION (seconds of faults in all), ROUND (seconds until everything
# is checked), CLIENTS, RATE (faults per second), LONGEST (seconds of the longest pause), ONLY and
# WITHOUT (kinds of faults), PROVIDER. Prints TAP; files are left in DIR/chaos.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use POSIX qw(WNOHANG);
use Time::HiRes qw(time sleep);
use Checks;
use Faults;
use Node;
use Proxy;
use Setup;
use Shapes;
use Workload;

my $dir = $ARGV[0] // die "usage: chaos.pl DIR\n";
my $seed = $ENV{SEED} || time() % 1_000_000;
my $duration = $ENV{DURATION} || 60;
my $round_length = $ENV{ROUND} || 30;
$round_length = $duration if $duration < $round_length;
my $clients = $ENV{CLIENTS} || 5;
my $provider = $ENV{PROVIDER} || 'auto';
my $size = $provider eq 'verbs' ? 0.1 : 1;				# in the emulated machine everything takes twenty times as long
my $longest = $ENV{LONGEST} || ($duration < 300 ? 8 : 40);
my ($tests, $failures, $at) = (0, 0, time());
my $silence = 3600;			# seconds without a result after which it ends itself

$seed = int($seed);
srand($seed);
$| = 1;
$SIG{INT} = $SIG{TERM} = sub { die "stopped\n"; };
$SIG{ALRM} = sub { die "no result for $silence s\n"; };
alarm($silence);

sub result
{
	my ($what, @wrong) = @_;
	$tests++;
	$failures++ if @wrong;
	printf "%s %d - %s # %.1f s\n", @wrong ? 'not ok' : 'ok', $tests, $what, time() - $at;
	$at = time();
	alarm($silence);
	print '#   ' . s/\s*\n\s*/ ~ /gr . "\n" foreach @wrong;
	return;
}

my %nodes = map { $_ => Node->new(dir => $dir, name => $_, bindir => $ENV{RF_BINDIR}) } qw(co n1 n2);
my @nodes = @nodes{qw(co n1 n2)};
my $work = "$dir/chaos";
mkdir $work;
print "# seed $seed, $duration s in rounds of $round_length s, $clients clients, longest pause $longest s, provider $provider\n";

# Engines are reached through the proxy too, so their ports must stay.
my %links;
foreach my $node (@nodes)
{
	my $port = $node->value('SHOW rdma_fdw.engine_port') // die 'no cluster ' . $node->name . ": $node->{why}\n";
	$links{ 'engine_' . $node->name } = $port;
	$links{ 'pq_' . $node->name } = $node->port unless $node->name eq 'co';
}
my $proxy = Proxy->start(\%links);
foreach my $node (@nodes)
{
	# not by ALTER SYSTEM, which the end of a round resets
	open(my $f, '>>', $node->data . '/postgresql.conf') or die $!;
	print $f "rdma_fdw.engine_address = '127.0.0.1:" . $proxy->port('engine_' . $node->name) . "'\n";
	close($f);
	$node->run('SELECT pg_reload_conf()');
}
my $version = $nodes{co}->value('SHOW server_version') =~ s/ .*//r;
my $began = time();
Setup::make(\%nodes, $proxy, $size);
Shapes::answer($nodes{co}, $size);
printf "# set up after %.1f s\n", time() - $began;
$began = time();
result('everything works before anything breaks', Checks::works($nodes{co}, 10, 0));
# How long a statement takes here, at this load: bounds grow with it.
my $pace = (time() - $began) / @Shapes::list / 0.1;
$pace = 1 if $pace < 1;
$silence = int($round_length + 900 * $pace);
alarm($silence);
printf "# %d queries took %.1f s, pace %.1f\n", scalar(@Shapes::list), time() - $began, $pace;

my @transports = $provider =~ /^(auto|soft)$/ ? ($provider, 'tcp') : ('');
my %resources;				# by transport, of the first round's end
my (%sum, %errors, $right, $wrong, $lost);
my %killed;
my $number = 0;
my (%pids, $faults);
my $main = $$;
END
{
	# Nothing outlives the test, however it ends.
	my $status = $?;
	if (defined $main && $$ == $main)
	{
		kill 'KILL', keys %pids, $faults ? keys %{ $faults->{jobs} } : ();
		kill 'CONT', $faults ? keys %{ $faults->{stopped} } : ();
	}
	$? = $status;
}
my $rounds = int($duration / $round_length + 0.5) || 1;
for my $round (1 .. $rounds)
{
	one_round($round, $transports[ ($round - 1) % @transports ]);
}
$proxy->end;

printf "# faults: %d: %s\n", sum(values %sum), listed(', ', \%sum);
printf "# answers and writes that were right: %d; errors: %d: %s; connections lost: %d; wrong: %d\n",
	$right // 0, sum(values %errors), listed(', ', \%errors), $lost // 0, $wrong // 0;
printf "# logs in %s\n", $work if $failures;
# a row of LOG.md
printf "# | %s | %s | %s | %d | %s | %d s | %d: %s | %d | %s | %d | %d of %d |\n",
	POSIX::strftime('%Y-%m-%d', gmtime), $version, $ENV{COMMIT} || '?', $seed, $provider, $duration,
	sum(values %sum), listed(' ', \%sum), $right // 0, listed(' ', \%errors), $wrong // 0,
	$failures, $tests;
print "1..$tests\n";
exit($failures ? 1 : 0);

sub sum { my $sum = 0; $sum += $_ foreach @_; return $sum; }
sub listed { my ($by, $counts) = @_; return join($by, map { "$_ $counts->{$_}" } sort keys %$counts); }

sub one_round
{
	my ($round, $transport) = @_;
	my %from = map { $_->name => -s $_->log } @nodes;
	my $when = "round $round" . ($transport ? " ($transport)" : '');

	if ($transport)
	{
		foreach my $node (@nodes)
		{
			next if ($node->value('SHOW rdma_fdw.provider') // '') eq $transport;
			# a line of its own, for the same reason
			open(my $f, '>>', $node->data . '/postgresql.conf') or die $!;
			print $f "rdma_fdw.provider = $transport\n";
			close($f);
			$node->ctl('restart', '-m', 'fast') or die 'cannot restart ' . $node->name . "\n";
		}
	}
	$faults = Faults->new(seed => $seed * 1000 + $round, nodes => \%nodes, proxy => $proxy, dir => $work, longest => $longest, rate => $ENV{RATE} || 1,
		only => [ split(/[ ,]+/, $ENV{ONLY} // '') ], without => [ split(/[ ,]+/, $ENV{WITHOUT} // '') ]);
	$faults->say("round $round of seed $seed begins");

	my @all;
	foreach my $i (1 .. $clients)
	{
		my $client = { number => ++$number };
		$client->{home} = 1 + ($nodes{co}->value("SELECT rdma.hash_node(2, $number)") // die "no answer of the coordinator: $nodes{co}{why}\n");
		push @all, $client;
		my $pid = fork() // die "fork: $!\n";
		if (!$pid)
		{
			my $ok = eval {
				Workload->new(co => $nodes{co}, dir => $work, size => $size, pace => $pace,
					seed => ($seed * 1000 + $number) % 4_294_967_291, late => \&tell_late, %$client)->run;
				1;
			};
			print STDERR "client $client->{number}: $@" unless $ok;
			POSIX::_exit($ok ? 0 : 1);
		}
		$pids{$pid} = $client;
	}
	my $end = time() + $round_length;
	while (time() < $end)
	{
		$faults->step;
		sleep(0.05);
	}
	$faults->settle;
	kill 'TERM', keys %pids;
	my $settled = time();
	my @stuck = wait_for(\%pids, 3 * $Workload::cleaning + 60 * $pace);
	result("$when: every fault could be ended", @{ $faults->{wrong} });
	result("$when: every client ended", @stuck);
	%killed = (%killed, %{ $faults->{killed} });
	result("$when: answers were right, errors said why, nothing was late", said($faults, @all));
	result("$when: everything works within a minute", Checks::works($nodes{co}, $pace, $round));
	result("$when: rows that were written are those that are there", Checks::written(\%nodes, $work, @all));
	result("$when: nothing is held", Checks::held(@nodes));
	result("$when: engines that have nothing to do sleep", Checks::restless(@nodes));
	my $have = Checks::resources(@nodes);
	result("$when: descriptors and shared memory do not grow", $resources{$transport} ? Checks::growth($resources{$transport}, $have) : ());
	$resources{$transport} //= $have;
	result("$when: no crash and no damage in the log of " . $_->name, Checks::log($_, $from{ $_->name }, \%killed)) foreach @nodes;
	$sum{$_} += $faults->{counts}{$_} foreach keys %{ $faults->{counts} };
	printf "# $when: %d faults, checked after %.1f s\n", sum(values %{ $faults->{counts} }), time() - $settled;
	return;
}

# Clients end after their statement.
sub wait_for
{
	my ($pids, $seconds) = @_;
	my $end = time() + $seconds;
	my @stuck;

	while (%$pids && time() < $end)
	{
		foreach my $pid (keys %$pids)
		{
			next unless waitpid($pid, WNOHANG) == $pid;
			push @stuck, "client $pids->{$pid}{number} ended with status $?" if $?;
			delete $pids->{$pid};
		}
		sleep(0.05);
	}
	foreach my $pid (keys %$pids)
	{
		push @stuck, "client $pids->{$pid}{number} did not end within $seconds s";
		kill 'KILL', $pid;
		waitpid($pid, 0);
	}
	return @stuck;
}

# What the clients noted. A connection to the coordinator may be lost only where a fault ended
# sessions there.
sub said
{
	my ($faults, @all) = @_;
	my @wrong;

	foreach my $client (@all)
	{
		open(my $f, '<', "$work/client.$client->{number}.log") or next;
		while (my $line = <$f>)
		{
			chomp($line);
			my ($time, $kind, $text) = split(/ /, $line, 3);
			if ($kind eq 'right') { $right++; }
			elsif ($kind eq 'error') { $errors{ substr($text, 0, 5) }++; }
			elsif ($kind eq 'WRONG') { $wrong++; push @wrong, "client $client->{number} at $time: " . substr($text, 0, 1500); }
			elsif ($kind eq 'lost')
			{
				$lost++;
				# a session that is cancelled while it starts ends
				push @wrong, "client $client->{number} at $time: lost its connection without a fault: $text"
					unless $text =~ /^no connection: 57014/ || grep { $_->[0] <= $time && $time <= $_->[1] + 1 } @{ $faults->{down} };
			}
		}
	}
	# of each sort the first, and how many there were
	my (%count, @first);
	foreach my $text (@wrong)
	{
		push @first, $text unless $count{ sort_of($text) }++;
	}
	return map { my $n = $count{ sort_of($_) } - 1; $_ . ($n ? " (and $n more of this sort)" : '') } @first;
}

sub sort_of { return substr($_[0] =~ s/^client \d+ at [\d.]+: //r =~ s/\d{2,}/N/gr, 0, 75); }

# A statement did not end: what everybody does at that moment.
sub tell_late
{
	my ($pid) = @_;
	open(my $f, '>>', "$work/late.log") or return;
	print $f sprintf("%.3f no end of the statement of process %s\n", time(), $pid // '?');
	foreach my $node (@nodes)
	{
		foreach my $sql ("SELECT pid, backend_type, application_name, state, wait_event_type, wait_event, now() - query_start, left(query, 200) FROM pg_stat_activity",
			'SELECT * FROM rdma.stat_flows', 'SELECT * FROM rdma.stat_engine', 'SELECT * FROM rdma.stat_peers')
		{
			print $f $node->name . ' ' . join('|', map { $_ // '' } @$_) . "\n" foreach @{ $node->ask($sql, 5) // [] };
		}
	}
	if ($pid)
	{
		foreach my $file (qw(wchan stack status))
		{
			open(my $g, '<', "/proc/$pid/$file") or next;
			print $f "$file: ", <$g>, "\n";
		}
	}
	close($f);
	return;
}
