-- Set operations, UNION ALL and sub-selects of tables that lie on two nodes: each node runs them over its own rows, after those that
-- are compared have met.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name ns
\i :two_nodes
\set ECHO none
\c contrib_regression postgres 127.0.0.1 :n1
CREATE SCHEMA ns;
CREATE TABLE ns.a (id int, x int, t text);
CREATE TABLE ns.b (id int, aid int, t text);
CREATE TABLE ns.c (id bigint, x int);
CREATE TABLE ns.r (id int, name text);
\c contrib_regression postgres 127.0.0.1 :n2
CREATE SCHEMA ns;
CREATE TABLE ns.a (id int, x int, t text);
CREATE TABLE ns.b (id int, aid int, t text);
CREATE TABLE ns.c (id bigint, x int);
CREATE TABLE ns.r (id int, name text);
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
CREATE SCHEMA ns_here;
CREATE TABLE ns_here.a AS SELECT i AS id, nullif(i % 7, 3) AS x, 'a' || i % 13 AS t FROM generate_series(1, 200) i;
CREATE TABLE ns_here.b AS SELECT i AS id, nullif(i % 240, 5) AS aid, 'a' || i % 17 AS t FROM generate_series(100, 400) i;
CREATE TABLE ns_here.c AS SELECT (i % 150)::bigint AS id, i % 5 AS x FROM generate_series(1, 300) i;
CREATE TABLE ns_here.r AS SELECT i AS id, 'a' || i AS name FROM generate_series(0, 9) i;
CREATE TABLE ns_here.local AS SELECT i AS id FROM generate_series(1, 5) i;
ANALYZE ns_here.a, ns_here.b, ns_here.c, ns_here.r, ns_here.local;
CREATE FOREIGN TABLE ns.a (id int, x int, t text) SERVER ns OPTIONS (distributed_by 'id');
CREATE FOREIGN TABLE ns.b (id int, aid int, t text) SERVER ns OPTIONS (distributed_by 'id');
CREATE FOREIGN TABLE ns.c (id bigint, x int) SERVER ns OPTIONS (distributed_by 'id');
CREATE FOREIGN TABLE ns.r (id int, name text) SERVER ns OPTIONS (replicated 'true');
INSERT INTO ns.a SELECT * FROM ns_here.a;
INSERT INTO ns.b SELECT * FROM ns_here.b;
INSERT INTO ns.c SELECT * FROM ns_here.c;
INSERT INTO ns.r SELECT * FROM ns_here.r;
ANALYZE ns.a, ns.b, ns.c, ns.r;
CREATE VIEW ns.local AS SELECT * FROM ns_here.local;

-- 16 and later sort for aggregates below them.
DO $$ BEGIN PERFORM set_config(name, 'off', false) FROM pg_settings WHERE name = 'enable_presorted_aggregate'; END $$;
-- Prints a query's plan, and checks its rows against those of local tables.
CREATE FUNCTION ns.planned(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text; diff bigint;
BEGIN
  SET LOCAL search_path = ns, public;
  FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
    IF line !~ '^ *(Output|Relations|Sort Key|Group Key|Hash Cond|Merge Cond|Planning|Query Identifier|Inner Unique|Nodes):?' THEN
      RETURN NEXT regexp_replace(line, ' rows=\d+ distinct=[-0-9,]+|(?<=(spread|broadcast)):[0-9,]+', '', 'g');
    END IF;
  END LOOP;
  EXECUTE format('CREATE TEMP TABLE got AS SELECT row_to_json(q)::text FROM (%s) q', query);
  SET LOCAL search_path = ns_here, public;
  EXECUTE format('CREATE TEMP TABLE expected AS SELECT row_to_json(q)::text FROM (%s) q', query);
  SELECT count(*) INTO diff FROM ((TABLE got EXCEPT ALL TABLE expected) UNION ALL (TABLE expected EXCEPT ALL TABLE got)) d;
  IF diff <> 0 OR NOT EXISTS (TABLE expected) THEN
    RETURN NEXT '*** rows that differ: ' || diff || ', expected: ' || (SELECT count(*) FROM expected);
  END IF;
  DROP TABLE got, expected;
  RESET search_path;
END $$;
\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only on
\set ECHO all

-- rows that are compared are on one node: by the key, or after they have moved
SELECT ns.planned('SELECT id, t FROM a UNION SELECT id, t FROM b');
SELECT ns.planned('SELECT id FROM a INTERSECT ALL SELECT id FROM b');
SELECT ns.planned('SELECT x, id FROM a EXCEPT SELECT aid, id FROM b');
SELECT ns.planned('SELECT id FROM a UNION SELECT aid FROM b');
SELECT ns.planned('SELECT x FROM a EXCEPT ALL SELECT aid FROM b');
SELECT ns.planned('SELECT x, t FROM a INTERSECT SELECT aid, t FROM b');
SELECT ns.planned('SELECT id FROM a EXCEPT SELECT id FROM c');
SELECT ns.planned('SELECT id FROM a UNION SELECT id FROM b EXCEPT SELECT aid FROM b');
-- nothing is compared
SELECT ns.planned('SELECT id, t FROM a UNION ALL SELECT aid, t FROM b');
SELECT ns.planned('SELECT count(*), sum(x), count(DISTINCT x) FROM (SELECT x FROM a UNION ALL SELECT aid FROM b) y');
SELECT ns.planned('SELECT id, count(*) FROM (SELECT id, x FROM a UNION ALL SELECT id, aid FROM b) y GROUP BY id HAVING count(*) > 1');
-- What sorts is the same in all rows of a branch.
SELECT ns.planned('SELECT 1 AS k, 6 AS v UNION ALL SELECT 2, NULL FROM (SELECT x FROM a EXCEPT SELECT aid FROM b) y ORDER BY k');
SELECT ns.planned('SELECT 1 AS k, 6 AS v UNION ALL SELECT 2, NULL FROM (SELECT DISTINCT x FROM a) y ORDER BY k');
SELECT ns.planned('SELECT y.id, c.x FROM (SELECT id FROM a UNION ALL SELECT id FROM b) y JOIN c ON c.id = y.id');
SELECT ns.planned('SELECT y.id, c.x FROM (SELECT id, x FROM a UNION ALL SELECT id, aid FROM b) y JOIN c ON c.id = y.x');
-- what is everywhere
SELECT ns.planned('SELECT id, t FROM a INTERSECT SELECT id, name FROM r');
SELECT ns.planned('SELECT id FROM a EXCEPT ALL SELECT id FROM r');
SELECT ns.planned('SELECT id FROM r EXCEPT SELECT x FROM a');
SELECT ns.planned('SELECT id FROM r UNION SELECT id FROM a');
SELECT ns.planned('SELECT id FROM r UNION ALL SELECT x FROM a');
SELECT ns.planned('SELECT id FROM r UNION ALL SELECT id + 1 FROM r');
-- order and limit
SELECT ns.planned('SELECT id FROM a UNION SELECT id FROM b ORDER BY id DESC LIMIT 3 OFFSET 2');
SELECT ns.planned('SELECT id, x FROM a UNION ALL SELECT id, aid FROM b ORDER BY id, x LIMIT 4');
SELECT ns.planned('SELECT t FROM a UNION SELECT t FROM b ORDER BY t LIMIT 2');
-- branches and sub-selects with clauses of their own
SELECT ns.planned('SELECT id, count(*) FROM a GROUP BY id UNION SELECT id, 1 FROM b');
SELECT ns.planned('SELECT count(*) FROM a WHERE id = 5 UNION ALL SELECT id FROM b WHERE id < 102');
-- 17 and later may merge sorted rows.
SELECT regexp_replace(ltrim(p), ' ORDER BY \w+$', '') FROM ns.planned('SELECT x FROM a GROUP BY x UNION SELECT aid FROM b WHERE id = 300') p WHERE p !~ '^( *->  )?(Append|Merge Append|HashAggregate|Unique)';
SELECT ns.planned('SELECT DISTINCT id FROM a INTERSECT SELECT a.id FROM a JOIN b ON a.id = b.id');
SELECT regexp_replace(ltrim(p), ' ORDER BY \w+$', '') FROM ns.planned('(SELECT id FROM a ORDER BY id LIMIT 3) UNION SELECT id FROM b WHERE id < 103') p WHERE p !~ '^( *->  )?(Append|Merge Append|HashAggregate|Unique)';
SELECT ns.planned('SELECT b.t, y.n FROM b JOIN (SELECT id, count(*) AS n FROM c GROUP BY id) y ON y.id = b.id WHERE b.id < 120');
SELECT ns.planned('SELECT x, count(*) FROM (SELECT x, id FROM a UNION SELECT x, id::int FROM c) y GROUP BY x');
SELECT ns.planned('SELECT b.id, y.n FROM b JOIN (SELECT count(*) AS n FROM a WHERE id = 5) y ON y.n <= b.id WHERE b.id < 103');
SELECT ns.planned('SELECT b.id, y.n FROM b JOIN (SELECT id, count(*) AS n FROM c GROUP BY GROUPING SETS ((id), (id, x))) y ON y.id = b.id WHERE b.id < 103');
SELECT ns.planned('SELECT id, count(*) AS n FROM (SELECT id, max(x) AS m FROM c GROUP BY id) y GROUP BY id ORDER BY id LIMIT 2');
SELECT ns.planned('SELECT y.* FROM (SELECT DISTINCT x, id FROM a ORDER BY x) y ORDER BY id, x LIMIT 2');
-- a branch that a node's planner proves empty, and only it; its exchange runs nevertheless
SET rdma_fdw.exchange_strategy = repartition_one;
SELECT ns.planned('SELECT y.id, d.n FROM a y LEFT JOIN (SELECT id AS k, 4::int2 AS n FROM r UNION ALL SELECT x + 5, nullif(x, 1) FROM c) d ON d.n = 18 AND y.x = d.k WHERE y.id = 103');
RESET rdma_fdw.exchange_strategy;
-- for MIN and MAX a node's planner does not read an exchange several times
SET rdma_fdw.exchange_strategy = repartition_both;
SELECT ns.planned('SELECT min(1) AS one, max(0) AS zero FROM (SELECT id FROM b UNION ALL SELECT y.x FROM a y JOIN b ON y.x = b.aid) d');
RESET rdma_fdw.exchange_strategy;
-- an expression that is grouped by may stand in others
SELECT ns.planned('SELECT x + 1 AS g, x + 1 AS again, (x + 1) * 2 + count(*) AS more, max(id) FROM c GROUP BY x + 1 HAVING x + 1 < 4');
-- what stays here
SELECT ns.planned('SELECT id FROM a UNION SELECT id FROM local');
SELECT ns.planned('SELECT count(*) FROM a UNION ALL SELECT count(*) FROM b');
SET rdma_fdw.exchange_strategy = pull;
SELECT ns.planned('SELECT id FROM a UNION SELECT aid FROM b');
RESET rdma_fdw.exchange_strategy;

\pset format aligned
\pset tuples_only off
EXPLAIN (COSTS OFF) SELECT ns.a.x FROM ns.a INTERSECT SELECT aid FROM ns.b ORDER BY x;
SELECT ns.a.x FROM ns.a INTERSECT SELECT aid FROM ns.b ORDER BY x;
-- a join that one node's planner proves empty, in a statement that writes; the other node needs its rows
SET client_min_messages = warning;
CREATE FOREIGN TABLE ns.made (id int, other int) SERVER ns OPTIONS (distributed_by 'other');
SELECT answer FROM rdma.run_on('ns', 'CREATE TABLE ns.made (id int, other int)');
SELECT answer FROM rdma.run_on('ns1', 'DELETE FROM ns.b WHERE t = ''a16''');
SELECT answer FROM rdma.run_on('ns1', 'ALTER TABLE ns.b ADD CHECK (t <> ''a16'')');
SELECT answer FROM rdma.run_on('ns', 'SET constraint_exclusion = on');
SET rdma_fdw.exchange_strategy = repartition_one;
INSERT INTO ns.made SELECT a.id, b.id FROM ns.a JOIN ns.b ON a.id + 100 = b.id WHERE b.t = 'a16';
SELECT count(*), count(*) = (SELECT count(*) FROM ns.a JOIN ns.b ON a.id + 100 = b.id WHERE b.t = 'a16') AS all FROM ns.made;
RESET rdma_fdw.exchange_strategy;
DO $$ BEGIN FOR i IN 1..600 LOOP EXIT WHEN NOT EXISTS (SELECT FROM rdma.stat_flows); PERFORM pg_sleep(0.1); END LOOP; END $$;
SELECT count(*) FROM rdma.stat_flows;

DROP SCHEMA ns, ns_here CASCADE;
DROP SERVER ns, ns1, ns2 CASCADE;
\c contrib_regression postgres 127.0.0.1 :n1
DO $$ BEGIN FOR i IN 1..600 LOOP EXIT WHEN NOT EXISTS (SELECT FROM rdma.stat_flows); PERFORM pg_sleep(0.1); END LOOP; END $$;
SELECT count(*) FROM rdma.stat_flows;
EXPLAIN (VERBOSE, COSTS OFF) SELECT k FROM (SELECT c1, 4::int2::int FROM rdma_internal.exchange('number=1 kind=repartition keys=1', 'SELECT id FROM ns.r') AS e(c1 int)
	UNION ALL SELECT c1, nullif(c1, 1) FROM rdma_internal.exchange('number=2 kind=repartition keys=1', 'SELECT x FROM ns.c') AS e(c1 int)) d(k, n) WHERE n = 18;
SET client_min_messages = warning;
DROP SCHEMA ns CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
DO $$ BEGIN FOR i IN 1..600 LOOP EXIT WHEN NOT EXISTS (SELECT FROM rdma.stat_flows); PERFORM pg_sleep(0.1); END LOOP; END $$;
SELECT count(*) FROM rdma.stat_flows;
SET client_min_messages = warning;
DROP SCHEMA ns CASCADE;
