#!/usr/bin/perl
# report.pl FOLDER: raw.csv (pull,case,ms) as a table with ratios first, scan.txt, scan.csv, and a plot, scan.svg.
use strict;
use warnings;

my ($out) = @ARGV;
my (%ms, @pulls, @cases, %seen);
open my $raw, '<', "$out/raw.csv" or die "$out/raw.csv: $!\n";
while (<$raw>)
{
	chomp;
	my ($pull, $case, $value) = split /,/;
	next if $pull eq 'pull';
	push @pulls, $pull unless $seen{"pull $pull"}++;
	push @cases, $case unless $seen{"case $case"}++;
	push @{ $ms{$pull}{$case} }, $value;
}
my %title = (
	local => 'local scan', local_parallel => 'local scan, 2 workers', copy => 'COPY binary to a client',
	rdma_shm => 'rdma_fdw, shared memory', rdma_tcp => 'rdma_fdw, soft TCP', rdma_tls => 'rdma_fdw, soft TCP, encrypted', rdma_verbs => 'rdma_fdw, verbs',
	rdma_shm_2 => 'rdma_fdw, two nodes', rdma_verbs_2 => 'rdma_fdw, verbs, two nodes',
	rdma_shm_cluster => 'rdma_fdw, two nodes in one scan', rdma_verbs_cluster => 'rdma_fdw, verbs, two nodes in one scan',
	rdma_shm_1buffer => 'rdma_fdw, one receive buffer',
	pgfdw_100 => 'postgres_fdw, fetch_size 100', pgfdw_10000 => 'postgres_fdw, fetch_size 10000',
	pgfdw_50000 => 'postgres_fdw, fetch_size 50000', pgfdw2_10000 => 'postgres_fdw, two nodes, async',
	floor_send => 'floor: sender alone', floor_receive => 'floor: receiver alone');
my %target_tls = (narrow => 1.2, medium => 1.2, wide => 1.3);
my %target = (narrow => [ 0.85, 5 ], medium => [ 1.0, 10 ], wide => [ 0.9, 12 ]);

sub median { my @v = sort { $a <=> $b } @_; return @v % 2 ? $v[ $#v / 2 ] : ($v[ @v / 2 - 1 ] + $v[ @v / 2 ]) / 2; }

open my $csv, '>', "$out/scan.csv" or die $!;
open my $text, '>', "$out/scan.txt" or die $!;
open my $plot, '>', "$out/scan.dat" or die $!;
print $csv "pull,case,median_ms,min_ms,max_ms,to_local,runs\n";
my (%shown, @plotted);

sub tee { print $text @_; print @_; }

foreach my $pull (@pulls)
{
	my $of = $ms{$pull};
	my %m = map { $_ => median(@{ $of->{$_} }) } keys %$of;
	my ($best) = sort { $m{$a} <=> $m{$b} } grep { /^pgfdw_/ } keys %m;
	my ($to_local, $to_rival) = @{ $target{$pull} };

	tee("\n$pull\n");
	if ($m{rdma_shm} && $m{local})
	{
		tee(sprintf("  rdma_fdw to local scan          %5.2f x  (target: at most %.2f x)\n", $m{rdma_shm} / $m{local}, $to_local));
		tee(sprintf("  postgres_fdw's best to rdma_fdw %5.1f x  (target: at least %d x; %s)\n",
			$m{$best} / $m{rdma_shm}, $to_rival, $title{$best})) if $best;
		tee(sprintf("  soft TCP to shared memory       %5.2f x\n", $m{rdma_tcp} / $m{rdma_shm})) if $m{rdma_tcp};
		tee(sprintf("  two nodes to one                %5.2f x  (target: at most 1)\n", $m{rdma_shm_2} / $m{rdma_shm})) if $m{rdma_shm_2};
		tee(sprintf("  two nodes in one scan to one    %5.2f x  (target: at most 1)\n", $m{rdma_shm_cluster} / $m{rdma_shm})) if $m{rdma_shm_cluster};
		my ($slower) = sort { $b <=> $a } map { $m{$_} // 0 } qw(floor_send floor_receive);
		tee(sprintf("  rdma_fdw to the slower floor    %5.2f x  (target: at most 1.15 x)\n", $m{rdma_shm} / $slower)) if $slower;
	}
	tee(sprintf("  encrypted TCP to TCP            %5.2f x  (target: at most %.1f x)\n", $m{rdma_tls} / $m{rdma_tcp}, $target_tls{$pull}))
	  if $m{rdma_tls} && $m{rdma_tcp};
	foreach my $case (@cases)
	{
		next unless $of->{$case};
		my @v = sort { $a <=> $b } @{ $of->{$case} };
		my $ratio = $m{local} ? $m{$case} / $m{local} : 0;
		tee(sprintf("    %-32s %8.3f s  [%.3f-%.3f]  %5.2f x local\n", $title{$case} // $case, $m{$case} / 1000, $v[0] / 1000, $v[-1] / 1000, $ratio));
		printf $csv "%s,%s,%.1f,%.1f,%.1f,%.3f,%d\n", $pull, $case, $m{$case}, $v[0], $v[-1], $ratio, scalar @v;
	}
	$shown{$pull} = { map { $_ => $m{local} ? $m{$_} / $m{local} : 0 } keys %m };
	$shown{$pull}{best} = $best ? $shown{$pull}{$best} : 0;
}

# the plot: time as a multiple of the local scan, one group per pull
my @bars = grep { my $c = $_; grep { $shown{$_}{$c} } @pulls } qw(local rdma_shm rdma_tcp rdma_verbs copy best);
exit 0 unless @bars;
foreach my $pull (@pulls)
{
	print $plot join("\t", $pull, map { sprintf '%.3f', $shown{$pull}{$_} // 0 } @bars), "\n";
}
close $plot;

my ($n, $gap) = (scalar @bars, 1.5);
my @clauses = map {
	my $bar = $bars[$_];
	sprintf("'%s' using %d:xtic(1) title '%s'", "$out/scan.dat", $_ + 2, $bar eq 'best' ? 'postgres_fdw, best fetch_size' : $title{$bar})
} 0 .. $n - 1;
push @clauses, map {
	sprintf("'%s' using (\$0 + %.4f):%d:(sprintf('%%.2f', \$%d)) with labels offset 0,0.6 font ',9' notitle",
		"$out/scan.dat", ($_ - ($n - 1) / 2) / ($n + $gap), $_ + 2, $_ + 2)
} 0 .. $n - 1;
push @clauses, "1 with lines lw 2 lc rgb '#000000' notitle";
open my $gnuplot, '|-', 'gnuplot' or exit 0;
print $gnuplot <<"END", 'plot ', join(', ', @clauses), "\n";
set terminal svg size 860,460 font "sans-serif,13" background "white" noenhanced
set output "$out/scan.svg"
set title "Pulling rows to the coordinator: time as a multiple of a local scan (lower is better)"
set style data histograms
set style histogram clustered gap $gap
set style fill solid 0.85 border -1
set logscale y 2
set yrange [0.4:32]
set grid ytics lc rgb "#dddddd"
set key outside below horizontal
set format y "%g x"
END
close $gnuplot;
