-- rdma_fdw.push_down: what is sent with each of its values, and that rows are the same with all of them.
\set ECHO none
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
\getenv n1 RF_N1_PORT
\getenv n2 RF_N2_PORT
\getenv coord RF_COORD_PORT
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
CREATE SCHEMA pd;
CREATE TABLE pd.d (id int, x int, t text);
CREATE TABLE pd.e (id int, y int);
CREATE TABLE pd.part (id int, x int);
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
CREATE SCHEMA pd;
CREATE TABLE pd.d (id int, x int, t text);
CREATE TABLE pd.e (id int, y int);
CREATE TABLE pd.part (id int, x int);
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;

CREATE SERVER pd_one FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port :'coord', dbname 'contrib_regression');
CREATE SERVER pd_n1 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port :'n1', dbname 'contrib_regression');
CREATE SERVER pd_n2 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port :'n2', dbname 'contrib_regression');
CREATE SERVER pd_many FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'pd_n1, pd_n2');
CREATE USER MAPPING FOR CURRENT_USER SERVER pd_one OPTIONS (user :'USER');
CREATE USER MAPPING FOR CURRENT_USER SERVER pd_n1 OPTIONS (user :'USER');
CREATE USER MAPPING FOR CURRENT_USER SERVER pd_n2 OPTIONS (user :'USER');

CREATE SCHEMA pd;
CREATE TABLE pd.here_a AS SELECT i AS id, i % 7 AS x, 'a' || i % 5 AS t FROM generate_series(1, 60) i;
CREATE TABLE pd.here_b AS SELECT i AS id, i % 11 AS y FROM generate_series(1, 40) i;
CREATE FOREIGN TABLE pd.a (id int, x int, t text) SERVER pd_one OPTIONS (table_name 'here_a');
CREATE FOREIGN TABLE pd.b (id int, y int) SERVER pd_one OPTIONS (table_name 'here_b');
CREATE FOREIGN TABLE pd.d (id int, x int, t text) SERVER pd_many OPTIONS (distributed_by 'id');
CREATE FOREIGN TABLE pd.e (id int, y int) SERVER pd_many OPTIONS (distributed_by 'id');
CREATE TABLE pd.p (id int, x int) PARTITION BY HASH (id);
CREATE FOREIGN TABLE pd.p0 PARTITION OF pd.p FOR VALUES WITH (MODULUS 2, REMAINDER 0) SERVER pd_n1 OPTIONS (table_name 'part');
CREATE FOREIGN TABLE pd.p1 PARTITION OF pd.p FOR VALUES WITH (MODULUS 2, REMAINDER 1) SERVER pd_n2 OPTIONS (table_name 'part');
INSERT INTO pd.d SELECT * FROM pd.here_a;
INSERT INTO pd.e SELECT * FROM pd.here_b;
INSERT INTO pd.p SELECT id, x FROM pd.here_a;
ANALYZE pd.a, pd.b, pd.d, pd.e, pd.p;

-- Prints what is sent, and the rows; first with all conditions sent.
CREATE FUNCTION pd.sent(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE value text; line text; got text; expected text;
BEGIN
  FOREACH value IN ARRAY ARRAY['all', 'scans', 'none'] LOOP
    PERFORM set_config('rdma_fdw.push_down', value, true);
    RETURN NEXT value || ':';
    FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
      IF line ~ 'SQL|Filter|Foreign Update|Foreign Delete|^ *Nodes' THEN
        -- major versions name the values of sub-selects differently
        line := regexp_replace(line, 'Filter:.*(SubPlan|InitPlan|\$\d).*', 'Filter: with a sub-select');
        RETURN NEXT left(regexp_replace(line, '^[ >-]*', '  '), 120);
      END IF;
    END LOOP;
    CONTINUE WHEN query !~ '^SELECT';
    EXECUTE format('SELECT array_agg(q.*::text ORDER BY q.*::text)::text FROM (%s) q', query) INTO got;
    expected := coalesce(expected, got);
    IF got IS DISTINCT FROM expected THEN
      RETURN NEXT '*** other rows: ' || left(got, 200);
    END IF;
  END LOOP;
END $$;
\pset format unaligned
\pset tuples_only on
\set ECHO all

SHOW rdma_fdw.push_down;
SET rdma_fdw.push_down = 'some';
-- conditions
SELECT pd.sent('SELECT t FROM pd.a WHERE x > 3 AND random() >= 0');
SELECT pd.sent('SELECT id FROM pd.a WHERE x = 3 AND EXISTS (SELECT FROM pd.b WHERE y = 3 OFFSET 0)');
SELECT pd.sent('SELECT id FROM pd.a WHERE x = (SELECT max(y) - 7 FROM pd.b)');
SELECT pd.sent('SELECT id FROM pd.a WHERE x > 3 OR id IN (SELECT y FROM pd.b WHERE b.id < a.x)');
-- joins, groups, windows, DISTINCT, order, LIMIT, set operations
SELECT pd.sent('SELECT a.t, b.y FROM pd.a LEFT JOIN pd.b USING (id) WHERE a.x > 5');
SELECT pd.sent('SELECT a.t FROM pd.a, LATERAL (SELECT FROM pd.b WHERE b.y = a.x AND a.id < 20 LIMIT 1) l');
SELECT pd.sent('SELECT x, count(*) FROM pd.a WHERE id < 50 GROUP BY x');
SELECT pd.sent('SELECT id, row_number() OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) FROM pd.a WHERE x = 1');
SELECT pd.sent('SELECT DISTINCT t FROM pd.a WHERE x = 1');
SELECT pd.sent('SELECT id FROM pd.a WHERE x = 1 ORDER BY id LIMIT 3');
SELECT pd.sent('SELECT id FROM pd.a WHERE x = 1 UNION SELECT y FROM pd.b');
SELECT pd.sent('SELECT count(*) FROM (SELECT id FROM pd.a UNION ALL SELECT id FROM pd.b) s');
-- several nodes: pruned by the conditions that are sent
SELECT pd.sent('SELECT d.t, e.y FROM pd.d JOIN pd.e USING (id) WHERE d.x > 3');
SELECT pd.sent('SELECT t FROM pd.d WHERE id = 7');
SELECT pd.sent('SELECT d.id FROM pd.d WHERE x > (SELECT avg(y) FROM pd.e WHERE e.id = d.x)');
SELECT pd.sent('SELECT x, sum(id) FROM pd.d GROUP BY x');
-- partitions on several servers
SELECT pd.sent('SELECT count(*) FROM pd.p JOIN pd.p q USING (id) WHERE p.x = 3');
SELECT pd.sent('SELECT max(id) FROM pd.p');
-- row locks
SELECT pd.sent('SELECT id FROM pd.a WHERE x = 3 FOR SHARE');
-- one table by its own conditions is changed on the node unless nothing is sent; a join only with all
SELECT pd.sent('UPDATE pd.a SET x = x + 1 WHERE id = 3');
SELECT pd.sent('DELETE FROM pd.a');
SELECT pd.sent('DELETE FROM pd.d WHERE x = 1');
SELECT pd.sent('UPDATE pd.a SET x = 0 FROM pd.b WHERE a.id = b.y');
SELECT pd.sent('UPDATE pd.a SET x = (SELECT count(*) FROM pd.b)');

-- the rows they leave; EXECUTE plans anew
BEGIN;
CREATE TEMP TABLE left_by (value text, rows text);
DO $$
DECLARE value text;
BEGIN
  FOREACH value IN ARRAY ARRAY['all', 'scans', 'none'] LOOP
    PERFORM set_config('rdma_fdw.push_down', value, true);
    EXECUTE 'UPDATE pd.a SET x = x + 10 WHERE id % 3 = 0;
      UPDATE pd.a SET t = y::text FROM pd.b WHERE a.id = b.id AND b.y = 2;
      DELETE FROM pd.a USING pd.b WHERE a.x = b.y AND b.id > 30;
      DELETE FROM pd.a WHERE x = 6;
      UPDATE pd.d SET x = x + 10 WHERE id % 3 = 0;
      UPDATE pd.d SET t = y::text FROM pd.e WHERE d.id = e.id AND e.y = 2;
      DELETE FROM pd.d USING pd.e WHERE d.x = e.y AND e.id > 30;
      DELETE FROM pd.d WHERE x = 6';
    INSERT INTO left_by SELECT value, md5(string_agg(s::text, ',' ORDER BY s::text))
      FROM (SELECT 'a', id, x, t FROM pd.a UNION ALL SELECT 'd', id, x, t FROM pd.d) s;
    EXECUTE 'DELETE FROM pd.a;
      DELETE FROM pd.d;
      INSERT INTO pd.a SELECT i, i % 7, ''a'' || i % 5 FROM generate_series(1, 60) i;
      INSERT INTO pd.d SELECT i, i % 7, ''a'' || i % 5 FROM generate_series(1, 60) i';
  END LOOP;
END $$;
SELECT count(*), count(DISTINCT rows) FROM left_by;
ROLLBACK;

-- plans that are kept
SET plan_cache_mode = force_generic_plan;
PREPARE kept AS SELECT count(*) FROM pd.a WHERE x = $1;
EXPLAIN (VERBOSE, COSTS OFF) EXECUTE kept(3);
SET rdma_fdw.push_down = none;
EXPLAIN (VERBOSE, COSTS OFF) EXECUTE kept(3);
DISCARD PLANS;
EXPLAIN (VERBOSE, COSTS OFF) EXECUTE kept(3);
\set ECHO none
RESET rdma_fdw.push_down;
RESET plan_cache_mode;
DEALLOCATE kept;

DROP SCHEMA pd CASCADE;
DROP SERVER pd_many, pd_one, pd_n1, pd_n2 CASCADE;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA pd CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA pd CASCADE;
