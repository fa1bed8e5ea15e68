#!/usr/bin/perl
# report.pl FOLDER SCALE NODES TIMEOUT: raw.csv (query,case,first,last) and plans as a table of medians on stdout and as star.tsv for the plot.
use strict;
use warnings;

my ($out, $scale, $nodes, $timeout) = @ARGV;
my (%ms, %first, @queries);
open my $raw, '<', "$out/raw.csv" or die "$out/raw.csv: $!\n";
while (<$raw>)
{
	chomp;
	my ($query, $case, $first, $value) = split /,/;
	next if $query eq 'query';
	push @queries, $query unless $ms{$query};
	$ms{$query}{$case} ||= [];
	next unless defined $value && $value ne '';
	push @{ $ms{$query}{$case} }, $value;
	push @{ $first{$query}{$case} }, $first;
}
sub median { my @v = sort { $a <=> $b } @_; return @v == 0 ? undef : @v % 2 ? $v[ $#v / 2 ] : ($v[ @v / 2 - 1 ] + $v[ @v / 2 ]) / 2; }
sub text { my $v = shift; return !defined $v ? '-' : $v >= $timeout * 1000 ? ">${timeout}s" : sprintf '%.0f', $v; }

# The most rows that one Foreign Scan of the plan brought to the coordinator, in all its loops, and what it is a scan of.
sub base
{
	my ($query) = @_;
	open my $plan, '<', "$out/plan.$query.txt" or return ('-', '');
	my ($most, $of) = ('-', '');
	my $is_most = 0;
	while (<$plan>)
	{
		if (/Foreign Scan(?: on (\S+))?.*\(actual rows=([\d.]+) loops=(\d+)\)/)
		{
			my ($name, $rows) = ($1, $2 * $3);
			$is_most = $most eq '-' || $rows > $most;
			($most, $of) = ($rows, $name || '') if $is_most;
		}
		elsif ($is_most && !$of && /^\s*Relations: (.*?)\s*$/)
		{
			$of = length $1 > 70 ? substr($1, 0, 67) . '...' : $1;
		}
	}
	return ($most eq '-' ? $most : sprintf('%.0f', $most), $of);
}

open my $tsv, '>', "$out/star.tsv" or die "$out/star.tsv: $!\n";
print $tsv join("\t", 'query', 'rdma_fdw', 'one node'), "\n";
print "star queries, scale $scale, over $nodes data nodes, medians in ms of a session that has run the query before; first: the ratio of the first time\n";
print "in a session; base: the most rows that one scan of the plan brought to the coordinator\n";
printf "%-5s %9s %9s %9s %6s %9s  %s\n", 'query', 'rdma_fdw', 'one node', 'to serial', 'first', 'base', 'of';
my (%log, %n, %worst, %which);
foreach my $query (@queries)
{
	my ($rdma, $serial) = map { median(@{ $ms{$query}{$_} || [] }) } qw(rdma serial);
	my ($rdma_first, $serial_first) = map { median(@{ $first{$query}{$_} || [] }) } qw(rdma serial);
	my %ratio = (last => defined $rdma && $serial ? $rdma / $serial : undef, first => defined $rdma_first && $serial_first ? $rdma_first / $serial_first : undef);
	printf "%-5s %9s %9s %9s %6s %9s  %s\n", $query, text($rdma), text($serial), map({ defined $ratio{$_} ? sprintf('%.2f', $ratio{$_}) : '-' } qw(last first)), base($query);
	print $tsv join("\t", $query, map { defined $_ ? $_ : 'NaN' } $rdma, $serial), "\n";
	foreach my $when (grep { $ratio{$_} } qw(last first))
	{
		$log{$when} += log $ratio{$when};
		$n{$when}++;
		($worst{$when}, $which{$when}) = ($ratio{$when}, $query) if $ratio{$when} > ($worst{$when} // 0);
	}
}
foreach my $when (grep { $n{$_} } qw(last first))
{
	printf "geometric mean of rdma_fdw to one node serial over %d queries%s: %.2f, worst: %.2f (%s)\n", $n{$when}, $when eq 'first' ? ', first time' : '', exp($log{$when} / $n{$when}),
	  $worst{$when}, $which{$when};
}
