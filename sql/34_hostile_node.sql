-- Damaged images from those who may send some: a data node that is a database with functions of its owner's instead of the extension, and a
-- role that calls rdma_internal.store. Which images are damaged is the part of 33_images.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
DROP ROLE IF EXISTS rf_hostile34;
DROP DATABASE IF EXISTS hostile34;
CREATE ROLE rf_hostile34 LOGIN;
CREATE DATABASE hostile34 OWNER rf_hostile34 TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C';
CREATE SCHEMA h34;
GRANT USAGE ON SCHEMA rdma_internal TO rf_hostile34;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA rdma_internal TO rf_hostile34;
GRANT ALL ON SCHEMA h34 TO PUBLIC;
SET search_path = h34;
CREATE FUNCTION le(value bigint, bytes int) RETURNS bytea LANGUAGE sql AS
$$ SELECT string_agg(set_byte('\x00', 0, ((value >> (8 * i)) & 255)::int), '' ORDER BY i) FROM generate_series(0, bytes - 1) i $$;
CREATE FUNCTION hello() RETURNS bytea LANGUAGE sql AS
$$ SELECT rdma_internal.hello(h34.le(2, 4) || h34.le(0, 4) || decode(repeat('01', 16), 'hex') || decode(repeat('00', 16), 'hex') || decode(repeat('07', 32), 'hex')) $$;
-- One row of one column, whose image is this.
CREATE FUNCTION batch(image bytea) RETURNS bytea LANGUAGE sql AS
$$ SELECT le(x'48435442'::bigint, 4) || le(44 + length(image), 4) || le(1, 4) || le(1, 2) || le(0, 2)
	|| le(3, 4) || le(4, 4) || le(0, 4) || le(32, 4) || le(40, 4) || le(0, 4) || le(4 * (4 + length(image)), 4) || image $$;
-- What an honest answer has in front of its batch.
CREATE FUNCTION answer(batch bytea) RETURNS bytea LANGUAGE sql AS
$$ SELECT overlay(overlay(substr(reply, 1, length(reply) - get_byte(reply, 4)) PLACING h34.le(length(batch), 4) FROM 5) PLACING h34.le(1, 8) FROM 9) || batch
	FROM rdma_internal.stream(h34.le(2, 4) || h34.le(0, 4) || substr(h34.hello(), 17, 16) || h34.le(4711, 8) || h34.le(0, 4) || h34.le(65536, 4) || h34.le(6, 4) || h34.le(1, 4)
		|| h34.le(0, 8) || h34.le(23, 4) || h34.le(-1, 4) || 'integer'::bytea || decode(repeat('00', 121), 'hex'), 'SELECT 1', NULL, NULL) reply $$;
CREATE TABLE images (i int, type text, image bytea);
INSERT INTO images VALUES
	(1, 'numrange', le(3906, 4) || '\x30'), (2, 'nummultirange', le(4532, 4) || le(2, 4) || le(0, 4) || '\x30300000000000000000'),
	(3, 'tsvector', le(400, 4) || decode(repeat('fe0f0000', 400), 'hex') || decode(repeat('41', 2047), 'hex')),
	(4, 'name[]', le(1, 4) || le(0, 4) || le(19, 4) || le(2, 4) || le(1, 4) || decode(repeat('78', 128), 'hex')), (5, 'text', '\x6162ff'), (6, 'json', '\x5b312c'),
	(7, 'text', '\x6162c3a9'), (8, 'numrange', le(3906, 4) || '\x0b008001000f80800200881302'),
	(9, 'varchar(3)', '\x61626364'), (10, 'varchar(3)', '\xc3a9c3a9c3a9'), (11, 'numeric(4,1)', '\x8080d2048813'), (12, 'numeric(4,1)', '\x8080e7032823'),
	(13, 'numeric(4,1)', '\x7f81f401'), (14, 'numeric(4,1)', '\x00d0'), (15, 'bit(3)', le(3, 4) || '\xa0');

-- The connection of the engine with itself, which the node's own functions speak of.
DO $$ BEGIN
	EXECUTE format('CREATE SERVER self34 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host %L, port %L, dbname %L)', '127.0.0.1', current_setting('port'), current_database());
	EXECUTE format('CREATE SERVER hostile34 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host %L, port %L, dbname %L)', '127.0.0.1', current_setting('port'), 'hostile34');
END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER self34 OPTIONS (user 'postgres');
CREATE USER MAPPING FOR CURRENT_USER SERVER hostile34 OPTIONS (user 'rf_hostile34', password_required 'false');
CREATE TABLE here AS SELECT i FROM generate_series(1, 10) i;
CREATE FOREIGN TABLE there (i int) SERVER self34 OPTIONS (schema_name 'h34', table_name 'here');
SELECT count(*) FROM (SELECT * FROM there OFFSET 0) x;

SELECT current_database() AS database \gset
SELECT hello() AS hello \gset
SELECT string_agg(format('(%s, %L::bytea)', i, answer(batch(image))), ', ' ORDER BY i) AS answers FROM images \gset
\c hostile34 rf_hostile34
CREATE SCHEMA rdma_internal;
CREATE TABLE answers AS SELECT i, answer FROM (VALUES :answers) v(i, answer);
CREATE TABLE chosen AS SELECT 1 AS i;
CREATE TABLE hello AS SELECT :'hello'::bytea AS answer;
CREATE FUNCTION rdma_internal.hello(bytea) RETURNS bytea LANGUAGE sql AS 'SELECT answer FROM public.hello';
CREATE FUNCTION rdma_internal.stream(bytea, text, text[], text[]) RETURNS bytea LANGUAGE sql AS $$ SELECT answer FROM public.answers WHERE i = substring($2 FROM '\.v(\d+)')::int $$;
\c :database postgres
SET search_path = h34, pg_catalog;
\set VERBOSITY terse
SELECT count(*) FROM (SELECT * FROM there OFFSET 0) x;
SELECT format('CREATE FOREIGN TABLE v%s (v %s) SERVER hostile34 OPTIONS (schema_name ''public'')', i, type) FROM images ORDER BY i \gexec
SELECT v + v FROM (SELECT * FROM v1 OFFSET 0) x;
SELECT v::text, v + v FROM (SELECT * FROM v2 OFFSET 0) x;
SELECT length(v || v) FROM (SELECT * FROM v3 OFFSET 0) x;
SELECT octet_length(v[1]::text) FROM (SELECT * FROM v4 OFFSET 0) x;
SELECT reverse(v) FROM (SELECT * FROM v5 OFFSET 0) x;
SELECT v -> 0 FROM (SELECT * FROM v6 OFFSET 0) x;
SELECT reverse(v) FROM (SELECT * FROM v7 OFFSET 0) x;
SELECT v + v FROM (SELECT * FROM v8 OFFSET 0) x;
-- larger than the column's type modifier allows, or just as large
SELECT v FROM (SELECT * FROM v9 OFFSET 0) x;
SELECT v FROM (SELECT * FROM v10 OFFSET 0) x;
SELECT v FROM (SELECT * FROM v11 OFFSET 0) x;
SELECT v FROM (SELECT * FROM v12 OFFSET 0) x;
SELECT v FROM (SELECT * FROM v13 OFFSET 0) x;
SELECT v FROM (SELECT * FROM v14 OFFSET 0) x;
SELECT v FROM (SELECT * FROM v15 OFFSET 0) x;
-- only a superuser may trust a node
CREATE ROLE rf_owner34;
GRANT USAGE ON FOREIGN DATA WRAPPER rdma_fdw TO rf_owner34;
SET ROLE rf_owner34;
CREATE SERVER owned34 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', trusted 'true');
CREATE SERVER owned34 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', trusted 'false');
ALTER SERVER owned34 OPTIONS (SET trusted 'on');
RESET ROLE;
ALTER SERVER hostile34 OPTIONS (ADD trusted 'true');
SELECT v + v FROM (SELECT * FROM v1 OFFSET 0) x;
SELECT octet_length(v[1]::text) FROM (SELECT * FROM v4 OFFSET 0) x;

-- The same into tables of a role, by rdma_internal.store.
SET ROLE rf_hostile34;
CREATE FUNCTION store(number int) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM rdma_internal.store(h34.le(2, 4) || h34.le(0, 4) || substr(h34.hello(), 17, 16) || h34.le(4711, 8) || h34.le(4, 4) || h34.le(65536, 4) || h34.le(1, 4) || h34.le(0, 4)
		|| h34.le(type::regtype::oid::bigint, 4) || h34.le(-1, 4) || decode(repeat('00', 128), 'hex'), 'h34.s' || i, '{v}', h34.batch(image)) FROM h34.images WHERE i = number;
	RETURN 'stored';
EXCEPTION WHEN data_corrupted OR character_not_in_repertoire OR string_data_right_truncation OR numeric_value_out_of_range THEN RETURN SQLERRM;
END $$;
RESET ROLE;
GRANT SELECT ON images TO rf_hostile34;
SET ROLE rf_hostile34;
SELECT format('CREATE TABLE s%s (v %s)', i, type) FROM images ORDER BY i \gexec
SELECT i, type, store(i) FROM images ORDER BY i;
SELECT * FROM s7, s8;
RESET ROLE;

\set VERBOSITY default
RESET search_path;
SET client_min_messages = warning;
DROP SERVER self34, hostile34, owned34 CASCADE;
DROP SCHEMA h34 CASCADE;
SELECT count(rdma.disconnect_all()) FROM (SELECT) x;
DROP DATABASE hostile34 WITH (FORCE);
DROP OWNED BY rf_hostile34, rf_owner34;
DROP ROLE rf_hostile34, rf_owner34;
