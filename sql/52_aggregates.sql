-- Grouping, aggregates, DISTINCT and window functions on the data node.
\set ECHO none
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
RESET client_min_messages;
SET timezone = 'UTC';

DO $$ BEGIN EXECUTE format(
  'CREATE SERVER agg_srv FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host ''127.0.0.1'', port %L, dbname %L)',
  current_setting('port'), current_database()); EXECUTE format(
  'CREATE SERVER agg_other FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host ''127.0.0.1'', port %L, dbname %L)',
  current_setting('port'), current_database()); END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER agg_srv OPTIONS (user :'USER');
CREATE USER MAPPING FOR CURRENT_USER SERVER agg_other OPTIONS (user :'USER');

CREATE SCHEMA here;
CREATE TYPE here.mood AS ENUM ('sad', 'ok');
CREATE TABLE here.t (id int PRIMARY KEY, k int, v int, n numeric(10, 2), f float8, s text, c text COLLATE "C", d date, m here.mood, b boolean);
INSERT INTO here.t SELECT i, nullif(i % 7, 3), i % 13, i * 1.25, i / 4.0, 's' || i % 11, 'C' || i % 5, date '2020-01-01' + i % 40,
    (ARRAY['sad', 'ok'])[1 + i % 2]::here.mood, i % 3 = 0 FROM generate_series(1, 500) i;
CREATE TABLE here.u (id int PRIMARY KEY, w int);
INSERT INTO here.u SELECT i, i % 4 FROM generate_series(0, 6) i;
ANALYZE here.t, here.u;
CREATE SCHEMA away;
IMPORT FOREIGN SCHEMA here FROM SERVER agg_srv INTO away;
ANALYZE away.t, away.u;

-- 16 and later sort for aggregates below them.
DO $$ BEGIN PERFORM set_config(name, 'off', false) FROM pg_settings WHERE name = 'enable_presorted_aggregate'; END $$;
-- Prints what a query's foreign scans send and what remains to be done here, and compares its rows with those of the tables themselves.
CREATE FUNCTION pushed(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text; diff bigint;
BEGIN
  SET LOCAL search_path = away, public;
  FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
    -- Frames that 16 and later shorten, and what 18 says of windows.
    IF line !~ '^ *(Output|Relations|Sort Key|Group Key|Hash Cond|Merge Cond|Planning|Query Identifier|Inner Unique|Window:):?' THEN
      RETURN NEXT replace(regexp_replace(line, ' \(returns .*| ROWS UNBOUNDED PRECEDING', '', 'g'), 'OVER w1', 'OVER (?)');
    END IF;
  END LOOP;
  EXECUTE format('CREATE TEMP TABLE got AS SELECT row_to_json(q)::text FROM (%s) q', query);
  SET LOCAL search_path = here, public;
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
\set ECHO all

-- plain aggregates
SELECT pushed('SELECT count(*), count(k), sum(v), avg(n), min(d), max(f), stddev(v), bool_and(b), bit_or(v), every(b) FROM t');
SELECT pushed('SELECT k, count(*) FROM t GROUP BY k');
SELECT pushed('SELECT k, sum(v) + 1, avg(v) * 2 FROM t WHERE id < 100 GROUP BY k');
SELECT pushed('SELECT k + 1, v % 3, count(*) FROM t GROUP BY 1, 2');
SELECT pushed('SELECT sum(v) FROM t GROUP BY k');
SELECT pushed('SELECT k FROM t GROUP BY k');
SELECT pushed('SELECT k, k * 2 AS twice, sum(v) FROM t GROUP BY k');
SELECT pushed('SELECT s, c, count(*) FROM t GROUP BY s, c');
SELECT pushed('SELECT upper(s), max(c), min(s) FROM t GROUP BY upper(s)');
SELECT pushed('SELECT CASE WHEN v > 5 THEN ''big'' ELSE ''small'' END, count(*) FROM t GROUP BY 1');
SELECT pushed('SELECT extract(month FROM d), count(*) FROM t GROUP BY 1');
SELECT pushed('SELECT b, count(*) FROM t GROUP BY b HAVING count(*) > 200 AND sum(v) > 3');
SELECT pushed('SELECT 1 FROM t HAVING count(*) > 1');
SELECT pushed('SELECT k, 5 AS five, ''x'' AS x FROM t GROUP BY k, 3');
-- aggregates with syntax of their own
SELECT pushed('SELECT k, count(DISTINCT v), sum(DISTINCT v % 3) FROM t GROUP BY k');
SELECT pushed('SELECT k, sum(v) FILTER (WHERE b), count(*) FILTER (WHERE v > 6 AND n < 100) FROM t GROUP BY k');
SELECT pushed('SELECT k, array_agg(v ORDER BY v DESC, id), string_agg(c, '','' ORDER BY c DESC NULLS LAST, id) FROM t WHERE id < 50 GROUP BY k');
SELECT pushed('SELECT k, array_agg(DISTINCT v ORDER BY v NULLS FIRST) FROM t GROUP BY k');
SELECT pushed('SELECT k, percentile_cont(0.5) WITHIN GROUP (ORDER BY f), percentile_disc(ARRAY[0.1, 0.9]) WITHIN GROUP (ORDER BY v) FROM t GROUP BY k');
SELECT pushed('SELECT mode() WITHIN GROUP (ORDER BY c), rank(5) WITHIN GROUP (ORDER BY v DESC) FROM t');
SELECT pushed('SELECT k, regr_slope(f, v), corr(v, f) FROM t GROUP BY k');
SELECT pushed('SELECT count((v, k)) FROM t');
-- several groupings at once
SELECT pushed('SELECT k, b, count(*), grouping(k, b) FROM t GROUP BY GROUPING SETS ((k, b), (k), ())');
SELECT pushed('SELECT k, b, sum(v) FROM t GROUP BY ROLLUP (k, b)');
SELECT pushed('SELECT k, b, sum(v) FROM t GROUP BY CUBE (k, b) HAVING count(*) > 10');
SELECT pushed('SELECT count(*) FROM t GROUP BY ()');
-- over joins
SELECT pushed('SELECT u.w, count(*), sum(t.v) FROM t JOIN u ON t.k = u.id GROUP BY u.w');
SELECT pushed('SELECT u.id, count(t.id) FROM u LEFT JOIN t ON t.k = u.id AND t.v > 11 GROUP BY u.id HAVING count(t.id) < 8');
SELECT pushed('SELECT w, s.n FROM u, (SELECT k, count(*) AS n FROM t GROUP BY k) s WHERE s.k = u.id');
-- 18 numbers the groups, too.
SELECT regexp_replace(p, '\mr3\M', 'r2', 'g') AS pushed FROM pushed('SELECT k, sum(v) FROM t WHERE EXISTS (SELECT FROM u WHERE u.id = t.k AND w = 1) GROUP BY k') p;
-- values from the outer query
SELECT pushed('SELECT k, count(*) FROM t WHERE v > (SELECT min(w) + 9 FROM u) GROUP BY k HAVING count(*) > (SELECT max(w) FROM u)');
SELECT pushed('SELECT w, (SELECT count(*) FROM t WHERE t.k = u.w) FROM u');
SELECT pushed('SELECT w, (SELECT sum(t.v + u.w) FROM t WHERE t.k = u.w) FROM u');
SET plan_cache_mode = force_generic_plan;
PREPARE p(int) AS SELECT k + $1 AS g, count(*), sum(v * $1) FROM away.t GROUP BY 1 HAVING sum(v) > $1 ORDER BY 1;
EXPLAIN (VERBOSE, COSTS OFF) EXECUTE p(2);
EXECUTE p(2);
PREPARE p2(int) AS SELECT $1 AS g, count(*) FROM away.t GROUP BY 1;
EXECUTE p2(2);
DEALLOCATE ALL;
RESET plan_cache_mode;

-- what is computed here from what the data node groups
SELECT pushed('SELECT k, to_char(max(d), ''YYYY'') FROM t GROUP BY k');
SELECT pushed('SELECT k, sum(v) FROM t GROUP BY k HAVING to_char(max(d), ''YYYY'') = ''2020''');
SELECT pushed('SELECT k, sum(v), random() >= 0 FROM t GROUP BY k');
SELECT pushed('SELECT k, generate_series(1, 2), sum(v) FROM t GROUP BY k');
-- what is not grouped there
SELECT pushed('SELECT m, count(*) FROM t GROUP BY m');
SELECT pushed('SELECT k, max(m) FROM t GROUP BY k');
SELECT pushed('SELECT k, count(*) FROM t WHERE m = ''ok'' GROUP BY k');
SELECT pushed('SELECT k, count(*) FILTER (WHERE m = ''ok'') FROM t GROUP BY k');
SELECT pushed('SELECT to_char(d, ''MM''), count(*) FROM t GROUP BY 1');
SELECT pushed('SELECT k, sum(v) FILTER (WHERE random() >= 0) FROM t GROUP BY k');
SELECT pushed('SELECT max(v::text), min(s COLLATE "POSIX"), min(s COLLATE "en-x-icu") FROM t');
SELECT pushed('SELECT max(s COLLATE "POSIX") FROM t');
SELECT pushed('SELECT string_agg(s, v::text ORDER BY v::text COLLATE "C", id) FROM t WHERE id < 5');
SELECT pushed('SELECT string_agg(s, v::text ORDER BY v::text, id) FROM t WHERE id < 5');
SELECT pushed('SELECT json_object_agg(id, v ORDER BY id)::text FROM t WHERE id < 4');
CREATE AGGREGATE mine(int) (SFUNC = int4pl, STYPE = int, INITCOND = '0');
SELECT pushed('SELECT k, mine(v) FROM t GROUP BY k');
SELECT pushed('SELECT tableoid::regclass = ''t''::regclass, count(*) FROM t GROUP BY 1');
SELECT pushed('SELECT count(t) FROM t');

-- DISTINCT
SELECT pushed('SELECT DISTINCT k FROM t');
SELECT pushed('SELECT DISTINCT k, v % 2 = 0, upper(s) FROM t WHERE id < 90');
SELECT pushed('SELECT DISTINCT k, 7 FROM t');
SELECT pushed('SELECT DISTINCT w FROM t JOIN u ON t.k = u.id');
SELECT pushed('SELECT DISTINCT count(*) > 70 FROM t GROUP BY k');
SELECT pushed('SELECT DISTINCT k, v FROM t ORDER BY v, k DESC LIMIT 5');
SELECT pushed('SELECT DISTINCT m FROM t');
SELECT pushed('SELECT DISTINCT k, random() >= 0 FROM t');
SELECT pushed('SELECT DISTINCT to_char(d, ''MM'') FROM t');
-- 18 has no Result above Unique, and 16 and later a Limit instead of Unique for one row.
SELECT ltrim(p, ' ->') AS pushed FROM pushed('SELECT DISTINCT ON (k) k, id FROM t ORDER BY k, id') p WHERE p <> 'Result';
SELECT ltrim(p, ' ->') AS pushed FROM pushed('SELECT DISTINCT 1 FROM t') p WHERE p NOT IN ('Unique', 'Limit');

-- window functions
SELECT pushed('SELECT id, row_number() OVER (ORDER BY id) FROM t');
SELECT pushed('SELECT id, rank() OVER (PARTITION BY k ORDER BY v DESC NULLS LAST), sum(v) OVER (PARTITION BY b) FROM t');
SELECT pushed('SELECT id, sum(v) OVER w, first_value(id) OVER w FROM t WINDOW w AS (PARTITION BY k ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW EXCLUDE TIES)');
SELECT pushed('SELECT id, count(*) OVER (ORDER BY d RANGE BETWEEN interval ''3 days'' PRECEDING AND CURRENT ROW) FROM t');
SELECT pushed('SELECT k, sum(v), rank() OVER (ORDER BY sum(v), k) FROM t GROUP BY k');
SELECT pushed('SELECT DISTINCT k, max(v) OVER (PARTITION BY k) FROM t');
SELECT pushed('SELECT id, m, lag(id) OVER (ORDER BY id) FROM t');
SELECT pushed('SELECT id, lag(m) OVER (ORDER BY id) FROM t');
SELECT pushed('SELECT id, rank() OVER (ORDER BY v::text) FROM t');
SELECT pushed('SELECT id, to_char(max(d) OVER (PARTITION BY k), ''MM'') FROM t');
SELECT pushed('SELECT * FROM (SELECT id, row_number() OVER (ORDER BY id) AS r FROM t) x WHERE r <= 3');
SELECT pushed('SELECT id, count(*) FILTER (WHERE v > 3) OVER (ORDER BY id) FROM t ORDER BY id LIMIT 7');

-- one aggregate per partition
CREATE TABLE away.p (k int, v int, n numeric) PARTITION BY LIST (k);
CREATE FOREIGN TABLE away.p1 PARTITION OF away.p FOR VALUES IN (0, 1, 2) SERVER agg_srv OPTIONS (schema_name 'here');
CREATE FOREIGN TABLE away.p2 PARTITION OF away.p FOR VALUES IN (4, 5, 6) SERVER agg_other OPTIONS (schema_name 'here');
CREATE VIEW here.p1 AS SELECT k, v, n FROM here.t WHERE k < 3;
CREATE VIEW here.p2 AS SELECT k, v, n FROM here.t WHERE k > 3;
CREATE VIEW here.p AS SELECT k, v, n FROM here.t WHERE k <> 3;
SET enable_partitionwise_aggregate = on;
SELECT pushed('SELECT k, count(*), sum(n) FROM p GROUP BY k HAVING count(*) > 5');
SELECT pushed('SELECT count(*), sum(v), max(n) FROM p');
SELECT pushed('SELECT v, count(*), sum(v), max(n), bool_or(k > 1) FROM p GROUP BY v HAVING count(*) > 30');
SELECT pushed('SELECT v % 3 AS r, count(*) + 1, min(k) FROM p WHERE v > 2 GROUP BY 1');
SELECT pushed('SELECT v, sum(k) FILTER (WHERE n > 100) FROM p GROUP BY v');
SELECT pushed('SELECT count(*), max(n) FROM p WHERE v > 1000');
-- a state that leaves as bytes, and what has to see all rows at once
SELECT pushed('SELECT v, count(*), avg(n) FROM p GROUP BY v');
SELECT pushed('SELECT v, count(DISTINCT k) FROM p GROUP BY v');
RESET enable_partitionwise_aggregate;

-- unused aggregates still form one group of all rows
SELECT pushed('SELECT count(*) FROM (SELECT max(now()) FROM t a JOIN t b USING (id)) s');
SELECT pushed('SELECT 1 AS one FROM (SELECT sum(a.v) FROM t a JOIN t b USING (id) GROUP BY a.k) s');

-- with the data node's estimates
ALTER SERVER agg_srv OPTIONS (ADD use_remote_estimate 'true');
SELECT pushed('SELECT k, count(*), sum(v) FROM t WHERE v > 3 GROUP BY k HAVING sum(v) > 100 ORDER BY 2 LIMIT 2');
SELECT pushed('SELECT DISTINCT s FROM t ORDER BY s');
SELECT pushed('SELECT id, rank() OVER (ORDER BY v) FROM t WHERE id < 100');
\set ECHO none
ALTER SERVER agg_srv OPTIONS (DROP use_remote_estimate);

SET client_min_messages = warning;
DROP SERVER agg_srv, agg_other CASCADE;
DROP SCHEMA away, here CASCADE;
DROP FUNCTION pushed(text);
DROP AGGREGATE mine(int);
