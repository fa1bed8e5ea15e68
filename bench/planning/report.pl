#!/usr/bin/env perl
# report.pl RAW: the table of a run of run.sh
use strict;
use warnings;
use List::Util qw(min max sum);

my (%times, @names);
open my $raw, '<', $ARGV[0] or die "$ARGV[0]: $!\n";
<$raw>;
while (<$raw>)
{
	chomp;
	my ($name, $planner, $schema, $ms) = split /,/;
	push @names, $name unless $times{$name};
	push @{ $times{$name}{$planner}{$schema} }, $ms;
}

sub median { my @sorted = sort { $a <=> $b } @_; return $sorted[$#sorted / 2]; }
sub mean { return exp(sum(map { log } @_) / @_); }
my %geometric;

# "LEAST RATIO (RATIO OF MEDIANS)" of a planner's times over nodes
sub cells
{
	my ($name, $planner, $schema, $local) = @_;
	my ($of, $to) = map { $times{$name}{$planner}{$_} // [] } $schema, $local;
	return ('') x 3 unless @$of && @$to;
	return (sprintf('%.2f', min(@$of)), sprintf('%.2f', min(@$of) / min(@$to)), sprintf('%.2f', median(@$of) / median(@$to)));
}

sub table
{
	my ($local, $schemas, @statements) = @_;
	return unless @statements;
	my @planners = grep { $times{ $statements[0] }{$_} } qw(coord base);
	for my $schema (@$schemas)
	{
		my %ratios;
		printf "\n%s: milliseconds, the least and its multiple of local (multiple of medians)%s\n", $schema,
			@planners > 1 ? '; then the same of the other tree' : '';
		for my $name (@statements)
		{
			printf "%-14s %9.2f", $name, min(@{ $times{$name}{coord}{$local} });
			for my $planner (@planners)
			{
				my ($ms, $ratio, $median) = cells($name, $planner, $schema, $local);
				next if $ms eq '';
				printf "   %9s %6s (%s)", $ms, $ratio, $median;
				push @{ $ratios{$planner} }, [ $ratio, $name ];
			}
			print "\n";
		}
		for my $planner (@planners)
		{
			my ($worst) = sort { $b->[0] <=> $a->[0] } @{ $ratios{$planner} };
			printf "%s: geometric mean %.2f, largest %.2f (%s)\n", $planner, mean(map { $_->[0] } @{ $ratios{$planner} }), @$worst;
		}
	}
}

table('l', ['d'], grep { /-\d+$/ } @names);
table('movies', [ 'movies_by_id', 'movies_by_key' ], grep { /^job-/ } @names);

my @short = grep { !/-\d+$|^job-/ } @names;
if (@short)
{
	print "\nshort statements: microseconds, medians of this tree and of the other, the ratio, and that of the least\n";
	my @ratios;
	for my $name (@short)
	{
		for my $schema (qw(l f d))
		{
			my ($ours, $theirs) = map { $times{$name}{$_}{$schema} } qw(coord base);
			push @ratios, median(@$ours) / median(@$theirs) if $schema ne 'l';
			printf "%-14s %s %7.1f %7.1f  %.3f  %.3f\n", $name, $schema, 1000 * median(@$ours), 1000 * median(@$theirs),
				median(@$ours) / median(@$theirs), min(@$ours) / min(@$theirs);
		}
	}
	printf "geometric mean of f and d: %.3f\n", mean(@ratios);
}
