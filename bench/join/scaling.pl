#!/usr/bin/perl
# scaling.pl FOLDER SF NODES "WORKERS": raw.csv (query,case,first,last,cpu_ms; cases nodeW and rdmaW) as a table of medians on stdout, and as
# scaling.tsv for the plot: how many times as fast as one node without workers.
use strict;
use warnings;

my ($out, $sf, $nodes, $workers) = @ARGV;
my @workers = split ' ', $workers;
my $most = $workers[-1] * $nodes;
my @cases = ('node0', (map { ("node$_", "rdma$_") } @workers), "node$most");
my (%ms, %cpu, @queries);
open my $raw, '<', "$out/raw.csv" or die "$out/raw.csv: $!\n";
while (<$raw>)
{
	chomp;
	my ($query, $case, $first, $last, $cpu) = split /,/;
	# without a time the query has failed
	next if $query eq 'query' || !defined $cpu;
	push @queries, $query unless $ms{$query};
	push @{ $ms{$query}{$case} }, $last;
	push @{ $cpu{$query}{$case} }, $cpu;
}
sub median { my @v = sort { $a <=> $b } @_; return @v % 2 ? $v[ $#v / 2 ] : ($v[ @v / 2 - 1 ] + $v[ @v / 2 ]) / 2; }
sub time_of { my ($query, $case) = @_; return median(@{ $ms{$query}{$case} }); }
sub cpu_of { my ($query, $case) = @_; return median(@{ $cpu{$query}{$case} }); }

# A query that a case lacks says nothing.
@queries = grep { my $query = $_; !grep { !$ms{$query}{$_} } @cases } @queries;
my @tpch = grep { /^Q/ } @queries;

# Geometric mean of the times of a case to those of another.
sub mean
{
	my ($case, $to) = @_;
	my $log = 0;

	$log += log(time_of($_, $case) / time_of($_, $to)) foreach @tpch;
	return exp($log / @tpch);
}
sub sum { my ($of, $case) = @_; my $sum = 0; $sum += $of->($_, $case) foreach @tpch; return $sum; }

print "TPC-H scale $sf, ms; node W: one node with W workers; nodes W: $nodes data nodes with W workers each\n";
my $format = '%-6s' . ' %8s' x @cases . "\n";
printf $format, 'query', map { /^rdma(.*)/ ? "nodes $1" : /^node(.*)/ && "node $1" } @cases;
foreach my $query (@queries) { printf $format, $query, map { sprintf '%.0f', time_of($query, $_) } @cases; }
if (@tpch)
{
	printf $format, 'sum', map { sprintf '%.0f', sum(\&time_of, $_) } @cases;
	printf $format, 'mean', map { sprintf '%.2f', mean($_, 'node0') } @cases;
	printf $format, 'cpu', map { sprintf '%.2f', sum(\&cpu_of, $_) / sum(\&cpu_of, 'node0') } @cases;
	printf $format, 'busy', map { sprintf '%.1f', sum(\&cpu_of, $_) / sum(\&time_of, $_) } @cases;
	print "mean: geometric, of the TPC-H queries, to one node without workers; cpu: their processor time to it; busy: processors at work on them\n";
	foreach my $w (@workers)
	{
		my @worst = sort { $b->[0] <=> $a->[0] } map { [ time_of($_, "rdma$w") / time_of($_, "node$w"), $_ ] } @tpch;
		printf "%d TPC-H queries, nodes with %d workers to one node with %d: geometric mean %.2f, worst %.2f (%s)\n", scalar @tpch, $w, $w,
			mean("rdma$w", "node$w"), @{ $worst[0] };
	}
	printf "nodes with %d workers to one node with %d: geometric mean %.2f\n", $workers[-1], $most, mean("rdma$workers[-1]", "node$most");
}
open my $tsv, '>', "$out/scaling.tsv" or die "$out/scaling.tsv: $!\n";
print $tsv join("\t", 'workers', 'J1, nodes', 'J1, one node', 'TPC-H, nodes', 'TPC-H, one node'), "\n";
foreach my $w (0, @workers, $most)
{
	my @row = map { my $case = "$_$w"; $ms{J1}{$case} && $ms{J1}{node0} ? time_of('J1', 'node0') / time_of('J1', $case) : 'NaN' } qw(rdma node);

	push @row, map { my $case = "$_$w"; @tpch && $ms{ $tpch[0] }{$case} ? 1 / mean($case, 'node0') : 'NaN' } qw(rdma node);
	print $tsv join("\t", $w, @row), "\n";
}
