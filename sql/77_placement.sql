-- Which nodes a server with nodes stands for is on record: the option's order has no meaning, other nodes are refused while there
-- are tables, records follow servers that are renamed, and a database that is another node, or none, is found when it is connected to.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name plc
\i :two_nodes
-- the server with nodes may come first, as in dumps
DROP SERVER plc, plc2 CASCADE;
CREATE SERVER plc FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'plc1, "plc 2"');
CREATE SERVER "plc 2" FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port :'n2', dbname 'contrib_regression');
CREATE USER MAPPING FOR CURRENT_USER SERVER "plc 2" OPTIONS (user 'postgres');
RESET client_min_messages;
CREATE FUNCTION on_record() RETURNS text LANGUAGE sql AS $$
  SELECT string_agg(concat_ws(' ', server, nodes, array_position(members, NULL) IS NULL), '; ' ORDER BY server) FROM rdma.placement WHERE server LIKE 'plc%' $$;
-- said(): errors without what differs from run to run
\set said :tree '/test/setup/said.sql'
\i :said
\pset format unaligned
\t on
\pset format unaligned
\pset tuples_only on

-- without tables the option may name anything
SELECT on_record();
ALTER SERVER plc OPTIONS (SET nodes 'plc1');
SELECT on_record();
ALTER SERVER plc OPTIONS (DROP nodes);
SELECT on_record() IS NULL;
ALTER SERVER plc OPTIONS (ADD nodes '"plc 2", plc1');
ALTER SERVER plc OPTIONS (SET nodes 'plc1, "plc 2"');
SELECT on_record();

-- distributing a table makes the nodes known
SELECT status, value, fix FROM rdma.check('plc') WHERE item LIKE '%node identity' ORDER BY item;
CREATE TABLE t AS SELECT i AS id, 't' || i AS t FROM generate_series(1, 1000) i;
CREATE TABLE u AS SELECT i AS id, 1001 - i AS x FROM generate_series(1, 1000) i;
SELECT rdma.distribute_table('t', 'plc', 'id');
SELECT rdma.distribute_table('u', 'plc', 'id');
SELECT on_record();
SELECT rdma.enroll_nodes('plc');
SELECT status, value, fix FROM rdma.check('plc') WHERE item LIKE '%node identity' ORDER BY item;
CREATE FUNCTION found() RETURNS text LANGUAGE sql AS $$
  SELECT count(*) || ' found, ' || (SELECT count(*) FROM t JOIN u USING (id)) || ' joined' FROM generate_series(1, 1000) g, LATERAL (SELECT * FROM t WHERE t.id = g OFFSET 0) x $$;
SELECT found();

-- the order has no meaning, other nodes are refused
ALTER SERVER plc OPTIONS (SET nodes '"plc 2", plc1');
SELECT found();
SELECT * FROM rdma.nodes('plc');
SELECT said($$ALTER SERVER plc OPTIONS (SET nodes 'plc1, "plc 2", plc3')$$);
SELECT said($$ALTER SERVER plc OPTIONS (SET nodes 'plc1')$$);
SELECT said($$ALTER SERVER plc OPTIONS (DROP nodes)$$);
SELECT said($$SELECT rdma.record_nodes('plc')$$);
SELECT said($$SELECT rdma.record_nodes('plc1')$$);
SELECT sum(misplaced) FROM rdma.check_distribution('t');

-- renamed servers are the same servers
ALTER SERVER plc RENAME TO plc_many;
ALTER SERVER plc1 RENAME TO plc3;
SELECT on_record();
SELECT said('SELECT found()');
ALTER SERVER plc_many OPTIONS (SET nodes '"plc 2", plc3');
SELECT found();
-- names that are exchanged
ALTER SERVER "plc 2" RENAME TO plc1;
ALTER SERVER plc3 RENAME TO "plc 2";
ALTER SERVER plc_many OPTIONS (SET nodes '"plc 2", plc1');
SELECT on_record();
SELECT found();
INSERT INTO t SELECT i, 'new' FROM generate_series(1001, 1100) i;
SELECT sum(misplaced) FROM rdma.check_distribution('t');

-- a prepared statement and a session go on
PREPARE one(int) AS SELECT t FROM t WHERE id = $1;
SET plan_cache_mode = force_generic_plan;
EXECUTE one(7);

-- servers that lead to each other's databases, to a database that is no node, and to one without the extension
ALTER SERVER plc1 OPTIONS (SET port :'n1');
ALTER SERVER "plc 2" OPTIONS (SET port :'n2');
EXECUTE one(7);
SELECT said('SELECT found()');
SELECT said('SELECT count(*) FROM t');
SELECT said('DELETE FROM t');
SELECT said($$INSERT INTO t SELECT i, 'wrong' FROM generate_series(2001, 2100) i$$);
SELECT item, status, value FROM rdma.check('plc_many') WHERE status = 'problem' ORDER BY item;
ALTER SERVER plc1 OPTIONS (SET port :'coord');
ALTER SERVER "plc 2" OPTIONS (SET port :'n1', SET dbname 'template1');
SELECT said('SELECT t FROM t WHERE id = 1');
SELECT said('SELECT t FROM t WHERE id = 2');
ALTER SERVER plc1 OPTIONS (SET port :'n2');
ALTER SERVER "plc 2" OPTIONS (SET port :'n1', SET dbname 'contrib_regression');
SELECT found();
EXECUTE one(7);

-- who may declare that a database has taken the place of a node, and who may not
CREATE ROLE regress_rdma_place;
GRANT USAGE ON SCHEMA plc TO regress_rdma_place;
SET ROLE regress_rdma_place;
SELECT said($$SELECT rdma.replace_node('plc_many', 'plc1')$$);
SELECT said($$SELECT rdma.record_nodes('plc_many')$$);
SELECT said($$SELECT rdma.enroll_nodes('plc_many')$$);
SELECT said($$DELETE FROM rdma.placement$$);
SELECT server FROM rdma.placement WHERE server LIKE 'plc%';
SELECT said($$SELECT rdma_internal.join_set(gen_random_uuid(), 0, 1, true)$$);
RESET ROLE;
SELECT said($$SELECT rdma.replace_node('plc_many', 'plc3')$$);
SELECT said($$SELECT rdma.replace_node('plc1', 'plc1')$$);
SELECT members AS before FROM rdma.placement WHERE server = 'plc_many' \gset
SELECT rdma.replace_node('plc_many', 'plc1');
SELECT members = :'before'::uuid[] FROM rdma.placement WHERE server = 'plc_many';
SELECT found();
-- a role that may write there does not make a node forget which one it is
SELECT set_id FROM rdma.placement WHERE server = 'plc_many' \gset
SELECT pg_catalog.count(*) FROM rdma.run_on('plc1', 'CREATE ROLE regress_rdma_place LOGIN');
SELECT pg_catalog.count(*) FROM rdma.run_on('plc1', $$SELECT rdma.grant_access('regress_rdma_place', 'write')$$);
ALTER USER MAPPING FOR CURRENT_USER SERVER plc1 OPTIONS (SET user 'regress_rdma_place');
SELECT said(format($$SELECT answer IS NOT NULL FROM rdma.run_on('plc1', 'SELECT rdma_internal.join_set(''%s'', 1, 1, true)')$$, :'set_id'));
SELECT said(format($$SELECT answer IS NOT NULL FROM rdma.run_on('plc1', 'SELECT rdma_internal.join_set(''%s'', 1, 1, false)')$$, :'set_id'));
SELECT said(format($$SELECT answer IS NOT NULL FROM rdma.run_on('plc1', 'SELECT rdma_internal.join_set(''%s'', 0, 1, false)')$$, :'set_id'));
ALTER USER MAPPING FOR CURRENT_USER SERVER plc1 OPTIONS (SET user 'postgres');
SELECT pg_catalog.count(*) FROM rdma.run_on('plc1', 'DROP OWNED BY regress_rdma_place');
SELECT pg_catalog.count(*) FROM rdma.run_on('plc1', 'DROP ROLE regress_rdma_place');

-- a copy of a node's database, which is another one
SELECT pg_catalog.count(*) FROM rdma.disconnect_all();
SELECT (rdma.run_on('plc1', $$UPDATE rdma.membership SET origin = 'another cluster' WHERE set_id::text = '$$ || (SELECT set_id FROM rdma.placement WHERE server = 'plc_many') || $$'$$)).*;
SELECT pg_catalog.count(*) FROM rdma.disconnect_all();
SELECT said('SELECT found()');
SELECT rdma.replace_node('plc_many', 'plc1');
SELECT found();
-- the tables of the nodes say the same as the record
SELECT buckets AS before FROM rdma.placement WHERE server = 'plc_many' \gset
SELECT rdma.read_placement('plc_many');
SELECT buckets = :'before'::smallint[], members IS NOT NULL FROM rdma.placement WHERE server = 'plc_many';
SELECT found();
-- and one that has missed a change of the placement
SELECT (rdma.run_on('plc1', $$UPDATE rdma.membership SET version = 0 WHERE set_id::text = '$$ || (SELECT set_id FROM rdma.placement WHERE server = 'plc_many') || $$'$$)).*;
SELECT pg_catalog.count(*) FROM rdma.disconnect_all();
SELECT said('SELECT found()');
SELECT rdma.replace_node('plc_many', 'plc1');
SELECT found();

-- and one that is older than the standby that was promoted in its place: for this session, for a new one, and if the placement is read back
UPDATE rdma.placement SET timelines = '{7,1}' WHERE server = 'plc_many';
SELECT said('SELECT found()');
SELECT pg_catalog.count(*) FROM rdma.disconnect_all();
SELECT said('SELECT found()');
SELECT said($$SELECT rdma.read_placement('plc_many')$$);
SELECT rdma.replace_node('plc_many', 'plc1');
SELECT found();
SELECT timelines FROM rdma.placement WHERE server = 'plc_many';
SELECT rdma.read_placement('plc_many');
SELECT timelines FROM rdma.placement WHERE server = 'plc_many';

-- a record that was lost, and one that a dump brings back
BEGIN;
CREATE TEMP TABLE saved AS SELECT server, set_id, version, nodes, members FROM rdma.placement WHERE server = 'plc_many';
DELETE FROM rdma.placement WHERE server = 'plc_many';
SELECT said('SELECT found()');
ALTER SERVER plc_many OPTIONS (SET nodes 'plc1, "plc 2"');
SELECT said('SELECT found()');
SELECT rdma.record_nodes('plc_many');
SELECT on_record();
INSERT INTO rdma.placement (server, set_id, version, nodes, members) SELECT * FROM saved;
SELECT on_record();
SELECT found();
ROLLBACK;
SELECT found();

-- A role that may use a server of another role makes one with nodes over it, and has the node forget that: it keeps nobody but those who
-- use its server from the node. Servers that it may not use it does not reach by one with nodes.
CREATE ROLE regress_rdma_guest;
GRANT USAGE ON FOREIGN DATA WRAPPER rdma_fdw TO regress_rdma_guest;
GRANT USAGE ON FOREIGN SERVER plc1 TO regress_rdma_guest;
CREATE USER MAPPING FOR regress_rdma_guest SERVER plc1 OPTIONS (user 'postgres', password_required 'false');
CREATE USER MAPPING FOR PUBLIC SERVER "plc 2" OPTIONS (user 'postgres', password_required 'false');
GRANT ALL ON SCHEMA plc TO regress_rdma_guest;
CREATE FOREIGN TABLE plain (id int, t text) SERVER plc1 OPTIONS (schema_name 'plc', table_name 't');
SET ROLE regress_rdma_guest;
CREATE SERVER plc_guest FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'plc1');
CREATE FOREIGN TABLE guest (id int, t text) SERVER plc_guest OPTIONS (schema_name 'plc', table_name 't', distributed_by 'id');
SELECT rdma.enroll_nodes('plc_guest');
SELECT count(*) > 0 FROM guest;
SELECT count(*) FROM rdma.placement p, rdma.run_on('plc1', format('SELECT rdma_internal.join_set(%L, -1, 0, true)', p.set_id)) WHERE p.server = 'plc_guest';
SELECT pg_catalog.count(*) > 0 FROM rdma.disconnect_all();
SELECT said('SELECT count(*) FROM guest');
RESET ROLE;
SELECT found();
SELECT count(*) > 0 FROM plain;
BEGIN;
SELECT said('SELECT count(*) FROM guest');
SELECT said('SELECT count(*) > 0 FROM plain');
ROLLBACK;
SELECT count(*) > 0 FROM plain;
SELECT found();
SELECT answer AS known FROM rdma.run_on('plc 2', 'SELECT count(*) FROM rdma.membership') \gset
SET ROLE regress_rdma_guest;
CREATE SERVER plc_other FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes '"plc 2"');
CREATE FOREIGN TABLE other (id int, t text) SERVER plc_other OPTIONS (schema_name 'plc', table_name 't', distributed_by 'id');
SELECT said($$SELECT rdma_internal.begin_change('plc_other', '{plc 2}', false, 1000)$$);
SELECT said($$SELECT rdma_internal.begin_copy('plc_other', 'plc 2', 1000)$$);
SELECT said($$SELECT rdma_internal.change_placement('plc_other', '{plc 2}', ARRAY(SELECT 0::int2 FROM generate_series(1, 840)))$$);
SELECT said($$SELECT rdma.replace_node('plc_other', 'plc 2')$$);
SELECT said($$SELECT rdma.enroll_nodes('plc_other')$$);
RESET ROLE;
SELECT answer = :'known' FROM rdma.run_on('plc 2', 'SELECT count(*) FROM rdma.membership');

-- what is dropped is forgotten
SET client_min_messages = warning;
DROP SERVER plc_guest, plc_other CASCADE;
SELECT on_record();
DROP USER MAPPING FOR PUBLIC SERVER "plc 2";
DROP OWNED BY regress_rdma_guest CASCADE;
DROP ROLE regress_rdma_guest;
DROP FOREIGN TABLE plain;
DROP SERVER plc_many CASCADE;
SELECT on_record();
CREATE SERVER plc_many FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes '"plc 2", plc1');
RESET client_min_messages;
SELECT on_record();

\set ECHO none
SET client_min_messages = warning;
DROP SERVER plc1, "plc 2", plc_many CASCADE;
DROP SCHEMA plc CASCADE;
DROP ROLE regress_rdma_place;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA plc CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA plc CASCADE;
