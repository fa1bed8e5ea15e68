-- What goes wrong on the other side: remote errors with their SQLSTATE and context, wrong definitions, passwords, timeouts. After each,
-- the next query works. The server is this one, reached again over TCP.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
RESET client_min_messages;
CREATE SCHEMA far;
CREATE SCHEMA near;
SET search_path = near;
DO $$
BEGIN
	EXECUTE format('CREATE SERVER err41 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host %L, port %L, dbname %L)',
				   '127.0.0.1', current_setting('port'), current_database());
END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER err41 OPTIONS (user :'USER');
CREATE TABLE far.big (id int, filler text);
INSERT INTO far.big SELECT i, repeat(chr(97 + i % 26), 100) FROM generate_series(1, 30000) i;
CREATE VIEW far.fails_late AS SELECT id, 1 / (id - 20000) AS v, filler FROM far.big;
CREATE VIEW far.fails_soon AS SELECT id, 1 / (id - 3) AS v FROM far.big;
CREATE FUNCTION far.complain(i int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	IF i = 2 THEN
		RAISE EXCEPTION 'number % is bad', i USING ERRCODE = 'XX123', DETAIL = 'It is even.', HINT = 'Take an odd one.';
	END IF;
	RAISE WARNING 'number % is odd', i;
	RETURN i;
END $$;
CREATE VIEW far.complaints AS SELECT far.complain(id) AS i FROM far.big WHERE id <= 2;
CREATE VIEW far.sleeps AS SELECT id, pg_sleep(60) IS NULL AS slept FROM far.big;
CREATE TABLE far.mixed (n text);
INSERT INTO far.mixed VALUES ('12'), ('twelve');
IMPORT FOREIGN SCHEMA far FROM SERVER err41 INTO near;
CREATE VIEW alive AS SELECT count(*) AS rows FROM big;

-- in the middle of the rows, and before any row came inline
\set SHOW_CONTEXT always
\set VERBOSITY default
SELECT count(v), count(filler) FROM fails_late;
SELECT * FROM alive;
SELECT count(v) FROM fails_soon;
SELECT v FROM fails_late WHERE id = 20000;
-- no error if the row is not requested
SELECT id, v, length(filler) FROM fails_late LIMIT 1;
-- all fields of an error, and messages below it
SELECT * FROM complaints;
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM alive;

-- inside a savepoint, the transaction goes on with the same snapshot
BEGIN;
SELECT * FROM alive;
SAVEPOINT s;
SELECT count(v), count(filler) FROM fails_late;
ROLLBACK TO s;
SELECT * FROM alive;
SAVEPOINT s2;
SELECT * FROM complaints;
ROLLBACK TO s2;
SELECT * FROM alive;
COMMIT;
BEGIN;
SELECT count(v) FROM fails_soon;
SELECT * FROM alive;
ROLLBACK;
SELECT * FROM alive;
-- two scans, one of which fails while the other is stored
SELECT count(*) FROM (SELECT * FROM big OFFSET 0) b JOIN (SELECT * FROM fails_late OFFSET 0) f USING (id) WHERE f.v > b.id - 5;
SELECT * FROM alive;
-- a caught error
DO $$
BEGIN
	PERFORM count(v) FROM near.fails_soon;
EXCEPTION WHEN division_by_zero THEN
	RAISE NOTICE 'caught %: %', SQLSTATE, SQLERRM;
	PERFORM * FROM near.alive;
END $$;

-- definitions that do not match
CREATE FOREIGN TABLE no_table (a int) SERVER err41 OPTIONS (schema_name 'far', table_name 'none');
SELECT * FROM no_table;
CREATE FOREIGN TABLE no_column (a int) SERVER err41 OPTIONS (schema_name 'far', table_name 'big');
SELECT * FROM no_column;
CREATE FOREIGN TABLE other_type (n int) SERVER err41 OPTIONS (schema_name 'far', table_name 'mixed');
SELECT * FROM other_type;
SELECT * FROM alive;

-- timeouts reach the other side
SET statement_timeout = '300ms';
SELECT * FROM sleeps;
RESET statement_timeout;
SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND application_name LIKE 'rdma_fdw%' AND pid <> pg_backend_pid();
SELECT * FROM alive;
-- also when the scan was left early
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM sleeps WHERE random() >= 0;
SET LOCAL statement_timeout = '300ms';
FETCH 1 FROM c;
ROLLBACK;
SELECT * FROM alive;

-- read-only here is read-only there
CREATE FUNCTION far.write() RETURNS int LANGUAGE sql AS 'INSERT INTO far.mixed VALUES (now()::text) RETURNING 1';
CREATE VIEW far.writes AS SELECT far.write() AS one;
IMPORT FOREIGN SCHEMA far LIMIT TO (writes) FROM SERVER err41 INTO near;
BEGIN READ ONLY;
SELECT * FROM writes;
ROLLBACK;
SELECT count(*) FROM far.mixed;

-- who may connect without a password
CREATE ROLE regress_plain41;
GRANT USAGE ON FOREIGN SERVER err41 TO regress_plain41;
GRANT USAGE ON SCHEMA near, far TO regress_plain41;
GRANT SELECT ON ALL TABLES IN SCHEMA near TO regress_plain41;
CREATE USER MAPPING FOR regress_plain41 SERVER err41 OPTIONS (user 'postgres');
-- each major version words it like its postgres_fdw
\set VERBOSITY sqlstate
SET ROLE regress_plain41;
SELECT count(*) FROM big;
RESET ROLE;
ALTER USER MAPPING FOR regress_plain41 SERVER err41 OPTIONS (ADD password 'not asked for');
SET ROLE regress_plain41;
SELECT count(*) FROM big;
RESET ROLE;
\set VERBOSITY default
ALTER USER MAPPING FOR regress_plain41 SERVER err41 OPTIONS (ADD password_required 'false');
SET ROLE regress_plain41;
SELECT count(*) FROM big;
RESET ROLE;
-- no mapping at all
DROP USER MAPPING FOR regress_plain41 SERVER err41;
SET ROLE regress_plain41;
\set VERBOSITY sqlstate
SELECT count(*) FROM big;
\set VERBOSITY default
RESET ROLE;
-- a mapping for PUBLIC does not let everybody use a superuser's connection
DROP USER MAPPING FOR CURRENT_USER SERVER err41;
CREATE USER MAPPING FOR PUBLIC SERVER err41 OPTIONS (user 'postgres');
SELECT * FROM alive;
SET ROLE regress_plain41;
\set VERBOSITY sqlstate
SELECT count(*) FROM big;
\set VERBOSITY default
RESET ROLE;

-- changed options: the connection is made anew
ALTER SERVER err41 OPTIONS (ADD application_name 'renamed');
SELECT * FROM alive;
SELECT count(*) FROM pg_stat_activity WHERE application_name = 'renamed';
ALTER SERVER err41 OPTIONS (ADD keep_connections 'off');
SELECT * FROM alive;
DO $$
BEGIN
	FOR i IN 1 .. 1200 LOOP
		EXIT WHEN NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'renamed');
		PERFORM pg_sleep(0.05);
		PERFORM pg_stat_clear_snapshot();
	END LOOP;
END $$;
SELECT count(*) FROM pg_stat_activity WHERE application_name = 'renamed';
SET rdma_fdw.application_name = 'p%%q_%d_%u';
BEGIN;
SELECT * FROM alive;
SELECT count(*) FROM pg_stat_activity WHERE application_name = 'p%q_' || current_database() || '_' || current_user;
COMMIT;
RESET rdma_fdw.application_name;
-- no server at that port
ALTER SERVER err41 OPTIONS (SET port '1', ADD connect_timeout '5');
\set VERBOSITY terse
SELECT * FROM alive;
\echo :LAST_ERROR_SQLSTATE
\set VERBOSITY default
-- a database without the extension
CREATE DATABASE regress_bare41 TEMPLATE template0;
DO $$ BEGIN
	EXECUTE format('ALTER SERVER err41 OPTIONS (SET port %L, SET dbname %L)', current_setting('port'), 'regress_bare41');
END $$;
SELECT * FROM alive;
DO $$ BEGIN
	EXECUTE format('ALTER SERVER err41 OPTIONS (SET dbname %L)', current_database());
END $$;
SELECT * FROM alive;

-- the objects that an error is about arrive as fields, which programs look at
CREATE TABLE far.parcel (id int PRIMARY KEY, t text CONSTRAINT parcel_short CHECK (length(t) < 5), n int NOT NULL);
IMPORT FOREIGN SCHEMA far LIMIT TO (parcel) FROM SERVER err41 INTO near;
CREATE FUNCTION fields(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	schema_ text;
	table_ text;
	column_ text;
	constraint_ text;
BEGIN
	EXECUTE statement;
	RETURN 'no error';
EXCEPTION WHEN integrity_constraint_violation THEN
	GET STACKED DIAGNOSTICS schema_ = SCHEMA_NAME, table_ = TABLE_NAME, column_ = COLUMN_NAME, constraint_ = CONSTRAINT_NAME;
	RETURN format('%s: schema "%s", table "%s", column "%s", constraint "%s"', SQLSTATE, schema_, table_, column_, constraint_);
END $$;
SELECT fields('INSERT INTO parcel VALUES (1, ''a'', 1), (1, ''b'', 1)');
SELECT fields('INSERT INTO parcel VALUES (1, ''too long'', 1)');
SELECT fields('INSERT INTO parcel SELECT 1, ''a'', nullif(1, 1)');

-- a role without a user mapping
CREATE ROLE regress_unmapped41;
GRANT USAGE ON SCHEMA near TO regress_unmapped41;
GRANT SELECT ON parcel TO regress_unmapped41;
DROP USER MAPPING IF EXISTS FOR PUBLIC SERVER err41;
SET ROLE regress_unmapped41;
SELECT count(*) FROM parcel;
RESET ROLE;

-- nothing is left; the engines may take a moment to end the last streams
DO $$
BEGIN
	FOR i IN 1 .. 1200 LOOP
		EXIT WHEN NOT EXISTS (SELECT FROM rdma.stat_flows);
		PERFORM pg_sleep(0.05);
	END LOOP;
END $$;
SELECT count(*) FROM rdma.stat_flows;

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA near CASCADE;
DROP SCHEMA far CASCADE;
DROP SERVER err41 CASCADE;
DROP ROLE regress_plain41, regress_unmapped41;
DROP DATABASE regress_bare41 WITH (FORCE);
