-- Parallel workers of the coordinator read what comes from several nodes: everybody takes batches of whichever node has some.
\set ECHO none
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
\getenv n1 RF_N1_PORT
\getenv n2 RF_N2_PORT
\getenv coord RF_COORD_PORT
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
CREATE SCHEMA npar;
CREATE TABLE npar.p AS SELECT i AS a, i % 10 AS b, 'row ' || i AS c FROM generate_series(1, 40000) i WHERE rdma.hash_node(2, i) = 0;
CREATE TABLE npar.q AS SELECT i AS a, i % 3 AS d FROM generate_series(1, 500) i WHERE rdma.hash_node(2, i) = 0;
CREATE TABLE npar.wide AS SELECT i AS a, 0 AS b, repeat('w', i * 20) AS c FROM generate_series(1, 1000, 2) i;
CREATE TABLE npar.half AS SELECT i AS a, 0 AS b, 'only here' AS c FROM generate_series(1, 20000) i;
CREATE TABLE npar.same AS SELECT i AS a, 'same ' || i AS c FROM generate_series(1, 20000) i;
CREATE VIEW npar.failing AS SELECT * FROM npar.p;
ANALYZE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
CREATE SCHEMA npar;
CREATE TABLE npar.p AS SELECT i AS a, i % 10 AS b, 'row ' || i AS c FROM generate_series(1, 40000) i WHERE rdma.hash_node(2, i) = 1;
CREATE TABLE npar.q AS SELECT i AS a, i % 3 AS d FROM generate_series(1, 500) i WHERE rdma.hash_node(2, i) = 1;
CREATE TABLE npar.wide AS SELECT i AS a, 0 AS b, repeat('w', i * 20) AS c FROM generate_series(2, 1000, 2) i;
CREATE TABLE npar.half (a int, b int, c text);
CREATE TABLE npar.same AS SELECT i AS a, 'same ' || i AS c FROM generate_series(1, 20000) i;
CREATE VIEW npar.failing AS SELECT a, 1 / (20004 - a) AS b, c FROM npar.p;
ANALYZE;
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
CREATE SCHEMA npar;
SET search_path = npar;
CREATE SERVER npar1 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port :'n1', dbname 'contrib_regression', parallel_scan 'true');
CREATE SERVER npar2 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port :'n2', dbname 'contrib_regression', parallel_scan 'true');
CREATE USER MAPPING FOR CURRENT_USER SERVER npar1 OPTIONS (user 'postgres');
CREATE USER MAPPING FOR CURRENT_USER SERVER npar2 OPTIONS (user 'postgres');
CREATE SERVER npar FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'npar1, npar2', parallel_scan 'true');
CREATE FOREIGN TABLE p (a int, b int, c text) SERVER npar OPTIONS (distributed_by 'a');
CREATE FOREIGN TABLE q (a int, d int) SERVER npar OPTIONS (distributed_by 'a');
CREATE FOREIGN TABLE wide (a int, b int, c text) SERVER npar;
CREATE FOREIGN TABLE half (a int, b int, c text) SERVER npar;
CREATE FOREIGN TABLE same (a int, c text) SERVER npar OPTIONS (replicated 'true');
CREATE FOREIGN TABLE failing (a int, b int, c text) SERVER npar;
CREATE FOREIGN TABLE missing (a int, b int, c text) SERVER npar;
CREATE FOREIGN TABLE one (a int, b int, c text) SERVER npar1 OPTIONS (table_name 'half');
CREATE TABLE plain AS SELECT i AS a, i % 10 AS b, 'row ' || i AS c FROM generate_series(1, 40000) i;
CREATE TABLE here AS SELECT i AS a, i % 7 AS d FROM generate_series(1, 20000) i;
ANALYZE p, q, wide, half, same, plain, here;
-- a function that only this node has
CREATE FUNCTION local(int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$ BEGIN RETURN $1; END $$;
CREATE FUNCTION fussy(int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
	IF $1 = 33333 THEN RAISE EXCEPTION 'cannot stand %', $1; END IF;
	RETURN $1;
END $$;
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
-- Are the rows those of the same query over plain tables?
CREATE FUNCTION same_rows(there text, plain text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	l text;
	d text;
	digest text := 'SELECT count(*) || '' '' || coalesce(md5(string_agg(x::text, ''|'' ORDER BY x::text COLLATE "C")), '''') FROM (%s) x';
BEGIN
	EXECUTE format(digest, plain) INTO l;
	EXECUTE format(digest, there) INTO d;
	RETURN l = d;
END $$;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
SET enable_mergejoin = off;
SET enable_nestloop = off;
\pset format unaligned
\pset tuples_only on
\set ECHO all

-- an aggregate, grouping, joins with a local table, a join and groups that the nodes have for themselves
EXPLAIN (VERBOSE, COSTS OFF) SELECT count(*), sum(local(a)), min(c) FROM p WHERE local(b) < 6;
EXPLAIN (COSTS OFF) SELECT count(*), sum(d) FROM p JOIN here USING (a) WHERE local(b) < 6;
EXPLAIN (VERBOSE, COSTS OFF) SELECT count(*), sum(local(p.a)) FROM p JOIN q USING (a) WHERE local(b) < 6;
SELECT count(*), sum(local(a)), min(c) FROM p WHERE local(b) < 6;
CREATE TABLE cases (there text, plain text);
INSERT INTO cases VALUES
	('SELECT count(*), sum(local(a)), min(c) FROM p WHERE local(b) < 6', 'SELECT count(*), sum(a), min(c) FROM plain WHERE b < 6'),
	('SELECT local(b), count(*), sum(a), avg(a), max(c) FROM p GROUP BY local(b)', 'SELECT b, count(*), sum(a), avg(a), max(c) FROM plain GROUP BY b'),
	('SELECT a, c FROM p WHERE local(b) < 6', 'SELECT a, c FROM plain WHERE b < 6'),
	('SELECT p.a, d FROM p JOIN here USING (a) WHERE local(b) < 6', 'SELECT p.a, d FROM plain p JOIN here USING (a) WHERE b < 6'),
	('SELECT p.a, d FROM here LEFT JOIN p ON p.a = here.a * 3 AND local(b) < 6', 'SELECT p.a, d FROM here LEFT JOIN plain p ON p.a = here.a * 3 AND b < 6'),
	('SELECT count(*), sum(local(p.a)), sum(d) FROM p JOIN q USING (a) WHERE local(b) < 6', 'SELECT count(*), sum(a), sum(a % 3) FROM plain WHERE a <= 500 AND b < 6'),
	('SELECT count(*), sum(local(n::int)) FROM (SELECT a, count(*) AS n FROM p GROUP BY a) g JOIN here USING (a)', 'SELECT 20000, 20000'),
	('SELECT count(*), sum(local(a)), sum(length(c)) FROM wide WHERE local(b) = 0', 'SELECT 1000, 500500, 10010000'),
	('SELECT count(*), sum(local(a)) FROM half WHERE local(b) = 0', 'SELECT 20000, 200010000'),
	('SELECT count(*), sum(local(a)), min(c) FROM same WHERE local(a) > 0', 'SELECT 20000, 200010000, ''same 1'''),
	('SELECT count(*), sum(local(a)) FROM p WHERE a = 17 AND local(b) = 7', 'SELECT 1, 17'),
	('SELECT count(*), sum(local(a)) FROM p WHERE b > 10 AND local(b) < 6', 'SELECT 0, NULL');
SELECT is_parallel(there), same_rows(there, plain), left(there, 80) AS query FROM cases;
INSERT INTO cases VALUES
	('SELECT a, d FROM here WHERE EXISTS (SELECT FROM p WHERE p.a = here.a AND local(b) < 3)', 'SELECT a, d FROM here WHERE a % 10 < 3'),
	('SELECT a, c FROM p WHERE NOT EXISTS (SELECT FROM here WHERE p.a = here.a) AND local(b) < 3', 'SELECT a, c FROM plain WHERE a > 20000 AND b < 3');
-- in tiny buffers: batches in many parts; only workers; one worker; the same without any; other values
SET rdma_fdw.receive_buffer_size = '4kB';
SELECT bool_and(same_rows(there, plain)) FROM cases;
SET parallel_leader_participation = off;
SELECT bool_and(same_rows(there, plain)) FROM cases;
SET rdma_fdw.receive_buffers = 1;
SET max_parallel_workers_per_gather = 4;
SELECT bool_and(same_rows(there, plain)) FROM cases;
RESET rdma_fdw.receive_buffers;
RESET rdma_fdw.receive_buffer_size;
SET max_parallel_workers_per_gather = 1;
SELECT bool_and(same_rows(there, plain)) FROM cases;
SET max_parallel_workers = 0;
SELECT bool_and(same_rows(there, plain)) FROM cases;
RESET parallel_leader_participation;
SELECT bool_and(same_rows(there, plain)) FROM cases;
RESET max_parallel_workers;
SET max_parallel_workers_per_gather = 2;
PREPARE up_to(int) AS SELECT count(*), sum(local(a)) FROM p WHERE a <= $1 AND local(b) < 6;
PREPARE key(int) AS SELECT count(*), sum(local(a)) FROM p WHERE a = $1 AND local(b) < 10;
SET plan_cache_mode = force_generic_plan;
EXECUTE up_to(1000);
EXECUTE up_to(2000);
EXECUTE key(17);
EXECUTE key(18);
EXECUTE key(NULL);
RESET plan_cache_mode;

-- the rows per process in EXPLAIN add up
CREATE FUNCTION pulled(query text) RETURNS TABLE (pulled text) LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, VERBOSE, COSTS OFF, SUMMARY OFF) ' || query LOOP
		IF line ~ 'Pulled:|Relations:|Node \w+:' THEN
			RETURN QUERY SELECT trim(regexp_replace(line, ' time=.*', ''));
		ELSIF line ~ 'Shared:' THEN
			RETURN QUERY SELECT format('all batches: %s', sum(m[1]::int)) FROM regexp_matches(line, 'by \w+=(\d+)', 'g') m;
			-- how many workers came in time nobody knows
			IF line ~ 'Shared: workers=2' THEN
				IF substring(line, 'by workers=(\d+)')::int IS DISTINCT FROM substring(line, '\((\d+)\+')::int + substring(line, '\+(\d+)\)')::int THEN
					RAISE '%', line;
				END IF;
			END IF;
		END IF;
	END LOOP;
END $$;
SELECT * FROM pulled('SELECT count(*), sum(local(a)), min(c) FROM p WHERE local(b) < 6');
SELECT * FROM pulled('SELECT count(*), sum(local(p.a)) FROM p JOIN q USING (a) WHERE local(b) < 6');

-- a scan that ends early
SELECT count(*) FROM (SELECT local(a) FROM p WHERE local(b) < 6 LIMIT 5) t;
SELECT count(*) FROM (SELECT local(a) FROM p WHERE local(b) < 6 LIMIT 0) t;
SELECT EXISTS (SELECT FROM p WHERE local(b) < 6);
-- repeated
SET enable_material = off;
SET enable_memoize = off;
SET enable_hashjoin = off;
SELECT x, count(*), sum(t.a) FROM generate_series(1, 3) x
	LEFT JOIN (SELECT local(a) AS a, b FROM p WHERE local(b) < 6 OFFSET 0) t ON t.b + x > 4 GROUP BY x ORDER BY x;
SELECT x, (SELECT count(*) FROM (SELECT a, c FROM p WHERE local(b) < 6 OFFSET 0) t WHERE t.a > x * 10000) FROM generate_series(1, 3) x;
SELECT x, (SELECT count(*) FROM (SELECT a, c FROM p WHERE local(b) < 6 LIMIT 7) t WHERE t.a > -x) FROM generate_series(1, 3) x;
RESET enable_material;
RESET enable_memoize;
RESET enable_hashjoin;
BEGIN;
DECLARE c CURSOR FOR SELECT count(*), sum(local(a)) FROM p WHERE local(b) < 6 GROUP BY b ORDER BY b;
FETCH 2 FROM c;
FETCH ALL FROM c;
SELECT count(*) FROM (SELECT local(a) FROM p WHERE local(b) < 6 LIMIT 5) t;
SELECT count(*), sum(local(a)) FROM p WHERE local(b) < 6;
COMMIT;

\set SHOW_CONTEXT never
-- errors: of one node in the middle, of all at once, of whoever reads the rows
SELECT count(*), sum(local(b)) FROM failing WHERE local(b) < 6;
SELECT count(*), sum(fussy(a)) FROM p WHERE local(b) < 6;
SET parallel_leader_participation = off;
SELECT count(*), sum(fussy(a)) FROM p WHERE local(b) < 6;
RESET parallel_leader_participation;
\set VERBOSITY terse
SELECT count(*), sum(local(a)) FROM missing WHERE local(b) < 6;
\set VERBOSITY default
BEGIN;
SAVEPOINT s;
SELECT count(*), sum(local(b)) FROM failing WHERE local(b) < 6;
ROLLBACK TO s;
SELECT count(*), sum(local(a)) FROM p WHERE local(b) < 6;
COMMIT;
\set SHOW_CONTEXT errors

-- not where something else of the query reads from one of the nodes, or rows move between them; nor when it is forbidden
SELECT is_parallel('SELECT count(*), sum(local(p.a)) FROM p JOIN wide USING (b) WHERE local(p.b) < 6');
SELECT is_parallel('SELECT count(*), sum(local(p.a)) FROM p JOIN one ON local(p.a) = one.a');
SELECT is_parallel('SELECT count(*), sum(local(one.a)) FROM one JOIN p ON local(p.a) = one.a');
SELECT is_parallel('SELECT count(*), sum(local(a)) FROM p WHERE local(b) < (SELECT count(*) FROM half)');
SELECT is_parallel('SELECT local(a) FROM p WHERE local(b) < 6 FOR UPDATE');
ALTER FOREIGN TABLE p OPTIONS (ADD parallel_scan 'false');
SELECT is_parallel('SELECT count(*), sum(local(a)) FROM p WHERE local(b) < 6');
-- by default with as many workers as the rows are worth
ALTER FOREIGN TABLE p OPTIONS (DROP parallel_scan);
ALTER SERVER npar OPTIONS (DROP parallel_scan);
SET min_parallel_table_scan_size = '8MB';
SELECT is_parallel('SELECT count(*), sum(local(a)) FROM p WHERE local(b) < 6');
SET min_parallel_table_scan_size = '128kB';
SELECT is_parallel('SELECT count(*), sum(local(a)) FROM p WHERE local(b) < 6');

-- a function that a worker runs may read from a node itself
CREATE FUNCTION reads(int) RETURNS bigint LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
	RETURN (SELECT sum(a) FROM npar.one WHERE a <= $1 AND npar.local(b) = 0) + (SELECT count(*) FROM npar.p WHERE a <= $1 AND npar.local(b) >= 0);
END $$;
SET parallel_leader_participation = off;
SET min_parallel_table_scan_size = 0;
SELECT count(*), sum(reads(d)) FROM here WHERE a <= 20;
RESET parallel_leader_participation;

-- nothing is left
DO $$ BEGIN FOR i IN 1..600 LOOP EXIT WHEN NOT EXISTS (SELECT FROM rdma.stat_flows); PERFORM pg_sleep(0.1); END LOOP; END $$;
SELECT count(*) FROM rdma.stat_flows;
SET client_min_messages = warning;
DROP SERVER npar, npar1, npar2 CASCADE;
DROP SCHEMA npar CASCADE;
\c contrib_regression postgres 127.0.0.1 :n1
DO $$ BEGIN FOR i IN 1..600 LOOP EXIT WHEN NOT EXISTS (SELECT FROM rdma.stat_flows); PERFORM pg_sleep(0.1); END LOOP; END $$;
SELECT count(*) FROM rdma.stat_flows;
SET client_min_messages = warning;
DROP SCHEMA npar CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
DO $$ BEGIN FOR i IN 1..600 LOOP EXIT WHEN NOT EXISTS (SELECT FROM rdma.stat_flows); PERFORM pg_sleep(0.1); END LOOP; END $$;
SELECT count(*) FROM rdma.stat_flows;
SET client_min_messages = warning;
DROP SCHEMA npar CASCADE;
