-- rdma.undistribute_table: a table of a server with nodes becomes a local one again, with all that rdma.distribute_table carries over.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name und
\i :two_nodes
CREATE ROLE "regress Und";
CREATE TYPE mood AS ENUM ('bad', 'good');
RESET client_min_messages;
\set VERBOSITY terse
SELECT count(*) FROM rdma.run_on('und', 'CREATE SCHEMA und');
SELECT count(*) FROM rdma.run_on('und', $$CREATE TYPE und.mood AS ENUM ('bad', 'good')$$);

CREATE TABLE "T x" (
	id serial,
	"K" int NOT NULL CHECK ("K" >= 0),
	gone int,
	w text COLLATE "C" DEFAULT 'it''s',
	m mood,
	g text GENERATED ALWAYS AS (upper(w)) STORED,
	PRIMARY KEY ("K", id),
	CONSTRAINT "no two" EXCLUDE (id WITH =, "K" WITH =) WHERE (id > 100)) WITH (fillfactor = 70, autovacuum_enabled = off, toast.autovacuum_enabled = off);
ALTER TABLE "T x" DROP COLUMN gone;
ALTER TABLE "T x" ALTER w SET STORAGE external, ALTER w SET COMPRESSION pglz, ALTER id SET STATISTICS 77, ALTER "K" SET (n_distinct = -0.5);
CREATE INDEX "by w" ON "T x" (lower(w) DESC, "K") INCLUDE (m) WHERE id % 2 = 0;
CREATE UNIQUE INDEX ON "T x" ("K", id, (w || ''));
CREATE STATISTICS "S 1" (ndistinct, mcv) ON "K", w FROM "T x";
INSERT INTO "T x" ("K", w, m) SELECT i % 10, 'w' || i, CASE WHEN i % 3 = 0 THEN 'good' ELSE 'bad' END::mood FROM generate_series(1, 1000) i;
COMMENT ON TABLE "T x" IS 'comment';
COMMENT ON COLUMN "T x".w IS 'of a column';
GRANT SELECT (id), UPDATE ("K") ON "T x" TO "regress Und" WITH GRANT OPTION;
GRANT DELETE ON "T x" TO "regress Und", PUBLIC;
CREATE TABLE before AS SELECT * FROM "T x";
CREATE TEMP VIEW described AS
  SELECT c.relname, c.relkind, c.relpersistence, pg_get_userbyid(c.relowner) AS owner, c.reloptions, (SELECT reloptions FROM pg_class t WHERE t.oid = c.reltoastrelid) AS toast, obj_description(c.oid, 'pg_class') AS comment,
    (SELECT array_agg(a ORDER BY a::text) FROM unnest(c.relacl) a) AS acl,
    (SELECT string_agg(concat_ws(' ', attname, format_type(atttypid, atttypmod), attnotnull, attgenerated, attstorage, NULLIF(attcompression, ''), NULLIF(attstattarget, -1), (SELECT string_agg(o, ' ') FROM unnest(attoptions) o WHERE o LIKE 'n_distinct%'), attcollation::regcollation, attacl,
        pg_get_expr(adbin, adrelid), col_description(c.oid, attnum)), E'\n' ORDER BY attname) FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped) AS columns,
    (SELECT string_agg(conname || ' ' || pg_get_constraintdef(oid), E'\n' ORDER BY conname) FROM pg_constraint WHERE conrelid = c.oid) AS constraints,
    (SELECT string_agg(pg_get_indexdef(indexrelid), E'\n' ORDER BY indexrelid::regclass::text) FROM pg_index WHERE indrelid = c.oid) AS indexes,
    (SELECT string_agg(pg_get_statisticsobjdef(oid), E'\n') FROM pg_statistic_ext WHERE stxrelid = c.oid) AS statistics,
    pg_get_serial_sequence('und.' || quote_ident(c.relname), 'id') AS sequence
  FROM pg_class c WHERE c.relname = 'T x';
CREATE TEMP TABLE was AS SELECT * FROM described;

SELECT rdma.distribute_table('"T x"', 'und', '"K"');
SELECT relkind FROM pg_class WHERE oid = '"T x"'::regclass;
SELECT rdma.undistribute_table('"T x"');
SELECT count(*) FROM was;
SELECT * FROM described EXCEPT SELECT * FROM was;
SELECT count(*) FROM (TABLE "T x" EXCEPT TABLE before) x;
SELECT count(*), count(DISTINCT id) FROM "T x";
INSERT INTO "T x" ("K", w) VALUES (1, 'new') RETURNING id, g;
SELECT node, answer FROM rdma.run_on('und', $$SELECT to_regclass('und."T x"')::text$$);
EXPLAIN (COSTS OFF) SELECT FROM "T x" WHERE "K" = 1 AND id = 1;

-- changed meanwhile: what is here and what is on the nodes comes along
SELECT rdma.distribute_table('"T x"', 'und', '"K"');
ALTER TABLE "T x" ADD COLUMN later int DEFAULT 9, ADD CHECK (later > 0);
ALTER TABLE "T x" RENAME TO renamed;
SELECT count(*) FROM rdma.run_on('und', 'CREATE INDEX later_there ON und.renamed (later)');
SELECT count(*) FROM rdma.run_on('und', 'ALTER TABLE und.renamed ADD CONSTRAINT only_there CHECK (later < 100)');
BEGIN;
SELECT rdma.undistribute_table('renamed');
SELECT sum(later) FROM renamed;
ROLLBACK;
SELECT sum(later) FROM renamed;
SELECT sum(misplaced) FROM rdma.check_distribution('renamed');
SELECT rdma.undistribute_table('renamed');
\d renamed
-- replicated; nowhere in particular
CREATE TABLE copies AS SELECT i AS id FROM generate_series(1, 100) i;
CREATE TABLE strewn AS SELECT i AS id FROM generate_series(1, 100) i;
SELECT rdma.distribute_table('copies', 'und', replicated => true), rdma.distribute_table('strewn', 'und');
SELECT rdma.undistribute_table('copies'), rdma.undistribute_table('strewn');
SELECT count(*), sum(id) FROM copies;
SELECT count(*), sum(id) FROM strewn;
SELECT count(*) FROM rdma.run_on('und', 'CREATE TABLE und.bare (id int)');
CREATE FOREIGN TABLE bare (id int) SERVER und;
INSERT INTO bare SELECT generate_series(1, 10);
SELECT rdma.undistribute_table('bare');

-- unique on each node, not between them: nothing is lost
CREATE TABLE twice (id int, u int PRIMARY KEY);
SELECT rdma.distribute_table('twice', 'und', 'id');
INSERT INTO twice SELECT min(i), 1 FROM generate_series(1, 100) i GROUP BY rdma.hash_node(2, i);
SELECT count(*) FROM twice;
SELECT rdma.undistribute_table('twice');
SELECT count(*) FROM twice;

-- what it refuses
\set VERBOSITY default
\set SHOW_CONTEXT never
CREATE VIEW on_twice AS SELECT * FROM twice;
SELECT rdma.undistribute_table('twice');
DROP VIEW on_twice;
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER t BEFORE INSERT ON twice FOR EACH ROW EXECUTE FUNCTION nothing();
ALTER FOREIGN TABLE twice ALTER id OPTIONS (column_name 'u');
SELECT rdma.undistribute_table('twice');
SELECT rdma.undistribute_table('before');
GRANT ALL ON SCHEMA und TO "regress Und";
ALTER FOREIGN TABLE twice OWNER TO "regress Und";
SELECT rdma.undistribute_table('twice');
-- what a node says is a definition, or it is left out
SELECT rdma.is_definition('CREATE INDEX i ON t (a)'), rdma.is_definition('ALTER TABLE t ADD CONSTRAINT c PRIMARY KEY (a)'), rdma.is_definition('ALTER TABLE t ADD CONSTRAINT c EXCLUDE (a WITH =)');
SELECT rdma.is_definition('CREATE INDEX i ON t (a); ALTER ROLE x SUPERUSER'), rdma.is_definition('ALTER TABLE t ADD CONSTRAINT c PRIMARY KEY (a), OWNER TO x'),
  rdma.is_definition('ALTER TABLE t ADD CONSTRAINT c CHECK (f(a))'), rdma.is_definition('ALTER TABLE t ADD CONSTRAINT c FOREIGN KEY (a) REFERENCES u'), rdma.is_definition(''), rdma.is_definition('ALTER TABLE t OWNER TO x');

SET client_min_messages = warning;
DROP SERVER und1, und2, und CASCADE;
DROP SCHEMA und CASCADE;
DROP ROLE "regress Und";
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA und CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA und CASCADE;
