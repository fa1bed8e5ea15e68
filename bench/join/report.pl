#!/usr/bin/perl
# report.pl FOLDER SF NODES TIMEOUT: raw.csv (query,case,ms) and plans as a table of medians on stdout and as join.tsv for the plot.
use strict;
use warnings;

my ($out, $sf, $nodes, $timeout) = @ARGV;
my (%ms, @queries);
open my $raw, '<', "$out/raw.csv" or die "$out/raw.csv: $!\n";
while (<$raw>)
{
	chomp;
	my ($query, $case, $value) = split /,/;
	next if $query eq 'query';
	push @queries, $query unless $ms{$query};
	$ms{$query}{$case} ||= [];
	push @{ $ms{$query}{$case} }, $value if defined $value && $value ne '';
}
sub median { my @v = sort { $a <=> $b } @_; return @v == 0 ? undef : @v % 2 ? $v[ $#v / 2 ] : ($v[ @v / 2 - 1 ] + $v[ @v / 2 ]) / 2; }
sub text { my $v = shift; return !defined $v ? '-' : $v >= $timeout * 1000 ? ">${timeout}s" : sprintf '%.0f', $v; }
sub ratio { my ($x, $y) = @_; return defined $x && $y ? sprintf '%.2f', $x / $y : '-'; }

# How the query's inputs meet, from the plan that ran.
sub strategy
{
	my ($query) = @_;
	open my $plan, '<', "$out/plan.$query.txt" or return '';
	my %seen;
	my @words = grep { !$seen{$_}++ } map { /^\s*Strategy: (.*?)\s*$/ ? $1 : () } <$plan>;
	return join '; ', @words;
}

my @cases = qw(rdma serial parallel rival);
open my $tsv, '>', "$out/join.tsv" or die "$out/join.tsv: $!\n";
print $tsv join("\t", 'query', 'rdma_fdw', 'one node', 'one node, 2 workers', 'postgres_fdw'), "\n";
print "TPC-H scale $sf over $nodes data nodes, medians in ms\n";
printf "%-5s %9s %9s %9s %12s %10s %12s %9s  %s\n", 'query', 'rdma_fdw', 'one node', '2 workers', 'postgres_fdw', 'to serial', 'to 2 workers', 'to rival', 'strategy';
my ($log, $n) = (0, 0);
foreach my $query (@queries)
{
	my ($rdma, $serial, $parallel, $rival) = map { median(@{ $ms{$query}{$_} || [] }) } @cases;
	printf "%-5s %9s %9s %9s %12s %10s %12s %9s  %s\n", $query, text($rdma), text($serial), text($parallel), text($rival),
		ratio($rdma, $serial), ratio($rdma, $parallel), ratio($rdma, $rival), strategy($query);
	print $tsv join("\t", $query, map { defined $_ ? $_ : 'NaN' } $rdma, $serial, $parallel, $rival), "\n";
	next unless $query =~ /^Q/ && $rdma && $serial;
	$log += log($rdma / $serial);
	$n++;
}
printf "geometric mean of rdma_fdw to one node serial over %d TPC-H queries: %.2f\n", $n, exp($log / $n) if $n;
