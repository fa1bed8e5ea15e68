-- UPDATE of a distribution key: rows move to the nodes where their new keys belong. Everything is done to a local copy,
-- too.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name uk
\i :two_nodes
\pset format unaligned
\pset tuples_only on
SELECT node FROM rdma.run_on('uk', 'CREATE SCHEMA uk');

CREATE TABLE t (id int PRIMARY KEY, v text, n numeric(8,2) DEFAULT 1, a int[], s int GENERATED ALWAYS AS (length(v)) STORED);
INSERT INTO t SELECT i, 'v' || i, i / 4.0, ARRAY[i, -i] FROM generate_series(1, 1000) i;
ALTER TABLE t DROP COLUMN n;
ALTER TABLE t ADD COLUMN n numeric(8,2) DEFAULT 1;
CREATE TABLE two (a text, b int, v int);
INSERT INTO two SELECT nullif('a' || i % 7, 'a3'), i, i FROM generate_series(1, 200) i;
CREATE TABLE local_t (LIKE t INCLUDING GENERATED INCLUDING DEFAULTS);
INSERT INTO local_t (id, v, a, n) SELECT id, v, a, n FROM t;
CREATE TABLE local_two AS TABLE two;
SELECT rdma.distribute_table('t', 'uk', 'id'), rdma.distribute_table('two', 'uk', 'a, b');

CREATE TABLE l AS SELECT -i AS id FROM generate_series(150, 300) i;

-- does the statement write as many rows as on a local copy, and is the same in the tables then?
CREATE FUNCTION same(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE here bigint; there bigint; other bigint;
BEGIN
	EXECUTE regexp_replace(statement, '\m(t|two)\M', 'local_\1', 'g');
	GET DIAGNOSTICS here = ROW_COUNT;
	EXECUTE statement;
	GET DIAGNOSTICS there = ROW_COUNT;
	SELECT count(*) INTO other FROM (
		(SELECT id, v, a, s, n FROM t EXCEPT ALL TABLE local_t) UNION ALL (TABLE local_t EXCEPT ALL SELECT id, v, a, s, n FROM t)) d;
	SELECT other + count(*) INTO other FROM ((TABLE two EXCEPT ALL TABLE local_two) UNION ALL (TABLE local_two EXCEPT ALL TABLE two)) d;
	RETURN format('%s rows, %s', there, CASE WHEN here = there AND other = 0 THEN 'same' ELSE format('%s rows here, %s other rows', here, other) END);
END $$;
-- rows of t that one finds by their keys, one by one
CREATE FUNCTION found(tab text, key text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE k text; rows bigint := 0; n bigint; all_rows bigint;
BEGIN
	FOR k IN EXECUTE format('SELECT %I::text FROM local_%I ORDER BY 1', key, tab) LOOP
		EXECUTE format('SELECT count(*) FROM %I WHERE %I = %L', tab, key, k) INTO n;
		rows := rows + n;
	END LOOP;
	EXECUTE format('SELECT count(*) FROM %I', tab) INTO all_rows;
	RETURN format('%s of %s', rows, all_rows);
END $$;

EXPLAIN (VERBOSE, COSTS OFF) UPDATE t SET id = id + 1000 WHERE v LIKE 'v1%';

SELECT same('UPDATE t SET id = 5000 WHERE id = 17');
SELECT same('UPDATE t SET id = id + 10000, v = v || ''+'' WHERE id % 3 = 0');
SELECT same('UPDATE t SET id = -id');
SELECT same('UPDATE t SET id = id WHERE id < -500');
SELECT same('UPDATE t SET id = id - 1, n = DEFAULT, a = NULL WHERE false');
SELECT same('UPDATE two SET b = b + 1');
SELECT same('UPDATE two SET a = NULL WHERE b > 100');
SELECT same('UPDATE two SET (a, b) = (SELECT ''n'' || count(*), two.b + 1) FROM l WHERE l.id = -two.b');
SELECT same('UPDATE two SET a = coalesce(a, ''was null'') || b');
SELECT found('t', 'id'), found('two', 'b');
SELECT * FROM rdma.check_distribution('t');
SELECT * FROM rdma.check_distribution('two');

-- prepared, and undone
PREPARE rename(int, int) AS UPDATE t SET id = $2 WHERE id = $1;
EXECUTE rename(-1, 2000001);
EXECUTE rename(2000001, 2000002);
EXECUTE rename(2000003, 1);
BEGIN;
SAVEPOINT a;
EXECUTE rename(2000002, 2000004);
SELECT id FROM t WHERE id > 2000000 AND id < 2000100;
ROLLBACK TO a;
SELECT id FROM t WHERE id > 2000000 AND id < 2000100;
EXECUTE rename(2000002, -1);
COMMIT;
SELECT same('UPDATE t SET id = id WHERE id = -1');

-- a key that is taken, and a row that another row takes the place of
UPDATE t SET id = -2 WHERE id = -4;
SELECT same('UPDATE t SET id = -5 - id WHERE id IN (-1, -4)');
SELECT same('UPDATE t SET v = v WHERE id = -2');

-- each row once, however often a scan starts
CREATE TABLE several (id int, by int);
INSERT INTO several SELECT -i, 100000 FROM generate_series(20, 40) i;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SELECT same('UPDATE t SET id = t.id + s.by FROM several s WHERE s.id = t.id');
SELECT same('UPDATE t SET id = t.id + 1000000 FROM several s WHERE s.id + 100000 = t.id OR s.id = -20');
SELECT same('UPDATE t SET id = t.id + 20000 FROM several s, several s2 WHERE s.id + 1100000 = t.id AND s2.id < -38');
RESET enable_hashjoin;
RESET enable_mergejoin;
RESET enable_material;
SELECT same('WITH moved AS (UPDATE t SET id = id + 70000 WHERE id > 1000000) UPDATE two SET b = b + 1, a = ''x'' WHERE b < 50');
SELECT found('t', 'id');

-- what cannot be: nobody is given what the nodes make of the rows
UPDATE t SET id = id + 1 WHERE v = 'v2' RETURNING id;
CREATE VIEW negative AS SELECT * FROM t WHERE id < 0 WITH CHECK OPTION;
UPDATE negative SET id = 1 WHERE v = 'v2';
CREATE FUNCTION hear() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE '% to %', OLD.id, NEW.id; RETURN NEW; END $$;
SET rdma_fdw.propagate_ddl = off;
CREATE TRIGGER after_row AFTER UPDATE ON t FOR EACH ROW EXECUTE FUNCTION hear();
UPDATE t SET id = 1 WHERE v = 'v2';
DROP TRIGGER after_row ON t;
CREATE TRIGGER before_row BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION hear();
RESET client_min_messages;
UPDATE t SET id = -3000000 WHERE v = 'v2';
UPDATE local_t SET id = -3000000 WHERE v = 'v2';
SET client_min_messages = warning;
DROP TRIGGER before_row ON t;
RESET rdma_fdw.propagate_ddl;
SELECT same('UPDATE t SET v = v WHERE id = -3000000');
-- a node's trigger leaves rows out
SELECT node FROM rdma.run_on('uk', 'CREATE FUNCTION uk.none() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN RETURN NULL; END $f$');
SELECT node FROM rdma.run_on('uk', 'CREATE TRIGGER none BEFORE INSERT ON uk.t FOR EACH ROW EXECUTE FUNCTION uk.none()');
UPDATE t SET id = 20000000 WHERE v = 'v5';
UPDATE t SET id = 20000001 WHERE v = 'v5';
UPDATE t SET id = 20000002 WHERE v = 'v5';
UPDATE local_t SET id = (SELECT id FROM t WHERE v = 'v5') WHERE v = 'v5';
SELECT node FROM rdma.run_on('uk', 'DROP TRIGGER none ON uk.t');
SELECT node FROM rdma.run_on('uk', 'CREATE TRIGGER none BEFORE DELETE ON uk.t FOR EACH ROW EXECUTE FUNCTION uk.none()');
BEGIN;
SELECT count(*) AS before FROM t;
WITH u AS (UPDATE t SET id = id + 10000000) SELECT;
SELECT count(*) AS after, count(*) FILTER (WHERE id < 5000000) > 300 AS stayed, count(*) FILTER (WHERE id > 5000000) > 300 AS changed FROM t;
ROLLBACK;
SELECT node FROM rdma.run_on('uk', 'DROP TRIGGER none ON uk.t');
-- a deletion would reach other tables
SELECT node FROM rdma.run_on('uk', 'CREATE TABLE uk.child (id int REFERENCES uk.t ON DELETE CASCADE ON UPDATE CASCADE)');
UPDATE t SET id = 30000000 WHERE v = 'v5';
UPDATE t SET id = 30000001 WHERE v = 'v5';
UPDATE t SET id = 30000002 WHERE v = 'v5';
UPDATE local_t SET id = (SELECT id FROM t WHERE v = 'v5') WHERE v = 'v5';
SELECT node FROM rdma.run_on('uk', 'DROP TABLE uk.child');
SELECT same('UPDATE t SET id = id + 10000000');

-- Types of keys keep their columns, here and on the nodes, however a key contains them: else rows would belong to other nodes
-- than those that have them.
CREATE TYPE place AS (street text, number text);
CREATE TABLE rows_of (a int, b text);
CREATE TYPE part AS (x int, y int);
CREATE DOMAIN parts AS part[];
CREATE TYPE whole AS (p parts, t text);
CREATE TYPE unused AS (w int, p place);
SELECT node FROM rdma.run_on('uk', 'CREATE TYPE uk.place AS (street text, number text)');
SELECT node FROM rdma.run_on('uk', 'CREATE TABLE uk.rows_of (a int, b text)');
SELECT node FROM rdma.run_on('uk', 'CREATE TYPE uk.part AS (x int, y int)');
SELECT node FROM rdma.run_on('uk', 'CREATE DOMAIN uk.parts AS uk.part[]');
SELECT node FROM rdma.run_on('uk', 'CREATE TYPE uk.whole AS (p uk.parts, t text)');
CREATE TABLE parcel (at place, n int);
INSERT INTO parcel SELECT row('Road ' || i, 'a')::place, i FROM generate_series(1, 30) i;
CREATE TABLE others (n int, r rows_of, w whole);
SELECT rdma.distribute_table('parcel', 'uk', 'at'), rdma.distribute_table('others', 'uk', 'r, w');
ALTER TYPE place ADD ATTRIBUTE floor text;
\set VERBOSITY terse
ALTER TYPE place DROP ATTRIBUTE number;
-- core refuses these itself in some versions
\set VERBOSITY sqlstate
ALTER TYPE place ALTER ATTRIBUTE number TYPE int;
ALTER TYPE place ALTER ATTRIBUTE number TYPE text COLLATE "C";
\set VERBOSITY terse
ALTER TABLE rows_of ADD COLUMN c int;
ALTER TABLE rows_of DROP COLUMN b;
ALTER TYPE part ADD ATTRIBUTE z int;
ALTER TYPE whole DROP ATTRIBUTE t;
SET rdma_fdw.propagate_ddl = off;
ALTER TYPE whole ADD ATTRIBUTE u int;
RESET rdma_fdw.propagate_ddl;
SELECT node FROM rdma.run_on('uk', 'ALTER TYPE uk.place ADD ATTRIBUTE floor text');
SELECT node FROM rdma.run_on('uk', 'ALTER TABLE uk.rows_of ADD COLUMN c int');
-- names may change, and types that no key contains
ALTER TYPE place RENAME ATTRIBUTE number TO nr;
ALTER TYPE unused ADD ATTRIBUTE q int;
ALTER TABLE others ADD COLUMN m int;
UPDATE parcel SET at.nr = 'b' WHERE n < 20;
SELECT count(*), count(DISTINCT n), count(*) FILTER (WHERE (at).nr = 'b') FROM parcel;
SELECT rdma.undistribute_table('parcel');
ALTER TYPE place ADD ATTRIBUTE floor text;

\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
DROP SCHEMA uk CASCADE;
SELECT node FROM rdma.run_on('uk', 'DROP SCHEMA uk CASCADE');
DROP SERVER uk, uk1, uk2 CASCADE;
