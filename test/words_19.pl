#!/usr/bin/env perl
# words_19.pl PSQL...: prints what psql prints, with PostgreSQL 19's words as the expected outputs have them; pg_regress starts psql
# through it on 19 and later. Sub-plans have names there: "SubPlan expr_1" is "SubPlan 1" before. A column gets as wide as it is then.
use strict;
use warnings;

my $pid = open(my $out, '-|') // die "fork: $!";
if (!$pid)
{
	open(STDERR, '>&', \*STDOUT);
	exec @ARGV or die "$ARGV[0]: $!";
}
my @lines = <$out>;
close $out;
my $status = $? >> 8;

my @changed = map { s/\b(SubPlan|InitPlan) [a-z]+_([0-9]+)/$1 $2/g } @lines;

# tables of one column: a heading, dashes, rows
foreach my $i (1 .. $#lines)
{
	next if $lines[$i] !~ /^-+\n/;
	my $end = $i;

	$end++ while $end < $#lines && $lines[ $end + 1 ] =~ /^ /;
	next if !grep { $_ } @changed[ $i .. $end ];
	my ($heading) = $lines[ $i - 1 ] =~ /^ *(.*?) *\n/;
	my $width = length $heading;

	foreach (@lines[ $i + 1 .. $end ])
	{
		$width = length($_) - 2 if length($_) - 2 > $width;
	}
	my $left = int(($width - length $heading) / 2);

	$lines[ $i - 1 ] = ' ' x ($left + 1) . $heading . ' ' x ($width - length($heading) - $left + 1) . "\n";
	$lines[$i] = '-' x ($width + 2) . "\n";
}
print @lines;
exit $status;
