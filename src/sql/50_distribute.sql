/* src/sql/50_distribute.sql: Local tables become distributed ones, and change how they are distributed. */

-- Tables that take each other's place
CREATE FUNCTION rdma_internal.aside(tab regclass)
RETURNS name
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $function$
  SELECT format('rdma_moving_%s', tab::oid)::name
$function$;
COMMENT ON FUNCTION rdma_internal.aside(regclass) IS
    'the name that a table or sequence has while another one takes its place';

CREATE FUNCTION rdma_internal.dependents(tabs oid[])
RETURNS text
LANGUAGE sql STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $function$
  SELECT string_agg(DISTINCT CASE WHEN r.rulename = '_RETURN' THEN pg_describe_object('pg_class'::regclass, r.ev_class,
      0)
        ELSE pg_describe_object(d.classid, d.objid, d.objsubid) END, ', ')
    FROM pg_depend d LEFT JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid LEFT
        JOIN pg_policy p ON d.classid = 'pg_policy'::regclass AND p.oid = d.objid
    WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = ANY (tabs) AND (r.oid IS NOT NULL
        OR d.classid = 'pg_proc'::regclass OR p.polrelid <> ALL (tabs))
      OR d.refclassid = 'pg_type'::regclass AND d.deptype = 'n'
          AND d.refobjid IN (SELECT unnest(ARRAY[t.oid, t.typarray]) FROM pg_type t WHERE t.typrelid = ANY (tabs))
$function$;
COMMENT ON FUNCTION rdma_internal.dependents(oid[]) IS
    'what would be lost with these tables, or keeps them from being dropped';

-- A view keeps its identity, privileges and all that depends on it while it shows nothing.
CREATE FUNCTION rdma_internal.empty_views(tab regclass)
RETURNS text[]
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  part record;
  statements text[] := '{}';
BEGIN
  FOR part IN
    SELECT format('%I.%I', n.nspname, c.relname) AS name, pg_get_viewdef(c.oid) AS query,
        (SELECT ' WITH (' || string_agg(format('%I = %L', option_name, option_value), ', ') || ')'
          FROM pg_options_to_table(c.reloptions)) AS options,
        (SELECT string_agg(format('CAST(NULL AS %s)%s AS %I', format_type(a.atttypid, a.atttypmod),
            (SELECT format(' COLLATE %I.%I', cn.nspname, co.collname) FROM pg_collation co JOIN pg_namespace cn
              ON cn.oid = co.collnamespace WHERE co.oid = a.attcollation), a.attname), ', ' ORDER BY a.attnum)
          FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS columns
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE c.relkind = 'v' AND c.relowner = current_user::regrole AND EXISTS (SELECT FROM pg_depend d JOIN pg_rewrite r
        ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid WHERE r.ev_class = c.oid AND r.rulename = '_RETURN'
          AND d.refclassid = 'pg_class'::regclass AND d.refobjid = tab)
      ORDER BY n.nspname, c.relname
  LOOP
    statements := statements || format('CREATE OR REPLACE VIEW %s%s AS %s', part.name, part.options, part.query);
    EXECUTE format('CREATE OR REPLACE VIEW %s AS SELECT %s', part.name, part.columns);
  END LOOP;
  RETURN statements;
END $function$;
COMMENT ON FUNCTION rdma_internal.empty_views(regclass) IS
    'replaces the caller''s views of a table by views without it, and returns the statements that make them what they '
    'were';

CREATE FUNCTION rdma_internal.move_identity(source regclass, target regclass)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp SET rdma_fdw.propagate_ddl = off
AS $function$
DECLARE
  part record;
  state record;
  grants record;
BEGIN
  FOR part IN
    SELECT a.attname, a.attidentity, n.nspname, c.relname, c.relacl, c.relowner, q.*, obj_description(c.oid,
        'pg_class') AS comment
      FROM pg_attribute a JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = a.attrelid
          AND d.refobjsubid = a.attnum
          AND d.classid = 'pg_class'::regclass AND d.deptype = 'i'
        JOIN pg_sequence q ON q.seqrelid = d.objid JOIN pg_class c ON c.oid = d.objid
            JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE a.attrelid = source AND a.attidentity <> '' AND NOT a.attisdropped ORDER BY a.attnum
  LOOP
    EXECUTE format('SELECT last_value, is_called FROM %I.%I', part.nspname, part.relname) INTO state;
    EXECUTE format('ALTER SEQUENCE %I.%I RENAME TO %I', part.nspname, part.relname,
        rdma_internal.aside(format('%I.%I', part.nspname, part.relname)::regclass));
    EXECUTE format('ALTER TABLE %s ALTER COLUMN %I ADD GENERATED %s AS IDENTITY (SEQUENCE NAME %I.%I INCREMENT BY %s '
        'MINVALUE %s MAXVALUE %s START WITH %s CACHE %s %s)',
      target, part.attname, CASE part.attidentity WHEN 'a' THEN 'ALWAYS' ELSE 'BY DEFAULT' END, part.nspname,
          part.relname,
      part.seqincrement, part.seqmin, part.seqmax, part.seqstart, part.seqcache, CASE WHEN part.seqcycle THEN 'CYCLE'
          ELSE 'NO CYCLE' END);
    PERFORM setval(format('%I.%I', part.nspname, part.relname)::regclass, state.last_value, state.is_called);
    FOR grants IN
      SELECT CASE WHEN grantee = 0 THEN 'PUBLIC' ELSE grantee::regrole::text END AS role, privilege_type, is_grantable
          FROM aclexplode(part.relacl) WHERE grantee <> part.relowner
    LOOP
      EXECUTE format('GRANT %s ON SEQUENCE %I.%I TO %s%s', grants.privilege_type, part.nspname, part.relname,
          grants.role, CASE WHEN grants.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END);
    END LOOP;
    IF part.comment IS NOT NULL THEN
      EXECUTE format('COMMENT ON SEQUENCE %I.%I IS %L', part.nspname, part.relname, part.comment);
    END IF;
  END LOOP;
END $function$;
COMMENT ON FUNCTION rdma_internal.move_identity(regclass, regclass) IS
    'gives a table the identity columns of the one that it takes the place of, with their sequences';

CREATE FUNCTION rdma.distribute_table(tab regclass, server name, distributed_by text DEFAULT NULL,
    replicated boolean DEFAULT false, force boolean DEFAULT false)
RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp SET rdma_fdw.snapshot = each_node
SET datestyle = ISO SET intervalstyle = postgres SET extra_float_digits = 1 SET bytea_output = hex SET lc_monetary = 'C'
    SET xmloption = content
AS $function$
DECLARE
  old record;
  part record;
  message text;
  detail text;
  remedy text;
  keys text[] := '{}';
  schema name;
  local_columns text;
  names text;
  options text := '';
  indexes text[];
  triggers text[];
  statistics text[];
  foreign_keys jsonb[];
  noted_keys jsonb[];
  already_noted jsonb[];
  views text[];
  statement text;
  lent boolean;
  moving name;
  moved bigint;
BEGIN
  IF distributed_by IS NOT NULL AND replicated THEN
    RAISE EXCEPTION 'a table is either distributed or replicated' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  IF EXISTS (SELECT FROM pg_class WHERE oid = tab AND relkind IN ('r', 'p')) THEN
    EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', tab);
  END IF;
  SELECT c.oid, c.relname, n.nspname, c.relkind, c.relispartition, c.relhassubclass, c.relrowsecurity, c.relacl,
      c.relpersistence, c.relowner::regrole AS owner,
      obj_description(c.oid, 'pg_class') AS comment,
      ARRAY(SELECT m.oid FROM rdma_internal.table_members(tab) m) AS members
    INTO old FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = tab;
  IF old.relkind NOT IN ('r', 'p') OR old.relispartition OR old.relkind = 'r' AND old.relhassubclass
      OR old.relpersistence = 't' THEN
    RAISE EXCEPTION '"%" is neither an ordinary nor a partitioned table', old.relname
        USING ERRCODE = 'wrong_object_type',
      DETAIL = 'Temporary tables, partitions, parents and foreign tables cannot be distributed.';
  END IF;
  -- row triggers go to the nodes, unless each would compute for its own copy of a row
  SELECT (SELECT string_agg(DISTINCT quote_ident(t.name), ', ') FROM rdma_internal.triggers(tab) t WHERE NOT t.kept
      OR (replicated OR NOT t.by_row) AND (t.relation <> tab OR t.statements[1] LIKE 'CREATE CONSTRAINT%')) AS triggers,
      string_agg(c.oid::regclass::text, ', ') FILTER (WHERE c.relkind = 'f') AS foreign_partitions,
          bool_or(c.relrowsecurity) AS secured
    INTO part FROM pg_class c WHERE c.oid = ANY (old.members);
  IF part.triggers IS NOT NULL OR part.foreign_partitions IS NOT NULL THEN
    RAISE EXCEPTION 'table "%" cannot be distributed', old.relname USING ERRCODE = 'feature_not_supported',
      DETAIL = concat_ws(' ', 'Triggers that have transition tables or a second table, and statement triggers and triggers '
          'of replicated tables that belong to a partition or a constraint, cannot be kept: ' || part.triggers || '.',
          'Partitions are foreign tables: '
          || part.foreign_partitions || '.'),
      HINT = CASE WHEN part.triggers IS NULL THEN 'Detach them first.' ELSE 'Drop them first, and create their like on '
          'the foreign table or on the nodes.' END;
  END IF;
  IF part.secured THEN
    RAISE EXCEPTION 'table "%" cannot be distributed', old.relname USING ERRCODE = 'feature_not_supported',
      DETAIL = 'It has row security. A foreign table has none, and the nodes see the role of the user mapping, not who '
          'asks here.',
      HINT = 'Let views with security_barrier show the rows that a role may see. Or drop the policies, disable row '
          'security, and create policies on the nodes, if each role has a user mapping of its own there.';
  END IF;
  SELECT string_agg(quote_ident(p.pubname), ', ' ORDER BY p.pubname) AS names INTO part FROM pg_publication p
    WHERE EXISTS (SELECT FROM pg_class c WHERE c.oid = ANY (old.members) AND c.relpersistence = 'p' AND (p.puballtables
      OR EXISTS (SELECT FROM pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid = c.oid)
      OR EXISTS (SELECT FROM pg_publication_namespace n WHERE n.pnpubid = p.oid AND n.pnnspid = c.relnamespace)));
  IF part.names IS NOT NULL THEN
    message := format('subscribers get no more rows of table "%s"%s', old.relname, CASE WHEN NOT force
        THEN ' once it is distributed' END);
    detail := format('It is in publications: %s. A foreign table cannot be.', part.names);
    remedy := 'Take it out of them with ALTER PUBLICATION; one FOR ALL TABLES has all ordinary tables.';
    PERFORM rdma_internal.report_loss(force, message, detail, remedy);
  END IF;
  PERFORM rdma.enroll_nodes(server);
  -- Its expressions run here and on the nodes while rows move, with the caller's rights.
  lent := old.owner <> current_user::regrole;
  IF lent THEN
    SELECT p.problem, s.statement INTO part FROM unnest(rdma_internal.table_statements(tab) ||
        rdma_internal.index_statements(tab)
            || ARRAY(SELECT unnest(t.statements) FROM rdma_internal.triggers(tab) t)) WITH ORDINALITY s(statement, place),
      LATERAL rdma_internal.define(format('%I.%I', old.nspname, old.relname), s.statement, false) p(problem)
          WHERE p.problem IS NOT NULL ORDER BY s.place LIMIT 1;
    IF FOUND THEN
      RAISE EXCEPTION 'table "%" would have code of other roles run with your rights', old.relname
          USING ERRCODE = 'insufficient_privilege',
        DETAIL = format('In "%s": %s.', part.statement, part.problem),
            HINT = format('Let the owner of the table distribute it: SET ROLE %s.', old.owner);
    END IF;
  END IF;
  -- Keys between this table and local ones wait until these are distributed, too.
  FOR part IN SELECT f.* FROM rdma_internal.foreign_keys(old.members::regclass[]) f
      WHERE f.referencing <> ALL (old.members) AND f.referenced = tab LOOP
    EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', part.referencing, part.key->>'name');
    PERFORM rdma_internal.note_key(part.referencing, part.key);
  END LOOP;
  SELECT string_agg(format('"%s" of %s', f.key->>'name', f.referencing), ', ' ORDER BY f.referencing::text,
      f.key->>'name') AS names,
      array_agg(format('ALTER TABLE %s DROP CONSTRAINT %I', f.referencing, f.key->>'name')) AS statements INTO part
    FROM rdma_internal.foreign_keys(old.members::regclass[]) f WHERE f.referencing <> ALL (old.members);
  IF part.names IS NOT NULL THEN
    message := format(CASE WHEN force THEN 'foreign keys that refer to partitions of table "%s" are dropped'
        ELSE 'table "%s" cannot be distributed' END, old.relname);
    detail := format('Foreign keys of other tables refer to partitions of it: %s.', part.names);
    PERFORM rdma_internal.report_loss(force, message, detail, 'Let them refer to the table itself.');
    FOREACH statement IN ARRAY part.statements LOOP
      EXECUTE statement;
    END LOOP;
  END IF;
  foreign_keys := ARRAY(SELECT f.key FROM rdma_internal.foreign_keys(old.members::regclass[]) f
      WHERE f.referencing <> tab OR f.referenced = ANY (old.members)
        OR (rdma_internal.table_named(server, f.key->'other_table')).tab IS NOT NULL);
  noted_keys := ARRAY(SELECT f.key FROM rdma_internal.foreign_keys(ARRAY[tab]) f
      WHERE f.referencing = tab AND f.key <> ALL (foreign_keys));
  already_noted := ARRAY(SELECT k.key FROM rdma_internal.noted_keys() k WHERE k.tab = distribute_table.tab);
  views := rdma_internal.empty_views(tab);
  SELECT rdma_internal.dependents(old.members) AS names INTO part;
  IF part.names IS NOT NULL THEN
    RAISE EXCEPTION 'table "%" cannot be distributed', old.relname USING ERRCODE = 'dependent_objects_still_exist',
      DETAIL = format('It would be dropped, and these depend on it: %s.', part.names),
          HINT = 'Drop them, and create them again afterwards.';
  END IF;
  IF distributed_by IS NOT NULL THEN
    options := format(', distributed_by %L', distributed_by);
  ELSIF replicated THEN
    options := ', replicated ''true''';
  END IF;

  -- Defaults and identity stay here, where sequences are; the nodes compute what is generated.
  SELECT string_agg(format('%I %s%s%s%s', a.attname, format_type(a.atttypid, a.atttypmod),
        ' COLLATE ' || CASE WHEN a.attcollation <> t.typcollation THEN quote_ident(cn.nspname) || '.'
            || quote_ident(co.collname) END,
        CASE WHEN a.attgenerated <> '' THEN ' GENERATED ALWAYS AS (' || pg_get_expr(d.adbin, d.adrelid) || ') STORED'
          ELSE ' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid) END,
        CASE WHEN a.attnotnull THEN ' NOT NULL' END), ', ' ORDER BY a.attnum),
      string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) FILTER (WHERE a.attgenerated = '')
    INTO local_columns, names
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
      LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
      LEFT JOIN pg_collation co ON co.oid = a.attcollation LEFT JOIN pg_namespace cn ON cn.oid = co.collnamespace
    WHERE a.attrelid = tab AND a.attnum > 0 AND NOT a.attisdropped;

  FOR schema IN SELECT DISTINCT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE c.oid = ANY (old.members) ORDER BY n.nspname LOOP
    PERFORM rdma.run_on(n.node, format('CREATE SCHEMA %I', schema))
      FROM rdma.run_on(server, format('SELECT to_regnamespace(%L) IS NULL', quote_ident(schema))) n
          WHERE n.answer = 't';
    SELECT n.node, n.answer AS role INTO part
      FROM rdma.run_on(server, format('SELECT CASE WHEN NOT pg_catalog.has_schema_privilege(%L, ''CREATE'') THEN '
          'current_user END', schema)) n
      WHERE n.answer IS NOT NULL ORDER BY n.node LIMIT 1;
    IF FOUND THEN
      RAISE EXCEPTION 'role "%" cannot create tables in schema "%" on server "%"', part.role, schema, part.node
          USING ERRCODE = 'insufficient_privilege',
        HINT = format('On the node: GRANT CREATE ON SCHEMA %I TO %I.', schema, part.role);
    END IF;
  END LOOP;
  PERFORM rdma_internal.send_objects(server, rdma_internal.needed_objects(old.members));
  -- Defaults and identity stay here, where sequences are; the nodes compute what is generated.
  FOREACH statement IN ARRAY rdma_internal.table_statements(tab) LOOP
    PERFORM rdma_internal.define_on(server, format('%I.%I', old.nspname, old.relname), regexp_replace(statement,
        '^CREATE UNLOGGED ', 'CREATE '), lent);
  END LOOP;
  -- Indexes are built over all rows at once; what is unique is so on each node. Triggers run for later rows.
  indexes := rdma_internal.index_statements(tab) || ARRAY(SELECT unnest(t.statements) FROM rdma_internal.triggers(tab) t
      WHERE t.by_row AND NOT replicated);
  triggers := ARRAY(SELECT unnest(t.statements) FROM rdma_internal.triggers(tab) t WHERE NOT t.by_row OR replicated);
  SELECT coalesce(array_agg(format('CREATE STATISTICS %I.%I', old.nspname, e.stxname)
      || left(substr(d.text, length(format('CREATE STATISTICS %I.%I', n.nspname, e.stxname)) + 1), - length(tab::text))
      ORDER BY e.stxname), '{}')
    INTO statistics FROM pg_statistic_ext e JOIN pg_namespace n ON n.oid = e.stxnamespace,
        LATERAL pg_get_statisticsobjdef(e.oid) d(text) WHERE e.stxrelid = tab;

  -- The foreign table takes the table's place.
  moving := rdma_internal.aside(tab);
  EXECUTE format('ALTER TABLE %s RENAME TO %I', tab, moving);
  EXECUTE format('CREATE FOREIGN TABLE %I.%I (%s) SERVER %I OPTIONS (schema_name %L, table_name %L%s)', old.nspname,
      old.relname,
    local_columns, server, old.nspname, old.relname, options);
  EXECUTE format('ALTER FOREIGN TABLE %I.%I OWNER TO %s', old.nspname, old.relname, old.owner);
  keys := coalesce(rdma.distribution_key(format('%I.%I', old.nspname, old.relname)::regclass), '{}');
  IF NOT replicated AND rdma_internal.named_nodes(server) IS NOT NULL THEN
    FOR message, detail, remedy IN SELECT format('%s "%s" of table "%s" %s on each node, not between nodes', k.kind,
        k.name, CASE WHEN k.tab = old.oid THEN old.relname ELSE (SELECT relname FROM pg_class WHERE oid = k.tab) END,
          CASE WHEN force THEN 'holds' ELSE 'would hold' END), k.because,
              'Drop it, distribute the table by columns of it, or have the table replicated.'
        FROM rdma_internal.unkept_keys(old.members, keys) k LOOP
      PERFORM rdma_internal.report_loss(force, message, detail, remedy);
    END LOOP;
  END IF;
  foreign_keys := rdma_internal.kept_foreign_keys(server, foreign_keys, force);
  FOR part IN SELECT conname, pg_get_constraintdef(oid) AS definition FROM pg_constraint WHERE conrelid = tab
      AND contype = 'c' ORDER BY conname LOOP
    EXECUTE format('ALTER FOREIGN TABLE %I.%I ADD CONSTRAINT %I %s', old.nspname, old.relname, part.conname,
        part.definition);
  END LOOP;
  EXECUTE format('INSERT INTO %I.%I%s SELECT %s FROM %I.%I', old.nspname, old.relname, ' (' || names || ')', names,
      old.nspname, moving);
  GET DIAGNOSTICS moved = ROW_COUNT;
  PERFORM rdma_internal.move_identity(tab, format('%I.%I', old.nspname, old.relname)::regclass);
  IF cardinality(keys) > 0 THEN
    PERFORM rdma.protect_table(format('%I.%I', old.nspname, old.relname)::regclass);
  END IF;

  FOREACH statement IN ARRAY indexes LOOP
    PERFORM rdma_internal.define_on(server, format('%I.%I', old.nspname, old.relname), statement, lent);
  END LOOP;
  PERFORM rdma.run_on(server, rdma_internal.foreign_key_statement(k)) FROM unnest(foreign_keys) k;
  IF already_noted <> '{}' THEN
    PERFORM rdma_internal.set_keys(format('%I.%I', old.nspname, old.relname)::regclass, already_noted);
  END IF;
  PERFORM rdma_internal.note_key(format('%I.%I', old.nspname, old.relname)::regclass, k) FROM unnest(noted_keys) k;
  PERFORM rdma_internal.settle_keys(format('%I.%I', old.nspname, old.relname)::regclass, force);
  PERFORM rdma.run_on(server, format('ANALYZE %I.%I', old.nspname, old.relname));

  FOR part IN
    SELECT d.objid::regclass AS seq, a.attname FROM pg_depend d JOIN pg_attribute a ON a.attrelid = d.refobjid
        AND a.attnum = d.refobjsubid
      WHERE d.refobjid = tab AND d.refclassid = 'pg_class'::regclass AND d.classid = 'pg_class'::regclass
          AND d.deptype = 'a'
        AND (SELECT relkind FROM pg_class WHERE oid = d.objid) = 'S'
  LOOP
    EXECUTE format('ALTER SEQUENCE %s OWNED BY %I.%I.%I', part.seq, old.nspname, old.relname, part.attname);
  END LOOP;
  FOR part IN
    SELECT CASE WHEN grantee = 0 THEN 'PUBLIC' ELSE grantee::regrole::text END AS role, privilege_type, is_grantable
      FROM aclexplode(old.relacl) WHERE grantee <> (SELECT relowner FROM pg_class WHERE oid = tab)
  LOOP
    EXECUTE format('GRANT %s ON %I.%I TO %s%s', part.privilege_type, old.nspname, old.relname, part.role,
      CASE WHEN part.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END);
  END LOOP;
  FOR part IN
    SELECT a.attname, CASE WHEN grantee = 0 THEN 'PUBLIC' ELSE grantee::regrole::text END AS role, privilege_type,
        is_grantable
      FROM pg_attribute a, aclexplode(a.attacl) WHERE a.attrelid = tab AND a.attnum > 0 AND NOT a.attisdropped
  LOOP
    EXECUTE format('GRANT %s (%I) ON %I.%I TO %s%s', part.privilege_type, part.attname, old.nspname, old.relname,
        part.role,
      CASE WHEN part.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END);
  END LOOP;
  PERFORM rdma_internal.send_rights(format('%I.%I', old.nspname, old.relname)::regclass, NULL);
  IF old.comment IS NOT NULL THEN
    EXECUTE format('COMMENT ON FOREIGN TABLE %I.%I IS %L', old.nspname, old.relname, old.comment);
  END IF;
  FOR part IN SELECT attname, col_description(tab, attnum) AS comment FROM pg_attribute WHERE attrelid = tab
      AND attnum > 0 AND NOT attisdropped AND col_description(tab, attnum) IS NOT NULL LOOP
    EXECUTE format('COMMENT ON COLUMN %I.%I.%I IS %L', old.nspname, old.relname, part.attname, part.comment);
  END LOOP;
  EXECUTE format('DROP TABLE %I.%I', old.nspname, moving);
  FOREACH statement IN ARRAY statistics LOOP
    EXECUTE format('%s%I.%I', statement, old.nspname, old.relname);
  END LOOP;
  FOREACH statement IN ARRAY views || triggers LOOP
    EXECUTE statement;
  END LOOP;
  EXECUTE format('ALTER FOREIGN TABLE %I.%I OPTIONS (ADD propagate_ddl ''true'')', old.nspname, old.relname);
  IF NOT lent THEN
    EXECUTE format('ANALYZE %I.%I', old.nspname, old.relname);
  ELSE
    -- it connects as the table's owner, who may have no user mapping, or no rights on the nodes
    BEGIN
      EXECUTE format('ANALYZE %I.%I', old.nspname, old.relname);
    EXCEPTION WHEN OTHERS THEN
      RAISE WARNING 'could not analyze foreign table "%" as its owner: %', old.relname, SQLERRM
        USING HINT = format('Give role %s a user mapping, and rights on the nodes. Then: ANALYZE %I.%I.', old.owner,
            old.nspname, old.relname);
    END;
  END IF;
  RETURN moved;
END $function$;
COMMENT ON FUNCTION rdma.distribute_table(regclass, name, text, boolean, boolean) IS
    'makes a local table one of a server with nodes: creates it on the nodes, moves its rows there, and puts a foreign '
    'table in its place; returns how many rows it moved. force: warns of constraints that it cannot keep, instead of '
    'failing';

-- Foreign keys between tables that become distributed together are there again at the end.
CREATE FUNCTION rdma.distribute_tables(server name, tabs regclass[], distributed_by text[],
    replicated regclass[] DEFAULT '{}', force boolean DEFAULT false, OUT relation regclass, OUT rows bigint)
RETURNS SETOF record
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  part record;
  foreign_keys jsonb[] := '{}';
BEGIN
  tabs := coalesce(tabs, '{}');
  distributed_by := coalesce(distributed_by, '{}');
  replicated := coalesce(replicated, '{}');
  IF cardinality(tabs) <> cardinality(distributed_by) THEN
    RAISE EXCEPTION 'there are % tables and % keys to distribute them by', cardinality(tabs),
        cardinality(distributed_by) USING ERRCODE = 'invalid_parameter_value';
  END IF;
  SELECT t AS tab INTO part FROM unnest(tabs || replicated) t GROUP BY t HAVING count(*) > 1 LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'table % is named twice', part.tab USING ERRCODE = 'invalid_parameter_value';
  END IF;
  FOR part IN SELECT f.* FROM rdma_internal.foreign_keys(tabs || replicated) f WHERE f.referencing = ANY (tabs ||
      replicated)
      AND f.referenced = ANY (tabs || replicated) AND f.referencing <> f.referenced LOOP
    foreign_keys := foreign_keys || part.key;
    EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', part.referencing, part.key->>'name');
  END LOOP;
  FOR part IN
    SELECT t.tab, t.key, t.copied, format('%I.%I', n.nspname, c.relname) AS name
      FROM (SELECT tab, key, false AS copied, place FROM unnest(tabs, distributed_by) WITH ORDINALITY d(tab, key, place)
          UNION ALL SELECT tab, NULL, true, cardinality(tabs) + place FROM unnest(replicated) WITH ORDINALITY r(tab,
              place)) t
        LEFT JOIN pg_class c ON c.oid = t.tab LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
      ORDER BY t.place
  LOOP
    rows := rdma.distribute_table(part.tab, server, part.key, part.copied, force);
    relation := part.name::regclass;
    RETURN NEXT;
  END LOOP;
  foreign_keys := rdma_internal.kept_foreign_keys(server, foreign_keys, force);
  PERFORM rdma.run_on(server, rdma_internal.foreign_key_statement(k)) FROM unnest(foreign_keys) k;
END $function$;
COMMENT ON FUNCTION rdma.distribute_tables(name, regclass[], text[], regclass[], boolean) IS
    'turns local tables into tables of a server with nodes in one step, with the foreign keys between them. force: '
    'warns of constraints that it cannot keep, instead of failing';

-- Values are written as sessions on nodes read them.
CREATE FUNCTION rdma_internal.propagate_table(tab regclass, before jsonb, how jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp SET rdma_fdw.propagate_ddl = off
SET datestyle = ISO SET intervalstyle = postgres SET extra_float_digits = 1 SET bytea_output = hex SET lc_monetary = 'C'
    SET xmloption = content
AS $function$
DECLARE
  after jsonb := rdma_internal.table_definition(tab);
  server name := after->>'server';
  schema text := coalesce(before->'options'->>'schema_name', before->>'schema');
  relation text := coalesce(before->'options'->>'table_name', before->>'name');
  drops text[] := '{}';
  changes text[] := '{}';
  commands text[] := '{}';
  fills text[] := '{}';
  requirements text[] := '{}';
  renamed boolean := EXISTS (SELECT FROM jsonb_to_recordset(before->'columns') o(num integer, name text)
    JOIN jsonb_to_recordset(after->'columns') n(num integer, name text) USING (num) WHERE o.name <> n.name);
  expressions boolean := false;
  key text;
  value text;
  part record;
BEGIN
  IF after = before AND how->'using' IS NULL THEN
    RETURN;
  END IF;
  FOR part IN
    SELECT o.name AS old_name, o.named AS old_named, o.remote AS old_remote, o.type AS old_type, o.sorted AS old_sorted,
        o.required AS old_required,
        o.filled AS old_filled, o.generated AS old_generated, o.key, n.*, o.num IS NULL AS added,
            n.num IS NULL AS dropped, how->'using'->>o.name AS conversion,
        n.type || CASE WHEN NOT n.same THEN ' COLLATE ' || n.sorted ELSE '' END AS definition
      FROM jsonb_to_recordset(before->'columns') o(num integer, name text, remote text, named boolean, key integer,
          type text, sorted text, filled text, generated text, required boolean)
        FULL JOIN jsonb_to_recordset(after->'columns') n(num integer, name text, remote text, named boolean, type text,
            sorted text, same boolean, filled text, generated text, required boolean) USING (num)
      ORDER BY coalesce(o.generated, n.generated) = '', coalesce(o.num, n.num)
  LOOP
    IF part.key IS NOT NULL AND (part.dropped OR part.type <> part.old_type OR part.sorted <> part.old_sorted
        OR part.conversion IS NOT NULL) THEN
      RAISE EXCEPTION 'column "%" of foreign table "%" can neither be dropped nor get another type', part.old_name, tab
          USING ERRCODE = 'feature_not_supported',
        DETAIL = 'The table is distributed by it: it says where the rows are.',
            HINT = format('SELECT rdma.undistribute_table(%L), change it, and distribute it again.', tab);
    END IF;
    IF part.dropped THEN
      drops := drops || format('DROP COLUMN IF EXISTS %I%s', part.old_remote, CASE WHEN how->'cascade' = 'true'
          OR how->'cascade' ? part.old_name THEN ' CASCADE' END);
    ELSIF part.added AND part.generated <> '' THEN
      changes := changes || format('ADD COLUMN %I %s GENERATED ALWAYS AS (%s) %s%s', part.remote, part.definition,
          part.filled,
        CASE part.generated WHEN 'v' THEN 'VIRTUAL' ELSE 'STORED' END, CASE WHEN part.required THEN ' NOT NULL'
            ELSE '' END);
      expressions := true;
    ELSIF part.added AND how->'fill' ? part.name THEN
      changes := changes || format('ADD COLUMN %I %s', part.remote, part.definition);
      fills := fills || format('%I = DEFAULT', part.name);
      IF part.required THEN
        requirements := requirements || format('ALTER COLUMN %I SET NOT NULL', part.remote);
      END IF;
    ELSIF part.added THEN
      -- rows that are there get what the default is now; defaults are computed here
      value := NULL;
      IF part.filled IS NOT NULL THEN
        EXECUTE format('SELECT quote_literal((%s)::%s)', part.filled, part.type) INTO value;
      END IF;
      changes := changes || format('ADD COLUMN %I %s%s%s', part.remote, part.definition, ' DEFAULT ' || value || '::'
          || part.type, CASE WHEN part.required THEN ' NOT NULL' ELSE '' END);
      IF value IS NOT NULL THEN
        commands := commands || format('ALTER COLUMN %I DROP DEFAULT', part.remote);
      END IF;
    ELSE
      IF part.type <> part.old_type OR part.sorted <> part.old_sorted OR part.conversion IS NOT NULL THEN
        changes := changes || format('ALTER COLUMN %I TYPE %s%s', part.old_remote, part.definition, ' USING '
            || part.conversion);
        expressions := expressions OR part.conversion IS NOT NULL;
      END IF;
      IF part.required <> part.old_required THEN
        changes := changes || format('ALTER COLUMN %I %s NOT NULL', part.old_remote, CASE WHEN part.required THEN 'SET'
            ELSE 'DROP' END);
      END IF;
      IF part.old_generated <> '' AND part.generated = '' THEN
        changes := changes || format('ALTER COLUMN %I DROP EXPRESSION', part.old_remote);
      ELSIF part.generated <> '' AND part.filled <> part.old_filled AND part.type = part.old_type AND NOT renamed THEN
        changes := changes || format('ALTER COLUMN %I SET EXPRESSION AS (%s)', part.old_remote, part.filled);
        expressions := true;
      END IF;
      IF part.name <> part.old_name AND NOT part.old_named THEN
        commands := commands || format('RENAME COLUMN %I TO %I', part.old_remote, part.remote);
      END IF;
    END IF;
  END LOOP;

  FOR part IN
    -- ALTER TYPE makes them anew
    WITH news AS (SELECT * FROM jsonb_to_recordset(after->'checks') n(oid bigint, name text, definition text,
        valid boolean))
    SELECT o.name AS old_name, o.valid AS old_valid, n.*
      FROM (SELECT o.*, (SELECT min(n.oid) FROM news n WHERE n.oid = o.oid OR n.name = o.name
          AND n.definition = o.definition) AS now
          FROM jsonb_to_recordset(before->'checks') o(oid bigint, name text, definition text, valid boolean)) o
        FULL JOIN news n ON n.oid = o.now
      ORDER BY coalesce(o.oid, n.oid)
  LOOP
    IF part.name IS NULL THEN
      drops := drops || format('DROP CONSTRAINT IF EXISTS %I', part.old_name);
    ELSIF part.old_name IS NULL THEN
      changes := changes || format('ADD CONSTRAINT %I %s', part.name, part.definition);
      expressions := true;
    ELSIF part.name <> part.old_name THEN
      commands := commands || format('RENAME CONSTRAINT %I TO %I', part.old_name, part.name);
    ELSIF part.valid AND NOT part.old_valid THEN
      changes := changes || format('VALIDATE CONSTRAINT %I', part.name);
    END IF;
  END LOOP;
  IF expressions AND EXISTS (SELECT FROM jsonb_to_recordset(after->'columns') c(name text, remote text)
      WHERE c.name <> c.remote) THEN
    RAISE EXCEPTION 'an expression for foreign table "%" cannot be written for the tables of the nodes', tab
        USING ERRCODE = 'feature_not_supported',
      DETAIL = 'Columns have other names there.',
      HINT = format('Write it with these names: SELECT rdma.run_on(%L, ''ALTER TABLE %I.%I ...''); and SET '
          'rdma_fdw.propagate_ddl = off for the command here.', server, schema, relation);
  END IF;

  IF changes <> '{}' THEN
    PERFORM rdma_internal.send_objects(server, rdma_internal.needed_objects(ARRAY[tab::oid]));
  END IF;
  IF drops || changes <> '{}' THEN
    commands := array_to_string(drops || changes, ', ') || commands;
  END IF;
  IF before->>'name' <> after->>'name' AND relation = before->>'name' THEN
    commands := commands || format('RENAME TO %I', after->>'name');
    IF after->'options' ? 'table_name' THEN
      EXECUTE format('ALTER FOREIGN TABLE %s OPTIONS (SET table_name %L)', tab, after->>'name');
    END IF;
  END IF;
  FOREACH value IN ARRAY commands LOOP
    PERFORM rdma.run_on(server, format('ALTER TABLE %I.%I %s', schema, relation, value));
  END LOOP;
  IF before->>'schema' <> after->>'schema' AND schema = before->>'schema' THEN
    PERFORM rdma.run_on(n.node, format('CREATE SCHEMA %I', after->>'schema'))
      FROM rdma.run_on(server, format('SELECT to_regnamespace(%L) IS NULL', quote_ident(after->>'schema'))) n
          WHERE n.answer = 't';
    PERFORM rdma.run_on(server, format('ALTER TABLE %I.%I SET SCHEMA %I', schema, relation, after->>'schema'));
    IF after->'options' ? 'schema_name' THEN
      EXECUTE format('ALTER FOREIGN TABLE %s OPTIONS (SET schema_name %L)', tab, after->>'schema');
    END IF;
  END IF;
  IF fills <> '{}' THEN
    IF EXISTS (SELECT FROM rdma.run_on(server, format('SELECT EXISTS (SELECT FROM pg_catalog.pg_trigger WHERE tgrelid = '
        '%L::regclass AND NOT tgisinternal AND tgenabled <> ''D'')', format('%I.%I', after->'options'->>'schema_name',
        after->'options'->>'table_name'))) r WHERE r.answer = 't') THEN
      RAISE EXCEPTION 'columns with another value for each row cannot be added to foreign table "%"', tab
          USING ERRCODE = 'feature_not_supported', DETAIL = 'Triggers on the nodes would see how rows get them.',
          HINT = 'DISABLE TRIGGER USER, and enable them again afterwards.';
    END IF;
    EXECUTE format('UPDATE %s SET %s', tab, array_to_string(fills, ', '));
  END IF;
  FOREACH value IN ARRAY requirements LOOP
    PERFORM rdma.run_on(server, format('ALTER TABLE %I.%I %s', schema, relation, value));
  END LOOP;
  SELECT string_agg(quote_ident(n.name), ', ' ORDER BY o.key) INTO key
      FROM jsonb_to_recordset(before->'columns') o(num integer, name text, key integer)
    JOIN jsonb_to_recordset(after->'columns') n(num integer, name text) USING (num) WHERE o.key IS NOT NULL
        HAVING bool_or(n.name <> o.name);
  IF key IS NOT NULL THEN
    EXECUTE format('ALTER FOREIGN TABLE %s OPTIONS (SET distributed_by %L)', tab, key);
  END IF;
END $function$;
COMMENT ON FUNCTION rdma_internal.propagate_table(regclass, jsonb, jsonb) IS
    'changes the tables of the nodes as their foreign table was changed since it had this definition; how: '
    'what of the command its effect does not show';

-- ATTACH and DETACH PARTITION (src/fdw/catalog/ddl_nodes.c)
CREATE FUNCTION rdma_internal.check_partition(tab regclass, partition regclass)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
  IF (SELECT count(DISTINCT (f.ftserver, c.relowner, p.replicated, p.key)) FROM unnest(ARRAY[tab, partition]) t
      JOIN pg_foreign_table f ON f.ftrelid = t JOIN pg_class c ON c.oid = t,
      LATERAL (SELECT * FROM rdma_internal.placement_conditions(t) LIMIT 1) p) <> 1 THEN
    RAISE EXCEPTION 'table "%" cannot become a partition of foreign table "%"', partition, tab
        USING ERRCODE = 'object_not_in_prerequisite_state', DETAIL = 'They have different servers, owners or '
          'distribution keys: rows would not be where they are looked for.',
        HINT = 'SELECT rdma.alter_distribution, or ALTER TABLE ... OWNER TO.';
  END IF;
END $function$;
COMMENT ON FUNCTION rdma_internal.check_partition(regclass, regclass) IS
    'an error unless two tables have the same server, owner and distribution';

CREATE FUNCTION rdma_internal.partition_attached(tab regclass)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp SET rdma_fdw.propagate_ddl = off
AS $function$
BEGIN
  EXECUTE format('DROP FOREIGN TABLE %s', tab);
END $function$;
COMMENT ON FUNCTION rdma_internal.partition_attached(regclass) IS
    'drops the foreign table whose tables on the nodes have become partitions';

CREATE FUNCTION rdma_internal.partition_detached(tab regclass, remote text, name name)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp SET rdma_fdw.propagate_ddl = off
AS $function$
DECLARE
  part record;
  created text;
BEGIN
  SELECT format('%I.%I', n.nspname, partition_detached.name) INTO created FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.oid = tab;
  SELECT string_agg(format('%I %s%s%s%s', a.attname, format_type(a.atttypid, a.atttypmod), ' COLLATE ' || CASE
          WHEN a.attcollation <> t.typcollation THEN quote_ident(cn.nspname) || '.' || quote_ident(co.collname) END,
        CASE WHEN a.attgenerated <> '' THEN ' GENERATED ALWAYS AS (' || pg_get_expr(d.adbin, d.adrelid) || ') STORED'
          ELSE ' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid) END,
        CASE WHEN a.attnotnull THEN ' NOT NULL' END), ', ' ORDER BY a.attnum) AS columns,
      (SELECT string_agg(format('%I %L', option_name, CASE option_name WHEN 'schema_name' THEN (parse_ident(remote))[1]
          WHEN 'table_name' THEN (parse_ident(remote))[2] ELSE option_value END), ', ') FROM pg_foreign_table f,
          pg_options_to_table(f.ftoptions) WHERE f.ftrelid = tab) AS options INTO part
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
      LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
      LEFT JOIN pg_collation co ON co.oid = a.attcollation LEFT JOIN pg_namespace cn ON cn.oid = co.collnamespace
    WHERE a.attrelid = tab AND a.attnum > 0 AND NOT a.attisdropped;
  EXECUTE format('CREATE FOREIGN TABLE %s (%s) SERVER %I OPTIONS (%s)', created, part.columns,
      rdma_internal.server_of(tab), part.options);
  FOR part IN SELECT a.attname, o.* FROM pg_attribute a, pg_options_to_table(a.attfdwoptions) o WHERE a.attrelid = tab
      AND a.attnum > 0 AND NOT a.attisdropped LOOP
    EXECUTE format('ALTER FOREIGN TABLE %s ALTER COLUMN %I OPTIONS (ADD %I %L)', created, part.attname,
        part.option_name, part.option_value);
  END LOOP;
  FOR part IN SELECT conname, pg_get_constraintdef(oid) AS definition FROM pg_constraint WHERE conrelid = tab
      AND contype = 'c' ORDER BY conname LOOP
    EXECUTE format('ALTER FOREIGN TABLE %s ADD CONSTRAINT %I %s', created, part.conname, part.definition);
  END LOOP;
END $function$;
COMMENT ON FUNCTION rdma_internal.partition_detached(regclass, text, name) IS
    'creates the foreign table of a table that was a partition of this one on the nodes';

-- Nodes come and go. A change of the placement is one transaction: rdma_internal.begin_change keeps all
-- others from the tables, rows are moved,
-- rdma_internal.change_placement records where they are now. Either all of it is committed, here and on the
-- nodes, or nothing is.
CREATE FUNCTION rdma.alter_distribution(tab regclass, distributed_by text DEFAULT NULL,
    replicated boolean DEFAULT false, force boolean DEFAULT false)
RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  server name;
  name text;
  moved bigint;
  schema name;
  table_name name;
  foreign_keys jsonb[];
  dropped jsonb[];
BEGIN
  IF (distributed_by IS NULL) <> coalesce(replicated, false) THEN
    RAISE EXCEPTION 'a table is either distributed or replicated' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  SELECT s.srvname, format('%I.%I', n.nspname, c.relname), n.nspname, c.relname INTO server, name, schema, table_name
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_foreign_table f ON f.ftrelid = c.oid JOIN pg_foreign_server s ON s.oid = f.ftserver WHERE c.oid = tab
        AND rdma_internal.named_nodes(s.srvname) IS NOT NULL;
  IF server IS NULL THEN
    RAISE EXCEPTION '"%" is not a foreign table of a server with nodes', tab USING ERRCODE = 'wrong_object_type';
  END IF;
  PERFORM rdma_internal.require_owner(tab);
  -- foreign keys from and to other tables of the server, which the new tables on the nodes get as far as they can
  SELECT array_agg(k || jsonb_build_object(CASE WHEN format('%I.%I', k->'table'->>0, k->'table'->>1) = p.relation
      THEN 'table' ELSE 'other_table' END, ARRAY[schema, table_name])), array_agg(k)
    INTO foreign_keys, dropped
    FROM (SELECT * FROM rdma_internal.placement_conditions(tab) c WHERE c.place = 0) p,
        LATERAL rdma_internal.node_foreign_keys(p.node,
        ARRAY[p.relation]) k
    WHERE k->'table' <> k->'other_table' AND (rdma_internal.table_named(server, k->'table')).tab IS NOT NULL
        AND (rdma_internal.table_named(server, k->'other_table')).tab IS NOT NULL;
  PERFORM rdma_internal.drop_foreign_keys(server, dropped);
  PERFORM rdma.undistribute_table(tab);
  moved := rdma.distribute_table(name::regclass, server, distributed_by, replicated, force);
  foreign_keys := rdma_internal.kept_foreign_keys(server, foreign_keys, force);
  PERFORM rdma.run_on(server, rdma_internal.foreign_key_statement(k)) FROM unnest(foreign_keys) k;
  RETURN moved;
END $function$;
COMMENT ON FUNCTION rdma.alter_distribution(regclass, text, boolean, boolean) IS
    'distributes a table of a server with nodes by other columns, or has it replicated; how many rows it has. force: '
    'warns of constraints that it cannot keep, instead of failing';
