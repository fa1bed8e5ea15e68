-- What an ordinary role of a data node that was given them can do with the functions that other nodes call: nothing but what it may do anyway. Wrong arguments,
-- huge numbers, calls outside the protocol, code of its own inside rdma_internal.store.
\set ECHO none
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
DROP ROLE IF EXISTS rf_hostile;
RESET client_min_messages;
CREATE ROLE rf_hostile LOGIN;
\pset format unaligned
\pset tuples_only on
SELECT rdma.grant_access('rf_hostile', 'read', 'write', 'exchange');
GRANT EXECUTE ON FUNCTION rdma_internal.receive, rdma.bench, rdma."check" TO rf_hostile;
DO $$
BEGIN
	EXECUTE format('CREATE SERVER hostile74 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host %L, port %L, dbname %L)',
				   '127.0.0.1', current_setting('port'), current_database());
END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER hostile74 OPTIONS (user 'rf_hostile');
CREATE SCHEMA h74 AUTHORIZATION rf_hostile;
CREATE TABLE public.secret74 AS SELECT 'secret' AS word;
REVOKE ALL ON public.secret74 FROM PUBLIC;
SET ROLE rf_hostile;
SET search_path = h74, pg_catalog;

-- little-endian numbers, requests, and this node as a peer
CREATE FUNCTION le(value bigint, bytes int) RETURNS bytea LANGUAGE sql AS
$$ SELECT string_agg(set_byte('\x00', 0, ((value >> (8 * i)) & 255)::int), '' ORDER BY i) FROM generate_series(0, bytes - 1) i $$;
CREATE FUNCTION node() RETURNS bytea LANGUAGE sql AS
$$ SELECT substr(rdma_internal.hello(le(1, 4) || le(0, 4) || decode(repeat('01', 16), 'hex') || decode(repeat('00', 48), 'hex')), 17, 16) $$;
CREATE FUNCTION stream_request(version bigint DEFAULT 2, flags bigint DEFAULT 0, flow bigint DEFAULT 0, inline_limit bigint DEFAULT 65536,
	encoding bigint DEFAULT 6, columns bigint DEFAULT 1, type bigint DEFAULT 23, name bytea DEFAULT 'integer', node bytea DEFAULT node()) RETURNS bytea LANGUAGE sql AS
$$ SELECT le(version, 4) || le(flags, 4) || node || le(4711, 8) || le(flow, 4) || le(inline_limit, 4) || le(encoding, 4) || le(columns, 4) || le(0, 8)
	|| le(type, 4) || le(-1, 4) || name || decode(repeat('00', 128 - length(name)), 'hex') $$;
CREATE FUNCTION store_request(version bigint DEFAULT 2, flags bigint DEFAULT 0, buffers bigint DEFAULT 4, size bigint DEFAULT 65536,
	columns bigint DEFAULT 1, type bigint DEFAULT 23, node bytea DEFAULT node(), place bigint DEFAULT 0) RETURNS bytea LANGUAGE sql AS
$$ SELECT le(version, 4) || le(flags, 4) || node || le(4711, 8) || le(buffers, 4) || le(size, 4) || le(columns, 4) || le(place, 4)
	|| le(type, 4) || le(-1, 4) || decode(repeat('00', 128), 'hex') $$;
-- rows that are named: by ctid, and by what has this type
CREATE FUNCTION place_request(flags bigint DEFAULT 4, type bigint DEFAULT 26, first bigint DEFAULT 27) RETURNS bytea LANGUAGE sql AS
$$ SELECT store_request(flags => flags, columns => 2, type => first, place => 2) || le(type, 4) || le(-1, 4) || decode(repeat('00', 128), 'hex') $$;
\set VERBOSITY terse
\set SHOW_CONTEXT never
-- what is said, without the place in the sources
CREATE FUNCTION says(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	detail text;
	answer text;
BEGIN
	EXECUTE statement INTO answer;
	RETURN 'no error';
EXCEPTION WHEN OTHERS OR query_canceled THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	RETURN SQLSTATE || ': ' || SQLERRM || CASE WHEN detail <> '' THEN ' | ' || detail ELSE '' END;
END $$;
\set ECHO all

-- rdma_internal.hello
SELECT says(format('SELECT rdma_internal.hello(%L)', request)) FROM (VALUES (NULL::bytea), (''), ('\x01'), (decode(repeat('ff', 10000), 'hex'))) v(request);
SELECT length(node()), node() = node() AS same;

-- rdma_internal.stream: the request
SELECT says('SELECT rdma_internal.stream(NULL, NULL, NULL, NULL)');
SELECT says('SELECT rdma_internal.stream(stream_request(), NULL, NULL, NULL)');
SELECT says(format('SELECT rdma_internal.stream(%s, %L, NULL, NULL)', request, 'SELECT 1')) FROM (VALUES
	(1, 'stream_request()'), (2, $$''::bytea$$), (3, 'stream_request(version => 3)'), (4, 'stream_request(flags => 4294967295)'), (5, 'stream_request(columns => 4294967295)'),
	(6, 'stream_request(columns => 31580642)'), (7, 'stream_request(columns => 0)'), (8, 'stream_request(inline_limit => 4294967295)'),
	(9, 'stream_request(encoding => 4294967295)'), (10, 'stream_request(encoding => 35)'), (11, $$stream_request(name => decode(repeat('41', 128), 'hex'))$$),
	(12, 'substr(stream_request(), 1, 56)'), (13, 'stream_request() || stream_request()'),
	(14, 'stream_request(flags => 16)'), (15, 'stream_request(flags => 64)'), (16, 'stream_request(flags => 32) || le(7, 8) || le(0, 24)'),
	(17, 'stream_request(flags => 48) || le(7, 8) || le(0, 24)'), (18, 'stream_request() || le(7, 8) || le(0, 24)')) v(i, request) ORDER BY i;
-- the statement
SELECT i, says(format('SELECT rdma_internal.stream(stream_request(), %L, NULL, NULL)', query)) FROM (VALUES
	(1, ''), (2, 'SELECT 1; SELECT 2'), (3, 'SELECT 1, 2'), (4, 'DROP TABLE public.secret74'), (5, 'INSERT INTO nothing VALUES (1)'), (6, 'SELECT 1 INTO h74.made'),
	(7, 'WITH w AS (DELETE FROM public.secret74 RETURNING 1) SELECT 1'), (8, 'SELECT 1 FROM public.secret74'), (9, 'SELECT 1 FROM public.secret74 FOR UPDATE'),
	(10, 'EXPLAIN SELECT 1'), (11, 'COPY (SELECT 1) TO STDOUT'), (12, 'SELECT $1'), (13, 'BEGIN'), (14, 'DECLARE c CURSOR FOR SELECT 1'), (15, 'SELECT 1 WHERE false')) v(i, query) ORDER BY i;
-- its parameters
SELECT i, says(format('SELECT rdma_internal.stream(stream_request(), %L, %L, %L)', 'SELECT $1', types, vals)) FROM (VALUES
	(1, '{integer}', '{1}'), (2, '{integer}', NULL), (3, NULL, '{1}'), (4, '{integer}', '{1,2}'), (5, '{NULL}', '{1}'), (6, '{internal}', '{1}'), (7, '{cstring}', '{abc}'),
	(8, '{record}', '{(1)}'), (9, '{nonsense}', '{1}'), (10, '{{integer}}', '{1}'), (11, '{integer}', '{{1}}'), (12, '{setof integer}', '{1}'),
	(13, '{"integer); DROP TABLE public.secret74; --"}', '{1}'), (14, '{integer}', '{x}'), (15, '{}', '{}')) v(i, types, vals) ORDER BY i;
-- a flow that nobody listens on, and a node that does not exist
SET rdma_fdw.connect_timeout = '1s';
SELECT says('SELECT rdma_internal.stream(stream_request(inline_limit => 0, node => decode(repeat(''aa'', 16), ''hex'')), ''SELECT 1'', NULL, NULL)');

-- a batch that rdma_internal.stream made
CREATE FUNCTION batch(type bigint, name bytea, query text) RETURNS bytea LANGUAGE sql AS
$$ SELECT substr(reply, length(reply) + 1 - (get_byte(reply, 4) + 256 * get_byte(reply, 5)))
	FROM rdma_internal.stream(stream_request(type => type, name => name), query, NULL, NULL) reply $$;
-- snapshots that a request forgets when the next statement was to run under one
BEGIN;
SELECT says(format('SELECT count(*) FROM (SELECT rdma_internal.stream(%s, %L, NULL, NULL), rdma_internal.stream(%s, %L, NULL, NULL), rdma_internal.stream(%s, %L, NULL, NULL) OFFSET 0) s WHERE s IS NOT NULL',
	'stream_request(flags => 80) || le(7, 8) || le(0, 24)', '', 'stream_request(flags => 96) || le(7, 8) || le(0, 24)', '',
	'stream_request(flags => 80) || le(9, 8) || le(0, 24)', ''));
SELECT says('SELECT count(*) FROM pg_class');
COMMIT;
-- rdma_internal.store: the request
CREATE TABLE t (a int, b text);
SELECT says('SELECT rdma_internal.store(NULL, NULL, NULL, NULL)');
SELECT says(format('SELECT rdma_internal.store(%s, %L, %L, %L)', request, 'h74.t', '{a}', '\x')) FROM (VALUES
	(1, 'store_request()'), (2, $$''::bytea$$), (3, 'store_request(version => 3)'), (4, 'store_request(flags => 2)'), (5, 'store_request(columns => 4294967295)'),
	(6, 'store_request(columns => 0)'), (7, 'store_request(buffers => 0)'), (8, 'store_request(buffers => 4294967295)'), (9, 'store_request(size => 0)'),
	(10, 'store_request(size => 4097)'), (11, 'store_request(size => 4294963200)'), (12, 'store_request(type => 2281)'), (13, 'store_request(type => 4601)'),
	(14, 'store_request(type => 4294967295)'), (15, 'substr(store_request(), 1, 48)'), (16, 'store_request(type => 2249)'), (17, 'store_request(type => 2275)')) v(i, request) ORDER BY i;
-- rows that are named by ctid and tableoid
SELECT i, says(format('SELECT rdma_internal.store(%s, %L, %L, %L)', request, 'h74.t', names, '\x')) FROM (VALUES
	(1, 'place_request(first => 23)', '{ctid,tableoid}'), (2, 'place_request()', '{a,b}'), (3, 'place_request(6)', '{ctid,tableoid}'),
	(4, 'place_request(3)', '{ctid,tableoid}'), (5, 'place_request(8)', '{ctid,tableoid}'), (6, 'place_request(2)', '{ctid,tableoid}'),
	(7, 'place_request(type => 23)', '{ctid,tableoid}'), (8, 'place_request(0)', '{ctid,tableoid}'), (9, 'store_request(flags => 4, type => 27, place => 1)', '{ctid}'),
	(10, 'store_request(flags => 4, type => 27, place => 4294967295)', '{ctid}'), (11, 'store_request(flags => 2, type => 27)', '{ctid}')) v(i, request, names) ORDER BY i;
CREATE FUNCTION places(query text) RETURNS bytea LANGUAGE sql AS
$$ SELECT substr(reply, length(reply) + 1 - (get_byte(reply, 4) + 256 * get_byte(reply, 5)))
	FROM rdma_internal.stream(stream_request(columns => 2, type => 27, name => 'tid') || le(26, 4) || le(-1, 4) || 'oid' || decode(repeat('00', 125), 'hex'), query, NULL, NULL) reply $$;
SELECT says(format('SELECT rdma_internal.store(place_request(), %L, %L, %L)', relation, '{ctid,tableoid}', places('SELECT ''(0,1)''::pg_catalog.tid, 1::pg_catalog.oid'))) FROM (VALUES
	(1, 'public.secret74'), (2, 'rdma.stat_engine'), (3, 'nothing')) v(i, relation) ORDER BY i;
SELECT says(format('SELECT rdma_internal.store(place_request(), %L, %L, %L)', 'h74.t', '{ctid,tableoid}', places(format('SELECT %L::pg_catalog.tid, %s', ctid, tab)))) FROM (VALUES
	(1, '(0,1)', '''h74.t''::regclass::oid'), (2, '(4294967295,65535)', '''h74.t''::regclass::oid'), (3, '(0,0)', '''h74.t''::regclass::oid'), (4, NULL, '''h74.t''::regclass::oid'),
	(5, '(0,1)', 'NULL::oid'), (6, '(0,1)', '1::oid'), (7, '(0,1)', '1260::oid')) v(i, ctid, tab) ORDER BY i;
-- the relation and its columns
SELECT i, says(format('SELECT rdma_internal.store(store_request(), %L, %L, %L)', relation, names, '\x')) FROM (VALUES
	(1, '', '{a}'), (2, 'h74.t(a) VALUES (1) --', '{a}'), (3, 'h74.t(a)values(1)', '{a}'), (4, 'nothing', '{a}'), (5, 'public.secret74', '{word}'), (6, 'pg_catalog.pg_authid', '{rolname}'),
	(7, 'a.b.c.d', '{a}'), (8, 'h74.t', '{}'), (9, 'h74.t', '{a,b}'), (10, 'h74.t', '{NULL}'), (11, 'h74.t', '{{a}}'), (12, 'h74.t', '{"a) VALUES (1) --"}'), (13, 'h74.t', '{ctid}'),
	(14, 'h74.t', '{xx}'), (15, 'rdma.stat_engine', '{pid}')) v(i, relation, names) ORDER BY i;
-- ON CONFLICT, and other commands in its place
SELECT i, says(format('SELECT rdma_internal.store(store_request(flags => %s), %L, %L, %L, %L)', flags, 'h74.t', '{a}', '\x', conflict)) FROM (VALUES
	(1, 1, ' ON CONFLICT DO NOTHING; DROP TABLE h74.t'), (2, 1, ''), (3, 1, ' RETURNING a'), (4, 1, ' ON CONFLICT DO NOTHING RETURNING a'), (5, 1, ' UNION SELECT 1'), (6, 1, NULL),
	(7, 0, ' ON CONFLICT DO NOTHING'), (8, 1, ' ON CONFLICT (a) DO UPDATE SET a = 1'), (9, 1, ' ON CONFLICT DO NOTHING')) v(i, flags, conflict) ORDER BY i;
SET rdma_fdw.as_owner_of = 'h74.t';
SELECT says(format('SELECT rdma_internal.store(store_request(flags => 1), %L, %L, %L, %L)', 'h74.t', '{a}', '\x', ' ON CONFLICT DO NOTHING'));
RESET rdma_fdw.as_owner_of;
-- what comes as rows
SELECT says(format('SELECT rdma_internal.store(store_request(), %L, %L, %L::bytea)', 'h74.t', '{a}', batch)) FROM (VALUES
	(1, '\x00'::bytea), (2, decode(repeat('ff', 200), 'hex')), (3, decode(repeat('00', 4096), 'hex'))) v(i, batch) ORDER BY i;
-- text that no client could send: a batch with other letters
SELECT says(format('SELECT rdma_internal.store(store_request(type => 25), %L, %L, %L::bytea)', 'h74.t', '{b}', overlay(batch PLACING letters FROM position('abcdefgh'::bytea IN batch))))
FROM batch(25, 'text', $$SELECT 'abcdefgh'::text$$) batch, (VALUES (1, '\x41'::bytea), (2, '\xff'), (3, '\x00'), (4, '\xc3bc'), (5, '\xf0')) v(i, letters) ORDER BY i;
SELECT b FROM t ORDER BY b COLLATE "C";
TRUNCATE t;

-- no sender
SELECT says('SELECT rdma_internal.store(store_request(node => decode(repeat(''aa'', 16), ''hex'')), ''h74.t'', ''{a}'', NULL)');
BEGIN READ ONLY;
SELECT says('SELECT rdma_internal.store(store_request(), ''h74.t'', ''{a}'', ''\x'')');
COMMIT;
SELECT count(*) FROM t;

-- rdma_internal.receive outside rdma_internal.store
SELECT says('SELECT * FROM rdma_internal.receive() AS r(a int)');
SELECT says('SELECT rdma_internal.receive()');

-- Inside it: triggers run with the request's rows at hand.
CREATE TABLE log (number serial, said text);
CREATE FUNCTION spy() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO h74.log (said) VALUES (h74.says(TG_ARGV[0])); RETURN NULL; END $$;
CREATE TABLE ints (a int, b text);
CREATE TABLE texts (a text, b text);
CREATE FUNCTION take() RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT string_agg(r.a::text || r.b, ',') FROM rdma_internal.receive() AS r(a int, b text)); END $$;
RESET ROLE;
CREATE SCHEMA h74f;
IMPORT FOREIGN SCHEMA h74 LIMIT TO (ints, texts) FROM SERVER hostile74 INTO h74f;
-- other types than the rows have, other numbers of columns
SET ROLE rf_hostile;
CREATE TRIGGER spy1 BEFORE INSERT ON ints FOR EACH STATEMENT EXECUTE FUNCTION spy('SELECT * FROM rdma_internal.receive() AS r(a text, b text)');
CREATE TRIGGER spy2 BEFORE INSERT ON ints FOR EACH STATEMENT EXECUTE FUNCTION spy('SELECT * FROM rdma_internal.receive() AS r(a int)');
CREATE TRIGGER spy3 BEFORE INSERT ON ints FOR EACH STATEMENT EXECUTE FUNCTION spy('SELECT * FROM rdma_internal.receive() AS r(a int, b text, c text)');
CREATE TRIGGER spy5 BEFORE INSERT ON ints FOR EACH STATEMENT EXECUTE FUNCTION spy('SELECT r.a, r.n FROM ROWS FROM (rdma_internal.receive() AS (a int, b text)) WITH ORDINALITY AS r(a, b, n)');
RESET ROLE;
INSERT INTO h74f.ints VALUES (1, 'one'), (2, 'two');
SELECT said FROM h74.log ORDER BY number;
SELECT * FROM h74.ints ORDER BY a;
-- a plan made for one request in another, with other types
SET ROLE rf_hostile;
DROP TRIGGER spy1 ON ints;
DROP TRIGGER spy2 ON ints;
DROP TRIGGER spy3 ON ints;
DROP TRIGGER spy5 ON ints;
TRUNCATE log, ints;
CREATE TRIGGER spy BEFORE INSERT ON ints FOR EACH STATEMENT EXECUTE FUNCTION spy('SELECT h74.take()');
CREATE TRIGGER spy BEFORE INSERT ON texts FOR EACH STATEMENT EXECUTE FUNCTION spy('SELECT h74.take()');
RESET ROLE;
INSERT INTO h74f.ints VALUES (1, 'one'), (2, 'two');
INSERT INTO h74f.texts VALUES ('1', 'one'), ('2', 'two');
INSERT INTO h74f.ints VALUES (3, 'three'), (4, 'four');
SELECT said FROM h74.log ORDER BY number;
-- a cursor that outlives the request, read outside and in the next one
SET ROLE rf_hostile;
DROP TRIGGER spy ON ints;
DROP TRIGGER spy ON texts;
TRUNCATE log, ints, texts;
CREATE FUNCTION leave() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE c refcursor := 'left_open';
BEGIN
	OPEN c FOR SELECT a, b FROM rdma_internal.receive() AS r(a int, b text);
	RETURN NULL;
END $$;
CREATE FUNCTION fetch_one() RETURNS text LANGUAGE plpgsql AS $$
DECLARE c refcursor := 'left_open'; row_ record;
BEGIN
	FETCH c INTO row_;
	RETURN row_::text;
END $$;
CREATE TRIGGER leave BEFORE INSERT ON ints FOR EACH STATEMENT EXECUTE FUNCTION leave();
CREATE TRIGGER spy BEFORE INSERT ON texts FOR EACH STATEMENT EXECUTE FUNCTION spy('SELECT h74.fetch_one()');
CREATE VIEW fetched AS SELECT says('SELECT h74.fetch_one()') AS said;
RESET ROLE;
IMPORT FOREIGN SCHEMA h74 LIMIT TO (fetched) FROM SERVER hostile74 INTO h74f;
BEGIN;
INSERT INTO h74f.ints VALUES (1, 'one'), (2, 'two');
SELECT * FROM h74f.fetched;
COMMIT;
BEGIN;
INSERT INTO h74f.ints VALUES (3, 'three'), (4, 'four');
INSERT INTO h74f.texts VALUES ('1', 'one'), ('2', 'two');
COMMIT;
SELECT said FROM h74.log ORDER BY number;
SELECT count(*) FROM h74.ints;

-- the other functions
SET ROLE rf_hostile;
SELECT i, says(statement) FROM (VALUES
	(1, 'SELECT count(*) FROM rdma.zero_pages(-1, 1)'), (2, 'SELECT count(*) FROM rdma.zero_pages(9223372036854775807, 1)'), (3, 'SELECT count(*) FROM rdma.zero_pages(1, 0)'),
	(4, 'SELECT count(*) FROM rdma.zero_pages(1, 2147483647)'), (5, 'SELECT count(*) FROM rdma.zero_pages(NULL, NULL)'), (6, 'SELECT count(*) FROM rdma.zero_pages(0, 16777216)'),
	(7, $$SELECT rdma.bench('hostile74', 1)$$), (8, $$SELECT rdma.bench('nothing', 1)$$), (9, 'SELECT rdma.bench(NULL, NULL)'), (10, $$SELECT rdma."check"('hostile74')$$),
	(11, 'SELECT rdma.set_flow_weight(0, 1)'), (12, 'SELECT * FROM rdma.stat_peers'), (13, 'SELECT * FROM rdma_internal.qps()'), (14, $$SELECT rdma.disconnect('nothing')$$),
	(15, $$SELECT rdma_internal.rdma_fdw_validator('{NULL}', 1417)$$), (16, $$SELECT rdma_internal.rdma_fdw_validator('{{host=a}}', 0)$$), (17, $$SELECT rdma_internal.rdma_fdw_validator('{x}', 1417)$$),
	(18, $$SELECT rdma_internal.known_options('{NULL}', 1417)$$), (19, 'SELECT rdma_internal.option_list(''{NULL}'')'), (20, $$SELECT rdma.adopt_server('hostile74', 'h74')$$),
	(21, $$SELECT rdma_internal.seen_parts(99, '{1}', '{1}')$$), (22, $$SELECT rdma_internal.seen_parts(0, '{1,2}', '{1}')$$), (23, $$SELECT rdma_internal.seen_parts(0, '{{NULL,2}}', '{1,NULL}')$$),
	(24, 'SELECT count(*) FROM rdma_internal.unseen_parts(-1, -1)'), (25, 'SELECT rdma_internal.other_parts_age(-1)'), (26, $$SELECT rdma_internal.note_job(NULL, 'x', 1)$$),
	(27, $$SELECT rdma_internal.note_move(NULL, NULL, NULL, NULL, '{NULL}')$$), (28, 'SELECT rdma_internal.note_phase(NULL)'),
	(29, $$SELECT rdma_internal.run_as_owner(0, 'SELECT 1')$$), (30, $$SELECT rdma_internal.run_as_owner('h74.t', 'COMMIT')$$), (31, $$SELECT rdma_internal.run_as_owner('public.secret74', 'SELECT 1')$$)) v(i, statement) ORDER BY i;
RESET ROLE;
SELECT says74 FROM h74.says('SELECT rdma.set_flow_weight(-1, 1), rdma.set_flow_weight(2147483647, 1)') says74;
SELECT word FROM public.secret74;

-- nothing is left running
DO $$ BEGIN
	FOR i IN 1 .. 1200 LOOP
		EXIT WHEN NOT EXISTS (SELECT FROM rdma.stat_flows);
		PERFORM pg_sleep(0.05);
	END LOOP;
END $$;
SELECT count(*) FROM rdma.stat_flows;

\set ECHO none
RESET search_path;
SET client_min_messages = warning;
DROP SERVER hostile74 CASCADE;
DROP SCHEMA h74f, h74 CASCADE;
DROP TABLE public.secret74;
SELECT rdma.revoke_access('rf_hostile', 'read');
REVOKE EXECUTE ON FUNCTION rdma_internal.receive, rdma.bench, rdma."check" FROM rf_hostile;
DROP ROLE rf_hostile;
