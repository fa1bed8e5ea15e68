-- Rows that have no partners on the node that they would go to stay where they are: which joins have filters, that no row is lost by
-- one, and that they are counted.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name xf
\i :two_nodes
\c contrib_regression postgres 127.0.0.1 :n1
CREATE SCHEMA xf;
CREATE TABLE xf.few (id int, k int, t text, n numeric);
CREATE TABLE xf.none (LIKE xf.few);
CREATE TABLE xf.placed (LIKE xf.few);
CREATE TABLE xf.big (id int, k bigint, t text, n numeric, pad text);
\c contrib_regression postgres 127.0.0.1 :n2
CREATE SCHEMA xf;
CREATE TABLE xf.few (id int, k int, t text, n numeric);
CREATE TABLE xf.none (LIKE xf.few);
CREATE TABLE xf.placed (LIKE xf.few);
CREATE TABLE xf.big (id int, k bigint, t text, n numeric, pad text);
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
CREATE SCHEMA xf_here;
-- keys: NULL, several times, in one of the tables only
CREATE TABLE xf_here.few AS SELECT i AS id, nullif(i * 37 % 9000, 37) AS k, 'k' || i * 37 % 9000 AS t, (i * 37 % 9000) / 4.0 AS n FROM generate_series(1, 300) i
  UNION ALL SELECT 1000 + i, 5000000 + i, 'none', NULL FROM generate_series(1, 20) i UNION ALL SELECT 2000 + i, 74, 'k74', 18.5 FROM generate_series(1, 5) i;
CREATE TABLE xf_here.none (LIKE xf_here.few);
CREATE TABLE xf_here.placed AS TABLE xf_here.few;
CREATE TABLE xf_here.big AS SELECT i AS id, nullif(i % 9000, 111)::bigint AS k, 'k' || i % 9000 AS t, nullif(i % 9000, 5) / 4.0 AS n, repeat('x', i % 50) AS pad
  FROM generate_series(1, 30000) i;
ANALYZE xf_here.few, xf_here.none, xf_here.placed, xf_here.big;
CREATE FOREIGN TABLE xf.few (id int, k int, t text, n numeric) SERVER xf OPTIONS (distributed_by 'id');
CREATE FOREIGN TABLE xf.none (id int, k int, t text, n numeric) SERVER xf;
CREATE FOREIGN TABLE xf.big (id int, k bigint, t text, n numeric, pad text) SERVER xf OPTIONS (distributed_by 'id');
CREATE FOREIGN TABLE xf.placed (id int, k int, t text, n numeric) SERVER xf OPTIONS (distributed_by 'k');
INSERT INTO xf.few SELECT * FROM xf_here.few;
INSERT INTO xf.placed SELECT * FROM xf_here.placed;
INSERT INTO xf.big SELECT * FROM xf_here.big;
ANALYZE xf.few, xf.none, xf.placed, xf.big;

-- The numbers of what EXPLAIN ANALYZE says about one exchange, added up over the nodes.
CREATE FUNCTION xf.count_rows(lines text[], number int, what text) RETURNS bigint LANGUAGE sql AS $$
  SELECT coalesce(sum(substring(line FROM what || ' rows=(\d+)')::bigint), 0) FROM unnest(lines) line WHERE line ~ format('^ *Exchange %s on ', number)
$$;
-- Compares a query's rows with those of local tables; then how its inputs move, and which rows do: filtered is whether some were
-- dropped, all whether none of that input is missing from the counters.
CREATE FUNCTION xf.checked(query text, input bigint DEFAULT NULL) RETURNS TABLE (exchanges text, filtered boolean, "all" boolean) LANGUAGE plpgsql AS $$
DECLARE lines text[]; line text; diff bigint; number int;
BEGIN
  SET LOCAL search_path = xf, public;
  FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
    lines := lines || line;
    IF line ~ '^ *Exchange \d+: ' THEN exchanges := concat_ws('; ', exchanges, substring(line FROM ': (.*)')); END IF;
    number := coalesce(substring(line FROM 'Exchange (\d+): .*filtered by')::int, number);
  END LOOP;
  filtered := xf.count_rows(lines, number, 'filtered') > 0;
  "all" := xf.count_rows(lines, number, 'filtered') + xf.count_rows(lines, number, 'sent') + xf.count_rows(lines, number, 'kept') = coalesce(input, 30000);
  EXECUTE format('CREATE TEMP TABLE got AS SELECT row_to_json(q)::text FROM (%s) q', query);
  SET LOCAL search_path = xf_here, public;
  EXECUTE format('CREATE TEMP TABLE expected AS SELECT row_to_json(q)::text FROM (%s) q', query);
  SELECT count(*) INTO diff FROM ((TABLE got EXCEPT ALL TABLE expected) UNION ALL (TABLE expected EXCEPT ALL TABLE got)) d;
  IF diff <> 0 THEN
    exchanges := '*** rows that differ: ' || diff || ', expected: ' || (SELECT count(*) FROM expected);
  END IF;
  DROP TABLE got, expected;
  RESET search_path;
  RETURN NEXT;
END $$;
\set SHOW_CONTEXT never
\pset format unaligned
\pset tuples_only on

-- by cost: a join for which both sides must move, and one side has few partners; not where replicating the small one does
SELECT * FROM xf.checked('SELECT few.id FROM few WHERE EXISTS (SELECT FROM big WHERE big.k = few.k)');
SELECT * FROM xf.checked('SELECT few.id, big.id AS b FROM few LEFT JOIN big ON big.k = few.k');
SELECT exchanges FROM xf.checked('SELECT few.id, big.id AS b FROM few JOIN big ON big.k = few.k');
-- also by rows that are where they would go
SELECT * FROM xf.checked('SELECT placed.id FROM placed WHERE EXISTS (SELECT FROM big WHERE big.k = placed.k)');
SET rdma_fdw.exchange_strategy = repartition_both;
SELECT * FROM xf.checked('SELECT few.id, big.id AS b FROM few JOIN big ON big.k = few.k');
-- most have partners
SELECT exchanges FROM xf.checked('SELECT count(*) FROM big x JOIN big y ON x.k = y.k WHERE y.id > 6000');
SET rdma_fdw.disable = exchange_filters;
SELECT exchanges FROM xf.checked('SELECT few.id, big.id AS b FROM few LEFT JOIN big ON big.k = few.k');
SELECT exchanges FROM xf.checked('SELECT few.id, big.id AS b FROM few JOIN big ON big.k = few.k');

-- each kind of join, either way round: no filter for the side whose rows the join keeps
SET rdma_fdw.disable = exchange_filter_costs;
SELECT * FROM xf.checked('SELECT few.id, big.id AS b FROM big JOIN few ON big.k = few.k AND big.id > few.id * 10');
SELECT * FROM xf.checked('SELECT few.id, big.id AS b FROM big LEFT JOIN few ON big.k = few.k', 325);
SELECT * FROM xf.checked('SELECT few.id, big.id AS b FROM big RIGHT JOIN few ON big.k = few.k AND big.id > 20000', 10000);
SELECT exchanges FROM xf.checked('SELECT few.id, big.id AS b FROM big FULL JOIN few ON big.k = few.k');
SELECT * FROM xf.checked('SELECT id FROM few WHERE EXISTS (SELECT FROM big WHERE big.k = few.k AND big.id > 20000)', 10000);
SELECT * FROM xf.checked('SELECT id FROM few WHERE NOT EXISTS (SELECT FROM big WHERE big.k = few.k)');
SELECT * FROM xf.checked('SELECT id FROM big WHERE EXISTS (SELECT FROM few WHERE big.k = few.k)');
SELECT * FROM xf.checked('SELECT id FROM big WHERE NOT EXISTS (SELECT FROM few WHERE big.k = few.k)', 325);
SELECT exchanges, filtered FROM xf.checked('SELECT id, (SELECT max(few.id) FROM few WHERE few.k = big.k) AS m FROM big WHERE id % 100 < 3');
-- what a sub-select groups is filtered where it moves: by rows that are where they would go, and by rows that have moved for another join
SET rdma_fdw.exchange_strategy = auto;
SELECT * FROM xf.checked('SELECT placed.id, q.s FROM placed LEFT JOIN (SELECT k, sum(id) AS s FROM big GROUP BY k) q ON q.k = placed.k');
SELECT * FROM xf.checked('SELECT big.t, q.s FROM big JOIN (SELECT k, sum(id) AS s FROM big GROUP BY k) q ON q.k = big.id WHERE big.id < 7000 AND q.s > big.id');
SELECT * FROM xf.checked('SELECT big.t, q.k FROM (SELECT DISTINCT k FROM big WHERE id > 5) q JOIN big ON q.k = big.id WHERE big.id < 3000', 29995);
SELECT * FROM xf.checked('SELECT id FROM placed WHERE NOT EXISTS (SELECT FROM (SELECT k FROM big GROUP BY k HAVING max(id) > 29000) q WHERE q.k = placed.k)');
SELECT exchanges, filtered FROM xf.checked('SELECT few.id, x.id AS b, q.s FROM few LEFT JOIN big x ON x.k = few.k AND x.t = few.t LEFT JOIN (SELECT k, t, sum(id) AS s FROM big GROUP BY k, t) q ON q.k = few.k AND q.t = few.t');
SET rdma_fdw.exchange_strategy = repartition_one;
SELECT * FROM xf.checked('SELECT few.id, q.s FROM few LEFT JOIN (SELECT k, sum(id) AS s FROM big GROUP BY k) q ON q.k = few.k');
SELECT * FROM xf.checked('SELECT few.id, q.s FROM few JOIN (SELECT k, sum(id) AS s FROM big GROUP BY k) q ON q.k = few.k WHERE q.s > few.id');
SELECT * FROM xf.checked('SELECT few.id, q.s FROM (SELECT k, sum(id) AS s FROM big GROUP BY k) q JOIN few ON q.k = few.k WHERE q.s > few.id');
SET rdma_fdw.exchange_strategy = auto;
-- not where the join keeps its rows, or a group has rows of other keys, or is not looked for by the key
SELECT exchanges FROM xf.checked('SELECT placed.id, q.s FROM placed RIGHT JOIN (SELECT k, sum(id) AS s FROM big GROUP BY k) q ON q.k = placed.k');
SELECT exchanges FROM xf.checked('SELECT placed.id, q.s FROM placed FULL JOIN (SELECT k, sum(id) AS s FROM big GROUP BY k) q ON q.k = placed.k');
SELECT exchanges FROM xf.checked('SELECT placed.id, q.s FROM placed LEFT JOIN (SELECT k, t, sum(id) AS s FROM big GROUP BY ROLLUP (k, t)) q ON q.k = placed.k');
SELECT exchanges FROM xf.checked('SELECT placed.id, q.s FROM placed JOIN (SELECT t, min(k) AS k, sum(id) AS s FROM big GROUP BY t) q ON q.k = placed.k');
SELECT exchanges FROM xf.checked('SELECT placed.id, q.s FROM placed LEFT JOIN (SELECT k, sum(id) AS s FROM big GROUP BY k ORDER BY k LIMIT 500) q ON q.k = placed.k');
SELECT exchanges FROM xf.checked('SELECT placed.id, q.s FROM placed LEFT JOIN (SELECT k, sum(count(*)) OVER () AS s FROM big GROUP BY k) q ON q.k = placed.k');
RESET rdma_fdw.disable;
SELECT * FROM xf.checked('SELECT placed.id, q.s FROM placed LEFT JOIN (SELECT k, sum(id) AS s FROM big GROUP BY k) q ON q.k = placed.k');
SET rdma_fdw.disable = exchange_filter_costs;
SET rdma_fdw.exchange_strategy = repartition_both;
-- keys of other types, several keys
SELECT * FROM xf.checked('SELECT few.id, big.id AS b FROM few JOIN big ON big.t = few.t');
SELECT * FROM xf.checked('SELECT few.id, big.id AS b FROM few LEFT JOIN big ON big.n = few.n');
SELECT * FROM xf.checked('SELECT few.id, big.id AS b FROM few JOIN big ON big.n = few.n AND big.t = few.t AND big.k = few.k');
SELECT * FROM xf.checked('SELECT few.id, big.id AS b FROM few JOIN big ON big.k IS NOT DISTINCT FROM few.k AND big.t = few.t');
-- nothing has partners, nothing is there, all are looked for
SELECT exchanges FROM xf.checked('SELECT big.id FROM none JOIN big ON big.k = none.k');
SELECT * FROM xf.checked('SELECT big.id FROM big WHERE NOT EXISTS (SELECT FROM none WHERE big.k = none.k)', 0);
SELECT exchanges FROM xf.checked('SELECT few.id, big.id AS b FROM few JOIN big ON big.k = few.k WHERE few.id < 0');
SELECT exchanges, filtered FROM xf.checked('SELECT count(*), sum(x.id) AS s FROM big x JOIN big y ON x.k = y.k');
-- nobody has a key: the other side is not read
SELECT * FROM xf.checked('SELECT few.id, big.id AS b FROM few JOIN big ON big.k = few.k WHERE few.id < 0', 0);
-- a table with conditions that drop less than the filter: it comes first, and what it drops is counted even if the conditions would have dropped it
SELECT exchanges, filtered, NOT "all" AS first FROM xf.checked('SELECT few.id, big.id AS b FROM few JOIN big ON big.k = few.k WHERE big.id % 10 > 0', 27000);
SELECT exchanges, filtered, NOT "all" AS first FROM xf.checked('SELECT few.id, big.id AS b FROM few JOIN big ON big.t = few.t WHERE big.id % 10 > 1', 24000);
SELECT exchanges, filtered, NOT "all" AS first FROM xf.checked('SELECT few.id, big.id AS b FROM few LEFT JOIN big ON big.n = few.n AND big.t = few.t AND big.id % 10 > 0', 27000);
SELECT exchanges, filtered, NOT "all" AS first FROM xf.checked('SELECT id FROM few WHERE NOT EXISTS (SELECT FROM big WHERE big.k = few.k AND big.id % 10 > 0)', 27000);
SELECT exchanges, filtered, NOT "all" AS first FROM xf.checked('SELECT x.id, y.id AS b FROM big x JOIN big y ON x.k = y.k WHERE x.id % 5 < 4 AND y.id % 10 = 0', 24000);
-- not before conditions that drop more, nor when few rows fulfil them
SELECT exchanges, filtered, NOT "all" AS first FROM xf.checked('SELECT x.id, y.id AS b FROM big x LEFT JOIN big y ON x.k = y.k AND y.id % 10 = 0 WHERE x.id % 3 = 0', 3000);
SELECT exchanges, filtered, NOT "all" AS first FROM xf.checked('SELECT few.id, big.id AS b FROM few LEFT JOIN big ON big.k = few.k AND big.id % 40 = 0', 750);
-- NOT IN keeps or drops all rows for one NULL
SELECT exchanges FROM xf.checked('SELECT id FROM big WHERE k NOT IN (SELECT k FROM few)');
SELECT exchanges FROM xf.checked('SELECT id FROM big WHERE k NOT IN (SELECT k FROM few WHERE k IS NOT NULL)');
SELECT exchanges FROM xf.checked('SELECT id FROM few WHERE (k IN (SELECT k FROM big)) IS NOT TRUE');
-- one side stays where it is, and is looked at for the other one's filter
SET rdma_fdw.exchange_strategy = repartition_one;
SELECT * FROM xf.checked('SELECT placed.id, big.id AS b FROM placed JOIN big ON big.k = placed.k');
SELECT * FROM xf.checked('SELECT placed.id, big.id AS b FROM placed LEFT JOIN big ON big.k = placed.k AND big.t = placed.t');
SELECT * FROM xf.checked('SELECT id FROM placed WHERE NOT EXISTS (SELECT FROM big WHERE big.k = placed.k)');
SELECT * FROM xf.checked('SELECT id FROM big WHERE EXISTS (SELECT FROM placed WHERE big.k = placed.k)');
SELECT exchanges FROM xf.checked('SELECT placed.id, big.id AS b FROM placed RIGHT JOIN big ON big.k = placed.k');
SELECT exchanges FROM xf.checked('SELECT placed.id, big.id AS b FROM placed FULL JOIN big ON big.k = placed.k');
RESET rdma_fdw.disable;
SELECT * FROM xf.checked('SELECT placed.id, big.id AS b FROM placed JOIN big ON big.k = placed.k');
SELECT exchanges FROM xf.checked('SELECT x.id FROM big x JOIN placed ON x.k = placed.k WHERE x.id < 20');
SET rdma_fdw.disable = exchange_filter_costs;
SET rdma_fdw.exchange_strategy = repartition_both;
-- filters of filtered rows, and in the input of another exchange
SELECT * FROM xf.checked('SELECT few.id, x.id AS b, y.id AS c FROM few JOIN big x ON x.k = few.k JOIN big y ON y.k = x.k AND y.id = x.id');
SELECT exchanges, filtered FROM xf.checked('SELECT f.id, q.n FROM few f JOIN (SELECT few.n AS g, count(*) AS n FROM few JOIN big ON big.k = few.k GROUP BY few.n) q ON q.g = f.n');
-- a key that most rows have
UPDATE xf.big SET k = 74 WHERE id % 2 = 0;
UPDATE xf_here.big SET k = 74 WHERE id % 2 = 0;
ANALYZE xf.big;
SELECT * FROM xf.checked('SELECT few.id, big.id AS b FROM few JOIN big ON big.k = few.k');
SELECT * FROM xf.checked('SELECT few.id, big.id AS b FROM few LEFT JOIN big ON big.k = few.k');
SELECT exchanges FROM xf.checked('SELECT id FROM big WHERE EXISTS (SELECT FROM few WHERE few.k = big.k)');
SELECT exchanges FROM xf.checked('SELECT id FROM big WHERE NOT EXISTS (SELECT FROM few WHERE few.k = big.k)');
SELECT exchanges FROM xf.checked('SELECT x.id FROM big x WHERE x.id < 9000 AND NOT EXISTS (SELECT FROM big y WHERE y.k = x.k AND y.id % 3 = 1)');
-- one that stops early, cursors, writes
SELECT count(*) FROM (SELECT few.id FROM xf.few JOIN xf.big ON big.k = few.k LIMIT 3) q;
BEGIN;
DECLARE c CURSOR FOR SELECT few.id FROM xf.few JOIN xf.big ON big.k = few.k;
MOVE 2 IN c;
CLOSE c;
UPDATE xf.few SET t = 'seen' FROM xf.big WHERE big.k = few.k AND few.k = 74;
SELECT count(*) FROM xf.few WHERE t = 'seen';
ROLLBACK;
-- workers, and readers that read again
SET rdma_fdw.disable = exchange_filter_costs;
\c contrib_regression postgres 127.0.0.1 :n1
ALTER DATABASE contrib_regression SET max_parallel_workers_per_gather = 2;
ALTER DATABASE contrib_regression SET parallel_setup_cost = 0;
ALTER DATABASE contrib_regression SET parallel_tuple_cost = 0;
ALTER DATABASE contrib_regression SET min_parallel_table_scan_size = 0;
\c contrib_regression postgres 127.0.0.1 :n2
ALTER DATABASE contrib_regression SET enable_hashjoin = off;
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
SET rdma_fdw.disable = exchange_filter_costs;
SET rdma_fdw.exchange_strategy = repartition_both;
SELECT * FROM xf.checked('SELECT count(*), sum(big.id) AS s FROM few JOIN big ON big.k = few.k');
SELECT * FROM xf.checked('SELECT count(*), sum(big.id) AS s FROM few LEFT JOIN big ON big.k = few.k');
-- of rows of one key only one moves
SELECT exchanges, filtered FROM xf.checked('SELECT id FROM few WHERE NOT EXISTS (SELECT FROM big WHERE big.k = few.k)');
\c contrib_regression postgres 127.0.0.1 :n1
ALTER DATABASE contrib_regression RESET max_parallel_workers_per_gather;
ALTER DATABASE contrib_regression RESET parallel_setup_cost;
ALTER DATABASE contrib_regression RESET parallel_tuple_cost;
ALTER DATABASE contrib_regression RESET min_parallel_table_scan_size;
\c contrib_regression postgres 127.0.0.1 :n2
ALTER DATABASE contrib_regression SET enable_hashjoin = off;
ALTER DATABASE contrib_regression SET enable_mergejoin = off;
ALTER DATABASE contrib_regression SET enable_material = off;
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
SET rdma_fdw.disable = exchange_filter_costs;
SET rdma_fdw.exchange_strategy = repartition_both;
SELECT * FROM xf.checked('SELECT few.id, big.id AS b FROM few JOIN big ON big.k = few.k WHERE big.id < 3000', 2999);
SELECT * FROM xf.checked('SELECT few.id, big.id AS b FROM few LEFT JOIN big ON big.k = few.k AND big.id < 3000', 2999);
\c contrib_regression postgres 127.0.0.1 :n2
ALTER DATABASE contrib_regression RESET enable_hashjoin;
ALTER DATABASE contrib_regression RESET enable_mergejoin;
ALTER DATABASE contrib_regression RESET enable_material;

\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA xf CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA xf CASCADE;
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = warning;
DROP SCHEMA xf, xf_here CASCADE;
DROP SERVER xf, xf1, xf2 CASCADE;
