-- Sub-selects over tables that lie on two nodes: grouped ones in FROM are parts of what both run, and correlated aggregates become
-- such. The rows are those of local tables.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name ns
\i :two_nodes
\set ECHO none
\c contrib_regression postgres 127.0.0.1 :n1
CREATE SCHEMA ns;
CREATE TABLE ns.a (id int, x int, t text);
CREATE TABLE ns.b (id int, aid bigint, y int, n numeric);
CREATE INDEX ON ns.b (aid);
\c contrib_regression postgres 127.0.0.1 :n2
CREATE SCHEMA ns;
CREATE TABLE ns.a (id int, x int, t text);
CREATE TABLE ns.b (id int, aid bigint, y int, n numeric);
CREATE INDEX ON ns.b (aid);
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
CREATE SCHEMA ns_here;
CREATE TABLE ns_here.a AS SELECT i AS id, nullif(i % 7, 3) AS x, 'a' || i % 13 AS t FROM generate_series(1, 200) i;
CREATE TABLE ns_here.b AS SELECT i AS id, nullif(i % 150, 5)::bigint AS aid, nullif(i % 11, 4) AS y, i / 4.0 AS n FROM generate_series(1, 800) i;
ANALYZE ns_here.a, ns_here.b;
CREATE FOREIGN TABLE ns.a (id int, x int, t text) SERVER ns OPTIONS (distributed_by 'id');
CREATE FOREIGN TABLE ns.b (id int, aid bigint, y int, n numeric) SERVER ns OPTIONS (distributed_by 'id');
INSERT INTO ns.a SELECT * FROM ns_here.a;
INSERT INTO ns.b SELECT * FROM ns_here.b;
ANALYZE ns.a, ns.b;

-- What is scanned, and whether the rows are those that local tables give.
CREATE FUNCTION ns.outcome(q text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE result text;
BEGIN
	EXECUTE format('SELECT count(*) || '' rows, '' || coalesce(md5(string_agg(x::text, ''|'' ORDER BY x::text COLLATE "C")), '''') FROM (%s) x', q) INTO result;
	RETURN result;
END $$;
CREATE FUNCTION ns.planned(q text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text; here text; there text;
BEGIN
	SET LOCAL search_path = ns, public;
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || q LOOP
		IF line ~ 'Relations:|Strategy:|SubPlan|InitPlan|Result|Subquery Scan|One-Time' THEN
			RETURN NEXT replace(regexp_replace(line, ' \(returns.*', ''), '"ANY_subquery"', 'unnamed_subquery');
		END IF;
	END LOOP;
	there := ns.outcome(q);
	SET LOCAL search_path = ns_here, public;
	here := ns.outcome(q);
	RETURN NEXT CASE WHEN here = there THEN 'same ' || split_part(here, ',', 1) ELSE 'DIFFERENT: ' || there || ', here ' || here END;
END $$;
\pset format unaligned
\pset tuples_only on
\set ECHO all

-- in FROM
SELECT ns.planned('SELECT a.id, g.c FROM a JOIN (SELECT id, count(*) AS c FROM b GROUP BY id) g ON a.id = g.id');
SELECT ns.planned('SELECT a.id, g.s FROM a LEFT JOIN (SELECT id, 2 * sum(n) AS s, max(y) AS m FROM b GROUP BY id HAVING sum(n) > 20) g ON a.id = g.id AND g.m > a.x');
SELECT ns.planned('SELECT a.id, g.id AS gid FROM a FULL JOIN (SELECT id, max(y) AS m FROM b GROUP BY id) g ON a.id = g.id');
SELECT ns.planned('SELECT s, count(*) FROM (SELECT id, sum(y) AS s FROM b GROUP BY id) g GROUP BY s');
SELECT ns.planned('SELECT a.id, w.r FROM a JOIN (SELECT id, y, rank() OVER (PARTITION BY id ORDER BY y) + 1 AS r FROM b) w ON a.id = w.id WHERE w.y > 3');
SELECT ns.planned('SELECT a.id FROM a WHERE id IN (SELECT id FROM b GROUP BY id HAVING max(y) > 5)');
SELECT ns.planned('SELECT a.id FROM a JOIN (SELECT DISTINCT id, y FROM b) g ON a.id = g.id AND a.x = g.y');
-- not so: beside a FULL JOIN that can be planned only because it need not be one, or nothing is to be read
SELECT ns.planned('SELECT a.id, (SELECT max(y) FROM b WHERE b.id = a.id) FROM (SELECT id FROM b) d FULL JOIN a ON -7 = a.id WHERE a.x > 3 AND NULL');
SELECT ns.planned('SELECT d.m FROM (SELECT 1 AS one) c FULL JOIN (SELECT (SELECT count(b.y) FROM b WHERE b.id = a.id) AS m FROM a) d ON 2 = d.m WHERE d.m = 4');
SELECT ns.planned('SELECT a.id, d.m FROM a FULL JOIN (SELECT (SELECT count(b.y) FROM b WHERE b.id = a.id) AS m, id FROM a) d USING (id)');
-- not so: LIMIT, an uncorrelated sub-select inside
SELECT ns.planned('SELECT a.id, g.c FROM a JOIN (SELECT id, count(*) AS c FROM b GROUP BY id ORDER BY id LIMIT 9) g ON a.id = g.id');
SELECT ns.planned('SELECT a.id, g.c FROM a JOIN (SELECT id, count(*) AS c FROM b WHERE n > (SELECT min(n) FROM b) GROUP BY id) g ON a.id = g.id');

-- correlated
SET rdma_fdw.disable = decorrelation_costs;
SELECT ns.planned('SELECT id FROM a WHERE x < (SELECT avg(y) FROM b WHERE b.id = a.id)');
SELECT ns.planned('SELECT id FROM a WHERE x < (SELECT avg(y) FROM b WHERE b.aid = a.id)');
SELECT ns.planned('SELECT id, (SELECT count(*) FROM b WHERE b.aid = a.id) AS c FROM a');
SELECT ns.planned('SELECT id, (SELECT count(y) FROM b WHERE b.aid = a.id AND b.n > 100 AND a.x > 2) AS c FROM a');
SELECT ns.planned('SELECT id, (SELECT coalesce(sum(y), -1) + count(*) FROM b WHERE b.aid = a.id AND b.y = a.x) AS c FROM a');
SELECT ns.planned('SELECT id FROM a WHERE (SELECT count(*) FROM b WHERE b.aid = a.id) = 0');
SELECT ns.planned('SELECT id FROM a WHERE (SELECT max(n) FROM b WHERE b.aid = a.id) IS NULL OR t = ''a3''');
SELECT ns.planned('SELECT id FROM a WHERE t = ''a5'' AND x < (SELECT max(y) FROM b WHERE b.aid = a.id)');
SELECT ns.planned('SELECT count(*) FROM a WHERE x <= (SELECT sum(y) FROM b WHERE b.aid = a.id AND n < (SELECT max(n) FROM b b2 WHERE b2.aid = b.aid))');
SELECT ns.planned('SELECT count(*) FROM a WHERE EXISTS (SELECT FROM b WHERE b.aid = a.id AND b.y > (SELECT avg(y) FROM b b2 WHERE b2.aid = b.aid))');
SELECT ns.planned('SELECT id, (SELECT sum(y) + a.x FROM b WHERE b.aid = a.id) AS s FROM a');
-- in ON they are joined to one side, above a grouping below it
SELECT ns.planned('SELECT a.id, b.id AS bid FROM a JOIN b ON a.id = b.aid AND b.n > (SELECT avg(n) FROM b b2 WHERE b2.aid = a.id)');
SELECT ns.planned('SELECT a.id, b.id AS bid FROM a LEFT JOIN b ON a.id = b.aid AND b.n > (SELECT avg(n) FROM b b2 WHERE b2.aid = b.aid) WHERE b.y IS NULL OR b.y = 5');
SELECT ns.planned('SELECT a.id, b.id AS bid FROM a LEFT JOIN b ON a.id = b.aid AND a.x < (SELECT count(*) FROM b b2 WHERE b2.aid = a.id AND b2.y > 5)');
SELECT ns.planned('SELECT aid, sum(y) AS s FROM b GROUP BY aid HAVING sum(y) > (SELECT max(x) * 3 FROM a WHERE a.id = b.aid)');
SELECT ns.planned('SELECT y, count(*) AS c, (SELECT count(*) FROM a WHERE a.x = b.y) AS d FROM b WHERE n < 100 GROUP BY y HAVING count(*) < (SELECT 2 * count(*) FROM a WHERE a.x = b.y) OR y = 10');
SELECT ns.planned('SELECT x, max((SELECT count(*) FROM b WHERE b.aid = a.id)) AS s FROM a GROUP BY x');
SELECT ns.planned('SELECT x, (SELECT count(*) FROM b WHERE b.y = a.x) AS c FROM a WHERE id < 30 GROUP BY x');
-- a division by zero only in a group that is not requested
SELECT ns.planned('SELECT id, (SELECT 100 / count(nullif(aid, 0)) FROM b WHERE b.aid = a.id) AS d FROM a WHERE id < 150 AND id <> 5');
-- sub-selects that do not become joins
SELECT ns.planned('SELECT a.id, b.id AS bid FROM a JOIN b ON a.id = b.aid AND b.n >= (SELECT min(n) FROM b b2 WHERE b2.aid = a.id AND b2.y = b.y) WHERE a.id < 8');
SELECT ns.planned('SELECT y, count(*) AS c FROM b GROUP BY y HAVING count(*) > (SELECT count(*) FROM a WHERE a.x = b.y AND b.y > 3)');
SELECT ns.planned('SELECT y, count(*) AS c FROM b GROUP BY ROLLUP (y) HAVING count(*) > (SELECT count(*) FROM a WHERE a.x = b.y)');
SELECT ns.planned('SELECT id, (SELECT sum(y) FROM b WHERE b.aid < a.id) AS s FROM a WHERE id < 3');
SELECT ns.planned('SELECT id, (SELECT sum(y) FROM b WHERE b.aid = a.id AND random() >= 0) AS s FROM a WHERE id < 3');
SET rdma_fdw.disable = decorrelation;
SELECT ns.planned('SELECT id, (SELECT count(*) FROM b WHERE b.aid = a.id) AS c FROM a WHERE id < 3');
RESET rdma_fdw.disable;
-- by cost: many look-ups
SELECT ns.planned('SELECT id, (SELECT count(*) FROM b WHERE b.aid = a.id) AS c FROM a');

-- conditions without columns hold for what the nodes aggregate and join, too
SELECT ns.planned('SELECT id, (SELECT max(n) FROM b WHERE a.x > 3) AS m FROM a');
SELECT ns.planned('SELECT count(*) FROM b WHERE current_setting(''work_mem'') = ''none''');
SELECT ns.planned('SELECT a.id, o.y FROM a LEFT JOIN (SELECT id, y FROM b WHERE current_setting(''work_mem'') = ''none'') o ON a.id = o.id');
CREATE FOREIGN TABLE ns.one (id int, y int) SERVER ns1 OPTIONS (table_name 'b');
SELECT count(*) FROM ns.one WHERE current_setting('work_mem') = 'none';

-- rights on the tables inside are checked
CREATE ROLE ns_reader;
CREATE USER MAPPING FOR ns_reader SERVER ns1 OPTIONS (user 'postgres');
CREATE USER MAPPING FOR ns_reader SERVER ns2 OPTIONS (user 'postgres');
ALTER USER MAPPING FOR ns_reader SERVER ns1 OPTIONS (ADD password_required 'false');
ALTER USER MAPPING FOR ns_reader SERVER ns2 OPTIONS (ADD password_required 'false');
GRANT USAGE ON SCHEMA ns TO ns_reader;
GRANT SELECT ON ns.a TO ns_reader;
SET ROLE ns_reader;
SELECT count(*) FROM ns.a JOIN (SELECT id, count(*) AS c FROM ns.b GROUP BY id) g ON a.id = g.id;
SELECT count(*) FROM ns.a WHERE x < (SELECT avg(y) FROM ns.b WHERE b.id = a.id);
RESET ROLE;
CREATE VIEW ns.v AS SELECT a.id, g.c FROM ns.a JOIN (SELECT id, count(*) AS c FROM ns.b GROUP BY id) g ON a.id = g.id;
GRANT SELECT ON ns.v TO ns_reader;
SET ROLE ns_reader;
SELECT count(*), sum(c) FROM ns.v;
RESET ROLE;
-- a plan that is used again notices a change of a table inside
SET plan_cache_mode = force_generic_plan;
PREPARE ns_again AS SELECT count(*), sum(g.c) FROM ns.a RIGHT JOIN (SELECT id, count(*) AS c FROM ns.b GROUP BY id) g ON a.id = g.id;
EXECUTE ns_again;
ALTER FOREIGN TABLE ns.b OPTIONS (ADD table_name 'a');
EXECUTE ns_again;
RESET plan_cache_mode;
DO $$ BEGIN FOR i IN 1..600 LOOP EXIT WHEN NOT EXISTS (SELECT FROM rdma.stat_flows); PERFORM pg_sleep(0.1); END LOOP; END $$;
SELECT count(*) FROM rdma.stat_flows;

\set ECHO none
DROP SCHEMA ns, ns_here CASCADE;
DROP SERVER ns, ns1, ns2 CASCADE;
DROP ROLE ns_reader;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA ns CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA ns CASCADE;
