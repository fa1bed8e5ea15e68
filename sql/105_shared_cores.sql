-- Nodes on one machine share its cores: with rdma_fdw.cores as many as there are nodes none has workers, but for one that makes more rows than others.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name sc
\i :two_nodes
\c contrib_regression postgres 127.0.0.1 :n1
CREATE SCHEMA sc;
CREATE TABLE sc.a (id int, k int);
CREATE TABLE sc.b (id int, aid int);
CREATE TABLE sc.far AS SELECT i AS id, i % 3100 AS aid FROM generate_series(1, 12000) i;
-- which process looked at the row?
CREATE FUNCTION sc.process(id int) RETURNS text LANGUAGE plpgsql VOLATILE PARALLEL SAFE AS $$ BEGIN RETURN backend_type FROM pg_stat_activity WHERE pid = pg_backend_pid(); END $$;
CREATE VIEW sc.seen AS SELECT id, sc.process(id) AS process FROM sc.a WHERE id % 10 = 0;
\c contrib_regression postgres 127.0.0.1 :n2
CREATE SCHEMA sc;
CREATE TABLE sc.a (id int, k int);
CREATE TABLE sc.b (id int, aid int);
CREATE TABLE sc.far (id int, aid int);
CREATE FUNCTION sc.process(id int) RETURNS text LANGUAGE plpgsql VOLATILE PARALLEL SAFE AS $$ BEGIN RETURN backend_type FROM pg_stat_activity WHERE pid = pg_backend_pid(); END $$;
CREATE VIEW sc.seen AS SELECT id, sc.process(id) AS process FROM sc.a WHERE id % 10 = 0;
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
CREATE SCHEMA sc;
CREATE FOREIGN TABLE sc.a (id int, k int) SERVER sc OPTIONS (distributed_by 'id');
CREATE FOREIGN TABLE sc.b (id int, aid int) SERVER sc OPTIONS (distributed_by 'id');
CREATE FOREIGN TABLE sc.far (id int, aid int) SERVER sc;
CREATE FOREIGN TABLE sc.seen (id int, process text) SERVER sc;
CREATE FOREIGN TABLE sc.seen_by_one (id int, process text) SERVER sc1 OPTIONS (table_name 'seen');
INSERT INTO sc.a SELECT i, i % 1997 FROM generate_series(1, 6000) i;
INSERT INTO sc.b SELECT i, i % 3100 FROM generate_series(1, 12000) i;
SELECT DISTINCT answer FROM rdma.run_on('sc', 'ANALYZE');
ANALYZE sc.a, sc.b, sc.far;
CREATE FUNCTION sc.on_nodes(VARIADIC commands text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE command text;
BEGIN
	FOREACH command IN ARRAY commands LOOP
		PERFORM rdma.run_on('sc', command);
	END LOOP;
END $$;
-- the leaders of workers read nothing
SELECT sc.on_nodes('SET max_parallel_workers_per_gather = 2', 'SET parallel_setup_cost = 0', 'SET parallel_tuple_cost = 0', 'SET min_parallel_table_scan_size = 0', 'SET parallel_leader_participation = off');

-- a statement that each node runs for itself
SELECT sc.on_nodes('SET rdma_fdw.cores = 64');
SELECT process, count(*) FROM sc.seen GROUP BY 1;
SELECT sc.on_nodes('SET rdma_fdw.cores = 2');
SELECT process, count(*) FROM sc.seen GROUP BY 1;
SELECT sc.on_nodes('SET rdma_fdw.cores = 6');
SELECT process, count(*) FROM sc.seen GROUP BY 1;
-- where one node runs it, that has all cores, in the same session, too
SELECT sc.on_nodes('SET rdma_fdw.cores = 2');
SELECT process, count(*) > 0 AS some FROM sc.seen_by_one GROUP BY 1;
SELECT process, count(*) FROM sc.seen GROUP BY 1;

-- one whose nodes exchange rows: those that shared memory connects, as each knows of the others
CREATE FUNCTION sc.senders(query text, pattern text) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE line text; found text[] = '{}';
BEGIN
	SET LOCAL rdma_fdw.exchange_strategy = repartition_both;
	SET LOCAL rdma_fdw.disable = exchange_filters;
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF) ' || query LOOP
		IF line ~ 'taken per process=' AND line ~ pattern THEN
			found = found || substring(line FROM ' on (\w+)');
		END IF;
	END LOOP;
	RETURN found;
END $$;
SELECT sc.on_nodes('SET parallel_leader_participation = on', 'SET parallel_tuple_cost = 0.1');
SELECT sc.senders('SELECT count(*) FROM sc.a JOIN sc.b ON a.k = b.aid', ' shm');
SELECT 'sc1' = ANY (sc.senders('SELECT count(*) FROM sc.a JOIN sc.far ON a.k = far.aid', '')) AS sends_more;
SELECT 'sc2' = ANY (sc.senders('SELECT count(*) FROM sc.a JOIN sc.far ON a.k = far.aid', ' shm')) AS sends_less;
SELECT count(*), count(*) = (SELECT count(*) FROM generate_series(1, 6000) a JOIN generate_series(1, 12000) b ON a % 1997 = b % 3100) AS all FROM sc.a JOIN sc.far ON a.k = far.aid;
DROP SCHEMA sc CASCADE;
DROP SERVER sc, sc1, sc2 CASCADE;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA sc CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA sc CASCADE;
