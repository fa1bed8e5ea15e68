-- Functions that checks, generated columns, domains and triggers of the nodes use: the nodes get them again when they are changed here.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name fch
\i :two_nodes
RESET client_min_messages;
\set SHOW_CONTEXT never
\pset format unaligned
\t on
CREATE FUNCTION there(command text) RETURNS SETOF text LANGUAGE sql AS $$ SELECT DISTINCT answer FROM rdma.run_on('fch', command) ORDER BY 1 $$;
CREATE FUNCTION sources(name text) RETURNS SETOF text LANGUAGE sql AS $$ SELECT there(format(
  'SELECT string_agg(concat_ws('' '', oid::regprocedure, provolatile, procost, prosrc), E''\n'' ORDER BY oid::regprocedure::text) FROM pg_proc WHERE proname ~ %L', name)) $$;
CREATE FUNCTION "Stamp"() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.note := 'first'; RETURN NEW; END $$;
CREATE FUNCTION small(int, numeric DEFAULT 5) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN $1 < $2; END $$;
CREATE FUNCTION twice(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN 2 * $1; END $$;
CREATE TABLE t (id int PRIMARY KEY, a int, note text, g int GENERATED ALWAYS AS (twice(id)) STORED, CONSTRAINT a_small CHECK (small(a)));
CREATE TRIGGER stamp BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION "Stamp"();
SELECT rdma.distribute_table('t', 'fch', 'id');
INSERT INTO t VALUES (1, 1) RETURNING *;
-- triggers, checks and generated columns, in the caller's transaction
CREATE OR REPLACE FUNCTION "Stamp"() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.note := 'second'; RETURN NEW; END $$;
INSERT INTO t VALUES (2, 2) RETURNING *;
BEGIN;
CREATE OR REPLACE FUNCTION "Stamp"() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.note := 'third'; RETURN NEW; END $$;
INSERT INTO t VALUES (3, 3) RETURNING *;
ROLLBACK;
INSERT INTO t VALUES (3, 3) RETURNING *;
CREATE OR REPLACE FUNCTION small(int, numeric DEFAULT 5) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN $1 < 2 * $2; END $$;
CREATE OR REPLACE FUNCTION twice(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN $1 + $1; END $$;
ALTER FUNCTION twice(int) COST 7;
INSERT INTO t VALUES (4, 8) RETURNING *;
INSERT INTO t VALUES (5, 10);
SELECT sources('^(twice|small)$');
-- names, schemas
CREATE SCHEMA "fch Other";
ALTER FUNCTION "Stamp"() RENAME TO stamp;
ALTER FUNCTION stamp() SET SCHEMA "fch Other";
ALTER FUNCTION twice(int) RENAME TO "twice as much";
SELECT sources('^([Ss]tamp|twice.*)$');
CREATE OR REPLACE FUNCTION "fch Other".stamp() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.note := 'fourth'; RETURN NEW; END $$;
INSERT INTO t VALUES (6, 6) RETURNING *;
-- what nodes do not use stays here; so does what they do not have
CREATE OR REPLACE FUNCTION small(int) RETURNS bool IMMUTABLE LANGUAGE sql AS 'SELECT true';
CREATE OR REPLACE FUNCTION small(int) RETURNS bool IMMUTABLE LANGUAGE sql AS 'SELECT false';
CREATE OR REPLACE FUNCTION unused() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE OR REPLACE FUNCTION unused() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN OLD; END';
SELECT sources('^(small|unused)$');
-- a command that runs a function does not change it
SELECT there($$CREATE OR REPLACE FUNCTION fch.small(int, numeric DEFAULT 5) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1 < 10 AND true; END'$$);
ALTER TABLE t ADD COLUMN b bool DEFAULT small(1, 5);
ALTER TABLE t DROP COLUMN b;
SELECT sources('^small$');
SET rdma_fdw.propagate_ddl = off;
CREATE OR REPLACE FUNCTION "fch Other".stamp() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.note := 'fifth'; RETURN NEW; END $$;
RESET rdma_fdw.propagate_ddl;
INSERT INTO t VALUES (7, 7) RETURNING *;
-- dropped
DROP FUNCTION unused();
DROP FUNCTION "fch Other".stamp();
DROP FUNCTION "fch Other".stamp() CASCADE;
DROP SCHEMA "fch Other" CASCADE;
DROP FUNCTION small(int, numeric);
DROP FUNCTION small(int, numeric) CASCADE;
SELECT there($$SELECT string_agg(conname, ' ' ORDER BY conname) FROM pg_constraint WHERE conrelid = 'fch.t'::regclass AND contype = 'c'$$);
INSERT INTO t VALUES (8, 1000) RETURNING *;
DROP TRIGGER stamp ON t;
DROP FUNCTION "fch Other".stamp();
-- a role has those of its tables' triggers changed that are its own, or a superuser's; with its own mapping
CREATE ROLE regress_fch;
CREATE ROLE regress_fch_other;
GRANT ALL ON SCHEMA fch TO regress_fch, regress_fch_other;
GRANT USAGE ON FOREIGN SERVER fch, fch1, fch2 TO regress_fch;
SELECT there('CREATE ROLE regress_fch_there LOGIN; SELECT rdma.grant_access(''regress_fch_there'', ''write'', ''exchange''); GRANT ALL ON SCHEMA fch TO regress_fch_there');
CREATE USER MAPPING FOR regress_fch SERVER fch1 OPTIONS (user 'regress_fch_there', password_required 'false');
CREATE USER MAPPING FOR regress_fch SERVER fch2 OPTIONS (user 'regress_fch_there', password_required 'false');
CREATE FUNCTION shared() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.note := 'shared'; RETURN NEW; END $$;
CREATE FUNCTION foreign_check(int) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN true; END';
ALTER FUNCTION foreign_check(int) OWNER TO regress_fch_other;
SELECT there('CREATE FUNCTION fch.foreign_check(int) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS ''BEGIN RETURN true; END''');
SET ROLE regress_fch;
CREATE FUNCTION own() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TABLE u (id int CHECK (foreign_check(id)), note text);
CREATE TRIGGER a BEFORE INSERT ON u FOR EACH ROW EXECUTE FUNCTION shared();
CREATE TRIGGER b BEFORE INSERT ON u FOR EACH ROW EXECUTE FUNCTION own();
SELECT rdma.distribute_table('u', 'fch', 'id');
CREATE OR REPLACE FUNCTION own() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.note := concat(NEW.note, ' and own'); RETURN NEW; END $$;
RESET ROLE;
CREATE OR REPLACE FUNCTION shared() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.note := 'shared 2'; RETURN NEW; END $$;
INSERT INTO u VALUES (1) RETURNING *;
SELECT there($$SELECT string_agg(concat(proname, ' ', proowner::regrole), ', ' ORDER BY proname) FROM pg_proc WHERE pronamespace = 'fch'::regnamespace AND proname IN ('shared', 'own', 'foreign_check')$$);
SET ROLE regress_fch_other;
CREATE OR REPLACE FUNCTION foreign_check(int) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1 > 0; END';
RESET ROLE;
SELECT there($$SELECT prosrc FROM pg_proc WHERE proname = 'foreign_check'$$);
-- not the node's own function of this name
SELECT there('ALTER FUNCTION fch.own() OWNER TO postgres');
\set VERBOSITY terse
CREATE OR REPLACE FUNCTION own() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
\set VERBOSITY default

SET client_min_messages = warning;
SELECT there('DROP TABLE fch.u');
DROP SERVER fch1, fch2, fch CASCADE;
DROP SCHEMA fch, "fch Other" CASCADE;
DROP ROLE regress_fch, regress_fch_other;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA fch, "fch Other" CASCADE;
DROP OWNED BY regress_fch_there;
DROP ROLE regress_fch_there;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA fch, "fch Other" CASCADE;
DROP OWNED BY regress_fch_there;
DROP ROLE regress_fch_there;
