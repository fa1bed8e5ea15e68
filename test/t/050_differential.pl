# Random predicates and projections over a table with a column of every built-in type, NULL-rich and with edge values. Each
# query runs three ways - local table, postgres_fdw, rdma_fdw - and must give the same multiset of rows, or the same SQLSTATE
# (arithmetic errors: see compare). Other statements are test/differential's. DIFFERENTIAL_QUERIES and DIFFERENTIAL_SEED set
# the length and the seed of a longer run.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $queries = $ENV{DIFFERENTIAL_QUERIES} || 100;
my $seed = $ENV{DIFFERENTIAL_SEED} || 42;
srand($seed);

sub pick { return $_[ int(rand(scalar @_)) ]; }

my %node;
foreach my $name ('data', 'coordinator')
{
	my $n = PostgreSQL::Test::Cluster->new($name);
	$n->init;
	$n->append_conf('postgresql.conf', "shared_preload_libraries = 'rdma_fdw'\nrdma_fdw.buffer_memory = '64MB'\n"
		  . "fsync = off\ntimezone = 'Europe/Zurich'\n");
	$n->start;
	$node{$name} = $n;
}
my ($data, $coordinator) = @node{qw(data coordinator)};

# name => [type, expression of one random value, edge values]
my @columns = (
	[ 'b', 'boolean', 'random() < 0.5', "'true'", "'false'" ],
	[ 'i2', 'int2', '(random() * 200 - 100)::int2', "'-32768'", "'32767'", "'0'" ],
	[ 'i4', 'int4', '(random() * 2000 - 1000)::int4', "'-2147483648'", "'2147483647'", "'0'" ],
	[ 'i8', 'int8', '(random() * 1e6)::int8', "'-9223372036854775808'", "'9223372036854775807'" ],
	[ 'f4', 'float4', '(random() * 100)::float4', "'NaN'", "'Infinity'", "'-Infinity'", "'-0'", "'1e-38'" ],
	[ 'f8', 'float8', 'random() * 1e9', "'NaN'", "'Infinity'", "'-Infinity'", "'-0'", "'1e-300'" ],
	[ 'n', 'numeric', '(random() * 1e6)::numeric(20,5)', "'NaN'", "'Infinity'", "'-Infinity'", "'0.0000'", "'1e100'", "'-1e-100'" ],
	[ 'n2', 'numeric(12,2)', '(random() * 1e6)::numeric(12,2)', "'0.00'", "'-9999999999.99'" ],
	[ 'mo', 'money', '(random() * 1000)::numeric::money', "'0'" ],
	[ 't', 'text', "repeat(chr(97 + (random() * 25)::int), (random() * 20)::int)", "''", "'Ünïcödé → 漢字'", "E'tab\\tnl\\nback\\\\slash'", "repeat('long ', 5000)" ],
	[ 'vc', 'varchar(40)', "left(md5(random()::text), (random() * 32)::int)", "''", "'  spaces  '" ],
	[ 'bp', 'char(12)', "left(md5(random()::text), (random() * 12)::int)", "''", "'abc  '" ],
	[ 'nm', 'name', "('n' || (random() * 50)::int)::name", "''" ],
	[ 'ch', '"char"', "(chr(65 + (random() * 25)::int))::\"char\"", "''" ],
	[ 'by', 'bytea', "decode(md5(random()::text), 'hex')", "''", "'\\x00ff00'" ],
	[ 'd', 'date', "date '2000-01-01' + (random() * 9000)::int", "'infinity'", "'-infinity'", "'0044-03-15 BC'" ],
	[ 'ti', 'time', "(random() * interval '24 hours')::time", "'00:00'", "'24:00'" ],
	[ 'ttz', 'timetz', "((random() * interval '24 hours')::time)::timetz", "'00:00+14'", "'23:59:59.999999-12'" ],
	[ 'ts', 'timestamp', "timestamp '2001-01-01' + random() * interval '20 years'", "'infinity'", "'-infinity'", "'4713-01-01 BC'" ],
	[ 'tstz', 'timestamptz', "timestamptz '2001-01-01' + random() * interval '20 years'", "'infinity'", "'2021-10-31 02:30 Europe/Zurich'" ],
	[ 'iv', 'interval', "random() * interval '100 days'", "'1 mon -1 day 00:00:00.000001'", "'0'" ],
	[ 'u', 'uuid', 'md5(random()::text)::uuid', "'00000000-0000-0000-0000-000000000000'" ],
	[ 'ine', 'inet', "('10.0.' || (random() * 255)::int || '.' || (random() * 255)::int)::inet", "'::1'", "'192.168.0.1/24'" ],
	[ 'ci', 'cidr', "('10.' || (random() * 255)::int || '.0.0/16')::cidr", "'2001:db8::/32'" ],
	[ 'ma', 'macaddr', "('08:00:2b:00:00:' || lpad(to_hex((random() * 255)::int), 2, '0'))::macaddr" ],
	[ 'ma8', 'macaddr8', "('08:00:2b:00:00:00:00:' || lpad(to_hex((random() * 255)::int), 2, '0'))::macaddr8" ],
	[ 'bi', 'bit(9)', '((random() * 511)::int)::bit(9)' ],
	[ 'vb', 'varbit', '((random() * 511)::int)::bit(9)::varbit', "''" ],
	[ 'j', 'json', "json_build_object('a', (random() * 10)::int)", "'null'", "'{\"x\": [1, 2, {\"y\": null}]}'" ],
	[ 'jb', 'jsonb', "jsonb_build_object('a', (random() * 10)::int, 'b', md5(random()::text))", "'null'", "'[]'", "'1e400'" ],
	[ 'jp', 'jsonpath', "'\$.a'", "'\$.x[*] ? (@ > 3)'" ],
	[ 'po', 'point', 'point(random(), random())', "'(NaN,Infinity)'" ],
	[ 'bx', 'box', 'box(point(random(), random()), point(random(), random()))' ],
	[ 'pa', 'path', "'((0,0),(1,1),(2,0))'", "'[(0,0),(1,1)]'" ],
	[ 'pg', 'polygon', "polygon '((0,0),(1,1),(2,0))'" ],
	[ 'ck', 'circle', 'circle(point(random(), random()), random())' ],
	[ 'li', 'line', "'{1,2,3}'" ],
	[ 'ls', 'lseg', "'[(0,0),(1,1)]'" ],
	[ 'tv', 'tsvector', "to_tsvector('simple', 'a quick fox ' || (random() * 9)::int)", "''" ],
	[ 'tq', 'tsquery', "to_tsquery('simple', 'fox & ' || (random() * 9)::int)" ],
	[ 'ls2', 'pg_lsn', "('0/' || to_hex((random() * 1e9)::int8))::pg_lsn" ],
	[ 'x8', 'xid8', '((random() * 1e9)::int8)::text::xid8' ],
	[ 'oi', 'oid', '((random() * 1e9)::int8)::oid', "'4294967295'" ],
	[ 'rg', 'regtype', "'int4'", "'text'", "'numeric'" ],
	[ 'i4r', 'int4range', 'int4range((random() * 10)::int, 20 + (random() * 10)::int)', "'empty'", "'(,)'" ],
	[ 'nr', 'numrange', "'[1.5,2.5)'", "'empty'", "'(,7]'" ],
	[ 'tr', 'tstzrange', "tstzrange(now()::date, null)", "'empty'" ],
	[ 'mr', 'int8multirange', "'{[1,3),[5,9)}'", "'{}'" ],
	[ 'a4', 'int4[]', 'array[(random() * 10)::int, null, (random() * 10)::int]', "'{}'", "'{{1,2},{3,4}}'", "'[5:6]={7,8}'" ],
	[ 'at', 'text[]', "array[md5(random()::text), 'x', null]", "'{}'", "'{\"a,b\",\"\",NULL}'" ],
	[ 'an', 'numeric[]', "array[random()::numeric, 'NaN']", "'{}'" ],
	[ 'dm', 'positive', '(random() * 100)::int + 1' ],
	[ 'en', 'mood', "(array['sad', 'ok', 'happy'])[1 + (random() * 2)::int]::mood" ],
	[ 'co', 'pair', "row((random() * 10)::int, md5(random()::text))::pair", "row(null, null)::pair" ],
	[ 'ae', 'mood[]', "array['sad', 'happy']::mood[]", "'{}'" ],
	[ 'ad', 'positive[]', "array[1, 2]::positive[]" ],
	[ 'ac', 'pair[]', "array[row(1, 'a')::pair, null]", "'{}'" ]);

my $types = "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy'); CREATE DOMAIN positive AS int CHECK (value > 0); CREATE TYPE pair AS (k int, v text);";
my $definition = join(', ', map { "\"$_->[0]\" $_->[1]" } @columns);
$data->safe_psql('postgres', 'CREATE EXTENSION rdma_fdw');
# The coordinator has other objects first, so that OIDs of user types differ between the nodes.
$coordinator->safe_psql('postgres', 'CREATE EXTENSION rdma_fdw; CREATE EXTENSION postgres_fdw; CREATE TYPE earlier AS (x int); CREATE TABLE earlier2 (x earlier)');
$_->safe_psql('postgres', $types) foreach ($data, $coordinator);

my $fill = "SELECT setseed(0.25);\nCREATE TABLE t (id int8 PRIMARY KEY, gone int, $definition);\nALTER TABLE t DROP COLUMN gone;\n";
$fill .= "INSERT INTO t SELECT g, " . join(', ', map { "CASE WHEN random() < 0.15 THEN NULL ELSE ($_->[2])::$_->[1] END" } @columns)
  . " FROM generate_series(1, 1500) g;\n";
my $id = 100000;
foreach my $c (@columns)
{
	my @edges = @$c[ 3 .. $#$c ];
	foreach my $edge (@edges)
	{
		$id++;
		$fill .= "INSERT INTO t (id, \"$c->[0]\") VALUES ($id, ($edge)::$c->[1]);\n";
	}
}
$fill .= "INSERT INTO t (id) VALUES (200000);\nANALYZE t;\n";
$data->safe_psql('postgres', $fill);

my $connect = "host '" . $data->host . "', port '" . $data->port . "', dbname 'postgres'";
$coordinator->safe_psql('postgres', qq{
	CREATE SCHEMA l; CREATE SCHEMA r; CREATE SCHEMA p;
	CREATE SERVER rdma FOREIGN DATA WRAPPER rdma_fdw OPTIONS ($connect);
	CREATE USER MAPPING FOR CURRENT_USER SERVER rdma;
	CREATE SERVER pg FOREIGN DATA WRAPPER postgres_fdw OPTIONS ($connect, fetch_size '500');
	CREATE USER MAPPING FOR CURRENT_USER SERVER pg;
	IMPORT FOREIGN SCHEMA public LIMIT TO (t) FROM SERVER rdma INTO r;
	IMPORT FOREIGN SCHEMA public LIMIT TO (t) FROM SERVER pg INTO p;
	CREATE TABLE l.t (id int8 PRIMARY KEY, $definition);
});
my $dump = $data->safe_psql('postgres', 'COPY (SELECT * FROM t) TO STDOUT');
$coordinator->safe_psql('postgres', "COPY l.t FROM STDIN;\n$dump\n\\.\nANALYZE l.t, r.t;\n");

# One query three ways. The exception block is a subtransaction, so failing queries also exercise remote savepoints.
$coordinator->safe_psql('postgres', q{
	CREATE FUNCTION outcome(q text, schema text) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE result text;
	BEGIN
		EXECUTE format('SELECT count(*) || '' '' || coalesce(md5(string_agg(x::text, ''|'' ORDER BY x::text COLLATE "C")), '''') FROM (%s) x', replace(q, '%T%', schema || '.t')) INTO result;
		RETURN result;
	EXCEPTION WHEN OTHERS THEN RETURN 'ERROR ' || SQLSTATE;
	END $$;
	CREATE TABLE differences (q text, l text, p text, r text);
	CREATE FUNCTION compare(q text) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE l text := outcome(q, 'l'); p text := outcome(q, 'p'); r text := outcome(q, 'r');
	BEGIN
		-- Whether 1 / 0 or an overflow comes up depends on the order in which conditions are tried, and so on where each is
		-- evaluated: an error of that kind (22003, 22012) needs only one of the two others for a witness. Otherwise the local table is right.
		-- Where we alone let the data node evaluate the condition there is none; such queries must be rare.
		IF r IN ('ERROR 22003', 'ERROR 22012') AND l NOT LIKE 'ERROR%' AND p = l THEN
			RETURN 'unwitnessed error';
		END IF;
		IF r IS DISTINCT FROM l AND r IS DISTINCT FROM p
			OR (l NOT IN ('ERROR 22003', 'ERROR 22012') AND p NOT IN ('ERROR 22003', 'ERROR 22012') AND r IS DISTINCT FROM l) THEN
			INSERT INTO differences VALUES (q, l, p, r);
		END IF;
		RETURN CASE WHEN l LIKE 'ERROR%' THEN 'error' WHEN l LIKE '0 %' THEN 'empty' ELSE 'rows' END;
	END $$;
});

my @ordered = grep { $_->[1] !~ /^(json|jsonpath|point|box|path|polygon|circle|line|lseg|xid8?)$/ } @columns;
my @numeric = grep { $_->[1] =~ /^(int|float|numeric)/ && $_->[1] !~ /range|\[\]/ } @columns;
my @texts = grep { $_->[1] =~ /^(text|varchar)/ && $_->[1] !~ /\[\]/ } @columns;

sub atom
{
	my $kind = int(rand(12));
	my $c = pick(@ordered);
	my $value = pick(@$c[ 2 .. $#$c ]);
	if ($kind < 4)
	{
		# a constant taken from the table itself, so that predicates select something
		my $row = 1 + int(rand(1500));
		my $op = pick('=', '<>', '<', '>', '<=', '>=');
		return "\"$c->[0]\" $op (SELECT \"$c->[0]\" FROM l.t WHERE id = $row)";
	}
	if ($kind == 4 && $value !~ /random|now/) { return "\"$c->[0]\" " . pick('=', '<', '>', 'IS DISTINCT FROM') . " ($value)::$c->[1]"; }
	if ($kind == 5) { my $any = pick(@columns); return "\"$any->[0]\" IS " . pick('', 'NOT ') . 'NULL'; }
	if ($kind == 6)
	{
		my ($x, $y) = (pick(@numeric), pick(@numeric));
		return "\"$x->[0]\"::float8 " . pick('<', '>', '=') . " \"$y->[0]\"::float8 " . pick('+', '-') . ' ' . int(rand(100));
	}
	if ($kind == 7) { my $x = pick(@texts); return "\"$x->[0]\" " . pick('LIKE', 'NOT LIKE', 'ILIKE') . " '" . pick('a%', '%b%', '_c%', '%') . "'"; }
	if ($kind == 8) { return 'id ' . pick('BETWEEN', 'NOT BETWEEN') . ' ' . int(rand(700)) . ' AND ' . (700 + int(rand(800))); }
	if ($kind == 9) { return 'i4 IN (' . join(', ', map { int(rand(2000)) - 1000 } 1 .. 20) . ')'; }
	if ($kind == 10) { my $x = pick(@numeric); return "CASE WHEN \"$x->[0]\" > 10 THEN length(t) > 5 ELSE b END"; }
	return pick('length(t) % 3 = 1', 'upper(vc) > lower(bp)', 'a4[1] > 4', "jb->>'a' = '3'", "i4r \@> 12", 'abs(i4) < 100', 'i4 = ANY (a4)',
		"'x' = ANY (at)", 'i2 / (i4 - i4) > 0', "ts > now() - interval '10 years'", 'coalesce(i4, 0) = 0', 'b', 'NOT b', 'd + 1 < ts::date',
		"extract(year FROM ts) = 2010", 'row(i2, i4) < row(1, 2)', "tstz::date > '2010-01-01'", "en = 'ok'", 'dm > 50', '(co).k = 3',
		"t COLLATE \"C\" < 'm'", 'nullif(i2, 3) IS NULL', 'greatest(i2, i4) > 50', "by > '\\x80'", 'ctid IS NOT NULL', 't.* IS NOT NULL', 'random() >= 0');
}

sub predicate
{
	my $depth = shift;
	return atom() if $depth == 0 || rand() < 0.4;
	return 'NOT (' . predicate($depth - 1) . ')' if rand() < 0.15;
	return '(' . predicate($depth - 1) . pick(' AND ', ' OR ') . predicate($depth - 1) . ')';
}

my $sql = '';
for my $i (1 .. $queries)
{
	my @some = map { "\"$_->[0]\"" } grep { rand() < 0.2 } @columns;
	my $list = rand() < 0.1 ? '*' : rand() < 0.1 ? '1 AS one' : @some ? join(', ', @some) : 'id';
	my $shape = rand();
	my $q = "SELECT $list FROM \%T\% t WHERE " . predicate(3);
	$q = "SELECT t.id, t2.i4 FROM \%T\% t JOIN \%T\% t2 ON t.i4 = t2.i4 WHERE t.id < 500 AND " . atom_for_t() if $shape < 0.06;
	$q = "SELECT id, (SELECT max(t2.id) FROM \%T\% t2 WHERE t2.i2 = t.i2) FROM \%T\% t WHERE id < " . int(rand(40)) if $shape > 0.97;
	$q = "SELECT id FROM \%T\% ORDER BY id LIMIT " . int(rand(50)) . ' OFFSET ' . int(rand(1000)) if $shape > 0.93 && $shape <= 0.97;
	$q = "SELECT count(*) FROM \%T\% t WHERE " . predicate(2) if $shape > 0.88 && $shape <= 0.93;
	$q =~ s/'/''/g;
	$sql .= "SELECT compare('$q');\n";
}
sub atom_for_t { return pick('t.b', 't.i2 > 5', "t.t LIKE 'a%'", 't2.id > t.id'); }

# The second half with heap pages as they are, where that is possible; images of all types come from trusted servers only.
my @sql = split(/(?<=;\n)/, $sql);
my $outcomes = $coordinator->safe_psql('postgres', join('', 'SET jit = off; ', @sql[ 0 .. $#sql / 2 ]));
$data->safe_psql('postgres', "ALTER DATABASE postgres SET rdma_fdw.allow_page_shipping = on;"
	  . "SECURITY LABEL FOR rdma_fdw ON TABLE t IS 'page_shipping'");
$coordinator->safe_psql('postgres', "ALTER SERVER rdma OPTIONS (ADD trusted 'true')");
$outcomes .= "\n" . $coordinator->safe_psql('postgres', join('', 'SET jit = off; SET rdma_fdw.inline_limit = 0; ', @sql[ $#sql / 2 + 1 .. $#sql ]));
my %seen;
$seen{$_}++ foreach split(/\n/, $outcomes);
note(join(', ', map { "$seen{$_} with $_" } sort keys %seen));
my $differences = $coordinator->safe_psql('postgres', q{SELECT 'local ' || l || ', postgres_fdw ' || p || ', rdma_fdw ' || r || ': ' || q FROM differences});
is($differences, '', "seed $seed: $queries queries agree with the local table and with postgres_fdw");
cmp_ok($seen{'unwitnessed error'} || 0, '<=', 1 + $queries / 200, 'few queries met an arithmetic error that the others did not get to');
ok(($seen{rows} || 0) > $queries / 3, 'a third or more of the queries returned rows (' . ($seen{rows} || 0) . ')');

like($coordinator->safe_psql('postgres', 'SET rdma_fdw.inline_limit = 0; EXPLAIN (ANALYZE, VERBOSE) SELECT '
	  . join(', ', map { "\"$_->[0]\"" } grep { $_->[1] !~ /mood|positive|pair|^(jsonpath|tsquery|regtype)$/ } @columns) . ' FROM r.t'), qr/Pages: rows=\d+/, 'pages came');
$coordinator->safe_psql('postgres', 'ALTER SERVER rdma OPTIONS (DROP trusted)');

# Column by column, whole table, all three ways and through a tiny receive buffer, so that batches span buffers.
foreach my $buffers ('SET rdma_fdw.inline_limit = 0;', "SET rdma_fdw.inline_limit = 0; SET rdma_fdw.receive_buffers = 1; SET rdma_fdw.receive_buffer_size = '4kB';")
{
	my $bad = '';
	foreach my $c (@columns)
	{
		my $got = $coordinator->safe_psql('postgres', "$buffers SELECT id FROM (SELECT id, \"$c->[0]\"::text FROM r.t EXCEPT ALL SELECT id, \"$c->[0]\"::text FROM l.t) x LIMIT 3");
		$bad .= "$c->[1] ($got) " if $got ne '';
	}
	is($bad, '', 'every column equals the local one' . ($buffers =~ /4kB/ ? ', one receive buffer of 4 kB' : ', as heap pages'));
}

$_->stop foreach ($coordinator, $data);
done_testing();
