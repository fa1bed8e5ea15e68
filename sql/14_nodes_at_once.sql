-- UPDATE, DELETE, TRUNCATE and rdma.run_on run on all nodes at the same time: rows, errors and counts are those of the nodes in
-- their order, whichever answers first.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name once
\i :two_nodes
CREATE TABLE d (k int PRIMARY KEY, v int CONSTRAINT small CHECK (v < 1000));
INSERT INTO d SELECT i, i FROM generate_series(1, 20) i;
CREATE TABLE c (k int PRIMARY KEY, v int);
INSERT INTO c SELECT i, i FROM generate_series(1, 5) i;
SELECT rdma.distribute_table('d', 'once', 'k');
SELECT rdma.distribute_table('c', 'once', replicated => true);
RESET client_min_messages;

-- rows come in the order of the nodes, and all of them
UPDATE d SET v = v + 100 RETURNING rdma.hash_node(2, k) AS node, k, v;
-- 18 gives fractions of rows
CREATE FUNCTION analyzed(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
  FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || statement LOOP
    RETURN NEXT regexp_replace(line, '(actual rows=[0-9]+)[.]00', '\1');
  END LOOP;
END $$;
SELECT analyzed('UPDATE d SET v = v + 1');
SELECT count(*), sum(v) FROM d;
PREPARE add(int, int) AS UPDATE d SET v = v + $1 WHERE k % $2 = 0;
EXECUTE add(1, 2);
EXECUTE add(1, 2);
EXECUTE add(1, 2);
EXECUTE add(1, 100);
SELECT count(*), sum(v) FROM d;
UPDATE c SET v = v * 2 WHERE k > 2 RETURNING k, v;
DELETE FROM d WHERE k > 15;
DELETE FROM c WHERE k = 1 RETURNING *;
SELECT sum(rows), bool_or(differs) FROM rdma.check_distribution('c');

-- the first node's error, although both have one
SELECT rdma.run_on('once1', 'ALTER TABLE once.d RENAME CONSTRAINT small TO first');
SELECT rdma.run_on('once2', 'ALTER TABLE once.d RENAME CONSTRAINT small TO second');
\set VERBOSITY terse
UPDATE d SET v = 5000;
-- and that of the second, if it is the only one; nothing was written on the first
BEGIN;
SAVEPOINT a;
UPDATE d SET v = CASE WHEN rdma.hash_node(2, k) = 1 THEN 5000 ELSE 0 END;
ROLLBACK TO a;
SELECT count(*), min(v) > 0 FROM d;
UPDATE d SET v = 7;
COMMIT;
SELECT DISTINCT v FROM d;
-- a slow node does not keep the other one's error: the first would need an hour
SELECT rdma.run_on('once1', $$CREATE FUNCTION once.wait() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(3600); RETURN NULL; END'$$);
SELECT rdma.run_on('once1', 'CREATE TRIGGER wait AFTER UPDATE ON once.d EXECUTE FUNCTION once.wait()');
DO $$
BEGIN
	UPDATE once.d SET v = 6000 WHERE rdma.hash_node(2, k) = 1;
EXCEPTION WHEN check_violation THEN
	RAISE NOTICE 'refused by a node: %', SQLERRM;
END $$;
-- both sessions are of use afterwards
SELECT rdma.run_on('once1', 'DROP TRIGGER wait ON once.d');
UPDATE d SET v = v + 1;
SELECT DISTINCT v FROM d;

-- commands: answers and errors in the order of the nodes
SELECT * FROM rdma.run_on('once', 'SELECT count(*) > 0 FROM once.d');
SELECT * FROM rdma.run_on('once', 'VACUUM once.d');
SELECT * FROM rdma.run_on('once', 'SHOW search_path');
SELECT * FROM rdma.run_on('once', 'SELECT 1; SELECT 2');
SELECT * FROM rdma.run_on('once', 'UPDATE once.d SET v = 5000');
SELECT * FROM rdma.run_on('once', 'VACUUM once.absent');
SELECT * FROM rdma.run_on('once', 'COPY once.d TO STDOUT');
SELECT * FROM rdma.run_on('once', 'COPY once.d FROM STDIN');
SELECT * FROM rdma.run_on('once', 'SELECT count(*) > 0 FROM once.d');
TRUNCATE d, c;
SELECT count(*) FROM d;
SELECT sum(rows) FROM rdma.check_distribution('c');

\set VERBOSITY default
SET client_min_messages = error;
DROP SCHEMA once CASCADE;
SELECT count(*) FROM rdma.run_on('once', 'DROP SCHEMA once CASCADE');
DROP SERVER once, once1, once2 CASCADE;
