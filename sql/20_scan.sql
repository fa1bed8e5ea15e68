-- Reading foreign tables: every row and value must be that of the table itself.
\set ECHO none
\getenv tree PG_ABS_SRCDIR
\set loopback :tree '/test/setup/loopback.sql'
\set name scan
\i :loopback

-- every kind of type: fixed and variable width, by value and by reference, own input and output, user-made
CREATE TYPE scan_remote.mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN scan_remote.posint AS int CHECK (VALUE > 0);
CREATE DOMAIN scan_remote.name3 AS varchar(3);
CREATE TYPE scan_remote.pair AS (a int, b text);
CREATE TYPE scan_remote.nested AS (p scan_remote.pair, q scan_remote.pair[], r numeric);
CREATE TYPE scan_remote.floatrange AS RANGE (subtype = float8);
CREATE TABLE scan_remote.types (
  id int PRIMARY KEY, t_bool bool, t_int2 int2, t_int8 int8, t_oid oid, t_float4 float4, t_float8 float8, t_numeric numeric, t_num2 numeric(12, 3),
  t_money money, t_text text, t_varchar varchar(20), t_char char(7), t_qchar "char", t_name name, t_bytea bytea, t_bit bit(5), t_varbit varbit,
  t_date date, t_time time(3), t_timetz timetz, t_timestamp timestamp, t_timestamptz timestamptz, t_interval interval,
  t_uuid uuid, t_inet inet, t_cidr cidr, t_macaddr macaddr, t_macaddr8 macaddr8,
  t_point point, t_line line, t_lseg lseg, t_box box, t_path path, t_polygon polygon, t_circle circle,
  t_json json, t_jsonb jsonb, t_jsonpath jsonpath, t_xml xml, t_tsvector tsvector, t_tsquery tsquery,
  t_int4range int4range, t_numrange numrange, t_tstzrange tstzrange, t_multirange int8multirange, t_floatrange scan_remote.floatrange,
  t_int2s int2[], t_texts text[], t_dates date[][], t_numerics numeric[], t_points point[],
  t_pg_lsn pg_lsn, t_tid tid, t_xid xid, t_cid cid, t_regclass regclass, t_int2vector int2vector, t_oidvector oidvector,
  t_mood scan_remote.mood, t_moods scan_remote.mood[], t_posint scan_remote.posint, t_name3 scan_remote.name3,
  t_pair scan_remote.pair, t_pairs scan_remote.pair[], t_nested scan_remote.nested);
SET client_min_messages = warning;	-- an empty tsquery is worth a notice
INSERT INTO scan_remote.types (id) VALUES (1);		-- NULLs only
INSERT INTO scan_remote.types VALUES (2, true, 32767, 9223372036854775807, 4294967295, 'NaN', 'Infinity', 'NaN', 999999999.999,
  '$92,233,720,368,547,758.07', 'plain', 'varchar', 'char', 'c', 'name', '\x00ff00', B'10101', B'1',
  '5874897-12-31', '24:00:00', '24:00:00-15:59', '294276-12-31 23:59:59.999999', 'infinity', '178000000 years 11 mons 30 days 23:59:59.999999',
  'ffffffff-ffff-ffff-ffff-ffffffffffff', '::ffff:1.2.3.4/96', '10.0.0.0/8', '08:00:2b:01:02:03', '08:00:2b:01:02:03:04:05',
  '(1e300,-1e-300)', '{1,2,3}', '[(0,0),(6,6)]', '(2,2),(1,1)', '((0,0),(1,1),(2,0))', '((0,0),(1,1),(2,0))', '<(0,0),5>',
  '{"a" : [1, 2, null]}', '{"a": {"b": [1, 2.50, null, true]}}', '$.a[*] ? (@ > 1)', '<a>x</a>', $$'a':1A 'cat':2,5B$$, $$'fat' & ( 'rat' | ! 'cat' )$$,
  '[1,10)', '(,1.5]', '[2020-01-01 00:00+00,)', '{[1,3),[5,7)}', '[0.5,1.5)',
  '{1,-2,NULL}', '{a,NULL,"b c","\"q\"",""}', '{{2020-01-01,2020-01-02},{infinity,-infinity}}', '{1.10,NaN}', '{"(1,2)","(3,4)"}',
  '16/B374D848', '(4294967295,65535)', '4294967295', '1', 'pg_class', '1 2 3', '4 5 6',
  'happy', '{sad,NULL,ok}', 7, 'abc', '(1,"x,y")', '{"(1,a)",NULL,"(,)"}', '("(1,a)","{""(2,b)"",""(3,)""}",4.50)');
INSERT INTO scan_remote.types VALUES (3, false, -32768, -9223372036854775808, 0, '-0', '-Infinity', '-Infinity', 0,
  '-$92,233,720,368,547,758.08', '', '', '', '', '', '', B'00000', B'',
  '4713-01-01 BC', '00:00:00', '00:00:00+15:59', '4713-01-01 BC', '-infinity', '-178000000 years',
  '00000000-0000-0000-0000-000000000000', '0.0.0.0/0', '::/0', '00:00:00:00:00:00', '00:00:00:00:00:00:00:00',
  '(NaN,-Infinity)', '{0,-1,0}', '[(0,0),(0,0)]', '(0,0),(0,0)', '[(0,0)]', '((0,0))', '<(0,0),0>',
  '""', 'null', '$', '', '', '',
  'empty', '(,)', '(-infinity,infinity)', '{}', 'empty',
  '{}', '{}', '{}', '[2:3]={1,2}', '{}',
  '0/0', '(0,0)', '0', '0', '0', '', '',
  'sad', '{}', 1, '', '(,)', '{}', '(,,)');
INSERT INTO scan_remote.types (id, t_float4, t_float8, t_numeric, t_num2, t_text, t_varchar, t_char, t_bytea, t_interval, t_texts, t_jsonb, t_nested)
  SELECT i, i / 7.0::float4, -1e-308 * i, ('1e' || (i * 37))::numeric, -0.001 * i, repeat(chr(160 + i), i * 3), 'v' || i, 'ü' || i,
         decode(repeat(lpad(to_hex(i), 2, '0'), i), 'hex'), make_interval(secs => -i), ARRAY[repeat('x', i), NULL], jsonb_build_array(i, i / 2.0),
         ROW(ROW(i, repeat('y', i)), ARRAY[ROW(i, NULL)::scan_remote.pair], i)::scan_remote.nested
    FROM generate_series(4, 60) i;
IMPORT FOREIGN SCHEMA scan_remote LIMIT TO (types) FROM SERVER scan_srv INTO scan_here;
\pset format unaligned
\pset tuples_only on
\set ECHO all
SELECT same('scan_here.types', 'scan_remote.types');
SELECT id, t_float4, t_float8, t_timestamptz AT TIME ZONE 'UTC' AS utc, t_interval, t_texts, t_nested FROM types WHERE id <= 4 ORDER BY id;
-- one column at a time, also under a condition that is evaluated here
DO $$
DECLARE c text; r text;
BEGIN
  FOR c IN SELECT attname FROM pg_attribute WHERE attrelid = 'scan_remote.types'::regclass AND attnum > 0 LOOP
    r := same(format('(SELECT %I FROM scan_here.types)', c), format('(SELECT %I FROM scan_remote.types)', c));
    IF r NOT LIKE 'same%' THEN RAISE NOTICE '%: %', c, r; END IF;
    r := same(format('(SELECT %I FROM scan_here.types WHERE id + random() > 2)', c), format('(SELECT %I FROM scan_remote.types WHERE id >= 2)', c));
    IF r NOT LIKE 'same%' THEN RAISE NOTICE '%: %', c, r; END IF;
  END LOOP;
END $$;
RESET client_min_messages;

-- no rows, no columns, more rows than one buffer holds
CREATE TABLE scan_remote.plain (id int, grp int, txt text);
CREATE FOREIGN TABLE plain (id int, grp int, txt text) SERVER scan_srv OPTIONS (schema_name 'scan_remote');
SELECT * FROM plain;
SELECT count(*), sum(id) FROM plain;
INSERT INTO scan_remote.plain SELECT i, i % 100, CASE WHEN i % 7 <> 0 THEN repeat('t', i % 50) END FROM generate_series(1, 100000) i;
SELECT count(*) FROM plain;
SELECT count(id), sum(id), count(txt), sum(length(txt)), min(grp), max(grp) FROM plain;
SELECT same('scan_here.plain', 'scan_remote.plain');
SELECT count(*) FROM (SELECT 1 FROM plain OFFSET 0) s;
CREATE TABLE scan_remote.nothing ();
INSERT INTO scan_remote.nothing SELECT FROM generate_series(1, 5);
CREATE FOREIGN TABLE nothing () SERVER scan_srv OPTIONS (schema_name 'scan_remote');
SELECT count(*) FROM nothing;
SELECT * FROM nothing;

-- the result fits libpq's answer, just fits, does not fit, must never go that way
ALTER FOREIGN TABLE plain OPTIONS (ADD inline_limit '0');
SELECT count(*), sum(id) FROM plain WHERE id <= 10;
ALTER FOREIGN TABLE plain OPTIONS (SET inline_limit '64MB');
SELECT same('scan_here.plain', 'scan_remote.plain');
ALTER FOREIGN TABLE plain OPTIONS (SET inline_limit '4kB');
SELECT n, (SELECT sum(id) = n::bigint * (n + 1) / 2 FROM plain WHERE id <= n) AS ok FROM unnest('{1,10,100,500,1000,1023,1024,1025,2000,5000}'::int[]) n;
ALTER FOREIGN TABLE plain OPTIONS (DROP inline_limit);

-- buffers: single-buffer mode, the smallest, the largest
ALTER FOREIGN TABLE plain OPTIONS (ADD receive_buffers '1');
SELECT same('scan_here.plain', 'scan_remote.plain');
ALTER FOREIGN TABLE plain OPTIONS (SET receive_buffers '2', ADD receive_buffer_size '4kB');
SELECT same('scan_here.plain', 'scan_remote.plain');
ALTER FOREIGN TABLE plain OPTIONS (SET receive_buffers '16', SET receive_buffer_size '512kB', ADD fetch_size '50');
SELECT same('scan_here.plain', 'scan_remote.plain');
ALTER FOREIGN TABLE plain OPTIONS (DROP receive_buffers, DROP receive_buffer_size, DROP fetch_size);

-- values larger than any buffer, compressed and not
CREATE TABLE scan_remote.big (id int, packed text, loose text, bin bytea);
ALTER TABLE scan_remote.big ALTER loose SET STORAGE EXTERNAL;
INSERT INTO scan_remote.big VALUES
  (1, repeat('abc', 1000000), repeat('0123456789', 500000), decode(repeat('00ff', 700000), 'hex')),
  (2, NULL, 'x', NULL),
  (3, repeat('z', 100 * 1024 * 1024), NULL, '\x01'),
  (4, 'last', repeat('y', 8200), '\x02');
CREATE FOREIGN TABLE big (id int, packed text, loose text, bin bytea) SERVER scan_srv OPTIONS (schema_name 'scan_remote');
SELECT id, length(packed) AS packed, md5(packed) = (SELECT md5(packed) FROM scan_remote.big r WHERE r.id = f.id) AS ok,
       length(loose) AS loose, md5(loose) = (SELECT md5(loose) FROM scan_remote.big r WHERE r.id = f.id) AS ok,
       length(bin) AS bin, md5(bin) = (SELECT md5(bin) FROM scan_remote.big r WHERE r.id = f.id) AS ok
  FROM big f ORDER BY id;
ALTER FOREIGN TABLE big OPTIONS (ADD receive_buffers '1', ADD receive_buffer_size '4kB');
SELECT id, md5(loose) = (SELECT md5(loose) FROM scan_remote.big r WHERE r.id = f.id) AS ok FROM big f WHERE id <> 3 ORDER BY id;

-- many columns
DO $$
DECLARE cols text := (SELECT string_agg(format('c%s %s', i, (ARRAY['int', 'text', 'float8', 'int2', 'bool'])[1 + i % 5]), ', ') FROM generate_series(1, 1600) i);
BEGIN
  EXECUTE 'CREATE TABLE scan_remote.wide (' || cols || ')';
  EXECUTE 'CREATE FOREIGN TABLE wide (' || cols || ') SERVER scan_srv OPTIONS (schema_name ''scan_remote'')';
  INSERT INTO scan_remote.wide (c1, c5, c800, c1600) SELECT 'a' || i, i, i, i FROM generate_series(1, 300) i;
END $$;
SELECT same('scan_here.wide', 'scan_remote.wide');
SELECT c1, c5, c800, c1600, c2 FROM wide WHERE c5 IN (1, 300) ORDER BY c5;
SELECT count(c1600), sum(c1600) FROM wide;

-- dropped and renamed columns on both sides, other order, other names, fewer columns
CREATE TABLE scan_remote.shape (a int, b text, c int, "D d" date, e text DEFAULT 'e');
ALTER TABLE scan_remote.shape DROP COLUMN b;
INSERT INTO scan_remote.shape VALUES (1, 2, '2020-02-29'), (NULL, 4, NULL);
ALTER TABLE scan_remote.shape ADD COLUMN late int DEFAULT 42;
CREATE FOREIGN TABLE shape (x1 text, day date OPTIONS (column_name 'D d'), x2 int, second int OPTIONS (column_name 'c'), late int, a bigint)
  SERVER scan_srv OPTIONS (schema_name 'scan_remote', table_name 'shape');
ALTER FOREIGN TABLE shape DROP COLUMN x1;
ALTER FOREIGN TABLE shape DROP COLUMN x2;
ALTER FOREIGN TABLE shape RENAME COLUMN late TO new_name;
ALTER FOREIGN TABLE shape ALTER new_name OPTIONS (ADD column_name 'late');
-- "a" is bigint here and integer there
SELECT * FROM shape ORDER BY second;
ALTER FOREIGN TABLE shape DROP COLUMN a;
ALTER FOREIGN TABLE shape ADD COLUMN a int;
SELECT * FROM shape ORDER BY second;
SELECT shape FROM shape ORDER BY second;
SELECT a, day FROM shape WHERE second = 2;
SELECT s.*, s.new_name FROM shape s WHERE (s).day IS NULL;

-- remote relations that are not plain tables
CREATE VIEW scan_remote.v AS SELECT grp, count(*) AS n, sum(id) AS s FROM scan_remote.plain GROUP BY grp;
CREATE MATERIALIZED VIEW scan_remote.mv AS SELECT * FROM scan_remote.v WHERE grp < 3;
CREATE TABLE scan_remote.part (k int, v text) PARTITION BY RANGE (k);
CREATE TABLE scan_remote.part1 PARTITION OF scan_remote.part FOR VALUES FROM (0) TO (100);
CREATE TABLE scan_remote.part2 (v text, dropped int, k int);
ALTER TABLE scan_remote.part2 DROP COLUMN dropped;
ALTER TABLE scan_remote.part ATTACH PARTITION scan_remote.part2 FOR VALUES FROM (100) TO (200);
INSERT INTO scan_remote.part SELECT i, 'v' || i FROM generate_series(0, 199) i;
CREATE TABLE scan_remote.parent (k int, v text);
CREATE TABLE scan_remote.child (extra int) INHERITS (scan_remote.parent);
INSERT INTO scan_remote.parent VALUES (1, 'parent');
INSERT INTO scan_remote.child VALUES (2, 'child', 3);
IMPORT FOREIGN SCHEMA scan_remote LIMIT TO (v, mv, part, parent) FROM SERVER scan_srv INTO scan_here;
SELECT * FROM v WHERE grp = 7;
SELECT * FROM mv ORDER BY grp;
SELECT same('scan_here.part', 'scan_remote.part');
SELECT * FROM parent ORDER BY k;
-- a foreign table on a foreign table
CREATE FOREIGN TABLE scan_remote.hop (k int, v text) SERVER scan_srv OPTIONS (schema_name 'scan_remote', table_name 'parent');
CREATE FOREIGN TABLE hop (k int, v text) SERVER scan_srv OPTIONS (schema_name 'scan_remote', table_name 'hop');
SELECT * FROM hop ORDER BY k;

-- foreign tables as partitions and children
CREATE TABLE sharded (k int, v text) PARTITION BY RANGE (k);
CREATE TABLE sharded0 PARTITION OF sharded FOR VALUES FROM (-100) TO (0);
CREATE FOREIGN TABLE sharded1 PARTITION OF sharded FOR VALUES FROM (0) TO (100) SERVER scan_srv OPTIONS (schema_name 'scan_remote', table_name 'part1');
CREATE FOREIGN TABLE sharded2 (v text, k int) SERVER scan_srv OPTIONS (schema_name 'scan_remote', table_name 'part2');
ALTER TABLE sharded ATTACH PARTITION sharded2 FOR VALUES FROM (100) TO (200);
INSERT INTO sharded VALUES (-5, 'here');
SELECT tableoid::regclass, count(*), min(k), max(k) FROM sharded GROUP BY 1 ORDER BY 1;
SELECT tableoid::regclass, * FROM sharded WHERE k IN (-5, 7, 107) ORDER BY k;
SELECT sharded FROM sharded WHERE k IN (7, 107) ORDER BY k;
EXPLAIN (COSTS OFF) SELECT v FROM sharded WHERE k = 150;
CREATE TABLE plain_parent (k int, v text);
CREATE FOREIGN TABLE foreign_child () INHERITS (plain_parent) SERVER scan_srv OPTIONS (schema_name 'scan_remote', table_name 'parent');
INSERT INTO plain_parent VALUES (0, 'local');
SELECT tableoid::regclass, * FROM plain_parent ORDER BY k;
SELECT tableoid::regclass, * FROM plain_parent ORDER BY k FOR SHARE;

-- several scans of one server at once, self joins, rescans, scans that end early
SELECT count(*), sum(a.id), sum(b.id) FROM plain a JOIN plain b USING (id);
SELECT count(*) FROM plain a, plain b, plain c WHERE a.id = b.id + 1 AND b.id = c.id + 1 AND a.grp = 5;
SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off; SET enable_memoize = off;
SELECT count(*), sum(b.id) FROM (VALUES (1), (2), (3)) v(g) JOIN plain b ON b.grp = v.g;
SELECT count(*) FROM plain a, plain b WHERE a.id <= 5 AND b.id <= 4;
SELECT g, (SELECT sum(id) FROM plain WHERE grp = g) FROM generate_series(1, 3) g;
SELECT a.id, (SELECT count(*) FROM plain b WHERE b.id < a.id AND b.id <= 3) FROM plain a WHERE a.id <= 4 ORDER BY 1;
RESET enable_hashjoin; RESET enable_mergejoin; RESET enable_material; RESET enable_memoize;
SELECT count(*) FROM (SELECT * FROM plain LIMIT 10) s;
SELECT count(*) FROM (SELECT a.id FROM plain a, plain b LIMIT 1000) s;
SELECT EXISTS (SELECT FROM plain WHERE grp = 3), EXISTS (SELECT FROM plain WHERE grp = 300);
SELECT id FROM plain WHERE id = 5 UNION ALL SELECT id FROM plain WHERE id = 6 UNION ALL (SELECT id FROM plain WHERE grp = 1 LIMIT 0);
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT (SELECT id FROM plain WHERE id = r.n + 1) FROM r WHERE n < 5) SELECT * FROM r;

-- cursors: several open at once, backwards, held
BEGIN;
DECLARE c1 CURSOR FOR SELECT id FROM plain ORDER BY id;
DECLARE c2 SCROLL CURSOR FOR SELECT id FROM plain WHERE id <= 5 ORDER BY id;
DECLARE c3 CURSOR FOR SELECT id, grp FROM plain WHERE grp = 1;
DECLARE c4 CURSOR WITH HOLD FOR SELECT id FROM plain WHERE id BETWEEN 11 AND 13 ORDER BY id;
FETCH 2 FROM c1;
FETCH 2 FROM c2;
SELECT count(*) FROM plain;
FETCH 2 FROM c1;
FETCH BACKWARD 1 FROM c2;
FETCH LAST FROM c2;
MOVE FORWARD 1000 IN c3;
CLOSE c3;
FETCH 1 FROM c1;
SAVEPOINT s;
SELECT 1 / id FROM plain WHERE id - id = 0 AND 1 / (id - 50000) > 10;
ROLLBACK TO s;
FETCH 1 FROM c1;
SELECT count(*) FROM plain WHERE id < 10;
COMMIT;
FETCH ALL FROM c4;
CLOSE c4;

-- prepared statements over changes of the definition
PREPARE q(int) AS SELECT id, txt FROM plain WHERE id = $1;
EXECUTE q(3);
EXECUTE q(7);
EXECUTE q(NULL);
ALTER FOREIGN TABLE plain OPTIONS (SET schema_name 'nowhere');
EXECUTE q(3);
ALTER FOREIGN TABLE plain OPTIONS (SET schema_name 'scan_remote');
EXECUTE q(3);
DEALLOCATE q;
CREATE FUNCTION loop_it(n int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE total bigint := 0; r record;
BEGIN
  FOR i IN 1..n LOOP
    FOR r IN SELECT id FROM plain WHERE id = i LOOP total := total + r.id; END LOOP;
    BEGIN
      PERFORM id / (id - i) FROM plain WHERE id = i AND random() >= 0;
    EXCEPTION WHEN division_by_zero THEN total := total + 1000;
    END;
  END LOOP;
  RETURN total;
END $$;
SELECT loop_it(20);

-- one remote transaction per local one: both scans see the same rows
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM plain WHERE id > 99990;
SELECT count(*) FROM plain WHERE id > 99990;
COMMIT;

-- errors of the data node arrive with their SQLSTATE, and the session goes on
\set VERBOSITY sqlstate
CREATE FOREIGN TABLE missing (a int) SERVER scan_srv OPTIONS (schema_name 'scan_remote');
CREATE FOREIGN TABLE wrong_col (b int) SERVER scan_srv OPTIONS (schema_name 'scan_remote', table_name 'parent');
CREATE VIEW scan_remote.fails AS SELECT id, 1 / (id - 90000) AS x FROM scan_remote.plain;
CREATE FOREIGN TABLE fails (id int, x int) SERVER scan_srv OPTIONS (schema_name 'scan_remote');
SELECT * FROM missing;
SELECT * FROM wrong_col;
SELECT count(x) FROM fails;
SELECT count(x) FROM fails WHERE id < 90000;
-- the definition here says integer, the data node has text
CREATE FOREIGN TABLE wrong_type (k int, v int) SERVER scan_srv OPTIONS (schema_name 'scan_remote', table_name 'parent');
SELECT * FROM wrong_type;
SELECT count(*) FROM plain;
\set VERBOSITY default
SELECT * FROM missing;

-- rights: those of the user who reads, or of the view's owner
CREATE ROLE regress_rdma_reader;
GRANT USAGE ON SCHEMA scan_here TO regress_rdma_reader;
CREATE VIEW owners AS SELECT id FROM plain WHERE id = 1;
GRANT SELECT ON plain, owners TO regress_rdma_reader;
SET ROLE regress_rdma_reader;
SELECT * FROM owners;
\set VERBOSITY sqlstate
SELECT id FROM plain WHERE id = 1;
\set ECHO none
\set VERBOSITY default
RESET ROLE;

SET client_min_messages = warning;
DROP SERVER scan_srv CASCADE;
DROP SCHEMA scan_here, scan_remote CASCADE;
DROP OWNED BY regress_rdma_reader;
DROP ROLE regress_rdma_reader;
