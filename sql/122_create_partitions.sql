-- CREATE TABLE ... PARTITION OF a distributed table, and DROP TABLE of its partitions.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name cpt
\i :two_nodes
RESET client_min_messages;
\set SHOW_CONTEXT never
\pset format unaligned
\t on
CREATE FUNCTION there() RETURNS SETOF text LANGUAGE sql AS $$ SELECT DISTINCT answer FROM rdma.run_on('cpt',
  'SELECT string_agg(concat_ws('' '', oid::regclass, pg_get_expr(relpartbound, oid)), E''\n'' ORDER BY relname) FROM pg_class WHERE relispartition AND relkind = ''r'' AND relnamespace = ''cpt''::regnamespace') ORDER BY 1 $$;
CREATE TABLE events (device int, day date, value float8) PARTITION BY RANGE (day);
CREATE TABLE y2026 PARTITION OF events FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
CREATE TABLE kinds (id int, kind text, flag bool) PARTITION BY LIST (kind);
CREATE TABLE hashed (id int) PARTITION BY HASH (id);
SELECT rdma.distribute_table(t, 'cpt', k) FROM (VALUES ('events'::regclass, 'device'), ('kinds', 'id'), ('hashed', 'id')) v(t, k);
SET datestyle = 'SQL, DMY';
CREATE TABLE y2027 PARTITION OF events FOR VALUES FROM (date '01/01/2027') TO ('31/12/2027'::date);
SET datestyle = ISO;
CREATE TABLE IF NOT EXISTS "Y 2028" PARTITION OF events FOR VALUES FROM ('2028-01-01') TO (MAXVALUE);
CREATE TABLE IF NOT EXISTS "Y 2028" PARTITION OF events FOR VALUES FROM ('2028-01-01') TO (MAXVALUE);
CREATE TABLE older PARTITION OF events DEFAULT;
CREATE TABLE k1 PARTITION OF kinds FOR VALUES IN ('a', 'it''s', NULL);
CREATE TABLE h0 PARTITION OF hashed FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE h1 PARTITION OF hashed FOR VALUES WITH (MODULUS 2, REMAINDER 1);
SELECT there();
INSERT INTO events SELECT i, date '2025-12-01' + i * 20, i FROM generate_series(1, 100) i;
INSERT INTO hashed SELECT generate_series(1, 10);
SELECT sum(answer::int) FROM rdma.run_on('cpt', 'SELECT count(*) FROM cpt.y2027');
SELECT sum(misplaced), sum(rows) FROM rdma.check_distribution('events');
-- what is not done
CREATE TABLE y2026 PARTITION OF events FOR VALUES FROM ('2020-01-01') TO ('2021-01-01');
CREATE TABLE y2027b PARTITION OF events FOR VALUES FROM ('2027-02-01') TO ('2027-03-01');
CREATE TABLE y PARTITION OF events FOR VALUES FROM (now()) TO (MAXVALUE);
CREATE TABLE y PARTITION OF events (value DEFAULT 5) FOR VALUES FROM ('2020-01-01') TO ('2021-01-01');
CREATE TABLE y PARTITION OF events FOR VALUES FROM ('2020-01-01') TO ('2021-01-01') PARTITION BY LIST (device);
CREATE TABLE y PARTITION OF events FOR VALUES FROM (device) TO ('2021-01-01');
CREATE TABLE public.y PARTITION OF events FOR VALUES FROM ('2020-01-01') TO ('2021-01-01');
-- in the caller's transaction
BEGIN;
DROP TABLE y2027, k1;
ROLLBACK;
DROP TABLE y2027, "Y 2028";
DROP TABLE nothing;
DROP TABLE IF EXISTS nothing, k1;
SELECT there();
-- ATTACH and DETACH: the table that is no partition has a foreign table here
\set VERBOSITY terse
ALTER TABLE events DETACH PARTITION y2026;
SELECT there();
SELECT count(*), sum(misplaced) FROM y2026, rdma.check_distribution('y2026') GROUP BY ();
SELECT count(*) FROM events;
INSERT INTO y2026 VALUES (2000, '2026-05-05', 1);
UPDATE y2026 SET value = 2 WHERE device = 2000;
ALTER TABLE events DETACH PARTITION y2026;
ALTER TABLE events DETACH PARTITION nothing;
ALTER TABLE events ATTACH PARTITION y2026 FOR VALUES FROM ('2027-01-01') TO ('2028-01-01');
SET datestyle = 'SQL, DMY';
ALTER TABLE events ATTACH PARTITION y2026 FOR VALUES FROM ('01/01/2026') TO ('01/01/2027');
SET datestyle = ISO;
SELECT there(), to_regclass('y2026');
SELECT value FROM events WHERE device = 2000;
BEGIN;
ALTER TABLE events DETACH PARTITION y2026;
ROLLBACK;
SELECT to_regclass('y2026');
CREATE TABLE loaded (device int, day date, value float8);
INSERT INTO loaded VALUES (1, '2040-01-01', 1), (2, '2041-01-01', 2);
\set VERBOSITY default
ALTER TABLE events ATTACH PARTITION loaded FOR VALUES FROM ('2040-01-01') TO ('2050-01-01');
SELECT rdma.distribute_table('loaded', 'cpt', 'day');
ALTER TABLE events ATTACH PARTITION loaded FOR VALUES FROM ('2040-01-01') TO ('2050-01-01');
SELECT rdma.alter_distribution('loaded', 'device');
ALTER TABLE events ATTACH PARTITION loaded FOR VALUES FROM ('2040-01-01') TO ('2050-01-01');
ALTER TABLE events DETACH PARTITION older CONCURRENTLY;
SELECT sum(value) FROM events WHERE day > '2040-01-01'::date - 1;
SELECT sum(misplaced) FROM rdma.check_distribution('events');
CREATE ROLE regress_cpt;
GRANT ALL ON SCHEMA cpt TO regress_cpt;
SET ROLE regress_cpt;
CREATE TABLE y PARTITION OF events FOR VALUES FROM ('2020-01-01') TO ('2021-01-01');
DROP TABLE h0;
RESET ROLE;

SET client_min_messages = warning;
DROP SERVER cpt1, cpt2, cpt CASCADE;
DROP SCHEMA cpt CASCADE;
DROP ROLE regress_cpt;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA cpt CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA cpt CASCADE;
