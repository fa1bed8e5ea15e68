/* rdma_fdw--1.0--1.1.sql - what 1.1 changes. 1.0's script stays as it is: CREATE EXTENSION runs both. */
\echo Use "ALTER EXTENSION rdma_fdw UPDATE TO '1.1'" to load this file. \quit

-- A unique index that lacks the key is refused: it would hold on each node only.

CREATE OR REPLACE FUNCTION rdma.distribute_table(tab regclass, server name, distributed_by text DEFAULT NULL, replicated boolean DEFAULT false)
RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  old record;
  part record;
  keys text[] := '{}';
  remote_columns text;
  local_columns text;
  names text;
  options text := '';
  moving name;
  moved bigint;
BEGIN
  IF distributed_by IS NOT NULL AND replicated THEN
    RAISE EXCEPTION 'a table is either distributed or replicated' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  IF EXISTS (SELECT FROM pg_class WHERE oid = tab AND relkind = 'r') THEN
    EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', tab);
  END IF;
  SELECT c.oid, c.relname, n.nspname, c.relkind, c.relispartition, c.relhassubclass, c.relrowsecurity, c.relacl, c.relpersistence, c.relowner::regrole AS owner,
      obj_description(c.oid, 'pg_class') AS comment,
      (SELECT string_agg(quote_ident(tgname), ', ' ORDER BY tgname) FROM pg_trigger WHERE tgrelid = c.oid AND NOT tgisinternal) AS triggers,
      (SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = c.oid AND attidentity <> '') AS identity
    INTO old FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = tab;
  IF old.relkind <> 'r' OR old.relispartition OR old.relhassubclass OR old.relpersistence = 't' THEN
    RAISE EXCEPTION '"%" is not an ordinary table', old.relname USING ERRCODE = 'wrong_object_type',
      DETAIL = 'Partitioned and temporary tables, partitions, parents and foreign tables cannot be distributed.';
  END IF;
  IF old.triggers IS NOT NULL OR old.relrowsecurity OR old.identity IS NOT NULL THEN
    RAISE EXCEPTION 'table "%" cannot be distributed', old.relname USING ERRCODE = 'feature_not_supported',
      DETAIL = concat_ws(' ', 'It has triggers: ' || old.triggers || '.', CASE WHEN old.relrowsecurity THEN 'It has row security.' END,
        'It has identity columns: ' || old.identity || '.'),
      HINT = 'Drop them first, and create their like on the foreign table or on the nodes.';
  END IF;
  -- Its expressions run here and on the nodes while rows move, with the caller's rights.
  IF old.owner <> current_user::regrole THEN
    SELECT string_agg(DISTINCT pg_describe_object(d.refclassid, d.refobjid, 0), ', ') AS names INTO part
      FROM pg_depend d JOIN (SELECT 'pg_proc'::regclass AS class, oid, proowner AS owner FROM pg_proc
          UNION ALL SELECT 'pg_operator'::regclass, oid, oprowner FROM pg_operator
          UNION ALL SELECT 'pg_type'::regclass, oid, typowner FROM pg_type WHERE typtype = 'd') used
        ON used.class = d.refclassid AND used.oid = d.refobjid
      WHERE used.owner <> current_user::regrole AND NOT (SELECT rolsuper FROM pg_roles WHERE oid = used.owner)
        AND (d.classid = 'pg_attrdef'::regclass AND d.objid IN (SELECT a.oid FROM pg_attrdef a JOIN pg_attribute g ON g.attrelid = a.adrelid AND g.attnum = a.adnum
            WHERE a.adrelid = tab AND g.attgenerated <> '')
          OR d.classid = 'pg_constraint'::regclass AND d.objid IN (SELECT oid FROM pg_constraint WHERE conrelid = tab)
          OR d.classid = 'pg_class'::regclass AND d.objid IN (SELECT indexrelid FROM pg_index WHERE indrelid = tab));
    IF part.names IS NOT NULL THEN
      RAISE EXCEPTION 'table "%" would have code of other roles run with your rights', old.relname USING ERRCODE = 'insufficient_privilege',
        DETAIL = format('Its generated columns, constraints or indexes use %s.', part.names), HINT = format('Let the owner of the table distribute it: SET ROLE %s.', old.owner);
    END IF;
  END IF;
  SELECT string_agg(DISTINCT pg_describe_object(classid, objid, objsubid), ', ') AS names INTO part FROM pg_depend
    WHERE refclassid = 'pg_class'::regclass AND refobjid = tab AND (classid = 'pg_rewrite'::regclass OR
      classid = 'pg_constraint'::regclass AND NOT EXISTS (SELECT FROM pg_constraint WHERE oid = objid AND conrelid = tab));
  IF part.names IS NOT NULL THEN
    RAISE EXCEPTION 'table "%" cannot be distributed', old.relname USING ERRCODE = 'dependent_objects_still_exist',
      DETAIL = format('It would be dropped, and these depend on it: %s.', part.names), HINT = 'Drop them, and create them again afterwards.';
  END IF;
  IF distributed_by IS NOT NULL THEN
    options := format(', distributed_by %L', distributed_by);
  ELSIF replicated THEN
    options := ', replicated ''true''';
  END IF;

  -- Defaults stay here, where sequences are; the nodes compute what is generated.
  SELECT string_agg(format('%I %s%s%s%s', a.attname, format_type(a.atttypid, a.atttypmod),
        ' COLLATE ' || CASE WHEN a.attcollation <> t.typcollation THEN quote_ident(cn.nspname) || '.' || quote_ident(co.collname) END,
        CASE WHEN a.attgenerated <> '' THEN ' GENERATED ALWAYS AS (' || pg_get_expr(d.adbin, d.adrelid) || ') STORED' END,
        CASE WHEN a.attnotnull THEN ' NOT NULL' END), ', ' ORDER BY a.attnum),
      string_agg(format('%I %s%s%s%s', a.attname, format_type(a.atttypid, a.atttypmod),
        ' COLLATE ' || CASE WHEN a.attcollation <> t.typcollation THEN quote_ident(cn.nspname) || '.' || quote_ident(co.collname) END,
        CASE WHEN a.attgenerated <> '' THEN ' GENERATED ALWAYS AS (' || pg_get_expr(d.adbin, d.adrelid) || ') STORED'
          ELSE ' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid) END,
        CASE WHEN a.attnotnull THEN ' NOT NULL' END), ', ' ORDER BY a.attnum),
      string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) FILTER (WHERE a.attgenerated = '')
    INTO remote_columns, local_columns, names
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
      LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
      LEFT JOIN pg_collation co ON co.oid = a.attcollation LEFT JOIN pg_namespace cn ON cn.oid = co.collnamespace
    WHERE a.attrelid = tab AND a.attnum > 0 AND NOT a.attisdropped;

  PERFORM rdma.run_on(n.node, format('CREATE SCHEMA %I', old.nspname))
    FROM rdma.run_on(server, format('SELECT to_regnamespace(%L) IS NULL', quote_ident(old.nspname))) n WHERE n.answer = 't';
  PERFORM rdma.run_on(server, format('CREATE TABLE %I.%I (%s)', old.nspname, old.relname, remote_columns));
  FOR part IN SELECT conname, contype, pg_get_constraintdef(oid) AS definition FROM pg_constraint WHERE conrelid = tab AND contype = 'c' ORDER BY conname LOOP
    PERFORM rdma.run_on(server, format('ALTER TABLE %I.%I ADD CONSTRAINT %I %s', old.nspname, old.relname, part.conname, part.definition));
  END LOOP;

  -- The foreign table takes the table's place.
  moving := left(old.relname, 50) || '_moving';
  EXECUTE format('ALTER TABLE %s RENAME TO %I', tab, moving);
  EXECUTE format('CREATE FOREIGN TABLE %I.%I (%s) SERVER %I OPTIONS (schema_name %L, table_name %L%s)', old.nspname, old.relname,
    local_columns, server, old.nspname, old.relname, options);
  EXECUTE format('ALTER FOREIGN TABLE %I.%I OWNER TO %s', old.nspname, old.relname, old.owner);
  keys := coalesce(rdma.distribution_key(format('%I.%I', old.nspname, old.relname)::regclass), '{}');
  SELECT min(i.indexrelid::regclass::text) AS name INTO part FROM pg_index i
    WHERE i.indrelid = tab AND i.indisunique AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = i.indexrelid AND conrelid = tab)
      AND NOT (cardinality(keys) > 0 AND keys <@ ARRAY(SELECT a.attname::text FROM pg_attribute a
        WHERE a.attrelid = tab AND a.attnum = ANY (i.indkey[0 : i.indnkeyatts - 1])));
  IF part.name IS NOT NULL AND NOT replicated AND (SELECT count(*) FROM rdma.nodes(server)) > 1 THEN
    RAISE EXCEPTION 'unique index "%" of table "%" cannot be kept', part.name, old.relname USING ERRCODE = 'feature_not_supported',
      DETAIL = 'It would hold on each node, not between nodes, since it does not contain all columns that the table is distributed by.',
      HINT = 'Drop the index, distribute the table by columns of it, or have the table replicated.';
  END IF;
  FOR part IN SELECT conname, pg_get_constraintdef(oid) AS definition FROM pg_constraint WHERE conrelid = tab AND contype = 'c' ORDER BY conname LOOP
    EXECUTE format('ALTER FOREIGN TABLE %I.%I ADD CONSTRAINT %I %s', old.nspname, old.relname, part.conname, part.definition);
  END LOOP;
  EXECUTE format('INSERT INTO %I.%I (%s) SELECT %s FROM %I.%I', old.nspname, old.relname, names, names, old.nspname, moving);
  GET DIAGNOSTICS moved = ROW_COUNT;

  -- Indexes are built over all rows at once; what is unique is so on each node.
  FOR part IN SELECT conname, contype, conkey, pg_get_constraintdef(oid) AS definition FROM pg_constraint WHERE conrelid = tab AND contype <> 'c' ORDER BY contype, conname LOOP
    IF part.contype = 'f' OR part.contype = 't' OR part.contype = 'n' THEN
      IF part.contype = 'f' THEN
        RAISE WARNING 'foreign key "%" of table "%" is left out', part.conname, old.relname;
      END IF;
      CONTINUE;
    END IF;
    IF NOT replicated AND NOT (part.contype <> 'x' AND cardinality(keys) > 0 AND keys <@
        (SELECT array_agg(attname::text) FROM pg_attribute WHERE attrelid = tab AND attnum = ANY (part.conkey))) THEN
      RAISE WARNING 'constraint "%" of table "%" holds on each node, not between nodes', part.conname, old.relname
        USING DETAIL = 'Its columns do not contain those that the table is distributed by.';
    END IF;
    PERFORM rdma.run_on(server, format('ALTER TABLE %I.%I ADD CONSTRAINT %I %s', old.nspname, old.relname, part.conname, part.definition));
  END LOOP;
  FOR part IN
    SELECT replace(pg_get_indexdef(i.indexrelid), format(' ON %s ', tab), format(' ON %I.%I ', old.nspname, old.relname)) AS definition
      FROM pg_index i WHERE i.indrelid = tab AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = i.indexrelid AND conrelid = tab)
      ORDER BY i.indexrelid::regclass::text
  LOOP
    PERFORM rdma.run_on(server, part.definition);
  END LOOP;
  PERFORM rdma.run_on(server, format('ANALYZE %I.%I', old.nspname, old.relname));

  FOR part IN
    SELECT d.objid::regclass AS seq, a.attname FROM pg_depend d JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
      WHERE d.refobjid = tab AND d.refclassid = 'pg_class'::regclass AND d.classid = 'pg_class'::regclass AND d.deptype = 'a'
        AND (SELECT relkind FROM pg_class WHERE oid = d.objid) = 'S'
  LOOP
    EXECUTE format('ALTER SEQUENCE %s OWNED BY %I.%I.%I', part.seq, old.nspname, old.relname, part.attname);
  END LOOP;
  FOR part IN
    SELECT CASE WHEN grantee = 0 THEN 'PUBLIC' ELSE quote_ident(grantee::regrole::text) END AS role, privilege_type, is_grantable
      FROM aclexplode(old.relacl) WHERE grantee <> (SELECT relowner FROM pg_class WHERE oid = tab)
  LOOP
    EXECUTE format('GRANT %s ON %I.%I TO %s%s', part.privilege_type, old.nspname, old.relname, part.role,
      CASE WHEN part.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END);
  END LOOP;
  IF old.comment IS NOT NULL THEN
    EXECUTE format('COMMENT ON FOREIGN TABLE %I.%I IS %L', old.nspname, old.relname, old.comment);
  END IF;
  EXECUTE format('DROP TABLE %I.%I', old.nspname, moving);
  EXECUTE format('ANALYZE %I.%I', old.nspname, old.relname);
  RETURN moved;
END $function$;

-- Columns of rdma.connections have the names of those of postgres_fdw_get_connections() in PostgreSQL 18. The view lets go of the
-- function meanwhile, so that other views may depend on it.

CREATE OR REPLACE VIEW rdma.connections AS SELECT NULL::text AS server, NULL::text AS usename, NULL::boolean AS valid,
  NULL::boolean AS in_transaction, NULL::boolean AS closed, NULL::integer AS remote_pid;
DROP FUNCTION rdma.connections();
CREATE FUNCTION rdma.connections(
  OUT server_name text, OUT user_name text, OUT valid boolean, OUT used_in_xact boolean, OUT closed boolean, OUT remote_backend_pid integer)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_connections' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 4;
COMMENT ON FUNCTION rdma.connections() IS 'connections to data nodes that this session holds open';
ALTER VIEW rdma.connections RENAME COLUMN server TO server_name;
ALTER VIEW rdma.connections RENAME COLUMN usename TO user_name;
ALTER VIEW rdma.connections RENAME COLUMN in_transaction TO used_in_xact;
ALTER VIEW rdma.connections RENAME COLUMN remote_pid TO remote_backend_pid;
CREATE OR REPLACE VIEW rdma.connections AS SELECT * FROM rdma.connections();
COMMENT ON VIEW rdma.connections IS 'one row per connection that this session holds to a data node, with the columns of postgres_fdw_get_connections() of PostgreSQL 18';
COMMENT ON COLUMN rdma.connections.server_name IS 'foreign server; NULL: it was dropped';
COMMENT ON COLUMN rdma.connections.user_name IS 'whose user mapping it was made with, or public; NULL: the mapping was dropped';
COMMENT ON COLUMN rdma.connections.valid IS 'false: options have changed, or server or mapping were dropped, so it is closed when the transaction ends';
COMMENT ON COLUMN rdma.connections.used_in_xact IS 'the current transaction has used it';
COMMENT ON COLUMN rdma.connections.closed IS 'the other side has hung up';
COMMENT ON COLUMN rdma.connections.remote_backend_pid IS 'process that serves it on the data node';

COMMENT ON COLUMN rdma.stat_peers.error IS 'why it failed; of one that is connected: why it goes over TCP instead of RDMA (rdma_fdw.provider = auto); NULL: nothing is wrong';

-- Functions mean the same whatever the caller's search_path.

ALTER FUNCTION rdma.option_list(text[]) SET search_path = pg_catalog, pg_temp;

-- What takes bytes from other nodes, opens streams, or has an engine connect is for roles that were given it. Grants to roles stay.

REVOKE EXECUTE ON FUNCTION rdma.hello, rdma.stream, rdma.store, rdma.receive, rdma.exchange, rdma.exchange_greet, rdma.exchange_connect,
  rdma.exchange_listen, rdma.exchange_open, rdma.exchange_stats, rdma.zero_pages, rdma.bench, rdma."check" FROM PUBLIC;
GRANT EXECUTE ON FUNCTION rdma.bench, rdma."check" TO pg_monitor;

CREATE FUNCTION rdma.access_functions(access text)
RETURNS text[]
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  functions text[] := CASE access
    WHEN 'read' THEN ARRAY['hello', 'stream', 'zero_pages']
    WHEN 'write' THEN ARRAY['store']
    WHEN 'exchange' THEN ARRAY['exchange', 'exchange_greet', 'exchange_connect', 'exchange_listen', 'exchange_open', 'exchange_stats'] END;
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
COMMENT ON FUNCTION rdma.grant_access(regrole, text[]) IS 'lets a role read (''read''), write (''write'') or take part in statements over several nodes (''exchange'') here for other nodes; each includes reading';

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
COMMENT ON FUNCTION rdma.revoke_access(regrole, text[]) IS 'takes back what rdma.grant_access gave; ''read'' takes all of it';
