-- Rows lie where their buckets do, and what reads, writes, moves and counts them asks the map: here the second node has one bucket of
-- ten, the first one the others.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name bkt
\i :two_nodes
CREATE SCHEMA bkt_here;
RESET client_min_messages;
\pset format unaligned
\t on

-- a new map is even, and says what the remainder by the number of nodes does, whatever that is
SELECT cardinality(rdma.buckets('bkt')), (SELECT bool_and(number = (place - 1) % 2) FROM unnest(rdma.buckets('bkt')) WITH ORDINALITY b(number, place));
SELECT rdma.buckets('bkt1') IS NULL;
CREATE SERVER bkt_eleven FOREIGN DATA WRAPPER rdma_fdw OPTIONS (nodes 'a, b, c, d, e, f, g, h, i, j, k');
SELECT cardinality(buckets), cardinality(buckets) % 11, (SELECT count(DISTINCT count) FROM (SELECT count(*) FROM unnest(buckets) b GROUP BY b) c) FROM rdma.placement WHERE server = 'bkt_eleven';
DROP SERVER bkt_eleven;

UPDATE rdma.placement SET buckets = ARRAY(SELECT (b % 10 = 3)::integer FROM generate_series(0, 839) b ORDER BY b) WHERE server = 'bkt';
CREATE TABLE t AS SELECT i AS id, i % 7 AS x, 't' || i AS t FROM generate_series(1, 2000) i;
CREATE TABLE u AS SELECT i AS id, 2001 - i AS x, 'u' || i AS u FROM generate_series(1, 2000) i;
CREATE TABLE v AS SELECT i::bigint AS id, 2001 - i AS x FROM generate_series(1, 2000) i;
CREATE TABLE bkt_here.t AS TABLE t;
CREATE TABLE bkt_here.u AS TABLE u;
CREATE TABLE bkt_here.v AS TABLE v;
SELECT rdma.distribute_table('t', 'bkt', 'id'), rdma.distribute_table('u', 'bkt', 'id'), rdma.distribute_table('v', 'bkt', 'x');
SELECT node, rows, misplaced FROM rdma.check_distribution('t');
SELECT node, rows BETWEEN 100 AND 1900 AS some, misplaced FROM rdma.check_distribution('v');

-- one node is asked, and it is the right one
EXPLAIN (COSTS OFF) SELECT t FROM t WHERE id = 7;
SELECT count(*), count(*) FILTER (WHERE x.t = 't' || g) FROM generate_series(1, 2000) g, LATERAL (SELECT t FROM t WHERE t.id = g OFFSET 0) x;

-- joins by every way of meeting
CREATE FUNCTION same(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE here numeric; there numeric; line text; how text;
BEGIN
  EXECUTE 'SELECT sum(hashtextextended(q::text, 0)) FROM (' || query || ') q' INTO there;
  PERFORM set_config('search_path', 'bkt_here', true);
  EXECUTE 'SELECT sum(hashtextextended(q::text, 0)) FROM (' || query || ') q' INTO here;
  PERFORM set_config('search_path', 'bkt', true);
  FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
    IF line ~ '^ *Strategy' AND current_setting('rdma_fdw.exchange_strategy') <> 'auto' THEN how := trim(line); END IF;
  END LOOP;
  RETURN concat_ws(', ', how, here IS NOT DISTINCT FROM there);
END $$;
SELECT same('SELECT t.id, u.u FROM t JOIN u USING (id)');
SET rdma_fdw.exchange_strategy = repartition_one;
SELECT same('SELECT t.id, u.u FROM t JOIN u ON u.x = t.id');
SELECT same('SELECT t.id, v.x FROM t JOIN v ON v.id = t.id');
SELECT same('SELECT t.id, v.x FROM t JOIN v ON v.x = t.id');
SELECT same('SELECT t.id, u.u, v.id FROM t JOIN u ON u.x = t.id LEFT JOIN v ON v.id = u.id');
SET rdma_fdw.exchange_strategy = repartition_both;
SELECT same('SELECT t.id, u.u FROM t JOIN u ON u.x = t.x');
SELECT same('SELECT t.id, v.x FROM t JOIN v ON v.id = t.id');
SET rdma_fdw.exchange_strategy = replicate;
SELECT same('SELECT t.id, u.u FROM t JOIN u ON u.x = t.id');
RESET rdma_fdw.exchange_strategy;
SELECT same('SELECT id, x FROM u EXCEPT SELECT x, id::integer FROM v WHERE id % 3 = 0');
SELECT same('SELECT x, count(*) AS n FROM t GROUP BY x');

-- writes
INSERT INTO t SELECT i, 0, 'new' FROM generate_series(2001, 3000) i;
COPY t FROM stdin;
3001	0	copied
3002	0	copied
3003	0	copied
3004	0	copied
\.
UPDATE t SET t = u.u FROM u WHERE u.x = t.id AND t.id % 2 = 0;
DELETE FROM t WHERE id IN (SELECT x FROM u WHERE id % 3 = 0);
INSERT INTO bkt_here.t SELECT i, 0, 'new' FROM generate_series(2001, 3000) i;
INSERT INTO bkt_here.t SELECT i, 0, 'copied' FROM generate_series(3001, 3004) i;
UPDATE bkt_here.t SET t = u.u FROM bkt_here.u WHERE u.x = t.id AND t.id % 2 = 0;
DELETE FROM bkt_here.t WHERE id IN (SELECT x FROM bkt_here.u WHERE id % 3 = 0);
SELECT same('SELECT * FROM t');
UPDATE t SET t = 'one' WHERE id = 3003;
SELECT t FROM t WHERE id = 3003;
SELECT node, rows, misplaced FROM rdma.check_distribution('t');

-- a record that is older than a move, as that of a coordinator which was restored from a dump: the map is read back from the nodes
CREATE TABLE bkt_here.old AS SELECT * FROM rdma.placement WHERE server = 'bkt';
SELECT rdma.move_buckets('bkt', 'bkt1', 'bkt2', '{0,1,2}') > 0;
CREATE TABLE bkt_here.new AS SELECT * FROM rdma.placement WHERE server = 'bkt';
UPDATE rdma.placement p SET buckets = o.buckets, version = o.version, versions = o.versions FROM bkt_here.old o WHERE p.server = 'bkt';
\set SHOW_CONTEXT never
SELECT count(*) FROM rdma.disconnect_all();
SELECT count(*) FROM t;
SELECT rdma.replace_node('bkt', 'bkt2');
SELECT rdma.read_placement('bkt');
SELECT p.buckets = n.buckets, p.versions = n.versions, p.version = n.version, p.members = n.members FROM rdma.placement p, bkt_here.new n WHERE p.server = 'bkt';
SELECT count(*) FROM bkt_here.t h WHERE (SELECT count(*) FROM t WHERE t.id = h.id) <> 1;
-- a node that is older: it has to be recovered further
UPDATE rdma.placement SET versions[2] = version + 1 WHERE server = 'bkt';
SELECT count(*) FROM rdma.disconnect_all();
SELECT count(*) FROM t;
UPDATE rdma.placement p SET versions = n.versions FROM bkt_here.new n WHERE p.server = 'bkt';
-- what nodes say has to fit
SELECT count(*) FROM rdma.run_on('bkt2', 'ALTER TABLE bkt.t DROP CONSTRAINT rdma_placement; ALTER TABLE bkt.t ADD CONSTRAINT rdma_placement CHECK ((''{0,1}''::smallint[])[rdma.hash_node(2, id) + 1] = 1) NOT VALID');
SELECT rdma.read_placement('bkt');
SELECT count(*) FROM rdma.run_on('bkt2', 'ALTER TABLE bkt.t DROP CONSTRAINT rdma_placement; ALTER TABLE bkt.t ADD CONSTRAINT rdma_placement CHECK (id > 0) NOT VALID');
SELECT rdma.read_placement('bkt');
SELECT rdma.protect_table('t');
SELECT rdma.read_placement('bkt');
SELECT count(*) FROM bkt_here.t h WHERE (SELECT count(*) FROM t WHERE t.id = h.id) <> 1;

-- invalid maps
BEGIN;
UPDATE rdma.placement SET buckets = '{0,2}' WHERE server = 'bkt';
SELECT count(*) FROM t;
ROLLBACK;
BEGIN;
UPDATE rdma.placement SET buckets = '{}' WHERE server = 'bkt';
SELECT count(*) FROM t;
ROLLBACK;
SELECT * FROM rdma_internal.exchange('number=1 kind=repartition keys=1 map=0,1.5', 'SELECT 1') AS x(a int);
SELECT * FROM rdma_internal.exchange('number=1 kind=replicate map=0', 'SELECT 1') AS x(a int);

SET client_min_messages = warning;
DROP SERVER bkt1, bkt2, bkt CASCADE;
DROP SCHEMA bkt, bkt_here CASCADE;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA bkt CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA bkt CASCADE;
