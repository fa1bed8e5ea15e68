-- Every built-in type and every way of making one, between two nodes that number their own types differently: the row's text as the
-- data node prints it must be the row's text here.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
\getenv n1 RF_N1_PORT
\getenv coord RF_COORD_PORT
\set types 'CREATE TYPE mood AS ENUM (''sad'', ''ok'', ''happy'', ''überglücklich'');'
\set types :types 'CREATE DOMAIN posint AS int4 CHECK (VALUE > 0);'
\set types :types 'CREATE DOMAIN shorttext AS varchar(5);'
\set types :types 'CREATE DOMAIN notnulltext AS text NOT NULL;'
\set types :types 'CREATE DOMAIN ints AS int4[] CHECK (array_length(VALUE, 1) < 4);'
\set types :types 'CREATE TYPE pair AS (a int4, b text);'
\set types :types 'CREATE TYPE nested AS (p pair, m mood, n numeric);'
\set types :types 'CREATE TYPE textrange AS RANGE (subtype = text);'
\set types :types 'CREATE TYPE moodrange AS RANGE (subtype = mood);'
\set types :types 'CREATE TYPE i4range2 AS RANGE (subtype = int4);'

-- The coordinator, where types have other OIDs.
CREATE SCHEMA ty;
SET search_path = ty;
CREATE TYPE unrelated AS ENUM ('x');
CREATE TYPE unrelated_too AS (x int);
:types

-- The data node.
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
CREATE SCHEMA ty;
SET search_path = ty;
:types
CREATE TABLE src (
 id serial, c_bool bool, c_char "char", c_int2 int2, c_int4 int4, c_int8 int8, c_float4 float4, c_float8 float8, c_numeric numeric, c_numeric2 numeric(12,2), c_money money,
 c_text text, c_varchar varchar(40), c_bpchar char(12), c_bpchar1 char, c_name name, c_bytea bytea, c_date date, c_time time, c_timetz timetz, c_timestamp timestamp, c_timestamp0 timestamp(0), c_timestamptz timestamptz,
 c_interval interval, c_uuid uuid, c_inet inet, c_cidr cidr, c_macaddr macaddr, c_macaddr8 macaddr8, c_bit bit(9), c_varbit varbit, c_json json, c_jsonb jsonb, c_jsonpath jsonpath, c_xml xml,
 c_point point, c_line line, c_lseg lseg, c_box box, c_path path, c_polygon polygon, c_circle circle, c_tsvector tsvector, c_tsquery tsquery, c_pg_lsn pg_lsn, c_tid tid, c_xid xid, c_xid8 xid8, c_cid cid, c_oid oid,
 c_regproc regproc, c_regprocedure regprocedure, c_regoper regoper, c_regoperator regoperator, c_regclass regclass, c_regtype regtype, c_regrole regrole, c_regnamespace regnamespace, c_regconfig regconfig, c_regdictionary regdictionary, c_regcollation regcollation,
 c_aclitem aclitem, c_refcursor refcursor, c_int2vector int2vector, c_oidvector oidvector, c_snap pg_snapshot, c_txsnap txid_snapshot,
 c_int4range int4range, c_int8range int8range, c_numrange numrange, c_tsrange tsrange, c_tstzrange tstzrange, c_daterange daterange,
 c_int4multirange int4multirange, c_int8multirange int8multirange, c_nummultirange nummultirange, c_tsmultirange tsmultirange, c_tstzmultirange tstzmultirange, c_datemultirange datemultirange,
 a_bool bool[], a_int4 int4[], a_int8 int8[], a_numeric numeric[], a_text text[], a_bytea bytea[], a_date date[], a_timestamptz timestamptz[], a_jsonb jsonb[], a_uuid uuid[], a_regclass regclass[], a_int4range int4range[], a_point point[], a_box box[], a_name name[], a_char char(3)[],
 u_mood mood, u_posint posint, u_short shorttext, u_ints ints, u_pair pair, u_nested nested, u_textrange textrange, u_moodrange moodrange, u_i4range2 i4range2, u_i4multi2 i4multirange2,
 ua_mood mood[], ua_posint posint[], ua_pair pair[], ua_moodrange moodrange[]
);
CREATE TABLE vals (col text, v text[]);
INSERT INTO vals VALUES
('c_bool', '{t,f}'), ('c_char', E'{a,"",Z,"\\\\377"}'), ('c_int2', '{-32768,32767,0,-1}'), ('c_int4', '{-2147483648,2147483647,0,-1}'), ('c_int8', '{-9223372036854775808,9223372036854775807,0,-1}'),
('c_float4', '{NaN,Infinity,-Infinity,-0,1e-38,3.4e38,0.1}'), ('c_float8', '{NaN,Infinity,-Infinity,-0,1e-300,1.7e308,0.1}'),
('c_numeric', '{NaN,Infinity,-Infinity,0,0.0000,-1.50,1e100,-1e-100,123456789012345678901234567890.123456789,1e16383}'), ('c_numeric2', '{0,9999999999.99,-0.01,NaN}'), ('c_money', '{0,-92233720368547758.08,92233720368547758.07,1.23}'),
('c_text', '{"",a,"Ünïcödé → 漢字","tab\tnl\nback\\\\slash","''quoted''"}'), ('c_varchar', '{"","  spaces  ",xyz,1234567890123456789012345678901234567890}'), ('c_bpchar', '{"",abc,"abc         ",漢字}'), ('c_bpchar1', '{x,"",é}'), ('c_name', '{"",abc,aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}'),
('c_bytea', '{"\\x","\\x00ff00","\\xdeadbeef"}'), ('c_date', '{infinity,-infinity,"0044-03-15 BC",2000-01-01,5874897-12-31,"4713-01-01 BC"}'), ('c_time', '{00:00,24:00,23:59:59.999999}'), ('c_timetz', '{00:00+14,24:00-15:59,12:34:56.789+02}'),
('c_timestamp', '{infinity,-infinity,"4713-01-01 BC","294276-12-31 23:59:59.999999","2000-01-01 00:00:00.000001"}'), ('c_timestamp0', '{"2000-01-01 00:00:01",infinity}'), ('c_timestamptz', '{infinity,-infinity,"2021-10-31 02:30 Europe/Zurich","4713-01-01 BC UTC"}'),
('c_interval', '{"1 mon -1 day 00:00:00.000001",0,"178000000 years","-178000000 years","3 days"}'), ('c_uuid', '{00000000-0000-0000-0000-000000000000,ffffffff-ffff-ffff-ffff-ffffffffffff}'),
('c_inet', '{::1,192.168.0.1/24,0.0.0.0/0,10.1.2.3,ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128}'), ('c_cidr', '{2001:db8::/32,10.0.0.0/8,0.0.0.0/0}'), ('c_macaddr', '{00:00:00:00:00:00,ff:ff:ff:ff:ff:ff,08:00:2b:01:02:03}'), ('c_macaddr8', '{00:00:00:00:00:00:00:00,08:00:2b:01:02:03:04:05}'),
('c_bit', '{000000000,111111111,101010101}'), ('c_varbit', '{"",0,1,10101010101010101}'), ('c_json', '{"null","{\"x\": [1, 2, {\"y\": null}]}","\"ü\"","[]"}'), ('c_jsonb', '{"null","{\"x\": [1, 2, {\"y\": null, \"z\": 1.50}], \"ü\": true}","\"ü\"","[]","{}",1e400}'), ('c_jsonpath', E'{$.a,"$.x[*] ? (@ > 3)","strict $.a.b"}'), ('c_xml', '{<a/>,"<b>ü</b>","text"}'),
('c_point', '{"(0,0)","(NaN,Infinity)","(-1.5,1e300)"}'), ('c_line', '{"{1,2,3}","{0,1,-5}"}'), ('c_lseg', '{"[(0,0),(1,1)]"}'), ('c_box', '{"(1,1),(0,0)"}'), ('c_path', '{"[(0,0),(1,1),(2,0)]","((0,0),(1,1))"}'), ('c_polygon', '{"((0,0),(1,1),(2,0))","((5,5))"}'), ('c_circle', '{"<(0,0),1>","<(1,2),0>"}'),
('c_tsvector', '{"","''a'':1A,2B ''ünï'':3","x y z"}'), ('c_tsquery', '{"","a & b | !c","''ü'':*A <-> b"}'), ('c_pg_lsn', '{0/0,FFFFFFFF/FFFFFFFF,16/B374D848}'), ('c_tid', '{"(0,1)","(4294967294,65535)"}'), ('c_xid', '{0,4294967295,3}'), ('c_xid8', '{0,18446744073709551615}'), ('c_cid', '{0,4294967295}'), ('c_oid', '{0,4294967295,16384}'),
('c_regproc', '{boolin,-}'), ('c_regprocedure', '{"abs(int4)"}'), ('c_regoper', '{||/}'), ('c_regoperator', '{"+(int4,int4)"}'), ('c_regclass', '{pg_class,ty.src,-}'), ('c_regtype', '{int4,ty.mood,-}'), ('c_regrole', '{postgres}'), ('c_regnamespace', '{pg_catalog,ty}'), ('c_regconfig', '{simple,english}'), ('c_regdictionary', '{simple}'), ('c_regcollation', '{"\"C\"","\"default\""}'),
('c_aclitem', '{postgres=r/postgres,=X/postgres}'), ('c_refcursor', '{abc,"<unnamed portal 1>"}'), ('c_int2vector', '{"","1 2 3","-5"}'), ('c_oidvector', '{"","1 2 3"}'), ('c_snap', '{"10:20:10,14,15","1:1:"}'), ('c_txsnap', '{"10:20:10,14,15"}'),
('c_int4range', '{empty,"[1,5)","(,)","(,10)","[3,)"}'), ('c_int8range', '{empty,"[1,5000000000)","(,)"}'), ('c_numrange', '{empty,"(1.5,2.5]","[NaN,NaN]","(,Infinity)"}'), ('c_tsrange', '{"[2000-01-01,2000-01-02)","(,infinity]"}'), ('c_tstzrange', '{"[2000-01-01 UTC,2000-01-02 UTC]","(,)"}'), ('c_daterange', '{"[2000-01-01,2001-01-01)",empty}'),
('c_int4multirange', '{"{}","{[1,2),[5,10)}","{(,)}"}'), ('c_int8multirange', '{"{[1,2),[5,10)}"}'), ('c_nummultirange', '{"{[1.1,2.2),(5.5,)}"}'), ('c_tsmultirange', '{"{[2000-01-01,2000-01-02)}"}'), ('c_tstzmultirange', '{"{(,2000-01-02 UTC)}"}'), ('c_datemultirange', '{"{[2000-01-01,2000-01-02),[2001-01-01,)}"}'),
('a_bool', '{"{}","{t,f,NULL}","{{t},{f}}"}'), ('a_int4', '{"{}","{1,NULL,3}","{{1,2},{3,4}}","[-2:0]={7,8,9}","{{{1},{2}},{{3},{NULL}}}"}'), ('a_int8', '{"{1,9223372036854775807}"}'), ('a_numeric', '{"{NaN,1.5,NULL,1e50}"}'), ('a_text', '{"{}","{a,NULL,\"\",\"NULL\",\"ü , x\"}","{{a,b},{c,d}}"}'), ('a_bytea', '{"{\"\\\\x00ff\",NULL}"}'), ('a_date', '{"{infinity,2000-01-01}"}'), ('a_timestamptz', '{"{infinity,\"2000-01-01 UTC\",NULL}"}'), ('a_jsonb', '{"{\"{\\\"a\\\": 1}\",NULL}"}'), ('a_uuid', '{"{00000000-0000-0000-0000-000000000000}"}'), ('a_regclass', '{"{pg_class,ty.src}"}'), ('a_int4range', '{"{\"[1,5)\",empty,NULL}"}'), ('a_point', '{"{\"(1,2)\",NULL}"}'), ('a_box', '{"{(1,1),(0,0);(2,2),(1,1)}"}'), ('a_name', '{"{abc,\"\"}"}'), ('a_char', '{"{a,abc,NULL}"}'),
('u_mood', '{sad,happy,überglücklich}'), ('u_posint', '{1,2147483647}'), ('u_short', '{"",abcde}'), ('u_ints', '{"{1,2,3}"}'), ('u_pair', '{"(1,x)","(,)","(-5,\"a , \"\"b\"\"\")"}'), ('u_nested', '{"(\"(1,x)\",happy,NaN)","(,,)"}'), ('u_textrange', '{"[a,b)",empty,"(,ü]"}'), ('u_moodrange', '{"[sad,happy]","(,)"}'), ('u_i4range2', '{"[1,5)",empty}'), ('u_i4multi2', '{"{[1,5),[7,8)}","{}"}'),
('ua_mood', '{"{sad,NULL,happy}","{}"}'), ('ua_posint', '{"{1,2}","{{1},{2}}"}'), ('ua_pair', '{"{\"(1,x)\",NULL,\"(,\\\"a b\\\")\"}"}'), ('ua_moodrange', '{"{\"[sad,happy]\",NULL}"}');
DO $$
DECLARE r record; k int; q text; cols text; v text; n int;
BEGIN
  SET LOCAL client_min_messages = warning;
  FOR k IN 1..12 LOOP
    cols := ''; q := '';
    FOR r IN SELECT * FROM vals LOOP
      n := cardinality(r.v);
      IF k <= n THEN v := quote_nullable(r.v[k]); ELSIF (k - n) % 2 = 1 THEN v := 'NULL'; ELSE v := quote_nullable(r.v[1 + k % n]); END IF;
      cols := cols || ', ' || r.col; q := q || ', ' || v;
    END LOOP;
    EXECUTE 'INSERT INTO src (' || substr(cols, 3) || ') VALUES (' || substr(q, 3) || ')';
  END LOOP;
  INSERT INTO src DEFAULT VALUES;
END $$;
CREATE VIEW lines AS SELECT id, s::text AS line FROM src s;

\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
SET search_path = ty;
CREATE SERVER types_n1 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port :'n1', dbname 'contrib_regression');
CREATE USER MAPPING FOR CURRENT_USER SERVER types_n1 OPTIONS (user 'postgres');
IMPORT FOREIGN SCHEMA ty LIMIT TO (src, lines) FROM SERVER types_n1 INTO ty;
-- Printed as the data node's session prints them.
SET search_path = pg_catalog;
SET timezone = 'GMT';
SET datestyle = 'ISO';
SET intervalstyle = 'postgres';
SET extra_float_digits = 3;
SELECT count(*) AS rows, count(*) FILTER (WHERE s::text = line) AS same FROM ty.src s JOIN ty.lines USING (id);
SELECT id FROM ty.src s JOIN ty.lines USING (id) WHERE s::text <> line ORDER BY id;

-- The same through the smallest buffers (rows larger than a slot), a single buffer, and never inline.
ALTER FOREIGN TABLE ty.src OPTIONS (receive_buffer_size '4kB', receive_buffers '1', inline_limit '0');
SELECT count(*) AS rows, count(*) FILTER (WHERE s::text = line) AS same FROM ty.src s JOIN ty.lines USING (id);
ALTER FOREIGN TABLE ty.src OPTIONS (SET receive_buffers '4', SET receive_buffer_size '1MB');
SELECT count(*) AS rows, count(*) FILTER (WHERE s::text = line) AS same FROM ty.src s JOIN ty.lines USING (id);
SET search_path = ty;
SELECT u_mood, ua_mood, u_pair, u_nested, u_posint, u_moodrange, left(c_numeric::text, 20) AS num, c_jsonb FROM src ORDER BY id;

-- Types that go through receive functions do not depend on what encoding the user's client has.
SET client_encoding = 'LATIN1';
SELECT count(*) FILTER (WHERE u_mood = 'happy') AS happy, count(*) FILTER (WHERE octet_length(u_mood::text) = 15) AS two_umlauts FROM src;
RESET client_encoding;

-- Columns with another type here: the value's text goes through the input function here, with its type modifier.
CREATE FOREIGN TABLE src_as_text (id int, c_int4 text, c_numeric varchar, u_mood text, u_pair text, c_date text, a_int4 text) SERVER types_n1 OPTIONS (table_name 'src');
SELECT * FROM src_as_text ORDER BY id LIMIT 3;
CREATE FOREIGN TABLE src_modified (id int, c_numeric2 numeric(20,1), c_varchar varchar(60), c_time time(0), c_bpchar char(14), c_int2 int8, c_text varchar) SERVER types_n1 OPTIONS (table_name 'src');
SELECT id, c_numeric2, c_varchar, c_time, c_bpchar || '|' AS c_bpchar, c_int2, c_text FROM src_modified ORDER BY id LIMIT 4;
CREATE FOREIGN TABLE src_short (id int, c_varchar varchar(4)) SERVER types_n1 OPTIONS (table_name 'src');
SELECT count(c_varchar) FROM (SELECT c_varchar FROM src_short OFFSET 0) s;
CREATE FOREIGN TABLE src_not_int (id int, c_text int) SERVER types_n1 OPTIONS (table_name 'src');
SELECT count(c_text) FROM (SELECT c_text FROM src_not_int OFFSET 0) s;
CREATE FOREIGN TABLE src_domains (id int, u_posint posint, u_short shorttext, c_int4 posint) SERVER types_n1 OPTIONS (table_name 'src');
SELECT count(u_posint), count(u_short) FROM src_domains;
SELECT count(c_int4) FROM src_domains;	-- the domain here refuses what the base type there holds
CREATE FOREIGN TABLE src_not_null (id int, c_text notnulltext) SERVER types_n1 OPTIONS (table_name 'src');
SELECT count(c_text) FROM src_not_null;
CREATE FOREIGN TABLE src_no_domain (id int, u_posint int, u_short varchar, u_ints int[]) SERVER types_n1 OPTIONS (table_name 'src');
SELECT * FROM src_no_domain ORDER BY id LIMIT 3;
CREATE TYPE local_mood AS ENUM ('sad', 'ok');
CREATE FOREIGN TABLE src_other_enum (id int, u_mood local_mood) SERVER types_n1 OPTIONS (table_name 'src');
SELECT count(u_mood) FROM src_other_enum;

-- Parameters of every kind of type reach the data node.
PREPARE by_text(text) AS SELECT id FROM src WHERE c_text = $1 ORDER BY id;
EXECUTE by_text('Ünïcödé → 漢字');
PREPARE by_time(timestamptz) AS SELECT id FROM src WHERE c_timestamptz = $1 ORDER BY id;
EXECUTE by_time('infinity');

-- Databases of different encodings.
\c contrib_regression postgres 127.0.0.1 :n1
CREATE DATABASE rdma_latin1 ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0;
\c rdma_latin1 postgres 127.0.0.1 :n1
SET client_min_messages = warning;
SET client_encoding = 'UTF8';
CREATE EXTENSION rdma_fdw;
CREATE TYPE mood AS ENUM ('schön', 'übel');
CREATE TABLE t (id int, v text, vc varchar(5), n name, j jsonb, a text[], m mood, b bytea, x numeric, c char(3));
INSERT INTO t VALUES (1, 'Übergröße', 'ñandú', 'çedille', '{"ä": "ö"}', '{ß,NULL,é}', 'übel', '\xfc', 1.50, 'é'), (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), (3, repeat('ü', 300000), '', 'x', '[]', '{}', 'schön', '', 'NaN', '');
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
CREATE SCHEMA latin1;
SET search_path = latin1;
CREATE TYPE public.mood AS ENUM ('schön', 'übel');
CREATE SERVER types_latin1 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port :'n1', dbname 'rdma_latin1');
CREATE USER MAPPING FOR CURRENT_USER SERVER types_latin1 OPTIONS (user 'postgres');
IMPORT FOREIGN SCHEMA public LIMIT TO (t) FROM SERVER types_latin1 INTO latin1;
SELECT id, left(v, 12) AS v, vc, n, j, a, m, b, x, c FROM t ORDER BY id;
SELECT id, length(v), octet_length(v) FROM t WHERE id = 3;
SELECT id FROM t WHERE v = 'Übergröße';

-- The opposite direction: characters that the reader's encoding does not have are an error, never a question mark.
CREATE DATABASE rdma_latin1 ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0;
\c rdma_latin1 postgres 127.0.0.1 :coord
SET client_min_messages = warning;
SET client_encoding = 'UTF8';
CREATE EXTENSION rdma_fdw;
CREATE SERVER types_n1 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port :'n1', dbname 'contrib_regression');
CREATE USER MAPPING FOR CURRENT_USER SERVER types_n1 OPTIONS (user 'postgres');
CREATE FOREIGN TABLE src (id int, c_text text, c_json json, c_numeric numeric) SERVER types_n1 OPTIONS (schema_name 'ty');
SELECT c_json FROM src WHERE c_json IS NOT NULL ORDER BY id LIMIT 4;
SELECT count(c_text) FROM (SELECT c_text FROM src OFFSET 0) s;
SELECT count(c_numeric) FROM src;
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
DROP DATABASE rdma_latin1;
DROP SERVER types_n1 CASCADE;
DROP SERVER types_latin1 CASCADE;
DROP SCHEMA ty CASCADE;
DROP SCHEMA latin1 CASCADE;
DROP TYPE public.mood;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA ty CASCADE;
DROP DATABASE rdma_latin1 WITH (FORCE);
