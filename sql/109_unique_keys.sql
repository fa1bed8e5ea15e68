-- What the planner expects of joins by a unique key of several columns, of which ANALYZE of a foreign table has learned: as by a foreign key.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name uq
\i :two_nodes
\c contrib_regression postgres 127.0.0.1 :n1
CREATE SCHEMA uq;
-- 10,000 of a million pairs of a thousand values each
CREATE TABLE uq.offers (part int, seller int, kind int, UNIQUE (part, seller));
INSERT INTO uq.offers SELECT i % 1000, (i * 7 + i / 1000) % 1000, i % 10 FROM generate_series(1, 10000) i;
CREATE TABLE uq.no_key AS TABLE uq.offers;
CREATE TABLE uq.sold AS SELECT part, seller, i AS id FROM (SELECT part, seller, row_number() OVER (ORDER BY part, seller) AS i FROM uq.offers CROSS JOIN generate_series(1, 2)) s;
CREATE TABLE uq.withdrawn (part int, seller int, UNIQUE (part, seller));
INSERT INTO uq.withdrawn SELECT part, seller FROM uq.offers WHERE kind = 5;
CREATE TABLE uq.parts AS SELECT i AS part, i % 10 AS colour FROM generate_series(0, 999) i;
\c contrib_regression postgres 127.0.0.1 :coord
CREATE FOREIGN TABLE uq.offers (part int, seller int, kind int) SERVER uq1;
CREATE FOREIGN TABLE uq.no_key (part int, seller int, kind int) SERVER uq1;
CREATE FOREIGN TABLE uq.sold (part int, seller int, id bigint) SERVER uq1;
CREATE FOREIGN TABLE uq.withdrawn (part int, seller int) SERVER uq1;
CREATE FOREIGN TABLE uq.parts (part int, colour int) SERVER uq1;
ANALYZE uq.offers, uq.no_key, uq.sold, uq.withdrawn, uq.parts;
CREATE TABLE uq.sold_here AS TABLE uq.sold;
CREATE TABLE uq.offers_here (LIKE uq.offers, UNIQUE (seller, part));
INSERT INTO uq.offers_here TABLE uq.offers;
ANALYZE uq.sold_here, uq.offers_here;
CREATE FUNCTION uq.expected(query text, OUT rows_expected bigint, OUT rows_there bigint) LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
	rows_expected := plan->0->'Plan'->>'Plan Rows';
	EXECUTE 'SELECT count(*) FROM (' || query || ') q' INTO rows_there;
END $$;

-- independent columns: a hundredth of it
SELECT * FROM uq.expected('SELECT FROM uq.sold s JOIN uq.no_key o ON o.part = s.part AND o.seller = s.seller');
SELECT * FROM uq.expected('SELECT FROM uq.sold s JOIN uq.offers o ON o.part = s.part AND o.seller = s.seller');
SELECT * FROM uq.expected('SELECT FROM uq.offers o JOIN uq.sold s ON o.part = s.part AND o.seller = s.seller');
SELECT * FROM uq.expected('SELECT FROM uq.sold_here s JOIN uq.offers o ON o.part = s.part AND o.seller = s.seller');
-- some of the keys
SELECT * FROM uq.expected('SELECT FROM uq.sold s JOIN uq.offers o ON o.part = s.part AND o.seller = s.seller WHERE o.kind = 3');
-- equal by way of a third table, whose rows were joined before
SELECT * FROM uq.expected('SELECT FROM uq.parts p JOIN uq.offers o ON o.part = p.part JOIN uq.sold s ON s.part = p.part AND s.seller = o.seller WHERE p.colour = 3');
-- conditions of outer joins are no equivalences
SELECT * FROM uq.expected('SELECT FROM uq.sold s LEFT JOIN uq.offers o ON o.part = s.part AND o.seller = s.seller');
SELECT * FROM uq.expected('SELECT FROM uq.offers o LEFT JOIN uq.sold s ON o.part = s.part AND s.seller = o.seller');
SELECT * FROM uq.expected('SELECT FROM uq.offers o LEFT JOIN uq.no_key s ON o.part = s.part AND s.seller = o.seller AND s.kind = 3');
-- unique on both sides: each row of the smaller table has a partner, also where the larger one is here
SELECT * FROM uq.expected('SELECT FROM uq.offers o JOIN uq.withdrawn w ON o.part = w.part AND o.seller = w.seller');
SELECT * FROM uq.expected('SELECT FROM uq.withdrawn w JOIN uq.offers o ON o.part = w.part AND o.seller = w.seller');
SELECT * FROM uq.expected('SELECT FROM uq.offers o LEFT JOIN uq.withdrawn w ON o.part = w.part AND o.seller = w.seller');
SELECT * FROM uq.expected('SELECT FROM uq.withdrawn w JOIN uq.offers_here o ON o.part = w.part AND o.seller = w.seller');
-- that a row has a partner is not said: semi and anti joins are expected as without the key
SELECT * FROM uq.expected('SELECT FROM uq.sold s WHERE EXISTS (SELECT FROM uq.offers o WHERE o.part = s.part AND o.seller = s.seller)');
SELECT * FROM uq.expected('SELECT FROM uq.offers o WHERE NOT EXISTS (SELECT FROM uq.withdrawn w WHERE o.part = w.part AND o.seller = w.seller)');
SELECT * FROM uq.expected('SELECT FROM uq.offers o LEFT JOIN uq.withdrawn w ON o.part = w.part AND o.seller = w.seller WHERE w.part IS NULL');
-- a value for one of the columns
SELECT * FROM uq.expected('SELECT FROM uq.sold s JOIN uq.offers o ON o.part = s.part AND o.seller = s.seller WHERE s.part = 7');
-- not all columns of the key, or with those of two tables
SELECT * FROM uq.expected('SELECT FROM uq.sold s JOIN uq.offers o ON o.part = s.part');
SELECT * FROM uq.expected('SELECT FROM uq.parts a CROSS JOIN uq.parts b JOIN uq.offers o ON o.part = a.part AND o.seller = b.part');
-- itself
SELECT * FROM uq.expected('SELECT FROM uq.offers a JOIN uq.offers b ON a.part = b.part AND a.seller = b.seller');

-- Nodes that join few rows of a table, which move, are told of all values that it has: a tenth of the orders have a tenth of the items.
SELECT DISTINCT answer FROM rdma.run_on('uq', 'CREATE SCHEMA IF NOT EXISTS uq');
SELECT DISTINCT answer FROM rdma.run_on('uq', 'CREATE TABLE uq.orders (id int, customer int)');
SELECT DISTINCT answer FROM rdma.run_on('uq', 'CREATE TABLE uq.items (order_id int, item int)');
CREATE FOREIGN TABLE uq.orders (id int, customer int) SERVER uq OPTIONS (distributed_by 'customer');
CREATE FOREIGN TABLE uq.items (order_id int, item int) SERVER uq OPTIONS (distributed_by 'item');
INSERT INTO uq.orders SELECT i, i % 100 FROM generate_series(1, 10000) i;
INSERT INTO uq.items SELECT i / 2, i FROM generate_series(2, 20001) i;
SELECT DISTINCT answer FROM rdma.run_on('uq', 'ANALYZE uq.orders, uq.items');
ANALYZE uq.orders, uq.items;
SET rdma_fdw.exchange_strategy = repartition_both;
EXPLAIN (VERBOSE, COSTS OFF) SELECT count(*) FROM uq.orders JOIN uq.items ON order_id = id WHERE customer < 10;
SELECT count(*) FROM uq.orders JOIN uq.items ON order_id = id WHERE customer < 10;
-- of half of the orders it is as many as are left
EXPLAIN (VERBOSE, COSTS OFF) SELECT count(*) FROM uq.orders JOIN uq.items ON order_id = id WHERE customer < 50;

SET client_min_messages = warning;
SELECT rdma.run_on('uq', 'DROP SCHEMA IF EXISTS uq CASCADE') IS NOT NULL;
SET rdma_fdw.propagate_ddl = off;
DROP SCHEMA uq CASCADE;
DROP SERVER uq, uq1, uq2 CASCADE;
