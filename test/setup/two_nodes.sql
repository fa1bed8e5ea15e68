\set ECHO none
-- two_nodes.sql: what an input of the SQL suite begins with when it needs a server with nodes.
--
--   \getenv tree PG_ABS_SRCDIR
--   \set two_nodes :tree '/test/setup/two_nodes.sql'
--   \set name tbl
--   \i :two_nodes
--
-- The extension is in all three databases, servers tbl1 and tbl2 are the two data nodes and tbl is both of them, and the
-- session is connected to the coordinator over TCP, with schema tbl, which is new and empty, as its search_path. Also set before:
--   schema   the schema's name, if it is not the server's
--   third    a database to create on the second data node as a third node: server "tbl 3", which is not a node of tbl
-- Left behind: n1, n2 and coord, the clusters' ports; client_min_messages is warning.
\getenv n1 RF_N1_PORT
\getenv n2 RF_N2_PORT
\getenv coord RF_COORD_PORT
\if :{?schema}
\else
	\set schema :name
\endif
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
\if :{?third}
	CREATE DATABASE :"third" TEMPLATE template0;
	\c :third postgres 127.0.0.1 :n2
	SET client_min_messages = warning;
	CREATE EXTENSION rdma_fdw;
\endif
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
CREATE SCHEMA :"schema";
SET search_path = :"schema";
\set first_node :name 1
\set second_node :name 2
\set both_nodes :first_node ', ' :second_node
CREATE SERVER :"first_node" FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port :'n1', dbname 'contrib_regression');
CREATE SERVER :"second_node" FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port :'n2', dbname 'contrib_regression');
CREATE USER MAPPING FOR CURRENT_USER SERVER :"first_node" OPTIONS (user 'postgres');
CREATE USER MAPPING FOR CURRENT_USER SERVER :"second_node" OPTIONS (user 'postgres');
CREATE SERVER :"name" FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes :'both_nodes');
\if :{?third}
	\set third_node :name ' 3'
	CREATE SERVER :"third_node" FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port :'n2', dbname :'third');
	CREATE USER MAPPING FOR CURRENT_USER SERVER :"third_node" OPTIONS (user 'postgres');
\endif
\set ECHO all
