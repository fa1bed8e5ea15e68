-- Grouping sets over tables that lie on two nodes: the nodes group by the columns of all sets first. The rows are those of local tables.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name gs
\i :two_nodes
\c contrib_regression postgres 127.0.0.1 :n1
CREATE SCHEMA gs;
CREATE TABLE gs.t (id int, k int, l bigint, t text, n numeric, f float8, s smallint, b bool);
CREATE TABLE gs.u (k int, w text);
\c contrib_regression postgres 127.0.0.1 :n2
CREATE SCHEMA gs;
CREATE TABLE gs.t (id int, k int, l bigint, t text, n numeric, f float8, s smallint, b bool);
CREATE TABLE gs.u (k int, w text);
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
CREATE SCHEMA gs_here;
CREATE TABLE gs_here.t AS SELECT i AS id, nullif(i % 5, 3) AS k, nullif(i % 7, 2)::bigint * 1000000000000 AS l, nullif('t' || i % 4, 't1') AS t,
	CASE i % 3 WHEN 1 THEN i / 4.0 WHEN 2 THEN round(i / 4.0) END AS n, i::float8 AS f, (i % 100)::smallint AS s, nullif(i % 3, 0) = 1 AS b FROM generate_series(1, 3000) i;
CREATE TABLE gs_here.u AS SELECT k, 'w' || k AS w FROM generate_series(0, 4) k;
ANALYZE gs_here.t, gs_here.u;
CREATE FOREIGN TABLE gs.t (id int, k int, l bigint, t text, n numeric, f float8, s smallint, b bool) SERVER gs OPTIONS (distributed_by 'id');
CREATE FOREIGN TABLE gs.u (k int, w text) SERVER gs OPTIONS (distributed_by 'k');
INSERT INTO gs.t SELECT * FROM gs_here.t;
INSERT INTO gs.u SELECT * FROM gs_here.u;
ANALYZE gs.t, gs.u;

-- Where the rows are grouped first, and whether the rows are those of local tables.
CREATE FUNCTION gs.outcome(q text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE result text;
BEGIN
	EXECUTE format('SELECT count(*) || '' rows, '' || coalesce(md5(string_agg(x::text, ''|'' ORDER BY x::text COLLATE "C")), '''') FROM (%s) x', q) INTO result;
	RETURN result;
EXCEPTION WHEN numeric_value_out_of_range THEN RETURN SQLERRM;
END $$;
CREATE FUNCTION gs.grouped(q text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE line text; place text := 'here'; here text; there text;
BEGIN
	SET LOCAL search_path = gs, public;
	FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || q LOOP
		IF line ~ 'Remote SQL: .*GROUP BY' THEN place := 'on the nodes'; END IF;
	END LOOP;
	there := gs.outcome(q);
	SET LOCAL search_path = gs_here, public;
	here := gs.outcome(q);
	RETURN place || ': ' || CASE WHEN here = there THEN 'same, ' || split_part(here, ',', 1) ELSE 'DIFFERENT: ' || there || ', locally ' || here END;
END $$;

-- the columns of all sets, whatever the sets are
SELECT gs.grouped('SELECT k, t, count(*), sum(id) FROM t GROUP BY ROLLUP (k, t)');
SELECT gs.grouped('SELECT k, t, l, count(*) FROM t GROUP BY CUBE (k, t, l)');
SELECT gs.grouped('SELECT k, t, count(*) FROM t GROUP BY GROUPING SETS ((k, t), (t), (), (t), ())');
SELECT gs.grouped('SELECT k, t, count(*) FROM t GROUP BY GROUPING SETS ((k), (t))');
SELECT gs.grouped('SELECT k, t, count(*) FROM t GROUP BY k, ROLLUP (t)');
SELECT gs.grouped('SELECT k, t, count(*) FROM t GROUP BY DISTINCT ROLLUP (k, t), ROLLUP (k)');
SELECT gs.grouped('SELECT k FROM t GROUP BY ROLLUP (k)');
SELECT gs.grouped('SELECT k % 2 AS g, upper(t) AS u, k % 2 + 1 AS h, count(*) FROM t GROUP BY ROLLUP (k % 2, upper(t))');
-- two that are equal, each NULL in its own sets
SELECT gs.grouped('SELECT k AS g, k AS h, count(*) FROM t GROUP BY ROLLUP (1, 2)');
SELECT gs.grouped('SELECT k % 2 AS g, k % 2 AS h, count(*) FROM t GROUP BY ROLLUP (1, 2)');

-- aggregates
SELECT gs.grouped('SELECT k, t, count(n) AS c, count(l), sum(s), sum(id), sum(l), sum(n), sum(f), min(t), max(n), min(l), bool_and(b), bool_or(b), every(b), bit_or(s), bit_and(id) FROM t GROUP BY ROLLUP (k, t)');
SELECT gs.grouped('SELECT k, t, avg(s), avg(id), avg(l), avg(n), round(avg(n) / count(*), 9) FROM t GROUP BY ROLLUP (k, t)');
SELECT gs.grouped('SELECT k, count(*) FILTER (WHERE id > 7), sum(n) FILTER (WHERE t = ''t2''), avg(id) FILTER (WHERE false) FROM t GROUP BY ROLLUP (k)');
SELECT gs.grouped('SELECT k, sum(id + s) - count(*) * 2 AS x, max(upper(t)) || ''!'' FROM t GROUP BY ROLLUP (k)');
SELECT gs.grouped('SELECT k, sum(s * 100000000000000000) FROM t GROUP BY ROLLUP (k)');
-- of no rows: one row of the set without columns
SELECT gs.grouped('SELECT k, count(*), count(n), sum(id), avg(id), min(t) FROM t WHERE id < 0 GROUP BY ROLLUP (k)');
SELECT gs.grouped('SELECT k, count(*) FROM t WHERE id < 0 GROUP BY GROUPING SETS ((k), (k, t))');
-- these cannot be computed of themselves, so all rows are grouped here
SELECT gs.grouped('SELECT k, t, count(DISTINCT id) FROM t GROUP BY ROLLUP (k, t)');
SELECT gs.grouped('SELECT k, t, array_agg(id ORDER BY id) FROM t GROUP BY ROLLUP (k, t)');
SELECT gs.grouped('SELECT k, t, avg(f), stddev(id) FROM t GROUP BY ROLLUP (k, t)');
SELECT gs.grouped('SELECT k, t, percentile_disc(0.5) WITHIN GROUP (ORDER BY id) FROM t GROUP BY ROLLUP (k, t)');
SELECT gs.grouped('SELECT k, t, sum(id + (random() * 0)::int) FROM t GROUP BY ROLLUP (k, t)');
SELECT gs.grouped('SELECT 1 AS one, k, count(*) FROM t GROUP BY ROLLUP (1, 2)');

-- what stands above the grouping
SELECT gs.grouped('SELECT k, t, grouping(k, t), grouping(t), sum(id) FROM t GROUP BY CUBE (k, t) HAVING sum(id) > 100000 AND (k > 1 OR grouping(k) = 1)');
SELECT gs.grouped('SELECT k, t, rank() OVER (PARTITION BY grouping(k) + grouping(t), CASE WHEN grouping(t) = 0 THEN k END ORDER BY sum(id)), sum(sum(id)) OVER (ORDER BY k, t) FROM t GROUP BY ROLLUP (k, t)');
SELECT gs.grouped('SELECT DISTINCT sum(s) > 5 AS many, k IS NULL FROM t GROUP BY ROLLUP (k, t)');
SELECT gs.grouped('SELECT coalesce(k, -1), max(t) FROM t GROUP BY ROLLUP (k) ORDER BY sum(id), 1 LIMIT 3 OFFSET 1');
SELECT gs.grouped('SELECT k, count(*) FROM t GROUP BY ROLLUP (k) HAVING k = 2');
SELECT gs.grouped('SELECT k, count(*) FROM t GROUP BY ROLLUP (k) HAVING k IS NULL');

-- where such a query is
SELECT gs.grouped('SELECT x.k, x.c, u.w FROM (SELECT k, count(*) AS c FROM t GROUP BY ROLLUP (k)) x LEFT JOIN u ON x.k = u.k');
SELECT gs.grouped('WITH x AS (SELECT k, t, sum(n) AS n FROM t GROUP BY ROLLUP (k, t)) SELECT a.k, b.t, a.n + b.n FROM x a, x b WHERE a.k = b.k');
SELECT gs.grouped('WITH x AS (SELECT * FROM t WHERE id > 5) SELECT k, count(*) FROM x GROUP BY ROLLUP (k)');
SELECT gs.grouped('SELECT k, count(*) FROM t GROUP BY ROLLUP (k) UNION ALL SELECT s, sum(id) FROM t GROUP BY CUBE (s)');
SELECT gs.grouped('SELECT w, u.k, count(*), sum(t.id) FROM t JOIN u USING (k) WHERE EXISTS (SELECT FROM t x WHERE x.s = t.s + 1) GROUP BY ROLLUP (u.k, w)');
SELECT gs.grouped('SELECT u.k, x.* FROM u, LATERAL (SELECT t, count(*), u.k + sum(id) AS s FROM t WHERE t.k = u.k GROUP BY ROLLUP (t)) x');
SELECT gs.grouped('SELECT k, (SELECT max(c) FROM (SELECT count(*) + u.k AS c FROM t GROUP BY ROLLUP (t.k)) x) FROM u');
SELECT gs.grouped('WITH w AS (SELECT k FROM u WHERE k > 1) SELECT k, (SELECT max(c) FROM (SELECT count(*) AS c FROM t WHERE k IN (SELECT k FROM w) GROUP BY ROLLUP (t.k)) x) FROM u');
-- for each row by itself: for many it costs less here
SET rdma_fdw.disable = lookahead;
SELECT gs.grouped('SELECT k, count(*) FROM t WHERE s > (SELECT max(c) FROM (SELECT count(*) + t.k AS c FROM u GROUP BY ROLLUP (u.k)) x) GROUP BY ROLLUP (k)');
-- a column of the query around it, whose number among relations is that of the grouping's own columns
SELECT gs.grouped('SELECT a.id, y.* FROM t a JOIN u x ON x.k = a.k, LATERAL (SELECT x.k AS g, b.t, count(*) AS c FROM t b WHERE b.k = a.k GROUP BY ROLLUP (x.k, b.t)) y WHERE a.id < 9');
RESET rdma_fdw.disable;

-- a prepared statement, with and without the values in its plan
SET search_path = gs;
PREPARE rolled (int) AS SELECT k, count(*), sum(n) FROM t WHERE id > $1 GROUP BY ROLLUP (k) ORDER BY 1, 2;
EXECUTE rolled (2000);
SET plan_cache_mode = force_generic_plan;
EXECUTE rolled (2000);
RESET plan_cache_mode;
-- only what may be pushed down is rewritten
SET rdma_fdw.push_down = none;
SELECT gs.grouped('SELECT k, t, count(*), sum(id) FROM t GROUP BY ROLLUP (k, t)');
RESET rdma_fdw.push_down;
EXPLAIN (VERBOSE, COSTS OFF) SELECT k, count(*), avg(id) FROM t GROUP BY ROLLUP (k);
-- a role needs no more than before
CREATE ROLE rf_reader27;
GRANT USAGE ON SCHEMA gs TO rf_reader27;
SET ROLE rf_reader27;
SELECT k, count(*) FROM t GROUP BY ROLLUP (k);
RESET ROLE;
DROP OWNED BY rf_reader27;
DROP ROLE rf_reader27;
RESET search_path;
DROP SCHEMA gs, gs_here CASCADE;
DROP SERVER gs, gs1, gs2 CASCADE;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA gs CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA gs CASCADE;
