-- Definitions of tables that travel between servers: legitimate ones arrive as they are, and what a node or another role writes has no
-- code run with the caller's rights. The third node is another database of the second one's cluster; it is the one in wrong hands.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name def
\set third regress_rdma_definitions
\i :two_nodes
CREATE ROLE regress_def_guest;
CREATE SCHEMA guest AUTHORIZATION regress_def_guest;
CREATE SCHEMA "def ""weird"" s";
RESET client_min_messages;
\set said :tree '/test/setup/said.sql'
\i :said
\set ECHO none
\set SHOW_CONTEXT never
\pset format unaligned
\t on

-- ---------- what is a definition ----------
CREATE TABLE t (a int, b text, c numeric(10, 2), d date, e text[], j jsonb, ts timestamptz, p point) PARTITION BY LIST (a);
CREATE TABLE t1 PARTITION OF t FOR VALUES IN (1);
CREATE TABLE other (a int);
CREATE FUNCTION judge(VARIADIC statements text[]) RETURNS SETOF text LANGUAGE sql SET search_path = pg_catalog AS $$
  SELECT concat(coalesce(rdma_internal.define('def.t', s, false), 'yes'), ' | ', s) FROM unnest(statements) WITH ORDINALITY u(s, place) ORDER BY place $$;
\pset format unaligned
\pset tuples_only on
\set ECHO all
SELECT judge('CREATE INDEX i ON def.t (a)', 'CREATE UNIQUE INDEX i ON def.t1 USING btree (lower(b) COLLATE "C" text_pattern_ops DESC, a) INCLUDE (c) WITH (fillfactor = 70) WHERE (a > 0 AND b ~~ ''x%'')',
  'CREATE INDEX i ON def.t USING gin (j jsonb_path_ops, e)', 'CREATE INDEX i ON def.t USING gist (p)', 'CREATE INDEX i ON def.t USING brin (d)', 'CREATE INDEX i ON def.t (((j -> ''a'') ->> ''b''), ((c)::integer), abs(a), (CASE WHEN a > 1 THEN b ELSE ''x'' END), COALESCE(b, ''y''))');
SELECT judge('ALTER TABLE def.t ADD CONSTRAINT c PRIMARY KEY (a, b) INCLUDE (c)', 'ALTER TABLE def.t ADD CONSTRAINT c UNIQUE (a) DEFERRABLE INITIALLY DEFERRED', 'ALTER TABLE def.t1 ADD CONSTRAINT c EXCLUDE USING gist (p WITH ~=) WHERE (a > 5)',
  'ALTER TABLE def.t ADD CONSTRAINT c CHECK (((a > 0) AND (c <> ALL (ARRAY[1.5, 2.5])) AND (b IS NOT NULL)))', 'ALTER TABLE def.t ADD CONSTRAINT c CHECK ((ts < now()) AND (d <= CURRENT_DATE) AND (to_char(ts, ''YYYY'') > ''2000'')) NOT VALID',
  'ALTER TABLE def.t ADD CONSTRAINT c CHECK (((a || ''x'') <> ''1x'') AND (quote_literal(a) <> ''x''))', 'ALTER TABLE ONLY def.t ALTER COLUMN b SET STORAGE EXTERNAL', 'ALTER TABLE ONLY def.t1 ALTER COLUMN b SET (n_distinct = -0.5)', 'ALTER TABLE def.t1 ALTER COLUMN b SET STATISTICS 7');
SELECT judge('CREATE STATISTICS def.s (mcv, dependencies) ON a, b, lower(b) FROM def.t', 'COMMENT ON TABLE def.t1 IS ''it''''s''', 'CREATE TABLE def.t (a integer NOT NULL, b character varying(20) COLLATE pg_catalog."C", g text GENERATED ALWAYS AS (upper((b)::text)) STORED) PARTITION BY RANGE (a, lower((b)::text))',
  'CREATE UNLOGGED TABLE def.t (a numeric(10,2)) WITH (fillfactor = ''70'', toast.autovacuum_enabled = ''off'')', 'CREATE TABLE def.t2 PARTITION OF def.t DEFAULT', 'CREATE TABLE def.t2 PARTITION OF def.t FOR VALUES IN (1, ''2'', true, NULL) WITH (fillfactor = 70)', 'CREATE TABLE def.t2 PARTITION OF def.t FOR VALUES WITH (MODULUS 2, REMAINDER 1) PARTITION BY HASH (a)');
-- another command, another table, more than its kind
SELECT judge('', 'CREATE INDEX i ON def.t (a); ALTER ROLE x SUPERUSER', 'ALTER ROLE x SUPERUSER', 'CREATE INDEX i ON def.other (a)', 'CREATE INDEX i ON t (a)', 'CREATE INDEX i ON def.missing (a)', 'CREATE INDEX CONCURRENTLY i ON def.t (a)', 'CREATE INDEX i ON def.t (a) TABLESPACE x',
  'ALTER TABLE def.t ADD CONSTRAINT c PRIMARY KEY (a), OWNER TO x', 'ALTER TABLE def.t OWNER TO x', 'ALTER TABLE def.t ADD CONSTRAINT c FOREIGN KEY (a) REFERENCES def.other', 'ALTER TABLE def.t ADD CONSTRAINT c UNIQUE USING INDEX i', 'ALTER TABLE def.other ADD CONSTRAINT c CHECK (true)',
  'ALTER TABLE def.t ALTER COLUMN a SET DEFAULT 1', 'COMMENT ON TABLE def.other IS ''x''', 'COMMENT ON ROLE x IS ''x''', 'CREATE STATISTICS def.s ON a, b FROM def.t, def.other', 'ALTER VIEW def.t ALTER COLUMN a SET DEFAULT 1');
SELECT judge('CREATE TABLE def.other (a int)', 'CREATE TABLE def.t (LIKE def.other)', 'CREATE TABLE def.t (a int DEFAULT 1)', 'CREATE TABLE def.t (a int CHECK (a > 0))', 'CREATE TABLE def.t (a int) INHERITS (def.other)', 'CREATE TABLE def.t (a int) TABLESPACE x', 'CREATE TEMP TABLE t (a int)', 'CREATE TABLE def.t AS SELECT 1',
  'CREATE TABLE def.t (a int) USING heap', 'CREATE TABLE def.o PARTITION OF def.other DEFAULT', 'CREATE TABLE def.t2 PARTITION OF def.t (CHECK (true)) DEFAULT', 'CREATE TABLE def.t2 PARTITION OF def.t FOR VALUES IN (abs(1))', 'CREATE TABLE def.t2 PARTITION OF def.t FOR VALUES FROM (MINVALUE) TO (1 + 1)', 'CREATE TABLE def.t2 PARTITION OF def.t FOR VALUES IN (''x''::guest.odd)');
-- code of another role, by each way that leads to it
SET ROLE regress_def_guest;
CREATE FUNCTION guest.rise() RETURNS bool LANGUAGE plpgsql AS $$ BEGIN
  IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN ALTER ROLE regress_def_guest SUPERUSER; END IF; RETURN true; END $$;
CREATE FUNCTION guest.f(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN PERFORM guest.rise(); RETURN $1; END $$;
CREATE FUNCTION guest.ok(int) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN guest.rise(); END $$;
CREATE FUNCTION guest.eq(int, int) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN PERFORM guest.rise(); RETURN $1 = $2; END $$;
CREATE OPERATOR guest.## (RIGHTARG = int, FUNCTION = guest.f);
CREATE OPERATOR guest.=== (LEFTARG = int, RIGHTARG = int, FUNCTION = guest.eq, COMMUTATOR = OPERATOR(guest.===));
CREATE DOMAIN guest.odd AS int CHECK (guest.ok(value));
CREATE TYPE guest.pair AS (a guest.odd, b int);
CREATE TYPE guest.mood AS ENUM ('bad', 'good');
CREATE FUNCTION guest.as_text(guest.mood) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN PERFORM guest.rise(); RETURN 'x'; END $$;
CREATE FUNCTION guest.as_json(guest.mood) RETURNS json IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN PERFORM guest.rise(); RETURN '1'; END $$;
CREATE CAST (guest.mood AS text) WITH FUNCTION guest.as_text;
CREATE CAST (guest.mood AS json) WITH FUNCTION guest.as_json;
RESET ROLE;
-- functions with effects, and functions that run what they are told
SELECT judge(VARIADIC ARRAY(SELECT format('ALTER TABLE def.t ADD CONSTRAINT c CHECK (%s)', e) FROM unnest(ARRAY['lo_export(1, ''f'') > 0', 'query_to_xml(''SELECT 1'', true, false, '''') IS NOT NULL', 'random() > 0', 'lastval() > 0', 'set_config(''a.b'', ''c'', false) IS NOT NULL', 'pg_sleep(0) IS NOT NULL',
  'table_to_xml(''def.other'', true, false, '''') IS NOT NULL', 'schema_to_xml(''def'', true, false, '''') IS NOT NULL', 'satisfies_hash_partition(''def.t''::regclass, 2, 0, a)', 'domain_in(''1''::cstring, ''guest.odd''::regtype, -1) IS NOT NULL', 'array_in(''{1}''::cstring, ''guest.odd''::regtype, -1) IS NOT NULL',
  'EXISTS (SELECT FROM def.other)', 'a > (SELECT 1)', 'count(*) > 0', 'row_number() OVER () > 0']) e));
CREATE FUNCTION mine(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1';
CREATE FUNCTION effects(int) RETURNS int VOLATILE LANGUAGE sql AS 'SELECT $1';
CREATE TABLE moody (a int, m guest.mood, n int);
CREATE FUNCTION judge_moody(VARIADIC expressions text[]) RETURNS SETOF text LANGUAGE sql SET search_path = pg_catalog AS $$
  SELECT concat(coalesce(rdma_internal.define('def.moody', format('ALTER TABLE def.moody ADD CONSTRAINT c CHECK (%s)', e), false), 'yes'), ' | ', e) FROM unnest(expressions) WITH ORDINALITY u(e, place) ORDER BY place $$;
SELECT judge_moody('def.mine(a) > 0', 'def.effects(a) > 0', 'guest.f(a) > 0', 'guest.f(1) > 0', 'OPERATOR(guest.##) a > 0', 'a OPERATOR(guest.===) 1', 'a OPERATOR(guest.===) ANY (ARRAY[1])', '(1)::guest.odd > 0', '''{1}''::guest.odd[] IS NULL', '(''(1,2)''::guest.pair).b > 0', 'ROW(a, guest.f(a)) IS NULL',
  'm = ''good''', 'm IN (''good'', ''bad'')', 'm > ''bad''', 'upper((m)::text) = ''X''', '(m)::text = ''x''', 'm || ''x'' = ''y''', 'quote_literal(m) = ''x''', 'to_json(m) IS NULL', 'jsonb_build_array(m) IS NULL', 'row_to_json(moody.*) IS NULL', 'row_to_json(ROW(a, m)) IS NULL', 'to_jsonb(ARRAY[m]) IS NULL', 'to_json(a) IS NOT NULL', 'concat(m, ''x'') = ''goodx''', 'enum_first(m) = ''bad''');
SELECT coalesce(rdma_internal.define('def.moody', s, false), 'yes') || ' | ' || s FROM unnest(ARRAY['ALTER TABLE def.moody ADD CONSTRAINT c EXCLUDE (a WITH OPERATOR(guest.===))', 'CREATE STATISTICS def.s ON a, guest.f(a) FROM def.moody', 'CREATE INDEX ON def.moody (a) WHERE guest.ok(a)', 'CREATE INDEX ON def.moody (m)', 'CREATE INDEX ON def.moody (a) INCLUDE (m)',
  'CREATE TABLE def.moody (a guest.odd)', 'CREATE TABLE def.moody (a guest.odd[])', 'CREATE TABLE def.moody (a guest.pair)', 'CREATE TABLE def.moody (a guest.mood[])', 'CREATE TABLE def.moody (a int, b int GENERATED ALWAYS AS (guest.f(a)) STORED)', 'CREATE TABLE def.moody (a int) PARTITION BY RANGE ((guest.f(a)))']) s;
SELECT rolsuper FROM pg_roles WHERE rolname = 'regress_def_guest';
-- When a definition runs, its names mean what was checked: no other role may change what is in their schemas, or make casts of their types.
CREATE SCHEMA shared;
CREATE FUNCTION shared.f(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1';
CREATE FUNCTION guest.superusers(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1';
CREATE OPERATOR shared.## (RIGHTARG = int, FUNCTION = shared.f);
CREATE FUNCTION judge_run(VARIADIC statements text[]) RETURNS SETOF text LANGUAGE sql SET search_path = pg_catalog AS $$
  SELECT concat(coalesce(rdma_internal.define('def.moody', s, true), 'yes'), ' | ', s) FROM unnest(statements) WITH ORDINALITY u(s, place) ORDER BY place $$;
BEGIN;
SELECT judge_run('ALTER TABLE def.moody ADD CONSTRAINT c1 CHECK (shared.f(a) > 0)', 'CREATE INDEX i1 ON def.moody ((OPERATOR(shared.##) a))', 'CREATE INDEX i2 ON def.moody (m)', 'ALTER TABLE def.moody ADD CONSTRAINT c2 CHECK (m = ''good'')', 'ALTER TABLE def.moody ADD CONSTRAINT c3 CHECK (guest.superusers(a) > 0)',
  'CREATE INDEX i3 ON def.moody (a) WHERE m IS NOT NULL', 'CREATE STATISTICS def.s ON a, (enum_first(m)) FROM def.moody');
GRANT CREATE ON SCHEMA shared TO regress_def_guest;
SELECT judge_run('ALTER TABLE def.moody ADD CONSTRAINT c4 CHECK (shared.f(a) > 0)', 'CREATE INDEX i4 ON def.moody ((OPERATOR(shared.##) a))', 'CREATE TABLE def.moody (a int, b int GENERATED ALWAYS AS (shared.f(a)) STORED)');
GRANT CREATE ON SCHEMA shared TO PUBLIC;
SELECT judge_run('CREATE STATISTICS def.s2 ON a, shared.f(a) FROM def.moody');
ROLLBACK;
SELECT rdma_internal.define('def.moody2', 'CREATE TABLE def.moody2 (a guest.mood, b int GENERATED ALWAYS AS (length(upper((a)::text))) STORED)', false);
DROP SCHEMA shared CASCADE;
-- his own code is his
SET ROLE regress_def_guest;
CREATE TABLE guest.t (a int);
SELECT rdma_internal.define('guest.t', 'CREATE INDEX ON guest.t (guest.f(a))', true) IS NULL, rdma_internal.define('guest.t', 'CREATE INDEX ON guest.t (a) WHERE guest.rise()', true);
SELECT count(*) FROM pg_index WHERE indrelid = 'guest.t'::regclass;
RESET ROLE;
DROP TABLE guest.t;

-- types by the names that a node gives them
SELECT rdma_internal.known_type(t) FROM unnest(ARRAY['int', 'numeric(10,2)', 'character varying(20)', 'text[]', 'interval day to second(3)', 'timestamp(3) with time zone', 'bit(3)', '"char"', 'guest.mood', 'guest.odd']) t;
SELECT said(format('SELECT rdma_internal.known_type(%L)', t)) FROM unnest(ARRAY['guest.odd[]', 'guest.pair', 'int) SERVER x; DROP TABLE y', 'int, b int', 'int DEFAULT 1', '', 'nothing']) t;

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
