-- EXISTS, IN and NOT IN where the planner makes no semi join of them, and sub-selects that compare rows with others than by equality,
-- over tables that lie on two nodes. The nodes join; the rows are those of local tables.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name nx
\i :two_nodes
\set ECHO none
\c contrib_regression postgres 127.0.0.1 :n1
CREATE SCHEMA nx;
CREATE TABLE nx.a (id int, x int, t text, f float8);
CREATE TABLE nx.b (id int, aid bigint, y int, n numeric, v varchar(10));
\c contrib_regression postgres 127.0.0.1 :n2
CREATE SCHEMA nx;
CREATE TABLE nx.a (id int, x int, t text, f float8);
CREATE TABLE nx.b (id int, aid bigint, y int, n numeric, v varchar(10));
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
CREATE SCHEMA nx_here;
CREATE TABLE nx_here.a AS SELECT i AS id, nullif(i % 7, 3) AS x, 'a' || i % 13 AS t,
	CASE i % 9 WHEN 1 THEN '-0' WHEN 2 THEN 0 WHEN 3 THEN 'nan' WHEN 4 THEN NULL ELSE i / 10.0 END::float8 AS f FROM generate_series(1, 200) i;
CREATE TABLE nx_here.b AS SELECT i AS id, nullif(i % 150, 5)::bigint AS aid, nullif(i % 11, 4) AS y,
	CASE i % 3 WHEN 1 THEN i / 4.0 WHEN 2 THEN round(i / 4.0) END AS n, nullif('a' || i % 17, 'a9')::varchar(10) AS v FROM generate_series(1, 800) i;
ANALYZE nx_here.a, nx_here.b;
CREATE FOREIGN TABLE nx.a (id int, x int, t text, f float8) SERVER nx OPTIONS (distributed_by 'id');
CREATE FOREIGN TABLE nx.b (id int, aid bigint, y int, n numeric, v varchar(10)) SERVER nx OPTIONS (distributed_by 'id');
INSERT INTO nx.a SELECT * FROM nx_here.a;
INSERT INTO nx.b SELECT * FROM nx_here.b;
ANALYZE nx.a, nx.b;

-- What is scanned, and whether the rows are those that local tables give.
CREATE FUNCTION nx.outcome(q text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE result text;
BEGIN
	EXECUTE format('SELECT count(*) || '' rows, '' || coalesce(md5(string_agg(x::text, ''|'' ORDER BY x::text COLLATE "C")), '''') FROM (%s) x', q) INTO result;
	RETURN result;
END $$;
CREATE FUNCTION nx.planned(q text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text; here text; there text; way text;
BEGIN
	SET LOCAL search_path = nx, public;
	SET LOCAL rdma_fdw.disable = decorrelation_costs;
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || q LOOP
		IF line ~ 'Relations:|^ *(SubPlan|InitPlan)' THEN
			RETURN NEXT regexp_replace(regexp_replace(line, ' ([a-z]+_)?[0-9]+( \(returns.*)?$', ''), '"\*SELECT\* \d"', 'unnamed_subquery', 'g');
		END IF;
	END LOOP;
	SET LOCAL search_path = nx_here, public;
	here := nx.outcome(q);
	SET LOCAL search_path = nx, public;
	FOREACH way IN ARRAY '{decorrelation_costs,"",decorrelation}'::text[] LOOP
		PERFORM set_config('rdma_fdw.disable', way, true);
		there := nx.outcome(q);
		IF here <> there THEN
			RETURN NEXT way || ' DIFFERENT: ' || there || ', here ' || here;
		END IF;
	END LOOP;
	RETURN NEXT split_part(here, ',', 1);
END $$;

-- So many rows of the outermost table or join are expected.
CREATE FUNCTION nx.expected(q text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE plan json; rows float;
BEGIN
	SET LOCAL search_path = nx, public;
	SET LOCAL rdma_fdw.disable = decorrelation_costs;
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || q INTO plan;
	rows := plan -> 0 -> 'Plan' ->> 'Plan Rows';
	RETURN CASE WHEN rows < 50 THEN 'few' WHEN rows < 300 THEN 'some' WHEN rows < 500 THEN 'half' ELSE 'most' END;
END $$;
\pset format unaligned
\pset tuples_only on
\set ECHO all

-- conditions that hold for all rows or for none are not taken for rare ones
SELECT nx.expected('SELECT * FROM b WHERE y NOT IN (SELECT x FROM a WHERE id < 3)');
SELECT nx.expected('SELECT * FROM b WHERE v = ''a1'' OR NOT EXISTS (SELECT FROM a WHERE id < 3)');
SELECT nx.expected('SELECT * FROM b WHERE v = ''a1'' OR EXISTS (SELECT FROM a WHERE id < 3)');
SELECT nx.expected('SELECT * FROM a WHERE NOT EXISTS (SELECT FROM b WHERE b.aid = a.id AND y = 2) OR NOT EXISTS (SELECT FROM b WHERE b.id = a.id AND y = 3)');
-- below OR and in other expressions
SELECT nx.planned('SELECT id FROM a WHERE EXISTS (SELECT FROM b WHERE b.aid = a.id AND y = 2) OR EXISTS (SELECT FROM b WHERE b.id = a.id AND y = 3)');
SELECT nx.planned('SELECT id, NOT EXISTS (SELECT FROM b WHERE b.aid = a.id AND y = 2) AS none FROM a WHERE x = 1 OR NOT EXISTS (SELECT FROM b WHERE b.id = a.id AND y = 3)');
SELECT nx.planned('SELECT id FROM a WHERE NOT (SELECT max(y) IS NULL FROM b WHERE b.aid = a.id) OR x = 1');
SELECT nx.planned('SELECT id FROM a WHERE x = 1 OR NOT EXISTS (SELECT FROM b WHERE b.aid = a.id)');
SELECT nx.planned('SELECT id, EXISTS (SELECT FROM b WHERE b.aid = a.id AND y > 5) AS e FROM a');
SELECT nx.planned('SELECT id, CASE WHEN EXISTS (SELECT FROM b WHERE b.y = a.x LIMIT 1) THEN t END AS e FROM a');
SELECT nx.planned('SELECT t, count(*) FILTER (WHERE EXISTS (SELECT FROM b WHERE b.aid = a.id AND y > 5)) AS e FROM a GROUP BY t');
SELECT nx.planned('SELECT t FROM a GROUP BY t HAVING EXISTS (SELECT FROM b WHERE b.v = a.t AND y > 5) OR count(*) > 15');
SELECT nx.planned('SELECT a.id, b.id AS bid FROM a LEFT JOIN b ON a.id = b.aid AND (b.y = 3 OR EXISTS (SELECT FROM b b2 WHERE b2.id = b.y))');
SELECT nx.planned('SELECT id FROM a WHERE EXISTS (SELECT FROM b WHERE b.aid = a.id OFFSET 2) OR x = 1');
SELECT nx.planned('SELECT id FROM a WHERE EXISTS (SELECT FROM b WHERE b.aid = a.id LIMIT 0) OR x = 1');
SELECT nx.planned('SELECT id FROM a WHERE EXISTS (SELECT FROM b WHERE y = 100) OR x = 1');
-- of one that is asked once a row is enough
CREATE FUNCTION nx.limits(q text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || q LOOP
		IF line ~ 'LIMIT' THEN
			RETURN NEXT trim(line);
		END IF;
	END LOOP;
END $$;
SET rdma_fdw.disable = decorrelation_costs;
SELECT nx.limits('SELECT id FROM nx.a WHERE EXISTS (SELECT FROM nx.b WHERE y = 3)');
SELECT nx.limits('SELECT id, NOT EXISTS (SELECT FROM nx.b WHERE y = 3) FROM nx.a');
SELECT nx.limits('SELECT id FROM nx.a WHERE x NOT IN (SELECT y FROM nx.b)');
RESET rdma_fdw.disable;
-- IN: as good as EXISTS where NULL is as good as false
SELECT nx.planned('SELECT id FROM a WHERE id IN (SELECT aid FROM b WHERE y = 2) OR x = 1');
SELECT nx.planned('SELECT id FROM a WHERE (x, id) IN (SELECT y, aid FROM b) OR x = 1 OR t IN (SELECT v FROM b WHERE id < 9)');
SELECT nx.planned('SELECT id, x IN (SELECT y FROM b WHERE b.aid = a.id) AS e FROM a');
SELECT nx.planned('SELECT id FROM a WHERE (x IN (SELECT y FROM b WHERE b.aid = a.id)) IS NULL');
SELECT nx.planned('SELECT id FROM a WHERE x IN (SELECT y FROM b WHERE b.aid = a.id)');
SELECT nx.planned('SELECT id FROM a WHERE x IN (SELECT DISTINCT y FROM b WHERE b.aid = a.id AND b.id > a.x ORDER BY y)');
SELECT nx.planned('SELECT id FROM a WHERE x IN (SELECT y FROM b WHERE b.aid = a.id LIMIT 1000) OR x = 1');
SELECT nx.planned('SELECT id FROM a WHERE x < ANY (SELECT y FROM b WHERE b.aid = a.id) OR x = 6');
-- NOT IN, with NULL on both sides, and of no rows
SELECT nx.planned('SELECT id FROM a WHERE x NOT IN (SELECT y FROM b WHERE y < 3)');
SELECT nx.planned('SELECT id FROM a WHERE x NOT IN (SELECT y FROM b WHERE y IS NULL OR y < 3)');
SELECT nx.planned('SELECT id FROM a WHERE x NOT IN (SELECT y FROM b WHERE y > 100)');
SELECT nx.planned('SELECT id FROM a WHERE x NOT IN (SELECT y FROM b WHERE b.aid = a.id)');
SELECT nx.planned('SELECT id FROM a WHERE x NOT IN (SELECT y FROM b WHERE b.aid = a.id) OR t = ''a3''');
SELECT nx.planned('SELECT id FROM a WHERE (x, id) NOT IN (SELECT y, id FROM b WHERE y < 3)');
SELECT nx.planned('SELECT id, x NOT IN (SELECT y FROM b WHERE b.aid = a.id) AS e FROM a');
SELECT nx.planned('SELECT a.id, b.id AS bid FROM a LEFT JOIN b ON a.id = b.aid AND b.y NOT IN (SELECT x FROM a a2 WHERE a2.id = b.id)');

-- compared in other ways
SELECT nx.planned('SELECT id, (SELECT sum(y) FROM b WHERE b.aid < a.id) AS s FROM a WHERE id < 30');
SELECT nx.planned('SELECT id, (SELECT count(*) FROM b WHERE b.aid = a.id AND b.y <> a.x) AS c FROM a');
SELECT nx.planned('SELECT id FROM a WHERE t = ''a5'' AND x < (SELECT max(y) FROM b WHERE b.aid = a.id AND b.n > a.x)');
SELECT nx.planned('SELECT id FROM a WHERE EXISTS (SELECT FROM b WHERE b.aid = a.id AND b.y <> a.x) OR EXISTS (SELECT FROM b WHERE b.id = a.id AND b.y > a.x)');
SELECT nx.planned('SELECT id, EXISTS (SELECT FROM b WHERE b.v LIKE a.t || ''%'' AND b.y = 7) AS e FROM a');
SELECT nx.planned('SELECT a.id, b.id AS bid, (SELECT count(*) FROM b b2 WHERE b2.aid = a.id AND b2.y > b.y) AS c FROM a JOIN b ON a.id = b.aid WHERE a.id < 40');
SELECT nx.planned('SELECT a.id, b.id AS bid, (SELECT count(*) FROM b b2 WHERE b2.aid = a.id AND b2.id > b.id) AS c FROM a LEFT JOIN b ON a.id = b.id AND b.y = 3 WHERE a.id < 40');
SELECT nx.planned('SELECT b.id, a.id AS aid, (SELECT count(*) FROM b b2 WHERE b2.y > a.x) AS c FROM b LEFT JOIN a ON a.id = b.aid WHERE b.id < 40');
SELECT nx.planned('SELECT t, (SELECT count(*) FROM b WHERE b.v > a.t) AS c FROM a GROUP BY t');
-- few rows that ask: only their partners are read
CREATE FUNCTION nx.reduced(q text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE here text; there text;
BEGIN
	SET LOCAL search_path = nx_here, public;
	here := nx.outcome(q);
	SET LOCAL search_path = nx, public;
	there := nx.outcome(q);
	IF here <> there THEN
		RETURN NEXT 'DIFFERENT: ' || there || ', here ' || here;
	END IF;
	RETURN NEXT split_part(here, ',', 1);
END $$;
SELECT nx.reduced('SELECT id FROM a WHERE t = ''a3'' AND EXISTS (SELECT FROM b WHERE b.aid = a.id AND y > 3)');
SELECT nx.reduced('SELECT id FROM a WHERE t = ''a3'' AND NOT EXISTS (SELECT FROM b WHERE b.aid = a.id AND y > 3 AND b.n > a.x)');
SELECT nx.reduced('SELECT id FROM a WHERE t = ''a3'' AND id IN (SELECT aid FROM b WHERE y > 3)');
SELECT nx.reduced('SELECT a.id, a2.id AS other FROM a, a a2 WHERE a.x = a2.id AND a2.t = ''a5'' AND EXISTS (SELECT FROM b WHERE b.aid = a.id AND y > 3)');
SELECT nx.reduced('SELECT a.id, a2.id AS other FROM a LEFT JOIN a a2 ON a.x = a2.id AND a2.t = ''a3'' WHERE a.id < 90 AND EXISTS (SELECT FROM b WHERE b.aid = a.id AND y > 3)');
SELECT nx.reduced('SELECT a.id, a2.id AS other FROM a LEFT JOIN a a2 ON a.x = a2.id WHERE coalesce(a2.t, ''a3'') = ''a3'' AND NOT EXISTS (SELECT FROM b WHERE b.aid = a2.id)');
SELECT nx.reduced('SELECT a.id FROM a JOIN a a2 ON a.x = a2.id WHERE a2.t = ''a5'' AND (EXISTS (SELECT FROM b WHERE b.aid = a.id AND y > 3) OR a.x = (SELECT max(y) FROM b WHERE b.aid = a.id))');
SELECT nx.reduced('SELECT a.id, (SELECT sum(n) FROM b WHERE b.aid = a.id) AS s FROM a, a a2 WHERE a.x = a2.id AND a2.t = ''a5''');
-- in what is grouped by
SELECT nx.planned('SELECT (SELECT t FROM a WHERE a.id = b.aid) AS g, sum(y) AS s FROM b GROUP BY 1');
SELECT nx.planned('SELECT upper((SELECT t FROM a WHERE a.id = b.aid)) AS g, count(*) AS c FROM b GROUP BY (SELECT t FROM a WHERE a.id = b.aid) HAVING (SELECT t FROM a WHERE a.id = b.aid) < ''a5'' ORDER BY (SELECT t FROM a WHERE a.id = b.aid)');
SELECT nx.planned('SELECT EXISTS (SELECT FROM b WHERE b.aid = a.id AND b.y = 3) AS e, x, count(*) AS c FROM a GROUP BY 1, 2 HAVING count(*) > (SELECT count(*) FROM b WHERE b.id = a.x)');
SELECT nx.planned('SELECT (SELECT t FROM a WHERE a.id = b.aid) AS g, sum(y) AS s FROM b GROUP BY ROLLUP (1)');
SELECT nx.planned('SELECT DISTINCT (SELECT t FROM a WHERE a.id = b.aid) AS g FROM b');
-- values that are equal, but not the same, only where nothing shows that
SELECT nx.planned('SELECT id, (SELECT count(*) FROM b WHERE b.n > a.f) AS c FROM a WHERE id < 40');
SELECT nx.planned('SELECT id, (SELECT count(*) FROM b WHERE b.aid = a.id AND b.n::text <> a.f::text) AS c FROM a WHERE id < 40');
-- not where NULL outside can find rows, nor tables that nothing connects
SELECT nx.planned('SELECT id, (SELECT count(*) FROM b WHERE b.aid = a.id AND b.y IS DISTINCT FROM a.x) AS c FROM a WHERE id < 20');
SELECT nx.planned('SELECT a.id, b.id AS bid, (SELECT count(*) FROM b b2 WHERE b2.aid = a.id AND b2.y > b.y) AS c FROM a, b WHERE a.id < 4 AND b.id < 4');
-- single values
SELECT nx.planned('SELECT id, (SELECT t FROM a WHERE a.id = b.aid) AS v FROM b');
SELECT nx.planned('SELECT id FROM b WHERE y < (SELECT x FROM a WHERE a.id = b.aid) OR y = 7');
SELECT nx.planned('SELECT id, (SELECT v FROM b WHERE b.id = a.x) AS v FROM a');
SELECT nx.planned('SELECT id, (SELECT y FROM b WHERE b.aid = a.id ORDER BY n DESC NULLS LAST, id LIMIT 1) AS v FROM a');
SELECT nx.planned('SELECT id, (SELECT n FROM b WHERE b.aid = a.id AND b.n < a.id * 2 ORDER BY n DESC LIMIT 1) AS v FROM a');
SELECT nx.planned('SELECT id, (SELECT v || y FROM b WHERE b.aid = a.id ORDER BY v COLLATE "C", id LIMIT 1) AS v FROM a');
SELECT nx.planned('SELECT id, (SELECT ARRAY[y] FROM b WHERE b.id = a.id) AS v FROM a WHERE id < 20');
SELECT nx.planned('SELECT id, (SELECT b FROM b WHERE b.id = a.id) AS v FROM a WHERE id < 20');
SELECT nx.planned('SELECT id, (SELECT y + a.x FROM b WHERE b.id = a.id) AS v FROM a WHERE id < 20');
SELECT nx.planned('SELECT t, (SELECT y FROM b WHERE b.id = a.x) AS v FROM a GROUP BY t, x');
SELECT nx.planned('SELECT id, (SELECT y FROM b WHERE b.aid = a.id LIMIT 2) AS v FROM a WHERE id > 150');
SELECT nx.planned('SELECT id, ARRAY(SELECT y FROM b WHERE b.aid = a.id ORDER BY n DESC NULLS LAST, id) AS v FROM a');
SELECT nx.planned('SELECT id FROM a WHERE ARRAY(SELECT id FROM b WHERE b.aid = a.id AND b.y > a.x ORDER BY id) = ''{}''');
SELECT nx.planned('SELECT id, ARRAY(SELECT max(y) FROM b WHERE b.aid = a.id) AS v FROM a WHERE id > 140');
-- more than one row, but not for a row that asks
SELECT nx.planned('SELECT id, (SELECT y FROM b WHERE b.aid = a.id AND b.id <> a.id) AS v FROM a WHERE id > 149');
SET rdma_fdw.disable = decorrelation_costs;
\set VERBOSITY terse
SELECT count((SELECT y FROM nx.b WHERE b.aid = a.id)) FROM nx.a;
\set VERBOSITY default
SELECT id, CASE WHEN id > 148 THEN (SELECT y FROM nx.b WHERE b.aid = a.id AND b.id < 299) END AS v FROM nx.a WHERE id BETWEEN 146 AND 151 ORDER BY 1;
RESET rdma_fdw.disable;
CREATE TEMPORARY TABLE nx_lengths AS SELECT id, (SELECT v FROM nx.b WHERE b.id = a.id) AS v FROM nx.a;
SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'nx_lengths'::regclass AND attname = 'v';
SELECT rdma_internal.first_two(i ORDER BY i DESC), rdma_internal.first_two(nullif(i, 1) ORDER BY i), rdma_internal.only_value(rdma_internal.first_two(i) FILTER (WHERE i = 2)), rdma_internal.only_value('{}'::int[]) IS NULL AS nothing FROM generate_series(1, 3) i;

-- in other statements
SELECT nx.planned('WITH w AS (SELECT id, x FROM a WHERE x = 1 OR EXISTS (SELECT FROM b WHERE b.aid = a.id AND b.y <> a.x)) SELECT w1.id FROM w w1 JOIN w w2 USING (id)');
SELECT nx.planned('SELECT id FROM a WHERE x = 2 UNION ALL SELECT id FROM b WHERE y = 2 OR EXISTS (SELECT FROM a WHERE a.id = b.aid AND a.x > b.y)');
SELECT nx.planned('SELECT id FROM a WHERE EXISTS (SELECT FROM b WHERE b.aid = a.id AND (b.y = 3 OR EXISTS (SELECT FROM a a2 WHERE a2.id = b.y AND a2.x < b.id)))');
PREPARE nx_exists(int, int) AS SELECT count(*) FROM nx.a WHERE EXISTS (SELECT FROM nx.b WHERE b.aid = a.id AND b.y > a.x + $1) OR id IN (SELECT aid FROM nx.b WHERE y = $2);
SET plan_cache_mode = force_generic_plan;
EXECUTE nx_exists(3, 2);
EXECUTE nx_exists(9, 7);
SELECT count(*) FROM nx_here.a WHERE EXISTS (SELECT FROM nx_here.b WHERE b.aid = a.id AND b.y > a.x + 3) OR id IN (SELECT aid FROM nx_here.b WHERE y = 2);
SELECT count(*) FROM nx_here.a WHERE EXISTS (SELECT FROM nx_here.b WHERE b.aid = a.id AND b.y > a.x + 9) OR id IN (SELECT aid FROM nx_here.b WHERE y = 7);
RESET plan_cache_mode;
DELETE FROM nx.a WHERE EXISTS (SELECT FROM nx.b WHERE b.aid = a.id AND y = 2) OR EXISTS (SELECT FROM nx.b WHERE b.id = a.id AND y = 3);
DELETE FROM nx_here.a WHERE EXISTS (SELECT FROM nx_here.b WHERE b.aid = a.id AND y = 2) OR EXISTS (SELECT FROM nx_here.b WHERE b.id = a.id AND y = 3);
SELECT nx.planned('SELECT * FROM a');

-- written rows are found in the same ways
CREATE FUNCTION nx.written(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text; n bigint;
BEGIN
	SET LOCAL search_path = nx, public;
	SET LOCAL rdma_fdw.disable = decorrelation_costs;
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || statement LOOP
		IF line ~ 'Relations:|^ *(SubPlan|InitPlan)' THEN
			RETURN NEXT regexp_replace(regexp_replace(line, ' ([a-z]+_)?[0-9]+( \(returns.*)?$', ''), '"\*SELECT\* \d"', 'unnamed_subquery', 'g');
		END IF;
	END LOOP;
	EXECUTE statement;
	GET DIAGNOSTICS n = ROW_COUNT;
	SET LOCAL search_path = nx_here, public;
	EXECUTE statement;
	SET LOCAL search_path = nx, public;
	IF EXISTS (SELECT FROM ((TABLE nx.a EXCEPT ALL TABLE nx_here.a) UNION ALL (TABLE nx_here.a EXCEPT ALL TABLE nx.a)) x) THEN
		RETURN NEXT 'DIFFERENT';
	END IF;
	RETURN NEXT n || ' rows';
END $$;
SELECT nx.written('UPDATE a SET x = (SELECT max(y) FROM b WHERE b.aid = a.id), t = (SELECT v FROM b WHERE b.id = a.id)');
SELECT nx.written('UPDATE a SET x = a.x + 1 WHERE EXISTS (SELECT FROM b WHERE b.aid = a.id AND b.y < a.x) OR t IN (SELECT v FROM b WHERE b.y = 3)');
SELECT nx.written('UPDATE a SET x = b.y FROM b WHERE b.id = a.id AND b.n <> (SELECT max(n) FROM b b2 WHERE b2.aid = b.aid)');
SELECT nx.written('DELETE FROM a WHERE x IN (SELECT y FROM b WHERE b.aid = a.id)');
SELECT nx.written('DELETE FROM a WHERE x > (SELECT min(y) FROM b WHERE b.aid = a.id AND b.id > a.id)');
SELECT nx.written('DELETE FROM a USING b WHERE a.id = b.id AND a.x NOT IN (SELECT y FROM b b2 WHERE b2.aid = a.id)');
SELECT nx.written('UPDATE a SET x = 2 WHERE EXISTS (SELECT FROM b WHERE b.aid = a.id AND b.y <> a.x) OR t IS NULL');
-- not of tables that are here
EXPLAIN (COSTS OFF) UPDATE nx_here.a SET x = (SELECT max(y) FROM nx.b WHERE b.aid = a.id);

-- rights on the tables are those of who asks
CREATE ROLE nx_reader;
GRANT USAGE ON SCHEMA nx TO nx_reader;
GRANT SELECT (id) ON nx.a TO nx_reader;
GRANT SELECT ON nx.b TO nx_reader;
SET ROLE nx_reader;
SELECT count(*) FROM nx.a WHERE EXISTS (SELECT FROM nx.b WHERE b.aid = a.id AND b.y > a.x) OR id = 1;
\set ECHO none
RESET ROLE;

DROP SCHEMA nx, nx_here CASCADE;
DROP SERVER nx, nx1, nx2 CASCADE;
DROP ROLE nx_reader;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA nx CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA nx CASCADE;
