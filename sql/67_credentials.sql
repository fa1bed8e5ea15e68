-- What an ordinary user connects with: a password of his own that the data node asks for or, from 18 on, the SCRAM keys that he logged in with.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
\getenv coord RF_COORD_PORT
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
SET password_encryption = 'scram-sha-256';
CREATE ROLE cred_user LOGIN PASSWORD 'secret67';
CREATE ROLE cred_trusted LOGIN;
SELECT rdma.grant_access('cred_user', 'read');
GRANT cred_user TO cred_trusted;
CREATE SCHEMA cred;
-- the data node, which is this server, asks one role for its password; a new setting tells when it does
CREATE TABLE cred.hba AS SELECT pg_read_binary_file(current_setting('hba_file')) AS was;
CREATE FUNCTION cred.set_hba(content bytea) RETURNS void LANGUAGE plpgsql AS $$
DECLARE file oid := lo_from_bytea(0, content);
BEGIN
	PERFORM lo_export(file, current_setting('hba_file'));
	PERFORM lo_unlink(file);
END $$;
SELECT cred.set_hba('host all cred_user 127.0.0.1/32 scram-sha-256' || E'\n'::bytea || was) FROM cred.hba;
ALTER SYSTEM SET rdma_fdw.engine_address = '127.0.0.1';
SELECT pg_reload_conf();
DO $$
BEGIN
	EXECUTE format('CREATE SERVER cred_srv FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host ''127.0.0.1'', port %L, dbname %L, keep_connections ''off'')',
				   current_setting('port'), current_database());
END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER cred_srv OPTIONS (user 'postgres');
CREATE VIEW cred.setting AS SELECT current_setting('rdma_fdw.engine_address') AS value;
CREATE FOREIGN TABLE cred.new_session (value text) SERVER cred_srv OPTIONS (schema_name 'cred', table_name 'setting');
DO $$
BEGIN
	FOR i IN 1 .. 1200 LOOP
		IF (SELECT value <> '' FROM cred.new_session) THEN
			RETURN;
		END IF;
		COMMIT;
		PERFORM pg_sleep(0.05);
	END LOOP;
	RAISE EXCEPTION 'the configuration was not read again within a minute';
END $$;
CREATE VIEW cred.me AS SELECT current_user::text AS usr;
CREATE FOREIGN TABLE cred.who (usr text) SERVER cred_srv OPTIONS (schema_name 'cred', table_name 'me');
GRANT USAGE ON SCHEMA cred TO cred_user;
GRANT SELECT ON cred.me, cred.who TO cred_user;
CREATE USER MAPPING FOR cred_user SERVER cred_srv OPTIONS (user 'cred_user', password 'secret67');
\setenv PGPASSWORD secret67
\c contrib_regression cred_user 127.0.0.1 :coord
SELECT * FROM cred.who;
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
ALTER USER MAPPING FOR cred_user SERVER cred_srv OPTIONS (SET password 'wrong');
SET ROLE cred_user;
\set VERBOSITY sqlstate
SELECT * FROM cred.who;
RESET ROLE;
ALTER USER MAPPING FOR cred_user SERVER cred_srv OPTIONS (DROP password);
SET ROLE cred_user;
SELECT * FROM cred.who;
RESET ROLE;
\set VERBOSITY default
-- the keys of the session; before 18 there are none, and the password has to do
DO $$
BEGIN
	ALTER SERVER cred_srv OPTIONS (ADD use_scram_passthrough 'true');
EXCEPTION WHEN fdw_invalid_option_name THEN
	IF current_setting('server_version_num')::int >= 180000 THEN
		RAISE;
	END IF;
	ALTER USER MAPPING FOR cred_user SERVER cred_srv OPTIONS (ADD password 'secret67');
END $$;
\c contrib_regression cred_user 127.0.0.1 :coord
SELECT * FROM cred.who;
SELECT count(*) FROM cred.who a, cred.who b;
-- a user who logged in without a password has no keys
\c contrib_regression cred_trusted 127.0.0.1 :coord
SET ROLE cred_user;
DO $$
BEGIN
	PERFORM * FROM cred.who;
	IF current_setting('server_version_num')::int >= 180000 THEN
		RAISE EXCEPTION 'connected without keys';
	END IF;
EXCEPTION WHEN SQLSTATE '2F003' THEN
	IF current_setting('server_version_num')::int < 180000 THEN
		RAISE;
	END IF;
END $$;
-- a data node that does not ask for them is refused, however the server is set up
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
DO $$
BEGIN
	IF current_setting('server_version_num')::int >= 180000 THEN
		ALTER SERVER cred_srv OPTIONS (ADD require_auth 'none');
	END IF;
END $$;
ALTER USER MAPPING FOR cred_user SERVER cred_srv OPTIONS (SET user 'cred_trusted');
\c contrib_regression cred_user 127.0.0.1 :coord
DO $$
BEGIN
	PERFORM * FROM cred.who;
EXCEPTION WHEN SQLSTATE '2F003' OR SQLSTATE '08001' THEN
	RAISE NOTICE 'refused';
END $$;

\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
SELECT cred.set_hba(was) FROM cred.hba;
ALTER SYSTEM RESET rdma_fdw.engine_address;
SELECT pg_reload_conf();
DROP SERVER cred_srv CASCADE;
DROP SCHEMA cred CASCADE;
SELECT rdma.revoke_access('cred_user', 'read');
DROP ROLE cred_user, cred_trusted;
