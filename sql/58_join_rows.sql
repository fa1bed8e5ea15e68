-- Whole rows and row locks of joins, and UPDATE and DELETE over joins, on the data node.
\set ECHO none
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
RESET client_min_messages;
SET timezone = 'UTC';

DO $$ BEGIN EXECUTE format(
  'CREATE SERVER rows_srv FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host ''127.0.0.1'', port %L, dbname %L)',
  current_setting('port'), current_database()); END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER rows_srv OPTIONS (user :'USER');
CREATE SCHEMA here;
CREATE TABLE here.a (id int PRIMARY KEY, gone int, x int, t text, "two Words" date, list text[], j json, ts timestamptz, f float8, m numeric(10, 2));
CREATE TABLE here.b (id int PRIMARY KEY, aid int, y int);
CREATE TABLE here.c (id int PRIMARY KEY, z text);
INSERT INTO here.a SELECT i, 1, i % 10, CASE WHEN i % 6 > 0 THEN 'a "quoted", (odd) \ text ' || i END, date '2020-01-01' + i, ARRAY['x,' || i, NULL, '"'], format('{"a": %s}', i)::json,
    '2020-02-02 02:02:02.123456+00', 1 / (i + 0.1::float8), i / 3.0 FROM generate_series(1, 100) i;
INSERT INTO here.b SELECT i, nullif(i % 60, 7), i % 7 FROM generate_series(1, 200) i;
INSERT INTO here.c SELECT i, 'c' || i FROM generate_series(0, 6) i;
-- rows of nothing but NULLs
ALTER TABLE here.c DROP CONSTRAINT c_pkey;
ALTER TABLE here.c ALTER id DROP NOT NULL;
INSERT INTO here.c VALUES (NULL, NULL);
ALTER TABLE here.a DROP COLUMN gone;
ANALYZE here.a, here.b, here.c;
CREATE SCHEMA away;
IMPORT FOREIGN SCHEMA here FROM SERVER rows_srv INTO away;
ALTER FOREIGN TABLE away.a DROP COLUMN f, ADD COLUMN f float8;
ANALYZE away.a, away.b, away.c;
-- tables of the same row types here, for comparison
CREATE SCHEMA copies;
CREATE TABLE copies.a AS SELECT id, x, t, "two Words", list, j, ts, m, f FROM here.a;
CREATE TABLE copies.b AS SELECT * FROM here.b;
CREATE TABLE copies.c AS SELECT * FROM here.c;

-- The statement's rows as text, and the tables' afterwards; everything is undone.
CREATE FUNCTION outcome(schema text, statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE r record; result text[]; n text;
BEGIN
  PERFORM set_config('search_path', schema || ', public', true);
  BEGIN
    FOR r IN EXECUTE statement LOOP
      result := result || r::text;
    END LOOP;
    SELECT array_agg(v ORDER BY v) INTO result FROM unnest(result) v;
    FOR r IN SELECT 'a ' || a AS v FROM a UNION ALL SELECT 'b ' || b FROM b ORDER BY v LOOP
      result := result || r.v;
    END LOOP;
    RAISE EXCEPTION SQLSTATE 'RDOUT' USING MESSAGE = result::text;
  EXCEPTION WHEN SQLSTATE 'RDOUT' THEN
    RETURN sqlerrm;
  END;
END $$;
-- Prints what a statement sends, and compares its outcome with that over the copies.
CREATE FUNCTION pushed(statement text, compared boolean DEFAULT true) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text; got text; expected text;
BEGIN
  PERFORM set_config('search_path', 'away, public', true);
  FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || statement LOOP
    IF line !~ '^ *(Output|Relations|Sort Key|Group Key|Hash Cond|Merge Cond|Join Filter|Query Identifier|Inner Unique):?' THEN
      RETURN NEXT line;
    END IF;
  END LOOP;
  IF compared THEN
    got := outcome('away', statement);
    expected := outcome('copies', statement);
    IF got IS DISTINCT FROM expected THEN
      RETURN NEXT '*** got      ' || got;
      RETURN NEXT '*** expected ' || expected;
    END IF;
  END IF;
  PERFORM set_config('search_path', 'public', true);
END $$;
\pset format unaligned
\pset tuples_only on
\set ECHO all

-- (a difference would be seen)
SELECT count(*) FROM pushed('SELECT current_schema AS x FROM a WHERE id = 1') line WHERE line LIKE '***%';
-- whole rows
SELECT pushed('SELECT a, b FROM a JOIN b ON a.id = b.aid WHERE a.x = 3');
SELECT pushed('SELECT a.id, b FROM a LEFT JOIN b ON a.id = b.aid AND b.y > 4 WHERE a.x < 3');
SELECT pushed('SELECT c, b, c IS NULL AS n FROM b LEFT JOIN c ON b.y = c.id OR b.id = 3 AND c.id IS NULL WHERE b.id < 20');
SELECT pushed('SELECT (a).t, (b).y FROM a FULL JOIN b ON a.id = b.aid WHERE coalesce(a.x, 1) = 1 AND coalesce(b.y, 2) = 2');
SELECT pushed('SELECT row_to_json(a)::text AS v, b.id FROM a JOIN b ON a.id = b.aid WHERE b.id < 9');
-- row locks
SELECT pushed('SELECT a.id, b.id FROM a JOIN b ON a.id = b.aid WHERE a.x = 3 FOR UPDATE');
SELECT pushed('SELECT a.id, b.id FROM a JOIN b ON a.id = b.aid WHERE a.x = 3 FOR NO KEY UPDATE OF a NOWAIT FOR SHARE OF b SKIP LOCKED');
SELECT pushed('SELECT a.id, b.id FROM a LEFT JOIN b ON a.id = b.aid AND b.y = 4 WHERE a.x = 3 FOR KEY SHARE OF a');
-- from 17 on the planner counts the sub-selects' tables otherwise
SELECT regexp_replace(p, '\mr5\M', 'r4', 'g') AS pushed
  FROM pushed('SELECT a.id FROM a WHERE id IN (SELECT aid FROM b WHERE y = 1) AND NOT EXISTS (SELECT FROM c WHERE c.id = a.x) FOR UPDATE') p;
SELECT pushed('SELECT a.id, b.id FROM a JOIN b ON a.id = b.aid AND a.x + b.y > random() - 1 WHERE a.x = 3 FOR UPDATE');
SELECT pushed('SELECT a.id, b.id FROM a JOIN b ON a.id = b.aid ORDER BY a.t, b.id LIMIT 4 FOR UPDATE OF a');
SELECT pushed('SELECT * FROM (SELECT a.id, b.y FROM a JOIN b ON a.id = b.aid WHERE a.x = 3 FOR UPDATE) s JOIN c ON c.id = s.y');
-- with a local table that is locked, rows may have to be rechecked
CREATE TABLE local (k int, v text);
INSERT INTO local SELECT i, 'v' || i FROM generate_series(1, 20) i;
ANALYZE local;
SELECT pushed('SELECT local.v, a.id, b.id FROM local JOIN (a JOIN b ON a.id = b.aid AND b.y = 4) ON local.k = a.id FOR UPDATE');
SELECT pushed('SELECT local.v, a.id, b.id FROM local JOIN (a JOIN b ON a.id = b.aid AND b.y = 4) ON local.k = a.id FOR UPDATE OF a');
-- UPDATE and DELETE as one statement
SELECT pushed('UPDATE a SET t = ''y '' || b.y, "two Words" = NULL FROM b WHERE a.id = b.aid AND b.id <= 60 AND b.y = 2 RETURNING a.id, b, a, b.y + a.x AS s');
SELECT pushed('UPDATE a SET x = a.x + b.y, m = 1.005 FROM b, c WHERE a.id = b.aid AND b.id < 50 AND c.id = b.y AND c.z > ''c3'' RETURNING a.tableoid::regclass::text ~ ''a'' AS ok, c.z, a.id');
SELECT pushed('UPDATE a SET x = c.id FROM b LEFT JOIN c ON c.id = b.y + 3 WHERE a.id = b.aid AND b.id < 50 RETURNING a.x, c');
SELECT pushed('DELETE FROM a USING b WHERE a.id = b.aid AND b.y = 2 AND b.id < 60 RETURNING b, a.t, a');
SELECT pushed('DELETE FROM a USING b WHERE a.id = b.aid AND b.y = 2 RETURNING 1 AS one');
SELECT pushed('DELETE FROM a WHERE id IN (SELECT aid FROM b WHERE y = 3) RETURNING id, a');
SELECT pushed('DELETE FROM b WHERE NOT EXISTS (SELECT FROM a WHERE a.id = b.aid) RETURNING id');
SELECT pushed('UPDATE a SET x = c.id FROM c WHERE a.x = c.id + 1 AND a.id IN (SELECT aid FROM b WHERE y = 3) RETURNING a.x, c');
SELECT pushed('UPDATE b SET y = b2.y + 100 FROM b b2 WHERE b.id = b2.id + 1 AND b.id < 10 RETURNING b.id, b.y, b2.y AS former');
SELECT pushed('UPDATE b SET y = b2.id FROM b b2 WHERE b.id = b2.id + 1 AND b.id < 10 RETURNING b2.id AS former, b.y');
SELECT pushed('DELETE FROM b USING a RIGHT JOIN c ON c.id = a.x WHERE b.y = c.id AND b.id < 30 AND a.id IS NULL RETURNING b.id, c');
SELECT line FROM pushed('UPDATE a SET x = c.id + d.id FROM b LEFT JOIN (c JOIN c d ON c.id = d.id - 1) ON c.id = b.y + 3 WHERE a.id = b.aid AND b.id < 50 RETURNING a.id, a.x, d') line WHERE line !~ 'Remote SQL';
SELECT pushed('UPDATE a SET x = c.id FROM b LEFT JOIN c ON c.id = b.y + 3 WHERE a.id = b.aid AND b.id < 50 AND (c.id = a.x OR c.id IS NULL) RETURNING a.x, c');
-- by row: values or a condition that are computed here, triggers
SELECT pushed('UPDATE a SET t = to_char(a."two Words", ''YYYY'') || b.y FROM b WHERE a.id = b.aid AND b.id < 20 RETURNING a.id, a.t');
SELECT pushed('DELETE FROM a USING b WHERE a.id = b.aid AND b.id < 20 AND to_char(a."two Words", ''YYYY'') > b.y::text RETURNING a.id');
SELECT pushed('DELETE FROM a USING local WHERE a.id = local.k RETURNING a.id', false);
BEGIN;
CREATE FUNCTION away.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE '% %', tg_op, old.id; RETURN coalesce(new, old); END $$;
CREATE TRIGGER note BEFORE UPDATE OR DELETE ON away.a FOR EACH ROW EXECUTE FUNCTION away.note();
SELECT pushed('UPDATE a SET x = b.y FROM b WHERE a.id = b.aid AND b.id < 4 RETURNING a.id, a.x, b');
SELECT pushed('DELETE FROM a USING b WHERE a.id = b.aid AND b.id < 4 RETURNING a.id');
ROLLBACK;
-- prepared, and in a statement with others
SET search_path = away, public;
SET plan_cache_mode = force_generic_plan;
PREPARE p(int) AS UPDATE a SET x = $1 + b.y FROM b WHERE a.id = b.aid AND b.id = $1 RETURNING a.id, a.x;
BEGIN;
EXPLAIN (VERBOSE, COSTS OFF) EXECUTE p(5);
EXECUTE p(5);
EXECUTE p(6);
WITH w AS (DELETE FROM a USING b WHERE a.id = b.aid AND b.id < 10 RETURNING a.id, b.y) SELECT count(*), sum(y) FROM w;
INSERT INTO b (id, aid, y) SELECT 1000 + b.id, a.id, a.x FROM a JOIN b ON a.id = b.aid WHERE b.id BETWEEN 20 AND 25;
SELECT count(*) FROM b WHERE id > 1000;
EXPLAIN (VERBOSE, COSTS OFF) INSERT INTO b (id, aid, y) SELECT 1000 + b.id, a.id, a.x FROM a JOIN b ON a.id = b.aid WHERE b.id BETWEEN 20 AND 25;
ROLLBACK;
RESET search_path;
RESET plan_cache_mode;
DEALLOCATE p;
-- a row of another shape, from a data node whose table has changed
BEGIN;
ALTER FOREIGN TABLE away.b ALTER y TYPE date;
SELECT pushed('SELECT b FROM a JOIN b ON a.id = b.aid', false);
SELECT b FROM away.a JOIN away.b ON a.id = b.aid;
\set ECHO none
ROLLBACK;

SET client_min_messages = warning;
DROP SERVER rows_srv CASCADE;
DROP SCHEMA away, here, copies CASCADE;
DROP TABLE local;
DROP FUNCTION outcome(text, text), pushed(text, boolean);
