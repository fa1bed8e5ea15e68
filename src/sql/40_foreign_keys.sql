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
  -- without a name the nodes choose one
  RETURN format('ALTER TABLE %I.%I ADD %sFOREIGN KEY (%s) REFERENCES %I.%I%s%s%s%s%s%s%s',
      key->'table'->>0, key->'table'->>1, 'CONSTRAINT ' || quote_ident(key->>'name') || ' ', columns,
    key->'other_table'->>0, key->'other_table'->>1, ' (' || other_columns || ')',
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

-- A foreign key between a distributed table and another one is noted with the table that refers, in a
-- security label: it is dumped with the table, and belongs to its owner.
CREATE FUNCTION rdma_internal.noted_keys(OUT tab regclass, OUT key jsonb)
RETURNS SETOF record
LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $function$
  SELECT c.oid, k.key || jsonb_build_object('table', ARRAY[n.nspname, c.relname])
    FROM pg_seclabel l JOIN pg_class c ON c.oid = l.objoid JOIN pg_namespace n ON n.oid = c.relnamespace,
      jsonb_array_elements(substr(l.label, length('foreign_keys ') + 1)::jsonb) WITH ORDINALITY k(key, place)
    WHERE l.classoid = 'pg_class'::regclass AND l.objsubid = 0 AND l.provider = 'rdma_fdw'
      AND l.label LIKE 'foreign\_keys %' AND jsonb_typeof(k.key) = 'object' AND k.key->>'name' IS NOT NULL
      AND k.key->'other_table'->>0 IS NOT NULL AND k.key->'other_table'->>1 IS NOT NULL
    ORDER BY n.nspname, c.relname, k.place
$function$;
COMMENT ON FUNCTION rdma_internal.noted_keys() IS
    'foreign keys that are created when both of their tables are distributed, or local again';

CREATE FUNCTION rdma_internal.set_keys(tab regclass, keys jsonb[])
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
  IF EXISTS (SELECT FROM pg_seclabel WHERE objoid = tab AND classoid = 'pg_class'::regclass AND objsubid = 0
      AND provider = 'rdma_fdw' AND label NOT LIKE 'foreign\_keys %') THEN
    RAISE EXCEPTION 'foreign keys of table % cannot be noted', tab USING ERRCODE = 'object_not_in_prerequisite_state',
      DETAIL = 'It has another security label of rdma_fdw, and they would take its place.',
      HINT = format('SECURITY LABEL FOR rdma_fdw ON TABLE %s IS NULL', tab);
  END IF;
  EXECUTE format('SECURITY LABEL FOR rdma_fdw ON %s %s IS %s', CASE WHEN (SELECT relkind FROM pg_class WHERE oid = tab)
      = 'f' THEN 'FOREIGN TABLE' ELSE 'TABLE' END, tab,
    CASE WHEN keys = '{}' THEN 'NULL' ELSE quote_literal('foreign_keys '
      || (SELECT jsonb_agg(k - 'table' ORDER BY place)::text FROM unnest(keys) WITH ORDINALITY n(k, place))) END);
END $function$;
COMMENT ON FUNCTION rdma_internal.set_keys(regclass, jsonb[]) IS 'notes these foreign keys, and no others, with a table';

CREATE FUNCTION rdma_internal.note_key(tab regclass, key jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  kept jsonb[] := ARRAY(SELECT k.key FROM rdma_internal.noted_keys() k WHERE k.tab = note_key.tab);
BEGIN
  IF key->>'name' IS NULL THEN
    key := key || jsonb_build_object('name', left(concat_ws('_', (SELECT relname FROM pg_class WHERE oid = tab),
        (SELECT string_agg(c, '_') FROM jsonb_array_elements_text(key->'columns') c)), 58) || '_fkey');
  END IF;
  IF EXISTS (SELECT FROM unnest(kept) k WHERE k->>'name' = key->>'name')
      OR EXISTS (SELECT FROM pg_constraint WHERE conrelid = tab AND conname = key->>'name') THEN
    RAISE EXCEPTION 'constraint "%" for relation % already exists', key->>'name', tab
        USING ERRCODE = 'duplicate_object';
  END IF;
  PERFORM rdma_internal.set_keys(tab, kept || key);
  RAISE WARNING 'foreign key "%" of table % is not checked yet', key->>'name', tab
    USING DETAIL = format('Only one of the tables %s and %I.%I is distributed.', tab, key->'other_table'->>0,
      key->'other_table'->>1), HINT = 'It is created when the other one is, too: rdma.distribute_table.';
END $function$;
COMMENT ON FUNCTION rdma_internal.note_key(regclass, jsonb) IS
    'notes a foreign key with the table that refers, and says so';

CREATE FUNCTION rdma_internal.forget_keys(tab regclass, name text)
RETURNS void
LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
  SELECT rdma_internal.set_keys(tab, ARRAY(SELECT k.key FROM rdma_internal.noted_keys() k WHERE k.tab = forget_keys.tab
      AND k.key->>'name' <> name))
$function$;
COMMENT ON FUNCTION rdma_internal.forget_keys(regclass, text) IS 'forgets a foreign key that was noted';

CREATE FUNCTION rdma_internal.key_there(server name, tab regclass, other regclass, key jsonb)
RETURNS jsonb
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  there jsonb := key;
  part record;
BEGIN
  FOR part IN
    SELECT p.member, coalesce(jsonb_agg(coalesce((SELECT option_value FROM pg_options_to_table(a.attfdwoptions)
        WHERE option_name = 'column_name'), c.name) ORDER BY c.place) FILTER (WHERE c.name IS NOT NULL), '[]') AS names
      FROM (VALUES ('columns', tab), ('other_columns', other), ('set', tab)) p(member, relation)
        LEFT JOIN LATERAL jsonb_array_elements_text(key->p.member) WITH ORDINALITY c(name, place) ON true
        LEFT JOIN pg_attribute a ON a.attrelid = p.relation AND a.attname = c.name GROUP BY p.member
    UNION ALL SELECT p.member, jsonb_build_array(coalesce((SELECT option_value FROM pg_options_to_table(f.ftoptions)
        WHERE option_name = 'schema_name'), n.nspname), coalesce((SELECT option_value
        FROM pg_options_to_table(f.ftoptions) WHERE option_name = 'table_name'), c.relname))
      FROM (VALUES ('table', tab), ('other_table', other)) p(member, relation) JOIN pg_class c ON c.oid = p.relation
        JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_foreign_table f ON f.ftrelid = c.oid
  LOOP
    there := there || jsonb_build_object(part.member, part.names);
  END LOOP;
  IF there->'other_columns' = '[]' THEN
    there := there || jsonb_build_object('other_columns', rdma_internal.ask_node((SELECT n.node
        FROM rdma.nodes(server) n LIMIT 1), format('SELECT '
        'coalesce(pg_catalog.jsonb_agg(a.attname ORDER BY k.place), ''[]'') FROM pg_catalog.pg_index i, '
        'pg_catalog.unnest(i.indkey) WITH ORDINALITY k(num, place), pg_catalog.pg_attribute a WHERE i.indisprimary AND '
        'k.place <= i.indnkeyatts AND a.attrelid = i.indrelid AND a.attnum = k.num AND i.indrelid = '
        'pg_catalog.to_regclass(%L)', format('%I.%I', there->'other_table'->>0, there->'other_table'->>1)),
        '[""]'::jsonb));
  END IF;
  IF there->'other_columns' = '[]' THEN
    RAISE EXCEPTION 'there is no primary key for referenced table %', other USING ERRCODE = 'undefined_object';
  END IF;
  RETURN there;
END $function$;
COMMENT ON FUNCTION rdma_internal.key_there(name, regclass, regclass, jsonb) IS
    'a foreign key between two tables of a server, with the names of the nodes; without columns: to the primary key';

CREATE FUNCTION rdma_internal.server_of(tab regclass)
RETURNS name
LANGUAGE sql STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $function$
  SELECT s.srvname FROM pg_foreign_table f JOIN pg_foreign_server s ON s.oid = f.ftserver WHERE f.ftrelid = tab
$function$;
COMMENT ON FUNCTION rdma_internal.server_of(regclass) IS 'the server of a foreign table; NULL: it is a local table';

-- ALTER TABLE and CREATE TABLE (src/fdw/catalog/ddl_nodes.c)
CREATE FUNCTION rdma_internal.add_foreign_key(tab regclass, other regclass, key jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  server name := rdma_internal.server_of(tab);
  other_server name := rdma_internal.server_of(other);
  problem text;
BEGIN
  IF server IS NULL THEN
    PERFORM rdma_internal.note_key(tab, key || (SELECT jsonb_build_object('other_table', ARRAY[n.nspname, c.relname])
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = other));
  ELSIF server IS DISTINCT FROM other_server THEN
    RAISE EXCEPTION 'a foreign key from table % to table % cannot be created on the nodes', tab, other
      USING ERRCODE = 'feature_not_supported', DETAIL = CASE WHEN other_server IS NULL
        THEN format('Table %s is local.', other) ELSE 'They are tables of two servers.' END,
      HINT = CASE WHEN other_server IS NULL THEN format('First: SELECT rdma.distribute_table(%L, %L, ...)', other,
        server) END;
  ELSE
    key := rdma_internal.key_there(server, tab, other, key);
    problem := rdma_internal.foreign_key_problem(server, key);
    IF problem IS NOT NULL THEN
      RAISE EXCEPTION 'a foreign key from table % to table % cannot be created on the nodes', tab, other
        USING ERRCODE = 'feature_not_supported', DETAIL = problem,
        HINT = 'Let the key contain the columns that both tables are distributed by, or have the other table replicated.';
    END IF;
    PERFORM rdma.run_on(server, rdma_internal.foreign_key_statement(key));
  END IF;
END $function$;
COMMENT ON FUNCTION rdma_internal.add_foreign_key(regclass, regclass, jsonb) IS
    'creates a foreign key of a distributed table on the nodes; one of a local table to a distributed one is noted';

CREATE FUNCTION rdma_internal.settle_keys(tab regclass, force boolean)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  part record;
  key jsonb;
  problem text;
  message text;
BEGIN
  FOR part IN
    SELECT k.tab, k.key, c.relname, c.relowner = current_user::regrole AS own, o.oid::regclass AS other,
        rdma_internal.server_of(k.tab) AS server, rdma_internal.server_of(o.oid) AS other_server
      FROM rdma_internal.noted_keys() k JOIN pg_class c ON c.oid = k.tab
        JOIN pg_class o ON o.relname = k.key->'other_table'->>1
        JOIN pg_namespace n ON n.oid = o.relnamespace AND n.nspname = k.key->'other_table'->>0
      WHERE settle_keys.tab IN (k.tab, o.oid)
  LOOP
    CONTINUE WHEN part.server IS DISTINCT FROM part.other_server;
    IF NOT part.own OR NOT has_table_privilege(part.other, 'REFERENCES') THEN
      RAISE WARNING 'foreign key "%" of table % is not created', part.key->>'name', part.tab
        USING DETAIL = CASE WHEN part.own THEN format('Its owner has no privilege REFERENCES on table %s.', part.other)
          ELSE 'The table belongs to another role.' END,
        HINT = 'Let the owner of the table create it with ALTER TABLE, and drop this one before.';
      CONTINUE;
    END IF;
    IF part.server IS NULL THEN
      EXECUTE rdma_internal.foreign_key_statement(part.key);
    ELSE
      key := rdma_internal.key_there(part.server, part.tab, part.other, part.key);
      problem := rdma_internal.foreign_key_problem(part.server, key);
      IF problem IS NULL THEN
        PERFORM rdma.run_on(part.server, rdma_internal.foreign_key_statement(key));
      ELSE
        message := format('foreign key "%s" of table "%s" %s', part.key->>'name', part.relname, CASE WHEN force
            THEN 'is left out' ELSE 'cannot be kept' END);
        PERFORM rdma_internal.report_loss(force, message, problem, 'Drop the key, or distribute the tables by other '
            'columns.');
      END IF;
    END IF;
    PERFORM rdma_internal.forget_keys(part.tab, part.key->>'name');
  END LOOP;
END $function$;
COMMENT ON FUNCTION rdma_internal.settle_keys(regclass, boolean) IS
    'creates noted foreign keys from or to this table whose tables are both distributed now, or both local. force: '
    'leaves those out that the nodes cannot have';
