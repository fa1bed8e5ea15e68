# Setup.pm: what the clusters co, n1 and n2 have in them. Each table has the same rows in five
# schemas of the coordinator, so that one query text has one answer wherever search_path leads:
#
#   here    ordinary tables: the right answers           one     foreign tables of one server, n1
#   many    tables of a server with nodes n1 and n2      two     partitions on the servers n1 and n2
#   async   the same partitions, async_capable 'true'
#
# slow is item again, whose rows the data nodes make slowly; bad fails on them behind its first
# rows. many.w is what the clients write; the same rows are in two.w, and those of one node in
# direct.w1 and direct.w2. Coordinator and data nodes reach each other only through the proxy's
# links.
package Setup;

use strict;
use warnings;

our @SCHEMAS = qw(one many two async);

my %key = (item => 'n', ord => 'k', fat => 'id', small => 'id', big => 'a', kinds => 'id', nothing => 'k');
my %columns = (
	item => 'k int, n int, v int, s text',
	ord => 'k int, p int, s text, t text',
	fat => 'id int, t text',
	small => 'id int, s text',
	big => 'a bigint, b bigint',
	kinds => 'id int, i2 smallint, f float8, n numeric, d date, ts timestamp, b bytea, a int[], ta text[], j jsonb, r int4range, u uuid, x bit varying, c char(9), iv interval, ip inet',
	nothing => 'k int, s text',
	slow => 'k int, n int, v int, s text',
	bad => 'n int, s text',
	w => 'client int, batch int, id int, v bigint, pad text');

my $functions = q{
	CREATE FUNCTION public.stay(int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS 'BEGIN RETURN $1; END';
	CREATE FUNCTION public.nap(int, seconds float8) RETURNS boolean LANGUAGE plpgsql PARALLEL SAFE AS
		'BEGIN IF $1 % 400 = 0 THEN PERFORM pg_sleep(seconds); END IF; RETURN true; END'};

# Fixed by arithmetic: every cluster that makes them has the same.
sub rows
{
	my ($size) = @_;
	my ($items, $orders, $big) = map { int($_ * $size) } (20000, 4000, 150000);

	return qq{
		CREATE TABLE item AS SELECT i % $orders + 1 AS k, i AS n, i * 7919 % 4001 AS v, md5((i * 3)::text) AS s FROM generate_series(1, $items) i;
		CREATE TABLE ord AS SELECT k, k % 17 AS p, md5(k::text) AS s,
			(ARRAY[E'back\\\\slash', 'it''s', '', NULL, E'two\\nlines', '\$1 %s ?'])[k % 6 + 1] AS t FROM generate_series(1, $orders) k;
		CREATE TABLE fat AS SELECT id, repeat(md5(id::text), id * 977 % 10000) AS t FROM generate_series(1, 48) id;
		CREATE TABLE small AS SELECT id, md5(id::text) AS s FROM generate_series(1, 1500) id;
		CREATE TABLE big AS SELECT g::bigint AS a, (g::bigint * 31 % 1000003) AS b FROM generate_series(1, $big) g;
		CREATE TABLE kinds AS SELECT id, (id % 100)::smallint AS i2, id / 8.0::float8 AS f, (id * 1.01)::numeric AS n, date '2020-01-01' + id AS d,
			timestamp '2020-01-01' + id * interval '1 minute' AS ts, decode(md5(id::text), 'hex') AS b, ARRAY[id, NULL, id + 1] AS a,
			ARRAY['a' || id, NULL, E'b\\\\'] AS ta, jsonb_build_object('id', id, 'x', md5(id::text)) AS j, int4range(id, id + 7) AS r,
			md5(id::text)::uuid AS u, id::bit(17)::bit varying AS x, 'c' || id AS c, id * interval '1 second' AS iv,
			('10.0.' || id % 256 || '.1')::inet AS ip FROM generate_series(1, 1000) id;
		ALTER TABLE kinds ALTER c TYPE char(9);
		CREATE TABLE nothing (k int, s text)};
}

my $views = 'CREATE VIEW slow AS SELECT * FROM item WHERE public.nap(n, 0.02); '
	. 'CREATE VIEW bad AS SELECT g AS n, (1 / (60000 - g))::text AS s FROM (SELECT generate_series(1, 100000) AS g) x';
my $indexes = 'CREATE INDEX ON item (k); CREATE INDEX ON item (n); CREATE UNIQUE INDEX ON ord (k); CREATE INDEX ON small (id)';

# $link: name of a link => port that leads through the proxy; $size: 1, or less for slow machines
sub make
{
	my ($nodes, $proxy, $size) = @_;
	my ($co, @data) = @$nodes{qw(co n1 n2)};
	my $rows = rows($size);

	foreach my $node (@data)
	{
		need($node, "CREATE EXTENSION rdma_fdw; CREATE ROLE app LOGIN; SELECT rdma.grant_access('app', 'write', 'exchange'); GRANT CREATE ON DATABASE postgres TO app; $functions; CREATE SCHEMA whole AUTHORIZATION app");
		need($node, "SET ROLE app; SET search_path = whole; $rows; $indexes; ALTER TABLE fat ALTER t SET STORAGE EXTERNAL; "
			. "$views; ANALYZE") if $node->name eq 'n1';
	}
	need($co, "CREATE EXTENSION rdma_fdw; $functions; CREATE SCHEMA here; CREATE SCHEMA one; CREATE SCHEMA many; CREATE SCHEMA two; CREATE SCHEMA async; CREATE SCHEMA direct");
	need($co, "SET search_path = here; $rows; $indexes; CREATE VIEW slow AS SELECT * FROM item; ANALYZE");
	foreach my $node (@data)
	{
		my $name = $node->name;
		need($co, "CREATE SERVER $name FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port '" . $proxy->port("pq_$name") . "', dbname 'postgres');"
			. "CREATE USER MAPPING FOR postgres SERVER $name OPTIONS (user 'app')");
	}
	need($co, "CREATE SERVER many FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n1, n2')");
	foreach my $table (sort keys %key)
	{
		need($co, "CREATE TABLE many.$table ($columns{$table}); INSERT INTO many.$table SELECT * FROM here.$table;"
			. "SELECT rdma.distribute_table('many.$table', 'many', '$key{$table}')");
	}
	need($co, "CREATE TABLE many.w ($columns{w}, PRIMARY KEY (client, batch, id)); SELECT rdma.distribute_table('many.w', 'many', 'client')");
	foreach my $node (@data)
	{
		need($node, "SET ROLE app; SET search_path = many; $indexes; ALTER TABLE fat ALTER t SET STORAGE EXTERNAL; "
			. "$views; ANALYZE");
		# some tables travel as heap pages
		need($node, 'ALTER ROLE app SET rdma_fdw.allow_page_shipping = on; ' . join('; ', map { "SECURITY LABEL FOR rdma_fdw ON TABLE $_ IS 'page_shipping'" }
			qw(many.big many.item many.w), $node->name eq 'n1' ? qw(whole.big whole.small) : ()));
	}
	need($co, "CREATE FOREIGN TABLE many.$_ ($columns{$_}) SERVER many OPTIONS (distributed_by 'n')") foreach (qw(slow bad));
	foreach my $table (sort keys %columns)
	{
		my $key = $key{$table} // { slow => 'n', bad => 'n', w => 'client' }->{$table};
		need($co, "CREATE FOREIGN TABLE one.$table ($columns{$table}) SERVER n1 OPTIONS (schema_name 'whole')") unless $table eq 'w';
		foreach my $schema (qw(two async))
		{
			my $option = $schema eq 'async' ? ", async_capable 'true'" : '';
			need($co, "CREATE TABLE $schema.$table ($columns{$table}) PARTITION BY HASH ($key)");
			foreach my $place (0, 1)
			{
				need($co, "CREATE FOREIGN TABLE $schema.${table}_$place PARTITION OF $schema.$table FOR VALUES WITH (MODULUS 2, REMAINDER $place)"
					. ' SERVER n' . ($place + 1) . " OPTIONS (schema_name 'many', table_name '$table'$option)");
			}
		}
	}
	need($co, "CREATE FOREIGN TABLE direct.w$_ ($columns{w}) SERVER n$_ OPTIONS (schema_name 'many', table_name 'w')") foreach (1, 2);
	need($co, 'ANALYZE');
	need($co, "ANALYZE one.$_, many.$_, two.$_, async.$_") foreach sort keys %key;
	return;
}

sub need
{
	my ($node, $sql) = @_;
	$node->ask($sql, 300) or die 'set-up of ' . $node->name . ": $node->{why}\n$sql\n";
	return;
}

1;
