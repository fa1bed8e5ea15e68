-- Windows that refer to others by name, frames, and filters, as part of remote statements.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
RESET client_min_messages;
DO $$ BEGIN EXECUTE format(
  'CREATE SERVER win FOREIGN DATA WRAPPER rdma_fdw OPTIONS (use_remote_estimate ''true'', host ''127.0.0.1'', port %L, dbname %L)',
  current_setting('port'), current_database()); END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER win OPTIONS (user :'USER');
CREATE SCHEMA here;
CREATE TABLE here.t (id int, k int, v int, d date, s text);
INSERT INTO here.t SELECT i, i % 7, (i * 31) % 50, date '2020-01-01' + i % 40, 's' || i % 9 FROM generate_series(1, 300) i;
ANALYZE here.t;
CREATE SCHEMA away;
IMPORT FOREIGN SCHEMA here FROM SERVER win INTO away;
ANALYZE away.t;

-- Prints the windows that the data node is given, and compares the rows with those of the table here.
CREATE FUNCTION compared(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text; got text; expected text;
BEGIN
  PERFORM set_config('search_path', 'here, public', true);
  EXECUTE format('SELECT string_agg(q::text, '' '' ORDER BY q::text) FROM (%s) q', query) INTO expected;
  PERFORM set_config('search_path', 'away, public', true);
  EXECUTE format('SELECT string_agg(q::text, '' '' ORDER BY q::text) FROM (%s) q', query) INTO got;
  FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
    IF line ~ 'Remote SQL' THEN
      RETURN NEXT (SELECT string_agg(m[1], '; ') FROM regexp_matches(line, 'OVER (\([^()]*\))', 'g') m);
    END IF;
  END LOOP;
  IF got IS DISTINCT FROM expected THEN
    RETURN NEXT format('DIFFERENT: %s instead of %s', left(got, 300), left(expected, 300));
  END IF;
END $$;
\pset format unaligned
\pset tuples_only on
SELECT compared('SELECT id, sum(v) OVER (w) FROM t WINDOW w AS (ORDER BY id) LIMIT 3');
SELECT compared('SELECT id, sum(v) OVER w, sum(v) OVER (w ROWS 2 PRECEDING) FROM t WINDOW w AS (PARTITION BY k ORDER BY id) ORDER BY id LIMIT 30');
SELECT compared('SELECT id, count(*) OVER (w2), rank() OVER (w2), first_value(s) OVER (w2 ROWS UNBOUNDED PRECEDING) FROM t WINDOW w AS (PARTITION BY k), w2 AS (w ORDER BY v DESC, id) ORDER BY id LIMIT 30');
SELECT compared('SELECT id, sum(v) OVER (w GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE TIES), sum(v) OVER (w RANGE BETWEEN 3 PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW) FROM t WINDOW w AS (PARTITION BY k ORDER BY v) ORDER BY id LIMIT 30');
SELECT compared('SELECT id, sum(v) FILTER (WHERE s <> ''s3'') OVER (w), count(*) OVER (w ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING EXCLUDE GROUP) FROM t WINDOW w AS (ORDER BY id DESC) ORDER BY id LIMIT 30');
SELECT compared('SELECT id, count(*) OVER (w RANGE BETWEEN ''3 days'' PRECEDING AND ''1 day'' FOLLOWING) FROM t WINDOW w AS (ORDER BY d) ORDER BY id LIMIT 30');
SELECT compared('SELECT a.id, sum(b.v) OVER (w), lag(b.v, 2, -1) OVER (PARTITION BY b.k ORDER BY b.id) FROM t a JOIN t b ON a.id = b.id WINDOW w AS (PARTITION BY a.k ORDER BY b.id) ORDER BY a.id LIMIT 30');
-- an expression with a window in it that the deparser begins on a line of its own
SELECT compared('SELECT id, CASE WHEN count(*) OVER (PARTITION BY k) > 42 THEN ''many'' ELSE ''few'' END AS c FROM t ORDER BY id LIMIT 30');

SET client_min_messages = warning;
DROP SCHEMA here, away CASCADE;
DROP FUNCTION compared;
DROP SERVER win CASCADE;
