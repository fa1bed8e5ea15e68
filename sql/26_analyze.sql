-- ANALYZE of foreign tables, and what the planner makes of it
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
RESET client_min_messages;

DO $$ BEGIN EXECUTE format(
  'CREATE SERVER ana_srv FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host ''127.0.0.1'', port %L, dbname %L)',
  current_setting('port'), current_database()); END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER ana_srv OPTIONS (user :'USER');
CREATE SCHEMA ana_src;
CREATE TABLE ana_src.t (id int, grp int, txt text, d date, hole int);
INSERT INTO ana_src.t SELECT i, i % 10, CASE WHEN i % 4 > 0 THEN 'x' || i END, '2020-01-01'::date + i % 100 FROM generate_series(1, 20000) i;
CREATE VIEW ana_src.v AS SELECT * FROM ana_src.t WHERE id <= 500;
CREATE TABLE ana_src.p (k int) PARTITION BY RANGE (k);
CREATE TABLE ana_src.p1 PARTITION OF ana_src.p FOR VALUES FROM (0) TO (5000);
CREATE TABLE ana_src.p2 PARTITION OF ana_src.p FOR VALUES FROM (5000) TO (20000);
INSERT INTO ana_src.p SELECT i FROM generate_series(0, 19999) i;
CREATE TABLE ana_src.empty (a int);
CREATE TABLE ana_src.nothing ();
INSERT INTO ana_src.nothing SELECT FROM generate_series(1, 7);

CREATE FOREIGN TABLE t (no1 int OPTIONS (column_name 'id'), gone int, grp int, txt text, d date, hole int) SERVER ana_srv OPTIONS (schema_name 'ana_src');
ALTER FOREIGN TABLE t DROP COLUMN gone;
CREATE FOREIGN TABLE v (id int, grp int) SERVER ana_srv OPTIONS (schema_name 'ana_src');
CREATE FOREIGN TABLE p (k int) SERVER ana_srv OPTIONS (schema_name 'ana_src');
CREATE FOREIGN TABLE empty (a int) SERVER ana_srv OPTIONS (schema_name 'ana_src');
CREATE FOREIGN TABLE nothing () SERVER ana_srv OPTIONS (schema_name 'ana_src');
CREATE FOREIGN TABLE missing (a int) SERVER ana_srv OPTIONS (schema_name 'ana_src');

CREATE FUNCTION estimate(query text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE j json;
BEGIN
  EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO j;
  RETURN j -> 0 -> 'Plan' ->> 'Plan Rows';
END $$;

-- the data node does not know its number of rows, so it sends all
ANALYZE t, v, p, empty, nothing;
SELECT relname, reltuples, relpages > 0 AS pages FROM pg_class WHERE oid IN ('t'::regclass, 'v'::regclass, 'p'::regclass, 'empty'::regclass, 'nothing'::regclass) ORDER BY 1;
SELECT attname, null_frac, n_distinct, avg_width BETWEEN 4 AND 7 AS width FROM pg_stats WHERE schemaname = 'public' AND tablename = 't' ORDER BY 1;
SELECT estimate('SELECT * FROM t'), estimate('SELECT * FROM t WHERE no1 <= 5000'), estimate('SELECT * FROM t WHERE no1 = 7');
-- now it does: about a tenth is sampled, by every method
ANALYZE ana_src.t, ana_src.p, ana_src.p1, ana_src.p2;
SET default_statistics_target = 10;
ANALYZE t (no1), p;
SELECT relname, reltuples BETWEEN 15000 AND 25000 AS good FROM pg_class WHERE oid IN ('t'::regclass, 'p'::regclass) ORDER BY 1;
ALTER SERVER ana_srv OPTIONS (ADD analyze_sampling 'off');
ANALYZE t;
SELECT reltuples FROM pg_class WHERE oid = 't'::regclass;
ALTER FOREIGN TABLE t OPTIONS (ADD analyze_sampling 'random');
ANALYZE t;
SELECT reltuples BETWEEN 15000 AND 25000 AS good FROM pg_class WHERE oid = 't'::regclass;
ALTER FOREIGN TABLE t OPTIONS (SET analyze_sampling 'system');
ANALYZE t;
SELECT reltuples BETWEEN 2000 AND 200000 AS good FROM pg_class WHERE oid = 't'::regclass;
ALTER FOREIGN TABLE t OPTIONS (SET analyze_sampling 'bernoulli');
ANALYZE t;
SELECT reltuples BETWEEN 15000 AND 25000 AS good FROM pg_class WHERE oid = 't'::regclass;
RESET default_statistics_target;
\set VERBOSITY terse
ANALYZE missing;
\set VERBOSITY default
SELECT count(*) FROM t;

-- statistics of the data node as they are: those of its ANALYZE with a column of every kind of slot
CREATE TYPE ana_src.mood AS ENUM ('sad', 'ok', 'happy');
CREATE TABLE ana_src.s (id int, few int, txt text, tags text[], doc tsvector, r int4range, c char(5), m ana_src.mood, arr int[], wide text, local_type int8, hole int);
INSERT INTO ana_src.s SELECT i, i % 3, CASE WHEN i % 4 > 0 THEN 'x' || i END, ARRAY['t' || i % 5, CASE WHEN i % 2 = 0 THEN 'even, "quoted"' END],
  to_tsvector('simple', 'word' || i % 7), int4range(i, i + 5), 'c' || i % 4, (ARRAY['sad', 'ok', 'happy'])[1 + i % 3]::ana_src.mood, ARRAY[i % 2, i % 3], repeat('w', i % 300), i
  FROM generate_series(1, 3000) i;
CREATE TABLE ana_src.s_child () INHERITS (ana_src.s);
CREATE FOREIGN TABLE s (number int OPTIONS (column_name 'id'), gone int, few int, txt text, tags text[], doc tsvector, r int4range, c char(5), m ana_src.mood,
  arr int[], wide text, local_type int, hole int, not_there int) SERVER ana_srv OPTIONS (schema_name 'ana_src', analyze_sampling 'import');
ALTER FOREIGN TABLE s DROP COLUMN gone;
SELECT rdma.import_statistics('s');
ANALYZE ana_src.s;
DROP TABLE ana_src.s_child;
SELECT rdma.import_statistics('s');
SELECT reltuples, relpages > 0 AS pages FROM pg_class WHERE oid = 's'::regclass;
-- what the view shows is the same, but for columns that have another type here and for ranges
CREATE VIEW differences AS
  SELECT there.attname FROM pg_stats there LEFT JOIN pg_stats here ON here.tablename = there.tablename AND here.schemaname = 'public' AND
    here.attname = CASE there.attname WHEN 'id' THEN 'number' ELSE there.attname END
  WHERE there.schemaname = 'ana_src' AND there.tablename = 's' AND NOT there.inherited AND
    to_jsonb(there) - '{schemaname,attname,inherited,tableid,attnum}'::text[] IS DISTINCT FROM to_jsonb(here) - '{schemaname,attname,inherited,tableid,attnum}'::text[];
SELECT * FROM differences WHERE attname <> 'r' ORDER BY 1;
SELECT count(*), count(most_common_vals) AS values, count(histogram_bounds) AS bounds, count(most_common_elems) AS elems, count(elem_count_histogram) AS counts, count(correlation) AS correlations
  FROM pg_stats WHERE schemaname = 'public' AND tablename = 's';
SELECT null_frac, avg_width, n_distinct, histogram_bounds FROM pg_stats WHERE schemaname = 'public' AND tablename = 's' AND attname = 'local_type';
SELECT estimate('SELECT * FROM s'), estimate('SELECT * FROM s WHERE few = 1'), estimate('SELECT * FROM s WHERE number <= 1000'), estimate('SELECT * FROM s WHERE tags @> ARRAY[''t1'']');
-- ANALYZE does it, too, again and again, as long as there is something to import
DELETE FROM ana_src.s WHERE few = 1;
ANALYZE ana_src.s;
ANALYZE s;
ANALYZE s (few);
SELECT reltuples FROM pg_class WHERE oid = 's'::regclass;
SELECT * FROM differences WHERE attname <> 'r' ORDER BY 1;
ALTER FOREIGN TABLE p OPTIONS (ADD analyze_sampling 'import');
SELECT rdma.import_statistics('p');
SELECT estimate('SELECT * FROM p WHERE k < 2000') BETWEEN 1800 AND 2200 AS good;
ALTER FOREIGN TABLE v OPTIONS (ADD analyze_sampling 'import');
SELECT rdma.import_statistics('v');
ANALYZE v;
SELECT reltuples FROM pg_class WHERE oid = 'v'::regclass;
-- for a parent's statistics rows of its children are needed
CREATE TABLE parts (k int) PARTITION BY RANGE (k);
ALTER TABLE parts ATTACH PARTITION p DEFAULT;
ANALYZE parts;
SELECT inherited, n_distinct FROM pg_stats WHERE schemaname = 'public' AND tablename = 'parts';
ALTER TABLE parts DETACH PARTITION p;
DROP TABLE parts;
-- statistics of a column that is not imported; in a transaction; privileges, and kinds of relations
ALTER FOREIGN TABLE s ALTER few SET STATISTICS 0;
BEGIN;
DELETE FROM pg_statistic WHERE starelid = 's'::regclass;
SELECT rdma.import_statistics('s');
SELECT count(*) FROM pg_stats WHERE schemaname = 'public' AND tablename = 's';
ROLLBACK;
SELECT count(*) FROM pg_stats WHERE schemaname = 'public' AND tablename = 's';
CREATE ROLE ana_role;
SET ROLE ana_role;
\set VERBOSITY sqlstate
SELECT rdma.import_statistics('s');
RESET ROLE;
DROP ROLE ana_role;
\set VERBOSITY terse
SELECT rdma.import_statistics('ana_src.s');
SELECT rdma.import_statistics('missing');
\set VERBOSITY default
DROP VIEW differences;

-- a table without rows when it was analyzed may have some now: it is planned as if it had never been analyzed
SELECT relname, reltuples FROM pg_class WHERE oid IN ('empty'::regclass, 'missing'::regclass) ORDER BY 1;
SELECT estimate('SELECT * FROM empty') > 1000 AS many, estimate('SELECT * FROM empty') = estimate('SELECT * FROM missing') AS alike;
SELECT item, status, fix LIKE '%public.empty%' AND fix LIKE '%public.missing%' AS named, fix LIKE '%public.t%' AS too_many
  FROM rdma.check('ana_srv') WHERE item = 'statistics';
INSERT INTO ana_src.empty SELECT generate_series(1, 50);
ANALYZE empty;
SELECT estimate('SELECT * FROM empty');

-- all foreign tables that the caller may analyze; one that cannot be does not keep the others from it
CREATE TABLE parted (a int) PARTITION BY LIST (a);
CREATE FOREIGN TABLE parted_1 PARTITION OF parted DEFAULT SERVER ana_srv OPTIONS (schema_name 'ana_src', table_name 'empty');
CREATE FOREIGN TABLE gone (a int) SERVER ana_srv OPTIONS (schema_name 'ana_src', table_name 'none');
SELECT * FROM rdma_internal.analyzable_tables('ana_srv') EXCEPT SELECT ftrelid::regclass FROM pg_foreign_table;
\set VERBOSITY terse
CALL rdma.analyze_tables('no such server');
CALL rdma.analyze_tables('ana_srv');
\set VERBOSITY default
SELECT count(*) AS analyzed, count(*) FILTER (WHERE c.reltuples < 0) AS others FROM rdma_internal.analyzable_tables('ana_srv') t JOIN pg_class c ON c.oid = t;
CREATE ROLE ana_role;
SET ROLE ana_role;
SELECT count(*) FROM rdma_internal.analyzable_tables(NULL);
CALL rdma.analyze_tables();
RESET ROLE;
DROP ROLE ana_role;
DROP TABLE parted;

-- estimates of the data node itself
ALTER FOREIGN TABLE v OPTIONS (ADD use_remote_estimate 'true');
SELECT estimate('SELECT * FROM v') BETWEEN 400 AND 600 AS remote;
ALTER FOREIGN TABLE t OPTIONS (ADD use_remote_estimate 'true');
SELECT estimate('SELECT * FROM t'), estimate('SELECT * FROM t WHERE no1 <= 5000') BETWEEN 4500 AND 5500 AS some,
       estimate('SELECT * FROM t WHERE no1 <= 5000 AND random() < 0.5') BETWEEN 1000 AND 2000 AS some_here;

SET client_min_messages = warning;
DROP SERVER ana_srv CASCADE;
DROP SCHEMA ana_src CASCADE;
DROP FUNCTION estimate(text);
