-- rdma.adopt_server: from postgres_fdw's objects to ours.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
RESET client_min_messages;

SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS postgres_fdw;
RESET client_min_messages;
CREATE SCHEMA ado_remote;
CREATE SCHEMA ado_old;
CREATE SCHEMA "ado New";
CREATE TABLE ado_remote.t (id int, "Mixed Name" text, n numeric(10,2), g int GENERATED ALWAYS AS (id * 2) STORED);
INSERT INTO ado_remote.t VALUES (1, 'one', 1.5), (2, 'two', NULL);
CREATE TABLE ado_old.same_name (a int);
DO $$ BEGIN EXECUTE format(
  'CREATE SERVER ado_pg TYPE ''sort'' VERSION ''1'' FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host ''127.0.0.1'', port %L, dbname %L, fetch_size ''500'', use_remote_estimate ''true'', extensions ''postgres_fdw'')',
  current_setting('port'), current_database()); END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER ado_pg OPTIONS (user :'USER', password 'it''s = secret');
CREATE USER MAPPING FOR PUBLIC SERVER ado_pg;
CREATE FOREIGN TABLE ado_old.t (id int NOT NULL, "text" text OPTIONS (column_name 'Mixed Name') COLLATE "C" DEFAULT 'x', n numeric(10,2), g int GENERATED ALWAYS AS (id * 2) STORED,
  CONSTRAINT positive CHECK (id > 0)) SERVER ado_pg OPTIONS (schema_name 'ado_remote', fetch_size '7', batch_size '10');
COMMENT ON FOREIGN TABLE ado_old.t IS 'a comment';
CREATE FOREIGN TABLE ado_old."Other" (a int) SERVER ado_pg OPTIONS (table_name 'same_name');
CREATE TABLE ado_old.parent (a int) PARTITION BY RANGE (a);
CREATE FOREIGN TABLE ado_old.child PARTITION OF ado_old.parent FOR VALUES FROM (0) TO (10) SERVER ado_pg OPTIONS (schema_name 'ado_old', table_name 'same_name');
CREATE FUNCTION ado_old.trig() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER tr BEFORE INSERT ON ado_old."Other" FOR EACH ROW EXECUTE FUNCTION ado_old.trig();
GRANT SELECT ON ado_old."Other" TO PUBLIC;
CREATE ROLE ado_owner;
CREATE ROLE ado_reader;
GRANT USAGE ON FOREIGN SERVER ado_pg TO ado_owner, ado_reader WITH GRANT OPTION;
GRANT SELECT (id, "text"), UPDATE (n) ON ado_old.t TO ado_reader;
GRANT INSERT, DELETE ON ado_old.t TO ado_reader WITH GRANT OPTION;
ALTER FOREIGN TABLE ado_old.t ALTER COLUMN id SET STATISTICS 333, ALTER COLUMN n SET (n_distinct = -0.5);
GRANT CREATE ON SCHEMA ado_old, "ado New" TO ado_owner;
ALTER FOREIGN TABLE ado_old.t OWNER TO ado_owner;

\set SHOW_CONTEXT never
SELECT * FROM rdma.adopt_server('ado_nix', 'ado New');
SELECT * FROM rdma.adopt_server('ado_pg', 'ado_nix');
-- an option that we do not have cannot be made with the wrapper's validator; so without it
ALTER FOREIGN DATA WRAPPER postgres_fdw NO VALIDATOR;
ALTER SERVER ado_pg OPTIONS (ADD from_the_future 'yes');
ALTER FOREIGN DATA WRAPPER postgres_fdw VALIDATOR postgres_fdw_validator;
SELECT * FROM rdma.adopt_server('ado_pg', 'ado New');
SELECT * FROM rdma.adopt_server('ado_pg_rdma', 'ado New');

SELECT srvname, srvtype, srvversion, array_length(srvoptions, 1) AS options, w.fdwname FROM pg_foreign_server s JOIN pg_foreign_data_wrapper w ON w.oid = srvfdw
  WHERE srvname LIKE 'ado%' ORDER BY 1;
SELECT usename, umoptions FROM pg_user_mappings WHERE srvname = 'ado_pg_rdma' ORDER BY umuser;
\d "ado New".t
\d "ado New"."Other"
SELECT obj_description('"ado New".t'::regclass);
-- owners, privileges and statistics targets of both are the same
CREATE FUNCTION ado_old.carried(tab regclass) RETURNS text LANGUAGE sql AS $$
  SELECT pg_get_userbyid(c.relowner) || (SELECT string_agg(format('; %s %s %s %s', coalesce(a.attname, '-'), g.grantee::regrole, g.privilege_type, g.is_grantable), '' ORDER BY a.attnum, g.grantee, g.privilege_type)
      FROM (SELECT NULL::name AS attname, 0 AS attnum, c.relacl AS acl UNION ALL SELECT attname, attnum, attacl FROM pg_attribute WHERE attrelid = tab AND attnum > 0) a, aclexplode(a.acl) g)
    || (SELECT string_agg(format('; %s %s %s', attname, nullif(attstattarget, -1), (SELECT string_agg(o.option_name || o.option_value, '') FROM pg_options_to_table(attoptions) o WHERE o.option_name LIKE 'n_%')), '' ORDER BY attnum) FROM pg_attribute WHERE attrelid = tab AND attnum > 0)
    FROM pg_class c WHERE c.oid = tab $$;
SELECT ado_old.carried('ado_old.t') = ado_old.carried('"ado New".t') AS same, ado_old.carried('"ado New".t') LIKE '%ado_reader%333%-0.5%' AS something;
SELECT srvname, array_agg(g.grantee::regrole || ' ' || g.is_grantable ORDER BY g.grantee::regrole::text COLLATE "C") FILTER (WHERE g.grantee <> s.srvowner) AS usage
  FROM pg_foreign_server s, aclexplode(s.srvacl) g WHERE srvname IN ('ado_pg', 'ado_pg_rdma') GROUP BY 1 ORDER BY 1;
SELECT * FROM "ado New".t ORDER BY id;
INSERT INTO "ado New".t (id, n) VALUES (3, 3.005);
SELECT * FROM ado_old.t EXCEPT SELECT * FROM "ado New".t;
SELECT * FROM ado_remote.t ORDER BY id;
-- twice, under another name
CREATE SCHEMA ado_again;
SELECT kind, name FROM rdma.adopt_server('ado_pg', 'ado_again', 'ado second');
SELECT count(*) FROM ado_again.t;
SELECT pg_get_userbyid(relowner) = 'ado_owner' AS owned FROM pg_class WHERE oid = 'ado_again.t'::regclass;

SET client_min_messages = warning;
DROP SERVER ado_pg CASCADE;
DROP SERVER ado_pg_rdma CASCADE;
DROP SERVER "ado second" CASCADE;
DROP SCHEMA "ado New" CASCADE;
DROP SCHEMA ado_again CASCADE;
DROP SCHEMA ado_old CASCADE;
DROP SCHEMA ado_remote CASCADE;
DROP EXTENSION postgres_fdw CASCADE;
DROP OWNED BY ado_owner, ado_reader;
DROP ROLE ado_owner, ado_reader;
