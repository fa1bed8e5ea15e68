-- rdma.check of a server with nodes whose engines lose each other while they are connected: it tries again, as statements do.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
\getenv n1 RF_N1_PORT
\getenv n2 RF_N2_PORT
\getenv coord RF_COORD_PORT
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;

-- The first node loses this many attempts to connect.
CREATE SCHEMA ckn;
CREATE FUNCTION ckn.exchange_connect(host text, hello bytea) RETURNS void
AS '$libdir/rdma_fdw', 'rdma_exchange_connect' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
CREATE SEQUENCE ckn.attempts;
CREATE TABLE ckn.vanish (count int);
INSERT INTO ckn.vanish VALUES (2);
CREATE OR REPLACE FUNCTION rdma.exchange_connect(host text, hello bytea) RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE AS $$
BEGIN
	IF nextval('ckn.attempts') <= (SELECT count FROM ckn.vanish) THEN
		RAISE 'the attempt was given up' USING ERRCODE = 'connection_does_not_exist';
	END IF;
	PERFORM ckn.exchange_connect(host, hello);
END $$;
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
CREATE SERVER ckn1 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port :'n1', dbname 'contrib_regression');
CREATE SERVER ckn2 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port :'n2', dbname 'contrib_regression');
CREATE USER MAPPING FOR CURRENT_USER SERVER ckn1 OPTIONS (user 'postgres');
CREATE USER MAPPING FOR CURRENT_USER SERVER ckn2 OPTIONS (user 'postgres');
CREATE SERVER ckn FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'ckn1, ckn2');
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
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
CREATE OR REPLACE FUNCTION rdma.exchange_connect(host text, hello bytea) RETURNS void
AS '$libdir/rdma_fdw', 'rdma_exchange_connect' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
DROP SCHEMA ckn CASCADE;
