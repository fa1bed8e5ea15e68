-- Joins, groups, windows, DISTINCT, order and limit of tables that lie on two nodes: what both run, how rows meet, and that the
-- rows are those of local tables.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name nj
\i :two_nodes
\set ECHO none
\c contrib_regression postgres 127.0.0.1 :n1
CREATE SCHEMA nj;
CREATE TABLE nj.a (id int, x int, t text, n numeric);
CREATE TABLE nj.b (id bigint, aid int, y int, t text);
CREATE TABLE nj.c (id int, bid bigint, z int, v varchar(20) COLLATE "C");
CREATE TABLE nj.r (id int, name text);
CREATE TABLE nj.w (k1 int, k2 text, s int);
CREATE TABLE nj.s (v int, k int);
\c contrib_regression postgres 127.0.0.1 :n2
CREATE SCHEMA nj;
CREATE TABLE nj.a (id int, x int, t text, n numeric);
CREATE TABLE nj.b (id bigint, aid int, y int, t text);
CREATE TABLE nj.c (id int, bid bigint, z int, v varchar(20) COLLATE "C");
CREATE TABLE nj.r (id int, name text);
CREATE TABLE nj.w (k1 int, k2 text, s int);
CREATE TABLE nj.s (v int, k int);
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
SET timezone = 'UTC';
CREATE SCHEMA nj_here;
CREATE TABLE nj_here.a AS SELECT i AS id, nullif(i % 7, 3) AS x, 'a' || i % 13 AS t, i / 4.0 AS n FROM generate_series(1, 200) i;
CREATE TABLE nj_here.b AS SELECT i::bigint AS id, nullif(i % 240, 5) AS aid, i % 11 AS y, 'a' || i % 17 AS t FROM generate_series(1, 800) i;
CREATE TABLE nj_here.c AS SELECT i AS id, nullif(i % 1000, 9)::bigint AS bid, i % 5 AS z, ('v' || i % 40)::varchar(20) COLLATE "C" AS v FROM generate_series(1, 1200) i;
CREATE TABLE nj_here.r AS SELECT i AS id, 'r' || i AS name FROM generate_series(0, 9) i;
CREATE TABLE nj_here.w AS SELECT i % 20 AS k1, 'a' || i % 9 AS k2, i AS s FROM generate_series(1, 300) i;
CREATE TABLE nj_here.s AS SELECT i AS v, CASE WHEN i % 10 < 6 THEN 3 WHEN i % 10 < 9 THEN i % 50 END AS k FROM generate_series(1, 400) i;
-- only the coordinator has it
CREATE TABLE nj_here.local AS SELECT i AS id, i % 7 AS x FROM generate_series(1, 50) i;
ANALYZE nj_here.a, nj_here.b, nj_here.c, nj_here.r, nj_here.w, nj_here.s, nj_here.local;

CREATE FOREIGN TABLE nj.a (id int, x int, t text, n numeric) SERVER nj OPTIONS (distributed_by 'id');
CREATE FOREIGN TABLE nj.b (id bigint, aid int, y int, t text) SERVER nj OPTIONS (distributed_by 'id');
CREATE FOREIGN TABLE nj.c (id int, bid bigint, z int, v varchar(20) COLLATE "C") SERVER nj OPTIONS (distributed_by 'bid');
CREATE FOREIGN TABLE nj.r (id int, name text) SERVER nj OPTIONS (replicated 'true');
CREATE FOREIGN TABLE nj.w (k1 int, k2 text, s int) SERVER nj OPTIONS (distributed_by 'k1, k2');
CREATE FOREIGN TABLE nj.s (v int, k int) SERVER nj OPTIONS (distributed_by 'v');
INSERT INTO nj.a SELECT * FROM nj_here.a;
INSERT INTO nj.b SELECT * FROM nj_here.b;
INSERT INTO nj.c SELECT * FROM nj_here.c;
INSERT INTO nj.r SELECT * FROM nj_here.r;
INSERT INTO nj.w SELECT * FROM nj_here.w;
INSERT INTO nj.s SELECT * FROM nj_here.s;
ANALYZE nj.a, nj.b, nj.c, nj.r, nj.w, nj.s;
CREATE VIEW nj.local AS SELECT * FROM nj_here.local;

-- Prints a query's plan (of one that is a single scan what is below it), and checks its rows against those of local tables.
CREATE FUNCTION nj.planned(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text; diff bigint;
BEGIN
  SET LOCAL search_path = nj, public;
  FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
    IF line !~ '^Foreign Scan$|^ *(Output|Relations|Sort Key|Group Key|Hash Cond|Merge Cond|Planning|Query Identifier|Inner Unique|Nodes|Window:):?' THEN
      RETURN NEXT regexp_replace(line, ' rows=\d+ distinct=[-0-9,]+| ROWS UNBOUNDED PRECEDING|(?<=(spread|broadcast)):[0-9,]+', '', 'g');
    END IF;
  END LOOP;
  EXECUTE format('CREATE TEMP TABLE got AS SELECT row_to_json(q)::text FROM (%s) q', query);
  SET LOCAL search_path = nj_here, public;
  EXECUTE format('CREATE TEMP TABLE expected AS SELECT row_to_json(q)::text FROM (%s) q', query);
  SELECT count(*) INTO diff FROM ((TABLE got EXCEPT ALL TABLE expected) UNION ALL (TABLE expected EXCEPT ALL TABLE got)) d;
  IF diff <> 0 OR NOT EXISTS (TABLE expected) THEN
    RETURN NEXT '*** rows that differ: ' || diff || ', expected: ' || (SELECT count(*) FROM expected);
  END IF;
  DROP TABLE got, expected;
  RESET search_path;
END $$;
-- The same for each strategy: which were chosen instead of those that were asked for, and whether the rows are right.
CREATE FUNCTION nj.chosen(query text) RETURNS TABLE (asked text, got text) LANGUAGE plpgsql AS $$
BEGIN
  FOREACH asked IN ARRAY '{colocated,repartition_one,repartition_both,replicate,pull}'::text[] LOOP
    PERFORM set_config('rdma_fdw.exchange_strategy', asked, true);
    SELECT string_agg(trim(line), '; ') INTO got FROM nj.planned(query) line WHERE line ~ '^ *(Strategy|Exchange)|\*\*\*';
    RETURN NEXT;
  END LOOP;
  PERFORM set_config('rdma_fdw.exchange_strategy', 'auto', true);
END $$;
CREATE FUNCTION nj.strategies(query text) RETURNS TABLE (asked text, got text) LANGUAGE sql AS $$
  SELECT string_agg(asked, ', ' ORDER BY place), got FROM nj.chosen(query) WITH ORDINALITY c(asked, got, place) GROUP BY got ORDER BY min(place);
$$;
\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only on
\set ECHO all

-- co-located: by key, by key and more, int4 = int8, by two keys, replicated tables, constants
SELECT nj.planned('SELECT b.id, c.z FROM b JOIN c ON b.id = c.bid');
SELECT nj.planned('SELECT b.id, c.z FROM b LEFT JOIN c ON b.id = c.bid AND b.y > c.z');
SELECT nj.planned('SELECT a.id, b.y FROM a FULL JOIN b ON a.id = b.id');
SELECT nj.planned('SELECT w.s, v.s AS s2 FROM w JOIN w v ON w.k1 = v.k1 AND w.k2 = v.k2 AND w.s < v.s WHERE w.k1 < 3');
SELECT nj.planned('SELECT a.id, name FROM a JOIN r ON a.x = r.id');
SELECT nj.planned('SELECT a.id, name FROM a LEFT JOIN r ON a.x = r.id AND r.id < 4');
SELECT nj.planned('SELECT r.name, v.name AS n2 FROM r LEFT JOIN r v ON r.id = v.id + 1');
SELECT nj.planned('SELECT a.id, b.t FROM a, b WHERE a.id = 17 AND b.id = 17');
SELECT nj.planned('SELECT id FROM b WHERE EXISTS (SELECT FROM c WHERE c.bid = b.id AND c.z > 2)');
SELECT nj.planned('SELECT id FROM b WHERE NOT EXISTS (SELECT FROM c WHERE c.bid = b.id)');
SELECT nj.planned('SELECT x.id, y.t FROM a x JOIN a y USING (id)');
-- casts that keep what is equal, and one that does not
SELECT nj.planned('SELECT a.id, b.y FROM a JOIN b ON a.id::bigint = b.id');
SELECT nj.planned('SELECT b.id, a.x FROM b LEFT JOIN a ON b.id::int = a.id AND b.y > 3');
SELECT nj.planned('SELECT a.id::bigint AS k, count(*) FROM a GROUP BY 1 HAVING count(*) > 0');
SELECT nj.planned('SELECT y.id, y.n, b.y FROM (SELECT id::bigint, count(*) AS n FROM a GROUP BY 1) y JOIN b ON b.id = y.id WHERE b.y = 4');
SELECT nj.planned('SELECT a.id, b.y FROM a JOIN b ON a.id::numeric = b.id::numeric');

-- each strategy for each kind of join
SELECT * FROM nj.strategies('SELECT a.id, b.id AS bid FROM a JOIN b ON a.id = b.aid');
SELECT * FROM nj.strategies('SELECT a.id, b.id AS bid FROM a JOIN b ON a.x = b.y');
SELECT * FROM nj.strategies('SELECT a.id, b.id AS bid FROM a LEFT JOIN b ON a.id = b.aid AND b.y > 4');
SELECT * FROM nj.strategies('SELECT a.id, b.id AS bid FROM a LEFT JOIN b ON a.x = b.y WHERE b.id IS NULL OR b.id > 700');
SELECT * FROM nj.strategies('SELECT a.id, b.id AS bid FROM a RIGHT JOIN b ON a.id = b.aid');
SELECT * FROM nj.strategies('SELECT a.id, b.id AS bid FROM a FULL JOIN b ON a.id = b.aid');
SELECT * FROM nj.strategies('SELECT a.id, b.id AS bid FROM (SELECT * FROM a WHERE x > 2) a FULL JOIN (SELECT * FROM b WHERE y < 5) b ON a.x = b.y');
SELECT * FROM nj.strategies('SELECT id FROM a WHERE EXISTS (SELECT FROM b WHERE b.aid = a.id AND b.y > 5)');
SELECT * FROM nj.strategies('SELECT id, x FROM a WHERE (x IN (SELECT y FROM b WHERE b.t = a.t)) IS TRUE');
SELECT * FROM nj.strategies('SELECT id FROM a WHERE NOT EXISTS (SELECT FROM b WHERE b.aid = a.id AND b.y > 5)');
SELECT * FROM nj.strategies('SELECT id, x FROM a WHERE NOT EXISTS (SELECT FROM b WHERE b.y = a.x AND b.t = a.t)');
-- of a replicated table that is preserved one node sends its rows
SELECT * FROM nj.strategies('SELECT r.id, a.id AS aid FROM r LEFT JOIN a ON a.x = r.id');
SELECT * FROM nj.strategies('SELECT r.id, a.id AS aid FROM r LEFT JOIN a ON a.id = r.id');
SELECT * FROM nj.strategies('SELECT r.id, a.id AS aid FROM r FULL JOIN a ON a.id = r.id');
SELECT * FROM nj.strategies('SELECT r.id FROM r WHERE EXISTS (SELECT FROM a WHERE a.x = r.id)');
SELECT * FROM nj.strategies('SELECT r.id FROM r WHERE NOT EXISTS (SELECT FROM a WHERE a.x = r.id)');
-- several joins: what is joined moves on, or stays where it is
SELECT * FROM nj.strategies('SELECT a.id, b.id AS bid, c.id AS cid FROM a JOIN b ON a.id = b.aid JOIN c ON c.bid = b.id');
SELECT * FROM nj.strategies('SELECT a.t, count(*) AS n FROM a JOIN b ON a.id = b.aid JOIN c ON c.bid = b.id JOIN r ON r.id = a.x WHERE c.z > 1 GROUP BY a.t');
SELECT * FROM nj.strategies('SELECT a.id, b.id AS bid, c.id AS cid FROM a LEFT JOIN (b JOIN c ON c.z = b.y) ON a.id = b.aid WHERE a.id < 50');
SELECT * FROM nj.strategies('SELECT p.id, q.id AS qid FROM b p JOIN b q ON p.aid = q.id');
-- expressions, several keys, other types, collations
SELECT * FROM nj.strategies('SELECT a.id, b.id AS bid FROM a JOIN b ON a.x + 1 = b.y - 1 AND a.t = b.t');
SELECT * FROM nj.strategies('SELECT a.id, c.id AS cid FROM a JOIN c ON a.id = c.bid');
SELECT * FROM nj.strategies('SELECT b.id, c.id AS cid FROM b JOIN c ON b.t = replace(c.v, ''v'', ''a'')');
SELECT * FROM nj.strategies('SELECT c.id, d.id AS did FROM c JOIN c d ON c.v = d.v WHERE c.id < 9');
-- no equality that a hash can serve
SELECT * FROM nj.strategies('SELECT a.id, b.id AS bid FROM a JOIN b ON a.id < b.aid AND b.aid < 9');
SELECT * FROM nj.strategies('SELECT a.id, b.id AS bid FROM a JOIN b ON a.n = b.aid');
SELECT * FROM nj.strategies('SELECT a.id, b.id AS bid FROM a, b WHERE a.id < 4 AND b.id < 3');
-- the text that both nodes get
SET rdma_fdw.exchange_strategy = repartition_both;
SELECT replace(p, '(x4.c1 = x3.c1)', '(x3.c1 = x4.c1)') FROM nj.planned('SELECT a.id, c.v FROM a JOIN b ON a.id = b.aid JOIN c ON c.z = b.y AND replace(c.v, ''v'', ''a'') = b.t || substr(''$x1$'', b.y + 9) WHERE b.t <> ''$x1$''') p;
SELECT nj.planned('SELECT count(*) AS n FROM a WHERE EXISTS (SELECT FROM b WHERE b.y = a.x AND b.t > ''a1'' COLLATE "C")');
-- most rows of s have the same key
SELECT nj.planned('SELECT s.v, b.id FROM s JOIN b ON s.k = b.y');
SELECT nj.planned('SELECT s.v, b.id FROM b JOIN s ON s.k = b.y AND s.v < b.id');
SELECT nj.planned('SELECT s.v, b.id FROM s LEFT JOIN b ON s.k = b.y AND b.id < 50');
SELECT nj.planned('SELECT s.v, b.id FROM b LEFT JOIN s ON s.k = b.y AND b.id < 50');
SELECT nj.planned('SELECT s.v, b.id FROM s FULL JOIN b ON s.k = b.y');
SELECT nj.planned('SELECT s.v FROM s WHERE NOT EXISTS (SELECT FROM b WHERE s.k = b.y AND b.id > 790)');
SELECT nj.planned('SELECT s.k, count(*) AS n FROM s JOIN b ON s.k = b.y GROUP BY s.k');
-- only one node has a row to join with, but both have to send theirs, which come from an exchange
SET rdma_fdw.exchange_strategy = replicate;
SELECT nj.planned('SELECT a.x, q.id FROM a LEFT JOIN (SELECT b.aid, c.id FROM b JOIN c ON c.z = b.y AND c.id < 300) q ON q.aid = a.id WHERE a.n = 4.25');
RESET rdma_fdw.exchange_strategy;
-- with a local table, and with what only the coordinator can do
SELECT nj.planned('SELECT local.id, b.id AS bid FROM a JOIN b ON a.id = b.aid JOIN local ON local.id = a.id WHERE b.id < 100');

-- groups: whole per node, after moving, or finished here
SELECT nj.planned('SELECT id, count(*) AS n FROM b GROUP BY id HAVING count(*) > 0');
SELECT nj.planned('SELECT b.id, count(*) AS n, avg(c.z) AS z FROM b LEFT JOIN c ON b.id = c.bid GROUP BY b.id');
SELECT nj.planned('SELECT y, count(*) AS n, max(id) AS i, sum(aid) AS s FROM b GROUP BY y HAVING count(*) > 10');
SELECT nj.planned('SELECT count(*) AS n, sum(z) AS z, max(v) AS v, min(z) AS d FROM c');
SELECT nj.planned('SELECT t, count(DISTINCT y) AS n FROM b GROUP BY t');
SELECT nj.planned('SELECT y, t, max(id) AS s FROM b GROUP BY ROLLUP (y, t)');
SELECT nj.planned('SELECT y, t, array_agg(id ORDER BY id) AS s FROM b GROUP BY GROUPING SETS ((y), (y, t))');
SELECT nj.planned('SELECT count(*) AS n, sum(x) AS x FROM a WHERE id = 17');
SELECT nj.planned('SELECT count(*) AS n FROM r');
SELECT nj.planned('SELECT DISTINCT y FROM b');
SELECT nj.planned('SELECT DISTINCT id, y FROM b');
SELECT nj.planned('SELECT id, rank() OVER (PARTITION BY id ORDER BY s) AS r FROM (SELECT id, y AS s FROM b) b');
SELECT nj.planned('SELECT id, rank() OVER (PARTITION BY y ORDER BY id) AS r FROM b');
-- order and limit: merged by what both nodes sort alike
SELECT nj.planned('SELECT id, t FROM b ORDER BY id DESC LIMIT 5 OFFSET 2');
SELECT nj.planned('SELECT id, t FROM b ORDER BY id LIMIT 9223372036854775807 OFFSET 2');
SELECT nj.planned('SELECT a.id, b.y FROM a JOIN b ON a.id = b.aid ORDER BY a.id, b.id LIMIT 10');
SELECT nj.planned('SELECT id, count(*) AS n FROM b GROUP BY id ORDER BY n DESC, id LIMIT 3');
SELECT nj.planned('SELECT v FROM c ORDER BY v, id LIMIT 3');
SELECT nj.planned('SELECT t, id FROM b ORDER BY t, id LIMIT 3');

-- parameters choose the node, also those that are known late
SET plan_cache_mode = force_generic_plan;
PREPARE nj_one(int) AS SELECT count(*), min(b.id) FROM nj.a JOIN nj.b ON a.id = b.id WHERE a.id = $1;
EXPLAIN (COSTS OFF) EXECUTE nj_one(3);
EXECUTE nj_one(3);
EXECUTE nj_one(4);
EXECUTE nj_one(NULL);
PREPARE nj_limit(bigint, bigint) AS SELECT id FROM nj.b ORDER BY id LIMIT $1 OFFSET $2;
EXECUTE nj_limit(3, 2);
EXECUTE nj_limit(2, NULL);
EXECUTE nj_limit(NULL, 797);
EXECUTE nj_limit(9223372036854775807, 797);
EXECUTE nj_limit(-1, 2);
EXECUTE nj_limit(2, -1);
PREPARE nj_moved(int) AS SELECT count(*) FROM nj.a JOIN nj.b ON a.x = b.y WHERE a.id > $1 AND b.id < $1;
EXECUTE nj_moved(100);
SELECT count(*) FROM nj_here.a JOIN nj_here.b ON a.x = b.y WHERE a.id > 100 AND b.id < 100;
RESET plan_cache_mode;
SELECT local.id, (SELECT count(*) FROM nj.b JOIN nj.c ON b.id = c.bid WHERE b.id = local.id) FROM nj.local WHERE id < 4 ORDER BY 1;

-- rows that are to be locked or changed are not joined there
EXPLAIN (COSTS OFF) SELECT a.id FROM nj.a JOIN nj.b ON a.id = b.id FOR UPDATE OF a;
\set ECHO none
DO $$ BEGIN FOR i IN 1..600 LOOP EXIT WHEN NOT EXISTS (SELECT FROM rdma.stat_flows); PERFORM pg_sleep(0.1); END LOOP; END $$;
SELECT count(*) || ' flows left' FROM rdma.stat_flows;

DROP SCHEMA nj, nj_here CASCADE;
DROP SERVER nj, nj1, nj2 CASCADE;
\c contrib_regression postgres 127.0.0.1 :n1
DO $$ BEGIN FOR i IN 1..600 LOOP EXIT WHEN NOT EXISTS (SELECT FROM rdma.stat_flows); PERFORM pg_sleep(0.1); END LOOP; END $$;
SELECT count(*) || ' flows left' FROM rdma.stat_flows;
SET client_min_messages = warning;
DROP SCHEMA nj CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
DO $$ BEGIN FOR i IN 1..600 LOOP EXIT WHEN NOT EXISTS (SELECT FROM rdma.stat_flows); PERFORM pg_sleep(0.1); END LOOP; END $$;
SELECT count(*) || ' flows left' FROM rdma.stat_flows;
SET client_min_messages = warning;
DROP SCHEMA nj CASCADE;
