-- UPDATE, DELETE and TRUNCATE of foreign tables: every statement runs on a local table, too, and the rows must stay the same.
\set ECHO none
\getenv tree PG_ABS_SRCDIR
\set loopback :tree '/test/setup/loopback.sql'
\set name mod
-- batches are counted: none is sent before it is full because a machine is slow
\set options '-c rdma_fdw.flush_time=1h'
\i :loopback

CREATE TABLE mod_remote.t (a int PRIMARY KEY, b text, c numeric, d date, e int[]);
CREATE FOREIGN TABLE t (a int, b text, c numeric, d date, e int[]) SERVER mod_srv OPTIONS (schema_name 'mod_remote');
CREATE TABLE l (a int PRIMARY KEY, b text, c numeric, d date, e int[]);
INSERT INTO l SELECT g, 'row ' || g, g * 1.5, date '2020-01-01' + g, ARRAY[g, NULL] FROM generate_series(1, 1000) g;
INSERT INTO t SELECT * FROM l;
CREATE TABLE other (k int, v text);
INSERT INTO other SELECT g, 'other ' || g FROM generate_series(1, 1000, 7) g;
CREATE FUNCTION here(x int) RETURNS int LANGUAGE plpgsql VOLATILE AS $$ BEGIN RETURN x + 1; END $$;
CREATE FUNCTION both_p(statement text) RETURNS text LANGUAGE sql AS $$ SELECT both_ways(statement, 'lp', 'p') $$;
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_LEVEL = 'STATEMENT' THEN RAISE NOTICE '% % %', TG_WHEN, TG_OP, TG_LEVEL; RETURN NULL; END IF;
  RAISE NOTICE '% % % -> %', TG_WHEN, TG_OP, (OLD).b, CASE TG_OP WHEN 'UPDATE' THEN (NEW).b END;
  IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
  IF TG_WHEN = 'BEFORE' THEN NEW.c := -1; END IF;
  RETURN NEW;
END $$;
-- a partitioned table there, also below a partition and elsewhere
CREATE TABLE mod_remote.p (k int, t text) PARTITION BY LIST (k);
CREATE TABLE mod_remote.p1 PARTITION OF mod_remote.p FOR VALUES IN (1);
CREATE TABLE mod_remote.p2 (t text, dropped int, k int);
ALTER TABLE mod_remote.p2 DROP dropped;
ALTER TABLE mod_remote.p ATTACH PARTITION mod_remote.p2 FOR VALUES IN (2);
CREATE TABLE mod_remote.p3 PARTITION OF mod_remote.p FOR VALUES IN (3, 4) PARTITION BY LIST (k);
CREATE TABLE mod_remote.p3_3 PARTITION OF mod_remote.p3 FOR VALUES IN (3);
CREATE TABLE mod_remote.p3_4 PARTITION OF mod_remote.p3 FOR VALUES IN (4);
CREATE TABLE mod_remote.far (k int, t text);
CREATE FOREIGN TABLE mod_remote.p5 PARTITION OF mod_remote.p FOR VALUES IN (5) SERVER mod_srv OPTIONS (schema_name 'mod_remote', table_name 'far');
CREATE FOREIGN TABLE p (k int, t text) SERVER mod_srv OPTIONS (schema_name 'mod_remote');
CREATE TABLE lp (k int, t text);
INSERT INTO lp SELECT k, k || ' ' || i FROM generate_series(1, 5) k, generate_series(1, 40) i;
INSERT INTO p SELECT * FROM lp;
\pset format unaligned
\pset tuples_only on
\set ECHO all

-- the data node does all the work
EXPLAIN (VERBOSE, COSTS OFF) UPDATE t SET b = b || '!', c = c + 1 WHERE a < 10;
EXPLAIN (VERBOSE, COSTS OFF) DELETE FROM t WHERE a > 900 RETURNING a, b;
EXPLAIN (VERBOSE, COSTS OFF) UPDATE t SET c = DEFAULT, e = ARRAY[a, 2] WHERE d = '2020-01-05';
SELECT both_ways($$UPDATE TABLE_ SET b = b || '!', c = c + 1 WHERE a < 10$$);
SELECT both_ways($$UPDATE TABLE_ SET c = DEFAULT, e = ARRAY[a, 2] WHERE d = '2020-01-05'$$);
SELECT both_ways($$UPDATE TABLE_ SET b = NULL WHERE a % 100 = 0$$);
SELECT both_ways($$DELETE FROM TABLE_ WHERE a > 990$$);
SELECT both_ways($$UPDATE TABLE_ SET b = 'none' WHERE false$$);
UPDATE t SET b = 'returned', c = 2.50 WHERE a IN (20, 21) RETURNING *;
UPDATE l SET b = 'returned', c = 2.50 WHERE a IN (20, 21);
-- new values are not computed again from what is returned
UPDATE t SET c = 10 / c WHERE a = 20 RETURNING a, round(c, 3);
UPDATE t SET c = 0 / c WHERE a = 20 RETURNING a, round(c, 3);
UPDATE l SET c = 10 / c WHERE a = 20;
UPDATE l SET c = 0 / c WHERE a = 20;
UPDATE t SET b = 'x' WHERE a = 22 RETURNING 'nothing of the row', tableoid::regclass;
UPDATE l SET b = 'x' WHERE a = 22;
DELETE FROM t WHERE a = 23 RETURNING t;
DELETE FROM l WHERE a = 23;
SELECT same('l', 't');
PREPARE up(int, text) AS UPDATE t SET b = $2 WHERE a = $1;
EXECUTE up(30, 'prepared');
SET plan_cache_mode = force_generic_plan;
EXPLAIN (VERBOSE, COSTS OFF) EXECUTE up(31, 'generic');
EXECUTE up(31, 'generic');
UPDATE l SET b = CASE a WHEN 30 THEN 'prepared' ELSE 'generic' END WHERE a IN (30, 31);
SELECT same('l', 't');

-- A parameter has the type that it has here, not the one that the data node would find for it.
PREPARE wide(bigint) AS DELETE FROM t WHERE a = $1;
EXPLAIN (VERBOSE, COSTS OFF) EXECUTE wide(5000000000);
EXECUTE wide(5000000000);
PREPARE fraction(numeric) AS UPDATE t SET b = 'fraction' WHERE a * $1 = 45;
EXPLAIN (VERBOSE, COSTS OFF) EXECUTE fraction(1.5);
EXECUTE fraction(1.5);
EXPLAIN (VERBOSE, COSTS OFF) UPDATE t SET b = CASE WHEN a > 31 THEN jsonb_build_object('x', 'y') ELSE jsonb_build_object('x', 'z') END ->> 'x' WHERE a IN (31, 32);
UPDATE t SET b = CASE WHEN a > 31 THEN jsonb_build_object('x', 'y') ELSE jsonb_build_object('x', 'z') END ->> 'x' WHERE a IN (31, 32);
RESET plan_cache_mode;
UPDATE l SET b = CASE a WHEN 30 THEN 'fraction' WHEN 31 THEN 'z' ELSE 'y' END WHERE a IN (30, 31, 32);
SELECT same('l', 't');
SELECT analyzed('UPDATE t SET b = b WHERE a < 5');

-- rows that are found again by ctid: conditions or values that only this node can evaluate, joins, sub-selects
EXPLAIN (VERBOSE, COSTS OFF) UPDATE t SET c = here(a) WHERE a < 10;
EXPLAIN (VERBOSE, COSTS OFF) DELETE FROM t WHERE here(a) = 50;
-- a parameter of a function that takes any array
SELECT both_ways('UPDATE TABLE_ SET b = cardinality(ARRAY(SELECT k FROM other))::text WHERE a % 100 = cardinality(ARRAY(SELECT 1 FROM other WHERE k < 60))');
SELECT both_ways($$UPDATE TABLE_ SET c = here(a) WHERE a < 10$$);
SELECT both_ways($$DELETE FROM TABLE_ WHERE here(a) = 50$$);
SELECT both_ways($$UPDATE TABLE_ x SET b = o.v FROM other o WHERE o.k = x.a AND x.a < 500$$);
SELECT both_ways($$DELETE FROM TABLE_ x USING other o WHERE o.k = x.a AND x.a > 800$$);
SELECT both_ways($$UPDATE TABLE_ SET b = (SELECT max(v) FROM other WHERE k <= a) WHERE a BETWEEN 100 AND 120$$);
SELECT both_ways($$DELETE FROM TABLE_ WHERE a IN (SELECT k + 1 FROM other WHERE k BETWEEN 100 AND 200)$$);
SELECT both_ways($$UPDATE TABLE_ SET (b, c) = (SELECT v, k FROM other WHERE k = a) WHERE a BETWEEN 40 AND 60$$);
UPDATE t SET b = 'seen', c = here(a) WHERE a IN (60, 61) RETURNING a, b, c;
UPDATE l SET b = 'seen', c = here(a) WHERE a IN (60, 61);
DELETE FROM t USING other o WHERE o.k = t.a AND t.a BETWEEN 60 AND 80 RETURNING t.a, o.v;
DELETE FROM l USING other o WHERE o.k = l.a AND l.a BETWEEN 60 AND 80;
WITH gone AS (DELETE FROM t WHERE a BETWEEN 700 AND 705 RETURNING a) SELECT sum(a) FROM gone;
DELETE FROM l WHERE a BETWEEN 700 AND 705;
SELECT both_ways($$UPDATE TABLE_ SET a = a + 10000 WHERE here(a) % 2 = 0 AND a > 500$$);
SELECT same('l', 't');

-- WHERE CURRENT OF has no counterpart
BEGIN;
DECLARE cur CURSOR FOR SELECT * FROM t;
FETCH cur;
UPDATE t SET b = 'cursor' WHERE CURRENT OF cur;
ROLLBACK;
SELECT ctid = (SELECT ctid FROM mod_remote.t WHERE a = 1) AS same FROM t WHERE a = 1;
UPDATE t SET b = 'by ctid' WHERE ctid = (SELECT ctid FROM t WHERE a = 1) RETURNING a, b;
UPDATE l SET b = 'by ctid' WHERE a = 1;
UPDATE t SET ctid = '(0,1)';

-- errors there
UPDATE t SET a = 1 WHERE a = 2;
\set SHOW_CONTEXT never
UPDATE t SET a = here(0) WHERE a IN (3, 5);
UPDATE t SET a = here(a) WHERE a = 3;
\set SHOW_CONTEXT errors
DO $$
DECLARE context text;
BEGIN
  UPDATE t SET a = here(0) WHERE a IN (3, 5);
EXCEPTION WHEN unique_violation THEN
  GET STACKED DIAGNOSTICS context = PG_EXCEPTION_CONTEXT;
  RAISE NOTICE 'row named: %, command named: %', context ~ 'row \(\d+,\d+\) of "mod_remote.t"', context ~ 'remote SQL command on server "\w+": UPDATE mod_remote.t';
END $$;
DELETE FROM t WHERE 1 / (a - 1) = 5;
UPDATE t SET c = 1 / (a - 1) WHERE a = 1;
SELECT same('l', 't');

-- views with check options, triggers here
CREATE VIEW small AS SELECT * FROM t WHERE a < 100 WITH CHECK OPTION;
UPDATE small SET b = 'by view' WHERE a = 10;
UPDATE small SET a = a + 5000 WHERE a = 10;
UPDATE l SET b = 'by view' WHERE a = 10;
CREATE TRIGGER b BEFORE UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER a AFTER UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER s AFTER UPDATE OR DELETE ON t FOR EACH STATEMENT EXECUTE FUNCTION note();
EXPLAIN (VERBOSE, COSTS OFF) UPDATE t SET b = 'triggered' WHERE a = 11;
UPDATE t SET b = 'triggered' WHERE a = 11;
DELETE FROM t WHERE a = 12;
DROP TRIGGER b ON t;
DROP TRIGGER a ON t;
DROP TRIGGER s ON t;
UPDATE l SET b = 'triggered', c = -1 WHERE a = 11;
DELETE FROM l WHERE a = 12;
SELECT same('l', 't');

-- a BEFORE trigger there changes what is stored, and RETURNING tells
CREATE FUNCTION mod_remote.change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.b := NEW.b || ' (changed)'; RETURN NEW; END $$;
CREATE TRIGGER change BEFORE UPDATE ON mod_remote.t FOR EACH ROW EXECUTE FUNCTION mod_remote.change();
UPDATE t SET b = 'new' WHERE a = 14 RETURNING b;
UPDATE t SET b = 'new', c = here(1) WHERE a = 14 RETURNING b;
DROP TRIGGER change ON mod_remote.t;
UPDATE l SET b = 'new (changed)', c = 2 WHERE a = 14;
SELECT same('l', 't');

-- generated columns
CREATE TABLE mod_remote.g (a int, b int GENERATED ALWAYS AS (a * 2) STORED);
CREATE FOREIGN TABLE g (a int, b int GENERATED ALWAYS AS (a * 2) STORED) SERVER mod_srv OPTIONS (schema_name 'mod_remote');
INSERT INTO g (a) VALUES (1), (2);
EXPLAIN (VERBOSE, COSTS OFF) UPDATE g SET a = a + 10 WHERE a = 1;
UPDATE g SET a = a + 10 WHERE a = 1 RETURNING *;
UPDATE g SET b = DEFAULT;
SELECT * FROM g ORDER BY a;

-- inheritance: a foreign table as a child, and row security and leaky conditions stay here
CREATE TABLE parent (a int, b text, c numeric, d date, e int[]);
INSERT INTO parent VALUES (1, 'parent');
ALTER FOREIGN TABLE t INHERIT parent;
EXPLAIN (VERBOSE, COSTS OFF) UPDATE parent SET b = 'inherited' WHERE a = 1;
UPDATE parent SET b = 'inherited' WHERE a = 1 RETURNING tableoid::regclass, a, b;
DELETE FROM parent WHERE a = 1 RETURNING tableoid::regclass, a;
ALTER FOREIGN TABLE t NO INHERIT parent;
DELETE FROM l WHERE a = 1;
SELECT same('l', 't');

-- rows of a partitioned table there: those of all partitions are at the same places
SELECT count(*), count(DISTINCT ctid) FROM p;
-- a node that writes on others does not prepare transactions
SET rdma_fdw.commit = best_effort;
-- in batches, one by one, and joined with rows that are here
SELECT both_p($$UPDATE TABLE_ SET t = t || ' changed ' || here(k) WHERE t LIKE '_ 7' OR k = 1$$);
SELECT both_p($$DELETE FROM TABLE_ WHERE here(k) = 4 AND t LIKE '% 1_'$$);
SELECT both_p($$UPDATE TABLE_ x SET t = x.t || o.v FROM other o WHERE o.k % 5 = x.k AND o.k < 30$$);
SELECT both_p($$DELETE FROM TABLE_ x USING other o WHERE o.k = x.k * 10 + 5$$);
SELECT both_p($$WITH w AS (UPDATE TABLE_ SET t = 'w' || t WHERE here(k) = 3 RETURNING k) DELETE FROM TABLE_ WHERE k = 2 AND t LIKE '2 2%' AND EXISTS (SELECT FROM w)$$);
WITH w AS (UPDATE p SET t = 'returned ' || here(k) WHERE t LIKE '_ 33%' OR t LIKE '_ 34%' AND k = 5 RETURNING k, t) SELECT * FROM w ORDER BY k;
UPDATE lp SET t = 'returned ' || here(k) WHERE t LIKE '_ 33%' OR t LIKE '_ 34%' AND k = 5;
-- from partition to partition
SELECT both_p($$UPDATE TABLE_ SET k = here(k) WHERE k IN (1, 3)$$);
-- under other plans
PREPARE by_place(int) AS DELETE FROM p WHERE k = $1 AND t LIKE '%1' AND here(k) > 0;
EXECUTE by_place(2);
VACUUM FULL mod_remote.p2;
EXECUTE by_place(4);
DELETE FROM lp WHERE k IN (2, 4) AND t LIKE '%1';
SELECT same('(SELECT k, t FROM lp)', '(SELECT k, t FROM p)');
-- what stands there for several tables without saying so, and views, which have no places
CREATE FOREIGN TABLE mod_remote.far_p (k int, t text) SERVER mod_srv OPTIONS (schema_name 'mod_remote', table_name 'p');
CREATE FOREIGN TABLE far_p (k int, t text) SERVER mod_srv OPTIONS (schema_name 'mod_remote');
SELECT count(*) > 1 AS several FROM p WHERE ctid = (SELECT ctid FROM p WHERE k = 2 LIMIT 1);
UPDATE far_p SET t = 'changed ' || here(k) WHERE k = 2;
UPDATE far_p SET t = 'changed ' || here(k) WHERE k = 2 RETURNING t;
SELECT same('(SELECT k, t FROM lp)', '(SELECT k, t FROM p)');
CREATE VIEW mod_remote.view AS SELECT k, t FROM mod_remote.far;
CREATE FOREIGN TABLE view (k int, t text) SERVER mod_srv OPTIONS (schema_name 'mod_remote');
UPDATE view SET t = 'changed ' || here(k);
RESET rdma_fdw.commit;

-- TRUNCATE
CREATE TABLE mod_remote.seq (i serial, x int);
CREATE TABLE mod_remote.ref (a int REFERENCES mod_remote.t);
CREATE FOREIGN TABLE seq (x int) SERVER mod_srv OPTIONS (schema_name 'mod_remote');
INSERT INTO seq VALUES (1), (2);
TRUNCATE seq;
INSERT INTO seq VALUES (3);
TRUNCATE seq RESTART IDENTITY;
INSERT INTO seq VALUES (4);
SELECT * FROM mod_remote.seq;
TRUNCATE t;
TRUNCATE t, seq CASCADE;
SELECT count(*) FROM t;
BEGIN;
INSERT INTO seq VALUES (5);
TRUNCATE seq;
ROLLBACK;
ALTER FOREIGN TABLE seq OPTIONS (ADD truncatable 'false');
TRUNCATE seq;
SELECT table_name, is_updatable FROM information_schema.views WHERE table_schema = 'mod_here';

\set ECHO none
SET client_min_messages = warning;
DROP SERVER mod_srv CASCADE;
DROP SCHEMA mod_here CASCADE;
DROP SCHEMA mod_remote CASCADE;
