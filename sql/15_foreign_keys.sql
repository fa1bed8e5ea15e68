-- Foreign keys: rdma.distribute_tables and rdma.undistribute_tables keep those whose rows are on one node, and moves, new nodes and DDL
-- lose no row by them. The third node is another database of the second one's cluster.
\getenv tree PG_ABS_SRCDIR
\set two_nodes :tree '/test/setup/two_nodes.sql'
\set name fk
\set third regress_rdma_fk
\i :two_nodes
CREATE SCHEMA fk_here;
RESET client_min_messages;
-- said(): errors without what differs from run to run
\set said :tree '/test/setup/said.sql'
\i :said
\set SHOW_CONTEXT never
\pset format unaligned
\t on

-- a bank: transfers lie with the account that they are of, and notes with their transfers; countries and continents are everywhere
CREATE TABLE continents (name text PRIMARY KEY);
CREATE TABLE countries (code char(2) PRIMARY KEY, continent text REFERENCES continents ON UPDATE CASCADE);
CREATE TABLE "Accounts" (id int PRIMARY KEY, country char(2) CONSTRAINT "in a" REFERENCES countries ON UPDATE CASCADE ON DELETE RESTRICT);
CREATE TABLE transfers (account bigint CONSTRAINT of_account REFERENCES "Accounts" ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED, number int, target int CONSTRAINT goes_to REFERENCES "Accounts", again int,
  CONSTRAINT transfers_pk PRIMARY KEY (account, number), CONSTRAINT corrects FOREIGN KEY (again, account) REFERENCES transfers (number, account) ON DELETE SET NULL (again));
CREATE TABLE notes (account int, number int, country char(2) CONSTRAINT of_country REFERENCES countries ON DELETE SET NULL, note text,
  CONSTRAINT of_transfer FOREIGN KEY (number, account) REFERENCES transfers (number, account) MATCH FULL ON UPDATE CASCADE ON DELETE CASCADE);
CREATE TABLE elsewhere (id int CONSTRAINT elsewhere_account REFERENCES "Accounts");
INSERT INTO continents VALUES ('A'), ('B');
INSERT INTO countries SELECT 'c' || i, CASE WHEN i < 5 THEN 'A' ELSE 'B' END FROM generate_series(0, 9) i;
INSERT INTO "Accounts" SELECT i, 'c' || i % 10 FROM generate_series(1, 1000) i;
INSERT INTO transfers SELECT a, n, 1 + (a * 7 + n) % 1000 FROM generate_series(1, 1000) a, generate_series(1, 3) n WHERE n < 3 OR a % 2 = 0;
UPDATE transfers SET again = 2 WHERE number = 1;
INSERT INTO notes SELECT a, n, 'c' || n, 'note' FROM generate_series(1, 1000) a, generate_series(1, 2) n;
ALTER TABLE notes DROP CONSTRAINT of_transfer;
INSERT INTO notes VALUES (NULL, NULL, NULL, 'of nothing'), (3, 3, NULL, 'of a transfer that is not there');
ALTER TABLE notes ADD CONSTRAINT of_transfer FOREIGN KEY (number, account) REFERENCES transfers (number, account) MATCH FULL ON UPDATE CASCADE ON DELETE CASCADE NOT VALID;
-- what the tables have to have, here without keys
CREATE TABLE fk_here.continents AS TABLE continents;
CREATE TABLE fk_here.countries AS TABLE countries;
CREATE TABLE fk_here."Accounts" AS TABLE "Accounts";
CREATE TABLE fk_here.transfers AS TABLE transfers;
CREATE TABLE fk_here.notes AS TABLE notes;
CREATE FUNCTION differences() RETURNS text LANGUAGE plpgsql AS $$
DECLARE tab text; count bigint; result text;
BEGIN
  FOR tab IN SELECT quote_ident(relname) FROM pg_class WHERE relnamespace = 'fk_here'::regnamespace AND relkind = 'r' ORDER BY relname LOOP
    EXECUTE format('SELECT count(*) FROM ((TABLE fk.%1$s EXCEPT ALL TABLE fk_here.%1$s) UNION ALL (TABLE fk_here.%1$s EXCEPT ALL TABLE fk.%1$s)) d', tab) INTO count;
    result := nullif(concat_ws(', ', result, CASE WHEN count > 0 THEN tab || ' ' || count END), '');
  END LOOP;
  RETURN coalesce(result, 'none');
END $$;
CREATE FUNCTION node_keys() RETURNS TABLE (node name, keys text) LANGUAGE sql AS $$
  SELECT * FROM rdma.run_on('fk', $q$SELECT string_agg(format('%s %s %s', conrelid::regclass, conname, pg_get_constraintdef(oid)), E'\n' ORDER BY conrelid::regclass::text, conname) FROM pg_constraint WHERE contype = 'f' AND connamespace = 'fk'::regnamespace$q$) $$;
SELECT differences();

-- one by one: keys to tables that are not distributed yet are noted
\set VERBOSITY terse
BEGIN;
SELECT rdma.distribute_table('notes', 'fk', 'account');
SELECT rdma.distribute_table('"Accounts"', 'fk', 'id');
SELECT conrelid::regclass, conname FROM pg_constraint WHERE contype = 'f' AND connamespace = 'fk'::regnamespace ORDER BY 1, 2;
ROLLBACK;
\set VERBOSITY default
SELECT said($$SELECT rdma.distribute_tables('fk', '{countries}', '{}')$$);
SELECT said($$SELECT rdma.distribute_tables('fk', '{countries}', NULL, '{countries}')$$);
SELECT said($$SELECT rdma.distribute_tables('fk', '{countries}', '{code}', '{countries}')$$);
SELECT said($$SELECT rdma.distribute_tables('fk', '{continents,countries,"\"Accounts\"",transfers,notes}', '{a,b,id,account,account}')$$);
SET client_min_messages = error;
SELECT said($$SELECT rdma.distribute_tables('fk', '{"\"Accounts\"",transfers,notes}', '{id,account,account}', replicated => '{continents,countries}')$$);
SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND connamespace = 'fk'::regnamespace;
RESET client_min_messages;
DROP TABLE elsewhere;
SELECT said($$SELECT rdma.distribute_tables('fk', '{"\"Accounts\"",transfers,notes}', '{id,account,account}', replicated => '{continents,countries}')$$);
SELECT * FROM rdma.distribute_tables('fk', '{"\"Accounts\"",transfers,notes}', '{id,account,account}', replicated => '{continents,countries}', force => true);
SELECT keys FROM node_keys() LIMIT 1;
SELECT count(DISTINCT keys) FROM node_keys();
SELECT differences();
-- they hold, and do what they say
CREATE FUNCTION here_too(statement text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE statement;
  PERFORM set_config('search_path', 'fk_here', true);
  EXECUTE statement;
  PERFORM set_config('search_path', 'fk', true);
  RETURN differences();
END $$;
SELECT regexp_replace(said('INSERT INTO "Accounts" VALUES (5001, ''xx'')'), '(server|node) .*', '\1 ...');
SELECT here_too('UPDATE continents SET name = ''C'' WHERE name = ''B''');
UPDATE fk_here.countries SET continent = 'C' WHERE continent = 'B';
SELECT here_too('DELETE FROM "Accounts" WHERE id % 100 = 7');
DELETE FROM fk_here.transfers WHERE account % 100 = 7;
DELETE FROM fk_here.notes WHERE account % 100 = 7;
SELECT differences();
SELECT here_too('DELETE FROM transfers WHERE account = 2 AND number = 2');
DELETE FROM fk_here.notes WHERE account = 2 AND number = 2;
UPDATE fk_here.transfers SET again = NULL WHERE account = 2 AND again = 2;
SELECT differences();
BEGIN;
INSERT INTO transfers VALUES (5001, 1);
INSERT INTO "Accounts" VALUES (5001, 'c1');
COMMIT;
SELECT differences();
DELETE FROM "Accounts" WHERE id = 5001;
SELECT differences();
BEGIN;
TRUNCATE "Accounts", transfers, notes;
SELECT count(*) FROM transfers;
ROLLBACK;

-- circles, trees, and rows that refer to themselves
CREATE TABLE tree (tenant int, id int, parent int, PRIMARY KEY (tenant, id), CONSTRAINT parents FOREIGN KEY (tenant, parent) REFERENCES tree ON DELETE CASCADE);
INSERT INTO tree SELECT t, i, NULLIF(i + 1, 41) FROM generate_series(1, 200) t, generate_series(1, 40) i;
CREATE TABLE fk_here.tree AS TABLE tree;
SELECT rdma.distribute_table('tree', 'fk', 'tenant');
CREATE TABLE husbands (id int PRIMARY KEY, wife int);
CREATE TABLE wives (id int PRIMARY KEY, husband int REFERENCES husbands DEFERRABLE, CHECK (husband = id));
INSERT INTO husbands SELECT i, i FROM generate_series(1, 200) i;
INSERT INTO wives SELECT i, i FROM generate_series(1, 200) i;
ALTER TABLE husbands ADD CONSTRAINT married FOREIGN KEY (id) REFERENCES wives DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE wives ADD CONSTRAINT one_each UNIQUE (husband);
ALTER TABLE husbands ADD CONSTRAINT wed FOREIGN KEY (id) REFERENCES wives (husband) DEFERRABLE INITIALLY DEFERRED;
CREATE TABLE fk_here.husbands AS TABLE husbands;
CREATE TABLE fk_here.wives AS TABLE wives;
SELECT * FROM rdma.distribute_tables('fk', '{husbands,wives}', '{id,husband}', force => true);
SELECT differences();

-- a node more: it gets the keys, and rows move with those that they refer to
SELECT rdma.add_node('fk', 'fk 3');
SELECT count(*), count(DISTINCT keys) FROM node_keys();
SELECT differences();
SELECT rdma.move_buckets('fk', 'fk1', 'fk 3', ARRAY(SELECT generate_series(0, 300, 2))) > 0;
SELECT rdma.move_buckets('fk', 'fk2', 'fk 3', ARRAY(SELECT generate_series(1, 300, 2))) > 0;
SELECT differences();
CALL rdma.rebalance('fk', 10000, rest => 0);
CALL rdma.drain_node('fk', 'fk1', 10000, rest => 0);
SELECT differences();
CALL rdma.rebalance('fk', 10000, rest => 0);
SELECT differences(), (SELECT sum(misplaced) FROM unnest('{"\"Accounts\"",transfers,notes,tree,husbands,wives}'::regclass[]) t, rdma.check_distribution(t)), (SELECT bool_or(differs) FROM rdma.check_distribution('countries'));
SELECT count(*), count(DISTINCT keys) FROM node_keys();
-- a key that would take rows that do not move, also of a table that only the node knows: nothing moves
SELECT count(*) FROM rdma.run_on('fk2', 'ALTER TABLE fk.transfers ADD CONSTRAINT takes FOREIGN KEY (target) REFERENCES fk."Accounts" ON DELETE CASCADE NOT VALID');
CREATE FUNCTION move_some() RETURNS text LANGUAGE sql AS $$ SELECT said($q$SELECT rdma.move_buckets('fk', 'fk2', 'fk1', (SELECT array_agg(n - 1)::integer[] FROM unnest(rdma.buckets('fk')) WITH ORDINALITY b(p, n) WHERE p = 1 AND n % 3 = 0)) > 0$q$) $$;
SELECT move_some();
SELECT count(*) FROM rdma.run_on('fk2', 'ALTER TABLE fk.transfers DROP CONSTRAINT takes');
SELECT count(*) FROM rdma.run_on('fk2', 'CREATE TABLE fk.only_there AS SELECT id FROM fk."Accounts"; ALTER TABLE fk.only_there ADD CONSTRAINT taken FOREIGN KEY (id) REFERENCES fk."Accounts" ON DELETE SET NULL');
SELECT move_some();
SELECT count(*) FROM rdma.run_on('fk2', 'DROP TABLE fk.only_there');
SELECT differences();
SELECT move_some();
SELECT differences();
CALL rdma.rebalance('fk', 10000, rest => 0);

-- another distribution keeps what can be kept
BEGIN;
\set VERBOSITY terse
SELECT rdma.undistribute_table('"Accounts"');
\set VERBOSITY default
ROLLBACK;
SELECT said($$SELECT rdma.alter_distribution('countries', 'code')$$);
BEGIN;
SELECT rdma.alter_distribution('countries', 'code', force => true);
ROLLBACK;
SELECT rdma.alter_distribution('countries', replicated => true);
BEGIN;
SELECT rdma.alter_distribution('notes', 'number', force => true);
ROLLBACK;
SELECT rdma.alter_distribution('"Accounts"', 'id');
SELECT keys FROM node_keys() LIMIT 1;
SELECT count(*), count(DISTINCT keys) FROM node_keys();
SELECT differences();

-- why not: each reason
CREATE TABLE parents (id int PRIMARY KEY, name text, UNIQUE (name, id));
CREATE TABLE children (id int DEFAULT 1, parent int CONSTRAINT by_default REFERENCES parents ON DELETE SET DEFAULT, CONSTRAINT to_null FOREIGN KEY (id) REFERENCES parents ON DELETE SET NULL);
CREATE TABLE copies (id int CONSTRAINT of_copies REFERENCES parents);
BEGIN;
SELECT * FROM rdma.distribute_tables('fk', '{parents,children}', '{id,id}', replicated => '{copies}', force => true);
SELECT bool_or(keys LIKE '%children%' OR keys LIKE '%copies%') FROM node_keys();
ROLLBACK;
BEGIN;
SELECT * FROM rdma.distribute_tables('fk', '{parents,children,copies}', '{name,id,NULL}', force => true);
ROLLBACK;
BEGIN;
ALTER TABLE children ADD CONSTRAINT renames FOREIGN KEY (id) REFERENCES parents ON UPDATE CASCADE;
SELECT * FROM rdma.distribute_tables('fk', '{children}', '{id}', replicated => '{parents,copies}', force => true);
SELECT keys LIKE '%children%', keys LIKE '%copies%' FROM node_keys() LIMIT 1;
ROLLBACK;
SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND conrelid IN ('children'::regclass, 'copies'::regclass);

-- DDL, and the way back
SELECT said('DROP FOREIGN TABLE "Accounts"');
SELECT said('ALTER TABLE notes ADD FOREIGN KEY (account) REFERENCES transfers');
BEGIN;
SELECT rdma.undistribute_table('notes');
ROLLBACK;
SELECT * FROM rdma.undistribute_tables('{continents,countries,transfers,"\"Accounts\"",notes,tree,wives,husbands}');
SELECT format('%s %s %s', conrelid::regclass, conname, pg_get_constraintdef(oid)) FROM pg_constraint WHERE contype = 'f' AND connamespace = 'fk'::regnamespace ORDER BY conrelid::regclass::text, conname;
SELECT differences();
SELECT answer FROM rdma.run_on('fk', $$SELECT count(*) FROM pg_class WHERE relnamespace = 'fk'::regnamespace$$);
-- a table goes with those that refer to it
SELECT count(*) FROM rdma.distribute_tables('fk', '{"\"Accounts\"",transfers,notes}', '{id,account,account}', replicated => '{continents,countries}', force => true);
DROP FOREIGN TABLE "Accounts" CASCADE;
SELECT DISTINCT keys FROM node_keys();
DROP FOREIGN TABLE transfers, notes;
DROP FOREIGN TABLE continents, countries;
SELECT answer FROM rdma.run_on('fk', $$SELECT string_agg(relname, ', ') FROM pg_class WHERE relnamespace = 'fk'::regnamespace AND relkind = 'r'$$);

SET client_min_messages = warning;
DROP SERVER fk1, fk2, "fk 3", fk CASCADE;
DROP SCHEMA fk, fk_here CASCADE;
\c contrib_regression postgres 127.0.0.1 :n1
SET client_min_messages = warning;
DROP SCHEMA fk CASCADE;
\c contrib_regression postgres 127.0.0.1 :n2
SET client_min_messages = warning;
DROP SCHEMA fk CASCADE;
DROP DATABASE regress_rdma_fk WITH (FORCE);
