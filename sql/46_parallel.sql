-- Parallel foreign scans: the leader and its workers take batches of one stream.
\set ECHO none
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
\getenv n1 RF_N1_PORT
\getenv n2 RF_N2_PORT
\getenv coord RF_COORD_PORT
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
CREATE SCHEMA par;
CREATE TABLE par.p AS SELECT i AS a, i % 10 AS b, 'row ' || i AS c FROM generate_series(1, 40000, 2) i;
CREATE TABLE par.q AS SELECT i AS a, repeat('q', i) AS c FROM generate_series(1, 500) i;
CREATE TABLE par.nothing (a int, b int, c text);
CREATE VIEW par.failing AS SELECT a, 1 / (20001 - a) AS b, c FROM par.p;
ANALYZE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
CREATE SCHEMA par;
CREATE TABLE par.p AS SELECT i AS a, i % 10 AS b, 'row ' || i AS c FROM generate_series(2, 40000, 2) i;
ANALYZE;
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
CREATE SCHEMA par;
SET search_path = par;
CREATE SERVER par1 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port :'n1', dbname 'contrib_regression', parallel_scan 'true');
CREATE SERVER par2 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port :'n2', dbname 'contrib_regression', parallel_scan 'true');
CREATE USER MAPPING FOR CURRENT_USER SERVER par1 OPTIONS (user 'postgres');
CREATE USER MAPPING FOR CURRENT_USER SERVER par2 OPTIONS (user 'postgres');
CREATE FOREIGN TABLE f1 (a int, b int, c text) SERVER par1 OPTIONS (table_name 'p');
CREATE FOREIGN TABLE f2 (a int, b int, c text) SERVER par2 OPTIONS (table_name 'p');
CREATE FOREIGN TABLE q1 (a int, c text) SERVER par1 OPTIONS (table_name 'q');
CREATE FOREIGN TABLE none1 (a int, b int, c text) SERVER par1 OPTIONS (table_name 'nothing');
CREATE FOREIGN TABLE failing (a int, b int, c text) SERVER par1;
CREATE FOREIGN TABLE missing (a int, b int, c text) SERVER par1;
CREATE TABLE both_nodes (a int, b int, c text) PARTITION BY LIST (b);
CREATE FOREIGN TABLE both1 PARTITION OF both_nodes FOR VALUES IN (1, 3, 5, 7, 9) SERVER par1 OPTIONS (table_name 'p');
CREATE FOREIGN TABLE both2 PARTITION OF both_nodes FOR VALUES IN (0, 2, 4, 6, 8) SERVER par2 OPTIONS (table_name 'p');
CREATE TABLE here AS SELECT i AS a, i % 7 AS d FROM generate_series(1, 20000) i;
\pset format unaligned
\pset tuples_only on
\set ECHO all
ANALYZE f1, f2, q1, none1, failing, both1, both2, here;
-- a function that only this node has
CREATE FUNCTION local(int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$ BEGIN RETURN $1; END $$;
CREATE FUNCTION fussy(int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
	IF $1 = 33333 THEN RAISE EXCEPTION 'cannot stand %', $1; END IF;
	RETURN $1;
END $$;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;

-- an aggregate, grouping, joins with a local table, on the data node and of partitions
EXPLAIN (VERBOSE, COSTS OFF) SELECT count(*), sum(local(a)), min(c) FROM f1 WHERE local(b) < 6;
SELECT count(*), sum(local(a)), min(c) FROM f1 WHERE local(b) < 6;
EXPLAIN (COSTS OFF) SELECT local(b), count(*), sum(a) FROM f1 GROUP BY local(b) ORDER BY 1;
SELECT local(b), count(*), sum(a) FROM f1 GROUP BY local(b) ORDER BY 1;
SET enable_mergejoin = off;
SET enable_nestloop = off;
EXPLAIN (COSTS OFF) SELECT count(*), sum(d) FROM f1 JOIN here USING (a) WHERE local(b) < 6;
SELECT count(*), sum(d) FROM f1 JOIN here USING (a) WHERE local(b) < 6;
EXPLAIN (VERBOSE, COSTS OFF) SELECT count(*), sum(local(f1.a)) FROM f1 JOIN q1 USING (a) WHERE local(b) < 6;
SELECT count(*), sum(local(f1.a)) FROM f1 JOIN q1 USING (a) WHERE local(b) < 6;
EXPLAIN (VERBOSE, COSTS OFF)
SELECT count(*), sum(d), sum(local(s::int % 10)) FROM (SELECT a, sum(b) AS s FROM f1 GROUP BY a) g JOIN here USING (a);
SELECT count(*), sum(d), sum(local(s::int % 10)) FROM (SELECT a, sum(b) AS s FROM f1 GROUP BY a) g JOIN here USING (a);
EXPLAIN (COSTS OFF) SELECT count(*), sum(local(a)) FROM both_nodes WHERE local(b) >= 0;
SELECT count(*), sum(local(a)) FROM both_nodes WHERE local(b) >= 0;
SELECT count(*), sum(local(a)) FROM (SELECT * FROM f1 UNION ALL SELECT * FROM f2) u WHERE local(b) < 6;
RESET enable_mergejoin;
RESET enable_nestloop;

-- rows of a value that is known here when the query begins
CREATE FUNCTION is_parallel(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	line text;
	found boolean = false;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		found = found OR line ~ 'Parallel Foreign Scan';
	END LOOP;
	RETURN found;
END $$;
SELECT is_parallel('SELECT count(*), sum(local(a)) FROM f1 WHERE a <= (SELECT max(a) - 10000 FROM here) AND local(b) < 6');
SELECT count(*), sum(local(a)) FROM f1 WHERE a <= (SELECT max(a) - 10000 FROM here) AND local(b) < 6;
PREPARE up_to(int) AS SELECT count(*), sum(local(a)) FROM f1 WHERE a <= $1 AND local(b) < 6;
EXECUTE up_to(1000);
SET plan_cache_mode = force_generic_plan;
EXECUTE up_to(1000);
EXECUTE up_to(2000);
RESET plan_cache_mode;

-- no rows, few rows, only workers, no worker
SELECT count(*), sum(local(a)) FROM none1 WHERE local(b) < 6;
SELECT count(*), sum(local(a)) FROM f1 WHERE a < 4 AND local(b) < 6;
SET parallel_leader_participation = off;
SELECT count(*), sum(local(a)), min(c) FROM f1 WHERE local(b) < 6;
SELECT count(*), sum(local(a)) FROM none1 WHERE local(b) < 6;
SELECT count(*), sum(local(a)) FROM both_nodes WHERE local(b) >= 0;
RESET parallel_leader_participation;
SET max_parallel_workers = 0;
SELECT count(*), sum(local(a)), min(c) FROM f1 WHERE local(b) < 6;
RESET max_parallel_workers;
-- tiny buffers, batches in many parts, one buffer
SET rdma_fdw.receive_buffer_size = '4kB';
SELECT count(*), sum(local(a)), min(c) FROM f1 WHERE local(b) < 6;
SET rdma_fdw.receive_buffers = 1;
SELECT count(*), sum(local(a)), min(c) FROM f1 WHERE local(b) < 6;
\c contrib_regression postgres 127.0.0.1 :n1
UPDATE par.q SET c = repeat('q', a * 100);
\c contrib_regression postgres 127.0.0.1 :coord
SET search_path = par;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
SET rdma_fdw.receive_buffer_size = '4kB';
SELECT count(*), sum(local(a)), sum(length(c)) FROM q1 WHERE local(a) > 0;
SET rdma_fdw.receive_buffers = 1;
SELECT count(*), sum(local(a)), sum(length(c)) FROM q1 WHERE local(a) > 0;
RESET rdma_fdw.receive_buffers;
RESET rdma_fdw.receive_buffer_size;

-- the rows per process in EXPLAIN add up
CREATE FUNCTION pulled(query text) RETURNS TABLE (pulled text) LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, VERBOSE, COSTS OFF, SUMMARY OFF) ' || query LOOP
		IF line ~ 'Pulled:|Relations:' THEN
			RETURN QUERY SELECT trim(line);
		ELSIF line ~ 'Shared:' THEN
			RETURN QUERY SELECT format('all batches: %s', sum(m[1]::int)) FROM regexp_matches(line, 'by \w+=(\d+)', 'g') m;
		END IF;
	END LOOP;
END $$;
SELECT * FROM pulled('SELECT count(*), sum(local(a)), min(c) FROM f1 WHERE local(b) < 6');
SELECT * FROM pulled('SELECT count(*), sum(local(f1.a)) FROM f1 JOIN q1 USING (a) WHERE local(b) < 6');

-- a scan that ends early
SELECT count(*) FROM (SELECT local(a) FROM f1 WHERE local(b) < 6 LIMIT 5) t;
SELECT count(*) FROM (SELECT local(a) FROM f1 WHERE local(b) < 6 LIMIT 0) t;
SELECT EXISTS (SELECT FROM f1 WHERE local(b) < 6);
-- repeated
SET enable_material = off;
SET enable_memoize = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SELECT x, count(*), sum(t.a) FROM generate_series(1, 3) x
	LEFT JOIN (SELECT local(a) AS a, b FROM f1 WHERE local(b) < 6 OFFSET 0) t ON t.b + x > 4 GROUP BY x ORDER BY x;
SELECT x, (SELECT count(*) FROM (SELECT a, c FROM f1 WHERE local(b) < 6 OFFSET 0) t WHERE t.a > x * 10000) FROM generate_series(1, 3) x;
SELECT x, (SELECT count(*) FROM (SELECT a, c FROM f1 WHERE local(b) < 6 LIMIT 7) t WHERE t.a > -x) FROM generate_series(1, 3) x;
RESET enable_material;
RESET enable_memoize;
RESET enable_hashjoin;
RESET enable_mergejoin;
CREATE TABLE kept AS SELECT local(a) AS a FROM f1 WHERE local(b) < 6;
SELECT count(*), sum(a) FROM kept;
-- portions are read by the leader alone
BEGIN;
DECLARE c CURSOR FOR SELECT count(*), sum(local(a)) FROM f1 WHERE local(b) < 6 GROUP BY b ORDER BY b;
FETCH 2 FROM c;
FETCH ALL FROM c;
COMMIT;

\set SHOW_CONTEXT never
-- errors: of the data node, at once and in the middle, and of the process that reads the rows
SELECT count(*), sum(local(a)) FROM missing WHERE local(b) < 6;
SELECT count(*), sum(local(b)) FROM failing WHERE local(b) < 6;
SELECT count(*), sum(fussy(a)) FROM f1 WHERE local(b) < 6;
SET parallel_leader_participation = off;
SELECT count(*), sum(local(a)) FROM missing WHERE local(b) < 6;
SELECT count(*), sum(fussy(a)) FROM f1 WHERE local(b) < 6;
RESET parallel_leader_participation;
SELECT count(*), sum(local(a)) FROM f1 WHERE local(b) < 6;
\set SHOW_CONTEXT errors

-- not if another part of the query reads from the same server, which would need the same session
SELECT is_parallel('SELECT count(*) FROM f1 JOIN q1 ON local(f1.a) = local(q1.a)');
SELECT is_parallel('SELECT count(*), sum(local(a)) FROM f1 WHERE local(b) < (SELECT count(*) FROM q1)');
SELECT is_parallel('WITH q AS MATERIALIZED (SELECT a FROM q1) SELECT count(*), sum(local(a)) FROM f1 WHERE local(b) < 6 AND (SELECT min(a) FROM q) > 0');
SELECT is_parallel('SELECT sum(n) FROM (SELECT count(*) AS n FROM f1 WHERE local(b) < 6
	UNION ALL SELECT count(*) FROM q1 WHERE local(a) < 6) u');
SELECT is_parallel('SELECT count(*), sum(local(b)) FROM both_nodes JOIN f1 USING (a, b)');
SELECT is_parallel('SELECT sum(n) FROM (SELECT count(*) AS n FROM f1 WHERE local(b) < 6
	UNION ALL SELECT count(*) FROM f2 WHERE local(a) < 6) u');
-- a function may do so, if it says that it must not run in a worker; one that says it might finds the session taken
CREATE FUNCTION looks_there(int) RETURNS bigint LANGUAGE plpgsql STABLE PARALLEL RESTRICTED AS $$
BEGIN
	RETURN (SELECT count(*) FROM par.q1 WHERE a = $1);
END $$;
SELECT is_parallel('SELECT sum(looks_there(x)) FROM (SELECT local(a) AS x FROM f1 WHERE local(b) < 6 OFFSET 0) t');
SELECT sum(looks_there(x)) FROM (SELECT local(a) AS x FROM f1 WHERE local(b) < 6 OFFSET 0) t;
ALTER FUNCTION looks_there PARALLEL SAFE;
SET rdma_fdw.receive_buffer_size = '4kB';
SET max_parallel_workers = 0;
\set SHOW_CONTEXT never
SELECT sum(looks_there(x)) FROM (SELECT local(a) AS x FROM f1 WHERE local(b) < 6 OFFSET 0) t;
\set SHOW_CONTEXT errors
RESET max_parallel_workers;
RESET rdma_fdw.receive_buffer_size;
-- not with asynchronous scans, unless both are asked for; nor when it is forbidden; nor in a statement that locks or writes
ALTER FOREIGN TABLE f1 OPTIONS (ADD async_capable 'true');
SELECT is_parallel('SELECT count(*), sum(local(a)) FROM f1 WHERE local(b) < 6');
ALTER SERVER par1 OPTIONS (DROP parallel_scan);
SELECT is_parallel('SELECT count(*), sum(local(a)) FROM f1 WHERE local(b) < 6');
ALTER FOREIGN TABLE f1 OPTIONS (DROP async_capable, ADD parallel_scan 'false');
SELECT is_parallel('SELECT count(*), sum(local(a)) FROM f1 WHERE local(b) < 6');
ALTER FOREIGN TABLE f1 OPTIONS (SET parallel_scan 'true');
SELECT is_parallel('INSERT INTO kept SELECT local(a) FROM f1 WHERE local(b) < 6');
SELECT is_parallel('SELECT local(a) FROM f1 WHERE local(b) < 6 FOR UPDATE');
SELECT is_parallel('SELECT count(*), sum(local(a)) FROM f1 WHERE local(b) < 6');
-- by default with as many workers as the rows are worth
ALTER FOREIGN TABLE f1 OPTIONS (DROP parallel_scan);
SET min_parallel_table_scan_size = '8MB';
SELECT is_parallel('SELECT count(*), sum(local(a)) FROM f1 WHERE local(b) < 6');
SET min_parallel_table_scan_size = '128kB';
SELECT is_parallel('SELECT count(*), sum(local(a)) FROM f1 WHERE local(b) < 6');

-- nothing is left
DO $$ BEGIN FOR i IN 1..600 LOOP EXIT WHEN NOT EXISTS (SELECT FROM rdma.stat_flows); PERFORM pg_sleep(0.1); END LOOP; END $$;
SELECT count(*) FROM rdma.stat_flows;

\set ECHO none
SET client_min_messages = warning;
DROP SCHEMA par CASCADE;
DROP SERVER par1 CASCADE;
DROP SERVER par2 CASCADE;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA par CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA par CASCADE;
