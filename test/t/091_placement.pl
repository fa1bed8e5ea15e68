# Placement that cannot lie: dumps and copies. A coordinator that is restored from a dump finds its rows, whatever the order of
# option "nodes"; and a database that was restored or cloned from a node is not taken for it.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($coord, $n1, $n2) = rdma_trio();
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump.sql';
my $rows = 'SELECT count(*), (SELECT count(*) FROM t JOIN u USING (id)) FROM generate_series(1, 1000) g, LATERAL (SELECT * FROM t WHERE t.id = g OFFSET 0) x';
my $mismatch = qr/55000: server "n1" does not lead to the node of server "many" that it stands for/;

$coord->safe_psql('postgres', q{
	CREATE SERVER many FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n2, n1');
	CREATE TABLE t AS SELECT i AS id, 't' || i AS t FROM generate_series(1, 1000) i;
	CREATE TABLE u AS SELECT i AS id, 1001 - i AS x FROM generate_series(1, 1000) i;
	SELECT rdma.distribute_table('t', 'many', 'id'), rdma.distribute_table('u', 'many', 'id');
	ALTER SERVER many OPTIONS (SET nodes 'n1, n2');
});
is($coord->safe_psql('postgres', $rows), '1000|1000', 'all rows are found');

# psql's error, with its SQLSTATE and detail
sub error_of
{
	my ($database, $query) = @_;
	my ($status, $out, $error) = $coord->psql('postgres', $query, extra_params => [ '-v', 'VERBOSITY=verbose' ], connstr => $coord->connstr($database));

	return $error;
}

sub restore
{
	my ($from, $database, $to, $new) = @_;

	command_ok([ 'pg_dump', '-f', $dump, $from->connstr($database) ], "pg_dump of a database of " . $from->name);
	$to->safe_psql('postgres', "CREATE DATABASE $new");
	command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $to->connstr($new), '-f', $dump ], 'and its restore');
	return;
}

# ---- the coordinator
restore($coord, 'postgres', $coord, 'again');
is($coord->safe_psql('again', $rows), '1000|1000', 'a restored coordinator finds all rows');
is($coord->safe_psql('again', q{SELECT string_agg(node, ', ' ORDER BY place) FROM rdma.nodes('many')}), 'n2, n1', 'by the numbers that the nodes had');
$coord->safe_psql('again', "ALTER SERVER many OPTIONS (SET nodes 'n2, n1')");
is($coord->safe_psql('again', $rows), '1000|1000', 'and in any order');

# ---- copies of a node
my $there = $n1->port;
restore($n1, 'postgres', $n2, 'restored');
$n1->safe_psql('template1', 'CREATE DATABASE cloned TEMPLATE postgres') if $n1->poll_query_until('template1',
	q{SELECT count(pg_terminate_backend(pid)) = 0 FROM pg_stat_activity WHERE datname = 'postgres' AND pid <> pg_backend_pid()});
my @places = (
	[ 'restored from its dump', $n2->port, 'restored', qr/is a copy of node 1/ ],
	[ 'cloned in its cluster', $there, 'cloned', qr/is a copy of node 1/ ],
	[ "that is the other node", $n2->port, 'postgres', qr/is node 0 of that server, not node 1/ ],
	[ 'that is no node', $coord->port, 'postgres', qr/is no node of that server/ ],
	[ 'without the extension', $n2->port, 'template1', qr/is no node of that server/ ]);
foreach my $place (@places)
{
	my ($what, $port, $database, $detail) = @$place;

	$coord->safe_psql('postgres', "ALTER SERVER n1 OPTIONS (SET port '$port', SET dbname '$database')");
	foreach my $query ('SELECT count(*) FROM t', "INSERT INTO t SELECT i, 'x' FROM generate_series(1, 100) i", 'UPDATE t SET t = NULL', 'SELECT count(*) FROM t JOIN u ON x = t.id')
	{
		my $error = error_of('postgres', $query);

		like($error, $mismatch, "a database $what: $query");
		like($error, $detail, 'and the difference is named');
	}
}

# the owner says that the restored database has taken the node's place
$coord->safe_psql('postgres', sprintf("ALTER SERVER n1 OPTIONS (SET port '%d', SET dbname 'restored')", $n2->port));
$coord->safe_psql('postgres', "SELECT rdma.replace_node('many', 'n1')");
is($coord->safe_psql('postgres', $rows), '1000|1000', 'a restored database takes the place of its node');
$coord->safe_psql('postgres', "ALTER SERVER n1 OPTIONS (SET port '$there', SET dbname 'postgres')");
like(error_of('postgres', 'SELECT count(*) FROM t'), qr/was node 1 of that server before another one took its place/, 'and the old one is not it any more');
$coord->safe_psql('postgres', "SELECT rdma.replace_node('many', 'n1')");
is($coord->safe_psql('postgres', $rows), '1000|1000', 'until it is called back');

done_testing();
