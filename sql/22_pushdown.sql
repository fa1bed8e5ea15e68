-- What is sent to the data node: conditions, columns, parameters, row locks; and what stays here.
\set ECHO none
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
RESET client_min_messages;

DO $$ BEGIN EXECUTE format(
  'CREATE SERVER push_srv FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host ''127.0.0.1'', port %L, dbname %L)',
  current_setting('port'), current_database()); END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER push_srv OPTIONS (user :'USER');

CREATE SCHEMA push_remote;
CREATE TYPE push_remote.mood AS ENUM ('sad', 'ok', 'happy');
CREATE TABLE push_remote."T 1" (
  "C 1" int PRIMARY KEY, c2 int NOT NULL, c3 text, c4 timestamptz, c5 timestamp, c6 varchar(10), c7 char(10),
  c8 push_remote.mood, c9 numeric(10, 2), c10 jsonb, c11 int[], c12 text COLLATE "C", c13 date, c14 interval, c15 bytea,
  c16 float8, c17 boolean, c18 name);
INSERT INTO push_remote."T 1"
  SELECT i, i % 10, to_char(i, 'FM00000'), '1970-01-01 UTC'::timestamptz + (i % 100) * interval '1 day',
         '1970-01-01'::timestamp + (i % 100) * interval '1 day', i % 10, i % 10, (enum_range(NULL::push_remote.mood))[1 + i % 3],
         i * 1.25, jsonb_build_object('k', i), ARRAY[i, i + 1], to_char(i, 'FM00000'), '1970-01-01'::date + i, i * interval '1 hour',
         int4send(i), i / 8.0, i % 2 = 0, 'n' || i
    FROM generate_series(1, 1000) i;
ANALYZE push_remote."T 1";

CREATE FOREIGN TABLE ft (
  c1 int OPTIONS (column_name 'C 1'), c2 int NOT NULL, gone int, c3 text, c4 timestamptz, c5 timestamp, c6 varchar(10), c7 char(10),
  c8 push_remote.mood, c9 numeric(10, 2), c10 jsonb, c11 int[], c12 text COLLATE "C", c13 date, c14 interval, c15 bytea,
  c16 float8, c17 boolean, c18 name)
  SERVER push_srv OPTIONS (schema_name 'push_remote', table_name 'T 1');
ALTER FOREIGN TABLE ft DROP COLUMN gone;

-- What the scans of a query send, which conditions stay here, and why.
CREATE FUNCTION sent(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
  FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
    IF line ~ '(Remote SQL|Filter|Filtered Here|Join Filter|Index Cond|One-Time Filter): ' THEN
      RETURN NEXT ltrim(line);
    END IF;
  END LOOP;
END $$;

-- Of plans that differ between majors: only what the other side is asked.
CREATE FUNCTION remote_sql(query text) RETURNS SETOF text LANGUAGE sql AS $$ SELECT line FROM sent(query) line WHERE line ~ '^Remote SQL' $$;

-- What is sent, and a check that the rows are those of the table itself.
CREATE FUNCTION pushed(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE diff bigint; own text := replace(query, ' ft', ' ft_here');
BEGIN
  RETURN QUERY SELECT sent(query);
  EXECUTE format('SELECT count(*) FROM (((%1$s) EXCEPT ALL (%2$s)) UNION ALL ((%2$s) EXCEPT ALL (%1$s))) d', query, own) INTO diff;
  IF diff <> 0 THEN
    RETURN NEXT diff || ' ROWS DIFFER';
  END IF;
END $$;

-- The same for conditions that the data node evaluates: each as it is written, and as it is sent.
CREATE FUNCTION conditions(VARIADIC asked text[]) RETURNS SETOF text LANGUAGE sql AS $$
  SELECT format('%s  =>  %s', condition, replace(said, 'Remote SQL: SELECT "C 1" FROM push_remote."T 1" WHERE ', ''))
    FROM unnest(asked) WITH ORDINALITY u(condition, place),
      LATERAL (SELECT string_agg(line, ' | ') FROM pushed('SELECT c1 FROM ft WHERE ' || condition) line) p(said) ORDER BY place
$$;
-- why conditions stay here, in JSON
CREATE FUNCTION reasons_in_json(query text) RETURNS json LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
  EXECUTE 'EXPLAIN (VERBOSE, FORMAT JSON) ' || query INTO plan;
  RETURN plan -> 0 -> 'Plan' -> 'Filtered Here';
END $$;
CREATE VIEW ft_here AS SELECT "C 1" AS c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12, c13, c14, c15, c16, c17, c18
  FROM push_remote."T 1";
\pset format unaligned
\pset tuples_only on
\set ECHO all

-- columns
EXPLAIN (VERBOSE, COSTS OFF) SELECT * FROM ft;
SELECT pushed('SELECT c1, c3 FROM ft');
SELECT pushed('SELECT 1 FROM ft');
SELECT pushed('SELECT count(*) FROM ft');
SELECT pushed('SELECT c3 FROM ft WHERE c1 = 7');
-- the bucket of a row
SELECT pushed('SELECT count(*) FROM ft WHERE rdma.hash_node(840, c1, c3) = ANY (''{1,2,3}'')');
SELECT sent('SELECT ft FROM ft WHERE c1 = 7');
SELECT ft FROM ft WHERE c1 = 7;
SELECT pushed('SELECT count(c2) FROM ft WHERE c3 || random()::text > ''''');

-- operators and functions
SELECT conditions('c1 > 990 AND c2 <> 3', 'c1 = 1 OR c2 = 3 AND NOT c17', 'abs(c1) = c2', 'c1 = -c1', '(c1 + 1) * 2 % 7 = 3::bigint', 'c1 IS NOT NULL AND c3 IS NULL',
  'c17 IS TRUE AND c17 IS NOT UNKNOWN', 'c17', 'NOT c17', 'c2 IN (1, 3, 5)', 'c2 = ANY (c11) AND c1 <> ALL (ARRAY[c2, 4])',
  'c11[1] = 5 AND c11[1:1] = ARRAY[5]', 'c1 BETWEEN 5 AND 9', 'c1 IS DISTINCT FROM c2', 'NULLIF(c1, c2) IS NULL', 'COALESCE(c3, c12) = c3',
  'GREATEST(c1, c2, 5) = 5 AND LEAST(c1, 3) = 3', 'CASE WHEN c1 > 990 THEN c1 ELSE 0 END > 995', 'CASE c2 WHEN 1 THEN c1 WHEN 2 THEN 995 END > 990',
  'CASE mod(c1, 4) WHEN 0 THEN c3 ELSE ''00'' END = c3', 'substring(c3 from 2 for 3) = ''001''',
  'c3 LIKE ''00_1%'' AND c3 ~ ''1$'' AND c3 NOT ILIKE ''%9%''', 'upper(c3) = ''00500''', 'length(c3) = 5 AND starts_with(c3, ''0001'')',
  'c6 = ''5'' AND c7 = ''5''', 'c7 = ''5''::char(10) AND c18 = ''n5''', 'c9 = 12.5 OR c9::text = ''25.00''', 'c16 = 0.125 OR c16 > ''Infinity''',
  'c16::int8 = 4 AND c9::float8 > 1e1', 'c10 @> ''{"k": 5}'' OR (c10 ->> ''k'') = ''6''', 'c10[''k''] = ''7''', $$c15 = '\x00000009'$$,
  $$c3 = E'it''s\\n' OR c3 = '"quoted"'$$);
SELECT sent($$SELECT c1 FROM ft WHERE c3 = E'two\nlines'$$);

-- dates and times: the session's styles must not show in the text
SET datestyle = 'SQL, DMY';
SET intervalstyle = 'sql_standard';
SET extra_float_digits = 0;
SELECT conditions('c13 = DATE ''05/01/1970''', 'c5 = TIMESTAMP ''05/01/1970 00:00''', 'c4 = TIMESTAMPTZ ''1970-01-05 00:00 UTC''', 'c14 = INTERVAL ''1 day 02:00''',
  'c16 = 0.1::float8 + 0.2::float8');
RESET datestyle;
RESET intervalstyle;
RESET extra_float_digits;
SELECT conditions('extract(year FROM c13) = 1970 AND extract(day FROM c13) = 5', 'c5 + interval ''1 day'' = ''1970-01-06''',
  'date_trunc(''month'', c5) = ''1970-02-01''', 'c4 AT TIME ZONE ''UTC'' = ''1970-01-05''');

-- what stays: not immutable, not built in, not the same everywhere
SELECT pushed('SELECT c1 FROM ft WHERE c4::date = ''1970-01-05'' AND c1 < 10');
SELECT pushed('SELECT c1 FROM ft WHERE c1 = trunc(random()) AND c1 > 3');
SELECT pushed('SELECT c1 FROM ft WHERE c8 = ''happy'' AND c1 < 5');
SELECT pushed('SELECT c1 FROM ft WHERE c18::regclass = ''pg_class''::regclass AND c1 < 0');
SELECT pushed('SELECT c1 FROM ft WHERE c3 = to_char(c13, ''YYYY'')');
SELECT pushed('SELECT c1 FROM ft WHERE c9::money > ''5'' AND c1 < 4');
SELECT conditions('c4 < now() AND c1 < 3', 'c18 = CURRENT_USER', '(c1, c2) < (3, 4)', '(c1, c2) = (13, 3)', 'ROW(c1, c3) IS NOT NULL AND c1 < 3');
SELECT pushed('SELECT c1 FROM ft WHERE ft IS NOT NULL AND c1 < 3');
SELECT pushed('SELECT c1 FROM ft WHERE xmlexists(''/a'' PASSING xmlelement(name a)) AND c1 < 3');
CREATE FUNCTION push_mine(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1; END';
CREATE OPERATOR === (LEFTARG = int, RIGHTARG = int, FUNCTION = int4eq, COMMUTATOR = ===);
SELECT pushed('SELECT c1 FROM ft WHERE push_mine(c1) = 5 AND c2 = 5');
SELECT pushed('SELECT c1 FROM ft WHERE c1 === 5 AND c2 = 5');
CREATE FUNCTION push_inlined(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 + 1';
SELECT pushed('SELECT c1 FROM ft WHERE push_inlined(c1) = 5');

-- collations: only a foreign column's own
SELECT conditions('c3 < ''00005''', 'c12 < ''00005''', 'c3 COLLATE "C" < ''00005''', 'c12 COLLATE "POSIX" < ''00005''', 'c12 COLLATE "C" < ''00005''',
  'c3 < (''00005'' COLLATE "C")', 'c3 = c12 AND c1 < 3', 'c3 || c12 = ''0000100001''');
SELECT pushed('SELECT c1 FROM ft WHERE upper(''x'') = ''X'' AND lower(c2::text) = ''5'' AND c1 < 9');
SELECT pushed('SELECT c1 FROM ft WHERE c2::text < ''5'' AND c2::text IN (''3'', ''4'') AND c1 < 9');

-- each different reason once, with VERBOSE only, and in a list in other formats
SELECT pushed('SELECT c1 FROM ft WHERE c4::text < ''2'' COLLATE "C" AND random() >= 0 AND random() < 2 AND (c1 = 1 OR c2::text < ''5'' OR c1 === 3)');
SELECT pushed('SELECT c2, max(c1) FROM ft GROUP BY c2 HAVING push_mine(max(c1)) > 995');
EXPLAIN (COSTS OFF) SELECT c1 FROM ft WHERE c1 === 5;
SELECT reasons_in_json('SELECT c1 FROM ft WHERE c1 === 5 AND c8 = ''ok''');
SELECT reasons_in_json('SELECT c1 FROM ft WHERE c1 = 5') IS NULL AS nothing;

-- system columns
SELECT sent('SELECT c1 FROM ft WHERE c1 < 3 AND tableoid <> 0');
SELECT c1 FROM ft WHERE c1 < 3 AND tableoid <> 0;
EXPLAIN (VERBOSE, COSTS OFF) SELECT ctid, c1, tableoid::regclass FROM ft WHERE ctid = '(0,2)';
SELECT ctid, c1, tableoid::regclass FROM ft WHERE ctid = '(0,2)';
SELECT xmin, cmin, xmax, cmax, c1 FROM ft WHERE c1 < 3 ORDER BY c1;
SELECT count(*) FROM ft WHERE cmax = '0' AND xmin = '0' AND c1 < 3;

-- parameters
PREPARE p1(int, text) AS SELECT c1 FROM ft WHERE c1 = $1 AND c3 = $2 AND c2 = $1 % 10;
SET plan_cache_mode = force_generic_plan;
SELECT sent('EXECUTE p1(7, ''00007'')');
EXECUTE p1(7, '00007');
EXECUTE p1(8, '00007');
EXECUTE p1(8, '00008');
EXECUTE p1(NULL, '00008');
PREPARE p2(regclass) AS SELECT c1 FROM ft WHERE c1 = $1::oid::int AND c2 = 1;
SELECT sent('EXECUTE p2(''pg_class'')');
-- types whose names without a length mean one character or bit
PREPARE p3(bpchar, bit, varbit, interval, float8) AS SELECT c1 FROM ft WHERE c7 <= $1 AND c1 < 3 AND $2 <> B'1' AND $3 = B'1010' AND c14 = $4 AND c16 < $5;
EXPLAIN (VERBOSE, COSTS OFF) EXECUTE p3('2         ', B'101', B'1010', '1 hour', 0.2);
EXECUTE p3('2         ', B'101', B'1010', '1 hour', 0.2);
DEALLOCATE p3;
RESET plan_cache_mode;
SELECT sent('EXECUTE p1(7, ''00007'')');
DEALLOCATE p1;
DEALLOCATE p2;
-- the same parameter twice is one, the outer row's columns are others
EXPLAIN (VERBOSE, COSTS OFF)
  SELECT x, (SELECT count(*) FROM ft WHERE c1 <= x AND c2 = x AND c3 > 'a' || y) FROM (VALUES (3, 'b'), (4, 'c')) v(x, y);
SELECT x, (SELECT count(*) FROM ft WHERE c1 <= x AND c2 = x) FROM generate_series(3, 6) x;
-- sub-selects
SELECT remote_sql('SELECT c1 FROM ft WHERE c1 = (SELECT max(c2) FROM ft_here)');
SELECT c1 FROM ft WHERE c1 = (SELECT max(c2) FROM ft_here);
SELECT remote_sql('SELECT c1 FROM ft WHERE c2 IN (SELECT c2 FROM ft_here h WHERE h.c1 = ft.c1 AND random() >= 0) AND c1 < 4');
SELECT c1 FROM ft WHERE c2 IN (SELECT c2 FROM ft_here h WHERE h.c1 = ft.c1 AND random() >= 0) AND c1 < 4 ORDER BY 1;
-- lateral
SELECT x, l.* FROM generate_series(1, 3) x, LATERAL (SELECT c1, c3 FROM ft WHERE c1 = x * 100 OFFSET 0) l;

-- parameterized paths, with costs of a look-up from the data node
ALTER SERVER push_srv OPTIONS (ADD use_remote_estimate 'true');
CREATE TEMP TABLE few (id int, word text);
INSERT INTO few VALUES (5, '00005'), (5, '00006'), (77, '00077'), (2000, NULL);
ANALYZE few;
INSERT INTO push_remote."T 1" ("C 1", c2) SELECT i, i % 10 FROM generate_series(1001, 50000) i;
ANALYZE push_remote."T 1";
SELECT replace(remote_sql('SELECT few.*, ft.c3 FROM few JOIN ft ON ft.c1 = few.id'), '(batch.p1 = "C 1")', '("C 1" = batch.p1)');
SELECT few.*, ft.c3 FROM few JOIN ft ON ft.c1 = few.id ORDER BY 1, 2;
EXPLAIN (VERBOSE, COSTS OFF) SELECT few.*, ft.c3 FROM few LEFT JOIN ft ON ft.c1 = few.id + 1 AND ft.c3 > few.word;
SELECT few.*, ft.c3 FROM few LEFT JOIN ft ON ft.c1 = few.id + 1 AND ft.c3 > few.word ORDER BY 1, 2;
SELECT sent('SELECT c1 FROM ft WHERE c1 = 5 AND c8 = ''ok''');
ALTER SERVER push_srv OPTIONS (DROP use_remote_estimate);
DELETE FROM push_remote."T 1" WHERE "C 1" > 1000;

-- row locks
EXPLAIN (VERBOSE, COSTS OFF) SELECT c1 FROM ft WHERE c1 = 5 FOR UPDATE;
SELECT sent('SELECT c1 FROM ft WHERE c1 = 5 AND c8 = ''ok'' FOR NO KEY UPDATE NOWAIT');
SELECT sent('SELECT c1 FROM ft WHERE c1 = 5 FOR SHARE SKIP LOCKED');
SELECT sent('SELECT c1 FROM ft, few WHERE c1 = id FOR KEY SHARE OF ft');
SELECT sent('SELECT c1 FROM ft, few WHERE c1 = id FOR UPDATE OF few');
SELECT c1, c3 FROM ft WHERE c1 = 5 FOR UPDATE;
-- the row is locked there until the transaction ends, also against this session's own local access
BEGIN;
SELECT c1, c3 FROM ft WHERE c1 = 5 FOR UPDATE;
SELECT "C 1" FROM push_remote."T 1" WHERE "C 1" BETWEEN 4 AND 6 ORDER BY 1 FOR UPDATE SKIP LOCKED;
SAVEPOINT s;
SELECT "C 1" FROM push_remote."T 1" WHERE "C 1" = 5 FOR UPDATE NOWAIT;
ROLLBACK TO s;
COMMIT;
SELECT "C 1" FROM push_remote."T 1" WHERE "C 1" = 5 FOR UPDATE NOWAIT;
BEGIN;
SELECT "C 1" FROM push_remote."T 1" WHERE "C 1" = 5 FOR UPDATE;
SELECT c1 FROM ft WHERE c1 BETWEEN 4 AND 6 FOR SHARE SKIP LOCKED;
SAVEPOINT s;
SELECT c1 FROM ft WHERE c1 = 5 FOR KEY SHARE NOWAIT;
ROLLBACK TO s;
SELECT count(*) FROM ft;
COMMIT;

-- a condition that is evaluated elsewhere leaks no rows of a security barrier view
CREATE VIEW barrier WITH (security_barrier) AS SELECT c1, c2, c3 FROM ft WHERE c2 = 3;
SELECT sent('SELECT c1 FROM barrier WHERE c1 = 13 AND 1 / (c1 - 14) < 1');
SELECT c1 FROM barrier WHERE c1 = 13 AND 1 / (c1 - 14) < 1;
SELECT sent('DELETE FROM barrier WHERE 1 / (c1 - 14) < 1');

-- conditions without columns become a gate
SELECT sent('SELECT c1 FROM ft WHERE c1 < 3 AND current_user = ''nobody''');
SELECT c1 FROM ft WHERE c1 < 3 AND current_user = 'nobody';

-- objects of an extension, once the server vouches for it
CREATE SCHEMA push_ext;
CREATE FUNCTION push_ext.push_ext_fn(int) RETURNS int LANGUAGE plpgsql IMMUTABLE STRICT AS 'BEGIN RETURN $1; END';
ALTER EXTENSION rdma_fdw ADD FUNCTION push_ext.push_ext_fn(int);
SELECT pushed('SELECT c1 FROM ft WHERE push_ext.push_ext_fn(c1) = 5');
ALTER SERVER push_srv OPTIONS (ADD extensions 'rdma_fdw');
SELECT pushed('SELECT c1 FROM ft WHERE push_ext.push_ext_fn(c1) = 5');
ALTER EXTENSION rdma_fdw DROP FUNCTION push_ext.push_ext_fn(int);

-- two local columns for one remote column
CREATE FOREIGN TABLE twice (a int OPTIONS (column_name 'C 1'), b int OPTIONS (column_name 'C 1'), c int OPTIONS (column_name 'c2'))
  SERVER push_srv OPTIONS (schema_name 'push_remote', table_name 'T 1');
SELECT sent('SELECT * FROM twice WHERE a < 3 AND b > 1 AND c = 2');
SELECT * FROM twice WHERE a < 3 AND b > 1 AND c = 2;

\set ECHO none
SET client_min_messages = warning;
DROP SERVER push_srv CASCADE;
DROP VIEW ft_here;
DROP SCHEMA push_remote, push_ext CASCADE;
DROP FUNCTION conditions(text[]), pushed(text), remote_sql(text), sent(text), reasons_in_json(text), push_mine(int), push_inlined(int);
DROP OPERATOR === (int, int);
DROP TABLE few;
