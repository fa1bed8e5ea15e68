# A data node in wrong hands: whoever owns it answers the questions of rdma_fdw as he likes. What it says is data: no statement that it
# wrote runs here or on another node, and whoever asked gets the right answer or an error.
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
	$n1->safe_psql('postgres', "ALTER EXTENSION rdma_fdw DROP FUNCTION rdma_internal.$name($types); ALTER FUNCTION rdma_internal.$name($types) RENAME TO true_$name;
CREATE FUNCTION rdma_internal.$name($rest; GRANT EXECUTE ON FUNCTION rdma_internal.$name TO PUBLIC");
	return;
}

sub tell_the_truth
{
	my ($name, $types) = @_;
	$n1->safe_psql('postgres', "DROP FUNCTION rdma_internal.$name($types); ALTER FUNCTION rdma_internal.true_$name RENAME TO $name; ALTER EXTENSION rdma_fdw ADD FUNCTION rdma_internal.$name($types)");
	return;
}

# The right answer, or an error; and n2 has what it had.
sub ask
{
	my ($what, $sql, $right) = @_;
	my ($rc, $out, $err) = $coord->psql('postgres', "SET statement_timeout = '60s'; $sql");
	ok($out eq $right || ($err =~ /ERROR/ && $err !~ /server closed the connection|terminat/), "$what: " . (($err =~ /ERROR:\s+(.*)/)[0] // $out))
	  or diag("$out\n$err");
	is($n2->safe_psql('postgres', "SELECT count(*) FROM pg_class WHERE relname = 'ledger'"), 1, "$what: n2 has its table");
	return;
}

# ---- what n1 says of other coordinators goes to n2
my @values = ([ q~'1}'', ''{1}''); DROP TABLE ledger; SELECT rdma_internal.seen_parts(0, ''{1'~, 1, 1 ], [ 1, q~'1}''); DROP TABLE ledger --'~, 1 ],
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

# ---- answers to what is asked of each session and of each statement: signature, statement, right answer, lies
$n1->safe_psql('postgres', 'CREATE TABLE grow (a int)');
$coord->safe_psql('postgres', "CREATE FOREIGN TABLE grow (a int) SERVER n1 OPTIONS (schema_name 'public'); CREATE TABLE other (a int, b int);
INSERT INTO other SELECT g % 7, g FROM generate_series(1, 100) g; SELECT rdma.distribute_table('other', 'many', 'b')");
my $sum = 'SELECT sum(a) FROM seed';
my $join = "SET rdma_fdw.exchange_strategy = repartition_one; SELECT count(*) FROM seed JOIN other ON seed.b = other.a WHERE seed.a < 8";
my $joined = $coord->safe_psql('postgres', $join);
my @bytes = ('NULL', q~''~, q~'\x00'~, q~decode(repeat('ff', 40), 'hex')~, q~decode(repeat('00', 200), 'hex')~, q~decode(repeat('41', 100000), 'hex')~);
my @texts = ('NULL', q~''~, q~'x'~, q~repeat(E'x \n', 10000)~);
my @questions = (
	[ 'memberships', 'uuid[]', 'text', $sum, 5050, @texts, q~sets[1] || ' 0 1 ' || sets[1] || ' t'~, q~sets[1] || ' 99999999999 '~ ],
	[ 'other_parts_age', 'bigint', 'text', "BEGIN ISOLATION LEVEL REPEATABLE READ; $sum; COMMIT", 5050, @texts, q~'-1'~, q~'1e9'~ ],
	[ 'hello', 'bytea', 'bytea', $sum, 5050, @bytes ],
	[ 'stream', 'bytea, text, text[], text[]', 'bytea', $sum, 5050, @bytes ],
	[ 'store', 'bytea, text, text[], bytea, text', 'bytea', 'INSERT INTO grow SELECT generate_series(1, 10)', '', @bytes ],
	[ 'exchange_greet', '', 'bytea', $join, $joined, @bytes ]);
foreach my $question (@questions)
{
	my ($name, $types, $returns, $sql, $right, @lies) = @$question;

	foreach my $lie (@lies)
	{
		my $parameter = $name eq 'memberships' ? 'sets uuid[]' : $types;
		lie($name, $types, "$parameter) RETURNS $returns LANGUAGE sql AS \$\$ SELECT ($lie)::$returns \$\$");
		ask("$name says $lie", $sql, $right);
		tell_the_truth($name, $types);
	}
}

# ---- statistics
$n1->safe_psql('postgres', q{CREATE TABLE facts (a int, b int[], c tsvector); INSERT INTO facts SELECT g % 3, ARRAY[g % 3], 'x' FROM generate_series(1, 300) g; ANALYZE facts;
CREATE TABLE told (attname text, null_frac text, avg_width text, n_distinct text, most_common_vals text, most_common_freqs text, histogram_bounds text, correlation text,
	most_common_elems text, most_common_elem_freqs text, elem_count_histogram text);
SET allow_system_table_mods = on; ALTER VIEW pg_catalog.pg_stats RENAME TO pg_stats_true;
CREATE VIEW pg_catalog.pg_stats AS SELECT 'public'::name AS schemaname, 'facts'::name AS tablename, false AS inherited, told.* FROM public.told; GRANT SELECT ON pg_catalog.pg_stats, told TO PUBLIC});
$coord->safe_psql('postgres', 'IMPORT FOREIGN SCHEMA public LIMIT TO (facts) FROM SERVER n1 INTO public');
my $facts = q{SELECT count(*) FROM facts WHERE a = 1 AND a < 2 AND b @> '{1}' AND b <@ '{1,2}' AND b && '{1}' AND c @@ 'x'; SELECT count(*) > 0 FROM facts GROUP BY a ORDER BY a};
my $right = "100\nt\nt\nt";
my @true = (0, 4, 3, '{0,1,2}', '{0.4,0.3,0.3}', undef, 1, '{1,2}', '{0.5,0.5,0.1,0.9,0}', '{1,1,1}');
my @told = ([@true], [], map { my @other = @true; $other[ $_->[0] ] = $_->[1]; \@other } (
	[ 0, -1 ], [ 0, 2 ], [ 0, 'NaN' ], [ 1, -4 ], [ 1, 2147483647 ], [ 1, 2147483648 ], [ 1, 'x' ], [ 2, 'NaN' ], [ 2, 'Infinity' ], [ 2, -2 ], [ 2, '1e38' ],
	[ 3, '{{0,1},{2,3}}' ], [ 3, '[2:4]={0,1,2}' ], [ 3, '{}' ], [ 3, '{0,NULL,2}' ], [ 3, '{0,0,0}' ], [ 3, 'x' ], [ 4, '{{0.4},{0.3},{0.3}}' ], [ 4, '{NaN,NaN,NaN}' ],
	[ 4, '{1e30,-1e30,0}' ], [ 4, '{0.5,0.5}' ], [ 4, '{0.5,NULL,0.5}' ], [ 5, '{{0,1},{2,3}}' ], [ 5, '{2,1,0}' ], [ 5, '{NULL,1}' ], [ 5, '{1}' ], [ 5, '{}' ], [ 6, 'NaN' ], [ 6, 7 ], [ 6, 'x' ],
	[ 7, '{{1,2},{3,4}}' ], [ 7, '{2,1}' ], [ 7, '{1,NULL}' ], [ 8, '{{0.5},{0.5},{0.1},{0.9},{0}}' ], [ 8, '{NaN,0.5,NaN,0.9,-1}' ], [ 8, '{0.5}' ], [ 9, '{{1,1},{2,2}}' ],
	[ 9, '{NaN,NaN}' ], [ 9, '{-5,-4,1e30}' ], [ 9, '{1e30,1e30,1e30}' ], [ 9, '{3,2,1,1}' ], [ 9, '{1}' ]));
foreach my $told (@told)
{
	my @quoted = map { defined $told->[$_] ? "'$told->[$_]'" : 'NULL' } 0 .. 9;
	my $what = join(' ', @quoted);

	$n1->safe_psql('postgres', "TRUNCATE told; INSERT INTO told SELECT c, " . join(', ', @quoted) . " FROM unnest('{a,b,c}'::text[]) c");
	my ($rc, $out, $err) = $coord->psql('postgres', q{SELECT rdma.import_statistics('facts')});
	ok($out =~ /^[0-9]+$/ || $err =~ /ERROR.*(?:\bn1\b|importing statistics of column)/s, "statistics $what are taken or refused") or diag("$out\n$err");
	is($coord->safe_psql('postgres', $facts), $right, "and queries are planned with what is there");
}
$n1->safe_psql('postgres', "TRUNCATE told; INSERT INTO told SELECT 'a', 0, 4, 3 FROM generate_series(1, 2)");
my ($rc, $out, $err) = $coord->psql('postgres', q{SELECT rdma.import_statistics('facts')});
like($err, qr/server "n1" answered a question of rdma_fdw with something else/, 'statistics of one column come once');

is($coord->safe_psql('postgres', 'SELECT sum(a) FROM seed'), 5050, 'all is right again');
foreach my $node ($coord, $n1, $n2)
{
	unlike(slurp_file($node->logfile), qr/terminated by signal|TRAP:/, $node->name . ' did not crash');
}
done_testing();
