/* src/sql/90_access.sql: Who may do what. */

-- What takes bytes from other nodes, opens streams, or has an engine connect is for roles that were
-- given it.
REVOKE EXECUTE ON FUNCTION rdma.hello, rdma.stream, rdma.store, rdma.receive, rdma.exchange, rdma.exchange_greet,
    rdma.exchange_connect,
  rdma.exchange_listen, rdma.exchange_open, rdma.exchange_stats, rdma.zero_pages, rdma.bench, rdma."check" FROM PUBLIC;

CREATE FUNCTION rdma.access_functions(access text)
RETURNS text[]
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  functions text[] := CASE access
    WHEN 'read' THEN ARRAY['hello', 'stream', 'zero_pages']
    WHEN 'write' THEN ARRAY['store', 'join_set']
    WHEN 'exchange' THEN ARRAY['exchange', 'exchange_greet', 'exchange_connect', 'exchange_listen', 'exchange_open',
        'exchange_stats'] END;
BEGIN
  IF functions IS NULL THEN
    RAISE EXCEPTION 'unknown kind of access "%"', access USING ERRCODE = 'invalid_parameter_value',
      HINT = 'Valid kinds are "read", "write" and "exchange".';
  END IF;
  RETURN functions;
END $function$;
COMMENT ON FUNCTION rdma.access_functions(text) IS 'internal: the functions that a kind of access consists of';

CREATE FUNCTION rdma.grant_access(role regrole, VARIADIC access text[])
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY rdma.access_functions('read') LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION rdma.%I TO %s', name, role);
  END LOOP;
  FOR name IN SELECT unnest(rdma.access_functions(a)) FROM unnest(access) a LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION rdma.%I TO %s', name, role);
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
  FOR name IN SELECT unnest(rdma.access_functions(a)) FROM unnest(access) a LOOP
    EXECUTE format('REVOKE EXECUTE ON FUNCTION rdma.%I FROM %s', name, role);
  END LOOP;
END $function$;
COMMENT ON FUNCTION rdma.revoke_access(regrole, text[]) IS
    'takes back what rdma.grant_access gave; ''read'' takes all of it';
