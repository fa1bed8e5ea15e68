/* src/sql/45_descriptions.sql: Definitions of tables, as they travel. */

-- What ALTER and RENAME do to foreign tables with option propagate_ddl, they do to the tables of
-- the nodes, too (src/fdw/catalog/ddl.c).
CREATE FUNCTION rdma_internal.table_definition(tab regclass)
RETURNS jsonb
LANGUAGE plpgsql STABLE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  key text[];
BEGIN
  -- an option that is wrong must not keep its correction out
  BEGIN
    key := rdma.distribution_key(tab);
  EXCEPTION WHEN OTHERS THEN
    NULL;
  END;
  RETURN (SELECT jsonb_build_object('server', s.srvname, 'schema', n.nspname, 'name', c.relname, 'options',
      (SELECT jsonb_object_agg(option_name, option_value) FROM pg_options_to_table(f.ftoptions)))
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_foreign_table f ON f.ftrelid = c.oid
        JOIN pg_foreign_server s ON s.oid = f.ftserver WHERE c.oid = tab)
    || jsonb_build_object('columns',
        (SELECT coalesce(jsonb_agg(jsonb_build_object('num', a.attnum, 'name', a.attname, 'remote',
        coalesce(o.name, a.attname), 'named', o.name IS NOT NULL,
        'key', array_position(key, a.attname::text), 'type', format_type(a.atttypid, a.atttypmod), 'sorted',
            quote_ident(cn.nspname) || '.' || quote_ident(co.collname),
        'same', a.attcollation = t.typcollation, 'filled', pg_get_expr(d.adbin, d.adrelid), 'generated', a.attgenerated,
            'required', a.attnotnull)), '[]')
      FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid
          AND d.adnum = a.attnum
        LEFT JOIN pg_collation co ON co.oid = a.attcollation LEFT JOIN pg_namespace cn ON cn.oid = co.collnamespace
        LEFT JOIN LATERAL (SELECT option_value AS name FROM pg_options_to_table(a.attfdwoptions)
            WHERE option_name = 'column_name') o ON true
      WHERE a.attrelid = tab AND a.attnum > 0 AND NOT a.attisdropped),
    'checks', (SELECT coalesce(jsonb_agg(jsonb_build_object('oid', oid::bigint, 'name', conname, 'definition',
        pg_get_constraintdef(oid), 'valid', convalidated)), '[]')
      FROM pg_constraint WHERE conrelid = tab AND contype = 'c'));
END $function$;
COMMENT ON FUNCTION rdma_internal.table_definition(regclass) IS
    'what of a foreign table''s definition its tables on the nodes have, too';

-- Owners and privileges (src/fdw/catalog/ddl_rights.c)
CREATE FUNCTION rdma_internal.role_there(tab regclass, node name, role oid, shared boolean)
RETURNS text
AS 'MODULE_PATHNAME', 'rdma_role_there' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION rdma_internal.role_there(regclass, name, oid, boolean) IS
    'the role of a node that a role''s user mapping names, for roles that may grant privileges on the table; shared: '
    'the mapping for PUBLIC counts, too';

CREATE FUNCTION rdma_internal.rights_there(tab regclass, grantor oid)
RETURNS jsonb
LANGUAGE sql STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $function$
  WITH granted AS (
    SELECT n.node, NULL::text AS col, a.* FROM pg_class c, aclexplode(c.relacl) a,
        rdma.nodes(rdma_internal.server_of(tab)) n WHERE c.oid = tab
    UNION ALL SELECT n.node, coalesce((SELECT option_value FROM pg_options_to_table(c.attfdwoptions)
        WHERE option_name = 'column_name'), c.attname), a.* FROM pg_attribute c, aclexplode(c.attacl) a,
        rdma.nodes(rdma_internal.server_of(tab)) n WHERE c.attrelid = tab AND NOT c.attisdropped)
  SELECT jsonb_build_object('grantor', grantor::regrole, 'owner', (SELECT relowner::regrole FROM pg_class WHERE oid = tab),
    'owners', (SELECT jsonb_object_agg(n.node, rdma_internal.role_there(tab, n.node, c.relowner, true))
      FROM pg_class c, rdma.nodes(rdma_internal.server_of(tab)) n WHERE c.oid = tab),
    'grants', (SELECT coalesce(jsonb_agg(g), '[]') FROM (
      SELECT p.node, p.col, p.privilege, p.role, bool_or(p.is_grantable) AS grantable FROM (
          SELECT g.node, g.col, g.privilege_type AS privilege, g.is_grantable, CASE WHEN g.grantee = 0 THEN 'PUBLIC'
              ELSE quote_ident(rdma_internal.role_there(tab, g.node, g.grantee, false)) END AS role
            FROM granted g JOIN pg_class c ON c.oid = tab
            WHERE g.grantor = rights_there.grantor AND g.grantee <> c.relowner
              AND g.privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES')) p
        WHERE p.role IS NOT NULL GROUP BY p.node, p.col, p.privilege, p.role) g))
$function$;
COMMENT ON FUNCTION rdma_internal.rights_there(regclass, oid) IS
    'the roles that own a foreign table, and have privileges on it that this role granted, by their names on each node';

CREATE FUNCTION rdma_internal.propagate_rights(tab regclass, before jsonb, after jsonb, cascade boolean)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  remote text := (SELECT relation FROM rdma_internal.placement_conditions(tab) LIMIT 1);
  part record;
  statements text;
BEGIN
  FOR part IN SELECT n.node, before->'owners'->>n.node AS old, after->'owners'->>n.node AS new
      FROM rdma.nodes(rdma_internal.server_of(tab)) n ORDER BY n.place LOOP
    SELECT CASE WHEN before->>'owner' <> after->>'owner' AND part.old <> part.new
        THEN format('ALTER TABLE %s OWNER TO %I', remote, part.new) END INTO statements;
    IF before->>'owner' = after->>'owner' THEN
      SELECT string_agg(s.statement, '; ' ORDER BY s.place, s.statement) INTO statements FROM (
        SELECT 1 AS place, format('REVOKE %s%s%s ON TABLE %s FROM %s%s', CASE WHEN a.role IS NOT NULL
            THEN 'GRANT OPTION FOR ' END, b.privilege, ' (' || quote_ident(b.col) || ')', remote, b.role, CASE WHEN cascade
            THEN ' CASCADE' END) AS statement
          FROM jsonb_to_recordset(before->'grants') b(node name, col text, privilege text, role text, grantable boolean)
            LEFT JOIN jsonb_to_recordset(after->'grants') a(node name, col text, privilege text, role text,
              grantable boolean) ON a.node = b.node AND a.col IS NOT DISTINCT FROM b.col AND a.privilege = b.privilege
              AND a.role = b.role
          WHERE b.node = part.node AND b.role IS DISTINCT FROM quote_ident(part.old) AND (a.role IS NULL OR b.grantable AND NOT a.grantable)
        UNION ALL SELECT 2, format('GRANT %s%s ON TABLE %s TO %s%s', a.privilege, ' (' || quote_ident(a.col) || ')', remote, a.role,
            CASE WHEN a.grantable THEN ' WITH GRANT OPTION' END)
          FROM jsonb_to_recordset(after->'grants') a(node name, col text, privilege text, role text, grantable boolean)
          WHERE a.node = part.node AND a.role IS DISTINCT FROM quote_ident(part.old)) s;
    END IF;
    CONTINUE WHEN statements IS NULL;
    IF after->>'grantor' = after->>'owner' AND NOT rdma_internal.ask_node(part.node, format('SELECT '
        'pg_catalog.pg_has_role(relowner, ''USAGE'') FROM pg_catalog.pg_class WHERE oid = %L::regclass', remote), false) THEN
      RAISE EXCEPTION 'table % on server "%" does not belong to the role of the owner''s user mapping', remote, part.node
          USING ERRCODE = 'insufficient_privilege',
        HINT = 'Let it belong to that role there, or SET rdma_fdw.propagate_ddl = off and change the rights there by '
          'rdma.run_on.';
    END IF;
    PERFORM rdma.run_on(part.node, statements);
  END LOOP;
END $function$;
COMMENT ON FUNCTION rdma_internal.propagate_rights(regclass, jsonb, jsonb, boolean) IS
    'gives the tables of the nodes the owner and the privileges that a foreign table has got since '
    'rdma_internal.rights_there told of them';

CREATE FUNCTION rdma_internal.send_rights(tab regclass, one_node name)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  rights jsonb := rdma_internal.rights_there(tab, (SELECT relowner FROM pg_class WHERE oid = tab));
BEGIN
  -- the caller has just created the tables there
  rights := rights || jsonb_build_object('grantor', NULL, 'grants', (SELECT coalesce(jsonb_agg(g), '[]')
    FROM jsonb_array_elements(rights->'grants') g WHERE one_node IS NULL OR g->>'node' = one_node));
  PERFORM rdma_internal.propagate_rights(tab, rights || '{"grants": []}', rights, false);
END $function$;
COMMENT ON FUNCTION rdma_internal.send_rights(regclass, name) IS
    'gives new tables of the nodes, or of one of them, the privileges that a foreign table''s owner has granted';

-- The way back.
CREATE FUNCTION rdma_internal.define(tab text, command text, run boolean)
RETURNS text
AS 'MODULE_PATHNAME', 'rdma_define' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp;
COMMENT ON FUNCTION rdma_internal.define(text, text, boolean) IS
    'runs a command if it defines a part of this table or its partitions, and has no code run that belongs '
    'neither to the caller nor to a superuser or that has effects; NULL, or why it is not run';

CREATE FUNCTION rdma_internal.known_type(type text)
RETURNS text
AS 'MODULE_PATHNAME', 'rdma_known_type' LANGUAGE C STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp;
COMMENT ON FUNCTION rdma_internal.known_type(text) IS
    'a type that a node names, as it is called here; the type below a domain. An error if its values have '
    'code of other roles run';

CREATE FUNCTION rdma_internal.define_on(server name, tab text, command text, checked boolean)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  part record;
BEGIN
  IF NOT checked THEN
    PERFORM rdma.run_on(server, command);
    RETURN;
  END IF;
  SELECT r.node, r.answer INTO part FROM rdma.run_on(server, format('SELECT rdma_internal.define(%L, %L, true)', tab,
      command)) r
      WHERE r.answer IS NOT NULL ORDER BY r.node LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'a part of table % is not created on server "%"', tab, part.node
        USING ERRCODE = 'insufficient_privilege',
      DETAIL = format('In "%s": %s.', command, part.answer), HINT = 'It would run with your rights there. Let what it '
          'uses belong to your role on that node, or drop this part of the table.';
  END IF;
END $function$;
COMMENT ON FUNCTION rdma_internal.define_on(name, text, text, boolean) IS
    'runs a part of a table''s definition on the nodes of a server, if checked only if rdma_internal.define runs it '
    'there';

-- Its expressions run here while rows move, with the caller's rights.
CREATE FUNCTION rdma_internal.require_owner(tab regclass)
RETURNS void
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  part record;
BEGIN
  SELECT c.relname, c.relowner::regrole AS owner INTO part FROM pg_class c WHERE c.oid = tab;
  IF part.owner <> current_user::regrole THEN
    RAISE EXCEPTION 'must be the owner of foreign table "%"', part.relname USING ERRCODE = 'insufficient_privilege',
        HINT = format('SET ROLE %s.', part.owner);
  END IF;
END $function$;
COMMENT ON FUNCTION rdma_internal.require_owner(regclass) IS
    'an error unless the caller is the owner of a foreign table';

-- Here or on a node.
CREATE FUNCTION rdma_internal.table_members(tab regclass, OUT oid oid, OUT level integer, OUT name text,
    OUT parent text)
RETURNS SETOF record
LANGUAGE sql STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $function$
  SELECT c.oid, m.level, format('%I.%I', n.nspname, c.relname), CASE WHEN m.level > 0 THEN format('%I.%I', pn.nspname,
      p.relname) END
    FROM (SELECT tab::oid AS relid, 0 AS level, NULL::oid AS parentrelid UNION SELECT relid, level, CASE WHEN level > 0
        THEN parentrelid END FROM pg_partition_tree(tab)) m
      JOIN pg_class c ON c.oid = m.relid JOIN pg_namespace n ON n.oid = c.relnamespace
      LEFT JOIN pg_class p ON p.oid = m.parentrelid LEFT JOIN pg_namespace pn ON pn.oid = p.relnamespace
    ORDER BY m.level, n.nspname, c.relname
$function$;
COMMENT ON FUNCTION rdma_internal.table_members(regclass) IS 'a table and its partitions, parents first';

-- On a node.
CREATE FUNCTION rdma_internal.table_description(tab regclass)
RETURNS jsonb
LANGUAGE sql STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $function$
  SELECT jsonb_agg(jsonb_build_object('name', m.name, 'parent', m.parent, 'schema', n.nspname, 'table', c.relname,
      'kind', c.relkind, 'bound', pg_get_expr(c.relpartbound, c.oid),
    'triggers', (SELECT string_agg(quote_ident(tgname), ', ' ORDER BY tgname) FROM pg_trigger WHERE tgrelid = c.oid
        AND NOT tgisinternal AND tgparentid = 0),
    'comment', obj_description(c.oid, 'pg_class'), 'statistics', (SELECT string_agg(pg_get_statisticsobjdef(oid), '; ')
        FROM pg_statistic_ext WHERE stxrelid = c.oid AND m.level > 0),
    'key', CASE WHEN c.relkind = 'p' THEN pg_get_partkeydef(c.oid) END,
    'storage', (SELECT jsonb_object_agg(r.prefix || o.option_name, o.option_value) FROM unnest(ARRAY['', 'toast.'],
        ARRAY[c.oid, c.reltoastrelid]) r(prefix, oid)
      JOIN pg_class s ON s.oid = r.oid, LATERAL pg_options_to_table(s.reloptions) o),
    'columns', (SELECT jsonb_agg(jsonb_build_object('name', a.attname, 'storage', nullif(a.attstorage, t.typstorage),
        'compression', nullif(a.attcompression, ''),
        'target', nullif(a.attstattarget, -1), 'required', a.attnotnull, 'distinct',
            (SELECT jsonb_object_agg(option_name, option_value) FROM pg_options_to_table(a.attoptions))))
      FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid WHERE a.attrelid = c.oid AND a.attnum > 0
          AND NOT a.attisdropped),
    'constraints', (SELECT jsonb_agg(jsonb_build_object('name', conname, 'kind', contype, 'definition',
        pg_get_constraintdef(oid)))
      FROM pg_constraint WHERE conrelid = c.oid AND contype <> 'f' AND conparentid = 0 AND NOT (contype = 'c'
          AND coninhcount > 0) AND conname <> 'rdma_placement'),
    'indexes', (SELECT jsonb_agg(jsonb_build_object('name', x.relname, 'unique', i.indisunique,
        'definition', substr(d.text, nullif(strpos(d.text, u.start || ' USING '), 0) + length(u.start))))
      FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid, LATERAL pg_get_indexdef(i.indexrelid) d(text),
        LATERAL (SELECT CASE WHEN x.relkind = 'I' THEN ' ON ONLY ' ELSE ' ON ' END || m.name) u(start)
      WHERE i.indrelid = c.oid AND NOT x.relispartition AND NOT EXISTS (SELECT FROM pg_constraint
          WHERE conindid = i.indexrelid AND conrelid = c.oid))) ORDER BY m.level, m.name)
  FROM rdma_internal.table_members(tab) m JOIN pg_class c ON c.oid = m.oid JOIN pg_namespace n ON n.oid = c.relnamespace
$function$;
COMMENT ON FUNCTION rdma_internal.table_description(regclass) IS
    'what rdma.undistribute_table has to know of a table of a node and its partitions, parents first';

-- Here or on a node: what its like on another node is created with. Defaults stay on the coordinator.
CREATE FUNCTION rdma_internal.table_statements(tab regclass)
RETURNS text[]
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET datestyle = ISO SET intervalstyle = postgres SET extra_float_digits = 1 SET bytea_output = hex SET lc_monetary = 'C'
    SET xmloption = content
AS $function$
DECLARE
  part record;
  problems text;
  statements text[] := '{}';
BEGIN
  SELECT concat_ws(', ',
      CASE WHEN bool_or(m.level = 0 AND (c.relkind NOT IN ('r', 'p') OR c.relispartition OR c.relkind = 'r'
          AND c.relhassubclass OR c.relpersistence = 't')) THEN 'it is neither an ordinary nor a partitioned table' END,
      'partitions are foreign tables: ' || string_agg(m.name, ', ') FILTER (WHERE m.level > 0 AND c.relkind = 'f'),
      (SELECT 'partitions compute columns in another way: ' || string_agg(o.name || '.' || quote_ident(a.attname), ', ')
        FROM rdma_internal.table_members(tab) o JOIN pg_attribute a ON a.attrelid = o.oid JOIN pg_attribute p ON
            p.attrelid = tab
            AND p.attname = a.attname AND NOT p.attisdropped
          JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
              JOIN pg_attrdef pd ON pd.adrelid = p.attrelid AND pd.adnum = p.attnum
        WHERE a.attgenerated <> '' AND NOT a.attisdropped AND pg_get_expr(d.adbin, d.adrelid) <> pg_get_expr(pd.adbin,
            pd.adrelid)),
      CASE WHEN bool_or(c.relrowsecurity) THEN 'it has row security' END,
      (SELECT 'it has rules: ' || string_agg(quote_ident(rulename), ', ' ORDER BY rulename) FROM pg_rewrite
          WHERE ev_class = ANY (array_agg(m.oid)) HAVING count(*) > 0))
    INTO problems FROM rdma_internal.table_members(tab) m JOIN pg_class c ON c.oid = m.oid;
  IF problems <> '' THEN
    RAISE EXCEPTION 'table % cannot be created on another node', tab USING ERRCODE = 'feature_not_supported',
        DETAIL = format('On its node, %s.', problems),
      HINT = 'Create it there yourself, without rows.';
  END IF;
  FOR part IN
    SELECT m.*, c.relpersistence, c.relkind, pg_get_expr(c.relpartbound, c.oid) AS bound, ' PARTITION BY ' || CASE
        WHEN c.relkind = 'p' THEN pg_get_partkeydef(c.oid) END AS key,
        (SELECT ' WITH (' || string_agg(format('%s = %L', r.prefix || o.option_name, o.option_value), ', ') || ')'
          FROM unnest(ARRAY['', 'toast.'], ARRAY[c.oid, c.reltoastrelid]) r(prefix, oid)
              JOIN pg_class s ON s.oid = r.oid, LATERAL pg_options_to_table(s.reloptions) o) AS storage,
        (SELECT string_agg(format('%I %s%s%s%s', a.attname, format_type(a.atttypid, a.atttypmod),
            ' COLLATE ' || CASE WHEN a.attcollation <> ty.typcollation THEN quote_ident(cn.nspname) || '.'
                || quote_ident(co.collname) END,
            CASE WHEN a.attgenerated <> '' THEN ' GENERATED ALWAYS AS (' || pg_get_expr(d.adbin, d.adrelid)
                || CASE a.attgenerated WHEN 's' THEN ') STORED' ELSE ') VIRTUAL' END END,
            CASE WHEN a.attnotnull THEN ' NOT NULL' END), ', ' ORDER BY a.attnum)
          FROM pg_attribute a JOIN pg_type ty ON ty.oid = a.atttypid LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid
              AND d.adnum = a.attnum
            LEFT JOIN pg_collation co ON co.oid = a.attcollation LEFT JOIN pg_namespace cn ON cn.oid = co.collnamespace
          WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS columns
      FROM rdma_internal.table_members(tab) m JOIN pg_class c ON c.oid = m.oid ORDER BY m.level, m.name
  LOOP
    statements := statements || format('CREATE %sTABLE %s%s%s%s', CASE WHEN part.relpersistence = 'u'
        THEN 'UNLOGGED ' END, part.name,
      CASE WHEN part.parent IS NULL THEN ' (' || coalesce(part.columns, '') || ')' ELSE format(' PARTITION OF %s %s',
          part.parent, part.bound) END, part.key, part.storage);
  END LOOP;
  -- each for itself, what it inherits left out
  RETURN statements
    || ARRAY(SELECT format('ALTER TABLE %s%s ALTER COLUMN %I SET %s', CASE WHEN c.relkind = 'p' THEN 'ONLY ' END,
        m.name, a.attname, o.setting)
      FROM rdma_internal.table_members(tab) m JOIN pg_class c ON c.oid = m.oid JOIN pg_attribute a ON a.attrelid = m.oid
          JOIN pg_type ty ON ty.oid = a.atttypid,
        LATERAL (VALUES
          (CASE WHEN a.attstorage <> ty.typstorage THEN 'STORAGE ' || CASE a.attstorage WHEN 'p' THEN 'PLAIN' WHEN 'e'
              THEN 'EXTERNAL' WHEN 'm' THEN 'MAIN' ELSE 'EXTENDED' END END),
          ('COMPRESSION ' || CASE a.attcompression WHEN 'p' THEN 'pglz' WHEN 'l' THEN 'lz4' END),
          ('STATISTICS ' || CASE WHEN a.attstattarget >= 0 THEN a.attstattarget END),
          ('(' || (SELECT string_agg(format('%s = %s', option_name, option_value), ', ')
              FROM pg_options_to_table(a.attoptions) WHERE option_name IN ('n_distinct', 'n_distinct_inherited'))
              || ')'),
          (CASE WHEN m.level > 0 AND a.attnotnull AND EXISTS (SELECT FROM pg_attribute p
              WHERE p.attrelid = m.parent::regclass AND p.attname = a.attname AND NOT p.attnotnull)
              THEN 'NOT NULL' END)) o(setting)
      WHERE a.attnum > 0 AND NOT a.attisdropped AND o.setting IS NOT NULL ORDER BY m.level, m.name, a.attnum, o.setting)
    || ARRAY(SELECT format('ALTER TABLE %s ADD CONSTRAINT %I %s', m.name, conname, pg_get_constraintdef(c.oid))
        FROM rdma_internal.table_members(tab) m JOIN pg_constraint c ON c.conrelid = m.oid
      WHERE contype = 'c' AND coninhcount = 0 AND conname <> 'rdma_placement' ORDER BY m.level, m.name, conname)
    || ARRAY(SELECT format('COMMENT ON TABLE %s IS %L', m.name, description) FROM rdma_internal.table_members(tab) m
        JOIN pg_description d ON d.objoid = m.oid AND d.classoid = 'pg_class'::regclass AND d.objsubid = 0
        ORDER BY m.level, m.name);
END $function$;
COMMENT ON FUNCTION rdma_internal.table_statements(regclass) IS
    'the statements that create an empty table like this one with its partitions, without the constraint '
    'rdma_placement and what rdma_internal.index_statements makes';

-- Row triggers that a table and its partitions have for themselves. A statement is something else on a node.
CREATE FUNCTION rdma_internal.triggers(tab regclass, OUT relation oid, OUT name text, OUT kept boolean, OUT by_row boolean,
    OUT function text, OUT statements text[])
RETURNS SETOF record
LANGUAGE sql STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $function$
  SELECT m.oid, t.tgname, t.tgoldtable IS NULL AND t.tgnewtable IS NULL AND t.tgconstrrelid = 0, t.tgtype & 1 = 1,
      format('%I.%I()', n.nspname, p.proname), ARRAY[pg_get_triggerdef(t.oid)] || CASE WHEN t.tgenabled <> 'O' THEN ARRAY[format('ALTER TABLE %s %s TRIGGER %I',
        m.name, CASE t.tgenabled WHEN 'A' THEN 'ENABLE ALWAYS' WHEN 'R' THEN 'ENABLE REPLICA' ELSE 'DISABLE' END,
        t.tgname)] ELSE '{}' END
    FROM rdma_internal.table_members(tab) m JOIN pg_trigger t ON t.tgrelid = m.oid AND NOT t.tgisinternal
      AND t.tgparentid = 0 JOIN pg_proc p ON p.oid = t.tgfoid JOIN pg_namespace n ON n.oid = p.pronamespace ORDER BY m.level, m.name, t.tgname
$function$;
COMMENT ON FUNCTION rdma_internal.triggers(regclass) IS
    'triggers of a table and its partitions, whether others can be like them elsewhere, and the statements that make them';

CREATE FUNCTION rdma_internal.trigger_statements(tab regclass)
RETURNS text[]
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  names text := (SELECT string_agg(quote_ident(t.name), ', ') FROM rdma_internal.triggers(tab) t
    WHERE NOT t.kept OR NOT t.by_row);
BEGIN
  IF names IS NOT NULL THEN
    RAISE EXCEPTION 'table % cannot be created on another node', tab USING ERRCODE = 'feature_not_supported',
        DETAIL = format('On its node, it has triggers that are for statements or use other tables: %s.', names),
      HINT = 'Create it there yourself, without rows.';
  END IF;
  RETURN ARRAY(SELECT s.statement FROM rdma_internal.triggers(tab) WITH ORDINALITY t(relation, name, kept, by_row,
    function, statements, place), unnest(t.statements) WITH ORDINALITY s(statement, number) ORDER BY t.place, s.number);
END $function$;
COMMENT ON FUNCTION rdma_internal.trigger_statements(regclass) IS
    'the statements that give a table the triggers of this one';

CREATE FUNCTION rdma_internal.index_statements(tab regclass)
RETURNS text[]
LANGUAGE sql STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET datestyle = ISO SET intervalstyle = postgres SET extra_float_digits = 1 SET bytea_output = hex SET lc_monetary = 'C'
    SET xmloption = content
AS $function$
  SELECT ARRAY(SELECT format('ALTER TABLE %s ADD CONSTRAINT %I %s', m.name, c.conname, pg_get_constraintdef(c.oid))
      FROM rdma_internal.table_members(tab) m JOIN pg_constraint c ON c.conrelid = m.oid
      WHERE c.contype IN ('p', 'u', 'x') AND c.conparentid = 0 ORDER BY m.level, m.name, c.contype, c.conname)
    || ARRAY(SELECT overlay(d.text placing ' ON ' from strpos(d.text, x.ending) for length(' ON ONLY '))
        FROM rdma_internal.table_members(tab) m JOIN pg_index i ON i.indrelid = m.oid JOIN pg_class c ON c.oid =
            i.indexrelid,
        LATERAL pg_get_indexdef(i.indexrelid) d(text), LATERAL (SELECT ' ON ONLY ' || m.name || ' USING ') x(ending)
      WHERE NOT c.relispartition AND c.relkind = 'I' AND NOT EXISTS (SELECT FROM pg_constraint
          WHERE conindid = i.indexrelid AND conrelid = m.oid) ORDER BY m.level, m.name, c.relname)
    || ARRAY(SELECT pg_get_indexdef(i.indexrelid) FROM rdma_internal.table_members(tab) m JOIN pg_index i ON i.indrelid
        = m.oid
        JOIN pg_class c ON c.oid = i.indexrelid
      WHERE NOT c.relispartition AND c.relkind = 'i' AND NOT EXISTS (SELECT FROM pg_constraint
          WHERE conindid = i.indexrelid AND conrelid = m.oid) ORDER BY m.level, m.name, c.relname)
    || ARRAY(SELECT format('ALTER INDEX %s ALTER COLUMN %s SET STATISTICS %s', i.indexrelid::regclass, a.attnum,
        a.attstattarget)
      FROM rdma_internal.table_members(tab) m JOIN pg_index i ON i.indrelid = m.oid JOIN pg_class c ON c.oid =
          i.indexrelid
          JOIN pg_attribute a ON a.attrelid = i.indexrelid
      WHERE NOT c.relispartition AND a.attstattarget >= 0 ORDER BY m.level, m.name, i.indexrelid::regclass::text,
          a.attnum)
    || ARRAY(SELECT format('CREATE STATISTICS %I.%I', n.nspname, e.stxname)
        || substr(d.text, length(format('CREATE STATISTICS %I.%I', s.nspname, e.stxname)) + 1)
      FROM rdma_internal.table_members(tab) m JOIN pg_class c ON c.oid = m.oid JOIN pg_namespace n ON n.oid =
          c.relnamespace
          JOIN pg_statistic_ext e ON e.stxrelid = m.oid JOIN pg_namespace s ON s.oid = e.stxnamespace,
          LATERAL pg_get_statisticsobjdef(e.oid) d(text)
      ORDER BY m.level, m.name, e.stxname)
$function$;
COMMENT ON FUNCTION rdma_internal.index_statements(regclass) IS
    'the statements that give a table what this one and its partitions have of keys, indexes and extended '
    'statistics';

-- Commands that name an index, a partition or a constraint which only the nodes have (src/fdw/catalog/ddl_nodes.c)
CREATE FUNCTION rdma_internal.table_with(kind text, schemas name[], name name, OUT tab regclass, OUT remote text)
RETURNS SETOF record
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  part record;
  said jsonb;
BEGIN
  IF kind = 'constraint' THEN
    IF EXISTS (SELECT FROM pg_constraint x JOIN pg_namespace n ON n.oid = x.connamespace
        WHERE x.conname = name AND n.nspname = ANY (schemas)) THEN
      RETURN;
    END IF;
    RETURN QUERY SELECT k.tab, '' FROM rdma_internal.noted_keys() k
      WHERE k.key->>'name' = name AND k.key->'table'->>0 = ANY (schemas) LIMIT 1;
    IF FOUND THEN
      RETURN;
    END IF;
  END IF;
  FOR part IN
    SELECT t.server, (SELECT n.node FROM rdma.nodes(t.server) n LIMIT 1) AS node, array_agg(DISTINCT t.schema) AS there
      FROM (SELECT s.srvname AS server, coalesce(max(o.option_value) FILTER (WHERE o.option_name = 'schema_name'),
            n.nspname) AS schema
          FROM pg_foreign_table f JOIN pg_foreign_server s ON s.oid = f.ftserver JOIN pg_class c ON c.oid = f.ftrelid
            JOIN pg_namespace n ON n.oid = c.relnamespace, pg_options_to_table(f.ftoptions) o
          WHERE n.nspname = ANY (schemas) AND pg_has_role(c.relowner, 'USAGE') GROUP BY s.srvname, c.oid, n.nspname
          HAVING bool_or(o.option_name = 'propagate_ddl' AND o.option_value::boolean)) t
      GROUP BY t.server ORDER BY t.server
  LOOP
    said := rdma_internal.ask_node(part.node, format('SELECT coalesce(pg_catalog.jsonb_agg('
        'pg_catalog.jsonb_build_object(''within'', xn.nspname, ''schema'', n.nspname, ''table'', c.relname)), ''[]'') '
        'FROM %s JOIN pg_catalog.pg_class c ON c.oid = coalesce(pg_catalog.pg_partition_root(x.tab), x.tab) '
        'JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace '
        'JOIN pg_catalog.pg_namespace xn ON xn.oid = x.schema WHERE x.name = %L AND xn.nspname = ANY (%L::name[]) AND '
        'c.oid IS DISTINCT FROM x.oid', CASE kind
          WHEN 'constraint' THEN '(SELECT NULL::oid, conname, connamespace, conrelid FROM pg_catalog.pg_constraint) '
          WHEN 'index' THEN '(SELECT i.oid, i.relname, i.relnamespace, x.indrelid FROM pg_catalog.pg_class i JOIN '
            'pg_catalog.pg_index x ON x.indexrelid = i.oid) '
          ELSE '(SELECT oid, relname, relnamespace, oid FROM pg_catalog.pg_class WHERE relkind IN (''r'', ''p'')) ' END
          || 'x(oid, name, schema, tab)', name, part.there), '[{}]'::jsonb);
    RETURN QUERY
      SELECT t.tab, format('%I.%I', f->>'within', name)
        FROM jsonb_array_elements(said) f, rdma_internal.table_named(part.server, jsonb_build_array(f->>'schema',
          f->>'table')) t JOIN pg_class c ON c.oid = t.tab JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = ANY (schemas) AND f->>'within' = ANY (part.there) AND pg_has_role(c.relowner, 'USAGE')
        ORDER BY array_position(schemas, n.nspname) LIMIT 1;
    EXIT WHEN FOUND;
  END LOOP;
END $function$;
COMMENT ON FUNCTION rdma_internal.table_with(text, name[], name) IS
    'the distributed table in one of these schemas that has an index, a partition or a constraint of this name on the '
    'nodes, and the name there';

-- Types, functions and the like that tables use go to the nodes before them. What belongs to neither the caller nor a
-- superuser stays here: it would belong to the caller's role there.
CREATE FUNCTION rdma_internal.object_statement(class regclass, object oid, OUT schema name, OUT test text,
    OUT statement text)
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET datestyle = ISO SET intervalstyle = postgres SET extra_float_digits = 1 SET bytea_output = hex SET lc_monetary = 'C'
    SET xmloption = content
AS $function$
DECLARE
  type pg_type;
  part jsonb;
  name text;
BEGIN
  IF class = 'pg_extension'::regclass THEN
    SELECT n.nspname, format('SELECT FROM pg_catalog.pg_extension WHERE extname = %L', e.extname),
        format('CREATE EXTENSION %I SCHEMA %I', e.extname, n.nspname) INTO schema, test, statement
      FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.oid = object AND e.extname <> 'rdma_fdw';
  ELSIF class = 'pg_proc'::regclass THEN
    SELECT n.nspname, format('SELECT FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace '
        'WHERE n.nspname = %L AND p.proname = %L AND pg_catalog.oidvectortypes(p.proargtypes) = %L', n.nspname, p.proname,
        oidvectortypes(p.proargtypes)), regexp_replace(pg_get_functiondef(object), '^CREATE OR REPLACE ', 'CREATE ')
        INTO schema, test, statement
      FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_language l ON l.oid = p.prolang
      WHERE p.oid = object AND p.prokind = 'f' AND l.lanpltrusted;
  ELSIF class = 'pg_collation'::regclass THEN
    SELECT n.nspname, to_jsonb(c), format('%I.%I', n.nspname, c.collname), format('SELECT FROM pg_catalog.pg_collation c '
        'JOIN pg_catalog.pg_namespace n ON n.oid = c.collnamespace WHERE n.nspname = %L AND c.collname = %L', n.nspname,
        c.collname) INTO schema, part, name, test
      FROM pg_collation c JOIN pg_namespace n ON n.oid = c.collnamespace WHERE c.oid = object;
    statement := format('CREATE COLLATION %s (PROVIDER = %s, %s, DETERMINISTIC = %s)', name,
      CASE part->>'collprovider' WHEN 'i' THEN 'icu' WHEN 'b' THEN 'builtin' ELSE 'libc' END,
      coalesce('LOCALE = ' || quote_literal(coalesce(part->>'colllocale', part->>'colliculocale')),
        format('LC_COLLATE = %L, LC_CTYPE = %L', part->>'collcollate', part->>'collctype')), part->>'collisdeterministic');
  ELSIF class = 'pg_ts_config'::regclass THEN
    SELECT n.nspname, format('SELECT FROM pg_catalog.pg_ts_config c JOIN pg_catalog.pg_namespace n '
        'ON n.oid = c.cfgnamespace WHERE n.nspname = %L AND c.cfgname = %L', n.nspname, c.cfgname),
        format('CREATE TEXT SEARCH CONFIGURATION %I.%I (PARSER = %I.%I)', n.nspname, c.cfgname, pn.nspname, p.prsname)
        || coalesce((SELECT string_agg(format('; ALTER TEXT SEARCH CONFIGURATION %I.%I ADD MAPPING FOR %I WITH %s',
          n.nspname, c.cfgname, m.alias, m.dictionaries), '' ORDER BY m.alias)
          FROM (SELECT t.alias, string_agg(d.mapdict::regdictionary::text, ', ' ORDER BY d.mapseqno) AS dictionaries
            FROM pg_ts_config_map d JOIN ts_token_type(c.cfgparser) t ON t.tokid = d.maptokentype
            WHERE d.mapcfg = c.oid GROUP BY t.alias) m), '') INTO schema, test, statement
      FROM pg_ts_config c JOIN pg_namespace n ON n.oid = c.cfgnamespace JOIN pg_ts_parser p ON p.oid = c.cfgparser
        JOIN pg_namespace pn ON pn.oid = p.prsnamespace WHERE c.oid = object;
  ELSIF class = 'pg_type'::regclass THEN
    SELECT t.* INTO type FROM pg_type t WHERE t.oid = object;
    SELECT n.nspname INTO schema FROM pg_namespace n WHERE n.oid = type.typnamespace;
    name := format('%I.%I', schema, type.typname);
    test := format('SELECT FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace '
      'WHERE n.nspname = %L AND t.typname = %L', schema, type.typname);
    statement := CASE type.typtype
      WHEN 'e' THEN format('CREATE TYPE %s AS ENUM (%s)', name, (SELECT string_agg(quote_literal(enumlabel), ', '
        ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = object))
      WHEN 'd' THEN format('CREATE DOMAIN %s AS %s%s%s%s%s', name, format_type(type.typbasetype, type.typtypmod),
        (SELECT format(' COLLATE %I.%I', cn.nspname, co.collname) FROM pg_collation co JOIN pg_namespace cn
          ON cn.oid = co.collnamespace WHERE co.oid = type.typcollation AND type.typcollation <> (SELECT typcollation
          FROM pg_type WHERE oid = type.typbasetype)),
        ' DEFAULT ' || pg_get_expr(type.typdefaultbin, 0), CASE WHEN type.typnotnull THEN ' NOT NULL' END,
        (SELECT string_agg(format(' CONSTRAINT %I %s', conname, pg_get_constraintdef(oid)), '' ORDER BY conname)
          FROM pg_constraint WHERE contypid = object AND contype = 'c'))
      WHEN 'c' THEN (SELECT format('CREATE TYPE %s AS (%s)', name, string_agg(format('%I %s%s', a.attname,
          format_type(a.atttypid, a.atttypmod), ' COLLATE ' || CASE WHEN a.attcollation <> ty.typcollation
            THEN quote_ident(cn.nspname) || '.' || quote_ident(co.collname) END), ', ' ORDER BY a.attnum))
        FROM pg_class c LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND NOT a.attisdropped AND a.attnum > 0
          LEFT JOIN pg_type ty ON ty.oid = a.atttypid LEFT JOIN pg_collation co ON co.oid = a.attcollation
          LEFT JOIN pg_namespace cn ON cn.oid = co.collnamespace
        WHERE c.oid = type.typrelid AND c.relkind = 'c' GROUP BY c.oid)
      WHEN 'r' THEN (SELECT format('CREATE TYPE %s AS RANGE (SUBTYPE = %s, SUBTYPE_OPCLASS = %I.%I%s, '
          'MULTIRANGE_TYPE_NAME = %I.%I)', name, format_type(r.rngsubtype, NULL), onsp.nspname, o.opcname,
          (SELECT format(', COLLATION = %I.%I', cn.nspname, co.collname) FROM pg_collation co JOIN pg_namespace cn
            ON cn.oid = co.collnamespace WHERE co.oid = r.rngcollation), mn.nspname, m.typname)
        FROM pg_range r JOIN pg_opclass o ON o.oid = r.rngsubopc JOIN pg_namespace onsp ON onsp.oid = o.opcnamespace
          JOIN pg_type m ON m.oid = r.rngmultitypid JOIN pg_namespace mn ON mn.oid = m.typnamespace
        WHERE r.rngtypid = object AND r.rngcanonical = 0) END;
  END IF;
END $function$;
COMMENT ON FUNCTION rdma_internal.object_statement(regclass, oid) IS
    'how a type, function, collation, text search configuration or extension is created elsewhere, and a query that has '
    'a row where it is; NULL: not at all';

CREATE FUNCTION rdma_internal.needed_objects(tabs oid[])
RETURNS jsonb
LANGUAGE sql STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $function$
  WITH RECURSIVE needed(class, object, level, part) AS (
    SELECT 'pg_class'::regclass::oid, unnest(tabs), 0, true
    UNION
    SELECT n.class, n.object, l.level + 1, n.part FROM needed l, LATERAL (
      -- what it consists of
      SELECT 'pg_constraint'::regclass::oid AS class, c.oid AS object, true AS part FROM pg_constraint c
        WHERE l.class = 'pg_class'::regclass AND c.conrelid = l.object AND c.contype IN ('c', 'x', 'p', 'u')
          OR l.class = 'pg_type'::regclass AND c.contypid = l.object
      UNION ALL SELECT 'pg_class'::regclass, i.indexrelid, true FROM pg_index i
        WHERE l.class = 'pg_class'::regclass AND i.indrelid = l.object
      UNION ALL SELECT 'pg_trigger'::regclass, t.oid, true FROM pg_trigger t
        WHERE l.class = 'pg_class'::regclass AND t.tgrelid = l.object AND NOT t.tgisinternal AND t.tgtype & 1 = 1
      UNION ALL SELECT 'pg_attrdef'::regclass, d.oid, true FROM pg_attrdef d JOIN pg_attribute a
          ON a.attrelid = d.adrelid AND a.attnum = d.adnum
        WHERE l.class = 'pg_class'::regclass AND d.adrelid = l.object AND a.attgenerated <> ''
      UNION ALL SELECT 'pg_class'::regclass, c.oid, true FROM pg_class c
        WHERE l.class = 'pg_type'::regclass AND c.reltype = l.object AND c.relkind = 'c'
      -- what it depends on
      UNION ALL SELECT d.refclassid, d.refobjid, false FROM pg_depend d
        WHERE d.classid = l.class AND d.objid = l.object AND d.refobjid >= 16384 AND d.deptype IN ('n', 'i', 'e')
          AND d.refclassid IN ('pg_type'::regclass, 'pg_proc'::regclass, 'pg_collation'::regclass,
            'pg_ts_config'::regclass, 'pg_operator'::regclass, 'pg_opclass'::regclass, 'pg_extension'::regclass)) n
    -- members of an extension come with it
    WHERE l.level < 30 AND (n.class = 'pg_extension'::regclass OR NOT EXISTS (SELECT FROM pg_depend e
        WHERE e.classid = l.class AND e.objid = l.object AND e.deptype = 'e')))
  SELECT coalesce(jsonb_agg(jsonb_build_object('schema', s.schema, 'test', s.test, 'statement', s.statement)
      ORDER BY o.level DESC, s.statement), '[]')
    FROM (SELECT n.class, n.object, max(n.level) AS level FROM needed n WHERE NOT n.part
        AND (n.class = 'pg_extension'::regclass OR NOT EXISTS (SELECT FROM pg_depend e WHERE e.classid = n.class
          AND e.objid = n.object AND e.deptype = 'e')) GROUP BY n.class, n.object) o
      LEFT JOIN LATERAL (SELECT typowner AS owner FROM pg_type WHERE o.class = 'pg_type'::regclass AND oid = o.object
        UNION ALL SELECT proowner FROM pg_proc WHERE o.class = 'pg_proc'::regclass AND oid = o.object
        UNION ALL SELECT collowner FROM pg_collation WHERE o.class = 'pg_collation'::regclass AND oid = o.object
        UNION ALL SELECT cfgowner FROM pg_ts_config WHERE o.class = 'pg_ts_config'::regclass AND oid = o.object) w
        ON true
      CROSS JOIN LATERAL rdma_internal.object_statement(o.class, o.object) s
    WHERE s.statement IS NOT NULL AND (o.class = 'pg_extension'::regclass OR w.owner = current_user::regrole
      OR (SELECT rolsuper FROM pg_roles WHERE oid = w.owner))
$function$;
COMMENT ON FUNCTION rdma_internal.needed_objects(oid[]) IS
    'types, functions, collations, text search configurations and extensions that these tables need elsewhere, in the '
    'order in which they are created';

-- Only a node knows the triggers of its tables; their functions are known here.
CREATE FUNCTION rdma_internal.trigger_functions(names text[])
RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $function$
  SELECT coalesce(jsonb_agg(jsonb_build_object('schema', s.schema, 'test', s.test, 'statement', s.statement)), '[]')
    FROM unnest(names) f JOIN pg_proc p ON p.oid = to_regprocedure(f)
      CROSS JOIN LATERAL rdma_internal.object_statement('pg_proc', p.oid) s
    WHERE p.oid >= 16384 AND p.prorettype = 'trigger'::regtype AND s.statement IS NOT NULL
      AND (p.proowner = current_user::regrole OR (SELECT rolsuper FROM pg_roles WHERE oid = p.proowner))
$function$;
COMMENT ON FUNCTION rdma_internal.trigger_functions(text[]) IS
    'how the trigger functions of these names, which a node has told, are created elsewhere';

CREATE FUNCTION rdma_internal.send_objects(server name, objects jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  part record;
  missing record;
BEGIN
  IF objects = '[]' THEN
    RETURN;
  END IF;
  FOR missing IN
    SELECT r.node, r.answer::integer[] AS places FROM rdma.run_on(server, (SELECT format('SELECT '
        'pg_catalog.array_agg(place ORDER BY place) FROM (VALUES %s) o(place, there) WHERE NOT there', string_agg(format(
        '(%s, EXISTS (%s))', o.place, o.object->>'test'), ', ' ORDER BY o.place))
      FROM jsonb_array_elements(objects) WITH ORDINALITY o(object, place))) r WHERE r.answer IS NOT NULL ORDER BY r.node
  LOOP
    FOR part IN SELECT o.object->>'schema' AS schema, o.object->>'statement' AS statement
        FROM jsonb_array_elements(objects) WITH ORDINALITY o(object, place) WHERE o.place = ANY (missing.places)
        ORDER BY o.place LOOP
      PERFORM rdma.run_on(missing.node, format('CREATE SCHEMA %I', part.schema))
        FROM rdma.run_on(missing.node, format('SELECT pg_catalog.to_regnamespace(%L) IS NULL',
          quote_ident(part.schema))) n WHERE n.answer = 't';
      PERFORM rdma.run_on(missing.node, part.statement);
    END LOOP;
  END LOOP;
END $function$;
COMMENT ON FUNCTION rdma_internal.send_objects(name, jsonb) IS
    'creates on the nodes of a server the objects that rdma_internal.needed_objects tells of, where they are missing';

CREATE FUNCTION rdma_internal.add_value(type regtype, label text, neighbour text, after boolean)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  name text := (SELECT format('%I.%I', n.nspname, t.typname) FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
    WHERE t.oid = type);
  server name;
BEGIN
  FOR server IN
    WITH RECURSIVE users(type) AS (SELECT type::oid UNION SELECT CASE WHEN d.classid = 'pg_type'::regclass THEN d.objid
        ELSE (SELECT reltype FROM pg_class WHERE oid = d.objid AND relkind = 'c') END FROM users u JOIN pg_depend d
          ON d.refclassid = 'pg_type'::regclass AND d.refobjid = u.type
        WHERE d.classid IN ('pg_type'::regclass, 'pg_class'::regclass))
    SELECT DISTINCT s.srvname FROM users u JOIN pg_attribute a ON a.atttypid = u.type AND NOT a.attisdropped
        JOIN pg_foreign_table f ON f.ftrelid = a.attrelid JOIN pg_foreign_server s ON s.oid = f.ftserver
      WHERE EXISTS (SELECT FROM pg_options_to_table(f.ftoptions) WHERE option_name = 'propagate_ddl'
        AND option_value::boolean) ORDER BY s.srvname
  LOOP
    PERFORM rdma.run_on(server, format('ALTER TYPE %s ADD VALUE IF NOT EXISTS %L%s', name, label, CASE
        WHEN neighbour <> '' THEN format(' %s %L', CASE WHEN after THEN 'AFTER' ELSE 'BEFORE' END, neighbour) END));
  END LOOP;
END $function$;
COMMENT ON FUNCTION rdma_internal.add_value(regtype, text, text, boolean) IS
    'adds a value to an enumeration on the nodes of tables that have columns of it';

CREATE FUNCTION rdma_internal.tables_with(class oid, object oid)
RETURNS SETOF oid
LANGUAGE sql STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $function$
  WITH RECURSIVE users(class, object) AS (
    SELECT tables_with.class, tables_with.object
    UNION SELECT CASE WHEN c.contypid <> 0 OR r.relkind = 'c' THEN 'pg_type'::regclass::oid
          WHEN c.conrelid <> 0 OR a.oid IS NOT NULL THEN 'pg_class'::regclass::oid ELSE d.classid END,
        coalesce(nullif(c.contypid, 0), nullif(c.conrelid, 0), a.adrelid, CASE WHEN r.relkind = 'c' THEN r.reltype END,
          d.objid)
      FROM users u JOIN pg_depend d ON d.refclassid = u.class AND d.refobjid = u.object
        LEFT JOIN pg_constraint c ON d.classid = 'pg_constraint'::regclass AND c.oid = d.objid
        LEFT JOIN pg_attrdef a ON d.classid = 'pg_attrdef'::regclass AND a.oid = d.objid
          AND EXISTS (SELECT FROM pg_attribute WHERE attrelid = a.adrelid AND attnum = a.adnum AND attgenerated <> '')
        LEFT JOIN pg_class r ON d.classid = 'pg_class'::regclass AND r.oid = d.objid
      WHERE (u.class <> 'pg_class'::regclass) AND (d.classid IN ('pg_type'::regclass, 'pg_class'::regclass,
          'pg_proc'::regclass, 'pg_constraint'::regclass) OR a.oid IS NOT NULL))
  SELECT f.ftrelid FROM users u JOIN pg_foreign_table f ON u.class = 'pg_class'::regclass AND f.ftrelid = u.object
    WHERE EXISTS (SELECT FROM pg_options_to_table(f.ftoptions) WHERE option_name = 'propagate_ddl'
      AND option_value::boolean)
$function$;
COMMENT ON FUNCTION rdma_internal.tables_with(oid, oid) IS
    'the tables with option propagate_ddl that need a function or type';

CREATE FUNCTION rdma_internal.servers_with(class oid, object oid)
RETURNS text
LANGUAGE sql STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $function$
  SELECT string_agg(DISTINCT quote_literal(s.srvname), ', ') FROM rdma_internal.tables_with(class, object) t
    JOIN pg_foreign_table f ON f.ftrelid = t JOIN pg_foreign_server s ON s.oid = f.ftserver
$function$;
COMMENT ON FUNCTION rdma_internal.servers_with(oid, oid) IS
    'the servers whose tables with option propagate_ddl need a function or type; NULL: there is none';

-- Functions that change here go to the nodes again. Whose triggers use one, only the nodes know.
CREATE FUNCTION rdma_internal.function_users(object oid, owner oid, of_triggers boolean)
RETURNS text[]
LANGUAGE sql STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $function$
  SELECT coalesce(array_agg(u.owner || ' ' || u.server ORDER BY u.server, u.owner <> owner::text, u.owner), '{}')
    FROM (SELECT DISTINCT c.relowner::text AS owner, s.srvname AS server
      FROM pg_foreign_table f JOIN pg_class c ON c.oid = f.ftrelid JOIN pg_foreign_server s ON s.oid = f.ftserver
      WHERE f.ftrelid IN (SELECT rdma_internal.tables_with('pg_proc'::regclass, object))
        OR of_triggers AND (c.relowner = owner OR (SELECT rolsuper FROM pg_roles WHERE oid = owner))
          AND EXISTS (SELECT FROM pg_options_to_table(f.ftoptions) WHERE option_name = 'propagate_ddl'
            AND option_value::boolean)) u
$function$;
COMMENT ON FUNCTION rdma_internal.function_users(oid, oid, boolean) IS
    'owners and servers of the tables with option propagate_ddl that need a function of this owner, or may have triggers '
    'on the nodes that do';

CREATE FUNCTION rdma_internal.change_function(server name, object oid, old text)
RETURNS text
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  used boolean := EXISTS (SELECT FROM rdma_internal.tables_with('pg_proc'::regclass, object) t
      JOIN pg_foreign_table f ON f.ftrelid = t JOIN pg_foreign_server s ON s.oid = f.ftserver JOIN pg_class c ON c.oid = t
    WHERE s.srvname = server AND c.relowner = current_user::regrole);
  nodes name[];
  owned boolean;
  func record;
  statement text;
BEGIN
  -- where it is there, and triggers or tables use it; whether it is the mapped role's
  SELECT array_agg(r.node ORDER BY r.node), bool_and(r.answer = 't') INTO nodes, owned
    FROM rdma.run_on(server, format('SELECT pg_catalog.pg_has_role(p.proowner, ''USAGE'') FROM pg_catalog.pg_proc p '
      'WHERE p.oid = pg_catalog.to_regprocedure(%L) AND (%L OR EXISTS (SELECT FROM pg_catalog.pg_trigger '
      'WHERE tgfoid = p.oid AND NOT tgisinternal))', old, used)) r WHERE r.answer IS NOT NULL;
  SELECT n.nspname, p.proname, (p.proowner = current_user::regrole OR r.rolsuper) AND NOT EXISTS (SELECT FROM pg_depend
      WHERE classid = 'pg_proc'::regclass AND objid = object AND deptype = 'e') AS goes INTO func
    FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_roles r ON r.oid = p.proowner
    WHERE p.oid = object;
  IF NOT FOUND AND nodes <> '{}' THEN
    RAISE EXCEPTION 'cannot drop function % because triggers on the nodes use it', old
      USING ERRCODE = 'dependent_objects_still_exist', DETAIL = format('They are triggers of tables of server "%s".',
        server), HINT = 'DROP TRIGGER them first, or SET rdma_fdw.propagate_ddl = off to keep the function there.';
  END IF;
  SELECT 'CREATE OR REPLACE ' || substr(s.statement, length('CREATE ') + 1) INTO statement
    FROM rdma_internal.object_statement('pg_proc', object) s;
  IF (owned AND func.goes AND statement IS NOT NULL) IS NOT TRUE THEN
    RETURN CASE WHEN used OR nodes <> '{}' THEN 'left' END;
  ELSIF func.nspname <> (parse_ident(old, false))[1] THEN
    PERFORM rdma.run_on(n.node, format('CREATE SCHEMA %I', func.nspname)) FROM rdma.run_on(server,
      format('SELECT pg_catalog.to_regnamespace(%L) IS NULL', quote_ident(func.nspname))) n
      WHERE n.answer = 't' AND n.node = ANY (nodes);
    statement := format('ALTER FUNCTION %s SET SCHEMA %I', old, func.nspname);
  ELSIF func.proname <> (parse_ident(old, false))[2] THEN
    statement := format('ALTER FUNCTION %s RENAME TO %I', old, func.proname);
  END IF;
  PERFORM rdma.run_on(n, statement) FROM unnest(nodes) n;
  RETURN 'changed';
END $function$;
COMMENT ON FUNCTION rdma_internal.change_function(name, oid, text) IS
    'changes a function on the nodes of a server where triggers or tables of the caller use it under its old name, as it '
    'was changed here; "left": they use what they have; NULL: they do not use it';
