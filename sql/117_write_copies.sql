-- UPDATE and DELETE of replicated tables where the nodes do not compute the same rows: rows of the first node are read and locked, those
-- of the other nodes are found by a unique key, or by all columns. The same statements over local tables tell what should come of it.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name nc
\i :two_nodes
CREATE SCHEMA nc_here;
CREATE FUNCTION same(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	outcome text[];
	contents text;
BEGIN
	FOR run IN 1 .. 2 LOOP
		PERFORM set_config('search_path', (ARRAY['nc', 'nc_here'])[run] || ', public', true);
		EXECUTE format('WITH d AS (%s) SELECT count(*) || '' rows '' || md5(string_agg(d::text, '' '' ORDER BY d::text)) FROM d', statement) INTO contents;
		outcome := outcome || contents;
		SELECT string_agg(x::text, ' ' ORDER BY x::text) INTO contents FROM (SELECT r::text FROM r UNION ALL SELECT l::text FROM loose l) x;
		outcome := outcome || contents;
	END LOOP;
	RETURN split_part(outcome[1], ' ', 1) || CASE WHEN outcome[1:2] = outcome[3:4] THEN ' rows, same' ELSE ' rows, NOT THE SAME ' || outcome::text END;
END $$;
CREATE TABLE nc_here.r (id int PRIMARY KEY, v text);
CREATE TABLE nc_here.loose (a int, v text, j json);
CREATE TABLE nc_here.t (k int, v text);
INSERT INTO nc_here.r SELECT i, 'r' || i FROM generate_series(1, 60) i;
INSERT INTO nc_here.loose SELECT nullif(i, 5), 'l' || i, json_build_array(i) FROM generate_series(1, 8) i;
INSERT INTO nc_here.loose VALUES (6, NULL, NULL);
INSERT INTO nc_here.t SELECT i, 't' || i FROM generate_series(1, 300, 7) i;
CREATE TABLE r (LIKE nc_here.r INCLUDING ALL);
CREATE TABLE loose (LIKE nc_here.loose);
CREATE TABLE t (LIKE nc_here.t);
INSERT INTO r SELECT * FROM nc_here.r;
INSERT INTO loose SELECT * FROM nc_here.loose;
INSERT INTO t SELECT * FROM nc_here.t;
SELECT count(*) FROM rdma.distribute_tables('nc', '{t}', '{k}', replicated => '{r,loose}');
CREATE TABLE public.only_here AS SELECT i AS id FROM generate_series(5, 7) i;
RESET client_min_messages;

EXPLAIN (VERBOSE, COSTS OFF) UPDATE r SET v = 'x' WHERE id < 9 AND pg_backend_pid() > 0;
EXPLAIN (VERBOSE, COSTS OFF) DELETE FROM loose WHERE a = 1 AND pg_backend_pid() > 0;
SELECT same('UPDATE r SET v = t.v FROM t WHERE t.k = r.id RETURNING r.*, t.*');
SELECT same('UPDATE r SET v = r2.v FROM r r2 WHERE r2.id = r.id + 1 AND r2.id % 5 = 0 RETURNING r.*');
SELECT same('DELETE FROM r USING only_here o WHERE o.id = r.id RETURNING r.id');
SELECT same('UPDATE r SET id = -r.id FROM only_here o WHERE r.id = o.id * 3 RETURNING r.id, o.id AS other');
SELECT same('UPDATE r SET (v, id) = (SELECT min(t.v), r.id + 100 FROM t WHERE t.k > r.id) WHERE id < 30 RETURNING *');
SELECT same('UPDATE r SET v = v || ''?'' WHERE id IN (SELECT k FROM t WHERE k < 40) RETURNING *');
SELECT same('UPDATE loose SET v = v || '' here'' FROM only_here o WHERE o.id = a RETURNING a');
SELECT same('UPDATE loose SET a = NULL WHERE v = ''l8'' AND pg_backend_pid() > 0 RETURNING a, v');
SELECT same('UPDATE loose SET a = 9 WHERE a IS NULL AND pg_backend_pid() > 0 RETURNING v');
SELECT same('DELETE FROM loose WHERE v IS NULL AND pg_backend_pid() > 0 RETURNING a');
-- a row with several partners is written once
SELECT same('UPDATE r SET v = ''once'' FROM t, only_here o WHERE r.id = 50 RETURNING r.*');
CREATE FUNCTION add_mark() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.v := OLD.v || '+' || NEW.v; RETURN NEW; END $$;
CREATE TRIGGER add_mark BEFORE UPDATE ON nc.r FOR EACH ROW EXECUTE FUNCTION add_mark();
CREATE TRIGGER add_mark BEFORE UPDATE ON nc_here.r FOR EACH ROW EXECUTE FUNCTION add_mark();
SELECT same('UPDATE r SET v = ''new'' WHERE id > 30 RETURNING v');
SELECT bool_or(differs) FROM rdma.check_distribution('nc.r');
SELECT bool_or(differs) FROM rdma.check_distribution('nc.loose');
-- of rows with one key each copy keeps the same, in whatever order its node has them
CREATE TYPE mood AS ENUM ('glad', 'sad');
CREATE SEQUENCE numbers;
CREATE TABLE doubled (id int, v text, m mood, b jsonb);
CREATE TABLE kept (id int UNIQUE, v text, m mood, b jsonb);
INSERT INTO doubled SELECT i % 10, 'd' || i, 'glad', jsonb_build_object('i', i) FROM generate_series(1, 300) i;
SELECT count(*) FROM rdma.distribute_tables('nc', '{}', '{}', replicated => '{doubled,kept}');
SELECT count(*) FROM rdma.run_on('nc2', 'WITH d AS (DELETE FROM nc.doubled RETURNING *) INSERT INTO nc.doubled SELECT * FROM d ORDER BY md5(v)');
EXPLAIN (COSTS OFF) INSERT INTO kept SELECT * FROM doubled ON CONFLICT DO NOTHING;
INSERT INTO kept SELECT * FROM doubled ON CONFLICT DO NOTHING;
SELECT bool_or(differs) FROM rdma.check_distribution('nc.kept');
-- values that every node would compute otherwise, and types of this database in SET
UPDATE kept SET m = 'sad', b = jsonb_set(b, '{u}', to_jsonb(gen_random_uuid()::text)) WHERE id < 5;
INSERT INTO kept SELECT 100 + nextval('numbers'), random() || ' ' || clock_timestamp(), 'glad', to_jsonb(gen_random_uuid()) FROM generate_series(1, 500);
SELECT count(*), count(DISTINCT v), bool_or(v LIKE 'd%' AND m = 'sad' AND b ? 'u') FROM kept;
SELECT bool_or(differs) FROM rdma.check_distribution('nc.kept');
-- rows that are alike, and copies that differ
INSERT INTO loose VALUES (1, 'twice', '{}'), (1, 'twice', '[]');
DELETE FROM loose WHERE v = 'twice' AND pg_backend_pid() > 0;
SELECT count(*) FROM rdma.run_on('nc2', 'DELETE FROM nc.r WHERE id = 50');
UPDATE r SET v = 'x' WHERE id = 50 AND pg_backend_pid() > 0;

\set VERBOSITY terse
SET client_min_messages = warning;
DROP SCHEMA nc, nc_here CASCADE;
DROP SERVER nc1, nc2, nc CASCADE;
DROP TABLE public.only_here;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA nc CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA nc CASCADE;
