/* src/sql/65_adopt.sql: Statistics, and what users of postgres_fdw bring. */

-- Statistics of a foreign table from those of the remote one.
CREATE FUNCTION rdma.import_statistics(relation regclass)
RETURNS integer
AS 'MODULE_PATHNAME', 'rdma_import_statistics' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma.import_statistics(regclass) IS
    'copies the remote table''s statistics into the catalog here, as ANALYZE with the option '
    'analyze_sampling ''import'' does; gives the number of columns';

CREATE FUNCTION rdma_internal.known_options(options text[], catalog oid, OUT known text[], OUT unknown text[])
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  option text;
BEGIN
  FOREACH option IN ARRAY coalesce(options, '{}') LOOP
    BEGIN
      PERFORM rdma_internal.rdma_fdw_validator(ARRAY[option], catalog);
      known := array_append(known, option);
    EXCEPTION WHEN fdw_invalid_option_name OR invalid_parameter_value THEN
      unknown := array_append(unknown, split_part(option, '=', 1));
    END;
  END LOOP;
END $function$;
COMMENT ON FUNCTION rdma_internal.known_options(text[], oid) IS
    'which of another wrapper''s options rdma_fdw has, too';

CREATE FUNCTION rdma_internal.option_list(options text[])
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $function$
  SELECT coalesce(' OPTIONS (' || pg_catalog.string_agg(pg_catalog.format('%I %L', option_name, option_value), ', ')
      || ')', '')
    FROM pg_catalog.pg_options_to_table(options)
$function$;
COMMENT ON FUNCTION rdma_internal.option_list(text[]) IS 'options as CREATE statements want them';

-- From postgres_fdw, with owners, privileges and statistics targets. Everything is made with the
-- caller's rights, by the statements he could type himself.
CREATE FUNCTION rdma_internal.grant_statement(privileges text, object text, grantee oid, grantable boolean)
RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $function$
  SELECT format('GRANT %s ON %s TO %s%s', privileges, object, CASE WHEN grantee = 0 THEN 'PUBLIC'
      ELSE quote_ident(pg_get_userbyid(grantee)) END,
    CASE WHEN grantable THEN ' WITH GRANT OPTION' ELSE '' END)
$function$;
COMMENT ON FUNCTION rdma_internal.grant_statement(text, text, oid, boolean) IS
    'the statement that gives a role privileges';

CREATE FUNCTION rdma.adopt_server(server name, into_schema name, new_server name DEFAULT NULL,
  OUT kind text, OUT name text, OUT remark text)
RETURNS SETOF record
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  old record;
  mapping record;
  tab record;
  part record;
  known text[];
  unknown text[];
  columns text;
  statement text;
BEGIN
  SELECT s.oid, s.srvname, s.srvtype, s.srvversion, s.srvoptions, s.srvowner, s.srvacl, w.fdwname INTO old
    FROM pg_foreign_server s JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw WHERE s.srvname = server;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'server "%" does not exist', server USING ERRCODE = 'undefined_object';
  END IF;
  IF old.fdwname <> 'postgres_fdw' THEN
    RAISE EXCEPTION 'server "%" is not one of postgres_fdw', server USING ERRCODE = 'wrong_object_type',
      DETAIL = format('Its foreign-data wrapper is "%s".', old.fdwname);
  END IF;
  IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = into_schema) THEN
    RAISE EXCEPTION 'schema "%" does not exist', into_schema USING ERRCODE = 'invalid_schema_name';
  END IF;
  new_server := coalesce(new_server, old.srvname || '_rdma');

  SELECT * INTO known, unknown FROM rdma_internal.known_options(old.srvoptions, 'pg_foreign_server'::regclass);
  EXECUTE format('CREATE SERVER %I%s%s FOREIGN DATA WRAPPER rdma_fdw%s', new_server, ' TYPE '
      || quote_literal(old.srvtype),
    ' VERSION ' || quote_literal(old.srvversion), rdma_internal.option_list(known));
  FOR statement IN SELECT rdma_internal.grant_statement(g.privilege_type, format('FOREIGN SERVER %I', new_server),
      g.grantee,
      g.is_grantable)
    FROM aclexplode(old.srvacl) g WHERE g.grantee <> old.srvowner LOOP
    EXECUTE statement;
  END LOOP;
  kind := 'server'; name := new_server; remark := 'options left out: ' || array_to_string(unknown, ', ');
  RETURN NEXT;

  FOR mapping IN SELECT umuser, usename, umoptions FROM pg_user_mappings WHERE srvid = old.oid ORDER BY umuser LOOP
    SELECT * INTO known, unknown FROM rdma_internal.known_options(mapping.umoptions, 'pg_user_mapping'::regclass);
    EXECUTE format('CREATE USER MAPPING FOR %s SERVER %I%s',
      CASE WHEN mapping.umuser = 0 THEN 'PUBLIC' ELSE quote_ident(mapping.usename) END, new_server,
          rdma_internal.option_list(known));
    kind := 'user mapping'; name := mapping.usename; remark := 'options left out: ' || array_to_string(unknown, ', ');
    IF mapping.umoptions IS NULL AND NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
      remark := 'its options, if any, are hidden from you';
    END IF;
    RETURN NEXT;
  END LOOP;

  FOR tab IN
    SELECT c.oid, c.relname, n.nspname, c.relacl, c.relowner, c.relispartition, c.relhassubclass, f.ftoptions,
        (SELECT string_agg(DISTINCT i.inhparent::regclass::text, ', ') FROM pg_inherits i
            WHERE i.inhrelid = c.oid) AS parents,
        (SELECT string_agg(quote_ident(t.tgname), ', ' ORDER BY t.tgname) FROM pg_trigger t WHERE t.tgrelid = c.oid
            AND NOT t.tgisinternal) AS triggers,
        obj_description(c.oid, 'pg_class') AS comment
      FROM pg_foreign_table f JOIN pg_class c ON c.oid = f.ftrelid JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE f.ftserver = old.oid ORDER BY n.nspname, c.relname
  LOOP
    columns := '';
    FOR part IN
      SELECT a.attname, format_type(a.atttypid, a.atttypmod) AS type, a.attnotnull, a.attgenerated,
          pg_get_expr(d.adbin, d.adrelid) AS expr,
          a.attfdwoptions, CASE WHEN a.attcollation <> t.typcollation THEN quote_ident(cn.nspname) || '.'
              || quote_ident(co.collname) END AS collation
        FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
          LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
          LEFT JOIN pg_collation co ON co.oid = a.attcollation LEFT JOIN pg_namespace cn ON cn.oid = co.collnamespace
        WHERE a.attrelid = tab.oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
    LOOP
      SELECT * INTO known, unknown FROM rdma_internal.known_options(part.attfdwoptions, 'pg_attribute'::regclass);
      columns := columns || CASE WHEN columns = '' THEN '' ELSE ', ' END || format('%I %s%s%s%s%s', part.attname,
          part.type,
        rdma_internal.option_list(known), ' COLLATE ' || part.collation,
        CASE WHEN part.expr IS NULL THEN '' WHEN part.attgenerated = '' THEN ' DEFAULT ' || part.expr
          ELSE ' GENERATED ALWAYS AS (' || part.expr || CASE part.attgenerated WHEN 's' THEN ') STORED'
              ELSE ') VIRTUAL' END END,
        CASE WHEN part.attnotnull THEN ' NOT NULL' END);
    END LOOP;
    FOR part IN SELECT conname, pg_get_constraintdef(oid) AS definition FROM pg_constraint WHERE conrelid = tab.oid
        AND contype = 'c' ORDER BY conname LOOP
      columns := columns || CASE WHEN columns = '' THEN '' ELSE ', ' END || format('CONSTRAINT %I %s', part.conname,
          part.definition);
    END LOOP;

    -- A table without these options stands for the remote table of its own schema and name.
    IF NOT EXISTS (SELECT FROM pg_options_to_table(tab.ftoptions) WHERE option_name = 'schema_name') THEN
      tab.ftoptions := array_append(tab.ftoptions, 'schema_name=' || tab.nspname);
    END IF;
    SELECT * INTO known, unknown FROM rdma_internal.known_options(tab.ftoptions, 'pg_foreign_table'::regclass);
    EXECUTE format('CREATE FOREIGN TABLE %I.%I (%s) SERVER %I%s', into_schema, tab.relname, columns, new_server,
        rdma_internal.option_list(known));
    IF tab.comment IS NOT NULL THEN
      EXECUTE format('COMMENT ON FOREIGN TABLE %I.%I IS %L', into_schema, tab.relname, tab.comment);
    END IF;
    kind := 'foreign table'; name := format('%I.%I', into_schema, tab.relname);
    FOR statement IN
      SELECT format('ALTER FOREIGN TABLE %s ALTER COLUMN %I SET %s', name, a.attname, o.setting) FROM pg_attribute a,
          LATERAL (VALUES
          ('STATISTICS ' || CASE WHEN a.attstattarget >= 0 THEN a.attstattarget END),
          ('(' || (SELECT string_agg(format('%I = %L', option_name, option_value), ', ')
              FROM pg_options_to_table(a.attoptions)
            WHERE option_name IN ('n_distinct', 'n_distinct_inherited')) || ')')) o(setting)
        WHERE a.attrelid = tab.oid AND a.attnum > 0 AND NOT a.attisdropped AND o.setting IS NOT NULL
      UNION ALL SELECT rdma_internal.grant_statement(g.privilege_type, name, g.grantee, g.is_grantable)
          FROM aclexplode(tab.relacl) g WHERE g.grantee <> tab.relowner
      UNION ALL SELECT rdma_internal.grant_statement(g.privilege_type || format(' (%I)', a.attname), name, g.grantee,
          g.is_grantable)
        FROM pg_attribute a, LATERAL aclexplode(a.attacl) g WHERE a.attrelid = tab.oid AND NOT a.attisdropped
    LOOP
      EXECUTE statement;
    END LOOP;
    statement := NULL;
    BEGIN
      EXECUTE format('ALTER FOREIGN TABLE %s OWNER TO %I', name, pg_get_userbyid(tab.relowner));
    EXCEPTION WHEN insufficient_privilege THEN
      statement := format('not owned by %I', pg_get_userbyid(tab.relowner));
    END;
    remark := nullif(concat_ws('; ', 'options left out: ' || array_to_string(unknown, ', '),
      CASE WHEN tab.relispartition THEN 'not attached as a partition of ' || tab.parents ELSE 'does not inherit from '
          || tab.parents END,
      'triggers left out: ' || tab.triggers, statement), '');
    RETURN NEXT;
  END LOOP;
  BEGIN
    EXECUTE format('ALTER SERVER %I OWNER TO %I', new_server, pg_get_userbyid(old.srvowner));
  EXCEPTION WHEN insufficient_privilege THEN
    RAISE WARNING 'server "%" is not owned by "%": %', new_server, pg_get_userbyid(old.srvowner), SQLERRM;
  END;
END $function$;
COMMENT ON FUNCTION rdma.adopt_server(name, name, name) IS
    'makes an rdma_fdw server with user mappings and foreign tables, in a schema of your choice, from a postgres_fdw '
    'one; tells what it left out. The name of the new server is that of the old one and _rdma by default';

-- Statistics. ANALYZE of a database, vacuumdb and autovacuum leave foreign tables out.
CREATE FUNCTION rdma_internal.analyzable_tables(server name)
RETURNS SETOF regclass
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
  IF server IS NOT NULL AND NOT EXISTS (SELECT FROM pg_foreign_server s WHERE s.srvname = server) THEN
    RAISE EXCEPTION 'server "%" does not exist', server USING ERRCODE = 'undefined_object';
  END IF;
  -- ANALYZE of a partitioned table is one of its partitions, too
  RETURN QUERY SELECT r.relation FROM (
      SELECT DISTINCT coalesce(pg_partition_root(c.oid), c.oid)::regclass AS relation
        FROM pg_foreign_table f JOIN pg_class c ON c.oid = f.ftrelid JOIN pg_foreign_server s ON s.oid = f.ftserver
          JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw JOIN pg_proc h ON h.oid = w.fdwhandler
              AND h.proname = 'rdma_fdw_handler'
        WHERE c.relpersistence <> 't' AND (server IS NULL OR s.srvname = server)) r
    JOIN pg_class c ON c.oid = r.relation
    WHERE CASE WHEN current_setting('server_version_num')::integer >= 170000 THEN has_table_privilege(c.oid, 'MAINTAIN')
        ELSE pg_has_role(c.relowner, 'USAGE') END
    ORDER BY r.relation::text;
END $function$;
COMMENT ON FUNCTION rdma_internal.analyzable_tables(name) IS
    'the foreign tables of a server, or of all, and partitioned ones that consist of some, which the caller '
    'may analyze';

-- Each table is a transaction. It has no search_path of its own, since it commits, and names all
-- that it uses with its schema.
CREATE PROCEDURE rdma.analyze_tables(server name DEFAULT NULL)
LANGUAGE plpgsql
AS $procedure$
DECLARE
  tab regclass;
  tables integer := 0;
  failed integer := 0;
BEGIN
  FOR tab IN SELECT t FROM rdma_internal.analyzable_tables(server) t LOOP
    tables := pg_catalog.int4pl(tables, 1);
    BEGIN
      EXECUTE pg_catalog.format('ANALYZE %s', tab);
    EXCEPTION WHEN OTHERS THEN
      failed := pg_catalog.int4pl(failed, 1);
      RAISE WARNING 'could not analyze table %: %', tab, SQLERRM;
    END;
    COMMIT;
  END LOOP;
  IF pg_catalog.int4gt(failed, 0) THEN
    RAISE EXCEPTION 'could not analyze % of % tables', failed, tables USING ERRCODE = 'fdw_error',
        HINT = 'The warnings say why.';
  END IF;
END $procedure$;
COMMENT ON PROCEDURE rdma.analyze_tables(name) IS
    'analyzes the foreign tables of a server, or of all servers of rdma_fdw, which ANALYZE without a list, vacuumdb '
    'and autovacuum leave out';
