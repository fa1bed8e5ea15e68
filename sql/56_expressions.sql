-- Expressions: which the data node evaluates, as a condition and as a column above DISTINCT, and which it must not.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
CREATE SCHEMA ext;
CREATE EXTENSION citext SCHEMA ext;
RESET client_min_messages;
SET timezone = 'UTC';

DO $$ BEGIN EXECUTE format(
  'CREATE SERVER expr_srv FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host ''127.0.0.1'', port %L, dbname %L)',
  current_setting('port'), current_database()); END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER expr_srv OPTIONS (user :'USER');

CREATE SCHEMA here;
CREATE TYPE here.mood AS ENUM ('sad', 'ok');
CREATE TYPE here.pair AS (a int, b text);
CREATE DOMAIN here.positive AS int CHECK (VALUE > 0);
CREATE TABLE here.t (id int PRIMARY KEY, i int, l int8, n numeric, f float8, s text, c char(4), b boolean, d date, ts timestamp, tz timestamptz,
  iv interval, ia int[], ta text[], j jsonb, js json, u uuid, ip inet, r int4range, by bytea, bt bit(4), m here.mood, p here.pair, o here.positive,
  reg regclass, mo money, x xml, ci ext.citext, pt point);
INSERT INTO here.t SELECT i, nullif(i % 9, 4), i * 1000000007::int8, i / 7.0, i / 8.0, 'word' || i, 'c' || i % 3, i % 2 = 0, date '2024-01-01' + i,
  timestamp '2024-01-01 12:00' + i * interval '7 hours', timestamptz '2024-01-01 12:00Z' + i * interval '5 hours', i * interval '90 minutes', ARRAY[i, NULL, i * 2],
  ARRAY['a' || i, 'b'], jsonb_build_object('k', i, 'a', ARRAY[i, i + 1]), json_build_object('k', i), md5(i::text)::uuid, ('10.0.0.' || i)::inet,
  int4range(i, i + 5), int4send(i), (i % 16)::bit(4), (ARRAY['sad', 'ok'])[1 + i % 2]::here.mood, ROW(i, 'b')::here.pair, i, 'pg_class'::regclass, i::numeric::money,
  '<a/>'::xml, 'Ci' || i, point(i, -i) FROM generate_series(1, 40) i;
ANALYZE here.t;
CREATE SCHEMA away;
IMPORT FOREIGN SCHEMA here FROM SERVER expr_srv INTO away;

-- "there" or "here", and whether the rows are those of the table itself; for what is sent, how it reads
CREATE FUNCTION sent(condition text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE line text; where_there text := ''; filter text; got int[]; expected int[];
BEGIN
  SET LOCAL search_path = away, ext, public;
  FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) SELECT id FROM t WHERE ' || condition LOOP
    where_there := where_there || coalesce(substring(line FROM 'Remote SQL.* WHERE (.*)'), '');
    filter := coalesce(filter, substring(line FROM 'Filter: (.*)'));
  END LOOP;
  EXECUTE 'SELECT array_agg(id ORDER BY id) FROM (SELECT id FROM t WHERE ' || condition || ' OFFSET 0) s' INTO got;
  SET LOCAL search_path = here, ext, public;
  EXECUTE 'SELECT array_agg(id ORDER BY id) FROM (SELECT id FROM t WHERE ' || condition || ' OFFSET 0) s' INTO expected;
  RESET search_path;
  RETURN CASE WHEN got IS DISTINCT FROM expected THEN '*** other rows ' ELSE '' END ||
    CASE WHEN filter IS NULL THEN 'there: ' || where_there WHEN where_there <> '' THEN 'part there: ' || where_there ELSE 'here' END;
END $$;
\pset format unaligned
\pset tuples_only on

-- CASE in both forms, COALESCE, NULLIF, GREATEST
SELECT sent('CASE WHEN i > 3 THEN s ELSE c END = ''word5''');
SELECT sent('CASE i WHEN 1 THEN 10 WHEN 2 THEN 20 END = 20');
SELECT sent('CASE WHEN b THEN CASE i WHEN 2 THEN true ELSE false END END');
SELECT sent('coalesce(i, l, 7) = 7');
SELECT sent('nullif(i, 3) IS NULL');
SELECT sent('greatest(i, id, 20) = 20 AND least(n, 3) < 3');
-- truth values
SELECT sent('b IS NOT TRUE');
SELECT sent('(i > 3) IS UNKNOWN');
SELECT sent('(i = 3) IS DISTINCT FROM b');
SELECT sent('b AND NOT (i = 2 OR i IS NULL)');
-- arrays and their comparisons
SELECT sent('ia[1] = 3');
SELECT sent('ia[2:3] = ARRAY[NULL, 8]');
SELECT sent('ia = ARRAY[id, NULL, id * 2] AND id < 4');
SELECT sent('i = ANY (ia)');
SELECT sent('i < ALL (ARRAY[id, 5])');
SELECT sent('id IN (1, 2, 3, 5)');
SELECT sent('id NOT IN (1, 2, 3, 5)');
SELECT sent('s IN (''word1'', ''word2'')');
SELECT sent('ta[1] IN (''a1'', ''a9'')');
SELECT sent('''b'' = ANY (ta) AND s = ANY (ARRAY[''word7'', ta[2]])');
SELECT sent('ia @> ARRAY[4] AND array_length(ia, 1) = 3 AND cardinality(ta) = 2');
SELECT sent('ia && ARRAY[1, 2, 3]');
SELECT sent('(ia || 7)[4] = 7 AND array_position(ia, 6) = 3');
SELECT sent('ARRAY[[1, 2], [id, 4]] = ARRAY[[1, 2], [3, 4]]');
SELECT sent('id = ANY (string_to_array(''1,2,x'', '','', ''x'')::int[])');
-- rows
SELECT sent('(i, id) < (2, 20)');
SELECT sent('(i, id) = (2, 20)');
SELECT sent('(s, id) >= (''word7'', 3)');
SELECT sent('(i, id) IN ((1, 10), (2, 20))');
SELECT sent('(i, id) IS DISTINCT FROM (1, 10)');
SELECT sent('ROW(i, s) IS NULL');
SELECT sent('ROW(i, s) = ROW(2, ''word2'')');
-- strings
SELECT sent('s LIKE ''word1%'' AND s NOT ILIKE ''%5'' AND s ~ ''1$''');
SELECT sent('s SIMILAR TO ''word(1|2)''');
SELECT sent('position(''d1'' IN s) > 0 AND overlay(s PLACING ''x'' FROM 1 FOR 1) LIKE ''x%''');
SELECT sent('trim(both ''w'' FROM s) = ''ord3''');
SELECT sent('lower(upper(s)) = s AND md5(s) > ''c''');
SELECT sent('substring(s FROM ''[0-9]+'')::int = 7');
SELECT sent('split_part(s, ''d'', 2) = ''4'' AND replace(s, ''o'', ''0'') = ''w0rd4''');
SELECT sent('c = ''c1'' AND length(c) = 2');
SELECT sent('s || c || id = ''word1c1  1''');
SELECT sent('format(''%s'', id) = ''3''');
SELECT sent('concat(s, id) = ''word33''');
SELECT sent('s COLLATE "C" < ''word2'' AND s COLLATE "POSIX" > ''word1''');
-- numbers
SELECT sent('n + 1 > 2.5 AND round(n, 1) < 5 AND n % 2 < 1');
SELECT sent('f * 8 = id AND sqrt(f) < 2 AND f::int = 1');
SELECT sent('l / 1000000007 = id AND abs(-l) > 7 AND id # 3 = 2');
SELECT sent('id BETWEEN 3 AND 5 OR id BETWEEN SYMMETRIC 9 AND 7');
SELECT sent('id::text = ''7'' OR ''8''::int = id OR id::numeric::text = ''9''');
-- dates and times
SELECT sent('d = ''2024-01-05'' OR d - date ''2024-01-01'' = 7');
SELECT sent('extract(day FROM ts) = 3 AND date_part(''hour'', ts) > 5');
SELECT sent('ts + interval ''1 day'' < ''2024-01-05'' AND date_trunc(''day'', ts) > ''2024-01-02''');
SELECT sent('(ts, ts + iv) OVERLAPS (timestamp ''2024-01-02'', timestamp ''2024-01-03'')');
SELECT sent('iv > interval ''2 hours'' AND justify_hours(iv) < ''1 day''');
SELECT sent('tz < ''2024-01-03 00:00Z'' AND tz AT TIME ZONE ''UTC'' > ''2024-01-01 20:00''');
-- other built-in types
SELECT sent('j @> ''{"k": 5}'' OR j -> ''a'' ->> 0 = ''6'' OR j #>> ''{a,1}'' = ''8'' OR j ? ''nokey''');
SELECT sent('j[''k''] = ''9'' OR j @? ''$.k ? (@ == 11)''');
SELECT sent('js ->> ''k'' = ''4''');
SELECT sent('u = md5(''3'')::uuid');
SELECT sent('ip << ''10.0.0.0/29'' AND host(ip) <> ''10.0.0.1''');
SELECT sent('r @> 7 AND lower(r) > 3 AND NOT isempty(r)');
SELECT sent('by = ''\x00000007'' OR length(by) = 3 OR get_byte(by, 3) = 9');
SELECT sent('bt & B''0011'' = B''0011''');
SELECT sent('pt <-> point(0, 0) < 5');
-- values that only this node knows, and that do not change while the query runs
SELECT sent('tz < now() AND id < 4');
SELECT sent('d < current_date - 1 AND id < 4');
SELECT sent('ts < localtimestamp AND s <> current_user AND id < 4');
SELECT sent('s = current_setting(''no.such'', true) OR id = 3');
SELECT sent('id < 4 AND tz > to_timestamp(''2024'', ''YYYY'')');

-- what must stay: it depends on settings, on time zones, on objects of one node, or changes
SELECT sent('tz::date = ''2024-01-02''');
SELECT sent('extract(hour FROM tz) = 3');
SELECT sent('tz + interval ''1 day'' > ''2024-01-09''');
SELECT sent('d::timestamptz < ''2024-01-05''');
SELECT sent('d::text = ''2024-01-05'' OR iv::text = ''1''');
SELECT sent('f::text = ''1''');
SELECT sent('to_char(id, ''9'') = '' 5''');
SELECT sent('random() >= 0 AND clock_timestamp() > tz');
SELECT sent('m = ''ok''');
SELECT sent('m > ''sad'' AND m IN (''ok'')');
SELECT sent('(p).a = 3');
SELECT sent('p = ROW(3, ''b'')::here.pair');
SELECT sent('t IS NOT NULL');
SELECT sent('o > 38');
SELECT sent('o::int > 38');
SELECT sent('reg = ''pg_class''::regclass AND reg::oid > 0');
SELECT sent('mo > ''39''::money');
SELECT sent('x IS DOCUMENT');
SELECT sent('s < ''word2'' COLLATE "en-x-icu"');
SELECT sent('id::text < ''2''');
SELECT sent('to_tsvector(s) @@ to_tsquery(''word3'')');
SELECT sent('s = quote_ident(s) AND id IN (SELECT g FROM generate_series(1, 3) g WHERE random() >= 0)');
SELECT sent('tableoid::regclass::text = ''t''');
SELECT sent('ci = ''CI3''');
SELECT sent('pg_typeof(id)::text = ''integer''');
SELECT sent('id = 3 AND (SELECT count(*) FROM t u WHERE u.id < t.id) = 2');
-- an extension's objects, once the server vouches for it
ALTER SERVER expr_srv OPTIONS (ADD extensions 'citext');
SELECT sent('ci = ''CI3''');
SELECT sent('ci LIKE ''ci1_'' AND ci <> ''ci15'' AND length(ci::text) = 4');
SELECT sent('ci = ANY (ARRAY[''ci7''::ext.citext, ''CI8''])');
SET search_path = away, ext, public;
EXPLAIN (VERBOSE, COSTS OFF) SELECT ci, count(*) FROM t GROUP BY ci HAVING min(ci) < 'ci12' ORDER BY ci LIMIT 2;
SELECT ci, count(*) FROM t GROUP BY ci HAVING min(ci) < 'ci12' ORDER BY ci LIMIT 2;
RESET search_path;

SET client_min_messages = warning;
DROP SERVER expr_srv CASCADE;
DROP SCHEMA away, here CASCADE;
DROP EXTENSION citext;
DROP SCHEMA ext;
DROP FUNCTION sent(text);
