-- Rows that lie unevenly on the nodes: ANALYZE finds out, and statements cost what they cost on the node with most rows.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
\getenv n1 RF_N1_PORT
\getenv n2 RF_N2_PORT
\getenv coord RF_COORD_PORT
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
CREATE SCHEMA nu;
CREATE TABLE nu.orders (id int, price int);
CREATE TABLE nu.items AS SELECT i % 5000 AS oid, i AS quantity FROM generate_series(1, 20000) i;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
CREATE SCHEMA nu;
CREATE TABLE nu.orders AS SELECT i AS id, i % 97 AS price FROM generate_series(0, 4999) i;
CREATE TABLE nu.items (oid int, quantity int);
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
CREATE SERVER nu1 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port :'n1', dbname 'contrib_regression', fdw_startup_cost '100', fdw_tuple_cost '0.001');
CREATE SERVER nu2 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port :'n2', dbname 'contrib_regression', fdw_startup_cost '100', fdw_tuple_cost '0.001');
CREATE USER MAPPING FOR CURRENT_USER SERVER nu1 OPTIONS (user 'postgres');
CREATE USER MAPPING FOR CURRENT_USER SERVER nu2 OPTIONS (user 'postgres');
CREATE SERVER nu FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'nu1, nu2', fdw_startup_cost '100', fdw_tuple_cost '0.001');
CREATE SCHEMA nu;
CREATE FOREIGN TABLE nu.orders (id int, price int) SERVER nu;
CREATE FOREIGN TABLE nu.items (oid int, quantity int) SERVER nu;
CREATE FUNCTION nu.parts(tab regclass) RETURNS float4[] LANGUAGE sql AS
	'SELECT stanumbers2 FROM pg_statistic WHERE starelid = tab AND staattnum = 0 AND stakind2 = 21478';
CREATE FUNCTION nu.strategy(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		IF line ~ 'Strategy|Exchange' THEN RETURN NEXT btrim(line); END IF;
	END LOOP;
END $$;

-- each table is on one node: moving both halves the join that one node would do alone
ANALYZE nu.orders, nu.items;
SELECT nu.parts('nu.orders') AS orders, nu.parts('nu.items') AS items;
SELECT nu.strategy('SELECT count(*), sum(quantity), sum(price) FROM nu.orders JOIN nu.items ON id = oid');
SELECT count(*), sum(quantity), sum(price) FROM nu.orders JOIN nu.items ON id = oid;

-- evenly, or nearly so: the smaller one goes to both
\c contrib_regression postgres 127.0.0.1 :n1
INSERT INTO nu.orders SELECT i, i % 97 FROM generate_series(0, 2399) i;
DELETE FROM nu.items WHERE quantity % 2 = 0;
\c contrib_regression postgres 127.0.0.1 :n2
DELETE FROM nu.orders WHERE id < 2400;
INSERT INTO nu.items SELECT i % 5000, i FROM generate_series(2, 20000, 2) i;
\c contrib_regression postgres 127.0.0.1 :coord
ANALYZE nu.orders, nu.items;
SELECT nu.parts('nu.orders') AS orders, nu.parts('nu.items') AS items;
SELECT nu.strategy('SELECT count(*), sum(quantity), sum(price) FROM nu.orders JOIN nu.items ON id = oid');
SELECT count(*), sum(quantity), sum(price) FROM nu.orders JOIN nu.items ON id = oid;

-- a table without rows, and one that is the same everywhere, have no parts; neither has one whose server got other nodes since
\c contrib_regression postgres 127.0.0.1 :n1
TRUNCATE nu.orders;
\c contrib_regression postgres 127.0.0.1 :n2
TRUNCATE nu.orders;
\c contrib_regression postgres 127.0.0.1 :coord
ALTER FOREIGN TABLE nu.items OPTIONS (ADD replicated 'true');
ANALYZE nu.orders, nu.items;
SELECT nu.parts('nu.orders') AS orders, nu.parts('nu.items') AS items;
ALTER FOREIGN TABLE nu.items OPTIONS (DROP replicated);
ANALYZE nu.items;

SET client_min_messages = warning;
DROP SCHEMA nu CASCADE;
DROP SERVER nu, nu1, nu2 CASCADE;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA nu CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA nu CASCADE;
