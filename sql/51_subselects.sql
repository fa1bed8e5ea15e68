-- Sub-selects in expressions: which are sent with the statement around them, and that the rows are those of the tables themselves.
\set ECHO none
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
RESET client_min_messages;
SET timezone = 'UTC';

DO $$ BEGIN EXECUTE format(
  'CREATE SERVER sub_srv FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host ''127.0.0.1'', port %L, dbname %L)',
  current_setting('port'), current_database()); EXECUTE format(
  'CREATE SERVER sub_other FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host ''127.0.0.1'', port %L, dbname %L)',
  current_setting('port'), current_database()); END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER sub_srv OPTIONS (user :'USER');
CREATE USER MAPPING FOR CURRENT_USER SERVER sub_other OPTIONS (user :'USER');

CREATE SCHEMA here;
CREATE TYPE here.mood AS ENUM ('sad', 'ok');
CREATE TABLE here.a (id int PRIMARY KEY, x int, t text, m here.mood);
CREATE TABLE here.b ("B id" int PRIMARY KEY, aid int, y int, t text, ts timestamptz);
CREATE TABLE here.c (id int PRIMARY KEY, bid int, z int);
INSERT INTO here.a SELECT i, nullif(i % 7, 3), 'a' || i % 13, (ARRAY['sad', 'ok'])[1 + i % 2]::here.mood FROM generate_series(1, 100) i;
INSERT INTO here.b SELECT i, nullif(i % 60, 5), i % 11, 'a' || i % 17, timestamptz '2020-01-01 00:00Z' + i * interval '1 day'
  FROM generate_series(1, 300) i;
INSERT INTO here.c SELECT i, nullif(i % 150, 9), i % 5 FROM generate_series(1, 200) i;
ANALYZE here.a, here.b, here.c;

CREATE SCHEMA away;
CREATE FOREIGN TABLE away.a (id int, x int, t text, m here.mood) SERVER sub_srv OPTIONS (schema_name 'here');
CREATE FOREIGN TABLE away.b (id int OPTIONS (column_name 'B id'), aid int, gone int, y int, t text, ts timestamptz)
  SERVER sub_srv OPTIONS (schema_name 'here');
ALTER FOREIGN TABLE away.b DROP COLUMN gone;
CREATE FOREIGN TABLE away.c (id int, bid int, z int) SERVER sub_srv OPTIONS (schema_name 'here');
CREATE FOREIGN TABLE away.other_c (id int, bid int, z int) SERVER sub_other OPTIONS (schema_name 'here', table_name 'c');
ANALYZE away.a, away.b, away.c, away.other_c;
CREATE SCHEMA tables;
CREATE VIEW tables.a AS SELECT * FROM here.a;
CREATE VIEW tables.b AS SELECT "B id" AS id, aid, y, t, ts FROM here.b;
CREATE VIEW tables.c AS SELECT * FROM here.c;
CREATE VIEW tables.other_c AS SELECT * FROM here.c;

-- Prints what a query's foreign scans send and which sub-plans remain, and compares its rows with those of the tables themselves.
CREATE FUNCTION pushed(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text; diff bigint;
BEGIN
  SET LOCAL search_path = away, public;
  FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
    IF line ~ '^ *(->  )?(Foreign|Remote SQL|SubPlan|InitPlan)' THEN
      RETURN NEXT regexp_replace(line, 'Plan ([a-z]+_)?\d+.*', 'Plan');
    END IF;
  END LOOP;
  EXECUTE format('CREATE TEMP TABLE got AS SELECT row_to_json(q)::text FROM (%s) q', query);
  SET LOCAL search_path = tables, public;
  EXECUTE format('CREATE TEMP TABLE expected AS SELECT row_to_json(q)::text FROM (%s) q', query);
  SELECT count(*) INTO diff FROM ((TABLE got EXCEPT ALL TABLE expected) UNION ALL (TABLE expected EXCEPT ALL TABLE got)) d;
  IF diff <> 0 OR NOT EXISTS (TABLE expected) THEN
    RETURN NEXT '*** rows that differ: ' || diff || ', expected: ' || (SELECT count(*) FROM expected);
  END IF;
  DROP TABLE got, expected;
  RESET search_path;
END $$;
\pset format unaligned
\pset tuples_only on
\set ECHO all

-- scalar, correlated by one and by two tables, and two deep
SELECT pushed('SELECT id FROM a WHERE x < (SELECT max(b.y) FROM b WHERE b.aid = a.id)');
SELECT pushed('SELECT a.id, b.id FROM a JOIN b ON a.id = b.aid WHERE b.y > (SELECT 0.5 * avg(z) FROM c WHERE c.bid = b.id AND c.z <> a.x)');
SELECT pushed('SELECT id FROM a WHERE x >= (SELECT count(*) FROM b WHERE b.aid = a.id AND b.y < (SELECT max(z) + 2 FROM c WHERE c.bid = b.id AND c.z <> a.x))');
SELECT pushed('SELECT id FROM a WHERE t < (SELECT max(t) FROM b WHERE b.aid > a.id)');
SELECT pushed('SELECT id FROM a WHERE x = (SELECT y FROM b WHERE b.aid = a.id ORDER BY id DESC LIMIT 1)');
SELECT pushed('SELECT id FROM a WHERE x = (SELECT DISTINCT y + 1 FROM b WHERE b.id = a.id)');
SELECT pushed('SELECT id FROM a WHERE (SELECT sum(y) FROM b WHERE b.aid = a.id GROUP BY b.aid HAVING count(*) > 2) > 20');
-- the sub-select's table has the names of the one outside
SELECT pushed('SELECT id FROM a WHERE x = (SELECT count(*) / 20 FROM a AS o WHERE o.x < a.x)');
-- EXISTS, IN, NOT IN, ANY and ALL where no join can be made of them
SELECT pushed('SELECT id FROM a WHERE id = 3 OR EXISTS (SELECT FROM b WHERE b.aid = a.id AND b.y = 4)');
SELECT pushed('SELECT id FROM a WHERE (NOT EXISTS (SELECT FROM b WHERE b.aid = a.id)) = (x > 3)');
SELECT pushed('SELECT id FROM a WHERE id = 3 OR x IN (SELECT aid FROM b WHERE y = 2)');
SELECT pushed('SELECT id FROM a WHERE id NOT IN (SELECT aid FROM b WHERE y = 2 AND aid IS NOT NULL)');
SELECT pushed('SELECT count(*) FROM a WHERE id NOT IN (SELECT aid FROM b)');
SELECT pushed('SELECT id FROM a WHERE t NOT IN (SELECT t FROM b WHERE b.aid = a.id)');
SELECT pushed('SELECT id FROM a WHERE x > ALL (SELECT y FROM b WHERE b.aid = a.id)');
SELECT pushed('SELECT id FROM a WHERE (x < ANY (SELECT z FROM c WHERE c.bid = a.id OR c.bid = a.x)) IS TRUE');
SELECT pushed('SELECT id FROM a WHERE 3 = cardinality(ARRAY(SELECT z FROM c WHERE c.bid % 60 = a.id))');
-- in ON, in aggregates and in HAVING
SELECT pushed('SELECT a.id, b.id FROM a LEFT JOIN b ON a.id = b.aid AND b.y = (SELECT max(y) FROM b m WHERE m.aid = a.id)');
SELECT pushed('SELECT x, count(*) FILTER (WHERE EXISTS (SELECT FROM b WHERE b.aid = a.id AND y = 2)) FROM a GROUP BY x');
SELECT pushed('SELECT x, sum((SELECT max(y) FROM b WHERE b.aid = a.id)) FROM a GROUP BY x ORDER BY x');
SELECT pushed('SELECT x, count(*) FROM a GROUP BY x HAVING count(*) > (SELECT max(z) FROM c WHERE c.bid < a.x + 30)');
-- in the SELECT list, with what is ordered by and with LIMIT
SELECT pushed('SELECT id, (SELECT max(y) FROM b WHERE b.aid = a.id) AS y FROM a WHERE x < 3');
SELECT pushed('SELECT t, 1 AS one, x + (SELECT count(*) FROM b WHERE b.aid = a.id) AS n, a.m = ''ok'' AS ok, EXISTS (SELECT FROM c WHERE c.bid = a.x) AS e FROM a ORDER BY x, id DESC LIMIT 30');
SELECT pushed('SELECT a.id, b.id AS bid, (SELECT max(z) FROM c WHERE c.bid = b.id AND c.z >= a.x) AS z FROM a JOIN b ON a.id = b.aid');
SELECT pushed('SELECT id, x IN (SELECT y FROM b WHERE b.aid = a.id) AS i, ARRAY(SELECT z FROM c WHERE c.bid = a.id ORDER BY c.id) AS s FROM a');
SELECT pushed('SELECT sum(q.y) AS s FROM (SELECT id, (SELECT max(y) FROM b WHERE b.aid = a.id) AS y FROM a OFFSET 0) q');
SELECT pushed('SELECT id, (SELECT max(y) FROM b WHERE b.aid = a.id) AS y FROM a WHERE m = ''ok''');
SELECT pushed('SELECT id FROM a WHERE x < (SELECT sum((SELECT max(z) FROM c WHERE c.bid = b.id)) FROM b WHERE b.aid = a.id)');
SELECT pushed('SELECT id FROM a WHERE x < (SELECT (SELECT max(z) FROM c WHERE c.bid = b.id AND c.z <> a.x) FROM b WHERE b.aid = a.id ORDER BY b.id LIMIT 1)');
-- quotes and dollars in what is printed around it
SELECT pushed('SELECT id FROM a WHERE t || ''$100000'''''' <> (SELECT ''$100000"''::text || max(t) FROM b WHERE b.aid = a.id) OR x = 1');
-- values that only this node knows go along as parameters
SELECT pushed('SELECT id FROM a WHERE x < (SELECT count(*) FROM b WHERE b.aid = a.id AND b.ts < now() AND b.y < (SELECT max(z) FROM c))');
PREPARE p AS SELECT id FROM away.a WHERE x = $1 AND id < (SELECT max(id) / $2 FROM away.b WHERE b.aid = a.id) ORDER BY 1;
SET plan_cache_mode = force_generic_plan;
EXECUTE p(2, 50);
EXECUTE p(1, 3);
DEALLOCATE p;
RESET plan_cache_mode;
-- not: another server, something of here, volatile, no column of the sub-select, a row
SELECT pushed('SELECT id FROM a WHERE x > (SELECT max(z) FROM other_c WHERE bid = a.id)');
SELECT pushed('SELECT id FROM a WHERE x > (SELECT count(*) FROM b WHERE aid = a.id AND a.m = ''ok'')');
SELECT pushed('SELECT id FROM a WHERE x < (SELECT max(y) FROM b WHERE aid = a.id AND random() >= 0)');
SELECT pushed('SELECT id FROM a WHERE x > (SELECT g FROM generate_series(1, a.id) g WHERE g = 2)');
SELECT pushed('SELECT id FROM a WHERE (x, 1) = (SELECT y, z FROM b, c WHERE b.aid = a.id AND c.bid = b.id LIMIT 1)');
-- a condition of the sub-select that refers to the query around it alone, whatever else is sent of it
SELECT pushed('SELECT id FROM a WHERE x > (SELECT count(*) FROM b WHERE aid = a.id AND a.t = ''a1'')');
SELECT pushed('SELECT id, (SELECT count(*) FROM b WHERE aid = a.id AND a.m = ''ok'') AS n, (SELECT count(*) FROM b WHERE aid = a.id AND a.x = 3) AS m FROM a');
SELECT ltrim(p) AS pushed FROM pushed('SELECT id, (SELECT count(*) FROM b LEFT JOIN (SELECT * FROM c WHERE a.m = ''ok'') c ON c.bid = b.id WHERE aid = a.id) AS n FROM a') p;
SELECT pushed('SELECT id, (SELECT sum(z) FROM b LEFT JOIN (SELECT * FROM c WHERE a.x = 2) c ON true WHERE aid = a.id) AS n FROM a');
-- what is computed here from the row around it
SELECT pushed('SELECT (SELECT max(y) FROM b WHERE to_timestamp(a.x) < now()) AS n FROM a WHERE id < 9');
SELECT pushed('SELECT id FROM a WHERE 5 < (SELECT max(y) FROM b WHERE b.id > a.id AND to_timestamp(a.x) < now())');
-- also as a column of the sub-select, or of one inside of it
SELECT pushed('SELECT id FROM a WHERE ''4'' IN (SELECT concat(a.x) FROM b)');
SELECT pushed('SELECT id FROM a WHERE id = 3 OR t || a.x IN (SELECT concat(a.t, a.x) FROM b WHERE b.aid = a.id)');
SELECT pushed('SELECT id, ARRAY(SELECT concat(a.x) FROM b WHERE b.aid = a.id) AS n FROM a WHERE id < 5');
SELECT pushed('SELECT id FROM a WHERE x < (SELECT length((SELECT concat(a.x, ''---'', b.y) FROM c WHERE c.id = b.id)) FROM b WHERE b.id = a.id)');
SELECT pushed('SELECT id FROM a WHERE x < (SELECT (SELECT length(concat(a.x, ''---'')) FROM c WHERE c.id = b.id) FROM b WHERE b.id = a.id)');
-- An aggregate over columns of the query around it alone would be that query's.
SELECT pushed('SELECT id, (SELECT sum(d.n) FROM (SELECT b.id, a.x AS n FROM b) d) AS m FROM a WHERE id < 5');
SELECT pushed('SELECT id FROM a WHERE id < 5 AND 50 < (SELECT sum(d.n) FROM (SELECT b.id, a.x AS n FROM b) d)');
SELECT pushed('SELECT id FROM a WHERE id < 5 AND EXISTS (SELECT d.id FROM (SELECT b.id, a.x AS n FROM b) d GROUP BY d.id HAVING sum(d.n) > 3)');
SELECT pushed('SELECT id FROM a WHERE id < 5 AND 50 < (SELECT sum(d.n + d.id) FROM (SELECT b.id, a.x AS n FROM b) d)');
-- one that is printed twice, with a sub-select of its own in FROM
SELECT pushed('SELECT id, (SELECT max(b.y + d.n) FROM b FULL JOIN (SELECT a.x FROM c WHERE c.bid = a.id) d (n) ON b.aid = d.n) AS m FROM a ORDER BY 2, 1');
-- more than one row is an error there as it is here
SELECT id FROM away.a WHERE x = (SELECT y FROM away.b WHERE b.aid > a.id);
-- writing
EXPLAIN (VERBOSE, COSTS OFF) UPDATE away.c SET z = (SELECT max(y) FROM away.b WHERE b.id = c.bid) WHERE id > (SELECT 150 + min(x) FROM away.a WHERE a.id > c.z);
BEGIN;
UPDATE away.c SET z = (SELECT max(y) FROM away.b WHERE b.id = c.bid) WHERE id > (SELECT 150 + min(x) FROM away.a WHERE a.id > c.z);
SELECT count(*), sum(z), sum(bid) FROM away.c;
ROLLBACK;
BEGIN;
UPDATE here.c SET z = (SELECT max(y) FROM here.b WHERE "B id" = c.bid) WHERE id > (SELECT 150 + min(x) FROM here.a WHERE a.id > c.z);
SELECT count(*), sum(z), sum(bid) FROM here.c;
ROLLBACK;
BEGIN;
WITH d AS (DELETE FROM away.c WHERE z < (SELECT max(y) FROM away.b WHERE b.id = c.bid) RETURNING id) SELECT count(*), sum(id) FROM d;
ROLLBACK;
SELECT count(*), sum(id) FROM here.c WHERE z < (SELECT max(y) FROM here.b WHERE "B id" = c.bid);
-- estimated by the data node
ALTER SERVER sub_srv OPTIONS (ADD use_remote_estimate 'true');
SELECT pushed('SELECT a.id FROM a JOIN c ON a.id < c.bid WHERE x < (SELECT max(b.y) FROM b WHERE b.aid = a.id AND b.y > c.z)');

\set ECHO none
SET client_min_messages = warning;
DROP SERVER sub_srv, sub_other CASCADE;
DROP SCHEMA away, here, tables CASCADE;
DROP FUNCTION pushed(text);
