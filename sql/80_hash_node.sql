-- rdma.hash_node: a row's node is the remainder of PostgreSQL's own hash partitioning.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
CREATE SCHEMA hash_node;
SET search_path = hash_node;
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE TYPE pair AS (a int, b text);
CREATE TYPE colour AS ENUM ('red', 'green');

-- One table partitioned by the type's hash for each type: every row lies where hash_node says.
CREATE FUNCTION agrees(type text, value text, collation_name text DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
	collated text := coalesce(' COLLATE ' || quote_ident(collation_name), '');
BEGIN
	EXECUTE format('CREATE TABLE parted (n int, k %s%s) PARTITION BY HASH (k)', type, collated);
	FOR i IN 0 .. 6 LOOP
		EXECUTE format('CREATE TABLE parted_%s PARTITION OF parted FOR VALUES WITH (MODULUS 7, REMAINDER %s)', i, i);
	END LOOP;
	EXECUTE format('INSERT INTO parted SELECT n, %s FROM generate_series(1, 200) n', value);
	EXECUTE 'INSERT INTO parted VALUES (0, NULL)';
	EXECUTE 'SELECT format(''%s rows, %s partitions, %s agree'', count(*), count(DISTINCT tableoid),
		count(*) FILTER (WHERE tableoid::regclass::text = ''parted_'' || rdma.hash_node(7, k))) FROM parted' INTO result;
	DROP TABLE parted;
	RETURN result;
END $$;

SELECT type, agrees(type, value, coll) FROM (VALUES
	(1, 'boolean', 'n % 2 = 0', NULL), (2, '"char"', 'chr(40 + n % 80)::"char"', NULL), (3, 'smallint', 'n - 100', NULL),
	(4, 'integer', '(n - 100) * 1000003', NULL), (5, 'bigint', '(n - 100) * 100000000003', NULL), (6, 'oid', 'n::oid', NULL),
	(7, 'real', '(n - 100) / 7.0', NULL), (8, 'double precision', '(n - 100) / 7.0', NULL), (9, 'numeric', '(n - 100) / 8.0', NULL),
	(10, 'text', '''value '' || n', NULL), (11, 'text', '''value '' || n', 'C'), (12, 'varchar(20)', '''value '' || n', NULL),
	(13, 'char(20)', '''value '' || n', NULL), (14, 'name', '''value '' || n', NULL), (15, 'bytea', 'decode(md5(n::text), ''hex'')', NULL),
	(16, 'date', 'date ''2000-01-01'' + n', NULL), (17, 'timestamp', 'timestamp ''2000-01-01'' + n * interval ''1 h''', NULL),
	(18, 'timestamptz', 'timestamptz ''2000-01-01 00:00 UTC'' + n * interval ''1 h''', NULL), (19, 'time', 'time ''00:00'' + n * interval ''1 min''', NULL),
	(20, 'timetz', 'timetz ''00:00 UTC'' + n * interval ''1 min''', NULL), (21, 'interval', 'n * interval ''1 h''', NULL),
	(22, 'uuid', 'md5(n::text)::uuid', NULL), (23, 'inet', 'inet ''10.0.0.0'' + n', NULL), (24, 'macaddr', '(''08:00:2b:01:02:'' || to_hex(n + 16))::macaddr', NULL),
	(25, 'jsonb', 'to_jsonb(n)', NULL), (26, 'int[]', 'ARRAY[n, n + 1]', NULL), (27, 'text[]', 'ARRAY[n::text, NULL]', NULL),
	(28, 'int4range', 'int4range(n, n + 10)', NULL), (29, 'int8multirange', 'int8multirange(int8range(n, n + 10))', NULL),
	(30, 'positive', 'n', NULL), (31, 'pair', 'ROW(n, n::text)::pair', NULL), (32, 'pg_lsn', 'pg_lsn ''0/0'' + n', NULL)
) t(n, type, value, coll) ORDER BY n;

-- long values are detoasted
CREATE TABLE long (k text) PARTITION BY HASH (k);
CREATE TABLE long_0 PARTITION OF long FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE long_1 PARTITION OF long FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO long SELECT repeat(md5(n::text), 2000) || n FROM generate_series(1, 20) n;
SELECT count(*), bool_and(tableoid::regclass::text = 'long_' || rdma.hash_node(2, k)) FROM long;

-- several keys, some NULL
CREATE TABLE several (a int, b text, c numeric) PARTITION BY HASH (c, a, b);
CREATE TABLE several_0 PARTITION OF several FOR VALUES WITH (MODULUS 3, REMAINDER 0);
CREATE TABLE several_1 PARTITION OF several FOR VALUES WITH (MODULUS 3, REMAINDER 1);
CREATE TABLE several_2 PARTITION OF several FOR VALUES WITH (MODULUS 3, REMAINDER 2);
INSERT INTO several SELECT nullif(n % 3, 0), nullif(n % 5, 0)::text, nullif(n % 7, 0) FROM generate_series(1, 210) n;
SELECT count(*), count(DISTINCT tableoid), bool_and(tableoid::regclass::text = 'several_' || rdma.hash_node(3, c, a, b)) FROM several;

-- values of two types that are equal go to one node
SELECT bool_and(rdma.hash_node(5, n::int4) = rdma.hash_node(5, n::int8)) AND bool_and(rdma.hash_node(5, n::int2) = rdma.hash_node(5, n::int8)) FROM generate_series(-300, 300) n;
SELECT bool_and(rdma.hash_node(5, (n / 4.0)::float4) = rdma.hash_node(5, (n / 4.0)::float8)) FROM generate_series(-300, 300) n;
SELECT bool_and(rdma.hash_node(5, n::text) = rdma.hash_node(5, n::text::varchar)) FROM generate_series(-300, 300) n;
SELECT rdma.hash_node(4, 0.0::float8) = rdma.hash_node(4, '-0'::float8), rdma.hash_node(4, 1.0) = rdma.hash_node(4, 1.000);

-- NULLs, no key, one node, and what is wrong
SELECT rdma.hash_node(4, NULL::int), rdma.hash_node(4, NULL::int, NULL::text), rdma.hash_node(1, 42), rdma.hash_node(NULL, 42);
SELECT rdma.hash_node(0, 42);
SELECT rdma.hash_node(-3, 42);
SELECT rdma.hash_node(4, 'of no type');
SELECT rdma.hash_node(4, point(1, 2));
SELECT rdma.hash_node(4, 'red'::colour);
SELECT rdma.hash_node(4, ARRAY['red'::colour]);
SELECT rdma.hash_node(4, 'pg_class'::regclass);
SELECT rdma.hash_node(4, VARIADIC ARRAY[1, 2]);
DROP SCHEMA hash_node CASCADE;
