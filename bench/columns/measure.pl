#!/usr/bin/perl
# measure.pl POSTMASTER RUNS CONTROL TREATMENT PSQL...: reads statements ("-- NAME" begins each) from standard input, and runs each
# in two sessions in turns, of which one has "SET rdma_fdw.disable" as CONTROL says and the other as TREATMENT says. Prints for each
# its name, the least and the median milliseconds of processor time of all processes of the server without and with, and the ratios of
# both: of a busy machine the least is the better measure. The rows must be the same.
use strict;
use warnings;
use IPC::Open2;
use List::Util qw(min sum);

my ($postmaster, $runs, $control, $treatment, @psql) = @ARGV;

sub session
{
	my ($disable) = @_;
	my $pid = open2(my $out, my $in, @psql);
	$in->autoflush(1);
	my $self = { in => $in, out => $out };
	ask($self, "SET rdma_fdw.disable = '$disable'; SET max_parallel_workers_per_gather = 0;");
	return $self;
}

sub ask
{
	my ($session, $sql) = @_;
	print { $session->{in} } "$sql\n\\echo the end of it\n";
	my $answer = '';
	while (defined(my $line = readline($session->{out})))
	{
		return $answer if $line eq "the end of it\n";
		$answer .= $line;
	}
	die "the session ended at: $sql\n";
}

# nanoseconds of each of the server's processes
sub used
{
	my %used;
	for my $pid (split ' ', `cat /proc/$postmaster/task/$postmaster/children`)
	{
		open(my $in, '<', "/proc/$pid/schedstat") or next;
		my $line = <$in> // next;
		$used{$pid} = (split ' ', $line)[0];
	}
	return \%used;
}

# since then, of those that are still there
sub used_since
{
	my ($before) = @_;
	my $now = used();
	return sum(map { $now->{$_} - $before->{$_} } grep { exists $before->{$_} } keys %$now);
}

sub median { my @sorted = sort { $a <=> $b } @_; return $sorted[ @sorted / 2 ]; }

my (@names, %text);
while (my $line = <STDIN>)
{
	if ($line =~ /^-- (\w+)$/) { push @names, $1; next; }
	$text{ $names[-1] } .= $line if @names;
}
my %session = (control => session($control), treatment => session($treatment));
$| = 1;
my $bad = 0;
for my $name (@names)
{
	my (%times, %rows);
	for my $round (0 .. $runs)
	{
		for my $case ($round % 2 ? ('control', 'treatment') : ('treatment', 'control'))
		{
			my $before = used();
			$rows{$case} = join '', sort split /^/, ask($session{$case}, $text{$name});
			push @{ $times{$case} }, used_since($before) / 1e6 if $round;
		}
	}
	my ($without, $with) = map { [ min(@{ $times{$_} }), median(@{ $times{$_} }) ] } qw(control treatment);
	printf "%-26s %9.1f %9.1f  %.3f   %9.1f %9.1f  %.3f%s\n", $name, (map { ($without->[$_], $with->[$_], $with->[$_] / $without->[$_]) } 0, 1), $rows{control} eq $rows{treatment} ? '' : '  other rows';
	$bad = 1 if $rows{control} ne $rows{treatment};
}
exit $bad;
