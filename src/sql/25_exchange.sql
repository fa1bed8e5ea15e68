/* src/sql/25_exchange.sql: What a coordinator calls on every node, and what moves rows between nodes. */

-- Distributed statements: what a coordinator calls on every node, and what moves rows between them.
CREATE FUNCTION rdma_internal.exchange_support(internal)
RETURNS internal
AS 'MODULE_PATHNAME', 'rdma_exchange_support' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION rdma_internal.exchange_support(internal) IS
    'tells the planner how many rows rdma_internal.exchange returns';

CREATE FUNCTION rdma_internal.exchange(spec text, query text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_exchange' LANGUAGE C VOLATILE PARALLEL SAFE ROWS 1000 SUPPORT
    rdma_internal.exchange_support;
COMMENT ON FUNCTION rdma_internal.exchange(text, text) IS
    'the rows of a query that runs on all nodes of a distributed statement, each row on the node it belongs '
    'to';

CREATE FUNCTION rdma_internal.exchange_greet()
RETURNS bytea
AS 'MODULE_PATHNAME', 'rdma_exchange_greet' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma_internal.exchange_greet() IS
    'who this node is, as rdma_internal.hello on another node wants to know it';

CREATE FUNCTION rdma_internal.exchange_connect(host text, hello bytea)
RETURNS void
AS 'MODULE_PATHNAME', 'rdma_exchange_connect' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma_internal.exchange_connect(text, bytea) IS
    'connect this node''s engine with that of the node whose rdma_internal.hello answered this';

CREATE FUNCTION rdma_internal.exchange_listen(member integer, groups bytea[], producers integer[] DEFAULT NULL,
    consumers integer[] DEFAULT NULL)
RETURNS bytea[]
AS 'MODULE_PATHNAME', 'rdma_exchange_listen' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma_internal.exchange_listen(integer, bytea[], integer[], integer[]) IS
    'take part in the exchanges of the next statement; the groups come back with this node''s addresses';

CREATE FUNCTION rdma_internal.exchange_open(member integer, groups bytea[])
RETURNS void
AS 'MODULE_PATHNAME', 'rdma_exchange_open' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma_internal.exchange_open(integer, bytea[]) IS
    'all members listen at these addresses; the next statement may exchange rows';

CREATE FUNCTION rdma_internal.exchange_stats(
  OUT number integer, OUT rows_out bigint, OUT bytes_out bigint, OUT rows_in bigint, OUT bytes_in bigint,
  OUT rows_kept_local bigint, OUT stalls bigint, OUT spilled_bytes bigint, OUT transport text, OUT process_rows text,
  OUT encryption text, OUT rows_filtered bigint, OUT taken_rows text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_exchange_stats' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 2;
COMMENT ON FUNCTION rdma_internal.exchange_stats() IS
    'what the exchanges of this session''s last distributed statement moved';
