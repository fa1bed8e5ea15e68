-- Parallel workers of an exchange's query send the rows of their part of it: whatever the query is, however many workers come, wherever
-- the rows go, and whether they are read to the end or not.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name xp
\i :two_nodes
\c contrib_regression postgres 127.0.0.1 :n1
CREATE SCHEMA xp;
CREATE TABLE xp.a (id int, k int, t text, n numeric);
CREATE TABLE xp.b (id bigint, aid int, y int, t text);
CREATE TABLE xp.made (id int, other bigint);
CREATE FUNCTION xp.failing(i int) RETURNS int LANGUAGE plpgsql PARALLEL SAFE AS $$ BEGIN RETURN 1 / (i - 2777); END $$;
CREATE VIEW xp.bad AS SELECT id, k, xp.failing(id) AS t FROM xp.a;
\c contrib_regression postgres 127.0.0.1 :n2
CREATE SCHEMA xp;
CREATE TABLE xp.a (id int, k int, t text, n numeric);
CREATE TABLE xp.b (id bigint, aid int, y int, t text);
CREATE TABLE xp.made (id int, other bigint);
CREATE FUNCTION xp.failing(i int) RETURNS int LANGUAGE plpgsql PARALLEL SAFE AS $$ BEGIN RETURN 1 / (i - 2777); END $$;
CREATE VIEW xp.bad AS SELECT id, k, xp.failing(id) AS t FROM xp.a;
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
CREATE SCHEMA xp_here;
-- half of b has one and the same key, of which the coordinator knows: heavy; every 40th row is not as short as the others,
-- and three are longer than a worker's queue of small buffers
CREATE TABLE xp_here.a AS SELECT i AS id, nullif(i % 1997, 3) AS k, 'a' || i % 13 AS t, i / 4.0 AS n FROM generate_series(1, 6000) i;
CREATE TABLE xp_here.b AS SELECT i::bigint AS id, CASE WHEN i % 2 = 0 THEN 7 ELSE nullif(i % 3100, 5) END AS aid, i % 11 AS y,
	CASE WHEN i % 4000 = 0 THEN repeat('b' || i % 17, 100000) WHEN i % 40 = 0 THEN repeat('b' || i % 17, 3000) ELSE 'b' || i % 19 END AS t FROM generate_series(1, 12000) i;
ANALYZE xp_here.a, xp_here.b;
CREATE FOREIGN TABLE xp.a (id int, k int, t text, n numeric) SERVER xp OPTIONS (distributed_by 'id');
CREATE FOREIGN TABLE xp.b (id bigint, aid int, y int, t text) SERVER xp OPTIONS (distributed_by 'id');
CREATE FOREIGN TABLE xp.made (id int, other bigint) SERVER xp OPTIONS (distributed_by 'id');
CREATE FOREIGN TABLE xp.bad (id int, k int, t int) SERVER xp;
INSERT INTO xp.a SELECT * FROM xp_here.a;
INSERT INTO xp.b SELECT * FROM xp_here.b;
SELECT DISTINCT answer FROM rdma.run_on('xp', 'ANALYZE');
ANALYZE xp.a, xp.b, xp.bad;

CREATE FUNCTION xp.on_nodes(VARIADIC commands text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE command text;
BEGIN
	FOREACH command IN ARRAY commands LOOP
		PERFORM rdma.run_on('xp', command);
	END LOOP;
END $$;
-- on how many nodes is the query of an exchange run by producers?
CREATE FUNCTION xp.producers(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE line text; found int = 0;
BEGIN
	SET LOCAL search_path = xp, public;
	SET LOCAL rdma_fdw.explain_nodes = on;
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		found = found + (line ~ 'Parallel Custom Scan \(RdmaProducer\)')::int;
	END LOOP;
	RETURN found;
END $$;
-- are the rows those of local tables?
CREATE FUNCTION xp.same(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE there text; here text;
	digest text := 'SELECT count(*) || '' '' || coalesce(md5(string_agg(x::text, ''|'' ORDER BY x::text COLLATE "C")), '''') FROM (%s) x';
BEGIN
	SET LOCAL search_path = xp_here, public;
	EXECUTE format(digest, query) INTO here;
	SET LOCAL search_path = xp, public;
	EXECUTE format(digest, query) INTO there;
	IF here = there AND here NOT LIKE '0 %' THEN RETURN true; END IF;
	RAISE WARNING '% gives %, and %', query, here, there;
	RETURN false;
END $$;
CREATE TABLE xp_here.cases (number int GENERATED ALWAYS AS IDENTITY, query text);
INSERT INTO xp_here.cases (query) VALUES
	('SELECT count(*), sum(a.n), sum(b.y), sum(length(b.t)) FROM a JOIN b ON a.k = b.aid'),
	('SELECT a.id, b.id AS other, b.t FROM a JOIN b ON a.k = b.aid WHERE a.id % 3 = 0'),
	('SELECT a.id, b.id AS other FROM a LEFT JOIN b ON a.k = b.aid AND b.y < 7'),
	('SELECT a.id, b.id AS other FROM a FULL JOIN b ON a.k = b.aid'),
	('SELECT id, t FROM a WHERE NOT EXISTS (SELECT FROM b WHERE b.aid = a.k AND y > 3)'),
	('SELECT x.v, a.id FROM (SELECT aid AS v FROM b UNION ALL SELECT id FROM a) x JOIN a ON a.k = x.v'),
	('SELECT k AS v, t FROM a UNION SELECT y, t FROM b WHERE id < 2000'),
	('SELECT a.id, c.id AS other, b.y FROM a JOIN b ON a.k = b.aid JOIN a c ON c.k = b.y WHERE a.id < 500'),
	('SELECT s.k, s.n, b.y FROM (SELECT k, count(*) AS n FROM a GROUP BY k) s JOIN b ON b.aid = s.n'),
	('SELECT k, y, rank() OVER (PARTITION BY y ORDER BY a.id, b.id) FROM a JOIN b ON a.k = b.aid WHERE a.id < 900');
SELECT xp.on_nodes('SET max_parallel_workers_per_gather = 2', 'SET parallel_setup_cost = 0', 'SET min_parallel_table_scan_size = 0');
SET rdma_fdw.exchange_strategy = repartition_both;
SELECT number, xp.producers(query), xp.same(query) FROM xp_here.cases ORDER BY 1;
-- rows for all nodes
SET rdma_fdw.exchange_strategy = replicate;
SELECT number, xp.producers(query), xp.same(query) FROM xp_here.cases WHERE number IN (1, 2, 8) ORDER BY 1;
SET rdma_fdw.exchange_strategy = repartition_both;
-- rows without partners
SET rdma_fdw.disable = exchange_filter_costs;
SELECT number, xp.same(query) FROM xp_here.cases ORDER BY 1;
SET rdma_fdw.disable = exchange_filters;
-- workers share what others have made, too; their leader takes no part; there is no worker; only one node has some
SELECT xp.on_nodes('SET parallel_tuple_cost = 0');
SELECT bool_and(xp.same(query)) FROM xp_here.cases;
SELECT xp.on_nodes('SET parallel_leader_participation = off');
SELECT bool_and(xp.same(query)) FROM xp_here.cases;
SELECT xp.on_nodes('SET parallel_leader_participation = on', 'SET max_parallel_workers = 0');
SELECT bool_and(xp.same(query)) FROM xp_here.cases;
SELECT xp.on_nodes('SET max_parallel_workers = 8');
SELECT answer IS NOT NULL AS set FROM rdma.run_on('xp1', 'SET max_parallel_workers_per_gather = 0');
SELECT bool_and(xp.same(query)) FROM xp_here.cases;
SELECT xp.on_nodes('SET max_parallel_workers_per_gather = 2');
-- small buffers, in which some rows have no room
SET rdma_fdw.receive_buffer_size = '4kB';
SELECT bool_and(xp.same(query)) FROM xp_here.cases;
RESET rdma_fdw.receive_buffer_size;
-- nodes that write what they read by exchanges do it in one process each
EXPLAIN (COSTS OFF) INSERT INTO xp.made SELECT a.id, b.id FROM xp.a JOIN xp.b ON a.k = b.aid;
INSERT INTO xp.made SELECT a.id, b.id FROM xp.a JOIN xp.b ON a.k = b.aid;
SELECT count(*), count(*) = (SELECT count(*) FROM xp_here.a JOIN xp_here.b ON a.k = b.aid) AS all FROM xp.made;
-- rows that are not read to the end, and errors of workers and of their leader; and what follows
SELECT count(*) FROM (SELECT a.id FROM xp.a JOIN xp.b ON a.k = b.aid LIMIT 7) s;
CREATE FUNCTION xp.fails(query text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE query;
	RETURN 'nothing';
EXCEPTION WHEN others THEN
	RETURN SQLERRM;
END $$;
SELECT xp.fails('SELECT count(*) FROM xp.bad x JOIN xp.b ON x.t = b.aid');
SELECT bool_and(xp.same(query)) FROM xp_here.cases;
-- each row was taken by one process; those of heavy keys of one side go to both nodes
CREATE FUNCTION xp.counted(query text, OUT moved bigint, OUT taken bigint) LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
	moved = 0;
	taken = 0;
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, VERBOSE, COSTS OFF) ' || query LOOP
		moved = moved + coalesce((SELECT sum(m[1]::bigint) FROM regexp_matches(line, '(?:sent|kept) rows=(\d+)', 'g') m), 0);
		taken = taken + coalesce((SELECT sum(m::bigint) FROM regexp_split_to_table(substring(line FROM 'taken per process=([0-9/]+)'), '/') m), 0);
	END LOOP;
END $$;
SELECT taken, moved - taken AS heavy, (SELECT count(*) FILTER (WHERE k = 7) FROM xp_here.a) AS of_one_side FROM xp.counted('SELECT count(*), sum(a.n) FROM xp.a JOIN xp.b ON a.k = b.aid');
DO $$ BEGIN FOR i IN 1..600 LOOP EXIT WHEN NOT EXISTS (SELECT FROM rdma.stat_flows); PERFORM pg_sleep(0.1); END LOOP; END $$;
SELECT count(*) FROM rdma.stat_flows;
DROP SCHEMA xp, xp_here CASCADE;
DROP SERVER xp, xp1, xp2 CASCADE;
\c contrib_regression postgres 127.0.0.1 :n1
DO $$ BEGIN FOR i IN 1..600 LOOP EXIT WHEN NOT EXISTS (SELECT FROM rdma.stat_flows); PERFORM pg_sleep(0.1); END LOOP; END $$;
SELECT count(*) FROM rdma.stat_flows;
SET client_min_messages = warning;
DROP SCHEMA xp CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA xp CASCADE;
