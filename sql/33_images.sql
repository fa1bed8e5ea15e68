-- Raw images that no PostgreSQL has made (test/modules/batch/images.c): they are refused, or the type's functions take them for what they are.
SET client_min_messages = warning;
CREATE SCHEMA im;
SET search_path = im;
\getenv tree PG_ABS_SRCDIR
\set images :tree '/test/fuzz/images.sql'
\set ECHO none
\i :images
\set ECHO all
CREATE FUNCTION batch_kinds(query text, portable bool DEFAULT false, encoding text DEFAULT '') RETURNS text AS '$libdir/batch_test' LANGUAGE C STRICT;

-- What the decoder says of an image.
CREATE FUNCTION judge(image bytea, type text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE value text;
BEGIN
	EXECUTE format('SELECT im.batch_image(%L::bytea, NULL::%s)::text', image, type) INTO value;
	RETURN 'taken: ' || left(value, 60);
EXCEPTION WHEN data_corrupted OR character_not_in_repertoire THEN RETURN 'refused';
END $$;
CREATE FUNCTION le(number bigint, bytes int DEFAULT 4) RETURNS bytea LANGUAGE sql AS
$$ SELECT string_agg(substr(int8send(number), 9 - i, 1), '' ORDER BY i) FROM generate_series(1, bytes) i $$;

-- How they come: those whose check is complete raw, the others through receive and input functions.
SELECT t, im.batch_kinds('SELECT NULL::' || t) FROM unnest('{bool,name,text,bytea,numeric,date,timetz,inet,varbit,path,jsonb,int4[],text[],name[],jsonb[],numrange,nummultirange,int2vector,
	json,xml,tsvector,polygon,box,line,circle,pg_snapshot,json[],tsvector[],polygon[],box[]}'::text[]) t;

-- Unchanged images are accepted.
SELECT type, count(*) FROM im.image_types, LATERAL regexp_matches(im.batch_mutate(values_, 1, 1, '{}'), '^1 of') GROUP BY 1 HAVING count(*) <> 1;

SELECT what, type, judge(image, type) FROM (VALUES
	(1, 'a lower bound that is NULL', 'numrange', le(3906) || '\x30'::bytea),
	(2, 'an upper bound that is NULL', 'numrange', le(3906) || '\x48'::bytea),
	(3, 'what only index keys have', 'numrange', le(3906) || '\x81'::bytea),
	(4, 'empty, with bounds', 'int4range', le(3904) || le(1) || le(5) || '\x03'::bytea),
	(5, 'empty, with more', 'int4range', le(3904) || le(1) || '\x01'::bytea),
	(6, 'bounds in the wrong order', 'int4range', le(3904) || le(5) || le(1) || '\x02'::bytea),
	(7, 'another form of a range', 'int4range', le(3904) || le(1) || le(5) || '\x06'::bytea),
	(8, 'infinity, inclusive', 'int4range', le(3904) || le(5) || '\x0a'::bytea),
	(9, 'nothing between its bounds', 'numrange', overlay(batch_raw('[1,1]'::numrange) PLACING '\x00'::bytea FROM length(batch_raw('[1,1]'::numrange)))),
	(10, 'another type of range', 'int4range', le(3926) || le(1) || le(5) || '\x02'::bytea),
	(11, 'NULL bounds', 'nummultirange', le(4532) || le(2) || le(0) || '\x30300000000000000000'::bytea),
	(12, 'an empty one inside', 'int4multirange', le(4451) || le(1) || '\x01000000'::bytea),
	(13, 'ranges that overlap', 'int4multirange', le(4451) || le(2) || le(8) || '\x02020000'::bytea || le(1) || le(5) || le(4) || le(9)),
	(14, 'ranges that touch', 'int4multirange', le(4451) || le(2) || le(8) || '\x02020000'::bytea || le(1) || le(5) || le(5) || le(9)),
	(15, 'the same in order', 'int4multirange', le(4451) || le(2) || le(8) || '\x02020000'::bytea || le(1) || le(5) || le(6) || le(9)),
	(16, 'a range in the wrong place', 'int4multirange', le(4451) || le(2) || le(4) || '\x02020000'::bytea || le(1) || le(5) || le(6) || le(9)),
	(17, 'a name without an end', 'name', decode(repeat('78', 64), 'hex')),
	(18, 'names without an end', 'name[]', le(1) || le(0) || le(19) || le(2) || le(1) || decode(repeat('78', 128), 'hex')),
	(19, 'no character', 'name', overlay(batch_raw('name'::name) PLACING '\xff'::bytea FROM 2)),
	(20, 'no character', 'text', '\x6162ff'),
	(21, 'half a character', 'text', '\x6162c3'),
	(22, 'NUL', 'text', '\x616263646566676800'),
	(23, 'a surrogate', 'varchar', '\xeda080'),
	(24, 'half a character', 'text[]', overlay(batch_raw('{abcd}'::text[]) PLACING '\xe2'::bytea FROM 28)),
	(25, 'neither true nor false', 'bool', '\x02'),
	(26, 'neither true nor false', 'bool[]', overlay(batch_raw('{t,f}'::bool[]) PLACING '\x02'::bytea FROM 21)),
	(27, 'too late', 'date', le(2145031949)), (28, 'too early', 'date', le(-2451546)),
	(29, 'too late', 'timestamp', le(9223371331200000000, 8)), (30, 'too early', 'timestamptz', le(-211813488000000001, 8)),
	(31, 'more than a day', 'time', le(86400000001, 8)), (32, 'negative', 'time', le(-1, 8)),
	(33, 'no time zone', 'timetz', le(0, 8) || le(57600)),
	(34, 'too late', 'daterange', le(3912) || le(0) || le(2145031950) || '\x02'::bytea),
	(35, 'digit 10000', 'numeric', '\x00801027'), (36, 'zero in front', 'numeric', '\x018000000100'), (37, 'zero behind', 'numeric', '\x018001000000'),
	(38, 'minus zero', 'numeric', '\x00a0'), (39, 'a zero of weight', 'numeric', '\x0180'), (40, 'nearly NaN', 'numeric', '\x01c0'), (41, 'NaN with digits', 'numeric', '\x00c00100'),
	(42, 'digits behind the scale', 'numeric', '\x008001001027'), (43, 'digits behind the scale', 'numeric', '\x808001000100'), (44, 'half a digit', 'numeric', '\x008001'),
	(45, 'no digit and no header', 'numeric', '\x0000'), (46, 'one', 'numeric', '\x00800100'), (47, 'one, in the long form', 'numeric', '\x000000000100'),
	(48, 'bits behind the last', 'varbit', le(3) || '\xb1'::bytea), (49, 'fewer bits', 'varbit', le(17) || '\xb1'::bytea),
	(50, 'no family', 'inet', '\x04080a000000'), (51, 'mask too long', 'inet', '\x02210a000000'), (52, 'IPv6, short', 'inet', '\x03080a000000'),
	(53, 'bits behind the mask', 'cidr', '\x02080a010000'), (54, 'a host', 'inet', '\x02080a010000'),
	(55, 'no points', 'path', le(0) || le(1) || le(0)), (56, 'fewer points', 'path', le(3) || le(1) || le(0) || decode(repeat('00', 32), 'hex')),
	(57, 'bytes behind the last item', 'int4[]', batch_raw('{1,2}'::int4[]) || '\x00'::bytea),
	(58, 'fewer items', 'int4[]', overlay(batch_raw('{1,2}'::int4[]) PLACING le(3) FROM 13)),
	(59, 'another type of items', 'int4[]', overlay(batch_raw('{1,2}'::int4[]) PLACING le(26) FROM 9)),
	(60, 'bounds beyond integers', 'int4[]', overlay(batch_raw('{1,2}'::int4[]) PLACING le(2147483647) FROM 17)),
	(61, 'more dimensions than there are', 'int4[]', overlay(batch_raw('{1,2}'::int4[]) PLACING le(7) FROM 1)),
	(62, 'a short item', 'text[]', le(1) || le(0) || le(25) || le(1) || le(1) || '\x0b61626364000000'::bytea),
	(63, 'an item somewhere else', 'text[]', overlay(batch_raw('{a}'::text[]) PLACING '\x01'::bytea FROM 21)),
	(64, 'a compressed item', 'text[]', overlay(batch_raw('{a}'::text[]) PLACING '\x16'::bytea FROM 21)),
	(65, 'not numbered from 0', 'int2vector', overlay(batch_raw('1 2'::int2vector) PLACING le(1) FROM 17)),
	(66, 'keys in another order', 'jsonb', overlay(batch_raw('{"a": 1, "b": 2}'::jsonb) PLACING 'ba'::bytea FROM 21)),
	(67, 'a key twice', 'jsonb', overlay(batch_raw('{"a": 1, "b": 2}'::jsonb) PLACING 'aa'::bytea FROM 21)),
	(68, 'no character', 'jsonb', overlay(batch_raw('"abc"'::jsonb) PLACING '\xff'::bytea FROM 10)),
	(69, 'NaN', 'jsonb', overlay(batch_raw('1'::jsonb) PLACING '\x2000000000c00000'::bytea FROM 9)),
	(70, 'a number with a short header', 'jsonb', overlay(batch_raw('1'::jsonb) PLACING '\x0b00800100000000'::bytea FROM 9)),
	(71, 'bytes behind the last value', 'jsonb', batch_raw('"abc"'::jsonb) || '\x00'::bytea),
	(72, 'a key that is a number', 'jsonb', overlay(batch_raw('{"a": 1}'::jsonb) PLACING '\x10'::bytea FROM 8)),
	(73, 'a scalar of two', 'jsonb', overlay(batch_raw('[1, 2]'::jsonb) PLACING '\x02000050'::bytea FROM 1)),
	(74, 'a scalar inside', 'jsonb', overlay(batch_raw('[[1]]'::jsonb) PLACING '\x50'::bytea FROM 12)),
	(75, 'true with bytes', 'jsonb', le(1342177281) || le(536870916) || '\x00000000'::bytea),
	(76, 'no JSON', 'json', '{"a": [1, 2}'::bytea), (77, 'no character', 'json', '\x22ff22'::bytea), (78, 'nothing', 'json', '\x'::bytea),
	(79, 'no JSON', 'json[]', overlay(batch_raw(ARRAY['[1]']::json[]) PLACING '}'::bytea FROM 27)), (80, 'as it is', 'json', '{"a": [1,  2]}'::bytea),
	(81, 'as it is', 'jsonb', batch_raw('{"a": [1, 2.5, "x"], "b": {"c": null}}'::jsonb)))
	v(i, what, type, image) ORDER BY i;

-- A trusted node may send images that are refused from others, as long as they stay within their bytes.
SELECT batch_image(batch_raw('a:1 b:2'::tsvector), NULL::tsvector, true), batch_image(batch_raw('(1,2),(0,0)'::box), NULL::box, true);
SELECT batch_image(batch_raw('a:1 b:2'::tsvector), NULL::tsvector);
SELECT batch_image(le(2) || le(4094) || le(4094), NULL::tsvector, true);

-- Images that PostgreSQL makes are accepted, however they were made.
CREATE FUNCTION honest(query text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE n int;
BEGIN
	EXECUTE format('SELECT count(*) FROM (%s) q', query) INTO n;
	RETURN im.batch_mutate(query, n, 1, '{}') LIKE n || ' of %';
END $$;
CREATE TABLE nums AS SELECT i, (i * 7919 % 10007)::numeric * 10.0 ^ (i % 41 - 15) * CASE WHEN i % 2 = 0 THEN -1 ELSE 1 END AS n, (i * 104729 % 1000003 + 1)::numeric(20, 4) / 7 AS m
FROM generate_series(1, 400) i;
SELECT honest(query), left(query, 60) AS query FROM (VALUES
	(1, 'SELECT n / m FROM im.nums UNION ALL SELECT n * m FROM im.nums UNION ALL SELECT n - m FROM im.nums UNION ALL SELECT n % m FROM im.nums UNION ALL SELECT div(n, m) FROM im.nums'),
	(2, 'SELECT sqrt(abs(n)) FROM im.nums UNION ALL SELECT ln(m) FROM im.nums UNION ALL SELECT exp(m % 30) FROM im.nums UNION ALL SELECT power(m, i % 7 / 3.0) FROM im.nums UNION ALL SELECT factorial(i % 100) FROM im.nums'),
	(3, 'SELECT round(n, i % 12 - 4) FROM im.nums UNION ALL SELECT trunc(n, i % 12 - 4) FROM im.nums UNION ALL SELECT ceil(n) FROM im.nums UNION ALL SELECT trim_scale(m) FROM im.nums UNION ALL SELECT gcd(n, m) FROM im.nums UNION ALL SELECT n::numeric(60, 3) FROM im.nums UNION ALL SELECT n::float8::numeric FROM im.nums UNION ALL SELECT extract(epoch FROM timestamp ''2000-01-01'' + i * interval ''1.7 s'') FROM im.nums'),
	(4, 'SELECT avg(n) OVER w FROM im.nums WINDOW w AS (ORDER BY i ROWS 5 PRECEDING) UNION ALL SELECT sum(n) OVER w FROM im.nums WINDOW w AS (ORDER BY i ROWS 5 PRECEDING) UNION ALL SELECT var_pop(m) OVER w FROM im.nums WINDOW w AS (ORDER BY i ROWS 5 PRECEDING) UNION ALL SELECT coalesce(stddev(i) OVER w, 0) FROM im.nums WINDOW w AS (ORDER BY i ROWS 5 PRECEDING)'),
	(5, 'SELECT unnest(ARRAY[0.0, 0.00, -0.0, 1e-16383, 9e131071, 0.1::numeric(1000, 900), 10000, 100000000, 0.00010000])'),
	(6, 'SELECT to_jsonb(c) || jsonb_build_object(''x'', jsonb_build_array(to_jsonb(c), n, 1.50, NULL)) - ''relname'' FROM pg_class c JOIN im.nums ON i = relnatts'),
	(7, 'SELECT jsonb_path_query(to_jsonb(p), ''$.*'') FROM pg_proc p WHERE oid < 200'), (8, 'SELECT row_to_json(p) FROM pg_proc p WHERE oid < 200'),
	(9, 'SELECT range_agg(numrange(least(n, m), greatest(n, m), (''{[],(),[),(]}''::text[])[i % 4 + 1])) OVER (ORDER BY m ROWS 6 PRECEDING) FROM im.nums'),
	(10, 'SELECT numrange(least(n, m), greatest(n, m), (''{[],(),[),(]}''::text[])[i % 4 + 1]) * numrange(0, i) FROM im.nums UNION ALL SELECT numrange(NULL, m, ''()'') FROM im.nums'),
	(11, 'SELECT int4multirange(int4range(i, i + 5), int4range(i * 2 + 7, NULL), int4range(NULL, i % 100)) - int4multirange(int4range(i + 2, i + 3)) FROM im.nums'),
	(12, 'SELECT daterange(CASE WHEN i % 7 = 0 THEN ''-infinity'' ELSE date ''2000-01-01'' - i END, CASE WHEN i % 5 = 0 THEN ''infinity'' ELSE date ''2001-01-01'' + i END, (''{[],(),[),(]}''::text[])[i % 4 + 1]) FROM im.nums'),
	(13, 'SELECT proallargtypes FROM pg_proc WHERE proallargtypes IS NOT NULL'), (14, 'SELECT proargnames FROM pg_proc WHERE proargnames IS NOT NULL'), (15, 'SELECT indkey FROM pg_index'),
	(16, 'SELECT proargtypes FROM pg_proc WHERE oid < 2000'), (17, 'SELECT array_agg(n) OVER (ORDER BY i ROWS 5 PRECEDING) || NULL::numeric FROM im.nums'),
	(18, 'SELECT (array_agg(repeat(''é'', i % 20)) OVER (ORDER BY i ROWS 5 PRECEDING))[2:4] || ARRAY[NULL, ''x''] FROM im.nums'),
	(19, 'SELECT array_remove(array_replace(ARRAY[i::text, ''a'', NULL], ''a'', ''longer''), NULL) FROM im.nums'), (20, 'SELECT array_agg(relname) OVER (ORDER BY oid ROWS 4 PRECEDING) FROM pg_class'),
	(21, 'SELECT array_agg(timetz ''12:00+01'' + i * interval ''1 min'') OVER (ORDER BY i ROWS 5 PRECEDING) FROM im.nums'),
	(22, 'SELECT i::bit(8)::varbit || B''1'' << i % 5 FROM im.nums UNION ALL SELECT ~ (i::bit(5)::varbit) FROM im.nums UNION ALL SELECT substring(i::bit(32)::varbit FROM i % 9 + 1 FOR 11) FROM im.nums UNION ALL SELECT set_bit(i::bit(13)::varbit, 2, 1) FROM im.nums'),
	(23, 'SELECT network(set_masklen(''10.1.2.3''::inet + i, i % 33)) FROM im.nums UNION ALL SELECT inet_merge(''10.0.0.0''::inet + i, ''10.0.0.0''::inet + i * 3) FROM im.nums'),
	(24, 'SELECT pclose(path(polygon(i % 7 + 3, circle(point(i, i), i)))) FROM im.nums'), (25, 'SELECT prosrc FROM pg_proc WHERE oid < 2000'),
	(26, 'SELECT chr(200 + i * 20) || repeat(chr(70000 + i), i % 40) FROM im.nums'), (27, 'SELECT relname FROM pg_class')) v(i, query) ORDER BY i;

-- Images that were changed at random: those that are accepted are used.
SELECT count(*) FILTER (WHERE result ~ '^[1-9]\d* of 400, \d+ errors$') = count(*) AS used FROM mutate_images(400, 1);
RESET search_path;
DROP SCHEMA im CASCADE;
