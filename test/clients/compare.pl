#!/usr/bin/env perl
# compare.pl CLIENT PLAIN DISTRIBUTED KNOWN: a client's steps with local tables and with distributed tables have the same results.
#
# PLAIN and DISTRIBUTED have a line for each step, "step NAME RESULT", and "sql NAME STATEMENT" for a statement that the step takes
# from its author and not from the tool, separated by tabs. KNOWN has "CLIENT NAME REASON" for the steps that differ. Prints what
# differs, and "ok" or "FAIL" and how many steps there were, separated by a tab.
use strict;
use warnings;

my ($client, $plain, $distributed, $known) = @ARGV;

# The steps of a file in their order, their results by name, and the statements
sub steps
{
	my ($file) = @_;
	my (@order, %result, @sql);

	open(my $in, '<', $file) or die "$file: $!\n";
	while (my $line = <$in>)
	{
		chomp $line;
		my ($kind, $name, $text) = split /\t/, $line, 3;
		if ($kind eq 'sql') { push @sql, "$name: $text"; next; }
		print "twice: $name\n" if exists $result{$name};
		push @order, $name;
		$result{$name} = $text;
	}
	return (\@order, \%result, \@sql);
}

my ($order, $expected) = steps($plain);
my ($also, $got, $sql) = steps($distributed);
my %reason;

open(my $in, '<', $known) or die "$known: $!\n";
while (my $line = <$in>)
{
	$reason{$2} = $3 if $line =~ /^(\S+) +(\S+) +(\S.*)/ && $1 eq $client;
}
my ($differ, $wrong) = (0, 0);
foreach my $name (@$order, grep { !exists $expected->{$_} } @$also)
{
	my ($one, $other) = map { $_->{$name} // 'not reached' } $expected, $got;
	my $same = $one eq $other;

	if ($one =~ /^error/ && !($name =~ /^refused_/)) { print "with local tables: $name: $one\n"; $wrong++; }
	elsif (!$same && $reason{$name}) { print "known: $name: $reason{$name}\n"; $differ++; }
	elsif (!$same) { print "$name\n    local:       $one\n    distributed: $other\n"; $wrong++; }
	elsif ($reason{$name}) { print "$name: the same, though known.txt says that it differs\n"; $wrong++; }
}
foreach my $name (sort keys %reason) { print("$name: in known.txt, and no step\n"), $wrong++ if !exists $expected->{$name}; }
my %said;
@$sql = grep { !$said{$_}++ } @$sql;
print "own SQL: $_\n" foreach @$sql;
printf("%s\t%d steps, %d failed, %d differ for a known reason, %d with own SQL\n", $wrong || !@$order ? 'FAIL' : 'ok', scalar @$order, $wrong, $differ, scalar @$sql);
