# refuse.pl: a run by hand; run.sh starts the clusters. See README.md.
#
#   perl refuse.pl --port co=5432 --port n1=5433 --port n2=5434 [--only REGEX] [--every N] [--seed N]
use strict;
use warnings;
use FindBin;
use Getopt::Long;
use POSIX qw(strftime);
use lib $FindBin::Bin, "$FindBin::Bin/../chaos";
use Refuse::Run;

my %args = (port => {}, only => '.', every => 1, most => 60, seed => time() % 1_000_000);
GetOptions(\%args, 'port=s%', 'only=s', 'every=i', 'seed=i') or exit 2;
$| = 1;

srand($args{seed});
print "seed $args{seed}\n";
my $begun = time();
my $run = Refuse::Run->new(port => $args{port});
my ($trials, %count, @defects) = (0);

foreach my $case ($run->cases)
{
	foreach my $node (qw(n1 n2))
	{
		foreach my $what (qw(refuse late cut slow torn dribble))
		{
			# a session that is connected connects no more
			next if $case->{warm} && $what =~ /refuse|late/;
			next unless Refuse::Run::describe($case, $node, $what, 0) =~ /$args{only}/;
			next if rand($args{every}) >= 1;
			foreach my $k (1 .. $args{most})
			{
				my ($struck, $verdict) = $run->try($case, $node, $what, $k);

				$trials++;
				if ($verdict ne 'right' && $verdict ne 'error')
				{
					push @defects, $verdict;
					print 'DEFECT  ', Refuse::Run::describe($case, $node, $what, $k), ": $verdict\n";
					$verdict = 'defect';
				}
				$count{$verdict}++;
				last unless $struck;
			}
		}
	}
}
my $written = $run->end;
my $said = $run->said;
print "errors:\n", map { "  $said->{$_} $_\n" } sort { $said->{$b} <=> $said->{$a} } keys %$said;
print '| ', join(' | ', strftime('%Y-%m-%d', gmtime), $trials, map({ $count{$_} // 0 } qw(right error defect)), $written, (time() - $begun) . ' s'), " |\n";
exit(@defects ? 1 : 0);
