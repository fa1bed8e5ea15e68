-- Tables of several servers with nodes that have nodes in common: the nodes join them where one's are all among the other's, and the rows are those of local tables.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name cn
\set third cn_third
\i :two_nodes
\set ECHO none
SET search_path = cn, public;
-- the same nodes, also in another order; one more, first; and one that cn has with one that it has not
CREATE SERVER cn_same FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'cn1, cn2');
CREATE SERVER cn_back FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'cn2, cn1');
CREATE SERVER cn_all FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes '"cn 3", cn1, cn2');
CREATE SERVER cn_23 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'cn2, "cn 3"');
\pset format unaligned
\pset tuples_only on
SELECT count(*) FROM rdma.run_on('cn_all', 'CREATE SCHEMA cn; CREATE TABLE cn.c (id int, x int, t text); CREATE TABLE cn.w (k int, v int)');
SELECT count(*) FROM rdma.run_on('cn', 'CREATE TABLE cn.a (id int, x int, t text); CREATE TABLE cn.r (id int, name text); CREATE TABLE cn.s (k int, v int);
  CREATE TABLE cn.b (k int, v int, m money); CREATE TABLE cn.n (id int, name text); CREATE TABLE cn.d (id int, x int)');
SELECT count(*) FROM rdma.run_on('cn_23', 'CREATE TABLE cn.o (k int, v int)');
CREATE SCHEMA cn_here;
CREATE TABLE cn_here.c AS SELECT i AS id, nullif(i % 40, 3) AS x, 'c' || i % 13 AS t FROM generate_series(1, 6000) i;
CREATE TABLE cn_here.w AS SELECT i % 500 AS k, i % 8 AS v FROM generate_series(1, 1500) i;
CREATE TABLE cn_here.a AS SELECT i AS id, nullif(i % 50, 3) AS x, 'a' || i % 11 AS t FROM generate_series(1, 5000) i;
CREATE TABLE cn_here.r AS SELECT i AS id, 'r' || i AS name FROM generate_series(0, 39) i;
CREATE TABLE cn_here.s AS SELECT nullif(i % 900, 7) AS k, i % 11 AS v FROM generate_series(1, 2000) i;
CREATE TABLE cn_here.b AS SELECT nullif(i % 700, 7) AS k, i % 9 AS v, i::money AS m FROM generate_series(1, 1800) i;
CREATE TABLE cn_here.n AS SELECT i AS id, 'n' || i AS name FROM generate_series(0, 49) i;
CREATE TABLE cn_here.o AS SELECT i AS k, i % 9 AS v FROM generate_series(1, 700) i;
CREATE FOREIGN TABLE c (id int, x int, t text) SERVER cn_all OPTIONS (distributed_by 'id');
CREATE FOREIGN TABLE w (k int, v int) SERVER cn_all;
CREATE FOREIGN TABLE a (id int, x int, t text) SERVER cn OPTIONS (distributed_by 'id');
CREATE FOREIGN TABLE r (id int, name text) SERVER cn OPTIONS (replicated 'true');
CREATE FOREIGN TABLE s (k int, v int) SERVER cn_same OPTIONS (distributed_by 'k');
CREATE FOREIGN TABLE b (k int, v int, m money) SERVER cn_back OPTIONS (distributed_by 'k');
CREATE FOREIGN TABLE n (id int, name text) SERVER cn_back OPTIONS (replicated 'true');
CREATE FOREIGN TABLE o (k int, v int) SERVER cn_23 OPTIONS (distributed_by 'k');
CREATE FOREIGN TABLE d (id int, x int) SERVER cn OPTIONS (distributed_by 'id');
CREATE TABLE cn_here.d (id int, x int);
INSERT INTO c SELECT * FROM cn_here.c;
INSERT INTO a SELECT * FROM cn_here.a;
INSERT INTO r SELECT * FROM cn_here.r;
INSERT INTO s SELECT * FROM cn_here.s;
INSERT INTO b SELECT * FROM cn_here.b;
INSERT INTO n SELECT * FROM cn_here.n;
INSERT INTO o SELECT * FROM cn_here.o;
-- nothing says where these are
CREATE FOREIGN TABLE w1 (k int, v int) SERVER cn1 OPTIONS (table_name 'w');
CREATE FOREIGN TABLE w3 (k int, v int) SERVER "cn 3" OPTIONS (table_name 'w');
INSERT INTO w1 SELECT * FROM cn_here.w WHERE k < 200;
INSERT INTO w3 SELECT * FROM cn_here.w WHERE k >= 200;
DROP FOREIGN TABLE w1, w3;
ANALYZE cn_here.c, cn_here.w, cn_here.a, cn_here.r, cn_here.s, cn_here.b, cn_here.n, cn_here.o;
ANALYZE c, w, a, r, s, b, n, o;

-- What of a plan says where things are done (of one that is a single scan what is below it); and whether the rows are right, with each
-- way to bring them together, and with none.
CREATE FUNCTION planned(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text; way text; diff bigint;
BEGIN
  SET LOCAL search_path = cn, public;
  FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
    IF line <> 'Foreign Scan' AND line ~ '^ *(-> +)?(Foreign Scan|Custom Scan)|Relations:|Nodes:|One of Nodes:|Any of Nodes:|Strategy:|Exchange \d:|Joined Here:' THEN
      RETURN NEXT line;
    END IF;
  END LOOP;
  PERFORM set_config('search_path', 'cn_here, public', true);
  EXECUTE 'CREATE TEMP TABLE here AS ' || query;
  FOREACH way IN ARRAY ARRAY['auto', 'repartition_one', 'repartition_both', 'replicate', 'pull', 'off'] LOOP
    PERFORM set_config('rdma_fdw.exchange_strategy', CASE way WHEN 'off' THEN 'auto' ELSE way END, true);
    PERFORM set_config('rdma_fdw.push_down', CASE way WHEN 'off' THEN 'none' ELSE 'all' END, true);
    PERFORM set_config('search_path', 'cn, public', true);
    EXECUTE 'CREATE TEMP TABLE there AS ' || query;
    SELECT count(*) INTO diff FROM ((TABLE there EXCEPT ALL TABLE here) UNION ALL (TABLE here EXCEPT ALL TABLE there)) d;
    IF diff <> 0 THEN
      RETURN NEXT format('%s: %s rows differ', way, diff);
    END IF;
    DROP TABLE there;
  END LOOP;
  DROP TABLE here;
  PERFORM set_config('rdma_fdw.exchange_strategy', 'auto', true);
  PERFORM set_config('rdma_fdw.push_down', 'all', true);
END $$;
-- The same of a statement that writes the table d.
CREATE FUNCTION written(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text; there bigint; here bigint;
BEGIN
  SET LOCAL search_path = cn, public;
  FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || statement LOOP
    IF line ~ '^ *(-> +)?(Foreign |Custom Scan|Hash)|Relations:|Nodes:|Strategy:|Exchange \d:|Joined Here:' THEN
      RETURN NEXT line;
    END IF;
  END LOOP;
  EXECUTE statement;
  GET DIAGNOSTICS there = ROW_COUNT;
  SET LOCAL search_path = cn_here, public;
  EXECUTE statement;
  GET DIAGNOSTICS here = ROW_COUNT;
  SET LOCAL search_path = cn, public;
  IF there <> here OR there = 0 THEN
    RETURN NEXT format('%s rows, not %s', there, here);
  END IF;
  FOR line IN SELECT format('%s rows differ', count(*)) FROM ((TABLE cn.d EXCEPT ALL TABLE cn_here.d) UNION ALL (TABLE cn_here.d EXCEPT ALL TABLE cn.d)) e HAVING count(*) > 0 LOOP
    RETURN NEXT line;
  END LOOP;
END $$;
\set ECHO all

-- the same nodes, and their buckets lie alike: rows with equal keys are together
SELECT planned('SELECT count(*), sum(a.x) AS x, sum(s.v) AS v FROM a JOIN s ON a.id = s.k');
SELECT planned('SELECT a.id, s.v FROM a JOIN s ON a.id = s.k WHERE a.id = 77');
-- in another order, so they do not
SELECT planned('SELECT count(*), sum(a.x) AS x, sum(b.v) AS v FROM a JOIN b ON a.id = b.k');
SELECT planned('SELECT a.id, b.v FROM a JOIN b ON a.id = b.k WHERE a.id = 77');
-- but with each other, and what all nodes have is there whatever their order
SELECT planned('SELECT a.x, b.k, b2.v FROM a JOIN b ON a.x = b.v JOIN b b2 ON b2.k = b.k WHERE a.id < 200');
SELECT planned('SELECT a.id, n.name, r.name AS rname FROM a JOIN n ON n.id = a.x JOIN r ON r.id = a.x');
-- nodes that are some of the others': on those that they are not there is nothing
SELECT planned('SELECT c.id, a.id AS aid, a.t FROM c JOIN a ON a.id = c.id WHERE c.x < 9');
SELECT planned('SELECT c.id, a.t, s.v, b.v AS bv FROM c JOIN a ON a.id = c.id JOIN s ON s.k = a.id JOIN b ON b.k = c.id');
SELECT planned('SELECT c.id, r.name, n.name AS nname FROM c JOIN r ON r.id = c.x LEFT JOIN n ON n.id = c.x');
SELECT planned('SELECT a.t, w.k, w.v FROM w JOIN a ON a.id = w.k');
SELECT planned('SELECT r.name, n.name AS nname, w.v FROM r JOIN n ON n.id = r.id JOIN w ON w.k = r.id');
-- outer, semi and anti joins, with rows that have no partner and with NULLs
SELECT planned('SELECT a.id, b.k, b.v FROM a LEFT JOIN b ON a.id = b.k AND b.v > 3');
SELECT planned('SELECT b.k, b.v, c.x FROM b LEFT JOIN c ON c.id = b.k');
SELECT planned('SELECT s.k, s.v, a.id FROM s FULL JOIN a ON a.id = s.k');
SELECT planned('SELECT b.k, b.v, c.id FROM b FULL JOIN c ON c.id = b.k');
SELECT planned('SELECT r.id, c.id AS cid FROM r FULL JOIN c ON c.x = r.id');
SELECT planned('SELECT id, x FROM c WHERE EXISTS (SELECT FROM b WHERE b.k = c.id AND b.v > 4)');
SELECT planned('SELECT id, x FROM a WHERE NOT EXISTS (SELECT FROM b WHERE b.k = a.id)');
SELECT planned('SELECT k, v FROM b WHERE NOT EXISTS (SELECT FROM c WHERE c.id = b.k AND c.x = 5)');
SELECT planned('SELECT k, v FROM b WHERE k IN (SELECT x FROM a)');
SELECT planned('SELECT id, name FROM r WHERE id IN (SELECT x FROM c WHERE t = ''c4'')');
-- groups, order, DISTINCT, set operations, sub-selects in FROM
SELECT planned('SELECT a.t, c.t AS ct, count(*), max(b.v) FROM a JOIN b ON b.k = a.id JOIN c ON c.id = b.k GROUP BY 1, 2');
SELECT planned('SELECT b.k, count(*) FROM b JOIN c ON c.x = b.v GROUP BY b.k');
SELECT planned('SELECT DISTINCT n.name, b.v FROM a JOIN b ON b.k = a.id JOIN n ON n.id = a.x ORDER BY 1, 2 LIMIT 7');
SELECT planned('SELECT b.k, b.v, b2.v AS v2 FROM b JOIN b b2 ON b2.k = b.k JOIN r ON r.id = b.k ORDER BY 1, 2, 3 LIMIT 9');
SELECT planned('SELECT a.id, g.n FROM a JOIN (SELECT k, count(*) AS n FROM b GROUP BY k) g ON g.k = a.id WHERE g.n > 2');
SELECT planned('SELECT a.id, g.n FROM a JOIN (SELECT v, count(*) AS n FROM s GROUP BY v) g ON g.v = a.x WHERE g.n > 2');
SELECT planned('SELECT c.id, g.n FROM c JOIN (SELECT v, count(*) AS n FROM b GROUP BY v) g ON g.v = c.x');
SELECT planned('SELECT c.id, u.k FROM c JOIN (SELECT k FROM b WHERE v = 1 UNION SELECT k FROM b WHERE v = 2) u ON u.k = c.id');
SELECT planned('SELECT id FROM c JOIN b ON b.k = c.id WHERE b.v = 1 UNION SELECT c.id FROM c JOIN a ON a.id = c.x WHERE a.x = 2');
SELECT planned('SELECT id FROM a JOIN b ON b.k = a.id EXCEPT SELECT id FROM a JOIN s ON s.k = a.id WHERE s.v = 2');
SELECT planned('SELECT a.t, g.v, g.n FROM a JOIN (SELECT DISTINCT k, v, count(*) OVER (PARTITION BY k) AS n FROM b WHERE v > 1) g ON g.k = a.id AND g.n > 1 WHERE a.x IN (1, 2)');
-- set operations of tables of two servers that are alike, but not where rows with equal keys are apart
SELECT planned('SELECT id FROM a WHERE x < 20 UNION SELECT k FROM s');
SELECT planned('SELECT id FROM a INTERSECT ALL SELECT k FROM s WHERE v > 2');
SELECT planned('SELECT id, x FROM a EXCEPT SELECT k, v FROM s');
SELECT planned('SELECT u.id, c.x FROM (SELECT id FROM a UNION ALL SELECT k FROM s) u JOIN c ON c.id = u.id');
SELECT planned('SELECT id FROM a UNION SELECT k FROM b');
-- a type that means something else elsewhere: only where nobody has to name it
SELECT planned('SELECT c.id, b.m::text FROM c JOIN b ON b.k = c.id WHERE b.v = 3');
SELECT planned('SELECT a.id, b.m::text FROM a JOIN b ON b.k = a.id WHERE b.v = 3');
-- and one of an extension that the other server's nodes are not known to have
CREATE EXTENSION citext SCHEMA public;
SELECT count(*) FROM rdma.run_on('cn', 'CREATE EXTENSION citext SCHEMA public');
SELECT count(*) FROM rdma.run_on('cn', 'CREATE TABLE cn.e (k int, v int, c public.citext)');
CREATE FOREIGN TABLE e (k int, v int, c citext) SERVER cn_back OPTIONS (distributed_by 'k');
CREATE TABLE cn_here.e AS SELECT i % 90 AS k, i % 7 AS v, ('E' || i % 5)::citext AS c FROM generate_series(1, 500) i;
INSERT INTO e SELECT * FROM cn_here.e;
ANALYZE e, cn_here.e;
ALTER SERVER cn_back OPTIONS (ADD extensions 'citext');
SELECT planned('SELECT c.id, e.v FROM c JOIN e ON e.k = c.id');
SELECT planned('SELECT c.id, e.c FROM c JOIN e ON e.k = c.id');
SELECT planned('SELECT c.id, e.k FROM c JOIN (SELECT DISTINCT k, c FROM e) e ON e.k = c.id');
SELECT planned('SELECT a.id, e.c FROM a JOIN e ON e.k = a.id WHERE e.c = ''e1''');
-- each has a node that the other has not
SELECT planned('SELECT a.id, o.v FROM a JOIN o ON o.k = a.id WHERE o.v = 3');
SELECT planned('SELECT a.id, o.v, c.x FROM a JOIN o ON o.k = a.id JOIN c ON c.id = o.k WHERE o.v = 3');

-- writes
SELECT written('INSERT INTO d SELECT a.id, s.v FROM a JOIN s ON s.k = a.id');
SELECT written('INSERT INTO d SELECT b.k, a.x FROM a JOIN b ON b.k = a.id');
SELECT written('INSERT INTO d SELECT a.id, c.x FROM c JOIN a ON a.id = c.id');
SELECT sum(misplaced) AS misplaced FROM rdma.check_distribution('d');
-- rows that are locked are found as before
SELECT count(*) FROM (SELECT b.k FROM b JOIN a ON a.id = b.k WHERE b.v = 3 FOR UPDATE OF b) l;
-- and by joins on the nodes where the others' nodes are the target's: each writes what it finds, or rows move to be found
SELECT written('UPDATE d SET x = 100 FROM s WHERE s.k = d.id AND s.v = 5');
SELECT written('UPDATE d SET x = d.x + n.id FROM n WHERE n.id = d.x AND d.id < 50');
SELECT written('UPDATE d SET x = 102 FROM b WHERE b.k = d.id AND b.v = 5');
SELECT written('UPDATE d SET x = 103 FROM (SELECT DISTINCT k FROM b WHERE v = 6) b WHERE b.k = d.id');
SELECT written('DELETE FROM d USING s, b WHERE s.k = d.id AND b.k = s.k AND b.v = 1');
SELECT written('DELETE FROM d WHERE EXISTS (SELECT FROM b WHERE b.k = d.id AND b.v = 2)');
SELECT written('DELETE FROM d USING c WHERE c.id = d.id AND c.x = 7');
-- in one transaction all see what it wrote
BEGIN;
INSERT INTO b VALUES (1, 1000, 1);
SELECT count(*), sum(b.v) FROM a JOIN b ON a.id = b.k WHERE b.v = 1000;
ROLLBACK;
-- parameters
PREPARE by_key(int) AS SELECT count(*), sum(s.v) FROM a JOIN s ON a.id = s.k WHERE s.k = $1;
SET plan_cache_mode = force_generic_plan;
EXECUTE by_key(3);
-- rows move, and with them what the plan relies on
SELECT count(rdma.protect_table(t)) FROM unnest('{a,d}'::regclass[]) t;
SELECT rdma.move_buckets('cn', 'cn1', 'cn2', ARRAY(SELECT generate_series(0, 300, 2))) > 0 AS moved;
EXECUTE by_key(3);
EXECUTE by_key(4);
RESET plan_cache_mode;
SELECT array_agg(v ORDER BY v) FROM a JOIN s ON a.id = s.k WHERE s.k = 4;
SELECT planned('SELECT count(*), sum(a.x) AS x, sum(s.v) AS v FROM a JOIN s ON a.id = s.k');
SELECT planned('SELECT id FROM a UNION SELECT k FROM s');
SET rdma_fdw.disable = partitions;
SELECT planned('SELECT a.x, s.v FROM a JOIN s ON a.id = s.k');
RESET rdma_fdw.disable;

\set ECHO none
DROP SCHEMA cn, cn_here CASCADE;
DROP EXTENSION citext;
SELECT count(*) FROM rdma.run_on('cn', 'DROP EXTENSION citext CASCADE');
SELECT count(*) FROM rdma.run_on('cn_all', 'DROP SCHEMA cn CASCADE');
DROP SERVER cn, cn_same, cn_back, cn_all, cn_23 CASCADE;
DROP SERVER cn1, cn2, "cn 3" CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
DROP DATABASE cn_third WITH (FORCE);
