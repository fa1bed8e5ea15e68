-- Every way that rows take between servers, once and with few rows: streams to and from one node and several, in pieces, with large
-- values, exchanges, pages, parallel workers. What comes is compared with tables here. The check over verbs runs this.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name way
\i :two_nodes
CREATE SCHEMA way_here;
-- nothing by the session's own connection
SET rdma_fdw.inline_limit = 0;
-- differ(): how many rows of a query are not the same over the nodes' tables and over those here, of how many
CREATE FUNCTION differ(query text, OUT rows bigint, OUT differ bigint) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('search_path', 'way_here', true);
	EXECUTE 'CREATE TEMP TABLE expected ON COMMIT DROP AS ' || query;
	PERFORM set_config('search_path', 'way', true);
	EXECUTE 'CREATE TEMP TABLE got ON COMMIT DROP AS ' || query;
	SELECT count(*) INTO rows FROM pg_temp.expected;
	SELECT count(*) INTO differ FROM ((TABLE pg_temp.got EXCEPT ALL TABLE pg_temp.expected) UNION ALL (TABLE pg_temp.expected EXCEPT ALL TABLE pg_temp.got)) d;
END $$;
-- plan(): does a query's plan have this?
CREATE FUNCTION plan(query text, pattern text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	line text;
	found boolean = false;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		found = found OR line ~ pattern;
	END LOOP;
	RETURN found;
END $$;

-- rows that are stored on their nodes, by INSERT, UPDATE, DELETE and COPY, and read
CREATE TABLE way_here.t AS SELECT i AS id, i % 7 AS x, repeat(md5(i::text), i % 4) AS t FROM generate_series(1, 400) i;
CREATE TABLE way_here.u AS SELECT i AS id, i * 3 % 400 AS tid, i % 5 AS y FROM generate_series(1, 300) i;
CREATE TABLE t AS TABLE way_here.t WITH NO DATA;
CREATE TABLE u AS TABLE way_here.u;
SELECT rdma.distribute_table('t', 'way', 'id'), rdma.distribute_table('u', 'way', 'id');
INSERT INTO t TABLE way_here.t;
SELECT * FROM differ('SELECT * FROM t');
UPDATE t SET x = x + length(t) WHERE id % 3 = 0;
UPDATE way_here.t SET x = x + length(t) WHERE id % 3 = 0;
DELETE FROM t WHERE id > 390;
DELETE FROM way_here.t WHERE id > 390;
COPY t FROM stdin;
401	1	copied
402	2	copied
403	\N	\N
\.
COPY way_here.t FROM stdin;
401	1	copied
402	2	copied
403	\N	\N
\.
SELECT * FROM differ('SELECT * FROM t');
-- in buffers that hold less than a row has, and of which there is one
SET rdma_fdw.receive_buffer_size = '4kB';
SET rdma_fdw.receive_buffers = 1;
SELECT * FROM differ('SELECT id, repeat(t, 60) AS t FROM t WHERE id < 60 OR id > 380');
RESET rdma_fdw.receive_buffers;
RESET rdma_fdw.receive_buffer_size;
-- a stream that is not read to its end, and two that wait for each other
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM t;
FETCH 0 FROM c;
MOVE 5 IN c;
SELECT * FROM differ('SELECT x FROM t');
COMMIT;

-- values larger than a buffer: copied, and fetched from where they are
CREATE TABLE way_here.large (id int, t text);
ALTER TABLE way_here.large ALTER t SET STORAGE EXTERNAL;
INSERT INTO way_here.large SELECT i, repeat(md5(i::text), n / 32) FROM unnest(ARRAY[100, 300000, 10, 1100000]) WITH ORDINALITY l(n, i);
CREATE TABLE large (LIKE way_here.large INCLUDING STORAGE);
SELECT rdma.distribute_table('large', 'way', 'id');
SET rdma_fdw.disable = value_costs;
INSERT INTO large TABLE way_here.large;
SELECT sum(in_place) > 0 AS in_place FROM rdma.stat_lanes;
SELECT * FROM differ('SELECT * FROM large');
ALTER SERVER way1 OPTIONS (ADD options '-c rdma_fdw.disable=value_costs');
ALTER SERVER way2 OPTIONS (ADD options '-c rdma_fdw.disable=value_memory');
SELECT * FROM differ('SELECT * FROM large');
RESET rdma_fdw.disable;
ALTER SERVER way1 OPTIONS (DROP options);
ALTER SERVER way2 OPTIONS (DROP options);

-- exchanges between the nodes, also with parallel workers there
\set join 'SELECT t.id, u.id AS uid, y, t FROM t JOIN u ON t.x = u.tid % 11 WHERE u.id < 50'
SET rdma_fdw.exchange_strategy = repartition_both;
SELECT plan(:'join', 'Exchange 2: repartition 2:2') AS exchange, d.* FROM differ(:'join') d;
SELECT count(answer) FROM unnest(ARRAY['max_parallel_workers_per_gather = 2', 'parallel_setup_cost = 0', 'parallel_tuple_cost = 0', 'min_parallel_table_scan_size = 0']) s,
	rdma.run_on('way', 'SET ' || s);
SET rdma_fdw.explain_nodes = on;
SELECT plan(:'join', 'Parallel Custom Scan \(RdmaExchange\)') AS parallel, d.* FROM differ(:'join') d;
RESET rdma_fdw.explain_nodes;
SET rdma_fdw.exchange_strategy = replicate;
SELECT plan(:'join', 'Exchange 1: replicate 2:2') AS exchange, d.* FROM differ(:'join') d;
RESET rdma_fdw.exchange_strategy;
-- rows that move while they are written
INSERT INTO u SELECT id + 1000, x, id FROM t WHERE x < 4;
INSERT INTO way_here.u SELECT id + 1000, x, id FROM way_here.t WHERE x < 4;
SELECT * FROM differ('SELECT * FROM u');

-- parallel workers here
ALTER SERVER way1 OPTIONS (ADD parallel_scan 'true');
ALTER SERVER way2 OPTIONS (ADD parallel_scan 'true');
ALTER SERVER way OPTIONS (ADD parallel_scan 'true');
CREATE FUNCTION here(int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS 'BEGIN RETURN $1; END';
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
SELECT plan('SELECT count(*), sum(here(x)) FROM t WHERE here(id) > 9', 'Parallel Foreign Scan') AS parallel;
SELECT count(*), sum(here(x)) FROM t WHERE here(id) > 9;
SELECT count(*), sum(way.here(x)) FROM way_here.t WHERE way.here(id) > 9;
RESET max_parallel_workers_per_gather;

-- pages as they are, to the same major version only (21_every_way_1.out): in boxes, copied, and gathered from shared buffers
\c contrib_regression postgres 127.0.0.1 :n1
CREATE TABLE way.pages AS SELECT i AS a, i % 100 AS b, 'row ' || i AS c FROM generate_series(1, 4000) i;
VACUUM (FREEZE, ANALYZE) way.pages;
SECURITY LABEL FOR rdma_fdw ON TABLE way.pages IS 'page_shipping';
ALTER SYSTEM SET rdma_fdw.register_shared_buffers = on;
SELECT pg_reload_conf();
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
SET search_path = way;
SET rdma_fdw.inline_limit = 0;
CREATE TABLE way_here.pages AS SELECT i AS a, i % 100 AS b, 'row ' || i AS c FROM generate_series(1, 4000) i;
CREATE FOREIGN TABLE pages (a int, b int, c text) SERVER way1;
CREATE FUNCTION sent(query text, key text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, VERBOSE, COSTS OFF, TIMING OFF, SUMMARY OFF, FORMAT JSON) ' || query INTO plan;
	RETURN jsonb_path_query_first(plan, '$.**{2 to last} ? (@."Node Type" == "Foreign Scan")') ->> key;
END $$;
ALTER SERVER way1 OPTIONS (ADD options '-c rdma_fdw.allow_page_shipping=on -c rdma_fdw.disable=page_copies,page_gathers,page_strides');
SELECT sent('SELECT * FROM pages', 'Page Rows') AS page_rows, sent('SELECT * FROM pages', 'Page Boxes') > 0 AS boxes, d.* FROM differ('SELECT * FROM pages') d;
ALTER SERVER way1 OPTIONS (SET options '-c rdma_fdw.allow_page_shipping=on -c rdma_fdw.disable=page_boxes,page_gathers,page_strides');
SELECT sent('SELECT * FROM pages', 'Pages Packed') > 0 AS packed, d.* FROM differ('SELECT * FROM pages WHERE b > 10') d;
ALTER SERVER way1 OPTIONS (SET options '-c rdma_fdw.allow_page_shipping=on -c rdma_fdw.disable=page_copies,page_boxes,page_strides');
DO $$ BEGIN FOR i IN 1..600 LOOP EXIT WHEN coalesce(sent('SELECT * FROM pages', 'Uncopied Bytes') > 0, true); PERFORM pg_sleep(0.1); END LOOP; END $$;
SELECT sent('SELECT * FROM pages WHERE b < 90', 'Uncopied Bytes') > 0 AS uncopied, d.* FROM differ('SELECT * FROM pages WHERE b < 90') d;
ALTER SERVER way1 OPTIONS (SET options '-c rdma_fdw.allow_page_shipping=on -c rdma_fdw.disable=page_copies,page_boxes,page_gathers');
SELECT * FROM differ('SELECT * FROM pages');

-- nothing is left
DO $$ BEGIN FOR i IN 1..600 LOOP EXIT WHEN NOT EXISTS (SELECT FROM rdma.stat_flows); PERFORM pg_sleep(0.1); END LOOP; END $$;
SELECT count(*) FROM rdma.stat_flows;
DROP SCHEMA way, way_here CASCADE;
DROP SERVER way, way1, way2 CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA way CASCADE;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA way CASCADE;
ALTER SYSTEM RESET rdma_fdw.register_shared_buffers;
SELECT pg_reload_conf();
