-- ORDER BY, LIMIT and OFFSET on the data node, orders for merge joins, and where sorting there would not be the same.
\set ECHO none
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
RESET client_min_messages;

DO $$ BEGIN EXECUTE format(
  'CREATE SERVER order_srv FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host ''127.0.0.1'', port %L, dbname %L)',
  current_setting('port'), current_database()); END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER order_srv OPTIONS (user :'USER');

CREATE SCHEMA here;
CREATE TYPE here.mood AS ENUM ('sad', 'ok');
CREATE TABLE here.t (id int PRIMARY KEY, k int, s text, c text COLLATE "C", m here.mood, n name);
INSERT INTO here.t SELECT i, nullif(i * 7919 % 101, 3), 's' || i * 31 % 97, 'C' || i * 17 % 89, (ARRAY['sad', 'ok'])[1 + i % 2]::here.mood, 'n' || i % 50
  FROM generate_series(1, 400) i;
CREATE TABLE here.u (id int PRIMARY KEY, k int);
INSERT INTO here.u SELECT i, i % 10 FROM generate_series(1, 100) i;
ANALYZE here.t, here.u;
CREATE SCHEMA away;
IMPORT FOREIGN SCHEMA here FROM SERVER order_srv INTO away;
ANALYZE away.t, away.u;

-- Prints what a query's foreign scans send and what remains to be done here, and checks its rows and their order.
CREATE FUNCTION pushed(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text; got text[]; expected text[];
BEGIN
  SET LOCAL search_path = away, public;
  FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
    IF line !~ '^ *(Output|Relations|Group Key|Hash Cond|Planning|Query Identifier|Inner Unique):?' THEN
      RETURN NEXT regexp_replace(line, ' \(returns .*| ROWS UNBOUNDED PRECEDING', '', 'g');
    END IF;
  END LOOP;
  EXECUTE format('SELECT array_agg(row_to_json(q)::text) FROM (%s) q', query) INTO got;
  SET LOCAL search_path = here, public;
  EXECUTE format('SELECT array_agg(row_to_json(q)::text) FROM (%s) q', query) INTO expected;
  IF got IS DISTINCT FROM expected THEN
    RETURN NEXT '*** other rows or another order';
    RETURN NEXT left(got::text, 200);
    RETURN NEXT left(expected::text, 200);
  END IF;
  RESET search_path;
END $$;
\pset format unaligned
\pset tuples_only on
\set ECHO all

SELECT pushed('SELECT id FROM t ORDER BY id');
SELECT pushed('SELECT id, k FROM t ORDER BY k DESC, id');
SELECT pushed('SELECT id, k FROM t ORDER BY k NULLS FIRST, id DESC NULLS LAST');
SELECT pushed('SELECT id, k FROM t ORDER BY k DESC NULLS LAST, id LIMIT 3 OFFSET 5');
SELECT pushed('SELECT id FROM t ORDER BY k + id, id LIMIT 4');
SELECT pushed('SELECT id, s FROM t ORDER BY s, id LIMIT 4');
SELECT pushed('SELECT id, c FROM t ORDER BY c, id LIMIT 4');
SELECT pushed('SELECT id, s FROM t ORDER BY s COLLATE "C", id LIMIT 4');
SELECT pushed('SELECT id, n FROM t ORDER BY n, id LIMIT 4');
SELECT pushed('SELECT id FROM t WHERE id > 5 AND k = 7 ORDER BY id');
SELECT pushed('SELECT count(*) FROM (SELECT id FROM t LIMIT 7) x');
SELECT pushed('SELECT count(*) FROM (SELECT id FROM t LIMIT 7 OFFSET 396) x');
SELECT pushed('SELECT id FROM t ORDER BY id LIMIT NULL OFFSET 395');
SELECT pushed('SELECT id FROM t ORDER BY id LIMIT (SELECT count(*) / 25 FROM u)');
SELECT pushed('SELECT t.id, u.id AS uid FROM t JOIN u ON t.k = u.id ORDER BY u.id DESC, t.id LIMIT 5');
SELECT pushed('SELECT k, count(*) FROM t GROUP BY k ORDER BY k');
SELECT pushed('SELECT k, count(*) FROM t GROUP BY k ORDER BY count(*) DESC, k LIMIT 3');
SELECT pushed('SELECT k, count(*) FROM t GROUP BY k ORDER BY sum(id), k LIMIT 3');
SELECT pushed('SELECT DISTINCT k FROM t ORDER BY k DESC LIMIT 3');
SELECT pushed('SELECT id, rank() OVER (ORDER BY k, id) AS r FROM t ORDER BY r DESC LIMIT 3');
SELECT pushed('SELECT id, k FROM t ORDER BY id LIMIT 3 OFFSET 1000000000000');

-- the rows of one scan, and a parameter
SET plan_cache_mode = force_generic_plan;
PREPARE p(int, int) AS SELECT id FROM away.t WHERE id > 100 ORDER BY id LIMIT $1 OFFSET $2;
EXPLAIN (VERBOSE, COSTS OFF) EXECUTE p(3, 2);
EXECUTE p(3, 2);
EXECUTE p(NULL, 297);
EXECUTE p(-1, 0);
DEALLOCATE p;
RESET plan_cache_mode;

-- what is sorted or cut here
SELECT pushed('SELECT id FROM t ORDER BY m, id LIMIT 3');
SELECT pushed('SELECT id FROM t ORDER BY s COLLATE "en-x-icu", id LIMIT 3');
SELECT pushed('SELECT id FROM t ORDER BY k::text, id LIMIT 3');
SELECT pushed('SELECT id FROM t ORDER BY id USING OPERATOR(pg_catalog.>) LIMIT 3');
SELECT pushed('SELECT id FROM t WHERE m = ''ok'' ORDER BY id LIMIT 3');
SELECT pushed('SELECT id FROM t WHERE m = ''ok'' LIMIT 0');
SELECT pushed('SELECT id, k FROM t ORDER BY k, id FETCH FIRST 3 ROWS WITH TIES');
SELECT pushed('SELECT generate_series(1, 2) AS g, id FROM t ORDER BY id, g LIMIT 3');
SELECT pushed('SELECT id FROM t ORDER BY id LIMIT 1 + (random() * 0)::int');
SELECT pushed('SELECT id, random() >= 0 AS r FROM t ORDER BY r, id LIMIT 3');
SELECT pushed('SELECT id FROM t ORDER BY to_char(id, ''000''), id LIMIT 3');
SELECT pushed('SELECT id FROM (SELECT id FROM t UNION ALL SELECT id FROM u) x ORDER BY id LIMIT 3');
-- row locks and a limit: only those rows
SET search_path = away;
EXPLAIN (VERBOSE, COSTS OFF) SELECT id FROM t ORDER BY id LIMIT 2 FOR UPDATE;
SELECT id FROM t ORDER BY id LIMIT 2 FOR UPDATE;
RESET search_path;

-- an order that serves a merge join here, only where both sides sort alike
CREATE TABLE here_only (id int, s text);
INSERT INTO here_only SELECT i, 's' || i FROM generate_series(1, 300) i;
ANALYZE here_only;
SET enable_hashjoin = off;
SET enable_nestloop = off;
SET search_path = away, public;
EXPLAIN (VERBOSE, COSTS OFF) SELECT t.id, h.s FROM t JOIN here_only h ON t.id = h.id;
SELECT count(*), sum(t.id) FROM t JOIN here_only h ON t.id = h.id;
EXPLAIN (VERBOSE, COSTS OFF) SELECT t.id, h.s FROM t JOIN here_only h ON t.s = h.s;
RESET search_path;
RESET enable_hashjoin;
RESET enable_nestloop;

-- a look-up per outer row, when the data node says that it is cheap
ALTER SERVER order_srv OPTIONS (ADD use_remote_estimate 'true');
INSERT INTO here.t SELECT i, i % 10 FROM generate_series(401, 50000) i;
ANALYZE here.t;
DELETE FROM here_only WHERE id > 2;
ANALYZE here_only;
SET search_path = away, public;
EXPLAIN (VERBOSE, COSTS OFF) SELECT h.s, t.k FROM here_only h JOIN t ON t.id = h.id;
SELECT h.s, t.k FROM here_only h JOIN t ON t.id = h.id ORDER BY 1;
RESET search_path;
SELECT pushed('SELECT id FROM t ORDER BY id LIMIT 3');
SELECT pushed('SELECT k, count(*) FROM t GROUP BY k ORDER BY 2 DESC, 1 LIMIT 2');

\set ECHO none
SET client_min_messages = warning;
DROP SERVER order_srv CASCADE;
DROP SCHEMA away, here CASCADE;
DROP FUNCTION pushed(text);
DROP TABLE here_only;
