# faults.pl: a run by hand; run.sh starts the clusters. See README.md.
#
#   perl faults.pl --root FOLDER --bindir DIR --directory DIR --seed 1 --count 100 --limit 10 --only 'decided|commit_sent.*'
#                                                                                or --seeds '3 17 4'
use strict;
use warnings;
use FindBin;
use Getopt::Long;
use POSIX qw(strftime);
use Time::HiRes qw(time);
use lib $FindBin::Bin, "$FindBin::Bin/../chaos";
use CommitFaults::Client qw(setup NODES);
use CommitFaults::Plan qw(plan);
use CommitFaults::Run qw(run_seed);
use Node;
use Proxy;

my %args = (seed => time() % 1_000_000, count => 100, limit => 10);
GetOptions(\%args, 'root=s', 'bindir=s', 'directory=s', 'seed=i', 'count=i', 'limit=f', 'only=s', 'seeds=s') or exit 2;
$| = 1;

my %node = map { $_ => Node->new(dir => $args{root}, name => $_, bindir => $args{bindir}) } 'co', NODES;
my $proxy = Proxy->start({ map { $_ => $node{$_}->port } NODES });
my (%reached, %missed, %total, $failed, $slowest, $done);
my $late = 0;
my $began = time();

setup({ map { $_ => $node{$_}->port } keys %node }, { map { $_ => $proxy->port($_) } NODES });
my @seeds = split(/ /, $args{seeds} // '');
while (defined $args{seeds} ? @seeds : ($done // 0) < $args{count})
{
	my $start = time();
	my $seed = defined $args{seeds} ? shift @seeds : $args{seed}++;

	next if defined $args{only} && !grep { $_->{step} =~ /^(?:$args{only})$/ } @{ plan($seed)->{faults} };
	my $result = run_seed(nodes => \%node, proxy => $proxy, seed => $seed, directory => $args{directory});

	$done++;
	$late++ if defined $result->{clean} && $result->{clean} > $args{limit};
	$reached{$_}++ foreach @{ $result->{reached} };
	$missed{$_}++ foreach @{ $result->{missed} };
	$total{$_} += $result->{count}{$_} foreach keys %{ $result->{count} };
	$slowest = $result->{clean} if defined $result->{clean} && $result->{clean} > ($slowest // 0);
	printf("%s seed %d: %s%s; clean after %s s; %s; took %.1f s\n", strftime('%H:%M:%S', gmtime), $seed, $result->{plan}, @{ $result->{missed} } ? " (not reached: @{ $result->{missed} })" : '',
		defined $result->{clean} ? sprintf('%.1f', $result->{clean}) : '?', join(', ', map { "$result->{count}{$_} $_" } sort keys %{ $result->{count} }), time() - $start);
	next unless @{ $result->{wrong} };
	$failed++;
	print "  WRONG: $_\n" foreach @{ $result->{wrong} };
	# as it is, for who looks for the cause
	last if grep { !/torn/ } @{ $result->{wrong} };
}
my $end = time() + 30;
my $rows;
1 while ($rows = $node{co}->value('SELECT count(*) FROM rdma.decisions') // 1) != 0 && time() < $end && select(undef, undef, undef, 0.2) == 0;
print "WRONG: $rows rows are left in rdma.decisions\n" if $rows;
$proxy->end;
printf("%d seeds in %d s; %d clean later than after %g s, the last after %.1f s; reached: %s; not reached: %s\n", $done, time() - $began, $late, $args{limit}, $slowest // 0,
	join(', ', map { "$reached{$_} $_" } sort keys %reached), join(', ', map { "$missed{$_} $_" } sort keys %missed));
printf("transfers: %s\n", join(', ', map { "$total{$_} $_" } sort keys %total));
exit($failed || $rows || $late ? 1 : 0);
