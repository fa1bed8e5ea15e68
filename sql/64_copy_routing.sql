-- COPY into foreign tables, and rows routed to foreign partitions.
\set ECHO none
\getenv tree PG_ABS_SRCDIR
\set loopback :tree '/test/setup/loopback.sql'
\set name copy
\i :loopback
\set ECHO all

CREATE TABLE copy_remote.t (a int, b text, c numeric);
CREATE FOREIGN TABLE t (a int, b text, c numeric) SERVER copy_srv OPTIONS (schema_name 'copy_remote');
COPY t FROM stdin;
1	one	1.5
2	\N	\N
3	three\twith tab	NaN
\.
COPY t (b, a) FROM stdin (FORMAT csv, HEADER);
b,a
"quoted, text",4
\.
SELECT * FROM copy_remote.t ORDER BY a;
COPY (SELECT a, b FROM t ORDER BY a) TO stdout;
COPY t FROM stdin WHERE a > 5;
5	no	0
6	yes	0
\.
COPY t FROM stdin;
7	bad	number
\.
ALTER TABLE copy_remote.t ADD CHECK (a <> 9);
COPY t FROM stdin;
8	good	0
9	refused	0
\.
SELECT a FROM t ORDER BY a;
-- many rows, by a file of this server's
CREATE TABLE l (a int, b text, c numeric);
INSERT INTO l SELECT g, repeat('b', g % 40), g / 7.0 FROM generate_series(10, 50000) g;
SELECT current_setting('data_directory') || '/copy_test.data' AS file \gset
COPY l TO :'file';
TRUNCATE t;
COPY t FROM :'file';
SELECT same('t', 'l');
COPY (SELECT 1) TO PROGRAM 'cat > /dev/null; rm -f copy_test.data';

-- triggers here
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_LEVEL = 'STATEMENT' THEN RAISE NOTICE '% % sees % rows', TG_WHEN, TG_LEVEL, (SELECT count(*) FROM t); RETURN NULL; END IF;
  RAISE NOTICE '% % %', TG_WHEN, TG_LEVEL, NEW.a;
  IF TG_WHEN = 'BEFORE' AND NEW.a = 2 THEN RETURN NULL; END IF;
  RETURN NEW;
END $$;
TRUNCATE t;
CREATE TRIGGER s AFTER INSERT ON t FOR EACH STATEMENT EXECUTE FUNCTION note();
INSERT INTO t VALUES (1, 'x'), (2, 'y');
CREATE TRIGGER b BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER a AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION note();
COPY t FROM stdin;
1	one	1
2	two	2
3	three	3
\.
SELECT a, b FROM copy_remote.t ORDER BY a, b;

-- partitions: two foreign, one here
CREATE TABLE copy_remote.p1 (k int NOT NULL, t text);
CREATE TABLE copy_remote.p2 (t text, k int NOT NULL);
CREATE TABLE p (k int, t text) PARTITION BY RANGE (k);
CREATE FOREIGN TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (100000) SERVER copy_srv OPTIONS (schema_name 'copy_remote');
CREATE FOREIGN TABLE p2 (t text, k int) SERVER copy_srv OPTIONS (schema_name 'copy_remote');
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (100000) TO (200000);
CREATE TABLE p3 PARTITION OF p FOR VALUES FROM (200000) TO (300000);
CREATE TABLE source AS SELECT ((g * 104729::bigint) % 300000)::int AS k, repeat('t', g % 30) AS t FROM generate_series(1, 30000) g;
INSERT INTO p SELECT * FROM source;
SELECT same('p', 'source'), (SELECT count(*) FROM copy_remote.p1) AS p1, (SELECT count(*) FROM copy_remote.p2) AS p2, (SELECT count(*) FROM p3) AS p3;
COPY p FROM stdin;
1	one
100001	two
200001	three
2	four
\.
COPY p FROM stdin;
300001	nowhere
\.
SELECT tableoid::regclass, k, t FROM p WHERE k IN (1, 100001, 200001, 2) AND t ~ 'o|h' ORDER BY k;
INSERT INTO p VALUES (3, 'returned'), (100003, 'returned') RETURNING tableoid::regclass, *;
INSERT INTO p1 VALUES (150000, 'wrong partition');
WITH i AS (INSERT INTO p SELECT g, 'cte' FROM generate_series(4, 200004, 100000) g RETURNING k) SELECT count(*), sum(k) FROM i;
-- a row moves: from here to there, from there to here, from there to there
UPDATE p SET k = 5, t = 'moved' WHERE k = 200004 AND t = 'cte' RETURNING tableoid::regclass, *;
UPDATE p SET k = 200005, t = 'moved' WHERE k = 200001 AND t = 'three';
UPDATE p SET k = 200006 WHERE k = 4 AND t = 'cte';
UPDATE p2 SET k = 6 WHERE k = 100003;
SELECT tableoid::regclass, * FROM p WHERE t = 'moved' OR k IN (4, 200006) AND t = 'cte' ORDER BY k + 0;
-- with two sources in one transaction
BEGIN;
INSERT INTO p SELECT k + 1, 'again' FROM p WHERE k < 100 OR k > 199900;
SELECT count(*) FROM p WHERE t = 'again';
ROLLBACK;
SELECT count(*) FROM p WHERE t = 'again';

SET client_min_messages = warning;
DROP SERVER copy_srv CASCADE;
DROP SCHEMA copy_here CASCADE;
DROP SCHEMA copy_remote CASCADE;
