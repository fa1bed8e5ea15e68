-- COPY FROM into foreign tables: how many rows were written, and the line that an error is about, though rows travel in batches.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
RESET client_min_messages;

DO $$ BEGIN EXECUTE format(
  'CREATE SERVER line_srv FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host ''127.0.0.1'', port %L, dbname %L)',
  current_setting('port'), current_database()); END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER line_srv OPTIONS (user :'USER');
CREATE SCHEMA line_remote;
CREATE SCHEMA line;
SET search_path = line, public;
CREATE TABLE line_remote.t (a int CHECK (a <> 13), b text);
CREATE TABLE line_remote.u (a int PRIMARY KEY, b text);
IMPORT FOREIGN SCHEMA line_remote FROM SERVER line_srv INTO line;

-- a remote trigger drops rows
CREATE FUNCTION line_remote.odd() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN IF NEW.a % 2 = 0 THEN RETURN NULL; END IF; IF NEW.a = 99 THEN RAISE EXCEPTION 'not 99'; END IF; RETURN NEW; END $$;
CREATE TRIGGER o BEFORE INSERT ON line_remote.t FOR EACH ROW EXECUTE FUNCTION line_remote.odd();
\set QUIET off
COPY t FROM stdin;
1	one
2	two
3	three
4	four
5	five
\.
COPY t FROM stdin WHERE a > 1;
1	one
2	two
3	three
\.
INSERT INTO t SELECT i, 'i' FROM generate_series(1, 5) i;
\set QUIET on
DO $$ DECLARE n bigint; BEGIN
  EXECUTE format('COPY t FROM PROGRAM %L', 'seq 101 2 9999 | sed "s/$/\tprogram/"; seq 102 2 10000 | sed "s/$/\tprogram/"');
  GET DIAGNOSTICS n = ROW_COUNT;
  RAISE NOTICE '% rows', n;
END $$;
SELECT count(*), count(*) FILTER (WHERE a % 2 = 0) AS even FROM t;

-- errors: of the first, a middle and the last row, per row and by many rows at a time
COPY t FROM stdin;
13	refused
15	not reached
\.
COPY t FROM stdin (FORMAT csv, HEADER);
a,b
1,"in
three
lines"
99,raised
2,not reached
\.
COPY u FROM stdin;
1	one
2	two
1	again
3	three
\.
COPY u FROM stdin;
11	one
12	two
12	last
\.
COPY u FROM stdin WHERE b <> 'left out';
21	one
22	left out
23	left out
21	again
\.
DO $$ DECLARE context text; BEGIN
  EXECUTE format('COPY u FROM PROGRAM %L', 'seq 100 80000 | sed "s/$/\tprogram/"; echo "70000	again"; seq 80001 120000 | sed "s/$/\tprogram/"');
EXCEPTION WHEN unique_violation THEN
  GET STACKED DIAGNOSTICS context = PG_EXCEPTION_CONTEXT;
  RAISE NOTICE '%, %', SQLERRM, substring(context FROM 'COPY u, line \d+');
END $$;
SELECT count(*) FROM u;

-- routed to several partitions
CREATE TABLE p (a int, b text) PARTITION BY HASH (a);
CREATE FOREIGN TABLE p0 PARTITION OF p FOR VALUES WITH (MODULUS 2, REMAINDER 0) SERVER line_srv OPTIONS (schema_name 'line_remote', table_name 'u');
CREATE FOREIGN TABLE p1 PARTITION OF p FOR VALUES WITH (MODULUS 2, REMAINDER 1) SERVER line_srv OPTIONS (schema_name 'line_remote', table_name 't');
COPY p FROM stdin;
1	one
2	two
3	three
4	four
2	line five
1	line six
\.
-- in a trigger of another COPY
CREATE TABLE here (a int);
CREATE FUNCTION copy_more() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE n bigint; BEGIN
  EXECUTE format('COPY t FROM PROGRAM %L', 'printf "1\tx\n2\tx\n3\tx\n4\tx\n"');
  GET DIAGNOSTICS n = ROW_COUNT;
  RAISE NOTICE 'inner: % rows', n;
  RETURN NEW;
END $$;
CREATE TRIGGER c BEFORE INSERT ON here FOR EACH ROW EXECUTE FUNCTION copy_more();
\set QUIET off
COPY here FROM stdin;
1
2
\.
\set QUIET on

-- statements other than COPY report what each row would have reported by itself
INSERT INTO u VALUES (31, 'x'), (31, 'y');
INSERT INTO u SELECT i % 3 + 40, 'x' FROM generate_series(1, 4) i;
INSERT INTO t VALUES (99, 'raised');
UPDATE u SET a = 2 WHERE random() >= 0 AND a IN (SELECT 1);
SELECT count(*) FROM u;

SET client_min_messages = warning;
DROP SERVER line_srv CASCADE;
DROP SCHEMA line CASCADE;
DROP SCHEMA line_remote CASCADE;
