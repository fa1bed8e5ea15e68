-- Set operations, sub-selects, and the children of UNION ALL and of parents that lie on one data node: one statement.
\set ECHO none
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
RESET client_min_messages;

DO $$ BEGIN EXECUTE format(
  'CREATE SERVER set_srv FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host ''127.0.0.1'', port %L, dbname %L)',
  current_setting('port'), current_database()); END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER set_srv OPTIONS (user :'USER');
DO $$ BEGIN EXECUTE format(
  'CREATE SERVER set_other FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host ''127.0.0.1'', port %L, dbname %L)',
  current_setting('port'), current_database()); END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER set_other OPTIONS (user :'USER');

CREATE SCHEMA here;
CREATE TYPE here.mood AS ENUM ('sad', 'ok');
CREATE TABLE here.a (id int, k int, s text, c text COLLATE "C", b bigint, n numeric, m here.mood);
INSERT INTO here.a SELECT i, nullif(i % 7, 3), 's' || i % 5, 'C' || i % 3, i % 4, i % 6 * 1.50, (ARRAY['sad', 'ok'])[1 + i % 2]::here.mood
  FROM generate_series(1, 300) i;
CREATE TABLE here.b (id int, k int, s text, c text COLLATE "C", b bigint, n numeric, m here.mood);
INSERT INTO here.b SELECT i, i % 11, 's' || i % 9, 'C' || i % 4, i % 9, i % 5 * 1.5, 'ok' FROM generate_series(200, 600) i;
CREATE TABLE here.p1 (id int, k int, s text);
INSERT INTO here.p1 SELECT i, i % 10, 's' || i % 3 FROM generate_series(1, 99) i;
CREATE TABLE here.p2 (k int, id int, s text);
INSERT INTO here.p2 SELECT i % 10, i, 's' || i % 3 FROM generate_series(100, 199) i;
ANALYZE here.a, here.b, here.p1, here.p2;
CREATE SCHEMA away;
IMPORT FOREIGN SCHEMA here EXCEPT (p1, p2) FROM SERVER set_srv INTO away;
CREATE FOREIGN TABLE away.o (id int, k int) SERVER set_other OPTIONS (schema_name 'here', table_name 'a');
CREATE VIEW here.o AS SELECT id, k FROM here.a;
CREATE VIEW here.p AS SELECT id, k, s FROM here.p1 UNION ALL SELECT id, k, s FROM here.p2;
CREATE VIEW here.u AS SELECT id, k, 'a' AS t FROM here.a UNION ALL SELECT id, b, s FROM here.b;
CREATE VIEW away.u AS SELECT id, k, 'a' AS t FROM away.a UNION ALL SELECT id, b, s FROM away.b;
CREATE TABLE away.p (id int, k int, s text) PARTITION BY RANGE (id);
CREATE FOREIGN TABLE away.p1 PARTITION OF away.p FOR VALUES FROM (0) TO (100) SERVER set_srv OPTIONS (schema_name 'here');
CREATE FOREIGN TABLE away.p2 (k int, id int, s text) SERVER set_srv OPTIONS (schema_name 'here');
ALTER TABLE away.p ATTACH PARTITION away.p2 FOR VALUES FROM (100) TO (200);
ANALYZE away.a, away.b, away.o, away.p1, away.p2, away.p;
-- here only
CREATE TABLE away.l AS SELECT i AS k FROM generate_series(1, 5) i;
CREATE TABLE here.l AS TABLE away.l;
ANALYZE away.l;
CREATE FUNCTION public.odd(i bigint) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN i % 2; END';

-- What a query's foreign scans send and what remains to be done here; of a plan that is one scan only its statement.
CREATE FUNCTION sent(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
  FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
    IF line !~ '^Foreign Scan$|^ *(Output|Relations|Group Key|Hash Cond|Planning|Query Identifier|Inner Unique):?' THEN
      RETURN NEXT regexp_replace(line, ' \(returns .*', '');
    END IF;
  END LOOP;
END $$;
-- The same, and its rows compared with those of the tables themselves (in order, if it sorts).
CREATE FUNCTION pushed(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE got text[]; expected text[]; rows text;
BEGIN
  SET LOCAL search_path = away, public;
  RETURN QUERY SELECT sent(query);
  rows := format('SELECT array_agg(r %s) FROM (SELECT row_to_json(q)::text FROM (%s) q) x(r)',
                 CASE WHEN query ~ 'ORDER BY [^)]*$' THEN '' ELSE 'ORDER BY r COLLATE "C"' END, query);
  EXECUTE rows INTO got;
  SET LOCAL search_path = here, public;
  EXECUTE rows INTO expected;
  IF got IS DISTINCT FROM expected THEN
    RETURN NEXT '*** other rows or another order';
    RETURN NEXT left(got::text, 200);
    RETURN NEXT left(expected::text, 200);
  END IF;
  RESET search_path;
END $$;
-- Of a plan in which rows are brought together here: how, and so the depth of the lines, differs by version.
CREATE FUNCTION kept(query text) RETURNS SETOF text LANGUAGE sql AS $$
  SELECT ltrim(line) FROM pushed(query) line WHERE line !~ '^ *(->  )?(Append|Subquery Scan|HashAggregate|Unique|Sort)'
$$;
\pset format unaligned
\pset tuples_only on
\set ECHO all

SELECT pushed('SELECT k FROM a UNION SELECT k FROM b');
SELECT pushed('SELECT k, s FROM a UNION ALL SELECT k, s FROM b');
SELECT pushed('SELECT k FROM a INTERSECT SELECT k FROM b');
SELECT pushed('SELECT k FROM a INTERSECT ALL SELECT k FROM b');
SELECT pushed('SELECT k, b FROM a EXCEPT SELECT k, b FROM b');
SELECT pushed('SELECT k FROM a EXCEPT ALL SELECT k FROM b ORDER BY k LIMIT 3 OFFSET 1');
SELECT pushed('SELECT k, c FROM a UNION SELECT id, c FROM b ORDER BY c DESC, k NULLS FIRST LIMIT 4');
SELECT pushed('SELECT id, k FROM a UNION ALL SELECT k, id FROM b ORDER BY 2, 1 LIMIT 4');
-- nested, in any order
SELECT pushed('SELECT k FROM a UNION SELECT k FROM b UNION SELECT id FROM b');
SELECT pushed('SELECT k FROM a EXCEPT (SELECT k FROM b EXCEPT SELECT id FROM a WHERE id < 5)');
SELECT pushed('(SELECT k FROM a EXCEPT SELECT k FROM b) UNION ALL SELECT k FROM b INTERSECT SELECT k FROM a');
-- branches with clauses of their own
SELECT pushed('SELECT k, count(*) FROM a GROUP BY k UNION SELECT k + 1, 2 FROM b WHERE id < 210');
SELECT pushed('SELECT DISTINCT k, n FROM a UNION ALL SELECT k, sum(b) OVER (PARTITION BY k) FROM b WHERE id < 220');
SELECT pushed('(SELECT id, s FROM a ORDER BY s COLLATE "C", id LIMIT 3) UNION (SELECT id, s FROM b ORDER BY id DESC LIMIT 3)');
SELECT pushed('SELECT a.k FROM a JOIN b ON a.id = b.id EXCEPT SELECT k FROM a WHERE id IN (SELECT id FROM b WHERE k = 1)');
-- types that are made equal before and after rows are compared
SELECT pushed('SELECT k FROM a UNION SELECT b FROM b');
SELECT pushed('SELECT DISTINCT k FROM a UNION ALL SELECT b FROM b');
SELECT pushed('SELECT n FROM a UNION ALL (SELECT k FROM a UNION SELECT k FROM b)');
-- texts: what sorts them must be the same there; equality is
SELECT pushed('SELECT s FROM a UNION SELECT ''x'' FROM b WHERE id < 203');
SELECT pushed('SELECT s FROM a UNION SELECT ''x'' FROM b WHERE id < 203 ORDER BY s');
SELECT pushed('SELECT s FROM a UNION SELECT s FROM b ORDER BY s LIMIT 3');
SELECT pushed('SELECT s COLLATE "C" FROM a UNION ALL SELECT c FROM b ORDER BY 1 LIMIT 3');
-- what stays here
SELECT pushed('SELECT k FROM a UNION SELECT k FROM o');
SELECT kept('SELECT k FROM a INTERSECT SELECT k FROM l');
SELECT kept('SELECT odd(k) FROM a INTERSECT SELECT k FROM b');
SELECT pushed('SELECT m FROM a UNION SELECT m FROM b');
SELECT kept('SELECT k FROM a WHERE odd(id) = 1 EXCEPT SELECT k FROM b');
SELECT kept('(SELECT k FROM a INTERSECT SELECT k FROM b) UNION SELECT k FROM l');
SELECT kept('SELECT k FROM l EXCEPT (SELECT k FROM a EXCEPT SELECT k FROM b)');
SELECT pushed('SELECT k FROM a UNION ALL (SELECT k FROM b UNION SELECT k + 20 FROM l)');
SELECT pushed('SELECT (SELECT max(k) FROM l), k FROM a UNION SELECT 1, k FROM b');
-- rows of the first branch have to come first
ALTER SERVER set_srv OPTIONS (ADD async_capable 'true');
SELECT kept('(SELECT k FROM a UNION SELECT id FROM b) INTERSECT (SELECT b FROM a UNION SELECT b FROM b)');
SELECT pushed('(SELECT k FROM a UNION SELECT id FROM b) UNION (SELECT b FROM a EXCEPT SELECT b FROM b)');
ALTER SERVER set_srv OPTIONS (DROP async_capable);
-- recursion
SELECT pushed('WITH RECURSIVE r AS (SELECT id FROM a WHERE id = 1 UNION SELECT b.id FROM b JOIN r ON b.id = r.id + 199) SELECT * FROM r');

-- UNION ALL as a table
SELECT pushed('SELECT count(*), sum(k), min(t) FROM u WHERE id > 250');
SELECT pushed('SELECT t, count(*) FROM u GROUP BY t HAVING count(*) > 44 ORDER BY 2, 1');
SELECT pushed('SELECT u.id, a.s FROM u JOIN a ON u.k = a.id WHERE a.id < 3 ORDER BY 1 LIMIT 5');
SELECT pushed('SELECT a.id, u.id AS uid FROM a LEFT JOIN u ON u.k = a.id AND u.id > 400 WHERE a.id IN (4, 40)');
SELECT pushed('SELECT l.k, (SELECT count(*) FROM u WHERE u.k = l.k) FROM l');
SELECT pushed('SELECT u.k FROM u WHERE EXISTS (SELECT FROM b WHERE b.id = u.id AND b.k = 2) AND odd(u.k) = 1');
SELECT pushed('SELECT count(*) FROM (SELECT FROM a UNION ALL SELECT FROM b) x');
SELECT pushed('SELECT count(*) FROM (SELECT a.*::text FROM a UNION ALL SELECT b.*::text FROM b) x');
SELECT pushed('SELECT count(*) FROM (SELECT k FROM a UNION ALL SELECT k FROM o) x');
SELECT pushed('SELECT count(*) FROM (SELECT k FROM a WHERE false UNION ALL SELECT k FROM b) x');
-- sub-selects as tables
SELECT pushed('SELECT count(*), sum(k) FROM (SELECT k FROM a UNION SELECT k FROM b) x WHERE k > 3');
SELECT pushed('SELECT a.id, x.n FROM a JOIN (SELECT k, count(*) AS n FROM b GROUP BY k) x ON a.k = x.k WHERE x.n > 36 ORDER BY a.id LIMIT 3');
SELECT pushed('SELECT a.id FROM a WHERE k IN (SELECT max(k) FROM b GROUP BY s) AND id < 20');
SELECT pushed('SELECT string_agg(s, '','') FROM (SELECT s FROM a ORDER BY id DESC LIMIT 5) x');
SELECT pushed('SELECT count(*) FROM (SELECT k FROM a LIMIT 5 OFFSET 297) x');
SELECT pushed('SELECT count(*) FROM (SELECT k FROM a OFFSET 0) x');
SELECT pushed('SELECT x.k FROM (SELECT DISTINCT k FROM a) x LEFT JOIN (SELECT DISTINCT k, odd(id) AS o FROM b) y USING (k) WHERE o IS NULL');
SELECT pushed('SELECT x.t, count(*) FROM (SELECT ''x'' AS t, k FROM a GROUP BY k) x JOIN b ON b.k = x.k WHERE x.t < ''y'' GROUP BY x.t');
SELECT pushed('SELECT y.k, l.k FROM l, LATERAL (SELECT k FROM a WHERE a.id = l.k UNION SELECT k FROM b WHERE b.id = l.k + 300) y');

-- partitions
SELECT pushed('SELECT id, s FROM p WHERE k = 3 AND id BETWEEN 80 AND 120');
SELECT pushed('SELECT s, count(*), sum(k) FROM p GROUP BY s');
SELECT pushed('SELECT id, k FROM p ORDER BY k DESC, id LIMIT 4');
SELECT pushed('SELECT p.s, a.k FROM p JOIN a ON p.id = a.id WHERE p.k = 2 AND p.id > 150');
SELECT pushed('SELECT id FROM p WHERE id = 17');
SELECT pushed('SELECT count(*) FROM p WHERE odd(k) = 1');
SET search_path = away, public;
EXPLAIN (VERBOSE, COSTS OFF) SELECT tableoid::regclass, id FROM p WHERE k = 3;
EXPLAIN (VERBOSE, COSTS OFF) SELECT id FROM p WHERE id < 3 FOR UPDATE;
EXPLAIN (VERBOSE, COSTS OFF) UPDATE p SET s = 'x' FROM u WHERE u.id = p.id AND u.k = 4;

-- a plan that is kept sees changes
PREPARE both_k AS SELECT k FROM a WHERE id < $1 UNION SELECT k FROM b WHERE id < $1 + 199 ORDER BY k;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (VERBOSE, COSTS OFF) EXECUTE both_k(3);
EXECUTE both_k(3);
EXECUTE both_k(5);
ALTER FOREIGN TABLE b OPTIONS (SET table_name 'a');
EXECUTE both_k(4);
ALTER FOREIGN TABLE b OPTIONS (SET table_name 'b');
RESET plan_cache_mode;
-- in a cursor, read twice
BEGIN;
DECLARE cur SCROLL CURSOR FOR SELECT k FROM a INTERSECT SELECT k FROM b ORDER BY k;
FETCH 2 FROM cur;
MOVE BACKWARD ALL FROM cur;
FETCH 3 FROM cur;
ROLLBACK;
-- a condition that no column is in holds for all rows or none, also below aggregates, joins and set operations
SELECT count(*) FROM a WHERE now() < '2000-01-01';
SELECT count(*), count(x.id) FROM a LEFT JOIN (SELECT * FROM b WHERE now() < '2000-01-01') x ON x.id = a.id;
SELECT k FROM a WHERE now() < '2000-01-01' UNION SELECT k FROM b WHERE id < 202 ORDER BY k;
SELECT count(*) FROM u WHERE now() < '2000-01-01';

-- rights are those on each table, or those of a view's owner
CREATE ROLE set_user;
GRANT USAGE ON SCHEMA away TO set_user;
GRANT SELECT ON a TO set_user;
CREATE USER MAPPING FOR set_user SERVER set_srv OPTIONS (user :'USER', password_required 'false');
CREATE VIEW shown AS SELECT k FROM a UNION SELECT k FROM b;
CREATE VIEW guarded WITH (security_barrier) AS SELECT k, count(*) AS n FROM a GROUP BY k;
GRANT SELECT ON shown, guarded TO set_user;
SET ROLE set_user;
SELECT k FROM a UNION SELECT k FROM b;
SELECT count(*) FROM (SELECT k FROM a UNION ALL SELECT k FROM b) x;
SELECT count(*) FROM (SELECT k FROM a EXCEPT SELECT k FROM b) x;
SELECT count(*) FROM (SELECT k FROM b GROUP BY k) x JOIN a ON x.k = a.id;
SELECT count(*) FROM shown;
SELECT count(*) FROM shown JOIN a ON a.id = shown.k;
RESET ROLE;
SELECT sent('SELECT count(*) FROM shown JOIN a ON a.id = shown.k');
SET ROLE set_user;
SELECT sent('SELECT count(*) FROM shown JOIN a ON a.id = shown.k');
RESET ROLE;
SELECT sent('SELECT * FROM guarded g JOIN b ON b.id = g.n');

\set ECHO none
RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA here, away CASCADE;
DROP SERVER set_srv CASCADE;
DROP SERVER set_other CASCADE;
DROP FUNCTION kept(text), pushed(text), sent(text), odd(bigint);
DROP ROLE set_user;
