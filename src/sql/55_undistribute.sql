/* src/sql/55_undistribute.sql: Distributed tables become local ones. */

-- What a node says of its table is text of that node: it becomes names and literals, or is one
-- definition and nothing else.
CREATE FUNCTION rdma.undistribute_table(tab regclass)
RETURNS bigint
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp SET rdma_fdw.snapshot = each_node SET rdma_fdw.propagate_ddl = off
SET datestyle = ISO SET intervalstyle = postgres SET extra_float_digits = 1 SET bytea_output = hex SET lc_monetary = 'C'
    SET xmloption = content
AS $function$
DECLARE
  old record;
  part record;
  remote text;
  here text;
  node name;
  there jsonb;
  foreign_key jsonb;
  foreign_keys jsonb[];
  already_noted jsonb[];
  views text[];
  columns text;
  plain_columns text;
  names text;
  statistics text[];
  statement text;
  problem text;
  moving name;
  moved bigint;
BEGIN
  SELECT c.relname, n.nspname, c.relkind, c.relispartition OR EXISTS (SELECT FROM pg_inherits WHERE tab IN (inhrelid,
      inhparent)) AS related, c.relacl, c.relowner, c.relowner::regrole AS owner,
      s.srvname, obj_description(c.oid, 'pg_class') AS comment,
      (SELECT string_agg(quote_ident(tgname), ', ' ORDER BY tgname) FROM pg_trigger WHERE tgrelid = c.oid
          AND NOT tgisinternal) AS triggers,
      (SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = c.oid
          AND NOT attisdropped
        AND EXISTS (SELECT FROM pg_options_to_table(attfdwoptions) WHERE option_name = 'column_name'
            AND option_value <> attname)) AS named
    INTO old FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT
        JOIN pg_foreign_table f ON f.ftrelid = c.oid LEFT JOIN pg_foreign_server s ON s.oid = f.ftserver
    WHERE c.oid = tab;
  SELECT c.relation, c.node INTO remote, node FROM rdma_internal.placement_conditions(tab) c ORDER BY c.place LIMIT 1;
  PERFORM rdma_internal.require_owner(tab);
  IF old.related OR old.triggers IS NOT NULL OR old.named IS NOT NULL THEN
    RAISE EXCEPTION 'foreign table "%" cannot be turned into a table', old.relname
        USING ERRCODE = 'feature_not_supported',
      DETAIL = concat_ws(' ', CASE WHEN old.related THEN 'It is a partition, or it has parents or children.' END,
          'It has triggers: ' || old.triggers || '.',
        'Columns have other names on the nodes: ' || old.named || '.'),
      HINT = 'Take these away first.';
  END IF;
  views := rdma_internal.empty_views(tab);
  SELECT rdma_internal.dependents(ARRAY[tab::oid]) AS names INTO part;
  IF part.names IS NOT NULL THEN
    RAISE EXCEPTION 'foreign table "%" cannot be turned into a table', old.relname
        USING ERRCODE = 'dependent_objects_still_exist',
      DETAIL = format('It would be dropped, and these depend on it: %s.', part.names),
          HINT = 'Drop them, and create them again afterwards.';
  END IF;
  foreign_keys := ARRAY(SELECT k FROM rdma_internal.node_foreign_keys(node, ARRAY[remote]) k);
  -- Keys of other distributed tables wait until these are local, too, or this one is distributed again.
  FOR part IN SELECT k AS key, (rdma_internal.table_named(old.srvname, k->'table')).tab AS referencing
      FROM unnest(foreign_keys) k WHERE k->'table' <> k->'other_table' AND format('%I.%I', k->'other_table'->>0,
      k->'other_table'->>1) = remote LOOP
    IF part.referencing IS NULL THEN
      RAISE EXCEPTION 'foreign table "%" cannot be turned into a table', old.relname
        USING ERRCODE = 'dependent_objects_still_exist',
        DETAIL = format('Foreign keys of other tables of the nodes refer to it: %I of %I.%I.', part.key->>'name',
          part.key->'table'->>0, part.key->'table'->>1), HINT = 'Drop the keys on the nodes.';
    END IF;
    PERFORM rdma_internal.drop_foreign_keys(old.srvname, ARRAY[part.key]);
    PERFORM rdma_internal.note_key(part.referencing, part.key || jsonb_build_object('other_table', ARRAY[old.nspname,
        old.relname]));
  END LOOP;
  foreign_keys := ARRAY(SELECT k FROM unnest(foreign_keys) k WHERE format('%I.%I', k->'table'->>0, k->'table'->>1)
      = remote);
  already_noted := ARRAY(SELECT k.key FROM rdma_internal.noted_keys() k WHERE k.tab = undistribute_table.tab);

  -- Nobody writes here from now on, nor there.
  moving := rdma_internal.aside(tab);
  here := format('%I.%I', old.nspname, old.relname);
  SELECT coalesce(array_agg(left(d.text, - length(tab::text))), '{}') INTO statistics
    FROM pg_statistic_ext e, LATERAL pg_get_statisticsobjdef(e.oid) d(text) WHERE e.stxrelid = tab;
  IF NOT EXISTS (SELECT FROM pg_foreign_table f, pg_options_to_table(f.ftoptions) WHERE f.ftrelid = tab
      AND option_name = 'table_name') THEN
    EXECUTE format('ALTER FOREIGN TABLE %s OPTIONS (ADD table_name %L)', tab, old.relname);
  END IF;
  EXECUTE format('ALTER FOREIGN TABLE %s RENAME TO %I', tab, moving);
  PERFORM rdma.run_on(old.srvname, format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', remote));
  -- the table and its partitions, parents first
  there := rdma_internal.ask_node(node, format('SELECT rdma_internal.table_description(%L)', remote), '[{}]'::jsonb);
  SELECT string_agg(format('%s on server "%s"', m->>'name', node), ', ') AS names INTO part
      FROM jsonb_array_elements(there) m WHERE m->>'kind' NOT IN ('r', 'p');
  IF part.names IS NOT NULL THEN
    RAISE EXCEPTION '% is neither an ordinary nor a partitioned table', part.names USING ERRCODE = 'wrong_object_type';
  END IF;
  SELECT string_agg(format('%s of %s', m->>'triggers', m->>'name'), ', ') AS names INTO part
      FROM jsonb_array_elements(there) m WHERE m->>'triggers' IS NOT NULL;
  IF part.names IS NOT NULL THEN
    RAISE EXCEPTION 'foreign table "%" cannot be turned into a table', old.relname
        USING ERRCODE = 'feature_not_supported', DETAIL = format('Its tables on the nodes have triggers: %s.', part.names),
        HINT = 'Drop them with DROP TRIGGER, and create them again afterwards.';
  END IF;
  -- what they are called here
  there := (SELECT jsonb_object_agg(m->>'name', m || jsonb_build_object('place', place, 'here', CASE WHEN place = 1
      THEN format('%I.%I', old.nspname, old.relname)
      ELSE format('%I.%I', CASE WHEN m->>'schema' = there->0->>'schema' THEN old.nspname ELSE m->>'schema' END,
          m->>'table') END)) FROM jsonb_array_elements(there) WITH ORDINALITY e(m, place));

  SELECT string_agg(format('%I %s%s%s%s', a.attname, format_type(a.atttypid, a.atttypmod),
        ' COLLATE ' || CASE WHEN a.attcollation <> t.typcollation THEN quote_ident(cn.nspname) || '.'
            || quote_ident(co.collname) END,
        CASE WHEN a.attgenerated <> '' THEN ' GENERATED ALWAYS AS (' || pg_get_expr(d.adbin, d.adrelid)
            || CASE a.attgenerated WHEN 'v' THEN ') VIRTUAL' ELSE ') STORED' END
          ELSE ' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid) END,
        CASE WHEN a.attnotnull THEN ' NOT NULL' END), ', ' ORDER BY a.attnum),
      string_agg(format('%I %s%s', a.attname, format_type(a.atttypid, a.atttypmod), ' COLLATE ' || CASE
          WHEN a.attcollation <> t.typcollation THEN quote_ident(cn.nspname) || '.' || quote_ident(co.collname) END),
          ', ' ORDER BY a.attnum),
      string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) FILTER (WHERE a.attgenerated = '')
    INTO columns, plain_columns, names
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
      LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
      LEFT JOIN pg_collation co ON co.oid = a.attcollation LEFT JOIN pg_namespace cn ON cn.oid = co.collnamespace
    WHERE a.attrelid = tab AND a.attnum > 0 AND NOT a.attisdropped;
  FOR part IN
    SELECT m->>'here' AS here, m->>'name' AS name, there->(m->>'parent')->>'here' AS above, m->>'bound' AS bound,
        ' PARTITION BY ' || (m->>'key') AS key, m->>'comment' AS comment, m->>'statistics' AS statistics,
        (SELECT ' WITH (' || string_agg(CASE WHEN key LIKE 'toast.%' THEN 'toast.' ELSE '' END
            || format('%I = %L', regexp_replace(key, '^toast\.', ''), value), ', ') || ')'
          FROM jsonb_each_text(nullif(m->'storage', 'null'))) AS storage
      FROM jsonb_each(there) e(name, m) ORDER BY (m->>'place')::integer
  LOOP
    -- a part that is left out would change what the table is; its columns are what they are here
    statement := CASE WHEN part.above IS NULL THEN format('CREATE TABLE %s (%s)', part.here, plain_columns)
        ELSE format('CREATE TABLE %s PARTITION OF %s %s', part.here, part.above, part.bound) END
        || concat(part.key, part.storage);
    IF part.above IS NOT NULL OR part.key IS NOT NULL THEN
      problem := rdma_internal.define(here, statement, part.above IS NOT NULL);
      IF problem IS NOT NULL THEN
        RAISE EXCEPTION 'table % on server "%" cannot be created here', part.name, node
            USING ERRCODE = 'invalid_object_definition', DETAIL = format('In "%s": %s.', statement, problem);
      END IF;
    END IF;
    IF part.above IS NULL THEN
      EXECUTE format('CREATE TABLE %s (%s)', part.here, columns) || concat(part.key, part.storage);
    END IF;
    IF part.above IS NOT NULL AND part.comment IS NOT NULL THEN
      EXECUTE format('COMMENT ON TABLE %s IS %L', part.here, part.comment);
    END IF;
    IF part.statistics IS NOT NULL THEN
      RAISE WARNING 'extended statistics of partition % on the nodes are left out', part.name
          USING DETAIL = format('Their definition there is: %s', part.statistics);
    END IF;
  END LOOP;
  FOR part IN
    SELECT m->>'here' AS here, c.name, o.setting FROM jsonb_each(there) e(name, m),
        jsonb_to_recordset(nullif(m->'columns', 'null')) c(name text, storage text, compression text, target integer,
        required boolean, "distinct" jsonb),
        LATERAL (VALUES
          ('STORAGE ' || CASE c.storage WHEN 'p' THEN 'PLAIN' WHEN 'e' THEN 'EXTERNAL' WHEN 'm' THEN 'MAIN' WHEN 'x'
              THEN 'EXTENDED' END),
          ('COMPRESSION ' || CASE c.compression WHEN 'p' THEN 'pglz' WHEN 'l' THEN 'lz4' END),
          ('STATISTICS ' || c.target),
          (CASE WHEN c.required AND m->>'bound' IS NOT NULL THEN 'NOT NULL' END),
          ('(' || (SELECT string_agg(format('%I = %L', key, value), ', ')
              FROM jsonb_each_text(nullif(c."distinct", 'null')) WHERE key IN ('n_distinct', 'n_distinct_inherited'))
              || ')')) o(setting)
      WHERE o.setting IS NOT NULL ORDER BY (m->>'place')::integer
  LOOP
    EXECUTE format('ALTER TABLE ONLY %s ALTER COLUMN %I SET %s', part.here, part.name, part.setting);
  END LOOP;
  FOR part IN SELECT conname, pg_get_constraintdef(oid) AS definition FROM pg_constraint WHERE conrelid = tab
      AND contype = 'c' ORDER BY conname LOOP
    EXECUTE format('ALTER TABLE %I.%I ADD CONSTRAINT %I %s', old.nspname, old.relname, part.conname, part.definition);
  END LOOP;
  EXECUTE format('INSERT INTO %I.%I%s SELECT %s FROM %I.%I', old.nspname, old.relname, ' (' || names || ')', names,
      old.nspname, moving);
  GET DIAGNOSTICS moved = ROW_COUNT;
  PERFORM rdma_internal.move_identity(tab, format('%I.%I', old.nspname, old.relname)::regclass);

  FOR part IN
    SELECT m->>'here' AS here, m->>'table' AS tab, format('%I.%I', m->>'schema', m->>'table') AS name_there, c.*
        FROM jsonb_each(there) e(name, m), jsonb_to_recordset(nullif(m->'constraints', 'null')) c(name text, kind text,
        definition text)
      WHERE c.kind NOT IN ('n', 't') AND NOT (c.kind = 'c' AND m->>'bound' IS NULL AND EXISTS (SELECT FROM pg_constraint
          WHERE conrelid = tab AND contype = 'c' AND conname = c.name))
      ORDER BY (m->>'place')::integer, c.kind, c.name
  LOOP
    statement := format('ALTER TABLE %s ADD CONSTRAINT %I %s', part.here, part.name, part.definition);
    problem := rdma_internal.define(here, statement, true);
    IF problem IS NOT NULL THEN
      RAISE EXCEPTION 'constraint "%" of table "%" on the nodes cannot be created here', part.name, part.tab
          USING ERRCODE = 'invalid_object_definition', DETAIL = format('In "%s": %s.', statement, problem),
        HINT = format('Drop it on the nodes: SELECT rdma.run_on(%L, %L). Then create it here, if you trust what it '
            'runs.', old.srvname, format('ALTER TABLE %s DROP CONSTRAINT %I', part.name_there, part.name));
    END IF;
  END LOOP;
  FOR part IN
    SELECT m->>'here' AS here, m->>'table' AS tab, m->>'schema' AS schema_there, i.* FROM jsonb_each(there) e(name, m),
        jsonb_to_recordset(nullif(m->'indexes', 'null')) i(name text, "unique" boolean, definition text)
      ORDER BY (m->>'place')::integer, i.name
  LOOP
    statement := format('CREATE %sINDEX %I ON %s%s', CASE WHEN part."unique" THEN 'UNIQUE ' ELSE '' END, part.name,
        part.here, part.definition);
    problem := rdma_internal.define(here, statement, true);
    IF problem IS NOT NULL AND part."unique" THEN
      RAISE EXCEPTION 'unique index "%" of table "%" on the nodes cannot be created here', part.name, part.tab
          USING ERRCODE = 'invalid_object_definition', DETAIL = format('In "%s": %s.', statement, problem),
        HINT = format('Drop it on the nodes: SELECT rdma.run_on(%L, %L). Then create it here, if you trust what it '
            'runs.', old.srvname, format('DROP INDEX %I.%I', part.schema_there, part.name));
    ELSIF problem IS NOT NULL THEN
      RAISE WARNING 'index "%" of table "%" on the nodes is left out', part.name, part.tab
          USING DETAIL = format('In "%s": %s.', statement, problem),
          HINT = 'Create it here, if you trust what it runs.';
    END IF;
  END LOOP;
  FOREACH foreign_key IN ARRAY foreign_keys LOOP
    IF foreign_key->'table' = foreign_key->'other_table' THEN
      EXECUTE rdma_internal.foreign_key_statement(foreign_key || jsonb_build_object('table', ARRAY[old.nspname,
          old.relname],
          'other_table', ARRAY[old.nspname, old.relname]));
    ELSE
      SELECT ARRAY[n.nspname, c.relname] AS name INTO part
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.oid = (rdma_internal.table_named(old.srvname, foreign_key->'other_table')).tab;
      IF FOUND THEN
        PERFORM rdma_internal.note_key(here::regclass, foreign_key || jsonb_build_object('other_table', part.name));
      ELSE
        RAISE WARNING 'constraint "%" of table "%" on the nodes is left out', foreign_key->>'name', old.relname
          USING DETAIL = format('Its definition there is: %s', rdma_internal.foreign_key_statement(foreign_key));
      END IF;
    END IF;
  END LOOP;
  IF already_noted <> '{}' THEN
    PERFORM rdma_internal.set_keys(here::regclass, already_noted || ARRAY(SELECT k.key
        FROM rdma_internal.noted_keys() k WHERE k.tab = here::regclass));
  END IF;
  PERFORM rdma_internal.settle_keys(here::regclass, false);

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
    SELECT p.columns, CASE WHEN grantee = 0 THEN 'PUBLIC' ELSE grantee::regrole::text END AS role, privilege_type,
        is_grantable
      FROM (SELECT '' AS columns, old.relacl AS acl UNION ALL SELECT format(' (%I)', attname), attacl FROM pg_attribute
          WHERE attrelid = tab AND attnum > 0 AND NOT attisdropped) p,
        aclexplode(p.acl) WHERE grantee <> old.relowner
  LOOP
    EXECUTE format('GRANT %s%s ON %I.%I TO %s%s', part.privilege_type, part.columns, old.nspname, old.relname,
        part.role,
      CASE WHEN part.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END);
  END LOOP;
  IF old.comment IS NOT NULL THEN
    EXECUTE format('COMMENT ON TABLE %I.%I IS %L', old.nspname, old.relname, old.comment);
  END IF;
  FOR part IN SELECT attname, col_description(tab, attnum) AS comment FROM pg_attribute WHERE attrelid = tab
      AND attnum > 0 AND NOT attisdropped AND col_description(tab, attnum) IS NOT NULL LOOP
    EXECUTE format('COMMENT ON COLUMN %I.%I.%I IS %L', old.nspname, old.relname, part.attname, part.comment);
  END LOOP;
  EXECUTE format('DROP FOREIGN TABLE %I.%I', old.nspname, moving);
  FOREACH statement IN ARRAY statistics LOOP
    EXECUTE format('%s%I.%I', statement, old.nspname, old.relname);
  END LOOP;
  FOREACH statement IN ARRAY views LOOP
    EXECUTE statement;
  END LOOP;
  PERFORM rdma.run_on(old.srvname, format('DROP TABLE %s', remote));
  EXECUTE format('ANALYZE %I.%I', old.nspname, old.relname);
  RETURN moved;
END $function$;
COMMENT ON FUNCTION rdma.undistribute_table(regclass) IS
    'takes the rows of a table back from the nodes into a local table in its place, and drops the tables there; '
    'returns the number of rows';

CREATE FUNCTION rdma.undistribute_tables(tabs regclass[], OUT relation regclass, OUT rows bigint)
RETURNS SETOF record
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp SET rdma_fdw.snapshot = each_node
AS $function$
DECLARE
  tab regclass;
  part record;
  key jsonb;
  -- what each table is called on the nodes and here, and where it is
  names jsonb := '[]';
  between jsonb[] := '{}';
BEGIN
  FOREACH tab IN ARRAY tabs LOOP
    PERFORM rdma_internal.require_owner(tab);
    SELECT p.relation, p.node, s.srvname AS server, n.nspname, c.relname INTO part
      FROM rdma_internal.placement_conditions(tab) p, pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
          JOIN pg_foreign_table f ON f.ftrelid = c.oid JOIN pg_foreign_server s ON s.oid = f.ftserver
      WHERE c.oid = tab ORDER BY p.place LIMIT 1;
    names := names || jsonb_build_object('tab', tab::oid, 'server', part.server, 'node', part.node, 'remote',
        part.relation, 'local', ARRAY[part.nspname, part.relname]);
  END LOOP;
  FOR part IN
    SELECT DISTINCT k AS key, ours->>'server' AS server, ours->'local' AS local, other->'local' AS other_local
        FROM jsonb_array_elements(names) ours, jsonb_array_elements(names) other,
        LATERAL rdma_internal.node_foreign_keys(CAST(ours->>'node' AS name), ARRAY[ours->>'remote']) k
      WHERE ours->>'server' = other->>'server' AND ours->>'remote' <> other->>'remote'
        AND ours->>'remote' = format('%I.%I', k->'table'->>0, k->'table'->>1) AND other->>'remote' = format('%I.%I',
            k->'other_table'->>0, k->'other_table'->>1)
      ORDER BY k
  LOOP
    PERFORM rdma_internal.drop_foreign_keys(part.server, ARRAY[part.key]);
    between := between || (part.key || jsonb_build_object('table', part.local, 'other_table', part.other_local));
  END LOOP;
  FOR part IN SELECT CAST(CAST(n->>'tab' AS oid) AS regclass) AS tab, format('%I.%I', n->'local'->>0,
      n->'local'->>1) AS name FROM jsonb_array_elements(names) WITH ORDINALITY e(n, place) ORDER BY place LOOP
    rows := rdma.undistribute_table(part.tab);
    relation := part.name::regclass;
    RETURN NEXT;
  END LOOP;
  FOREACH key IN ARRAY between LOOP
    EXECUTE rdma_internal.foreign_key_statement(key);
  END LOOP;
END $function$;
COMMENT ON FUNCTION rdma.undistribute_tables(regclass[]) IS
    'takes the rows of tables back from the nodes into local tables in their places, with the foreign keys between them';
