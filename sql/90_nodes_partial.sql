-- Aggregates over several nodes, of which each node computes the state. States are for the same major version: with nodes of
-- another one their rows are aggregated here (90_nodes_partial_1.out).
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name npa
\i :two_nodes
RESET search_path;
CREATE SCHEMA npa_copy;
CREATE TABLE npa_copy.t AS SELECT i AS id, i::bigint AS b, nullif(i % 11, 4) AS x, i / 4.0 AS n FROM generate_series(1, 600) i;
CREATE TABLE npa.t AS TABLE npa_copy.t;
SELECT rdma.distribute_table('npa.t', 'npa', 'id');
ANALYZE npa_copy.t, npa.t;

-- What is sent, and whether the rows are those of the local copy.
CREATE FUNCTION npa.sent(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text; got text[]; expected text[]; rows text := format('SELECT array_agg(r ORDER BY r) FROM (SELECT row_to_json(q)::text FROM (%s) q) x(r)', query);
BEGIN
  SET LOCAL search_path = npa, public;
  FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
    IF line ~ 'Aggregate$|Remote SQL' THEN
      RETURN NEXT ltrim(line);
    END IF;
  END LOOP;
  EXECUTE rows INTO got;
  SET LOCAL search_path = npa_copy, public;
  EXECUTE rows INTO expected;
  IF got IS DISTINCT FROM expected OR expected IS NULL THEN
    RETURN NEXT '*** rows that differ';
  END IF;
  RESET search_path;
END $$;
\pset format unaligned
\pset tuples_only on
SELECT npa.sent('SELECT x, count(*) AS c, avg(id) AS i, sum(b) AS s FROM t GROUP BY x HAVING count(*) > 10');
SELECT npa.sent('SELECT count(*) AS c, max(n) AS m, round(stddev(n), 9) AS d FROM t');
-- an expression that is grouped by may stand in others
SELECT npa.sent('SELECT x + 1 AS g, (x + 1) * 2 + count(*) AS more, sum(b) FROM t GROUP BY x + 1 HAVING x + 1 < 4');
-- in a sub-select that is computed first, and above one for each row
SELECT npa.sent('SELECT id, count(*) AS c FROM t WHERE n > (SELECT avg(n) FROM t) GROUP BY id');
SELECT replace(s, 'r3', 'r2') FROM npa.sent('SELECT x, sum((SELECT count(*) FROM t u WHERE u.id = t.id)) AS s FROM t GROUP BY x') s; -- 18 numbers the groups, too

-- columns that have other types there: the states are those of the types here
CREATE FOREIGN TABLE npa.drift (id numeric, b smallint, x bigint, n float8) SERVER npa OPTIONS (schema_name 'npa', table_name 't');
CREATE TABLE npa_copy.drift AS SELECT id::numeric, b::smallint, x::bigint, n::float8 FROM npa_copy.t;
SELECT count(*) FROM npa.sent('SELECT x, sum(id), avg(id), stddev(id), sum(b), avg(b), round(var_pop(b), 6), avg(n), max(n), count(b), bool_or(b = 7) FROM drift GROUP BY x') WHERE sent LIKE '***%';
CREATE FOREIGN TABLE npa.as_text (b text, x text) SERVER npa OPTIONS (schema_name 'npa', table_name 't');
CREATE TABLE npa_copy.as_text AS SELECT b::text, x::text FROM npa_copy.t;
SELECT npa.sent('SELECT max(b), min(x), count(x) FROM as_text');
ALTER FOREIGN TABLE npa.as_text ADD gone int;
CREATE FOREIGN TABLE npa.nowhere (a int) SERVER npa;
SELECT item, status, value FROM rdma.check('npa') WHERE item = 'columns';

\pset format aligned
\pset tuples_only off
SET client_min_messages = warning;
SELECT rdma.run_on('npa1', 'DROP SCHEMA npa CASCADE') IS NOT NULL, rdma.run_on('npa2', 'DROP SCHEMA npa CASCADE') IS NOT NULL;
DROP SCHEMA npa, npa_copy CASCADE;
DROP SERVER npa1, npa2, npa CASCADE;
