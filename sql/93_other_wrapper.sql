-- Foreign tables of another wrapper (test/modules/plain_fdw), which keeps nothing in its relations: planning leaves them alone, beside ours, too.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
RESET client_min_messages;
CREATE SCHEMA plain;
SET search_path = plain;
CREATE FUNCTION plain_handler() RETURNS fdw_handler AS '$libdir/plain_fdw' LANGUAGE C;
CREATE FOREIGN DATA WRAPPER plain HANDLER plain_handler;
CREATE SERVER plain FOREIGN DATA WRAPPER plain;
CREATE FOREIGN TABLE other (i int) SERVER plain;
DO $$ BEGIN EXECUTE format(
  'CREATE SERVER plain_ours FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host ''127.0.0.1'', port %L, dbname %L)',
  current_setting('port'), current_database()); END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER plain_ours OPTIONS (user :'USER');
CREATE TABLE base AS SELECT i, 'row ' || i AS t FROM generate_series(2, 5) i;
CREATE FOREIGN TABLE ours (i int, t text) SERVER plain_ours OPTIONS (table_name 'base');

SELECT * FROM other;
SELECT * FROM other LIMIT 1;
SELECT count(*), sum(i) FROM other WHERE i > 1;
SELECT * FROM (SELECT i FROM other OFFSET 1) s ORDER BY i DESC;
SELECT i FROM other UNION SELECT i FROM ours ORDER BY i;
SELECT i FROM ours EXCEPT SELECT i FROM other ORDER BY i;
SELECT * FROM other JOIN ours USING (i) ORDER BY i;
SELECT * FROM ours WHERE EXISTS (SELECT FROM other WHERE other.i = ours.i) ORDER BY i FOR UPDATE;

-- an option that is one of ours has no meaning there
ALTER SERVER plain OPTIONS (ADD nodes 'no_server, none_either');
SELECT i, count(*) FROM other GROUP BY ROLLUP (i) ORDER BY 1;
SELECT i FROM ours WHERE EXISTS (SELECT FROM other WHERE other.i = ours.i) OR i = 5 ORDER BY 1;

WITH changed AS (UPDATE ours SET t = t || '!' FROM other WHERE ours.i = other.i RETURNING *) SELECT * FROM changed ORDER BY 1;
DELETE FROM ours USING other WHERE ours.i = other.i AND ours.i = 3;
INSERT INTO ours SELECT i + 10, 'new' FROM other;
SELECT * FROM base ORDER BY i;

-- children of both wrappers
CREATE TABLE parent (i int) PARTITION BY LIST (i);
CREATE FOREIGN TABLE parent_other PARTITION OF parent FOR VALUES IN (1, 2, 3) SERVER plain;
CREATE TABLE base_part (i int);
INSERT INTO base_part VALUES (7), (8);
CREATE FOREIGN TABLE parent_ours PARTITION OF parent FOR VALUES IN (7, 8) SERVER plain_ours OPTIONS (table_name 'base_part');
SELECT tableoid::regclass, * FROM parent ORDER BY i;
SELECT count(*), sum(i) FROM parent;

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA plain CASCADE;
DROP SERVER plain_ours CASCADE;
