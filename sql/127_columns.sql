-- Conditions and aggregates on columns give what PostgreSQL's executor gives: each statement runs three times, by the executor,
-- on columns, and on columns with one row in seven left to the executor. Rows at the edges: limits of types, NaN, both zeros,
-- NULL everywhere, dead rows, dropped and added columns, values that are compressed or stored elsewhere.
SET extra_float_digits = 3;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET max_parallel_workers_per_gather = 0;
SET enable_sort = off;
CREATE SCHEMA columns;
SET search_path = columns;

CREATE TABLE edge (k int, s int2, gone text, i int4, l int8, f float8, n numeric(12,2), n0 numeric(15,0), n6 numeric(18,6),
	free numeric, d date, ts timestamp, tz timestamptz, c char(3), v varchar(20), t text COLLATE "C", b bool, q "char");
INSERT INTO edge SELECT g,
	(ARRAY[0, 1, -1, 32767, -32768, 100, 7, NULL])[1 + g % 8]::int2, 'gone' || g,
	(ARRAY[0, 1, -1, 2147483647, -2147483648, 100000, 7, NULL, 5])[1 + g * 7 % 9]::int4,
	(ARRAY[0, 1, -1, 9223372036854775807, -9223372036854775808, 100000000000, 7, NULL, 5, 3, 2])[1 + g * 5 % 11]::int8,
	(ARRAY[0::float8, '-0', 1.5, 'NaN', 'Infinity', '-Infinity', 1e308, -1e308, 1e-308, NULL, 3.25, 0.1, 0.2])[1 + g * 3 % 13],
	(ARRAY[0::numeric, 0.01, -0.01, 9999999999.99, -9999999999.99, 'NaN', NULL, 12.5, 100, 0.5, 1, 10000, 9999.99])[1 + g * 11 % 13],
	(ARRAY[0::numeric, 1, -1, 999999999999999, -999999999999999, 'NaN', NULL, 10000, 99999999])[1 + g * 4 % 9],
	(ARRAY[0::numeric, 0.000001, -0.000001, 999999999999.999999, 1, 'NaN', NULL, 10000.5, 0.5])[1 + g * 2 % 9],
	(ARRAY[0::numeric, 0.10, 1.000, 1e30, 'NaN', NULL, 'Infinity', 3])[1 + g % 8],
	(ARRAY['2000-01-01', 'infinity', '-infinity', '4713-01-01 BC', '5874897-12-31', '1995-03-15', NULL, '1970-01-01'])[1 + g * 3 % 8]::date,
	(ARRAY['2000-01-01', 'infinity', '-infinity', '4713-01-01 BC', '294276-12-31', '1995-03-15 12:00', NULL, '1970-01-01'])[1 + g * 5 % 8]::timestamp,
	(ARRAY['2000-01-01', 'infinity', '-infinity', '1995-03-15 12:00', NULL, '1970-01-01'])[1 + g * 5 % 6]::timestamptz,
	(ARRAY['a', 'a ', 'b', '   ', '', NULL, 'abc', 'xyz'])[1 + g % 8],
	(ARRAY['x', 'x ', 'yyyyyyyyyyyyyyy', 'zzzzzzzzzzzzzzzz', '', NULL])[1 + g * 5 % 6],
	CASE WHEN g % 11 = 0 THEN repeat('long', 4000) WHEN g % 13 = 0 THEN repeat('x', 200) WHEN g % 17 = 0 THEN NULL
		WHEN g % 190 = 0 THEN (SELECT string_agg(md5((g * i)::text), '') FROM generate_series(1, 300) i) ELSE 't' || g % 5 END,
	g % 3 = 0, chr(97 + g % 4)::"char"
	FROM generate_series(1, 2000) g;
ALTER TABLE edge DROP gone;
INSERT INTO edge SELECT * FROM edge WHERE k % 5 = 0;
ALTER TABLE edge ADD added int4 DEFAULT 7, ADD added_n numeric(8,2) DEFAULT 1.25, ADD added_t text DEFAULT 'default', ADD added_null int8;
INSERT INTO edge SELECT * FROM edge WHERE k % 4 = 0;
UPDATE edge SET added_n = NULL, added = k % 10 WHERE k % 6 = 0;
UPDATE edge SET i = i WHERE k % 9 = 0;
DELETE FROM edge WHERE k % 10 = 3;
-- whole and just begun kilobytes of rows, without NULLs; no row at all; and rows of which two products are too large
CREATE TABLE whole AS SELECT g AS a, g % 7 AS b, (g % 1000 / 10.0)::numeric(10,2) AS n, sqrt(g) AS f, '2026-01-01'::date + g AS d FROM generate_series(1, 1024) g;
CREATE TABLE more AS SELECT * FROM whole UNION ALL SELECT 2000000000, 3, 0, 0, '2026-01-01';
CREATE TABLE empty (LIKE whole);
-- sums of these depend on the order of rows, and some leave the range
CREATE TABLE floats AS SELECT g % 3 AS g, 1e290 * g AS f FROM generate_series(1, 600) g;

-- what a statement gives, or its error; the executor's, and where others differ
CREATE FUNCTION result(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	answer text;
BEGIN
	EXECUTE format('SELECT string_agg(q::text, E''\n'' ORDER BY q::text COLLATE "C") FROM (%s) q', statement) INTO answer;
	RETURN answer;
EXCEPTION WHEN OTHERS THEN
	RETURN SQLERRM;
END $$;
CREATE FUNCTION compare(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	ways CONSTANT text[] := ARRAY['columns', 'column_costs', 'column_costs, column_kernels'];
	answers text[];
BEGIN
	FOR way IN 1 .. 3 LOOP
		PERFORM set_config('rdma_fdw.disable', ways[way], true);
		answers[way] := result(statement);
	END LOOP;
	FOR way IN 2 .. 3 LOOP
		IF answers[way] IS DISTINCT FROM answers[1] THEN
			RAISE WARNING '% under %', statement, ways[way] USING DETAIL = format(E'%s\ninstead of\n%s', answers[way], answers[1]);
		END IF;
	END LOOP;
	RETURN CASE WHEN length(answers[1]) < 160 THEN answers[1] ELSE md5(answers[1]) END;
END $$;

-- each number: every aggregate, alone and in groups by columns of all kinds
SELECT c AS of, compare(format('SELECT count(%1$s), sum(%1$s), avg(%1$s) FROM edge', c)) AS sums, compare(format('SELECT min(%1$s), max(%1$s) FROM edge', c)) AS ends
	FROM unnest('{s,i,l,f,n,n0,n6,free,added,added_n,added_null}'::text[]) c;
SELECT c AS of, compare(format('SELECT count(%1$s), min(%1$s), max(%1$s) FROM edge', c)) AS ends FROM unnest('{d,ts,tz}'::text[]) c;
SELECT count(compare(format('SELECT %s, count(*), sum(%2$s), min(%2$s), max(%2$s) FROM edge GROUP BY 1', g, c))) AS in_groups
	FROM unnest('{s,i,l,f,n,free,d,ts,tz,c,v,t,b,q,added_n,added_t,added_null}'::text[]) g, unnest('{s,i,l,n,n0,n6,f,added}'::text[]) c;
SELECT count(compare(format('SELECT %s, %s, count(*), sum(s), avg(n) FROM edge GROUP BY 1, 2', g, h))) AS in_two_groups
	FROM unnest('{s,f,d,c,v,t,b,added_t}'::text[]) g, unnest('{i,c,t,q,added_null}'::text[]) h;
-- comparisons, with NULL and NaN on both sides, with the rest of the row, and with errors
SELECT compare(format('SELECT count(*), sum(k) FROM edge WHERE %s %s %s', c, o, w)) AS rows, c || ' ' || o || ' ' || w AS condition
	FROM (VALUES ('s', '1'), ('i', 's'), ('l', 'i'), ('f', '''NaN'''), ('f', '0'), ('n', '12.5'), ('n', 'n0'), ('n6', '0.0000001'), ('d', '''1995-03-15'''),
		('d', '''1995-03-15 12:00''::timestamp'), ('d', '''-infinity''::timestamp'), ('ts', '''2000-01-01'''), ('tz', '''1995-03-15 12:00''')) v(c, w),
		unnest('{<,>=,=}'::text[]) o;
SELECT compare(format('SELECT count(*), sum(k) FROM edge WHERE %s', w)) AS rows, w AS condition
	FROM unnest(ARRAY['c = ''a''', 'c <> ''a''', 'v = ''x''', 'v <> ''x ''', 't = ''t1''', 't <> ''t1''', 'added_t = ''default''', 'added_null IS NULL',
		't IS NOT NULL AND n IS NULL', 'i + 1 > 0', 'i - s < 5', 'l * 2 > 3', 'i::int8 * i > 10', 'n * n0 > 1', 'n + 0.001 >= 0.011', 's::numeric < n', 'f * f > 2',
		'f + 1 < 5', 'k < 100 AND 100 / (k - 50) > 0', 'k > 50 AND k < 100 AND 100 / (k - 50) > 0 AND n > 0', 'k % 2 = 0 AND n > 0', 'n > 0 AND k % 2 = 0']) w;
-- lists, OR, patterns; other signs than %, and some lists with NULL, are the executor's
SELECT compare(format('SELECT count(*), sum(k) FROM edge WHERE %s', w)) AS rows, w AS condition
	FROM unnest(ARRAY['i IN (1, 7, NULL)', 'i NOT IN (1, 7)', 'i NOT IN (1, NULL)', 'f IN (0, ''NaN'')', 'n IN (12.5, 100.000, 0.001)', 'c IN (''a'', ''xyz'')',
		'v NOT IN (''x'', '''')', 's < ANY (ARRAY[0, 7])', 'i = 7 OR n > 1', 'i * i > 5 OR s = 0', '(s = 0 AND n > 1) OR t = ''t1'' OR d IS NULL', 'k < 100 AND (k = 50 OR 100 / (k - 50) > 0)',
		't LIKE ''t%''', 't LIKE ''%ng''', 't NOT LIKE ''%glo%lo%''', 't LIKE ''%longlong%long''', 't LIKE ''t_''', 'v LIKE ''x''', 'c LIKE ''a%''', 'c LIKE ''a''', 'v LIKE ''%''']) w;
-- CASE, FILTER, division: an arm may have an error for rows that take the other one
SELECT compare(format('SELECT %s FROM edge WHERE k < 100', e)) AS result, e AS of
	FROM unnest(ARRAY['sum(CASE WHEN s > 0 THEN i ELSE 0 END)', 'sum(CASE WHEN t LIKE ''t%'' OR v = ''x'' THEN n WHEN i > 0 THEN NULL ELSE n END)', 'sum(CASE WHEN i > 0 THEN n ELSE 0 END)',
		'count(CASE WHEN s = 7 THEN 1 END)', 'sum(CASE WHEN abs(i) < 1000 THEN i * i END)', 'sum(CASE WHEN i < 1000 AND i > -1000 THEN i * i END)', 'sum(CASE WHEN s <> 0 THEN 100 / s END)', 'sum(100 / s)',
		'count(*) FILTER (WHERE n > 1), sum(i) FILTER (WHERE c = ''a''), avg(n) FILTER (WHERE s IS NULL), max(f) FILTER (WHERE f < 5)', 'sum(i / 7), sum(l / 3), sum(f / 2)', 'sum(l / -1)', 'sum(f / s)']) e;
SELECT compare('SELECT b, count(*) FILTER (WHERE a > 500), sum(n) FILTER (WHERE f < 20), sum(CASE WHEN d < ''2027-01-01'' THEN a ELSE 0 END) FROM whole GROUP BY b') AS in_groups;
-- numerics that are too long for columns: the executor soon decides about each row
CREATE TABLE long AS SELECT g % 3 AS g, (g * 1234567890123456789.12)::numeric(30,2) AS n FROM generate_series(1, 9000) g;
SELECT compare('SELECT g, count(*), sum(n) FROM long WHERE n > 0 GROUP BY g') AS long, compare('SELECT sum(n), max(n) FROM long') AS alone;
-- scans that begin anew and end on their first page
SELECT compare('SELECT count(*) FROM generate_series(1, 20) g WHERE (SELECT k FROM edge WHERE n > g LIMIT 1) > 0') AS early;
-- arithmetic below aggregates
SELECT compare(format('SELECT sum(%s) FROM edge WHERE k < 100', e)) AS sum, e AS of
	FROM unnest(ARRAY['i * 2', 's * s', 's::int4 * s', 'i::int8 * 100000', 'l + 1', 'l * 2', 'n * (1 - n)', 'n * n * n', 'n6 * n6', 'n - 0.001', 'f * 2', 'f - f', 'n::numeric + n', 's::float8 * 0.1', 's::numeric * n']) e;
-- around batches of 1024 rows, and without a row
SELECT t, compare(format('SELECT count(*), sum(a), avg(a), sum(n), avg(n), min(d), max(f) FROM %s', t)) AS alone,
	compare(format('SELECT b, count(*), sum(a), avg(a), sum(n), avg(n), min(d), max(f), sum(f) FROM %s GROUP BY b', t)) AS in_groups,
	compare(format('SELECT sum(a * 2) FROM %s', t)) AS overflow
	FROM unnest('{whole,more,empty}'::text[]) t;
-- sums of floats that leave the range, and do so for a moment
SELECT compare('SELECT sum(f) FROM floats') AS alone, compare('SELECT g, sum(f) FROM floats GROUP BY g') AS in_groups, compare('SELECT g, sum(f * 1e16) FROM floats GROUP BY g') AS too_large;
-- groups for which the node above has no memory, and more groups than it is worth
SET work_mem = '64kB';
SELECT compare('SELECT k, count(*), sum(n) FROM edge GROUP BY k') AS spilled;
RESET work_mem;
-- many groups, in memory and with too little of it; and rows of each of which the planner has expected more
CREATE TABLE many AS SELECT g AS u, g % 6000 AS k, (g % 1000 / 4.0)::numeric(10,2) AS n, g % 5000 AS m, g / 3.0::float8 AS f FROM generate_series(1, 54000) g;
SELECT compare('SELECT u, count(*), sum(n), max(n), sum(f) FROM many GROUP BY u') AS hopeless;
ANALYZE many;
SELECT compare('SELECT k, count(*), sum(n), avg(n), min(n), sum(m), avg(m), sum(f) FROM many GROUP BY k') AS many;
SET work_mem = '300kB';
SELECT compare('SELECT k, count(*), sum(n), avg(n), min(n), sum(m), avg(m), sum(f) FROM many GROUP BY k') AS many, compare('SELECT DISTINCT k FROM many') AS distinct;
RESET work_mem;
-- columns that nobody looks at, but whose functions are called
CREATE SEQUENCE calls;
SELECT compare('SELECT sum(k) FROM (SELECT k, nextval(''columns.calls'') FROM whole w(k)) q') AS called;
SELECT last_value FROM calls;
-- scans that begin anew, that end early, and that run below other nodes
SELECT compare('SELECT w.b, (SELECT count(*) FROM edge e WHERE e.s = w.b AND e.n > 0) FROM whole w WHERE w.a < 20') AS again,
	compare('SELECT count(*) FROM (SELECT k FROM edge WHERE n > 0 LIMIT 10) q') AS early,
	compare('SELECT count(*), sum(e.n) FROM edge e JOIN whole w ON e.s = w.b WHERE e.n > 0 AND w.a < 100') AS joined,
	compare('SELECT count(*) FROM (SELECT s FROM edge WHERE n > 0 UNION ALL SELECT s FROM edge WHERE n <= 0) q') AS appended;

SET client_min_messages = warning;
RESET search_path;
DROP SCHEMA columns CASCADE;
