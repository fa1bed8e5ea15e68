-- Scans of several servers beside each other: asynchronous Append, and scans that are started before they are read.
\set ECHO none
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
\getenv n1 RF_N1_PORT
\getenv n2 RF_N2_PORT
\getenv coord RF_COORD_PORT
-- fewer in a check that has no time for as many
\getenv times RF_TIMES
\if :{?times}
\else
	\set times 20
\endif
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
CREATE SCHEMA asy;
CREATE TABLE asy.p AS SELECT i AS a, i % 10 AS b, 'row ' || i AS c FROM generate_series(1, 30000, 2) i;
CREATE TABLE asy.q AS SELECT i AS a, i % 10 AS b, 'more ' || i AS c FROM generate_series(40001, 40100) i;
CREATE TABLE asy.nothing (a int, b int, c text);
CREATE VIEW asy.few AS SELECT * FROM asy.q WHERE a < 40016;
ANALYZE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
CREATE SCHEMA asy;
CREATE TABLE asy.p AS SELECT i AS a, i % 10 AS b, 'row ' || i AS c FROM generate_series(2, 30000, 2) i;
CREATE VIEW asy.small AS SELECT * FROM asy.p WHERE a < 36;
CREATE VIEW asy.failing AS SELECT a, 1 / (20002 - a) AS b, c FROM asy.p;
ANALYZE;
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
CREATE SCHEMA asy;
SET search_path = asy;
CREATE SERVER asy1 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port :'n1', dbname 'contrib_regression', async_capable 'true');
CREATE SERVER asy2 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port :'n2', dbname 'contrib_regression', async_capable 'true');
CREATE USER MAPPING FOR CURRENT_USER SERVER asy1 OPTIONS (user 'postgres');
CREATE USER MAPPING FOR CURRENT_USER SERVER asy2 OPTIONS (user 'postgres');
CREATE FOREIGN TABLE f1 (a int, b int, c text) SERVER asy1 OPTIONS (schema_name 'asy', table_name 'p');
CREATE FOREIGN TABLE f2 (a int, b int, c text) SERVER asy2 OPTIONS (schema_name 'asy', table_name 'p');
CREATE FOREIGN TABLE g1 (a int, b int, c text) SERVER asy1 OPTIONS (schema_name 'asy', table_name 'q');
CREATE FOREIGN TABLE none1 (a int, b int, c text) SERVER asy1 OPTIONS (schema_name 'asy', table_name 'nothing');
CREATE FOREIGN TABLE few (a int, b int, c text) SERVER asy1 OPTIONS (schema_name 'asy');
CREATE FOREIGN TABLE small (a int, b int, c text) SERVER asy2 OPTIONS (schema_name 'asy');
CREATE FOREIGN TABLE failing (a int, b int, c text) SERVER asy2 OPTIONS (schema_name 'asy');
CREATE TABLE here AS SELECT i AS a, i % 10 AS b, 'here ' || i AS c FROM generate_series(50001, 50010) i;
CREATE VIEW two AS SELECT * FROM f1 UNION ALL SELECT * FROM f2;
-- two children that share a session, one without rows, a local one
CREATE VIEW five AS SELECT * FROM f1 UNION ALL SELECT * FROM f2 UNION ALL SELECT * FROM g1
	UNION ALL SELECT * FROM none1 UNION ALL SELECT * FROM here;
\pset format unaligned
\pset tuples_only on
\set ECHO all

EXPLAIN (VERBOSE, COSTS OFF) SELECT a, c FROM two WHERE b + random() >= 0;
SELECT count(*), sum(a), count(DISTINCT c), min(c COLLATE "C"), max(c COLLATE "C") FROM (SELECT * FROM two OFFSET 0) t;
SELECT count(*), sum(a), count(DISTINCT c) FROM (SELECT * FROM five OFFSET 0) t;
SELECT count(*), sum(a) FROM (SELECT a FROM five WHERE b = 3 AND a + random() > 0 OFFSET 0) t;
SELECT count(*) FROM (SELECT FROM five OFFSET 0) t;
-- everything over the engines, and in tiny buffers
SET rdma_fdw.inline_limit = 0;
SET rdma_fdw.receive_buffer_size = '4kB';
SELECT count(*), sum(a), count(DISTINCT c) FROM (SELECT * FROM five OFFSET 0) t;
RESET rdma_fdw.receive_buffer_size;
RESET rdma_fdw.inline_limit;

-- a sub-plan takes the session from children that Append waits for already
SET rdma_fdw.inline_limit = 0;
CREATE VIEW three AS SELECT * FROM few UNION ALL SELECT * FROM small UNION ALL SELECT * FROM few;
CREATE FUNCTION again(times int) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE n int;
BEGIN
	FOR i IN 1..times LOOP
		SELECT count(*) INTO n FROM (SELECT a FROM three t WHERE b <= (SELECT min(u.b) FROM few u WHERE u.b >= t.b + random() * 0) OFFSET 0) s;
		ASSERT n = 47, n;
	END LOOP;
	RETURN true;
END $$;
SELECT again(:times * 5) AS every_time;
RESET rdma_fdw.inline_limit;

-- a scan that ends early
SELECT count(*) FROM (SELECT a FROM two WHERE a + random() > 0 LIMIT 5) t;
SELECT count(*) FROM (SELECT a FROM five WHERE a + random() > 0 LIMIT 0) t;
SELECT EXISTS (SELECT FROM two WHERE a + random() > 0);
-- again and again, with and without parameters
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SET enable_memoize = off;
SELECT x, count(*), sum(a) FROM generate_series(1, 4) x,
	LATERAL (SELECT a FROM five WHERE b = x AND a + random() > 0 OFFSET 0) t GROUP BY x ORDER BY x;
SELECT x, count(*), sum(a) FROM generate_series(1, 3) x
	LEFT JOIN (SELECT a, b FROM five WHERE a + random() > 0 OFFSET 0) t ON true GROUP BY x ORDER BY x;
SELECT x, (SELECT count(*) FROM (SELECT a FROM two WHERE a + random() > x LIMIT 3) t) FROM generate_series(1, 3) x;
SELECT x, (SELECT count(*) FROM (SELECT a FROM five WHERE a + random() > x LIMIT 5) t) FROM generate_series(1, 3) x;
RESET enable_hashjoin;
RESET enable_mergejoin;
RESET enable_material;
RESET enable_memoize;
-- the same servers on both sides of a join
SELECT count(*), sum(l.a) FROM (SELECT * FROM two OFFSET 0) l JOIN (SELECT * FROM five OFFSET 0) r USING (a);
-- rows fetched in portions
BEGIN;
DECLARE c CURSOR FOR SELECT a FROM five WHERE a + random() > 0;
MOVE FORWARD 100 FROM c;
SELECT count(*) FROM (SELECT * FROM five OFFSET 0) t;
MOVE FORWARD ALL FROM c;
COMMIT;
PREPARE one_b(int) AS SELECT count(*), sum(a) FROM (SELECT a FROM five WHERE b = $1 OFFSET 0) t;
EXECUTE one_b(1);
EXECUTE one_b(2);
EXECUTE one_b(3);
EXECUTE one_b(4);
EXECUTE one_b(5);
EXECUTE one_b(6);
EXECUTE one_b(7);
-- an error at one of them
SELECT count(b) FROM (SELECT * FROM f1 UNION ALL SELECT * FROM failing OFFSET 0) t;
SELECT count(*) FROM (SELECT * FROM f1 UNION ALL SELECT * FROM f2 OFFSET 0) t;

-- EXPLAIN ANALYZE counts each row at the scan that returned it
CREATE FUNCTION scans(q text) RETURNS TABLE (node text, async bool, loops int, rows int, remote_rows int, streams int)
LANGUAGE plpgsql AS $$
DECLARE
	j jsonb;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, VERBOSE, COSTS OFF, TIMING OFF, SUMMARY OFF, FORMAT JSON) ' || q INTO j;
	RETURN QUERY SELECT p ->> 'Relation Name', (p ->> 'Async Capable')::bool, (p ->> 'Actual Loops')::int,
			(p ->> 'Actual Rows')::numeric::int, (p ->> 'Remote Rows')::int, (p ->> 'Streams')::int
		FROM jsonb_path_query(j, 'strict $.** ? (@."Node Type" == "Foreign Scan")') p ORDER BY p ->> 'Relation Name' COLLATE "C";
END $$;
SELECT * FROM scans('SELECT a FROM asy.five WHERE b + random() >= 0');

-- The choice: the option decides; without it the nodes' work is weighed against the number of rows that they send.
ALTER SERVER asy1 OPTIONS (SET async_capable 'false');
SELECT node, async, rows FROM scans('SELECT a FROM asy.two WHERE b + random() >= 0');
ALTER FOREIGN TABLE f1 OPTIONS (ADD async_capable 'true');
SELECT node, async, rows FROM scans('SELECT a FROM asy.two WHERE b + random() >= 0');
ALTER FOREIGN TABLE f1 OPTIONS (DROP async_capable);
ALTER SERVER asy1 OPTIONS (DROP async_capable);
ALTER SERVER asy2 OPTIONS (DROP async_capable);
ANALYZE f1, f2;
SELECT node, async, rows FROM scans('SELECT a FROM asy.two');
SELECT node, async, rows FROM scans('SELECT a FROM asy.two WHERE a = 77');
-- what is started early is read right, in plans of several kinds
SELECT count(*), sum(a), count(DISTINCT c) FROM (SELECT * FROM five OFFSET 0) t;
SELECT l.b, count(*) FROM (SELECT * FROM f1 ORDER BY c COLLATE "C", random()) l
	JOIN (SELECT * FROM f2 OFFSET 0) r ON l.a = r.a - 1 WHERE l.a < 50 GROUP BY 1 ORDER BY 1;
SELECT a FROM two ORDER BY a LIMIT 3;
SELECT count(*) FROM f1 JOIN none1 USING (a);
SELECT count(*) FROM (SELECT a FROM f1 WHERE a + random() < 0 OFFSET 0) l JOIN (SELECT a FROM f2 OFFSET 0) r USING (a);
SELECT (SELECT max(a) FROM f2 WHERE a + random() > 0), count(*) FROM (SELECT * FROM two OFFSET 0) t;

-- Children of Append fill slots with the wanted columns only: whatever their order, also beside what needs the whole row
CREATE TABLE pt (a int, b int, c text) PARTITION BY RANGE (a);
CREATE FOREIGN TABLE pf1 (c text, b int, a int) SERVER asy1 OPTIONS (schema_name 'asy', table_name 'p');
CREATE FOREIGN TABLE pf2 (gone int, b int, a int, c text) SERVER asy1 OPTIONS (schema_name 'asy', table_name 'q');
ALTER FOREIGN TABLE pf2 DROP COLUMN gone;
ALTER TABLE pt ATTACH PARTITION pf1 FOR VALUES FROM (1) TO (40001);
ALTER TABLE pt ATTACH PARTITION pf2 FOR VALUES FROM (40001) TO (50001);
EXPLAIN (VERBOSE, COSTS OFF) SELECT c, b FROM pt WHERE a + random() >= 0;
SELECT count(*), sum(b), min(c COLLATE "C"), max(c COLLATE "C") FROM (SELECT c, b FROM pt WHERE a + random() >= 0 OFFSET 0) t;
SELECT tableoid::regclass AS part, count(*), sum(a), min(c COLLATE "C") FROM pt WHERE a + random() > 0 GROUP BY 1 ORDER BY 1;
SELECT count(t), max(t::text COLLATE "C") FROM (SELECT pt AS t FROM pt OFFSET 0) s;
SELECT b, c, a, c || b AS d, length(c) FROM pt WHERE a + random() > 0 ORDER BY a DESC LIMIT 2;
SELECT c FROM pt WHERE b + random() >= 9 AND a > 40090;
SELECT a, c FROM pt WHERE a IN (1, 40100) ORDER BY a FOR UPDATE;
SELECT x.b, y.c FROM (SELECT * FROM pt OFFSET 0) x JOIN (SELECT c, a FROM two OFFSET 0) y USING (a) WHERE a = 29999;

DO $$
BEGIN
	FOR i IN 1 .. 1000 LOOP
		EXIT WHEN NOT EXISTS (SELECT FROM rdma.stat_flows);
		PERFORM pg_sleep(0.05);
	END LOOP;
END $$;
SELECT count(*) FROM rdma.stat_flows;
\set ECHO none
RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA asy CASCADE;
DROP SERVER asy1 CASCADE;
DROP SERVER asy2 CASCADE;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA asy CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA asy CASCADE;
