-- Groups of rows that lie on two nodes, and what stands above them: windows, DISTINCT, set operations of branches that leave no equal
-- rows anyway; and joins of nodes, which get only the keys of rows that are here.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name ng
\i :two_nodes
CREATE SCHEMA ng_here;
CREATE TABLE ng_here.sale AS SELECT i AS id, nullif(i * 7 % 61, 3) AS item, nullif(i % 23, 5) AS day, i * 13 % 101 AS paid, 'b' || i % 5 AS brand,
  (i % 4)::numeric(9, 2) AS price, i % 1500 AS code FROM generate_series(1, 6000) i;
CREATE TABLE ng_here.mail AS SELECT i AS id, nullif(i * 11 % 67, 3) AS item, nullif(i % 29, 5) AS day, i * 17 % 103 AS paid, 'b' || i % 7 AS brand,
  (i % 4)::numeric(9, 1) AS price FROM generate_series(1, 4000) i;
CREATE TABLE ng_here.day AS SELECT i AS d_id, i / 7 AS d_week FROM generate_series(0, 40) i;
CREATE TABLE ng_here.wanted AS SELECT nullif(i % 9, 4) AS item, 'w' || i AS name FROM generate_series(1, 12) i;
CREATE TABLE sale AS TABLE ng_here.sale;
CREATE TABLE mail AS TABLE ng_here.mail;
CREATE TABLE day AS TABLE ng_here.day;
SELECT rdma.distribute_table('ng.sale', 'ng', 'id'), rdma.distribute_table('ng.mail', 'ng', 'id'), rdma.distribute_table('ng.day', 'ng', replicated => true);
CREATE VIEW wanted AS SELECT * FROM ng_here.wanted;
ANALYZE ng_here.sale, ng_here.mail, ng_here.day, ng_here.wanted, sale, mail, day;
-- 16 and later sort for aggregates below them.
DO $$ BEGIN PERFORM set_config(name, 'off', false) FROM pg_settings WHERE name = 'enable_presorted_aggregate'; END $$;

-- Prints where a query runs, unless that is here, and checks its rows against those of local tables.
CREATE FUNCTION ng.planned(query text, here boolean DEFAULT false) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text; diff bigint;
BEGIN
  SET LOCAL search_path = ng, public;
  FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
    IF NOT here AND line ~ '^ *(->  )?(Custom Scan|Relations|Strategy|Exchange|Remote SQL)' THEN
      RETURN NEXT regexp_replace(ltrim(line, ' ->'), ' rows=\d+ distinct=[-0-9,]+| ORDER BY [\w, ]+$| ROWS UNBOUNDED PRECEDING|(?<=\mr)\d+\M', '', 'g');
    END IF;
  END LOOP;
  EXECUTE format('CREATE TEMP TABLE got AS SELECT row_to_json(q)::text FROM (%s) q', query);
  SET LOCAL search_path = ng_here, public;
  EXECUTE format('CREATE TEMP TABLE expected AS SELECT row_to_json(q)::text FROM (%s) q', query);
  SELECT count(*) INTO diff FROM ((TABLE got EXCEPT ALL TABLE expected) UNION ALL (TABLE expected EXCEPT ALL TABLE got)) d;
  IF diff <> 0 OR NOT EXISTS (TABLE expected) THEN
    RETURN NEXT '*** rows that differ: ' || diff || ', expected: ' || (SELECT count(*) FROM expected);
  END IF;
  DROP TABLE got, expected;
  RESET search_path;
END $$;
\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only on

-- Windows over groups: rows move once, by what both bring together.
SELECT ng.planned('SELECT item, id % 997 AS k, sum(sum(paid)) OVER (PARTITION BY item ORDER BY id % 997) FROM sale GROUP BY item, id % 997');
SELECT ng.planned('SELECT item, brand, id, avg(sum(paid)) OVER (PARTITION BY item, brand), rank() OVER (PARTITION BY brand, item, id / 10 ORDER BY id) FROM sale GROUP BY item, brand, id');
SELECT ng.planned('SELECT item, day, paid, count(*), rank() OVER (PARTITION BY day % 5 ORDER BY item, day, paid) FROM sale GROUP BY item, day, paid');
SELECT ng.planned('SELECT * FROM (SELECT item, day, paid, max(id) AS most, row_number() OVER (PARTITION BY item ORDER BY day, paid) AS place FROM sale GROUP BY item, day, paid) s WHERE place < 3');
SELECT ng.planned('SELECT id, item, sum(count(*)) OVER (PARTITION BY id) FROM sale GROUP BY id, item');
-- few groups are combined here, and few partitions would not be spread over the nodes
SELECT ng.planned('SELECT item, day, sum(sum(paid)) OVER (PARTITION BY item ORDER BY day) FROM sale GROUP BY item, day');
-- and DISTINCT
SELECT ng.planned('SELECT DISTINCT item, brand, max(day) FROM sale GROUP BY item, brand, id');
-- in sub-selects that are joined
SELECT ng.planned('SELECT s.item, s.day, s.total, m.total FROM (SELECT item, day, paid, sum(count(*)) OVER (PARTITION BY item ORDER BY day, paid) AS total FROM sale GROUP BY item, day, paid) s
  JOIN (SELECT item, day, paid, sum(count(*)) OVER (PARTITION BY item ORDER BY day, paid) AS total FROM mail GROUP BY item, day, paid) m ON m.item = s.item AND m.day = s.day');

-- DISTINCT in a branch of an operation that leaves no equal rows: each node drops those that it has, if they are many.
SET rdma_fdw.exchange_strategy = repartition_both;
SELECT ng.planned('SELECT DISTINCT item, brand FROM sale INTERSECT SELECT DISTINCT item, brand FROM mail');
SELECT ng.planned('SELECT DISTINCT id, item FROM sale EXCEPT SELECT DISTINCT id, day FROM mail');
RESET rdma_fdw.exchange_strategy;
SELECT ng.planned('SELECT item, brand FROM sale EXCEPT SELECT item, brand FROM mail WHERE day < 6 AND id < 900');
SELECT ng.planned('SELECT item FROM sale UNION SELECT DISTINCT item FROM mail');
-- rows are few, or all different
SELECT ng.planned('SELECT id, item FROM sale WHERE id < 20 UNION SELECT DISTINCT id + 1, item FROM mail WHERE id < 20');
-- equal values may look different, and so may what is made of them
SELECT ng.planned('SELECT DISTINCT price FROM sale UNION SELECT DISTINCT price FROM mail', here => true);
SELECT ng.planned('SELECT DISTINCT price::text FROM sale UNION SELECT DISTINCT price::text FROM mail', here => true);
SELECT ng.planned('SELECT DISTINCT item::bigint FROM sale EXCEPT SELECT DISTINCT day FROM mail', here => true);
SELECT ng.planned('SELECT price::text FROM sale UNION SELECT price::text FROM mail WHERE item > 3');
-- not with ALL, nor where DISTINCT takes the first rows, nor below LIMIT
SELECT ng.planned('SELECT DISTINCT item FROM sale INTERSECT ALL SELECT DISTINCT item FROM mail', here => true);
SELECT ng.planned('SELECT DISTINCT item FROM sale UNION ALL SELECT DISTINCT item FROM mail', here => true);
SELECT ng.planned('SELECT DISTINCT ON (item) item, day FROM sale WHERE day = 7 UNION SELECT item, day FROM mail', here => true);
SELECT ng.planned('(SELECT DISTINCT item FROM sale ORDER BY item LIMIT 4) UNION SELECT DISTINCT item FROM mail', here => true);

-- So it is with rows that a semi or anti join tests, with groups without aggregates and with DISTINCT, but not where equal values
-- may be told apart.
SELECT ng.planned('SELECT id, paid FROM sale s WHERE EXISTS (SELECT FROM mail m WHERE m.item = s.item AND m.day = 3)');
SELECT ng.planned('SELECT id, paid FROM sale s WHERE NOT EXISTS (SELECT FROM mail m WHERE m.item = s.item AND m.brand < s.brand AND m.day < 9)');
SELECT ng.planned('SELECT id, paid FROM sale WHERE item IN (SELECT item + 1 FROM mail)');
SELECT ng.planned('SELECT id, paid FROM sale s WHERE EXISTS (SELECT FROM mail m WHERE m.price::text || ''0'' = s.price::text AND m.day = 3)');
SELECT ng.planned('SELECT m.id, s.day FROM mail m JOIN (SELECT item, day FROM sale GROUP BY item, day) s ON s.item = m.item AND s.day = m.day');
SELECT ng.planned('SELECT m.id, s.day FROM mail m JOIN (SELECT DISTINCT item, day FROM sale) s ON s.item = m.item AND s.day = m.day');
SELECT ng.planned('SELECT m.id, s.day FROM mail m JOIN (SELECT item, day, count(*) AS n FROM sale GROUP BY item, day) s ON s.item = m.item AND s.day = m.day AND s.n > 4');

-- Nodes are told that rows which a join leaves have fewer different values than the table.
CREATE FUNCTION ng.has_fewer_values(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE line text; numbers text[];
BEGIN
  SET LOCAL search_path = ng, public;
  FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
    numbers = coalesce(numbers, regexp_match(line, 'keys=1 rows=(\d+) distinct=(\d+),?[^$]*\$x\d+\$SELECT r\d+.code'));
  END LOOP;
  RETURN numbers[2]::int BETWEEN numbers[1]::int * 0.6 AND numbers[1]::int * 0.9;
END $$;
SET rdma_fdw.exchange_strategy = repartition_both;
SELECT ng.has_fewer_values('SELECT count(*) FROM sale s JOIN day ON d_id = day JOIN mail m ON m.paid = s.code WHERE d_week = 2');
RESET rdma_fdw.exchange_strategy;

-- Keys of rows that are here are sent to a join of the nodes.
ALTER SERVER ng OPTIONS (ADD fdw_tuple_cost '1');
SET rdma_fdw.disable = local_rows;
SELECT ng.planned('SELECT w.name, s.id, d.d_week FROM wanted w JOIN sale s ON s.item = w.item JOIN day d ON d.d_id = s.day WHERE d.d_week = 2');
SELECT ng.planned('SELECT w.name, s.id, s.d_week FROM wanted w LEFT JOIN (SELECT * FROM sale JOIN day ON d_id = day WHERE d_week = 2) s ON s.item = w.item');
SELECT ng.planned('SELECT s.id, d.d_week FROM sale s JOIN day d ON d.d_id = s.day WHERE d.d_week = 2 AND s.item IN (SELECT item FROM wanted)');
SELECT ng.planned('SELECT w.name FROM wanted w WHERE NOT EXISTS (SELECT FROM sale JOIN day ON d_id = day WHERE d_week = 2 AND item = w.item + 50)');
SELECT ng.planned('WITH w AS MATERIALIZED (SELECT item FROM mail WHERE id < 9) SELECT s.id, d.d_week, w.item FROM w JOIN sale s ON s.item = w.item JOIN day d ON d.d_id = s.day WHERE d.d_week = 2');
-- the column that is sent may be NULL where the join adds rows
SELECT ng.planned('SELECT w.name, s.id FROM wanted w JOIN (sale s LEFT JOIN mail m ON m.id = s.id AND m.day = 3) ON m.item = w.item');

SET client_min_messages = warning;
\pset format aligned
\pset tuples_only off
SELECT rdma.run_on('ng', 'DROP SCHEMA ng CASCADE') IS NOT NULL;
SET rdma_fdw.propagate_ddl = off;
DROP SCHEMA ng, ng_here CASCADE;
DROP SERVER ng, ng1, ng2 CASCADE;
