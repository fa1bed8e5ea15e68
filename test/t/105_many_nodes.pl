# A join over sixteen nodes, databases of two servers, with the default settings: every way to bring the rows together, several
# statements at once, which wait for each other, and what happens where a server has too few flows: known when the statement is
# planned, or at once when it starts.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $NODES = 16;

# as they are by default, but for the wait: it would take a minute to see that it waits in vain
my $conf = "rdma_fdw.buffer_memory = '256MB'\nmax_connections = 100\nrdma_fdw.buffer_wait = '3500ms'\n";
my ($coord, $d1, $d2) = map { rdma_node($_, conf => $conf) } qw(coord d1 d2);
my $names = join(', ', map { "s$_" } 1 .. $NODES);

foreach my $node ($d1, $d2)
{
	$node->safe_psql('postgres', 'CREATE EXTENSION rdma_fdw');
	$node->safe_psql('postgres', 'CREATE DATABASE empty');
	$node->safe_psql('empty', 'CREATE EXTENSION rdma_fdw');
}
$coord->safe_psql('postgres', 'CREATE EXTENSION rdma_fdw');
for my $i (1 .. $NODES)
{
	my $node = $i % 2 ? $d1 : $d2;
	my $port = $node->port;

	$node->safe_psql('postgres', "CREATE DATABASE s$i TEMPLATE empty");
	$coord->safe_psql('postgres', "CREATE SERVER s$i FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port '$port', dbname 's$i');"
		  . "CREATE USER MAPPING FOR postgres SERVER s$i OPTIONS (user 'postgres')");
}
$coord->safe_psql('postgres', qq{
	CREATE SERVER many FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes '$names');
	CREATE TABLE o AS SELECT g AS ok, g % 100 AS ck, g % 7 AS v FROM generate_series(1, 2000) g;
	CREATE TABLE l AS SELECT g % 2000 + 1 AS ok, g AS q FROM generate_series(1, 4000) g;
	CREATE TABLE want AS SELECT count(*), sum(q) AS q, sum(v) AS v FROM o JOIN l USING (ok);
	SELECT rdma.distribute_table('o', 'many', 'ck');
	SELECT rdma.distribute_table('l', 'many', 'ok');
	ANALYZE o;
	ANALYZE l;
});

my $join = 'SELECT count(*), sum(q), sum(v) FROM o JOIN l USING (ok)';
my $want = $coord->safe_psql('postgres', 'TABLE want');

sub nothing_left
{
	my ($when) = @_;

	foreach my $node ($d1, $d2)
	{
		my $name = $node->name;

		ok(rdma_wait($node, 'SELECT count(*) = 0 FROM rdma.stat_flows', 60), "no flow is left on $name $when");
		ok(rdma_wait($node, 'SELECT buffer_used = 0 FROM rdma.stat_engine', 60), "no buffer is held on $name $when");
	}
	return;
}

foreach my $way ([ 'repartition_one', qr/Exchange 1: repartition 16:16/ ],
	[ 'repartition_both', qr/Exchange 1: repartition 16:16.*Exchange 2: repartition 16:16/s ], [ 'replicate', qr/Exchange 1: replicate 16:16/ ])
{
	my ($strategy, $plan) = @$way;

	like($coord->safe_psql('postgres', "SET rdma_fdw.exchange_strategy = $strategy; EXPLAIN (COSTS OFF) $join"), $plan, "a plan: $strategy");
	is($coord->safe_psql('postgres', "SET rdma_fdw.exchange_strategy = $strategy; $join"), $want, "its rows: $strategy");
}

# Two of them need more flows than a server has: the others wait.
my $script = $coord->basedir . '/joins.sql';
(my $row = $want) =~ tr/|/,/;
append_to_file($script, "SELECT 1 / (q::text = '($row)')::int FROM ($join) q;\n");
$coord->command_like([ 'pgbench', '-n', '-c', '4', '-t', '1', '-f', $script, '-h', $coord->host, '-p', $coord->port, 'postgres' ],
	qr{actually processed: 4/}, 'several at once');
$coord->safe_psql('postgres', "ALTER DATABASE postgres SET rdma_fdw.exchange_strategy = 'repartition_both'");
$coord->command_like([ 'pgbench', '-n', '-c', '4', '-t', '1', '-f', $script, '-h', $coord->host, '-p', $coord->port, 'postgres' ],
	qr{actually processed: 4/}, 'several at once that move both sides');
nothing_left('after them');

# A server that has too few flows. The statement is not tried for long, and a transaction that goes on holds nothing of it.
$d2->append_conf('postgresql.conf', "rdma_fdw.max_flows = 300\n");
$d2->restart;
my ($out, $err);
my ($status) = $coord->psql('postgres', $join, stderr => \$err);
isnt($status, 0, 'too few flows on a node');
like($err, qr/needs \d+ flows of rdma_fdw on the node of server "s\d+", where its role may have 300.*2 exchanges between 16 nodes.*max_flows/s,
	'the error says how many');
my $session = $coord->background_psql('postgres', on_error_stop => 0);
$session->query_safe('BEGIN');
is($session->query_safe('SELECT count(*) FROM o'), '2000', 'a transaction that has used the nodes');
$session->query_safe("DO \$\$ BEGIN PERFORM count(*) FROM o JOIN l USING (ok); EXCEPTION WHEN configuration_limit_exceeded THEN NULL; END \$\$");
foreach my $node ($d1, $d2)
{
	ok(rdma_wait($node, 'SELECT count(*) = 0 FROM rdma.stat_flows', 60), 'it goes on without flows of what failed on ' . $node->name);
}
is($session->query_safe('SET LOCAL rdma_fdw.exchange_strategy = pull; ' . $join), $want, 'and can do it otherwise');
$session->query_safe('COMMIT');
$session->quit;

# The planner takes the nodes to be like this one.
$coord->append_conf('postgresql.conf', "rdma_fdw.max_flows = 300\n");
$coord->restart;
like($coord->safe_psql('postgres', "SET rdma_fdw.exchange_strategy = auto; EXPLAIN (COSTS OFF) $join"), qr/Exchange 1: repartition 16:16/,
	'one exchange has enough flows');
unlike($coord->safe_psql('postgres', "EXPLAIN (COSTS OFF) $join"), qr/Exchange 2/, 'two have not, and the planner knows');
is($coord->safe_psql('postgres', $join), $want, 'so it is done otherwise');
nothing_left('at the end');

done_testing();
