-- UPDATE and DELETE of tables of a server that stands for many nodes, joined with others: by one statement per node where each has
-- what belongs together, else the rows are found by a join and written on their node. The same statements over local tables tell
-- what should come of it.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name nj
\i :two_nodes
\c contrib_regression postgres 127.0.0.1 :n1
CREATE SCHEMA nj;
CREATE TABLE nj.t (k int, g int, v text, n numeric);
CREATE TABLE nj.u (k bigint, g int, v text);
CREATE TABLE nj.r (id int PRIMARY KEY, v text);
CREATE TABLE nj.r2 (id int PRIMARY KEY, v text);
\c contrib_regression postgres 127.0.0.1 :n2
CREATE SCHEMA nj;
CREATE TABLE nj.t (k int, g int, v text, n numeric);
CREATE TABLE nj.u (k bigint, g int, v text);
CREATE TABLE nj.r (id int PRIMARY KEY, v text);
CREATE TABLE nj.r2 (id int PRIMARY KEY, v text);
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
CREATE SCHEMA nj_here;
IMPORT FOREIGN SCHEMA nj FROM SERVER nj INTO nj;
ALTER FOREIGN TABLE nj.t OPTIONS (ADD distributed_by 'k');
ALTER FOREIGN TABLE nj.u OPTIONS (ADD distributed_by 'k');
ALTER FOREIGN TABLE nj.r OPTIONS (ADD replicated 'true');
ALTER FOREIGN TABLE nj.r2 OPTIONS (ADD replicated 'true');
CREATE TABLE nj_here.t (k int, g int, v text, n numeric);
CREATE TABLE nj_here.u (k bigint, g int, v text);
CREATE TABLE nj_here.r (id int PRIMARY KEY, v text);
CREATE TABLE nj_here.r2 (id int PRIMARY KEY, v text);
CREATE TABLE nj_here.only_here (id int);
INSERT INTO nj_here.t SELECT i, i % 50, 't' || i, i FROM generate_series(1, 1000) i;
INSERT INTO nj_here.t VALUES (NULL, 1, 'no key', 0), (NULL, NULL, NULL, NULL);
INSERT INTO nj_here.u SELECT i * 2, i * 7 % 400, 'u' || i FROM generate_series(1, 400) i;
INSERT INTO nj_here.r SELECT i, 'r' || i FROM generate_series(1, 60) i;
INSERT INTO nj_here.r2 SELECT i * 3, 's' || i FROM generate_series(1, 20) i;
INSERT INTO nj_here.only_here VALUES (5), (6), (7);
INSERT INTO nj.t SELECT * FROM nj_here.t;
INSERT INTO nj.u SELECT * FROM nj_here.u;
INSERT INTO nj.r SELECT * FROM nj_here.r;
INSERT INTO nj.r2 SELECT * FROM nj_here.r2;
ANALYZE nj.t, nj.u, nj.r, nj.r2, nj_here.t, nj_here.u, nj_here.r, nj_here.r2;
-- where a plan has local tables, those are the same ones
CREATE VIEW nj.only_here AS SELECT * FROM nj_here.only_here;

-- same(): what the statement writes and returns over the nodes and here, and whether the tables are the same after it
CREATE FUNCTION same(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text := '';
	outcome text[];
	line text;
	way text := 'joined here';
	rows bigint;
	answer text;
	tab text;
	contents text;
	first text[];
BEGIN
	PERFORM set_config('search_path', 'nj, public', true);
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF, VERBOSE) ' || statement LOOP
		IF line ~ 'Foreign (Update|Delete)' THEN
			way := 'each node by itself';
		ELSIF line ~ 'Strategy: ' THEN
			way := 'joined by nodes, ' || substring(line FROM 'Strategy: (.*)');
		END IF;
	END LOOP;
	FOR run IN 1 .. 2 LOOP
		IF run = 2 THEN
			PERFORM set_config('search_path', 'nj_here, public', true);
		END IF;
		answer := '';
		IF statement ~ 'RETURNING' THEN
			EXECUTE format('WITH d AS (%s) SELECT count(*), md5(string_agg(d::text, '' '' ORDER BY d::text)) FROM d', statement) INTO rows, answer;
		ELSE
			EXECUTE statement;
			GET DIAGNOSTICS rows = ROW_COUNT;
		END IF;
		outcome := ARRAY[rows::text, answer];
		FOREACH tab IN ARRAY ARRAY['t', 'u', 'r', 'r2'] LOOP
			EXECUTE format('SELECT count(*) || md5(string_agg(x::text, '' '' ORDER BY x::text)) FROM %I x', tab) INTO contents;
			outcome := outcome || contents;
		END LOOP;
		IF run = 1 THEN
			first := outcome;
		END IF;
	END LOOP;
	RETURN format('%s rows, %s: %s', rows, way, CASE WHEN first = outcome THEN 'same' ELSE 'NOT THE SAME ' || first::text || outcome::text END);
END $$;
RESET client_min_messages;

SET search_path = nj, public;
-- co-located, also int4 with int8; replicated tables are everywhere
EXPLAIN (VERBOSE, COSTS OFF) UPDATE t SET v = u.v, n = n + 1 FROM u WHERE u.k = t.k AND u.g < 100;
SELECT same('UPDATE t SET v = u.v, n = n + 1 FROM u WHERE u.k = t.k AND u.g < 100');
SELECT same('UPDATE t SET v = t.v || u.v FROM u WHERE u.k = t.k AND u.g > 350 RETURNING t.*, u.g');
SELECT same('UPDATE t SET v = r.v FROM r WHERE r.id = t.g');
SELECT same('UPDATE t SET n = -n FROM u, r WHERE u.k = t.k AND r.id = t.g AND r.v LIKE ''r1%''');
SELECT same('UPDATE t SET n = n + 0.5 WHERE k IN (SELECT k FROM u WHERE g % 3 = 0)');
SELECT same('UPDATE t SET n = n + 0.25 WHERE NOT EXISTS (SELECT FROM u WHERE u.k = t.k)');
SELECT same('UPDATE t SET n = n + s.c FROM (SELECT k, count(*) AS c FROM u GROUP BY k) s WHERE s.k = t.k');
SELECT same('UPDATE t SET n = n + 3 WHERE k IN (SELECT k FROM u GROUP BY k HAVING sum(g) > 100) RETURNING t.*');
SELECT same('UPDATE t SET n = n + s.c FROM (SELECT g, count(*) AS c FROM u GROUP BY g) s WHERE s.g = t.k');
EXPLAIN (VERBOSE, COSTS OFF) DELETE FROM t USING u WHERE u.k = t.k AND u.g BETWEEN 10 AND 30 RETURNING t.k, u.v;
SELECT same('DELETE FROM t USING u WHERE u.k = t.k AND u.g BETWEEN 10 AND 30 RETURNING t.k, u.v');
SELECT same('DELETE FROM u WHERE k IN (SELECT k FROM t WHERE g = 7)');
SELECT same('DELETE FROM t USING r WHERE r.id = t.g AND r.id > 45 AND t.n > 10');

-- copies of replicated tables
SELECT same('UPDATE r SET v = r.v || ''!'' FROM r2 WHERE r2.id = r.id');
SELECT same('DELETE FROM r WHERE EXISTS (SELECT FROM r2 WHERE r2.id = r.id AND r2.id > 50)');
SELECT (SELECT array_agg(r::text ORDER BY id) FROM nj.r) = (SELECT array_agg(r::text ORDER BY id) FROM nj_here.r) AS same;

-- otherwise: nodes join and others move, or the rows do; each is written where it is
EXPLAIN (VERBOSE, COSTS OFF) UPDATE t SET v = u.v FROM u WHERE u.g = t.k;
SELECT same('UPDATE t SET v = ''by g'' FROM u WHERE u.g = t.k');
EXPLAIN (VERBOSE, COSTS OFF) DELETE FROM u USING t WHERE t.g = u.g AND t.k < 20;
SELECT same('DELETE FROM u USING t WHERE t.g = u.g AND t.k < 20');
SELECT same('UPDATE t SET n = t.n * 2 FROM u JOIN t t2 ON t2.k = u.g WHERE u.g = t.g AND t2.v IS NOT NULL RETURNING t.k, t.n');
SELECT same('UPDATE t SET n = n * 3 WHERE g IN (SELECT g FROM u WHERE v LIKE ''u1%'')');
SELECT same('UPDATE t SET n = n * 5 WHERE g NOT IN (SELECT g FROM u WHERE g IS NOT NULL)');
SET rdma_fdw.exchange_strategy = repartition_both;
EXPLAIN (VERBOSE, COSTS OFF) UPDATE t SET v = 'moved' FROM u WHERE u.g = t.g;
SELECT same('UPDATE t SET v = ''moved'' FROM u WHERE u.g = t.g');
SELECT same('UPDATE t SET v = t.v || u.v FROM u WHERE u.k = t.k');
SELECT same('DELETE FROM t USING u WHERE u.g = t.g AND u.v LIKE ''u2%'' RETURNING t.k, t.g');
SET rdma_fdw.exchange_strategy = repartition_one;
SELECT same('UPDATE t SET n = 7 FROM u WHERE u.g = t.k RETURNING t.k');
SELECT same('UPDATE u SET v = u.v || ''?'' FROM t WHERE u.g = t.k');
SET rdma_fdw.exchange_strategy = replicate;
SELECT same('UPDATE t SET n = 8 FROM u WHERE u.g < t.g AND u.v = ''u100''');
SELECT same('DELETE FROM t WHERE EXISTS (SELECT FROM u WHERE u.g = t.g AND u.v < ''u11'')');
SET rdma_fdw.exchange_strategy = pull;
SELECT same('UPDATE t SET n = 9 FROM u WHERE u.g = t.k');
RESET rdma_fdw.exchange_strategy;
-- rows that are joined elsewhere are written where they lie
ALTER SERVER nj OPTIONS (ADD compute_nodes 'nj2');
SET rdma_fdw.disable = compute_node_costs;
SELECT same('UPDATE t SET n = 12 FROM u WHERE u.k = t.k AND t.g < 10 RETURNING t.*');
SELECT same('DELETE FROM u USING t WHERE u.g = t.g AND t.k < 200');
RESET rdma_fdw.disable;
ALTER SERVER nj OPTIONS (DROP compute_nodes);
-- what the nodes cannot compute, and tables that are here
SELECT same('UPDATE t SET n = 10 FROM u WHERE u.k = t.k AND pg_column_size(t.v) + pg_backend_pid() > u.g');
SELECT same('UPDATE t SET n = 11 FROM u, only_here o WHERE u.k = t.k AND o.id = t.g');
SELECT same('DELETE FROM t USING only_here o WHERE o.id = t.g');

-- all nodes or none
BEGIN;
DELETE FROM t USING u WHERE u.k = t.k;
UPDATE t SET n = 0 FROM u WHERE u.g = t.k;
ROLLBACK;
SELECT same('DELETE FROM t WHERE k < 0');

\set VERBOSITY terse
SET client_min_messages = warning;
DROP FUNCTION same(text);
DROP SERVER nj1, nj2, nj CASCADE;
DROP SCHEMA nj, nj_here CASCADE;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA nj CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA nj CASCADE;
