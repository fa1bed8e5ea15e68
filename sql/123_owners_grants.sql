-- OWNER TO, REASSIGN OWNED, GRANT and REVOKE on distributed tables reach the nodes, as the roles of user mappings there.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name own
\i :two_nodes
RESET client_min_messages;
\set SHOW_CONTEXT never
\pset format unaligned
\t on
CREATE FUNCTION there(command text) RETURNS SETOF text LANGUAGE sql AS $$ SELECT DISTINCT answer FROM rdma.run_on('own', command) ORDER BY 1 $$;
-- roles with other names on the nodes; two of them are one there
CREATE ROLE regress_own_ann;
CREATE ROLE regress_own_bea;
CREATE ROLE regress_own_cid;
CREATE ROLE regress_own_dan;
CREATE ROLE regress_own_eve;
SELECT there(format('CREATE ROLE %I LOGIN', r)) FROM unnest('{regress_far_ann,"regress Far",regress_far_dan}'::text[]) r;
SELECT there('GRANT ALL ON SCHEMA own TO regress_far_ann, regress_far_dan') FROM there('CREATE SCHEMA own');
GRANT ALL ON SCHEMA own TO regress_own_ann, regress_own_bea, regress_own_cid, regress_own_dan, regress_own_eve;
GRANT USAGE ON FOREIGN SERVER own, own1, own2 TO regress_own_ann, regress_own_bea, regress_own_cid, regress_own_dan, regress_own_eve;
CREATE FUNCTION map(role text, other text) RETURNS void LANGUAGE plpgsql AS $$ DECLARE s text; BEGIN
  FOREACH s IN ARRAY '{own1,own2}'::text[] LOOP
    EXECUTE format('CREATE USER MAPPING FOR %I SERVER %I OPTIONS (user %L, password_required ''false'')', role, s, other);
  END LOOP; END $$;
SELECT there(format('SELECT rdma.grant_access(%L, ''write'')', r)) FROM unnest('{regress_far_ann,regress_far_dan}'::text[]) r;
SELECT map('regress_own_ann', 'regress_far_ann'), map('regress_own_bea', 'regress Far'), map('regress_own_cid', 'regress Far'), map('regress_own_dan', 'regress_far_dan');
CREATE FUNCTION rights(tab text) RETURNS SETOF text LANGUAGE sql AS $$ SELECT there(format(
  'SELECT pg_get_userbyid(relowner) || coalesce(E''\n'' || (SELECT string_agg(concat_ws('' '', col, role, p), E''\n'' ORDER BY col, role) FROM (SELECT col, role, string_agg(privilege_type || CASE WHEN is_grantable THEN ''*'' ELSE '''' END, '' '' ORDER BY privilege_type) AS p
      FROM (SELECT '''' AS col, CASE WHEN grantee = 0 THEN ''all'' ELSE pg_get_userbyid(grantee) END AS role, privilege_type, is_grantable FROM aclexplode(relacl) WHERE grantee <> relowner
        UNION ALL SELECT attname, pg_get_userbyid(grantee), privilege_type, is_grantable FROM pg_attribute, aclexplode(attacl) WHERE attrelid = c.oid) a GROUP BY col, role) g), '''')
    FROM pg_class c WHERE oid = %L::regclass', tab)) $$;

-- what a table has when it is distributed
CREATE TABLE t (id int PRIMARY KEY, a int, "B b" text);
GRANT SELECT ON t TO regress_own_bea, PUBLIC;
GRANT UPDATE ("B b") ON t TO regress_own_cid;
GRANT DELETE ON t TO regress_own_eve;
SELECT rdma.distribute_table('t', 'own', 'id');
SELECT rights('own.t');
-- two roles here are one there, which keeps what one of them has
GRANT SELECT, INSERT ON TABLE t TO regress_own_cid;
REVOKE SELECT ON t FROM regress_own_bea, PUBLIC;
SELECT rights('own.t');
REVOKE ALL ON t FROM regress_own_cid;
SELECT rights('own.t');
-- grant options, columns, and grants of those who have one: with their own role there
GRANT SELECT (id, a) ON t TO regress_own_bea;
GRANT SELECT ON t TO regress_own_dan WITH GRANT OPTION;
SET ROLE regress_own_dan;
GRANT SELECT ON t TO regress_own_ann;
GRANT DELETE ON t TO regress_own_ann;
RESET ROLE;
SELECT rights('own.t');
SET ROLE regress_own_bea;
GRANT SELECT ON t TO regress_own_bea;
SET ROLE regress_own_eve;
SELECT rdma_internal.role_there('t', 'own1', 'regress_own_dan'::regrole, false);
RESET ROLE;
REVOKE GRANT OPTION FOR SELECT ON t FROM regress_own_dan;
REVOKE GRANT OPTION FOR SELECT ON t FROM regress_own_dan CASCADE;
SELECT rights('own.t');
BEGIN;
GRANT ALL ON t TO regress_own_ann;
ROLLBACK;
GRANT ALL ON ALL TABLES IN SCHEMA own TO regress_own_dan;
SELECT rights('own.t');
-- a role that the nodes do not have; a role whose mapping comes later
CREATE ROLE regress_own_lost;
SELECT map('regress_own_lost', 'regress_far_lost');
GRANT SELECT ON t TO regress_own_lost;
SELECT has_table_privilege('regress_own_lost', 't', 'SELECT');
SELECT map('regress_own_eve', 'regress_far_dan');
REVOKE ALL ON t FROM regress_own_dan;
GRANT SELECT ON t TO regress_own_eve;
SELECT rights('own.t');
SET ROLE regress_own_eve;
SELECT count(*) FROM t;
RESET ROLE;
REVOKE ALL ON t FROM regress_own_bea, regress_own_eve;

-- owners; a role without rights to be the new one
ALTER TABLE t OWNER TO regress_own_ann;
SELECT rights('own.t');
SET ROLE regress_own_ann;
ALTER TABLE t ADD COLUMN c int;
GRANT SELECT ON t TO regress_own_dan;
-- 16 says it in other words
\set VERBOSITY sqlstate
ALTER TABLE t OWNER TO regress_own_dan;
RESET ROLE;
ALTER TABLE t OWNER TO regress_own_dan;
\set VERBOSITY default
SELECT there('GRANT regress_far_dan TO regress_far_ann');
REASSIGN OWNED BY regress_own_ann TO regress_own_dan;
SELECT rights('own.t'), relowner::regrole FROM pg_class WHERE oid = 't'::regclass;
GRANT SELECT ON t TO regress_own_ann;
SELECT rights('own.t');
-- a table of another role of the nodes
SELECT there('ALTER TABLE own.t OWNER TO regress_far_ann');
GRANT INSERT ON t TO regress_own_bea;
SET rdma_fdw.propagate_ddl = off;
GRANT INSERT ON t TO regress_own_bea;
RESET rdma_fdw.propagate_ddl;
SELECT there('ALTER TABLE own.t OWNER TO regress_far_dan');
-- a role's privileges go with it
DROP OWNED BY regress_own_ann, regress_own_bea;
SELECT rights('own.t');
-- somebody else's table stays as it is
SELECT there('CREATE TABLE own.victim (id int)');
GRANT ALL ON SCHEMA own TO regress_own_dan;
GRANT regress_own_eve TO regress_own_dan;
SET ROLE regress_own_dan;
CREATE FOREIGN TABLE bait (id int) SERVER own OPTIONS (table_name 'victim', propagate_ddl 'true');
GRANT ALL ON bait TO regress_own_cid;
RESET ROLE;
GRANT ALL ON bait TO regress_own_cid;
ALTER TABLE bait OWNER TO regress_own_eve;
ALTER TABLE bait OWNER TO regress_own_cid;
SELECT rights('own.victim');

SET client_min_messages = warning;
DROP SERVER own1, own2, own CASCADE;
DROP SCHEMA own CASCADE;
DROP ROLE regress_own_ann, regress_own_bea, regress_own_cid, regress_own_dan, regress_own_eve, regress_own_lost;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA own CASCADE;
DROP OWNED BY regress_far_ann, regress_far_dan;
DROP ROLE regress_far_ann, "regress Far", regress_far_dan;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA own CASCADE;
DROP OWNED BY regress_far_ann, regress_far_dan;
DROP ROLE regress_far_ann, "regress Far", regress_far_dan;
