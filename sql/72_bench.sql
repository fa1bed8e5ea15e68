-- rdma.bench: bytes between two nodes through their engines. Only what does not depend on time.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
RESET client_min_messages;
DO $$
BEGIN
	EXECUTE format('CREATE SERVER bench72 FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host %L, port %L, dbname %L)',
				   '127.0.0.1', current_setting('port'), current_database());
END $$;
CREATE USER MAPPING FOR CURRENT_USER SERVER bench72 OPTIONS (user :'USER');

-- a batch per page: 41 of 256 kB for 10 MB, and each test sends them
SELECT b.batches, throughput_mb_s > 0 AS throughput, consume_mb_s > 0 AS consume,
	merged + work_requests >= b.batches AS all_sent,
	waits >= 0 AND sender_waits >= 0 AND credit_stalls >= 0 AS counted,
	b.provider = e.provider AS provider, transport IN ('shm', 'tcp', 'verbs') AS transport
FROM rdma.bench('bench72', 10485760) b, rdma.stat_engine e;
-- without the consume test; with one buffer; with the smallest ones
SELECT batches, consume_mb_s FROM rdma.bench('bench72', 10485760, copy => false);
SELECT batches, consume_mb_s > 0 AS consume FROM rdma.bench('bench72', 10485760, 1024, 1);
SELECT batches FROM rdma.bench('bench72', 1048576, 4, 16);
SELECT batches FROM rdma.bench('bench72', 1);
SET rdma_fdw.receive_buffer_size = '64kB';
SELECT batches FROM rdma.bench('bench72', 10485760, NULL, NULL, NULL);
RESET rdma_fdw.receive_buffer_size;

-- in one transaction with other work of the session, and after an error in it
BEGIN;
SELECT batches FROM rdma.bench('bench72', 1000000);
SAVEPOINT s;
SELECT batches FROM rdma.bench('bench72', 1000000, 1);
ROLLBACK TO s;
SELECT batches FROM rdma.bench('bench72', 1000000);
COMMIT;
-- it can be cancelled
SET statement_timeout = '200ms';
SELECT batches FROM rdma.bench('bench72', 1099511627776);
RESET statement_timeout;
SELECT batches FROM rdma.bench('bench72', 1000000);

SELECT rdma.bench('bench72', 0);
SELECT rdma.bench('bench72', 2000000000000);
SELECT rdma.bench('bench72', NULL);
SELECT rdma.bench('bench72', 1000, 4097);
SELECT rdma.bench('bench72', 1000, 256, 0);
SELECT rdma.bench('bench72', 1000, 256, 17);
SELECT rdma.bench('nowhere', 1000);
CREATE FOREIGN DATA WRAPPER other72;
CREATE SERVER other72 FOREIGN DATA WRAPPER other72;
SELECT rdma.bench('other72', 1000);
CREATE ROLE bench72_user;
SET ROLE bench72_user;
SELECT rdma.bench('bench72', 1000);
RESET ROLE;
GRANT pg_monitor TO bench72_user;
SET ROLE bench72_user;
SELECT rdma.bench('bench72', 1000);
RESET ROLE;

SELECT count(*), sum(length(p)), max(length(p)), min(length(p)), bool_and(p = decode(repeat('00', length(p)), 'hex')) AS zeros
FROM (SELECT rdma.zero_pages(10000, 4096) AS p) AS pages;
SELECT count(*) FROM rdma.zero_pages(0, 1);
SELECT rdma.zero_pages(-1, 1);
SELECT rdma.zero_pages(1, 0);
SELECT rdma.zero_pages(1, 100000000);

DROP ROLE bench72_user;
DROP FOREIGN DATA WRAPPER other72 CASCADE;
DROP SERVER bench72 CASCADE;
