# A node answers the questions of rdma_fdw in every wrong way, by a proxy that knows them: test/lying. Each question gets NULLs, and each
# third a lie that depends on a seed; as many are changed before a node gets them, as a coordinator in wrong hands would. With DURATION (tap_rest) there
# are more, also answers without columns. The statement gives the right answer or an error that says what it is about, no server runs what
# the node said, and none crashes.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl", "$FindBin::Bin/../lying", "$FindBin::Bin/../chaos";
use RdmaCluster;
use Lying::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = $ENV{SEED} || time() % 1_000_000;
my %node = map { $_ => rdma_node($_, conf => "max_prepared_transactions = 20\nwal_level = replica\n") } qw(n1 n2 co);
my $run = Lying::Run->new(port => { map { $_ => $node{$_}->port } keys %node });
my %asked = $run->learn;
my @lies = grep { !Lying::Proxy::is_silent($_) } Lying::Proxy::lies();
my @asks = Lying::Proxy::asks();
my @defects;

sub lie
{
	my ($key, $lie) = @_;
	my $name = $asked{$key}[ rand @{ $asked{$key} } ];
	my $number = int(rand(1_000_000));
	my (undef, $verdict, $what) = $run->try($name, $key, $lie, $number);

	push @defects, "$name, $key, $lie, $number: $verdict: " . substr($what // '', 0, 300) unless $verdict =~ /^(?:right|error)$/;
	return;
}

diag("seed $seed");
srand($seed);
is(join("\n", sort keys %{ $run->{unknown} }), '', 'each statement that a node gets is a question that is known');

# What no statement here asks: it takes a pooler, a third node, other coordinators, or a want of flows.
my %elsewhere = map { $_ => 1 } qw(deallocate flows greeted local references seen unseen);
is(join(' ', grep { !$asked{$_} && !$elsewhere{$_} } Lying::Questions::names()), '', 'each question is asked');
my @keys = sort keys %asked;
foreach my $key (@keys)
{
	lie($key, $_) foreach 'null', $ENV{DURATION} ? 'no_columns' : rand() < 0.3 ? $lies[ rand @lies ] : ();
}
my $end = time() + ($ENV{DURATION} // 0);
lie($keys[ rand @keys ], $lies[ rand @lies ]) while time() < $end;
# last of all, since a question that was changed may leave other rows
foreach my $key (@keys)
{
	lie($key, $asks[ rand @asks ]) if $ENV{DURATION} || rand() < 0.3;
}
is(join("\n", @defects), '', "seed $seed: each answer is right, or an error");
$run->end;
unlike(slurp_file($_->logfile), qr/PANIC|TRAP|terminated by signal (?:6|11)/, $_->name . ' did not crash') foreach values %node;
$_->stop foreach values %node;
done_testing();
