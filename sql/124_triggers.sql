-- Triggers of distributed tables: row triggers travel to the nodes and run there, statement triggers run here.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name trg
\set third regress_trg_third
\i :two_nodes
RESET client_min_messages;
\set SHOW_CONTEXT never
\pset format unaligned
\t on
CREATE FUNCTION there(command text) RETURNS SETOF text LANGUAGE sql AS $$ SELECT DISTINCT answer FROM rdma.run_on('trg', command) ORDER BY 1 $$;
CREATE FUNCTION triggers(tab text) RETURNS SETOF text LANGUAGE sql AS $$ SELECT there(format(
  'SELECT string_agg(pg_get_triggerdef(oid) || '' '' || tgenabled::text, E''\n'' ORDER BY tgname) FROM pg_trigger WHERE tgrelid = %L::regclass AND NOT tgisinternal', tab)) $$;
CREATE FUNCTION mark() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.note := concat(TG_OP, ' ', TG_ARGV[0], ' ', NEW.note); RETURN NEW; END $$;
CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN CASE WHEN NEW.a < 0 THEN NULL ELSE NEW END; END $$;
CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE '% % here', TG_OP, TG_LEVEL; RETURN NULL; END $$;
CREATE FUNCTION elsewhere() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.id := NEW.id + 1; RETURN NEW; END $$;
CREATE TABLE t (id int PRIMARY KEY, a int, note text);
INSERT INTO t SELECT i, i FROM generate_series(1, 20) i;
CREATE TRIGGER mark BEFORE INSERT OR UPDATE OF a ON t FOR EACH ROW WHEN (NEW.a < 1000) EXECUTE FUNCTION mark('it''s');
CREATE TRIGGER skip BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION skip();
CREATE TRIGGER tell AFTER INSERT ON t FOR EACH STATEMENT EXECUTE FUNCTION tell();
CREATE TRIGGER off BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION elsewhere();
ALTER TABLE t DISABLE TRIGGER off;
SELECT rdma.distribute_table('t', 'trg', 'id');
SELECT triggers('trg.t');
SELECT tgname FROM pg_trigger WHERE tgrelid = 't'::regclass;
SELECT count(*), count(note) FROM t;
-- what is written, and how many rows
\set QUIET off
INSERT INTO t VALUES (101, 1), (102, -1), (103, 2000), (104, 4);
UPDATE t SET a = a + 1 WHERE id > 100;
UPDATE t SET note = 'x' WHERE id = 104;
UPDATE t SET a = -5 WHERE id IN (101, 104);
\set QUIET on
INSERT INTO t VALUES (105, 5) RETURNING *;
UPDATE t SET a = 6 WHERE id = 105 RETURNING *;
INSERT INTO t VALUES (105, 7) ON CONFLICT (id) DO UPDATE SET a = EXCLUDED.a RETURNING *;
COPY t FROM STDIN;
106	-1	\N
107	3	copied
\.
SELECT * FROM t WHERE id > 100 ORDER BY id;
-- a key that changes is a deletion and an insertion
UPDATE t SET id = id + 1000 WHERE id = 107;
SELECT * FROM t WHERE id > 1000;
-- later ones
CREATE TRIGGER "Late one" AFTER DELETE ON t FOR EACH ROW WHEN (OLD.id > 5) EXECUTE FUNCTION tell();
CREATE OR REPLACE TRIGGER skip BEFORE UPDATE ON trg.t FOR EACH ROW EXECUTE FUNCTION skip();
CREATE CONSTRAINT TRIGGER late AFTER UPDATE ON t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION tell();
ALTER TRIGGER "Late one" ON t RENAME TO later;
ALTER TABLE t ENABLE TRIGGER off, DISABLE TRIGGER mark;
ALTER TABLE t ENABLE ALWAYS TRIGGER skip;
SELECT triggers('trg.t');
-- no row goes where it does not belong
\set VERBOSITY terse
INSERT INTO t SELECT generate_series(301, 320);
\set VERBOSITY default
DROP TRIGGER off ON t;
DROP TRIGGER IF EXISTS off ON t;
DROP TRIGGER off ON t;
ALTER TRIGGER tell ON t RENAME TO tells;
ALTER TABLE t DISABLE TRIGGER USER;
ALTER TABLE t DISABLE TRIGGER tells, DISABLE TRIGGER later;
DROP TRIGGER tells ON t;
ALTER TABLE t DISABLE TRIGGER USER;
ALTER TABLE t ADD COLUMN s serial;
SELECT count(DISTINCT s), triggers('trg.t') FROM t;
ALTER TABLE t ENABLE TRIGGER USER;
\set VERBOSITY terse
ALTER TABLE t ADD COLUMN s2 serial;
\set VERBOSITY default
BEGIN;
DROP TRIGGER mark ON t;
ROLLBACK;
-- what core refuses is refused here
CREATE TRIGGER mark BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION mark();
CREATE TRIGGER bad BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION nothing();
CREATE TRIGGER bad BEFORE INSERT ON t FOR EACH ROW WHEN (OLD.a > 5) EXECUTE FUNCTION mark();
CREATE TRIGGER bad AFTER INSERT ON t REFERENCING NEW TABLE AS n FOR EACH ROW EXECUTE FUNCTION mark();
CREATE TRIGGER bad AFTER INSERT ON t REFERENCING NEW TABLE AS n FOR EACH STATEMENT EXECUTE FUNCTION mark();
-- nodes come, rows move, tables come back
SELECT rdma.undistribute_table('t');
SELECT rdma.alter_distribution('t', 'a', force => true);
\set VERBOSITY terse
SELECT rdma.add_node('trg', 'trg 3');
DROP TRIGGER mark ON t;
DROP TRIGGER later ON t;
SELECT rdma.add_node('trg', 'trg 3');
CALL rdma.rebalance('trg', 10000, rest => 0);
\set VERBOSITY default
SELECT count(*), count(DISTINCT id), triggers('trg.t') FROM t;
UPDATE t SET a = -1 WHERE id < 50;
DROP TRIGGER late ON t;
DROP TRIGGER skip ON t;
SELECT triggers('trg.t');
SELECT rdma.undistribute_table('t');
-- replicated tables compute once, here
CREATE TABLE r (id int PRIMARY KEY, note text);
CREATE FUNCTION number() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.note := random()::text; RETURN NEW; END $$;
CREATE TRIGGER number BEFORE INSERT OR UPDATE ON r FOR EACH ROW EXECUTE FUNCTION number();
INSERT INTO r VALUES (1), (2);
SELECT rdma.distribute_table('r', 'trg', replicated => true);
INSERT INTO r VALUES (3), (4);
UPDATE r SET id = id + 10 WHERE id = 4;
CREATE TRIGGER more BEFORE INSERT ON r FOR EACH ROW EXECUTE FUNCTION number();
SELECT count(*) FROM there('SELECT string_agg(note, '','' ORDER BY id) FROM trg.r');
SELECT string_agg(tgname, ' ' ORDER BY tgname), triggers('trg.r') FROM pg_trigger WHERE tgrelid = 'r'::regclass;
-- partitions; what cannot be kept
CREATE TABLE p (id int, d int, note text) PARTITION BY LIST (d);
CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2);
CREATE TRIGGER of_all BEFORE INSERT ON p FOR EACH ROW EXECUTE FUNCTION mark('all');
CREATE TRIGGER of_one BEFORE INSERT ON p1 FOR EACH ROW EXECUTE FUNCTION mark('one');
SELECT rdma.distribute_table('p', 'trg', 'id');
INSERT INTO p VALUES (1, 1), (2, 2);
SELECT * FROM p ORDER BY id;
CREATE TABLE q (id int);
CREATE TRIGGER seen AFTER INSERT ON q REFERENCING NEW TABLE AS n FOR EACH STATEMENT EXECUTE FUNCTION tell();
SELECT rdma.distribute_table('q', 'trg', 'id');
-- functions of other roles do not travel; only the owner may
CREATE ROLE regress_trg;
GRANT ALL ON SCHEMA trg TO regress_trg;
SET ROLE regress_trg;
CREATE FUNCTION theirs() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TABLE others (id int);
CREATE TRIGGER theirs BEFORE INSERT ON others FOR EACH ROW EXECUTE FUNCTION theirs();
CREATE TRIGGER theirs BEFORE INSERT ON p FOR EACH ROW EXECUTE FUNCTION theirs();
DROP TRIGGER of_all ON p;
RESET ROLE;
SELECT rdma.distribute_table('others', 'trg', 'id');
CREATE TRIGGER theirs BEFORE INSERT ON p FOR EACH ROW EXECUTE FUNCTION theirs();
-- row security is refused with the reason; to take it away changes nothing
CREATE POLICY mine ON p USING (note = current_user);
ALTER TABLE p ADD COLUMN x int, ENABLE ROW LEVEL SECURITY;
\set VERBOSITY terse
ALTER TABLE p FORCE ROW LEVEL SECURITY;
SET ROLE regress_trg;
CREATE POLICY mine ON p USING (true);
RESET ROLE;
\set VERBOSITY default

SET client_min_messages = warning;
DROP SERVER trg1, trg2, "trg 3", trg CASCADE;
DROP SCHEMA trg CASCADE;
DROP ROLE regress_trg;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA trg CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA trg CASCADE;
DROP DATABASE regress_trg_third;
