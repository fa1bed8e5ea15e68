-- What rdma.distribute_table carries over besides rows, columns, constraints and indexes, and that it refuses published tables.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name kp
\set schema Keep
\i :two_nodes
CREATE SCHEMA keep_statistics;
CREATE ROLE "regress_Keep";
SET client_min_messages = error;	-- wal_level
CREATE PUBLICATION regress_rdma_keep;
RESET client_min_messages;
\set VERBOSITY terse
\pset format unaligned
\t on

CREATE TABLE "T x" (id int PRIMARY KEY, "K" int, w int, gone int, t text) WITH (fillfactor = 70, autovacuum_enabled = off, toast.autovacuum_enabled = off);
ALTER TABLE "T x" DROP COLUMN gone;
ALTER TABLE "T x" ALTER t SET STORAGE external, ALTER t SET COMPRESSION pglz, ALTER w SET STATISTICS 77, ALTER "K" SET (n_distinct = -0.5, n_distinct_inherited = 3);
INSERT INTO "T x" SELECT i, i % 10, i % 10, 't' || i FROM generate_series(1, 1000) i;
CREATE STATISTICS "S 1" (ndistinct, mcv) ON "K", w FROM "T x";
CREATE STATISTICS keep_statistics.s2 ON ("K" + w), (w % 3) FROM "T x";
COMMENT ON COLUMN "T x"."K" IS 'the ''key''';
GRANT SELECT (id, "K"), UPDATE (w) ON "T x" TO "regress_Keep" WITH GRANT OPTION;
GRANT INSERT (id) ON "T x" TO PUBLIC;
GRANT DELETE ON "T x" TO "regress_Keep";

\set VERBOSITY default
\set SHOW_CONTEXT never
ALTER PUBLICATION regress_rdma_keep ADD TABLE "T x";
SELECT rdma.distribute_table('"T x"', 'kp', 'id');
ALTER PUBLICATION regress_rdma_keep DROP TABLE "T x";
-- also those that a publication of a schema has, or of all tables
ALTER PUBLICATION regress_rdma_keep ADD TABLES IN SCHEMA "Keep";
SELECT rdma.distribute_table('"T x"', 'kp', 'id');
ALTER PUBLICATION regress_rdma_keep DROP TABLES IN SCHEMA "Keep";
SET client_min_messages = error;	-- wal_level
BEGIN;
CREATE PUBLICATION regress_rdma_all FOR ALL TABLES;
RESET client_min_messages;
SAVEPOINT s;
SELECT rdma.distribute_table('"T x"', 'kp', 'id');
ROLLBACK TO s;
CREATE UNLOGGED TABLE of_no_publication (id int);
SELECT rdma.distribute_table('of_no_publication', 'kp', 'id');
SELECT rdma.distribute_table('"T x"', 'kp', 'id', force => true);
ROLLBACK;
SELECT rdma.distribute_table('"T x"', 'kp', 'id');

-- here
SELECT attname, array_to_string(attacl, ' '), col_description(attrelid, attnum) FROM pg_attribute WHERE attrelid = '"T x"'::regclass AND attnum > 0 AND (attacl IS NOT NULL OR col_description(attrelid, attnum) IS NOT NULL) ORDER BY attnum;
SELECT stxnamespace::regnamespace, stxname, stxkind, pg_get_statisticsobjdef_columns(oid) FROM pg_statistic_ext WHERE stxrelid = '"T x"'::regclass ORDER BY stxname;
EXPLAIN (COSTS OFF) SELECT FROM "T x" WHERE id = 1;
SELECT has_table_privilege('regress_Keep', '"T x"', 'DELETE'), has_table_privilege('regress_Keep', '"T x"', 'INSERT');
-- and on the nodes
SELECT answer FROM rdma.run_on('kp', $$SELECT reloptions || (SELECT reloptions FROM pg_class t WHERE t.oid = c.reltoastrelid) FROM pg_class c WHERE oid = '"Keep"."T x"'::regclass$$);
SELECT answer FROM rdma.run_on('kp', $$SELECT string_agg(concat_ws(' ', attname, attstorage, NULLIF(attcompression, ''), NULLIF(attstattarget, -1), (SELECT string_agg(o, ' ') FROM unnest(attoptions) o WHERE o LIKE 'n_distinct%')), '; ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = '"Keep"."T x"'::regclass AND attnum > 0$$);
SELECT answer FROM rdma.run_on('kp', $$SELECT string_agg(pg_get_statisticsobjdef(oid), '; ' ORDER BY stxname) FROM pg_statistic_ext WHERE stxrelid = '"Keep"."T x"'::regclass$$);
SELECT answer FROM rdma.run_on('kp', $$SELECT count(*) FROM pg_statistic_ext_data d JOIN pg_statistic_ext e ON e.oid = d.stxoid WHERE e.stxrelid = '"Keep"."T x"'::regclass$$);
SELECT count(*), sum(w) FROM "T x";

SET client_min_messages = warning;
DROP SERVER kp1, kp2, kp CASCADE;
DROP SCHEMA "Keep", keep_statistics CASCADE;
DROP PUBLICATION regress_rdma_keep;
DROP ROLE "regress_Keep";
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA "Keep" CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA "Keep" CASCADE;
