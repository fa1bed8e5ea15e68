-- rdma.tables and rdma.table_sizes: tables of servers with nodes, how they lie, and how large they are there.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name tbl
\i :two_nodes
RESET client_min_messages;
\set VERBOSITY terse

CREATE TABLE "Orders" AS SELECT i AS id, 'o' || i AS name FROM generate_series(1, 10000) i;
CREATE TABLE copies AS SELECT i AS id FROM generate_series(1, 100) i;
CREATE TABLE strewn (id int);
SELECT rdma.distribute_table('"Orders"', 'tbl', 'id'), rdma.distribute_table('copies', 'tbl', replicated => true), rdma.distribute_table('strewn', 'tbl');
CREATE FOREIGN TABLE other_name (id int) SERVER tbl OPTIONS (schema_name 'tbl', table_name 'copies');
CREATE FOREIGN TABLE ordinary (id int) SERVER tbl1 OPTIONS (schema_name 'tbl', table_name 'copies');
CREATE VIEW mine AS SELECT * FROM rdma.tables WHERE server IN ('tbl', 'tbl_away') ORDER BY relation::text COLLATE "C";
SELECT * FROM mine;
SELECT node, buckets, rows BETWEEN 4500 AND 5500 AS rows, bytes > 100000 AS bytes, skew BETWEEN 0.9 AND 1.1 AS even FROM rdma.table_sizes('"Orders"');
SELECT node, buckets, rows, bytes > 0 AS bytes, skew FROM rdma.table_sizes('copies');
SELECT node, buckets, rows, bytes, skew FROM rdma.table_sizes('strewn');
SELECT node, buckets, rows, bytes > 0 AS bytes, skew FROM rdma.table_sizes('ordinary');
SELECT * FROM rdma.table_sizes('pg_class');

-- all rows of one node; a partitioned table there; one that was never analyzed
SELECT node FROM rdma.run_on('tbl2', 'DELETE FROM tbl."Orders"');
SELECT node, count(answer) FROM rdma.run_on('tbl2', 'ANALYZE tbl."Orders"') GROUP BY 1;
SELECT node, rows BETWEEN 4500 AND 5500 AS rows, skew FROM rdma.table_sizes('"Orders"');
SELECT count(*) FROM rdma.run_on('tbl', 'CREATE TABLE tbl.parts (id int) PARTITION BY LIST (id)');
SELECT count(*) FROM rdma.run_on('tbl', 'CREATE TABLE tbl.part1 PARTITION OF tbl.parts FOR VALUES IN (1)');
SELECT count(*) FROM rdma.run_on('tbl', 'CREATE TABLE tbl.part2 PARTITION OF tbl.parts DEFAULT');
CREATE FOREIGN TABLE parts (id int) SERVER tbl;
SELECT node, buckets, rows, bytes, skew FROM rdma.table_sizes('parts');
INSERT INTO parts VALUES (1), (2), (3), (1);
SELECT node, bytes > 0 AS bytes FROM rdma.table_sizes('parts');
SELECT count(*) FROM rdma.run_on('tbl', 'ANALYZE tbl.parts');
SELECT sum(rows), sum(skew) FROM rdma.table_sizes('parts');

-- the view asks nobody: it works while a node is away
CREATE SERVER tbl_gone FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port '1', dbname 'x');
CREATE USER MAPPING FOR CURRENT_USER SERVER tbl_gone;
CREATE SERVER tbl_away FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'tbl_gone, tbl1');
CREATE FOREIGN TABLE away (id int) SERVER tbl_away OPTIONS (distributed_by 'nothing');
SELECT * FROM mine WHERE server = 'tbl_away';
-- nor does it read what is not the caller's
CREATE ROLE regress_rdma_tables;
GRANT USAGE ON SCHEMA tbl TO regress_rdma_tables;
SET ROLE regress_rdma_tables;
SELECT count(*) FROM rdma.tables WHERE server = 'tbl';
SELECT * FROM rdma.table_sizes('tbl.copies');
RESET ROLE;

SET client_min_messages = warning;
DROP SERVER tbl1, tbl2, tbl, tbl_gone, tbl_away CASCADE;
DROP SCHEMA tbl CASCADE;
DROP ROLE regress_rdma_tables;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA tbl CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA tbl CASCADE;
