-- Settings of either side that the meaning of literals and the text of values depend on: the data node's sessions prefer others
-- than this one.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
CREATE ROLE rdma_regress_odd SUPERUSER LOGIN;
-- 19 has neither any more
DO $$ BEGIN IF current_setting('server_version_num')::int < 190000 THEN
  ALTER ROLE rdma_regress_odd SET standard_conforming_strings = off;
  ALTER ROLE rdma_regress_odd SET escape_string_warning = off;
END IF; END $$;
ALTER ROLE rdma_regress_odd SET search_path = odd, public;
ALTER ROLE rdma_regress_odd SET datestyle = 'SQL, DMY';
ALTER ROLE rdma_regress_odd SET intervalstyle = sql_standard;
ALTER ROLE rdma_regress_odd SET timezone = 'Asia/Kolkata';
ALTER ROLE rdma_regress_odd SET bytea_output = escape;
ALTER ROLE rdma_regress_odd SET array_nulls = off;
ALTER ROLE rdma_regress_odd SET xmloption = document;
ALTER ROLE rdma_regress_odd SET extra_float_digits = -5;
ALTER ROLE rdma_regress_odd SET transform_null_equals = on;
ALTER ROLE rdma_regress_odd SET quote_all_identifiers = on;
RESET client_min_messages;
DO $$ BEGIN EXECUTE format(
  'CREATE SERVER odd FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host ''127.0.0.1'', port %L, dbname %L)',
  current_setting('port'), current_database()); END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER odd OPTIONS (user 'rdma_regress_odd');
CREATE SCHEMA here;
CREATE TYPE here.mood AS ENUM ('sad', 'NULL');
CREATE TYPE here.mixed AS (d date, i interval, f float8, b bytea, z timestamptz, t text);
CREATE TABLE here.t (id int, t text, v varchar(9), d date, ts timestamp, z timestamptz, iv interval, f float8, by bytea, ia int[], ta text[], x text, m here.mixed, e here.mood[]);
INSERT INTO here.t VALUES
  (1, 'a\b', 'v\', '2020-02-03', '2020-02-03 04:05:06', '2020-02-03 04:05:06+00', '-1 year +2 mons -3 days', 0.1::float8 + 0.2, '\x005c27', '{1,NULL}', '{a,NULL,"NULL","\\"}', '<a/>b', '(2020-02-03,"-1 day +2:00",0.30000000000000004,"\\x5c00","2020-02-03 04:05:06+00","\\")', '{sad,NULL,"NULL"}'),
  (2, 'it''s', '''', '0044-03-15 BC', 'infinity', '1850-01-01 00:00:00+00', '1 day -2 hours', '-0', '', '{}', '{}', '<a/>', NULL, NULL),
  (3, '\', NULL, '-infinity', NULL, NULL, '0', 'NaN', NULL, NULL, NULL, NULL, '(,,,,,)', '{}');
CREATE SCHEMA away;
IMPORT FOREIGN SCHEMA here FROM SERVER odd INTO away;
ALTER TABLE away.t ALTER x TYPE xml USING NULL;
CREATE SCHEMA copies;
CREATE TABLE copies.t AS SELECT id, t, v, d, ts, z, iv, f, by, ia, ta, x::xml AS x, m, e FROM here.t;

-- the values as they are, with and without odd settings here
CREATE FUNCTION odd_settings(yes boolean) RETURNS void LANGUAGE sql AS $$
  SELECT set_config('datestyle', CASE WHEN yes THEN 'German' ELSE 'ISO, MDY' END, false),
    set_config('intervalstyle', CASE WHEN yes THEN 'sql_standard' ELSE 'postgres' END, false),
    set_config('timezone', CASE WHEN yes THEN 'America/St_Johns' ELSE 'UTC' END, false),
    set_config('extra_float_digits', CASE WHEN yes THEN '-3' ELSE '1' END, false),
    set_config('bytea_output', CASE WHEN yes THEN 'escape' ELSE 'hex' END, false),
    set_config('array_nulls', CASE WHEN yes THEN 'off' ELSE 'on' END, false),
    set_config('quote_all_identifiers', CASE WHEN yes THEN 'on' ELSE 'off' END, false),
    CASE WHEN current_setting('server_version_num')::int < 190000 THEN set_config('standard_conforming_strings', CASE WHEN yes THEN 'off' ELSE 'on' END, false) END,
    CASE WHEN current_setting('server_version_num')::int < 190000 THEN set_config('escape_string_warning', 'off', false) END $$;
CREATE FUNCTION differences() RETURNS SETOF text LANGUAGE sql AS $$
  SELECT 'only away: ' || a::text FROM away.t a WHERE a::text NOT IN (SELECT c::text FROM copies.t c) UNION ALL
  SELECT 'only here: ' || c::text FROM copies.t c WHERE c::text NOT IN (SELECT a::text FROM away.t a) $$;
\pset format unaligned
\pset tuples_only on
SELECT differences();
SELECT odd_settings(true);
SELECT differences();

-- conditions, each over the foreign table and the local copy: ids
CREATE FUNCTION found(condition text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE away int[]; here int[];
BEGIN
  EXECUTE format('SELECT array_agg(id ORDER BY id) FROM away.t WHERE %s', condition) INTO away;
  EXECUTE format('SELECT array_agg(id ORDER BY id) FROM copies.t WHERE %s', condition) INTO here;
  RETURN concat(CASE WHEN away IS DISTINCT FROM here THEN concat('DIFFERENT: ', away, ' instead of ') END, here);
END $$;
SELECT odd_settings(false);
CREATE TABLE conditions (c text);
INSERT INTO conditions VALUES
  ($$t = E'a\\b'$$), ($$t IN (E'a\\b', '''', E'\\')$$), ($$t = E'\\'$$), ($$t LIKE E'%\\\\%'$$), ($$t ~ E'\\\\'$$), ($$v = ''''$$), ($$v || E'\\' = E'v\\\\'$$),
  ($$t = E'\\'') OR true --'$$), ($$replace(t, E'\\', '/') = 'a/b'$$), ($$d = '2020-02-03'$$), ($$d = date '2020-02-03' + 0$$), ($$d = '0044-03-15 BC'$$), ($$d < '-infinity'::date + 1$$),
  ($$ts = '2020-02-03 04:05:06'$$), ($$ts > timestamp '2020-01-01'$$), ($$z = '2020-02-03 04:05:06+00'$$), ($$z < '1900-01-01 00:00+05:53:28'$$),
  ($$iv = '-1 year +2 mons -3 days'$$), ($$iv = interval '1 day -2 hours'$$), ($$iv < '0'$$), ($$f = 0.30000000000000004$$), ($$f = 'NaN'$$), ($$f > 0.3$$),
  ($$by = E'\\x005c27'$$), ($$by = ''$$), ($$ia = ARRAY[1, NULL]$$), ($$ta = ARRAY['a', NULL, 'NULL', E'\\']$$), ($$E'\\' = ANY (ta)$$),
  ($$id = NULL::int$$), ($$t = current_setting('datestyle') OR id = 2$$), ($$t = (date '2020-02-03' + 0)::text OR length(now()::date::text) = 10 AND id = 1$$);
SELECT c, found(c) FROM conditions;
SELECT odd_settings(true);
SELECT c, found(c) FROM conditions WHERE found(c) LIKE 'DIFFERENT%';

-- what is written: by column batches, one by one, and by statements of the data node
BEGIN;
DELETE FROM away.t WHERE t = E'\\'') OR true --';
SELECT count(*) FROM away.t;
DELETE FROM away.t;
INSERT INTO away.t SELECT * FROM copies.t WHERE id > 1;
INSERT INTO away.t SELECT * FROM copies.t WHERE id = 1 RETURNING id, ta, m IS NOT NULL;
SELECT differences();
UPDATE away.t SET t = t || E'\\''x', ta = ta || E'\\'::text WHERE id = 1;
UPDATE copies.t SET t = t || E'\\''x', ta = ta || E'\\'::text WHERE id = 1;
UPDATE away.t SET m = c.m, e = c.e, iv = c.iv FROM copies.t c WHERE away.t.id = c.id;
SELECT differences();
-- a parameter is computed under this session's settings
UPDATE away.t SET t = (date '2020-02-03' + (now() - now()))::date::text WHERE id = 3 RETURNING t;
ROLLBACK;
-- they are as they were here
SELECT current_setting('datestyle'), current_setting('standard_conforming_strings') = CASE WHEN current_setting('server_version_num')::int < 190000 THEN 'off' ELSE 'on' END, current_setting('array_nulls');

SELECT odd_settings(false);
SET client_min_messages = warning;
DROP SERVER odd CASCADE;
SELECT rdma.disconnect_all() IS NOT NULL;
DROP SCHEMA here, away, copies CASCADE;
DROP TABLE conditions;
DROP FUNCTION odd_settings, differences, found;
DROP ROLE rdma_regress_odd;
