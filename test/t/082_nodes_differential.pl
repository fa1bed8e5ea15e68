# Random queries over tables of a server with two nodes, and the same over local tables: the same rows must come out, whichever way
# the joins are done. The tables are there several times, stored by different keys and replicated, and each query draws which of them
# it reads, which strategy it asks for, whether others compute: a node, and a database of the coordinator's own; and whether workers here
# read along. Other queries read partitioned tables with partitions on both nodes as ordinary servers. NODES_QUERIES and NODES_SEED set the
# length and the seed of a longer run.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use RdmaCluster;
use RdmaQueries;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $queries = $ENV{NODES_QUERIES} || 250;
my $seed = $ENV{NODES_SEED} || 82;
srand($seed);

my ($coord, $n1, $n2) = rdma_trio(conf => "timezone = 'Europe/Zurich'\n");

$coord->safe_psql('postgres', 'CREATE DATABASE here');
$coord->safe_psql('here', "CREATE EXTENSION rdma_fdw; CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')");
$coord->safe_psql('postgres', "CREATE SERVER here FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port '" . $coord->port . "', dbname 'here');"
		. "CREATE USER MAPPING FOR postgres SERVER here OPTIONS (user 'postgres')");

# The coordinator has another type first, so that OIDs of user types differ between the nodes.
$coord->safe_psql('postgres', 'CREATE TYPE earlier AS (x int)');
$_->safe_psql('postgres', "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')") foreach ($coord, $n1, $n2);
my $t = 'id int8, i2 int2, i4 int4, i8 int8, n2 numeric(12,2), t text, vc varchar(40), b boolean, d date, dm int, en mood';
my $u = 'id int, tid int8, k int, v int2, s text COLLATE "C", n numeric(10,2), d date, g mood, f boolean';
$coord->safe_psql('postgres', qq{
	CREATE SCHEMA l;
	CREATE TABLE l.t ($t);
	CREATE TABLE l.u ($u);
	SELECT setseed(0.25);
	INSERT INTO l.t SELECT g, CASE WHEN random() < 0.9 THEN (random() * 40 - 10)::int2 END, CASE WHEN random() < 0.9 THEN (random() * 300)::int END,
		(random() * 1e6)::int8, (random() * 1e4)::numeric(12,2), CASE WHEN random() < 0.9 THEN chr(97 + (random() * 4)::int) || (random() * 30)::int END,
		CASE WHEN random() < 0.9 THEN left(md5(g::text), (random() * 3)::int) END, CASE WHEN random() < 0.9 THEN random() < 0.5 END,
		date '2001-01-01' + (random() * 500)::int, CASE WHEN random() < 0.9 THEN (random() * 100)::int + 1 END,
		(array['sad', 'ok', 'happy'])[1 + (random() * 2)::int]::mood FROM generate_series(1, 400) g;
	INSERT INTO l.u SELECT g, CASE WHEN random() < 0.8 THEN (random() * 300)::int END, CASE WHEN random() < 0.85 THEN (random() * random() * 12)::int END,
		(random() * 30 - 10)::int2, chr(97 + (random() * 4)::int) || (random() * 9)::int, (random() * 100)::numeric(10,2),
		date '2001-01-01' + (random() * 500)::int, (array['sad', 'ok', 'happy'])[1 + (random() * 2)::int]::mood,
		CASE WHEN random() < 0.9 THEN random() < 0.5 END FROM generate_series(1, 250) g;
	ANALYZE l.t, l.u;
	CREATE SERVER nodes FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'n1, n2', compute_nodes 'n2, here', parallel_scan 'true');
	CREATE SCHEMA d;
});

my %copies = (
	t => { t => "distributed_by 'id'", t_i4 => "distributed_by 'i4'", t_two => "distributed_by 't, i2'", t_anywhere => '', t_everywhere => "replicated 'true'" },
	u => { u => "distributed_by 'id'", u_tid => "distributed_by 'tid'", u_k => "distributed_by 'k, v'", u_s => "distributed_by 's'", u_everywhere => "replicated 'true'" });
foreach my $table ('t', 'u')
{
	foreach my $name (sort keys %{ $copies{$table} })
	{
		my $columns = $table eq 't' ? $t : $u;
		my $where = $copies{$table}{$name};
		my $options = $where ? "OPTIONS (schema_name 'public', $where)" : "OPTIONS (schema_name 'public')";
		$_->safe_psql('postgres', "CREATE TABLE public.$name ($columns)") foreach ($n1, $n2);
		$coord->safe_psql('postgres', "CREATE FOREIGN TABLE d.$name ($columns) SERVER nodes $options");
		if ($where)
		{
			$coord->safe_psql('postgres', "INSERT INTO d.$name SELECT * FROM l.$table");
			next;
		}
		# nobody knows where these are
		foreach my $i (0, 1)
		{
			my $rows = $coord->safe_psql('postgres', "COPY (SELECT * FROM l.$table WHERE id % 2 = $i) TO STDOUT");
			($n1, $n2)[$i]->safe_psql('postgres', "COPY public.$name FROM STDIN;\n$rows\n\\.\n");
		}
	}
}
$_->safe_psql('postgres', 'ANALYZE') foreach ($n1, $n2);
$coord->safe_psql('postgres', "ANALYZE d.$_") foreach (map { sort keys %{ $copies{$_} } } ('t', 'u'));

# The same rows in partitioned tables: by what, and for each partition its bounds, whose it is, and how the columns are called there.
my %partitioned = (
	t => {
		t_hash => [ 'HASH (id)', [ 'WITH (MODULUS 2, REMAINDER 0)', 'n1' ], [ 'WITH (MODULUS 2, REMAINDER 1)', 'n2', 'mixed' ] ],
		t_uneven => [ 'HASH (i4)', map { [ "WITH (MODULUS 4, REMAINDER $_)", $_ < 3 ? 'n1' : 'n2', $_ % 2 ? 'mixed' : () ] } 0 .. 3 ],
		t_range => [ 'RANGE (id)', [ 'FROM (MINVALUE) TO (150)', 'n2' ], [ 'FROM (150) TO (300)', 'n1', 'mixed' ], [ '', 'n2' ] ],
		t_list => [ 'LIST (i2)', [ 'IN (1, 2, 3, 5, 8, 13, 21, NULL)', 'n1' ], [ '', 'n2' ] ],
		t_alone => [ 'RANGE (id)', [ 'FROM (MINVALUE) TO (200)', 'n2' ], [ 'FROM (200) TO (MAXVALUE)', 'n2' ] ] },
	u => {
		u_hash => [ 'HASH (tid)', [ 'WITH (MODULUS 2, REMAINDER 0)', 'n1', 'mixed' ], [ 'WITH (MODULUS 2, REMAINDER 1)', 'n2' ] ],
		u_range => [ 'RANGE (tid)', [ 'FROM (MINVALUE) TO (150)', 'n2', 'mixed' ], [ 'FROM (150) TO (300)', 'n1' ], [ '', 'n2' ] ],
		u_text => [ 'RANGE (s)', [ "FROM ('a') TO ('c')", 'n1' ], [ "FROM ('c') TO ('z')", 'n2', 'mixed' ] ],
		u_two => [ 'HASH (k, v)', [ 'WITH (MODULUS 2, REMAINDER 1)', 'n1' ], [ 'WITH (MODULUS 2, REMAINDER 0)', 'n2' ] ] });
$coord->safe_psql('postgres', 'CREATE SCHEMA p');
foreach my $table ('t', 'u')
{
	my $columns = $table eq 't' ? $t : $u;
	foreach my $name (sort keys %{ $partitioned{$table} })
	{
		my ($by, @parts) = @{ $partitioned{$table}{$name} };
		# attribute numbers differ from those of the partitions
		$coord->safe_psql('postgres', "CREATE TABLE p.$name (gone int, $columns) PARTITION BY $by; ALTER TABLE p.$name DROP COLUMN gone");
		for my $i (0 .. $#parts)
		{
			my ($bounds, $server, $mixed) = @{ $parts[$i] };
			my $node = $server eq 'n1' ? $n1 : $n2;
			my $here = $mixed ? join(', ', reverse split(/, (?=[a-z])/, $columns)) : $columns;
			$bounds = $bounds ? "FOR VALUES $bounds" : 'DEFAULT';
			$node->safe_psql('postgres', "CREATE TABLE public.${name}_$i (" . ($mixed ? $here =~ s/\bid /ident /r : $here) . ')');
			$coord->safe_psql('postgres', "CREATE FOREIGN TABLE p.${name}_$i ("
					. ($mixed ? $here =~ s/\b(id \w+)/$1 OPTIONS (column_name 'ident')/r : $here)
					. ") SERVER $server OPTIONS (schema_name 'public'); ALTER TABLE p.$name ATTACH PARTITION p.${name}_$i $bounds");
		}
		$coord->safe_psql('postgres', "INSERT INTO p.$name (SELECT * FROM l.$table); ANALYZE p.$name");
	}
}

# The exception block is a subtransaction, so failing queries also exercise remote savepoints.
$coord->safe_psql('postgres', q{
	CREATE FUNCTION outcome(q text) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE result text;
	BEGIN
		EXECUTE format('SELECT count(*) || '' '' || coalesce(md5(string_agg(x::text, ''|'' ORDER BY x::text COLLATE "C")), '''') FROM (%s) x', q) INTO result;
		RETURN result;
	EXCEPTION WHEN OTHERS THEN RETURN 'ERROR ' || SQLSTATE || ' ' || SQLERRM;
	END $$;
	CREATE TABLE differences (q text, strategy text, l text, d text);
	CREATE FUNCTION compare(here text, there text) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE l text := outcome(here); d text := outcome(there); line text; exchanges int := 0; computed int := 0; parallel int := 0;
	BEGIN
		IF l IS DISTINCT FROM d AND NOT (l LIKE 'ERROR%' AND left(l, 11) = left(d, 11)) THEN
			INSERT INTO differences VALUES (there, current_setting('rdma_fdw.exchange_strategy') || ', compute ' || current_setting('rdma_fdw.compute_nodes'), l, d);
		END IF;
		IF l LIKE 'ERROR%' THEN
			RETURN 'error';
		END IF;
		FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || there LOOP
			exchanges := exchanges + (line ~ 'Exchange [0-9]+:')::int;
			computed := computed + (line ~ 'Compute Nodes:')::int;
			parallel := parallel + (line ~ 'Parallel Foreign Scan')::int;
		END LOOP;
		RETURN CASE WHEN l LIKE '0 %' THEN 'empty' ELSE 'rows' END || CASE WHEN computed > 0 THEN ', compute nodes' WHEN exchanges > 0 THEN ', exchanges' WHEN parallel > 0 THEN ', workers' ELSE '' END;
	END $$;
});

my $sql = "SET jit = off;\nSET parallel_setup_cost = 0;\nSET parallel_tuple_cost = 0;\nSET min_parallel_table_scan_size = 0;\n";
for my $i (1 .. $queries)
{
	my $q = random_query();
	my $here = $q =~ s/%([TU])%/'l.' . lc($1)/ger;
	my $there = $q =~ s/%([TU])%/'d.' . pick(sort keys %{ $copies{ lc($1) } })/ger;
	my $strategy = pick('auto', 'auto', 'colocated', 'repartition_one', 'repartition_both', 'replicate', 'pull');

	my $compute = pick('auto', 'off', 'on');

	my $workers = pick(0, 2);
	$sql .= "SET max_parallel_workers_per_gather = $workers;\n";
	$sql .= 'SET parallel_leader_participation = ' . pick('on', 'off') . ";\n" if $workers > 0;

	s/'/''/g foreach ($here, $there);
	$sql .= "SET rdma_fdw.compute_nodes = $compute;\nSET rdma_fdw.exchange_strategy = $strategy;\nSET rdma_fdw.decorrelate = "
	  . pick('on', 'on', 'auto', 'off') . ";\nSELECT compare('$here', '$there');\n";
}
for my $i (1 .. $queries / 2)
{
	my $q = random_query();
	my $here = $q =~ s/%([TU])%/'l.' . lc($1)/ger;
	my $there = $q =~ s/%([TU])%/'p.' . pick(sort keys %{ $partitioned{ lc($1) } })/ger;
	my $strategy = pick('auto', 'auto', 'colocated', 'repartition_one', 'repartition_both', 'replicate');

	s/'/''/g foreach ($here, $there);
	$sql .= 'SET max_parallel_workers_per_gather = ' . pick(0, 0, 2) . ";\n";
	$sql .= "SET rdma_fdw.exchange_strategy = $strategy;\nSET enable_partitionwise_join = " . pick('on', 'off') . ";\n"
	  . "SELECT compare('$here', '$there') || ' of partitions';\n";
}
my $outcomes = $coord->safe_psql('postgres', $sql);
my %seen;
$seen{$_}++ foreach split(/\n/, $outcomes);
note(join(', ', map { "$seen{$_} with $_" } sort keys %seen));
is($coord->safe_psql('postgres', q{SELECT strategy || ': here ' || l || ', nodes ' || d || ': ' || q FROM differences}), '',
	"seed $seed: $queries queries over two nodes give the rows that local tables give");
cmp_ok($seen{$_} || 0, '>', $queries / 16, "many queries that returned rows moved some: $_") foreach ('rows, exchanges', 'rows, compute nodes', 'rows, exchanges of partitions');
ok(rdma_wait($_, 'SELECT count(*) = 0 FROM rdma.stat_flows'), 'no flow is left on ' . $_->name) foreach ($coord, $n1, $n2);

$_->stop foreach ($coord, $n1, $n2);
done_testing();
