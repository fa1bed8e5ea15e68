-- Window functions over rows that have moved and, in the same statement, other relations: every column bears its relation's name.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
\getenv n1 RF_N1_PORT
\getenv n2 RF_N2_PORT
\getenv coord RF_COORD_PORT
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
CREATE SERVER nw1 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port :'n1', dbname 'contrib_regression');
CREATE SERVER nw2 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port :'n2', dbname 'contrib_regression');
CREATE SERVER nw_here FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port :'coord', dbname 'contrib_regression');
CREATE USER MAPPING FOR CURRENT_USER SERVER nw1 OPTIONS (user 'postgres');
CREATE USER MAPPING FOR CURRENT_USER SERVER nw2 OPTIONS (user 'postgres');
CREATE USER MAPPING FOR CURRENT_USER SERVER nw_here OPTIONS (user 'postgres');
CREATE SERVER nw FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'nw1, nw2', compute_nodes 'nw_here');
CREATE SCHEMA nw_copy;
CREATE TABLE nw_copy.x AS SELECT i % 14 AS a, i % 9 AS b FROM generate_series(1, 40) i;
CREATE TABLE nw_copy.y AS SELECT i % 12 AS a, i % 9 AS b FROM generate_series(1, 25) i;
CREATE SCHEMA nw;
CREATE TABLE nw.x AS TABLE nw_copy.x;
CREATE TABLE nw.y AS TABLE nw_copy.y;
SELECT rdma.distribute_table('nw.x', 'nw', 'b'), rdma.distribute_table('nw.y', 'nw');
ANALYZE nw_copy.x, nw_copy.y, nw.x, nw.y;
SET rdma_fdw.disable = decorrelation_costs, compute_node_costs;
SET rdma_fdw.exchange_strategy = replicate;
\set windows 'SELECT x.b, rank() OVER (ORDER BY x.a), sum(x.b) OVER (PARTITION BY coalesce(x.a, 1)) FROM x WHERE x.a > 8 AND (x.b IS NOT NULL OR (SELECT count(*) FROM y WHERE y.a = x.b) > 1)'
SET search_path = nw;
CREATE TABLE nw_copy.got AS :windows;
SET search_path = nw_copy;
CREATE TABLE nw_copy.expected AS :windows;
SELECT count(*) FROM expected;
(TABLE expected EXCEPT ALL TABLE got) UNION ALL (TABLE got EXCEPT ALL TABLE expected);
RESET search_path;
SELECT rdma.run_on('nw1', 'DROP SCHEMA nw CASCADE') IS NOT NULL, rdma.run_on('nw2', 'DROP SCHEMA nw CASCADE') IS NOT NULL;
DROP SCHEMA nw, nw_copy CASCADE;
DROP SERVER nw CASCADE;
DROP SERVER nw1 CASCADE;
DROP SERVER nw2 CASCADE;
DROP SERVER nw_here CASCADE;
