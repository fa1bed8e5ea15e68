# Random statements over every topology of test/differential, against local tables, push_down = none and ternary
# partitioning: some 15 seconds of it (DURATION) with a seed of their own each time. SEED=n repeats one; see test/differential.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl", "$FindBin::Bin/../differential";
use Differential::Run qw(run_cases);
use Differential::Schema qw(setup);
use Differential::Statement qw(case_of);
use RdmaCluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = $ENV{SEED} || time() % 1_000_000;
my %node = map { $_ => rdma_node($_, conf => "jit = off\ntimezone = UTC\n") } qw(n1 n2 co);
my %port = map { $_ => $node{$_}->port } keys %node;

diag("seed $seed");
# A statement that asks the nodes for each of 2,000 rows starts workers each time: minutes, on a busy machine.
$ENV{PARALLEL_NODES} //= 0;
foreach my $part (setup('postgres', %port))
{
	my ($name, $sql) = @$part;
	$node{$name}->safe_psql('postgres', "SET client_min_messages = warning;\n$sql");
}

my $run = run_cases(
	connection => { host => '127.0.0.1', port => $port{co} }, directory => PostgreSQL::Test::Utils::tempdir(), seed => $seed,
	duration => $ENV{DURATION} || 15, count => $ENV{COUNT}, shrink_seconds => 20, say => sub { note($_[0]) });
my $counts = $run->{counts};
note(join(', ', map { "$counts->{$_} $_" } sort keys %$counts));
is($counts->{differences}, 0, "seed $seed: $counts->{statements} statements over all topologies agree");
foreach my $file (@{ $run->{files} })
{
	diag(slurp_file($file));
}
cmp_ok($counts->{errors}, '<', 2 + $counts->{cases} / 20, 'few cases are errors on both sides');
cmp_ok($counts->{empty} // 0, '<', 10 + ($counts->{select} // 0) / 2, 'more than half of the queries return rows');
is($counts->{heavy} // 0, 0, 'no statement takes long over local tables');

# What is compared would be little if the nodes were asked for plain tables only. Some kinds of plans are rare: cases are
# explained until all have come.
my @wanted = ('Exchange \d+:', 'Compute Nodes:', 'Remote SQL.* GROUP BY', 'Remote SQL.* (UNION|INTERSECT|EXCEPT)', 'Remote SQL.* OVER', 'Remote SQL.* LEFT JOIN');
my %seen;
for (my $first = 1; keys %seen < @wanted && $first < 8000; $first += 400)
{
	my $explain = '';
	foreach my $number ($first .. $first + 399)
	{
		my $case = case_of($seed, $number, [qw(one by_id by_others computed)]);
		next if $case->{kind} ne 'select';
		$explain .= join(";\n", 'RESET ALL', "SET search_path = $case->{schema}, public", @{ $case->{both} }, @{ $case->{foreign} }, "EXPLAIN (VERBOSE, COSTS OFF) $case->{statements}[0][0]", '');
	}
	my (undef, $plans) = $node{co}->psql('postgres', $explain, on_error_stop => 0);
	$seen{$_} = 1 foreach grep { $plans =~ /$_/ } @wanted;
}
ok($seen{$_}, "there are plans with $_") foreach @wanted;
ok(rdma_wait($_, 'SELECT count(*) = 0 FROM rdma.stat_flows'), 'no flow is left on ' . $_->name) foreach values %node;

$_->stop foreach values %node;
done_testing();
