-- Connections: kept, closed, made anew when options change, and who may have one.
\set ECHO none
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
RESET client_min_messages;


DO $$ BEGIN EXECUTE format(
  'CREATE SERVER con_srv FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host ''127.0.0.1'', port %L, dbname %L)',
  current_setting('port'), current_database()); END $$;
CREATE SERVER con_other FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host 'nowhere.invalid');
CREATE USER MAPPING FOR CURRENT_USER SERVER con_srv OPTIONS (user :'USER');
CREATE SCHEMA con_remote;
CREATE SCHEMA con_here;
SET search_path = con_here, public;
CREATE TABLE con_remote.t (a int);
INSERT INTO con_remote.t VALUES (1);
CREATE VIEW con_remote.me AS SELECT pg_backend_pid() AS pid, current_user::text AS usr, current_setting('application_name') AS app,
  current_setting('work_mem') AS work_mem;
CREATE FOREIGN TABLE t (a int) SERVER con_srv OPTIONS (schema_name 'con_remote');
CREATE FOREIGN TABLE me (pid int, usr text, app text, work_mem text) SERVER con_srv OPTIONS (schema_name 'con_remote');
\pset format unaligned
\pset tuples_only on
\set ECHO all

-- none, one, the same again
SELECT count(*) FROM rdma.connections WHERE server_name LIKE 'con%';
SELECT pid AS first_pid FROM me \gset
SELECT pid = :first_pid AS same FROM me;
SELECT server_name, user_name, valid, used_in_xact, closed, remote_backend_pid = :first_pid AS that_one FROM rdma.connections WHERE server_name LIKE 'con%';
BEGIN;
SELECT a FROM t;
SELECT server_name, valid, used_in_xact FROM rdma.connections WHERE server_name LIKE 'con%';
SELECT rdma.disconnect('con_srv');
COMMIT;
SELECT rdma.disconnect('con_srv');
SELECT rdma.disconnect('con_srv');
SELECT rdma.disconnect('con_nix');
SELECT pid = :first_pid AS same FROM me;
SELECT rdma.disconnect_all();
SELECT count(*) FROM rdma.connections;
SELECT rdma.disconnect_all();

-- options change: at once when nothing is under way, else at the end
SELECT work_mem FROM me;
ALTER SERVER con_srv OPTIONS (ADD options '-c work_mem=12MB');
SELECT work_mem FROM me;
BEGIN;
SELECT work_mem FROM me;
ALTER SERVER con_srv OPTIONS (SET options '-c work_mem=13MB');
SELECT work_mem FROM me;
SELECT server_name, valid, used_in_xact FROM rdma.connections;
COMMIT;
SELECT count(*) FROM rdma.connections;
SELECT work_mem FROM me;
CREATE ROLE con_role LOGIN;
SELECT rdma.grant_access('con_role', 'read');
GRANT USAGE ON SCHEMA con_remote TO con_role;
GRANT SELECT ON con_remote.me TO con_role;
ALTER USER MAPPING FOR CURRENT_USER SERVER con_srv OPTIONS (SET user 'con_role');
SELECT usr FROM me;
ALTER USER MAPPING FOR CURRENT_USER SERVER con_srv OPTIONS (SET user :'USER');
DROP USER MAPPING FOR CURRENT_USER SERVER con_srv;
\set VERBOSITY sqlstate
SELECT usr FROM me;
\set VERBOSITY default
CREATE USER MAPPING FOR PUBLIC SERVER con_srv OPTIONS (user :'USER');
SELECT usr = current_user AS mine FROM me;
SELECT server_name, user_name, valid FROM rdma.connections;

-- keep_connections
ALTER SERVER con_srv OPTIONS (ADD keep_connections 'off');
SELECT a FROM t;
SELECT count(*) FROM rdma.connections;
ALTER SERVER con_srv OPTIONS (DROP keep_connections);

-- application_name, with escapes
SET rdma_fdw.application_name = 'rdma %a at %d, 100%% of %u%z';
SET application_name = 'con test';
SELECT app = format('rdma con test at %s, 100%% of %s', current_database(), session_user) AS as_escaped FROM me;
SELECT rdma.disconnect('con_srv');
SET rdma_fdw.application_name = '%p %c %C';
SELECT app LIKE pg_backend_pid() || ' %.' || to_hex(pg_backend_pid()) || ' ' || current_setting('cluster_name') AS as_escaped FROM me;
SELECT rdma.disconnect('con_srv');
-- the server's, too, where the setting is empty or becomes so
ALTER SERVER con_srv OPTIONS (ADD application_name 'server''s %a 100%%');
SET rdma_fdw.application_name = '%z';
SELECT app FROM me;
SELECT rdma.disconnect('con_srv');
RESET rdma_fdw.application_name;
SELECT app FROM me;
ALTER SERVER con_srv OPTIONS (DROP application_name);
RESET application_name;

-- broken between transactions: made anew; inside one: an error, and then anew
SELECT pid AS victim FROM me \gset
SELECT pg_terminate_backend(:victim, 60000);
SELECT closed FROM rdma.connections;
SELECT pid <> :victim AS another FROM me;
SELECT pid AS victim FROM me \gset
BEGIN;
SELECT a FROM t;
SELECT pg_terminate_backend(:victim, 60000);
\set VERBOSITY sqlstate
SELECT a FROM t;
ROLLBACK;
BEGIN;
SELECT pid AS victim FROM me \gset
INSERT INTO t VALUES (2);
SELECT pg_terminate_backend(:victim, 60000);
SAVEPOINT s;
INSERT INTO t VALUES (3);
ROLLBACK TO s;
SELECT a FROM t;
COMMIT;
BEGIN;
SELECT pid AS victim FROM me \gset
INSERT INTO t VALUES (4);
SELECT pg_terminate_backend(:victim, 60000);
COMMIT;
\set VERBOSITY default
SELECT a FROM t ORDER BY a;

-- no such host; no such database: the SQLSTATE says that there is no connection
CREATE USER MAPPING FOR CURRENT_USER SERVER con_other;
CREATE FOREIGN TABLE other (a int) SERVER con_other;
\set VERBOSITY sqlstate
SELECT * FROM other;
ALTER SERVER con_other OPTIONS (SET host '127.0.0.1', ADD dbname 'no such database');
DO $$ BEGIN EXECUTE format('ALTER SERVER con_other OPTIONS (ADD port %L)', current_setting('port')); END $$;
SELECT * FROM other;
\set VERBOSITY default

-- passwords: an ordinary user's mapping must have one that is asked for
CREATE ROLE con_user;
GRANT USAGE ON SCHEMA con_here TO con_user;
GRANT SELECT ON t, me TO con_user;
GRANT USAGE ON FOREIGN SERVER con_srv TO con_user;
SET ROLE con_user;
\set VERBOSITY sqlstate
SELECT usr FROM me;
CREATE USER MAPPING FOR con_user SERVER con_srv OPTIONS (user 'con_role', password 'x');
SELECT usr FROM me;
\set VERBOSITY default
ALTER USER MAPPING FOR con_user SERVER con_srv OPTIONS (ADD password_required 'false');
ALTER USER MAPPING FOR con_user SERVER con_srv OPTIONS (ADD sslkey 'x');
RESET ROLE;
ALTER USER MAPPING FOR con_user SERVER con_srv OPTIONS (ADD password_required 'false');
SET ROLE con_user;
SELECT usr FROM me;
ALTER USER MAPPING FOR con_user SERVER con_srv OPTIONS (SET password 'y');
SELECT usr FROM me;
SELECT server_name, user_name FROM rdma.connections ORDER BY 2;
SELECT rdma.disconnect_all();
RESET ROLE;

SET client_min_messages = warning;
-- as long as the transaction lasts, connections outlive their mapping and their server
BEGIN;
SELECT count(*) FROM me;
DROP SERVER con_srv CASCADE;
SELECT server_name, user_name, valid, used_in_xact, closed FROM rdma.connections ORDER BY 1, 2;
ROLLBACK;
SELECT count(*) FROM rdma.connections;
DROP SERVER con_srv CASCADE;
DROP SERVER con_other CASCADE;
SELECT count(*) FROM rdma.connections;
DROP SCHEMA con_here CASCADE;
DROP SCHEMA con_remote CASCADE;
DROP ROLE con_user;
SELECT rdma.revoke_access('con_role', 'read');
DROP ROLE con_role;
