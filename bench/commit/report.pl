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
# Of rounds in which both ran next to each other
sub paired
{
	my ($x, $y) = @_;
	my @x = @{ $x || [] };
	my @y = @{ $y || [] };
	return @x && @x == @y ? sprintf('%.2f', median(map { $x[$_] / $y[$_] } 0 .. $#x)) : '-';
}
my %kind = (atomic => 'atomic, one snapshot', each_node => 'atomic, snapshot = each_node', best_effort => 'best_effort, one snapshot', postgres_fdw => 'postgres_fdw');
print "\nreads of 2 nodes per second of $readers readers, beside $writers writers that transfer between them\n";
printf "%-30s %11s %13s %14s %13s %7s of about\n", '', '20 ms', 'to each_node', 'snapshot only', 'to each_node', 'torn';
foreach my $kind (qw(atomic each_node best_effort postgres_fdw))
{
	my ($all, @columns) = (0);
	foreach my $reader (qw(long pair))
	{
		my ($mine, $free) = map { $value{"$reader 2 $readers $_"} || [] } $kind, 'each_node';
		push @columns, text(median(@$mine)), paired($mine, $free);
		$all += $_ * $time foreach @$mine;
	}
	printf "%-30s %11s %13s %14s %13s %7s %d\n", $kind{$kind}, @columns, text(value('torn', 2, $readers, $kind)), $all;
}
printf "atomic, one snapshot: %s torn of these and %s more\n", text(value('torn_of', 2, $readers, 'atomic')), text(value('many', 2, $readers, 'atomic'));
print "\none node, one client, fsync off, per second\n";
printf "%-16s %9s %12s %15s\n", '', 'atomic', 'best_effort', 'to best_effort';
foreach my $what (qw(lookup update))
{
	my ($atomic, $best) = map { $value{"one_node $what 1 $_"} } qw(atomic best_effort);

	printf "%-16s %9s %12s %15s\n", $what, text(median(@{ $atomic || [] })), text(median(@{ $best || [] })), paired($atomic, $best);
}
