#!/usr/bin/perl
# differential.pl: the differential test over clusters that run.sh started; see README.md.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Getopt::Long;
use Differential::Run qw(run_cases);
use Differential::Schema qw(setup);

my %option = (seed => time() % 1_000_000, shrink => 60, directory => '.', host => '127.0.0.1', progress => 2000);
GetOptions(\%option, 'setup', 'seed=i', 'count=i', 'duration=i', 'topology=s', 'from=i', 'shrink=i', 'directory=s', 'host=s', 'psql=s', 'co=i', 'n1=i', 'n2=i', 'progress=i', 'verbose')
  or die "see README.md\n";
my %port = map { $_ => $option{$_} // die "--$_ is missing\n" } qw(co n1 n2);

$| = 1;
if ($option{setup})
{
	foreach my $part (setup('postgres', %port))
	{
		my ($cluster, $sql) = @$part;
		open(my $psql, '|-', $option{psql} // 'psql', '-XqAt', '-o', '/dev/null', '-v', 'ON_ERROR_STOP=1', '-h', $option{host}, '-p', $port{$cluster}, '-U', 'postgres', '-d', 'postgres') or die "psql: $!\n";
		binmode($psql, ':utf8');
		print $psql "SET client_min_messages = warning;\n$sql";
		close($psql) or die "the set-up of $cluster failed\n";
	}
}
$option{count} = 10000 if !$option{count} && !$option{duration};
print "seed $option{seed}\n";
my $run = run_cases(
	connection => { host => $option{host}, port => $port{co}, psql => $option{psql} },
	directory => $option{directory}, seed => $option{seed}, count => $option{count}, duration => $option{duration}, from => $option{from},
	shrink_seconds => $option{shrink}, timeout => 3600, progress => $option{progress}, verbose => $option{verbose}, errors => $option{verbose} ? {} : undef,
	$option{topology} ? (topologies => [ split(/,/, $option{topology}) ]) : ());
my $counts = $run->{counts};
printf("seed %d: %s; %.0f s, %.0f statements a second, %.1f %% of the cases with errors on both sides\n", $option{seed}, join(', ', map { "$counts->{$_} $_" } sort keys %$counts),
	$run->{seconds}, $counts->{statements} / $run->{seconds}, 100 * $counts->{errors} / ($counts->{cases} || 1));
print "$run->{kinds}{$_} times: $_\n" foreach sort { $run->{kinds}{$b} <=> $run->{kinds}{$a} } keys %{ $run->{kinds} };
my $errors = $run->{errors} // {};
print "$errors->{$_}{count} $_: $errors->{$_}{sql}\n" foreach sort { $errors->{$b}{count} <=> $errors->{$a}{count} } keys %$errors;
exit($counts->{differences} ? 1 : 0);
