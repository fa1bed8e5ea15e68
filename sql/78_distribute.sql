-- rdma.distribute_table: a local table becomes one of a server with nodes; rdma.check_distribution, rdma.run_on, rdma.nodes.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name dst
\i :two_nodes
CREATE SCHEMA dst1;
RESET client_min_messages;
\set VERBOSITY terse
\pset format unaligned

SELECT * FROM rdma.nodes('dst');
SELECT * FROM rdma.nodes('dst1');
SELECT node, answer FROM rdma.run_on('dst', 'SELECT 1 + 1');
SELECT node, answer FROM rdma.run_on('dst', 'CREATE TABLE public.dst_gone ()');
SELECT node, answer FROM rdma.run_on('dst', 'ALTER TABLE public.dst_gone ADD a int');
SELECT node, answer FROM rdma.run_on('dst', 'CREATE INDEX CONCURRENTLY dst_gone_a ON public.dst_gone (a)');
SELECT node, answer FROM rdma.run_on('dst', 'REINDEX (CONCURRENTLY) TABLE public.dst_gone');
SELECT node, answer FROM rdma.run_on('dst', 'DROP INDEX CONCURRENTLY public.dst_gone_a');
SELECT node, answer FROM rdma.run_on('dst', 'DROP TABLE public.dst_gone');
SELECT node, answer FROM rdma.run_on('dst', 'SELECT NULL');
SELECT * FROM rdma.run_on('dst', 'SELECT 1, 2');
SELECT * FROM rdma.run_on('nowhere', 'SELECT 1');

SELECT count(*) FILTER (WHERE status = 'problem') AS problems, string_agg(item, ', ') FILTER (WHERE item LIKE '%routing' OR item = 'exchange' AND status = 'ok') FROM rdma.check('dst');
SELECT rdma.bench('dst', 1000);

CREATE ROLE regress_rdma_reader;
CREATE TABLE item (
	id serial PRIMARY KEY,
	"Group" text COLLATE "C" NOT NULL,
	price numeric(10,2) CHECK (price >= 0),
	gone int,
	code text GENERATED ALWAYS AS (upper("Group")) STORED,
	added date DEFAULT '2020-02-02',
	UNIQUE ("Group", id));
ALTER TABLE item DROP COLUMN gone;
CREATE INDEX item_price ON item (price) WHERE price > 10;
COMMENT ON TABLE item IS 'what is sold';
GRANT SELECT ON item TO regress_rdma_reader;
INSERT INTO item ("Group", price) SELECT 'g' || i % 50, i FROM generate_series(1, 5000) i;
CREATE TABLE before AS SELECT * FROM item;

-- by a column; keys that do not contain it are unique on each node only
SELECT rdma.distribute_table('item', 'dst', '"Group"');
SELECT rdma.distribute_table('item', 'dst', '"Group"', force => true);
\d item
SELECT node, rows > 2000 AS rows, misplaced, differs FROM rdma.check_distribution('item');
IMPORT FOREIGN SCHEMA dst LIMIT TO (item) FROM SERVER dst1 INTO dst1;
SELECT count(*) > 2000 AS count, count(*) FILTER (WHERE code = upper("Group")) = count(*) AS codes FROM dst1.item;
SELECT (rdma.run_on('dst', $$SELECT string_agg(indexrelid::regclass || ' ' || indisunique, ', ' ORDER BY indexrelid::regclass::text COLLATE "C") FROM pg_index i WHERE indrelid = 'dst.item'::regclass$$)).*;
SELECT has_table_privilege('regress_rdma_reader', 'item', 'SELECT'), has_table_privilege('regress_rdma_reader', 'item', 'INSERT'), obj_description('item'::regclass);
INSERT INTO item ("Group", price) VALUES ('new', 1) RETURNING id, code, added;
INSERT INTO item ("Group", price) VALUES ('new', -1);
-- a row where it does not belong is refused, whoever writes it
INSERT INTO dst1.item (id, "Group") VALUES (-1, 'g1'), (-2, 'g2'), (-3, 'g3'), (-4, 'g4');
SELECT rdma.run_on('dst1', $$INSERT INTO dst.item (id, "Group") VALUES (-1, 'g1'), (-2, 'g2'), (-3, 'g3'), (-4, 'g4')$$);
SELECT rdma.run_on('dst1', $$UPDATE dst.item SET "Group" = 'g' || i FROM generate_series(1, 4) i WHERE id = (SELECT min(id) FROM dst.item)$$);
SELECT sum(misplaced) AS misplaced FROM rdma.check_distribution('item');
-- without the constraint it is found
SELECT node, answer FROM rdma.run_on('dst', 'ALTER TABLE dst.item DROP CONSTRAINT rdma_placement');
INSERT INTO dst1.item (id, "Group") VALUES (-1, 'g1'), (-2, 'g2'), (-3, 'g3'), (-4, 'g4');
SELECT sum(misplaced) > 0 AS misplaced FROM rdma.check_distribution('item');
SELECT item, status, regexp_replace(value, '[0-9]+ rows', 'some rows') FROM rdma.check('dst') WHERE item = 'distribution';
SELECT rdma.protect_table('item');
SELECT sum((answer = 'DELETE 4')::int) FROM rdma.run_on('dst', 'DELETE FROM dst.item WHERE id < 0');
SELECT rdma.protect_table('item');
SELECT rdma.protect_table('item');
INSERT INTO dst1.item (id, "Group") VALUES (-1, 'g1'), (-2, 'g2'), (-3, 'g3'), (-4, 'g4');
SELECT status, value FROM rdma.check('dst') WHERE item = 'distribution';

-- replicated, and nowhere in particular
CREATE TABLE copies (a int PRIMARY KEY, b text);
INSERT INTO copies SELECT i, 'b' || i FROM generate_series(1, 1000) i;
SELECT rdma.distribute_table('copies', 'dst', replicated => true);
SELECT * FROM rdma.check_distribution('copies');
SELECT node, answer FROM rdma.run_on('dst2', $$UPDATE dst.copies SET b = 'x' WHERE a = 7$$);
SELECT * FROM rdma.check_distribution('copies');
SELECT status, value FROM rdma.check('dst') WHERE item = 'distribution';
SELECT rdma.protect_table('copies');
CREATE TABLE strewn AS SELECT i AS a FROM generate_series(1, 1000) i;
SELECT rdma.distribute_table('strewn', 'dst');
SELECT * FROM rdma.check_distribution('strewn');
SELECT rdma.protect_table('strewn');
SELECT rdma.protect_table('pg_class');

-- what it refuses; then nothing has changed
CREATE TABLE hidden (a int);
ALTER TABLE hidden ENABLE ROW LEVEL SECURITY;
SELECT rdma.distribute_table('hidden', 'dst', 'a');
SELECT rdma.distribute_table('item', 'dst', 'a');
SELECT rdma.distribute_table('before', 'dst', 'nothing');
SELECT rdma.distribute_table('before', 'dst', 'id', true);
-- unique between nodes: only with the key, on one node, or replicated
CREATE TABLE unique_text (id int, email text, note text);
INSERT INTO unique_text SELECT i, 'e' || i FROM generate_series(1, 100) i;
CREATE UNIQUE INDEX by_email ON unique_text (email) INCLUDE (id);
CREATE UNIQUE INDEX by_note ON unique_text (id, note) WHERE note <> '';
SELECT rdma.distribute_table('unique_text', 'dst', 'id');
SELECT rdma.distribute_table('unique_text', 'dst');
SELECT node, answer FROM rdma.run_on('dst', $$SELECT to_regclass('dst.unique_text') IS NULL$$);
DROP INDEX by_note;
SELECT rdma.distribute_table('unique_text', 'dst', 'email');
INSERT INTO unique_text VALUES (101, 'e5');
CREATE TABLE unique_copies (id int, email text);
CREATE UNIQUE INDEX ON unique_copies (lower(email));
SELECT rdma.distribute_table('unique_copies', 'dst', 'email');
SELECT rdma.distribute_table('unique_copies', 'dst', replicated => true);
-- exclusion constraints likewise, by their operators
CREATE TABLE excluded (a int, b int4range, CONSTRAINT apart EXCLUDE USING btree (a WITH =));
SELECT rdma.distribute_table('excluded', 'dst', 'a');
DROP FOREIGN TABLE excluded;
CREATE TABLE excluded (a int, b int4range, CONSTRAINT apart EXCLUDE USING gist (b WITH &&));
SELECT rdma.distribute_table('excluded', 'dst', 'a');
CREATE TABLE excluded_by_range (b int4range, CONSTRAINT apart_too EXCLUDE USING gist (b WITH &&));
SELECT rdma.distribute_table('excluded_by_range', 'dst', 'b');
CREATE MATERIALIZED VIEW on_before AS SELECT id FROM before;
SELECT rdma.distribute_table('before', 'dst', 'id');
SELECT count(*) FROM before;
SELECT * FROM rdma.check_distribution('before');
SELECT node, answer FROM rdma.run_on('dst', $$SELECT to_regclass('dst.before') IS NULL$$);

-- the role of the user mapping may not do it on a node
SELECT answer FROM rdma.run_on('dst2', 'CREATE ROLE regress_rdma_poor LOGIN');
SELECT count(*) FROM rdma.run_on('dst2', $$SELECT rdma.grant_access('regress_rdma_poor', 'write', 'exchange')$$);
ALTER USER MAPPING FOR CURRENT_USER SERVER dst2 OPTIONS (SET user 'regress_rdma_poor');
CREATE TABLE poor (id int);
\set VERBOSITY default
\set SHOW_CONTEXT never
SELECT rdma.distribute_table('poor', 'dst', 'id');
\set VERBOSITY terse
ALTER USER MAPPING FOR CURRENT_USER SERVER dst2 OPTIONS (SET user 'postgres');
SELECT answer FROM rdma.run_on('dst2', 'DROP OWNED BY regress_rdma_poor');
SELECT answer FROM rdma.run_on('dst2', 'DROP ROLE regress_rdma_poor');

\set ECHO none
SET client_min_messages = warning;
DROP SERVER dst1, dst2, dst CASCADE;
DROP SCHEMA dst, dst1 CASCADE;
DROP ROLE regress_rdma_reader;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA dst CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA dst CASCADE;
