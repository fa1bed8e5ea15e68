#!/usr/bin/perl
# report.pl FOLDER SF NODES TIMEOUT: raw.csv (query,case,first,last,cpu_ms) and plans as a table of medians on stdout and as join.tsv for the plot.
use strict;
use warnings;

my ($out, $sf, $nodes, $timeout) = @ARGV;
my (%ms, %first, %cpu, @queries);
open my $raw, '<', "$out/raw.csv" or die "$out/raw.csv: $!\n";
while (<$raw>)
{
	chomp;
	my ($query, $case, $first, $value, $cpu) = split /,/;
	next if $query eq 'query';
	push @queries, $query unless $ms{$query};
	$ms{$query}{$case} ||= [];
	next unless defined $value && $value ne '';
	push @{ $ms{$query}{$case} }, $value;
	push @{ $first{$query}{$case} }, $first;
	push @{ $cpu{$query}{$case} }, $cpu;
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
print "TPC-H scale $sf over $nodes data nodes, medians in ms of a session that has run the query before; first: ratios of the first time in a session; cpu: of all processes, with connecting\n";
printf "%-5s %9s %9s %9s %12s %10s %12s %9s %13s %15s  %s\n", 'query', 'rdma_fdw', 'one node', '2 workers', 'postgres_fdw', 'to serial', 'to 2 workers', 'to rival', 'cpu to serial',
	'first', 'strategy';
my (%log, %worst, %sum);
my $n = 0;
foreach my $query (@queries)
{
	my ($rdma, $serial, $parallel, $rival) = map { median(@{ $ms{$query}{$_} || [] }) } @cases;
	my %first = map { $_ => median(@{ $first{$query}{$_} || [] }) } @cases;
	my ($cpu, $cpu_serial) = map { median(@{ $cpu{$query}{$_} || [] }) } qw(rdma serial);
	printf "%-5s %9s %9s %9s %12s %10s %12s %9s %13s %15s  %s\n", $query, text($rdma), text($serial), text($parallel), text($rival),
		ratio($rdma, $serial), ratio($rdma, $parallel), ratio($rdma, $rival), ratio($cpu, $cpu_serial),
		join(' ', map { ratio($first{rdma}, $first{$_}) } qw(serial parallel)), strategy($query);
	print $tsv join("\t", $query, map { defined $_ ? $_ : 'NaN' } $rdma, $serial, $parallel, $rival), "\n";
	next unless $query =~ /^Q/ && $rdma && $serial && $parallel;
	$n++;
	$sum{rdma} += $cpu;
	$sum{serial} += $cpu_serial;
	foreach ([ 'one node serial', $rdma, $serial ], [ 'one node with 2 workers', $rdma, $parallel ],
		[ 'one node serial, first time', $first{rdma}, $first{serial} ], [ 'one node with 2 workers, first time', $first{rdma}, $first{parallel} ])
	{
		my ($to, $ours, $theirs) = @$_;

		$log{$to} += log($ours / $theirs);
		$worst{$to} = [ $ours / $theirs, $query ] if !$worst{$to} || $worst{$to}[0] < $ours / $theirs;
	}
}
printf "%d TPC-H queries to %s: geometric mean %.2f, worst %.2f (%s)\n", $n, $_, exp($log{$_} / $n), @{ $worst{$_} } foreach sort keys %log;
printf "processor time of all of them to one node serial: %s\n", ratio($sum{rdma}, $sum{serial}) if $n;
