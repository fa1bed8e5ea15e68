-- Rows that do not fit a buffer, sent from value memory or copied to the buffers. The servers are this one, reached again over TCP.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rdma_fdw;
RESET client_min_messages;
CREATE SCHEMA far73;
DO $$
DECLARE
	mode text;
BEGIN
	FOREACH mode IN ARRAY ARRAY['off', 'on', 'auto'] LOOP
		EXECUTE format('CREATE SERVER large73_%s FOREIGN DATA WRAPPER rdma_fdw OPTIONS (host %L, port %L, dbname %L, options %L)',
					   mode, '127.0.0.1', current_setting('port'), current_database(), '-c rdma_fdw.disable=' || CASE mode WHEN 'off' THEN 'value_memory' WHEN 'on' THEN 'value_costs' ELSE '' END);
		EXECUTE format('CREATE USER MAPPING FOR CURRENT_USER SERVER large73_%s OPTIONS (user %L)', mode, current_user);
		EXECUTE format('CREATE SCHEMA near73_%s', mode);
	END LOOP;
END $$;

-- as it is in the TOAST table, compressed there, converted (names are not sent raw in arrays), NULL; around the size of a buffer; short ones between
CREATE TABLE far73.t (id int, plain text, packed text, names name[]);
ALTER TABLE far73.t ALTER plain SET STORAGE EXTERNAL;
INSERT INTO far73.t
SELECT i, repeat(md5(i::text), n / 32), CASE WHEN i % 3 = 0 THEN repeat('x', n) END,
	CASE WHEN i % 4 = 0 THEN array_fill(('name ' || i)::name, ARRAY[n / 64]) END
FROM unnest(ARRAY[100, 300000, 262144, 261800, 10, 1500000, 40, 3000000, 262000, 1000, 700000, 500000]) WITH ORDINALITY u(n, i);
IMPORT FOREIGN SCHEMA far73 FROM SERVER large73_off INTO near73_off;
IMPORT FOREIGN SCHEMA far73 FROM SERVER large73_on INTO near73_on;
IMPORT FOREIGN SCHEMA far73 FROM SERVER large73_auto INTO near73_auto;

-- random() keeps the work here, so every row comes
CREATE FUNCTION digest(relation regclass) RETURNS TABLE (rows bigint, bytes bigint, hash text) LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE format('SELECT count(*), sum(length(plain) + coalesce(length(packed), 0)),
		md5(string_agg(id || md5(plain) || coalesce(md5(packed), ''-'') || coalesce(md5(names::text), ''-''), '','' ORDER BY id))
		FROM %s WHERE random() >= 0', relation);
END $$;
CREATE TEMP TABLE before73 AS SELECT sum(in_place) AS slots, sum(in_place_bytes) AS bytes FROM rdma.stat_lanes;
SELECT * FROM digest('near73_off.t') EXCEPT SELECT * FROM digest('far73.t');
SELECT sum(in_place) = slots AS no_slots, sum(in_place_bytes) = bytes AS no_bytes FROM rdma.stat_lanes, before73 GROUP BY slots, bytes;
SELECT * FROM digest('near73_on.t') EXCEPT SELECT * FROM digest('far73.t');
SELECT sum(in_place) > slots AS slots, sum(in_place_bytes) - bytes > (SELECT sum(length(plain)) FROM far73.t WHERE length(plain) > 262144) AS bytes
FROM rdma.stat_lanes, before73 GROUP BY slots, bytes;
SELECT registrations > 0 AS registered, value_registered > 0 AS kept, value_used <= value_memory AS used, register_us >= 0 AS register, copy_us_per_mb > 0 AS copy
FROM rdma.stat_engine;
SELECT * FROM digest('near73_auto.t') EXCEPT SELECT * FROM digest('far73.t');
SELECT rows, bytes FROM digest('near73_auto.t');

-- the other way
CREATE TABLE far73.target (LIKE far73.t INCLUDING STORAGE);
IMPORT FOREIGN SCHEMA far73 LIMIT TO (target) FROM SERVER large73_on INTO near73_on;
SET rdma_fdw.disable = value_costs;
INSERT INTO near73_on.target SELECT * FROM far73.t;
SELECT * FROM digest('far73.target') EXCEPT SELECT * FROM digest('far73.t');
RESET rdma_fdw.disable;

SET client_min_messages = warning;
DROP FUNCTION digest(regclass);
DROP SCHEMA far73, near73_off, near73_on, near73_auto CASCADE;
DROP SERVER large73_off CASCADE;
DROP SERVER large73_on CASCADE;
DROP SERVER large73_auto CASCADE;
