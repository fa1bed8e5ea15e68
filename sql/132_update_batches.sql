-- UPDATE and DELETE of many rows that are found again by ctid: in column batches, counted as the data node does, the rows as those of a
-- local table. How each row is found is in 62_update_delete.
\set ECHO none
\getenv tree PG_ABS_SRCDIR
\set loopback :tree '/test/setup/loopback.sql'
\set name mod
-- batches are counted: none is sent before it is full because a machine is slow
\set options '-c rdma_fdw.flush_time=1h'
\i :loopback
CREATE FUNCTION here(x int) RETURNS int LANGUAGE plpgsql VOLATILE AS $$ BEGIN RETURN x + 1; END $$;
CREATE TABLE mod_remote.m (id int PRIMARY KEY, t varchar(120), n numeric, v int8, g int GENERATED ALWAYS AS (id * 2) STORED);
CREATE FOREIGN TABLE m (id int, t text, n numeric, v int, g int GENERATED ALWAYS AS (id * 2) STORED) SERVER mod_srv OPTIONS (schema_name 'mod_remote');
CREATE TABLE lm (LIKE m INCLUDING GENERATED);
INSERT INTO lm (id, t, n, v) SELECT i, repeat('x', i % 100), i / 3.0, i FROM generate_series(1, 5000) i;
INSERT INTO m (id, t, n, v) SELECT id, t, n, v FROM lm;
CREATE FUNCTION both_m(statement text) RETURNS text LANGUAGE sql AS $$ SELECT both_ways(statement, 'lm', 'm') $$;
CREATE FUNCTION mod_remote.odd() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.id % 2 = 0 THEN RETURN NULL; END IF;
  NEW.v := (SELECT count(*) FROM mod_remote.m WHERE v < 0);
  NEW.v := -1 - NEW.v;
  RETURN NEW;
END $$;
\pset format unaligned
\pset tuples_only on
\set ECHO all

-- inline and by flow
SELECT both_m('UPDATE TABLE_ SET v = here(v), t = t || id');
SELECT both_m('UPDATE TABLE_ SET t = NULL, n = n * here(id) WHERE here(id) % 3 = 0');
SET rdma_fdw.inline_limit = 0;
SET rdma_fdw.receive_buffer_size = '4kB';
SELECT both_m('UPDATE TABLE_ SET v = here(v), t = t || id');
SELECT both_m('UPDATE TABLE_ SET id = -here(id)');
RESET rdma_fdw.receive_buffer_size;
SELECT both_m('DELETE FROM TABLE_ WHERE here(id) % 5 = 0');
RESET rdma_fdw.inline_limit;
-- The places of rows after so many updates differ by version, and so how full the batches are; not so when they are in order.
CLUSTER mod_remote.m USING m_pkey;
SELECT analyzed('UPDATE m SET v = here(v) WHERE id % 2 = 0');
SELECT analyzed('DELETE FROM m WHERE here(id) % 2 = 0 AND id > -1000');
UPDATE lm SET v = here(v) WHERE id % 2 = 0;
DELETE FROM lm WHERE here(id) % 2 = 0 AND id > -1000;
-- a row that comes twice is written, and counted, once
SELECT both_m('UPDATE TABLE_ SET v = 7 + (k * 0) FROM (VALUES (1), (2)) k(k) WHERE here(id) % 7 = 0');
SELECT both_m('DELETE FROM TABLE_ USING (VALUES (1), (2)) k(k) WHERE here(id) % 11 = 0');
-- in one statement with others, in a CTE, by two tables that take turns on one session
WITH u AS (UPDATE m SET v = here(v) WHERE v % 2 = 0) DELETE FROM m WHERE here(id) % 13 = 0 AND v % 2 <> 0;
DELETE FROM lm WHERE here(id) % 13 = 0 AND v % 2 <> 0;
UPDATE lm SET v = here(v) WHERE v % 2 = 0;
SELECT same('lm', 'm');
CREATE TABLE both_parts (LIKE m INCLUDING GENERATED);
CREATE TABLE mod_remote.m2 (LIKE mod_remote.m INCLUDING ALL);
CREATE FOREIGN TABLE m2 (id int, t text, n numeric, v int, g int GENERATED ALWAYS AS (id * 2) STORED) SERVER mod_srv OPTIONS (schema_name 'mod_remote');
INSERT INTO m2 (id, t, n, v) SELECT id + 100000, t, n, v FROM lm;
INSERT INTO lm (id, t, n, v) SELECT id + 100000, t, n, v FROM lm;
ALTER FOREIGN TABLE m INHERIT both_parts;
ALTER FOREIGN TABLE m2 INHERIT both_parts;
UPDATE both_parts p SET v = here(p.v) FROM (VALUES (-2), (99998), (-4)) x(i) WHERE p.id = x.i;
UPDATE lm p SET v = here(p.v) FROM (VALUES (-2), (99998), (-4)) x(i) WHERE p.id = x.i;
UPDATE both_parts SET t = here(v) WHERE id % 3 = 0;
UPDATE lm SET t = here(v) WHERE id % 3 = 0;
DELETE FROM both_parts WHERE here(id) % 17 = 0;
DELETE FROM lm WHERE here(id) % 17 = 0;
SELECT same('lm', 'both_parts');
ALTER FOREIGN TABLE m NO INHERIT both_parts;
ALTER FOREIGN TABLE m2 NO INHERIT both_parts;
DELETE FROM m2 WHERE here(1) = 2;
SELECT count(*) FROM m2;
-- what a trigger there does: drops a row, looks at those before
CREATE TRIGGER odd BEFORE UPDATE ON mod_remote.m FOR EACH ROW EXECUTE FUNCTION mod_remote.odd();
DO $$
DECLARE counted bigint; expected bigint;
BEGIN
  SELECT count(*) INTO expected FROM mod_remote.m WHERE id % 2 <> 0;
  UPDATE m SET v = here(v);
  GET DIAGNOSTICS counted = ROW_COUNT;
  RAISE NOTICE 'counted right: %, one after the other: %', counted = expected,
    (SELECT array_agg(v ORDER BY v DESC) = (SELECT array_agg(-i) FROM generate_series(1, counted::int) i) FROM (SELECT v FROM m WHERE v < 0 OFFSET 0) m);
END $$;
DROP TRIGGER odd ON mod_remote.m;
-- an error in the middle undoes the whole statement, and nothing else
BEGIN;
UPDATE m SET n = here(1);
SAVEPOINT s;
\set SHOW_CONTEXT never
UPDATE m SET t = repeat('long', here(CASE WHEN id % 10 = 0 THEN 100 ELSE 0 END));
\set SHOW_CONTEXT errors
ROLLBACK TO s;
SELECT count(*) FILTER (WHERE n <> 2), count(*) FILTER (WHERE t LIKE 'long%') FROM m;
COMMIT;
-- row by row if asked for
ALTER FOREIGN TABLE m OPTIONS (ADD batch_size '1');
SELECT analyzed('UPDATE m SET v = here(v) WHERE id = -2');
ALTER FOREIGN TABLE m OPTIONS (SET batch_size '100');
-- the table there changed since
ALTER TABLE mod_remote.m RENAME COLUMN n TO renamed;
SELECT sum(n) FROM m;
UPDATE m SET n = here(3) WHERE id = -2;
INSERT INTO m (id, n) VALUES (1, 1);
ALTER TABLE mod_remote.m RENAME COLUMN renamed TO n;
SELECT count(v) FROM (SELECT v FROM m OFFSET 0) x;
ALTER TABLE mod_remote.m ALTER v TYPE date USING '2020-01-01';
SELECT count(v) FROM (SELECT v FROM m OFFSET 0) x;
\set SHOW_CONTEXT never
UPDATE m SET v = here(1) WHERE id = -2;
UPDATE m SET v = here(v);
\set SHOW_CONTEXT errors

\set ECHO none
SET client_min_messages = warning;
DROP SERVER mod_srv CASCADE;
DROP SCHEMA mod_here CASCADE;
DROP SCHEMA mod_remote CASCADE;
