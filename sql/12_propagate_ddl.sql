-- DDL on tables of a server with nodes reaches the nodes, in the same transaction: option and setting propagate_ddl.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name ddl
\i :two_nodes
\set ECHO none
RESET client_min_messages;
\set VERBOSITY terse
-- what the nodes have, where they agree
CREATE FUNCTION there(command text) RETURNS SETOF text LANGUAGE sql AS $$ SELECT DISTINCT answer FROM rdma.run_on('ddl', command) ORDER BY 1 $$;
CREATE FUNCTION columns(tab text) RETURNS SETOF text LANGUAGE sql AS $$ SELECT there(format(
  'SELECT string_agg(concat_ws('' '', quote_ident(attname), format_type(atttypid, atttypmod), CASE WHEN attnotnull THEN ''NOT NULL'' END, attgenerated, pg_get_expr(adbin, adrelid)), '', '' ORDER BY attnum)
    FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum WHERE attrelid = %L::regclass AND attnum > 0 AND NOT attisdropped', tab)) $$;
CREATE FUNCTION checks(tab text) RETURNS SETOF text LANGUAGE sql AS $$ SELECT there(format(
  'SELECT string_agg(conname || '' '' || pg_get_constraintdef(oid), '', '' ORDER BY conname) FROM pg_constraint WHERE conrelid = %L::regclass AND contype = ''c'' AND conname <> ''rdma_placement''', tab)) $$;

CREATE TABLE t (id int NOT NULL, "Odd name" text, n int CHECK (n > 0));
INSERT INTO t SELECT i, 'v' || i, i FROM generate_series(1, 100) i;
\pset format unaligned
\pset tuples_only on
\set ECHO all
SELECT rdma.distribute_table('t', 'ddl', 'id');
SELECT relation, propagate_ddl FROM rdma.tables WHERE server = 'ddl';

-- columns
ALTER TABLE t ADD COLUMN a int, ADD COLUMN "B c" numeric(10,2) DEFAULT 7.5 NOT NULL, ADD COLUMN g int GENERATED ALWAYS AS (n * 2) STORED, ADD l text COLLATE "C" DEFAULT 'it''s \ "q"';
ALTER FOREIGN TABLE t ADD COLUMN IF NOT EXISTS a int;
ALTER TABLE t ADD COLUMN moment timestamptz DEFAULT now(), ADD COLUMN list int[] DEFAULT '{1,2}';
SELECT columns('ddl.t');
SELECT count(*), count(DISTINCT moment), min("B c"), max("B c"), sum(g), min(l), max(l), min(list), max(list) FROM t;
SELECT columns('ddl.t');
INSERT INTO t (id, n) VALUES (101, 101) RETURNING "B c", g, l;
ALTER TABLE t ALTER COLUMN "B c" DROP NOT NULL, ALTER COLUMN a SET DEFAULT 3, ALTER n SET NOT NULL, ALTER COLUMN "Odd name" TYPE varchar(20);
ALTER TABLE t ALTER COLUMN id TYPE bigint;
ALTER TABLE t ALTER COLUMN n TYPE bigint;
SELECT columns('ddl.t'), checks('ddl.t');
ALTER TABLE t ALTER COLUMN g DROP EXPRESSION;
ALTER TABLE t ALTER COLUMN n TYPE bigint;
SELECT columns('ddl.t'), checks('ddl.t');
ALTER TABLE t DROP COLUMN g, DROP COLUMN IF EXISTS moment, DROP COLUMN IF EXISTS nothing, DROP COLUMN list, ADD COLUMN g text;
ALTER TABLE t DROP COLUMN id;
ALTER TABLE t ALTER a SET NOT NULL;
SELECT columns('ddl.t');
-- names; the key's column keeps being it
ALTER TABLE t RENAME COLUMN "Odd name" TO "Very odd";
ALTER TABLE t RENAME id TO "Id";
SELECT columns('ddl.t');
SELECT distributed_by FROM rdma.tables WHERE relation = 't'::regclass;
SELECT "Very odd" FROM t WHERE "Id" = 7;
INSERT INTO t ("Id", n) SELECT i, i FROM generate_series(200, 250) i;
SELECT sum(misplaced) FROM rdma.check_distribution('t');
-- constraints
ALTER TABLE t ADD CONSTRAINT "not 8" CHECK ("Id" <> 8000), ADD CHECK ("Very odd" <> '');
ALTER TABLE t ADD CONSTRAINT later CHECK (n < 9000) NOT VALID;
SELECT checks('ddl.t');
ALTER TABLE t VALIDATE CONSTRAINT later;
ALTER TABLE t RENAME CONSTRAINT "not 8" TO "not eight";
ALTER TABLE t DROP CONSTRAINT t_n_check, DROP CONSTRAINT IF EXISTS none;
SELECT checks('ddl.t');
SELECT rdma.run_on('ddl1', 'INSERT INTO ddl.t ("Id", n) VALUES (8000, 1), (8000, 2)');
ALTER TABLE t ADD CHECK (n < 50);
SELECT checks('ddl.t');
-- the table's name and schema
ALTER TABLE t RENAME TO "T 2";
CREATE SCHEMA ddl_other;
ALTER FOREIGN TABLE "T 2" SET SCHEMA ddl_other;
SELECT relation, remote_relation, rows > 0 AS rows FROM rdma.tables WHERE server = 'ddl';
SELECT count(*) FROM ddl_other."T 2";
SELECT there($$SELECT to_regclass('ddl.t')::text$$);

-- all of it or nothing: a node that cannot; a transaction that ends otherwise
SELECT count(*) FROM rdma.run_on('ddl2', 'ALTER TABLE ddl_other."T 2" ADD COLUMN taken int');
SELECT rdma.disconnect_all();
\set SHOW_CONTEXT always
\set VERBOSITY default
ALTER TABLE ddl_other."T 2" ADD COLUMN taken int;
\set SHOW_CONTEXT errors
\set VERBOSITY terse
SELECT node, answer FROM rdma.run_on('ddl', $$SELECT count(*) FROM pg_attribute WHERE attrelid = 'ddl_other."T 2"'::regclass AND attname = 'taken'$$);
BEGIN;
ALTER TABLE ddl_other."T 2" DROP COLUMN n;
SAVEPOINT s;
DROP FOREIGN TABLE ddl_other."T 2";
ROLLBACK TO s;
SELECT count(*) FROM ddl_other."T 2";
SELECT columns('ddl_other."T 2"');
ROLLBACK;
SELECT sum(n) FROM ddl_other."T 2";
BEGIN;
INSERT INTO ddl_other."T 2" ("Id", n) VALUES (300, 1);
ALTER TABLE ddl_other."T 2" RENAME n TO m;
UPDATE ddl_other."T 2" SET m = 2 WHERE "Id" = 300;
COMMIT;
SELECT m FROM ddl_other."T 2" WHERE "Id" = 300;
-- here only
SET rdma_fdw.propagate_ddl = off;
ALTER TABLE ddl_other."T 2" ADD COLUMN taken int;
SELECT count(*) FROM rdma.run_on('ddl1', 'ALTER TABLE ddl_other."T 2" ADD COLUMN taken int');
RESET rdma_fdw.propagate_ddl;
SELECT count(taken) FROM ddl_other."T 2";
-- a column that has another name there; one that goes with its type
ALTER FOREIGN TABLE ddl_other."T 2" ALTER taken OPTIONS (ADD column_name 'taken');
ALTER FOREIGN TABLE ddl_other."T 2" RENAME taken TO given;
ALTER FOREIGN TABLE ddl_other."T 2" ALTER given TYPE bigint;
\set VERBOSITY default
\set SHOW_CONTEXT never
ALTER FOREIGN TABLE ddl_other."T 2" ADD CHECK (given > 0);
\set VERBOSITY terse
ALTER FOREIGN TABLE ddl_other."T 2" DROP given;
CREATE DOMAIN ddl.positive AS int CHECK (VALUE > 0);
SELECT there('CREATE DOMAIN ddl.positive AS int CHECK (VALUE > 0)');
ALTER FOREIGN TABLE ddl_other."T 2" ADD p ddl.positive DEFAULT 5;
SELECT columns('ddl_other."T 2"');
SET client_min_messages = warning;
DROP DOMAIN ddl.positive CASCADE;
SELECT columns('ddl_other."T 2"');

-- columns that keys of the nodes need; types by an expression
CREATE TABLE main (id int PRIMARY KEY, m text);
CREATE TABLE sub (id int PRIMARY KEY, main int REFERENCES main, n text, w int);
SELECT count(*) FROM rdma.distribute_tables('ddl', '{sub}', '{id}', replicated => '{main}');
ALTER TABLE main DROP COLUMN id;
ALTER TABLE main DROP COLUMN m CASCADE, DROP COLUMN id;
ALTER TABLE main DROP COLUMN m, DROP COLUMN id CASCADE;
SELECT columns('ddl.main');
INSERT INTO sub SELECT i, i, i || '0', i FROM generate_series(1, 9) i;
ALTER TABLE sub ALTER COLUMN n TYPE int USING n::int / 2, ALTER w TYPE int USING w + 1;
SELECT columns('ddl.sub');
SELECT sum(n), sum(w) FROM sub;
ALTER TABLE sub ALTER n TYPE text USING 'n' || n || CASE WHEN w > 5 THEN upper(main::text) ELSE '' END, DROP COLUMN main;
SELECT min(n), max(n), columns('ddl.sub') FROM sub;
ALTER TABLE sub ALTER n TYPE int USING random()::int;
ALTER TABLE sub ALTER n TYPE int USING length(nothing);
ALTER TABLE sub ALTER id TYPE int USING id + 1;
ALTER TABLE sub ALTER n TYPE int USING n::int;
-- a plan that is kept
CREATE PROCEDURE convert() LANGUAGE plpgsql AS $$ BEGIN ALTER TABLE sub ALTER w TYPE int USING w * 2; END $$;
CALL convert();
CALL convert();
SELECT sum(w) FROM sub;
-- programs call it TABLE
COMMENT ON TABLE sub IS 'a table';
SELECT obj_description('sub'::regclass);
\set VERBOSITY default
ALTER TABLE sub DROP CONSTRAINT sub_pkey;
ALTER TABLE sub DROP CONSTRAINT IF EXISTS sub_pkey;
BEGIN;
LOCK TABLE sub IN SHARE MODE;
ROLLBACK;
\set VERBOSITY terse
CREATE TABLE local (id int);
CREATE VIEW on_sub AS SELECT * FROM sub;
DROP TABLE local, sub;
DROP TABLE IF EXISTS local, nothing, sub CASCADE;
SELECT there($$SELECT to_regclass('ddl.sub')::text$$);
DROP TABLE local;
DROP TABLE main;
SELECT there($$SELECT to_regclass('ddl.main')::text$$);

-- partitions: what is done to the parent is done to them
CREATE TABLE parent (k int, v text) PARTITION BY LIST (k);
CREATE TABLE part (k int, v text);
SELECT rdma.distribute_table('part', 'ddl', 'v');
ALTER TABLE parent ATTACH PARTITION part FOR VALUES IN (1);
ALTER TABLE parent ADD COLUMN w int DEFAULT 4;
ALTER TABLE parent RENAME k TO kk;
ALTER TABLE parent ADD CONSTRAINT positive CHECK (w > 0);
ALTER TABLE parent DROP COLUMN v;
SELECT columns('ddl.part'), checks('ddl.part');
BEGIN;
DROP TABLE parent, part;
ROLLBACK;
DROP TABLE parent;
SELECT there($$SELECT to_regclass('ddl.part')::text$$);

-- drops: several, by schema, by owner; again is possible
CREATE TABLE a (id int); CREATE TABLE b (id int); CREATE TABLE c (id int);
SELECT rdma.distribute_table(x, 'ddl', 'id') FROM unnest('{a,b,c}'::regclass[]) x;
CREATE VIEW on_a AS SELECT * FROM a;
DROP FOREIGN TABLE a, b;
SELECT there($$SELECT concat(to_regclass('ddl.a'), to_regclass('ddl.b'))$$);
DROP FOREIGN TABLE IF EXISTS a, b, nothing CASCADE;
SELECT there($$SELECT concat(to_regclass('ddl.a'), to_regclass('ddl.b'))$$);
CREATE TABLE a (id int);
SELECT rdma.distribute_table('a', 'ddl', 'id');
SELECT there('CREATE VIEW ddl.on_there AS SELECT * FROM ddl.a');
DROP FOREIGN TABLE a;
DROP FOREIGN TABLE a CASCADE;
SELECT there($$SELECT to_regclass('ddl.on_there')::text$$);
DROP SCHEMA ddl_other CASCADE;
SELECT there($$SELECT to_regclass('ddl_other."T 2"')::text$$);
DO $$ BEGIN EXECUTE 'DROP FOREIGN TABLE c'; END $$;
SELECT there($$SELECT to_regclass('ddl.c')::text$$);
-- others' tables: the nodes are asked as their owner
CREATE ROLE regress_rdma_ddl;
GRANT USAGE ON FOREIGN SERVER ddl TO regress_rdma_ddl;
GRANT ALL ON SCHEMA ddl TO regress_rdma_ddl;
CREATE TABLE victim (id int);
SELECT rdma.distribute_table('victim', 'ddl', 'id');
SET ROLE regress_rdma_ddl;
CREATE FOREIGN TABLE ddl.bait (id int) SERVER ddl OPTIONS (table_name 'victim', propagate_ddl 'true');
RESET ROLE;
-- 17 says more of it
\set VERBOSITY sqlstate
DROP FOREIGN TABLE bait;
\set VERBOSITY terse
SET rdma_fdw.propagate_ddl = off;
DROP FOREIGN TABLE bait;
RESET rdma_fdw.propagate_ddl;
SELECT count(*) FROM victim;
-- who is not the owner changes nothing
SET ROLE regress_rdma_ddl;
ALTER TABLE ddl.victim ADD COLUMN x int;
DROP FOREIGN TABLE ddl.victim;
RESET ROLE;
-- all that a role owns: its rights and its mapping go as well, and the nodes are asked before; not for whom core refuses
CREATE ROLE regress_rdma_leaver;
CREATE SCHEMA ddl_leaver AUTHORIZATION regress_rdma_leaver;
GRANT USAGE ON FOREIGN SERVER ddl, ddl1, ddl2 TO regress_rdma_leaver;
CREATE USER MAPPING FOR regress_rdma_leaver SERVER ddl1 OPTIONS (user 'postgres', password_required 'false');
CREATE USER MAPPING FOR regress_rdma_leaver SERVER ddl2 OPTIONS (user 'postgres', password_required 'false');
SET ROLE regress_rdma_leaver;
CREATE TABLE ddl_leaver.a (id int PRIMARY KEY);
CREATE TABLE ddl_leaver.b (id int PRIMARY KEY);
SELECT rdma.distribute_table(x, 'ddl', 'id') FROM unnest('{ddl_leaver.a,ddl_leaver.b}'::regclass[]) x;
SET ROLE regress_rdma_ddl;
DROP OWNED BY regress_rdma_leaver;
RESET ROLE;
CREATE VIEW on_a AS SELECT * FROM ddl_leaver.a;
DROP OWNED BY regress_rdma_leaver;
SELECT there($$SELECT concat_ws(' ', to_regclass('ddl_leaver.a'), to_regclass('ddl_leaver.b'))$$);
SELECT count(*) FROM ddl_leaver.a;
SELECT there('CREATE VIEW ddl.on_there AS SELECT * FROM ddl_leaver.b');
DROP VIEW on_a;
DROP OWNED BY regress_rdma_leaver;
BEGIN;
DROP OWNED BY regress_rdma_leaver CASCADE;
ROLLBACK;
SELECT count(*) FROM ddl_leaver.b;
DROP OWNED BY regress_rdma_leaver CASCADE;
SELECT there($$SELECT concat_ws(' ', to_regclass('ddl_leaver.a'), to_regclass('ddl_leaver.b'), to_regclass('ddl.on_there'))$$);
DROP ROLE regress_rdma_leaver;
-- tables without the option, and servers that go: the nodes keep theirs
CREATE FOREIGN TABLE other (id int) SERVER ddl OPTIONS (table_name 'victim');
ALTER TABLE other ADD COLUMN here int;
ALTER TABLE other RENAME TO another;
DROP FOREIGN TABLE another;
SELECT columns('ddl.victim');
REVOKE USAGE ON FOREIGN SERVER ddl FROM regress_rdma_ddl;
REVOKE ALL ON SCHEMA ddl FROM regress_rdma_ddl;
DROP ROLE regress_rdma_ddl;
DROP SERVER ddl CASCADE;
SELECT rdma.run_on('ddl1', $$SELECT to_regclass('ddl.victim')::text$$);

\set ECHO none
DROP SERVER ddl1, ddl2 CASCADE;
DROP SCHEMA ddl CASCADE;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA ddl, ddl_other CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA ddl, ddl_other CASCADE;
