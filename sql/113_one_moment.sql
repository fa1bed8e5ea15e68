-- What a statement sees of itself: its parts, in WITH and elsewhere, see what was there when it began, and so does a cursor that is read after
-- a write. A row is written once. The same over a local table, a table of one node and one of two, in both isolation levels.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name moment
\i :two_nodes
SELECT count(*) FROM rdma.run_on('moment', 'CREATE SCHEMA moment_many; CREATE SCHEMA moment_one; CREATE TABLE moment_one.coin (id int, v int); CREATE TABLE moment_one.other (id int, v int)');
CREATE SCHEMA moment_here;
CREATE SCHEMA moment_one;
CREATE SCHEMA moment_many;
CREATE TABLE moment_here.coin AS SELECT i AS id, i AS v FROM generate_series(1, 6) i;
CREATE TABLE moment_here.other AS SELECT i AS id, i * 10 AS v FROM generate_series(1, 4) i;
CREATE TABLE moment_many.coin AS TABLE moment_here.coin;
CREATE TABLE moment_many.other AS TABLE moment_here.other;
SELECT rdma.distribute_table('moment_many.coin', 'moment', 'id');
SELECT rdma.distribute_table('moment_many.other', 'moment', 'id');
CREATE FOREIGN TABLE moment_one.coin (id int, v int) SERVER moment1;
CREATE FOREIGN TABLE moment_one.other (id int, v int) SERVER moment1;
INSERT INTO moment_one.coin TABLE moment_here.coin;
INSERT INTO moment_one.other TABLE moment_here.other;

-- The rows that the statement gives, those of a cursor that was opened before it, and what is left.
CREATE FUNCTION run(place text, statement text, query text, later text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	r record;
	c refcursor;
	result text := '';
BEGIN
	PERFORM set_config('search_path', place, true);
	IF query IS NOT NULL THEN OPEN c FOR EXECUTE query; END IF;
	FOR r IN EXECUTE statement LOOP result := result || r::text || ' '; END LOOP;
	IF later IS NOT NULL THEN EXECUTE later; END IF;
	result := result || '/ ';
	LOOP
		EXIT WHEN query IS NULL;
		FETCH c INTO r;
		EXIT WHEN NOT FOUND;
		result := result || r::text || ' ';
	END LOOP;
	FOR r IN EXECUTE 'SELECT ''/ '' || string_agg(id || '':'' || v, '' '' ORDER BY id, v) AS s FROM coin' LOOP result := concat(result, r.s); END LOOP;
	FOR r IN EXECUTE 'SELECT '' / '' || string_agg(id || '':'' || v, '' '' ORDER BY id, v) AS s FROM other' LOOP result := concat(result, r.s); END LOOP;
	RAISE SQLSTATE 'ROLLB' USING MESSAGE = result;
EXCEPTION WHEN OTHERS THEN RETURN SQLERRM;
END $$;
CREATE FUNCTION same(statement text, query text DEFAULT NULL, later text DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	here text := run('moment_here', statement, query, later);
	one text := run('moment_one', statement, query, later);
	many text := run('moment_many', statement, query, later);
BEGIN
	RETURN CASE WHEN here = one AND here = many THEN here ELSE concat_ws(E'\n', 'DIFFERENT', here, one, many) END;
END $$;
\pset format unaligned
\pset tuples_only on
CREATE TABLE tests (n serial, statement text, query text, later text);
INSERT INTO tests (statement) VALUES
	('WITH m AS (INSERT INTO coin VALUES (50, 1) RETURNING id) SELECT id, (SELECT count(*) FROM coin) FROM m'),
	('WITH s AS (SELECT * FROM coin), m AS (INSERT INTO coin SELECT * FROM s) INSERT INTO coin VALUES (900, 1) RETURNING id'),
	('WITH m AS (INSERT INTO coin VALUES (60, 1), (61, 1) RETURNING id), u AS (UPDATE coin SET v = 2 WHERE id IN (SELECT id FROM m) RETURNING 1) SELECT count(*) FROM u'),
	('WITH m AS (INSERT INTO coin VALUES (7, 7), (8, 8) RETURNING id), u AS (UPDATE coin SET v = v + 1 WHERE id > 5 RETURNING id) SELECT count(*) FROM u'),
	('WITH m AS (INSERT INTO coin VALUES (7, 7) RETURNING id), d AS (DELETE FROM coin WHERE id = 7 RETURNING 1) SELECT count(*) FROM d'),
	('WITH a AS (UPDATE coin SET v = v + 1 RETURNING 1) SELECT count(*), (SELECT sum(v) FROM coin) FROM a'),
	('WITH a AS (UPDATE coin SET v = v + 1 RETURNING id, v) SELECT max(a.v - c.v) FROM a JOIN coin c USING (id)'),
	('WITH a AS (UPDATE coin SET v = v + 1 RETURNING 1), b AS (UPDATE coin SET v = v * 9 WHERE (SELECT count(*) FROM a) > 0 RETURNING 1) SELECT count(*) FROM b'),
	('WITH a AS (UPDATE coin SET v = 50 FROM generate_series(1, 3) g WHERE g = coin.id RETURNING coin.id), b AS (UPDATE coin SET v = 60 FROM generate_series(2, 5) g, (SELECT count(*) AS n FROM a) a WHERE g = coin.id AND a.n = 3 RETURNING coin.id) SELECT count(*) FROM b'),
	('WITH a AS (UPDATE coin SET v = 50 WHERE id IN (SELECT generate_series(1, 3)) RETURNING id), b AS (DELETE FROM coin WHERE id < 6 AND (SELECT count(*) FROM a) = 3 RETURNING 1) SELECT count(*) FROM b'),
	('WITH d AS (DELETE FROM coin WHERE id < 3 RETURNING id), i AS (INSERT INTO coin SELECT id, v + 100 FROM coin WHERE id < 4 AND (SELECT count(*) FROM d) = 2 RETURNING 1) SELECT count(*) FROM i'),
	('WITH b AS (UPDATE coin SET v = 99 WHERE id = 1 RETURNING id) SELECT b.id, c.v FROM b, LATERAL (SELECT * FROM coin WHERE id >= b.id ORDER BY id LIMIT 1 FOR UPDATE) c'),
	('WITH b AS (UPDATE coin SET v = 99 WHERE id = 1 RETURNING id) SELECT b.id, c.v FROM b, LATERAL (SELECT * FROM coin WHERE id = b.id FOR UPDATE) c'),
	('INSERT INTO coin VALUES (7, 0), (8, (SELECT count(*) FROM coin)), (9, (SELECT max(id) FROM coin)) RETURNING v'),
	('WITH i AS (INSERT INTO coin SELECT g, (SELECT count(*) FROM coin WHERE id <= g) FROM generate_series(7, 12) g RETURNING v) SELECT sum(v) FROM i'),
	('WITH u AS (UPDATE coin SET v = (SELECT sum(c.v) FROM coin c WHERE c.id <= coin.id AND random() >= 0) RETURNING v) SELECT sum(v) FROM u');
INSERT INTO tests (statement, query, later) VALUES
	('WITH u AS (UPDATE coin SET v = 7 RETURNING 1) SELECT count(*) FROM u', 'SELECT id, v FROM coin ORDER BY id', NULL),
	('SELECT 1', 'SELECT id, v FROM coin ORDER BY id', 'DELETE FROM coin'),
	('SELECT 1', 'SELECT id, v FROM coin ORDER BY id', 'INSERT INTO coin SELECT i, i FROM generate_series(20, 25) i'),
	('DELETE FROM other WHERE id = 1 RETURNING id', 'SELECT c.id, o.v FROM coin c JOIN other o USING (id) ORDER BY 1', 'INSERT INTO coin SELECT * FROM coin'),
	('DELETE FROM other WHERE id = 1 RETURNING id', 'WITH x AS MATERIALIZED (SELECT * FROM coin) SELECT count(*), (SELECT count(*) FROM other) FROM x', 'DELETE FROM coin');
SELECT n, same(statement, query, later) FROM tests ORDER BY n;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT n, same(statement, query, later) FROM tests ORDER BY n;
COMMIT;
-- below a savepoint that is rolled back
BEGIN;
SET LOCAL search_path = moment_many;
DECLARE c CURSOR FOR SELECT id, v FROM coin ORDER BY id;
SAVEPOINT a;
UPDATE coin SET v = 0;
FETCH 2 FROM c;
ROLLBACK TO a;
UPDATE coin SET v = 1;
FETCH FORWARD 2 FROM c;
ROLLBACK;
BEGIN;
SET LOCAL search_path = moment_many;
DECLARE c CURSOR FOR SELECT id, v FROM coin ORDER BY id;
SAVEPOINT a;
UPDATE coin SET v = 0;
ROLLBACK TO a;
UPDATE coin SET v = 1;
FETCH 2 FROM c;
ROLLBACK;
\set VERBOSITY terse
SET client_min_messages = warning;
DROP SERVER moment, moment1, moment2 CASCADE;
DROP SCHEMA moment, moment_here, moment_one, moment_many CASCADE;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA moment_one, moment_many CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA moment_one, moment_many CASCADE;
