#!/usr/bin/perl
# report.pl FOLDER SF TIMEOUT: raw.csv (query,case,ms) as a table of medians on stdout and as fdw.tsv for the plot.
use strict;
use warnings;

my ($out, $sf, $timeout) = @ARGV;
my %ms;
open my $raw, '<', "$out/raw.csv" or die "$out/raw.csv: $!\n";
while (<$raw>)
{
	chomp;
	my ($query, $case, $value) = split /,/;
	push @{ $ms{$query}{$case} }, $value if $query ne 'query' && defined $value && $value ne '';
}
sub median { my @v = sort { $a <=> $b } @_; return @v == 0 ? undef : @v % 2 ? $v[ $#v / 2 ] : ($v[ @v / 2 - 1 ] + $v[ @v / 2 ]) / 2; }
sub text { my $v = shift; return !defined $v ? 'failed' : $v >= $timeout * 1000 ? ">${timeout}s" : sprintf '%.1f', $v; }
sub ratio { my ($x, $y) = @_; return defined $x && $y ? sprintf '%.2f', $x / $y : '-'; }

open my $tsv, '>', "$out/fdw.tsv" or die "$out/fdw.tsv: $!\n";
print $tsv "query\trdma_fdw\tpostgres_fdw\tlocal\n";
print "TPC-H scale $sf, one data node, medians in ms\n";
printf "%-5s %12s %12s %12s %20s %16s\n", 'query', 'rdma_fdw', 'postgres_fdw', 'local', 'to postgres_fdw', 'to local';
my ($log, $n) = (0, 0);
foreach my $query (sort { $a <=> $b } keys %ms)
{
	my ($rdma, $postgres, $local) = map { median(@{ $ms{$query}{$_} || [] }) } ('by_rdma_fdw', 'by_postgres_fdw', 'local');
	printf "Q%-4d %12s %12s %12s %20s %16s\n", $query, text($rdma), text($postgres), text($local), ratio($rdma, $postgres), ratio($rdma, $local);
	print $tsv join("\t", "Q$query", map { defined $_ ? $_ : 'NaN' } $rdma, $postgres, $local), "\n";
	next unless $rdma && $postgres;
	$log += log($rdma / $postgres);
	$n++;
}
printf "geometric mean of rdma_fdw to postgres_fdw over %d queries: %.2f\n", $n, exp($log / $n) if $n;
