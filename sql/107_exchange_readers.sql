-- Rows that a statement needs in several places move once: whatever reads them, however often, in whatever process, and whether they are
-- read to the end or not.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name xr
\i :two_nodes
\c contrib_regression postgres 127.0.0.1 :n1
CREATE SCHEMA xr;
CREATE TABLE xr.a (id int, k int, t text);
CREATE TABLE xr.b (id bigint, aid int, y int, t text);
CREATE TABLE xr.c (id bigint, aid int, y int);
CREATE INDEX ON xr.b (aid);
CREATE INDEX ON xr.c (aid);
\c contrib_regression postgres 127.0.0.1 :n2
CREATE SCHEMA xr;
CREATE TABLE xr.a (id int, k int, t text);
CREATE TABLE xr.b (id bigint, aid int, y int, t text);
CREATE TABLE xr.c (id bigint, aid int, y int);
CREATE INDEX ON xr.b (aid);
CREATE INDEX ON xr.c (aid);
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
CREATE SCHEMA xr_here;
CREATE TABLE xr_here.a AS SELECT i AS id, nullif(i % 97, 3) AS k, 'a' || i % 13 AS t FROM generate_series(1, 600) i;
CREATE TABLE xr_here.b AS SELECT i::bigint AS id, nullif(i % 640, 5) AS aid, i % 11 AS y, 'b' || i % 19 AS t FROM generate_series(1, 20000) i;
CREATE TABLE xr_here.c AS SELECT i::bigint AS id, nullif(i % 580, 6) AS aid, i % 7 AS y FROM generate_series(1, 15000) i;
CREATE FOREIGN TABLE xr.a (id int, k int, t text) SERVER xr OPTIONS (distributed_by 'id');
CREATE FOREIGN TABLE xr.b (id bigint, aid int, y int, t text) SERVER xr OPTIONS (distributed_by 'id');
CREATE FOREIGN TABLE xr.c (id bigint, aid int, y int) SERVER xr OPTIONS (distributed_by 'id');
INSERT INTO xr.a SELECT * FROM xr_here.a;
INSERT INTO xr.b SELECT * FROM xr_here.b;
INSERT INTO xr.c SELECT * FROM xr_here.c;
ANALYZE xr_here.a, xr_here.b, xr_here.c;
SELECT DISTINCT answer FROM rdma.run_on('xr', 'ANALYZE');
ANALYZE xr.a, xr.b, xr.c;

CREATE FUNCTION xr.on_nodes(VARIADIC commands text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE command text;
BEGIN
	FOREACH command IN ARRAY commands LOOP
		PERFORM rdma.run_on('xr', command);
	END LOOP;
END $$;
-- the exchanges that have several readers
CREATE FUNCTION xr.shared(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
	SET LOCAL search_path = xr, public;
	FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
		IF line ~ 'readers$' THEN RETURN NEXT trim(line); END IF;
	END LOOP;
END $$;
-- are the rows those of local tables?
CREATE FUNCTION xr.same(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE there text; here text;
	digest text := 'SELECT count(*) || '' '' || coalesce(md5(string_agg(x::text, ''|'' ORDER BY x::text COLLATE "C")), '''') FROM (%s) x';
BEGIN
	SET LOCAL search_path = xr_here, public;
	EXECUTE format(digest, query) INTO here;
	SET LOCAL search_path = xr, public;
	EXECUTE format(digest, query) INTO there;
	IF here = there AND here NOT LIKE '0 %' THEN RETURN true; END IF;
	RAISE WARNING '% gives %, and %', query, here, there;
	RETURN false;
END $$;
CREATE TABLE xr_here.cases (number int GENERATED ALWAYS AS IDENTITY, query text);
INSERT INTO xr_here.cases (query) VALUES
	-- in branches of a set operation
	('SELECT a.id, b.y FROM a JOIN b ON b.aid = a.k WHERE b.y < 4 UNION ALL SELECT a.id, c.y FROM a JOIN c ON c.aid = a.k WHERE c.y > 4'),
	('SELECT a.id FROM a JOIN b ON b.aid = a.k WHERE b.y < 2 INTERSECT SELECT a.id FROM a JOIN c ON c.aid = a.k'),
	-- sub-selects that refer to the row
	('SELECT a.id, (SELECT sum(y) FROM b WHERE b.aid = a.k), (SELECT count(*) FROM c WHERE c.aid = a.k) FROM a WHERE a.id < 6'),
	('SELECT a.id, (SELECT string_agg(t, '','' ORDER BY id) FROM b WHERE aid = a.k AND y > 3), ARRAY(SELECT y FROM c WHERE aid = a.k ORDER BY y, id) FROM a WHERE a.id < 6'),
	-- a parameter in what moves
	('SELECT a.id, b.y FROM a JOIN b ON b.aid = a.k WHERE a.id > current_setting(''xr.least'')::int UNION ALL SELECT a.id, c.y FROM a JOIN c ON c.aid = a.k WHERE a.id > current_setting(''xr.least'')::int'),
	-- one after the other below a join
	('SELECT x.id, z.id AS other FROM (SELECT a.id, b.y FROM a JOIN b ON b.aid = a.k UNION ALL SELECT a.id, c.y FROM a JOIN c ON c.aid = a.k) x JOIN c z ON z.aid = x.y AND z.id < 900'),
	-- not the same rows, or not the same columns of them
	('SELECT a.id, b.y FROM a JOIN b ON b.aid = a.k WHERE a.id < 200 UNION ALL SELECT a.id, c.y FROM a JOIN c ON c.aid = a.k WHERE a.id < 201'),
	('SELECT a.id, b.y FROM a JOIN b ON b.aid = a.k UNION ALL SELECT length(a.t), c.y FROM a JOIN c ON c.aid = a.k');
SET xr.least = '300';
SET rdma_fdw.exchange_strategy = repartition_both;
SELECT number, shared FROM xr_here.cases LEFT JOIN LATERAL xr.shared(query) AS shared ON true ORDER BY 1, 2;
SELECT number, xr.same(query) FROM xr_here.cases ORDER BY 1;
SET rdma_fdw.exchange_strategy = replicate;
SELECT number, shared FROM xr_here.cases LEFT JOIN LATERAL xr.shared(query) AS shared ON true ORDER BY 1, 2;
SELECT bool_and(xr.same(query)) FROM xr_here.cases;
RESET rdma_fdw.exchange_strategy;
-- what is filtered is not shared
SET rdma_fdw.disable = exchange_filters;
SELECT number, shared FROM xr_here.cases LEFT JOIN LATERAL xr.shared(query) AS shared ON true ORDER BY 1, 2;
SELECT bool_and(xr.same(query)) FROM xr_here.cases;
-- with filters, which an exchange with several readers may make, and does not obey
SET rdma_fdw.disable = exchange_filter_costs;
SET rdma_fdw.exchange_strategy = repartition_both;
SELECT bool_and(xr.same(query)) FROM xr_here.cases;
RESET rdma_fdw.disable;
-- workers, a leader that takes no part, no worker, one node alone with some; rows in a file, and in many pieces
SELECT xr.on_nodes('SET max_parallel_workers_per_gather = 2', 'SET parallel_setup_cost = 0', 'SET parallel_tuple_cost = 0', 'SET min_parallel_table_scan_size = 0');
SELECT bool_and(xr.same(query)) FROM xr_here.cases;
SELECT xr.on_nodes('SET parallel_leader_participation = off');
SELECT bool_and(xr.same(query)) FROM xr_here.cases;
SELECT xr.on_nodes('SET parallel_leader_participation = on', 'SET max_parallel_workers = 0');
SELECT bool_and(xr.same(query)) FROM xr_here.cases;
SELECT xr.on_nodes('SET max_parallel_workers = 8', 'SET work_mem = ''64kB''');
SELECT answer IS NOT NULL AS set FROM rdma.run_on('xr1', 'SET max_parallel_workers_per_gather = 0');
SET rdma_fdw.receive_buffer_size = '4kB';
SELECT bool_and(xr.same(query)) FROM xr_here.cases;
-- rows that are asked for again
SELECT xr.on_nodes('SET max_parallel_workers_per_gather = 0', 'SET enable_hashjoin = off', 'SET enable_mergejoin = off', 'SET enable_material = off');
SELECT bool_and(xr.same(query)) FROM xr_here.cases;
RESET rdma_fdw.receive_buffer_size;
-- that are not read to the end; and what follows
SELECT count(*) FROM (SELECT a.id, b.y FROM xr.a JOIN xr.b ON b.aid = a.k UNION ALL SELECT a.id, c.y FROM xr.a JOIN xr.c ON c.aid = a.k LIMIT 3) s;
SELECT count(*) FROM (SELECT a.id, (SELECT sum(y) FROM xr.b WHERE b.aid = a.k), (SELECT count(*) FROM xr.c WHERE c.aid = a.k) FROM xr.a LIMIT 3) s;
SELECT bool_and(xr.same(query)) FROM xr_here.cases;
-- what writes
CREATE TABLE xr_here.made AS SELECT * FROM xr_here.cases LIMIT 0;
INSERT INTO xr_here.made (number, query) OVERRIDING SYSTEM VALUE SELECT s.id, s.y FROM (SELECT a.id, b.y FROM xr.a JOIN xr.b ON b.aid = a.k WHERE b.y < 4 UNION ALL SELECT a.id, c.y FROM xr.a JOIN xr.c ON c.aid = a.k WHERE c.y > 4) s;
SELECT count(*) = (SELECT count(*) FROM (SELECT a.id, b.y FROM xr_here.a JOIN xr_here.b ON b.aid = a.k WHERE b.y < 4 UNION ALL SELECT a.id, c.y FROM xr_here.a JOIN xr_here.c ON c.aid = a.k WHERE c.y > 4) s) AS all FROM xr_here.made;
DO $$ BEGIN FOR i IN 1..600 LOOP EXIT WHEN NOT EXISTS (SELECT FROM rdma.stat_flows); PERFORM pg_sleep(0.1); END LOOP; END $$;
SELECT count(*) FROM rdma.stat_flows;
DROP SCHEMA xr, xr_here CASCADE;
DROP SERVER xr, xr1, xr2 CASCADE;
\c contrib_regression postgres 127.0.0.1 :n1
DO $$ BEGIN FOR i IN 1..600 LOOP EXIT WHEN NOT EXISTS (SELECT FROM rdma.stat_flows); PERFORM pg_sleep(0.1); END LOOP; END $$;
SELECT count(*) FROM rdma.stat_flows;
SET client_min_messages = warning;
DROP SCHEMA xr CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA xr CASCADE;
