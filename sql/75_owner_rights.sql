-- What belongs to a table's owner runs as the owner, in a restricted operation, with settings of its own; what a caller writes for nodes runs with the caller's search_path.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
RESET client_min_messages;
CREATE ROLE rights_owner;
CREATE SCHEMA rights AUTHORIZATION rights_owner;
CREATE SCHEMA rights_away AUTHORIZATION rights_owner;
DO $$ BEGIN EXECUTE format(
  'CREATE SERVER rights_srv FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host ''127.0.0.1'', port %L, dbname %L)',
  current_setting('port'), current_database()); END $$;
GRANT USAGE ON FOREIGN SERVER rights_srv TO rights_owner;
CREATE USER MAPPING FOR rights_owner SERVER rights_srv OPTIONS (user :'USER', password_required 'false');
CREATE USER MAPPING FOR CURRENT_USER SERVER rights_srv OPTIONS (user :'USER');

SET ROLE rights_owner;
CREATE TABLE rights.seen (who text, path text, restricted bool);
GRANT ALL ON rights.seen TO PUBLIC;
CREATE FUNCTION rights.look(v int) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
  restricted bool := false;
BEGIN
  BEGIN
    CREATE TEMPORARY TABLE rights_temp (a int);
  EXCEPTION WHEN insufficient_privilege THEN
    restricted := true;
  END;
  INSERT INTO rights.seen VALUES (current_user, current_setting('search_path'), restricted);
  PERFORM set_config('rdma_regress.trace', 'left', false);
  BEGIN
    ALTER ROLE rights_owner SUPERUSER;
  EXCEPTION WHEN insufficient_privilege THEN
    NULL;
  END;
  IF v = 7 AND current_setting('rdma_regress.fail', true) = 'on' THEN
    RAISE EXCEPTION 'refused';
  END IF;
  RETURN true;
END $$;
CREATE DOMAIN rights.odd AS int;
CREATE TABLE rights_away.t (a rights.odd);
INSERT INTO rights_away.t SELECT i % 10 FROM generate_series(1, 1000) i;
ANALYZE rights_away.t;
ALTER DOMAIN rights.odd ADD CHECK (rights.look(value)) NOT VALID;
CREATE FOREIGN TABLE rights.t (a rights.odd) SERVER rights_srv OPTIONS (schema_name 'rights_away');
RESET ROLE;

SET search_path = rights_away, public;
SELECT rdma.import_statistics('rights.t');
SELECT DISTINCT * FROM rights.seen;
TRUNCATE rights.seen;
-- the caller's own rights and settings are back, after errors as well
SELECT current_user = session_user AS same, current_setting('search_path') AS path, current_setting('rdma_regress.trace', true) AS trace;
SET rdma_regress.fail = on;
SELECT rdma.import_statistics('rights.t');
SELECT current_user = session_user AS same, current_setting('search_path') AS path, current_setting('rdma_regress.trace', true) AS trace;
RESET rdma_regress.fail;
ALTER FOREIGN TABLE rights.t OPTIONS (ADD analyze_sampling 'import');
ANALYZE rights.t;
SELECT DISTINCT who, restricted FROM rights.seen;
SELECT rolsuper FROM pg_roles WHERE rolname = 'rights_owner';

-- nor does moving an owner's table run the owner's code with another caller's rights
SET ROLE rights_owner;
CREATE FUNCTION rights.one(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN rights.look($1)::int; END';
CREATE OPERATOR rights.## (RIGHTARG = int, FUNCTION = rights.one);
CREATE TABLE rights.generated (a int, b int GENERATED ALWAYS AS (rights.one(a)) STORED);
CREATE TABLE rights.checked (a int CHECK (OPERATOR(rights.##) a > 0));
CREATE TABLE rights.indexed (a int);
CREATE INDEX ON rights.indexed (rights.one(a));
RESET ROLE;
\set SHOW_CONTEXT never
SELECT rdma.distribute_table('rights.generated', 'rights_srv');
SELECT rdma.distribute_table('rights.checked', 'rights_srv');
SELECT rdma.distribute_table('rights.indexed', 'rights_srv');
\set SHOW_CONTEXT errors

-- on the nodes a command sees what the caller's search_path says, and later statements what they were written for
CREATE TABLE rights_away.found (a int);
SELECT answer FROM rdma.run_on('rights_srv', 'SELECT to_regclass(''found'')::oid::regclass::text');
SELECT answer FROM rdma.run_on('rights_srv', 'SHOW search_path');
BEGIN;
SELECT answer FROM rdma.run_on('rights_srv', 'CREATE TABLE made (a int)');
SELECT answer FROM rdma.run_on('rights_srv', 'SET search_path = rights');
SAVEPOINT s;
SELECT answer FROM rdma.run_on('rights_srv', 'SELECT 1 FROM nowhere');
ROLLBACK TO s;
COMMIT;
SELECT to_regclass('rights_away.made');
-- also where it cannot run in a transaction block
SELECT answer FROM rdma.run_on('rights_srv', 'VACUUM found');
SELECT answer FROM rdma.run_on('rights_srv', 'VACUUM (nonsense) found');
BEGIN;
SELECT answer FROM rdma.run_on('rights_srv', 'SELECT 1');
SELECT answer FROM rdma.run_on('rights_srv', 'VACUUM found');
ROLLBACK;
CREATE FOREIGN TABLE rights.path (setting text) SERVER rights_srv OPTIONS (schema_name 'rights_away');
CREATE VIEW rights_away.path AS SELECT current_setting('search_path') AS setting;
SELECT * FROM rights.path;

-- no function of the extension takes names from the caller's search_path
-- (procedures that commit cannot have settings, and rdma.upsert runs the caller's query; they name the schema of all they use)
SELECT p.oid::regprocedure FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
  WHERE pronamespace IN ('rdma'::regnamespace, 'rdma_internal'::regnamespace) AND lanname NOT IN ('c', 'internal') AND prokind <> 'p' AND proname <> 'upsert' AND NOT coalesce(proconfig::text, '') LIKE '%search_path=pg_catalog, pg_temp%';

RESET search_path;
\set VERBOSITY terse
SET client_min_messages = warning;
DROP SERVER rights_srv CASCADE;
DROP SCHEMA rights, rights_away CASCADE;
DROP ROLE rights_owner;
