#!/usr/bin/env perl
# lying.pl --port co=P --port n1=P --port n2=P [--minutes N] [--seed N] [--only REGEX] [--lie REGEX]: see README.md; run.sh starts the clusters.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin, "$FindBin::Bin/../chaos";
use Getopt::Long;
use Lying::Run;

$| = 1;
my (%port, $only, $only_lie, $list);
my ($minutes, $seed) = (10, time() % 1_000_000);
GetOptions('port=i' => \%port, 'minutes=f' => \$minutes, 'seed=i' => \$seed, 'only=s' => \$only, 'lie=s' => \$only_lie, 'list' => \$list) or exit 2;

my $run = Lying::Run->new(port => \%port);
my %asked = $run->learn;
if ($list)
{
	print "$_: @{ $asked{$_} }\n" foreach sort keys %asked;
	print "UNKNOWN ($run->{unknown}{$_}): $_\n" foreach sort keys %{ $run->{unknown} };
	exit 0;
}
print "seed $seed, $minutes minutes, ", scalar(keys %asked), " questions\n";
print "no question of Lying::Questions: $_\n" foreach sort keys %{ $run->{unknown} };
srand($seed);
my ($end, %count, %found, $trials) = (time() + 60 * $minutes);
# questions that were changed may leave other rows, after which no answer is right
my @lies = defined $only_lie ? grep { /$only_lie/ } Lying::Proxy::lies(), Lying::Proxy::asks() : Lying::Proxy::lies();
my @keys = grep { !defined $only || /$only/ } sort keys %asked;
while (time() < $end)
{
	my $key = $keys[ rand @keys ];
	my $name = $asked{$key}[ rand @{ $asked{$key} } ];
	my $lie = $lies[ rand @lies ];
	my $number = int(rand(1_000_000));
	# a commit has no timeout
	next if Lying::Proxy::is_silent($lie) && (rand() < 0.7 || $name =~ /^commit/);
	my ($told, $verdict, $what) = $run->try($name, $key, $lie, $number);

	$trials++;
	$count{$verdict}++;
	next if $verdict =~ /^(?:right|error)$/;
	my $short = length($what // '') > 300 ? substr($what, 0, 300) . '...' : $what // '';
	print scalar(localtime), " $name, $key, $lie, $number ($told lies): $verdict: $short\n" if $found{"$key $verdict"}++ < 3;
}
print "$trials trials: ", join(', ', map { "$count{$_} $_" } sort keys %count), "\n";
$run->end;
exit(scalar grep { !/^(?:right|error)$/ } keys %count) ? 1 : 0;
