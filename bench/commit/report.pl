#!/usr/bin/perl
# report.pl FOLDER TIME READERS WRITERS NOTE: raw.tsv (what, spread, clients, case, value) as a table of medians on stdout, and transfers
# as commit.tsv for the plot.
use strict;
use warnings;

my ($out, $time, $readers, $writers, $note) = @ARGV;
my (%value, %clients);
open my $raw, '<', "$out/raw.tsv" or die "$out/raw.tsv: $!\n";
<$raw>;
while (<$raw>)
{
	chomp;
	my ($what, $spread, $clients, $case, $value) = split /\t/;
	push @{ $value{"$what $spread $clients $case"} }, $value;
	$clients{$clients} = 1 if $what eq 'transfers';
}
sub median { my @v = sort { $a <=> $b } @_; return @v == 0 ? undef : @v % 2 ? $v[ $#v / 2 ] : ($v[ @v / 2 - 1 ] + $v[ @v / 2 ]) / 2; }
sub value { return median(@{ $value{"@_"} || [] }); }
sub text { my $v = shift; return defined $v ? sprintf '%.0f', $v : '-'; }
sub ratio { my ($x, $y) = @_; return defined $x && $y ? sprintf '%.2f', $x / $y : '-'; }

my @cases = qw(atomic best_effort postgres_fdw);
my %name = (1 => '1 node', 2 => '2 nodes', 3 => '3 nodes', here => '1 node and here');
open my $tsv, '>', "$out/commit.tsv" or die "$out/commit.tsv: $!\n";
print $tsv join("\t", 'transfers', @cases), "\n";
print 'fsync on; medians', ($note // '') eq '' ? '' : "; $note", "\n\ntransfers per second; WAL syncs of all servers per transfer of one client\n";
printf "%-16s %7s %9s %12s %13s %15s %16s   %s\n", '', 'clients', 'atomic', 'best_effort', 'postgres_fdw', 'to best_effort', 'to postgres_fdw', 'syncs: atomic, best_effort, postgres_fdw';
foreach my $spread (qw(1 2 3 here))
{
	foreach my $clients (sort { $a <=> $b } keys %clients)
	{
		my ($atomic, $best, $rival) = map { value('transfers', $spread, $clients, $_) } @cases;

		printf "%-16s %7d %9s %12s %13s %15s %16s   %s\n", $name{$spread}, $clients, text($atomic), text($best), text($rival), ratio($atomic, $best), ratio($atomic, $rival),
			$clients == 1 || keys %clients == 1 ? join(', ', map { my $v = value('syncs', $spread, 1, $_); defined $v ? sprintf('%g', $v) : '-' } @cases) : '';
		print $tsv join("\t", "$name{$spread}, $clients", map { defined $_ ? $_ : 'NaN' } $atomic, $best, $rival), "\n";
	}
}
my %kind = (atomic => 'atomic, one snapshot', each_node => 'atomic, snapshot = each_node', best_effort => 'best_effort, one snapshot', postgres_fdw => 'postgres_fdw');
print "\nsums over 2 nodes per second of $readers readers, beside $writers writers that transfer between them\n";
printf "%-30s %9s %11s %7s of about\n", '', 'sums', 'transfers', 'torn';
foreach my $kind (qw(atomic each_node best_effort postgres_fdw))
{
	my $sums = $value{"sums 2 $readers $kind"} || [];
	my $all = 0;
	$all += $_ * $time foreach @$sums;
	printf "%-30s %9s %11s %7s %d\n", $kind{$kind}, text(median(@$sums)), text(value('beside', 2, $writers, $kind)), text(value('torn', 2, $readers, $kind)), $all;
}
print "\none node, one client, fsync off, per second\n";
printf "%-16s %9s %12s %15s\n", '', 'atomic', 'best_effort', 'to best_effort';
foreach my $what (qw(lookup update))
{
	my ($atomic, $best) = map { value('one_node', $what, 1, $_) } qw(atomic best_effort);

	printf "%-16s %9s %12s %15s\n", $what, text($atomic), text($best), defined $atomic && $best ? sprintf('%.3f', $atomic / $best) : '-';
}
