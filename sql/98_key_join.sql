-- Joins of a foreign table with rows that are here: keys are sent, rows with partners come.
\set ECHO none
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
RESET client_min_messages;

-- rows that go with a statement have a test of their own
SET rdma_fdw.disable = local_rows;
-- Each row is expensive, so that plans do not depend on other costs.
DO $$ BEGIN EXECUTE format(
  'CREATE SERVER kj_srv FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host ''127.0.0.1'', port %L, dbname %L, fdw_startup_cost ''0'', fdw_tuple_cost ''1000'')',
  current_setting('port'), current_database()); END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER kj_srv OPTIONS (user :'USER');
CREATE SCHEMA kj_src;
CREATE SCHEMA kj;
CREATE TYPE kj.mood AS ENUM ('sad', 'ok', 'happy');
CREATE TABLE kj_src.big (id int, id8 int8, i2 int2, grp int, t text, c text COLLATE "C", v varchar(10), bp char(6), d date,
  n numeric, f float8, tz timestamptz, u uuid, by bytea, en kj.mood, pad text);
INSERT INTO kj_src.big SELECT i, i, i % 300, i % 10, CASE WHEN i % 7 > 0 THEN 't' || i END, 'c' || i, 'v' || i, 'b' || i, date '2020-01-01' + i, i / 4.0,
  CASE i WHEN 1 THEN 'NaN' WHEN 2 THEN '-0' ELSE i / 8.0 END, timestamptz '2020-01-01 00:00Z' + i * interval '7 minutes', md5(i::text)::uuid,
  decode(md5(i::text), 'hex'), (array['sad', 'ok', 'happy'])[i % 3 + 1]::kj.mood, repeat('p', i % 5)
  FROM generate_series(1, 400) i;
INSERT INTO kj_src.big SELECT i, i, i, i % 10, 't' || i, 'c' || i FROM generate_series(1, 40) i;
INSERT INTO kj_src.big (id, id8, grp, t) VALUES (NULL, NULL, 1, NULL);
CREATE INDEX ON kj_src.big (id);
CREATE INDEX ON kj_src.big (grp);
CREATE INDEX ON kj_src.big (t);
ANALYZE kj_src.big;
-- an enum there is text here
CREATE FOREIGN TABLE kj.big (id int, id8 int8, i2 int2, grp int, t text, c text COLLATE "C", v varchar(10), bp char(6), d date,
  n numeric, f float8, tz timestamptz, u uuid, by bytea, en text, pad text) SERVER kj_srv OPTIONS (schema_name 'kj_src');
ANALYZE kj.big;
CREATE DOMAIN kj.number AS int;
CREATE TABLE kj.small (id int, id8 int8, i2 int2, dm kj.number, t text, c text COLLATE "C", v varchar(10), bp char(6), d date, n numeric,
  f float8, tz timestamptz, u uuid, by bytea, en text, x int);
INSERT INTO kj.small SELECT i, i, i, i, 't' || i, 'c' || i, 'v' || i, 'b' || i, date '2020-01-01' + i, i / 4.0,
  CASE i WHEN 3 THEN 'NaN' WHEN 6 THEN '0' ELSE i / 8.0 END, timestamptz '2020-01-01 00:00Z' + i * interval '7 minutes', md5(i::text)::uuid,
  decode(md5(i::text), 'hex'), CASE i WHEN 3 THEN 'ok' WHEN 6 THEN 'sad' END, i % 4 FROM generate_series(3, 30, 3) i;
INSERT INTO kj.small SELECT * FROM kj.small WHERE id < 10;
INSERT INTO kj.small (id, t, x) VALUES (NULL, NULL, 1), (1000, 'none', 2), (NULL, 't9', 3);
ANALYZE kj.small;
CREATE TABLE kj.empty (id int);

-- Which statements are sent, whether the join sends keys, and whether rows are the same without it.
CREATE FUNCTION kj.check(query text) RETURNS TABLE (key_joins bigint, rows bigint, same boolean) LANGUAGE plpgsql AS $$
DECLARE plan text; got text[]; expected text[];
BEGIN
  FOR plan IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
    key_joins := coalesce(key_joins, 0) + (plan ~ 'Key Cond:')::int;
  END LOOP;
  EXECUTE format('SELECT array_agg(q::text ORDER BY q::text) FROM (%s) q', query) INTO got;
  PERFORM set_config('rdma_fdw.push_down', 'scans', true);
  EXECUTE format('SELECT array_agg(q::text ORDER BY q::text) FROM (%s) q', query) INTO expected;
  PERFORM set_config('rdma_fdw.push_down', 'all', true);
  rows := coalesce(cardinality(got), 0);
  same := got IS NOT DISTINCT FROM expected;
  IF NOT same THEN RAISE NOTICE 'got % expected %', got, expected; END IF;
  RETURN NEXT;
END $$;
-- A plan and what its scans send, without the columns of each node
CREATE FUNCTION kj.plan(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
  FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
    IF line !~ '^ *Output:' THEN RETURN NEXT line; END IF;
  END LOOP;
END $$;

-- What EXPLAIN ANALYZE says of keys: majors print numbers of rows in different ways.
CREATE FUNCTION kj.sent(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
  FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
    IF line ~ 'Key|All Rows|Removed by Join|Values|Statements' THEN RETURN NEXT regexp_replace(btrim(line), '[(]actual.*', ''); END IF;
  END LOOP;
END $$;

-- Whether rows are the same that come in portions, for which there may be one statement only
CREATE FUNCTION kj.in_portions(query text) RETURNS TABLE (rows bigint, same boolean) LANGUAGE plpgsql AS $$
DECLARE r record; got text[]; expected text[];
BEGIN
  FOR r IN EXECUTE query LOOP got := got || r::text; END LOOP;
  PERFORM set_config('rdma_fdw.push_down', 'scans', true);
  EXECUTE format('SELECT array_agg(q::text ORDER BY q::text) FROM (%s) q', query) INTO expected;
  PERFORM set_config('rdma_fdw.push_down', 'all', true);
  rows := coalesce(cardinality(got), 0);
  same := (SELECT array_agg(g ORDER BY g) FROM unnest(got) g) IS NOT DISTINCT FROM expected;
  IF NOT same THEN RAISE NOTICE 'got % expected %', got, expected; END IF;
  RETURN NEXT;
END $$;
\pset format unaligned
\pset tuples_only on
\set ECHO all

-- every kind of join
EXPLAIN (VERBOSE, COSTS OFF) SELECT s.x, b.pad FROM kj.small s JOIN kj.big b USING (id);
SELECT kj.plan('SELECT s.x, b.pad FROM kj.small s LEFT JOIN kj.big b ON b.id = s.id AND b.grp > s.x WHERE b.pad IS NULL OR b.pad < ''pp''');
SELECT kj.plan('SELECT s.x FROM kj.small s WHERE EXISTS (SELECT FROM kj.big b WHERE b.id = s.id AND b.grp > s.x)');
SELECT kj.plan('SELECT s.x FROM kj.small s WHERE NOT EXISTS (SELECT FROM kj.big b WHERE b.id = s.id)');
SELECT kj.plan('SELECT b.pad FROM kj.big b WHERE b.id IN (SELECT id FROM kj.small WHERE x > 0)');
SELECT * FROM kj.check('SELECT s.*, b.* FROM kj.small s JOIN kj.big b USING (id)');
SELECT * FROM kj.check('SELECT s.x, b.pad FROM kj.small s JOIN kj.big b ON b.id = s.id AND b.grp > s.x');
SELECT * FROM kj.check('SELECT s.x, b.* FROM kj.small s LEFT JOIN kj.big b USING (id)');
SELECT * FROM kj.check('SELECT s.x, b.pad, b.grp FROM kj.small s LEFT JOIN kj.big b ON b.id = s.id AND b.grp > s.x WHERE b.pad IS NULL OR b.pad < ''pp''');
SELECT * FROM kj.check('SELECT s.* FROM kj.small s WHERE EXISTS (SELECT FROM kj.big b WHERE b.id = s.id AND b.grp > s.x)');
SELECT * FROM kj.check('SELECT s.* FROM kj.small s WHERE s.id IN (SELECT id FROM kj.big)');
SELECT * FROM kj.check('SELECT s.* FROM kj.small s WHERE NOT EXISTS (SELECT FROM kj.big b WHERE b.id = s.id AND b.grp > s.x)');
SELECT * FROM kj.check('SELECT b.* FROM kj.big b WHERE b.id IN (SELECT id FROM kj.small)');
-- a condition that stays here has a sub-select that is asked for many rows at once
SELECT * FROM kj.check('SELECT s.x, b.pad FROM kj.small s JOIN kj.big b USING (id) WHERE EXISTS (SELECT FROM kj.big c WHERE c.u = b.u AND c.id > 9) OR b.grp::kj.number = 6');
-- not with a condition on pairs of rows: then a row of the table has to see all of them
SELECT * FROM kj.check('SELECT b.* FROM kj.big b WHERE EXISTS (SELECT FROM kj.small s WHERE s.id = b.id AND b.grp > s.x)');
-- columns in another order than the join has them
SELECT * FROM kj.check('SELECT b.grp, s.x, b.grp + 1 AS more, b.grp AS again FROM kj.small s LEFT JOIN kj.big b USING (id)');
-- joins that preserve the big table's rows are not key joins
SELECT * FROM kj.check('SELECT s.x, b.id FROM kj.big b LEFT JOIN kj.small s USING (id)');
-- nor where the rows with the keys depend on the table's
SELECT * FROM kj.check('SELECT l.x, b.pad FROM kj.big b CROSS JOIN LATERAL (SELECT s.id, s.x FROM kj.small s WHERE s.x > b.grp OFFSET 0) l WHERE l.id = b.id');
SELECT * FROM kj.check('SELECT b.id FROM kj.big b WHERE NOT EXISTS (SELECT FROM kj.small s WHERE s.id = b.id)');
SELECT * FROM kj.check('SELECT s.x, b.id FROM kj.big b FULL JOIN kj.small s USING (id)');
SELECT * FROM kj.check('SELECT s.x FROM kj.small s WHERE s.id NOT IN (SELECT id FROM kj.big WHERE id IS NOT NULL)');
-- no keys to send
SELECT * FROM kj.check('SELECT * FROM kj.empty s JOIN kj.big b USING (id)');
SELECT * FROM kj.check('SELECT s.x, b.id FROM kj.small s LEFT JOIN kj.big b ON b.id = s.id WHERE s.id IS NULL');

-- what drives: VALUES, a function, a CTE, a join, a sub-select with a group, columns computed below an outer join
SELECT * FROM kj.check('SELECT * FROM (VALUES (3), (7), (NULL), (3)) v(id) JOIN kj.big b USING (id)');
SELECT * FROM kj.check('SELECT * FROM generate_series(5, 7) g JOIN kj.big b ON b.id = g');
SELECT * FROM kj.check('WITH c AS MATERIALIZED (SELECT id, count(*) FROM kj.small GROUP BY id) SELECT * FROM c JOIN kj.big USING (id)');
SELECT * FROM kj.check('SELECT * FROM kj.small s JOIN kj.small o ON s.x = o.id - 2 JOIN kj.big b ON b.id = o.id');
SELECT * FROM kj.check('SELECT b.pad, l.y FROM kj.small s LEFT JOIN (SELECT id, x + 1 AS y FROM kj.small) l ON l.id = s.id + 3 LEFT JOIN kj.big b ON b.id = l.y');
SELECT * FROM kj.check('SELECT s.x, l.y FROM kj.small s LEFT JOIN (SELECT id, coalesce(pad, ''none'') AS y FROM kj.big) l USING (id)');
SELECT * FROM kj.check('SELECT s.x, b.pad, c.t FROM kj.small s LEFT JOIN kj.big b USING (id) LEFT JOIN kj.big c ON c.id = b.grp AND c.grp > s.x');

-- types: keys of the same type and of another one of the family, domains, text that is an enum there
SELECT col, (kj.check(format('SELECT s.x, b.id FROM kj.small s JOIN kj.big b ON b.%I = s.%I', col, other))).*, other
  FROM (VALUES ('id8', 'id8'), ('i2', 'i2'), ('id', 'id8'), ('id8', 'id'), ('id', 'i2'), ('i2', 'id8'), ('id', 'dm'), ('t', 't'), ('c', 'c'), ('v', 'v'), ('t', 'v'), ('bp', 'bp'),
    ('d', 'd'), ('n', 'n'), ('f', 'f'), ('tz', 'tz'), ('u', 'u'), ('by', 'by'), ('en', 'en')) v(col, other);
SELECT kj.plan('SELECT s.x, b.id FROM kj.small s JOIN kj.big b ON b.en = s.en');
SELECT kj.plan('SELECT s.x, b.id FROM kj.small s JOIN kj.big b ON b.id8 = s.id');
-- no operators that this node could hash for the other's, and no collations that are not known to be the same
SELECT * FROM kj.check('SELECT s.x, b.id FROM kj.small s JOIN kj.big b ON b.id < s.id');
SELECT * FROM kj.check('SELECT s.x, b.id FROM kj.small s JOIN kj.big b ON b.n = s.f');
SELECT * FROM kj.check('SELECT s.x, b.id FROM kj.small s JOIN kj.big b ON b.t = s.c COLLATE "C"');
SELECT * FROM kj.check('SELECT s.x, b.id FROM kj.small s JOIN kj.big b ON b.id + 1 = s.id');
SELECT * FROM kj.check('SELECT s.x, b.id FROM kj.small s JOIN kj.big b ON b.id = s.id + 1');
-- several equalities: the one with fewer rows is sent
SELECT kj.plan('SELECT b.pad FROM kj.small s JOIN kj.big b ON b.grp = s.x AND b.id = s.id');
SELECT * FROM kj.check('SELECT s.*, b.pad FROM kj.small s JOIN kj.big b ON b.grp = s.x AND b.id = s.id');
-- conditions of the table, sent and evaluated here
SELECT * FROM kj.check('SELECT s.x, b.pad FROM kj.small s JOIN kj.big b USING (id) WHERE b.grp > 2 AND b.pad || random()::text <> ''''');

-- LIMIT, cursors, sub-plans, rescans, parameters
SELECT count(*) FROM (SELECT b.pad FROM generate_series(1, 400) g JOIN kj.big b ON b.id = g LIMIT 5) x;
BEGIN;
DECLARE c CURSOR FOR SELECT s.id, s.x FROM kj.small s JOIN kj.big b USING (id) WHERE s.id < 7;
FETCH 2 FROM c;
-- rows written meanwhile are not in it
INSERT INTO kj.big (id) VALUES (6), (6);
MOVE FORWARD ALL FROM c;
CLOSE c;
ROLLBACK;
SELECT o, (SELECT count(b.pad) FROM kj.small s JOIN kj.big b ON b.id = s.id AND b.grp > o AND s.x > o) FROM generate_series(0, 3) o;
EXPLAIN (COSTS OFF) SELECT o, l.* FROM generate_series(0, 2) o, LATERAL (SELECT count(b.pad) FROM kj.small s LEFT JOIN kj.big b USING (id) WHERE s.x = o) l;
SELECT o, l.* FROM generate_series(0, 2) o, LATERAL (SELECT count(b.pad) FROM kj.small s LEFT JOIN kj.big b USING (id) WHERE s.x = o) l;
-- the scan itself has another parameter each time
SELECT o, (SELECT count(b.pad) FROM kj.small s JOIN kj.big b ON b.id = s.id AND b.grp > o) FROM generate_series(0, 3) o;
SELECT * FROM kj.in_portions('SELECT o, (SELECT count(b.pad) FROM kj.small s JOIN kj.big b ON b.id = s.id AND b.grp > o) FROM generate_series(0, 3) o');
SET plan_cache_mode = force_generic_plan;
PREPARE p AS SELECT count(*), min(b.pad) FROM kj.small s JOIN kj.big b ON b.id = s.id AND b.grp < $2 WHERE s.x = $1;
EXPLAIN (COSTS OFF) EXECUTE p(1, 5);
EXECUTE p(1, 5);
EXECUTE p(2, 100);
EXECUTE p(2, NULL);
DEALLOCATE p;
RESET plan_cache_mode;

-- writes: rows here with those there, and the other way round; each row once, whatever comes twice
BEGIN;
EXPLAIN (COSTS OFF) UPDATE kj.small s SET x = b.grp + 100 FROM kj.big b WHERE b.id = s.id;
UPDATE kj.small s SET x = b.grp + 100 FROM kj.big b WHERE b.id = s.id;
SELECT string_agg(format('%s %s', id, x), ', ' ORDER BY id, x) FROM kj.small;
DELETE FROM kj.small s USING kj.big b WHERE b.id = s.id AND b.grp = 9;
SELECT count(*), count(id) FROM kj.small;
EXPLAIN (VERBOSE, COSTS OFF) UPDATE kj.big b SET grp = b.grp + 1000 FROM kj.small s WHERE b.id = s.id;
UPDATE kj.big b SET grp = b.grp + 1000 FROM kj.small s WHERE b.id = s.id;
SELECT string_agg(grp::text, ' ' ORDER BY grp) FROM kj.big WHERE grp >= 1000;
EXPLAIN (COSTS OFF) DELETE FROM kj.big WHERE id IN (SELECT id FROM kj.small);
DELETE FROM kj.big WHERE id IN (SELECT id FROM kj.small);
SELECT count(*) FROM kj.big;
WITH i AS (INSERT INTO kj.big (id, pad) SELECT s.id, 'new' FROM generate_series(38, 43) s(id) JOIN kj.big b USING (id) RETURNING id)
  SELECT array_agg(id ORDER BY id) FROM i;
SELECT count(*) FROM kj.big WHERE pad = 'new';
ROLLBACK;
BEGIN;
SELECT s.id FROM kj.small s JOIN kj.big b USING (id) WHERE s.id < 7 ORDER BY 1 FOR UPDATE;
ROLLBACK;

-- more keys than one statement takes, and more than planned: the table is read as a whole, once
SELECT kj.sent('SELECT g FROM generate_series(1, 12000) g WHERE EXISTS (SELECT FROM kj.big b WHERE b.id = g)');
SELECT kj.sent('SELECT g FROM generate_series(1, 9000) g JOIN kj.big b ON b.id = g AND b.grp < g');
-- where the first rows may be all that are wanted a few keys go first
SELECT kj.sent('SELECT g FROM generate_series(1, 9000) g JOIN kj.big b ON b.id = g LIMIT 5');
SELECT kj.sent('SELECT g FROM generate_series(9000, 1, -1) g JOIN kj.big b ON b.id = g LIMIT 5');
-- more rows than were expected: keys are sent until that has cost more than it was to, then the table is read as a whole
SELECT kj.sent('SELECT a, b.pad FROM unnest(ARRAY(SELECT g % 400 FROM generate_series(1, 1500) g)) a JOIN kj.big b ON b.id = a LIMIT 10000');
SELECT * FROM kj.check('SELECT a, b.pad FROM unnest(ARRAY(SELECT g % 400 FROM generate_series(1, 1500) g)) a JOIN kj.big b ON b.id = a LIMIT 10000');
SELECT kj.sent('SELECT a, b.pad FROM unnest(ARRAY(SELECT g FROM generate_series(1, 1500) g)) a JOIN kj.big b ON b.id = a LIMIT 10000');
SELECT * FROM kj.check('SELECT a, b.pad FROM unnest(ARRAY(SELECT g FROM generate_series(1, 1500) g)) a JOIN kj.big b ON b.id = a LIMIT 10000');
SELECT * FROM kj.check('SELECT g FROM generate_series(1, 12000) g WHERE EXISTS (SELECT FROM kj.big b WHERE b.id = g AND b.pad < ''ppp'')');
SELECT * FROM kj.check('SELECT g, b.pad FROM generate_series(1, 12000) g LEFT JOIN kj.big b ON b.id = g WHERE g % 97 = 0 OR g < 50');
SELECT * FROM kj.check('SELECT * FROM (SELECT g, b.pad FROM generate_series(1, 12000) g JOIN kj.big b ON b.id = g) x');
SELECT * FROM kj.check('SELECT b.pad FROM kj.big b WHERE b.id IN (SELECT g FROM generate_series(1, 12000) g)');
-- in pieces of memory
SET work_mem = '64kB';
SET hash_mem_multiplier = 1;
SELECT * FROM kj.check('SELECT g, b.pad FROM generate_series(1, 12000) g LEFT JOIN kj.big b ON b.id = g');
SELECT * FROM kj.check('SELECT g FROM generate_series(1, 12000) g WHERE NOT EXISTS (SELECT FROM kj.big b WHERE b.id = g)');
SELECT * FROM kj.check('SELECT b.pad FROM kj.big b WHERE b.id IN (SELECT g FROM generate_series(1, 12000) g)');
-- and in one statement, whose rows are read several times
SELECT * FROM kj.check('SELECT s.x, b.* FROM kj.small s LEFT JOIN kj.big b ON b.grp = s.x');
SELECT * FROM kj.in_portions('SELECT s.x, b.* FROM kj.small s LEFT JOIN kj.big b ON b.grp = s.x');
SELECT * FROM kj.in_portions('SELECT s.x, b.* FROM kj.small s LEFT JOIN kj.big b ON b.grp = s.x WHERE s.x = 3');
SELECT * FROM kj.in_portions('SELECT g, b.pad FROM generate_series(1, 12000) g LEFT JOIN kj.big b ON b.id = g');
SELECT * FROM kj.in_portions('SELECT g FROM generate_series(1, 12000) g WHERE EXISTS (SELECT FROM kj.big b WHERE b.id = g)');
RESET work_mem;
RESET hash_mem_multiplier;

-- rows hidden by a view
CREATE VIEW kj.hidden WITH (security_barrier) AS SELECT * FROM kj.big WHERE grp = 3;
SELECT * FROM kj.check('SELECT s.x, h.pad FROM kj.small s JOIN kj.hidden h USING (id)');
-- only with push_down = all, and where something is gained
SET rdma_fdw.push_down = scans;
SELECT count(*) FROM kj.sent('SELECT s.x, b.pad FROM kj.small s JOIN kj.big b USING (id)') line WHERE line ~ 'Key Cond';
RESET rdma_fdw.push_down;
ALTER SERVER kj_srv OPTIONS (SET fdw_startup_cost '1000000');
SELECT * FROM kj.check('SELECT s.x, b.pad FROM kj.small s JOIN kj.big b USING (id)');

\set ECHO none
SET client_min_messages = warning;
DROP SERVER kj_srv CASCADE;
DROP SCHEMA kj, kj_src CASCADE;
