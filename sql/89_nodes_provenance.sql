-- Joins over several nodes, and over compute nodes: what an exchange carries is used for what it was computed for, and the rows are
-- those of local tables by every strategy.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
\getenv n1 RF_N1_PORT
\getenv n2 RF_N2_PORT
\getenv coord RF_COORD_PORT
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
CREATE DATABASE np_compute TEMPLATE template0;
\c np_compute postgres 127.0.0.1 :n2
SET client_min_messages = warning;
CREATE EXTENSION rdma_fdw;
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
CREATE SCHEMA np_here;
CREATE TABLE np_here.a AS SELECT i AS id, nullif(i % 11, 4) AS k, 'a' || i % 7 AS t FROM generate_series(1, 60) i;
CREATE TABLE np_here.b AS SELECT i AS id, nullif(i % 9, 3) AS k, nullif(i % 5, 2) AS v FROM generate_series(1, 40) i;
CREATE TABLE np_here.c AS SELECT i AS id, nullif(i % 12, 7) AS k, 'c' || i % 4 AS t FROM generate_series(1, 25) i;
CREATE TABLE np_here.r AS SELECT i AS id, nullif(i % 5, 2) AS k, 'r' || i AS t FROM generate_series(1, 12) i;
ANALYZE np_here.a, np_here.b, np_here.c, np_here.r;
CREATE SERVER np1 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port :'n1', dbname 'contrib_regression');
CREATE SERVER np2 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port :'n2', dbname 'contrib_regression');
CREATE SERVER np3 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port :'n2', dbname 'np_compute');
CREATE USER MAPPING FOR CURRENT_USER SERVER np1 OPTIONS (user 'postgres');
CREATE USER MAPPING FOR CURRENT_USER SERVER np2 OPTIONS (user 'postgres');
CREATE USER MAPPING FOR CURRENT_USER SERVER np3 OPTIONS (user 'postgres');
CREATE SERVER np FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'np1, np2', compute_nodes 'np3');
CREATE SCHEMA np;
SET search_path = np;
CREATE TABLE a AS TABLE np_here.a;
CREATE TABLE b AS TABLE np_here.b;
CREATE TABLE c AS TABLE np_here.c;
CREATE TABLE r AS TABLE np_here.r;
SET client_min_messages = error;
SELECT rdma.distribute_table('a', 'np', 'k'), rdma.distribute_table('b', 'np', 'id'), rdma.distribute_table('c', 'np'),
  rdma.distribute_table('r', 'np', replicated => true);
SET client_min_messages = warning;
ANALYZE a;
ANALYZE b;
ANALYZE c;
ANALYZE r;
RESET search_path;

-- The rows of a query by each strategy, without and on the compute node, and with joins for correlated aggregates, against those of
-- local tables.
CREATE FUNCTION np.same(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE strategy text; compute text; expected text; got text; wrong text;
  digest text := 'SELECT count(*) || '' rows '' || coalesce(md5(string_agg(q::text, chr(10) ORDER BY q::text)), '''') FROM (%s) q';
BEGIN
  SET LOCAL search_path = np_here, public;
  EXECUTE format(digest, query) INTO expected;
  SET LOCAL search_path = np, public;
  FOREACH strategy IN ARRAY '{auto,colocated,repartition_one,repartition_both,replicate,pull}'::text[] LOOP
    FOREACH compute IN ARRAY '{off,on,auto}'::text[] LOOP
      PERFORM set_config('rdma_fdw.exchange_strategy', strategy, true), set_config('rdma_fdw.disable',
        CASE compute WHEN 'off' THEN 'compute_nodes, decorrelation' WHEN 'on' THEN 'compute_node_costs, decorrelation_costs' ELSE 'decorrelation_costs' END, true);
      BEGIN
        EXECUTE format(digest, query) INTO got;
      EXCEPTION WHEN OTHERS THEN
        got := SQLERRM;
      END;
      IF got IS DISTINCT FROM expected THEN
        wrong := concat_ws(chr(10), wrong, format('*** %s, compute_nodes %s: %s', strategy, compute, got));
      END IF;
    END LOOP;
  END LOOP;
  RESET search_path;
  PERFORM set_config('rdma_fdw.exchange_strategy', 'auto', true), set_config('rdma_fdw.disable', '', true);
  RETURN coalesce(wrong, 'same, ' || split_part(expected, ' ', 1) || ' rows');
END $$;
-- What is sent.
CREATE FUNCTION np.sent(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
  SET LOCAL search_path = np, public;
  FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
    IF line ~ '^ *Remote SQL:' THEN
      RETURN NEXT regexp_replace(trim(line), ' rows=\d+ distinct=[-0-9,]+|(?<=(spread|broadcast)):[0-9,]+', '', 'g');
    END IF;
  END LOOP;
  RESET search_path;
END $$;
\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only on

-- an expression that rows of the nullable side are moved by, and the same above the join: only in ON is it what was moved
SET rdma_fdw.exchange_strategy = repartition_one;
SELECT np.sent('SELECT a.id, coalesce(b.v, 1) AS v FROM a LEFT JOIN b ON a.k = coalesce(b.v, 1) WHERE coalesce(b.v, 1) > 0');
SELECT np.sent('SELECT coalesce(b.v, 1) AS v, count(DISTINCT b.k) FROM b GROUP BY coalesce(b.v, 1)');
RESET rdma_fdw.exchange_strategy;
SELECT np.same('SELECT a.id, b.id AS bid, coalesce(b.v, 1) AS v FROM a LEFT JOIN b ON a.k = coalesce(b.v, 1) WHERE coalesce(b.v, 1) > 0');
SELECT np.same('SELECT a.id, coalesce(b.v, 1) AS v FROM a LEFT JOIN b ON a.k = coalesce(b.v, 1)');
SELECT np.same('SELECT coalesce(b.v, 1) AS v, count(*), count(b.v) FROM a LEFT JOIN b ON a.k = coalesce(b.v, 1) GROUP BY coalesce(b.v, 1)');
SELECT np.same('SELECT a.id, coalesce(b.v, 1) AS v, c.id AS cid FROM a LEFT JOIN b ON a.k = coalesce(b.v, 1) LEFT JOIN c ON c.k = coalesce(b.v, 1)');
SELECT np.same('SELECT coalesce(a.k, 2) AS x, coalesce(b.v, 2) AS y FROM a FULL JOIN b ON coalesce(a.k, 2) = coalesce(b.v, 2) + 5');
SELECT np.same('SELECT c.id, s.k, s.v FROM c LEFT JOIN (SELECT a.k, coalesce(b.v, 1) AS v FROM a LEFT JOIN b ON a.k = coalesce(b.v, 1)) s ON c.k = s.v');
-- expressions of subqueries move with the rows that they were computed of
SELECT np.same('SELECT a.id, s.one, s.v FROM a LEFT JOIN (SELECT k, 1 AS one, coalesce(v, 1) AS v FROM b) s ON a.k = s.k');
SELECT np.same('SELECT a.id, s.one, s.v FROM a LEFT JOIN (SELECT b.k, 1 AS one, coalesce(c.k, b.v, 1) AS v FROM b LEFT JOIN c ON c.k = b.v) s ON a.k = s.v WHERE s.one IS NULL OR s.v > 1');
SELECT np.same('SELECT a.id, s.m, s.v FROM a LEFT JOIN (SELECT b.k, u.m, coalesce(u.m, 0) + 1 AS v FROM b LEFT JOIN (SELECT k, coalesce(id, 1) * 2 AS m FROM c) u ON u.m = b.v + 2) s ON a.k = s.v');
SELECT np.same('SELECT s.v, count(*), count(s.one) FROM a LEFT JOIN (SELECT k, 1 AS one, coalesce(v, 1) AS v FROM b) s ON a.k = s.v GROUP BY s.v');
SELECT np.same('SELECT coalesce(q4.t, q1.t) AS t, q3.id FROM (SELECT id, k, coalesce(t, ''none'') AS t FROM a) q1 FULL JOIN (c q3 RIGHT JOIN r q4 ON coalesce(q3.k, 8) = q4.k) ON q1.k = q3.id WHERE q1.k IS NOT NULL AND concat(q1.t, '''') IS NOT NULL');
SELECT np.same('SELECT id FROM a WHERE k NOT IN (SELECT coalesce(s.v, 3) FROM c LEFT JOIN (SELECT k, coalesce(v, 1) AS v FROM b) s ON s.k = c.k)');
-- nested IN and EXISTS: what an exchange is filtered by may be read again
SELECT np.same('SELECT id FROM a WHERE id IN (SELECT k FROM a WHERE k IN (SELECT id FROM a))');
SELECT np.same('SELECT id FROM a WHERE k IN (SELECT v FROM b WHERE v IN (SELECT k FROM c))');
SELECT np.same('SELECT id FROM b WHERE k IN (SELECT v FROM b WHERE v IN (SELECT k FROM b))');
SELECT np.same('SELECT id FROM a WHERE k IN (SELECT v FROM b WHERE v NOT IN (SELECT k FROM c WHERE k IS NOT NULL))');
SELECT np.same('SELECT id FROM a WHERE NOT EXISTS (SELECT FROM b WHERE b.v = a.k AND EXISTS (SELECT FROM c WHERE c.k = b.v AND NOT EXISTS (SELECT FROM r WHERE r.k = c.id)))');
-- a column that equals one to sort by need not have moved
SELECT np.same('SELECT w.t, e.id, (SELECT max(z.k) FROM a z WHERE z.id = v.id) AS m FROM a p LEFT JOIN (SELECT id, k FROM c EXCEPT SELECT id, k FROM r WHERE id > 5) e ON p.k = e.id JOIN (a v JOIN r w ON v.id = w.k) ON e.k = w.k JOIN (SELECT id FROM b) f ON e.id = f.id WHERE v.id IN (1, 3) ORDER BY 1, 2, 3 LIMIT 3');
-- what grouping sets make NULL does not lie where NULLs lie
SELECT np.same('SELECT k, id AS v FROM a WHERE k = 5 GROUP BY GROUPING SETS ((id), (k, id)) UNION SELECT k, id + 1 FROM a');
SELECT np.same('SELECT k % 2 AS g, k % 2 AS h, count(*) FROM a GROUP BY ROLLUP (1, 2)');
-- an order by an aggregate of an expression is not what rows that have moved are sorted by
SELECT np.same('SELECT bool_and(a.k < 9), count(b.id)::int4 FROM a JOIN b ON a.t <> b.id::text ORDER BY 1, 2');

-- a column of another type on the nodes: moved by its text, as it comes when it is read
SELECT node, answer FROM rdma.run_on('np', $$CREATE TYPE np_mood AS ENUM ('c3', 'c2', 'c1', 'c0')$$);
SELECT node, answer FROM rdma.run_on('np', 'ALTER TABLE np.c ALTER t TYPE np_mood USING t::np_mood');
SELECT node, answer FROM rdma.run_on('np', 'ALTER TABLE np.b ALTER v TYPE boolean USING v > 1');
SET rdma_fdw.propagate_ddl = off;
ALTER FOREIGN TABLE np.b ALTER v TYPE text;
RESET rdma_fdw.propagate_ddl;
ALTER TABLE np_here.b ALTER v TYPE text USING CASE WHEN v > 1 THEN 't' WHEN v <= 1 THEN 'f' END;
SELECT np.same('SELECT c.id, c.t, x.t AS xt FROM c JOIN c x ON c.k = x.k + 1');
SELECT np.same('SELECT c.t, b.v, count(*) FROM c JOIN b ON c.k = b.k GROUP BY 1, 2');
SELECT np.same('SELECT a.id, b.v FROM a JOIN b ON a.id + 1 = b.k + 1');

\pset format aligned
\pset tuples_only off
DROP SCHEMA np, np_here CASCADE;
DROP SERVER np, np1, np2, np3 CASCADE;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA np CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA np CASCADE;
DROP DATABASE np_compute WITH (FORCE);
