# A connection or a round trip of a node is struck while a statement runs: test/refuse. Each answer is right, or the error names the node.
# Here each kind of statement has a first connection refused, and late, and some round trips; `make check-refuse` strikes all of them.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl", "$FindBin::Bin/../refuse", "$FindBin::Bin/../chaos";
use RdmaCluster;
use Refuse::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = $ENV{SEED} || time() % 1_000_000;
my %node = map { $_ => rdma_node($_) } qw(n1 n2 co);
my $run = Refuse::Run->new(port => { map { $_ => $node{$_}->port } keys %node });
my (@defects, %count);

diag("seed $seed");
srand($seed);

sub try
{
	my ($case, $node, $what, $k) = @_;
	my ($struck, $verdict) = $run->try($case, $node, $what, $k);

	push @defects, Refuse::Run::describe($case, $node, $what, $k) . ": $verdict" unless $verdict =~ /^(right|error)$/;
	$count{"$what $verdict"}++;
	return;
}

my $number = 0;
foreach my $case (grep { !$_->{warm} } $run->cases)
{
	# both nodes, as the isolation level and parallel workers change faster
	try($case, $number++ % 8 < 4 ? 'n2' : 'n1', 'refuse', 1);
}
foreach my $case (map { $_->[1] } (sort { $a->[0] <=> $b->[0] } map { [ rand(), $_ ] } $run->cases)[ 0 .. 39 ])
{
	try($case, rand() < 0.5 ? 'n1' : 'n2', (qw(late cut slow torn dribble))[ int(rand(5)) ], 1 + int(rand(8)));
}
is(join("\n", @defects), '', "seed $seed: each answer is right, or an error that names the node");
cmp_ok($count{'refuse error'}, '>', 50, 'a node that refuses a connection is down for the statement that needs it') or diag(explain(\%count));
cmp_ok($count{'refuse right'}, '>', 5, 'and what does not need it goes on') or diag(explain(\%count));
cmp_ok($run->end, '>', 50, 'beside transactions over both nodes');
unlike(slurp_file($_->logfile), qr/PANIC|signal 11|signal 6/, $_->name . ' did not crash') foreach values %node;
$_->stop foreach values %node;
done_testing();
