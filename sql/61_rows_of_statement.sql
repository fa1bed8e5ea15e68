-- Rows that a statement has written so far are seen by whatever looks at them before its end, though they travel in batches:
-- triggers, functions, other parts of the statement. And what follows from when they are written: order, errors, savepoints.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
RESET client_min_messages;

DO $$ BEGIN EXECUTE format(
  'CREATE SERVER seen_srv FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host ''127.0.0.1'', port %L, dbname %L)',
  current_setting('port'), current_database()); END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER seen_srv OPTIONS (user :'USER');
CREATE SCHEMA seen_remote;
CREATE SCHEMA seen;
SET search_path = seen, public;

CREATE TABLE seen_remote.parent (id int PRIMARY KEY, t text);
CREATE TABLE seen_remote.child (id int, pid int REFERENCES seen_remote.parent);
IMPORT FOREIGN SCHEMA seen_remote FROM SERVER seen_srv INTO seen;
CREATE FUNCTION rows_of(what text) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE n bigint; BEGIN EXECUTE 'SELECT count(*) FROM ' || what INTO n; RETURN n; END $$;

-- functions in the source, at rows that are not sent yet and with a flow under way
INSERT INTO parent SELECT i, rows_of('parent') FROM generate_series(1, 4) i;
SELECT * FROM parent ORDER BY id;
INSERT INTO parent SELECT i, CASE WHEN i % 20000 = 0 THEN rows_of('parent') END FROM generate_series(5, 60000) i;
SELECT id, t FROM parent WHERE t IS NOT NULL AND id > 4 ORDER BY id;
UPDATE parent SET t = rows_of('parent WHERE t LIKE ''u%''') WHERE id < 4 AND rows_of('child') = 0;
UPDATE parent SET t = 'u' || rows_of('parent WHERE t LIKE ''u%''') WHERE id < 4;
SELECT * FROM parent WHERE id < 5 ORDER BY id;
DELETE FROM parent WHERE id > 59990 AND rows_of('parent') > 59995;
SELECT count(*), max(id) FROM parent;

-- they write, too
CREATE FUNCTION rewrite(i int) RETURNS int LANGUAGE plpgsql VOLATILE AS $$
BEGIN UPDATE parent SET t = 'after ' || i WHERE id = i - 1; RETURN i; END $$;
CREATE FUNCTION empty_at(i int) RETURNS int LANGUAGE plpgsql VOLATILE AS $$
BEGIN IF i % 10 = 3 THEN DELETE FROM child; END IF; RETURN i; END $$;
INSERT INTO parent SELECT rewrite(i), 'new' FROM generate_series(70001, 70004) i;
SELECT * FROM parent WHERE id > 70000 ORDER BY id;
INSERT INTO child SELECT empty_at(i), 1 FROM generate_series(1, 5) i;
SELECT * FROM child ORDER BY id;

-- connections with rows on their way are in use
CREATE FUNCTION close_at(i int) RETURNS int LANGUAGE plpgsql VOLATILE AS $$
BEGIN IF i % 10 = 3 THEN PERFORM rdma.disconnect('seen_srv'); END IF; RETURN i; END $$;
SELECT rdma.disconnect('seen_srv');
INSERT INTO child SELECT close_at(i), 1 FROM generate_series(11, 15) i;
SELECT count(*) FROM child WHERE id > 10;

-- parts of one statement, in the order in which they run: a remote foreign key holds
TRUNCATE child;
WITH c AS (INSERT INTO child VALUES (1, 80001)) INSERT INTO parent VALUES (80001, 'first');
WITH c AS (INSERT INTO child SELECT i, i % 10 + 80002 FROM generate_series(1, 40000) i)
  INSERT INTO parent SELECT i, 'first' FROM generate_series(80002, 80011) i;
WITH p AS (INSERT INTO parent SELECT i, 'first' FROM generate_series(80012, 80013) i RETURNING id) INSERT INTO child SELECT id, id FROM p;
SELECT count(*), count(DISTINCT pid) FROM child;

-- an error of earlier rows is the statement's, even if it is caught where they were looked at
CREATE FUNCTION look_and_catch(i int) RETURNS int LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF i = -3 THEN
    BEGIN PERFORM rows_of('child'); EXCEPTION WHEN unique_violation THEN RAISE WARNING 'caught'; END;
  END IF;
  RETURN i;
END $$;
\set VERBOSITY terse
INSERT INTO parent SELECT look_and_catch(i), 'twice' FROM unnest('{-1, -1, -3}'::int[]) i;
INSERT INTO parent SELECT look_and_catch(i), 'twice' FROM unnest('{-1, -1, -3, -4, -5}'::int[]) i;
\set VERBOSITY default
SELECT count(*) FROM parent WHERE id < 0;

-- rows written because of a look that is rolled back are not rolled back with it
CREATE FUNCTION look_and_abort(i int) RETURNS int LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  BEGIN
    RAISE WARNING 'sees %', rows_of('parent WHERE id < 0');
    DELETE FROM parent WHERE id < 0;
    RAISE EXCEPTION 'back';
  EXCEPTION WHEN raise_exception THEN RETURN i;
  END;
END $$;
INSERT INTO parent SELECT look_and_abort(i), 'stays' FROM generate_series(-4, -2) i;
SELECT * FROM parent WHERE id < 0 ORDER BY id;
SELECT * FROM seen_remote.parent WHERE id < 0 ORDER BY id;

-- a look after every row: most rows are written one by one until the looks stop
CREATE TABLE seen_remote.many (id int PRIMARY KEY, t bigint);
CREATE FOREIGN TABLE many (id int, t bigint DEFAULT rows_of('many')) SERVER seen_srv OPTIONS (schema_name 'seen_remote');
CREATE FUNCTION written(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
  FOR line IN EXECUTE 'EXPLAIN (ANALYZE, VERBOSE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
    IF line ~ 'Written|Loaded' THEN RETURN NEXT btrim(line); END IF;
  END LOOP;
END $$;
SELECT written('INSERT INTO many SELECT i, rows_of(''many'') FROM generate_series(1, 200) i');
SELECT count(*), count(*) FILTER (WHERE t = id - 1) AS right FROM many;
\set QUIET off
INSERT INTO many SELECT i, rows_of('many') FROM generate_series(191, 210) i ON CONFLICT DO NOTHING;
INSERT INTO many SELECT i, CASE WHEN i < 250 THEN rows_of('many') ELSE i - 1 END FROM generate_series(211, 1000) i;
UPDATE many SET t = rows_of('many WHERE t < 0') - 1000 WHERE id <= 100 AND rows_of('many') = 1000;
DELETE FROM many WHERE id <= 50 AND rows_of('many') > 970;
COPY many (id) FROM PROGRAM 'seq 1001 1100';
COPY many (id) FROM PROGRAM 'seq 1101 1150; echo 1001';
INSERT INTO many SELECT i, rows_of('many') FROM unnest(array_append((SELECT array_agg(i) FROM generate_series(1101, 1150) i), 1002)) i;
\set QUIET on
SELECT count(*), sum(id), count(*) FILTER (WHERE t = id - 1) AS inserted,
       count(*) FILTER (WHERE id > 1000 AND t = id - 31) AS copied, min(t), max(t) FILTER (WHERE id <= 100) FROM many;

-- triggers, of statements and of partitions that are here
CREATE TABLE seen_remote.p1 (a int, b text);
CREATE TABLE seen_remote.p2 (a int, b text);
CREATE TABLE p (a int, b text) PARTITION BY LIST (b);
CREATE FOREIGN TABLE p1 PARTITION OF p FOR VALUES IN ('1') SERVER seen_srv OPTIONS (schema_name 'seen_remote');
CREATE FOREIGN TABLE p2 PARTITION OF p FOR VALUES IN ('2') SERVER seen_srv OPTIONS (schema_name 'seen_remote');
CREATE TABLE p3 PARTITION OF p FOR VALUES IN ('3');
CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE WARNING '% of %: % rows', TG_WHEN, TG_TABLE_NAME, rows_of('seen.p'); RETURN NEW; END $$;
CREATE TRIGGER a AFTER INSERT ON p FOR EACH STATEMENT EXECUTE FUNCTION look();
CREATE TRIGGER b BEFORE INSERT ON p FOR EACH STATEMENT EXECUTE FUNCTION look();
CREATE TRIGGER c BEFORE INSERT ON p3 FOR EACH ROW EXECUTE FUNCTION look();
CREATE TRIGGER d AFTER INSERT ON p3 FOR EACH ROW EXECUTE FUNCTION look();
INSERT INTO p VALUES (1, '1'), (2, '2'), (3, '3'), (4, '1'), (5, '3'), (6, '2');
COPY p FROM stdin (DELIMITER ' ');
1 1
2 2
3 3
4 2
\.
WITH i AS (INSERT INTO p VALUES (7, '2'), (8, '1')) SELECT 'not read' AS i;

-- no part of a statement leaves a row in a partition where it does not belong
UPDATE p SET b = '2' WHERE a = 1;
UPDATE p SET b = '4' WHERE a = 2;
UPDATE p1 SET b = upper('1'), a = -a WHERE a = 4;
UPDATE p SET b = CASE WHEN b = '3' THEN '1' ELSE b END;
INSERT INTO p1 VALUES (9, '2');
COPY p1 FROM stdin (DELIMITER ' ');
9 2
\.
CREATE FUNCTION move() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.b = '2'; RETURN NEW; END $$;
CREATE TRIGGER m BEFORE INSERT ON p1 FOR EACH ROW EXECUTE FUNCTION move();
INSERT INTO p VALUES (9, '1');
DROP TRIGGER m ON p1;
SELECT tableoid::regclass, * FROM p ORDER BY 1, a, b;
-- out of a local partition, into one that the statement does not update
UPDATE p SET b = '1' WHERE b = '3';
SELECT tableoid::regclass, count(*) FROM p GROUP BY 1 ORDER BY 1;

SET client_min_messages = warning;
DROP SERVER seen_srv CASCADE;
DROP SCHEMA seen CASCADE;
DROP SCHEMA seen_remote CASCADE;
