-- Partitioned tables on the nodes: rdma.distribute_table makes them there with their partitions, and a foreign table here; they take
-- writes, moves, new nodes and new partitions as others do, and come back partitioned. The third node is another database of the
-- second one's cluster.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name ptn
\set third regress_rdma_partitioned
\i :two_nodes
CREATE SCHEMA ptn_here;
CREATE SCHEMA "ptn Parts";
RESET client_min_messages;
-- said(): errors without what differs from run to run
\set said :tree '/test/setup/said.sql'
\i :said
\set SHOW_CONTEXT never
\pset format unaligned
\t on

-- bounds do not depend on how this session writes dates
SET datestyle = 'SQL, DMY';
CREATE TABLE kinds (kind text PRIMARY KEY);
INSERT INTO kinds VALUES ('a'), ('b'), ('c''d');
CREATE TABLE "E t" (id serial, day date NOT NULL, kind text REFERENCES kinds, gone int, amount numeric CHECK (amount >= 0), PRIMARY KEY (day, id, kind)) PARTITION BY RANGE (day);
ALTER TABLE "E t" DROP COLUMN gone;
CREATE TABLE "ptn Parts".y2020 PARTITION OF "E t" FOR VALUES FROM (MINVALUE) TO ('2021-01-02') WITH (fillfactor = 70);
CREATE TABLE y2021 PARTITION OF "E t" FOR VALUES FROM ('2021-01-02') TO ('2022-02-01') PARTITION BY LIST (kind);
CREATE TABLE "y2021 a" PARTITION OF y2021 (CONSTRAINT own CHECK (amount < 1000000)) FOR VALUES IN ('a', 'b') PARTITION BY HASH (id, kind);
CREATE TABLE h0 PARTITION OF "y2021 a" FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE h1 PARTITION OF "y2021 a" FOR VALUES WITH (MODULUS 2, REMAINDER 1) WITH (autovacuum_enabled = off, toast.autovacuum_enabled = off);
CREATE TABLE y2021_rest PARTITION OF y2021 DEFAULT;
CREATE TABLE rest (other int, id int NOT NULL, amount numeric CONSTRAINT "E t_amount_check" CHECK (amount >= 0), day date NOT NULL, kind text NOT NULL);
ALTER TABLE rest DROP COLUMN other;
ALTER TABLE "E t" ATTACH PARTITION rest DEFAULT;
ALTER TABLE rest ALTER kind SET STORAGE external, ALTER amount SET STATISTICS 77;
CREATE INDEX "by kind" ON "E t" (lower(kind), id);
CREATE UNIQUE INDEX once ON "E t" (id, day, kind, (amount + 1));
CREATE INDEX own_index ON "ptn Parts".y2020 (amount DESC);
CREATE STATISTICS of_all ON kind, amount FROM "E t";
CREATE STATISTICS "ptn Parts".of_part ON kind, amount FROM "ptn Parts".y2020;
COMMENT ON TABLE "E t" IS 'all';
COMMENT ON TABLE rest IS 'the rest';
INSERT INTO "E t" (day, kind, amount) SELECT date '2020-01-01' + i % 1200, (ARRAY['a', 'b', 'c''d'])[1 + i % 3], i % 100 FROM generate_series(1, 6000) i;
CREATE TABLE ptn_here."E t" AS TABLE "E t";
ALTER TABLE ptn_here."E t" ALTER id SET DEFAULT 0;
CREATE FUNCTION differences() RETURNS text LANGUAGE sql AS $$
  SELECT concat_ws(' ', count(*), (SELECT sum(misplaced) FROM rdma.check_distribution('"E t"')), (SELECT bool_or(differs) FROM rdma.check_distribution('"E t"')), (SELECT count(*) FROM "E t")) FROM ((SELECT id, day, kind, amount FROM "E t" EXCEPT ALL SELECT id, day, kind, amount FROM ptn_here."E t")
    UNION ALL (SELECT id, day, kind, amount FROM ptn_here."E t" EXCEPT ALL SELECT id, day, kind, amount FROM "E t")) d $$;
-- what a table is, here or on a node
SELECT $q$
  SELECT string_agg(concat_ws(' | ', t.relid::regclass, t.parentrelid::regclass, t.level, c.relkind, pg_get_expr(c.relpartbound, c.oid), pg_get_partkeydef(CASE WHEN c.relkind = 'p' THEN c.oid END), c.reloptions, (SELECT reloptions FROM pg_class x WHERE x.oid = c.reltoastrelid),
      (SELECT string_agg(concat_ws(' ', attname, attnotnull, attstorage, NULLIF(attstattarget, -1)), ', ' ORDER BY attname) FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped),
      (SELECT string_agg(conname || ' ' || pg_get_constraintdef(oid), ', ' ORDER BY conname) FROM pg_constraint WHERE conrelid = c.oid AND contype <> 'n' AND conname <> 'rdma_placement' AND (contype <> 'f' OR conparentid = 0)),
      (SELECT string_agg(pg_get_indexdef(indexrelid), ', ' ORDER BY indexrelid::regclass::text) FROM pg_index WHERE indrelid = c.oid),
      (SELECT string_agg(pg_get_statisticsobjdef(oid), ', ' ORDER BY stxname) FROM pg_statistic_ext WHERE stxrelid = c.oid), obj_description(c.oid, 'pg_class')), E'\n' ORDER BY t.relid::regclass::text COLLATE "C")
    FROM pg_partition_tree('ptn."E t"') t JOIN pg_class c ON c.oid = t.relid
$q$ AS described \gset
CREATE TABLE ptn_here.was AS SELECT * FROM regexp_split_to_table((:described), E'\n') line;
SELECT line FROM ptn_here.was;
RESET datestyle;
UPDATE ptn_here.was SET line = replace(replace(line, '''02/01/2021''', '''2021-01-02'''), '''01/02/2022''', '''2022-02-01''');

-- what it refuses
SELECT said($$SELECT rdma.distribute_table('y2021', 'ptn', 'id')$$);
SELECT said($$SELECT rdma.distribute_table('"E t"', 'ptn', 'amount')$$);
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER there BEFORE INSERT ON h0 FOR EACH STATEMENT EXECUTE FUNCTION nothing();
SELECT said($$SELECT rdma.distribute_table('"E t"', 'ptn', 'id')$$);
DROP TRIGGER there ON h0;
ALTER TABLE h1 ENABLE ROW LEVEL SECURITY;
SELECT said($$SELECT rdma.distribute_table('"E t"', 'ptn', 'id')$$);
ALTER TABLE h1 DISABLE ROW LEVEL SECURITY;
CREATE MATERIALIZED VIEW on_part AS SELECT id FROM rest;
SELECT said($$SELECT rdma.distribute_table('"E t"', 'ptn', 'id')$$);
DROP MATERIALIZED VIEW on_part;
CREATE TABLE referring (id int, day date, kind text, CONSTRAINT refers FOREIGN KEY (id, day, kind) REFERENCES y2021 (id, day, kind));
SELECT said($$SELECT rdma.distribute_table('"E t"', 'ptn', 'id')$$);
DROP TABLE referring;
CREATE TABLE mixed (a int) PARTITION BY LIST (a);
CREATE FOREIGN TABLE far PARTITION OF mixed FOR VALUES IN (1) SERVER ptn1;
SELECT said($$SELECT rdma.distribute_table('mixed', 'ptn', 'a')$$);
DROP TABLE mixed;

SELECT * FROM rdma.distribute_tables('ptn', '{"\"E t\""}', '{id}', replicated => '{kinds}');
SELECT relkind FROM pg_class WHERE oid = '"E t"'::regclass;
SELECT count(*) FROM pg_class WHERE relnamespace IN ('ptn'::regnamespace, '"ptn Parts"'::regnamespace) AND relkind IN ('r', 'p');
SELECT differences();
-- the same on the nodes, but for schemas of statistics and defaults
SELECT node, line FROM rdma.run_on('ptn', :'described') r, regexp_split_to_table(r.answer, E'\n') line EXCEPT SELECT n.node, w.line FROM rdma.nodes('ptn') n, ptn_here.was w ORDER BY 1, 2;
SELECT node, n.count FROM rdma.run_on('ptn', :'described') r, LATERAL (SELECT count(*) FROM regexp_split_to_table(r.answer, E'\n')) n;
SELECT answer FROM rdma.run_on('ptn', $$SELECT count(*) FROM pg_class WHERE relname IN ('E t', 'y2020', 'rest') AND reltuples > 0$$);
SELECT sum(rows), bool_and(bytes > 0) FROM rdma.table_sizes('"E t"');
SELECT reltuples FROM pg_class WHERE oid = '"E t"'::regclass;
-- writes
INSERT INTO "E t" (day, kind, amount) SELECT date '2020-01-01' + i, 'a', 7 FROM generate_series(1, 500) i;
INSERT INTO ptn_here."E t" SELECT 6000 + i, date '2020-01-01' + i, 'a', 7 FROM generate_series(1, 500) i;
SELECT differences();
UPDATE "E t" SET day = day + 400 WHERE amount = 7;
UPDATE ptn_here."E t" SET day = day + 400 WHERE amount = 7;
-- rows move from partition to partition, and by the key from node to node
UPDATE "E t" SET kind = 'b' WHERE amount = 11 AND kind = 'a';
UPDATE ptn_here."E t" SET kind = 'b' WHERE amount = 11 AND kind = 'a';
BEGIN;
UPDATE "E t" SET id = id + 10000 WHERE id % 7 = 0;
UPDATE "E t" SET day = day + 100, id = id + 1 WHERE id % 5 = 0;
UPDATE ptn_here."E t" SET id = id + 10000 WHERE id % 7 = 0;
UPDATE ptn_here."E t" SET day = day + 100, id = id + 1 WHERE id % 5 = 0;
SELECT differences();
ROLLBACK;
-- the partitioned table itself has no rows
SELECT count(*) FROM ONLY "E t";
SELECT count(*) FROM ONLY "E t" t JOIN kinds USING (kind);
-- also in a function whose query becomes a part of the statement; a plan with it ends when it changes
CREATE FUNCTION only_et() RETURNS SETOF "E t" STABLE LANGUAGE sql AS 'SELECT * FROM ONLY "E t"';
PREPARE inlined AS SELECT count(*) FROM only_et();
EXPLAIN (VERBOSE, COSTS OFF) EXECUTE inlined;
EXECUTE inlined;
CREATE OR REPLACE FUNCTION only_et() RETURNS SETOF "E t" STABLE LANGUAGE sql AS 'SELECT * FROM "E t"';
EXECUTE inlined;
CREATE OR REPLACE FUNCTION only_et() RETURNS SETOF "E t" STABLE LANGUAGE sql AS 'SELECT * FROM "E t" WHERE ctid = ''(0,1)''';
EXECUTE inlined;
DEALLOCATE inlined;
DROP FUNCTION only_et();
CREATE FUNCTION et_between(low int DEFAULT 5, high int DEFAULT 20) RETURNS SETOF "E t" STABLE LANGUAGE sql AS 'SELECT * FROM "E t" WHERE id BETWEEN low AND high';
SELECT count(*) > 0, count(*) = (SELECT count(*) FROM "E t" WHERE id BETWEEN 5 AND 9) FROM et_between(high => 9);
DROP FUNCTION et_between(int, int);
SELECT count(*) FROM kinds WHERE EXISTS (SELECT FROM ONLY "E t" t WHERE t.kind = kinds.kind);
SELECT count(*) FROM (SELECT FROM ONLY "E t" UNION ALL SELECT FROM kinds) u;
UPDATE ONLY "E t" SET amount = 13;
UPDATE ONLY "E t" SET amount = 13 WHERE pg_backend_pid() <> 0;
UPDATE ONLY "E t" SET id = id + 1;
DELETE FROM ONLY "E t" WHERE pg_backend_pid() <> 0;
DELETE FROM ONLY "E t";
INSERT INTO kinds SELECT kind || 'x' FROM ONLY "E t";
SELECT said($$TRUNCATE ONLY "E t"$$);
DELETE FROM "E t" USING kinds WHERE kinds.kind = "E t".kind AND amount = 12;
DELETE FROM ptn_here."E t" WHERE amount = 12;
SELECT differences();
SELECT said($$INSERT INTO "E t" (day, kind, amount) VALUES ('2020-01-01', 'x', 1) RETURNING 1$$);
SELECT said($$SELECT rdma.run_on('ptn', 'INSERT INTO ptn.rest (id, day, kind) SELECT i, ''2024-01-01'', ''a'' FROM generate_series(20001, 20100) i')$$) LIKE '23514: new row for relation "rest" violates check constraint "rdma_placement"%';
SELECT rdma.upsert('"E t"', $$SELECT 1 AS id, date '2020-01-02' AS day, 'b' AS kind, 77 AS amount$$, '{id,day,kind}');
DELETE FROM ptn_here."E t" WHERE id = 1;
INSERT INTO ptn_here."E t" VALUES (1, '2020-01-02', 'b', 77);
SELECT differences();
EXPLAIN (COSTS OFF) SELECT FROM "E t" WHERE id = 5;
ALTER TABLE "E t" ADD COLUMN later int DEFAULT 3, ADD CHECK (later > 0);
SELECT sum(later) FROM "E t";
ALTER TABLE "E t" DROP COLUMN later;

-- a new partition, one that goes, and one that comes
SELECT answer FROM rdma.run_on('ptn', $$CREATE TABLE ptn.y2030 PARTITION OF ptn."E t" FOR VALUES FROM ('2030-01-01') TO ('2031-01-01')$$);
INSERT INTO "E t" (id, day, kind, amount) SELECT i, '2030-02-02', 'a', 1 FROM generate_series(30001, 30100) i;
INSERT INTO ptn_here."E t" SELECT i, '2030-02-02', 'a', 1 FROM generate_series(30001, 30100) i;
SELECT sum(answer::int) FROM rdma.run_on('ptn', 'SELECT count(*) FROM ptn.y2030');
SELECT answer FROM rdma.run_on('ptn', 'ALTER TABLE ptn."E t" DETACH PARTITION ptn.y2030');
SELECT count(*) FROM "E t" WHERE day = '2030-02-02';
SELECT answer FROM rdma.run_on('ptn', $$ALTER TABLE ptn."E t" ATTACH PARTITION ptn.y2030 FOR VALUES FROM ('2030-01-01') TO ('2031-01-01')$$);
SELECT differences();

-- another node, moves that no trigger of a partition sees
SELECT count(*) FROM rdma.run_on('ptn', $$CREATE FUNCTION ptn.fail() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION $e$a trigger runs$e$; END'$$);
SELECT rdma.add_node('ptn', 'ptn 3');
SELECT count(*) FROM rdma.run_on('ptn 3', $$CREATE FUNCTION ptn.fail() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION $e$a trigger runs$e$; END'$$);
SELECT count(*), count(DISTINCT answer) FROM rdma.run_on('ptn', :'described');
SELECT count(*) FROM rdma.run_on('ptn', 'CREATE TRIGGER fail BEFORE INSERT OR DELETE ON ptn."E t" FOR EACH ROW EXECUTE FUNCTION ptn.fail(); CREATE TRIGGER fails BEFORE INSERT OR DELETE ON ptn.h0 FOR EACH ROW EXECUTE FUNCTION ptn.fail(); ALTER TABLE ptn.h0 ENABLE ALWAYS TRIGGER fails');
CREATE FUNCTION triggers() RETURNS text LANGUAGE sql AS $$ SELECT string_agg(DISTINCT answer, ', ') FROM rdma.run_on('ptn', $q$SELECT count(*) || ' ' || string_agg(tgrelid::regclass || ' ' || tgenabled::text, ' ' ORDER BY tgrelid::regclass::text) FROM pg_trigger WHERE NOT tgisinternal AND tgenabled <> 'O'$q$) $$;
SELECT triggers();
SELECT rdma.move_buckets('ptn', 'ptn1', 'ptn 3', ARRAY(SELECT generate_series(0, 300, 2))) > 0;
SELECT differences(), triggers();
CALL rdma.rebalance('ptn', 10000, rest => 0);
CALL rdma.drain_node('ptn', 'ptn1', 10000, rest => 0);
SELECT differences(), triggers();
CALL rdma.rebalance('ptn', 10000, rest => 0);
SELECT differences(), triggers();
SELECT answer > '0' FROM rdma.run_on('ptn', 'SELECT count(*) FROM ptn.y2030');
-- one that was loaded there takes part in later moves
SELECT count(*) FROM rdma.run_on('ptn', 'CREATE TABLE ptn.loaded (LIKE ptn."E t" INCLUDING ALL)');
SELECT count(*) FROM rdma.run_on('ptn', 'INSERT INTO ptn.loaded SELECT id, ''2031-01-02'', kind, 1 FROM ptn.y2030');
INSERT INTO ptn_here."E t" SELECT id, '2031-01-02', kind, 1 FROM ptn_here."E t" WHERE day = '2030-02-02';
SELECT count(*) FROM rdma.run_on('ptn', $$ALTER TABLE ptn."E t" ATTACH PARTITION ptn.loaded FOR VALUES FROM ('2031-01-01') TO ('2032-01-01')$$);
CALL rdma.drain_node('ptn', 'ptn1', 10000, rest => 0);
CALL rdma.rebalance('ptn', 10000, rest => 0);
SELECT differences();
-- what refers to a partition on a node alone would lose rows
SELECT count(*) FROM rdma.run_on('ptn2', 'CREATE TABLE ptn.noted AS SELECT id, day, kind FROM ptn.loaded; ALTER TABLE ptn.noted ADD CONSTRAINT of_loaded FOREIGN KEY (id, day, kind) REFERENCES ptn.loaded (id, day, kind) ON DELETE CASCADE');
SELECT said($$SELECT rdma.move_buckets('ptn', 'ptn2', 'ptn1', (SELECT array_agg(n - 1)::integer[] FROM unnest(rdma.buckets('ptn')) WITH ORDINALITY b(p, n) WHERE p = 1))$$);
SELECT count(*) FROM rdma.run_on('ptn2', 'DROP TABLE ptn.noted');
SELECT said($$DELETE FROM "E t" RETURNING 1$$);
SELECT count(*) FROM rdma.run_on('ptn', 'DROP TRIGGER fail ON ptn."E t"; DROP TRIGGER fails ON ptn.h0; DROP FUNCTION ptn.fail');
SELECT count(*) FROM rdma.run_on('ptn', 'DROP TABLE ptn.y2030, ptn.loaded');
DELETE FROM ptn_here."E t" WHERE day IN ('2030-02-02', '2031-01-02');

-- another distribution, and the way back
SET datestyle = 'SQL, DMY';
SELECT rdma.alter_distribution('"E t"', 'kind, day, id');
RESET datestyle;
SELECT differences();
SELECT rdma.alter_distribution('"E t"', replicated => true);
SELECT differences();
SELECT rdma.alter_distribution('"E t"', 'day');
SELECT differences();
SELECT * FROM rdma.undistribute_tables('{"\"E t\"",kinds}');
SELECT count(*) FROM ((SELECT id, day, kind, amount FROM "E t" EXCEPT ALL TABLE ptn_here."E t") UNION ALL (TABLE ptn_here."E t" EXCEPT ALL SELECT id, day, kind, amount FROM "E t")) d;
SET datestyle = ISO;
SELECT line FROM regexp_split_to_table((:described), E'\n') line EXCEPT SELECT line FROM ptn_here.was ORDER BY 1;
SELECT line FROM ptn_here.was EXCEPT SELECT line FROM regexp_split_to_table((:described), E'\n') line ORDER BY 1;
INSERT INTO "E t" (day, kind, amount) VALUES ('2021-05-05', 'a', 2) RETURNING tableoid::regclass, id > 6000;
SELECT answer FROM rdma.run_on('ptn', $$SELECT count(*) FROM pg_class WHERE relnamespace = 'ptn'::regnamespace$$);
-- each kind of bound, here and there and back
CREATE TABLE bounds (a int, b boolean, c text, d numeric) PARTITION BY LIST (b);
CREATE TABLE bounds_true PARTITION OF bounds FOR VALUES IN (true) PARTITION BY RANGE (a, c);
CREATE TABLE bounds_1 PARTITION OF bounds_true FOR VALUES FROM (-5, MINVALUE) TO (7, 'it''s');
CREATE TABLE bounds_other PARTITION OF bounds FOR VALUES IN (NULL, false) PARTITION BY RANGE ((abs(d)));
CREATE TABLE bounds_2 PARTITION OF bounds_other FOR VALUES FROM (0) TO (MAXVALUE);
INSERT INTO bounds VALUES (-5, true, 'x', 1), (6, true, 'y', 2), (7, true, 'a', 3), (1, NULL, 'n', -4), (2, false, 'n', 5);
SELECT rdma.distribute_table('bounds', 'ptn', 'a');
SELECT count(*), sum(d) FROM bounds;
SELECT rdma.undistribute_table('bounds');
SELECT relid, pg_get_expr(relpartbound, oid) FROM pg_partition_tree('bounds') JOIN pg_class ON oid = relid ORDER BY relid::regclass::text;
SELECT count(*), sum(d) FROM bounds;
-- rows with stored generated columns are written one by one
CREATE TABLE computed (id int, twice int GENERATED ALWAYS AS (id * 2) STORED) PARTITION BY LIST (id);
CREATE TABLE computed_1 PARTITION OF computed FOR VALUES IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10);
CREATE TABLE computed_2 PARTITION OF computed DEFAULT;
INSERT INTO computed SELECT generate_series(1, 20);
SELECT rdma.distribute_table('computed', 'ptn', 'id');
DELETE FROM computed WHERE id % 4 = 1;
WITH gone AS (DELETE FROM computed WHERE id > 18 RETURNING id) SELECT sum(id) FROM gone;
UPDATE computed SET id = id + 9 WHERE id % 4 = 2;
SELECT count(*), sum(id), sum(twice) FROM computed;
SELECT rdma.undistribute_table('computed');
-- partitioned tables that refer to each other
CREATE TABLE orders (customer int, id int, PRIMARY KEY (customer, id)) PARTITION BY HASH (customer);
CREATE TABLE orders_0 PARTITION OF orders FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE orders_1 PARTITION OF orders FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE lines (customer int, id int, line int, before int, FOREIGN KEY (customer, id) REFERENCES orders ON DELETE CASCADE, UNIQUE (customer, line), FOREIGN KEY (customer, before) REFERENCES lines (customer, line) ON DELETE CASCADE) PARTITION BY LIST (customer);
CREATE TABLE lines_1 PARTITION OF lines FOR VALUES IN (1, 2, 3);
CREATE TABLE lines_2 PARTITION OF lines DEFAULT;
INSERT INTO orders SELECT c, i FROM generate_series(1, 30) c, generate_series(1, 10) i;
INSERT INTO lines SELECT c, i, i, NULLIF(11 - i, i) FROM generate_series(1, 30) c, generate_series(1, 10) i;
SELECT * FROM rdma.distribute_tables('ptn', '{orders,lines}', '{customer,customer}');
CALL rdma.drain_node('ptn', 'ptn 3', 10000, rest => 0);
SELECT count(*), count(DISTINCT (l.customer, l.line)) FROM orders JOIN lines l USING (customer, id);
DELETE FROM orders WHERE id > 5;
SELECT count(*) FROM lines;
SELECT said('INSERT INTO lines VALUES (1, 99, 99) RETURNING 1') LIKE '23503%';
SELECT * FROM rdma.undistribute_tables('{orders,lines}');
SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'lines'::regclass AND contype = 'f' AND conparentid = 0 ORDER BY conname;

SET client_min_messages = warning;
DROP SERVER ptn1, ptn2, "ptn 3", ptn CASCADE;
DROP SCHEMA ptn, ptn_here, "ptn Parts" CASCADE;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA ptn, "ptn Parts" CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA ptn, "ptn Parts" CASCADE;
DROP DATABASE regress_rdma_partitioned WITH (FORCE);
