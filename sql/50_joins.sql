-- Joins on the data node: which are sent and how, and that the rows are those of the tables themselves.
\set ECHO none
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
RESET client_min_messages;
SET timezone = 'UTC';

DO $$ BEGIN EXECUTE format(
  'CREATE SERVER join_srv FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host ''127.0.0.1'', port %L, dbname %L)',
  current_setting('port'), current_database()); EXECUTE format(
  'CREATE SERVER join_other FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host ''127.0.0.1'', port %L, dbname %L)',
  current_setting('port'), current_database()); END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER join_srv OPTIONS (user :'USER');
CREATE USER MAPPING FOR CURRENT_USER SERVER join_other OPTIONS (user :'USER');

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
CREATE FOREIGN TABLE away.a (id int, x int, t text, m here.mood) SERVER join_srv OPTIONS (schema_name 'here');
CREATE FOREIGN TABLE away.b (id int OPTIONS (column_name 'B id'), aid int, gone int, y int, t text, ts timestamptz)
  SERVER join_srv OPTIONS (schema_name 'here');
ALTER FOREIGN TABLE away.b DROP COLUMN gone;
CREATE FOREIGN TABLE away.c (id int, bid int, z int) SERVER join_srv OPTIONS (schema_name 'here');
CREATE FOREIGN TABLE away.other_c (id int, bid int, z int) SERVER join_other OPTIONS (schema_name 'here', table_name 'c');
ANALYZE away.a, away.b, away.c, away.other_c;
CREATE SCHEMA tables;
CREATE VIEW tables.a AS SELECT * FROM here.a;
CREATE VIEW tables.b AS SELECT "B id" AS id, aid, y, t, ts FROM here.b;
CREATE VIEW tables.c AS SELECT * FROM here.c;
CREATE VIEW tables.other_c AS SELECT * FROM here.c;

-- Prints what a query's foreign scans send and what remains to be done here, and compares its rows with those of the tables themselves.
CREATE FUNCTION pushed(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text; diff bigint;
BEGIN
  SET LOCAL search_path = away, public;
  FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
    IF line !~ '^ *(Output|Relations|Sort Key|Group Key|Hash Cond|Merge Cond|Planning|Query Identifier|Inner Unique):?' THEN
      RETURN NEXT regexp_replace(line, ' \(returns .*', '');
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

-- every kind of join
SELECT pushed('SELECT a.id, b.id FROM a JOIN b ON a.id = b.aid');
SELECT pushed('SELECT a.id, b.id FROM a JOIN b ON a.id = b.aid WHERE a.x > 2 AND b.y < 5');
SELECT pushed('SELECT a.id, b.id, b.t FROM a LEFT JOIN b ON a.id = b.aid AND b.y = 3 WHERE a.x > 2');
SELECT pushed('SELECT a.id, b.id FROM a LEFT JOIN (SELECT * FROM b WHERE y = 3) b ON a.id = b.aid');
SELECT pushed('SELECT a.id, b.id FROM a RIGHT JOIN b ON a.id = b.aid AND a.x = 1');
SELECT pushed('SELECT a.id, b.id FROM a LEFT JOIN b ON a.id = b.aid WHERE b.y IS NULL OR b.y > 8');
SELECT pushed('SELECT a.id, b.id FROM a FULL JOIN b ON a.id = b.aid');
SELECT pushed('SELECT a.id, b.id, b."t" FROM (SELECT * FROM a WHERE x > 2) a FULL JOIN (SELECT * FROM b WHERE y < 5) b ON a.id = b.aid');
SELECT pushed('SELECT a.id, b.id FROM a FULL JOIN b ON a.id = b.aid WHERE coalesce(a.x, 0) + coalesce(b.y, 0) = 3');
SELECT pushed('SELECT * FROM a WHERE EXISTS (SELECT FROM b WHERE b.aid = a.id AND b.y > 5)');
SELECT pushed('SELECT id FROM a WHERE (id IN (SELECT aid FROM b WHERE b.t = a.t)) IS TRUE');
SELECT pushed('SELECT id FROM a WHERE NOT EXISTS (SELECT FROM b WHERE b.aid = a.id AND b.y > 5) AND x < 5');
SELECT pushed('SELECT a.id FROM a LEFT JOIN b ON a.id = b.aid AND b.y > 5 WHERE b.aid IS NULL');
SELECT pushed('SELECT a.id, b.y FROM a LEFT JOIN b ON a.id = b.aid AND b.y > 5 WHERE b.id IS NULL');
-- 16 and later may take either side for the inner one of a local hash or merge join.
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SELECT pushed('SELECT a.id, b.aid FROM a LEFT JOIN b ON a.id = b.aid WHERE b.aid IS NULL');
SELECT pushed('SELECT count(*) FROM a LEFT JOIN b ON a.id = b.aid WHERE b.aid IS NULL AND (b.y, b.y) < (5, 7)');
RESET enable_hashjoin;
RESET enable_mergejoin;
SELECT pushed('SELECT id FROM a WHERE id NOT IN (SELECT id FROM b WHERE id > 50)');
SELECT pushed('SELECT a.id, c.id FROM a, c WHERE a.id < 4 AND c.id < 3');
SELECT pushed('SELECT a.id, c.id FROM a JOIN c ON a.id < c.id AND c.id < 5');

-- of more than two, in every shape
SELECT pushed('SELECT a.t, b.t, c.z FROM a, b, c WHERE a.id = b.aid AND b.id = c.bid AND a.x = c.z');
SELECT pushed('SELECT a.id, b.id, c.id FROM a LEFT JOIN (b JOIN c ON b.id = c.bid) ON a.id = b.aid');
SELECT pushed('SELECT a.id, b.id, c.id FROM a LEFT JOIN (b LEFT JOIN c ON b.id = c.bid AND c.z > 1) ON a.id = b.aid AND b.y > 2');
SELECT pushed('SELECT a.id, b.id, c.id FROM (a JOIN b ON a.id = b.aid AND a.x > 1) FULL JOIN c ON b.id = c.bid');
SELECT pushed('SELECT a.id, b.id, c.id FROM (a LEFT JOIN (SELECT * FROM b WHERE y > 3) b ON a.id = b.aid) FULL JOIN c ON b.id = c.bid');
SELECT pushed('SELECT a.id, b.id, c.id FROM (a FULL JOIN b ON a.id = b.aid) FULL JOIN c ON b.id = c.bid');
SELECT pushed('SELECT a.id, c.id FROM a LEFT JOIN c ON a.id = c.bid AND EXISTS (SELECT FROM b WHERE b.id = c.id)');
SELECT pushed('SELECT a.id FROM a WHERE EXISTS (SELECT FROM b WHERE b.aid = a.id AND NOT EXISTS (SELECT FROM c WHERE c.bid = b.id))');
SELECT pushed('SELECT a.id, b.id FROM a JOIN b ON a.id = b.aid WHERE EXISTS (SELECT FROM c WHERE c.bid = b.id AND c.z = a.x)');
SELECT pushed('SELECT a.id, c.id FROM a, c WHERE a.id = c.id AND EXISTS (SELECT FROM b WHERE b.aid = a.id)');
SELECT pushed('SELECT a1.id, a2.id FROM a a1 JOIN a a2 ON a1.x = a2.x AND a1.id < a2.id');
SELECT pushed('SELECT b."ts" FROM (a CROSS JOIN c) LEFT JOIN b ON a.id = b.aid AND b.y = c.z WHERE a.id < 10');

-- columns that repeat a name, that are not needed, and ctid
SELECT pushed('SELECT * FROM a JOIN b USING (id, t)');
SELECT pushed('SELECT count(*) FROM (SELECT 1 FROM a JOIN b ON a.id = b.aid OFFSET 0) s');
SET search_path = away, public;
EXPLAIN (VERBOSE, COSTS OFF) SELECT a.ctid, b.ctid FROM a JOIN b ON a.id = b.aid WHERE a.id = 3;
SELECT a.ctid, b.ctid FROM a JOIN b ON a.id = b.aid WHERE a.id = 3 ORDER BY 1, 2;
EXPLAIN (COSTS OFF) SELECT x.id FROM a AS x JOIN b ON x.id = b.aid;
RESET search_path;

-- evaluated here: a condition of an inner join or above the join, and everything that hides rows
SELECT pushed('SELECT a.id, b.id FROM a JOIN b ON a.id = b.aid AND a.m = ''ok''');
SELECT pushed('SELECT a.id, b.id FROM a JOIN b ON a.id = b.aid AND a.t || b.ts::text > ''a''');
SELECT pushed('SELECT a.id, b.id FROM a LEFT JOIN b ON a.id = b.aid WHERE a.m = ''ok''');
SELECT pushed('SELECT a.id, b.id FROM a LEFT JOIN b ON a.id = b.aid WHERE coalesce(b.ts::date, ''2020-05-05'') = ''2020-05-05''');
SELECT pushed('SELECT a.id, b.id FROM b LEFT JOIN a ON a.id = b.aid AND a.m = ''ok''');
SELECT pushed('SELECT a.id, b.id FROM a FULL JOIN b ON a.id = b.aid AND a.m::text = b.t');
SELECT pushed('SELECT b.id FROM b WHERE EXISTS (SELECT FROM a WHERE a.id = b.aid AND a.m = ''ok'')');
SELECT pushed('SELECT b.id FROM b WHERE NOT EXISTS (SELECT FROM a WHERE a.id = b.aid AND a.m = ''ok'')');
SELECT pushed('SELECT a.id FROM a WHERE m = ''ok'' AND EXISTS (SELECT FROM b WHERE a.id = b.aid)');
SELECT pushed('SELECT a.id, b.id FROM a JOIN b ON a.id = b.aid AND random() >= 0');
SELECT pushed('SELECT a, b.id FROM a JOIN b ON a.id = b.aid WHERE a.id = 1');
SELECT pushed('SELECT a.id, s.k FROM a LEFT JOIN (SELECT aid, coalesce(y, 1) AS k FROM b) s ON a.id = s.aid');
SELECT pushed('SELECT a.id, l.id FROM a, LATERAL (SELECT id FROM b WHERE b.aid = a.id ORDER BY id LIMIT 1) l');
SELECT pushed('SELECT a.id, b.id FROM a JOIN b ON a.id = b.aid WHERE a.id = (SELECT max(z) FROM c)');
SELECT pushed('SELECT a.id, b.id FROM a JOIN b ON a.id = b.aid AND b.ts < now() - interval ''1 day'' AND a.x = 2');
-- two servers, two users
SELECT pushed('SELECT a.id, c.id FROM a JOIN other_c c ON a.id = c.id');
SELECT pushed('SELECT a.id, b.id, c.id FROM a JOIN b ON a.id = b.aid JOIN other_c c ON b.id = c.bid');
-- a gate
SELECT pushed('SELECT a.id, b.id FROM a JOIN b ON a.id = b.aid WHERE current_setting(''search_path'') <> ''''');
-- row locks, and writing elsewhere with rows of a join
SET search_path = away, public;
EXPLAIN (VERBOSE, COSTS OFF) SELECT a.id, b.id FROM a JOIN b ON a.id = b.aid WHERE a.id = 3 FOR UPDATE;
CREATE TEMP TABLE target (id int, n int);
INSERT INTO target VALUES (3, 0), (4, 0);
UPDATE target SET n = s.n FROM (SELECT a.id, b.y AS n FROM a JOIN b ON a.id = b.aid WHERE b.y = 9) s WHERE s.id = target.id;
TABLE target ORDER BY id;
INSERT INTO target SELECT a.id, max(b.id) FROM a JOIN b ON a.id = b.aid WHERE a.x = 6 AND a.id < 20 GROUP BY 1;
TABLE target ORDER BY id;
-- security barriers: a condition must not see rows that another one hides
CREATE VIEW barrier WITH (security_barrier) AS SELECT id, x FROM a WHERE m = 'ok';
EXPLAIN (VERBOSE, COSTS OFF) SELECT v.id, b.id FROM barrier v JOIN b ON v.id = b.aid AND v.x / (b.y - 3) > 0;
-- parameters of a prepared statement, generic plan, in both sides and in the list
PREPARE p(int, text) AS SELECT a.id, b.id, $1 + 1 AS n FROM a JOIN b ON a.id = b.aid AND b.y = $1 WHERE a.t > $2 ORDER BY 1, 2;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (VERBOSE, COSTS OFF) EXECUTE p(3, 'a5');
EXECUTE p(3, 'a5');
EXECUTE p(3, 'zz');
DEALLOCATE p;
RESET plan_cache_mode;
-- a rescan of a join
SELECT g, (SELECT count(*) FROM (SELECT a.id FROM a JOIN b ON a.id = b.aid AND b.y = g OFFSET 0) s) FROM generate_series(1, 4) g;
RESET search_path;

-- partitions joined pairwise, each pair on its own server
CREATE TABLE away.pa (id int, x int) PARTITION BY RANGE (id);
CREATE TABLE away.pc (id int, z int) PARTITION BY RANGE (id);
CREATE FOREIGN TABLE away.pa1 PARTITION OF away.pa FOR VALUES FROM (0) TO (50) SERVER join_srv OPTIONS (schema_name 'here', table_name 'a1');
CREATE FOREIGN TABLE away.pa2 PARTITION OF away.pa FOR VALUES FROM (50) TO (1000) SERVER join_other OPTIONS (schema_name 'here', table_name 'a2');
CREATE FOREIGN TABLE away.pc1 PARTITION OF away.pc FOR VALUES FROM (0) TO (50) SERVER join_srv OPTIONS (schema_name 'here', table_name 'c1');
CREATE FOREIGN TABLE away.pc2 PARTITION OF away.pc FOR VALUES FROM (50) TO (1000) SERVER join_other OPTIONS (schema_name 'here', table_name 'c2');
CREATE VIEW here.a1 AS SELECT id, x FROM here.a WHERE id < 50;
CREATE VIEW here.a2 AS SELECT id, x FROM here.a WHERE id >= 50;
CREATE VIEW here.c1 AS SELECT id, z FROM here.c WHERE id < 50;
CREATE VIEW here.c2 AS SELECT id, z FROM here.c WHERE id >= 50;
CREATE VIEW tables.pa AS SELECT id, x FROM here.a;
CREATE VIEW tables.pc AS SELECT id, z FROM here.c;
SET enable_partitionwise_join = on;
SELECT pushed('SELECT pa.id, pc.z FROM pa JOIN pc ON pa.id = pc.id WHERE pa.x = 2');
SELECT pushed('SELECT pa.id, pc.z FROM pa LEFT JOIN pc ON pa.id = pc.id AND pc.z = 2');
RESET enable_partitionwise_join;

-- the data node's estimate of a join
ALTER SERVER join_srv OPTIONS (ADD use_remote_estimate 'true');
SELECT pushed('SELECT a.id, b.id FROM a JOIN b ON a.id = b.aid AND b.y = 3');
\set ECHO none
ALTER SERVER join_srv OPTIONS (DROP use_remote_estimate);

SET client_min_messages = warning;
DROP SERVER join_srv, join_other CASCADE;
DROP SCHEMA away, here, tables CASCADE;
DROP FUNCTION pushed(text);
DROP TABLE target;
