#!/usr/bin/env perl
# table.pl LINES UNREACHED FOLDER...: the table of check.sh out of what gcov counted. UNREACHED: lines "NAME reason", NAME a file
# or a function that need not be reached. FOLDER: where the headers are that say which functions are exported.
# Exits with 1 where something else is not reached.
use strict;
use warnings;

my ($lines, $unreached, @folders) = @ARGV;
my (%allowed, %rooms, @functions);

open(my $in, '<', $unreached) or die "$unreached: $!\n";
while (<$in>) { $allowed{$1} = $2 if /^([^#\s]\S*)\s+(\S.*)$/; }
close($in);

# Functions that a header declares
my %exported;
foreach my $header (map { split(/\n/, qx(find '$_' -name '*.h')) } @folders)
{
	open(my $file, '<', $header) or die "$header: $!\n";
	local $/;
	my $text = <$file>;
	$exported{$1} = 1 while $text =~ /^extern\b[^;{]*?\b(\w+)\(/mg;
	close($file);
}

open($in, '<', $lines) or die "$lines: $!\n";
while (<$in>)
{
	chomp;
	my ($kind, $file, $name, $percent, $count) = split(/\t/);
	if ($kind eq 'Function') { push @functions, [ $file, $name ] if $percent == 0; next; }
	my ($room) = $file =~ m{^src/([^/]+)/} or next;
	$room .= "/$1" if $room eq 'fdw' && $file =~ m{^src/fdw/([^/]+)/};
	next if $allowed{$file};
	$rooms{$room}[0] += $count;
	$rooms{$room}[1] += $count * $percent / 100;
}
close($in);

my $bad = 0;
printf "%-16s %8s %8s\n", 'room', 'lines', 'executed';
foreach my $room (sort keys %rooms)
{
	my ($count, $executed) = @{ $rooms{$room} };
	my $percent = 100 * $executed / $count;
	printf "%-16s %8d %6.1f %%%s\n", $room, $count, $percent, $percent < 90 ? '  below 90' : '';
	$bad++ if $percent < 90;
}
print "\nnot counted:\n" if %allowed;
printf "  %-40s %s\n", $_, $allowed{$_} foreach sort keys %allowed;
my @missing = grep { $exported{ $_->[1] } && !$allowed{ $_->[1] } && !$allowed{ $_->[0] } } @functions;
print "\nexported functions that no test calls:\n" if @missing;
print "  $_->[1] ($_->[0])\n" foreach @missing;
exit($bad || @missing ? 1 : 0);
