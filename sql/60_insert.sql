-- INSERT into foreign tables: what arrives must be what a local table would hold.
\set ECHO none
\getenv tree PG_ABS_SRCDIR
\set loopback :tree '/test/setup/loopback.sql'
\set name ins
\i :loopback

CREATE TABLE ins_remote.t (a int PRIMARY KEY, b text NOT NULL DEFAULT 'none', c numeric(10,2), d timestamptz, e int[], CHECK (a <> 13));
CREATE FOREIGN TABLE t (a int, b text, c numeric(10,2), d timestamptz, e int[]) SERVER ins_srv OPTIONS (schema_name 'ins_remote');

-- one row, some rows, none; columns left out are NULL here, as with postgres_fdw
INSERT INTO t VALUES (1, 'one', 1.5, '2020-01-01 00:00+00', '{1,NULL,3}');
INSERT INTO t VALUES (2, 'two', NULL, NULL, NULL), (3, '', 'NaN', 'infinity', '{}');
INSERT INTO t SELECT * FROM t WHERE false;
INSERT INTO t (a, b) SELECT g, 'row ' || g FROM generate_series(20, 29) g;
\pset format unaligned
\pset tuples_only on
\set ECHO all
INSERT INTO t (a) VALUES (30);
SELECT * FROM t WHERE a < 20 ORDER BY a;
SELECT same('ins_remote.t', 't');

-- RETURNING gives what the data node stored
INSERT INTO t VALUES (40, 'x', 1.005) RETURNING a, c, b || '!', tableoid::regclass;
INSERT INTO t SELECT g, 'r' FROM generate_series(41, 43) g RETURNING a + 1;
INSERT INTO t VALUES (44, 'const') RETURNING 1;
WITH i AS (INSERT INTO t SELECT g, 'w' FROM generate_series(45, 47) g RETURNING a) SELECT sum(a) FROM i;

-- the plans
EXPLAIN (VERBOSE, COSTS OFF) INSERT INTO t VALUES (50, 'x') RETURNING a;
EXPLAIN (VERBOSE, COSTS OFF) INSERT INTO t (a, b) SELECT g, 'x' FROM generate_series(1, 2) g ON CONFLICT DO NOTHING;
SELECT analyzed($$INSERT INTO t (a, b) SELECT g, 'x' FROM generate_series(50, 52) g$$);

-- errors of the data node: SQLSTATE, message and detail are its own, and nothing of the statement remains
\set SHOW_CONTEXT never
DO $$
DECLARE state text; message text; detail text;
BEGIN
  BEGIN
    INSERT INTO t (a, b) SELECT g, 'dup' FROM generate_series(100, 20, -1) g;
  EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
    RAISE INFO '% % (%)', state, message, detail;
  END;
  BEGIN
    INSERT INTO t VALUES (13, 'bad luck');
  EXCEPTION WHEN check_violation THEN
    GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
    RAISE INFO '% (%)', message, detail;
  END;
  BEGIN
    INSERT INTO t VALUES (99, NULL) RETURNING a;
  EXCEPTION WHEN not_null_violation THEN
    GET STACKED DIAGNOSTICS message = MESSAGE_TEXT;
    RAISE INFO '%', message;
  END;
END $$;
SELECT count(*) FROM t WHERE b = 'dup' OR a IN (13, 99);
SELECT same('ins_remote.t', 't');

-- ON CONFLICT
INSERT INTO t SELECT g, 'late' FROM generate_series(1, 4) g ON CONFLICT DO NOTHING;
INSERT INTO t VALUES (1, 'late') ON CONFLICT DO NOTHING RETURNING a;
INSERT INTO t VALUES (1, 'x') ON CONFLICT (a) DO NOTHING;
INSERT INTO t VALUES (1, 'x') ON CONFLICT (a) DO UPDATE SET b = 'y';
SELECT a, b FROM t WHERE a < 5 ORDER BY a;

-- many rows: by a flow, with a row larger than any buffer among them; types by value, by reference, of the user's, and other types there
CREATE TYPE ins_remote.mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN ins_remote.posint AS int CHECK (VALUE > 0);
CREATE TYPE ins_remote.pair AS (x int, y text);
CREATE TABLE ins_remote.big (id bigint, small smallint, f float8, n numeric, t text, v varchar(12), ch char(5), ts timestamptz, u uuid, j jsonb,
  m ins_remote.mood, p ins_remote.posint, q ins_remote.pair, arr text[], r int4range, by bytea, iv interval, bits bit(3), nm name, ip inet, c "char",
  widened bigint, narrowed text);
CREATE FOREIGN TABLE big (id bigint, small smallint, f float8, n numeric, t text, v varchar(12), ch char(5), ts timestamptz, u uuid, j jsonb,
  m ins_remote.mood, p ins_remote.posint, q ins_remote.pair, arr text[], r int4range, by bytea, iv interval, bits bit(3), nm name, ip inet, c "char",
  widened int, narrowed date) SERVER ins_srv OPTIONS (schema_name 'ins_remote');
CREATE TABLE big_local (LIKE big);
INSERT INTO big_local SELECT g, g % 100, g / 3.0, g * 1.1, repeat('t' || g, g % 50), 'v' || g, left(g::text, 5), timestamptz '2000-01-01 00:00+00' + g * interval '1 min',
  md5(g::text)::uuid, jsonb_build_object('g', g), (ARRAY['sad','ok','happy'])[1 + g % 3]::ins_remote.mood, g, ROW(g, 'y' || g)::ins_remote.pair, ARRAY['a', NULL, g::text],
  int4range(g, g + 5), decode(md5(g::text), 'hex'), g * interval '1 s', (g % 8)::bit(3), 'n' || g, '10.0.0.0'::inet + g, chr(65 + g % 26)::"char",
  g, date '2020-01-01' + g % 1000
  FROM generate_series(1, 20000) g;
UPDATE big_local SET f = NULL, t = NULL, j = NULL, m = NULL, q = NULL, ts = NULL WHERE id % 7 = 0;
INSERT INTO big_local (id, t, p) VALUES (0, repeat('large', 300000), 1);
INSERT INTO big SELECT * FROM big_local;
SELECT same('big_local', 'big');
-- what arrived there, not only what comes back: the last column is a text there
SELECT same('(SELECT id, small, f, n, t, v, ch, ts, u, j, m, p, q, arr, r, by, iv, bits, nm, ip, c, widened, to_char(narrowed, ''YYYY-MM-DD'') FROM ins_here.big_local)',
            'ins_remote.big');
-- the stream's counters: rows left by a flow
CREATE FUNCTION plan(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
  FOR line IN EXECUTE 'EXPLAIN (ANALYZE, VERBOSE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
    RETURN NEXT regexp_replace(line, 'batches=\d+ bytes=\d+', 'batches=N bytes=N');
  END LOOP;
END $$;
SELECT plan FROM plan('INSERT INTO big SELECT * FROM big_local') AS plan WHERE plan ~ 'Loaded';
-- a source on the same server: its rows come here first
TRUNCATE big;
INSERT INTO big SELECT * FROM big_local;
INSERT INTO big SELECT * FROM big WHERE id < 10000;
SELECT same('big', '(SELECT * FROM ins_here.big_local UNION ALL SELECT * FROM ins_here.big_local WHERE id < 10000)');
TRUNCATE big;
SELECT count(*) FROM ins_remote.big;

-- errors in the middle of a flow: of a value, of a constraint, of the source
INSERT INTO big (id, p) SELECT g, 50000 - g FROM generate_series(1, 60000) g;
ALTER TABLE ins_remote.big ADD CONSTRAINT never CHECK (id <> 50000);
INSERT INTO big (id, t) SELECT g, repeat('x', 100) FROM generate_series(1, 60000) g;
INSERT INTO big (id, t) SELECT g, (100 / (45000 - g))::text FROM generate_series(1, 60000) g;
SELECT count(*) FROM big;
-- engines let go of flows a moment after their users
CREATE FUNCTION flows_left() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE until timestamptz := clock_timestamp() + interval '60 s'; n bigint;
BEGIN
  LOOP
    SELECT count(*) INTO n FROM rdma.stat_flows;
    EXIT WHEN n = 0 OR clock_timestamp() > until;
    PERFORM pg_sleep(0.05);
  END LOOP;
  RETURN n;
END $$;
SELECT flows_left();
-- and the transaction goes on behind a savepoint
BEGIN;
INSERT INTO big (id, t) SELECT g, 'before' FROM generate_series(1, 30000) g;
SAVEPOINT s;
INSERT INTO big (id, t) SELECT g, repeat('x', 100) FROM generate_series(1, 60000) g;
ROLLBACK TO s;
INSERT INTO big (id, t) SELECT g, 'after' FROM generate_series(60001, 90000) g;
SELECT t, count(*), sum(id) FROM big GROUP BY t ORDER BY t;
COMMIT;
SELECT t, count(*), sum(id) FROM ins_remote.big GROUP BY t ORDER BY t;

-- remote rules hold as with any INSERT: defaults, identity, generated columns, triggers, row security, rights on columns
CREATE TABLE ins_remote.rules (a int, b int GENERATED ALWAYS AS (a * 2) STORED, c serial, d text DEFAULT 'def', e int GENERATED BY DEFAULT AS IDENTITY);
CREATE FOREIGN TABLE rules (a int, b int GENERATED ALWAYS AS (a * 2) STORED) SERVER ins_srv OPTIONS (schema_name 'ins_remote');
INSERT INTO rules (a) SELECT g FROM generate_series(1, 3) g;
INSERT INTO rules (a) VALUES (4) RETURNING *;
CREATE TABLE ins_remote.log (what text, n bigint);
CREATE FUNCTION ins_remote.note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_LEVEL = 'STATEMENT' THEN INSERT INTO ins_remote.log SELECT TG_WHEN, count(*) FROM new_rows; RETURN NULL; END IF;
  IF NEW.a = 7 THEN RETURN NULL; END IF;
  NEW.d := 'by trigger';
  RETURN NEW;
END $$;
CREATE TRIGGER r BEFORE INSERT ON ins_remote.rules FOR EACH ROW EXECUTE FUNCTION ins_remote.note();
CREATE TRIGGER s AFTER INSERT ON ins_remote.rules REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION ins_remote.note();
INSERT INTO rules (a) SELECT g FROM generate_series(5, 9) g;
SELECT * FROM ins_remote.rules ORDER BY c;
SELECT * FROM ins_remote.log;
-- the count is the number of rows inserted there
DO $$ DECLARE n int; BEGIN INSERT INTO rules (a) SELECT g FROM generate_series(5, 9) g; GET DIAGNOSTICS n = ROW_COUNT; RAISE INFO '% rows', n; END $$;
DROP TRIGGER r ON ins_remote.rules;
DROP TRIGGER s ON ins_remote.rules;

CREATE ROLE ins_user LOGIN;
SELECT rdma.grant_access('ins_user', 'write');
GRANT USAGE ON SCHEMA ins_remote, ins_here TO ins_user;
GRANT SELECT ON ins_remote.rules TO ins_user;
GRANT ALL ON rules TO ins_user;
CREATE USER MAPPING FOR ins_user SERVER ins_srv OPTIONS (user 'ins_user', password_required 'false');
SET ROLE ins_user;
INSERT INTO rules (a) SELECT g FROM generate_series(20, 22) g;
RESET ROLE;
GRANT INSERT (a) ON ins_remote.rules TO ins_user;
GRANT USAGE ON SEQUENCE ins_remote.rules_c_seq TO ins_user;
SET ROLE ins_user;
INSERT INTO rules (a) SELECT g FROM generate_series(20, 22) g;
RESET ROLE;
ALTER TABLE ins_remote.rules ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON ins_remote.rules FOR INSERT TO ins_user WITH CHECK (a < 30);
SET ROLE ins_user;
INSERT INTO rules (a) SELECT g FROM generate_series(28, 32) g;
INSERT INTO rules (a) SELECT g FROM generate_series(28, 29) g;
RESET ROLE;
SELECT a, d FROM ins_remote.rules WHERE a >= 20 ORDER BY a;

-- what takes many rows at a time there: indexes, foreign keys, triggers after rows and statements, generated and dropped columns, sequences
CREATE TABLE ins_remote.fast (gone text, id int PRIMARY KEY, ref int REFERENCES ins_remote.t (a), g int GENERATED ALWAYS AS (id + 1) STORED, s serial,
  big text, later int UNIQUE DEFERRABLE INITIALLY DEFERRED, CHECK (id >= 0));
ALTER TABLE ins_remote.fast DROP COLUMN gone;
ALTER TABLE ins_remote.fast ALTER big SET STORAGE EXTERNAL;
CREATE FOREIGN TABLE fast (later int, id int, ref int, big text) SERVER ins_srv OPTIONS (schema_name 'ins_remote');
TRUNCATE ins_remote.log;
CREATE FUNCTION ins_remote.note_fast() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_LEVEL = 'ROW' THEN INSERT INTO ins_remote.log VALUES ('row', NEW.id);
  ELSIF TG_WHEN = 'BEFORE' THEN INSERT INTO ins_remote.log SELECT 'before', count(*) FROM ins_remote.fast;
  ELSE INSERT INTO ins_remote.log SELECT 'after', count(*) FROM new_rows; END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER b BEFORE INSERT ON ins_remote.fast FOR EACH STATEMENT EXECUTE FUNCTION ins_remote.note_fast();
CREATE TRIGGER s AFTER INSERT ON ins_remote.fast REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION ins_remote.note_fast();
CREATE TRIGGER r AFTER INSERT ON ins_remote.fast FOR EACH ROW WHEN (NEW.id % 1000 = 0) EXECUTE FUNCTION ins_remote.note_fast();
INSERT INTO fast SELECT g, g, CASE g % 3 WHEN 0 THEN 1 WHEN 1 THEN 2 END, CASE WHEN g % 500 = 0 THEN repeat(md5(g::text), 1000) ELSE repeat('x', g % 100) END
  FROM generate_series(0, 5000) g;
SELECT count(*), sum(id), sum(ref), sum(g), count(DISTINCT s), sum(length(big)), count(later) FROM ins_remote.fast;
SELECT what, count(*), min(n), max(n) FROM ins_remote.log GROUP BY what ORDER BY what;
SET enable_seqscan = off;
SELECT id, g, length(big) FROM ins_remote.fast WHERE id IN (0, 4999);
RESET enable_seqscan;
\set VERBOSITY terse
INSERT INTO fast SELECT g, g, 77777 FROM generate_series(6000, 7000) g;
INSERT INTO fast SELECT g, g FROM generate_series(7000, 4990, -1) g;
INSERT INTO fast SELECT g, g FROM generate_series(6000, -1, -1) g WHERE g > 5000 OR g < 0;
INSERT INTO fast SELECT 8000, g FROM generate_series(6000, 6001) g;
\set VERBOSITY default
BEGIN;
INSERT INTO fast SELECT 8000, g FROM generate_series(6000, 6001) g;
UPDATE fast SET later = 8001 WHERE id = 6001;
COMMIT;
SELECT count(*) FROM ins_remote.fast;

-- a remote view, a remote partitioned table, a column of another name, no such column, no such table
CREATE VIEW ins_remote.v AS SELECT a AS x, d AS y FROM ins_remote.rules WHERE a > 100 WITH CHECK OPTION;
CREATE FOREIGN TABLE v ("X" int OPTIONS (column_name 'x'), y text) SERVER ins_srv OPTIONS (schema_name 'ins_remote');
INSERT INTO v SELECT g, 'via view' FROM generate_series(101, 103) g;
INSERT INTO v VALUES (1, 'outside');
SELECT * FROM v ORDER BY 1;
CREATE TABLE ins_remote.parts (k int, t text) PARTITION BY RANGE (k);
CREATE TABLE ins_remote.parts1 PARTITION OF ins_remote.parts FOR VALUES FROM (0) TO (1000);
CREATE TABLE ins_remote.parts2 PARTITION OF ins_remote.parts FOR VALUES FROM (1000) TO (2000);
CREATE FOREIGN TABLE parts (k int, t text) SERVER ins_srv OPTIONS (schema_name 'ins_remote');
INSERT INTO parts SELECT g, 'p' FROM generate_series(500, 1499) g;
SELECT tableoid::regclass, count(*) FROM ins_remote.parts GROUP BY 1 ORDER BY 1;
INSERT INTO parts VALUES (5000, 'nowhere');
CREATE FOREIGN TABLE parts1 (k int, t text) SERVER ins_srv OPTIONS (schema_name 'ins_remote');
INSERT INTO parts1 VALUES (1, 'first'), (1500, 'not here');
CREATE FOREIGN TABLE wrong (k int, nix text) SERVER ins_srv OPTIONS (schema_name 'ins_remote', table_name 'parts');
INSERT INTO wrong VALUES (1, 'x');
ALTER FOREIGN TABLE wrong OPTIONS (SET table_name 'nothing');
INSERT INTO wrong VALUES (1, 'x');

-- views of ours with a check option, and triggers here: row by row
CREATE VIEW checked AS SELECT * FROM parts WHERE t = 'ok' WITH CHECK OPTION;
INSERT INTO checked VALUES (1, 'ok'), (2, 'ok');
INSERT INTO checked VALUES (3, 'not ok');
CREATE FUNCTION here_note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE NOTICE '% % %', TG_WHEN, TG_LEVEL, NEW;
  IF TG_WHEN = 'BEFORE' AND TG_LEVEL = 'ROW' THEN NEW.t := upper(NEW.t); END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER before_row BEFORE INSERT ON parts FOR EACH ROW EXECUTE FUNCTION here_note();
CREATE TRIGGER after_row AFTER INSERT ON parts FOR EACH ROW EXECUTE FUNCTION here_note();
CREATE TRIGGER before_statement BEFORE INSERT ON parts FOR EACH STATEMENT EXECUTE FUNCTION here_note();
CREATE TRIGGER after_statement AFTER INSERT ON parts FOR EACH STATEMENT EXECUTE FUNCTION here_note();
INSERT INTO parts VALUES (10, 'low'), (11, 'low');
SELECT * FROM ins_remote.parts WHERE k IN (10, 11) ORDER BY k;
DROP TRIGGER before_row ON parts;
DROP TRIGGER after_row ON parts;
DROP TRIGGER before_statement ON parts;
DROP TRIGGER after_statement ON parts;

-- batch_size 1: one by one, so a statement trigger there fires for each
ALTER FOREIGN TABLE rules OPTIONS (ADD batch_size '1');
TRUNCATE ins_remote.log;
CREATE TRIGGER s AFTER INSERT ON ins_remote.rules REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION ins_remote.note();
INSERT INTO rules (a) SELECT g FROM generate_series(200, 202) g;
SELECT * FROM ins_remote.log;

-- not updatable, by table and by server
ALTER FOREIGN TABLE parts OPTIONS (ADD updatable 'false');
INSERT INTO parts VALUES (1, 'x');
UPDATE parts SET t = 'x';
DELETE FROM parts;
ALTER FOREIGN TABLE parts OPTIONS (DROP updatable);
ALTER SERVER ins_srv OPTIONS (ADD updatable 'false');
INSERT INTO parts VALUES (1, 'x');
ALTER FOREIGN TABLE parts OPTIONS (ADD updatable 'true');
INSERT INTO parts VALUES (1, 'x');
SELECT table_name, is_insertable_into FROM information_schema.tables WHERE table_schema = 'ins_here' AND table_name IN ('parts', 'big', 'checked') ORDER BY 1;

-- the functions behind it are not for users
SELECT * FROM rdma_internal.receive() AS r(a int);
SELECT rdma_internal.store('', 'ins_remote.t', '{a}', NULL);
SELECT rdma_internal.store(decode(repeat('00', 200), 'hex'), 'ins_remote.t', '{a}', NULL);

SET client_min_messages = warning;
DROP SERVER ins_srv CASCADE;
DROP SCHEMA ins_here CASCADE;
DROP SCHEMA ins_remote CASCADE;
SELECT rdma.revoke_access('ins_user', 'write', 'read');
DROP ROLE ins_user;
