# A data node in wrong hands: whoever owns it answers the questions of rdma_fdw as he likes. What it says is data: no statement that it
# wrote runs here or on another node, and whoever asked gets the right answer or an error that names the node.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($n1, $n2) = map { rdma_node($_) } qw(n1 n2);
my $coord = rdma_node('coord');
rdma_connect($coord, n1 => $n1, n2 => $n2);
$coord->safe_psql('postgres', "CREATE SERVER many FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n1, n2');
CREATE TABLE seed (a int, b int); INSERT INTO seed SELECT g, g % 7 FROM generate_series(1, 100) g; SELECT rdma.distribute_table('seed', 'many', 'a')");
$n2->safe_psql('postgres', 'CREATE TABLE ledger (a int)');
# something of another coordinator is prepared, so that the nodes compare their snapshots
$n1->safe_psql('postgres', "CREATE TABLE pin (); BEGIN; DROP TABLE pin; PREPARE TRANSACTION 'rdma_fdw_00000000000000aa_1_1_1'");
my $prepared = 1;

# The node has another function in the place of one of the extension, or the true one again.
sub lie
{
	my ($name, $types, $rest) = @_;
	$n1->safe_psql('postgres', "ALTER EXTENSION rdma_fdw DROP FUNCTION rdma.$name($types); ALTER FUNCTION rdma.$name($types) RENAME TO true_$name;
CREATE FUNCTION rdma.$name($rest; GRANT EXECUTE ON FUNCTION rdma.$name TO PUBLIC");
	return;
}

sub tell_the_truth
{
	my ($name, $types) = @_;
	$n1->safe_psql('postgres', "DROP FUNCTION rdma.$name($types); ALTER FUNCTION rdma.true_$name RENAME TO $name; ALTER EXTENSION rdma_fdw ADD FUNCTION rdma.$name($types)");
	return;
}

# The right answer, or an error that names the node; then all is as it was.
sub ask
{
	my ($what, $sql, $right) = @_;
	my ($rc, $out, $err) = $coord->psql('postgres', "SET statement_timeout = '60s'; $sql");
	ok($out eq $right || $err =~ /ERROR.*\bn1\b/s, "$what: " . (($err =~ /ERROR:\s+(.*)/)[0] // $out))
	  or diag("$out\n$err");
	is($n2->safe_psql('postgres', "SELECT count(*) FROM pg_class WHERE relname = 'ledger'"), 1, "$what: n2 has its table");
	return;
}

# ---- what n1 says of other coordinators goes to n2
my @values = ([ q~'1}'', ''{1}''); DROP TABLE ledger; SELECT rdma.seen_parts(0, ''{1'~, 1, 1 ], [ 1, q~'1}''); DROP TABLE ledger --'~, 1 ],
	[ 1, 1, q~'x'~ ], [ q~' 1'~, 1, 1 ], [ q~'99999999999999999999'~, 1, 1 ], [ q~''~, q~''~, q~''~ ],
	[ 1, 'NULL', 'NULL' ], [ q~'NaN'~, q~'1e3'~, q~'0x10'~ ]);
foreach my $value (@values)
{
	lie('unseen_parts', 'bigint, bigint', "coordinator bigint, statement bigint, OUT part text, OUT age text, OUT owner text) RETURNS SETOF record LANGUAGE sql AS
\$\$ SELECT $value->[0]::text, $value->[1]::text, $value->[2]::text \$\$");
	foreach my $level ('READ COMMITTED', 'REPEATABLE READ')
	{
		ask("unseen parts @$value, $level", "BEGIN ISOLATION LEVEL $level; SELECT sum(a) FROM seed; COMMIT", 5050);
	}
	tell_the_truth('unseen_parts', 'bigint, bigint');
}
foreach my $seen (q~'x'~, q~''~, 'NULL')
{
	lie('seen_parts', 'bigint, bigint[], bigint[]', "statement bigint, parts bigint[], ages bigint[]) RETURNS text LANGUAGE sql AS \$\$ SELECT ${seen}::text \$\$");
	ask("seen parts $seen", 'SELECT sum(a) FROM seed', 5050);
	tell_the_truth('seen_parts', 'bigint, bigint[], bigint[]');
}
$n1->safe_psql('postgres', "ROLLBACK PREPARED 'rdma_fdw_00000000000000aa_1_1_1'");

is($coord->safe_psql('postgres', 'SELECT sum(a) FROM seed'), 5050, 'all is right again');
foreach my $node ($coord, $n1, $n2)
{
	unlike(slurp_file($node->logfile), qr/terminated by signal|TRAP:/, $node->name . ' did not crash');
}
done_testing();
