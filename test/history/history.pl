# history.pl: a run by hand; run.sh starts the clusters. See README.md.
#
#   perl history.pl --root FOLDER --bindir DIR --seed 7 --count 20000 --clients 8 --mode common --faults 3 --directory DIR
use strict;
use warnings;
use FindBin;
use Getopt::Long;
use POSIX qw(strftime);
use lib $FindBin::Bin, "$FindBin::Bin/../chaos";
use History::Run qw(prepare run);
use Node;

my %args = (seed => time() % 1_000_000, count => 20000, clients => 8, mode => 'common', faults => 0, part => 8000);
GetOptions(\%args, 'root=s', 'bindir=s', 'directory=s', 'seed=i', 'count=i', 'clients=i', 'mode=s', 'faults=f', 'part=i') or exit 2;
$| = 1;

my %node = map { $_ => Node->new(dir => $args{root}, name => $_, bindir => $args{bindir}) } qw(co n1 n2);
my %port = map { $_ => $node{$_}->port } keys %node;
my %faults;

sub pick { return $_[ int(rand(scalar @_)) ]; }

# One fault; some seconds until the next.
sub fault
{
	my $node = $node{ pick(qw(co n1 n1 n2 n2)) };
	my $kind = pick(qw(kill kill terminate terminate cancel cancel crash));
	my @backends = grep { $_->{kind} eq 'backend' } $node->processes;

	if ($kind eq 'crash')
	{
		$node->ctl('restart', '-m', 'immediate') or die 'did not start again: ' . $node->name . "\n";
	}
	else
	{
		return 0.2 unless @backends;
		kill { kill => 'KILL', terminate => 'TERM', cancel => 'INT' }->{$kind}, pick(@backends)->{pid};
	}
	$faults{ "$kind " . $node->name }++;
	return $args{faults} * (0.5 + rand());
}

srand($args{seed});
print "seed $args{seed}, $args{count} transactions of $args{clients} clients, rdma_fdw.snapshot = $args{mode}, faults every $args{faults} s\n";
my (%total, %named, %errors, @shown);
my ($seconds, $round) = (0, 0);

# In parts: a history is checked as a whole, and its lists are there all the time.
while (($total{transactions} // 0) < $args{count})
{
	my $count = $args{count} - ($total{transactions} // 0);

	$count = $args{part} if $count > $args{part};
	$count = $args{clients} if $count < $args{clients};
	prepare(port => \%port, count => $count, clients => $args{clients}, again => $round > 0);
	my $result = run(port => \%port, directory => $args{directory}, seed => $args{seed} + $round, clients => $args{clients}, count => $count, mode => $args{mode},
		faults => $args{faults} > 0 ? \&fault : undef);

	$round++;
	$total{$_} += $result->{count}{$_} foreach keys %{ $result->{count} };
	$total{transactions} += $result->{transactions};
	$errors{$_} += $result->{errors}{$_} foreach keys %{ $result->{errors} };
	$seconds += $result->{seconds};
	foreach my $anomaly (@{ $result->{anomalies} })
	{
		$named{ $anomaly->[0] }++;
		print "$anomaly->[0]: $anomaly->[1]\n" if $named{ $anomaly->[0] } <= 10;
	}
	printf("%d transactions, %d s: %s; anomalies: %s\n", $total{transactions}, $seconds,
		join(', ', map { "$total{$_} $_" } qw(committed failed unknown reads sums)),
		join(', ', map { "$named{$_} $_" } sort keys %named) || 'none');
}
print "errors:\n", map { "  $errors{$_} $_\n" } sort { $errors{$b} <=> $errors{$a} } keys %errors;
print 'faults: ', join(', ', map { "$faults{$_} $_" } sort keys %faults) || 'none', "\n";
print '| ', join(' | ', strftime('%Y-%m-%d', gmtime), $args{seed}, $args{mode}, $total{transactions}, $total{committed}, $total{reads} + $total{sums},
	join(', ', map { "$faults{$_} $_" } sort keys %faults) || 'none', join(', ', map { "$named{$_} $_" } sort keys %named) || 'none'), " |\n";
exit(%named ? 1 : 0);
