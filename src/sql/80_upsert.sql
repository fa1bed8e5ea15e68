/* src/sql/80_upsert.sql: INSERT ... ON CONFLICT for foreign tables. */

-- What INSERT ... ON CONFLICT DO UPDATE would do to a foreign table, if the planner did not look
-- for the unique index here.
CREATE FUNCTION rdma_internal.upsert_rows(tab regclass, source regclass, conflict_columns text[], assignments text,
    condition text)
RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp SET datestyle = iso SET intervalstyle = postgres SET extra_float_digits = 3
AS $function$
DECLARE
  -- rows of one statement on a node
  most CONSTANT integer := 10000;
  target record;
  nodes name[];
  keys text[];
  columns text[];
  part record;
  place_of_row text := '0';
  place integer;
  head text;
  tail text;
  tag text;
  total bigint := 0;
BEGIN
  -- the lock keeps rows where they are until the transaction ends
  EXECUTE format('SELECT FROM %s WHERE false', tab);
  SELECT c.relname, n.nspname, s.srvname AS server, c.relkind, rdma_internal.named_nodes(s.srvname) IS NOT NULL AS many,
      format('%I.%I', coalesce(o.schema_name, n.nspname), coalesce(o.table_name, c.relname)) AS relation,
          coalesce(o.replicated::boolean, false) AS replicated,
      (SELECT string_agg(quote_ident(tgname), ', ' ORDER BY tgname) FROM pg_trigger WHERE tgrelid = c.oid
          AND NOT tgisinternal AND tgenabled <> 'D' AND tgtype & (4 | 16) <> 0) AS triggers
    INTO target FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT
        JOIN pg_foreign_table f ON f.ftrelid = c.oid
      LEFT JOIN pg_foreign_server s ON s.oid = f.ftserver LEFT JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw LEFT
          JOIN pg_proc h ON h.oid = w.fdwhandler,
      LATERAL (SELECT max(option_value) FILTER (WHERE option_name = 'schema_name') AS schema_name, max(option_value)
          FILTER (WHERE option_name = 'table_name') AS table_name,
        max(option_value) FILTER (WHERE option_name = 'replicated') AS replicated
            FROM pg_options_to_table(f.ftoptions)) o
    WHERE c.oid = tab AND h.proname = 'rdma_fdw_handler';
  IF target.relation IS NULL THEN
    RAISE EXCEPTION '"%" is not a foreign table of rdma_fdw', tab USING ERRCODE = 'wrong_object_type';
  END IF;
  IF NOT has_table_privilege(tab, 'INSERT') OR NOT has_table_privilege(tab, 'UPDATE') OR NOT has_table_privilege(tab,
      'SELECT') THEN
    RAISE EXCEPTION 'permission denied for foreign table %', tab USING ERRCODE = 'insufficient_privilege',
        DETAIL = 'It takes SELECT, INSERT and UPDATE.';
  END IF;
  IF target.triggers IS NOT NULL THEN
    RAISE EXCEPTION 'rows cannot be written to foreign table "%" by rdma.upsert', target.relname
        USING ERRCODE = 'feature_not_supported',
      DETAIL = format('It has triggers, which would not run: %s.', target.triggers);
  END IF;
  SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) AS names INTO part FROM pg_attribute a
    WHERE a.attrelid = source AND a.attnum > 0 AND NOT EXISTS (SELECT FROM pg_attribute t WHERE t.attrelid = tab
        AND t.attname = a.attname AND t.attnum > 0 AND NOT t.attisdropped AND t.attgenerated = '');
  IF part.names IS NOT NULL THEN
    RAISE EXCEPTION 'foreign table "%" has no such columns to be written: %', target.relname, part.names
        USING ERRCODE = 'undefined_column';
  END IF;
  SELECT string_agg(quote_ident(c), ', ') AS names INTO part FROM unnest(conflict_columns) c
    WHERE NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = source AND a.attnum > 0 AND a.attname = c);
  IF cardinality(conflict_columns) = 0 OR part.names IS NOT NULL THEN
    RAISE EXCEPTION 'rows have no value for columns of the conflict: %', coalesce(part.names, 'there is no such column')
        USING ERRCODE = 'invalid_column_reference';
  END IF;
  nodes := ARRAY[target.server];
  IF target.many THEN
    nodes := ARRAY(SELECT n.node FROM rdma.nodes(target.server) n ORDER BY n.place);
    keys := rdma.distribution_key(tab);
    IF NOT target.replicated AND (keys IS NULL OR NOT keys <@ conflict_columns) THEN
      RAISE EXCEPTION 'a conflict of columns % of foreign table "%" cannot be seen', conflict_columns, target.relname
          USING ERRCODE = 'feature_not_supported',
        DETAIL = CASE WHEN keys IS NULL THEN 'Nothing says on which node a row is.'
          ELSE format('The table is distributed by (%s): rows that are equal in the columns may be on different nodes.',
              array_to_string(keys, ', ')) END;
    END IF;
    IF target.replicated AND (assignments IS NOT NULL OR condition IS NOT NULL) THEN
      RAISE EXCEPTION 'assignments and conditions of rdma.upsert are not for replicated tables'
          USING ERRCODE = 'feature_not_supported',
        DETAIL = format('Table "%s" would not be the same on all nodes if they have values of their own, such as now().', target.relname);
    END IF;
    IF NOT target.replicated AND assignments IS NOT NULL AND EXISTS (SELECT FROM rdma.run_on(target.server,
        format($sql$SELECT EXISTS (SELECT FROM pg_catalog.pg_constraint WHERE conrelid = %L::pg_catalog.regclass AND conname = 'rdma_placement')$sql$, target.relation)) r WHERE r.answer <> 't') THEN
      RAISE EXCEPTION 'assignments could move rows of foreign table "%" to where they are not found', target.relname
          USING ERRCODE = 'object_not_in_prerequisite_state',
        HINT = format('SELECT rdma.protect_table(%L)', tab);
    END IF;
    IF NOT target.replicated THEN
      -- which of the nodes, by the values that the rows will have
      place_of_row := format('(%L::smallint[])[rdma.hash_node(%s, %s) + 1]', rdma.buckets(target.server),
          cardinality(rdma.buckets(target.server)),
        (SELECT string_agg(format('s.%I::%s', a.attname, a.type), ', ' ORDER BY array_position(keys, a.attname::text))
          FROM (SELECT a.attname, format('%I.%I', n.nspname, t.typname) AS type FROM pg_attribute a
              JOIN pg_type t ON t.oid = a.atttypid JOIN pg_namespace n ON n.oid = t.typnamespace
            WHERE a.attrelid = tab AND a.attname = ANY (keys)) a));
    END IF;
  END IF;

  -- Columns that the rows lack get the defaults of here. Values travel as text.
  SELECT array_agg(quote_ident(c.remote) ORDER BY c.attnum) AS names, string_agg(format('u.%I::%s', 'c' || c.attnum,
      c.type), ', ' ORDER BY c.attnum) AS taken,
      string_agg(format('%I', 'c' || c.attnum), ', ' ORDER BY c.attnum) AS given, string_agg('%L::pg_catalog.text[]',
          ', ' ORDER BY c.attnum) AS arrays,
      string_agg(format('pg_catalog.array_agg(CASE WHEN v.%1$I IS NOT NULL THEN pg_catalog.format(''%%s'', v.%1$I) END '
          'ORDER BY v.number)::text', 'c' || c.attnum), ', ' ORDER BY c.attnum) AS texts,
      string_agg(format('%s AS %I', CASE WHEN c.sent THEN format('s.%I::%s', c.attname, c.type) ELSE c.expression END,
          'c' || c.attnum), ', ' ORDER BY c.attnum) AS selected,
      string_agg(format('%1$s = excluded.%1$s', quote_ident(c.remote)), ', ' ORDER BY c.attnum)
          FILTER (WHERE c.sent AND c.attname <> ALL (conflict_columns)) AS assigned,
      string_agg(quote_ident(c.remote), ', ' ORDER BY c.attnum)
          FILTER (WHERE c.attname = ANY (conflict_columns)) AS conflict,
      string_agg(format('s.%I::%s', c.attname, c.type), ', ' ORDER BY c.attnum)
          FILTER (WHERE c.attname = ANY (conflict_columns)) AS compared,
      string_agg(format('s.%I IS NOT NULL', c.attname), ' AND ' ORDER BY c.attnum)
          FILTER (WHERE c.attname = ANY (conflict_columns)) AS known
    INTO part
    FROM (SELECT a.attnum, a.attname::text, coalesce((SELECT option_value FROM pg_options_to_table(a.attfdwoptions)
        WHERE option_name = 'column_name'), a.attname) AS remote,
          format('%I.%I', n.nspname, t.typname) AS type, pg_get_expr(d.adbin, d.adrelid) AS expression,
          EXISTS (SELECT FROM pg_attribute s WHERE s.attrelid = source AND s.attnum > 0
              AND s.attname = a.attname) AS sent
        FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid JOIN pg_namespace n ON n.oid = t.typnamespace LEFT
            JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        WHERE a.attrelid = tab AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '') c
    WHERE c.sent OR c.expression IS NOT NULL;
  EXECUTE format('SELECT EXISTS (SELECT FROM %s s WHERE %s GROUP BY %s HAVING pg_catalog.count(*) > 1)', source,
      part.known, part.compared) INTO tag;
  IF tag::boolean THEN
    RAISE EXCEPTION 'rdma.upsert cannot affect row a second time' USING ERRCODE = 'cardinality_violation',
      HINT = 'Ensure that no rows proposed for insertion have duplicate values in the columns of the conflict.';
  END IF;
  -- the literals of the arrays come between these two
  head := format('INSERT INTO %s AS %I (%s) SELECT %s FROM unnest(', target.relation, target.relname,
      array_to_string(part.names, ', '), part.taken);
  tail := format(') AS u (%s) ON CONFLICT (%s) ', part.given, part.conflict)
    || CASE WHEN coalesce(assignments, part.assigned) IS NULL THEN 'DO NOTHING' ELSE 'DO UPDATE SET '
        || coalesce(assignments, part.assigned) || coalesce(' WHERE ' || condition, '') END;
  FOR place, columns IN
    EXECUTE format('SELECT v.place, ARRAY[%s] FROM (SELECT %s AS place, pg_catalog.row_number() OVER (PARTITION BY %s) '
        'AS number, %s FROM %s s) v GROUP BY v.place, (v.number - 1) / %s ORDER BY v.place, pg_catalog.min(v.number)',
      part.texts, place_of_row, place_of_row, part.selected, source, most)
  LOOP
    IF target.replicated THEN
      SELECT min(r.answer) INTO tag FROM rdma.run_on(target.server, head || format(part.arrays, VARIADIC columns)
          || tail) r;
    ELSE
      tag := rdma_internal.ask_node(nodes[place + 1], head || format(part.arrays, VARIADIC columns) || tail,
          NULL::text);
    END IF;
    place := coalesce((regexp_match(tag, '^INSERT 0 ([0-9]{1,9})$'))[1]::integer, -1);
    IF place < 0 THEN
      RAISE EXCEPTION 'server "%" answered a question of rdma_fdw with something else', target.server
          USING ERRCODE = 'protocol_violation', DETAIL = format('After INSERT it said "%s".', tag);
    END IF;
    total := total + place;
  END LOOP;
  RETURN total;
END $function$;
COMMENT ON FUNCTION rdma_internal.upsert_rows(regclass, regclass, text[], text, text) IS
    'writes the rows of a table for rdma.upsert';

CREATE FUNCTION rdma.upsert(tab regclass, query text, conflict_columns text[], assignments text DEFAULT NULL,
    condition text DEFAULT NULL)
RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $function$
-- The query means what it means to the caller, so there is no search_path of its own here.
DECLARE
  rows_name text := pg_catalog.format('pg_temp.%I', pg_catalog.concat('rdma upsert ', pg_catalog.gen_random_uuid()));
  count bigint;
BEGIN
  IF tab IS NULL OR query IS NULL OR conflict_columns IS NULL THEN
    RAISE EXCEPTION 'table, query and columns of the conflict must not be NULL'
        USING ERRCODE = 'null_value_not_allowed';
  END IF;
  EXECUTE pg_catalog.format('CREATE TEMPORARY TABLE %s ON COMMIT DROP AS %s', rows_name, query);
  count := rdma_internal.upsert_rows(tab, CAST(rows_name AS pg_catalog.regclass), conflict_columns, assignments,
      condition);
  EXECUTE pg_catalog.format('DROP TABLE %s', rows_name);
  RETURN count;
END $function$;
COMMENT ON FUNCTION rdma.upsert(regclass, text, text[], text, text) IS
    'inserts the rows of a query into a foreign table, and updates those that are there already, by these columns; how '
    'many';
