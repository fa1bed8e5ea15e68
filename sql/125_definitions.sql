-- What is a definition of a table, of those that other servers send: nothing else is run, and no code of another role with the caller's
-- rights. How definitions travel is in 130_definitions_travel.
\getenv tree PG_ABS_SRCDIR
\set said :tree '/test/setup/said.sql'
\i :said
\set guest_code :tree '/test/setup/guest_code.sql'
\i :guest_code
\set ECHO none
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
CREATE SCHEMA def;
RESET client_min_messages;
SET search_path = def, public;
\set SHOW_CONTEXT never
CREATE TABLE t (a int, b text, c numeric(10, 2), d date, e text[], j jsonb, ts timestamptz, p point) PARTITION BY LIST (a);
CREATE TABLE t1 PARTITION OF t FOR VALUES IN (1);
CREATE TABLE other (a int);
CREATE FUNCTION judge(VARIADIC statements text[]) RETURNS SETOF text LANGUAGE sql SET search_path = pg_catalog AS $$
  SELECT concat(coalesce(rdma_internal.define('def.t', s, false), 'yes'), ' | ', s) FROM unnest(statements) WITH ORDINALITY u(s, place) ORDER BY place $$;
CREATE FUNCTION judge_moody(VARIADIC expressions text[]) RETURNS SETOF text LANGUAGE sql SET search_path = pg_catalog AS $$
  SELECT concat(coalesce(rdma_internal.define('def.moody', format('ALTER TABLE def.moody ADD CONSTRAINT c CHECK (%s)', e), false), 'yes'), ' | ', e) FROM unnest(expressions) WITH ORDINALITY u(e, place) ORDER BY place $$;
CREATE FUNCTION judge_run(VARIADIC statements text[]) RETURNS SETOF text LANGUAGE sql SET search_path = pg_catalog AS $$
  SELECT concat(coalesce(rdma_internal.define('def.moody', s, true), 'yes'), ' | ', s) FROM unnest(statements) WITH ORDINALITY u(s, place) ORDER BY place $$;
\pset format unaligned
\pset tuples_only on
\set ECHO all
SELECT judge('CREATE INDEX i ON def.t (a)', 'CREATE UNIQUE INDEX i ON def.t1 USING btree (lower(b) COLLATE "C" text_pattern_ops DESC, a) INCLUDE (c) WITH (fillfactor = 70) WHERE (a > 0 AND b ~~ ''x%'')',
  'CREATE INDEX i ON def.t USING gin (j jsonb_path_ops, e)', 'CREATE INDEX i ON def.t USING gist (p)', 'CREATE INDEX i ON def.t USING brin (d)', 'CREATE INDEX i ON def.t (((j -> ''a'') ->> ''b''), ((c)::integer), abs(a), (CASE WHEN a > 1 THEN b ELSE ''x'' END), COALESCE(b, ''y''))');
SELECT judge('ALTER TABLE def.t ADD CONSTRAINT c PRIMARY KEY (a, b) INCLUDE (c)', 'ALTER TABLE def.t ADD CONSTRAINT c UNIQUE (a) DEFERRABLE INITIALLY DEFERRED', 'ALTER TABLE def.t1 ADD CONSTRAINT c EXCLUDE USING gist (p WITH ~=) WHERE (a > 5)',
  'ALTER TABLE def.t ADD CONSTRAINT c CHECK (((a > 0) AND (c <> ALL (ARRAY[1.5, 2.5])) AND (b IS NOT NULL)))', 'ALTER TABLE def.t ADD CONSTRAINT c CHECK ((ts < now()) AND (d <= CURRENT_DATE) AND (to_char(ts, ''YYYY'') > ''2000'')) NOT VALID',
  'ALTER TABLE def.t ADD CONSTRAINT c CHECK (((a || ''x'') <> ''1x'') AND (quote_literal(a) <> ''x''))', 'ALTER TABLE ONLY def.t ALTER COLUMN b SET STORAGE EXTERNAL', 'ALTER TABLE ONLY def.t1 ALTER COLUMN b SET (n_distinct = -0.5)', 'ALTER TABLE def.t1 ALTER COLUMN b SET STATISTICS 7');
SELECT judge('CREATE STATISTICS def.s (mcv, dependencies) ON a, b, lower(b) FROM def.t', 'COMMENT ON TABLE def.t1 IS ''it''''s''', 'CREATE TABLE def.t (a integer NOT NULL, b character varying(20) COLLATE pg_catalog."C", g text GENERATED ALWAYS AS (upper((b)::text)) STORED) PARTITION BY RANGE (a, lower((b)::text))',
  'CREATE UNLOGGED TABLE def.t (a numeric(10,2)) WITH (fillfactor = ''70'', toast.autovacuum_enabled = ''off'')', 'CREATE TABLE def.t2 PARTITION OF def.t DEFAULT', 'CREATE TABLE def.t2 PARTITION OF def.t FOR VALUES IN (1, ''2'', true, NULL) WITH (fillfactor = 70)', 'CREATE TABLE def.t2 PARTITION OF def.t FOR VALUES WITH (MODULUS 2, REMAINDER 1) PARTITION BY HASH (a)');
-- another command, another table, more than its kind
SELECT judge('', 'CREATE INDEX i ON def.t (a); ALTER ROLE x SUPERUSER', 'ALTER ROLE x SUPERUSER', 'CREATE INDEX i ON def.other (a)', 'CREATE INDEX i ON t (a)', 'CREATE INDEX i ON def.missing (a)', 'CREATE INDEX CONCURRENTLY i ON def.t (a)', 'CREATE INDEX i ON def.t (a) TABLESPACE x',
  'ALTER TABLE def.t ADD CONSTRAINT c PRIMARY KEY (a), OWNER TO x', 'ALTER TABLE def.t OWNER TO x', 'ALTER TABLE def.t ADD CONSTRAINT c FOREIGN KEY (a) REFERENCES def.other', 'ALTER TABLE def.t ADD CONSTRAINT c UNIQUE USING INDEX i', 'ALTER TABLE def.other ADD CONSTRAINT c CHECK (true)',
  'ALTER TABLE def.t ALTER COLUMN a SET DEFAULT 1', 'COMMENT ON TABLE def.other IS ''x''', 'COMMENT ON ROLE x IS ''x''', 'CREATE STATISTICS def.s ON a, b FROM def.t, def.other', 'ALTER VIEW def.t ALTER COLUMN a SET DEFAULT 1');
SELECT judge('CREATE TABLE def.other (a int)', 'CREATE TABLE def.t (LIKE def.other)', 'CREATE TABLE def.t (a int DEFAULT 1)', 'CREATE TABLE def.t (a int CHECK (a > 0))', 'CREATE TABLE def.t (a int) INHERITS (def.other)', 'CREATE TABLE def.t (a int) TABLESPACE x', 'CREATE TEMP TABLE t (a int)', 'CREATE TABLE def.t AS SELECT 1',
  'CREATE TABLE def.t (a int) USING heap', 'CREATE TABLE def.o PARTITION OF def.other DEFAULT', 'CREATE TABLE def.t2 PARTITION OF def.t (CHECK (true)) DEFAULT', 'CREATE TABLE def.t2 PARTITION OF def.t FOR VALUES IN (abs(1))', 'CREATE TABLE def.t2 PARTITION OF def.t FOR VALUES FROM (MINVALUE) TO (1 + 1)', 'CREATE TABLE def.t2 PARTITION OF def.t FOR VALUES IN (''x''::guest.odd)');
-- functions with effects, and functions that run what they are told
SELECT judge(VARIADIC ARRAY(SELECT format('ALTER TABLE def.t ADD CONSTRAINT c CHECK (%s)', e) FROM unnest(ARRAY['lo_export(1, ''f'') > 0', 'query_to_xml(''SELECT 1'', true, false, '''') IS NOT NULL', 'random() > 0', 'lastval() > 0', 'set_config(''a.b'', ''c'', false) IS NOT NULL', 'pg_sleep(0) IS NOT NULL',
  'table_to_xml(''def.other'', true, false, '''') IS NOT NULL', 'schema_to_xml(''def'', true, false, '''') IS NOT NULL', 'satisfies_hash_partition(''def.t''::regclass, 2, 0, a)', 'domain_in(''1''::cstring, ''guest.odd''::regtype, -1) IS NOT NULL', 'array_in(''{1}''::cstring, ''guest.odd''::regtype, -1) IS NOT NULL',
  'EXISTS (SELECT FROM def.other)', 'a > (SELECT 1)', 'count(*) > 0', 'row_number() OVER () > 0']) e));
CREATE FUNCTION mine(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1';
CREATE FUNCTION effects(int) RETURNS int VOLATILE LANGUAGE sql AS 'SELECT $1';
CREATE TABLE moody (a int, m guest.mood, n int);
-- code of another role, by each way that leads to it
SELECT judge_moody('def.mine(a) > 0', 'def.effects(a) > 0', 'guest.f(a) > 0', 'guest.f(1) > 0', 'OPERATOR(guest.##) a > 0', 'a OPERATOR(guest.===) 1', 'a OPERATOR(guest.===) ANY (ARRAY[1])', '(1)::guest.odd > 0', '''{1}''::guest.odd[] IS NULL', '(''(1,2)''::guest.pair).b > 0', 'ROW(a, guest.f(a)) IS NULL',
  'm = ''good''', 'm IN (''good'', ''bad'')', 'm > ''bad''', 'upper((m)::text) = ''X''', '(m)::text = ''x''', 'm || ''x'' = ''y''', 'quote_literal(m) = ''x''', 'to_json(m) IS NULL', 'jsonb_build_array(m) IS NULL', 'row_to_json(moody.*) IS NULL', 'row_to_json(ROW(a, m)) IS NULL', 'to_jsonb(ARRAY[m]) IS NULL', 'to_json(a) IS NOT NULL', 'concat(m, ''x'') = ''goodx''', 'enum_first(m) = ''bad''');
SELECT coalesce(rdma_internal.define('def.moody', s, false), 'yes') || ' | ' || s FROM unnest(ARRAY['ALTER TABLE def.moody ADD CONSTRAINT c EXCLUDE (a WITH OPERATOR(guest.===))', 'CREATE STATISTICS def.s ON a, guest.f(a) FROM def.moody', 'CREATE INDEX ON def.moody (a) WHERE guest.ok(a)', 'CREATE INDEX ON def.moody (m)', 'CREATE INDEX ON def.moody (a) INCLUDE (m)',
  'CREATE TABLE def.moody (a guest.odd)', 'CREATE TABLE def.moody (a guest.odd[])', 'CREATE TABLE def.moody (a guest.pair)', 'CREATE TABLE def.moody (a guest.mood[])', 'CREATE TABLE def.moody (a int, b int GENERATED ALWAYS AS (guest.f(a)) STORED)', 'CREATE TABLE def.moody (a int) PARTITION BY RANGE ((guest.f(a)))']) s;
SELECT rolsuper FROM pg_roles WHERE rolname = 'regress_def_guest';
-- When a definition runs, its names mean what was checked: no other role may change what is in their schemas, or make casts of their types.
CREATE SCHEMA shared;
CREATE FUNCTION shared.f(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1';
CREATE FUNCTION guest.superusers(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1';
CREATE OPERATOR shared.## (RIGHTARG = int, FUNCTION = shared.f);
BEGIN;
SELECT judge_run('ALTER TABLE def.moody ADD CONSTRAINT c1 CHECK (shared.f(a) > 0)', 'CREATE INDEX i1 ON def.moody ((OPERATOR(shared.##) a))', 'CREATE INDEX i2 ON def.moody (m)', 'ALTER TABLE def.moody ADD CONSTRAINT c2 CHECK (m = ''good'')', 'ALTER TABLE def.moody ADD CONSTRAINT c3 CHECK (guest.superusers(a) > 0)',
  'CREATE INDEX i3 ON def.moody (a) WHERE m IS NOT NULL', 'CREATE STATISTICS def.s ON a, (enum_first(m)) FROM def.moody');
GRANT CREATE ON SCHEMA shared TO regress_def_guest;
SELECT judge_run('ALTER TABLE def.moody ADD CONSTRAINT c4 CHECK (shared.f(a) > 0)', 'CREATE INDEX i4 ON def.moody ((OPERATOR(shared.##) a))', 'CREATE TABLE def.moody (a int, b int GENERATED ALWAYS AS (shared.f(a)) STORED)');
GRANT CREATE ON SCHEMA shared TO PUBLIC;
SELECT judge_run('CREATE STATISTICS def.s2 ON a, shared.f(a) FROM def.moody');
ROLLBACK;
SELECT rdma_internal.define('def.moody2', 'CREATE TABLE def.moody2 (a guest.mood, b int GENERATED ALWAYS AS (length(upper((a)::text))) STORED)', false);
DROP SCHEMA shared CASCADE;
-- his own code is his
SET ROLE regress_def_guest;
CREATE TABLE guest.t (a int);
SELECT rdma_internal.define('guest.t', 'CREATE INDEX ON guest.t (guest.f(a))', true) IS NULL, rdma_internal.define('guest.t', 'CREATE INDEX ON guest.t (a) WHERE guest.rise()', true);
SELECT count(*) FROM pg_index WHERE indrelid = 'guest.t'::regclass;
RESET ROLE;
DROP TABLE guest.t;

-- types by the names that a node gives them
SELECT rdma_internal.known_type(t) FROM unnest(ARRAY['int', 'numeric(10,2)', 'character varying(20)', 'text[]', 'interval day to second(3)', 'timestamp(3) with time zone', 'bit(3)', '"char"', 'guest.mood', 'guest.odd']) t;
SELECT said(format('SELECT rdma_internal.known_type(%L)', t)) FROM unnest(ARRAY['guest.odd[]', 'guest.pair', 'int) SERVER x; DROP TABLE y', 'int, b int', 'int DEFAULT 1', '', 'nothing']) t;

\set ECHO none
RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA def, guest CASCADE;
DROP FUNCTION said(text);
DROP ROLE regress_def_guest;
