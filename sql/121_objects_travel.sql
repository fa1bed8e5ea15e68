-- Objects that distributed tables need go to the nodes with them: schemas, types, functions, collations, text search
-- configurations, extensions. Views stay, and columns get values of sequences.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name obj
\i :two_nodes
RESET client_min_messages;
\set SHOW_CONTEXT never
\pset format unaligned
\t on
CREATE FUNCTION there(command text) RETURNS SETOF text LANGUAGE sql AS $$ SELECT DISTINCT answer FROM rdma.run_on('obj', command) ORDER BY 1 $$;
CREATE SCHEMA "obj Types";
SET search_path = obj, "obj Types";
CREATE TYPE "obj Types".mood AS ENUM ('glad', 'it''s "so"', 'sad');
CREATE DOMAIN small AS int DEFAULT 3 NOT NULL CHECK (VALUE < 100) CONSTRAINT "not 7" CHECK (VALUE <> 7);
CREATE TYPE pair AS (a int, m mood, "T x" text COLLATE "C");
CREATE TYPE floats AS RANGE (SUBTYPE = float8, MULTIRANGE_TYPE_NAME = many_floats);
CREATE COLLATION plain (LOCALE = 'C');
CREATE TEXT SEARCH CONFIGURATION words (COPY = simple);
CREATE FUNCTION twice(int) RETURNS int IMMUTABLE STRICT LANGUAGE plpgsql AS $$ BEGIN RETURN $1 * 2; END $$;
CREATE FUNCTION four_times(n int) RETURNS int IMMUTABLE LANGUAGE sql RETURN twice(twice(n));
CREATE FUNCTION is_glad(mood) RETURNS bool IMMUTABLE LANGUAGE sql AS $$ SELECT $1 = 'glad' $$;
CREATE DOMAIN checked AS mood[] CHECK (is_glad(VALUE[1]));
CREATE TABLE t (id int PRIMARY KEY, m mood, s small, p pair, ps pair[], c checked, r floats, name text COLLATE plain, g int GENERATED ALWAYS AS (four_times(id)) STORED, CHECK (twice(s) < 150));
CREATE INDEX ON t USING gin (to_tsvector('words', name));
INSERT INTO t SELECT i, 'sad', 5, ROW(i, 'glad', 'x')::pair, ARRAY[ROW(i, 'sad', 'y')::pair], '{glad,sad}', floats(i, i + 1), i FROM generate_series(1, 20) i;
SELECT rdma.distribute_table('t', 'obj', 'id');
SELECT sum(g), min(p::text), min(ps), count(DISTINCT r), min(c) FROM t WHERE m = 'sad';
SELECT there($$SELECT string_agg(format('%s %s', typname, typtype), ', ' ORDER BY typname) FROM pg_type WHERE typnamespace IN (SELECT oid FROM pg_namespace WHERE nspname IN ('obj', 'obj Types')) AND typtype IN ('e', 'd', 'r', 'm') OR typnamespace = 'obj'::regnamespace AND typname = 'pair'$$);
SELECT there($$SELECT string_agg(oid::regprocedure::text, ', ' ORDER BY proname) FROM pg_proc WHERE pronamespace IN ('obj'::regnamespace, '"obj Types"'::regnamespace) AND prokind = 'f' AND proname IN ('twice', 'four_times', 'is_glad')$$);
INSERT INTO t (id, s) VALUES (100, 80);
-- those that are there stay as they are; later commands bring more
CREATE TYPE shape AS ENUM ('round');
SELECT there($$CREATE TYPE obj.shape AS ENUM ('round', 'flat')$$);
CREATE TYPE later AS ENUM ('a', 'b');
CREATE FUNCTION of_text(text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT $1';
CREATE FUNCTION is_later(later) RETURNS bool IMMUTABLE LANGUAGE sql AS $$ SELECT $1 = 'b' $$;
ALTER TABLE t ADD COLUMN f shape, ADD COLUMN l later[] DEFAULT '{b}', ADD CHECK (is_later(l[1]));
CREATE INDEX ON t (of_text(name));
SELECT there($$SELECT array_agg(enumlabel ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = 'obj.shape'::regtype$$);
SELECT count(*) FROM t WHERE l = '{b}';
-- functions of a role that is not the caller's stay here
CREATE ROLE regress_obj;
GRANT ALL ON SCHEMA obj TO regress_obj;
SET ROLE regress_obj;
CREATE FUNCTION theirs(int) RETURNS bool IMMUTABLE LANGUAGE sql AS 'SELECT true';
RESET ROLE;
CREATE TABLE uses (id int CHECK (theirs(id)));
\set VERBOSITY terse
SELECT rdma.distribute_table('uses', 'obj', 'id');
\set VERBOSITY default
SELECT there($$SELECT to_regprocedure('obj.theirs(int)')$$);

-- what is changed here only is told
ALTER TYPE pair RENAME TO couple;
ALTER TYPE couple RENAME TO pair;
CREATE OR REPLACE FUNCTION twice(int) RETURNS int IMMUTABLE STRICT LANGUAGE plpgsql AS $$ BEGIN RETURN 2 * $1; END $$;
ALTER FUNCTION twice(int) COST 50;
\set VERBOSITY terse
ALTER DOMAIN small DROP CONSTRAINT "not 7";
ALTER TYPE mood RENAME TO moods;
ALTER TYPE moods RENAME TO mood;
\set VERBOSITY default
CREATE OR REPLACE FUNCTION unused() RETURNS int LANGUAGE sql AS 'SELECT 1';
DROP FUNCTION twice;

-- views, also on views, with what they have
CREATE TABLE v0 (id int, "B b" text COLLATE "C", n numeric(10,2));
INSERT INTO v0 SELECT i, i, i FROM generate_series(1, 10) i;
CREATE VIEW v1 WITH (security_barrier) AS SELECT id, "B b" AS b, n FROM v0 WHERE id > 3;
CREATE VIEW v2 AS SELECT v1.*, v0.n AS other FROM v1 JOIN v0 USING (id);
CREATE VIEW v3 AS SELECT * FROM v0 WITH LOCAL CHECK OPTION;
ALTER VIEW v3 ALTER n SET DEFAULT 4;
COMMENT ON VIEW v1 IS 'a view';
GRANT SELECT ON v1 TO regress_obj;
CREATE FUNCTION of_v1(v1) RETURNS int LANGUAGE sql AS 'SELECT $1.id';
CREATE TEMPORARY TABLE defined AS SELECT relname, pg_get_viewdef(oid) AS def, reloptions, relacl, oid FROM pg_class WHERE relname IN ('v1', 'v2', 'v3');
SELECT rdma.distribute_table('v0', 'obj', 'id');
SELECT count(*), sum(other) FROM v2;
INSERT INTO v3 (id) VALUES (50) RETURNING n;
SELECT count(*) FROM defined d JOIN pg_class c USING (oid, relname) WHERE pg_get_viewdef(c.oid) = def AND d.reloptions IS NOT DISTINCT FROM c.reloptions AND c.relacl IS NOT DISTINCT FROM d.relacl;
SELECT rdma.alter_distribution('v0', 'n');
SELECT rdma.undistribute_table('v0');
SELECT count(*), obj_description('v1'::regclass) FROM defined d JOIN pg_class c USING (oid, relname) WHERE pg_get_viewdef(c.oid) = def AND d.reloptions IS NOT DISTINCT FROM c.reloptions AND c.relacl IS NOT DISTINCT FROM d.relacl;
CREATE MATERIALIZED VIEW m AS SELECT * FROM v0;
SELECT rdma.distribute_table('v0', 'obj', 'id');
DROP MATERIALIZED VIEW m;

-- columns with another value for each row
CREATE TABLE s (k int PRIMARY KEY, v text);
INSERT INTO s SELECT i FROM generate_series(1, 30) i;
SELECT rdma.distribute_table('s', 'obj', 'k');
ALTER TABLE s ADD COLUMN id serial, ADD COLUMN other bigint GENERATED ALWAYS AS IDENTITY (START 100), ADD fixed int DEFAULT 5;
SELECT count(DISTINCT id), min(id), max(id), count(DISTINCT other), min(other), max(other), max(fixed) FROM s;
INSERT INTO s (k) VALUES (31) RETURNING id, other;
SELECT there($$SELECT string_agg(attname, ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'obj.s'::regclass AND attnotnull AND attnum > 0$$);
CREATE SEQUENCE seq;
\set VERBOSITY terse
ALTER TABLE s ADD COLUMN q int DEFAULT nextval('seq') CHECK (q > 5);
\set VERBOSITY default
SELECT setval('seq', 5);
ALTER TABLE s ADD COLUMN q int DEFAULT nextval('seq') CHECK (q > 5), ADD COLUMN r float8 DEFAULT random();
SELECT min(q), max(q), count(DISTINCT q), count(DISTINCT r) FROM s;
CREATE FUNCTION noop() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER noop BEFORE UPDATE ON s FOR EACH ROW EXECUTE FUNCTION noop();
ALTER TABLE s ADD COLUMN z serial;

-- enumerations, domains and rows as distribution keys
CREATE TYPE color AS ENUM ('red', 'green', 'blue');
CREATE DOMAIN bright AS color CHECK (VALUE <> 'blue');
CREATE TYPE spot AS (x int, y text);
CREATE TABLE by_enum (c color, n int, PRIMARY KEY (c, n));
CREATE TABLE by_domain (c bright, n int);
CREATE TABLE by_row (s spot, n int);
CREATE TABLE of_rows (c color[], n int);
SELECT there('CREATE TYPE obj.before_it AS ENUM (''x'')');
SELECT answer FROM rdma.run_on('obj2', 'CREATE TYPE obj.color AS ENUM (''blue'', ''red'', ''green'')');
INSERT INTO by_enum SELECT (enum_range(NULL::color))[1 + i % 3], i FROM generate_series(1, 300) i;
INSERT INTO by_domain SELECT (enum_range(NULL::color))[1 + i % 2], i FROM generate_series(1, 300) i;
INSERT INTO by_row SELECT ROW(i, i)::spot, i FROM generate_series(1, 300) i;
SELECT rdma.distribute_table('by_enum', 'obj', 'c');
SELECT rdma.distribute_table('by_domain', 'obj', 'c');
SELECT rdma.distribute_table('by_row', 'obj', 's');
SELECT rdma.distribute_table('of_rows', 'obj', 'c');
SELECT sum(misplaced) FROM unnest('{by_enum,by_domain,by_row}'::regclass[]) t, rdma.check_distribution(t);
SELECT c, count(*) FROM by_enum GROUP BY c ORDER BY c;
SELECT count(*) FROM by_enum WHERE c = 'green';
SELECT count(*), sum(by_domain.n) FROM by_enum JOIN by_domain ON by_enum.c = by_domain.c::color WHERE by_enum.n < 9 AND by_domain.n < 9;
INSERT INTO by_enum VALUES ('red', 1000) ON CONFLICT (c, n) DO NOTHING;
SELECT n FROM by_row WHERE s = ROW(7, '7')::spot;
ALTER TYPE color ADD VALUE 'pink' AFTER 'red';
SELECT answer FROM rdma.run_on('obj', 'SELECT enum_range(NULL::obj.color)') ORDER BY 1;
INSERT INTO by_enum VALUES ('pink', 1);
SELECT sum(misplaced) FROM rdma.check_distribution('by_enum');
ALTER TYPE color RENAME VALUE 'pink' TO 'rose';
ALTER TYPE later RENAME VALUE 'a' TO 'z';
\c contrib_regression postgres 127.0.0.1 :n1
ALTER TYPE obj.color RENAME VALUE 'pink' TO 'rose';
\c contrib_regression postgres 127.0.0.1 :coord

SET client_min_messages = warning;
DROP SERVER obj1, obj2, obj CASCADE;
DROP SCHEMA obj, "obj Types" CASCADE;
DROP ROLE regress_obj;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA obj, "obj Types" CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA obj, "obj Types" CASCADE;
