-- Scans on columns see the rows that any scan sees, in any order of fetching; and what EXPLAIN says of them.
SET datestyle = 'ISO';
SET max_parallel_workers_per_gather = 0;
CREATE SCHEMA column_scans;
SET search_path = column_scans;
CREATE TABLE whole AS SELECT g AS a, g % 7 AS b, (g % 1000 / 10.0)::numeric(10,2) AS n, sqrt(g) AS f, '2026-01-01'::date + g AS d FROM generate_series(1, 1024) g;
CREATE TABLE sale AS SELECT g AS id, chr(65 + g % 3) AS flag, (g % 100)::numeric(10,2) AS price, (g % 10 / 100.0)::numeric(4,2) AS discount, '2026-01-01'::date + g % 200 AS day
	FROM generate_series(1, 20000) g;

-- own and others' changes: rows are seen as by any scan
SET rdma_fdw.disable = 'column_costs';
BEGIN;
INSERT INTO whole SELECT * FROM whole WHERE a <= 10;
DELETE FROM whole WHERE a > 1000;
SELECT count(*), sum(n), max(a) FROM whole WHERE a > 0;
SAVEPOINT s;
UPDATE whole SET n = 1;
SELECT count(*), sum(n) FROM whole WHERE n = 1;
ROLLBACK TO s;
SELECT count(*), sum(n) FROM whole WHERE n = 1;
DECLARE c CURSOR FOR SELECT a FROM whole WHERE n > 99;
FETCH 2 FROM c;
DELETE FROM whole;
FETCH 2 FROM c;
SELECT count(*), sum(n) FROM whole WHERE n > 0;
ROLLBACK;
-- the row of a cursor
BEGIN;
DECLARE c CURSOR FOR SELECT a FROM whole WHERE n > 99;
FETCH 2 FROM c;
UPDATE whole SET b = -1 WHERE CURRENT OF c RETURNING a, b;
ROLLBACK;
-- a cursor that goes back is the executor's
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT a FROM whole WHERE n > 99;
FETCH 3 FROM c;
FETCH BACKWARD 2 FROM c;
COMMIT;

-- row security: a function that tells of rows sees only rows that the policy shows
CREATE FUNCTION tell(a int) RETURNS bool LANGUAGE plpgsql COST 0.0001 AS $$ BEGIN RAISE NOTICE 'row %', a; RETURN true; END $$;
CREATE ROLE regress_columns;
GRANT USAGE ON SCHEMA column_scans TO regress_columns;
GRANT SELECT ON whole TO regress_columns;
ALTER TABLE whole ENABLE ROW LEVEL SECURITY;
CREATE POLICY few ON whole USING (a < 4);
SET ROLE regress_columns;
SELECT count(*), sum(n) FROM whole WHERE tell(a);
SELECT count(*) FROM sale;
RESET ROLE;
ALTER TABLE whole DISABLE ROW LEVEL SECURITY;

-- docs/performance.md
RESET rdma_fdw.disable;
VACUUM ANALYZE sale;
-- without memory, buffers and numbers of rows, which releases and builds print in other ways
CREATE FUNCTION plan(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
  FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
    CONTINUE WHEN line ~ 'Sort Method|Buffers|Memory Usage';
    RETURN NEXT regexp_replace(line, ' \(actual .*\)', '');
  END LOOP;
END $$;
SELECT plan($$SELECT flag, count(*), sum(price * (1 - discount)) FROM sale WHERE day < '2026-07-01' AND id % 2 = 0 GROUP BY flag$$);
EXPLAIN (COSTS OFF) SELECT count(*), avg(length(flag)) FROM sale WHERE day < '2026-07-01';
EXPLAIN (COSTS OFF) SELECT sum(price::numeric) FROM sale;
-- the first page is the executor's, but not below an Agg node, which reads all rows
SELECT plan('SELECT id FROM sale WHERE price > 90');
SELECT plan('SELECT count(id) FROM sale WHERE price > 90');
-- a group for each nine rows; the first row of each is the executor's
CREATE TABLE many AS SELECT g % 6000 AS k, (g % 100)::numeric(10,2) AS n FROM generate_series(1, 54000) g;
VACUUM ANALYZE many;
SELECT plan($$SELECT k, sum(n) FROM many GROUP BY k$$);
-- each process of a parallel plan; and a Gather that begins anew
SET max_parallel_workers_per_gather = 2;
SET min_parallel_table_scan_size = 0;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
EXPLAIN (COSTS OFF) SELECT flag, count(*), sum(price) FROM sale WHERE day < '2026-07-01' AND id % 2 = 0 GROUP BY flag;
SELECT flag, count(*), sum(price) FROM sale WHERE day < '2026-07-01' AND id % 2 = 0 GROUP BY flag ORDER BY flag;
SELECT count(*), sum(s.price) FROM sale s JOIN sale t USING (id) WHERE s.day < '2026-07-01' AND t.price > 50;
SELECT count(*), sum(id) FROM (SELECT id FROM sale WHERE price > 90 OFFSET 0) s;
EXPLAIN (COSTS OFF) SELECT id FROM sale WHERE price > 90;
EXPLAIN (COSTS OFF) SELECT g, (SELECT count(*) FROM sale WHERE price > 90 OFFSET g * 0) FROM generate_series(1, 3) g;
SELECT g, (SELECT count(*) FROM sale WHERE price > 90 OFFSET g * 0) FROM generate_series(1, 3) g;
-- a Gather below LIMIT that begins anew
SELECT count((SELECT id FROM sale WHERE price > 90 OFFSET g * 0 LIMIT 1)) FROM generate_series(1, 3) g;
SET rdma_fdw.disable = 'columns';
SELECT flag, count(*), sum(price) FROM sale WHERE day < '2026-07-01' AND id % 2 = 0 GROUP BY flag ORDER BY flag;
SELECT count(*), sum(s.price) FROM sale s JOIN sale t USING (id) WHERE s.day < '2026-07-01' AND t.price > 50;
RESET rdma_fdw.disable;
SET max_parallel_workers_per_gather = 0;
-- not: small tables, writes, locks, what has no kernel
EXPLAIN (COSTS OFF) SELECT count(*) FROM whole WHERE n > 0;
EXPLAIN (COSTS OFF) UPDATE sale SET price = 0 WHERE day < '2026-07-01';
EXPLAIN (COSTS OFF) SELECT id FROM sale WHERE day < '2026-07-01' FOR UPDATE;
EXPLAIN (COSTS OFF) SELECT max(length(flag)) FROM sale WHERE id % 2 = 0;

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA column_scans CASCADE;
DROP ROLE regress_columns;
