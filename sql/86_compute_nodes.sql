-- Servers whose nodes only hold rows, while others join them: those have the extension, but not the tables. Two of the four are
-- databases of one cluster with another node or with the coordinator itself, and one holds rows as well.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
\getenv n1 RF_N1_PORT
\getenv n2 RF_N2_PORT
\getenv coord RF_COORD_PORT
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
CREATE SCHEMA cn;
CREATE TABLE cn.a (id int, x int, t text, n numeric);
CREATE TABLE cn.b (id bigint, aid int, y int, t text);
CREATE TABLE cn.s (v int, k int);
CREATE TABLE cn.r (id int, name text);
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
CREATE SCHEMA cn;
CREATE TABLE cn.a (id int, x int, t text, n numeric);
CREATE TABLE cn.b (id bigint, aid int, y int, t text);
CREATE TABLE cn.s (v int, k int);
CREATE TABLE cn.r (id int, name text);
CREATE DATABASE cn_two TEMPLATE template0;
\c cn_two postgres 127.0.0.1 :n2
SET client_min_messages = warning;
CREATE EXTENSION rdma_fdw;
\c contrib_regression postgres 127.0.0.1 :coord
CREATE DATABASE cn_here TEMPLATE template0;
\c cn_here postgres 127.0.0.1 :coord
SET client_min_messages = warning;
CREATE EXTENSION rdma_fdw;
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
CREATE SCHEMA cn_here;
CREATE TABLE cn_here.a AS SELECT i AS id, nullif(i % 7, 3) AS x, 'a' || i % 13 AS t, i / 4.0 AS n FROM generate_series(1, 200) i;
CREATE TABLE cn_here.b AS SELECT i::bigint AS id, nullif(i % 240, 5) AS aid, i % 11 AS y, 'a' || i % 17 AS t FROM generate_series(1, 800) i;
CREATE TABLE cn_here.s AS SELECT i AS v, CASE WHEN i % 10 < 6 THEN 3 WHEN i % 10 < 9 THEN i % 50 END AS k FROM generate_series(1, 400) i;
CREATE TABLE cn_here.r AS SELECT i AS id, 'r' || i AS name FROM generate_series(0, 9) i;
ANALYZE cn_here.a, cn_here.b, cn_here.s, cn_here.r;
CREATE SERVER cn1 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port :'n1', dbname 'contrib_regression');
CREATE SERVER cn2 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port :'n2', dbname 'contrib_regression');
CREATE SERVER cn_two FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port :'n2', dbname 'cn_two');
CREATE SERVER cn_here FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port :'coord', dbname 'cn_here');
CREATE USER MAPPING FOR CURRENT_USER SERVER cn1 OPTIONS (user 'postgres');
CREATE USER MAPPING FOR CURRENT_USER SERVER cn2 OPTIONS (user 'postgres');
CREATE USER MAPPING FOR CURRENT_USER SERVER cn_two OPTIONS (user 'postgres');
CREATE USER MAPPING FOR CURRENT_USER SERVER cn_here OPTIONS (user 'postgres');
CREATE SERVER cn FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'cn1, cn2', compute_nodes 'cn_two, cn_here');
CREATE SCHEMA cn;
CREATE FOREIGN TABLE cn.a (id int, x int, t text, n numeric) SERVER cn OPTIONS (distributed_by 'id');
CREATE FOREIGN TABLE cn.b (id bigint, aid int, y int, t text) SERVER cn OPTIONS (distributed_by 'id');
CREATE FOREIGN TABLE cn.s (v int, k int) SERVER cn OPTIONS (distributed_by 'v');
CREATE FOREIGN TABLE cn.r (id int, name text) SERVER cn OPTIONS (replicated 'true');
INSERT INTO cn.a SELECT * FROM cn_here.a;
INSERT INTO cn.b SELECT * FROM cn_here.b;
INSERT INTO cn.s SELECT * FROM cn_here.s;
INSERT INTO cn.r SELECT * FROM cn_here.r;
ANALYZE cn.a, cn.b, cn.s, cn.r;

-- How a query's rows move, and whether they are those of local tables.
CREATE FUNCTION cn.moved(query text, run boolean DEFAULT true) RETURNS text LANGUAGE plpgsql AS $$
DECLARE line text; how text; diff bigint;
BEGIN
  SET LOCAL search_path = cn, public;
  FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
    IF line ~ '^ *(Nodes|Compute Nodes|Strategy|Exchange)' THEN
      how := concat_ws('; ', how, trim(line));
    END IF;
  END LOOP;
  IF NOT run THEN
    RETURN how;
  END IF;
  EXECUTE format('CREATE TEMP TABLE got AS SELECT row_to_json(q)::text FROM (%s) q', query);
  SET LOCAL search_path = cn_here, public;
  EXECUTE format('CREATE TEMP TABLE expected AS SELECT row_to_json(q)::text FROM (%s) q', query);
  SELECT count(*) INTO diff FROM ((TABLE got EXCEPT ALL TABLE expected) UNION ALL (TABLE expected EXCEPT ALL TABLE got)) d;
  IF diff <> 0 OR NOT EXISTS (TABLE expected) THEN
    how := concat_ws('; ', how, '*** rows that differ: ' || diff || ', expected: ' || (SELECT count(*) FROM expected));
  END IF;
  DROP TABLE got, expected;
  RESET search_path;
  RETURN how;
END $$;
CREATE TABLE cn.queries (n serial, query text);
INSERT INTO cn.queries (query) VALUES
  ('SELECT a.id, b.y, b.t FROM a JOIN b ON a.id = b.aid'),
  ('SELECT a.id, b.y, b.t FROM a LEFT JOIN b ON a.id = b.aid AND b.y > 3'),
  ('SELECT a.id, b.y, b.t FROM b LEFT JOIN a ON a.id = b.aid AND b.y > 3'),
  ('SELECT a.id, b.y, b.t FROM a FULL JOIN b ON a.id = b.aid'),
  ('SELECT a.id, a.t FROM a WHERE EXISTS (SELECT FROM b WHERE b.aid = a.id AND b.y > 4)'),
  ('SELECT a.id, a.t FROM a WHERE NOT EXISTS (SELECT FROM b WHERE b.aid = a.id AND b.y > 4)'),
  ('SELECT a.id, b.id AS bid FROM a JOIN b ON a.id < b.id AND a.id > 190'),
  ('SELECT a.id, b.id AS bid FROM a LEFT JOIN b ON a.id < b.id AND b.id < 20'),
  ('SELECT a.id, b.t FROM a JOIN b USING (id)'),
  ('SELECT r.name, s.name AS n2 FROM r JOIN r s ON r.id = s.id + 1'),
  ('SELECT a.id, r.name, b.y FROM a JOIN r ON a.x = r.id JOIN b ON b.aid = a.id'),
  ('SELECT a.id, r.name, b.y FROM a LEFT JOIN r ON a.x = r.id LEFT JOIN b ON b.aid = a.id AND b.y = r.id'),
  ('SELECT a.id, b.id AS bid, c.id AS cid FROM a JOIN b ON a.id = b.aid JOIN b c ON c.id = b.y'),
  ('SELECT s.v, b.id FROM s JOIN b ON s.k = b.y'),
  ('SELECT s.v, b.id FROM s LEFT JOIN b ON s.k = b.y AND b.id < 50'),
  ('SELECT a.x, count(*) AS n, sum(b.y) AS y, avg(a.n) AS a FROM a JOIN b ON a.id = b.aid GROUP BY a.x'),
  ('SELECT a.id, count(*) AS n FROM a JOIN b ON a.id = b.aid GROUP BY a.id HAVING count(*) > 1'),
  ('SELECT count(*) AS n, sum(b.y) AS y, avg(a.n) AS a FROM a JOIN b ON a.id = b.aid'),
  ('SELECT a.x, b.y, count(*) AS n FROM a JOIN b ON a.id = b.aid GROUP BY GROUPING SETS ((a.x, b.y), (a.x))'),
  ('SELECT t, count(DISTINCT x) AS n FROM a GROUP BY t'),
  ('SELECT DISTINCT a.t, b.t AS t2 FROM a JOIN b ON a.id = b.aid'),
  ('SELECT a.id, row_number() OVER (PARTITION BY a.x ORDER BY a.id, b.id) AS n FROM a JOIN b ON a.id = b.aid'),
  ('SELECT a.id, b.y FROM a JOIN b ON a.id = b.aid ORDER BY a.id DESC, b.id LIMIT 20'),
  ('SELECT a.id, b.id AS bid FROM a JOIN b ON a.x = b.y WHERE a.id = 18'),
  ('SELECT count(*) AS n FROM a JOIN b ON a.id = b.aid WHERE b.y > 100'),
  ('SELECT id, t FROM a UNION SELECT aid, t FROM b'),
  ('SELECT x FROM a EXCEPT ALL SELECT y FROM b'),
  ('SELECT id FROM a INTERSECT SELECT aid FROM b EXCEPT SELECT id FROM r'),
  ('SELECT a.id, b.y FROM a JOIN b ON a.id = b.aid UNION ALL SELECT id, x FROM a'),
  ('SELECT a.id FROM a JOIN b ON a.id = b.aid GROUP BY a.id UNION SELECT id FROM b'),
  ('SELECT y.x, count(*) AS n FROM (SELECT x, id FROM a UNION SELECT y, aid FROM b) y GROUP BY y.x'),
  ('SELECT y.x, a.t FROM (SELECT x, id FROM a UNION ALL SELECT y, aid FROM b) y JOIN a ON a.id = y.id'),
  ('SELECT id FROM a UNION SELECT id FROM b ORDER BY id LIMIT 5');
\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only on
SET rdma_fdw.disable = compute_node_costs;
SELECT cn.moved(query) FROM cn.queries ORDER BY n;
SET rdma_fdw.exchange_strategy = replicate;
SELECT n, cn.moved(query) FROM cn.queries WHERE n IN (1, 2, 4, 6, 10, 12) ORDER BY n;
SET rdma_fdw.exchange_strategy = repartition_one;
SELECT n, cn.moved(query) FROM cn.queries WHERE n BETWEEN 11 AND 13 ORDER BY n;
RESET rdma_fdw.exchange_strategy;
\echo one of three holds rows, too
ALTER SERVER cn OPTIONS (SET compute_nodes 'cn_two, cn2, cn_here');
SELECT n, cn.moved(query) FROM cn.queries WHERE n IN (2, 4, 8, 12, 14, 16, 19, 22, 23) OR n > 26 ORDER BY n;
\echo one alone
ALTER SERVER cn OPTIONS (SET compute_nodes 'cn_here');
SELECT n, cn.moved(query) FROM cn.queries WHERE n IN (2, 4, 8, 12, 16, 18, 20, 23) OR n > 26 ORDER BY n;
\echo for a single node
CREATE SERVER cn_single FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'cn1', compute_nodes 'cn_here, cn_two');
CREATE SCHEMA cn_single;
IMPORT FOREIGN SCHEMA cn LIMIT TO (a, b) FROM SERVER cn_single INTO cn_single;
ALTER FOREIGN TABLE cn_single.a OPTIONS (ADD distributed_by 'id');
ALTER FOREIGN TABLE cn_single.b OPTIONS (ADD distributed_by 'id');
ANALYZE cn_single.a, cn_single.b;
SELECT count(*), sum(b.y) FROM cn_single.a JOIN cn_single.b ON a.id = b.aid;
SET rdma_fdw.disable = compute_nodes;
SELECT count(*), sum(b.y) FROM cn_single.a JOIN cn_single.b ON a.id = b.aid;
\echo both names of one
ALTER SERVER cn_single OPTIONS (SET compute_nodes 'cn1');
SET rdma_fdw.disable = compute_node_costs;
EXPLAIN (COSTS OFF) SELECT FROM cn_single.a JOIN cn_single.b ON a.id = b.aid;
DROP SCHEMA cn_single CASCADE;
DROP SERVER cn_single;

-- all nodes are databases of two clusters, one of them the coordinator's
ALTER SERVER cn OPTIONS (SET compute_nodes 'cn_two, cn_here');
-- what each gets to run, and does; the transport is whatever it is
CREATE FUNCTION cn.analyzed(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
  FOR line IN EXECUTE 'EXPLAIN (VERBOSE, ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) ' || query LOOP
    RETURN NEXT regexp_replace(line, '(kept rows=\d+).*|(actual rows=\d+)[.]00', '\1\2');
  END LOOP;
END $$;
SELECT cn.analyzed('SELECT count(*), sum(b.y) FROM cn.a JOIN cn.b ON a.id = b.aid WHERE a.n < 40');
SET rdma_fdw.explain_nodes = on;
EXPLAIN (COSTS OFF) SELECT a.id, b.y FROM cn.a JOIN cn.b ON a.id = b.aid WHERE a.n < 40;
RESET rdma_fdw.explain_nodes;
-- parameters, rescans, cursors
SET plan_cache_mode = force_generic_plan;
PREPARE cn_p(int) AS SELECT count(*), max(b.y) FROM cn.a JOIN cn.b ON a.id = b.aid WHERE a.id > $1 AND b.y < $1 / 20;
EXECUTE cn_p(100);
SELECT count(*), max(b.y) FROM cn_here.a JOIN cn_here.b ON a.id = b.aid WHERE a.id > 100 AND b.y < 100 / 20;
RESET plan_cache_mode;
SELECT g, (SELECT count(*) FROM cn.a JOIN cn.b ON a.id = b.aid WHERE b.y < g) FROM generate_series(1, 3) g;
BEGIN;
DECLARE c CURSOR FOR SELECT a.id FROM cn.a JOIN cn.b ON a.id = b.aid ORDER BY a.id;
FETCH 2 FROM c;
SELECT count(*) FROM cn.b;
FETCH 2 FROM c;
COMMIT;

-- by cost: not for a few rows; for many that are cheap to scan and dear to join
RESET rdma_fdw.disable;
SELECT cn.moved('SELECT a.x, count(*) AS n FROM a JOIN b ON a.id = b.aid GROUP BY a.x');
UPDATE pg_class SET reltuples = 10000000, relpages = 100000 WHERE oid IN ('cn.a'::regclass, 'cn.b'::regclass);
SELECT cn.moved('SELECT a.x, count(*) AS n FROM a JOIN b ON a.t = b.t GROUP BY a.x', false);
SELECT cn.moved('SELECT a.x, count(*) AS n FROM a JOIN b ON a.id = b.id GROUP BY a.x', false);
SELECT cn.moved('SELECT count(*) FROM a', false);
SET rdma_fdw.disable = compute_nodes;
SELECT cn.moved('SELECT a.x, count(*) AS n FROM a JOIN b ON a.t = b.t GROUP BY a.x', false);
SET rdma_fdw.disable = compute_node_costs;

-- errors name the node, also if the user may not use it
\set VERBOSITY terse
SELECT 1 / (b.y - b.y) FROM cn.a JOIN cn.b ON a.id = b.aid;
SELECT * FROM cn.a JOIN cn.b ON a.id = b.aid AND 1 / (a.x * 0 + b.y * 0) > 0;
SELECT count(*) FROM cn.a JOIN cn.b ON a.id = b.aid;
DROP USER MAPPING FOR CURRENT_USER SERVER cn_two;
\set VERBOSITY sqlstate
SELECT count(*) FROM cn.a JOIN cn.b ON a.id = b.aid;
\set VERBOSITY terse
SELECT count(*) FROM cn.a;
ALTER SERVER cn OPTIONS (SET compute_nodes 'cn_nowhere');
SELECT count(*) FROM cn.a;
DO $$ BEGIN FOR i IN 1..600 LOOP EXIT WHEN NOT EXISTS (SELECT FROM rdma.stat_flows); PERFORM pg_sleep(0.1); END LOOP; END $$;
SELECT count(*) FROM rdma.stat_flows;

DROP SCHEMA cn, cn_here CASCADE;
DROP SERVER cn, cn1, cn2, cn_two, cn_here CASCADE;
\c contrib_regression postgres 127.0.0.1 :coord
DROP DATABASE cn_here WITH (FORCE);
\c contrib_regression postgres 127.0.0.1 :n1
DO $$ BEGIN FOR i IN 1..600 LOOP EXIT WHEN NOT EXISTS (SELECT FROM rdma.stat_flows); PERFORM pg_sleep(0.1); END LOOP; END $$;
SELECT count(*) FROM rdma.stat_flows;
SET client_min_messages = warning;
DROP SCHEMA cn CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
DO $$ BEGIN FOR i IN 1..600 LOOP EXIT WHEN NOT EXISTS (SELECT FROM rdma.stat_flows); PERFORM pg_sleep(0.1); END LOOP; END $$;
SELECT count(*) FROM rdma.stat_flows;
SET client_min_messages = warning;
DROP SCHEMA cn CASCADE;
DROP DATABASE cn_two WITH (FORCE);
