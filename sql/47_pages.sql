-- Heap pages as they are: only for tables that an administrator of the data node has labelled, to roles that he has set free,
-- and row for row what columns would have been.
\set ECHO none
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
\getenv n1 RF_N1_PORT
\getenv coord RF_COORD_PORT
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
CREATE SCHEMA pages;
SET search_path = pages;
-- every type that travels as an image, plain values and odd ones, with NULLs in between
CREATE DOMAIN percent AS int2 CHECK (VALUE BETWEEN 0 AND 100);
CREATE TABLE types (
	id int, t_bool bool, t_char "char", t_int2 int2, t_int8 int8, t_float4 float4, t_float8 float8, t_numeric numeric, t_money money, t_text text,
	t_varchar varchar(20), t_bpchar char(7), t_name name, t_bytea bytea, t_date date, t_time time, t_timetz timetz, t_timestamp timestamp, t_timestamptz timestamptz,
	t_interval interval, t_uuid uuid, t_inet inet, t_cidr cidr, t_macaddr macaddr, t_macaddr8 macaddr8, t_bit bit(9), t_varbit varbit, t_json json, t_jsonb jsonb, t_xml xml,
	t_point point, t_line line, t_lseg lseg, t_box box, t_path path, t_polygon polygon, t_circle circle, t_tsvector tsvector, t_lsn pg_lsn, t_tid tid, t_xid8 xid8, t_oid oid,
	t_int4range int4range, t_numrange numrange, t_tsmultirange tsmultirange, a_int4 int4[], a_text text[], a_numeric numeric[], a_float8 float8[], a_jsonb jsonb[], a_box box[], t_percent percent
);
INSERT INTO types SELECT i, i % 2 = 0, chr(65 + i % 26)::"char", i, i * 1000000007::bigint, i / 3.0, i / 7.0, CASE WHEN i % 50 = 0 THEN 'NaN' ELSE (i * 123456789.987654321)::numeric END, i, repeat('text', i % 40),
	left(md5(i::text), i % 20), left('bpchar', i % 8), 'name' || i, decode(md5(i::text), 'hex'), date '2000-01-01' + i, time '00:00' + i * interval '1 s', timetz '00:00+02' + i * interval '1 s', timestamp '2000-01-01' + i * interval '1 h', timestamptz '2000-01-01 UTC' + i * interval '1 h',
	i * interval '1 day 3 s', md5(i::text)::uuid, ('10.1.' || i % 256 || '.7/24')::inet, ('2001:db8:' || i % 9 || '::/48')::cidr, '08:00:2b:01:02:03', '08:00:2b:01:02:03:04:05', (i % 512)::bit(9), (i % 64)::bit(6)::varbit, '{"a": [1, null]}', jsonb_build_object('i', i, 'n', i / 3.0, 'l', jsonb_build_array(1, 'x', null)), '<a/>',
	point(i, -i), '{1,2,3}', '[(0,0),(1,1)]', box(point(i, 0), point(0, i)), '[(0,0),(1,1),(2,0)]', polygon(box(point(i, 0), point(0, i))), circle(point(0, i), i), ('''w' || i || ''':1A other')::tsvector, '16/B374D848', ('(' || i || ',1)')::tid, i::text::xid8, i,
	int4range(i, i + 5), numrange(i, NULL), '{[2000-01-01,2000-01-02)}', ARRAY[i, NULL, i + 1], ARRAY['a' || i, NULL, ''], ARRAY[i / 3.0, 'NaN'], ARRAY[i, 0.5], ARRAY['{"x": 1}'::jsonb, NULL], '{(1,1),(0,0);(2,2),(1,1)}', i % 101
FROM generate_series(1, 400) i;
DO $$
DECLARE
	c record;
BEGIN
	FOR c IN SELECT attname, attnum FROM pg_attribute WHERE attrelid = 'types'::regclass AND attnum > 1 LOOP
		EXECUTE format('UPDATE types SET %I = NULL WHERE id %% 61 = %s OR id %% 97 = 0', c.attname, c.attnum);
	END LOOP;
END $$;
-- columns that are gone, and columns that came later, with a value for older rows or without
CREATE TABLE grown (a int, gone text, b text, also_gone int8, c int2);
INSERT INTO grown SELECT i, repeat('gone', i % 5), 'b' || i, i, i FROM generate_series(1, 500) i;
ALTER TABLE grown DROP COLUMN gone, DROP COLUMN also_gone;
ALTER TABLE grown ADD COLUMN d int DEFAULT 42, ADD COLUMN e text, ADD COLUMN f text DEFAULT 'eff', ADD COLUMN g numeric[] DEFAULT '{1.5,NULL}', ADD COLUMN h uuid DEFAULT '00000000-0000-0000-0000-00000000beef',
	ADD COLUMN i bool DEFAULT true, ADD COLUMN j timetz DEFAULT '12:34:56+02';
INSERT INTO grown SELECT i, 'b' || i, i, i, NULLIF('e' || i % 3, 'e0'), 'f' || i, ARRAY[i], NULL, i % 3 = 0, NULL FROM generate_series(501, 1000) i;
-- values that are short, in place, compressed in place, elsewhere
CREATE TABLE toasted (a int, b text, c text);
INSERT INTO toasted SELECT i, repeat('b' || i, i % 10), CASE WHEN i % 400 = 0 THEN (SELECT string_agg(md5(i || '-' || j), '') FROM generate_series(1, 200) j) WHEN i % 3 = 0 THEN repeat('c' || i, 1500) ELSE 'c' END FROM generate_series(1, 2000) i;
CREATE TABLE lz4 (a int, b text);
-- not every build of the server has it
DO $$ BEGIN ALTER TABLE lz4 ALTER b SET COMPRESSION lz4; EXCEPTION WHEN feature_not_supported THEN NULL; END $$;
INSERT INTO lz4 SELECT i, repeat(md5(i::text), 100) FROM generate_series(1, 200) i;
CREATE TABLE dead (a int, b int, c text) WITH (autovacuum_enabled = off);
INSERT INTO dead SELECT i, i % 10, 'row ' || i FROM generate_series(1, 3000) i;
VACUUM (FREEZE) types, grown, toasted, lz4;
CREATE TABLE many (a int, b int);
INSERT INTO many SELECT i, i % 100 FROM generate_series(1, 20000) i;
CREATE TABLE sparse (a bigint, b bigint, c float8, d text) WITH (autovacuum_enabled = off);
INSERT INTO sparse SELECT i, i * 7, i * 0.5, 'row ' || i FROM generate_series(1, 20000) i;
CREATE TABLE uneven (a bigint, b bigint, c float8, d text) WITH (autovacuum_enabled = off);
INSERT INTO uneven TABLE sparse;
CREATE TABLE nothing (a int);
CREATE TABLE secret (a int, b text);
INSERT INTO secret SELECT i, 'b' FROM generate_series(1, 1000) i;
VACUUM ANALYZE;
DELETE FROM dead WHERE a BETWEEN 500 AND 1500 OR a % 3 = 0;
UPDATE dead SET c = 'new ' || a WHERE a % 7 = 0;
DELETE FROM sparse WHERE a % 4 <> 0;
DELETE FROM uneven WHERE a % 4 <> 0 AND a BETWEEN 5000 AND 15000;
\pset format unaligned
\pset tuples_only on
\set ECHO all
-- only what is offered counts
SECURITY LABEL FOR rdma_fdw ON TABLE types IS 'pages';
SECURITY LABEL FOR rdma_fdw ON COLUMN types.id IS 'page_shipping';
SECURITY LABEL FOR rdma_fdw ON SCHEMA pages IS 'page_shipping';
SECURITY LABEL FOR rdma_fdw ON TABLE types IS 'page_shipping';
SECURITY LABEL FOR rdma_fdw ON TABLE grown IS 'page_shipping';
SECURITY LABEL FOR rdma_fdw ON TABLE toasted IS 'page_shipping';
SECURITY LABEL FOR rdma_fdw ON TABLE lz4 IS 'page_shipping';
SECURITY LABEL FOR rdma_fdw ON TABLE dead IS 'page_shipping';
SECURITY LABEL FOR rdma_fdw ON TABLE many IS 'page_shipping';
SECURITY LABEL FOR rdma_fdw ON TABLE sparse IS 'page_shipping';
SECURITY LABEL FOR rdma_fdw ON TABLE uneven IS 'page_shipping';
SECURITY LABEL FOR rdma_fdw ON TABLE nothing IS 'page_shipping';
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
CREATE SCHEMA pages;
CREATE SCHEMA columns;
CREATE SERVER pages FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port :'n1', dbname 'contrib_regression', inline_limit '0', options '-c rdma_fdw.allow_page_shipping=on', trusted 'true');
CREATE SERVER columns FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port :'n1', dbname 'contrib_regression', inline_limit '0');
CREATE USER MAPPING FOR CURRENT_USER SERVER pages OPTIONS (user 'postgres');
CREATE USER MAPPING FOR CURRENT_USER SERVER columns OPTIONS (user 'postgres');
CREATE DOMAIN pages.percent AS int2;
IMPORT FOREIGN SCHEMA pages EXCEPT (types) FROM SERVER pages INTO pages;
IMPORT FOREIGN SCHEMA pages EXCEPT (types) FROM SERVER columns INTO columns;
IMPORT FOREIGN SCHEMA pages LIMIT TO (types) FROM SERVER pages INTO pages;
IMPORT FOREIGN SCHEMA pages LIMIT TO (types) FROM SERVER columns INTO columns;
-- a column whose type the nodes number by themselves has no image
ALTER FOREIGN TABLE pages.types ALTER t_percent TYPE int2;
ALTER FOREIGN TABLE columns.types ALTER t_percent TYPE int2;
-- how the rows of a query came
CREATE FUNCTION how(query text) RETURNS TABLE (rows int, page_rows int, boxes int, packed int) LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, VERBOSE, COSTS OFF, TIMING OFF, SUMMARY OFF, FORMAT JSON) ' || query INTO plan;
	plan := jsonb_path_query_first(plan, '$.**{2 to last} ? (@."Node Type" == "Foreign Scan")');
	RETURN QUERY SELECT (plan ->> 'Remote Rows')::int, (plan ->> 'Page Rows')::int, (plan ->> 'Page Boxes')::int, (plan ->> 'Pages Packed')::int;
END $$;
-- from where: what was gathered, and whether bytes left shared buffers without a copy; the second time the engine has what it needs
CREATE FUNCTION uncopied(query text) RETURNS TABLE (gathered boolean, packed boolean, uncopied boolean) LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, VERBOSE, COSTS OFF, TIMING OFF, SUMMARY OFF, FORMAT JSON) ' || query INTO plan;
	plan := jsonb_path_query_first(plan, '$.**{2 to last} ? (@."Node Type" == "Foreign Scan")');
	RETURN QUERY SELECT (plan ->> 'Pages Gathered')::int > 0, (plan ->> 'Pages Packed')::int > 0, (plan ->> 'Uncopied Bytes')::int > 0;
END $$;
-- the same rows both ways
CREATE FUNCTION differences(tab text, columns text DEFAULT '*', conditions text DEFAULT 'true') RETURNS TABLE (rows bigint, here bigint, there bigint) LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE format('WITH p AS MATERIALIZED (SELECT t::text AS line FROM (SELECT %2$s FROM pages.%1$I WHERE %3$s OFFSET 0) t), c AS MATERIALIZED (SELECT t::text AS line FROM (SELECT %2$s FROM columns.%1$I WHERE %3$s OFFSET 0) t)
		SELECT (SELECT count(*) FROM p), (SELECT count(*) FROM (TABLE p EXCEPT ALL TABLE c) x), (SELECT count(*) FROM (TABLE c EXCEPT ALL TABLE p) x)', tab, columns, conditions);
END $$;
SELECT * FROM how('SELECT * FROM pages.types');
SELECT * FROM how('SELECT * FROM columns.types');
SELECT * FROM differences('types');
SELECT * FROM differences('types', 't_xid8, id, a_box, t_bpchar, t_numeric');
SELECT * FROM differences('types', 'a_numeric, t_jsonb', 't_int2 % 3 = 1 AND t_text LIKE ''%text''');
SELECT * FROM how('SELECT * FROM pages.grown');
SELECT * FROM differences('grown');
SELECT * FROM differences('grown', 'j, i, a');
SELECT * FROM pages.grown WHERE a IN (1, 500, 501, 1000) ORDER BY a;
-- about one page in twenty has a value stored out of line, which only matters to queries that read it
SELECT rows, page_rows > 0 AND page_rows < rows AS some_as_columns FROM how('SELECT * FROM pages.toasted');
SELECT * FROM how('SELECT a, b FROM pages.toasted');
SELECT * FROM differences('toasted');
SELECT * FROM differences('toasted', 'b, a');
SELECT * FROM how('SELECT * FROM pages.lz4');
SELECT * FROM differences('lz4');
-- dead rows between the others and whole pages of them; nothing at all
SELECT rows, page_rows FROM how('SELECT * FROM pages.dead');
SELECT * FROM differences('dead');
SELECT rows, page_rows FROM how('SELECT * FROM pages.dead WHERE b = 4');
SELECT * FROM differences('dead', '*', 'b = 4');
SELECT * FROM how('SELECT * FROM pages.nothing');
SELECT * FROM how('SELECT * FROM pages.many');
-- every page once, by the way that costs least here: in a box, packed, gathered from where its rows are, or strided
CREATE FUNCTION pages_sent(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, VERBOSE, COSTS OFF, TIMING OFF, SUMMARY OFF, FORMAT JSON) ' || query INTO plan;
	plan := jsonb_path_query_first(plan, '$.**{2 to last} ? (@."Node Type" == "Foreign Scan")');
	RETURN (plan ->> 'Page Boxes')::int + (plan ->> 'Pages Packed')::int + coalesce((plan ->> 'Pages Gathered')::int, 0) + coalesce((plan ->> 'Pages Strided')::int, 0);
END $$;
SELECT rows, page_rows FROM how('SELECT * FROM pages.many WHERE b < 90');
SELECT pages_sent('SELECT * FROM pages.many WHERE b < 90');
-- pages with few rows to send go as columns, but not where those are many; forward and back within a table
SELECT rows, page_rows FROM how('SELECT * FROM pages.many WHERE b = 1');
SELECT rows, page_rows FROM how('SELECT * FROM pages.sparse');
SELECT * FROM differences('sparse');
SELECT rows, page_rows FROM how('SELECT * FROM pages.types WHERE id % 5 = 3');
SELECT rows, page_rows > 5000 AND page_rows < rows - 1000 AS some_as_columns FROM how('SELECT * FROM pages.uneven');
SELECT * FROM differences('uneven');
SELECT (SELECT array_agg(a) FROM (SELECT a, b, c, d FROM pages.uneven OFFSET 0) t) = (SELECT array_agg(a) FROM (SELECT a, b, c, d FROM columns.uneven OFFSET 0) t) AS same_order;
-- in boxes or alone: whichever costs less here, or as the sender's session was told
SELECT * FROM differences('many', 'b');
ALTER SERVER pages OPTIONS (SET options '-c rdma_fdw.allow_page_shipping=on -c rdma_fdw.disable=page_boxes,page_gathers,page_strides');
SELECT boxes, packed > 0 AS packed FROM how('SELECT * FROM pages.many WHERE b < 90');
SELECT boxes, packed > 0 AS packed FROM how('SELECT * FROM pages.many');
SELECT * FROM differences('many', '*', 'b < 90');
SELECT rows, page_rows FROM how('SELECT * FROM pages.sparse');
SELECT * FROM differences('sparse');
SELECT packed, uncopied FROM uncopied('SELECT * FROM pages.many');
-- rows and boxes from where they are: the sender registers its shared buffers, however long that takes here
\c contrib_regression postgres 127.0.0.1 :n1
ALTER SYSTEM SET rdma_fdw.register_shared_buffers = on;
SELECT pg_reload_conf();
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
ALTER SERVER pages OPTIONS (SET options '-c rdma_fdw.allow_page_shipping=on -c rdma_fdw.disable=page_copies,page_boxes,page_strides');
DO $$ BEGIN FOR i IN 1..600 LOOP EXIT WHEN (SELECT coalesce(u.uncopied, true) FROM uncopied('SELECT * FROM pages.many') u); PERFORM pg_sleep(0.1); END LOOP; END $$;
SELECT gathered, uncopied FROM uncopied('SELECT * FROM pages.many WHERE b = 1');
SELECT gathered, uncopied FROM uncopied('SELECT * FROM pages.many WHERE b < 90');
SELECT * FROM differences('many', '*', 'b = 1');
SELECT * FROM differences('many', '*', 'b < 90');
SELECT * FROM differences('many');
SELECT * FROM differences('types');
SELECT * FROM differences('dead');
SELECT * FROM differences('toasted');
ALTER SERVER pages OPTIONS (SET options '-c rdma_fdw.allow_page_shipping=on -c rdma_fdw.disable=page_copies,page_gathers,page_strides');
SELECT uncopied FROM uncopied('SELECT * FROM pages.many');
SELECT uncopied FROM uncopied('SELECT * FROM pages.many WHERE b = 1');
SELECT * FROM differences('types');
SELECT * FROM differences('dead');
SELECT boxes > 0 AS boxes, packed FROM how('SELECT * FROM pages.many WHERE b = 1');
SELECT rows, page_rows FROM how('SELECT * FROM pages.sparse');
SELECT * FROM differences('sparse');
SELECT * FROM differences('many', '*', 'b = 1');
ALTER SERVER pages OPTIONS (SET options '-c rdma_fdw.allow_page_shipping=on -c rdma_fdw.disable=page_copies,page_boxes,page_gathers');
SELECT boxes FROM how('SELECT * FROM pages.many');
SELECT * FROM differences('many');
ALTER SERVER pages OPTIONS (SET options '-c rdma_fdw.allow_page_shipping=on');
-- in their order on the page, also where columns take turns with pages
SELECT (SELECT array_agg(a) FROM (SELECT a, c FROM pages.toasted OFFSET 0) t) = (SELECT array_agg(a) FROM (SELECT a, c FROM columns.toasted OFFSET 0) t) AS same_order;
-- in place or copied, in small buffers and by parallel workers
ALTER SERVER pages OPTIONS (ADD receive_buffer_size '16kB');
SELECT * FROM how('SELECT * FROM pages.many');
SELECT * FROM differences('many');
ALTER SERVER pages OPTIONS (SET receive_buffer_size '32kB', ADD receive_buffers '1');
SELECT rows, page_rows FROM how('SELECT * FROM pages.many');
SELECT * FROM differences('types');
ALTER SERVER pages OPTIONS (DROP receive_buffer_size, DROP receive_buffers, ADD read_in_place 'false');
SELECT rows, page_rows FROM how('SELECT * FROM pages.types');
SELECT * FROM differences('types');
ALTER SERVER pages OPTIONS (DROP read_in_place);
CREATE FUNCTION here(int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$ BEGIN RETURN $1; END $$;
ALTER SERVER pages OPTIONS (ADD parallel_scan 'true');
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
ANALYZE pages.many;
EXPLAIN (COSTS OFF) SELECT count(*), sum(a), sum(b) FROM pages.many WHERE here(a) > 0;
SELECT count(*), sum(a), sum(b) FROM pages.many WHERE here(a) > 0;
SELECT rows, page_rows FROM how('SELECT count(*) FROM (SELECT a, b FROM pages.many WHERE here(a) > here(b) - 1000 OFFSET 0) t');
SET max_parallel_workers_per_gather = 0;
ALTER SERVER pages OPTIONS (DROP parallel_scan);
-- a cursor over pages, while the session is needed for something else
CREATE FOREIGN TABLE columns.flows (role text, region_copies bigint, region_boxes bigint, region_gathers bigint, region_strided bigint, useful_bytes bigint, gap_bytes bigint)
	SERVER columns OPTIONS (schema_name 'rdma', table_name 'stat_flows');
BEGIN;
DECLARE c CURSOR FOR SELECT a, b FROM pages.many WHERE a % 1 = 0;
FETCH 2 FROM c;
-- the sender's counters, by way of another session there
DO $$ BEGIN FOR i IN 1..600 LOOP EXIT WHEN EXISTS (SELECT FROM columns.flows WHERE role = 'sender' AND useful_bytes > 0); PERFORM pg_sleep(0.1); END LOOP; END $$;
SELECT region_boxes + region_copies + region_gathers + region_strided > 0 AS regions, gap_bytes >= 0 AS gaps FROM columns.flows WHERE role = 'sender' AND useful_bytes > 0;
SELECT count(*) FROM pages.dead;
MOVE 19996 FROM c;
FETCH 3 FROM c;
COMMIT;
SELECT a FROM pages.many OFFSET 4 LIMIT 2;
-- A node that is not trusted sends pages only for columns whose values can be checked where they lie.
ALTER SERVER pages OPTIONS (SET trusted 'false');
SELECT rows, page_rows FROM how('SELECT * FROM pages.types');
SELECT * FROM differences('types');
SELECT rows, page_rows > 0 AS pages FROM how('SELECT * FROM pages.many');
ALTER SERVER pages OPTIONS (SET trusted 'true');

ALTER SERVER pages OPTIONS (ADD accept_pages 'false');
SELECT * FROM how('SELECT * FROM pages.many');
ALTER SERVER pages OPTIONS (DROP accept_pages);
-- what has to go as columns: no label, other bytes of the row or few of them asked for, types without an image, a statement that is no plain scan
SELECT * FROM how('SELECT * FROM pages.secret');
SELECT rows, page_rows FROM how('SELECT ctid, a FROM pages.many');
SELECT rows, page_rows FROM how('SELECT t_bool, t_date FROM pages.types');
SELECT rows, page_rows FROM how('SELECT b, count(*) FROM pages.many GROUP BY b');
SELECT rows, page_rows FROM how('SELECT a, a FROM pages.many ORDER BY b, a');
SELECT rows, page_rows FROM how('SELECT FROM pages.many');
ALTER FOREIGN TABLE pages.types ALTER t_percent TYPE pages.percent;
SELECT rows, page_rows FROM how('SELECT * FROM pages.types');
BEGIN ISOLATION LEVEL SERIALIZABLE;
SET LOCAL rdma_fdw.allow_snapshot_isolation = on;
SELECT rows, page_rows FROM how('SELECT * FROM pages.many');
SELECT * FROM differences('many');
COMMIT;
DROP SCHEMA pages, columns CASCADE;
DROP SERVER pages, columns CASCADE;
DROP FUNCTION how, uncopied, differences, here;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA pages CASCADE;
ALTER SYSTEM RESET rdma_fdw.register_shared_buffers;
SELECT pg_reload_conf();
