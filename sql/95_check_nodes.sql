-- rdma.check of a server with nodes whose engines lose each other while they are connected: it tries again, as statements do.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name ckn
\i :two_nodes
\c contrib_regression postgres 127.0.0.1 :n1

-- The first node loses this many attempts to connect.
CREATE SCHEMA ckn;
CREATE FUNCTION ckn.exchange_connect(host text, hello bytea) RETURNS void
AS '$libdir/rdma_fdw', 'rdma_exchange_connect' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
CREATE SEQUENCE ckn.attempts;
CREATE TABLE ckn.vanish (count int);
INSERT INTO ckn.vanish VALUES (2);
CREATE OR REPLACE FUNCTION rdma_internal.exchange_connect(host text, hello bytea) RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE AS $$
BEGIN
	IF nextval('ckn.attempts') <= (SELECT count FROM ckn.vanish) THEN
		RAISE 'the attempt was given up' USING ERRCODE = 'connection_does_not_exist';
	END IF;
	PERFORM ckn.exchange_connect(host, hello);
END $$;
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
CREATE FOREIGN TABLE ckn_attempts (last_value bigint) SERVER ckn1 OPTIONS (schema_name 'ckn', table_name 'attempts');
CREATE FOREIGN TABLE ckn_vanish (count int) SERVER ckn1 OPTIONS (schema_name 'ckn', table_name 'vanish');
RESET client_min_messages;

-- two attempts vanish, the third one stays; the next check does not rely on what this one found
SELECT item, status, value FROM rdma.check('ckn') WHERE item = 'exchange';
SELECT last_value AS attempts FROM ckn_attempts;
SELECT item, status, value FROM rdma.check('ckn') WHERE item = 'exchange';
SELECT last_value AS attempts FROM ckn_attempts;

-- all attempts vanish
UPDATE ckn_vanish SET count = 1000;
SELECT item, status, value FROM rdma.check('ckn') WHERE item = 'exchange';
SELECT last_value AS attempts FROM ckn_attempts;

SET client_min_messages = warning;
DROP SERVER ckn, ckn1, ckn2 CASCADE;
DROP SCHEMA ckn CASCADE;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
CREATE OR REPLACE FUNCTION rdma_internal.exchange_connect(host text, hello bytea) RETURNS void
AS '$libdir/rdma_fdw', 'rdma_exchange_connect' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
DROP SCHEMA ckn CASCADE;
