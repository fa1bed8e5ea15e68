-- Options of server, user mapping, foreign table and column: what is accepted, what is refused and how.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
RESET client_min_messages;

-- Runs a command and reports SQLSTATE, message, detail and hint. The hint of a server or mapping lists the
-- options of whatever libpq is installed, so only its beginning is shown.
CREATE FUNCTION try(cmd text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE d text; h text;
BEGIN
  EXECUTE cmd;
  RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
  GET STACKED DIAGNOSTICS d = PG_EXCEPTION_DETAIL, h = PG_EXCEPTION_HINT;
  RETURN SQLSTATE || ' ' || SQLERRM || CASE WHEN d <> '' THEN ' DETAIL: ' || d ELSE '' END
    || CASE WHEN h <> '' THEN ' HINT: ' || left(h, 90) ELSE '' END;
END $$;

-- accepted
CREATE SERVER opt_srv FOREIGN DATA WRAPPER rdma_fdw OPTIONS (
  host '127.0.0.1', port '5432', dbname 'none', connect_timeout '3', application_name 'x', sslmode 'prefer', keepalives '1',
  use_remote_estimate 'false', fdw_startup_cost '10', fdw_tuple_cost '0.02', updatable 'true', truncatable 'false',
  fetch_size '1000', batch_size '10', async_capable 'true', parallel_commit 'true', parallel_abort 'true',
  keep_connections 'off', analyze_sampling 'random',
  receive_buffers '8', receive_buffer_size '1MB', inline_limit '32kB');
CREATE USER MAPPING FOR CURRENT_USER SERVER opt_srv OPTIONS (user 'u', password 'p', password_required 'true', sslcert 'c', sslkey 'k');
CREATE FOREIGN TABLE opt_t (a int OPTIONS (column_name 'A'), b text) SERVER opt_srv
  OPTIONS (schema_name 's', table_name 't', use_remote_estimate 'on', fetch_size '5', async_capable 'off', updatable 'off',
           truncatable 'off', analyze_sampling 'system', receive_buffers '1', receive_buffer_size '4', inline_limit '0');
ALTER SERVER opt_srv OPTIONS (SET receive_buffers '16', DROP keep_connections, SET inline_limit '64MB', SET receive_buffer_size '4096kB');
SELECT srvoptions FROM pg_foreign_server WHERE srvname = 'opt_srv';
SELECT ftoptions FROM pg_foreign_table WHERE ftrelid = 'opt_t'::regclass;

-- options of libpq that users must not set
SELECT o, try(format('ALTER SERVER opt_srv OPTIONS (ADD %I %L)', o, 'x'))
  FROM unnest('{replication,client_encoding,fallback_application_name,user,password,sslpassword}'::text[]) o;
SELECT o, try(format('ALTER USER MAPPING FOR CURRENT_USER SERVER opt_srv OPTIONS (ADD %I %L)', o, 'x'))
  FROM unnest('{host,dbname,fetch_size,table_name}'::text[]) o;
SELECT o, try(format('ALTER FOREIGN TABLE opt_t OPTIONS (ADD %I %L)', o, 'x'))
  FROM unnest('{host,user,fdw_startup_cost,extensions,column_name,keep_connections,import_default}'::text[]) o;
SELECT o, try(format('ALTER FOREIGN TABLE opt_t ALTER b OPTIONS (ADD %I %L)', o, 'x'))
  FROM unnest('{table_name,type}'::text[]) o;
SELECT try('ALTER FOREIGN DATA WRAPPER rdma_fdw OPTIONS (ADD host ''x'')');

-- the whole list where it does not depend on libpq; a misspelt option gets a suggestion
ALTER FOREIGN TABLE opt_t OPTIONS (ADD color 'red');
ALTER FOREIGN TABLE opt_t OPTIONS (ADD fetchsize '10');
ALTER FOREIGN TABLE opt_t OPTIONS (ADD recieve_bufers '4');
ALTER FOREIGN TABLE opt_t OPTIONS (ADD "Schema_Name" 's');
ALTER FOREIGN TABLE opt_t ALTER b OPTIONS (ADD column_nam 'x');
SELECT try('ALTER SERVER opt_srv OPTIONS (ADD hots ''h'')');
SELECT try('ALTER SERVER opt_srv OPTIONS (ADD inline_limits ''1kB'')');
SELECT try('ALTER USER MAPPING FOR CURRENT_USER SERVER opt_srv OPTIONS (ADD pasword ''h'')');
SET client_min_messages = warning;
SELECT left(try(format('ALTER SERVER opt_srv OPTIONS (ADD %I ''h'')', repeat('x', 300))), 40);
RESET client_min_messages;

-- values
SELECT o, v, try(format('ALTER SERVER opt_srv OPTIONS (SET %I %L)', o, v)) FROM (VALUES
  ('use_remote_estimate', 'maybe'), ('async_capable', ''), ('updatable', '2'),
  ('fdw_startup_cost', '100$'), ('fdw_startup_cost', '-1'), ('fdw_tuple_cost', 'NaN'), ('fdw_tuple_cost', '1e3'),
  ('fetch_size', '0'), ('fetch_size', '-5'), ('fetch_size', '1.5.2'), ('fetch_size', '99999999999'), ('fetch_size', '0x10'),
  ('batch_size', 'many'),
  ('analyze_sampling', 'all'), ('analyze_sampling', 'off'),
  ('receive_buffers', '0'), ('receive_buffers', '17'), ('receive_buffers', '4kB'), ('receive_buffers', '1'),
  ('receive_buffer_size', '3kB'), ('receive_buffer_size', '4097kB'), ('receive_buffer_size', '1 furlong'),
  ('receive_buffer_size', '-256kB'), ('receive_buffer_size', '99999999GB'), ('receive_buffer_size', '512'), ('receive_buffer_size', '4MB'),
  ('inline_limit', '-1'), ('inline_limit', '65MB'), ('inline_limit', '0')) AS x(o, v);
SELECT try('ALTER FOREIGN TABLE opt_t OPTIONS (SET schema_name '''')'),
       try('ALTER FOREIGN TABLE opt_t ALTER a OPTIONS (SET column_name '''')');

-- extensions: a missing one is only a warning, so that a dump can be restored
ALTER SERVER opt_srv OPTIONS (ADD extensions 'no_such_extension, plpgsql');
ALTER SERVER opt_srv OPTIONS (SET extensions 'plpgsql,,');
ALTER SERVER opt_srv OPTIONS (SET extensions 'plpgsql');

-- what only a superuser may put into a mapping
CREATE ROLE regress_rdma_user;
GRANT USAGE ON FOREIGN SERVER opt_srv TO regress_rdma_user;
SET ROLE regress_rdma_user;
CREATE USER MAPPING FOR regress_rdma_user SERVER opt_srv OPTIONS (user 'u', password_required 'false');
CREATE USER MAPPING FOR regress_rdma_user SERVER opt_srv OPTIONS (user 'u', sslkey 'k');
CREATE USER MAPPING FOR regress_rdma_user SERVER opt_srv OPTIONS (user 'u', password_required 'true', password 'p');
ALTER USER MAPPING FOR regress_rdma_user SERVER opt_srv OPTIONS (ADD sslcert 'c');
RESET ROLE;
ALTER USER MAPPING FOR regress_rdma_user SERVER opt_srv OPTIONS (SET password_required 'false');
DROP USER MAPPING FOR regress_rdma_user SERVER opt_srv;

-- servers that stand for many nodes
CREATE SERVER opt_n2 FOREIGN DATA WRAPPER rdma_fdw;
SELECT try('CREATE SERVER opt_many FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes ''opt_srv, opt_n2'', host ''h'')'),
       try('CREATE SERVER opt_many FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes '''')'),
       try('CREATE SERVER opt_many FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes ''opt_n2, opt_srv,opt_n2'')'),
       try('CREATE SERVER opt_many FOREIGN DATA WRAPPER rdma_fdw OPTIONS (compute_nodes ''opt_n2'')'),
       try('CREATE SERVER opt_many FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes ''opt_n2'', compute_nodes ''opt_srv, opt_srv'')');
CREATE SERVER opt_many FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'opt_srv, opt_n2');
CREATE FOREIGN TABLE opt_d (a int, p point) SERVER opt_many OPTIONS (distributed_by 'a', replicated 'true');
CREATE FOREIGN TABLE opt_d (a int, p point) SERVER opt_many OPTIONS (distributed_by 'a,', replicated 'false');
CREATE FOREIGN TABLE opt_d (a int, p point) SERVER opt_many OPTIONS (distributed_by 'a', replicated 'false');

SET client_min_messages = warning;
DROP SERVER opt_many CASCADE;
DROP SERVER opt_n2 CASCADE;
DROP SERVER opt_srv CASCADE;
DROP OWNED BY regress_rdma_user;
DROP ROLE regress_rdma_user;
DROP FUNCTION try(text);
