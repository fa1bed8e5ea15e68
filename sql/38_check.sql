-- rdma.check tells what is wrong and what to do, and never raises an error of its own; settings that could only fail later.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
CREATE SERVER chk_alone FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port '1', dbname 'contrib_regression');
CREATE SERVER chk_refused FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port '1', dbname 'contrib_regression');
CREATE USER MAPPING FOR postgres SERVER chk_refused OPTIONS (user 'postgres');
CREATE SERVER chk_nodes FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'chk_alone, chk_refused');
\a\t
SELECT item, fix FROM rdma.check('chk_alone') WHERE status = 'problem';
SELECT item, fix FROM rdma.check('chk_refused') WHERE status = 'problem';
SELECT item, fix FROM rdma.check('chk_nodes') WHERE status = 'problem';
SELECT item, value FROM rdma.check('chk_refused') WHERE item = 'user mapping';
CREATE USER MAPPING FOR PUBLIC SERVER chk_alone OPTIONS (user 'somebody');
SELECT item, value FROM rdma.check('chk_alone') WHERE item = 'user mapping';
-- a server that the role may not use
CREATE ROLE chk_role;
GRANT USAGE ON SCHEMA rdma TO chk_role;
GRANT EXECUTE ON FUNCTION rdma.check TO chk_role;
SET ROLE chk_role;
SELECT item, value FROM rdma.check('chk_alone') WHERE status = 'problem';
RESET ROLE;
\a\t
ALTER SYSTEM SET rdma_fdw.engine_address = 'x:yy';
ALTER SYSTEM SET rdma_fdw.engine_address = 'x:70000';
ALTER SYSTEM SET rdma_fdw.engine_address = '[::1]:';
ALTER SYSTEM SET rdma_fdw.engine_address = ':5000';
DROP SERVER chk_alone, chk_refused, chk_nodes CASCADE;
DROP OWNED BY chk_role;
DROP ROLE chk_role;
