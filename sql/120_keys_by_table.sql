-- Foreign keys when tables are distributed one by one, in either order, and keys that are added afterwards.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name kbt
\i :two_nodes
RESET client_min_messages;
\set SHOW_CONTEXT never
\pset format unaligned
\t on
CREATE FUNCTION there() RETURNS SETOF text LANGUAGE sql AS $$ SELECT DISTINCT answer FROM rdma.run_on('kbt',
  'SELECT string_agg(concat_ws('' '', conrelid::regclass, conname, pg_get_constraintdef(oid)), E''\n'' ORDER BY conrelid::regclass::text, conname) FROM pg_constraint WHERE contype = ''f'' AND connamespace = ''kbt''::regnamespace') ORDER BY 1 $$;
CREATE FUNCTION noted() RETURNS SETOF text LANGUAGE sql AS $$ SELECT tab || ' ' || (key->>'name') || ' to ' || (key->'other_table'->>1) FROM rdma_internal.noted_keys() WHERE key->'table'->>0 = 'kbt' $$;
CREATE FUNCTION here() RETURNS SETOF text LANGUAGE sql AS $$ SELECT concat_ws(' ', conrelid::regclass, conname, pg_get_constraintdef(oid)) FROM pg_constraint WHERE contype = 'f' AND connamespace = 'kbt'::regnamespace ORDER BY 1 $$;
CREATE TABLE countries (code text PRIMARY KEY);
CREATE TABLE accounts (id int PRIMARY KEY, country text REFERENCES countries ON DELETE SET NULL);
CREATE TABLE transfers (account bigint REFERENCES accounts ON DELETE CASCADE, n int, again int, PRIMARY KEY (account, n), CONSTRAINT self FOREIGN KEY (account, again) REFERENCES transfers);
INSERT INTO countries VALUES ('x'), ('y');
INSERT INTO accounts SELECT i, CASE WHEN i % 2 = 0 THEN 'x' END FROM generate_series(1, 50) i;
INSERT INTO transfers SELECT i, n, NULLIF(n - 1, 0) FROM generate_series(1, 50) i, generate_series(1, 3) n;
-- the referred table first
SELECT rdma.distribute_table('countries', 'kbt', replicated => true);
SELECT noted();
INSERT INTO accounts VALUES (51, 'nowhere');
SELECT rdma.distribute_table('accounts', 'kbt', 'id');
DELETE FROM accounts WHERE id = 51;
\set VERBOSITY terse
SELECT rdma.distribute_table('accounts', 'kbt', 'id');
SELECT rdma.distribute_table('transfers', 'kbt', 'account');
SELECT noted();
SELECT there();
DELETE FROM accounts WHERE id = 3;
SELECT count(*) FROM transfers;
-- and back
SELECT rdma.undistribute_table('accounts');
SELECT noted();
SELECT rdma.undistribute_table('countries');
SELECT rdma.undistribute_table('transfers');
SELECT noted();
SELECT here();
-- the referring table first
SELECT rdma.distribute_table('transfers', 'kbt', 'account');
SELECT rdma.distribute_table('accounts', 'kbt', 'id');
SELECT rdma.alter_distribution('transfers', 'account');
SELECT rdma.distribute_table('countries', 'kbt', replicated => true);
SELECT noted();
SELECT there();

-- tables that are made after those that they refer to
CREATE TABLE notes (account int REFERENCES accounts DEFERRABLE INITIALLY DEFERRED NOT NULL, country text, note text PRIMARY KEY, CONSTRAINT "of country" FOREIGN KEY (country) REFERENCES countries (code) MATCH FULL ON UPDATE CASCADE);
SELECT noted();
\d notes
SELECT key - 'enforced' - 'period' AS key FROM pg_seclabels, jsonb_array_elements(substr(label, length('foreign_keys ') + 1)::jsonb) key WHERE objname = 'notes';
ALTER TABLE notes DROP CONSTRAINT notes_pkey;
ALTER TABLE notes ADD CONSTRAINT "of country" FOREIGN KEY (country) REFERENCES countries;
ALTER TABLE notes DROP CONSTRAINT "of country";
SELECT noted();
SELECT rdma.distribute_table('notes', 'kbt', 'account');
ALTER TABLE notes ADD CONSTRAINT "of country" FOREIGN KEY (country) REFERENCES countries ON DELETE SET NULL (country) NOT VALID;
ALTER TABLE notes VALIDATE CONSTRAINT "of country";
ALTER TABLE notes ADD n int, ADD FOREIGN KEY (account, n) REFERENCES transfers (account, n), ADD back int REFERENCES countries;
ALTER TABLE notes ADD FOREIGN KEY (account, n) REFERENCES transfers;
SELECT there();
-- what cannot be is refused before anything happened
\set VERBOSITY default
ALTER TABLE notes ADD more int, ADD FOREIGN KEY (n) REFERENCES accounts;
ALTER TABLE notes ADD FOREIGN KEY (n) REFERENCES accounts (country);
CREATE TABLE plain (id int PRIMARY KEY);
ALTER TABLE notes ADD FOREIGN KEY (n) REFERENCES plain;
ALTER TABLE countries ADD a int REFERENCES accounts;
ALTER TABLE notes ADD FOREIGN KEY (country) REFERENCES countries ON DELETE SET DEFAULT;
CREATE TABLE later (id int PRIMARY KEY);
ALTER TABLE later ADD account int NOT NULL CONSTRAINT later_account_fkey REFERENCES accounts (id) DEFERRABLE, ADD same int REFERENCES later;
SELECT rdma.distribute_table('later', 'kbt', 'id');
SELECT rdma.distribute_table('later', 'kbt', 'id', force => true);
SELECT noted();
ALTER TABLE notes DROP CONSTRAINT "of country";
SELECT there();
-- labels are checked
SECURITY LABEL FOR rdma_fdw ON TABLE plain IS 'foreign_keys 5';
SECURITY LABEL FOR rdma_fdw ON TABLE plain IS 'foreign_keys [';
SECURITY LABEL FOR rdma_fdw ON TABLE plain IS 'foreign_keys [5, {"name": "a"}, {"name": "b", "other_table": 7}, {"name": "c", "other_table": ["nowhere", "t"]}]';
SELECT noted();
CREATE TABLE another (id int);
SELECT rdma.distribute_table('another', 'kbt', 'id');
SECURITY LABEL FOR rdma_fdw ON TABLE plain IS 'page_shipping';
ALTER TABLE plain ADD FOREIGN KEY (id) REFERENCES accounts;
DROP TABLE plain;
-- a role that may not refer to the table
CREATE ROLE regress_kbt;
GRANT USAGE, CREATE ON SCHEMA kbt TO regress_kbt;
SET ROLE regress_kbt;
CREATE TABLE theirs (id int REFERENCES accounts);
RESET ROLE;
GRANT REFERENCES (id) ON accounts TO regress_kbt;
SET ROLE regress_kbt;
CREATE TABLE theirs (id int REFERENCES accounts (id));
RESET ROLE;
SELECT rdma.distribute_table('theirs', 'kbt', 'id');
SELECT noted();

SET client_min_messages = warning;
DROP SERVER kbt1, kbt2, kbt CASCADE;
DROP SCHEMA kbt CASCADE;
DROP ROLE regress_kbt;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA kbt CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA kbt CASCADE;
