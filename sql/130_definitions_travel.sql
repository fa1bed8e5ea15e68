-- Definitions of tables that travel between servers: legitimate ones arrive as they are, and what a node or another role writes has no
-- code run with the caller's rights. The third node is another database of the second one's cluster; it is the one in wrong hands.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name def
\set third regress_rdma_definitions
\i :two_nodes
\set said :tree '/test/setup/said.sql'
\i :said
\set guest_code :tree '/test/setup/guest_code.sql'
\i :guest_code
\set ECHO none
CREATE SCHEMA "def ""weird"" s";
CREATE FUNCTION mine(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1';
RESET client_min_messages;
\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only on
\set ECHO all

-- ---------- legitimate definitions travel ----------
CREATE DOMAIN positive AS int CHECK (value > 0);
CREATE TYPE mood AS ENUM ('bad', 'good');
SELECT count(*) FROM rdma.run_on('def', 'CREATE SCHEMA def');
SELECT count(*) FROM rdma.run_on('def', 'CREATE DOMAIN def.positive AS int CHECK (value > 0)');
SELECT count(*) FROM rdma.run_on('def', $$CREATE TYPE def.mood AS ENUM ('bad', 'good')$$);
SELECT count(*) FROM rdma.run_on('def 3', 'CREATE SCHEMA def');
SELECT count(*) FROM rdma.run_on('def 3', 'CREATE DOMAIN def.positive AS int CHECK (value > 0)');
SELECT count(*) FROM rdma.run_on('def 3', $$CREATE TYPE def.mood AS ENUM ('bad', 'good')$$);
CREATE TABLE "def ""weird"" s"."T ""x"" y" (
  "K k" int NOT NULL, "n""q" numeric(10, 2) DEFAULT 1.5, v varchar(20) COLLATE "C" DEFAULT 'it''s \ "x"', ch char(3), ts timestamptz(3) DEFAULT now(), iv interval day to second(2), arr int[], names text[], d positive, m mood DEFAULT 'good', b bit(3), j jsonb,
  g text GENERATED ALWAYS AS (upper(v) || 'x') STORED, h numeric(12, 3) GENERATED ALWAYS AS ("n""q" * 2) STORED,
  CONSTRAINT "check ""it""" CHECK ("n""q" >= 0 AND v <> 'no''no'), CHECK (ts < now() + interval '10 years'), CHECK (m IN ('bad', 'good')),
  PRIMARY KEY ("K k"), EXCLUDE USING btree ("K k" WITH =, v WITH =) WHERE (d > 5));
CREATE INDEX "i ""q""" ON "def ""weird"" s"."T ""x"" y" (lower(v) DESC NULLS LAST, "K k") INCLUDE (ts) WHERE m = 'good' AND "n""q" > 0.5;
CREATE INDEX ON "def ""weird"" s"."T ""x"" y" USING gin (arr, j jsonb_path_ops);
CREATE INDEX ON "def ""weird"" s"."T ""x"" y" USING hash (v);
CREATE INDEX ON "def ""weird"" s"."T ""x"" y" ((j ->> 'a'), (d + 1));
CREATE STATISTICS "def ""weird"" s"."st ""1""" ON v, m, lower(v) FROM "def ""weird"" s"."T ""x"" y";
COMMENT ON TABLE "def ""weird"" s"."T ""x"" y" IS 'it''s "one"';
INSERT INTO "def ""weird"" s"."T ""x"" y" ("K k", v, ch, iv, arr, names, d, m, b, j) SELECT i, 'v' || i, 'c', '1 day', ARRAY[i, 2], ARRAY['a"b', NULL], 1 + i % 7, CASE WHEN i % 2 = 0 THEN 'bad' ELSE 'good' END::mood, '101', jsonb_build_object('a', i) FROM generate_series(1, 300) i;
CREATE TABLE was AS SELECT * FROM "def ""weird"" s"."T ""x"" y";
CREATE FUNCTION described() RETURNS SETOF text LANGUAGE sql SET search_path = pg_catalog AS $$
  SELECT unnest(rdma_internal.table_statements(c.oid) || rdma_internal.index_statements(c.oid)) FROM pg_class c WHERE relname = 'T "x" y' $$;
CREATE TABLE was_described AS SELECT described() AS line;
CREATE FUNCTION same() RETURNS text LANGUAGE sql AS $$ SELECT concat_ws(' ', count(*), (SELECT count(*) FROM "def ""weird"" s"."T ""x"" y")) FROM (TABLE "def ""weird"" s"."T ""x"" y" EXCEPT ALL TABLE was) d $$;
SELECT rdma.distribute_table('"def ""weird"" s"."T ""x"" y"', 'def', '"K k"');
SELECT same();
SELECT rdma.add_node('def', 'def 3');
-- each node has what was here
SELECT node, answer FROM rdma.run_on('def', format($$SELECT count(*) || ' of ' || %s FROM unnest(rdma_internal.table_statements('"def ""weird"" s"."T ""x"" y"') || rdma_internal.index_statements('"def ""weird"" s"."T ""x"" y"')) s WHERE s = ANY (%L::text[])$$, (SELECT count(*) FROM was_described), (SELECT array_agg(line) FROM was_described)));
SELECT rdma.move_buckets('def', 'def1', 'def 3', ARRAY(SELECT generate_series(0, 400, 2))) > 0;
CALL rdma.rebalance('def', rest => 0);
SELECT same(), (SELECT sum(misplaced) FROM rdma.check_distribution('"def ""weird"" s"."T ""x"" y"'));
SELECT rdma.alter_distribution('"def ""weird"" s"."T ""x"" y"', '"K k"');
SELECT same();
SELECT rdma.undistribute_table('"def ""weird"" s"."T ""x"" y"');
SELECT same();
SELECT described() EXCEPT SELECT line FROM was_described;
SELECT line FROM was_described EXCEPT SELECT described();
INSERT INTO "def ""weird"" s"."T ""x"" y" ("K k") VALUES (1000) RETURNING "n""q", v, ts < now() + interval '1 s' AS now, m, g;

-- ---------- a node in wrong hands, and a role here ----------
-- an index there whose function is the role's here
CREATE TABLE seed (a int PRIMARY KEY, b int);
INSERT INTO seed SELECT i, i FROM generate_series(1, 40) i;
SELECT rdma.distribute_table('seed', 'def', 'a');
SELECT count(*) FROM rdma.run_on('def', 'CREATE SCHEMA guest');
SELECT count(*) FROM rdma.run_on('def', $$CREATE FUNCTION guest.f(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1'$$);
SELECT count(*) FROM rdma.run_on('def', $$CREATE FUNCTION guest.ok(int) RETURNS bool IMMUTABLE LANGUAGE sql AS 'SELECT true'$$);
SELECT count(*) FROM rdma.run_on('def', 'CREATE INDEX by_f ON def.seed (guest.f(a))');
SELECT count(*) FROM rdma.run_on('def', 'CREATE INDEX harmless ON def.seed (abs(a))');
BEGIN;
SELECT rdma.undistribute_table('seed');
SELECT indexrelid::regclass FROM pg_index WHERE indrelid = 'seed'::regclass ORDER BY 1;
SELECT rolsuper FROM pg_roles WHERE rolname = 'regress_def_guest';
ROLLBACK;
BEGIN;
SELECT count(*) FROM rdma.run_on('def', 'CREATE UNIQUE INDEX by_f_once ON def.seed (a, guest.f(b))');
SELECT said($$SELECT rdma.undistribute_table('seed')$$);
ROLLBACK;
BEGIN;
SELECT count(*) FROM rdma.run_on('def', 'ALTER TABLE def.seed ADD CONSTRAINT checked CHECK (guest.ok(a))');
SELECT said($$SELECT rdma.undistribute_table('seed')$$);
ROLLBACK;
BEGIN;
SELECT count(*) FROM rdma.run_on('def', 'ALTER TABLE def.seed ADD CONSTRAINT excluded EXCLUDE (a WITH =) WHERE (guest.ok(b))');
SELECT said($$SELECT rdma.undistribute_table('seed')$$);
ROLLBACK;
SELECT rolsuper FROM pg_roles WHERE rolname = 'regress_def_guest';

SELECT rdma.undistribute_table('seed');
CREATE TABLE narrow AS SELECT i AS a FROM generate_series(1, 40) i;
SELECT rdma.distribute_table('narrow', 'def', 'a');
-- the node says of a column what would be a command here
\c regress_rdma_definitions postgres 127.0.0.1 :n2
SET allow_system_table_mods = on;
ALTER FUNCTION pg_catalog.format_type(oid, integer) RENAME TO true_format_type;
CREATE FUNCTION pg_catalog.format_type(oid, integer) RETURNS text LANGUAGE sql AS $$ SELECT 'int) SERVER "def 3" OPTIONS (schema_name ''def'', table_name ''narrow''); DROP FOREIGN TABLE IF EXISTS pg_temp.zz; DROP ROLE IF EXISTS regress_def_risen; CREATE ROLE regress_def_risen SUPERUSER; CREATE FOREIGN TABLE pg_temp.zz (a int' $$;
\c contrib_regression postgres 127.0.0.1 :coord
SET search_path = def;
\set SHOW_CONTEXT never
SELECT said($$SELECT rdma.move_buckets('def', 'def 3', 'def1', ARRAY(SELECT place - 1 FROM unnest(rdma.buckets('def')) WITH ORDINALITY b(node, place) WHERE node = 2)::int[])$$);
SELECT count(*) FROM pg_roles WHERE rolname = 'regress_def_risen';
-- and the type of a column is a domain of the role, which has checks
\c regress_rdma_definitions postgres 127.0.0.1 :n2
CREATE OR REPLACE FUNCTION pg_catalog.format_type(oid, integer) RETURNS text LANGUAGE sql AS $$ SELECT 'guest.odd' $$;
\c contrib_regression postgres 127.0.0.1 :coord
SET search_path = def;
\set SHOW_CONTEXT never
BEGIN;
SELECT rdma.move_buckets('def', 'def 3', 'def1', ARRAY(SELECT place - 1 FROM unnest(rdma.buckets('def')) WITH ORDINALITY b(node, place) WHERE node = 2)::int[]) > 0;
ROLLBACK;
SELECT rolsuper FROM pg_roles WHERE rolname = 'regress_def_guest';
\c regress_rdma_definitions postgres 127.0.0.1 :n2
CREATE OR REPLACE FUNCTION pg_catalog.format_type(oid, integer) RETURNS text LANGUAGE sql AS $$ SELECT 'guest.odd[]' $$;
\c contrib_regression postgres 127.0.0.1 :coord
SET search_path = def;
\set SHOW_CONTEXT never
SELECT said($$SELECT rdma.move_buckets('def', 'def 3', 'def1', ARRAY(SELECT place - 1 FROM unnest(rdma.buckets('def')) WITH ORDINALITY b(node, place) WHERE node = 2)::int[])$$);
\c regress_rdma_definitions postgres 127.0.0.1 :n2
SET allow_system_table_mods = on;
DROP FUNCTION pg_catalog.format_type(oid, integer);
ALTER FUNCTION pg_catalog.true_format_type(oid, integer) RENAME TO format_type;
-- and what a new node is to run
CREATE TABLE def.want AS SELECT NULL::text[] AS statements;
CREATE OR REPLACE FUNCTION rdma_internal.index_statements(tab regclass) RETURNS text[] LANGUAGE sql AS 'SELECT statements FROM def.want';
\c contrib_regression postgres 127.0.0.1 :coord
SET search_path = def;
\set SHOW_CONTEXT never
SELECT rdma.undistribute_table('narrow');
CREATE SERVER wrong FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes '"def 3"');
SELECT rdma.distribute_table('seed', 'wrong', 'a');
SELECT count(*) FROM rdma.run_on('def2', 'CREATE TABLE def.precious (a int)');
CREATE PROCEDURE add_with(VARIADIC statements text[]) LANGUAGE plpgsql AS $$
DECLARE statement text;
BEGIN
  FOREACH statement IN ARRAY statements LOOP
    PERFORM rdma.run_on('def 3', format('UPDATE def.want SET statements = %L', ARRAY[statement]));
    COMMIT;
    RAISE NOTICE '%', def.said('SELECT rdma.add_node(''wrong'', ''def2'')');
    COMMIT;
  END LOOP;
END $$;
CALL add_with('CREATE ROLE regress_def_risen SUPERUSER', 'DROP TABLE def.precious', 'ALTER TABLE def.precious ADD CONSTRAINT c CHECK (false)', 'CREATE INDEX ON def.seed (a); DROP TABLE def.precious', 'ALTER TABLE def.seed ADD CONSTRAINT c CHECK (pg_catalog.lo_export(1, ''f'') > 0) NOT VALID',
  'ALTER TABLE def.seed ADD CONSTRAINT c CHECK (pg_catalog.query_to_xml(''SELECT 1'', true, false, '''') IS NOT NULL) NOT VALID', 'CREATE INDEX CONCURRENTLY ON def.seed (a)');
SELECT answer FROM rdma.run_on('def2', $$SELECT count(*) FROM pg_roles WHERE rolname = 'regress_def_risen'$$);
SELECT answer FROM rdma.run_on('def2', $$SELECT to_regclass('def.precious') IS NOT NULL$$);
CALL add_with('CREATE INDEX ON def.seed (abs(a))');
SELECT node FROM rdma.nodes('wrong');
SELECT rdma.undistribute_table('seed');

-- ---------- a table of another role, distributed by a superuser ----------
-- the owner has no user mapping, so it is not analyzed yet
SET ROLE regress_def_guest;
CREATE TABLE guest.early (a int);
INSERT INTO guest.early SELECT generate_series(1, 10);
RESET ROLE;
SET client_min_messages = error;
SELECT rdma.distribute_table('guest.early', 'def', 'a');
RESET client_min_messages;
SELECT pg_get_userbyid(relowner), reltuples FROM pg_class WHERE oid = 'guest.early'::regclass;
DROP USER MAPPING FOR CURRENT_USER SERVER def1;
CREATE USER MAPPING FOR PUBLIC SERVER def1 OPTIONS (user 'postgres', password_required 'false');
DROP USER MAPPING FOR CURRENT_USER SERVER def2;
CREATE USER MAPPING FOR PUBLIC SERVER def2 OPTIONS (user 'postgres', password_required 'false');
DROP USER MAPPING FOR CURRENT_USER SERVER "def 3";
CREATE USER MAPPING FOR PUBLIC SERVER "def 3" OPTIONS (user 'postgres', password_required 'false');
SET ROLE regress_def_guest;
CREATE TABLE guest.a (a int, b int);
INSERT INTO guest.a SELECT i, i FROM generate_series(1, 10) i;
CREATE STATISTICS guest.st ON (guest.f(a)), b FROM guest.a;
CREATE TABLE guest.b (a int, b int);
ALTER TABLE guest.b ADD CONSTRAINT c CHECK (pg_catalog.lo_export(4242, 'written') > 0) NOT VALID;
CREATE TABLE guest.c (a int, b int);
ALTER TABLE guest.c ADD CONSTRAINT c CHECK (pg_catalog.query_to_xml('SELECT guest.rise()', true, false, '') IS NOT NULL) NOT VALID;
CREATE TABLE guest.d (a int, b guest.odd);
CREATE TABLE guest.e (a int, m guest.mood DEFAULT 'good', b int DEFAULT guest.f(1), n numeric(10, 2) CHECK (n > 0), CHECK (m <> 'bad'));
CREATE INDEX ON guest.e (abs(a)) WHERE m = 'good';
INSERT INTO guest.e (a, n) SELECT i, 1.5 FROM generate_series(1, 10) i;
RESET ROLE;
SELECT said(format('SELECT rdma.distribute_table(%L, %L, %L)', 'guest.' || t, 'def', 'a')) FROM unnest(ARRAY['a', 'b', 'c', 'd']) t;
SELECT count(*) FROM rdma.run_on('def', $$CREATE TYPE guest.mood AS ENUM ('bad', 'good')$$);
SELECT rdma.distribute_table('guest.e', 'def', 'a');
SELECT pg_get_userbyid(relowner), (SELECT count(*) FROM guest.e) FROM pg_class WHERE oid = 'guest.e'::regclass;
-- the function is a superuser's here and another role's there
CREATE TABLE twofold (a int, b int);
CREATE INDEX ON twofold (mine(b));
ALTER TABLE twofold OWNER TO regress_def_guest;
SELECT count(*) FROM rdma.run_on('def1', 'CREATE ROLE regress_def_guest');
SELECT count(*) FROM rdma.run_on('def', $$CREATE FUNCTION def.mine(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1'$$);
SELECT count(*) FROM rdma.run_on('def1', 'ALTER FUNCTION def.mine OWNER TO regress_def_guest');
SELECT said($$SELECT rdma.distribute_table('twofold', 'def', 'a')$$);
SELECT count(*) FROM rdma.run_on('def1', 'ALTER FUNCTION def.mine OWNER TO postgres');
SELECT rdma.distribute_table('twofold', 'def', 'a');
SELECT rolsuper FROM pg_roles WHERE rolname = 'regress_def_guest';

-- ---------- rows move between tables that belong to another role on the nodes ----------
CREATE TABLE owned (a int PRIMARY KEY, b int);
INSERT INTO owned SELECT i, i FROM generate_series(1, 100) i;
SELECT rdma.distribute_table('owned', 'def', 'a');
SELECT count(*) FROM rdma.run_on('def2', 'CREATE ROLE regress_def_guest');
SELECT count(*) FROM unnest(ARRAY['def1', 'def2']) n, LATERAL rdma.run_on(n::name, 'CREATE TABLE def.seen (who text); GRANT ALL ON def.seen TO PUBLIC; GRANT ALL ON SCHEMA def TO regress_def_guest') r;
SELECT count(*) FROM unnest(ARRAY['def1', 'def2']) n, LATERAL rdma.run_on(n::name, $$SET LOCAL ROLE regress_def_guest;
  CREATE FUNCTION def.look(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN INSERT INTO def.seen VALUES (current_user); RETURN $1; END';
  CREATE FUNCTION def.looked(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN def.look($1); END'; RESET ROLE$$) r;
SELECT count(*) FROM unnest(ARRAY['def1', 'def2']) n, LATERAL rdma.run_on(n::name, 'ALTER TABLE def.owned ADD CHECK (def.look(a) > 0) NOT VALID; CREATE INDEX ON def.owned (def.looked(b)); CREATE INDEX ON def.owned (b) WHERE def.looked(1) = a;
  ALTER TABLE def.owned ADD EXCLUDE USING btree (def.looked(a) WITH =) DEFERRABLE INITIALLY DEFERRED; ALTER TABLE def.owned OWNER TO regress_def_guest; TRUNCATE def.seen') r;
SELECT rdma.move_buckets('def', 'def1', 'def2', ARRAY(SELECT b.n::int - 1 FROM unnest(rdma.buckets('def')) WITH ORDINALITY b(place, n) WHERE place = 0 ORDER BY n LIMIT 100)) > 0;
SELECT n, answer FROM unnest(ARRAY['def1', 'def2']) n, LATERAL rdma.run_on(n::name, 'SELECT string_agg(DISTINCT who, $$, $$) FROM def.seen') r ORDER BY 1;
SELECT count(*), sum(b) FROM owned;
-- the role of the session needs the owner's rights
SELECT answer FROM rdma.run_on('def1', $$SELECT rdma_internal.run_as_owner('def.owned', 'INSERT INTO def.seen VALUES (current_user)')$$);
SELECT said($q$SELECT rdma.run_on('def1', $$SET LOCAL ROLE regress_def_guest; SELECT rdma_internal.run_as_owner('pg_catalog.pg_class', 'SELECT 1')$$)$q$);

\set ECHO none
SET client_min_messages = warning;
DROP SERVER def1, def2, "def 3", def, wrong CASCADE;
DROP SCHEMA def, guest, "def ""weird"" s" CASCADE;
DROP ROLE regress_def_guest;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA IF EXISTS def, guest, "def ""weird"" s" CASCADE;
DROP ROLE regress_def_guest;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA IF EXISTS def, guest, "def ""weird"" s" CASCADE;
DROP DATABASE regress_rdma_definitions WITH (FORCE);
DROP ROLE regress_def_guest;
