/* src/sql/90_access.sql: Who may do what. */

-- What takes bytes from other nodes, opens streams, or has an engine connect is for roles that were
-- given it.
REVOKE EXECUTE ON FUNCTION rdma_internal.hello, rdma_internal.stream, rdma_internal.store, rdma_internal.receive,
  rdma_internal.exchange, rdma_internal.exchange_greet, rdma_internal.exchange_connect, rdma_internal.exchange_listen,
  rdma_internal.exchange_open, rdma_internal.exchange_stats, rdma.zero_pages, rdma.bench, rdma."check" FROM PUBLIC;

CREATE FUNCTION rdma_internal.access_functions(access text)
RETURNS text[]
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  functions text[] := CASE access
    WHEN 'read' THEN ARRAY['rdma_internal.hello', 'rdma_internal.stream', 'rdma.zero_pages']
    WHEN 'write' THEN ARRAY['rdma_internal.store', 'rdma_internal.join_set']
    WHEN 'exchange' THEN ARRAY['rdma_internal.exchange', 'rdma_internal.exchange_greet',
        'rdma_internal.exchange_connect', 'rdma_internal.exchange_listen', 'rdma_internal.exchange_open',
        'rdma_internal.exchange_stats'] END;
BEGIN
  IF functions IS NULL THEN
    RAISE EXCEPTION 'unknown kind of access "%"', access USING ERRCODE = 'invalid_parameter_value',
      HINT = 'Valid kinds are "read", "write" and "exchange".';
  END IF;
  RETURN functions;
END $function$;
COMMENT ON FUNCTION rdma_internal.access_functions(text) IS 'the functions that a kind of access consists of';

CREATE FUNCTION rdma.grant_access(role regrole, VARIADIC access text[])
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY rdma_internal.access_functions('read') LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', name, role);
  END LOOP;
  FOR name IN SELECT unnest(rdma_internal.access_functions(a)) FROM unnest(access) a LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', name, role);
  END LOOP;
END $function$;
COMMENT ON FUNCTION rdma.grant_access(regrole, text[]) IS
    'lets a role read (''read''), write (''write'') or take part in statements over several nodes (''exchange'') here '
    'for other nodes; each includes reading';

CREATE FUNCTION rdma.revoke_access(role regrole, VARIADIC access text[])
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  name text;
BEGIN
  IF 'read' = ANY (access) THEN
    access := access || '{write,exchange}'::text[];
  END IF;
  FOR name IN SELECT unnest(rdma_internal.access_functions(a)) FROM unnest(access) a LOOP
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM %s', name, role);
  END LOOP;
END $function$;
COMMENT ON FUNCTION rdma.revoke_access(regrole, text[]) IS
    'takes back what rdma.grant_access gave; ''read'' takes all of it';
