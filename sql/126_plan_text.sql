-- Plans of every kind that are printed and read as parallel workers get them, and copied as the plan cache does, give the same rows.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name pt
\i :two_nodes
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
CREATE SCHEMA pt;
CREATE TABLE pt.a (id int, b int, t text);
CREATE TABLE pt.c (id int, b int);
CREATE TABLE pt.r (b int, name text);
ALTER DATABASE contrib_regression SET session_preload_libraries = 'plan_text';
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
CREATE SCHEMA pt;
CREATE TABLE pt.a (id int, b int, t text);
CREATE TABLE pt.c (id int, b int);
CREATE TABLE pt.r (b int, name text);
ALTER DATABASE contrib_regression SET session_preload_libraries = 'plan_text';
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
SET search_path = pt;
LOAD 'plan_text';
CREATE FOREIGN TABLE a (id int, b int, t text) SERVER pt OPTIONS (distributed_by 'id');
CREATE FOREIGN TABLE c (id int, b int) SERVER pt OPTIONS (distributed_by 'id');
CREATE FOREIGN TABLE r (b int, name text) SERVER pt OPTIONS (replicated 'true');
CREATE FOREIGN TABLE a1 (id int, b int, t text) SERVER pt1 OPTIONS (table_name 'a');
CREATE TABLE here AS SELECT i AS b, i % 3 AS d FROM generate_series(1, 20) i;
INSERT INTO a SELECT i, i % 20, CASE WHEN i % 7 > 0 THEN 'row "' || i || '"' ELSE '' END FROM generate_series(1, 2000) i;
INSERT INTO r SELECT i, 'name ' || i FROM generate_series(0, 19) i;
ANALYZE a, c, r, here;

-- scans: of one node, of all, merged, of the node of a key, of any node, with states of aggregates and row locks
SELECT count(*) > 0 AS rows FROM a1 WHERE t <> '';
SELECT id, t FROM a ORDER BY t COLLATE "C" DESC NULLS FIRST, id LIMIT 3;
SELECT * FROM a WHERE id = 7;
SELECT count(*) FROM r WHERE name <> '';
SELECT b % 2 AS odd, count(*), sum(id), avg(b) FROM a GROUP BY b % 2 ORDER BY 1;
SELECT id FROM a WHERE id < 4 ORDER BY id FOR UPDATE;
SELECT id FROM a WHERE id = 1 UNION SELECT b FROM r WHERE b = 2 ORDER BY 1;
-- joins: rows move between the nodes, or the coordinator's go there; sub-selects look rows up
INSERT INTO c SELECT b, id FROM a;
SELECT count(*), sum(a.id) FROM a JOIN c ON a.b = c.id JOIN r ON r.b = c.id WHERE c.b < 500;
SELECT count(*), sum(a.id) FROM a JOIN here USING (b);
SELECT count(*), sum((SELECT count(*) FROM a WHERE a.b = here.b AND a.t <> random()::text)) FROM here;
-- writes: by one statement of each node, row by row, and from node to node
UPDATE a SET t = t || '.' WHERE b = 3;
WITH u AS (UPDATE a SET t = 'x' || random() WHERE id IN (4, 5) RETURNING id) SELECT count(*) FROM u;
UPDATE a SET id = -id WHERE b = 4;
DELETE FROM c WHERE id = 3 AND b > random();
SELECT count(*), sum(id), sum(length(t)) FILTER (WHERE b <> 5) > 0 AS texts FROM a;
SELECT count(*) FROM c;
-- a cached plan, and parallel workers
PREPARE p(int) AS SELECT count(*), sum(id) FROM a JOIN r USING (b) WHERE b < $1;
SET plan_cache_mode = force_generic_plan;
EXECUTE p(10);
EXECUTE p(20);
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SELECT count(*) > 0 AS rows FROM a1 WHERE num_nonnulls(t, version()) = 2;

DROP SCHEMA pt CASCADE;
DROP SERVER pt1, pt2, pt CASCADE;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA pt CASCADE;
ALTER DATABASE contrib_regression RESET session_preload_libraries;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA pt CASCADE;
ALTER DATABASE contrib_regression RESET session_preload_libraries;
