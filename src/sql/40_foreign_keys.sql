/* src/sql/40_foreign_keys.sql: Constraints of tables that are distributed. */

-- Foreign keys are told by names and letters, never by text that would be run: what a node says of
-- its own is taken here.
CREATE FUNCTION rdma_internal.foreign_keys(tabs regclass[], OUT referencing regclass, OUT referenced regclass,
    OUT key jsonb)
RETURNS SETOF record
LANGUAGE sql STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $function$
  SELECT c.conrelid, c.confrelid, jsonb_build_object('name', c.conname, 'match', c.confmatchtype, 'on_update',
      c.confupdtype, 'on_delete', c.confdeltype,
      'table', ARRAY[n.nspname, r.relname], 'columns', ARRAY(SELECT a.attname FROM unnest(c.conkey)
          WITH ORDINALITY k(num, place) JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.num
          ORDER BY k.place),
      'other_table', ARRAY[o.nspname, f.relname], 'other_columns', ARRAY(SELECT a.attname FROM unnest(c.confkey)
          WITH ORDINALITY k(num, place) JOIN pg_attribute a ON a.attrelid = c.confrelid AND a.attnum = k.num
          ORDER BY k.place),
      'set', ARRAY(SELECT a.attname FROM unnest(c.confdelsetcols) k(num) JOIN pg_attribute a ON a.attrelid = c.conrelid
          AND a.attnum = k.num ORDER BY a.attnum),
      'deferrable', c.condeferrable, 'deferred', c.condeferred, 'valid', c.convalidated, 'enforced',
          to_jsonb(c)->'conenforced', 'period', to_jsonb(c)->'conperiod')
    FROM pg_constraint c JOIN pg_class r ON r.oid = c.conrelid JOIN pg_namespace n ON n.oid = r.relnamespace
        JOIN pg_class f ON f.oid = c.confrelid JOIN pg_namespace o ON o.oid = f.relnamespace
    WHERE c.contype = 'f' AND c.conparentid = 0 AND (c.conrelid = ANY (tabs) OR c.confrelid = ANY (tabs))
    ORDER BY n.nspname, r.relname, c.conname
$function$;
COMMENT ON FUNCTION rdma_internal.foreign_keys(regclass[]) IS
    'the foreign keys of these tables and those that refer to them; here, or on a node';

CREATE FUNCTION rdma_internal.foreign_key_statement(key jsonb)
RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  period text := CASE WHEN (key->>'period')::boolean THEN 'PERIOD ' ELSE '' END;
  columns text;
  other_columns text;
  set_columns text;
BEGIN
  SELECT string_agg(CASE WHEN place = jsonb_array_length(key->'columns') THEN period ELSE '' END || quote_ident(name),
      ', ' ORDER BY place) INTO columns
    FROM jsonb_array_elements_text(key->'columns') WITH ORDINALITY c(name, place);
  SELECT string_agg(CASE WHEN place = jsonb_array_length(key->'columns') THEN period ELSE '' END || quote_ident(name),
      ', ' ORDER BY place) INTO other_columns
    FROM jsonb_array_elements_text(key->'other_columns') WITH ORDINALITY c(name, place);
  SELECT ' (' || string_agg(quote_ident(name), ', ') || ')' INTO set_columns
      FROM jsonb_array_elements_text(key->'set') c(name);
  RETURN format('ALTER TABLE %I.%I ADD CONSTRAINT %I FOREIGN KEY (%s) REFERENCES %I.%I (%s)%s%s%s%s%s%s',
      key->'table'->>0, key->'table'->>1, key->>'name', columns,
    key->'other_table'->>0, key->'other_table'->>1, other_columns,
    CASE key->>'match' WHEN 'f' THEN ' MATCH FULL' END,
    ' ON UPDATE ' || CASE key->>'on_update' WHEN 'r' THEN 'RESTRICT' WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL'
        WHEN 'd' THEN 'SET DEFAULT' END,
    ' ON DELETE ' || CASE key->>'on_delete' WHEN 'r' THEN 'RESTRICT' WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL'
        WHEN 'd' THEN 'SET DEFAULT' END || coalesce(set_columns, ''),
    CASE WHEN (key->>'deferrable')::boolean THEN ' DEFERRABLE' END, CASE WHEN (key->>'deferred')::boolean
        THEN ' INITIALLY DEFERRED' END,
    CASE WHEN NOT (key->>'enforced')::boolean THEN ' NOT ENFORCED' WHEN NOT (key->>'valid')::boolean
        THEN ' NOT VALID' END);
END $function$;
COMMENT ON FUNCTION rdma_internal.foreign_key_statement(jsonb) IS
    'the statement that creates a foreign key that rdma_internal.foreign_keys tells of';

CREATE FUNCTION rdma_internal.table_named(server name, remote jsonb, OUT tab regclass, OUT replicated boolean,
    OUT keys text[])
LANGUAGE sql STABLE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
  SELECT t.oid, t.replicated, (SELECT array_agg(coalesce((SELECT option_value FROM pg_options_to_table(a.attfdwoptions)
      WHERE option_name = 'column_name'), a.attname) ORDER BY k.place)
      FROM unnest(rdma.distribution_key(t.oid)) WITH ORDINALITY k(name, place) JOIN pg_attribute a ON a.attrelid = t.oid
          AND a.attname = k.name)
    FROM (SELECT c.oid, n.nspname, c.relname, coalesce(max(option_value) FILTER (WHERE option_name = 'schema_name'),
        n.nspname) AS schema_name,
          coalesce(max(option_value) FILTER (WHERE option_name = 'table_name'), c.relname) AS table_name,
              coalesce(max(option_value) FILTER (WHERE option_name = 'replicated')::boolean, false) AS replicated
        FROM pg_foreign_table f JOIN pg_foreign_server s ON s.oid = f.ftserver JOIN pg_class c ON c.oid = f.ftrelid
            JOIN pg_namespace n ON n.oid = c.relnamespace
          LEFT JOIN LATERAL pg_options_to_table(f.ftoptions) o ON true WHERE s.srvname = server GROUP BY c.oid,
              n.nspname, c.relname) t
    WHERE t.schema_name = remote->>0 AND t.table_name = remote->>1 ORDER BY t.oid LIMIT 1
$function$;
COMMENT ON FUNCTION rdma_internal.table_named(name, jsonb) IS
    'the foreign table of a server that stands for a table of the nodes, and remote names of the columns of '
    'its key; NULL: there is none';

CREATE FUNCTION rdma_internal.node_foreign_keys(node name, relations text[])
RETURNS SETOF jsonb
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
  RETURN QUERY SELECT value FROM jsonb_array_elements(rdma_internal.ask_node(node,
      format('SELECT jsonb_agg(key) FROM rdma_internal.foreign_keys(%L::regclass[])', relations), '[{}]'::jsonb));
END $function$;
COMMENT ON FUNCTION rdma_internal.node_foreign_keys(name, text[]) IS
    'the foreign keys of these tables of a node, and those that refer to them';

-- Rows that refer to each other have to be on one node, where moves keep them, too.
CREATE FUNCTION rdma_internal.foreign_key_problem(server name, key jsonb, actions boolean DEFAULT true)
RETURNS text
LANGUAGE plpgsql STABLE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  ours record;
  other record;
  columns text[] := ARRAY(SELECT jsonb_array_elements_text(key->'columns'));
  other_columns text[] := ARRAY(SELECT jsonb_array_elements_text(key->'other_columns'));
  set_columns text[] := ARRAY(SELECT jsonb_array_elements_text(key->'set'));
  together boolean;
BEGIN
  SELECT * INTO ours FROM rdma_internal.table_named(server, key->'table');
  SELECT * INTO other FROM rdma_internal.table_named(server, key->'other_table');
  IF ours.tab IS NULL OR other.tab IS NULL THEN
    RETURN format('Table %s.%s is no table of server "%s".', quote_ident(key->CASE WHEN ours.tab IS NULL THEN 'table'
        ELSE 'other_table' END->>0),
      quote_ident(key->CASE WHEN ours.tab IS NULL THEN 'table' ELSE 'other_table' END->>1), server);
  END IF;
  IF actions AND 'd' IN (key->>'on_update', key->>'on_delete') THEN
    RETURN 'Its action is SET DEFAULT, and the tables of the nodes have no defaults.';
  END IF;
  IF rdma_internal.named_nodes(server) IS NULL OR (ours.replicated AND other.replicated) THEN
    RETURN NULL;
  END IF;
  IF ours.replicated THEN
    RETURN format('Table %s is replicated, and table %s is not: its rows are not on all nodes.', ours.tab, other.tab);
  END IF;
  IF NOT other.replicated THEN
    -- values that are equal have to be in one bucket
    SELECT bool_and(coalesce((a.atttypid = o.atttypid
        OR ARRAY[a.atttypid, o.atttypid] <@ '{int2,int4,int8}'::regtype[]::oid[]
        OR ARRAY[a.atttypid, o.atttypid] <@ '{text,varchar}'::regtype[]::oid[])
        AND (a.attcollation = o.attcollation OR (SELECT bool_and(collisdeterministic) FROM pg_collation
            WHERE oid IN (a.attcollation, o.attcollation))), false)) INTO together
      FROM unnest(ours.keys, other.keys) k(name, other_name)
        LEFT JOIN unnest(columns, other_columns) c(name, other_name) ON c.name = k.name AND c.other_name = k.other_name
        LEFT JOIN pg_attribute a ON a.attrelid = ours.tab
            AND coalesce((SELECT option_value FROM pg_options_to_table(a.attfdwoptions)
            WHERE option_name = 'column_name'), a.attname) = c.name
        LEFT JOIN pg_attribute o ON o.attrelid = other.tab
            AND coalesce((SELECT option_value FROM pg_options_to_table(o.attfdwoptions)
            WHERE option_name = 'column_name'), o.attname) = c.other_name;
    IF together IS NOT TRUE OR ours.keys IS NULL OR other.keys IS NULL THEN
      RETURN format('Rows of %s and rows that they refer to may be on different nodes: %s', key->'table'->>1, CASE
          WHEN ours.keys IS NULL OR other.keys IS NULL
        THEN 'nothing says on which.' ELSE 'the foreign key does not have the columns that both tables are distributed '
            'by in the same places and with the same types.' END);
    END IF;
  END IF;
  IF actions AND ((key->>'on_delete' = 'n' AND CASE WHEN set_columns = '{}' THEN columns
      ELSE set_columns END && ours.keys)
      OR ((key->>'on_update' = 'n' OR key->>'on_update' = 'c' AND other.replicated) AND columns && ours.keys)) THEN
    RETURN format('Its actions would change columns that table %s is distributed by.', ours.tab);
  END IF;
  RETURN NULL;
END $function$;
COMMENT ON FUNCTION rdma_internal.foreign_key_problem(name, jsonb, boolean) IS
    'why nodes of a server cannot have a foreign key; NULL: they can. actions: may ON UPDATE and ON DELETE '
    'be the reason?';

-- What a table loses by being distributed is an error, or a warning where the caller has said that it may.
CREATE FUNCTION rdma_internal.report_loss(force boolean, message text, detail text, remedy text)
RETURNS void
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
  IF force THEN
    RAISE WARNING '%', message USING DETAIL = detail;
  ELSE
    RAISE EXCEPTION '%', message USING ERRCODE = 'feature_not_supported', DETAIL = detail, HINT = concat_ws(' ', remedy,
        'With force => true this is a warning.');
  END IF;
END $function$;
COMMENT ON FUNCTION rdma_internal.report_loss(boolean, text, text, text) IS
    'what a table would lose if it were distributed; a warning with force, an error otherwise';

CREATE FUNCTION rdma_internal.kept_foreign_keys(server name, keys jsonb[], force boolean)
RETURNS jsonb[]
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  key jsonb;
  problem text;
  message text;
  remedy text;
  kept jsonb[] := '{}';
BEGIN
  FOREACH key IN ARRAY coalesce(keys, '{}') LOOP
    problem := rdma_internal.foreign_key_problem(server, key);
    IF problem IS NULL THEN
      kept := kept || key;
    ELSE
      message := format('foreign key "%s" of table "%s" %s', key->>'name', key->'table'->>1, CASE WHEN force
          THEN 'is left out' ELSE 'cannot be kept' END);
      remedy := CASE WHEN (rdma_internal.table_named(server, key->'other_table')).tab IS NULL
          THEN 'rdma.distribute_tables distributes both tables in one step.'
          ELSE 'Drop the key, or distribute the tables by other columns.' END;
      PERFORM rdma_internal.report_loss(force, message, problem, remedy);
    END IF;
  END LOOP;
  RETURN kept;
END $function$;
COMMENT ON FUNCTION rdma_internal.kept_foreign_keys(name, jsonb[], boolean) IS
    'those of these foreign keys that the nodes of a server can have; the others are an error, or warnings '
    'with force';

-- Rows that a unique or exclusion constraint keeps apart have to be on one node: it has the columns
-- of the key, and finds them equal where
-- rdma.hash_node does.
CREATE FUNCTION rdma_internal.unkept_keys(tabs oid[], distribution_key text[])
RETURNS TABLE (name name, tab oid, kind text, because text)
LANGUAGE sql STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $function$
  SELECT coalesce(c.conname, x.relname), i.indrelid, CASE WHEN c.oid IS NULL THEN 'unique index' ELSE 'constraint' END,
      CASE WHEN distribution_key = '{}' THEN 'Nothing says on which node a row is.'
        WHEN i.indisexclusion THEN 'It does not have all columns that the table is distributed by with the operator =.'
        ELSE 'It does not contain all columns that the table is distributed by.' END
    FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid LEFT JOIN pg_constraint c ON c.conindid = i.indexrelid
        AND c.conrelid = i.indrelid AND c.contype IN ('p', 'u', 'x')
    WHERE i.indrelid = ANY (tabs) AND (i.indisunique OR i.indisexclusion) AND NOT EXISTS (SELECT FROM pg_inherits
        WHERE inhrelid = i.indexrelid)
      AND NOT (distribution_key <> '{}' AND distribution_key <@ ARRAY(
        SELECT a.attname::text
          FROM generate_series(0, i.indnkeyatts - 1) n(place) JOIN pg_attribute a ON a.attrelid = i.indrelid
              AND a.attnum = i.indkey[n.place] JOIN pg_opclass o ON o.oid = i.indclass[n.place]
          WHERE EXISTS (SELECT FROM pg_amop h JOIN pg_opclass d ON d.opcfamily = h.amopfamily AND d.opcdefault
                WHERE h.amopmethod = (SELECT oid FROM pg_am WHERE amname = 'hash')
                    AND h.amopopr = coalesce(c.conexclop[n.place + 1],
                  (SELECT e.amopopr FROM pg_amop e WHERE e.amopfamily = o.opcfamily AND e.amoplefttype = o.opcintype
                      AND e.amoprighttype = o.opcintype AND e.amopstrategy = 3)))
            AND (i.indcollation[n.place] = a.attcollation OR (SELECT bool_and(collisdeterministic) FROM pg_collation
                WHERE oid IN (i.indcollation[n.place], a.attcollation)))))
    ORDER BY i.indrelid::regclass::text, coalesce(c.contype, 'z'), 1
$function$;
COMMENT ON FUNCTION rdma_internal.unkept_keys(oid[], text[]) IS
    'the unique indexes, keys and exclusion constraints of tables that would hold on each node, but not '
    'between nodes, if they were distributed by these columns';

CREATE FUNCTION rdma_internal.drop_foreign_keys(server name, keys jsonb[])
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  key jsonb;
BEGIN
  FOREACH key IN ARRAY keys LOOP
    -- the node that tells of it may be the only one that has it, or may name what is no foreign key
    PERFORM rdma.run_on(n.node, format('ALTER TABLE %I.%I DROP CONSTRAINT %I', key->'table'->>0, key->'table'->>1,
        key->>'name'))
      FROM rdma.run_on(server, format('SELECT true FROM pg_catalog.pg_constraint WHERE conrelid = '
          'pg_catalog.to_regclass(%L) AND conname = %L AND contype = %L',
        format('%I.%I', key->'table'->>0, key->'table'->>1), key->>'name', 'f')) n WHERE n.answer = 't';
  END LOOP;
END $function$;
COMMENT ON FUNCTION rdma_internal.drop_foreign_keys(name, jsonb[]) IS
    'drops these foreign keys on the nodes of a server';
