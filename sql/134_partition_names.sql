-- Commands on one partition of a distributed table, by the name that it has on the nodes.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name pbn
\i :two_nodes
RESET client_min_messages;
\set SHOW_CONTEXT never
\pset format unaligned
\t on
CREATE FUNCTION there(command text) RETURNS SETOF text LANGUAGE sql AS $$ SELECT DISTINCT answer FROM rdma.run_on('pbn', command) ORDER BY 1 $$;
CREATE FUNCTION indexes(tab text) RETURNS SETOF text LANGUAGE sql AS $$ SELECT there(format(
  'SELECT string_agg(indexdef, E''\n'' ORDER BY indexname) FROM pg_indexes WHERE schemaname = ''pbn'' AND tablename = %L', tab)) $$;
CREATE TABLE events (device int, day date, value float8, PRIMARY KEY (device, day)) PARTITION BY RANGE (day);
CREATE TABLE y2026 PARTITION OF events FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
CREATE TABLE "Y 2027" PARTITION OF events FOR VALUES FROM ('2027-01-01') TO ('2028-01-01') PARTITION BY LIST (day);
CREATE TABLE rest PARTITION OF "Y 2027" DEFAULT;
SELECT rdma.distribute_table('events', 'pbn', 'device');
INSERT INTO events SELECT i, date '2026-01-01' + i, i FROM generate_series(1, 500) i;
-- indexes
CREATE INDEX ON y2026 (value) WHERE value > 5;
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS "By value" ON y2026 (device, value);
CREATE INDEX of_all ON pbn."Y 2027" (abs(device));
CREATE UNIQUE INDEX bad ON y2026 (value);
CREATE INDEX bad ON y2026 (nothing);
SELECT indexes('y2026');
SELECT indexes('rest');
ALTER INDEX "By value" RENAME TO by_value;
REINDEX INDEX by_value;
DROP INDEX CONCURRENTLY by_value;
DROP INDEX rest_abs_idx;
DROP INDEX of_all;
SELECT indexes('rest');
REINDEX TABLE y2026;
REINDEX (VERBOSE false) TABLE CONCURRENTLY y2026;
-- rows and statistics
ANALYZE y2026 (value, day);
SELECT there('SELECT string_agg(attname, '' '' ORDER BY attname) FROM pg_stats WHERE schemaname = ''pbn'' AND tablename = ''y2026''');
VACUUM (ANALYZE, SKIP_LOCKED) y2026;
SELECT there('SELECT string_agg(attname, '' '' ORDER BY attname) FROM pg_stats WHERE schemaname = ''pbn'' AND tablename = ''y2026''');
BEGIN;
VACUUM y2026;
ROLLBACK;
BEGIN;
TRUNCATE y2026;
SELECT count(*), min(day) FROM events;
ROLLBACK;
TRUNCATE "Y 2027" RESTART IDENTITY CASCADE;
TRUNCATE ONLY "Y 2027";
SELECT count(*), max(day) FROM events;
-- names and comments
COMMENT ON TABLE y2026 IS 'it''s \ 2026';
SELECT there('SELECT obj_description(''pbn.y2026''::regclass)');
COMMENT ON TABLE y2026 IS NULL;
SELECT there('SELECT obj_description(''pbn.y2026''::regclass) IS NULL');
ALTER TABLE y2026 RENAME TO "of 2026";
SELECT there('SELECT string_agg(relname, '','' ORDER BY relname) FROM pg_class WHERE relispartition AND relkind IN (''r'', ''p'') AND relnamespace = ''pbn''::regnamespace');
ALTER TABLE "of 2026" RENAME TO y2026;
-- rows by a partition's name: a view here, whose condition prunes on the nodes
CREATE VIEW of_2026 AS SELECT * FROM events WHERE day >= '2026-01-01' AND day < '2027-01-01' WITH CHECK OPTION;
INSERT INTO of_2026 VALUES (1000, '2026-05-05', 1) RETURNING *;
\set VERBOSITY terse
INSERT INTO of_2026 VALUES (1000, '2027-05-05', 1);
\set VERBOSITY default
UPDATE of_2026 SET value = 2 WHERE device = 1000 RETURNING *;
DELETE FROM of_2026 WHERE device = 1000;
SELECT count(*) FROM of_2026;
EXPLAIN (COSTS OFF) SELECT count(*) FROM of_2026;
DROP VIEW of_2026;
-- names that nobody knows, tables that are no partitions, more than one name, other roles
TRUNCATE nothing;
TRUNCATE y2026, "Y 2027";
ANALYZE nothing;
REINDEX TABLE nothing;
CREATE INDEX ON nothing (a);
COMMENT ON TABLE nothing IS 'x';
ALTER TABLE nothing RENAME TO something;
SET rdma_fdw.propagate_ddl = off;
TRUNCATE y2026;
RESET rdma_fdw.propagate_ddl;
CREATE ROLE regress_pbn;
GRANT ALL ON SCHEMA pbn TO regress_pbn;
SET ROLE regress_pbn;
TRUNCATE y2026;
CREATE INDEX ON y2026 (value);
VACUUM y2026;
RESET ROLE;
ALTER TABLE events DETACH PARTITION y2026;
TRUNCATE y2026;
SELECT count(*) FROM y2026;

SET client_min_messages = warning;
DROP SERVER pbn1, pbn2, pbn CASCADE;
DROP SCHEMA pbn CASCADE;
DROP ROLE regress_pbn;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA pbn CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA pbn CASCADE;
