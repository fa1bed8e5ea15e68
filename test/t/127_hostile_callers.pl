# Roles with every kind of access call all functions of the extension with hostile values, as a coordinator in wrong hands would: test/lying,
# Lying/Calls.pm. Each call gives an answer or an error, within its time; nothing crashes, nothing that another role owns changes, and no code
# of a role runs as another.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl", "$FindBin::Bin/../lying", "$FindBin::Bin/../chaos";
use RdmaCluster;
use Lying::Calls;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = $ENV{SEED} || time() % 1_000_000;
my $node = rdma_node('n1', conf => "max_prepared_transactions = 20\nwal_level = replica\n");
my $calls = Lying::Calls->new(port => $node->port);
my %may = map { $_ => [ $calls->functions($_) ] } Lying::Calls::roles();
my ($number, $end, @defects) = ($seed * 1000, time() + ($ENV{DURATION} // 0));

diag("seed $seed");
cmp_ok(scalar @{ $may{writer} }, '>', scalar @{ $may{reader} }, 'a writer may call more than a reader');
for (my $i = 0; $i < 240 || time() < $end; $i++)
{
	srand(++$number);
	my ($role) = (Lying::Calls::roles())[ $i % 6 ];
	my $function = $may{$role}[ rand @{ $may{$role} } ];
	my ($verdict, $what) = $calls->try($role, $function, $number);

	push @defects, "$role, $number: $verdict: " . substr($what, 0, 600) unless $verdict =~ /^(?:right|error)$/;
}
is(join("\n", @defects), '', "seed $seed: each call is answered, or an error, and lends no rights");
# It would be seen.
$node->safe_psql('postgres', q{CREATE FUNCTION rdma.hole(text) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN RETURN $1 = $1; END'});
my ($hole) = grep { $_->{name} eq 'hole' } $calls->functions('plain');
my ($verdict) = $calls->try('plain', $hole, 7);
is($verdict, 'code of the role ran as another one', 'a function that lends rights is noticed');
$calls->end;
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal (?:6|11)/, 'the server did not crash');
$node->stop;
done_testing();
