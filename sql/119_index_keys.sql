-- Indexes, keys and constraints of distributed tables: commands that core refuses for foreign tables, on the nodes.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name ixk
\i :two_nodes
RESET client_min_messages;
\set SHOW_CONTEXT never
\pset format unaligned
\t on
CREATE FUNCTION there(command text) RETURNS SETOF text LANGUAGE sql AS $$ SELECT DISTINCT answer FROM rdma.run_on('ixk', command) ORDER BY 1 $$;
CREATE FUNCTION indexes(tab text) RETURNS SETOF text LANGUAGE sql AS $$ SELECT there(format(
  'SELECT string_agg(pg_get_indexdef(indexrelid), E''\n'' ORDER BY indexrelid::regclass::text) FROM pg_index WHERE indrelid = %L::regclass', tab)) $$;
CREATE FUNCTION keys(tab text) RETURNS SETOF text LANGUAGE sql AS $$ SELECT there(format(
  'SELECT string_agg(conname || '' '' || pg_get_constraintdef(oid), E''\n'' ORDER BY conname) FROM pg_constraint WHERE conrelid = %L::regclass AND conname <> ''rdma_placement'' AND contype <> ''n''', tab)) $$;
CREATE TABLE t (id int, a int, "B b" text, during int4range);
INSERT INTO t SELECT i, i, i, int4range(i, i + 1) FROM generate_series(1, 100) i;
SELECT rdma.distribute_table('t', 'ixk', 'id');

-- indexes, with names that core or the caller chooses
CREATE INDEX ON t (a);
CREATE INDEX ON t (a);
CREATE INDEX "An index" ON t USING btree (lower(t."B b") COLLATE "C" DESC NULLS LAST, (a + 1) int4_ops) INCLUDE (id) WITH (fillfactor = 70) WHERE a > 5 AND "B b" <> 'it''s';
CREATE INDEX CONCURRENTLY by_range ON t USING gist (during);
CREATE UNIQUE INDEX IF NOT EXISTS both_columns ON t (a, id);
CREATE INDEX IF NOT EXISTS both_columns ON t (a);
SELECT indexes('ixk.t');
-- another schema's objects are found by the caller's path, here
CREATE SCHEMA ixk_other;
CREATE FUNCTION ixk_other.twice(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1 * 2';
SET search_path = ixk_other, ixk;
SELECT there('CREATE SCHEMA IF NOT EXISTS ixk_other');
SELECT there('CREATE OR REPLACE FUNCTION ixk_other.twice(int) RETURNS int IMMUTABLE LANGUAGE sql AS ''SELECT $1 * 2''');
CREATE INDEX doubled ON t (twice(a));
SET search_path = ixk;
SELECT there($$SELECT pg_get_indexdef('ixk.doubled'::regclass)$$);
-- what core finds is wrong, is so here; nothing happens
-- (19 says where, too)
\set VERBOSITY sqlstate
CREATE INDEX ON t (nothing);
CREATE INDEX ON t USING gin (a);
CREATE INDEX ON t (random());
CREATE INDEX ON t ((SELECT 1));
\set VERBOSITY default
CREATE INDEX both_columns ON t (a);
CREATE INDEX ON t (a) TABLESPACE pg_default;
CREATE UNIQUE INDEX ON t (a);
BEGIN;
CREATE INDEX CONCURRENTLY ON t (a);
ROLLBACK;
BEGIN;
CREATE INDEX gone ON t (a);
SAVEPOINT s;
\set VERBOSITY sqlstate
CREATE INDEX ON t (a, nothing);
\set VERBOSITY default
ROLLBACK TO s;
SELECT there($$SELECT to_regclass('ixk.gone')$$);
ROLLBACK;
SELECT there($$SELECT to_regclass('ixk.gone')$$);
SELECT count(*) FROM pg_class WHERE relname = 't' AND relnamespace <> 'ixk'::regnamespace;
-- by their names
ALTER INDEX by_range RENAME TO "By range";
REINDEX INDEX "By range";
REINDEX INDEX CONCURRENTLY ixk."By range";
REINDEX TABLE t;
REINDEX TABLE CONCURRENTLY t;
DROP INDEX "By range", t_a_idx, t_a_idx1;
DROP INDEX CONCURRENTLY doubled;
DROP INDEX "An index", nothing;
DROP INDEX IF EXISTS nothing, "An index";
SELECT indexes('ixk.t');
CREATE TABLE plain (a int);
CREATE INDEX of_plain ON plain (a);
DROP INDEX both_columns, of_plain;
SELECT to_regclass('of_plain'), indexes('ixk.t');

-- keys
ALTER TABLE t ADD CONSTRAINT "the key" PRIMARY KEY (id), ADD UNIQUE (a, id) INCLUDE ("B b") DEFERRABLE INITIALLY DEFERRED, ADD COLUMN c int DEFAULT 5 CHECK (c > 0);
ALTER TABLE t ADD EXCLUDE USING hash (id WITH =);
SELECT keys('ixk.t');
SELECT attname FROM pg_attribute WHERE attrelid = 't'::regclass AND attnotnull AND attnum > 0;
INSERT INTO t (id) VALUES (5);
ALTER TABLE t ADD PRIMARY KEY (id);
ALTER TABLE t ADD UNIQUE (a);
ALTER TABLE t ADD EXCLUDE USING gist (during WITH &&);
ALTER TABLE t ADD UNIQUE USING INDEX "the key";
ALTER TABLE t ADD COLUMN d int UNIQUE;
ALTER TABLE t RENAME CONSTRAINT "the key" TO t_pkey;
ALTER TABLE t DROP CONSTRAINT t_id_excl, DROP CONSTRAINT IF EXISTS nothing, ADD COLUMN d int;
ALTER TABLE t DROP CONSTRAINT nothing;
ALTER TABLE t DROP CONSTRAINT rdma_placement;
SELECT keys('ixk.t');
CREATE TABLE r (code int, x int);
SELECT rdma.distribute_table('r', 'ixk', replicated => true);
ALTER TABLE r ADD PRIMARY KEY (code), ADD COLUMN u int NOT NULL UNIQUE DEFERRABLE;
SELECT keys('ixk.r');
-- in functions, again and again
CREATE PROCEDURE again() LANGUAGE plpgsql AS $$ BEGIN ALTER TABLE r ADD CONSTRAINT of_x UNIQUE (x), ADD z int; DROP INDEX IF EXISTS rx; CREATE INDEX rx ON r (x); ALTER TABLE r DROP CONSTRAINT of_x, DROP z; END $$;
CALL again();
CALL again();
SELECT indexes('ixk.r');
-- names of columns that differ
ALTER FOREIGN TABLE r ALTER x OPTIONS (ADD column_name 'y');
CREATE INDEX ON r (x);
ALTER FOREIGN TABLE r ALTER x OPTIONS (DROP column_name);

-- other commands that programs send
VACUUM t;
VACUUM (ANALYZE, INDEX_CLEANUP off, PARALLEL 0) t, plain;
LOCK TABLE t;
BEGIN;
LOCK TABLE ONLY t, plain IN SHARE ROW EXCLUSIVE MODE NOWAIT;
SELECT there($$SELECT count(*) FROM pg_locks WHERE relation = 'ixk.t'::regclass AND mode = 'ShareRowExclusiveLock'$$);
COMMIT;
ALTER TABLE t ADD g int GENERATED ALWAYS AS (a * 2) STORED;
COPY (SELECT * FROM t WHERE id = 7) TO STDOUT;
DELETE FROM t WHERE id <> 7;
COPY t TO STDOUT (HEADER, FORMAT csv);
COPY t ("B b", g) TO STDOUT;
COPY t (nothing) TO STDOUT;
BEGIN;
TRUNCATE t;
COPY t (id, a) FROM STDIN WITH (FREEZE, DELIMITER ',');
7,8
9,10
\.
SELECT sum(id), sum(a) FROM t;
ROLLBACK;
-- only the owner
CREATE ROLE regress_ixk;
GRANT USAGE ON SCHEMA ixk TO regress_ixk;
SET ROLE regress_ixk;
CREATE INDEX ON t (a);
ALTER TABLE t DROP CONSTRAINT t_pkey;
ALTER TABLE t ADD UNIQUE (id);
REINDEX TABLE t;
RESET ROLE;
-- here only
SET rdma_fdw.propagate_ddl = off;
CREATE INDEX ON t (a);
RESET rdma_fdw.propagate_ddl;

SET client_min_messages = warning;
DROP SERVER ixk1, ixk2, ixk CASCADE;
DROP SCHEMA ixk, ixk_other CASCADE;
DROP ROLE regress_ixk;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA ixk, ixk_other CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA ixk, ixk_other CASCADE;

-- a database without the extension has no nodes to ask
\c postgres postgres 127.0.0.1 :n1
DROP TABLE ixk_none;
DROP INDEX ixk_none;
REINDEX INDEX ixk_none;
CREATE TYPE ixk_label AS ENUM ('a');
ALTER TYPE ixk_label ADD VALUE 'b';
ALTER TYPE ixk_label RENAME VALUE 'b' TO 'c';
CREATE TABLE ixk_plain (a ixk_label);
ALTER TABLE ixk_plain ADD b int;
ALTER TABLE ixk_plain RENAME b TO c;
CREATE OR REPLACE FUNCTION ixk_one() RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE OR REPLACE FUNCTION ixk_one() RETURNS int LANGUAGE sql AS 'SELECT 2';
ALTER FUNCTION ixk_one() RENAME TO ixk_two;
GRANT SELECT ON ixk_plain TO PUBLIC;
ALTER TABLE ixk_plain OWNER TO CURRENT_USER;
CREATE FUNCTION ixk_trigger() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER ixk BEFORE INSERT ON ixk_plain FOR EACH ROW EXECUTE FUNCTION ixk_trigger();
ALTER TABLE ixk_plain DISABLE TRIGGER ixk;
VACUUM (ANALYZE) ixk_plain;
DROP TABLE ixk_plain;
DROP FUNCTION ixk_two(), ixk_trigger();
DROP TYPE ixk_label;
