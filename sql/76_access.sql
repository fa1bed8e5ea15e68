-- Which roles may do what for other nodes: nobody without rdma.grant_access, and who lacks it learns what to call.
\set ECHO none
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
RESET client_min_messages;
CREATE SCHEMA acc;
CREATE SCHEMA acc_here;
CREATE TABLE acc.t AS SELECT 1 AS a;
CREATE ROLE "Access user" LOGIN;
GRANT USAGE ON SCHEMA acc TO "Access user";
GRANT ALL ON acc.t TO "Access user";
DO $$ BEGIN EXECUTE format(
  'CREATE SERVER acc_srv FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host ''127.0.0.1'', port %L, dbname %L, keep_connections ''off'')',
  current_setting('port'), current_database()); END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER acc_srv OPTIONS (user 'Access user');
CREATE FOREIGN TABLE acc_here.t (a int) SERVER acc_srv OPTIONS (schema_name 'acc');
CREATE FUNCTION acc.access(OUT can text) LANGUAGE sql AS $$
  SELECT string_agg(p.proname, ' ' ORDER BY p.proname COLLATE "C") FROM pg_proc p, aclexplode(p.proacl) a
    WHERE p.pronamespace IN ('rdma'::regnamespace, 'rdma_internal'::regnamespace) AND a.grantee = '"Access user"'::regrole AND a.privilege_type = 'EXECUTE' $$;
\pset format unaligned
\pset tuples_only on
\set ECHO all

-- functions that everybody may call: none that takes bytes of other nodes, opens streams or makes an engine connect
SELECT p.proname FROM pg_proc p WHERE p.pronamespace IN ('rdma'::regnamespace, 'rdma_internal'::regnamespace) AND has_function_privilege('Access user', p.oid, 'EXECUTE') ORDER BY p.proname COLLATE "C";
SELECT acc.access();

-- the first use says what to call, and so does rdma.check
SELECT * FROM acc_here.t;
SELECT item, status, value, fix FROM rdma.check('acc_srv') WHERE item IN ('remote access', 'wire version');
SELECT rdma.grant_access('Access user', 'read');
SELECT rdma.grant_access('"Access user"', 'read');
SELECT acc.access();
SELECT * FROM acc_here.t;
INSERT INTO acc_here.t VALUES (2);
SELECT item, status, value, fix FROM rdma.check('acc_srv') WHERE item IN ('remote access', 'engine connection') AND status <> 'ok';
SELECT rdma.grant_access('"Access user"', 'write');
INSERT INTO acc_here.t VALUES (2);
SELECT rdma.grant_access('"Access user"', 'write', 'exchange');
SELECT acc.access();
SELECT item, status, value, fix FROM rdma.check('acc_srv') WHERE status = 'problem' OR item = 'remote access';
SELECT rdma.revoke_access('"Access user"', 'exchange');
SELECT acc.access();
SELECT rdma.revoke_access('"Access user"', 'read');
SELECT acc.access();
-- each kind includes reading
SELECT rdma.grant_access('"Access user"', 'exchange');
SELECT acc.access();
SELECT rdma.revoke_access('"Access user"', 'read', 'write');
SELECT rdma.grant_access('"Access user"', 'all');
SELECT rdma.grant_access('nobody', 'read');
SELECT rdma.revoke_access('"Access user"', '');
-- a role that may not grant access grants nothing
SET ROLE "Access user";
SELECT rdma.grant_access('"Access user"', 'read');
RESET ROLE;
SELECT acc.access();
-- other errors of this kind keep their own hints
SELECT rdma.grant_access('"Access user"', 'write');
REVOKE ALL ON acc.t FROM "Access user";
SELECT * FROM acc_here.t;
SELECT rdma.revoke_access('"Access user"', 'read');

-- the row at a place is locked for who may write it, and sees it
CREATE TABLE acc.hidden AS SELECT 1 AS a, 'Access user'::name AS who UNION ALL SELECT 2, 'somebody';
ALTER TABLE acc.hidden ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON acc.hidden USING (who = current_user);
GRANT SELECT ON acc.hidden TO "Access user";
SET ROLE "Access user";
SELECT rdma_internal.lock_row('acc.hidden', 'acc.hidden'::regclass, '(0,1)', false);
SELECT rdma_internal.lock_version('acc.hidden', 'acc.hidden'::regclass, '(0,1)', 'update', 'block');
RESET ROLE;
GRANT UPDATE (a) ON acc.hidden TO "Access user";
SET ROLE "Access user";
SELECT rdma_internal.lock_row('acc.hidden', 'acc.hidden'::regclass, '(0,1)', true);
SELECT rdma_internal.lock_row('acc.hidden', 'acc.hidden'::regclass, '(0,1)', false);
SELECT rdma_internal.lock_row('acc.hidden', 'acc.hidden'::regclass, '(0,2)', false);
SELECT rdma_internal.lock_row('acc.hidden', 'acc.hidden'::regclass, '(0,3)', false);
-- and for who may read and write it, where it does not exist or is hidden there is none
SELECT rdma_internal.lock_version('acc.hidden', 'acc.hidden'::regclass, '(0,1)', 'update', 'block'), rdma_internal.locked_place();
SELECT rdma_internal.lock_version('acc.hidden', 'acc.hidden'::regclass, '(0,2)', 'update', 'block'), rdma_internal.locked_place();
SELECT rdma_internal.lock_version('acc.hidden', 'acc.hidden'::regclass, '(9,1)', 'share', 'nowait');
SELECT rdma_internal.lock_version('acc.hidden', 'pg_authid'::regclass, '(0,1)', 'update', 'block');
SELECT rdma_internal.lock_version('acc.hidden', 'acc.hidden'::regclass, '(0,1)', 'forever', 'block');
RESET ROLE;
SELECT rdma_internal.lock_row('acc.hidden', 'acc.hidden'::regclass, '(0,2)', true);
SELECT rdma_internal.lock_row('acc.hidden', 'pg_authid'::regclass, '(0,1)', true);
-- no table is looked into without a lock on it, nor at places that cannot be
BEGIN;
SELECT rdma_internal.lock_row('acc.hidden', 'acc.hidden'::regclass, '(0,1)', false);
SELECT mode FROM pg_locks WHERE relation = 'acc.hidden'::regclass AND pid = pg_backend_pid() AND mode LIKE 'Row%';
COMMIT;
SELECT rdma_internal.lock_row('acc.hidden', 'acc.hidden'::regclass, '(0,0)', true);
SELECT rdma_internal.lock_version('acc.hidden', 'acc.hidden'::regclass, '(0,0)', 'update', 'block');

-- who may not write for a coordinator prepares no part of its transactions, which others would wait for
SELECT rdma.revoke_access('"Access user"', 'write');
SELECT rdma.grant_access('"Access user"', 'read');
SET ROLE "Access user";
BEGIN;
SELECT 1 FROM txid_current();
PREPARE TRANSACTION 'rdma_fdw_00000000000000aa_1_0000000000000001_76_1';
RESET ROLE;
SELECT rdma.grant_access('"Access user"', 'write');
SET ROLE "Access user";
BEGIN;
SELECT 1 FROM txid_current();
PREPARE TRANSACTION 'rdma_fdw_00000000000000aa_1_0000000000000001_76_1';
ROLLBACK PREPARED 'rdma_fdw_00000000000000aa_1_0000000000000001_76_1';
RESET ROLE;
SELECT rdma.revoke_access('"Access user"', 'read');

\set ECHO none
SET client_min_messages = warning;
DROP SERVER acc_srv CASCADE;
DROP SCHEMA acc, acc_here CASCADE;
DROP ROLE "Access user";
