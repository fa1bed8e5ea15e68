-- Remote transactions follow the local one: commit, rollback, savepoints, two servers, read-only, isolation, and what cannot be prepared.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
RESET client_min_messages;


DO $$ BEGIN
  EXECUTE format('CREATE SERVER tx1 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host ''127.0.0.1'', port %L, dbname %L)', current_setting('port'), current_database());
  EXECUTE format('CREATE SERVER tx2 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host ''127.0.0.1'', port %L, dbname %L, parallel_commit ''false'', parallel_abort ''false'')',
    current_setting('port'), current_database());
END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER tx1 OPTIONS (user :'USER');
CREATE USER MAPPING FOR CURRENT_USER SERVER tx2 OPTIONS (user :'USER');
CREATE SCHEMA tx_remote;
CREATE SCHEMA tx_here;
SET search_path = tx_here, public;
CREATE TABLE tx_remote.a (k int PRIMARY KEY, v text);
CREATE TABLE tx_remote.b (k int PRIMARY KEY, v text);
CREATE FOREIGN TABLE a (k int, v text) SERVER tx1 OPTIONS (schema_name 'tx_remote');
CREATE FOREIGN TABLE b (k int, v text) SERVER tx2 OPTIONS (schema_name 'tx_remote');
CREATE VIEW state AS SELECT 'a' AS t, count(*), coalesce(sum(k), 0) AS sum FROM tx_remote.a UNION ALL SELECT 'b', count(*), coalesce(sum(k), 0) FROM tx_remote.b ORDER BY 1;

-- commit and rollback of both
BEGIN;
INSERT INTO a VALUES (1, 'one');
INSERT INTO b VALUES (1, 'one');
SELECT (SELECT count(*) FROM a) AS own_a, (SELECT count(*) FROM b) AS own_b, (SELECT sum(count) FROM state) AS others_see;
COMMIT;
SELECT * FROM state;
BEGIN;
INSERT INTO a VALUES (2, 'two');
DELETE FROM b;
UPDATE a SET v = 'changed';
SELECT * FROM a ORDER BY k;
ROLLBACK;
SELECT * FROM state;

-- a statement that fails aborts the transaction on all servers
BEGIN;
INSERT INTO b VALUES (3, 'three');
INSERT INTO a VALUES (1, 'again');
SELECT 1;
COMMIT;
SELECT * FROM state;

-- savepoints, of which only some reach the servers; nested, released, rolled back, rolled back to more than once
BEGIN;
SAVEPOINT s1;
INSERT INTO a VALUES (10, 's1');
SAVEPOINT s2;
SAVEPOINT s3;
INSERT INTO b VALUES (10, 's3');
INSERT INTO a SELECT g, 's3' FROM generate_series(11, 20) g;
ROLLBACK TO s2;
INSERT INTO a VALUES (21, 's2');
RELEASE s2;
SELECT k, v FROM a ORDER BY k;
ROLLBACK TO s1;
SELECT count(*) FROM a;
INSERT INTO b VALUES (22, 's1');
ROLLBACK TO s1;
INSERT INTO b VALUES (23, 's1');
RELEASE s1;
COMMIT;
SELECT * FROM state;
-- an error in a savepoint
BEGIN;
INSERT INTO a VALUES (30, 'kept');
SAVEPOINT s;
INSERT INTO a SELECT 30 - g, 'lost' FROM generate_series(-5, 5) g;
ROLLBACK TO s;
INSERT INTO b VALUES (30, 'kept');
COMMIT;
SELECT * FROM state;
-- exception blocks are savepoints, too; one per iteration
DO $$
BEGIN
  FOR i IN 28..33 LOOP
    BEGIN
      INSERT INTO a VALUES (i, 'loop');
      INSERT INTO b VALUES (i, 'loop');
    EXCEPTION WHEN unique_violation THEN
      RAISE NOTICE '% is there', i;
    END;
  END LOOP;
END $$;
SELECT * FROM state;
-- a load that is under way when a function here fails, and is caught, in the source of its rows
CREATE FUNCTION shaky(i int) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  IF i % 10000 = 0 THEN
    BEGIN
      PERFORM 1 / 0;
    EXCEPTION WHEN division_by_zero THEN
      RETURN 'caught';
    END;
  END IF;
  IF i % 15000 = 0 THEN
    BEGIN
      INSERT INTO a VALUES (-i, 'inner');
      PERFORM count(*) FROM a;
      IF i % 30000 = 0 THEN RAISE EXCEPTION 'no'; END IF;
    EXCEPTION WHEN raise_exception THEN
      RETURN 'rolled back';
    END;
  END IF;
  RETURN 'plain';
END $$;
INSERT INTO a SELECT g, shaky(g) FROM generate_series(1000, 50000) g;
SELECT v, count(*), min(k), max(k) FROM tx_remote.a GROUP BY v ORDER BY v;
DELETE FROM a WHERE k >= 1000 OR k < 0;

-- one snapshot for all scans of a transaction, whatever others commit
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM a;
SELECT count(*) FROM b;
CREATE EXTENSION dblink;
SELECT dblink_exec(format('host=127.0.0.1 port=%s dbname=%s user=%s', current_setting('port'), current_database(), current_user),
  'INSERT INTO tx_remote.a VALUES (500, ''from outside'')');
SELECT count(*) FROM a;
ROLLBACK;
SELECT count(*) FROM a;
-- what the remote transaction is
CREATE VIEW tx_remote.mode AS SELECT current_setting('transaction_isolation') AS isolation, current_setting('transaction_read_only') AS read_only,
  current_setting('transaction_deferrable') AS deferrable;
IMPORT FOREIGN SCHEMA tx_remote LIMIT TO (mode) FROM SERVER tx1 INTO tx_here;
SELECT * FROM mode;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT * FROM mode;
COMMIT;
BEGIN READ ONLY;
SELECT * FROM mode;
INSERT INTO a VALUES (1000, 'x');
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE;
SELECT * FROM mode;
COMMIT;

-- PREPARE TRANSACTION is refused, and leaves nothing
BEGIN;
INSERT INTO a VALUES (600, 'x');
PREPARE TRANSACTION 'rdma';
SELECT * FROM state;

-- a cursor that outlives the statement and the savepoint it was opened in
BEGIN;
SAVEPOINT s;
DECLARE c CURSOR FOR SELECT k FROM a ORDER BY k;
FETCH 2 FROM c;
INSERT INTO a VALUES (700, 'behind the cursor');
RELEASE s;
FETCH 2 FROM c;
ROLLBACK;
-- deferred constraints there are checked at commit, and fail it here
ALTER TABLE tx_remote.b ADD FOREIGN KEY (k) REFERENCES tx_remote.a (k) DEFERRABLE INITIALLY DEFERRED NOT VALID;
BEGIN;
INSERT INTO b VALUES (999, 'no such a');
CREATE TABLE local_too (a int);
COMMIT;
SELECT to_regclass('local_too'), (SELECT count(*) FROM b WHERE k = 999);

SET client_min_messages = warning;
DROP SERVER tx1 CASCADE;
DROP SERVER tx2 CASCADE;
DROP SCHEMA tx_here CASCADE;
DROP SCHEMA tx_remote CASCADE;
