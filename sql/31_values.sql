-- Patterns of NULLs, values of all sizes, many columns and none: what the layout of batches depends on.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
CREATE SCHEMA va;
SET search_path = va;
DO $$ BEGIN EXECUTE format('CREATE SERVER values_srv FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host ''127.0.0.1'', port %L, dbname %L)',
  current_setting('port'), current_database()); END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER values_srv OPTIONS (user :'USER');

-- differ(foreign, table): rows that only one of them has
CREATE FUNCTION differ(a text, b text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE extra bigint; missing bigint; n bigint;
BEGIN
  EXECUTE format('SELECT count(*) FROM (SELECT t::text FROM %s t EXCEPT ALL SELECT t::text FROM %s t) x', a, b) INTO extra;
  EXECUTE format('SELECT count(*) FROM (SELECT t::text FROM %s t EXCEPT ALL SELECT t::text FROM %s t) x', b, a) INTO missing;
  EXECUTE format('SELECT count(*) FROM %s t', b) INTO n;
  RETURN format('%s too many, %s missing of %s', extra, missing, n);
END $$;

SELECT setseed(0.25);
-- The same row pattern never fits two batches: lengths drift, NULLs come in runs and alone, a late column begins to matter, a row is huge.
CREATE TABLE drift (i int, gone text, t text, n numeric, b bool, late text, c "char", u uuid, a int[]);
INSERT INTO drift SELECT i, 'x', CASE WHEN random() < 0.3 THEN NULL ELSE repeat('k', (random() * 300)::int) END,
  CASE WHEN random() < 0.5 THEN (random() * 1000)::numeric END, CASE WHEN i % 100 < 50 THEN random() < 0.5 END,
  CASE WHEN i % 2500 > 1250 THEN repeat('z', (random() * 1000)::int) END, 'x', md5(i::text)::uuid, CASE WHEN i % 3 = 0 THEN ARRAY[i, NULL, i + 1] END
  FROM generate_series(1, 6000) i;
ALTER TABLE drift DROP gone;
ALTER TABLE drift ADD added int DEFAULT 42;		-- older rows do not have it
ALTER TABLE drift ADD added_null text;
INSERT INTO drift SELECT i, 'abc', 1.5, true, 'late', 'y', md5('x')::uuid, '{}', i, NULL FROM generate_series(6001, 8000) i;
INSERT INTO drift (i, t) VALUES (0, repeat('huge ', 100000)), (-1, NULL);
DELETE FROM drift WHERE i % 7 = 0;
UPDATE drift SET added = 5 WHERE i % 5 = 0;
CREATE FOREIGN TABLE f_drift (i int, t text, n numeric, b bool, late text, c "char", u uuid, a int[], added int, added_null text)
  SERVER values_srv OPTIONS (table_name 'drift');
SELECT differ('f_drift', 'drift');
SELECT differ('(SELECT added, c, i FROM f_drift)', '(SELECT added, c, i FROM drift)');
SELECT differ('(SELECT a, u FROM f_drift WHERE i > 100 AND b)', '(SELECT a, u FROM drift WHERE i > 100 AND b)');
SELECT differ('(SELECT t, t AS again, i, i AS too FROM f_drift)', '(SELECT t, t AS again, i, i AS too FROM drift)');
ALTER FOREIGN TABLE f_drift OPTIONS (ADD receive_buffer_size '4kB');
SELECT differ('f_drift', 'drift');
ALTER FOREIGN TABLE f_drift OPTIONS (ADD receive_buffers '1', ADD inline_limit '0');
SELECT differ('f_drift', 'drift');
ALTER FOREIGN TABLE f_drift OPTIONS (SET receive_buffer_size '4MB', SET receive_buffers '2', SET inline_limit '10MB');
SELECT differ('f_drift', 'drift');
-- sorted on the data node: another plan, the executor's own way
SELECT differ('(SELECT * FROM f_drift ORDER BY i LIMIT 2000)', '(SELECT * FROM drift ORDER BY i LIMIT 2000)');
-- dropped and added columns of the foreign table itself
ALTER FOREIGN TABLE f_drift DROP COLUMN late;
ALTER FOREIGN TABLE f_drift ADD COLUMN late text;
SELECT differ('(SELECT i, late, added FROM f_drift)', '(SELECT i, late, added FROM drift)');

-- Rows without columns, without rows, with NULLs only.
SELECT count(*) FROM f_drift;
SELECT count(*) FROM (SELECT FROM f_drift OFFSET 0) x;
CREATE TABLE nothing (a int, b text);
CREATE FOREIGN TABLE f_nothing (a int, b text) SERVER values_srv OPTIONS (table_name 'nothing');
SELECT * FROM f_nothing;
INSERT INTO nothing SELECT FROM generate_series(1, 50000);
SELECT count(*), count(a), count(b) FROM (SELECT * FROM f_nothing OFFSET 0) x;
CREATE TABLE bare ();
INSERT INTO bare SELECT FROM generate_series(1, 70000);
CREATE FOREIGN TABLE f_bare () SERVER values_srv OPTIONS (table_name 'bare');
SELECT count(*) FROM (SELECT FROM f_bare OFFSET 0) x;

-- Values stored out of line, compressed, both, and neither.
CREATE TABLE toasted (i int, plain text, external text, extended text, main text, n numeric);
ALTER TABLE toasted ALTER plain SET STORAGE plain, ALTER external SET STORAGE external, ALTER main SET STORAGE main;
INSERT INTO toasted SELECT i, repeat('p', i % 1000), repeat(md5(i::text), i % 200), repeat(md5((i % 9)::text), i * 10), repeat('m', i * 20), ('1e' || i)::numeric FROM generate_series(1, 500) i;
CREATE FOREIGN TABLE f_toasted (i int, plain text, external text, extended text, main text, n numeric) SERVER values_srv OPTIONS (table_name 'toasted');
SELECT differ('f_toasted', 'toasted');

-- 100 MB in one value, among small ones, twice in a row.
CREATE TABLE big (i int, v text, b bytea);
INSERT INTO big VALUES (1, 'small', ''), (2, repeat(md5('a'), 3276800), NULL), (3, NULL, decode(repeat('00ff', 10000000), 'hex')), (4, 'small', '\x00');
CREATE FOREIGN TABLE f_big (i int, v text, b bytea) SERVER values_srv OPTIONS (table_name 'big');
SELECT i, length(f.v), length(f.b), f.v IS NOT DISTINCT FROM t.v AND f.b IS NOT DISTINCT FROM t.b AS same FROM f_big f JOIN big t USING (i) ORDER BY i;
SELECT i FROM f_big WHERE i = 4;

-- 1,600 columns, with buffers that hold none of their rows.
DO $$ BEGIN
  EXECUTE 'CREATE TABLE wide AS SELECT ' || (SELECT string_agg(CASE WHEN k % 5 = 0 THEN format('NULLIF(i %% 3, 0) AS c%s', k) ELSE format('(i + %s)::int2 AS c%s', k, k) END, ', ' ORDER BY k) FROM generate_series(1, 1600) k) || ' FROM generate_series(1, 40) i';
  EXECUTE 'CREATE FOREIGN TABLE f_wide (' || (SELECT string_agg(format('c%s %s', k, CASE WHEN k % 5 = 0 THEN 'int4' ELSE 'int2' END), ', ' ORDER BY k) FROM generate_series(1, 1600) k) || ') SERVER values_srv OPTIONS (table_name ''wide'')';
END $$;
SELECT differ('f_wide', 'wide');
ALTER FOREIGN TABLE f_wide OPTIONS (ADD receive_buffer_size '4kB');
SELECT differ('f_wide', 'wide');

-- A transaction that changed rows reads them; a table that changes under a repeatable read does not show it.
CREATE TABLE moving (i int, v text);
INSERT INTO moving SELECT i, 'old' FROM generate_series(1, 3000) i;
CREATE FOREIGN TABLE f_moving (i int, v text) SERVER values_srv OPTIONS (table_name 'moving');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FILTER (WHERE v = 'old') AS old FROM (SELECT * FROM f_moving OFFSET 0) x;
UPDATE moving SET v = 'new' WHERE i <= 1000;
DELETE FROM moving WHERE i > 2900;
SELECT count(*) FILTER (WHERE v = 'old') AS old, count(*) FROM (SELECT * FROM f_moving OFFSET 0) x;
COMMIT;
SELECT count(*) FILTER (WHERE v = 'old') AS old, count(*) FROM (SELECT * FROM f_moving OFFSET 0) x;

DROP SERVER values_srv CASCADE;
DROP SCHEMA va CASCADE;
