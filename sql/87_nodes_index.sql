-- Indexes on data nodes: ANALYZE finds them, the planner here counts with them, and nodes look rows that arrive up in their order.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name ni
\i :two_nodes
\set ECHO none
\c contrib_regression postgres 127.0.0.1 :n1
CREATE SCHEMA ni;
CREATE TABLE ni.big (k bigint, part int, v int, filler text, PRIMARY KEY (k, part));
CREATE TABLE ni.few (id int PRIMARY KEY, g int, x int);
CREATE TABLE ni.mid (id int, g int, h int);
\c contrib_regression postgres 127.0.0.1 :n2
CREATE SCHEMA ni;
CREATE TABLE ni.big (k bigint, part int, v int, filler text, PRIMARY KEY (k, part));
CREATE TABLE ni.few (id int PRIMARY KEY, g int, x int);
CREATE TABLE ni.mid (id int, g int, h int);
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
CREATE SCHEMA ni_here;
CREATE TABLE ni_here.big AS SELECT (i / 4)::bigint AS k, i % 4 AS part, i % 11 AS v, repeat('x', 60) AS filler FROM generate_series(0, 39999) i;
CREATE TABLE ni_here.few AS SELECT i AS id, i * 13 % 10000 AS g, i % 50 AS x FROM generate_series(1, 2000) i;
CREATE TABLE ni_here.mid AS SELECT i AS id, i * 7 % 10000 AS g, i % 90 AS h FROM generate_series(1, 3000) i;
ANALYZE ni_here.big, ni_here.few, ni_here.mid;
CREATE FOREIGN TABLE ni.big (k bigint, part int, v int, filler text) SERVER ni OPTIONS (distributed_by 'k');
CREATE FOREIGN TABLE ni.few (id int, g int, x int) SERVER ni OPTIONS (distributed_by 'id');
CREATE FOREIGN TABLE ni.mid (id int, g int, h int) SERVER ni OPTIONS (distributed_by 'id');
INSERT INTO ni.big SELECT * FROM ni_here.big;
INSERT INTO ni.few SELECT * FROM ni_here.few;
INSERT INTO ni.mid SELECT * FROM ni_here.mid;
\c contrib_regression postgres 127.0.0.1 :n1
VACUUM (FREEZE, ANALYZE) ni.big, ni.few, ni.mid;
-- Few rows arrive: they are looked up in the order of the index, whatever the join. Many: the table is read.
SET max_parallel_workers_per_gather = 0;
\pset format unaligned
\pset tuples_only on
\set ECHO all
EXPLAIN (COSTS OFF) SELECT x.c2, sum(b.v) FROM rdma_internal.exchange('number=1 kind=repartition keys=1 rows=200 distinct=200,50', 'SELECT g, x FROM ni.few') AS x(c1 int, c2 int)
  JOIN ni.big b ON b.k = x.c1 GROUP BY 1;
EXPLAIN (COSTS OFF) SELECT count(*) FROM ni.big b RIGHT JOIN rdma_internal.exchange('number=1 kind=repartition keys=1 rows=200 distinct=200', 'SELECT g::bigint FROM ni.few') AS x(c1 bigint)
  ON b.k = x.c1 AND b.v < 5;
EXPLAIN (COSTS OFF) SELECT count(*) FROM rdma_internal.exchange('number=1 kind=repartition keys=1 rows=200 distinct=200', 'SELECT g::bigint FROM ni.few') AS x(c1 bigint)
  WHERE EXISTS (SELECT FROM ni.big b WHERE b.k = x.c1 AND b.v > 3);
EXPLAIN (COSTS OFF) SELECT count(*) FROM rdma_internal.exchange('number=1 kind=repartition keys=1 rows=200 distinct=200,4', 'SELECT g::bigint, x FROM ni.few') AS x(c1 bigint, c2 int)
  JOIN ni.big b ON b.k = x.c1 AND b.part = x.c2;
EXPLAIN (COSTS OFF) SELECT count(*) FROM rdma_internal.exchange('number=1 kind=repartition keys=1 rows=20000 distinct=10000', 'SELECT g::bigint FROM ni.few') AS x(c1 bigint)
  JOIN ni.big b ON b.k = x.c1;
-- So many only since a descent next to the one before it costs less.
EXPLAIN (COSTS OFF) SELECT sum(b.v) FROM rdma_internal.exchange('number=1 kind=repartition keys=1 rows=560 distinct=560', 'SELECT g::bigint FROM ni.few') AS x(c1 bigint)
  JOIN ni.big b ON b.k = x.c1;
-- Of an IN whose rows are made unique here.
EXPLAIN (COSTS OFF) SELECT sum(v) FROM ni.big WHERE k IN (SELECT c1 FROM rdma_internal.exchange('number=1 kind=repartition keys=1 rows=300 distinct=100', 'SELECT g::bigint FROM ni.few') AS x(c1 bigint));
-- ANALYZE may find far too few values in a column. Each probe finds as many rows as the values of the arriving rows tell.
UPDATE pg_statistic SET stadistinct = 200, stakind1 = 0, stanumbers1 = NULL, stavalues1 = NULL WHERE starelid = 'ni.big'::regclass AND staattnum = 1;
EXPLAIN (COSTS OFF) SELECT sum(b.v) FROM rdma_internal.exchange('number=1 kind=repartition keys=1 rows=400 distinct=200', 'SELECT g::bigint FROM ni.few') AS x(c1 bigint)
  JOIN ni.big b ON b.k = x.c1;
EXPLAIN (COSTS OFF) SELECT sum(b.v) FROM rdma_internal.exchange('number=1 kind=repartition keys=1 rows=400 distinct=5000', 'SELECT g::bigint FROM ni.few') AS x(c1 bigint)
  JOIN ni.big b ON b.k = x.c1;
ANALYZE ni.big;
-- Workers share the rows and look up what each of them has got, also when so few rows would not have as many workers.
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET min_parallel_table_scan_size = '160kB';
EXPLAIN (COSTS OFF) SELECT sum(b.v) FROM rdma_internal.exchange('number=1 kind=repartition keys=1 rows=400 distinct=400', 'SELECT g::bigint FROM ni.few') AS x(c1 bigint)
  JOIN ni.big b ON b.k = x.c1;
EXPLAIN (COSTS OFF) SELECT count(*) FROM rdma_internal.exchange('number=1 kind=repartition keys=1 rows=400 distinct=400', 'SELECT g::bigint FROM ni.few') AS x(c1 bigint)
  LEFT JOIN ni.big b ON b.k = x.c1 AND b.v < 5;
-- More rows: each of them would read most of the table by itself.
EXPLAIN (COSTS OFF) SELECT sum(b.v) FROM rdma_internal.exchange('number=1 kind=repartition keys=1 rows=2000 distinct=2000', 'SELECT g::bigint FROM ni.few') AS x(c1 bigint)
  JOIN ni.big b ON b.k = x.c1;
\c contrib_regression postgres 127.0.0.1 :n2
VACUUM (FREEZE, ANALYZE) ni.big, ni.few, ni.mid;
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
SET search_path = ni;
-- what is known of the nodes' indexes is kept with the statistics, and gone with them
CREATE VIEW ni_here.known AS SELECT starelid::regclass, stanumbers1 FROM pg_statistic WHERE staattnum = 0 AND starelid::regclass::text IN ('big', 'few', 'mid') ORDER BY starelid::regclass::text;
SELECT * FROM ni_here.known;
ANALYZE big, few, mid;
SELECT starelid, stanumbers1[1] AS unique, stanumbers1[3:] AS columns FROM ni_here.known;
ANALYZE big;
SELECT count(*) FROM ni_here.known;
SELECT attname FROM pg_stats WHERE schemaname = 'ni' AND tablename = 'big' ORDER BY 1;

-- The same statement here and there.
CREATE FUNCTION ni_here.same(q text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE here text; there text;
BEGIN
	PERFORM set_config('search_path', 'ni_here', true);
	EXECUTE format('SELECT count(*) || '' '' || md5(string_agg(x::text, '','' ORDER BY x::text)) FROM (%s) x', q) INTO here;
	PERFORM set_config('search_path', 'ni', true);
	EXECUTE format('SELECT count(*) || '' '' || md5(string_agg(x::text, '','' ORDER BY x::text)) FROM (%s) x', q) INTO there;
	RETURN CASE WHEN here = there THEN 'same, ' || split_part(here, ' ', 1) ELSE 'here ' || here || ', there ' || there END;
END $$;
-- The plan, without the numbers that are guessed.
CREATE FUNCTION ni_here.plan(q text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || q LOOP
		IF line ~ '(Relations|Strategy|Exchange .*|Remote SQL):' THEN
			RETURN NEXT regexp_replace(trim(line), ' rows=[0-9]+ distinct=[0-9,]+', '', 'g');
		END IF;
	END LOOP;
END $$;
CREATE FUNCTION ni_here.cost(q text) RETURNS float LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || q INTO plan;
	RETURN plan -> 0 -> 'Plan' ->> 'Total Cost';
END $$;
-- Did processes of a node share rows that arrived?
CREATE FUNCTION ni_here.shares_rows(q text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE line text; shared boolean = false;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, VERBOSE) ' || q LOOP
		shared = shared OR line ~ 'taken per process=';
	END LOOP;
	RETURN shared;
END $$;
-- few rows go to where the index is
SELECT ni_here.plan('SELECT x, count(*) FROM few JOIN big ON k = g WHERE x < 3 GROUP BY x');
SELECT ni_here.same('SELECT x, count(*), sum(v) FROM few JOIN big ON k = g WHERE x < 3 GROUP BY x');
SELECT ni_here.plan('SELECT count(*) FROM few WHERE x < 3 AND EXISTS (SELECT FROM big WHERE k = g AND v < 4)');
SELECT ni_here.same('SELECT * FROM few WHERE x < 3 AND EXISTS (SELECT FROM big WHERE k = g AND v < 4)');
SELECT ni_here.same('SELECT * FROM few WHERE x < 3 AND NOT EXISTS (SELECT FROM big WHERE k = g AND v < 4)');
SELECT ni_here.same('SELECT few.*, v, part FROM few LEFT JOIN big ON k = g AND part = x WHERE x < 8');
-- rows do not move to be looked up in order, and others are looked up in order as well
SELECT ni_here.plan('SELECT sum(v) FROM few JOIN big ON k = id WHERE x < 12');
SELECT ni_here.same('SELECT id, part, v FROM few JOIN big ON k = id WHERE x < 12');
SELECT count(*) FROM rdma.run_on('ni', 'SELECT pg_stat_force_next_flush()');
BEGIN;
SELECT sum(b.v) FROM big a JOIN big b ON b.k = a.k WHERE a.v = 3 AND a.part = 2;
SELECT node, answer FROM rdma.run_on('ni', $$SELECT CASE WHEN idx_scan > 100 THEN 'looks up' ELSE 'reads all' END
	FROM pg_stat_xact_user_tables WHERE relid = 'ni.big'::regclass$$);
COMMIT;
SELECT ni_here.same('SELECT a.k, b.part, b.v FROM big a JOIN big b ON b.k = a.k WHERE a.v = 3 AND a.part = 2');
-- NULLs are found by an index
SELECT ni_here.cost('SELECT v FROM big WHERE k IS NULL') * 2 < ni_here.cost('SELECT v FROM big WHERE v IS NULL') AS cheap;
-- a correlated aggregate of a large table reads only what has partners, as an index finds those
SELECT ni_here.plan('SELECT id FROM few WHERE x < 2 AND x < (SELECT avg(v) FROM big WHERE k = g)');
SELECT ni_here.same('SELECT id FROM few WHERE x < 2 AND x < (SELECT avg(v) FROM big WHERE k = g)');
-- EXISTS in EXISTS: a column inside is wanted for what it equals, another one stands in
SELECT ni_here.plan('SELECT count(*), sum(v) FROM big WHERE EXISTS (SELECT FROM mid WHERE g = k AND g IN (SELECT f.g FROM few f WHERE x < 5))');
SELECT ni_here.same('SELECT * FROM big WHERE EXISTS (SELECT FROM mid WHERE g = k AND g IN (SELECT f.g FROM few f WHERE x < 5))');
SELECT ni_here.same('SELECT k, v FROM big WHERE v IN (SELECT h FROM mid WHERE h IN (SELECT x FROM few WHERE x IN (SELECT id FROM few)))');
SET rdma_fdw.exchange_strategy = repartition_both;
SELECT ni_here.same('SELECT * FROM big WHERE EXISTS (SELECT FROM mid WHERE g = k AND g IN (SELECT f.g FROM few f WHERE x < 5))');
SET rdma_fdw.exchange_strategy = pull;
SELECT ni_here.same('SELECT * FROM big WHERE EXISTS (SELECT FROM mid WHERE g = k AND g IN (SELECT f.g FROM few f WHERE x < 5))');
RESET rdma_fdw.exchange_strategy;
-- and where the nodes' workers look them up
SELECT DISTINCT answer FROM rdma.run_on('ni', 'SET parallel_setup_cost = 0');
SELECT DISTINCT answer FROM rdma.run_on('ni', 'SET parallel_tuple_cost = 0');
SELECT DISTINCT answer FROM rdma.run_on('ni', 'SET min_parallel_table_scan_size = 0');
SELECT ni_here.shares_rows('SELECT id, v, x FROM few JOIN big ON k = g');
SELECT ni_here.same('SELECT id, v, x FROM few JOIN big ON k = g');
SELECT ni_here.same('SELECT id, v, x FROM few LEFT JOIN big ON k = g AND v < 5');
SELECT ni_here.same('SELECT * FROM few WHERE EXISTS (SELECT FROM big WHERE k = g AND v < 4)');
SELECT ni_here.same('SELECT * FROM few WHERE NOT EXISTS (SELECT FROM big WHERE k = g AND v < 4)');
DROP FOREIGN TABLE big, few, mid;
SELECT count(*) FROM pg_statistic WHERE staattnum = 0 AND NOT EXISTS (SELECT FROM pg_class WHERE oid = starelid);
\set ECHO none
DROP SERVER ni1 CASCADE;
DROP SERVER ni2 CASCADE;
DROP SERVER ni CASCADE;
DROP SCHEMA ni, ni_here CASCADE;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA ni CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA ni CASCADE;
