#!/usr/bin/env perl
# calls.pl --port P [--minutes N] [--seed N] [--only REGEX]: see README.md; run.sh starts the cluster.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin, "$FindBin::Bin/../chaos";
use Getopt::Long;
use Lying::Calls;

$| = 1;
my ($port, $only);
my ($minutes, $seed) = (10, time() % 1_000_000);
GetOptions('port=i' => \$port, 'minutes=f' => \$minutes, 'seed=i' => \$seed, 'only=s' => \$only) or exit 2;

my $calls = Lying::Calls->new(port => $port);
my @pairs = map { my $role = $_; map { [ $role, $_ ] } grep { !defined $only || $_->{name} =~ /$only/ } $calls->functions($role) } Lying::Calls::roles();
print "seed $seed, $minutes minutes, ", scalar(@pairs), " functions of roles\n";
my ($end, $number, %count, %found) = (time() + 60 * $minutes, $seed * 1000);
while (time() < $end)
{
	srand(++$number);
	my ($role, $function) = @{ $pairs[ rand @pairs ] };
	my ($verdict, $what) = $calls->try($role, $function, $number);

	$count{$verdict}++;
	next if $verdict =~ /^(?:right|error)$/ || $found{"$function->{name} $verdict"}++ > 2;
	print scalar(localtime), " $role, $function->{name}, $number: $verdict: ", substr($what, 0, 600), "\n";
	last if $verdict =~ /^(?:what others|the session)/;
}
print join(', ', map { "$count{$_} $_" } sort keys %count), "\n";
$calls->end;
exit(scalar(grep { !/^(?:right|error)$/ } keys %count) ? 1 : 0);
