-- SERIALIZABLE is for one node, or for local tables: anything else is refused, or has snapshot isolation if the user says so.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
RESET client_min_messages;

DO $$ BEGIN
  EXECUTE format('CREATE SERVER ser1 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host ''127.0.0.1'', port %L, dbname %L)', current_setting('port'), current_database());
  EXECUTE format('CREATE SERVER ser2 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host ''127.0.0.1'', port %L, dbname %L)', current_setting('port'), current_database());
END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER ser1 OPTIONS (user :'USER');
CREATE USER MAPPING FOR CURRENT_USER SERVER ser2 OPTIONS (user :'USER');
CREATE SERVER ser_both FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'ser1, ser2');
CREATE SCHEMA ser_remote;
CREATE SCHEMA ser_here;
SET search_path = ser_here;
CREATE TABLE ser_remote.t (k int, v int);
INSERT INTO ser_remote.t VALUES (1, 1), (2, 2);
CREATE FOREIGN TABLE t1 (k int, v int) SERVER ser1 OPTIONS (schema_name 'ser_remote', table_name 't');
CREATE FOREIGN TABLE t2 (k int, v int) SERVER ser2 OPTIONS (schema_name 'ser_remote', table_name 't');
CREATE FOREIGN TABLE both_nodes (k int, v int) SERVER ser_both OPTIONS (schema_name 'ser_remote', table_name 't');
CREATE TABLE here (k int);
CREATE TABLE parent (k int, v int) PARTITION BY LIST (k);
CREATE FOREIGN TABLE parent1 PARTITION OF parent FOR VALUES IN (1) SERVER ser1 OPTIONS (schema_name 'ser_remote', table_name 't');

-- one node
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*) FROM t1;
UPDATE t1 SET v = v + 1;
SELECT count(*) FROM parent;
CREATE TEMP TABLE mine (k int);
INSERT INTO mine SELECT k FROM t1;
COMMIT;

-- two
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*) FROM t1;
SELECT count(*) FROM t2;
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY;
SELECT count(*) FROM both_nodes;
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
INSERT INTO t2 VALUES (3, 3);
SAVEPOINT s;
UPDATE t1 SET v = 0;
ROLLBACK TO s;
INSERT INTO t1 SELECT g, g FROM generate_series(1, 3000) g;
ROLLBACK TO s;
SELECT count(*) FROM t2;
COMMIT;

-- a node and local tables, in either order, read or written
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*) FROM here;
SELECT count(*) FROM t1;
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*) FROM t1;
INSERT INTO here VALUES (1);
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE;
SELECT count(*) FROM t1;
COPY here TO STDOUT;
COMMIT;
SELECT count(*) FROM here;

-- who accepts it; other levels
SET rdma_fdw.allow_snapshot_isolation = on;
BEGIN ISOLATION LEVEL SERIALIZABLE;
INSERT INTO here SELECT k FROM t1;
UPDATE t2 SET v = 0 WHERE k = 1;
SELECT count(*) FROM both_nodes WHERE v > 0;
COMMIT;
RESET rdma_fdw.allow_snapshot_isolation;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT (SELECT count(*) FROM here), (SELECT count(*) FROM t1), (SELECT count(*) FROM t2);
COMMIT;

SET client_min_messages = warning;
DROP SERVER ser1 CASCADE;
DROP SERVER ser2 CASCADE;
DROP SERVER ser_both CASCADE;
DROP SCHEMA ser_here CASCADE;
DROP SCHEMA ser_remote CASCADE;
