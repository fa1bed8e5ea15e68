/* src/sql/30_servers.sql: Servers with nodes, and connections to them. */

-- Servers that stand for many nodes, and where rows of their tables lie.
CREATE FUNCTION rdma.nodes(server name, OUT place integer, OUT node name)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_nodes' LANGUAGE C STABLE STRICT PARALLEL SAFE ROWS 4;
COMMENT ON FUNCTION rdma.nodes(name) IS
    'the servers that a server stands for (option nodes), each with its place; an ordinary server stands for itself';

CREATE FUNCTION rdma.run_on(server name, command text, OUT node name, OUT answer text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_run_on' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 4;
COMMENT ON FUNCTION rdma.run_on(name, text) IS
    'runs a command on each node of a server, with your user mapping and in the remote transaction; the answer is the '
    'only value of a query, or the command''s tag';

CREATE FUNCTION rdma.disconnect(server name)
RETURNS boolean
AS 'MODULE_PATHNAME', 'rdma_disconnect' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION rdma.disconnect(name) IS
    'closes this session''s connections to a server; false when there was none that could be closed';

CREATE FUNCTION rdma.disconnect_all()
RETURNS boolean
AS 'MODULE_PATHNAME', 'rdma_disconnect_all' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION rdma.disconnect_all() IS 'closes all of this session''s connections to data nodes';

CREATE FUNCTION rdma_internal.connections(
  OUT server_name text, OUT user_name text, OUT valid boolean, OUT used_in_xact boolean, OUT closed boolean,
      OUT remote_backend_pid integer)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_connections' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 4;

CREATE VIEW rdma.connections AS SELECT * FROM rdma_internal.connections();
COMMENT ON VIEW rdma.connections IS
    'one row per connection that this session holds to a data node, with the columns of postgres_fdw_get_connections() '
    'of PostgreSQL 18';
COMMENT ON COLUMN rdma.connections.server_name IS 'foreign server; NULL: it was dropped';
COMMENT ON COLUMN rdma.connections.user_name IS
    'whose user mapping it was made with, or public; NULL: the mapping was dropped';
COMMENT ON COLUMN rdma.connections.valid IS
    'false: options have changed, or server or mapping were dropped, so it is closed when the transaction ends';
COMMENT ON COLUMN rdma.connections.used_in_xact IS 'the current transaction has used it';
COMMENT ON COLUMN rdma.connections.closed IS 'the other side has hung up';
COMMENT ON COLUMN rdma.connections.remote_backend_pid IS 'process that serves it on the data node';
GRANT SELECT ON rdma.connections TO PUBLIC;
COMMENT ON FUNCTION rdma_internal.connections() IS 'connections to data nodes that this session holds open';

CREATE FUNCTION rdma_internal.ask_node(node name, question text, kind anyelement)
RETURNS anyelement
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  said text;
  result kind%TYPE;
  problem text;
BEGIN
  SELECT r.answer INTO STRICT said FROM rdma.run_on(node, question) r;
  -- nothing is asked in here, so the node gets no savepoint
  BEGIN
    result := said;
    IF pg_typeof(kind) = 'jsonb'::regtype THEN
      IF jsonb_typeof(said::jsonb) <> jsonb_typeof(kind::text::jsonb) THEN
        problem := format('It is a JSON %s.', jsonb_typeof(said::jsonb));
      ELSIF kind::text::jsonb->0 IS NOT NULL THEN
        SELECT format('It has a JSON %s in an array.', jsonb_typeof(e)) INTO problem
            FROM jsonb_array_elements(said::jsonb) e WHERE jsonb_typeof(e) <> jsonb_typeof(kind::text::jsonb->0)
            LIMIT 1;
      END IF;
    END IF;
  EXCEPTION WHEN data_exception THEN
    problem := SQLERRM;
  END;
  IF problem IS NOT NULL THEN
    RAISE EXCEPTION 'server "%" answered a question of rdma_fdw with something else', node
        USING ERRCODE = 'protocol_violation', DETAIL = problem, HINT = format('It was asked: %s', question);
  END IF;
  RETURN result;
END $function$;
COMMENT ON FUNCTION rdma_internal.ask_node(name, text, anyelement) IS
    'the single answer of an ordinary server, as a value of a type; JSON is of the kinds of a sample, up to '
    'what is in an outer array';
