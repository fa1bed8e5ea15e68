-- Batches that come in several buffers, and streams that are cut off in the middle: no row is lost or comes twice, and what cannot be had is an error.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name pieces
\i :two_nodes
-- fewer in a check that has no time for as many
\getenv times RF_TIMES
\if :{?times}
\else
	\set times 20
\endif
\c contrib_regression postgres 127.0.0.1 :n1
CREATE SCHEMA pieces;
CREATE TABLE pieces.fat AS SELECT id, repeat(md5(id::text), 4000) AS t FROM generate_series(1, 60, 2) id;
CREATE TABLE pieces.small AS SELECT id, md5(id::text) AS s FROM generate_series(1, 3000, 2) id;
CREATE TABLE pieces.n AS SELECT i, i * 7 AS v FROM generate_series(1, 200000) i;
ANALYZE;
\c contrib_regression postgres 127.0.0.1 :n2
CREATE SCHEMA pieces;
CREATE TABLE pieces.fat AS SELECT id, repeat(md5(id::text), 4000) AS t FROM generate_series(2, 60, 2) id;
CREATE TABLE pieces.small AS SELECT id, md5(id::text) AS s FROM generate_series(2, 3000, 2) id;
ANALYZE;
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
SET search_path = pieces;
CREATE FOREIGN TABLE fat (id int, t text) SERVER pieces OPTIONS (receive_buffer_size '8kB');
CREATE FOREIGN TABLE small (id int, s text) SERVER pieces OPTIONS (receive_buffer_size '8kB');
CREATE FOREIGN TABLE fat1 (id int, t text) SERVER pieces1 OPTIONS (table_name 'fat', receive_buffer_size '8kB', async_capable 'true');
CREATE FOREIGN TABLE fat2 (id int, t text) SERVER pieces2 OPTIONS (table_name 'fat', receive_buffer_size '8kB', async_capable 'true');
CREATE FOREIGN TABLE n (i int, v int) SERVER pieces1 OPTIONS (inline_limit '0', receive_buffer_size '8kB');
CREATE FUNCTION here(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1; END';

-- Two scans of the same sessions, of which each takes the session from the other while a batch is half here.
CREATE FUNCTION again(query text, times int) RETURNS TABLE (result text, every_time boolean) LANGUAGE plpgsql AS $$
DECLARE
	answer text;
BEGIN
	FOR i IN 1 .. times LOOP
		EXECUTE format('SELECT q::text FROM (%s) q', query) INTO answer;
		IF result IS NOT NULL AND answer <> result THEN
			RETURN QUERY SELECT answer, false;
		END IF;
		result := answer;
	END LOOP;
	RETURN QUERY SELECT result, true;
END $$;
SET rdma_fdw.exchange_strategy = pull;
SELECT * FROM again('SELECT count(*), count(DISTINCT f.id), bool_and(t = repeat(md5(f.id::text), 4000)), bool_and(s = md5(f.id::text))
	FROM fat f JOIN small z ON here(f.id) = here(z.id)', :times);
SELECT * FROM again('SELECT count(*), count(DISTINCT f.id), bool_and(t = repeat(md5(f.id::text), 4000))
	FROM (SELECT * FROM fat1 UNION ALL SELECT * FROM fat2) f JOIN (SELECT * FROM fat1 UNION ALL SELECT * FROM fat2) z USING (id, t)', :times / 2);
RESET rdma_fdw.exchange_strategy;

-- A cursor's stream began in a subtransaction that is rolled back: the rest of the batch goes with its buffers, too.
BEGIN;
DECLARE c CURSOR FOR SELECT i, v FROM n;
SAVEPOINT s;
FETCH 2 FROM c;
ROLLBACK TO s;
SELECT count(*), sum(v - i * 7) FROM (SELECT * FROM n OFFSET 0) x;
FETCH 2 FROM c;
ROLLBACK;

-- The rest of a cursor's rows cannot be stored while another query needs its session: its owner hears of it.
BEGIN;
SET LOCAL temp_file_limit = '64kB';
SET LOCAL work_mem = '64kB';
DECLARE c CURSOR FOR SELECT i, v FROM n;
FETCH 2 FROM c;
DO $$
BEGIN
	PERFORM count(*) FROM pieces.n;
EXCEPTION WHEN configuration_limit_exceeded THEN
	RAISE WARNING '%', replace(sqlerrm, '"', '');
END $$;
RESET temp_file_limit;
SAVEPOINT s;
FETCH FORWARD ALL FROM c;
ROLLBACK TO s;
SELECT count(*) FROM n;
FETCH FORWARD ALL FROM c;
ROLLBACK;
SELECT count(*) FROM n;

DROP SERVER pieces, pieces1, pieces2 CASCADE;
DROP SCHEMA pieces CASCADE;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA pieces CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA pieces CASCADE;
