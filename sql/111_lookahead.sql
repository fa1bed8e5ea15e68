-- Sub-selects and lateral ones that become no joins: rows are read ahead, and nodes are asked for many values at once.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name la
\i :two_nodes
\set ECHO none
\c contrib_regression postgres 127.0.0.1 :n1
CREATE SCHEMA la;
CREATE TYPE la.mood AS ENUM ('sad', 'ok', 'glad');
CREATE TABLE la.sale (id int, cust int, day date, price numeric, qty int, note text, m la.mood);
CREATE INDEX ON la.sale (cust);
CREATE TABLE la.ret (id int, cust int, qty int);
CREATE TABLE la.acct (cust bigint, n int, v numeric);
CREATE TABLE la.rate (id int, r int);
\c contrib_regression postgres 127.0.0.1 :n2
CREATE SCHEMA la;
CREATE TYPE la.mood AS ENUM ('sad', 'ok', 'glad');
CREATE TABLE la.sale (id int, cust int, day date, price numeric, qty int, note text, m la.mood);
CREATE INDEX ON la.sale (cust);
CREATE TABLE la.ret (id int, cust int, qty int);
CREATE TABLE la.acct (cust bigint, n int, v numeric);
CREATE TABLE la.rate (id int, r int);
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
CREATE SCHEMA la_here;
CREATE TYPE la.mood AS ENUM ('sad', 'ok', 'glad');
CREATE TABLE la_here.sale AS SELECT i AS id, i * 7 % 900 AS cust, DATE '2026-01-01' + i % 50 AS day, i * 13 % 997 / 10.0 AS price, i % 9 AS qty,
	CASE WHEN i % 10 > 0 THEN 'note ' || i % 30 END AS note, (ARRAY['sad', 'ok', 'glad'])[1 + i % 3]::la.mood AS m FROM generate_series(1, 4000) i;
CREATE TABLE la_here.ret AS SELECT i AS id, i * 11 % 900 AS cust, i % 9 AS qty FROM generate_series(1, 600) i;
CREATE FOREIGN TABLE la.sale (id int, cust int, day date, price numeric, qty int, note text, m la.mood) SERVER la OPTIONS (distributed_by 'id');
CREATE FOREIGN TABLE la.ret (id int, cust int, qty int) SERVER la OPTIONS (distributed_by 'id');
CREATE TABLE la_here.acct AS SELECT i % 700 AS cust, i / 700 AS n, i * 17 % 1009 / 10.0 AS v FROM generate_series(0, 2799) i;
CREATE TABLE la_here.rate AS SELECT i AS id, i * 3 % 50 AS r FROM generate_series(1, 90) i;
CREATE FOREIGN TABLE la.acct (cust bigint, n int, v numeric) SERVER la OPTIONS (distributed_by 'cust');
CREATE FOREIGN TABLE la.rate (id int, r int) SERVER la OPTIONS (replicated 'true');
CREATE FOREIGN TABLE la.first_sale (id int, cust int, day date, price numeric, qty int, note text, m la.mood) SERVER la1 OPTIONS (table_name 'sale');
INSERT INTO la.acct SELECT * FROM la_here.acct;
INSERT INTO la.rate SELECT * FROM la_here.rate;
INSERT INTO la.sale SELECT * FROM la_here.sale;
INSERT INTO la.ret SELECT * FROM la_here.ret;
-- customers are here, and some names and sizes are missing
CREATE TABLE public.cust AS SELECT i AS id, NULLIF(i % 40, 7) AS size, CASE WHEN i % 11 > 0 THEN 'note ' || i % 40 END AS name,
	(ARRAY['sad', 'ok', 'glad'])[1 + i % 3]::la.mood AS m FROM generate_series(0, 699) i;
CREATE TABLE la_here.first_sale AS SELECT * FROM la.first_sale;
ANALYZE la.sale, la.ret, la.acct, la.rate, la_here.sale, la_here.ret, public.cust;
SET search_path = la, public;

-- The same rows as local tables give, with lookahead, and for each row by itself if asked for.
CREATE FUNCTION la_here.same(q text, singly boolean DEFAULT false) RETURNS text LANGUAGE plpgsql AS $$
DECLARE here text; there text; each text; counted text = 'SELECT count(*) || '' '' || md5(string_agg(x::text, '','' ORDER BY x::text)) FROM (%s) x';
BEGIN
	PERFORM set_config('search_path', 'la_here, public', true);
	EXECUTE format(counted, q) INTO here;
	PERFORM set_config('search_path', 'la, public', true);
	EXECUTE format(counted, q) INTO there;
	PERFORM set_config('rdma_fdw.disable', CASE WHEN singly THEN 'lookahead' ELSE '' END, true);
	EXECUTE format(counted, q) INTO each;
	SET LOCAL rdma_fdw.disable = '';
	RETURN CASE WHEN here = there AND here = each THEN 'same, ' || split_part(here, ' ', 1)
		ELSE 'here ' || here || ', there ' || there || ', each ' || each END;
END $$;
-- What the plan's lookups did
CREATE FUNCTION la_here.lookups(q text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || q LOOP
		IF line ~ '(Lookups|Values Sent):' THEN RETURN NEXT trim(line); END IF;
		-- how many statements depends on the time they take
		IF line ~ 'Statements:' THEN
			RETURN NEXT CASE substring(line, '\d+')::int WHEN 1 THEN 'one statement' ELSE CASE WHEN substring(line, '\d+')::int < 160 THEN 'few statements' ELSE line END END;
		END IF;
	END LOOP;
END $$;
\pset format unaligned
\pset tuples_only on
\set ECHO all
EXPLAIN (VERBOSE, COSTS OFF) SELECT id, (SELECT max(price * c.size) FROM sale WHERE cust = c.id) FROM cust c WHERE size > 3;
EXPLAIN (VERBOSE, COSTS OFF) SELECT c.id, l.* FROM cust c, LATERAL (SELECT id, price FROM sale WHERE cust = c.id ORDER BY price DESC, id LIMIT 2) l;
SELECT la_here.lookups('SELECT id, (SELECT sum(price * c.size) FROM sale WHERE cust = c.id) FROM cust c');
-- the first row alone, for which no other may be wanted
SELECT la_here.lookups('SELECT id, (SELECT sum(price * c.size) FROM sale WHERE cust = c.id) FROM cust c LIMIT 1');
-- a value that comes again is known
SELECT la_here.lookups('SELECT id, (SELECT sum(price * c.size) FROM sale WHERE cust = c.size) FROM cust c');
SELECT la_here.lookups('SELECT id FROM cust c WHERE (SELECT sum(price * c.size) FROM sale WHERE cust = c.size) > 10');
SELECT la_here.same('SELECT id, (SELECT sum(price * c.size) FROM sale WHERE cust = c.id) FROM cust c', true);
SELECT la_here.same('SELECT id, (SELECT sum(price * c.size) FROM sale WHERE cust = c.size) FROM cust c');
SELECT la_here.same('SELECT id, (SELECT count(*) FROM sale WHERE note = c.name AND qty > c.size) FROM cust c');
SELECT la_here.same('SELECT id, (SELECT max(price) FROM sale WHERE m = c.m AND qty + c.size = 9) FROM cust c');
SELECT la_here.same('SELECT id, (SELECT price FROM sale WHERE cust = c.id AND qty >= c.size ORDER BY price DESC, id LIMIT 1) FROM cust c');
SELECT la_here.same('SELECT id, (SELECT note FROM sale WHERE cust = c.id ORDER BY note NULLS FIRST, price, id DESC OFFSET 1 LIMIT 1) FROM cust c');
SELECT la_here.same('SELECT id, ARRAY(SELECT s.id FROM sale s WHERE cust = c.id AND qty < c.size ORDER BY 1) FROM cust c');
SELECT la_here.same('SELECT id, ARRAY(SELECT note FROM sale s WHERE cust = c.id AND qty <> c.size ORDER BY note DESC NULLS LAST, price, s.id) FROM cust c', true);
SELECT la_here.same('SELECT c.id, l.* FROM cust c, LATERAL (SELECT note, s.id AS sid FROM sale s WHERE cust = c.size AND qty <> c.id ORDER BY note COLLATE "C", s.id OFFSET 1) l');
SELECT la_here.same('SELECT id FROM cust c WHERE size > ALL (SELECT qty FROM sale WHERE cust = c.id)', true);
SELECT la_here.same('SELECT id FROM cust c WHERE size NOT IN (SELECT qty FROM sale WHERE cust = c.id AND qty > c.size - 3)');
SELECT la_here.same('SELECT id, (size, 3) IN (SELECT qty, qty FROM sale WHERE cust = c.id) AS i FROM cust c');
SELECT la_here.same('SELECT id, EXISTS (SELECT FROM sale WHERE cust = c.id AND qty + 1 > c.size OFFSET 1) AS e FROM cust c');
SELECT la_here.same('SELECT id FROM cust c WHERE EXISTS (SELECT qty FROM sale WHERE cust = c.id INTERSECT SELECT qty FROM ret WHERE cust = c.id)');
SELECT la_here.same('SELECT id, (SELECT count(*) FROM (SELECT qty FROM sale WHERE cust = c.id UNION ALL SELECT qty FROM ret WHERE cust = c.id) u) AS n FROM cust c');
SELECT la_here.same('SELECT id, (SELECT count(*) FROM ret WHERE cust = (SELECT max(s.cust) FROM sale s WHERE s.id = c.size)) AS n FROM cust c');
SELECT la_here.same('SELECT id, CASE WHEN size > 20 THEN (SELECT count(*) FROM sale WHERE cust = c.id AND qty > c.size) ELSE -1 END AS n FROM cust c');
SELECT la_here.same('SELECT id, coalesce((SELECT min(note) FROM sale WHERE cust = c.id AND qty > c.size), name) AS n FROM cust c');
SELECT la_here.same('SELECT size, count(*) FROM cust c GROUP BY size HAVING count(*) > (SELECT count(*) FROM sale WHERE cust = c.size AND qty <> c.size)');
SELECT la_here.same('SELECT size, (SELECT count(*) FROM sale WHERE cust = c.size AND qty <> c.size) AS n, rank() OVER (ORDER BY size) AS r FROM cust c');
SELECT la_here.same('SELECT c.id, d.id AS did, (SELECT count(*) FROM sale WHERE cust = c.id AND qty < d.size) AS n FROM cust c LEFT JOIN cust d ON c.size = d.id');
SELECT la_here.same('SELECT c.id, (SELECT max(id) FROM sale WHERE cust = c.id AND qty < c.size) AS m1, l.* FROM cust c LEFT JOIN LATERAL (SELECT price, note FROM sale WHERE cust = c.id AND qty > c.size ORDER BY price, id LIMIT 3) l ON true');
SELECT la_here.same('SELECT c.id, l.* FROM cust c, LATERAL (SELECT qty, count(*) FROM sale WHERE cust = c.id GROUP BY ROLLUP (qty)) l');
SELECT la_here.same('SELECT c.id, l.* FROM cust c CROSS JOIN LATERAL (SELECT FROM sale WHERE cust = c.id AND qty < c.size OFFSET 0) l');
-- columns that an outer join makes NULL, in the loop's parameters and in those of a sub-select
SELECT la_here.same('SELECT l.id, q.* FROM (SELECT c.id, d.size FROM cust c LEFT JOIN cust d ON d.id = c.id + 600) l, LATERAL (SELECT count(*), sum(qty) FROM sale s WHERE s.cust = l.size) q');
SELECT la_here.same('SELECT l.id, q.* FROM (SELECT c.id, d.size, d.name FROM cust c LEFT JOIN cust d ON d.id = c.id + 600) l LEFT JOIN LATERAL (SELECT price, note FROM sale WHERE cust = l.size AND note > l.name ORDER BY price, id LIMIT 3) q ON true');
SELECT la_here.same('SELECT l.id, (SELECT max(s.id) FROM sale s WHERE s.cust = l.size AND qty < l.size OFFSET 0) FROM (SELECT c.id, d.size FROM cust c FULL JOIN cust d ON d.id = c.id + 600) l WHERE l.size IS NULL OR (SELECT count(*) FROM sale s WHERE s.cust = l.id AND s.qty < l.size) > 0');
SELECT la_here.same('SELECT c.id, l.a, k.b FROM cust c, LATERAL (SELECT max(id) AS a FROM sale WHERE cust = c.id AND qty < 4) l, LATERAL (SELECT count(*) AS b FROM ret WHERE id <= l.a - 3500 AND qty = c.size) k');
SELECT la_here.same('SELECT c.id, (SELECT sum(v) FROM (SELECT c.size AS v FROM sale WHERE cust = c.id) x) FROM cust c');
SELECT la_here.same('SELECT c.id, (SELECT max(v + qty) FROM (SELECT c.size AS v, qty FROM sale WHERE cust = c.id) x) FROM cust c');
SELECT la_here.same('WITH RECURSIVE r AS (SELECT 1 AS k UNION ALL SELECT k + 1 FROM r WHERE k < 60) SELECT k, (SELECT sum(price) FROM sale WHERE cust = k AND qty < k) FROM r');
SELECT la_here.same('SELECT s.id, (SELECT count(*) FROM cust d WHERE d.size = s.qty AND d.id < (SELECT count(*) FROM ret WHERE cust = d.id AND qty < s.qty)) AS n FROM sale s WHERE s.id < 60');
SELECT la_here.same('SELECT c.id, l.* FROM cust c CROSS JOIN LATERAL (SELECT s.id AS sid FROM sale s WHERE cust = c.size AND qty < c.id ORDER BY s.id LIMIT c.size % 3 OFFSET c.id % 2) l');
SELECT la_here.lookups('SELECT id FROM cust c WHERE ((SELECT max(n + c.size) FROM acct WHERE cust = c.id) IN (SELECT r FROM rate WHERE rate.id IS DISTINCT FROM c.size)) IS TRUE');
SELECT la_here.same('SELECT id FROM cust c WHERE (SELECT max(n + c.size) FROM acct WHERE cust = c.id) IN (SELECT r FROM rate WHERE rate.id IS DISTINCT FROM c.size)');
SELECT la_here.same('SELECT id FROM cust c WHERE size >= ALL (SELECT c.size FROM cust d WHERE d.id < 5 AND (SELECT max(n + d.size) FROM acct WHERE cust = d.id) IN (SELECT r FROM rate WHERE rate.id IS DISTINCT FROM d.size))');
-- values inside of a part of the statement
EXPLAIN (VERBOSE, COSTS OFF) SELECT id, (SELECT count(*) FROM first_sale s JOIN (SELECT x.cust FROM first_sale x WHERE c.size > 2 AND x.qty < c.size ORDER BY x.id LIMIT 5) y ON s.qty < c.size WHERE s.cust = c.id) AS n FROM cust c;
SELECT la_here.same('SELECT id, (SELECT count(*) FROM first_sale s JOIN (SELECT x.cust FROM first_sale x WHERE c.size > 2 AND x.qty < c.size ORDER BY x.id LIMIT 5) y ON s.qty < c.size WHERE s.cust = c.id) AS n FROM cust c');
SELECT la_here.same('SELECT id, (SELECT count(*) FROM sale s, (SELECT cust, max(qty + c.size) AS m FROM sale GROUP BY cust HAVING c.name IS NULL) y WHERE s.cust = c.id AND y.cust = s.cust) AS n FROM cust c');
-- each node gets the values whose rows it has, one node all of them, one server
EXPLAIN (VERBOSE, COSTS OFF) SELECT id, (SELECT count(*) FROM acct WHERE cust = c.id AND n < c.size) FROM cust c;
SELECT la_here.lookups('SELECT id, (SELECT count(*) FROM acct WHERE cust = c.id AND n < c.size) FROM cust c');
SELECT la_here.same('SELECT id, (SELECT count(*) FROM acct WHERE cust = c.id AND n < c.size) AS n FROM cust c', true);
SELECT la_here.same('SELECT id, (SELECT count(*) FROM acct WHERE cust = c.size AND n < c.id) AS n FROM cust c');
SELECT la_here.same('SELECT id, (SELECT v FROM acct WHERE cust = c.id AND n <> c.size ORDER BY v DESC, n LIMIT 1) AS n FROM cust c');
SELECT la_here.same('SELECT id, l.* FROM cust c LEFT JOIN LATERAL (SELECT n, v FROM acct WHERE cust = c.id AND v > c.size ORDER BY v, n LIMIT 2) l ON true');
SELECT la_here.same('SELECT id, (SELECT sum(r) FROM rate WHERE rate.id < c.size) AS n FROM cust c');
SELECT la_here.same('SELECT id, (SELECT sum(s.qty + c.size) FROM first_sale s WHERE cust = c.id AND s.qty < c.size) AS n FROM cust c');
SELECT la_here.same('SELECT id, (SELECT sum(r) + (SELECT count(*) FROM acct WHERE cust = c.id AND n < c.size) FROM rate WHERE rate.id > c.size) AS n FROM cust c');
-- a row of all columns, columns that rows do not have, and what differs each time
SELECT la_here.same('SELECT id, (SELECT s FROM sale s WHERE s.cust = c.id AND qty > c.size ORDER BY id LIMIT 1)::text FROM cust c');
SELECT count(*), count((SELECT max(tableoid::regclass::text) FROM sale s WHERE s.cust = c.id AND qty > c.size)) FROM cust c;
SELECT la_here.lookups('SELECT (SELECT count(*) FROM sale WHERE cust = c.size AND random() < 2) FROM cust c');
-- types that only this server has, and values with another text than bytes
CREATE DOMAIN la_here.whole AS int;
CREATE TYPE la_here.tone AS ENUM ('note 1', 'note 2');
CREATE TABLE public.odd AS SELECT id::la_here.whole AS id, size, (ARRAY['note 1', 'note 2'])[1 + id % 2]::la_here.tone AS tone, ARRAY[size, 2] AS two,
	(id % 5)::float8 / 7 AS f, ('1 day'::interval * (id % 3)) AS later, DATE '2026-01-01' + id % 50 AS day, name::char(12) AS name FROM cust WHERE id < 300;
SELECT la_here.same('SELECT id, (SELECT count(*) FROM sale s WHERE cust = o.id AND qty <> o.size) AS n FROM odd o');
SELECT la_here.same('SELECT id, (SELECT count(*) FROM sale s WHERE note = o.tone::text AND qty <> o.size) AS n FROM odd o');
SELECT la_here.same('SELECT id, (SELECT count(*) FROM sale s WHERE qty = ANY (o.two) AND cust <> o.size) AS n FROM odd o');
SELECT la_here.same('SELECT id, (SELECT count(*) FROM sale s WHERE price / 700 < o.f AND cust = o.size) AS n FROM odd o');
SELECT la_here.same('SELECT id, (SELECT count(*) FROM sale s WHERE s.day + o.later > o.day AND note = o.name AND cust <> o.size) AS n FROM odd o');
SET DateStyle = 'German';
SET extra_float_digits = -10;
SET IntervalStyle = 'iso_8601';
SELECT la_here.same('SELECT id, (SELECT count(*) FROM sale s WHERE s.day + o.later > o.day AND price / 700 < o.f AND cust <> o.size) AS n FROM odd o');
RESET DateStyle;
RESET extra_float_digits;
RESET IntervalStyle;
-- more rows than may be kept are asked for fewer values at a time
SET work_mem = '256kB';
SELECT la_here.lookups('SELECT id, ARRAY(SELECT repeat(note, 20) FROM sale s WHERE cust = c.id AND qty <> c.size) FROM cust c');
SET work_mem = '64kB';
SELECT la_here.same('SELECT id, (SELECT string_agg(note, '','' ORDER BY s.id) FROM sale s WHERE cust < 900 - c.id AND qty <> c.size) FROM cust c WHERE id < 40');
SELECT la_here.same('SELECT c.id, l.id AS sid FROM cust c, LATERAL (SELECT id, note FROM sale s WHERE cust > c.id AND qty <> c.size OFFSET 0) l WHERE c.id < 30');
SELECT la_here.same('SELECT id, md5(ARRAY(SELECT note FROM sale s WHERE cust > c.id AND qty <> c.size ORDER BY note, s.id)::text) FROM cust c WHERE id < 30');
RESET work_mem;
-- an error that a CASE prevents
\set VERBOSITY terse
SELECT sum(CASE WHEN size = 0 THEN -1 ELSE (SELECT count(*) FROM sale WHERE cust = c.id AND qty / c.size > 1) END) FROM cust c;
SELECT sum((SELECT count(*) FROM sale WHERE cust = c.id AND qty / c.size > 1)) FROM cust c;
SELECT id, (SELECT price FROM sale WHERE cust = c.id AND qty <> c.size) FROM cust c ORDER BY id LIMIT 3;
-- an error in the middle of a batch, and on
BEGIN;
SAVEPOINT s;
SELECT id, (SELECT count(*) FROM sale WHERE cust = c.id AND qty / c.size > 1) FROM cust c WHERE id > 0;
ROLLBACK TO s;
SELECT sum(n) FROM (SELECT (SELECT count(*) FROM sale WHERE cust = c.id AND qty / c.size > 1) AS n FROM cust c WHERE size > 0) x;
COMMIT;
\set VERBOSITY default
-- conditions stay behind those that hide rows from them
CREATE FUNCTION la_here.shown(int) RETURNS boolean COST 0.0001 LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'shown %', $1; RETURN true; END $$;
CREATE ROLE la_reader;
GRANT USAGE ON SCHEMA la, la_here TO la_reader;
GRANT SELECT ON cust, sale, acct TO la_reader;
CREATE USER MAPPING FOR la_reader SERVER la1 OPTIONS (user 'postgres', password_required 'false');
CREATE USER MAPPING FOR la_reader SERVER la2 OPTIONS (user 'postgres', password_required 'false');
ALTER TABLE cust ENABLE ROW LEVEL SECURITY;
CREATE POLICY those ON cust USING (id < 50 AND (SELECT count(*) FROM acct WHERE cust = cust.id AND n < size) > size - 2);
SET client_min_messages = notice;
SET ROLE la_reader;
EXPLAIN (COSTS OFF) SELECT id FROM cust WHERE la_here.shown(id);
SELECT count(*) FROM cust WHERE la_here.shown(id);
RESET ROLE;
SET client_min_messages = warning;
-- a cursor, a plan for any value, and INSERT
BEGIN;
DECLARE d CURSOR FOR SELECT id, (SELECT count(*) FROM sale WHERE cust = c.id AND qty < c.size) FROM cust c;
FETCH 2 FROM d;
SELECT count(*) FROM ret;
FETCH 3 FROM d;
MOVE 600 FROM d;
FETCH 1 FROM d;
DECLARE e SCROLL CURSOR FOR SELECT id, (SELECT count(*) FROM sale WHERE cust = c.id AND qty < c.size) FROM cust c;
FETCH 2 FROM e;
FETCH PRIOR FROM e;
COMMIT;
SET plan_cache_mode = force_generic_plan;
PREPARE p(int) AS SELECT count(*), sum((SELECT count(*) FROM sale WHERE cust = c.id AND qty < c.size AND qty > $1)) FROM cust c;
EXECUTE p(2);
EXECUTE p(5);
DEALLOCATE p;
RESET plan_cache_mode;
CREATE TABLE la_here.made (id int, n bigint);
EXPLAIN (COSTS OFF) INSERT INTO la_here.made SELECT id, (SELECT count(*) FROM sale WHERE cust = c.id AND qty < c.size) FROM cust c;
INSERT INTO la_here.made SELECT id, (SELECT count(*) FROM sale WHERE cust = c.id AND qty < c.size) FROM cust c;
SELECT count(*), sum(n) FROM la_here.made;
-- rows of the statement itself are not there for its sub-selects
INSERT INTO ret SELECT c.id + 1000, 11, (SELECT count(*) FROM ret r WHERE r.cust = 11 AND r.qty + 50 > c.size) FROM cust c;
SELECT qty, count(*) FROM ret WHERE id >= 1000 GROUP BY 1 ORDER BY 1;
DELETE FROM ret WHERE id >= 1000;
INSERT INTO ret SELECT c.id + 1000, c.id, (SELECT count(*) FROM sale WHERE cust = c.id AND qty < c.size) FROM cust c;
SELECT count(*), sum(qty) FROM ret WHERE id >= 1000;
DELETE FROM ret WHERE id >= 1000;
-- not what may run again for one row
EXPLAIN (COSTS OFF) UPDATE la_here.made d SET n = (SELECT count(*) FROM sale WHERE cust = d.id AND qty < d.n);
EXPLAIN (COSTS OFF) SELECT id, (SELECT count(*) FROM sale WHERE cust = d.id AND qty < d.n) FROM la_here.made d FOR UPDATE;
\set ECHO none
DROP TABLE cust, odd, la_here.made;
DROP FOREIGN TABLE sale, ret, acct, rate, first_sale;
DROP SERVER la1 CASCADE;
DROP SERVER la2 CASCADE;
DROP SERVER la CASCADE;
DROP SCHEMA la, la_here CASCADE;
DROP ROLE la_reader;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA la CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA la CASCADE;
