-- Errors have the SQLSTATEs of postgres_fdw: the same statements run with both wrappers, and differences are listed.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
CREATE EXTENSION IF NOT EXISTS postgres_fdw;
\getenv coord RF_COORD_PORT
\c contrib_regression postgres 127.0.0.1 :coord
SET client_min_messages = error;
CREATE SCHEMA far43;
CREATE SCHEMA rdma_fdw43;
CREATE SCHEMA postgres_fdw43;
CREATE ROLE regress_plain43 LOGIN;
CREATE TABLE far43.t (a int PRIMARY KEY, b varchar(5) NOT NULL, c numeric CHECK (c > 0), d int REFERENCES far43.t, e date DEFAULT '2020-01-01');
INSERT INTO far43.t VALUES (1, 'one', 1, NULL), (2, 'two', 2, 1), (3, 'three', 3, 1);
CREATE TABLE far43.changed (kept int, dropped int, renamed int, retyped int);
INSERT INTO far43.changed VALUES (1, 2, 3, 4);
CREATE TABLE far43.narrow (a text);
INSERT INTO far43.narrow VALUES ('12'), ('twelve');
CREATE VIEW far43.zero AS SELECT a, 1 / (a - 2) AS q FROM far43.t;
DO $$
DECLARE wrapper text;
BEGIN
	FOREACH wrapper IN ARRAY ARRAY['rdma_fdw', 'postgres_fdw'] LOOP
		EXECUTE format('CREATE SERVER %s_srv43 FOREIGN DATA WRAPPER %1$s OPTIONS (host ''127.0.0.1'', port %L, dbname %L)', wrapper, current_setting('port'), current_database());
		EXECUTE format('CREATE USER MAPPING FOR CURRENT_USER SERVER %s_srv43 OPTIONS (user ''postgres'')', wrapper);
		EXECUTE format('IMPORT FOREIGN SCHEMA far43 FROM SERVER %s_srv43 INTO %1$s43', wrapper);
		EXECUTE format('CREATE FOREIGN TABLE %s43.absent (a int) SERVER %1$s_srv43 OPTIONS (schema_name ''far43'')', wrapper);
		EXECUTE format('CREATE FOREIGN TABLE %s43.as_number (a int) SERVER %1$s_srv43 OPTIONS (schema_name ''far43'', table_name ''narrow'')', wrapper);
		EXECUTE format('CREATE FOREIGN TABLE %s43.fixed (a int, b text) SERVER %1$s_srv43 OPTIONS (schema_name ''far43'', table_name ''t'', updatable ''false'', truncatable ''false'')', wrapper);
		EXECUTE format('GRANT USAGE ON SCHEMA %s43 TO regress_plain43; GRANT ALL ON ALL TABLES IN SCHEMA %1$s43 TO regress_plain43; GRANT USAGE ON FOREIGN SERVER %1$s_srv43 TO regress_plain43', wrapper);
	END LOOP;
END $$;
GRANT USAGE ON SCHEMA far43 TO regress_plain43;
ALTER TABLE far43.changed DROP COLUMN dropped;
ALTER TABLE far43.changed RENAME renamed TO other_name;
ALTER TABLE far43.changed ALTER retyped TYPE text USING 'not a number';
CREATE FUNCTION random_false() RETURNS bool LANGUAGE plpgsql VOLATILE AS 'BEGIN RETURN false; END';
CREATE FUNCTION here43(x int) RETURNS int LANGUAGE plpgsql VOLATILE AS 'BEGIN RETURN x; END';

-- the statement's SQLSTATE, 00000 if it succeeds; its effects are rolled back
CREATE FUNCTION state_of(wrapper text, statement text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE replace(replace(replace(statement, 'WRAPPER', wrapper), 'SERVER_', wrapper || '_srv43'), 'REL_', wrapper || '43');
	RAISE EXCEPTION 'undo' USING ERRCODE = 'ZZ000';
EXCEPTION WHEN OTHERS THEN
	RETURN CASE SQLSTATE WHEN 'ZZ000' THEN '00000' ELSE SQLSTATE END;
END $$;
CREATE TABLE statements (i serial, since int, statement text);
-- options
INSERT INTO statements (since, statement) SELECT since, format('ALTER SERVER SERVER_ OPTIONS (ADD %s)', options) FROM (VALUES
	(15, $$nonsense 'x'$$), (15, $$user 'x'$$), (15, $$password 'x'$$), (15, $$host 'twice'$$), (15, $$table_name 'x'$$), (15, $$client_encoding 'x'$$), (15, $$fallback_application_name 'x'$$),
	(15, $$fdw_startup_cost 'x'$$), (15, $$fdw_startup_cost '-1'$$), (15, $$fdw_startup_cost '1.5'$$), (15, $$fdw_startup_cost 'NaN'$$), (15, $$fdw_tuple_cost ''$$), (15, $$fdw_tuple_cost '-0.1'$$),
	(15, $$use_remote_estimate 'perhaps'$$), (15, $$use_remote_estimate 'on'$$), (15, $$updatable 'x'$$), (15, $$truncatable 'x'$$), (15, $$async_capable 'x'$$), (15, $$keep_connections 'x'$$),
	(15, $$parallel_commit 'x'$$), (16, $$parallel_abort 'x'$$), (16, $$analyze_sampling 'x'$$), (16, $$analyze_sampling 'system'$$), (15, $$fetch_size '0'$$), (15, $$fetch_size '-1'$$), (15, $$fetch_size 'x'$$),
	(15, $$fetch_size '10'$$), (15, $$fetch_size '99999999999'$$), (15, $$batch_size '0'$$), (15, $$batch_size 'x'$$), (15, $$batch_size '1.5'$$), (15, $$extensions 'no_such_extension'$$), (15, $$extensions 'a,,b'$$),
	(18, $$use_scram_passthrough 'x'$$), (15, $$password_required 'false'$$)) v(since, options);
INSERT INTO statements (since, statement) SELECT since, format('ALTER USER MAPPING FOR CURRENT_USER SERVER SERVER_ OPTIONS (ADD %s)', options) FROM (VALUES
	(15, $$host 'x'$$), (15, $$password_required 'x'$$), (15, $$password_required 'false'$$), (15, $$sslcert 'x'$$), (15, $$dbname 'x'$$), (15, $$batch_size '1'$$), (18, $$use_scram_passthrough 'yes'$$)) v(since, options);
INSERT INTO statements (since, statement) SELECT 15, format('ALTER FOREIGN TABLE REL_.t OPTIONS (ADD %s)', options) FROM unnest(ARRAY[
	$$host 'x'$$, $$fdw_startup_cost '1'$$, $$fetch_size '0'$$, $$batch_size '-1'$$, $$use_remote_estimate 'x'$$, $$column_name 'x'$$, $$keep_connections 'true'$$, $$async_capable 'maybe'$$]) options;
INSERT INTO statements (since, statement) SELECT 15, statement FROM unnest(ARRAY[
	$$ALTER FOREIGN TABLE REL_.t ALTER a OPTIONS (ADD table_name 'x')$$, $$ALTER FOREIGN DATA WRAPPER WRAPPER OPTIONS (ADD host 'x')$$,
-- definitions that do not fit, or not any more
	'SELECT * FROM REL_.absent', 'INSERT INTO REL_.absent VALUES (1)', 'UPDATE REL_.absent SET a = 1', 'DELETE FROM REL_.absent WHERE random_false()', 'TRUNCATE REL_.absent', 'ANALYZE REL_.absent',
	'SELECT * FROM REL_.as_number', 'SELECT a FROM REL_.as_number WHERE a = 12', 'SELECT max(dropped) FROM REL_.changed', 'SELECT dropped FROM REL_.changed', 'SELECT kept FROM REL_.changed', 'SELECT renamed FROM REL_.changed',
	'SELECT retyped FROM REL_.changed', 'SELECT retyped + 1 FROM REL_.changed WHERE kept = here43(1)', 'UPDATE REL_.changed SET dropped = 1', 'UPDATE REL_.changed SET renamed = here43(1)', 'UPDATE REL_.changed SET kept = here43(1)',
	'INSERT INTO REL_.changed VALUES (1, 2, 3, 4)', 'INSERT INTO REL_.changed (kept) VALUES (1) RETURNING kept', 'DELETE FROM REL_.changed WHERE dropped = 2', 'ANALYZE REL_.changed',
-- what the data node refuses
	'SELECT sum(q) FROM REL_.zero', 'SELECT q FROM REL_.zero WHERE here43(a) = 2', 'SELECT 1 / (a - 2) FROM REL_.t WHERE 1 / (a - 2) > 0', $$INSERT INTO REL_.t VALUES (1, 'again', 1)$$, $$INSERT INTO REL_.t VALUES (9, 'far too long', 1)$$,
	'INSERT INTO REL_.t VALUES (9, NULL, 1)', $$INSERT INTO REL_.t VALUES (9, 'neg', -1)$$, $$INSERT INTO REL_.t VALUES (9, 'ref', 1, 77)$$, $$INSERT INTO REL_.t VALUES (9, 'good', 1, 1) RETURNING *$$,
	$$INSERT INTO REL_.t SELECT g, 'x', 1 FROM generate_series(3, 2000) g$$, $$UPDATE REL_.t SET a = 2 WHERE a = 1$$, $$UPDATE REL_.t SET a = here43(2) WHERE a = 3$$, $$UPDATE REL_.t SET b = 'far too long'$$, 'UPDATE REL_.t SET c = here43(-a)',
	'UPDATE REL_.t SET b = NULL WHERE here43(a) = 1 RETURNING a', 'DELETE FROM REL_.t WHERE a = 1', 'DELETE FROM REL_.t WHERE here43(a) = 1', 'DELETE FROM REL_.t', 'TRUNCATE REL_.t',
-- what the table or the wrapper refuses
	'INSERT INTO REL_.fixed VALUES (1)', 'UPDATE REL_.fixed SET a = 1', 'DELETE FROM REL_.fixed', 'TRUNCATE REL_.fixed', $$INSERT INTO REL_.t VALUES (1, 'x', 1) ON CONFLICT DO NOTHING$$,
	$$UPDATE REL_.t SET ctid = '(0,1)'$$,
	$$MERGE INTO REL_.t USING (VALUES (1)) v(k) ON a = k WHEN MATCHED THEN DELETE$$, 'CREATE INDEX ON REL_.t (a)', 'LOCK TABLE REL_.t', 'VACUUM REL_.t', 'ALTER FOREIGN TABLE REL_.t ADD PRIMARY KEY (a)',
	$$SELECT set_config('transaction_read_only', 'on', true); INSERT INTO REL_.t VALUES (9, 'ro', 1)$$, $$SELECT set_config('transaction_read_only', 'on', true); DELETE FROM REL_.t$$,
-- importing
	'IMPORT FOREIGN SCHEMA no_such FROM SERVER SERVER_ INTO REL_', 'IMPORT FOREIGN SCHEMA far43 FROM SERVER SERVER_ INTO no_such', 'IMPORT FOREIGN SCHEMA far43 FROM SERVER SERVER_ INTO REL_',
	'IMPORT FOREIGN SCHEMA far43 FROM SERVER no_such INTO REL_', $$IMPORT FOREIGN SCHEMA far43 LIMIT TO (no_such) FROM SERVER SERVER_ INTO REL_$$,
	$$IMPORT FOREIGN SCHEMA far43 LIMIT TO (no_such) FROM SERVER SERVER_ INTO REL_ OPTIONS (nonsense 'x')$$, $$IMPORT FOREIGN SCHEMA far43 LIMIT TO (no_such) FROM SERVER SERVER_ INTO REL_ OPTIONS (import_default 'x')$$,
-- connecting
	$$ALTER SERVER SERVER_ OPTIONS (SET port '1'); SELECT * FROM REL_.t$$, $$ALTER SERVER SERVER_ OPTIONS (SET dbname 'no_such'); SELECT * FROM REL_.t$$,
	$$ALTER USER MAPPING FOR CURRENT_USER SERVER SERVER_ OPTIONS (SET user 'no_such'); SELECT * FROM REL_.t$$, $$ALTER SERVER SERVER_ OPTIONS (ADD sslmode 'nonsense'); SELECT * FROM REL_.t$$,
	$$ALTER SERVER SERVER_ OPTIONS (ADD options '-c nonsense=x'); SELECT * FROM REL_.t$$, 'DROP USER MAPPING FOR CURRENT_USER SERVER SERVER_; SELECT * FROM REL_.t',
	'SET LOCAL ROLE regress_plain43; SELECT * FROM REL_.t', $$CREATE USER MAPPING FOR regress_plain43 SERVER SERVER_ OPTIONS (user 'regress_plain43'); SET LOCAL ROLE regress_plain43; SELECT * FROM REL_.t$$,
	$$CREATE USER MAPPING FOR regress_plain43 SERVER SERVER_ OPTIONS (user 'regress_plain43', password 'x'); SET LOCAL ROLE regress_plain43; SELECT * FROM REL_.t$$,
	$$CREATE USER MAPPING FOR regress_plain43 SERVER SERVER_ OPTIONS (user 'regress_plain43', password_required 'false'); SET LOCAL ROLE regress_plain43; SELECT * FROM REL_.t$$,
	$$SET LOCAL ROLE regress_plain43; CREATE USER MAPPING FOR regress_plain43 SERVER SERVER_ OPTIONS (password_required 'false')$$,
	$$SET LOCAL ROLE regress_plain43; CREATE USER MAPPING FOR regress_plain43 SERVER SERVER_ OPTIONS (sslkey 'x')$$, $$SET LOCAL ROLE regress_plain43; CREATE SERVER another FOREIGN DATA WRAPPER WRAPPER$$]) statement;
DELETE FROM statements WHERE since > current_setting('server_version_num')::int / 10000;
-- statements of their own, so that connections are made anew where options changed
CREATE TABLE states (i int, ours text, theirs text);
\set ECHO none
SELECT format('INSERT INTO states SELECT %s, state_of(%L, statement), state_of(%L, statement) FROM statements WHERE i = %1$s', i, 'rdma_fdw', 'postgres_fdw') FROM statements ORDER BY i
\gexec
\set ECHO all
SELECT count(*) > 90 AS many, count(*) FILTER (WHERE ours <> '00000') > 60 AS errors, count(DISTINCT ours) > 15 AS kinds FROM states;
SELECT ours, theirs, statement FROM states JOIN statements USING (i) WHERE ours <> theirs ORDER BY i;

SET client_min_messages = error;
DROP SERVER rdma_fdw_srv43 CASCADE;
DROP EXTENSION postgres_fdw CASCADE;
DROP SCHEMA far43, rdma_fdw43, postgres_fdw43 CASCADE;
DROP TABLE statements, states;
DROP FUNCTION random_false, here43, state_of;
DROP ROLE regress_plain43;
