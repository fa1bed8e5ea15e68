-- EXPLAIN (ANALYZE) with rdma_fdw.explain_nodes: the nodes' plans as they ran in this very execution.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name np
\i :two_nodes
\c contrib_regression postgres 127.0.0.1 :n1
CREATE SCHEMA np;
CREATE TABLE np.t AS SELECT i AS a, i % 10 AS b FROM generate_series(1, 3000, 2) i;
CREATE TABLE np.u AS SELECT i AS a, i % 10 AS b FROM generate_series(1, 50, 2) i;
CREATE SEQUENCE np.calls;
CREATE FUNCTION np.called(int) RETURNS int LANGUAGE sql VOLATILE AS 'SELECT $1 + 0 * nextval(''np.calls'')::int';
CREATE VIEW np.counted AS SELECT np.called(a) AS a, b FROM np.t WHERE b = 3;
CREATE VIEW np.failing AS SELECT a, b FROM np.t;
ANALYZE;
\c contrib_regression postgres 127.0.0.1 :n2
CREATE SCHEMA np;
CREATE TABLE np.t AS SELECT i AS a, i % 10 AS b FROM generate_series(2, 3000, 2) i;
CREATE TABLE np.u AS SELECT i AS a, i % 10 AS b FROM generate_series(2, 50, 2) i;
CREATE VIEW np.counted AS SELECT a, b FROM np.t WHERE b = 3;
CREATE VIEW np.failing AS SELECT 1 / (a - 4) AS a, b FROM np.t;
ANALYZE;
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
SET search_path = np;
CREATE FOREIGN TABLE t (a int, b int) SERVER np OPTIONS (distributed_by 'a');
CREATE FOREIGN TABLE u (a int, b int) SERVER np OPTIONS (distributed_by 'a');
CREATE FOREIGN TABLE counted (a int, b int) SERVER np;
CREATE FOREIGN TABLE failing (a int, b int) SERVER np;
CREATE FUNCTION here(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN $1; END';
-- the plans alone, without what differs from run to run, or from version to version
CREATE FUNCTION plans(query text, options text DEFAULT 'COSTS OFF, TIMING OFF, BUFFERS OFF') RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	inside bool := false;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, SUMMARY OFF, ' || options || ') ' || query LOOP
		inside := line ~ 'Plan on' OR inside AND line !~ '^ *(->  Foreign|Planning|Execution|JIT)';
		CONTINUE WHEN NOT inside OR line ~ '(Memory|Buckets|Disabled|Heap Fetches|Buffers)';
		line := regexp_replace(line, '(cost|time)=[0-9.]+', '\1=N', 'g');
		line := regexp_replace(line, '\.\.[0-9.]+ ', '..N ', 'g');
		RETURN NEXT regexp_replace(regexp_replace(line, '(rows=\d+)\.00', '\1', 'g'), 'width=\d+', 'width=N');
	END LOOP;
END $$;
SET rdma_fdw.explain_nodes = on;

SELECT plans('SELECT a FROM t WHERE b = 3 AND here(a) > 0');
SELECT plans('SELECT a FROM t WHERE b = 3 AND here(a) > 0', 'VERBOSE');
-- all rows over the engines
SET rdma_fdw.inline_limit = 0;
SELECT plans('SELECT a FROM t WHERE b = 3 AND here(a) > 0');
RESET rdma_fdw.inline_limit;
-- the node of a key alone has run
SELECT plans('SELECT b FROM t WHERE a = 7');
-- exchanges, whose queries belong to the plan
SELECT regexp_replace(line, 'rows=\d+ ', 'rows=N ') AS line FROM plans('SELECT count(*) FROM t JOIN u ON t.b = u.b') line WHERE line ~ '(Plan on|Seq Scan|RdmaExchange)';
-- LIMIT ends the nodes early: what they did until then
SELECT DISTINCT regexp_replace(line, 'rows=\d+', 'rows=N') AS line FROM plans('SELECT a FROM t WHERE here(a) > 0 LIMIT 2') line ORDER BY 1;
-- a scan that runs again: one execution is shown
SELECT line FROM plans('SELECT x.* FROM generate_series(1, 3) g, LATERAL (SELECT count(*) FROM t WHERE t.b < g OFFSET 0) x') line WHERE line ~ 'Plan on';

-- once: the statement does not run again for its plan
SELECT plans('SELECT a FROM counted WHERE here(a) > 0');
\c contrib_regression postgres 127.0.0.1 :n1
SELECT last_value FROM np.calls;
\c contrib_regression postgres 127.0.0.1 :coord
SET search_path = np;
SET client_min_messages = warning;
SET rdma_fdw.explain_nodes = on;
-- an error of a node leaves the session as it was
SELECT plans('SELECT * FROM failing WHERE here(a) > 0');
SELECT count(*) > 0 AS plans FROM plans('SELECT a FROM t WHERE here(a) > 0');
RESET rdma_fdw.explain_nodes;
-- without the setting nothing is measured
SELECT count(*) FROM plans('SELECT a FROM t WHERE here(a) > 0');

DROP SERVER np, np1, np2 CASCADE;
DROP SCHEMA np CASCADE;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA np CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA np CASCADE;
