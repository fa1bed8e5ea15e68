/* src/sql/20_wire.sql: What nodes call on each other for reads and writes. */

CREATE FUNCTION rdma_internal.hello(request bytea)
RETURNS bytea
AS 'MODULE_PATHNAME', 'rdma_hello' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma_internal.hello(bytea) IS
    'a reading node introduces itself and learns address, identity and one-time token of this node''s engine';

CREATE FUNCTION rdma_internal.stream(request bytea, query text, parameter_types text[], parameter_values text[])
RETURNS bytea
AS 'MODULE_PATHNAME', 'rdma_stream' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma_internal.stream(bytea, text, text[], text[]) IS
    'run a query with the caller''s rights and send its rows as column batches';

CREATE FUNCTION rdma_internal.store(request bytea, relation text, columns text[], batch bytea,
    conflict text DEFAULT NULL)
RETURNS bytea
AS 'MODULE_PATHNAME', 'rdma_store' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma_internal.store(bytea, text, text[], bytea, text) IS
    'insert rows that another node sends as column batches, or update or delete rows that it names, with the '
    'caller''s rights';

CREATE FUNCTION rdma_internal.receive()
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_receive' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE ROWS 1000;
COMMENT ON FUNCTION rdma_internal.receive() IS
    'stands for the rows that arrive in the statement that rdma_internal.store runs';

CREATE FUNCTION rdma.hash_node(nodes integer, VARIADIC key "any")
RETURNS integer
AS 'MODULE_PATHNAME', 'rdma_hash_node' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION rdma.hash_node(integer, "any") IS
    'place, from 0, of the node that holds a row with this key: the remainder of PostgreSQL''s hash partitioning';

-- Never runs: the planner puts the aggregate's transition state in its place.
CREATE FUNCTION rdma_internal.partialize(aggregate "any", state anyelement)
RETURNS anyelement
AS 'MODULE_PATHNAME', 'rdma_partialize' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION rdma_internal.partialize("any", anyelement) IS
    'the transition state of the aggregate that it stands over, of the second argument''s type: the '
    'state''s, or bytea for internal ones';

-- A sub-select's value, when it has become a grouped one
CREATE FUNCTION rdma_internal.first_two_state(anyarray, anyelement) RETURNS anyarray
AS 'MODULE_PATHNAME', 'rdma_first_two_state' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION rdma_internal.first_two_state(anyarray, anyelement) IS 'adds a value for rdma_internal.first_two';

CREATE FUNCTION rdma_internal.first_two_merge(anyarray, anyarray) RETURNS anyarray
AS 'MODULE_PATHNAME', 'rdma_first_two_merge' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION rdma_internal.first_two_merge(anyarray, anyarray) IS 'joins values for rdma_internal.first_two';

CREATE AGGREGATE rdma_internal.first_two(anyelement) (SFUNC = rdma_internal.first_two_state, STYPE = anyarray,
    COMBINEFUNC = rdma_internal.first_two_merge, PARALLEL = SAFE);
COMMENT ON AGGREGATE rdma_internal.first_two(anyelement) IS 'the first two values';

CREATE FUNCTION rdma_internal.only_value(anyarray) RETURNS anyelement
AS 'MODULE_PATHNAME', 'rdma_only_value' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION rdma_internal.only_value(anyarray) IS 'the only value; an error where there are more';

-- Rows that were found before they are written
CREATE FUNCTION rdma_internal.lock_row(relation regclass, member oid, place tid, delete boolean)
RETURNS void
AS 'MODULE_PATHNAME', 'rdma_lock_row' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma_internal.lock_row(regclass, oid, tid, boolean) IS
    'locks the row at this place of this part of the table, an error if another transaction has changed it';

CREATE FUNCTION rdma_internal.is_key(value anycompatible, wanted anycompatible)
RETURNS boolean
AS 'MODULE_PATHNAME', 'rdma_is_key' LANGUAGE C STABLE PARALLEL SAFE COST 10;
COMMENT ON FUNCTION rdma_internal.is_key(anycompatible, anycompatible) IS
    'true, an error if a column of the distribution key is not the wanted one';

-- SELECT ... LIMIT ... FOR UPDATE over several nodes: rows that were found before they are locked
CREATE FUNCTION rdma_internal.lock_version(relation regclass, member oid, place tid, strength text, waiting text)
RETURNS boolean
AS 'MODULE_PATHNAME', 'rdma_lock_version' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma_internal.lock_version(regclass, oid, tid, text, text) IS
    'locks the last version of the row that was at this place of this part of the table; false: there is '
    'none to be returned';

CREATE FUNCTION rdma_internal.locked_place()
RETURNS tid
AS 'MODULE_PATHNAME', 'rdma_locked_place' LANGUAGE C STABLE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma_internal.locked_place() IS 'where the row is that rdma_internal.lock_version has locked last';
