-- A set of nodes is rebalanced, a node of it drained and removed: rows are found by everybody all the time, also where numbers of nodes
-- change, and what is in use is not removed. The third node is another database of the second one's cluster.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name drn
\set third regress_rdma_drain
\i :two_nodes
CREATE SCHEMA drn_here;
RESET client_min_messages;
-- said(): errors without what differs from run to run
\set said :tree '/test/setup/said.sql'
\i :said
-- how many buckets each node has
CREATE FUNCTION spread() RETURNS text LANGUAGE sql AS $$
  SELECT string_agg(node || ' ' || count, ', ' ORDER BY place) FROM (SELECT n.place, n.node, count(b.b) FROM rdma.nodes('drn') n LEFT JOIN unnest(rdma.buckets('drn')) b ON b.b = n.place GROUP BY n.place, n.node) c $$;
\pset format unaligned
\t on

CREATE TABLE t AS SELECT i AS id, i % 7 AS x, 't' || i AS t FROM generate_series(1, 2000) i;
CREATE TABLE u AS SELECT i AS id, 2001 - i AS x, 'u' || i AS u FROM generate_series(1, 2000) i;
CREATE TABLE r AS SELECT i AS x, 'r' || i AS r FROM generate_series(0, 6) i;
SELECT rdma.distribute_table('t', 'drn', 'id'), rdma.distribute_table('u', 'drn', 'x'), rdma.distribute_table('r', 'drn', replicated => true);
CREATE FUNCTION all_right() RETURNS text LANGUAGE sql AS $$
  SELECT concat_ws(' ', (SELECT count(*) || ' ' || sum(id) FROM t), (SELECT count(*) FROM t JOIN u USING (id)), (SELECT count(*) FROM t JOIN u ON u.x = t.id), (SELECT count(*) FROM t JOIN r USING (x)),
    (SELECT count(*) FROM generate_series(1, 2100, 7) g, LATERAL (SELECT * FROM t WHERE t.id = g OFFSET 0) x),
    (SELECT sum(misplaced) FROM rdma.check_distribution('t')), (SELECT sum(misplaced) FROM rdma.check_distribution('u')), (SELECT bool_or(differs) FROM rdma.check_distribution('r'))) $$;
SET plan_cache_mode = force_generic_plan;
PREPARE one(int) AS SELECT t FROM t WHERE id = $1;
EXECUTE one(7);
SELECT spread(), all_right();
-- nothing to do
CALL rdma.rebalance('drn');
SELECT source, target, moved FROM rdma_internal.next_move('drn', NULL, 10);
SELECT rdma.add_node('drn', 'drn 3');
SELECT source, target, cardinality(moved), moved[1 : 3] FROM rdma_internal.next_move('drn', NULL, 1000);
SELECT source, target, cardinality(moved) FROM rdma_internal.next_move('drn', NULL, 10);
SELECT source, target, cardinality(moved) FROM rdma_internal.next_move('drn', 'drn1', 1000);
SELECT rdma_internal.move_size('drn', 'drn1', 10, '2 s', 300), rdma_internal.move_size('drn', 'drn1', 10, '30 ms', 300), rdma_internal.move_size('drn', 'drn1', 1, '9 s', 300), rdma_internal.move_size('drn', 'drn1', NULL, NULL, 300) > 1;
SELECT said($$SELECT rdma_internal.next_move('drn', 'drn4', 1)$$);
SELECT said($$SELECT rdma_internal.next_move('drn1', NULL, 1)$$);

-- the mover commits by itself, so a transaction block is no place for it
BEGIN;
CALL rdma.rebalance('drn');
ROLLBACK;
CALL rdma.rebalance('drn', rest => 0);
SELECT spread(), all_right();
EXECUTE one(7);
INSERT INTO t SELECT i, 1, 'new' FROM generate_series(2001, 2100) i;
SELECT said($$SELECT rdma.remove_node('drn', 'drn1')$$);
SELECT said($$SELECT rdma.remove_node('drn', 'drn4')$$);
SELECT said($$SELECT rdma.remove_node('drn1', 'drn1')$$);

CALL rdma.drain_node('drn', 'drn1', rest => 0);
SELECT spread(), all_right();
EXECUTE one(7);
SELECT node, rows > 0 FROM rdma.check_distribution('t');
-- rows that lie anywhere stay, so the node does
SELECT count(*) FROM rdma.run_on('drn', 'CREATE TABLE drn.anywhere (id integer)');
CREATE FOREIGN TABLE anywhere (id integer) SERVER drn;
SELECT count(*) FROM rdma.run_on('drn1', 'INSERT INTO drn.anywhere VALUES (1)');
SELECT said($$SELECT rdma.remove_node('drn', 'drn1')$$);
SELECT count(*) FROM rdma.run_on('drn1', 'TRUNCATE drn.anywhere');
BEGIN;
SELECT rdma.remove_node('drn', 'drn1');
SELECT spread(), all_right();
ROLLBACK;
SELECT spread(), all_right();
SELECT rdma.remove_node('drn', 'drn1');
SELECT option_value FROM pg_foreign_server, pg_options_to_table(srvoptions) WHERE srvname = 'drn';
SELECT spread(), all_right();
EXECUTE one(7);
UPDATE t SET x = 2 WHERE id > 2000;
UPDATE r SET r = r || '+';
SELECT spread(), all_right();
-- the database is free to become a node again, once its copies are gone
SELECT rdma_internal.ask_node('drn1', format('SELECT count(*) FROM rdma.membership m WHERE m.set_id = %L', set_id), NULL::text) FROM rdma.placement WHERE server = 'drn';
SELECT said($$SELECT rdma.add_node('drn', 'drn1')$$);
SELECT count(*) FROM rdma.run_on('drn1', 'DROP TABLE drn.r');
SELECT rdma.add_node('drn', 'drn1');
CALL rdma.rebalance('drn', rest => 0);
SELECT spread(), all_right();
CALL rdma.drain_node('drn', 'drn1', rest => 0);
CALL rdma.drain_node('drn', 'drn 3', rest => 0);
SELECT spread(), all_right();

-- a large table has an index on the bucket as long as rows move; what is left of an earlier one, which is not valid, goes
SELECT count(*) FROM rdma.run_on('drn2', $$CREATE TABLE drn.commands (number serial, tag text);
  CREATE FUNCTION drn.note() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO drn.commands (tag) VALUES (tg_tag); END';
  CREATE EVENT TRIGGER drn_commands ON ddl_command_end WHEN TAG IN ('CREATE INDEX', 'DROP INDEX') EXECUTE FUNCTION drn.note()$$);
CREATE TABLE w AS SELECT i AS id, repeat('w', 400) AS "W" FROM generate_series(1, 1500) i;
SELECT rdma.distribute_table('w', 'drn', 'id');
CREATE FUNCTION buckets_of(name) RETURNS SETOF integer LANGUAGE sql AS $$
  SELECT number::integer - 1 FROM unnest(rdma.buckets('drn')) WITH ORDINALITY b(place, number) JOIN rdma.nodes('drn') n USING (place) WHERE n.node = $1 ORDER BY 1 $$;
SELECT rdma.move_buckets('drn', 'drn2', 'drn1', ARRAY(SELECT buckets_of('drn2') OFFSET 3)) > 0;
SELECT relation, missing, made, same, expression FROM rdma_internal.bucket_indexes('drn') WHERE node = 'drn2' ORDER BY 1;
SELECT status, regexp_replace(value, '\d+ kB', 'N kB'), fix FROM rdma.check('drn') WHERE item = 'bucket index';
CALL rdma.drain_node('drn', 'drn2', goal => 1, rest => 0);
SELECT answer FROM rdma.run_on('drn2', 'SELECT string_agg(tag, '', '' ORDER BY number) FROM drn.commands');
SELECT missing, made FROM rdma_internal.bucket_indexes('drn') WHERE relation = 'drn.w' AND node = 'drn2';
SELECT rdma.move_buckets('drn', 'drn1', 'drn2', ARRAY(SELECT buckets_of('drn1') LIMIT 2)) > 0;
SELECT count(*) FROM rdma.run_on('drn2', $$DO 'BEGIN EXECUTE format(''CREATE INDEX rdma_bucket_%s ON drn.w (rdma.hash_node(840, id))'', ''drn.w''::regclass::oid); END'$$);
SELECT count(*) FROM rdma.run_on('drn2', $$UPDATE pg_index SET indisvalid = false WHERE indexrelid::regclass::text ~ 'rdma_bucket'$$);
SELECT missing, made ~ '^drn.rdma_bucket_\d+$' AS made FROM rdma_internal.bucket_indexes('drn') WHERE relation = 'drn.w' AND node = 'drn2';
SELECT count(*) FROM rdma.run_on('drn2', 'TRUNCATE drn.commands');
CALL rdma.drain_node('drn', 'drn2', goal => 1, rest => 0);
SELECT answer FROM rdma.run_on('drn2', 'SELECT string_agg(tag, '', '' ORDER BY number) FROM drn.commands');
-- one that somebody made stays
SELECT count(*) FROM unnest('{t,u,w}'::text[]) t, rdma.run_on('drn', format('CREATE INDEX CONCURRENTLY ON drn.%s (rdma.hash_node(840, %s))', t, CASE t WHEN 'u' THEN 'x' ELSE 'id' END));
SELECT status, value FROM rdma.check('drn') WHERE item = 'bucket index';
SELECT rdma.move_buckets('drn', 'drn1', 'drn2', ARRAY(SELECT buckets_of('drn1') LIMIT 2)) > 0;
SELECT count(*) FROM rdma.run_on('drn2', 'TRUNCATE drn.commands');
CALL rdma.drain_node('drn', 'drn2', goal => 1, rest => 0);
SELECT answer FROM rdma.run_on('drn2', 'SELECT string_agg(tag, '', '' ORDER BY number) FROM drn.commands');
SELECT count(*), count(DISTINCT id) FROM w;
SELECT sum(misplaced) FROM rdma.check_distribution('w');

-- only the owner
CREATE ROLE regress_rdma_mover;
GRANT USAGE ON SCHEMA drn TO regress_rdma_mover;
GRANT USAGE ON FOREIGN SERVER drn, drn1, drn2, "drn 3" TO regress_rdma_mover;
SET ROLE regress_rdma_mover;
SELECT said($$SELECT rdma.move_buckets('drn', 'drn1', 'drn2', '{0}')$$);
SELECT said($$SELECT rdma_internal.change_placement('drn', '{drn1}', '{0}')$$);
SELECT said($$SELECT rdma.remove_node('drn', 'drn1')$$);
RESET ROLE;

SET client_min_messages = warning;
DROP SERVER drn1, drn2, "drn 3", drn CASCADE;
DROP SCHEMA drn, drn_here CASCADE;
DROP OWNED BY regress_rdma_mover;
DROP ROLE regress_rdma_mover;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA drn CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP EVENT TRIGGER drn_commands;
DROP SCHEMA drn CASCADE;
DROP DATABASE regress_rdma_drain WITH (FORCE);
