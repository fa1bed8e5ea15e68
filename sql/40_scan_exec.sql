-- Running foreign scans: rescans, nested loops, parameters, cursors, savepoints, prepared statements, several scans of one server.
-- The server is this one, reached again over TCP.
\set ECHO none
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
RESET client_min_messages;
CREATE SCHEMA far;
CREATE SCHEMA near;
SET search_path = near;
DO $$
BEGIN
	EXECUTE format('CREATE SERVER scan40 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host %L, port %L, dbname %L)',
				   '127.0.0.1', current_setting('port'), current_database());
END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER scan40 OPTIONS (user :'USER');

CREATE TABLE far.item (id int PRIMARY KEY, grp int, name text, price numeric, made timestamptz, tags text[]);
INSERT INTO far.item
	SELECT i, i % 10, 'item ' || i, i * 1.25, '2024-02-29 12:00+00'::timestamptz + i * interval '1 hour', ARRAY['a' || i, NULL]
	FROM generate_series(1, 2000) i;
CREATE TABLE far.grp (grp int, label text);
INSERT INTO far.grp SELECT i, 'group ' || i FROM generate_series(0, 9) i;
CREATE TABLE far.big (id int, filler text);
INSERT INTO far.big SELECT i, repeat(chr(97 + i % 26), 100) FROM generate_series(1, 30000) i;
CREATE TABLE far.nothing (a int, b text);
ANALYZE far.item, far.grp, far.big;
IMPORT FOREIGN SCHEMA far FROM SERVER scan40 INTO near;
CREATE TABLE local_key AS SELECT i * 100 AS id FROM generate_series(1, 5) i;
\pset format unaligned
\pset tuples_only on
\set ECHO all

-- plain
SELECT * FROM item WHERE id IN (1, 2) ORDER BY id;
SELECT count(*), sum(id), sum(price), max(length(name)) FROM item;
SELECT count(*), sum(id), count(DISTINCT filler) FROM big;
SELECT * FROM nothing;
SELECT count(*) FROM nothing;
-- only how many rows there are
SELECT count(*) FROM big;
SELECT 1 AS one FROM grp LIMIT 3;
-- columns that are not fetched are not there
SELECT name FROM item WHERE id = 7;
-- system columns
SELECT tableoid::regclass, id FROM item WHERE id = 3;
SELECT f.ctid = r.ctid AS same_ctid, f.name FROM item f JOIN far.item r USING (id) WHERE f.id = 11;
SELECT ctid, grp FROM grp WHERE grp < 2 ORDER BY 2;
SELECT item, grp FROM item WHERE id = 4;

-- early end, inline and not
SELECT id FROM item LIMIT 2;
SELECT length(filler) FROM big LIMIT 2;
SELECT EXISTS (SELECT FROM big WHERE random() >= 0);

-- rescans: of an inner side without parameters, with parameters, and of a large one
SET enable_material = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SELECT count(*), sum(g.grp) FROM local_key k, grp g;
SELECT k.id, i.name FROM local_key k JOIN item i ON i.id = k.id ORDER BY 1;
SELECT count(*), sum(b.id) FROM local_key k, big b WHERE k.id <= 300 AND random() >= 0;
SELECT count(*), sum(length(b.filler)) FROM local_key k, big b WHERE k.id <= 300 AND b.id % 3 = k.id % 3;
RESET enable_material;
RESET enable_hashjoin;
RESET enable_mergejoin;

-- correlated
SELECT g.label, (SELECT max(i.id) FROM item i WHERE i.grp = g.grp AND random() >= 0) FROM grp g ORDER BY 1 LIMIT 3;
SELECT k.id, x.n FROM local_key k CROSS JOIN LATERAL (SELECT count(*) AS n FROM item i WHERE i.id <= k.id AND random() >= 0) x ORDER BY 1;
SELECT k.id, x.name FROM local_key k LEFT JOIN LATERAL (SELECT i.name FROM item i WHERE i.id > k.id AND i.grp = 3 ORDER BY i.id LIMIT 1) x ON true ORDER BY 1;

-- several scans of one server: with one session, one of them is stored while the other runs
SET work_mem = '64kB';
SELECT count(*), sum(a.id), min(b.label), max(b.label) FROM item a JOIN grp b ON a.grp = b.grp WHERE random() >= 0;
SELECT count(*), count(DISTINCT a.filler) FROM big a JOIN big b ON a.id = b.id + 1 WHERE random() >= 0;
SET enable_hashjoin = off;
SELECT count(*), sum(length(a.filler)), sum(length(b.filler)) FROM big a JOIN big b ON a.id = b.id + 1 WHERE random() >= 0;
SET enable_mergejoin = off;
SET enable_material = off;
SELECT count(*), sum(length(a.filler || b.label)) FROM big a JOIN grp b ON a.id % 1000 = b.grp AND random() >= 0;
RESET enable_material;
RESET enable_mergejoin;
RESET enable_hashjoin;
RESET work_mem;
SELECT count(*) FROM (SELECT id, filler FROM big UNION ALL SELECT id, name FROM item) x WHERE random() >= 0;
SELECT count(*), sum(id) FROM (SELECT id FROM big EXCEPT SELECT id FROM item) x;

-- a function that uses the server while rows of it are being read
CREATE FUNCTION label_of(g int) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT label FROM near.grp WHERE grp.grp = g AND random() >= 0);
END $$;
SELECT count(*), min(label), max(name) FROM (SELECT label_of(grp) AS label, name FROM item WHERE random() >= 0 OFFSET 0) x;
SELECT count(*), min(l), max(f) FROM (SELECT label_of(id % 10) AS l, filler AS f FROM big WHERE id <= 500 OFFSET 0) x;
CREATE FUNCTION each_item() RETURNS TABLE (n text, l text) LANGUAGE plpgsql AS $$
DECLARE r record;
BEGIN
	FOR r IN SELECT i.name, i.grp FROM near.item i WHERE random() >= 0 LOOP
		n := r.name; l := near.label_of(r.grp); RETURN NEXT;
	END LOOP;
END $$;
SELECT count(*), count(DISTINCT l), min(n), max(n) FROM each_item();
CREATE FUNCTION first_items(n int) RETURNS SETOF text LANGUAGE sql AS 'SELECT filler FROM near.big WHERE id <= n';
SELECT length(first_items(3)), count(*) FROM grp GROUP BY 1;

-- cursors: forward, backward, held, several at once, another scan in between
BEGIN;
DECLARE a CURSOR FOR SELECT id, filler FROM big;
DECLARE b CURSOR FOR SELECT id, name FROM item ORDER BY id;
FETCH 1 FROM a;
FETCH 2 FROM b;
SELECT count(*) FROM big WHERE random() >= 0;
MOVE 20000 FROM a;
FETCH 1 FROM a;
FETCH 1 FROM b;
CLOSE a;
FETCH 1 FROM b;
COMMIT;
BEGIN;
DECLARE s SCROLL CURSOR FOR SELECT id, left(filler, 3) FROM big WHERE random() >= 0;
FETCH 3 FROM s;
FETCH BACKWARD 2 FROM s;
FETCH LAST FROM s;
FETCH ABSOLUTE 10000 FROM s;
DECLARE h CURSOR WITH HOLD FOR SELECT id, left(filler, 3) FROM big ORDER BY id;
COMMIT;
FETCH 2 FROM h;
MOVE 29996 FROM h;
FETCH 3 FROM h;
CLOSE h;
-- a nested loop's outer row outlives other scans between two fetches
BEGIN;
SET LOCAL enable_hashjoin = off;
SET LOCAL enable_mergejoin = off;
DECLARE n CURSOR FOR SELECT b.filler, k.id FROM big b, local_key k WHERE b.id < 3000;
FETCH 1 FROM n;
SELECT count(*) FROM item WHERE random() >= 0;
FETCH 5 FROM n;
MOVE 14000 FROM n;
FETCH 1 FROM n;
COMMIT;

-- savepoints
BEGIN;
SELECT count(*) FROM grp;
SAVEPOINT one;
SELECT count(*) FROM item;
SAVEPOINT two;
SELECT 1 / (id - 5) FROM item WHERE id BETWEEN 4 AND 6 AND 1 / (id - 5) IS NOT NULL;
ROLLBACK TO two;
SELECT count(*) FROM big;
RELEASE two;
SELECT count(*) FROM nothing;
ROLLBACK TO one;
SELECT count(*) FROM grp;
COMMIT;
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM big;
FETCH 1 FROM c;
SAVEPOINT s;
FETCH 1 FROM c;
SELECT 1 / 0;
ROLLBACK TO s;
FETCH 1 FROM c;
SAVEPOINT s2;
DECLARE d CURSOR FOR SELECT id FROM big WHERE id > 100;
FETCH 1 FROM d;
RELEASE s2;
FETCH 1 FROM d;
FETCH 1 FROM c;
SAVEPOINT s3;
DECLARE e CURSOR FOR SELECT id FROM big WHERE id > 200;
FETCH 1 FROM e;
ROLLBACK TO s3;
FETCH 1 FROM d;
COMMIT;
-- begun by a subtransaction that is rolled back, read on by the outer one: an error, not half the rows
BEGIN;
DECLARE c CURSOR FOR SELECT id, filler FROM big;
SAVEPOINT s;
FETCH 1 FROM c;
ROLLBACK TO s;
MOVE FORWARD ALL FROM c;
ROLLBACK;
DO $$
DECLARE r record; caught int := 0; n int := 0;
BEGIN
	FOR r IN SELECT id FROM near.big WHERE random() >= 0 LOOP
		n := n + 1;
		IF n % 10000 = 0 THEN
			BEGIN
				PERFORM 1 / (grp - 3) FROM near.grp WHERE random() >= 0;
			EXCEPTION WHEN division_by_zero THEN
				caught := caught + 1;
			END;
		END IF;
	END LOOP;
	RAISE NOTICE '% rows, % errors caught', n, caught;
END $$;

-- one snapshot for the whole transaction
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM nothing;
COMMIT;
INSERT INTO far.nothing VALUES (1, 'x');
SELECT * FROM nothing;
BEGIN TRANSACTION READ ONLY;
SELECT a FROM nothing;
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT b FROM nothing;
COMMIT;

-- prepared, generic and custom plans; parameters of many types
PREPARE by_id(int) AS SELECT name FROM item WHERE id = $1;
EXECUTE by_id(1); EXECUTE by_id(2); EXECUTE by_id(3); EXECUTE by_id(4); EXECUTE by_id(5); EXECUTE by_id(6); EXECUTE by_id(7);
EXECUTE by_id(NULL);
SET plan_cache_mode = force_generic_plan;
PREPARE many(timestamptz, numeric, text, text[], interval) AS
	SELECT id, name FROM item WHERE made >= $1 + $5 AND price <= $2 AND name LIKE $3 AND tags[1] = ANY ($4);
SET datestyle = 'German, DMY';
SET intervalstyle = sql_standard;
SET extra_float_digits = -5;
EXECUTE many('29.02.2024 12:00', 100.25, 'item %', ARRAY['a3', 'a77', 'a80', 'a81', NULL, 'q"\uo,te'], '2 3:00');
RESET datestyle;
RESET intervalstyle;
PREPARE floats(float8, regclass) AS SELECT id FROM item WHERE id / 3.0::float8 = $1 AND $2 IS NOT NULL;
EXECUTE floats(1 / 3.0::float8, 'near.item');
RESET extra_float_digits;
RESET plan_cache_mode;
DEALLOCATE ALL;

-- locking
BEGIN;
SELECT id, name FROM item WHERE id = 5 FOR UPDATE;
SELECT count(*) FROM far.item WHERE id = 5;
COMMIT;

-- writing what was read
CREATE TABLE copy AS SELECT * FROM big;
INSERT INTO copy SELECT id + 30000, filler FROM big;
SELECT count(*), sum(id), count(DISTINCT filler) FROM copy;
CREATE FUNCTION check_label() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN new.filler := near.label_of(new.id % 10); RETURN new; END $$;
CREATE TRIGGER t BEFORE INSERT ON copy FOR EACH ROW EXECUTE FUNCTION check_label();
TRUNCATE copy;
INSERT INTO copy SELECT id, filler FROM big WHERE id <= 1000;
SELECT count(*), count(DISTINCT filler) FROM copy;

-- rows copied out of the receive buffers before they are looked at
ALTER FOREIGN TABLE big OPTIONS (ADD read_in_place 'false');
SELECT count(*), min(filler), max(length(filler)) FROM (SELECT * FROM big OFFSET 0) t;
ALTER FOREIGN TABLE big OPTIONS (DROP read_in_place);

-- what EXPLAIN shows
EXPLAIN (VERBOSE, COSTS OFF) SELECT name FROM item WHERE id = 5;
-- Rows as before 18, which shows fractions.
CREATE FUNCTION analyzed(options text, query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF' || options || ') ' || query LOOP
		RETURN NEXT regexp_replace(line, '(actual rows=[0-9]+)[.]00', '\1');
	END LOOP;
END $$;
SELECT analyzed('', 'SELECT name FROM item WHERE id = 5');
SELECT analyzed(', VERBOSE', 'SELECT grp FROM item WHERE id = 5');
CREATE FUNCTION explain_json(q text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE j json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, VERBOSE, COSTS OFF, TIMING OFF, SUMMARY OFF, FORMAT JSON) ' || q INTO j;
	RETURN j;
END $$;
SELECT key FROM jsonb_object_keys(near.explain_json('SELECT grp FROM near.item WHERE id = 5') -> 0 -> 'Plan') key
	WHERE key NOT LIKE '%Time' AND key IN ('Remote SQL', 'Remote Rows', 'Streams', 'Inline Streams', 'Batches', 'Bytes', 'Transport', 'Receive Buffers', 'Receive Buffer Size', 'Fragments', 'Stored Bytes')
	ORDER BY key COLLATE "C";

-- no two-phase commit
BEGIN;
SELECT count(*) FROM grp;
PREPARE TRANSACTION 'p';

-- nothing is left; the engines may take a moment to end the last streams
DO $$
BEGIN
	FOR i IN 1 .. 1200 LOOP
		EXIT WHEN NOT EXISTS (SELECT FROM rdma.stat_flows);
		PERFORM pg_sleep(0.05);
	END LOOP;
END $$;
SELECT count(*) FROM rdma.stat_flows;

\set ECHO none
RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA near CASCADE;
DROP SCHEMA far CASCADE;
DROP SERVER scan40 CASCADE;
