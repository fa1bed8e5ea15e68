-- Joins that the genetic optimizer plans, which frees the memory of each attempt: the rows are those of local tables.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name gj
\i :two_nodes
SELECT count(*) FROM rdma.run_on('gj', 'CREATE SCHEMA gj');
SELECT count(*) FROM rdma.run_on('gj', 'CREATE TABLE gj.a (id int, x int, t text)');
SELECT count(*) FROM rdma.run_on('gj', 'CREATE TABLE gj.b (id int, x int, t text)');
SELECT count(*) FROM rdma.run_on('gj', 'CREATE TABLE gj.r (id int, x int, t text)');
SELECT count(*) FROM rdma.run_on('gj', 'CREATE TABLE gj.o1 (id int, x int, t text)');
SELECT count(*) FROM rdma.run_on('gj', 'CREATE TABLE gj.o2 (id int, x int, t text)');
SELECT count(*) FROM rdma.run_on('gj', 'CREATE TABLE gj.p1 (id int, x int, t text)');
SELECT count(*) FROM rdma.run_on('gj', 'CREATE TABLE gj.q1 (id int, x int, t text)');
CREATE SERVER gj_back FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'gj2, gj1');
-- distributed, replicated, of a server with the same nodes, of one node, of one that is asked for estimates, partitioned, local
CREATE FOREIGN TABLE a (id int, x int, t text) SERVER gj OPTIONS (distributed_by 'id');
CREATE FOREIGN TABLE b (id int, x int, t text) SERVER gj_back OPTIONS (distributed_by 'id');
CREATE FOREIGN TABLE r (id int, x int, t text) SERVER gj OPTIONS (replicated 'true');
CREATE FOREIGN TABLE o1 (id int, x int, t text) SERVER gj1;
CREATE FOREIGN TABLE o2 (id int, x int, t text) SERVER gj2;
CREATE FOREIGN TABLE e1 (id int, x int, t text) SERVER gj1 OPTIONS (table_name 'o1', use_remote_estimate 'true');
CREATE TABLE p (id int, x int, t text) PARTITION BY HASH (id);
CREATE FOREIGN TABLE p1 PARTITION OF p FOR VALUES WITH (MODULUS 2, REMAINDER 0) SERVER gj1;
CREATE FOREIGN TABLE p2 PARTITION OF p FOR VALUES WITH (MODULUS 2, REMAINDER 1) SERVER gj2 OPTIONS (table_name 'p1');
CREATE TABLE q (id int, x int, t text) PARTITION BY HASH (id);
CREATE FOREIGN TABLE q1 PARTITION OF q FOR VALUES WITH (MODULUS 2, REMAINDER 0) SERVER gj1;
CREATE FOREIGN TABLE q2 PARTITION OF q FOR VALUES WITH (MODULUS 2, REMAINDER 1) SERVER gj2 OPTIONS (table_name 'q1');
CREATE TABLE here AS SELECT i AS id, i % 5 AS x, 'h' || i % 6 AS t FROM generate_series(1, 8) i;
CREATE SCHEMA gj_here;
CREATE TABLE gj_here.a AS SELECT i AS id, nullif(i % 7, 3) AS x, 't' || i % 5 AS t FROM generate_series(1, 40) i;
CREATE TABLE gj_here.b AS SELECT nullif(i % 30, 4) AS id, i % 9 AS x, 't' || i % 6 AS t FROM generate_series(1, 40) i;
CREATE TABLE gj_here.r AS SELECT i AS id, i % 4 AS x, 't' || i AS t FROM generate_series(0, 9) i;
CREATE TABLE gj_here.o1 AS SELECT i AS id, i % 6 AS x, 't' || i % 4 AS t FROM generate_series(1, 30) i;
CREATE TABLE gj_here.o2 AS SELECT i AS id, nullif(i % 5, 2) AS x, 't' || i % 7 AS t FROM generate_series(1, 25) i;
CREATE TABLE gj_here.p AS SELECT i AS id, i % 8 AS x, 't' || i % 5 AS t FROM generate_series(1, 40) i;
CREATE TABLE gj_here.q AS SELECT i AS id, i % 3 AS x, 't' || i % 6 AS t FROM generate_series(1, 40) i;
CREATE VIEW gj_here.e1 AS SELECT * FROM gj_here.o1;
CREATE TABLE gj_here.here AS SELECT * FROM here;
INSERT INTO a SELECT * FROM gj_here.a;
INSERT INTO b SELECT * FROM gj_here.b;
INSERT INTO r SELECT * FROM gj_here.r;
INSERT INTO o1 SELECT * FROM gj_here.o1;
INSERT INTO o2 SELECT * FROM gj_here.o2;
INSERT INTO p SELECT * FROM gj_here.p;
INSERT INTO q SELECT * FROM gj_here.q;
ANALYZE a, b, r, o1, o2, e1, p, q, here;
ANALYZE gj_here.a, gj_here.b, gj_here.r, gj_here.o1, gj_here.o2, gj_here.p, gj_here.q, gj_here.here;

-- Rows of the query, and how many of them are not those of local tables, for each seed and some settings; EXPLAIN runs, too.
CREATE FUNCTION compared(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE way text; line text; rows bigint; wrong bigint = 0; diff bigint;
BEGIN
  SET LOCAL search_path = gj_here, public;
  EXECUTE 'CREATE TEMP TABLE there AS ' || query;
  SET LOCAL search_path = gj, public;
  SET LOCAL geqo_threshold = 2;
  SET LOCAL geqo_effort = 3;
  FOREACH way IN ARRAY ARRAY['geqo_seed=0', 'geqo_seed=0.4', 'geqo_seed=0.9', 'rdma_fdw.exchange_strategy=repartition_both',
                             'rdma_fdw.exchange_strategy=pull', 'enable_partitionwise_join=on'] LOOP
    PERFORM set_config(split_part(way, '=', 1), split_part(way, '=', 2), true);
    FOR line IN EXECUTE 'EXPLAIN (VERBOSE) ' || query LOOP END LOOP;
    EXECUTE format('SELECT count(*) FROM ((SELECT got::text FROM (%1$s) got EXCEPT ALL SELECT known::text FROM there known)
      UNION ALL (SELECT known::text FROM there known EXCEPT ALL SELECT got::text FROM (%1$s) got)) d', query) INTO diff;
    wrong = wrong + diff;
  END LOOP;
  SELECT count(*) INTO rows FROM there;
  DROP TABLE there;
  RETURN format('%s rows, %s wrong', rows, wrong);
END $$;

-- one server with nodes: joined where the rows are, or after they have moved
SELECT compared('SELECT a1.id, a2.t, a3.x FROM a a1 JOIN a a2 USING (id) JOIN a a3 USING (id)');
SELECT compared('SELECT a1.id, r.t, a3.x FROM a a1 JOIN a a2 ON a1.x = a2.id JOIN a a3 ON a2.x = a3.id JOIN r ON r.id = a3.x');
SELECT compared('SELECT a.id, b.x, r.t, s.t AS u FROM a JOIN b ON a.id = b.id JOIN r ON r.id = b.x LEFT JOIN b s ON s.x = r.x AND s.id < 9');
SELECT compared('SELECT count(*), sum(h8.id) FROM r h1, r h2, r h3, a h4, a h5, b h6, a h7, a h8 WHERE h1.x = h2.id AND h2.x = h3.id
  AND h3.id = h4.id AND h4.x = h5.id AND h5.x = h6.id AND h6.id = h7.id AND h7.x = h8.id');
SELECT compared('SELECT a.id, a.t FROM a JOIN r ON r.id = a.x WHERE EXISTS (SELECT FROM b WHERE b.id = a.id AND b.x > 2)
  AND a.t NOT IN (SELECT t FROM r WHERE x = 3 AND t IS NOT NULL) AND NOT EXISTS (SELECT FROM a n WHERE n.id = a.x + 37)');
SELECT compared('SELECT a.id, b.id AS k, r.id AS i FROM a FULL JOIN b ON a.id = b.id LEFT JOIN r ON r.id = a.x');
-- a sub-select that groups, and one that is a set operation
SELECT compared('SELECT a.id, s.n, r.t FROM a JOIN (SELECT x, count(*) AS n FROM b GROUP BY x) s ON s.x = a.x JOIN r ON r.id = s.x
  JOIN (SELECT id FROM a UNION SELECT id FROM b) u ON u.id = a.id');
-- one server without, several, and one that is asked for estimates
SELECT compared('SELECT l.id, m.t, n.x FROM o1 l JOIN o1 m ON l.x = m.id JOIN o1 n ON n.x = m.x');
SELECT compared('SELECT l.id, m.t, n.x FROM o1 l JOIN o2 m ON l.x = m.id LEFT JOIN o1 n ON n.id = m.x JOIN o2 k ON k.id = l.id');
SELECT compared('SELECT l.id, m.t, n.x FROM e1 l JOIN e1 m ON l.x = m.id JOIN o2 n ON n.id = m.x LEFT JOIN e1 k ON k.id = n.x');
-- mixed: rows of this node that are sent, keys that are sent, tables of one of the nodes
SELECT compared('SELECT a.id, h.t, r.x FROM a JOIN here h ON h.id = a.x JOIN r ON r.id = h.x JOIN here g ON g.id = r.x');
SELECT compared('SELECT a.id, v.column2, o1.t FROM a JOIN (VALUES (1, 2), (3, 4), (5, 6)) v ON v.column1 = a.x JOIN o1 ON o1.id = v.column2
  LEFT JOIN here h ON h.id = o1.x');
SELECT compared('SELECT a.id, o1.t, o2.x, b.t AS u FROM a JOIN o1 ON o1.id = a.id JOIN o2 ON o2.id = o1.x JOIN b ON b.x = o2.x');
SELECT compared('WITH w AS MATERIALIZED (SELECT id, x FROM a WHERE id < 20) SELECT w.id, b.t, o2.x FROM w JOIN b ON b.id = w.x JOIN o2 ON o2.id = b.x
  WHERE b.id IN (SELECT x FROM here)');
-- partitions on several servers
SELECT compared('SELECT p.id, q.x, r.t FROM p JOIN q USING (id) JOIN r ON r.id = q.x JOIN p s ON s.id = p.x');
SELECT compared('SELECT p.id, q.x, h.t, o1.t AS u FROM p JOIN q USING (id) LEFT JOIN here h ON h.id = q.x JOIN o1 ON o1.id = p.x');

-- one that GEQO plans by default
SELECT compared('SELECT count(*), sum(h12.id) FROM a h1, r h2, a h3, r h4, b h5, r h6, a h7, r h8, a h9, r h10, r h11, a h12
  WHERE h1.x = h2.id AND h2.x = h3.id AND h3.x = h4.id AND h4.x = h5.id AND h5.x = h6.id AND h6.x = h7.id AND h7.x = h8.id
  AND h8.x = h9.id AND h9.x = h10.id AND h10.x = h11.id AND h11.x = h12.id');
-- rows that are written, and locked
SET geqo_threshold = 2;
BEGIN;
UPDATE a SET t = 'new' FROM b, r WHERE b.id = a.id AND r.id = b.x AND r.x > 1;
SELECT count(*), sum(id) FROM a WHERE t = 'new';
DELETE FROM o1 USING o2, here h WHERE o2.id = o1.x AND h.id = o2.x;
SELECT count(*), sum(id) FROM o1;
SELECT o1.id FROM o1 JOIN o1 s ON s.id = o1.x JOIN here h ON h.id = s.x ORDER BY 1 LIMIT 3 FOR UPDATE OF o1;
ROLLBACK;
SET search_path = gj_here;
BEGIN;
UPDATE a SET t = 'new' FROM b, r WHERE b.id = a.id AND r.id = b.x AND r.x > 1;
SELECT count(*), sum(id) FROM a WHERE t = 'new';
DELETE FROM o1 USING o2, here h WHERE o2.id = o1.x AND h.id = o2.x;
SELECT count(*), sum(id) FROM o1;
SELECT o1.id FROM o1 JOIN o1 s ON s.id = o1.x JOIN here h ON h.id = s.x ORDER BY 1 LIMIT 3 FOR UPDATE OF o1;
ROLLBACK;
RESET geqo_threshold;
RESET search_path;

DROP SCHEMA gj, gj_here CASCADE;
SELECT count(*) FROM rdma.run_on('gj', 'DROP SCHEMA gj CASCADE');
DROP SERVER gj, gj_back, gj1, gj2 CASCADE;
