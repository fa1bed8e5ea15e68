-- The batch room alone, in one backend (test/modules/batch): every layout comes back as it was, damaged batches are errors and nothing worse.
SET client_min_messages = warning;
CREATE SCHEMA ba;
SET search_path = ba;
CREATE FUNCTION batch_round_trip(query text, capacity int DEFAULT 65536, portable bool DEFAULT false, encoding text DEFAULT '', damage int DEFAULT 0)
  RETURNS SETOF record AS '$libdir/batch_test' LANGUAGE C STRICT;
CREATE FUNCTION batch_pages(tab regclass, way text DEFAULT 'box', damage int DEFAULT 0) RETURNS SETOF record AS '$libdir/batch_test' LANGUAGE C STRICT;
CREATE FUNCTION batch_kinds(query text, portable bool DEFAULT false, encoding text DEFAULT '') RETURNS text AS '$libdir/batch_test' LANGUAGE C STRICT;

-- What goes raw, what through send and receive, what as text: same node type, portable, other encoding.
CREATE TYPE mood AS ENUM ('sad', 'happy');
CREATE DOMAIN posint AS int CHECK (VALUE > 0);
CREATE TYPE pair AS (a int, b text);
CREATE TYPE pair_of_mood AS (a int, m mood);
CREATE TYPE textrange AS RANGE (subtype = text);
CREATE TABLE kinds (c_int4 int, c_bool bool, c_float8 float8, c_uuid uuid, c_interval interval, c_name name, c_text text, c_numeric numeric, c_jsonb jsonb, c_jsonpath jsonpath,
  c_inet inet, c_int4range int4range, c_multirange nummultirange, a_int4 int[], a_text text[], c_regclass regclass, a_regclass regclass[], c_aclitem aclitem, c_oid oid, c_oidvector oidvector,
  u_mood mood, ua_mood mood[], u_posint posint, u_pair pair, u_pair_of_mood pair_of_mood, u_textrange textrange, u_multirange textmultirange);
INSERT INTO kinds VALUES (1);
SELECT attname, k[attnum] AS same, p[attnum] AS portable, e[attnum] AS other_encoding
FROM pg_attribute, string_to_array(batch_kinds('SELECT * FROM ba.kinds'), ' ') k, string_to_array(batch_kinds('SELECT * FROM ba.kinds', true), ' ') p,
  string_to_array(batch_kinds('SELECT * FROM ba.kinds', false, 'LATIN1'), ' ') e
WHERE attrelid = 'kinds'::regclass AND attnum > 0 ORDER BY attnum;

-- Batches of all sizes, from less than a row to more than the table.
SELECT setseed(0.5);
CREATE TABLE rows AS SELECT i, CASE WHEN random() < 0.3 THEN NULL ELSE repeat('k', (random() * 300)::int) END AS t, CASE WHEN random() < 0.5 THEN (random() * 1000)::numeric END AS n,
  CASE WHEN random() < 0.1 THEN random() < 0.5 END AS b, CASE WHEN i % 1000 > 500 THEN repeat('z', (random() * 5000)::int) END AS late,
  ARRAY[i, NULL, i * 2] AS a, CASE WHEN i % 2 = 0 THEN jsonb_build_object('k', i, 'l', jsonb_build_array(i, 'x', null, 1.5)) END AS j, numrange(i, i + 0.5) AS r,
  to_tsvector('simple', 'a b c a ' || i) AS v, ('10.0.0.' || i % 256)::inet AS h, ('n' || i)::name AS m FROM generate_series(1, 2000) i;
SELECT capacity, portable, count(*) AS same FROM unnest(ARRAY[200, 1000, 4032, 65536, 4194304]) AS capacity, unnest(ARRAY[false, true]) AS portable,
  LATERAL batch_round_trip('SELECT * FROM ba.rows', capacity, portable) AS x(i int, t text, n numeric, b bool, late text, a int[], j jsonb, r numrange, v tsvector, h inet, m name)
  JOIN rows y ON x.i = y.i AND x::text = y::text GROUP BY 1, 2 ORDER BY 1, 2;

-- Flipped bytes: thousands of damaged batches; every value that is accepted is used.
CREATE TABLE few AS SELECT * FROM rows WHERE i <= 60;
DO $$
DECLARE ok int := 0; refused int := 0; row_text text;
BEGIN
  FOR seed IN 1..3000 LOOP
    BEGIN
      PERFORM count(x::text) FROM batch_round_trip('SELECT * FROM ba.few', 30000, seed % 2 = 0, '', seed)
        AS x(i int, t text, n numeric, b bool, late text, a int[], j jsonb, r numrange, v tsvector, h inet, m name);
      ok := ok + 1;
    EXCEPTION WHEN OTHERS THEN refused := refused + 1;
    END;
  END LOOP;
  RAISE WARNING 'all of them read or refused: %; some read: %; some refused: %', ok + refused = 3000, ok > 0, refused > 0;
END $$;

-- Batches of nothing but short texts are looked at as a whole: none that is damaged may be accepted, wherever its offset points.
CREATE TABLE texts AS SELECT i, 'value ' || i AS t, left('abcdefghijklmnopqrstuvwxyz', i % 27) AS u, chr(i)::varchar(3) AS v FROM generate_series(1, 120) i;
DO $$
DECLARE ok int := 0; refused int := 0; found text[];
BEGIN
  FOR seed IN 1..3000 LOOP
    BEGIN
      SELECT array_agg(x.t) || array_agg(x.u) || array_agg(x.v) INTO found
        FROM batch_round_trip('SELECT * FROM ba.texts', 30000, false, '', seed) AS x(i int, t text, u text, v varchar(3));
      ok := ok + 1;
    EXCEPTION WHEN OTHERS THEN
      refused := refused + 1;
      CONTINUE;
    END;
    PERFORM convert_to(x, 'UTF8') FROM unnest(found) AS x;
  END LOOP;
  RAISE WARNING 'all of them read or refused: %; some read: %; some refused: %', ok + refused = 3000, ok > 0, refused > 0;
END $$;

-- The same with heap pages.
SELECT way, count(*) AS same FROM unnest(ARRAY['box', 'copy', 'stays', 'gather', 'mixed']) AS way,
  LATERAL batch_pages('ba.rows', way) AS x(i int, t text, n numeric, b bool, late text, a int[], j jsonb, r numrange, v tsvector, h inet, m name)
  JOIN rows y ON x.i = y.i AND x::text = y::text GROUP BY 1 ORDER BY 1;
DO $$
DECLARE ok int := 0; refused int := 0; row_text text;
BEGIN
  FOR seed IN 1..3000 LOOP
    BEGIN
      PERFORM count(x::text) FROM batch_pages('ba.few', (ARRAY['box', 'copy', 'mixed'])[seed % 3 + 1], seed)
        AS x(i int, t text, n numeric, b bool, late text, a int[], j jsonb, r numrange, v tsvector, h inet, m name);
      ok := ok + 1;
    EXCEPTION WHEN OTHERS THEN refused := refused + 1;
    END;
  END LOOP;
  RAISE WARNING 'all of them read or refused: %; some read: %; some refused: %', ok + refused = 3000, ok > 0, refused > 0;
END $$;
-- an image of another type
SELECT * FROM batch_pages('ba.kinds') AS x(a int);
SELECT * FROM batch_pages('ba.few') AS x(i int8, t text, n numeric, b bool, late text, a int[], j jsonb, r numrange, v tsvector, h inet, m name);
SELECT * FROM batch_pages('ba.few') AS x(i int, t text, n numeric, b bool, late text, a int[], j jsonb, r numrange, v tsvector, h inet, m text);
SELECT * FROM batch_pages('ba.few') AS x(i int, t varchar, n numeric, b bool, late text, a int[], j jsonb, r numrange, v tsvector, h cidr, m name);

-- Rows kept together and divided among one, few and many encoders; each row comes out where its hash belongs.
CREATE FUNCTION batch_shuffle(query text, keys int[], destinations int, capacity int) RETURNS SETOF record AS '$libdir/batch_test' LANGUAGE C STRICT;
SELECT capacity, destinations, count(*) AS same FROM unnest(ARRAY[200, 4032, 65536]) AS capacity, unnest(ARRAY[1, 3, 64]) AS destinations,
  LATERAL batch_shuffle('SELECT * FROM ba.rows', ARRAY[2, 1], destinations, capacity) AS x(i int, t text, n numeric, b bool, late text, a int[], j jsonb, r numrange, v tsvector, h inet, m name)
  JOIN rows y ON x.i = y.i AND x::text = y::text GROUP BY 1, 2 ORDER BY 1, 2;
CREATE TABLE fixed AS SELECT i, nullif(i % 7, 0)::int2 AS s, i::int8 * 1000000007 AS l, nullif(i % 3, 0) = 1 AS b, (i % 100)::"char" AS c, i / 8.0::float4 AS f, ('2020-01-01'::date + i) AS d,
  md5(i::text)::uuid AS u FROM generate_series(1, 5000) i;
SELECT capacity, destinations, count(*) AS same FROM unnest(ARRAY[300, 65536]) AS capacity, unnest(ARRAY[2, 64]) AS destinations,
  LATERAL batch_shuffle('SELECT * FROM ba.fixed', ARRAY[3], destinations, capacity) AS x(i int, s int2, l int8, b bool, c "char", f float8, d date, u uuid)
  JOIN fixed y ON x.i = y.i AND x::text = y::text GROUP BY 1, 2 ORDER BY 1, 2;
-- Tuples of one length, at equal distances, as a device would put them together.
CREATE TABLE even AS SELECT * FROM fixed WHERE s IS NOT NULL AND b IS NOT NULL;
SELECT way, count(*) AS same FROM unnest(ARRAY['copy', 'strided']) AS way,
  LATERAL batch_pages('ba.even', way) AS x(i int, s int2, l int8, b bool, c "char", f float8, d date, u uuid) JOIN even y ON x.i = y.i AND x::text = y::text GROUP BY 1 ORDER BY 1;
SELECT count(*) FROM batch_pages('ba.few', 'strided') AS x(i int, t text, n numeric, b bool, late text, a int[], j jsonb, r numrange, v tsvector, h inet, m name);
-- As values of slots, not as tuples: the same. Columns in another order, and one twice.
SELECT capacity, destinations, count(*) AS same FROM unnest(ARRAY[200, 65536]) AS capacity, unnest(ARRAY[2, 256]) AS destinations,
  LATERAL batch_shuffle('SELECT m, t, i, n, b, late, a, j, r, v, h, i FROM (SELECT * FROM ba.rows OFFSET 0) x', ARRAY[2, 3], destinations, capacity) AS x(m name, t text, i int, n numeric, b bool, late text, a int[], j jsonb, r numrange, v tsvector, h inet, again int)
  JOIN rows y ON x.i = y.i AND again IS NOT DISTINCT FROM x.i AND (x.i, x.t, x.n, x.b, x.late, x.a, x.j, x.r, x.v, x.h, x.m)::text = y::text GROUP BY 1, 2 ORDER BY 1, 2;
-- Tuples older than a column, with and without a value for it, NULLs here and there, wide ones (few to a page) and long values; nearly all rows
-- with one key; no row and one.
CREATE TABLE shapes AS SELECT i, CASE WHEN i % 100 = 0 THEN i END::int8 AS skewed, nullif(i % 5, 0)::int2 AS s, CASE i % 7 WHEN 0 THEN NULL WHEN 1 THEN repeat('w', i % 2000) ELSE 'v' || i END AS w,
  nullif(i % 3, 1)::float8 AS f, md5(i::text)::uuid AS u, repeat('p', i % 40) AS p FROM generate_series(1, 3000) i;
ALTER TABLE shapes ADD COLUMN since text DEFAULT 'since then', ADD COLUMN empty int;
INSERT INTO shapes SELECT i, 1, i, 'w' || i, i, md5(i::text)::uuid, NULL, nullif(i % 4, 0)::text, i FROM generate_series(3001, 4000) i;
CREATE FUNCTION same_shapes(query text, keys int[], destinations int, capacity int) RETURNS bigint LANGUAGE sql AS $$
  SELECT count(*) FROM batch_shuffle(query, keys, destinations, capacity) AS x(i int, skewed int8, s int2, w text, f float8, u uuid, p text, since text, empty int)
    JOIN shapes y ON x.i = y.i AND x::text = y::text $$;
SELECT destinations, capacity, same_shapes('SELECT * FROM ba.shapes', keys, destinations, capacity) AS tuples, same_shapes('SELECT * FROM ba.shapes OFFSET 0', keys, destinations, capacity) AS plan,
  same_shapes('SELECT i, skewed, s, w || left(w, 0), f, u, p || left(p, 0), since, empty FROM ba.shapes', keys, destinations, capacity) AS made, same_shapes('SELECT * FROM ba.shapes WHERE f > 0 OR f IS NULL', keys, destinations, capacity) AS filtered
  FROM unnest(ARRAY[2, 8, 64, 256]) AS destinations, unnest(ARRAY[400, 8192, 262080]) AS capacity, LATERAL (VALUES (ARRAY[2]), (ARRAY[4, 3])) AS k(keys) ORDER BY 1, 2, keys;
SELECT destinations, same_shapes('SELECT * FROM ba.shapes WHERE false', ARRAY[1], destinations, 8192) AS none, same_shapes('SELECT * FROM ba.shapes WHERE i = 7', ARRAY[1], destinations, 8192) AS one FROM unnest(ARRAY[1, 64]) AS destinations;
-- The store: read while it is filled, in memory and beyond work_mem, once, by several cursors and again, before and after it is complete.
CREATE FUNCTION batch_store(kind text, puts int, largest int, seed int) RETURNS text AS '$libdir/batch_test' LANGUAGE C STRICT;
SET work_mem = '64kB';
SELECT kind, largest, batch_store(kind, 500, largest, seed) AS read, count(*) FROM unnest(ARRAY['once', 'kept', 'shared']) AS kind, unnest(ARRAY[20, 100000]) AS largest,
  generate_series(1, 5) AS seed GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;
RESET work_mem;
DROP SCHEMA ba CASCADE;
