-- A set of nodes grows: a third node is added, buckets are moved to it, and what reads and writes finds rows where they are. Either all
-- of a move is there or nothing. The third node is another database of the second one's cluster.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name rbl
\set third regress_rdma_third
\i :two_nodes
CREATE SCHEMA rbl_here;
RESET client_min_messages;
-- said(): errors without what differs from run to run
\set said :tree '/test/setup/said.sql'
\i :said
-- how many buckets each node has
CREATE FUNCTION spread() RETURNS text LANGUAGE sql AS $$
  SELECT string_agg(node || ' ' || count, ', ' ORDER BY place) FROM (SELECT n.place, n.node, count(b.b) FROM rdma.nodes('rbl') n LEFT JOIN unnest(rdma.buckets('rbl')) b ON b.b = n.place GROUP BY n.place, n.node) c $$;
\pset format unaligned
\t on

CREATE TABLE t (id integer PRIMARY KEY, x integer NOT NULL CHECK (x >= 0), twice integer GENERATED ALWAYS AS (x * 2) STORED, "a name" text COLLATE "C" DEFAULT 'new') WITH (fillfactor = 90);
CREATE INDEX ON t (lower("a name")) WHERE x > 3;
CREATE STATISTICS rbl_statistics ON id, x FROM t;
INSERT INTO t (id, x, "a name") SELECT i, i % 7, 't' || i FROM generate_series(1, 2000) i;
CREATE TABLE u AS SELECT i AS id, 2001 - i AS x, 'u' || i AS u FROM generate_series(1, 2000) i;
CREATE TABLE r AS SELECT i AS x, 'r' || i AS r FROM generate_series(0, 6) i;
CREATE TABLE rbl_here.t AS SELECT id, x, twice, "a name" FROM t;
CREATE TABLE rbl_here.u AS TABLE u;
CREATE TABLE rbl_here.r AS TABLE r;
SELECT rdma.distribute_table('t', 'rbl', 'id'), rdma.distribute_table('u', 'rbl', 'id'), rdma.distribute_table('r', 'rbl', replicated => true);
CREATE FUNCTION same(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE here numeric; there numeric;
BEGIN
  EXECUTE 'SELECT sum(hashtextextended(q::text, 0)) FROM (' || query || ') q' INTO there;
  PERFORM set_config('search_path', 'rbl_here', true);
  EXECUTE 'SELECT sum(hashtextextended(q::text, 0)) FROM (' || query || ') q' INTO here;
  PERFORM set_config('search_path', 'rbl', true);
  RETURN here IS NOT DISTINCT FROM there;
END $$;
CREATE FUNCTION all_right() RETURNS text LANGUAGE sql AS $$
  SELECT concat_ws(' ', same('SELECT * FROM t'), same('SELECT t.id, u.u FROM t JOIN u USING (id)'), same('SELECT t.id, u.u FROM t JOIN u ON u.x = t.id'),
    same('SELECT r.r, count(*) FROM t JOIN r USING (x) GROUP BY r.r'), same('SELECT x.* FROM generate_series(1, 2100, 7) g, LATERAL (SELECT * FROM t WHERE t.id = g OFFSET 0) x'),
    (SELECT sum(misplaced) FROM rdma.check_distribution('t')), (SELECT sum(misplaced) FROM rdma.check_distribution('u')), (SELECT bool_or(differs) FROM rdma.check_distribution('r'))) $$;
SELECT spread(), all_right();
-- a statement that is prepared now is right later
SET plan_cache_mode = force_generic_plan;
PREPARE one(int) AS SELECT "a name" FROM t WHERE id = $1;
PREPARE everything AS SELECT count(*), count(DISTINCT id), sum(x) FROM t JOIN u USING (id, x);
PREPARE everywhere AS SELECT sum(x) FROM t;
EXECUTE one(7);
EXECUTE everywhere;

-- a node that is none yet
SELECT said($$SELECT rdma.add_node('rbl', 'rbl2')$$);
SELECT said($$SELECT rdma.add_node('rbl1', 'rbl2')$$);
SELECT said($$SELECT rdma.add_node('rbl', 'rbl4')$$);
CREATE SERVER rbl_again FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host '127.0.0.1', port :'n2', dbname 'contrib_regression');
CREATE USER MAPPING FOR CURRENT_USER SERVER rbl_again OPTIONS (user 'postgres');
SELECT said($$SELECT rdma.add_node('rbl', 'rbl_again')$$);
DROP SERVER rbl_again CASCADE;
BEGIN;
SELECT rdma.add_node('rbl', 'rbl 3');
SELECT spread(), all_right();
ROLLBACK;
SELECT spread(), all_right();
SELECT rdma.add_node('rbl', 'rbl 3');
SELECT option_value FROM pg_foreign_server, pg_options_to_table(srvoptions) WHERE srvname = 'rbl';
SELECT spread(), all_right();
SELECT node, rows, misplaced, differs FROM rdma.check_distribution('r');
-- what was created there is what the first node has, and belongs to nobody yet
SELECT rdma_internal.ask_node('rbl 3', $$SELECT rdma_internal.table_statements('rbl.t') || rdma_internal.index_statements('rbl.t')$$, NULL::text[]) = rdma_internal.ask_node('rbl1', $$SELECT rdma_internal.table_statements('rbl.t') || rdma_internal.index_statements('rbl.t')$$, NULL::text[]);
SELECT statement FROM unnest(rdma_internal.ask_node('rbl 3', $$SELECT rdma_internal.table_statements('rbl.t') || rdma_internal.index_statements('rbl.t')$$, NULL::text[])) statement;
SELECT said($$SELECT rdma.run_on('rbl 3', 'INSERT INTO rbl.t VALUES (1, 1)')$$);
EXECUTE one(7);

-- a move
SELECT said($$SELECT rdma.move_buckets('rbl', 'rbl1', 'rbl2', '{1}')$$);
SELECT said($$SELECT rdma.move_buckets('rbl', 'rbl1', 'rbl1', '{0}')$$);
SELECT said($$SELECT rdma.move_buckets('rbl', 'rbl1', 'rbl 3', '{840}')$$);
BEGIN;
SELECT count(*) FROM r;
SELECT said($$SELECT rdma.move_buckets('rbl', 'rbl1', 'rbl 3', '{0}')$$);
ROLLBACK;
BEGIN;
SELECT rdma.move_buckets('rbl', 'rbl1', 'rbl 3', ARRAY(SELECT generate_series(0, 100, 2))) > 0;
SELECT spread(), all_right();
ROLLBACK;
SELECT spread(), all_right();
SELECT count(DISTINCT v) FROM rdma.placement, unnest(versions) v WHERE server = 'rbl';
SELECT rdma.move_buckets('rbl', 'rbl1', 'rbl 3', ARRAY(SELECT generate_series(0, 100, 2))) > 0;
SELECT rdma.move_buckets('rbl', 'rbl2', 'rbl 3', ARRAY(SELECT generate_series(1, 100, 2))) > 0;
SELECT spread(), all_right();
SELECT node, rows > 0, misplaced FROM rdma.check_distribution('t');
SELECT versions[1] < versions[2], versions[2] = versions[3], version = versions[3] FROM rdma.placement WHERE server = 'rbl';
EXECUTE one(7);
EXECUTE everything;
EXECUTE everywhere;
SELECT count(*) FILTER (WHERE "a name" = 't' || g) FROM generate_series(1, 2000) g, LATERAL (SELECT * FROM t WHERE t.id = g OFFSET 0) x;
-- writes go where the rows are, and rows of others are refused there
INSERT INTO t (id, x, "a name") SELECT i, 3, 'new' FROM generate_series(2001, 2100) i;
INSERT INTO rbl_here.t SELECT i, 3, 6, 'new' FROM generate_series(2001, 2100) i;
UPDATE t SET "a name" = u.u FROM u WHERE u.x = t.id AND t.id % 2 = 0;
UPDATE rbl_here.t SET "a name" = u.u FROM rbl_here.u WHERE u.x = t.id AND t.id % 2 = 0;
DELETE FROM t WHERE id % 10 = 3;
DELETE FROM rbl_here.t WHERE id % 10 = 3;
UPDATE r SET r = r || '+' WHERE x = 2;
UPDATE rbl_here.r SET r = r || '+' WHERE x = 2;
SELECT all_right();
SELECT said($$SELECT rdma.run_on('rbl1', format('INSERT INTO rbl.t (id, x) SELECT i, 1 FROM generate_series(5000, 6000) i WHERE rdma.hash_node(840, i) = 0'))$$);

-- triggers of a node, and foreign keys, do not notice; a table that nobody has proven is not moved
SELECT count(*) FROM rdma.run_on('rbl', 'ALTER TABLE rbl.u ADD PRIMARY KEY (id)');
SELECT count(*) FROM rdma.run_on('rbl', 'DELETE FROM rbl.u WHERE id % 10 = 3; ALTER TABLE rbl.t ADD FOREIGN KEY (id) REFERENCES rbl.u ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED NOT VALID');
DELETE FROM rbl_here.u WHERE id % 10 = 3;
SELECT count(*) FROM rdma.run_on('rbl', $$CREATE FUNCTION rbl.fail() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION $e$a trigger runs$e$; END'$$);
SELECT count(*) FROM rdma.run_on('rbl', 'CREATE TRIGGER fail BEFORE INSERT OR DELETE ON rbl.u FOR EACH ROW EXECUTE FUNCTION rbl.fail()');
SELECT count(*) FROM (VALUES (ARRAY['the "one"; --', 'ENABLE ALWAYS']), (ARRAY['replica', 'ENABLE REPLICA']), (ARRAY['off', 'DISABLE'])) v(t), rdma.run_on('rbl', format('CREATE TRIGGER %I BEFORE UPDATE ON rbl.u FOR EACH ROW EXECUTE FUNCTION rbl.fail(); ALTER TABLE rbl.u %s TRIGGER %I', t[1], t[2], t[1])) r;
DELETE FROM t WHERE id > 2000;
DELETE FROM rbl_here.t WHERE id > 2000;
SELECT rdma.move_buckets('rbl', 'rbl 3', 'rbl2', ARRAY(SELECT generate_series(1, 50, 2))) > 0;
SELECT spread(), all_right();
SELECT DISTINCT answer FROM rdma.run_on('rbl', $$SELECT string_agg(format('%s %s', tgname, tgenabled), ', ' ORDER BY tgname COLLATE "C") FROM pg_trigger WHERE tgrelid = 'rbl.u'::regclass AND NOT tgisinternal$$);
SELECT count(*) FROM unnest(ARRAY['the "one"; --', 'replica', 'off']) t, rdma.run_on('rbl', format('DROP TRIGGER %I ON rbl.u', t)) r;
SELECT said('DELETE FROM u WHERE id = 5');
SELECT count(*) FROM rdma.run_on('rbl', 'DROP TRIGGER fail ON rbl.u');
SELECT count(*) FROM rdma.run_on('rbl2', 'ALTER TABLE rbl.u DROP CONSTRAINT rdma_placement');
SELECT said($$SELECT rdma.move_buckets('rbl', 'rbl 3', 'rbl2', '{51}')$$);
SELECT rdma.protect_table('u');
SELECT rdma.move_buckets('rbl', 'rbl 3', 'rbl2', '{51}') >= 0;
SELECT spread(), all_right();

-- a transaction that has an older snapshot on a node: it is told, or is right
\c
SET search_path = rbl;
CREATE FOREIGN TABLE other (x integer) SERVER rbl1 OPTIONS (schema_name 'rbl', table_name 'r');
\getenv coord RF_COORD_PORT
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM other;
\setenv PGPORT :coord
\! psql -X -q -h 127.0.0.1 -U postgres -d contrib_regression -c "DO \$\$ BEGIN PERFORM rdma.move_buckets('rbl', 'rbl1', 'rbl2', '{200,202}'); END \$\$"
SELECT said('SELECT count(*) FROM t');
SELECT said('SELECT count(*) FROM u WHERE id = 5');
ROLLBACK;
SELECT spread(), all_right();

SET client_min_messages = warning;
DROP SERVER rbl1, rbl2, "rbl 3", rbl CASCADE;
DROP SCHEMA rbl, rbl_here CASCADE;
\getenv n1 RF_N1_PORT
\getenv n2 RF_N2_PORT
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA rbl CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA rbl CASCADE;
DROP DATABASE regress_rdma_third WITH (FORCE);
