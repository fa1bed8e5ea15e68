-- System columns of foreign tables: ctid is the remote row's, tableoid this table's, the others are 0 as they are with postgres_fdw.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
RESET client_min_messages;

DO $$ BEGIN EXECUTE format(
  'CREATE SERVER sys_srv FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host ''127.0.0.1'', port %L, dbname %L)',
  current_setting('port'), current_database()); END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER sys_srv OPTIONS (user :'USER');
CREATE SCHEMA sys_remote;
CREATE SCHEMA sys;
SET search_path = sys, public;
CREATE TABLE sys_remote.t (a int, b text);
INSERT INTO sys_remote.t SELECT i, 'row ' || i FROM generate_series(1, 5) i;
IMPORT FOREIGN SCHEMA sys_remote FROM SERVER sys_srv INTO sys;

SELECT xmin, cmin, xmax, cmax, ctid, tableoid::regclass, * FROM t ORDER BY a LIMIT 2;
SELECT xmin FROM t LIMIT 1;
SELECT a FROM t WHERE xmin = '0' AND a < 3 ORDER BY a;
SELECT xmin::text, count(*), sum(a) FROM t GROUP BY 1;
SELECT DISTINCT cmax FROM t;
SELECT a, xmax FROM t ORDER BY xmax::text, a DESC LIMIT 2;
SELECT x.xmin, y.cmax, x.a, y.b FROM t x JOIN t y ON x.a = y.a WHERE y.a > 3 ORDER BY x.a;
SELECT x.a, (SELECT max(y.xmin::text) FROM t y WHERE y.a > x.a) FROM t x ORDER BY x.a;
SELECT a FROM t WHERE '0' IN (SELECT u.xmin FROM t u WHERE u.a = t.a) ORDER BY a LIMIT 2;
SELECT xmin, b FROM t WHERE a = 1 UNION ALL SELECT xmax, b FROM t WHERE a = 2 ORDER BY b;
SELECT t, xmin FROM t WHERE a = 2;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT xmin, ctid, b FROM t ORDER BY a;
FETCH 2 FROM c;
FETCH BACKWARD 1 FROM c;
COMMIT;

-- what a statement wrote
INSERT INTO t VALUES (6, 'six') RETURNING ctid, a;
INSERT INTO t VALUES (7, 'seven'), (8, 'eight') RETURNING a, ctid, tableoid::regclass, xmin;
UPDATE t SET b = 'changed' WHERE a = 6 RETURNING ctid, b;
UPDATE t SET b = 'changed here' WHERE a = 7 AND random() >= 0 RETURNING ctid, xmax, b;
DELETE FROM t WHERE a = 8 RETURNING ctid, cmin;
DELETE FROM t WHERE a = 7 AND random() >= 0 RETURNING ctid;
INSERT INTO t VALUES (9, 'nine'), (10, 'ten') RETURNING xmin, cmin;
UPDATE t SET b = 'x' WHERE a = 9 RETURNING t.xmin, t.cmax;
DELETE FROM t WHERE a = 9 RETURNING t.xmax;
DELETE FROM t WHERE a = 10 AND random() >= 0 RETURNING t.xmax;
SELECT ctid, * FROM sys_remote.t WHERE a > 5;
-- columns in which the place of a row that is written comes
UPDATE t SET b = xmin::text WHERE a = 6 RETURNING b, xmin, xmax;
UPDATE t SET b = xmax::text WHERE a = 6;
DELETE FROM t WHERE xmax = '0';
DELETE FROM t USING sys_remote.t r WHERE r.cmin::text = t.cmin::text;
WITH seen AS (SELECT xmax FROM t) DELETE FROM t USING seen WHERE a = 6 AND random() >= 0 RETURNING a, t.xmax, seen.xmax;

SET client_min_messages = warning;
DROP SERVER sys_srv CASCADE;
DROP SCHEMA sys CASCADE;
DROP SCHEMA sys_remote CASCADE;
