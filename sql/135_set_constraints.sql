-- SET CONSTRAINTS: deferrable keys of distributed tables are checked on the nodes, when it says so.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name stc
\i :two_nodes
\set SHOW_CONTEXT never
\set VERBOSITY terse
\pset format unaligned
\t on
CREATE TABLE parents (id int PRIMARY KEY);
CREATE TABLE children (parent int CONSTRAINT child REFERENCES parents DEFERRABLE INITIALLY DEFERRED, id int, PRIMARY KEY (parent, id));
CREATE TABLE places (parent int, place int, CONSTRAINT "One place" UNIQUE (parent, place) DEFERRABLE);
CREATE TABLE here (id int CONSTRAINT only_here PRIMARY KEY DEFERRABLE INITIALLY DEFERRED);
SELECT * FROM rdma.distribute_tables('stc', '{parents,children,places}', '{id,parent,parent}');
INSERT INTO parents SELECT generate_series(1, 20);

-- at once, at the end, and for rows that come later
BEGIN;
INSERT INTO children VALUES (21, 1);
SET CONSTRAINTS ALL IMMEDIATE;
ROLLBACK;
BEGIN;
SET CONSTRAINTS child IMMEDIATE;
INSERT INTO children VALUES (22, 1);
ROLLBACK;
BEGIN;
SET CONSTRAINTS stc.child, only_here IMMEDIATE;
INSERT INTO here VALUES (1), (1);
ROLLBACK;
-- a node that the transaction has not used before
BEGIN;
SET CONSTRAINTS ALL IMMEDIATE;
INSERT INTO children VALUES (23, 1);
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SET CONSTRAINTS ALL IMMEDIATE;
SELECT count(*) FROM parents;
INSERT INTO children VALUES (23, 2);
ROLLBACK;
-- the other way
INSERT INTO places SELECT i, i FROM generate_series(1, 20) i;
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO places SELECT i, i FROM generate_series(1, 20) i;
DELETE FROM places;
COMMIT;
BEGIN;
SET CONSTRAINTS "One place" DEFERRED;
INSERT INTO places VALUES (1, 1), (1, 1);
SET CONSTRAINTS "One place" IMMEDIATE;
ROLLBACK;
-- of a subtransaction, for nodes that it does not use
BEGIN;
SAVEPOINT s;
SET CONSTRAINTS ALL IMMEDIATE;
ROLLBACK TO s;
INSERT INTO children VALUES (24, 1);
DELETE FROM children WHERE parent = 24;
COMMIT;
BEGIN;
SAVEPOINT s;
SAVEPOINT t;
SET CONSTRAINTS ALL IMMEDIATE;
RELEASE t;
RELEASE s;
INSERT INTO children VALUES (24, 1);
ROLLBACK;
BEGIN;
SET CONSTRAINTS ALL IMMEDIATE;
SAVEPOINT s;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO children VALUES (25, 1);
DELETE FROM children WHERE parent = 25;
ROLLBACK TO s;
INSERT INTO children VALUES (25, 1);
ROLLBACK;
-- it ends with the transaction
INSERT INTO children VALUES (26, 1);
BEGIN;
INSERT INTO children VALUES (27, 1);
INSERT INTO parents VALUES (27);
COMMIT;
SELECT count(*) FROM children;

-- of a new column, as migrations say it
CREATE TABLE sellers (id int PRIMARY KEY);
SELECT rdma.distribute_table('sellers', 'stc', replicated => true);
BEGIN;
ALTER TABLE children ADD COLUMN seller int CONSTRAINT seller REFERENCES sellers DEFERRABLE INITIALLY DEFERRED; SET CONSTRAINTS seller IMMEDIATE;
ALTER TABLE children DROP CONSTRAINT seller;
COMMIT;
-- a key that waits for its other table is checked nowhere
CREATE TABLE still_here (id int CONSTRAINT later REFERENCES parents DEFERRABLE);
BEGIN;
SET CONSTRAINTS later IMMEDIATE;
COMMIT;
SET CONSTRAINTS child IMMEDIATE;
SET CONSTRAINTS children_pkey DEFERRED;
SET CONSTRAINTS nothing IMMEDIATE;
SET CONSTRAINTS other.child IMMEDIATE;

-- CREATE INDEX CONCURRENTLY where the nodes are first asked for types and functions
CREATE TYPE mood AS ENUM ('good', 'bad');
CREATE FUNCTION twice(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1 * 2';
CREATE TABLE moods (id int, mood mood);
SELECT rdma.distribute_table('moods', 'stc', 'id');
CREATE INDEX CONCURRENTLY by_mood ON moods (mood, twice(id));
SELECT DISTINCT answer FROM rdma.run_on('stc', $$SELECT pg_get_indexdef('stc.by_mood'::regclass)$$);
DROP INDEX CONCURRENTLY by_mood;

\set ECHO none
DROP TABLE children, parents, places, moods, sellers, here, still_here;
SELECT count(*) FROM rdma.run_on('stc', 'DROP SCHEMA stc CASCADE') \gset dropped
SET client_min_messages = error;
DROP SCHEMA stc CASCADE;
DROP SERVER stc, stc1, stc2 CASCADE;
