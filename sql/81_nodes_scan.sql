-- Scans of a server that stands for two nodes: both run the statement, and one foreign scan reads both streams.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name nsc
\i :two_nodes
\set ECHO none
\c contrib_regression postgres 127.0.0.1 :n1
CREATE SCHEMA nsc;
CREATE TABLE nsc.t AS SELECT i AS a, i % 10 AS b, 'row ' || i AS c FROM generate_series(1, 30000, 2) i;
INSERT INTO nsc.t VALUES (NULL, 11, 'null on n1');
CREATE TABLE nsc.same AS SELECT i AS a, 'same ' || i AS c FROM generate_series(1, 100) i;
CREATE TABLE nsc.empty (a int, b int, c text);
CREATE TABLE nsc.half AS SELECT i AS a, 0 AS b, 'only here' AS c FROM generate_series(1, 500) i;
CREATE TABLE nsc.k AS SELECT i::bigint, 'x' AS t, date '2026-01-01' + i AS d FROM generate_series(1, 10) i WHERE rdma.hash_node(2, i::bigint, 'x'::text) = 0;
CREATE VIEW nsc.failing AS SELECT * FROM nsc.t;
CREATE VIEW nsc.slow AS SELECT * FROM nsc.t;
ANALYZE;
\c contrib_regression postgres 127.0.0.1 :n2
CREATE SCHEMA nsc;
CREATE TABLE nsc.t AS SELECT i AS a, i % 10 AS b, 'row ' || i AS c FROM generate_series(2, 30000, 2) i;
CREATE TABLE nsc.same AS SELECT i AS a, 'same ' || i AS c FROM generate_series(1, 100) i;
CREATE TABLE nsc.empty (a int, b int, c text);
CREATE TABLE nsc.half (a int, b int, c text);
CREATE TABLE nsc.k AS SELECT i::bigint, 'x' AS t, date '2026-01-01' + i AS d FROM generate_series(1, 10) i WHERE rdma.hash_node(2, i::bigint, 'x'::text) = 1;
CREATE VIEW nsc.failing AS SELECT a, 1 / (20002 - a) AS b, c FROM nsc.t;
CREATE VIEW nsc.slow AS SELECT t.* FROM nsc.t, (SELECT pg_sleep(1.5)) s;
ANALYZE;
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
SET search_path = nsc;
CREATE FOREIGN TABLE t (a int, b int, c text) SERVER nsc;
CREATE FOREIGN TABLE same (a int, c text) SERVER nsc OPTIONS (replicated 'true');
CREATE FOREIGN TABLE empty (a int, b int, c text) SERVER nsc;
CREATE FOREIGN TABLE half (a int, b int, c text) SERVER nsc;
CREATE FOREIGN TABLE failing (a int, b int, c text) SERVER nsc;
CREATE FOREIGN TABLE slow (a int, b int, c text) SERVER nsc;
CREATE FOREIGN TABLE missing (a int, b int, c text) SERVER nsc;
CREATE FOREIGN TABLE t1 (a int, b int, c text) SERVER nsc1 OPTIONS (table_name 't');
-- what only the coordinator can compute
CREATE FUNCTION here(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN $1; END';
\pset format unaligned
\pset tuples_only on
\set ECHO all

EXPLAIN (VERBOSE, COSTS OFF) SELECT a, c FROM t WHERE b = 3 AND here(a) > 0;
EXPLAIN (VERBOSE, COSTS OFF) SELECT a FROM same;
SELECT count(*), sum(a), count(DISTINCT c), min(c COLLATE "C"), max(c COLLATE "C") FROM (SELECT * FROM t OFFSET 0) x;
SELECT count(*), sum(a) FROM (SELECT a FROM t WHERE b = 3 OFFSET 0) x;
SELECT count(*) FROM (SELECT FROM t OFFSET 0) x;
SELECT count(*), sum(a) FROM (SELECT * FROM same OFFSET 0) x;
SELECT count(*) FROM (SELECT * FROM empty OFFSET 0) x;
SELECT count(*), sum(a) FROM (SELECT * FROM half OFFSET 0) x;
SELECT count(*), count(*) FILTER (WHERE ctid IS NOT NULL AND here(a) > 0) FROM half;
-- everything over the engines, and in tiny buffers
SET rdma_fdw.inline_limit = 0;
SET rdma_fdw.receive_buffer_size = '4kB';
SELECT count(*), sum(a), count(DISTINCT c) FROM (SELECT * FROM t OFFSET 0) x;
SET rdma_fdw.receive_buffers = 1;
SELECT count(*), sum(a), count(DISTINCT c) FROM (SELECT * FROM t OFFSET 0) x;
RESET rdma_fdw.receive_buffers;
RESET rdma_fdw.receive_buffer_size;
-- the place of a row that has come, and not been returned, when another scan of its node begins
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SELECT x.a, y.a FROM t x JOIN t1 y ON y.a = x.b - x.b % 2 + 1 WHERE x.a BETWEEN 2 AND 9 ORDER BY x.a LIMIT 5 FOR SHARE OF x;
RESET enable_hashjoin;
RESET enable_mergejoin;
RESET rdma_fdw.inline_limit;

-- EXPLAIN without what differs between releases of PostgreSQL
CREATE FUNCTION explained(query text, options text DEFAULT '') RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	buffers text := CASE WHEN current_setting('server_version_num')::int >= 180000 THEN ', BUFFERS OFF' ELSE '' END;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF' || buffers || options || ') ' || query LOOP
		RETURN NEXT regexp_replace(regexp_replace(line, 'actual rows=(\d+)\.00', 'actual rows=\1'), '(Actual Rows: \d+)\.00|(Transport): \w+', '\1\2');
	END LOOP;
END $$;

-- in order: each node sorts, the scan merges
EXPLAIN (VERBOSE, COSTS OFF) SELECT a, b FROM t WHERE here(b) >= 0 ORDER BY a;
SELECT count(*), count(a), bool_and(a IS NULL OR a = n) FROM (SELECT a, row_number() OVER () AS n FROM (SELECT a FROM t ORDER BY a OFFSET 0) x) y;
SELECT a, c FROM (SELECT * FROM t WHERE here(b) >= 0 ORDER BY a DESC LIMIT 4) x;
SELECT a, c FROM (SELECT * FROM t WHERE here(b) >= 0 ORDER BY a NULLS FIRST LIMIT 4) x;
SELECT a, b FROM t WHERE a BETWEEN 100 AND 115 AND here(b) >= 0 ORDER BY b DESC, a;
SELECT c COLLATE "C", a FROM t WHERE a BETWEEN 998 AND 1003 AND here(b) >= 0 ORDER BY c COLLATE "C";
SELECT ctid IS NOT NULL, a FROM t WHERE a BETWEEN 1 AND 4 AND here(b) >= 0 ORDER BY a;
SET rdma_fdw.inline_limit = 0;
SET rdma_fdw.receive_buffer_size = '4kB';
SELECT count(*), count(a), bool_and(a IS NULL OR (a = n AND c = 'row ' || n))
FROM (SELECT a, c, row_number() OVER () AS n FROM (SELECT a, c FROM t ORDER BY a OFFSET 0) x) y;
RESET rdma_fdw.receive_buffer_size;
RESET rdma_fdw.inline_limit;

-- a condition that fixes the distribution key: the node is known when the statement starts
CREATE FOREIGN TABLE by_key (a bigint OPTIONS (column_name 'i'), t text, d date) SERVER nsc OPTIONS (table_name 'k', distributed_by 'a, t');
EXPLAIN (VERBOSE, COSTS OFF) SELECT * FROM by_key WHERE a = 7 AND t = 'x';
EXPLAIN (VERBOSE, COSTS OFF) SELECT * FROM by_key WHERE a = 7;
SELECT n, (SELECT count(*) FROM by_key WHERE a = n AND t = 'x' AND here(a::int) > 0) FROM generate_series(1, 12) n ORDER BY n;
PREPARE k(int, text) AS SELECT * FROM by_key WHERE a = $1 AND $2 = t;
SET plan_cache_mode = force_generic_plan;
EXECUTE k(3, 'x');
EXECUTE k(4, 'x');
EXECUTE k(NULL, 'x');
SELECT explained('EXECUTE k(3, ''x'')');
DEALLOCATE k;
RESET plan_cache_mode;
SELECT count(*) FROM (SELECT * FROM by_key OFFSET 0) x;

-- parameters, prepared statements, generic plans
PREPARE p(int) AS SELECT count(*), min(c) FROM (SELECT * FROM t WHERE a = $1 OFFSET 0) x;
SET plan_cache_mode = force_generic_plan;
EXECUTE p(7);
EXECUTE p(8);
EXECUTE p(NULL);
DEALLOCATE p;
RESET plan_cache_mode;

-- other uses of the same sessions while the streams run: what is left of them is stored, all streams together
SELECT count(*), sum(x.a + y.a) FROM (SELECT * FROM t OFFSET 0) x JOIN (SELECT * FROM t OFFSET 0) y ON x.a = y.a;
SET enable_hashjoin = off;
SELECT count(*), sum(x.a + y.a) FROM (SELECT * FROM t OFFSET 0) x JOIN (SELECT * FROM t OFFSET 0) y ON x.a = y.a;
SET enable_mergejoin = off;
SELECT count(*), sum(x.a) FROM (SELECT * FROM t WHERE a < 2000 OFFSET 0) x JOIN (SELECT * FROM same OFFSET 0) y ON x.a = y.a * 7;
RESET enable_hashjoin;
RESET enable_mergejoin;
SELECT count(*), sum((SELECT count(*) FROM t1 WHERE t1.a = x.a AND here(t1.b) >= 0)) FROM (SELECT * FROM t WHERE a < 20 OFFSET 0) x;
SELECT a, (SELECT string_agg(c, ', ' ORDER BY c) FROM t z WHERE z.b = x.a AND z.a < 30 AND here(z.a) > 0) FROM same x WHERE a < 4 ORDER BY a;
SET rdma_fdw.inline_limit = 0;
SET rdma_fdw.receive_buffer_size = '4kB';
SELECT count(*), sum(x.a), sum((SELECT max(s.a) FROM same s WHERE s.a <= x.a AND here(s.a) > 0))
FROM (SELECT * FROM t WHERE a < 3000 ORDER BY a OFFSET 0) x WHERE x.a % 100 = 0;
RESET rdma_fdw.receive_buffer_size;
RESET rdma_fdw.inline_limit;

-- cursors, subtransactions
BEGIN;
DECLARE k CURSOR FOR SELECT a, c FROM t WHERE here(b) >= 0 ORDER BY a;
DECLARE l CURSOR FOR SELECT a FROM t WHERE b = 5;
FETCH 2 FROM k;
SELECT count(*) FROM (SELECT * FROM t1 OFFSET 0) x;
FETCH 2 FROM k;
MOVE FORWARD ALL IN l;
SAVEPOINT s;
DECLARE m CURSOR FOR SELECT a FROM t ORDER BY a;
FETCH 2 FROM m;
ROLLBACK TO s;
FETCH 2 FROM k;
CLOSE k;
COMMIT;

-- a scan that ends early
SELECT count(*) FROM (SELECT a FROM t WHERE here(a) > 0 LIMIT 5) x;
SELECT EXISTS (SELECT FROM t WHERE here(a) > 10);
SELECT count(*) FROM (SELECT a FROM t WHERE here(a) > 0 LIMIT 0) x;

-- in a transaction that goes on: the nodes whose rows were not wanted any more are as good as new
BEGIN;
SELECT count(*) FROM (SELECT a FROM t WHERE here(a) > 0 LIMIT 5) x;
SELECT count(*) FROM (SELECT a FROM t WHERE here(a) > 0 LIMIT 5) x;
SELECT count(*), sum(a) FROM (SELECT * FROM t OFFSET 0) x;
COMMIT;

-- the counters: nothing is counted twice, also when a scan runs again
SELECT explained('SELECT * FROM t WHERE b = 3', ', VERBOSE');

SELECT regexp_replace(explained('SELECT * FROM t WHERE b = 3', ', FORMAT YAML'), ' *(Disabled|Triggers):[^\n]*\n?', '', 'g');
-- the nodes' plans
SET rdma_fdw.explain_nodes = on;
SET plan_cache_mode = force_generic_plan;
PREPARE g(int) AS SELECT a FROM t WHERE b = 3 AND a > $1 AND here(a) > 0;
EXPLAIN (COSTS OFF) EXECUTE g(1);
DEALLOCATE g;
RESET plan_cache_mode;
SELECT regexp_replace(explained('SELECT a FROM same', ', FORMAT YAML'), '^.*(Node Plans:.*Seq Scan on same)[^\n]*\n.*$', '\1');
RESET rdma_fdw.explain_nodes;

-- a slow node: it computes long, also where rows go between the nodes, and others wait for it; "long" is a second or more
CREATE FUNCTION times(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF) ' || query LOOP
		IF line ~ 'Node' AND line !~ 'Nodes:' THEN
			line = regexp_replace(line, '\m\d{4,}\.\d{3}', 'long', 'g');
			RETURN NEXT trim(regexp_replace(line, '\m\d+\.\d{2,3}', 'short', 'g'));
		END IF;
	END LOOP;
END $$;
SELECT times('SELECT max(a), count(here(a)) FROM slow WHERE a < 100');
SET rdma_fdw.exchange_strategy = repartition_both;
SELECT times('SELECT count(*) FROM t JOIN slow ON t.b = slow.b WHERE t.a < 100 AND slow.a < 100');
RESET rdma_fdw.exchange_strategy;
-- each value in the other formats
CREATE FUNCTION timed(query text) RETURNS TABLE (slowest text, keys text[]) LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT JSON) ' || query INTO plan;
	slowest = jsonb_path_query_first(plan, '$.**."Slowest Node"') #>> '{}';
	keys = ARRAY(SELECT DISTINCT k FROM jsonb_path_query(plan, '$.**."Node Counters"[*]') n, jsonb_object_keys(n) k WHERE k ~ 'Time' ORDER BY k);
	RETURN NEXT;
END $$;
SELECT * FROM timed('SELECT here(a) FROM slow WHERE a < 100');

-- errors of one node name it, end the others and leave no flow behind
SELECT sum(b) FROM (SELECT * FROM failing OFFSET 0) x;
SELECT sum(b) FROM (SELECT * FROM failing ORDER BY a OFFSET 0) x;
\set VERBOSITY terse
SELECT * FROM missing;
\set VERBOSITY default
BEGIN;
SELECT count(*) FROM (SELECT * FROM t OFFSET 0) x;
SAVEPOINT s;
SELECT sum(b) FROM (SELECT * FROM failing OFFSET 0) x;
ROLLBACK TO s;
SELECT count(*) FROM (SELECT * FROM t OFFSET 0) x;
COMMIT;
CREATE USER MAPPING FOR PUBLIC SERVER nsc1 OPTIONS (user 'postgres', password_required 'false');
CREATE ROLE nsc_user;
GRANT USAGE ON SCHEMA nsc TO nsc_user;
GRANT SELECT ON t TO nsc_user;
SET client_min_messages = notice;
SET ROLE nsc_user;
DO $$
BEGIN
	PERFORM count(*) FROM nsc.t;
EXCEPTION WHEN undefined_object THEN RAISE NOTICE 'no mapping';
END $$;
RESET ROLE;
DROP OWNED BY nsc_user;
DROP ROLE nsc_user;

DO $$ BEGIN FOR i IN 1..600 LOOP EXIT WHEN NOT EXISTS (SELECT FROM rdma.stat_flows); PERFORM pg_sleep(0.1); END LOOP; END $$;
SELECT count(*) FROM rdma.stat_flows;
SET client_min_messages = warning;
DROP SERVER nsc, nsc1, nsc2 CASCADE;
DROP SCHEMA nsc CASCADE;
\c contrib_regression postgres 127.0.0.1 :n1
DO $$ BEGIN FOR i IN 1..600 LOOP EXIT WHEN NOT EXISTS (SELECT FROM rdma.stat_flows); PERFORM pg_sleep(0.1); END LOOP; END $$;
SELECT count(*) FROM rdma.stat_flows;
SET client_min_messages = warning;
DROP SCHEMA nsc CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
DO $$ BEGIN FOR i IN 1..600 LOOP EXIT WHEN NOT EXISTS (SELECT FROM rdma.stat_flows); PERFORM pg_sleep(0.1); END LOOP; END $$;
SELECT count(*) FROM rdma.stat_flows;
SET client_min_messages = warning;
DROP SCHEMA nsc CASCADE;
