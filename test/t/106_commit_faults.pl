# Faults at the steps of commits over several nodes, by seed: test/faults. Clients transfer between two or three of three nodes and a
# table of the coordinator; a process is stopped at a step and somebody is killed, crashed, stopped or cut off. Afterwards each transfer
# is there everywhere or nowhere, as its client knows, and nothing stays prepared or locked. SEED=n repeats one, COUNT=n does so many.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl", "$FindBin::Bin/../faults", "$FindBin::Bin/../chaos";
use CommitFaults::Client qw(setup NODES);
use CommitFaults::Plan qw(steps);
use CommitFaults::Run qw(run_seed);
use Node;
use Proxy;
use RdmaCluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $conf = "shared_preload_libraries = 'rdma_fdw, commit_faults'\nrdma_fdw.application_name = 'of %p'\njit = off\ndeadlock_timeout = 200ms\n";
my %cluster = map { $_ => rdma_node($_, conf => $conf) } ('co', NODES);
my $bindir = $cluster{co}->safe_psql('postgres', q{SELECT setting FROM pg_config() WHERE name = 'BINDIR'});
my %node = map { $_ => Node->new(name => $_, bindir => $bindir, port => $cluster{$_}->port, data => $cluster{$_}->data_dir, log => $cluster{$_}->logfile) } keys %cluster;
my $proxy = Proxy->start({ map { $_ => $node{$_}->port } NODES });
my $first = $ENV{SEED} || time() % 1_000_000;
my $count = $ENV{COUNT} || 5;
my ($sums, $committed, $reached) = (0, 0, 0);

setup({ map { $_ => $node{$_}->port } keys %node }, { map { $_ => $proxy->port($_) } NODES });

# Orders reach every step of the list sooner or later: each is some seed's.
my %planned = map { $_->{step} => 1 } map { @{ CommitFaults::Plan::plan($_)->{faults} } } 1 .. 1000;
is(join(' ', grep { !$planned{$_} } steps()), '', 'seeds have every step');

# And those are all that there are.
my %known = map { s/\.\d$//r => 1 } steps();
my $named = join('', map { slurp_file("$FindBin::Bin/../../$_") } 'include/rdma_fdw/steps.h', 'test/modules/commit_faults/commit_faults.c');
my %named = map { $_ => 1 } $named =~ /^ \*\t([a-z_]+)\t++(?!number)/mg;
is(join(' ', sort keys %known), join(' ', sort keys %named), 'which are those that the library and the module name');

foreach my $seed ($first .. $first + $count - 1)
{
	my $result = run_seed(nodes => \%node, proxy => $proxy, seed => $seed, directory => PostgreSQL::Test::Utils::tempdir());

	is(join("\n", @{ $result->{wrong} }), '', "seed $seed: $result->{plan}");
	$sums += $result->{count}{sums} // 0;
	$committed += $result->{count}{ok} // 0;
	$reached += @{ $result->{reached} };
}
cmp_ok($reached, '>', 0, 'steps were reached');
cmp_ok($committed, '>', 0, 'transfers have committed');
cmp_ok($sums, '>', 0, 'sums were read');
ok(rdma_wait($cluster{co}, 'SELECT count(*) = 0 FROM rdma.decisions', 60), 'no decision is left');
unlike(slurp_file($_->logfile), qr/PANIC|signal 11|signal 6/, $_->name . ' did not crash by itself') foreach values %cluster;
$proxy->end;
$_->stop foreach values %cluster;
done_testing();
