-- A session on a data node keeps memory that it has freed for its next statement (kept_memory of rdma_fdw.disable), up to a limit.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name km
\i :two_nodes
\c contrib_regression postgres 127.0.0.1 :n1
CREATE SCHEMA km;
CREATE TABLE km.t AS SELECT g AS k FROM generate_series(1, 300000) g;
ANALYZE km.t;
\c contrib_regression postgres 127.0.0.1 :coord
CREATE FOREIGN TABLE km.t (k int) SERVER km1;
ANALYZE km.t;
-- memory that the session on the node has, in MB, when a statement with a hash table of 30 MB or so has ended there
CREATE FUNCTION km.afterwards(disabled text) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	PERFORM rdma.run_on('km1', format('SET rdma_fdw.disable = %L', disabled));
	FOR i IN 1 .. 2 LOOP
		PERFORM FROM (SELECT k FROM km.t GROUP BY k HAVING count(*) > 1) s;
	END LOOP;
	RETURN (SELECT (regexp_match(answer, 'VmData:\s+(\d+)'))[1]::int / 1024 FROM rdma.run_on('km1', 'SELECT pg_read_file(''/proc/self/status'')'));
END $$;
SELECT answer FROM rdma.run_on('km1', 'SET work_mem = ''256MB''');
SELECT answer FROM rdma.run_on('km1', 'SET jit = off');
EXPLAIN (VERBOSE, COSTS OFF) SELECT FROM (SELECT k FROM km.t GROUP BY k HAVING count(*) > 1) s;
-- the first run also allocates memory that stays
SELECT km.afterwards('kept_memory') AS first \gset
SELECT km.afterwards('') AS much \gset
SELECT km.afterwards('kept_memory') AS little \gset
SELECT km.afterwards('') AS much_again \gset
SELECT :much - :little BETWEEN 10 AND 64 AS given_back, :much_again - :little BETWEEN 10 AND 64 AS kept_again;
-- and so does the session that reads
CREATE FUNCTION km.afterwards_here(disabled text) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('rdma_fdw.disable', disabled, false);
	FOR i IN 1 .. 2 LOOP
		PERFORM FROM (SELECT k FROM km.t GROUP BY k HAVING count(*) > 1) s;
	END LOOP;
	RETURN (regexp_match(pg_read_file('/proc/self/status'), 'VmData:\s+(\d+)'))[1]::int / 1024;
END $$;
SET work_mem = '256MB';
SET jit = off;
SET rdma_fdw.push_down = scans;
SELECT km.afterwards_here('kept_memory') AS first \gset
SELECT km.afterwards_here('') AS much \gset
SELECT km.afterwards_here('kept_memory') AS little \gset
SELECT km.afterwards_here('') AS much_again \gset
SELECT :much - :little BETWEEN 10 AND 64 AS given_back, :much_again - :little BETWEEN 10 AND 64 AS kept_again;

SET client_min_messages = warning;
SELECT rdma.run_on('km', 'DROP SCHEMA IF EXISTS km CASCADE') IS NOT NULL;
SET rdma_fdw.propagate_ddl = off;
DROP SCHEMA km CASCADE;
DROP SERVER km, km1, km2 CASCADE;
