-- Expressions of subqueries that stand below outer joins: the data node computes them where they stand, so that they are NULL, or
-- not, where they are NULL in the tables themselves.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
RESET client_min_messages;

DO $$ BEGIN EXECUTE format(
  'CREATE SERVER ph_srv FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host ''127.0.0.1'', port %L, dbname %L)',
  current_setting('port'), current_database()); END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER ph_srv OPTIONS (user :'USER');
CREATE SCHEMA ph;
CREATE TABLE ph.a AS SELECT i AS id, nullif(i % 7, 3) AS x, 'a' || i % 13 AS t FROM generate_series(1, 60) i;
CREATE TABLE ph.b AS SELECT i AS id, nullif(i % 40, 5) AS aid, nullif(i % 11, 4) AS y FROM generate_series(1, 80) i;
CREATE TABLE ph.c AS SELECT i AS id, nullif(i % 50, 9) AS bid, i % 5 AS z FROM generate_series(1, 70) i;
CREATE TABLE ph.local AS SELECT i AS id FROM generate_series(1, 9) i;
ANALYZE ph.a, ph.b, ph.c, ph.local;
CREATE SCHEMA ph_away;
IMPORT FOREIGN SCHEMA ph LIMIT TO (a, b, c) FROM SERVER ph_srv INTO ph_away;
ANALYZE ph_away.a, ph_away.b, ph_away.c;

-- Prints what a query's foreign scans send and what remains to be done here, and compares its rows with those of the tables themselves.
CREATE FUNCTION ph.pushed(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text; diff bigint;
BEGIN
  SET LOCAL search_path = ph_away, ph;
  FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
    IF line !~ '^ *(Output|Relations|Sort Key|Group Key|Hash Key|Hash Cond|Merge Cond|Planning|Query Identifier|Inner Unique):?' THEN
      RETURN NEXT line;
    END IF;
  END LOOP;
  EXECUTE format('CREATE TEMP TABLE got AS SELECT row_to_json(q)::text FROM (%s) q', query);
  SET LOCAL search_path = ph;
  EXECUTE format('CREATE TEMP TABLE expected AS SELECT row_to_json(q)::text FROM (%s) q', query);
  SELECT count(*) INTO diff FROM ((TABLE got EXCEPT ALL TABLE expected) UNION ALL (TABLE expected EXCEPT ALL TABLE got)) d;
  IF diff <> 0 OR NOT EXISTS (TABLE expected) THEN
    RETURN NEXT '*** rows that differ: ' || diff || ', expected: ' || (SELECT count(*) FROM expected);
  END IF;
  DROP TABLE got, expected;
  RESET search_path;
END $$;
\pset format unaligned
\pset tuples_only on

-- a constant, an expression, both of a join, and in conditions
SELECT ph.pushed('SELECT a.id, s.one FROM a LEFT JOIN (SELECT aid, 1 AS one FROM b) s ON a.id = s.aid');
SELECT ph.pushed('SELECT a.id, s.k FROM a LEFT JOIN (SELECT aid, coalesce(y, 1) AS k FROM b WHERE id > 20) s ON a.id = s.aid AND s.k < 5');
SELECT ph.pushed('SELECT a.id, s.k, s.one FROM a LEFT JOIN (SELECT b.aid, coalesce(c.z, -1) AS k, 1 AS one FROM b JOIN c ON c.bid = b.id) s ON a.id = s.aid WHERE s.one IS NULL OR s.k > 2');
SELECT ph.pushed('SELECT a.id, s.k, coalesce(b.y, 1) AS other FROM b RIGHT JOIN a ON a.id = b.id LEFT JOIN (SELECT id, coalesce(y, 1) AS k FROM b) s ON s.id = b.id + 10 AND s.k = coalesce(b.y, 1)');
SELECT ph.pushed('SELECT s.k, u.k AS k2 FROM (SELECT id, coalesce(x, 0) AS k FROM a) s FULL JOIN (SELECT aid, CASE WHEN y IS NULL THEN 7 ELSE y END AS k FROM b) u ON s.id = u.aid');
-- in sub-selects of each other, the inner one again below an outer join
SELECT ph.pushed('SELECT a.id, s.k FROM a LEFT JOIN (SELECT b.id, coalesce(u.k, 8) AS k, u.k AS m FROM b LEFT JOIN (SELECT bid, coalesce(z, 0) + 1 AS k FROM c) u ON u.bid = b.id) s ON a.id = s.id + 5 AND s.m IS DISTINCT FROM 3');
-- not below an outer join of the statement: nothing has to be a sub-select
SELECT ph.pushed('SELECT l.id, s.k FROM local l LEFT JOIN (SELECT b.aid, coalesce(c.z, 3) AS k FROM b LEFT JOIN c ON c.bid = b.id) s ON l.id = s.aid');
-- above it: groups, aggregates, order, limit; a constant is no number of a column
SELECT replace(p, 'r5', 'r4') FROM ph.pushed('SELECT s.k, count(*) AS n, count(s.k) AS m FROM a LEFT JOIN (SELECT aid, coalesce(y, 1) AS k FROM b) s ON a.id = s.aid GROUP BY s.k') p; -- 18 numbers the groups, too
SELECT ph.pushed('SELECT a.id FROM a LEFT JOIN (SELECT aid, 1 AS one, coalesce(y, 0) AS k FROM b) s ON a.id = s.aid ORDER BY s.one, s.k, a.id LIMIT 9');
-- with EXISTS and IN on either side
SELECT ph.pushed('SELECT a.id, s.k FROM a LEFT JOIN (SELECT aid, coalesce(y, 1) AS k FROM b WHERE EXISTS (SELECT FROM c WHERE c.bid = b.id AND c.z > 1)) s ON a.id = s.aid');
SELECT ph.pushed('SELECT a.id FROM a WHERE a.id IN (SELECT coalesce(s.k, 4) FROM b LEFT JOIN (SELECT bid, coalesce(z, 1) AS k FROM c) s ON s.bid = b.id)');
-- whole rows, other types, implicit casts
SELECT ph.pushed('SELECT a.id, s.b, s.k FROM a LEFT JOIN (SELECT b, aid, y::numeric AS k FROM b) s ON a.id = s.aid');
SELECT ph.pushed('SELECT a.id, s.k || ''!'' AS k, s.n / 2 AS n FROM a LEFT JOIN (SELECT aid, ''k''::text AS k, coalesce(y, 1.0) AS n FROM b) s ON a.id = s.aid');
-- a subquery that is a SELECT of its own
SELECT ph.pushed('SELECT a.id, s.k FROM a LEFT JOIN (SELECT aid, coalesce(n, 0) + 1 AS k FROM (SELECT aid, max(y) AS n FROM b GROUP BY aid) g) s ON a.id = s.aid');
-- a FULL JOIN of what has conditions that nothing but a sub-select can hold
SELECT ph.pushed('SELECT a.id, b.id AS bid, c.id AS cid FROM (SELECT * FROM a WHERE x > 2) a FULL JOIN (SELECT b.id, b.aid FROM (SELECT * FROM b WHERE y > 3) b FULL JOIN c ON b.id = c.bid WHERE b.y IS NULL OR c.z > 1) b ON a.id = b.aid FULL JOIN c ON c.id = a.id');
-- expressions that the data node cannot compute are computed here where that gives the same result
SELECT ph.pushed('SELECT a.id, s.k FROM a LEFT JOIN (SELECT aid, concat(y, ''x'') AS k FROM b) s ON a.id = s.aid WHERE a.id < 20');
SELECT ph.pushed('SELECT l.id, s.k FROM local l LEFT JOIN (SELECT b.aid, concat(c.z, ''x'') AS k FROM b LEFT JOIN c ON c.bid = b.id) s ON l.id = s.aid');
-- LATERAL
SELECT ph.pushed('SELECT a.id, s.k FROM a LEFT JOIN LATERAL (SELECT b.id, coalesce(a.x, b.y) AS k FROM b) s ON a.id = s.id');
-- inside of a sub-select of an expression
SELECT ph.pushed('SELECT a.id FROM a WHERE a.x = (SELECT max(s.k) FROM b LEFT JOIN (SELECT bid, coalesce(z, 1) AS k FROM c) s ON s.bid = b.id WHERE b.aid = a.id) OR a.x = 6');
-- written there, and rechecked here
BEGIN;
EXPLAIN (VERBOSE, COSTS OFF) UPDATE ph_away.a SET x = coalesce(s.k, -2) FROM ph_away.b LEFT JOIN (SELECT bid, coalesce(z, -1) AS k FROM ph_away.c) s ON s.bid = b.id WHERE b.id = a.id;
UPDATE ph_away.a SET x = coalesce(s.k, -2) FROM ph_away.b LEFT JOIN (SELECT bid, coalesce(z, -1) AS k FROM ph_away.c) s ON s.bid = b.id WHERE b.id = a.id;
SELECT x, count(*) FROM ph.a GROUP BY x ORDER BY x;
ROLLBACK;
SELECT l.id, s.k, s.b FROM ph.local l, (SELECT a.id, u.k, u.b FROM ph_away.a LEFT JOIN (SELECT b, aid, coalesce(y, -1) AS k FROM ph_away.b) u ON u.aid = a.id) s WHERE s.id = l.id ORDER BY 1, 2, 3 FOR UPDATE OF l LIMIT 4;

-- The same expression in two grouping sets: each column is NULL in its own.
SELECT ph.pushed('SELECT x % 2 AS g, x % 2 AS h, count(*) AS n FROM a GROUP BY ROLLUP (1, 2)');
SELECT ph.pushed('SELECT s.one + 1 AS two, count(*) AS n FROM (SELECT 1 AS one, y FROM b) s GROUP BY ROLLUP (s.one)');

\pset format aligned
\pset tuples_only off
SET client_min_messages = warning;
DROP SCHEMA ph_away, ph CASCADE;
DROP SERVER ph_srv CASCADE;
