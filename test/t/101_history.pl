# Histories of concurrent transactions over two nodes, checked for what snapshot isolation excludes: test/history. The checker is
# shown to find each anomaly, in histories made by hand, and torn reads in real ones where each node has its own snapshot. Then
# some seconds of histories must have none. SEED=n repeats one.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl", "$FindBin::Bin/../history", "$FindBin::Bin/../chaos";
use History::Check qw(check);
use History::Run qw(prepare run);
use RdmaCluster;
use PostgreSQL::Test::Utils;
use Test::More;

# ---- by hand: "T1 rr ok a:x:1 r:x=1,2;y=" is a transaction that appends 1 to x, and reads [1, 2] in x and nothing in y.
# Each begins when those before it have ended, if "later" is in front of it; else all overlap.
sub history
{
	my ($final, @lines) = @_;
	my ($time, %history) = (0, transactions => [], real_time => 1);

	$history{final} = { map { my ($key, $values) = split(/=/); ($key => [ split(/,/, $values) ]) } split(/;/, $final) };
	foreach my $line (@lines)
	{
		my ($later, $id, $level, $outcome, @ops) = $line =~ /^(later )?(\S+) (\S+) (\S+) ?(.*)$/ ? ($1, $2, $3, $4, split(/ /, $5)) : die $line;

		$time += 10 if $later;
		push @{ $history{transactions} }, { id => $id, client => $id, level => $level, outcome => $outcome, start => $time, finish => $time + 5,
			ops => [ map { my ($kind, $rest) = split(/:/, $_, 2); $kind eq 'a' ? [ 'a', split(/:/, $rest) ] :
				[ 'r', { map { my ($key, $values) = split(/=/, $_, -1); ($key => [ split(/,/, $values) ]) } split(/;/, $rest) } ] } @ops ] };
	}
	return \%history;
}

sub finds
{
	my ($what, @history) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my %names = map { $_->[0] => 1 } check(history(@history));

	is(join(', ', sort keys %names), $what, $what || "no anomaly: $history[-1]");
	return;
}

finds('', 'x=1,2;y=3', 'T1 rr ok a:x:1', 'T2 rr ok r:x=1 a:x:2', 'T3 rr ok r:x=1;y= a:y:3');
finds('', 'x=1;y=2', 'T1 rr ok a:x:1 r:y=', 'T2 rr ok a:y:2 r:x=');				# write skew, which snapshot isolation has
finds('', 'x=1;y=2', 'T1 rc ok a:x:1 a:y:2', 'T2 rc ok r:x=;y= r:x=1;y=2');		# READ COMMITTED: a snapshot for each statement
finds('', 'x=1;y=2', 'T1 rr info a:x:1 a:y:2', 'T2 rr ok r:x=1;y=2');
finds('', '', 'T1 rr info a:x:1 a:y:2', 'T2 rr ok r:x=;y=');
finds('torn read', 'x=1;y=2', 'T1 rr ok a:x:1 a:y:2', 'T2 rr ok r:x=1;y=');
finds('torn read', 'x=1;y=2', 'T1 rr ok a:x:1 a:y:2', 'T2 rr ok r:x=1 r:y=');
finds('torn read', 'x=1;y=2', 'T1 rc ok a:x:1 a:y:2', 'T2 rc ok r:x=1;y=');
finds('long fork', 'x=1;y=2', 'T1 rr ok a:x:1', 'T2 rr ok a:y:2', 'T3 rr ok r:x=1;y=', 'T4 rr ok r:x=;y=2');
finds('long fork', 'x=1;y=2', 'T1 rc ok a:x:1', 'T2 rc ok a:y:2', 'T3 rc ok r:x=1;y=', 'T4 rc ok r:x=;y=2');
finds('G-single (read skew)', 'x=1;y=2,3', 'T1 rr ok a:x:1 a:y:2', 'T2 rr ok r:y=2 a:y:3', 'T3 rr ok r:y=2,3;x=');
finds('lost update', 'x=1,2', 'T1 rr ok r:x= a:x:1', 'T2 rr ok r:x= a:x:2');
finds('G-single (read skew)', 'x=2;y=3,1', 'T1 rr ok r:x= a:y:1', 'T2 rr ok a:x:2 a:y:3');
finds('lost update', 'x=2', 'T1 rr ok a:x:1', 'T2 rr ok a:x:2');
finds('lost update', 'x=2', 'T1 rr ok a:x:1', 'T2 rr ok a:x:2', 'T3 rr ok r:x=1');
finds('G0 (write cycle)', 'x=1,2;y=4,3', 'T1 rc ok a:x:1 a:y:3', 'T2 rc ok a:x:2 a:y:4');
finds('G1a (aborted read)', '', 'T1 rr fail a:x:1', 'T2 rr ok r:x=1');
finds('G1a (aborted read)', 'x=1', 'T1 rr fail a:x:1');
finds('G1b (intermediate read)', 'x=1,2', 'T1 rr info a:x:1 a:x:2', 'T2 rc ok r:x=1');
finds('G1c (circular information flow)', 'x=1;y=2', 'T1 rr ok a:x:1 r:y=2', 'T2 rr ok a:y:2 r:x=1');
finds('half a commit', 'x=1', 'T1 rr info a:x:1 a:y:2');
finds('own write not seen', 'x=1', 'T1 rr ok a:x:1 r:x=');
finds('value from nowhere', 'x=1', 'T2 rr ok r:x=1');
finds('written twice', 'x=1,1', 'T1 rr ok a:x:1');
finds('stale read', 'x=1', 'T1 rr ok a:x:1', 'later T2 rr ok r:x=');
finds('stale read', 'x=1;y=2', 'T1 rr ok a:x:1', 'later T2 rr ok a:y:2', 'T3 rc ok r:y=2;x=');
finds('commits out of order', 'x=2,1', 'T1 rr ok a:x:1', 'later T2 rr ok a:x:2');

# ---- by clients
my $seed = $ENV{SEED} || time() % 1_000_000;
my $count = $ENV{COUNT} || 600;
my %node = map { $_ => rdma_node($_, conf => "jit = off\ndeadlock_timeout = 200ms\n") } qw(n1 n2 co);
my %port = map { $_ => $node{$_}->port } keys %node;
my @run = (port => \%port, directory => PostgreSQL::Test::Utils::tempdir(), clients => 6, count => $count);
my (%named, $rounds);

diag("seed $seed");
prepare(@run);
my $result = run(@run, seed => $seed, mode => 'common');
is(join("\n", map { "$_->[0]: $_->[1]" } @{ $result->{anomalies} }), '', "seed $seed: no anomaly in $result->{transactions} transactions");
cmp_ok($result->{count}{committed}, '>', $count / 2, 'most of them have committed') or diag(explain($result->{errors}));
cmp_ok($result->{count}{reads} + $result->{count}{sums}, '>', $count / 2, 'and they have read');
is($result->{count}{unknown}, 0, 'and all are known');
is(join(', ', grep { !/^(40001|40P01|on purpose)/ } keys %{ $result->{errors} }), '', 'nothing failed but for conflicts');

# What the gate does is not there then, and more is tried until that is seen.
do
{
	prepare(@run, again => 1);
	$result = run(@run, seed => $seed + ++$rounds, mode => 'each_node');
	$named{ $_->[0] }++ foreach @{ $result->{anomalies} };
} while (!$named{'torn read'} && $rounds < 20);
cmp_ok($named{'torn read'} // 0, '>', 0, "where each node has its own snapshot there are torn reads, in round $rounds");
is(join(', ', grep { !/read|fork/ } keys %named), '', 'and nothing is lost');

unlike(slurp_file($_->logfile), qr/PANIC|signal 11|signal 6/, $_->name . ' did not crash by itself') foreach values %node;
$_->stop foreach values %node;
done_testing();
