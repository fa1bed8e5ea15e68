-- Writing tables of a server that stands for many nodes: INSERT and COPY route rows, UPDATE and DELETE find them again,
-- copies of replicated tables stay the same; IMPORT FOREIGN SCHEMA and ANALYZE ask all nodes.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name nw
\i :two_nodes
\set ECHO none
\c contrib_regression postgres 127.0.0.1 :n1
CREATE SCHEMA nw;
CREATE TABLE nw.h (k int, v text, n numeric DEFAULT 7, s int GENERATED ALWAYS AS (length(v)) STORED);
CREATE TABLE nw.h2 (a text, b date, v int);
CREATE TABLE nw.r (id int PRIMARY KEY, v text);
CREATE TABLE nw.strewn (k int, v text);
CREATE TABLE nw.p (k int, v text);
CREATE TABLE nw.lost (k int, t text, v text);
CREATE TABLE nw.nk (n numeric, bytes bigint);
CREATE SCHEMA nw_differ;
CREATE TABLE nw_differ.t (a int, b text);
CREATE TABLE nw_differ.same (a int);
\c contrib_regression postgres 127.0.0.1 :n2
CREATE SCHEMA nw;
CREATE TABLE nw.h (k int, v text, n numeric DEFAULT 7, s int GENERATED ALWAYS AS (length(v)) STORED);
CREATE TABLE nw.h2 (a text, b date, v int);
CREATE TABLE nw.r (id int PRIMARY KEY, v text);
CREATE TABLE nw.strewn (k int, v text);
CREATE TABLE nw.p (k int, v text);
CREATE TABLE nw.lost (k int, t text, v text);
CREATE TABLE nw.nk (n numeric, bytes bigint);
CREATE SCHEMA nw_differ;
CREATE TABLE nw_differ.t (a int, b varchar);
CREATE TABLE nw_differ.same (a int);
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
SET search_path = nw;
CREATE SCHEMA nw1;
CREATE SCHEMA nw2;
RESET client_min_messages;

-- each node as it is, and all of them
IMPORT FOREIGN SCHEMA nw FROM SERVER nw1 INTO nw1;
IMPORT FOREIGN SCHEMA nw FROM SERVER nw2 INTO nw2;
IMPORT FOREIGN SCHEMA nw FROM SERVER nw INTO nw;
\pset format unaligned
\pset tuples_only on
\set ECHO all
IMPORT FOREIGN SCHEMA nw_differ FROM SERVER nw INTO nw;
IMPORT FOREIGN SCHEMA nw_differ EXCEPT (t) FROM SERVER nw INTO nw;
IMPORT FOREIGN SCHEMA nowhere FROM SERVER nw INTO nw;
ALTER FOREIGN TABLE h OPTIONS (ADD distributed_by 'k');
ALTER FOREIGN TABLE h2 OPTIONS (ADD distributed_by 'b, a');
ALTER FOREIGN TABLE r OPTIONS (ADD replicated 'true');

-- misplaced(): rows of a distributed table that are not where their key says
CREATE FUNCTION misplaced(tab text, keys text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE n bigint;
BEGIN
	EXECUTE format('SELECT count(*) FROM (SELECT 0 AS place, * FROM nw1.%1$I UNION ALL SELECT 1, * FROM nw2.%1$I) t
		WHERE rdma.hash_node(2, %2$s) <> place', tab, keys) INTO n;
	RETURN n;
END $$;

-- INSERT: few rows, many rows, NULL keys, RETURNING, ON CONFLICT
INSERT INTO h (k, v) VALUES (1, 'one'), (2, 'two'), (NULL, 'none'), (3, NULL);
INSERT INTO h (k, v) SELECT i, 'row ' || i FROM generate_series(4, 20000) i;
INSERT INTO h (k, v) VALUES (-1, 'back') RETURNING k, v, s;
INSERT INTO h2 SELECT 'key ' || i % 100, date '2020-01-01' + i % 77, i FROM generate_series(1, 5000) i;
INSERT INTO strewn SELECT i, 'x' FROM generate_series(1, 1000) i;
INSERT INTO r SELECT i, 'r' || i FROM generate_series(1, 3000) i;
INSERT INTO r SELECT i, 'again' FROM generate_series(2991, 3010) i ON CONFLICT DO NOTHING;
INSERT INTO r VALUES (0, 'zero') RETURNING id, v;
INSERT INTO r VALUES (0, 'zero') ON CONFLICT DO NOTHING RETURNING id, v;
INSERT INTO r VALUES (1, 'twice');
SELECT misplaced('h', 'k'), misplaced('h2', 'b, a'),
	(SELECT count(*) FROM nw1.h) > 8000 AS h1, (SELECT count(*) FROM nw2.h) > 8000 AS h2,
	(SELECT count(*) FROM nw1.h) + (SELECT count(*) FROM nw2.h) AS h,
	(SELECT count(*) FROM nw1.h2) + (SELECT count(*) FROM nw2.h2) AS h2,
	(SELECT count(*) FROM nw1.strewn) AS strewn1, (SELECT count(*) FROM nw2.strewn) AS strewn2;
SELECT count(*), sum(id) FROM nw1.r;
SELECT (SELECT array_agg(r::text ORDER BY id) FROM nw1.r) = (SELECT array_agg(r::text ORDER BY id) FROM nw2.r) AS same;

-- keys that are unpacked to be hashed take no memory beyond their row: the last row tells how much the statement has
ALTER FOREIGN TABLE nk OPTIONS (ADD distributed_by 'n');
CREATE TABLE packed AS SELECT i::numeric AS n FROM generate_series(1, 200000) i;
INSERT INTO nk SELECT n, CASE WHEN n = 200000 THEN (SELECT sum(total_bytes) FROM pg_backend_memory_contexts WHERE name = 'ExecutorState') END FROM packed;
SELECT misplaced('nk', 'n'), count(*), max(bytes) < 2000000 AS small FROM (SELECT bytes FROM nw1.nk UNION ALL SELECT bytes FROM nw2.nk) u;

-- COPY, and rows routed to it from a partitioned table
COPY h (k, v) FROM STDIN;
30001	copied
30002	copied, too
\N	nobody's
\.
CREATE TABLE parts (k int, v text) PARTITION BY RANGE (k);
CREATE TABLE parts_low PARTITION OF parts FOR VALUES FROM (MINVALUE) TO (40000);
CREATE FOREIGN TABLE parts_high PARTITION OF parts FOR VALUES FROM (40000) TO (MAXVALUE) SERVER nw OPTIONS (table_name 'p', distributed_by 'k');
INSERT INTO parts SELECT i, 'part' FROM generate_series(39001, 41000) i;
SELECT misplaced('p', 'k'), (SELECT count(*) FROM parts_low) AS low, (SELECT count(*) FROM nw1.p) + (SELECT count(*) FROM nw2.p) AS high;
SELECT misplaced('h', 'k');
SELECT k, v, s FROM (SELECT * FROM nw1.h UNION ALL SELECT * FROM nw2.h) u WHERE k > 30000 OR k IS NULL ORDER BY k, v;

-- UPDATE and DELETE by one statement per node, and row by row (a generated column sees to that)
EXPLAIN (VERBOSE, COSTS OFF) UPDATE h2 SET v = -v WHERE v % 10 = 3;
UPDATE h2 SET v = -v WHERE v % 10 = 3;
UPDATE h2 SET v = v * 2 WHERE v < -4990 RETURNING a, v;
DELETE FROM h2 WHERE v BETWEEN 100 AND 199;
SELECT sum(n), sum(v) FROM (SELECT 1 AS n, v FROM nw1.h2 UNION ALL SELECT 1, v FROM nw2.h2) u;

-- By the whole key only the node that can have the row is asked: the other one does not even have the table.
EXPLAIN (VERBOSE, COSTS OFF) UPDATE h2 SET v = v + 1 WHERE a = 'key 3' AND b = '2020-01-04';
EXPLAIN (VERBOSE, COSTS OFF) DELETE FROM h2 WHERE a = 'key 3' AND b > '2020-01-04';
\c contrib_regression postgres 127.0.0.1 :n2
ALTER TABLE nw.h2 RENAME TO h2_away;
\c contrib_regression postgres 127.0.0.1 :coord
SET search_path = nw;
SET client_min_messages = warning;
DO $$
DECLARE
  place record;
  written bigint;
  returned bigint;
  sums bigint[] = '{0,0,0}';
BEGIN
  FOR place IN SELECT a, b, count(*) AS n FROM nw1.h2 GROUP BY a, b LIMIT 50 LOOP
    UPDATE h2 SET v = v + 1 WHERE a = place.a AND b = place.b;
    GET DIAGNOSTICS written = ROW_COUNT;
    WITH rows AS (UPDATE h2 SET v = v - 1 WHERE b = place.b AND a = place.a RETURNING v)
    SELECT count(*) INTO returned FROM rows;
    sums = ARRAY[sums[1] + place.n - written, sums[2] + place.n - returned, sums[3] + 1];
  END LOOP;
  RAISE WARNING 'missed: %', sums;
END $$;
UPDATE h2 SET v = v WHERE a = 'key 3' AND b > '2020-01-04';
\c contrib_regression postgres 127.0.0.1 :n2
ALTER TABLE nw.h2_away RENAME TO h2;
\c contrib_regression postgres 127.0.0.1 :coord
SET search_path = nw;
SELECT sum(n), sum(v) FROM (SELECT 1 AS n, v FROM nw1.h2 UNION ALL SELECT 1, v FROM nw2.h2) u;
EXPLAIN (VERBOSE, COSTS OFF) UPDATE h SET v = v || '!' WHERE k BETWEEN 10 AND 19;
UPDATE h SET v = v || '!' WHERE k BETWEEN 10 AND 19;
-- EXPLAIN ANALYZE says which nodes wrote: by one statement, or row by row
CREATE FUNCTION written(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
		IF line ~ 'Node |Nodes Written|Foreign|Update|Insert|Delete' THEN RETURN NEXT regexp_replace(trim(line), '[(]actual.*', ''); END IF;
	END LOOP;
END $$;
SELECT written('UPDATE h SET v = v WHERE k = 12');
SELECT written('UPDATE h SET v = v WHERE k BETWEEN 10 AND 19');
SELECT written('UPDATE h SET v = v WHERE k = 12 AND random() >= 0');
SELECT written('UPDATE r SET v = v WHERE id < 10');
SELECT written(format($$UPDATE h2 SET v = v + 0 WHERE a = %L AND b = %L$$, a, b)) FROM (SELECT a, b FROM h2 ORDER BY a, b LIMIT 1) x;
SELECT written('DELETE FROM h2 WHERE v = 123456789');
SELECT written($$INSERT INTO h (k, v) VALUES (12, 'twelve')$$);
SELECT written($$DELETE FROM h WHERE v = 'twelve'$$);
CREATE FUNCTION counted(query text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE plan jsonb;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT JSON) ' || query INTO plan;
	RETURN jsonb_path_query_first(plan, '$.**."Node Counters"');
END $$;
SELECT counted('UPDATE r SET v = v WHERE id < 10');
UPDATE h SET v = 'big' WHERE k > 19990 RETURNING k > 0 AS k, v, s;
DELETE FROM h WHERE k BETWEEN 100 AND 199;
UPDATE r SET v = 'new' WHERE id < 10;
WITH d AS (DELETE FROM r WHERE id BETWEEN 2000 AND 2999 RETURNING id) SELECT count(*), sum(id) FROM d;
DELETE FROM strewn WHERE k % 2 = 0;
SELECT (SELECT count(*) FROM nw1.h) + (SELECT count(*) FROM nw2.h) AS h,
	(SELECT count(*) FROM nw1.strewn) + (SELECT count(*) FROM nw2.strewn) AS strewn,
	(SELECT count(*) FILTER (WHERE v LIKE '%!') FROM nw1.h) + (SELECT count(*) FILTER (WHERE v LIKE '%!') FROM nw2.h) AS changed;
SELECT (SELECT array_agg(r::text ORDER BY id) FROM nw1.r) = (SELECT array_agg(r::text ORDER BY id) FROM nw2.r) AS same, (SELECT count(*) FROM nw1.r);

-- unsupported statements, and their errors
CREATE FUNCTION only_here(text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RETURN $1 = 'r1500'; END $$;
EXPLAIN (COSTS OFF) UPDATE r SET v = 'x' WHERE only_here(v);
EXPLAIN (COSTS OFF) DELETE FROM strewn WHERE only_here(v);
-- copies that differ
INSERT INTO nw1.r VALUES (7777, 'only on one');
UPDATE r SET v = 'seven' WHERE id = 7777;
DELETE FROM nw1.r WHERE id = 7777;

-- a failing row undoes the statement on both nodes
BEGIN;
INSERT INTO r SELECT i, 'rolled back' FROM generate_series(5000, 5100) i;
SAVEPOINT s;
INSERT INTO r VALUES (5000, 'twice');
ROLLBACK TO s;
INSERT INTO r VALUES (6000, 'committed');
COMMIT;
SELECT count(*), max(id) FROM nw1.r;
SELECT count(*), max(id) FROM nw2.r;

-- ANALYZE counts all nodes' rows, a replicated table's once
ANALYZE h;
ANALYZE r;
SELECT relname, reltuples FROM pg_class WHERE oid IN ('nw.h'::regclass, 'nw.r'::regclass) ORDER BY 1;
SELECT n_distinct FROM pg_stats WHERE schemaname = 'nw' AND tablename = 'h' AND attname = 'n';

-- the transactions of all nodes begin before any of them truncates
BEGIN ISOLATION LEVEL REPEATABLE READ;
TRUNCATE h, r;
COMMIT;
SELECT (SELECT count(*) FROM nw1.h) + (SELECT count(*) FROM nw2.h) AS h, (SELECT count(*) FROM nw1.r) + (SELECT count(*) FROM nw2.r) AS r;

-- wrong options are reported when they are used
CREATE SERVER nw_wrong FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'nw1, nw3');
CREATE FOREIGN TABLE wrong (k int) SERVER nw_wrong OPTIONS (distributed_by 'k');
INSERT INTO wrong (k) VALUES (1);
DROP FOREIGN TABLE wrong;
ALTER SERVER nw_wrong OPTIONS (SET nodes 'nw1, nw');
CREATE FOREIGN TABLE wrong (k int) SERVER nw_wrong OPTIONS (distributed_by 'k');
INSERT INTO wrong (k) VALUES (1);
DROP SERVER nw_wrong CASCADE;
ALTER FOREIGN TABLE h OPTIONS (SET distributed_by 'nothing');
INSERT INTO h (k) VALUES (1);
ALTER FOREIGN TABLE h OPTIONS (SET distributed_by 'k');
-- whose owner must be allowed to use the nodes' servers
CREATE ROLE regress_rdma_owner SUPERUSER;
GRANT USAGE ON FOREIGN DATA WRAPPER rdma_fdw TO regress_rdma_owner;
ALTER SERVER nw OWNER TO regress_rdma_owner;
ALTER ROLE regress_rdma_owner NOSUPERUSER;
INSERT INTO h (k) VALUES (1);
GRANT USAGE ON FOREIGN SERVER nw1, nw2 TO regress_rdma_owner;
INSERT INTO h (k) VALUES (1);

-- rows that somebody put on the wrong node: at their place on the right one are others, which are not written
RESET ROLE;
ALTER FOREIGN TABLE lost OPTIONS (ADD distributed_by 'k, t');
INSERT INTO nw1.lost SELECT i, 'n', 'x' FROM generate_series(1, 40) i WHERE rdma.hash_node(2, i, 'n'::text) = 1 LIMIT 10;
INSERT INTO nw2.lost SELECT i, 'n', 'x' FROM generate_series(1, 40) i WHERE rdma.hash_node(2, i, 'n'::text) = 0 LIMIT 10;
-- (the detail is another one where the table there has another OID)
\set VERBOSITY terse
UPDATE lost SET v = 'y' WHERE random() >= 0;
UPDATE lost SET v = 'y' WHERE random() >= 0 RETURNING v;
DELETE FROM lost WHERE random() >= 0;
UPDATE lost SET k = k + 1 WHERE random() >= 0;
BEGIN ISOLATION LEVEL REPEATABLE READ;
DELETE FROM lost WHERE random() >= 0 RETURNING k;
ROLLBACK;
\set VERBOSITY default
-- or no row at all: gone since it was read, or in a table of another node
CREATE FUNCTION refused(command text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE command;
	RETURN 'written';
EXCEPTION WHEN data_corrupted OR serialization_failure THEN
	RETURN 'refused';
END
$$;
DELETE FROM nw1.lost;
SELECT refused('UPDATE lost SET v = ''y'' WHERE random() >= 0');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT refused('UPDATE lost SET v = ''y'' WHERE random() >= 0');
ROLLBACK;
DROP FUNCTION refused;
SELECT v, count(*) FROM lost GROUP BY v;
-- a NULL in the key is the key, too
INSERT INTO lost VALUES (1, NULL, 'null'), (NULL, 'x', 'null'), (NULL, NULL, 'null');
UPDATE lost SET v = 'is ' || v WHERE random() >= 0 AND v = 'null';
UPDATE lost SET t = 'changed' WHERE random() >= 0 AND v = 'is null';
SELECT * FROM lost WHERE v = 'is null' ORDER BY k;

-- a ctid names a row of one node: it can be shown, and be there or not, but finds no rows
RESET ROLE;
CREATE TABLE l (k int, place tid);
CREATE TABLE several (k int, v text) PARTITION BY LIST (k);
ALTER TABLE several ATTACH PARTITION strewn DEFAULT;
SELECT ctid > '(0,0)' FROM h WHERE k = 7;
\set VERBOSITY terse
SELECT ctid IS NULL AS away FROM h LIMIT 1;
SELECT count(*) FROM h LEFT JOIN r ON h.k = r.id WHERE r.ctid IS NULL AND h.k < 10;
PREPARE shown AS SELECT ctid AS place, k FROM h LIMIT $1;
CREATE TABLE places AS EXECUTE shown(3);
SELECT count(place) FROM places;
UPDATE h SET v = 'by place' WHERE ctid = '(0,5)';
UPDATE h SET v = 'by place' FROM places WHERE h.ctid = place;
DELETE FROM h WHERE ctid = ANY (ARRAY(SELECT ctid FROM h WHERE k < 10 ORDER BY k LIMIT 5));
DELETE FROM r WHERE ctid IN (SELECT ctid FROM r LIMIT 5);
DELETE FROM strewn USING (SELECT ctid AS place FROM strewn LIMIT 5) s WHERE s.place IS NOT NULL;
WITH gone AS (DELETE FROM h WHERE k < 10 RETURNING ctid) SELECT count(*) FROM gone;
SELECT count(*) FROM h a JOIN h b ON a.ctid = b.ctid;
SELECT DISTINCT ctid FROM h;
SELECT ctid FROM h GROUP BY ctid;
SELECT k FROM h ORDER BY ctid LIMIT 1;
SELECT ctid FROM h UNION SELECT ctid FROM r;
SELECT count(*) FROM l WHERE EXISTS (SELECT FROM (SELECT FROM h WHERE h.ctid = l.place) x);
SELECT count(*) FROM several WHERE ctid = '(0,5)';
CREATE VIEW with_place AS SELECT ctid AS place, k FROM h;
SELECT count(*) FROM with_place WHERE place = '(0,5)';
SELECT count(*) FROM h WHERE v = 'by place';
-- of one node it names a row as with one server
SELECT count(*) FROM nw1.h a JOIN nw1.h b ON a.ctid = b.ctid WHERE a.k <> b.k;

\set ECHO none
SET client_min_messages = warning;
DROP SERVER nw1, nw2, nw CASCADE;
DROP SCHEMA nw, nw1, nw2 CASCADE;
DROP OWNED BY regress_rdma_owner;
DROP ROLE regress_rdma_owner;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA nw, nw_differ CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA nw, nw_differ CASCADE;
