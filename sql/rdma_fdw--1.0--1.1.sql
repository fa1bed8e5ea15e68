/* rdma_fdw--1.0--1.1.sql - what 1.1 changes. 1.0's script stays as it is: CREATE EXTENSION runs both. */
\echo Use "ALTER EXTENSION rdma_fdw UPDATE TO '1.1'" to load this file. \quit

-- Tables that take each other's place

CREATE FUNCTION rdma.aside(tab regclass)
RETURNS name
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $function$
  SELECT format('rdma_moving_%s', tab::oid)::name
$function$;
COMMENT ON FUNCTION rdma.aside(regclass) IS 'internal: the name that a table or sequence has while another one takes its place';

CREATE FUNCTION rdma.dependents(tabs oid[])
RETURNS text
LANGUAGE sql STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $function$
  SELECT string_agg(DISTINCT CASE WHEN r.rulename = '_RETURN' THEN pg_describe_object('pg_class'::regclass, r.ev_class, 0)
        ELSE pg_describe_object(d.classid, d.objid, d.objsubid) END, ', ')
    FROM pg_depend d LEFT JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid LEFT JOIN pg_policy p ON d.classid = 'pg_policy'::regclass AND p.oid = d.objid
    WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = ANY (tabs) AND (r.oid IS NOT NULL OR d.classid = 'pg_proc'::regclass OR p.polrelid <> ALL (tabs))
      OR d.refclassid = 'pg_type'::regclass AND d.deptype = 'n' AND d.refobjid IN (SELECT unnest(ARRAY[t.oid, t.typarray]) FROM pg_type t WHERE t.typrelid = ANY (tabs))
$function$;
COMMENT ON FUNCTION rdma.dependents(oid[]) IS 'internal: what would be lost with these tables, or keeps them from being dropped';

CREATE FUNCTION rdma.move_identity(source regclass, target regclass)
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
    SELECT a.attname, a.attidentity, n.nspname, c.relname, c.relacl, c.relowner, q.*, obj_description(c.oid, 'pg_class') AS comment
      FROM pg_attribute a JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = a.attrelid AND d.refobjsubid = a.attnum
          AND d.classid = 'pg_class'::regclass AND d.deptype = 'i'
        JOIN pg_sequence q ON q.seqrelid = d.objid JOIN pg_class c ON c.oid = d.objid JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE a.attrelid = source AND a.attidentity <> '' AND NOT a.attisdropped ORDER BY a.attnum
  LOOP
    EXECUTE format('SELECT last_value, is_called FROM %I.%I', part.nspname, part.relname) INTO state;
    EXECUTE format('ALTER SEQUENCE %I.%I RENAME TO %I', part.nspname, part.relname, rdma.aside(format('%I.%I', part.nspname, part.relname)::regclass));
    EXECUTE format('ALTER TABLE %s ALTER COLUMN %I ADD GENERATED %s AS IDENTITY (SEQUENCE NAME %I.%I INCREMENT BY %s MINVALUE %s MAXVALUE %s START WITH %s CACHE %s %s)',
      target, part.attname, CASE part.attidentity WHEN 'a' THEN 'ALWAYS' ELSE 'BY DEFAULT' END, part.nspname, part.relname,
      part.seqincrement, part.seqmin, part.seqmax, part.seqstart, part.seqcache, CASE WHEN part.seqcycle THEN 'CYCLE' ELSE 'NO CYCLE' END);
    PERFORM setval(format('%I.%I', part.nspname, part.relname)::regclass, state.last_value, state.is_called);
    FOR grants IN
      SELECT CASE WHEN grantee = 0 THEN 'PUBLIC' ELSE grantee::regrole::text END AS role, privilege_type, is_grantable FROM aclexplode(part.relacl) WHERE grantee <> part.relowner
    LOOP
      EXECUTE format('GRANT %s ON SEQUENCE %I.%I TO %s%s', grants.privilege_type, part.nspname, part.relname, grants.role, CASE WHEN grants.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END);
    END LOOP;
    IF part.comment IS NOT NULL THEN
      EXECUTE format('COMMENT ON SEQUENCE %I.%I IS %L', part.nspname, part.relname, part.comment);
    END IF;
  END LOOP;
END $function$;
COMMENT ON FUNCTION rdma.move_identity(regclass, regclass) IS 'internal: gives a table the identity columns of the one that it takes the place of, with their sequences';

-- A sub-select's value, when it has become a grouped one

CREATE FUNCTION rdma.first_two_state(anyarray, anyelement) RETURNS anyarray
AS 'MODULE_PATHNAME', 'rdma_first_two_state' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION rdma.first_two_state(anyarray, anyelement) IS 'internal: adds a value for rdma.first_two';
CREATE FUNCTION rdma.first_two_merge(anyarray, anyarray) RETURNS anyarray
AS 'MODULE_PATHNAME', 'rdma_first_two_merge' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION rdma.first_two_merge(anyarray, anyarray) IS 'internal: joins values for rdma.first_two';
CREATE AGGREGATE rdma.first_two(anyelement) (SFUNC = rdma.first_two_state, STYPE = anyarray, COMBINEFUNC = rdma.first_two_merge, PARALLEL = SAFE);
COMMENT ON AGGREGATE rdma.first_two(anyelement) IS 'internal: the first two values';
CREATE FUNCTION rdma.only_value(anyarray) RETURNS anyelement
AS 'MODULE_PATHNAME', 'rdma_only_value' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION rdma.only_value(anyarray) IS 'internal: the only value; an error where there are more';

-- Foreign keys are told by names and letters, never by text that would be run: what a node says of its own is taken here.

CREATE FUNCTION rdma.foreign_keys(tabs regclass[], OUT referencing regclass, OUT referenced regclass, OUT key jsonb)
RETURNS SETOF record
LANGUAGE sql STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $function$
  SELECT c.conrelid, c.confrelid, jsonb_build_object('name', c.conname, 'match', c.confmatchtype, 'on_update', c.confupdtype, 'on_delete', c.confdeltype,
      'table', ARRAY[n.nspname, r.relname], 'columns', ARRAY(SELECT a.attname FROM unnest(c.conkey) WITH ORDINALITY k(num, place) JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.num ORDER BY k.place),
      'other_table', ARRAY[o.nspname, f.relname], 'other_columns', ARRAY(SELECT a.attname FROM unnest(c.confkey) WITH ORDINALITY k(num, place) JOIN pg_attribute a ON a.attrelid = c.confrelid AND a.attnum = k.num ORDER BY k.place),
      'set', ARRAY(SELECT a.attname FROM unnest(c.confdelsetcols) k(num) JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.num ORDER BY a.attnum),
      'deferrable', c.condeferrable, 'deferred', c.condeferred, 'valid', c.convalidated, 'enforced', to_jsonb(c)->'conenforced', 'period', to_jsonb(c)->'conperiod')
    FROM pg_constraint c JOIN pg_class r ON r.oid = c.conrelid JOIN pg_namespace n ON n.oid = r.relnamespace JOIN pg_class f ON f.oid = c.confrelid JOIN pg_namespace o ON o.oid = f.relnamespace
    WHERE c.contype = 'f' AND c.conparentid = 0 AND (c.conrelid = ANY (tabs) OR c.confrelid = ANY (tabs))
    ORDER BY n.nspname, r.relname, c.conname
$function$;
COMMENT ON FUNCTION rdma.foreign_keys(regclass[]) IS 'internal: the foreign keys of these tables and those that refer to them; here, or on a node';

CREATE FUNCTION rdma.foreign_key_statement(key jsonb)
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
  SELECT string_agg(CASE WHEN place = jsonb_array_length(key->'columns') THEN period ELSE '' END || quote_ident(name), ', ' ORDER BY place) INTO columns
    FROM jsonb_array_elements_text(key->'columns') WITH ORDINALITY c(name, place);
  SELECT string_agg(CASE WHEN place = jsonb_array_length(key->'columns') THEN period ELSE '' END || quote_ident(name), ', ' ORDER BY place) INTO other_columns
    FROM jsonb_array_elements_text(key->'other_columns') WITH ORDINALITY c(name, place);
  SELECT ' (' || string_agg(quote_ident(name), ', ') || ')' INTO set_columns FROM jsonb_array_elements_text(key->'set') c(name);
  RETURN format('ALTER TABLE %I.%I ADD CONSTRAINT %I FOREIGN KEY (%s) REFERENCES %I.%I (%s)%s%s%s%s%s%s', key->'table'->>0, key->'table'->>1, key->>'name', columns,
    key->'other_table'->>0, key->'other_table'->>1, other_columns,
    CASE key->>'match' WHEN 'f' THEN ' MATCH FULL' END,
    ' ON UPDATE ' || CASE key->>'on_update' WHEN 'r' THEN 'RESTRICT' WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL' WHEN 'd' THEN 'SET DEFAULT' END,
    ' ON DELETE ' || CASE key->>'on_delete' WHEN 'r' THEN 'RESTRICT' WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL' WHEN 'd' THEN 'SET DEFAULT' END || coalesce(set_columns, ''),
    CASE WHEN (key->>'deferrable')::boolean THEN ' DEFERRABLE' END, CASE WHEN (key->>'deferred')::boolean THEN ' INITIALLY DEFERRED' END,
    CASE WHEN NOT (key->>'enforced')::boolean THEN ' NOT ENFORCED' WHEN NOT (key->>'valid')::boolean THEN ' NOT VALID' END);
END $function$;
COMMENT ON FUNCTION rdma.foreign_key_statement(jsonb) IS 'internal: the statement that creates a foreign key that rdma.foreign_keys tells of';

CREATE FUNCTION rdma.table_named(server name, remote jsonb, OUT tab regclass, OUT replicated boolean, OUT keys text[])
LANGUAGE sql STABLE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
  SELECT t.oid, t.replicated, (SELECT array_agg(coalesce((SELECT option_value FROM pg_options_to_table(a.attfdwoptions) WHERE option_name = 'column_name'), a.attname) ORDER BY k.place)
      FROM unnest(rdma.distribution_key(t.oid)) WITH ORDINALITY k(name, place) JOIN pg_attribute a ON a.attrelid = t.oid AND a.attname = k.name)
    FROM (SELECT c.oid, n.nspname, c.relname, coalesce(max(option_value) FILTER (WHERE option_name = 'schema_name'), n.nspname) AS schema_name,
          coalesce(max(option_value) FILTER (WHERE option_name = 'table_name'), c.relname) AS table_name, coalesce(max(option_value) FILTER (WHERE option_name = 'replicated')::boolean, false) AS replicated
        FROM pg_foreign_table f JOIN pg_foreign_server s ON s.oid = f.ftserver JOIN pg_class c ON c.oid = f.ftrelid JOIN pg_namespace n ON n.oid = c.relnamespace
          LEFT JOIN LATERAL pg_options_to_table(f.ftoptions) o ON true WHERE s.srvname = server GROUP BY c.oid, n.nspname, c.relname) t
    WHERE t.schema_name = remote->>0 AND t.table_name = remote->>1 ORDER BY t.oid LIMIT 1
$function$;
COMMENT ON FUNCTION rdma.table_named(name, jsonb) IS 'internal: the foreign table of a server that stands for a table of the nodes, and remote names of the columns of its key; NULL: there is none';

CREATE FUNCTION rdma.node_foreign_keys(node name, relations text[])
RETURNS SETOF jsonb
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
  RETURN QUERY SELECT value FROM jsonb_array_elements(rdma.ask_node(node, format('SELECT jsonb_agg(key) FROM rdma.foreign_keys(%L::regclass[])', relations), '[{}]'::jsonb));
END $function$;
COMMENT ON FUNCTION rdma.node_foreign_keys(name, text[]) IS 'internal: the foreign keys of these tables of a node, and those that refer to them';

-- Rows that refer to each other have to be on one node, where moves keep them, too.
CREATE FUNCTION rdma.foreign_key_problem(server name, key jsonb, actions boolean DEFAULT true)
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
  SELECT * INTO ours FROM rdma.table_named(server, key->'table');
  SELECT * INTO other FROM rdma.table_named(server, key->'other_table');
  IF ours.tab IS NULL OR other.tab IS NULL THEN
    RETURN format('Table %s.%s is no table of server "%s".', quote_ident(key->CASE WHEN ours.tab IS NULL THEN 'table' ELSE 'other_table' END->>0),
      quote_ident(key->CASE WHEN ours.tab IS NULL THEN 'table' ELSE 'other_table' END->>1), server);
  END IF;
  IF actions AND 'd' IN (key->>'on_update', key->>'on_delete') THEN
    RETURN 'Its action is SET DEFAULT, and the tables of the nodes have no defaults.';
  END IF;
  IF rdma.named_nodes(server) IS NULL OR (ours.replicated AND other.replicated) THEN
    RETURN NULL;
  END IF;
  IF ours.replicated THEN
    RETURN format('Table %s is replicated, and table %s is not: its rows are not on all nodes.', ours.tab, other.tab);
  END IF;
  IF NOT other.replicated THEN
    -- values that are equal have to be in one bucket
    SELECT bool_and(coalesce((a.atttypid = o.atttypid OR ARRAY[a.atttypid, o.atttypid] <@ '{int2,int4,int8}'::regtype[]::oid[] OR ARRAY[a.atttypid, o.atttypid] <@ '{text,varchar}'::regtype[]::oid[])
        AND (a.attcollation = o.attcollation OR (SELECT bool_and(collisdeterministic) FROM pg_collation WHERE oid IN (a.attcollation, o.attcollation))), false)) INTO together
      FROM unnest(ours.keys, other.keys) k(name, other_name)
        LEFT JOIN unnest(columns, other_columns) c(name, other_name) ON c.name = k.name AND c.other_name = k.other_name
        LEFT JOIN pg_attribute a ON a.attrelid = ours.tab AND coalesce((SELECT option_value FROM pg_options_to_table(a.attfdwoptions) WHERE option_name = 'column_name'), a.attname) = c.name
        LEFT JOIN pg_attribute o ON o.attrelid = other.tab AND coalesce((SELECT option_value FROM pg_options_to_table(o.attfdwoptions) WHERE option_name = 'column_name'), o.attname) = c.other_name;
    IF together IS NOT TRUE OR ours.keys IS NULL OR other.keys IS NULL THEN
      RETURN format('Rows of %s and rows that they refer to may be on different nodes: %s', key->'table'->>1, CASE WHEN ours.keys IS NULL OR other.keys IS NULL
        THEN 'nothing says on which.' ELSE 'the foreign key does not have the columns that both tables are distributed by in the same places and with the same types.' END);
    END IF;
  END IF;
  IF actions AND ((key->>'on_delete' = 'n' AND CASE WHEN set_columns = '{}' THEN columns ELSE set_columns END && ours.keys)
      OR ((key->>'on_update' = 'n' OR key->>'on_update' = 'c' AND other.replicated) AND columns && ours.keys)) THEN
    RETURN format('Its actions would change columns that table %s is distributed by.', ours.tab);
  END IF;
  RETURN NULL;
END $function$;
COMMENT ON FUNCTION rdma.foreign_key_problem(name, jsonb, boolean) IS 'internal: why nodes of a server cannot have a foreign key; NULL: they can. actions: may ON UPDATE and ON DELETE be the reason?';

-- What a table loses by being distributed is an error, or a warning where the caller has said that it may.
CREATE FUNCTION rdma.report_loss(force boolean, message text, detail text, remedy text)
RETURNS void
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
  IF force THEN
    RAISE WARNING '%', message USING DETAIL = detail;
  ELSE
    RAISE EXCEPTION '%', message USING ERRCODE = 'feature_not_supported', DETAIL = detail, HINT = concat_ws(' ', remedy, 'With force => true this is a warning.');
  END IF;
END $function$;
COMMENT ON FUNCTION rdma.report_loss(boolean, text, text, text) IS 'internal: what a table would lose if it were distributed; a warning with force, an error otherwise';

CREATE FUNCTION rdma.kept_foreign_keys(server name, keys jsonb[], force boolean)
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
    problem := rdma.foreign_key_problem(server, key);
    IF problem IS NULL THEN
      kept := kept || key;
    ELSE
      message := format('foreign key "%s" of table "%s" %s', key->>'name', key->'table'->>1, CASE WHEN force THEN 'is left out' ELSE 'cannot be kept' END);
      remedy := CASE WHEN (rdma.table_named(server, key->'other_table')).tab IS NULL THEN 'rdma.distribute_tables distributes both tables in one step.' ELSE 'Drop the key, or distribute the tables by other columns.' END;
      PERFORM rdma.report_loss(force, message, problem, remedy);
    END IF;
  END LOOP;
  RETURN kept;
END $function$;
COMMENT ON FUNCTION rdma.kept_foreign_keys(name, jsonb[], boolean) IS 'internal: those of these foreign keys that the nodes of a server can have; the others are an error, or warnings with force';

-- Rows that a unique or exclusion constraint keeps apart have to be on one node: it has the columns of the key, and finds them equal where
-- rdma.hash_node does.
CREATE FUNCTION rdma.unkept_keys(tabs oid[], distribution_key text[])
RETURNS TABLE (name name, tab oid, kind text, because text)
LANGUAGE sql STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $function$
  SELECT coalesce(c.conname, x.relname), i.indrelid, CASE WHEN c.oid IS NULL THEN 'unique index' ELSE 'constraint' END,
      CASE WHEN distribution_key = '{}' THEN 'Nothing says on which node a row is.'
        WHEN i.indisexclusion THEN 'It does not have all columns that the table is distributed by with the operator =.'
        ELSE 'It does not contain all columns that the table is distributed by.' END
    FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid LEFT JOIN pg_constraint c ON c.conindid = i.indexrelid AND c.conrelid = i.indrelid AND c.contype IN ('p', 'u', 'x')
    WHERE i.indrelid = ANY (tabs) AND (i.indisunique OR i.indisexclusion) AND NOT EXISTS (SELECT FROM pg_inherits WHERE inhrelid = i.indexrelid)
      AND NOT (distribution_key <> '{}' AND distribution_key <@ ARRAY(
        SELECT a.attname::text
          FROM generate_series(0, i.indnkeyatts - 1) n(place) JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[n.place] JOIN pg_opclass o ON o.oid = i.indclass[n.place]
          WHERE EXISTS (SELECT FROM pg_amop h JOIN pg_opclass d ON d.opcfamily = h.amopfamily AND d.opcdefault
                WHERE h.amopmethod = (SELECT oid FROM pg_am WHERE amname = 'hash') AND h.amopopr = coalesce(c.conexclop[n.place + 1],
                  (SELECT e.amopopr FROM pg_amop e WHERE e.amopfamily = o.opcfamily AND e.amoplefttype = o.opcintype AND e.amoprighttype = o.opcintype AND e.amopstrategy = 3)))
            AND (i.indcollation[n.place] = a.attcollation OR (SELECT bool_and(collisdeterministic) FROM pg_collation WHERE oid IN (i.indcollation[n.place], a.attcollation)))))
    ORDER BY i.indrelid::regclass::text, coalesce(c.contype, 'z'), 1
$function$;
COMMENT ON FUNCTION rdma.unkept_keys(oid[], text[]) IS 'internal: the unique indexes, keys and exclusion constraints of tables that would hold on each node, but not between nodes, if they were distributed by these columns';

DROP FUNCTION rdma.distribute_table(regclass, name, text, boolean);
CREATE FUNCTION rdma.distribute_table(tab regclass, server name, distributed_by text DEFAULT NULL, replicated boolean DEFAULT false, force boolean DEFAULT false)
RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp SET rdma_fdw.snapshot = each_node
SET datestyle = ISO SET intervalstyle = postgres SET extra_float_digits = 1 SET bytea_output = hex SET lc_monetary = 'C' SET xmloption = content
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
  statistics text[];
  foreign_keys jsonb[];
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
  SELECT c.oid, c.relname, n.nspname, c.relkind, c.relispartition, c.relhassubclass, c.relrowsecurity, c.relacl, c.relpersistence, c.relowner::regrole AS owner,
      obj_description(c.oid, 'pg_class') AS comment,
      ARRAY(SELECT m.oid FROM rdma.table_members(tab) m) AS members
    INTO old FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = tab;
  IF old.relkind NOT IN ('r', 'p') OR old.relispartition OR old.relkind = 'r' AND old.relhassubclass OR old.relpersistence = 't' THEN
    RAISE EXCEPTION '"%" is neither an ordinary nor a partitioned table', old.relname USING ERRCODE = 'wrong_object_type',
      DETAIL = 'Temporary tables, partitions, parents and foreign tables cannot be distributed.';
  END IF;
  SELECT (SELECT string_agg(DISTINCT quote_ident(tgname), ', ') FROM pg_trigger WHERE tgrelid = ANY (old.members) AND NOT tgisinternal) AS triggers,
      string_agg(c.oid::regclass::text, ', ') FILTER (WHERE c.relkind = 'f') AS foreign_partitions, bool_or(c.relrowsecurity) AS secured
    INTO part FROM pg_class c WHERE c.oid = ANY (old.members);
  IF part.triggers IS NOT NULL OR part.foreign_partitions IS NOT NULL THEN
    RAISE EXCEPTION 'table "%" cannot be distributed', old.relname USING ERRCODE = 'feature_not_supported',
      DETAIL = concat_ws(' ', 'It has triggers: ' || part.triggers || '.', 'Partitions are foreign tables: ' || part.foreign_partitions || '.'),
      HINT = CASE WHEN part.triggers IS NULL THEN 'Detach them first.' ELSE 'Drop them first, and create their like on the foreign table or on the nodes.' END;
  END IF;
  IF part.secured THEN
    RAISE EXCEPTION 'table "%" cannot be distributed', old.relname USING ERRCODE = 'feature_not_supported',
      DETAIL = 'It has row security. A foreign table has none, and the nodes see the role of the user mapping, not who asks here.',
      HINT = 'Let views with security_barrier show the rows that a role may see. Or drop the policies, disable row security, and create policies on the nodes, if each role has a user mapping of its own there.';
  END IF;
  SELECT string_agg(quote_ident(p.pubname), ', ' ORDER BY p.pubname) AS names INTO part FROM pg_publication p
    WHERE EXISTS (SELECT FROM pg_class c WHERE c.oid = ANY (old.members) AND c.relpersistence = 'p' AND (p.puballtables
      OR EXISTS (SELECT FROM pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid = c.oid)
      OR EXISTS (SELECT FROM pg_publication_namespace n WHERE n.pnpubid = p.oid AND n.pnnspid = c.relnamespace)));
  IF part.names IS NOT NULL THEN
    message := format('subscribers get no more rows of table "%s"%s', old.relname, CASE WHEN NOT force THEN ' once it is distributed' END);
    detail := format('It is in publications: %s. A foreign table cannot be.', part.names);
    remedy := 'Take it out of them with ALTER PUBLICATION; one FOR ALL TABLES has all ordinary tables.';
    PERFORM rdma.report_loss(force, message, detail, remedy);
  END IF;
  PERFORM rdma.enroll_nodes(server);
  -- Its expressions run here and on the nodes while rows move, with the caller's rights.
  lent := old.owner <> current_user::regrole;
  IF lent THEN
    SELECT p.problem, s.statement INTO part FROM unnest(rdma.table_statements(tab) || rdma.index_statements(tab)) WITH ORDINALITY s(statement, place),
      LATERAL rdma.define(format('%I.%I', old.nspname, old.relname), s.statement, false) p(problem) WHERE p.problem IS NOT NULL ORDER BY s.place LIMIT 1;
    IF FOUND THEN
      RAISE EXCEPTION 'table "%" would have code of other roles run with your rights', old.relname USING ERRCODE = 'insufficient_privilege',
        DETAIL = format('In "%s": %s.', part.statement, part.problem), HINT = format('Let the owner of the table distribute it: SET ROLE %s.', old.owner);
    END IF;
  END IF;
  SELECT string_agg(format('"%s" of %s', f.key->>'name', f.referencing), ', ' ORDER BY f.referencing::text, f.key->>'name') AS names, array_agg(DISTINCT f.referencing) AS tabs,
      array_agg(format('ALTER TABLE %s DROP CONSTRAINT %I', f.referencing, f.key->>'name')) AS statements INTO part
    FROM rdma.foreign_keys(old.members::regclass[]) f WHERE f.referencing <> ALL (old.members);
  IF part.names IS NOT NULL THEN
    message := format(CASE WHEN force THEN 'foreign keys that refer to table "%s" are dropped' ELSE 'table "%s" cannot be distributed alone' END, old.relname);
    detail := format('Foreign keys of other tables refer to it: %s.', part.names);
    remedy := format('Have all of them distributed in one step: SELECT rdma.distribute_tables(%L, %L, ...).', server, ARRAY[tab] || part.tabs);
    PERFORM rdma.report_loss(force, message, detail, remedy);
    FOREACH statement IN ARRAY part.statements LOOP
      EXECUTE statement;
    END LOOP;
  END IF;
  foreign_keys := ARRAY(SELECT f.key FROM rdma.foreign_keys(old.members::regclass[]) f);
  SELECT rdma.dependents(old.members) AS names INTO part;
  IF part.names IS NOT NULL THEN
    RAISE EXCEPTION 'table "%" cannot be distributed', old.relname USING ERRCODE = 'dependent_objects_still_exist',
      DETAIL = format('It would be dropped, and these depend on it: %s.', part.names), HINT = 'Drop them, and create them again afterwards.';
  END IF;
  IF distributed_by IS NOT NULL THEN
    options := format(', distributed_by %L', distributed_by);
  ELSIF replicated THEN
    options := ', replicated ''true''';
  END IF;

  -- Defaults and identity stay here, where sequences are; the nodes compute what is generated.
  SELECT string_agg(format('%I %s%s%s%s', a.attname, format_type(a.atttypid, a.atttypmod),
        ' COLLATE ' || CASE WHEN a.attcollation <> t.typcollation THEN quote_ident(cn.nspname) || '.' || quote_ident(co.collname) END,
        CASE WHEN a.attgenerated <> '' THEN ' GENERATED ALWAYS AS (' || pg_get_expr(d.adbin, d.adrelid) || ') STORED'
          ELSE ' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid) END,
        CASE WHEN a.attnotnull THEN ' NOT NULL' END), ', ' ORDER BY a.attnum),
      string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) FILTER (WHERE a.attgenerated = '')
    INTO local_columns, names
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
      LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
      LEFT JOIN pg_collation co ON co.oid = a.attcollation LEFT JOIN pg_namespace cn ON cn.oid = co.collnamespace
    WHERE a.attrelid = tab AND a.attnum > 0 AND NOT a.attisdropped;

  FOR schema IN SELECT DISTINCT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = ANY (old.members) ORDER BY n.nspname LOOP
    PERFORM rdma.run_on(n.node, format('CREATE SCHEMA %I', schema))
      FROM rdma.run_on(server, format('SELECT to_regnamespace(%L) IS NULL', quote_ident(schema))) n WHERE n.answer = 't';
    SELECT n.node, n.answer AS role INTO part
      FROM rdma.run_on(server, format('SELECT CASE WHEN NOT pg_catalog.has_schema_privilege(%L, ''CREATE'') THEN current_user END', schema)) n
      WHERE n.answer IS NOT NULL ORDER BY n.node LIMIT 1;
    IF FOUND THEN
      RAISE EXCEPTION 'role "%" cannot create tables in schema "%" on server "%"', part.role, schema, part.node USING ERRCODE = 'insufficient_privilege',
        HINT = format('On the node: GRANT CREATE ON SCHEMA %I TO %I.', schema, part.role);
    END IF;
  END LOOP;
  -- Defaults and identity stay here, where sequences are; the nodes compute what is generated.
  FOREACH statement IN ARRAY rdma.table_statements(tab) LOOP
    PERFORM rdma.define_on(server, format('%I.%I', old.nspname, old.relname), regexp_replace(statement, '^CREATE UNLOGGED ', 'CREATE '), lent);
  END LOOP;
  -- Indexes are built over all rows at once; what is unique is so on each node.
  indexes := rdma.index_statements(tab);
  SELECT coalesce(array_agg(format('CREATE STATISTICS %I.%I', old.nspname, e.stxname) || left(substr(d.text, length(format('CREATE STATISTICS %I.%I', n.nspname, e.stxname)) + 1), - length(tab::text)) ORDER BY e.stxname), '{}')
    INTO statistics FROM pg_statistic_ext e JOIN pg_namespace n ON n.oid = e.stxnamespace, LATERAL pg_get_statisticsobjdef(e.oid) d(text) WHERE e.stxrelid = tab;

  -- The foreign table takes the table's place.
  moving := rdma.aside(tab);
  EXECUTE format('ALTER TABLE %s RENAME TO %I', tab, moving);
  EXECUTE format('CREATE FOREIGN TABLE %I.%I (%s) SERVER %I OPTIONS (schema_name %L, table_name %L%s)', old.nspname, old.relname,
    local_columns, server, old.nspname, old.relname, options);
  EXECUTE format('ALTER FOREIGN TABLE %I.%I OWNER TO %s', old.nspname, old.relname, old.owner);
  keys := coalesce(rdma.distribution_key(format('%I.%I', old.nspname, old.relname)::regclass), '{}');
  IF NOT replicated AND rdma.named_nodes(server) IS NOT NULL THEN
    FOR message, detail, remedy IN SELECT format('%s "%s" of table "%s" %s on each node, not between nodes', k.kind, k.name, CASE WHEN k.tab = old.oid THEN old.relname ELSE (SELECT relname FROM pg_class WHERE oid = k.tab) END,
          CASE WHEN force THEN 'holds' ELSE 'would hold' END), k.because, 'Drop it, distribute the table by columns of it, or have the table replicated.'
        FROM rdma.unkept_keys(old.members, keys) k LOOP
      PERFORM rdma.report_loss(force, message, detail, remedy);
    END LOOP;
  END IF;
  foreign_keys := rdma.kept_foreign_keys(server, foreign_keys, force);
  FOR part IN SELECT conname, pg_get_constraintdef(oid) AS definition FROM pg_constraint WHERE conrelid = tab AND contype = 'c' ORDER BY conname LOOP
    EXECUTE format('ALTER FOREIGN TABLE %I.%I ADD CONSTRAINT %I %s', old.nspname, old.relname, part.conname, part.definition);
  END LOOP;
  EXECUTE format('INSERT INTO %I.%I%s SELECT %s FROM %I.%I', old.nspname, old.relname, ' (' || names || ')', names, old.nspname, moving);
  GET DIAGNOSTICS moved = ROW_COUNT;
  PERFORM rdma.move_identity(tab, format('%I.%I', old.nspname, old.relname)::regclass);
  IF cardinality(keys) > 0 THEN
    PERFORM rdma.protect_table(format('%I.%I', old.nspname, old.relname)::regclass);
  END IF;

  FOREACH statement IN ARRAY indexes LOOP
    PERFORM rdma.define_on(server, format('%I.%I', old.nspname, old.relname), statement, lent);
  END LOOP;
  PERFORM rdma.run_on(server, rdma.foreign_key_statement(k)) FROM unnest(foreign_keys) k;
  PERFORM rdma.run_on(server, format('ANALYZE %I.%I', old.nspname, old.relname));

  FOR part IN
    SELECT d.objid::regclass AS seq, a.attname FROM pg_depend d JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
      WHERE d.refobjid = tab AND d.refclassid = 'pg_class'::regclass AND d.classid = 'pg_class'::regclass AND d.deptype = 'a'
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
    SELECT a.attname, CASE WHEN grantee = 0 THEN 'PUBLIC' ELSE grantee::regrole::text END AS role, privilege_type, is_grantable
      FROM pg_attribute a, aclexplode(a.attacl) WHERE a.attrelid = tab AND a.attnum > 0 AND NOT a.attisdropped
  LOOP
    EXECUTE format('GRANT %s (%I) ON %I.%I TO %s%s', part.privilege_type, part.attname, old.nspname, old.relname, part.role,
      CASE WHEN part.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END);
  END LOOP;
  IF old.comment IS NOT NULL THEN
    EXECUTE format('COMMENT ON FOREIGN TABLE %I.%I IS %L', old.nspname, old.relname, old.comment);
  END IF;
  FOR part IN SELECT attname, col_description(tab, attnum) AS comment FROM pg_attribute WHERE attrelid = tab AND attnum > 0 AND NOT attisdropped AND col_description(tab, attnum) IS NOT NULL LOOP
    EXECUTE format('COMMENT ON COLUMN %I.%I.%I IS %L', old.nspname, old.relname, part.attname, part.comment);
  END LOOP;
  EXECUTE format('DROP TABLE %I.%I', old.nspname, moving);
  FOREACH statement IN ARRAY statistics LOOP
    EXECUTE format('%s%I.%I', statement, old.nspname, old.relname);
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
        USING HINT = format('Give role %s a user mapping, and rights on the nodes. Then: ANALYZE %I.%I.', old.owner, old.nspname, old.relname);
    END;
  END IF;
  RETURN moved;
END $function$;
COMMENT ON FUNCTION rdma.distribute_table(regclass, name, text, boolean, boolean) IS 'makes a local table one of a server with nodes: creates it on the nodes, moves its rows there, and puts a foreign table in its place; returns how many rows it moved. force: warns of constraints that it cannot keep, instead of failing';

-- Foreign keys between tables that become distributed together are there again at the end.
CREATE FUNCTION rdma.distribute_tables(server name, tabs regclass[], distributed_by text[], replicated regclass[] DEFAULT '{}', force boolean DEFAULT false, OUT relation regclass, OUT rows bigint)
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
    RAISE EXCEPTION 'there are % tables and % keys to distribute them by', cardinality(tabs), cardinality(distributed_by) USING ERRCODE = 'invalid_parameter_value';
  END IF;
  SELECT t AS tab INTO part FROM unnest(tabs || replicated) t GROUP BY t HAVING count(*) > 1 LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'table % is named twice', part.tab USING ERRCODE = 'invalid_parameter_value';
  END IF;
  FOR part IN SELECT f.* FROM rdma.foreign_keys(tabs || replicated) f WHERE f.referencing = ANY (tabs || replicated) AND f.referenced = ANY (tabs || replicated) AND f.referencing <> f.referenced LOOP
    foreign_keys := foreign_keys || part.key;
    EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', part.referencing, part.key->>'name');
  END LOOP;
  FOR part IN
    SELECT t.tab, t.key, t.copied, format('%I.%I', n.nspname, c.relname) AS name
      FROM (SELECT tab, key, false AS copied, place FROM unnest(tabs, distributed_by) WITH ORDINALITY d(tab, key, place)
          UNION ALL SELECT tab, NULL, true, cardinality(tabs) + place FROM unnest(replicated) WITH ORDINALITY r(tab, place)) t
        LEFT JOIN pg_class c ON c.oid = t.tab LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
      ORDER BY t.place
  LOOP
    rows := rdma.distribute_table(part.tab, server, part.key, part.copied, force);
    relation := part.name::regclass;
    RETURN NEXT;
  END LOOP;
  foreign_keys := rdma.kept_foreign_keys(server, foreign_keys, force);
  PERFORM rdma.run_on(server, rdma.foreign_key_statement(k)) FROM unnest(foreign_keys) k;
END $function$;
COMMENT ON FUNCTION rdma.distribute_tables(name, regclass[], text[], regclass[], boolean) IS 'turns local tables into tables of a server with nodes in one step, with the foreign keys between them. force: warns of constraints that it cannot keep, instead of failing';

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

-- rdma.stat_peers has a column more, by the same way.

CREATE OR REPLACE VIEW rdma.stat_peers AS SELECT NULL::integer AS peer, NULL::text AS node, NULL::text AS host, NULL::integer AS port,
  NULL::text AS direction, NULL::text AS state, NULL::text AS transport, NULL::timestamptz AS connected, NULL::integer AS connections,
  NULL::double precision AS handshake_ms, NULL::integer AS round_trip_us, NULL::integer AS usual_round_trip_us, NULL::bigint AS bandwidth,
  NULL::bigint AS bytes_sent, NULL::bigint AS bytes_received, NULL::bigint AS flows_opened, NULL::integer AS segments,
  NULL::text AS shared_buffers, NULL::text AS error;
DROP FUNCTION rdma.stat_peers();
CREATE FUNCTION rdma.stat_peers(
  OUT peer integer, OUT node text, OUT host text, OUT port integer, OUT direction text, OUT state text, OUT transport text,
  OUT connected timestamptz, OUT connections integer, OUT handshake_ms double precision, OUT round_trip_us integer,
  OUT usual_round_trip_us integer, OUT bandwidth bigint, OUT bytes_sent bigint, OUT bytes_received bigint, OUT flows_opened bigint, OUT segments integer, OUT shared_buffers text, OUT error text,
  OUT encryption text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_stat_peers' LANGUAGE C VOLATILE STRICT PARALLEL SAFE ROWS 4;
REVOKE ALL ON FUNCTION rdma.stat_peers() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION rdma.stat_peers() TO pg_read_all_stats;
COMMENT ON FUNCTION rdma.stat_peers() IS 'connections of this node''s engine to others';
CREATE OR REPLACE VIEW rdma.stat_peers AS SELECT * FROM rdma.stat_peers();
COMMENT ON COLUMN rdma.stat_peers.encryption IS 'how rows are encrypted on the network (rdma_fdw.encryption); none: who reads the network reads the rows; trusted network: the same, but rdma_fdw.trusted_networks lists it; NULL: they cross no network';
COMMENT ON COLUMN rdma.stat_peers.usual_round_trip_us IS 'the shortest of the last eight round trips, changed when it differs by a quarter; what the planner counts on with rdma_fdw.measured_costs';
COMMENT ON COLUMN rdma.stat_peers.bandwidth IS 'bytes per second that pulls from this peer got while both ends waited for the network, smoothed; NULL: none did; the planner counts on the next power of two with rdma_fdw.measured_costs';
COMMENT ON COLUMN rdma.stat_peers.error IS 'why it failed; of one that is connected: why it goes over TCP instead of RDMA (rdma_fdw.provider = auto); NULL: nothing is wrong';

-- Parallel workers of a data node share the rows of an exchange. They run nothing but the one path that is made for them; to the
-- planner that is a scan of a function that must be safe.

ALTER FUNCTION rdma.exchange(text, text) PARALLEL SAFE;

DROP FUNCTION rdma.exchange_stats();
CREATE FUNCTION rdma.exchange_stats(
  OUT number integer, OUT rows_out bigint, OUT bytes_out bigint, OUT rows_in bigint, OUT bytes_in bigint,
  OUT rows_kept_local bigint, OUT stalls bigint, OUT spilled_bytes bigint, OUT transport text, OUT process_rows text,
  OUT encryption text, OUT rows_filtered bigint, OUT taken_rows text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_exchange_stats' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 2;
COMMENT ON FUNCTION rdma.exchange_stats() IS 'internal: what the exchanges of this session''s last distributed statement moved';

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
    WHEN 'write' THEN ARRAY['store', 'join_set']
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

-- Which nodes a server with nodes stands for, by numbers that never change, and the number of each bucket's node. Option "nodes" names
-- them, too, and its order has no meaning. The database of each node has a UUID for its part, which sessions ask for.

CREATE TABLE rdma.placement (
  server name PRIMARY KEY,
  set_id uuid NOT NULL UNIQUE DEFAULT gen_random_uuid(),
  version bigint NOT NULL DEFAULT 1,
  nodes name[] NOT NULL,
  members uuid[] NOT NULL,
  buckets smallint[] NOT NULL,
  serverid oid,
  nodeids oid[] NOT NULL,
  versions bigint[] NOT NULL,
  timelines bigint[] NOT NULL
);
COMMENT ON TABLE rdma.placement IS 'one row per server with nodes: which nodes its rows lie on';
COMMENT ON COLUMN rdma.placement.server IS 'the server with nodes';
COMMENT ON COLUMN rdma.placement.set_id IS 'by which the databases of the nodes know this set of nodes';
COMMENT ON COLUMN rdma.placement.version IS 'of the placement: each move of rows between nodes makes a new one';
COMMENT ON COLUMN rdma.placement.nodes IS 'servers of the nodes: number 0 first';
COMMENT ON COLUMN rdma.placement.members IS 'what the database of each node was given by rdma.join_set; NULL: not known yet';
COMMENT ON COLUMN rdma.placement.buckets IS 'the number of the node that each bucket lies on: a row is in the bucket rdma.hash_node(cardinality(buckets), key)';
COMMENT ON COLUMN rdma.placement.serverid IS 'the server''s OID, to follow it when it is renamed';
COMMENT ON COLUMN rdma.placement.nodeids IS 'the same of the nodes';
COMMENT ON COLUMN rdma.placement.versions IS 'the version with which what lies on each node changed last, as in its rdma.membership';
COMMENT ON COLUMN rdma.placement.timelines IS 'the newest timeline that each node was seen on: a server on an older one was replaced by a standby; 0: only the first was seen';
SELECT pg_extension_config_dump('rdma.placement', '');

CREATE FUNCTION rdma.named_nodes(server name)
RETURNS name[]
AS 'MODULE_PATHNAME', 'rdma_named_nodes' LANGUAGE C STABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rdma.buckets(server name)
RETURNS smallint[]
AS 'MODULE_PATHNAME', 'rdma_buckets' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION rdma.buckets(name) IS 'the place, as in rdma.nodes, of the node on which each bucket of a server''s distributed tables lies; a row is in bucket rdma.hash_node(number of buckets, key), from 0';
COMMENT ON FUNCTION rdma.named_nodes(name) IS 'internal: the names in option nodes of a server, as they stand there';

-- A row that is restored from a dump takes the place of the one that CREATE SERVER made.
CREATE FUNCTION rdma.complete_placement()
RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
  DELETE FROM rdma.placement WHERE server = NEW.server;
  NEW.nodes := coalesce(NEW.nodes, rdma.named_nodes(NEW.server));
  NEW.members := coalesce(NEW.members, array_fill(NULL::uuid, ARRAY[cardinality(NEW.nodes)]));
  -- at least 840 buckets, and so many that they lie on the nodes in turn: where the remainder of a hash by the number of nodes says
  NEW.buckets := coalesce(NEW.buckets, ARRAY(SELECT bucket % n.count FROM (SELECT cardinality(NEW.nodes) AS count) n,
    generate_series(0, n.count * ceil(840.0 / n.count)::integer - 1) bucket ORDER BY bucket));
  NEW.versions := coalesce(NEW.versions, array_fill(NEW.version, ARRAY[cardinality(NEW.nodes)]));
  NEW.timelines := coalesce(NEW.timelines, array_fill(0::bigint, ARRAY[cardinality(NEW.nodes)]));
  NEW.serverid := (SELECT oid FROM pg_foreign_server WHERE srvname = NEW.server);
  NEW.nodeids := ARRAY(SELECT s.oid FROM unnest(NEW.nodes) WITH ORDINALITY n(name, number) LEFT JOIN pg_foreign_server s ON s.srvname = n.name ORDER BY n.number);
  RETURN NEW;
END $function$;
COMMENT ON FUNCTION rdma.complete_placement() IS 'internal: fills in what a new row of rdma.placement lacks';
CREATE TRIGGER complete BEFORE INSERT ON rdma.placement FOR EACH ROW EXECUTE FUNCTION rdma.complete_placement();

CREATE FUNCTION rdma.placement_changed()
RETURNS trigger
AS 'MODULE_PATHNAME', 'rdma_placement_changed' LANGUAGE C;
COMMENT ON FUNCTION rdma.placement_changed() IS 'internal: tells all sessions to read rdma.placement again';
CREATE TRIGGER changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON rdma.placement FOR EACH STATEMENT EXECUTE FUNCTION rdma.placement_changed();
ALTER TABLE rdma.placement ENABLE ALWAYS TRIGGER complete;
ALTER TABLE rdma.placement ENABLE ALWAYS TRIGGER changed;

-- CREATE SERVER puts the nodes on record, in the order of the option. ALTER SERVER may name other nodes only while there are no tables.
CREATE FUNCTION rdma.keep_placement()
RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  changed record;
  old record;
  names name[];
BEGIN
  FOR changed IN
    SELECT s.oid, s.srvname, c.command_tag = 'CREATE SERVER' AS created,
        EXISTS (SELECT FROM pg_foreign_data_wrapper w JOIN pg_proc h ON h.oid = w.fdwhandler WHERE w.oid = s.srvfdw AND h.proname = 'rdma_fdw_handler') AS ours
      FROM pg_event_trigger_ddl_commands() c JOIN pg_foreign_server s ON s.oid = c.objid WHERE c.classid = 'pg_foreign_server'::regclass
  LOOP
    CONTINUE WHEN NOT changed.ours;

    -- Records follow servers that are renamed.
    SELECT p.server INTO old FROM rdma.placement p WHERE p.serverid = changed.oid AND p.server <> changed.srvname
      AND NOT EXISTS (SELECT FROM pg_foreign_server WHERE srvname = p.server);
    IF FOUND AND NOT changed.created THEN
      DELETE FROM rdma.placement WHERE server = changed.srvname;
      UPDATE rdma.placement SET server = changed.srvname WHERE server = old.server;
    END IF;
    FOR old IN
      SELECT p.server, n.number::integer AS number FROM rdma.placement p, unnest(p.nodes, p.nodeids) WITH ORDINALITY n(name, oid, number)
        WHERE n.oid = changed.oid AND n.name <> changed.srvname AND NOT changed.created
          AND NOT EXISTS (SELECT FROM pg_foreign_server WHERE srvname = n.name)
    LOOP
      UPDATE rdma.placement SET nodes[old.number] = changed.srvname WHERE server = old.server;
    END LOOP;

    -- The lock waits for rdma.distribute_table, whose table is seen then.
    names := rdma.named_nodes(changed.srvname);
    SELECT * INTO old FROM rdma.placement p WHERE p.server = changed.srvname AND NOT changed.created FOR UPDATE;
    IF old.server IS NOT NULL AND names @> old.nodes AND names <@ old.nodes THEN
      UPDATE rdma.placement p SET serverid = changed.oid, nodeids = n.ids
        FROM (SELECT array_agg(s.oid ORDER BY n.number) AS ids FROM unnest(old.nodes) WITH ORDINALITY n(name, number) LEFT JOIN pg_foreign_server s ON s.srvname = n.name) n
        WHERE p.server = old.server AND (p.serverid IS DISTINCT FROM changed.oid OR p.nodeids <> n.ids);
    ELSIF NOT EXISTS (SELECT FROM pg_foreign_table WHERE ftserver = changed.oid) THEN
      DELETE FROM rdma.placement WHERE server = changed.srvname;
      IF names IS NOT NULL THEN
        INSERT INTO rdma.placement (server) VALUES (changed.srvname);
      END IF;
    ELSIF old.server IS NOT NULL THEN
      RAISE EXCEPTION 'nodes of server "%" cannot be changed while it has tables', changed.srvname USING ERRCODE = 'object_not_in_prerequisite_state',
        DETAIL = format('Rows of its tables lie on %s.', (SELECT string_agg(quote_ident(n), ', ') FROM unnest(old.nodes) n)),
        HINT = 'Create another server with these nodes, and distribute tables there. The order of the names has no meaning.';
    END IF;
  END LOOP;
END $function$;
COMMENT ON FUNCTION rdma.keep_placement() IS 'internal: keeps rdma.placement in step with servers';
CREATE EVENT TRIGGER rdma_keep_placement ON ddl_command_end WHEN TAG IN ('CREATE SERVER', 'ALTER SERVER') EXECUTE FUNCTION rdma.keep_placement();
ALTER EVENT TRIGGER rdma_keep_placement ENABLE ALWAYS;

-- What is on record about a server goes with it.
CREATE FUNCTION rdma.drop_placement()
RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
  DELETE FROM rdma.placement p USING pg_event_trigger_dropped_objects() d
    WHERE d.classid = 'pg_foreign_server'::regclass AND d.object_name = p.server;
END $function$;
COMMENT ON FUNCTION rdma.drop_placement() IS 'internal: drops what is on record about servers that are dropped';
CREATE EVENT TRIGGER rdma_drop_placement ON sql_drop WHEN TAG IN ('DROP SERVER', 'DROP OWNED', 'DROP FOREIGN DATA WRAPPER')
  EXECUTE FUNCTION rdma.drop_placement();
ALTER EVENT TRIGGER rdma_drop_placement ENABLE ALWAYS;

CREATE FUNCTION rdma.record_nodes(server name)
RETURNS void
AS 'MODULE_PATHNAME', 'rdma_record_nodes' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma.record_nodes(name) IS 'puts the nodes of a server on record, in the order in which option nodes has them, if they are not on record';

CREATE FUNCTION rdma.enroll_nodes(server name)
RETURNS integer
AS 'MODULE_PATHNAME', 'rdma_enroll_nodes' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma.enroll_nodes(name) IS 'has the databases of a server''s nodes remember which nodes they are, so that no other can be taken for one of them; returns how many did not know it yet';

CREATE FUNCTION rdma.replace_node(server name, node name)
RETURNS void
AS 'MODULE_PATHNAME', 'rdma_replace_node' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma.replace_node(name, name) IS 'the database that the server of a node leads to now has taken the node''s place, with all of its rows';

-- The tables of each node have the map in their constraint rdma_placement. Its text is read as numbers, and never run.
CREATE FUNCTION rdma.buckets_of_nodes(server name)
RETURNS smallint[]
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  part record;
  tab record;
  said text;
  map smallint[];
  own integer;
  count integer;
  claimed boolean;
  buckets smallint[];
BEGIN
  FOR part IN SELECT n.name AS node, n.number - 1 AS number, cardinality(p.buckets) AS buckets FROM rdma.placement p, unnest(p.nodes) WITH ORDINALITY n(name, number) WHERE p.server = buckets_of_nodes.server ORDER BY n.number LOOP
    claimed := false;
    FOR tab IN
      SELECT c.oid::regclass AS name, coalesce(max(option_value) FILTER (WHERE option_name = 'schema_name'), n.nspname) AS schema_name, coalesce(max(option_value) FILTER (WHERE option_name = 'table_name'), c.relname) AS table_name
        FROM pg_foreign_table f JOIN pg_foreign_server s ON s.oid = f.ftserver JOIN pg_class c ON c.oid = f.ftrelid JOIN pg_namespace n ON n.oid = c.relnamespace, pg_options_to_table(f.ftoptions)
        WHERE s.srvname = server GROUP BY c.oid, n.nspname, c.relname HAVING bool_or(option_name = 'distributed_by') ORDER BY n.nspname, c.relname
    LOOP
      SELECT r.answer INTO said FROM rdma.run_on(part.node, format('SELECT (SELECT pg_catalog.pg_get_constraintdef(k.oid) FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_class c ON c.oid = k.conrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE k.conname = ''rdma_placement'' AND k.contype = ''c'' AND n.nspname = %L AND c.relname = %L)', tab.schema_name, tab.table_name)) r;
      CONTINUE WHEN said IS NULL;
      -- ('{0,1,...}'::smallint[])[rdma.hash_node(840, id) + 1] = 1, or rdma.hash_node(2, id) = 1
      own := (regexp_match(said, ' = ([0-9]{1,5})\)+(?: NOT VALID)?$'))[1]::integer;
      count := (regexp_match(said, 'hash_node\(([0-9]{1,5}), '))[1]::integer;
      map := ('{' || (regexp_match(said, '^CHECK \(+''\{([0-9]{1,4}(?:,[0-9]{1,4})*)\}''::smallint\[\]'))[1] || '}')::smallint[];
      IF map IS NULL AND count > 0 AND part.buckets % count = 0 THEN
        map := ARRAY(SELECT (b % count)::smallint FROM generate_series(0, part.buckets - 1) b);
      END IF;
      IF own IS DISTINCT FROM part.number OR map IS NULL THEN
        RAISE EXCEPTION 'constraint "rdma_placement" of table % on server "%" does not say where rows lie', tab.name, part.node USING ERRCODE = 'object_not_in_prerequisite_state', DETAIL = format('It is %s', said);
      END IF;
      buckets := coalesce(buckets, array_fill(NULL::smallint, ARRAY[cardinality(map)]));
      -- a node's constraints are as old as the last change of its own buckets, so each is asked for these
      IF cardinality(map) <> cardinality(buckets) OR EXISTS (SELECT FROM unnest(map, buckets) b(here, known) WHERE CASE WHEN claimed THEN (here = own) <> (known IS NOT DISTINCT FROM own) ELSE here = own AND known IS NOT NULL END) THEN
        RAISE EXCEPTION 'nodes of server "%" disagree about the buckets of server "%"', server, part.node USING ERRCODE = 'object_not_in_prerequisite_state', DETAIL = format('It follows from constraint "rdma_placement" of table %s.', tab.name);
      END IF;
      buckets := ARRAY(SELECT CASE WHEN here = own THEN here ELSE known END FROM unnest(map, buckets) WITH ORDINALITY b(here, known, place) ORDER BY place);
      claimed := true;
    END LOOP;
    IF NOT claimed THEN
      RAISE EXCEPTION 'server "%" does not say which buckets of server "%" it has', part.node, server USING ERRCODE = 'object_not_in_prerequisite_state',
        DETAIL = 'Constraint "rdma_placement" of a distributed table says it, and no foreign table of the server stands for such a table.',
        HINT = 'CREATE FOREIGN TABLE for one of them, with the option "distributed_by".';
    END IF;
  END LOOP;
  IF array_position(buckets, NULL) IS NOT NULL THEN
    RAISE EXCEPTION 'no node of server "%" has bucket %', server, array_position(buckets, NULL) - 1 USING ERRCODE = 'object_not_in_prerequisite_state',
      HINT = 'Rows may lie on a node that is not on record here. Restore a backup that knows it.';
  END IF;
  RETURN buckets;
END $function$;
COMMENT ON FUNCTION rdma.buckets_of_nodes(name) IS 'internal: the number of the node that each bucket lies on, by the constraints of the nodes'' tables';

CREATE FUNCTION rdma.read_placement(server name)
RETURNS void
AS 'MODULE_PATHNAME', 'rdma_read_placement' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma.read_placement(name) IS 'reads from the nodes where the rows of a server lie, after the coordinator was restored from a backup that is older than a move of rows';

-- A row's node is the one on which its bucket lies.

CREATE FUNCTION rdma.placement_conditions(tab regclass, buckets smallint[] DEFAULT NULL,
  OUT place integer, OUT node name, OUT relation text, OUT replicated boolean, OUT condition text, OUT key text)
RETURNS SETOF record
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  options record;
  nodes bigint;
BEGIN
  SELECT s.srvname, format('%I.%I', coalesce(max(o.option_value) FILTER (WHERE o.option_name = 'schema_name'), n.nspname),
        coalesce(max(o.option_value) FILTER (WHERE o.option_name = 'table_name'), c.relname)) AS relation,
      coalesce(max(o.option_value) FILTER (WHERE o.option_name = 'replicated'), 'false')::boolean AS replicated
    INTO options
    FROM pg_foreign_table f JOIN pg_foreign_server s ON s.oid = f.ftserver JOIN pg_class c ON c.oid = f.ftrelid
      JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw
      JOIN pg_proc h ON h.oid = w.fdwhandler AND h.proname = 'rdma_fdw_handler'
      LEFT JOIN LATERAL pg_options_to_table(f.ftoptions) o ON true
    WHERE f.ftrelid = tab GROUP BY s.srvname, n.nspname, c.relname;
  IF NOT FOUND THEN
    RAISE EXCEPTION '"%" is not a foreign table of rdma_fdw', tab USING ERRCODE = 'wrong_object_type';
  END IF;

  -- remote names of the key's columns, in the option's order
  IF NOT options.replicated THEN
    SELECT string_agg(quote_ident(coalesce((SELECT option_value FROM pg_options_to_table(a.attfdwoptions) WHERE option_name = 'column_name'), a.attname)),
        ', ' ORDER BY k.place)
      INTO key
      FROM unnest(rdma.distribution_key(tab)) WITH ORDINALITY AS k(name, place)
        LEFT JOIN pg_attribute a ON a.attrelid = tab AND a.attname = k.name AND NOT a.attisdropped;
  END IF;
  relation := options.relation;
  replicated := options.replicated;
  buckets := coalesce(buckets, rdma.buckets(options.srvname), '{0}');
  SELECT count(*) INTO nodes FROM rdma.nodes(options.srvname);
  FOR place, node IN SELECT n.place, n.node FROM rdma.nodes(options.srvname) n ORDER BY n.place LOOP
    IF cardinality(buckets) % nodes = 0 AND NOT EXISTS (SELECT FROM unnest(buckets) WITH ORDINALITY b(place, number) WHERE b.place <> (b.number - 1) % nodes) THEN
      condition := format('rdma.hash_node(%s, %s) = %s', nodes, key, place);
    ELSE
      condition := format('(%L::smallint[])[rdma.hash_node(%s, %s) + 1] = %s', buckets, cardinality(buckets), key, place);
    END IF;
    IF key IS NULL THEN
      condition := NULL;
    END IF;
    RETURN NEXT;
  END LOOP;
END $function$;
COMMENT ON FUNCTION rdma.placement_conditions(regclass, smallint[]) IS 'internal: per node of a foreign table, its table there and what holds for each of its rows if they lie as option distributed_by says';

CREATE OR REPLACE FUNCTION rdma.check_distribution(tab regclass, OUT node name, OUT rows bigint, OUT misplaced bigint, OUT differs boolean)
RETURNS SETOF record
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  part record;
  answer numeric[];
  first_answer numeric[];
BEGIN
  FOR part IN SELECT * FROM rdma.placement_conditions(tab) LOOP
    node := part.node;
    IF part.replicated THEN
      answer := rdma.ask_node(part.node, format('SELECT ARRAY[count(*), sum(hashtextextended(t::text, 0))] FROM %s t', part.relation), NULL::numeric[]);
      first_answer := coalesce(first_answer, answer);
      differs := answer <> first_answer;
    ELSE
      answer := rdma.ask_node(part.node, format('SELECT ARRAY[count(*), count(*) FILTER (WHERE NOT (%s))] FROM %s', coalesce(part.condition, 'true'), part.relation), NULL::bigint[]);
      misplaced := CASE WHEN part.condition IS NOT NULL THEN answer[2]::bigint END;
    END IF;
    rows := answer[1]::bigint;
    RETURN NEXT;
  END LOOP;
END $function$;

CREATE FUNCTION rdma.sample_tables(server name)
RETURNS SETOF text
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  tab regclass;
  part record;
  answer text;
  first_answer text;
BEGIN
  FOR tab IN SELECT f.ftrelid FROM pg_foreign_table f JOIN pg_foreign_server s ON s.oid = f.ftserver WHERE s.srvname = server
      AND EXISTS (SELECT FROM pg_options_to_table(f.ftoptions) WHERE option_name IN ('distributed_by', 'replicated')) ORDER BY f.ftrelid::regclass::text LOOP
    first_answer := NULL;
    -- what the caller may not read is not looked at
    BEGIN
      FOR part IN SELECT * FROM rdma.placement_conditions(tab) c WHERE c.replicated OR c.condition IS NOT NULL LOOP
        IF part.replicated THEN
          SELECT r.answer INTO answer FROM rdma.run_on(part.node, format('SELECT CASE WHEN count(*) > 100000 THEN ''many'' ELSE concat_ws('','', count(*), sum(hashtextextended(t::text, 0))) END FROM (SELECT * FROM %s LIMIT 100001) t', part.relation)) r;
          first_answer := coalesce(first_answer, answer);
          IF answer <> first_answer THEN
            RETURN NEXT format('%s on %s differs from other copies', tab, part.node);
          END IF;
        ELSE
          SELECT r.answer INTO answer FROM rdma.run_on(part.node, format('SELECT count(*) FROM (SELECT * FROM %s LIMIT 100000) t WHERE NOT (%s)', part.relation, part.condition)) r;
          IF answer <> '0' THEN
            RETURN NEXT format('%s on %s has %s rows of other nodes', tab, part.node, answer);
          END IF;
        END IF;
      END LOOP;
    EXCEPTION WHEN insufficient_privilege THEN
      NULL;
    END;
  END LOOP;
END $function$;
COMMENT ON FUNCTION rdma.sample_tables(name) IS 'internal: looks at the first 100000 rows of each table on each node of a server: what does not lie as the options distributed_by and replicated say';

CREATE FUNCTION rdma.column_differences(server name, OUT missing text, OUT types text)
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  part record;
  columns jsonb;
  answer jsonb;
BEGIN
  SELECT jsonb_agg(jsonb_build_object('tab', c.oid::regclass::text, 'schema', coalesce(o.schema_name, n.nspname), 'name', coalesce(o.table_name, c.relname),
        'col', coalesce((SELECT option_value FROM pg_options_to_table(a.attfdwoptions) WHERE option_name = 'column_name'), a.attname), 'here', format_type(a.atttypid, NULL),
        'type', t.typname, 'type_schema', tn.nspname) ORDER BY n.nspname, c.relname, a.attnum)
    INTO columns
    FROM pg_foreign_table f JOIN pg_foreign_server s ON s.oid = f.ftserver JOIN pg_class c ON c.oid = f.ftrelid JOIN pg_namespace n ON n.oid = c.relnamespace
      JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped JOIN pg_type t ON t.oid = a.atttypid JOIN pg_namespace tn ON tn.oid = t.typnamespace,
      LATERAL (SELECT max(option_value) FILTER (WHERE option_name = 'schema_name') AS schema_name, max(option_value) FILTER (WHERE option_name = 'table_name') AS table_name FROM pg_options_to_table(f.ftoptions)) o
    WHERE s.srvname = server;
  FOR part IN SELECT n.node FROM rdma.nodes(server) n WHERE columns IS NOT NULL ORDER BY n.place LOOP
    answer := rdma.ask_node(part.node, format($query$
      SELECT jsonb_build_object('missing', string_agg(DISTINCT concat_ws(' ', CASE WHEN r.oid IS NULL THEN 'table of' ELSE 'column ' || quote_ident(e.col) || ' of' END, e.tab), ', ') FILTER (WHERE a.attnum IS NULL),
          'types', string_agg(format('%%s.%%I is %%s, not %%s', e.tab, e.col, format_type(t.oid, NULL), e.here), ', ' ORDER BY e.tab, e.col) FILTER (WHERE (t.typname, tn.nspname) <> (e.type, e.type_schema)))
        FROM jsonb_to_recordset(%L) e(tab text, schema name, name name, col name, here text, type name, type_schema name)
          LEFT JOIN (pg_class r JOIN pg_namespace n ON n.oid = r.relnamespace) ON n.nspname = e.schema AND r.relname = e.name
          LEFT JOIN pg_attribute a ON a.attrelid = r.oid AND a.attname = e.col AND a.attnum > 0 AND NOT a.attisdropped LEFT JOIN (pg_type t JOIN pg_namespace tn ON tn.oid = t.typnamespace) ON t.oid = a.atttypid
      $query$, columns), '{}'::jsonb);
    missing := concat_ws('; ', missing, format('%s has no ', part.node) || (answer->>'missing'));
    types := concat_ws('; ', types, format('on %s ', part.node) || (answer->>'types'));
  END LOOP;
  missing := nullif(missing, '');
  types := nullif(types, '');
END $function$;
COMMENT ON FUNCTION rdma.column_differences(name) IS 'internal: columns of foreign tables of a server that its nodes lack or that have other types there, in words';

-- Rows that belong to another node are refused where they are written, whoever writes them.

CREATE FUNCTION rdma.protect_table(tab regclass)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp SET rdma_fdw.snapshot = each_node
AS $function$
DECLARE
  part record;
BEGIN
  FOR part IN SELECT * FROM rdma.placement_conditions(tab) LOOP
    IF part.condition IS NULL THEN
      RAISE EXCEPTION 'foreign table "%" is not distributed by a key', tab USING ERRCODE = 'wrong_object_type', HINT = 'Option "distributed_by" names the columns of the key.';
    END IF;
    PERFORM rdma.run_on(part.node, format('ALTER TABLE %s DROP CONSTRAINT IF EXISTS rdma_placement, ADD CONSTRAINT rdma_placement CHECK (%s)', part.relation, part.condition));
  END LOOP;
END $function$;
COMMENT ON FUNCTION rdma.protect_table(regclass) IS 'gives the table of each node a constraint that refuses rows which belong to another node; fails if there are such rows';

-- From postgres_fdw, with owners, privileges and statistics targets. Everything is made with the caller's rights, by the statements he could type himself.

CREATE FUNCTION rdma.grant_statement(privileges text, object text, grantee oid, grantable boolean)
RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $function$
  SELECT format('GRANT %s ON %s TO %s%s', privileges, object, CASE WHEN grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END,
    CASE WHEN grantable THEN ' WITH GRANT OPTION' ELSE '' END)
$function$;
COMMENT ON FUNCTION rdma.grant_statement(text, text, oid, boolean) IS 'internal: the statement that gives a role privileges';

CREATE OR REPLACE FUNCTION rdma.adopt_server(server name, into_schema name, new_server name DEFAULT NULL,
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

  SELECT * INTO known, unknown FROM rdma.known_options(old.srvoptions, 'pg_foreign_server'::regclass);
  EXECUTE format('CREATE SERVER %I%s%s FOREIGN DATA WRAPPER rdma_fdw%s', new_server, ' TYPE ' || quote_literal(old.srvtype),
    ' VERSION ' || quote_literal(old.srvversion), rdma.option_list(known));
  FOR statement IN SELECT rdma.grant_statement(g.privilege_type, format('FOREIGN SERVER %I', new_server), g.grantee, g.is_grantable)
    FROM aclexplode(old.srvacl) g WHERE g.grantee <> old.srvowner LOOP
    EXECUTE statement;
  END LOOP;
  kind := 'server'; name := new_server; remark := 'options left out: ' || array_to_string(unknown, ', ');
  RETURN NEXT;

  FOR mapping IN SELECT umuser, usename, umoptions FROM pg_user_mappings WHERE srvid = old.oid ORDER BY umuser LOOP
    SELECT * INTO known, unknown FROM rdma.known_options(mapping.umoptions, 'pg_user_mapping'::regclass);
    EXECUTE format('CREATE USER MAPPING FOR %s SERVER %I%s',
      CASE WHEN mapping.umuser = 0 THEN 'PUBLIC' ELSE quote_ident(mapping.usename) END, new_server, rdma.option_list(known));
    kind := 'user mapping'; name := mapping.usename; remark := 'options left out: ' || array_to_string(unknown, ', ');
    IF mapping.umoptions IS NULL AND NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
      remark := 'its options, if any, are hidden from you';
    END IF;
    RETURN NEXT;
  END LOOP;

  FOR tab IN
    SELECT c.oid, c.relname, n.nspname, c.relacl, c.relowner, c.relispartition, c.relhassubclass, f.ftoptions,
        (SELECT string_agg(DISTINCT i.inhparent::regclass::text, ', ') FROM pg_inherits i WHERE i.inhrelid = c.oid) AS parents,
        (SELECT string_agg(quote_ident(t.tgname), ', ' ORDER BY t.tgname) FROM pg_trigger t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal) AS triggers,
        obj_description(c.oid, 'pg_class') AS comment
      FROM pg_foreign_table f JOIN pg_class c ON c.oid = f.ftrelid JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE f.ftserver = old.oid ORDER BY n.nspname, c.relname
  LOOP
    columns := '';
    FOR part IN
      SELECT a.attname, format_type(a.atttypid, a.atttypmod) AS type, a.attnotnull, a.attgenerated, pg_get_expr(d.adbin, d.adrelid) AS expr,
          a.attfdwoptions, CASE WHEN a.attcollation <> t.typcollation THEN quote_ident(cn.nspname) || '.' || quote_ident(co.collname) END AS collation
        FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
          LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
          LEFT JOIN pg_collation co ON co.oid = a.attcollation LEFT JOIN pg_namespace cn ON cn.oid = co.collnamespace
        WHERE a.attrelid = tab.oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
    LOOP
      SELECT * INTO known, unknown FROM rdma.known_options(part.attfdwoptions, 'pg_attribute'::regclass);
      columns := columns || CASE WHEN columns = '' THEN '' ELSE ', ' END || format('%I %s%s%s%s%s', part.attname, part.type,
        rdma.option_list(known), ' COLLATE ' || part.collation,
        CASE WHEN part.expr IS NULL THEN '' WHEN part.attgenerated = '' THEN ' DEFAULT ' || part.expr
          ELSE ' GENERATED ALWAYS AS (' || part.expr || CASE part.attgenerated WHEN 's' THEN ') STORED' ELSE ') VIRTUAL' END END,
        CASE WHEN part.attnotnull THEN ' NOT NULL' END);
    END LOOP;
    FOR part IN SELECT conname, pg_get_constraintdef(oid) AS definition FROM pg_constraint WHERE conrelid = tab.oid AND contype = 'c' ORDER BY conname LOOP
      columns := columns || CASE WHEN columns = '' THEN '' ELSE ', ' END || format('CONSTRAINT %I %s', part.conname, part.definition);
    END LOOP;

    -- A table without these options stands for the remote table of its own schema and name.
    IF NOT EXISTS (SELECT FROM pg_options_to_table(tab.ftoptions) WHERE option_name = 'schema_name') THEN
      tab.ftoptions := array_append(tab.ftoptions, 'schema_name=' || tab.nspname);
    END IF;
    SELECT * INTO known, unknown FROM rdma.known_options(tab.ftoptions, 'pg_foreign_table'::regclass);
    EXECUTE format('CREATE FOREIGN TABLE %I.%I (%s) SERVER %I%s', into_schema, tab.relname, columns, new_server, rdma.option_list(known));
    IF tab.comment IS NOT NULL THEN
      EXECUTE format('COMMENT ON FOREIGN TABLE %I.%I IS %L', into_schema, tab.relname, tab.comment);
    END IF;
    kind := 'foreign table'; name := format('%I.%I', into_schema, tab.relname);
    FOR statement IN
      SELECT format('ALTER FOREIGN TABLE %s ALTER COLUMN %I SET %s', name, a.attname, o.setting) FROM pg_attribute a, LATERAL (VALUES
          ('STATISTICS ' || CASE WHEN a.attstattarget >= 0 THEN a.attstattarget END),
          ('(' || (SELECT string_agg(format('%I = %L', option_name, option_value), ', ') FROM pg_options_to_table(a.attoptions)
            WHERE option_name IN ('n_distinct', 'n_distinct_inherited')) || ')')) o(setting)
        WHERE a.attrelid = tab.oid AND a.attnum > 0 AND NOT a.attisdropped AND o.setting IS NOT NULL
      UNION ALL SELECT rdma.grant_statement(g.privilege_type, name, g.grantee, g.is_grantable) FROM aclexplode(tab.relacl) g WHERE g.grantee <> tab.relowner
      UNION ALL SELECT rdma.grant_statement(g.privilege_type || format(' (%I)', a.attname), name, g.grantee, g.is_grantable)
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
      CASE WHEN tab.relispartition THEN 'not attached as a partition of ' || tab.parents ELSE 'does not inherit from ' || tab.parents END,
      'triggers left out: ' || tab.triggers, statement), '');
    RETURN NEXT;
  END LOOP;
  BEGIN
    EXECUTE format('ALTER SERVER %I OWNER TO %I', new_server, pg_get_userbyid(old.srvowner));
  EXCEPTION WHEN insufficient_privilege THEN
    RAISE WARNING 'server "%" is not owned by "%": %', new_server, pg_get_userbyid(old.srvowner), SQLERRM;
  END;
END $function$;

-- Statistics. ANALYZE of a database, vacuumdb and autovacuum leave foreign tables out.

CREATE FUNCTION rdma.analyzable_tables(server name)
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
          JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw JOIN pg_proc h ON h.oid = w.fdwhandler AND h.proname = 'rdma_fdw_handler'
        WHERE c.relpersistence <> 't' AND (server IS NULL OR s.srvname = server)) r
    JOIN pg_class c ON c.oid = r.relation
    WHERE CASE WHEN current_setting('server_version_num')::integer >= 170000 THEN has_table_privilege(c.oid, 'MAINTAIN') ELSE pg_has_role(c.relowner, 'USAGE') END
    ORDER BY r.relation::text;
END $function$;
COMMENT ON FUNCTION rdma.analyzable_tables(name) IS 'internal: the foreign tables of a server, or of all, and partitioned ones that consist of some, which the caller may analyze';

-- Each table is a transaction. It has no search_path of its own, since it commits, and names all that it uses with its schema.
CREATE PROCEDURE rdma.analyze_tables(server name DEFAULT NULL)
LANGUAGE plpgsql
AS $procedure$
DECLARE
  tab regclass;
  tables integer := 0;
  failed integer := 0;
BEGIN
  FOR tab IN SELECT t FROM rdma.analyzable_tables(server) t LOOP
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
    RAISE EXCEPTION 'could not analyze % of % tables', failed, tables USING ERRCODE = 'fdw_error', HINT = 'The warnings say why.';
  END IF;
END $procedure$;
COMMENT ON PROCEDURE rdma.analyze_tables(name) IS 'analyzes the foreign tables of a server, or of all servers of rdma_fdw, which ANALYZE without a list, vacuumdb and autovacuum leave out';

-- Tables of servers with nodes, as a whole.

CREATE VIEW rdma.tables AS
  SELECT c.oid::regclass AS relation, s.srvname AS server,
      CASE WHEN o.distributed_by IS NOT NULL THEN 'distributed' WHEN o.replicated THEN 'replicated' ELSE 'anywhere' END AS placement,
      o.distributed_by, format('%I.%I', coalesce(o.schema_name, n.nspname), coalesce(o.table_name, c.relname)) AS remote_relation, p.nodes,
      CASE WHEN o.distributed_by IS NOT NULL THEN ARRAY(SELECT count(*) FILTER (WHERE b.node = node.number)
        FROM generate_series(0, cardinality(p.nodes) - 1) node(number), unnest(p.buckets) b(node) GROUP BY node.number ORDER BY node.number) END AS buckets,
      CASE WHEN c.reltuples >= 0 THEN c.reltuples::bigint END AS rows, coalesce(o.propagate_ddl, false) AS propagate_ddl
    FROM pg_catalog.pg_foreign_table f JOIN pg_catalog.pg_class c ON c.oid = f.ftrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
      JOIN pg_catalog.pg_foreign_server s ON s.oid = f.ftserver JOIN pg_catalog.pg_foreign_data_wrapper w ON w.oid = s.srvfdw
      JOIN pg_catalog.pg_proc h ON h.oid = w.fdwhandler AND h.proname = 'rdma_fdw_handler'
      LEFT JOIN rdma.placement p ON p.server = s.srvname
      CROSS JOIN LATERAL (SELECT max(option_value) FILTER (WHERE option_name = 'distributed_by') AS distributed_by,
          max(option_value) FILTER (WHERE option_name = 'replicated')::boolean AS replicated,
          max(option_value) FILTER (WHERE option_name = 'schema_name') AS schema_name,
          max(option_value) FILTER (WHERE option_name = 'table_name') AS table_name,
          max(option_value) FILTER (WHERE option_name = 'propagate_ddl')::boolean AS propagate_ddl
        FROM pg_catalog.pg_options_to_table(f.ftoptions)) o
    WHERE EXISTS (SELECT FROM pg_catalog.pg_options_to_table(s.srvoptions) WHERE option_name = 'nodes');
COMMENT ON VIEW rdma.tables IS 'one row per foreign table of a server with nodes, from what is known here: no node is asked; rdma.table_sizes asks them';
COMMENT ON COLUMN rdma.tables.relation IS 'the foreign table';
COMMENT ON COLUMN rdma.tables.server IS 'the server with nodes';
COMMENT ON COLUMN rdma.tables.placement IS 'distributed: each row on one node, by its key; replicated: each row on every node; anywhere: neither option says';
COMMENT ON COLUMN rdma.tables.distributed_by IS 'the option distributed_by: columns of the key';
COMMENT ON COLUMN rdma.tables.remote_relation IS 'the table on the nodes';
COMMENT ON COLUMN rdma.tables.nodes IS 'servers of the nodes on record, in the order of their numbers; NULL: they are not on record';
COMMENT ON COLUMN rdma.tables.buckets IS 'how many buckets lie on each of them; NULL unless the table is distributed';
COMMENT ON COLUMN rdma.tables.rows IS 'about how many rows the last ANALYZE found; NULL: there was none';
COMMENT ON COLUMN rdma.tables.propagate_ddl IS 'the option of that name: DROP and ALTER reach the tables of the nodes';
GRANT SELECT ON rdma.tables TO PUBLIC;

CREATE FUNCTION rdma.table_sizes(tab regclass, OUT node name, OUT buckets integer, OUT rows bigint, OUT bytes bigint, OUT skew double precision)
RETURNS SETOF record
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  part record;
  map smallint[];
  answer bigint[];
  nodes name[];
  counts bigint[];
  sizes bigint[];
  shares integer[];
  average numeric;
BEGIN
  SELECT rdma.buckets(s.srvname) INTO map FROM pg_foreign_table f JOIN pg_foreign_server s ON s.oid = f.ftserver WHERE f.ftrelid = tab;
  FOR part IN SELECT * FROM rdma.placement_conditions(tab) c ORDER BY c.place LOOP
    -- a partitioned table there has no rows and no size of its own
    answer := rdma.ask_node(part.node, format($$SELECT ARRAY[sum(nullif(reltuples, -1))::bigint, sum(pg_total_relation_size(oid))::bigint] FROM pg_catalog.pg_class
        WHERE relkind NOT IN ('p', 'I') AND oid IN (SELECT %1$L::regclass UNION SELECT relid FROM pg_catalog.pg_partition_tree(%1$L::regclass))$$, part.relation), NULL::bigint[]);
    nodes := nodes || part.node;
    counts := counts || answer[1];
    sizes := sizes || answer[2];
    shares := shares || CASE WHEN part.condition IS NOT NULL THEN (SELECT count(*)::integer FROM unnest(map) b WHERE b = part.place) END;
  END LOOP;
  SELECT avg(c) INTO average FROM unnest(counts) c;
  RETURN QUERY SELECT u.node, u.share, u.count, u.size, CASE WHEN average > 0 THEN round(u.count / average, 2)::double precision END
    FROM unnest(nodes, shares, counts, sizes) WITH ORDINALITY u(node, share, count, size, place) ORDER BY u.place;
END $function$;
COMMENT ON FUNCTION rdma.table_sizes(regclass) IS 'asks each node for the size of its table: buckets, rows as of the last ANALYZE or VACUUM there, bytes with indexes, and rows by the average of all nodes';

-- What ALTER and RENAME do to foreign tables with option propagate_ddl, they do to the tables of the nodes, too (src/fdw/catalog/ddl.c).

CREATE FUNCTION rdma.table_definition(tab regclass)
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
  RETURN (SELECT jsonb_build_object('server', s.srvname, 'schema', n.nspname, 'name', c.relname, 'options', (SELECT jsonb_object_agg(option_name, option_value) FROM pg_options_to_table(f.ftoptions)))
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_foreign_table f ON f.ftrelid = c.oid JOIN pg_foreign_server s ON s.oid = f.ftserver WHERE c.oid = tab)
    || jsonb_build_object('columns', (SELECT coalesce(jsonb_agg(jsonb_build_object('num', a.attnum, 'name', a.attname, 'remote', coalesce(o.name, a.attname), 'named', o.name IS NOT NULL,
        'key', array_position(key, a.attname::text), 'type', format_type(a.atttypid, a.atttypmod), 'sorted', quote_ident(cn.nspname) || '.' || quote_ident(co.collname),
        'same', a.attcollation = t.typcollation, 'filled', pg_get_expr(d.adbin, d.adrelid), 'generated', a.attgenerated, 'required', a.attnotnull)), '[]')
      FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        LEFT JOIN pg_collation co ON co.oid = a.attcollation LEFT JOIN pg_namespace cn ON cn.oid = co.collnamespace
        LEFT JOIN LATERAL (SELECT option_value AS name FROM pg_options_to_table(a.attfdwoptions) WHERE option_name = 'column_name') o ON true
      WHERE a.attrelid = tab AND a.attnum > 0 AND NOT a.attisdropped),
    'checks', (SELECT coalesce(jsonb_agg(jsonb_build_object('oid', oid::bigint, 'name', conname, 'definition', pg_get_constraintdef(oid), 'valid', convalidated)), '[]')
      FROM pg_constraint WHERE conrelid = tab AND contype = 'c'));
END $function$;
COMMENT ON FUNCTION rdma.table_definition(regclass) IS 'internal: what of a foreign table''s definition its tables on the nodes have, too';

-- Values are written as sessions on nodes read them.
CREATE FUNCTION rdma.propagate_table(tab regclass, before jsonb, how jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp SET rdma_fdw.propagate_ddl = off
SET datestyle = ISO SET intervalstyle = postgres SET extra_float_digits = 1 SET bytea_output = hex SET lc_monetary = 'C' SET xmloption = content
AS $function$
DECLARE
  after jsonb := rdma.table_definition(tab);
  server name := after->>'server';
  schema text := coalesce(before->'options'->>'schema_name', before->>'schema');
  relation text := coalesce(before->'options'->>'table_name', before->>'name');
  drops text[] := '{}';
  changes text[] := '{}';
  commands text[] := '{}';
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
    SELECT o.name AS old_name, o.named AS old_named, o.remote AS old_remote, o.type AS old_type, o.sorted AS old_sorted, o.required AS old_required,
        o.filled AS old_filled, o.generated AS old_generated, o.key, n.*, o.num IS NULL AS added, n.num IS NULL AS dropped, how->'using'->>o.name AS conversion,
        n.type || CASE WHEN NOT n.same THEN ' COLLATE ' || n.sorted ELSE '' END AS definition
      FROM jsonb_to_recordset(before->'columns') o(num integer, name text, remote text, named boolean, key integer, type text, sorted text, filled text, generated text, required boolean)
        FULL JOIN jsonb_to_recordset(after->'columns') n(num integer, name text, remote text, named boolean, type text, sorted text, same boolean, filled text, generated text, required boolean) USING (num)
      ORDER BY coalesce(o.generated, n.generated) = '', coalesce(o.num, n.num)
  LOOP
    IF part.key IS NOT NULL AND (part.dropped OR part.type <> part.old_type OR part.sorted <> part.old_sorted OR part.conversion IS NOT NULL) THEN
      RAISE EXCEPTION 'column "%" of foreign table "%" can neither be dropped nor get another type', part.old_name, tab USING ERRCODE = 'feature_not_supported',
        DETAIL = 'The table is distributed by it: it says where the rows are.', HINT = format('SELECT rdma.undistribute_table(%L), change it, and distribute it again.', tab);
    END IF;
    IF part.dropped THEN
      drops := drops || format('DROP COLUMN IF EXISTS %I%s', part.old_remote, CASE WHEN how->'cascade' = 'true' OR how->'cascade' ? part.old_name THEN ' CASCADE' END);
    ELSIF part.added AND part.generated <> '' THEN
      changes := changes || format('ADD COLUMN %I %s GENERATED ALWAYS AS (%s) %s%s', part.remote, part.definition, part.filled,
        CASE part.generated WHEN 'v' THEN 'VIRTUAL' ELSE 'STORED' END, CASE WHEN part.required THEN ' NOT NULL' ELSE '' END);
      expressions := true;
    ELSIF part.added THEN
      -- rows that are there get what the default is now; defaults are computed here
      value := NULL;
      IF part.filled IS NOT NULL THEN
        EXECUTE format('SELECT quote_literal((%s)::%s)', part.filled, part.type) INTO value;
      END IF;
      changes := changes || format('ADD COLUMN %I %s%s%s', part.remote, part.definition, ' DEFAULT ' || value || '::' || part.type, CASE WHEN part.required THEN ' NOT NULL' ELSE '' END);
      IF value IS NOT NULL THEN
        commands := commands || format('ALTER COLUMN %I DROP DEFAULT', part.remote);
      END IF;
    ELSE
      IF part.type <> part.old_type OR part.sorted <> part.old_sorted OR part.conversion IS NOT NULL THEN
        changes := changes || format('ALTER COLUMN %I TYPE %s%s', part.old_remote, part.definition, ' USING ' || part.conversion);
        expressions := expressions OR part.conversion IS NOT NULL;
      END IF;
      IF part.required <> part.old_required THEN
        changes := changes || format('ALTER COLUMN %I %s NOT NULL', part.old_remote, CASE WHEN part.required THEN 'SET' ELSE 'DROP' END);
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
    WITH news AS (SELECT * FROM jsonb_to_recordset(after->'checks') n(oid bigint, name text, definition text, valid boolean))
    SELECT o.name AS old_name, o.valid AS old_valid, n.*
      FROM (SELECT o.*, (SELECT min(n.oid) FROM news n WHERE n.oid = o.oid OR n.name = o.name AND n.definition = o.definition) AS now
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
  IF expressions AND EXISTS (SELECT FROM jsonb_to_recordset(after->'columns') c(name text, remote text) WHERE c.name <> c.remote) THEN
    RAISE EXCEPTION 'an expression for foreign table "%" cannot be written for the tables of the nodes', tab USING ERRCODE = 'feature_not_supported',
      DETAIL = 'Columns have other names there.',
      HINT = format('Write it with these names: SELECT rdma.run_on(%L, ''ALTER TABLE %I.%I ...''); and SET rdma_fdw.propagate_ddl = off for the command here.', server, schema, relation);
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
      FROM rdma.run_on(server, format('SELECT to_regnamespace(%L) IS NULL', quote_ident(after->>'schema'))) n WHERE n.answer = 't';
    PERFORM rdma.run_on(server, format('ALTER TABLE %I.%I SET SCHEMA %I', schema, relation, after->>'schema'));
    IF after->'options' ? 'schema_name' THEN
      EXECUTE format('ALTER FOREIGN TABLE %s OPTIONS (SET schema_name %L)', tab, after->>'schema');
    END IF;
  END IF;
  SELECT string_agg(quote_ident(n.name), ', ' ORDER BY o.key) INTO key FROM jsonb_to_recordset(before->'columns') o(num integer, name text, key integer)
    JOIN jsonb_to_recordset(after->'columns') n(num integer, name text) USING (num) WHERE o.key IS NOT NULL HAVING bool_or(n.name <> o.name);
  IF key IS NOT NULL THEN
    EXECUTE format('ALTER FOREIGN TABLE %s OPTIONS (SET distributed_by %L)', tab, key);
  END IF;
END $function$;
COMMENT ON FUNCTION rdma.propagate_table(regclass, jsonb, jsonb) IS 'internal: changes the tables of the nodes as their foreign table was changed since it had this definition; how: what of the command its effect does not show';

-- The way back.

CREATE FUNCTION rdma.define(tab text, command text, run boolean)
RETURNS text
AS 'MODULE_PATHNAME', 'rdma_define' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp;
COMMENT ON FUNCTION rdma.define(text, text, boolean) IS 'internal: runs a command if it defines a part of this table or its partitions, and has no code run that belongs neither to the caller nor to a superuser or that has effects; NULL, or why it is not run';

CREATE FUNCTION rdma.known_type(type text)
RETURNS text
AS 'MODULE_PATHNAME', 'rdma_known_type' LANGUAGE C STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp;
COMMENT ON FUNCTION rdma.known_type(text) IS 'internal: a type that a node names, as it is called here; the type below a domain. An error if its values have code of other roles run';

CREATE FUNCTION rdma.define_on(server name, tab text, command text, checked boolean)
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
  SELECT r.node, r.answer INTO part FROM rdma.run_on(server, format('SELECT rdma.define(%L, %L, true)', tab, command)) r WHERE r.answer IS NOT NULL ORDER BY r.node LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'a part of table % is not created on server "%"', tab, part.node USING ERRCODE = 'insufficient_privilege',
      DETAIL = format('In "%s": %s.', command, part.answer), HINT = 'It would run with your rights there. Let what it uses belong to your role on that node, or drop this part of the table.';
  END IF;
END $function$;
COMMENT ON FUNCTION rdma.define_on(name, text, text, boolean) IS 'internal: runs a part of a table''s definition on the nodes of a server, if checked only if rdma.define runs it there';

-- Its expressions run here while rows move, with the caller's rights.
CREATE FUNCTION rdma.require_owner(tab regclass)
RETURNS void
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  part record;
BEGIN
  SELECT c.relname, c.relowner::regrole AS owner INTO part FROM pg_class c WHERE c.oid = tab;
  IF part.owner <> current_user::regrole THEN
    RAISE EXCEPTION 'must be the owner of foreign table "%"', part.relname USING ERRCODE = 'insufficient_privilege', HINT = format('SET ROLE %s.', part.owner);
  END IF;
END $function$;
COMMENT ON FUNCTION rdma.require_owner(regclass) IS 'internal: an error unless the caller is the owner of a foreign table';

-- Here or on a node.
CREATE FUNCTION rdma.table_members(tab regclass, OUT oid oid, OUT level integer, OUT name text, OUT parent text)
RETURNS SETOF record
LANGUAGE sql STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $function$
  SELECT c.oid, m.level, format('%I.%I', n.nspname, c.relname), CASE WHEN m.level > 0 THEN format('%I.%I', pn.nspname, p.relname) END
    FROM (SELECT tab::oid AS relid, 0 AS level, NULL::oid AS parentrelid UNION SELECT relid, level, CASE WHEN level > 0 THEN parentrelid END FROM pg_partition_tree(tab)) m
      JOIN pg_class c ON c.oid = m.relid JOIN pg_namespace n ON n.oid = c.relnamespace
      LEFT JOIN pg_class p ON p.oid = m.parentrelid LEFT JOIN pg_namespace pn ON pn.oid = p.relnamespace
    ORDER BY m.level, n.nspname, c.relname
$function$;
COMMENT ON FUNCTION rdma.table_members(regclass) IS 'internal: a table and its partitions, parents first';

-- On a node.
CREATE FUNCTION rdma.table_description(tab regclass)
RETURNS jsonb
LANGUAGE sql STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $function$
  SELECT jsonb_agg(jsonb_build_object('name', m.name, 'parent', m.parent, 'schema', n.nspname, 'table', c.relname, 'kind', c.relkind, 'bound', pg_get_expr(c.relpartbound, c.oid),
    'comment', obj_description(c.oid, 'pg_class'), 'statistics', (SELECT string_agg(pg_get_statisticsobjdef(oid), '; ') FROM pg_statistic_ext WHERE stxrelid = c.oid AND m.level > 0),
    'key', CASE WHEN c.relkind = 'p' THEN pg_get_partkeydef(c.oid) END,
    'storage', (SELECT jsonb_object_agg(r.prefix || o.option_name, o.option_value) FROM unnest(ARRAY['', 'toast.'], ARRAY[c.oid, c.reltoastrelid]) r(prefix, oid)
      JOIN pg_class s ON s.oid = r.oid, LATERAL pg_options_to_table(s.reloptions) o),
    'columns', (SELECT jsonb_agg(jsonb_build_object('name', a.attname, 'storage', nullif(a.attstorage, t.typstorage), 'compression', nullif(a.attcompression, ''),
        'target', nullif(a.attstattarget, -1), 'required', a.attnotnull, 'distinct', (SELECT jsonb_object_agg(option_name, option_value) FROM pg_options_to_table(a.attoptions))))
      FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
    'constraints', (SELECT jsonb_agg(jsonb_build_object('name', conname, 'kind', contype, 'definition', pg_get_constraintdef(oid)))
      FROM pg_constraint WHERE conrelid = c.oid AND contype <> 'f' AND conparentid = 0 AND NOT (contype = 'c' AND coninhcount > 0) AND conname <> 'rdma_placement'),
    'indexes', (SELECT jsonb_agg(jsonb_build_object('name', x.relname, 'unique', i.indisunique,
        'definition', substr(d.text, nullif(strpos(d.text, u.start || ' USING '), 0) + length(u.start))))
      FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid, LATERAL pg_get_indexdef(i.indexrelid) d(text),
        LATERAL (SELECT CASE WHEN x.relkind = 'I' THEN ' ON ONLY ' ELSE ' ON ' END || m.name) u(start)
      WHERE i.indrelid = c.oid AND NOT x.relispartition AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = i.indexrelid AND conrelid = c.oid))) ORDER BY m.level, m.name)
  FROM rdma.table_members(tab) m JOIN pg_class c ON c.oid = m.oid JOIN pg_namespace n ON n.oid = c.relnamespace
$function$;
COMMENT ON FUNCTION rdma.table_description(regclass) IS 'internal: what rdma.undistribute_table has to know of a table of a node and its partitions, parents first';

-- What a node says of its table is text of that node: it becomes names and literals, or is one definition and nothing else.
CREATE FUNCTION rdma.undistribute_table(tab regclass)
RETURNS bigint
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp SET rdma_fdw.snapshot = each_node SET rdma_fdw.propagate_ddl = off
SET datestyle = ISO SET intervalstyle = postgres SET extra_float_digits = 1 SET bytea_output = hex SET lc_monetary = 'C' SET xmloption = content
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
  columns text;
  plain_columns text;
  names text;
  statistics text[];
  statement text;
  problem text;
  moving name;
  moved bigint;
BEGIN
  SELECT c.relname, n.nspname, c.relkind, c.relispartition OR EXISTS (SELECT FROM pg_inherits WHERE tab IN (inhrelid, inhparent)) AS related, c.relacl, c.relowner, c.relowner::regrole AS owner,
      s.srvname, obj_description(c.oid, 'pg_class') AS comment,
      (SELECT string_agg(quote_ident(tgname), ', ' ORDER BY tgname) FROM pg_trigger WHERE tgrelid = c.oid AND NOT tgisinternal) AS triggers,
      (SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = c.oid AND NOT attisdropped
        AND EXISTS (SELECT FROM pg_options_to_table(attfdwoptions) WHERE option_name = 'column_name' AND option_value <> attname)) AS named
    INTO old FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_foreign_table f ON f.ftrelid = c.oid LEFT JOIN pg_foreign_server s ON s.oid = f.ftserver
    WHERE c.oid = tab;
  SELECT c.relation, c.node INTO remote, node FROM rdma.placement_conditions(tab) c ORDER BY c.place LIMIT 1;
  PERFORM rdma.require_owner(tab);
  IF old.related OR old.triggers IS NOT NULL OR old.named IS NOT NULL THEN
    RAISE EXCEPTION 'foreign table "%" cannot be turned into a table', old.relname USING ERRCODE = 'feature_not_supported',
      DETAIL = concat_ws(' ', CASE WHEN old.related THEN 'It is a partition, or it has parents or children.' END, 'It has triggers: ' || old.triggers || '.',
        'Columns have other names on the nodes: ' || old.named || '.'),
      HINT = 'Take these away first.';
  END IF;
  SELECT rdma.dependents(ARRAY[tab::oid]) AS names INTO part;
  IF part.names IS NOT NULL THEN
    RAISE EXCEPTION 'foreign table "%" cannot be turned into a table', old.relname USING ERRCODE = 'dependent_objects_still_exist',
      DETAIL = format('It would be dropped, and these depend on it: %s.', part.names), HINT = 'Drop them, and create them again afterwards.';
  END IF;
  foreign_keys := ARRAY(SELECT k FROM rdma.node_foreign_keys(node, ARRAY[remote]) k);
  SELECT string_agg(format('%I of %I.%I', k->>'name', k->'table'->>0, k->'table'->>1), ', ' ORDER BY k->'table'->>0, k->'table'->>1, k->>'name') AS names INTO part FROM unnest(foreign_keys) k WHERE k->'table' <> k->'other_table' AND format('%I.%I', k->'other_table'->>0, k->'other_table'->>1) = remote;
  IF part.names IS NOT NULL THEN
    RAISE EXCEPTION 'foreign table "%" cannot be turned into a table alone', old.relname USING ERRCODE = 'dependent_objects_still_exist',
      DETAIL = format('Foreign keys of other tables of the nodes refer to it: %s.', part.names), HINT = 'Let rdma.undistribute_tables do it for all of them in one step, or drop the keys on the nodes.';
  END IF;

  -- Nobody writes here from now on, nor there.
  moving := rdma.aside(tab);
  here := format('%I.%I', old.nspname, old.relname);
  SELECT coalesce(array_agg(left(d.text, - length(tab::text))), '{}') INTO statistics
    FROM pg_statistic_ext e, LATERAL pg_get_statisticsobjdef(e.oid) d(text) WHERE e.stxrelid = tab;
  IF NOT EXISTS (SELECT FROM pg_foreign_table f, pg_options_to_table(f.ftoptions) WHERE f.ftrelid = tab AND option_name = 'table_name') THEN
    EXECUTE format('ALTER FOREIGN TABLE %s OPTIONS (ADD table_name %L)', tab, old.relname);
  END IF;
  EXECUTE format('ALTER FOREIGN TABLE %s RENAME TO %I', tab, moving);
  PERFORM rdma.run_on(old.srvname, format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', remote));
  -- the table and its partitions, parents first
  there := rdma.ask_node(node, format('SELECT rdma.table_description(%L)', remote), '[{}]'::jsonb);
  SELECT string_agg(format('%s on server "%s"', m->>'name', node), ', ') AS names INTO part FROM jsonb_array_elements(there) m WHERE m->>'kind' NOT IN ('r', 'p');
  IF part.names IS NOT NULL THEN
    RAISE EXCEPTION '% is neither an ordinary nor a partitioned table', part.names USING ERRCODE = 'wrong_object_type';
  END IF;
  -- what they are called here
  there := (SELECT jsonb_object_agg(m->>'name', m || jsonb_build_object('place', place, 'here', CASE WHEN place = 1 THEN format('%I.%I', old.nspname, old.relname)
      ELSE format('%I.%I', CASE WHEN m->>'schema' = there->0->>'schema' THEN old.nspname ELSE m->>'schema' END, m->>'table') END)) FROM jsonb_array_elements(there) WITH ORDINALITY e(m, place));

  SELECT string_agg(format('%I %s%s%s%s', a.attname, format_type(a.atttypid, a.atttypmod),
        ' COLLATE ' || CASE WHEN a.attcollation <> t.typcollation THEN quote_ident(cn.nspname) || '.' || quote_ident(co.collname) END,
        CASE WHEN a.attgenerated <> '' THEN ' GENERATED ALWAYS AS (' || pg_get_expr(d.adbin, d.adrelid) || CASE a.attgenerated WHEN 'v' THEN ') VIRTUAL' ELSE ') STORED' END
          ELSE ' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid) END,
        CASE WHEN a.attnotnull THEN ' NOT NULL' END), ', ' ORDER BY a.attnum),
      string_agg(format('%I %s%s', a.attname, format_type(a.atttypid, a.atttypmod), ' COLLATE ' || CASE WHEN a.attcollation <> t.typcollation THEN quote_ident(cn.nspname) || '.' || quote_ident(co.collname) END), ', ' ORDER BY a.attnum),
      string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) FILTER (WHERE a.attgenerated = '')
    INTO columns, plain_columns, names
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
      LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
      LEFT JOIN pg_collation co ON co.oid = a.attcollation LEFT JOIN pg_namespace cn ON cn.oid = co.collnamespace
    WHERE a.attrelid = tab AND a.attnum > 0 AND NOT a.attisdropped;
  FOR part IN
    SELECT m->>'here' AS here, m->>'name' AS name, there->(m->>'parent')->>'here' AS above, m->>'bound' AS bound, ' PARTITION BY ' || (m->>'key') AS key, m->>'comment' AS comment, m->>'statistics' AS statistics,
        (SELECT ' WITH (' || string_agg(CASE WHEN key LIKE 'toast.%' THEN 'toast.' ELSE '' END || format('%I = %L', regexp_replace(key, '^toast\.', ''), value), ', ') || ')'
          FROM jsonb_each_text(nullif(m->'storage', 'null'))) AS storage
      FROM jsonb_each(there) e(name, m) ORDER BY (m->>'place')::integer
  LOOP
    -- a part that is left out would change what the table is; its columns are what they are here
    statement := CASE WHEN part.above IS NULL THEN format('CREATE TABLE %s (%s)', part.here, plain_columns) ELSE format('CREATE TABLE %s PARTITION OF %s %s', part.here, part.above, part.bound) END || concat(part.key, part.storage);
    IF part.above IS NOT NULL OR part.key IS NOT NULL THEN
      problem := rdma.define(here, statement, part.above IS NOT NULL);
      IF problem IS NOT NULL THEN
        RAISE EXCEPTION 'table % on server "%" cannot be created here', part.name, node USING ERRCODE = 'invalid_object_definition', DETAIL = format('In "%s": %s.', statement, problem);
      END IF;
    END IF;
    IF part.above IS NULL THEN
      EXECUTE format('CREATE TABLE %s (%s)', part.here, columns) || concat(part.key, part.storage);
    END IF;
    IF part.above IS NOT NULL AND part.comment IS NOT NULL THEN
      EXECUTE format('COMMENT ON TABLE %s IS %L', part.here, part.comment);
    END IF;
    IF part.statistics IS NOT NULL THEN
      RAISE WARNING 'extended statistics of partition % on the nodes are left out', part.name USING DETAIL = format('Their definition there is: %s', part.statistics);
    END IF;
  END LOOP;
  FOR part IN
    SELECT m->>'here' AS here, c.name, o.setting FROM jsonb_each(there) e(name, m), jsonb_to_recordset(nullif(m->'columns', 'null')) c(name text, storage text, compression text, target integer, required boolean, "distinct" jsonb),
        LATERAL (VALUES
          ('STORAGE ' || CASE c.storage WHEN 'p' THEN 'PLAIN' WHEN 'e' THEN 'EXTERNAL' WHEN 'm' THEN 'MAIN' WHEN 'x' THEN 'EXTENDED' END),
          ('COMPRESSION ' || CASE c.compression WHEN 'p' THEN 'pglz' WHEN 'l' THEN 'lz4' END),
          ('STATISTICS ' || c.target),
          (CASE WHEN c.required AND m->>'bound' IS NOT NULL THEN 'NOT NULL' END),
          ('(' || (SELECT string_agg(format('%I = %L', key, value), ', ') FROM jsonb_each_text(nullif(c."distinct", 'null')) WHERE key IN ('n_distinct', 'n_distinct_inherited')) || ')')) o(setting)
      WHERE o.setting IS NOT NULL ORDER BY (m->>'place')::integer
  LOOP
    EXECUTE format('ALTER TABLE ONLY %s ALTER COLUMN %I SET %s', part.here, part.name, part.setting);
  END LOOP;
  FOR part IN SELECT conname, pg_get_constraintdef(oid) AS definition FROM pg_constraint WHERE conrelid = tab AND contype = 'c' ORDER BY conname LOOP
    EXECUTE format('ALTER TABLE %I.%I ADD CONSTRAINT %I %s', old.nspname, old.relname, part.conname, part.definition);
  END LOOP;
  EXECUTE format('INSERT INTO %I.%I%s SELECT %s FROM %I.%I', old.nspname, old.relname, ' (' || names || ')', names, old.nspname, moving);
  GET DIAGNOSTICS moved = ROW_COUNT;
  PERFORM rdma.move_identity(tab, format('%I.%I', old.nspname, old.relname)::regclass);

  FOR part IN
    SELECT m->>'here' AS here, m->>'table' AS tab, format('%I.%I', m->>'schema', m->>'table') AS name_there, c.* FROM jsonb_each(there) e(name, m), jsonb_to_recordset(nullif(m->'constraints', 'null')) c(name text, kind text, definition text)
      WHERE c.kind NOT IN ('n', 't') AND NOT (c.kind = 'c' AND m->>'bound' IS NULL AND EXISTS (SELECT FROM pg_constraint WHERE conrelid = tab AND contype = 'c' AND conname = c.name))
      ORDER BY (m->>'place')::integer, c.kind, c.name
  LOOP
    statement := format('ALTER TABLE %s ADD CONSTRAINT %I %s', part.here, part.name, part.definition);
    problem := rdma.define(here, statement, true);
    IF problem IS NOT NULL THEN
      RAISE EXCEPTION 'constraint "%" of table "%" on the nodes cannot be created here', part.name, part.tab USING ERRCODE = 'invalid_object_definition', DETAIL = format('In "%s": %s.', statement, problem),
        HINT = format('Drop it on the nodes: SELECT rdma.run_on(%L, %L). Then create it here, if you trust what it runs.', old.srvname, format('ALTER TABLE %s DROP CONSTRAINT %I', part.name_there, part.name));
    END IF;
  END LOOP;
  FOR part IN
    SELECT m->>'here' AS here, m->>'table' AS tab, m->>'schema' AS schema_there, i.* FROM jsonb_each(there) e(name, m), jsonb_to_recordset(nullif(m->'indexes', 'null')) i(name text, "unique" boolean, definition text)
      ORDER BY (m->>'place')::integer, i.name
  LOOP
    statement := format('CREATE %sINDEX %I ON %s%s', CASE WHEN part."unique" THEN 'UNIQUE ' ELSE '' END, part.name, part.here, part.definition);
    problem := rdma.define(here, statement, true);
    IF problem IS NOT NULL AND part."unique" THEN
      RAISE EXCEPTION 'unique index "%" of table "%" on the nodes cannot be created here', part.name, part.tab USING ERRCODE = 'invalid_object_definition', DETAIL = format('In "%s": %s.', statement, problem),
        HINT = format('Drop it on the nodes: SELECT rdma.run_on(%L, %L). Then create it here, if you trust what it runs.', old.srvname, format('DROP INDEX %I.%I', part.schema_there, part.name));
    ELSIF problem IS NOT NULL THEN
      RAISE WARNING 'index "%" of table "%" on the nodes is left out', part.name, part.tab USING DETAIL = format('In "%s": %s.', statement, problem), HINT = 'Create it here, if you trust what it runs.';
    END IF;
  END LOOP;
  FOREACH foreign_key IN ARRAY foreign_keys LOOP
    IF foreign_key->'table' = foreign_key->'other_table' THEN
      EXECUTE rdma.foreign_key_statement(foreign_key || jsonb_build_object('table', ARRAY[old.nspname, old.relname], 'other_table', ARRAY[old.nspname, old.relname]));
    ELSE
      RAISE WARNING 'constraint "%" of table "%" on the nodes is left out', foreign_key->>'name', old.relname USING DETAIL = format('Its definition there is: %s', rdma.foreign_key_statement(foreign_key));
    END IF;
  END LOOP;

  FOR part IN
    SELECT d.objid::regclass AS seq, a.attname FROM pg_depend d JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
      WHERE d.refobjid = tab AND d.refclassid = 'pg_class'::regclass AND d.classid = 'pg_class'::regclass AND d.deptype = 'a'
        AND (SELECT relkind FROM pg_class WHERE oid = d.objid) = 'S'
  LOOP
    EXECUTE format('ALTER SEQUENCE %s OWNED BY %I.%I.%I', part.seq, old.nspname, old.relname, part.attname);
  END LOOP;
  FOR part IN
    SELECT p.columns, CASE WHEN grantee = 0 THEN 'PUBLIC' ELSE grantee::regrole::text END AS role, privilege_type, is_grantable
      FROM (SELECT '' AS columns, old.relacl AS acl UNION ALL SELECT format(' (%I)', attname), attacl FROM pg_attribute WHERE attrelid = tab AND attnum > 0 AND NOT attisdropped) p,
        aclexplode(p.acl) WHERE grantee <> old.relowner
  LOOP
    EXECUTE format('GRANT %s%s ON %I.%I TO %s%s', part.privilege_type, part.columns, old.nspname, old.relname, part.role,
      CASE WHEN part.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END);
  END LOOP;
  IF old.comment IS NOT NULL THEN
    EXECUTE format('COMMENT ON TABLE %I.%I IS %L', old.nspname, old.relname, old.comment);
  END IF;
  FOR part IN SELECT attname, col_description(tab, attnum) AS comment FROM pg_attribute WHERE attrelid = tab AND attnum > 0 AND NOT attisdropped AND col_description(tab, attnum) IS NOT NULL LOOP
    EXECUTE format('COMMENT ON COLUMN %I.%I.%I IS %L', old.nspname, old.relname, part.attname, part.comment);
  END LOOP;
  EXECUTE format('DROP FOREIGN TABLE %I.%I', old.nspname, moving);
  FOREACH statement IN ARRAY statistics LOOP
    EXECUTE format('%s%I.%I', statement, old.nspname, old.relname);
  END LOOP;
  PERFORM rdma.run_on(old.srvname, format('DROP TABLE %s', remote));
  EXECUTE format('ANALYZE %I.%I', old.nspname, old.relname);
  RETURN moved;
END $function$;
COMMENT ON FUNCTION rdma.undistribute_table(regclass) IS 'takes the rows of a table back from the nodes into a local table in its place, and drops the tables there; returns the number of rows';

CREATE FUNCTION rdma.drop_foreign_keys(server name, keys jsonb[])
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  key jsonb;
BEGIN
  FOREACH key IN ARRAY keys LOOP
    -- the node that tells of it may be the only one that has it, or may name what is no foreign key
    PERFORM rdma.run_on(n.node, format('ALTER TABLE %I.%I DROP CONSTRAINT %I', key->'table'->>0, key->'table'->>1, key->>'name'))
      FROM rdma.run_on(server, format('SELECT true FROM pg_catalog.pg_constraint WHERE conrelid = pg_catalog.to_regclass(%L) AND conname = %L AND contype = %L',
        format('%I.%I', key->'table'->>0, key->'table'->>1), key->>'name', 'f')) n WHERE n.answer = 't';
  END LOOP;
END $function$;
COMMENT ON FUNCTION rdma.drop_foreign_keys(name, jsonb[]) IS 'internal: drops these foreign keys on the nodes of a server';

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
    PERFORM rdma.require_owner(tab);
    SELECT p.relation, p.node, s.srvname AS server, n.nspname, c.relname INTO part
      FROM rdma.placement_conditions(tab) p, pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_foreign_table f ON f.ftrelid = c.oid JOIN pg_foreign_server s ON s.oid = f.ftserver
      WHERE c.oid = tab ORDER BY p.place LIMIT 1;
    names := names || jsonb_build_object('tab', tab::oid, 'server', part.server, 'node', part.node, 'remote', part.relation, 'local', ARRAY[part.nspname, part.relname]);
  END LOOP;
  FOR part IN
    SELECT DISTINCT k AS key, ours->>'server' AS server, ours->'local' AS local, other->'local' AS other_local FROM jsonb_array_elements(names) ours, jsonb_array_elements(names) other,
        LATERAL rdma.node_foreign_keys(CAST(ours->>'node' AS name), ARRAY[ours->>'remote']) k
      WHERE ours->>'server' = other->>'server' AND ours->>'remote' <> other->>'remote'
        AND ours->>'remote' = format('%I.%I', k->'table'->>0, k->'table'->>1) AND other->>'remote' = format('%I.%I', k->'other_table'->>0, k->'other_table'->>1)
      ORDER BY k
  LOOP
    PERFORM rdma.drop_foreign_keys(part.server, ARRAY[part.key]);
    between := between || (part.key || jsonb_build_object('table', part.local, 'other_table', part.other_local));
  END LOOP;
  FOR part IN SELECT CAST(CAST(n->>'tab' AS oid) AS regclass) AS tab, format('%I.%I', n->'local'->>0, n->'local'->>1) AS name FROM jsonb_array_elements(names) WITH ORDINALITY e(n, place) ORDER BY place LOOP
    rows := rdma.undistribute_table(part.tab);
    relation := part.name::regclass;
    RETURN NEXT;
  END LOOP;
  FOREACH key IN ARRAY between LOOP
    EXECUTE rdma.foreign_key_statement(key);
  END LOOP;
END $function$;
COMMENT ON FUNCTION rdma.undistribute_tables(regclass[]) IS 'takes the rows of tables back from the nodes into local tables in their places, with the foreign keys between them';

-- Nodes come and go. A change of the placement is one transaction: rdma.begin_change keeps all others from the tables, rows are moved,
-- rdma.change_placement records where they are now. Either all of it is committed, here and on the nodes, or nothing is.

CREATE FUNCTION rdma.alter_distribution(tab regclass, distributed_by text DEFAULT NULL, replicated boolean DEFAULT false, force boolean DEFAULT false)
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
  SELECT s.srvname, format('%I.%I', n.nspname, c.relname), n.nspname, c.relname INTO server, name, schema, table_name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_foreign_table f ON f.ftrelid = c.oid JOIN pg_foreign_server s ON s.oid = f.ftserver WHERE c.oid = tab AND rdma.named_nodes(s.srvname) IS NOT NULL;
  IF server IS NULL THEN
    RAISE EXCEPTION '"%" is not a foreign table of a server with nodes', tab USING ERRCODE = 'wrong_object_type';
  END IF;
  PERFORM rdma.require_owner(tab);
  -- foreign keys from and to other tables of the server, which the new tables on the nodes get as far as they can
  SELECT array_agg(k || jsonb_build_object(CASE WHEN format('%I.%I', k->'table'->>0, k->'table'->>1) = p.relation THEN 'table' ELSE 'other_table' END, ARRAY[schema, table_name])), array_agg(k)
    INTO foreign_keys, dropped
    FROM (SELECT * FROM rdma.placement_conditions(tab) c WHERE c.place = 0) p, LATERAL rdma.node_foreign_keys(p.node, ARRAY[p.relation]) k
    WHERE k->'table' <> k->'other_table' AND (rdma.table_named(server, k->'table')).tab IS NOT NULL AND (rdma.table_named(server, k->'other_table')).tab IS NOT NULL;
  PERFORM rdma.drop_foreign_keys(server, dropped);
  PERFORM rdma.undistribute_table(tab);
  moved := rdma.distribute_table(name::regclass, server, distributed_by, replicated, force);
  foreign_keys := rdma.kept_foreign_keys(server, foreign_keys, force);
  PERFORM rdma.run_on(server, rdma.foreign_key_statement(k)) FROM unnest(foreign_keys) k;
  RETURN moved;
END $function$;
COMMENT ON FUNCTION rdma.alter_distribution(regclass, text, boolean, boolean) IS 'distributes a table of a server with nodes by other columns, or has it replicated; how many rows it has. force: warns of constraints that it cannot keep, instead of failing';

CREATE FUNCTION rdma.begin_copy(server name, node name, wait integer)
RETURNS void
AS 'MODULE_PATHNAME', 'rdma_begin_copy' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma.begin_copy(name, name, integer) IS 'internal: keeps all others from writing the replicated tables of a server, here and on one of its nodes, until the transaction ends';

CREATE FUNCTION rdma.begin_change(server name, nodes name[], replicated boolean, wait integer)
RETURNS void
AS 'MODULE_PATHNAME', 'rdma_begin_change' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma.begin_change(name, name[], boolean, integer) IS 'internal: keeps all others from the tables of a server, and from the replicated or distributed ones on some of its nodes, until the transaction ends';

CREATE FUNCTION rdma.await_change(server name, wait integer)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  stop timestamptz := clock_timestamp() + make_interval(secs => wait / 1000.0);
BEGIN
  LOOP
    BEGIN
      PERFORM rdma.begin_change(server, '{}', false, least(wait, 200));
      RETURN;
    EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
      -- somebody needs longer: others, who came behind us, go first
      IF clock_timestamp() > stop THEN
        RAISE;
      END IF;
    END;
    PERFORM pg_sleep(0.5);
  END LOOP;
END $function$;
COMMENT ON FUNCTION rdma.await_change(name, integer) IS 'internal: keeps all others from the tables of a server until the transaction ends, as soon as nobody uses them; nobody waits for longer than 200 milliseconds at a time for that';

CREATE FUNCTION rdma.change_placement(server name, nodes name[], buckets smallint[])
RETURNS bigint
AS 'MODULE_PATHNAME', 'rdma_change_placement' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma.change_placement(name, name[], smallint[]) IS 'internal: records the nodes of a server, and which of them has which bucket, here and on the nodes concerned; the new version of the placement';

-- What moves do now. A move is noted by the function that moves; what consists of many moves notes that, too.
CREATE FUNCTION rdma.note_job(server name, command text, buckets_left integer)
RETURNS void
AS 'MODULE_PATHNAME', 'rdma_note_job' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma.note_job(name, text, integer) IS 'internal: this session begins or goes on with a command of many moves, for rdma.stat_moves; with command NULL it has ended';

CREATE FUNCTION rdma.note_move(server name, command text, source name, target name, moved integer[])
RETURNS void
AS 'MODULE_PATHNAME', 'rdma_note_move' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma.note_move(name, text, name, name, integer[]) IS 'internal: this session begins a move, for rdma.stat_moves';

CREATE FUNCTION rdma.note_phase(phase text, relation text DEFAULT NULL, estimated_rows bigint DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'rdma_note_phase' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma.note_phase(text, text, bigint) IS 'internal: what the move of this session does now, for rdma.stat_moves';

CREATE FUNCTION rdma.stat_moves(
  OUT pid integer, OUT usesysid oid, OUT server text, OUT command text, OUT phase text, OUT source text, OUT target text,
  OUT buckets integer, OUT first_bucket integer, OUT last_bucket integer, OUT relation text, OUT rows bigint, OUT bytes bigint,
  OUT estimated_rows bigint, OUT move_started timestamptz, OUT moves bigint, OUT total_rows bigint, OUT total_bytes bigint, OUT buckets_left integer)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_stat_moves' LANGUAGE C VOLATILE STRICT PARALLEL SAFE ROWS 1;
COMMENT ON FUNCTION rdma.stat_moves() IS 'moves of rows from node to node that run in this database; details of other roles'' moves are NULL';
CREATE VIEW rdma.stat_moves AS
  SELECT m.pid, r.rolname AS usename, m.server, m.command, m.phase, m.source, m.target, m.buckets, m.first_bucket, m.last_bucket, m.relation,
      m.rows, m.bytes, m.estimated_rows, m.move_started, m.moves, m.total_rows, m.total_bytes, m.buckets_left
    FROM rdma.stat_moves() m LEFT JOIN pg_catalog.pg_roles r ON r.oid = m.usesysid;
COMMENT ON VIEW rdma.stat_moves IS 'one row per session of this database that moves rows from node to node';
COMMENT ON COLUMN rdma.stat_moves.pid IS 'process that moves them';
COMMENT ON COLUMN rdma.stat_moves.usename IS 'its role; all that follows is NULL for those who may not see what the role does';
COMMENT ON COLUMN rdma.stat_moves.server IS 'the server with nodes';
COMMENT ON COLUMN rdma.stat_moves.command IS 'rebalance, drain_node, move_buckets, add_node or remove_node';
COMMENT ON COLUMN rdma.stat_moves.phase IS 'choosing, waiting for locks, preparing, copying, deleting, recording or committing; between moves resting, or giving way to those who use the tables';
COMMENT ON COLUMN rdma.stat_moves.source IS 'node that has the rows; NULL between moves, as all columns up to move_started';
COMMENT ON COLUMN rdma.stat_moves.target IS 'node that gets them';
COMMENT ON COLUMN rdma.stat_moves.buckets IS 'how many buckets this move moves; NULL: it is not about buckets';
COMMENT ON COLUMN rdma.stat_moves.first_bucket IS 'the lowest of them';
COMMENT ON COLUMN rdma.stat_moves.last_bucket IS 'the highest of them';
COMMENT ON COLUMN rdma.stat_moves.relation IS 'table on the nodes of which rows are copied or deleted now';
COMMENT ON COLUMN rdma.stat_moves.rows IS 'rows of this move that have left for the target';
COMMENT ON COLUMN rdma.stat_moves.bytes IS 'bytes of them, as they travel';
COMMENT ON COLUMN rdma.stat_moves.estimated_rows IS 'about how many rows this move has, by the statistics of the source; NULL: it has none, or the move has not got so far';
COMMENT ON COLUMN rdma.stat_moves.move_started IS 'when this move began';
COMMENT ON COLUMN rdma.stat_moves.moves IS 'moves of this command that have committed';
COMMENT ON COLUMN rdma.stat_moves.total_rows IS 'rows of them, and of this move';
COMMENT ON COLUMN rdma.stat_moves.total_bytes IS 'bytes of them, and of this move';
COMMENT ON COLUMN rdma.stat_moves.buckets_left IS 'buckets that were still to be moved when this move was chosen; NULL: the command is one move';
GRANT SELECT ON rdma.stat_moves TO PUBLIC;

CREATE FUNCTION rdma.ask_node(node name, question text, kind anyelement)
RETURNS anyelement
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  said text;
  result kind%TYPE;
  problem text;
BEGIN
  SELECT r.answer INTO STRICT said FROM rdma.run_on(node, question) r;
  -- nothing is asked in here, so the node gets no savepoint
  BEGIN
    result := said;
    IF pg_typeof(kind) = 'jsonb'::regtype THEN
      IF jsonb_typeof(said::jsonb) <> jsonb_typeof(kind::text::jsonb) THEN
        problem := format('It is a JSON %s.', jsonb_typeof(said::jsonb));
      ELSIF kind::text::jsonb->0 IS NOT NULL THEN
        SELECT format('It has a JSON %s in an array.', jsonb_typeof(e)) INTO problem FROM jsonb_array_elements(said::jsonb) e WHERE jsonb_typeof(e) <> jsonb_typeof(kind::text::jsonb->0) LIMIT 1;
      END IF;
    END IF;
  EXCEPTION WHEN data_exception THEN
    problem := SQLERRM;
  END;
  IF problem IS NOT NULL THEN
    RAISE EXCEPTION 'server "%" answered a question of rdma_fdw with something else', node USING ERRCODE = 'protocol_violation', DETAIL = problem, HINT = format('It was asked: %s', question);
  END IF;
  RETURN result;
END $function$;
COMMENT ON FUNCTION rdma.ask_node(name, text, anyelement) IS 'internal: the single answer of an ordinary server, as a value of a type; JSON is of the kinds of a sample, up to what is in an outer array';

-- Here or on a node: what its like on another node is created with. Defaults stay on the coordinator.
CREATE FUNCTION rdma.table_statements(tab regclass)
RETURNS text[]
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET datestyle = ISO SET intervalstyle = postgres SET extra_float_digits = 1 SET bytea_output = hex SET lc_monetary = 'C' SET xmloption = content
AS $function$
DECLARE
  part record;
  problems text;
  statements text[] := '{}';
BEGIN
  SELECT concat_ws(', ',
      CASE WHEN bool_or(m.level = 0 AND (c.relkind NOT IN ('r', 'p') OR c.relispartition OR c.relkind = 'r' AND c.relhassubclass OR c.relpersistence = 't')) THEN 'it is neither an ordinary nor a partitioned table' END,
      'partitions are foreign tables: ' || string_agg(m.name, ', ') FILTER (WHERE m.level > 0 AND c.relkind = 'f'),
      (SELECT 'partitions compute columns in another way: ' || string_agg(o.name || '.' || quote_ident(a.attname), ', ')
        FROM rdma.table_members(tab) o JOIN pg_attribute a ON a.attrelid = o.oid JOIN pg_attribute p ON p.attrelid = tab AND p.attname = a.attname AND NOT p.attisdropped
          JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum JOIN pg_attrdef pd ON pd.adrelid = p.attrelid AND pd.adnum = p.attnum
        WHERE a.attgenerated <> '' AND NOT a.attisdropped AND pg_get_expr(d.adbin, d.adrelid) <> pg_get_expr(pd.adbin, pd.adrelid)),
      CASE WHEN bool_or(c.relrowsecurity) THEN 'it has row security' END,
      (SELECT 'it has triggers: ' || string_agg(quote_ident(tgname), ', ' ORDER BY tgname) FROM pg_trigger WHERE tgrelid = ANY (array_agg(m.oid)) AND tgparentid = 0 AND NOT tgisinternal HAVING count(*) > 0),
      (SELECT 'it has rules: ' || string_agg(quote_ident(rulename), ', ' ORDER BY rulename) FROM pg_rewrite WHERE ev_class = ANY (array_agg(m.oid)) HAVING count(*) > 0))
    INTO problems FROM rdma.table_members(tab) m JOIN pg_class c ON c.oid = m.oid;
  IF problems <> '' THEN
    RAISE EXCEPTION 'table % cannot be created on another node', tab USING ERRCODE = 'feature_not_supported', DETAIL = format('On its node, %s.', problems),
      HINT = 'Create it there yourself, without rows.';
  END IF;
  FOR part IN
    SELECT m.*, c.relpersistence, c.relkind, pg_get_expr(c.relpartbound, c.oid) AS bound, ' PARTITION BY ' || CASE WHEN c.relkind = 'p' THEN pg_get_partkeydef(c.oid) END AS key,
        (SELECT ' WITH (' || string_agg(format('%s = %L', r.prefix || o.option_name, o.option_value), ', ') || ')'
          FROM unnest(ARRAY['', 'toast.'], ARRAY[c.oid, c.reltoastrelid]) r(prefix, oid) JOIN pg_class s ON s.oid = r.oid, LATERAL pg_options_to_table(s.reloptions) o) AS storage,
        (SELECT string_agg(format('%I %s%s%s%s', a.attname, format_type(a.atttypid, a.atttypmod),
            ' COLLATE ' || CASE WHEN a.attcollation <> ty.typcollation THEN quote_ident(cn.nspname) || '.' || quote_ident(co.collname) END,
            CASE WHEN a.attgenerated <> '' THEN ' GENERATED ALWAYS AS (' || pg_get_expr(d.adbin, d.adrelid) || CASE a.attgenerated WHEN 's' THEN ') STORED' ELSE ') VIRTUAL' END END,
            CASE WHEN a.attnotnull THEN ' NOT NULL' END), ', ' ORDER BY a.attnum)
          FROM pg_attribute a JOIN pg_type ty ON ty.oid = a.atttypid LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
            LEFT JOIN pg_collation co ON co.oid = a.attcollation LEFT JOIN pg_namespace cn ON cn.oid = co.collnamespace
          WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS columns
      FROM rdma.table_members(tab) m JOIN pg_class c ON c.oid = m.oid ORDER BY m.level, m.name
  LOOP
    statements := statements || format('CREATE %sTABLE %s%s%s%s', CASE WHEN part.relpersistence = 'u' THEN 'UNLOGGED ' END, part.name,
      CASE WHEN part.parent IS NULL THEN ' (' || coalesce(part.columns, '') || ')' ELSE format(' PARTITION OF %s %s', part.parent, part.bound) END, part.key, part.storage);
  END LOOP;
  -- each for itself, what it inherits left out
  RETURN statements
    || ARRAY(SELECT format('ALTER TABLE %s%s ALTER COLUMN %I SET %s', CASE WHEN c.relkind = 'p' THEN 'ONLY ' END, m.name, a.attname, o.setting)
      FROM rdma.table_members(tab) m JOIN pg_class c ON c.oid = m.oid JOIN pg_attribute a ON a.attrelid = m.oid JOIN pg_type ty ON ty.oid = a.atttypid,
        LATERAL (VALUES
          (CASE WHEN a.attstorage <> ty.typstorage THEN 'STORAGE ' || CASE a.attstorage WHEN 'p' THEN 'PLAIN' WHEN 'e' THEN 'EXTERNAL' WHEN 'm' THEN 'MAIN' ELSE 'EXTENDED' END END),
          ('COMPRESSION ' || CASE a.attcompression WHEN 'p' THEN 'pglz' WHEN 'l' THEN 'lz4' END),
          ('STATISTICS ' || CASE WHEN a.attstattarget >= 0 THEN a.attstattarget END),
          ('(' || (SELECT string_agg(format('%s = %s', option_name, option_value), ', ') FROM pg_options_to_table(a.attoptions) WHERE option_name IN ('n_distinct', 'n_distinct_inherited')) || ')'),
          (CASE WHEN m.level > 0 AND a.attnotnull AND EXISTS (SELECT FROM pg_attribute p WHERE p.attrelid = m.parent::regclass AND p.attname = a.attname AND NOT p.attnotnull) THEN 'NOT NULL' END)) o(setting)
      WHERE a.attnum > 0 AND NOT a.attisdropped AND o.setting IS NOT NULL ORDER BY m.level, m.name, a.attnum, o.setting)
    || ARRAY(SELECT format('ALTER TABLE %s ADD CONSTRAINT %I %s', m.name, conname, pg_get_constraintdef(c.oid)) FROM rdma.table_members(tab) m JOIN pg_constraint c ON c.conrelid = m.oid
      WHERE contype = 'c' AND coninhcount = 0 AND conname <> 'rdma_placement' ORDER BY m.level, m.name, conname)
    || ARRAY(SELECT format('COMMENT ON TABLE %s IS %L', m.name, description) FROM rdma.table_members(tab) m JOIN pg_description d ON d.objoid = m.oid AND d.classoid = 'pg_class'::regclass AND d.objsubid = 0 ORDER BY m.level, m.name);
END $function$;
COMMENT ON FUNCTION rdma.table_statements(regclass) IS 'internal: the statements that create an empty table like this one with its partitions, without the constraint rdma_placement and what rdma.index_statements makes';

CREATE FUNCTION rdma.index_statements(tab regclass)
RETURNS text[]
LANGUAGE sql STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET datestyle = ISO SET intervalstyle = postgres SET extra_float_digits = 1 SET bytea_output = hex SET lc_monetary = 'C' SET xmloption = content
AS $function$
  SELECT ARRAY(SELECT format('ALTER TABLE %s ADD CONSTRAINT %I %s', m.name, c.conname, pg_get_constraintdef(c.oid)) FROM rdma.table_members(tab) m JOIN pg_constraint c ON c.conrelid = m.oid
      WHERE c.contype IN ('p', 'u', 'x') AND c.conparentid = 0 ORDER BY m.level, m.name, c.contype, c.conname)
    || ARRAY(SELECT overlay(d.text placing ' ON ' from strpos(d.text, x.ending) for length(' ON ONLY ')) FROM rdma.table_members(tab) m JOIN pg_index i ON i.indrelid = m.oid JOIN pg_class c ON c.oid = i.indexrelid,
        LATERAL pg_get_indexdef(i.indexrelid) d(text), LATERAL (SELECT ' ON ONLY ' || m.name || ' USING ') x(ending)
      WHERE NOT c.relispartition AND c.relkind = 'I' AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = i.indexrelid AND conrelid = m.oid) ORDER BY m.level, m.name, c.relname)
    || ARRAY(SELECT pg_get_indexdef(i.indexrelid) FROM rdma.table_members(tab) m JOIN pg_index i ON i.indrelid = m.oid JOIN pg_class c ON c.oid = i.indexrelid
      WHERE NOT c.relispartition AND c.relkind = 'i' AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = i.indexrelid AND conrelid = m.oid) ORDER BY m.level, m.name, c.relname)
    || ARRAY(SELECT format('ALTER INDEX %s ALTER COLUMN %s SET STATISTICS %s', i.indexrelid::regclass, a.attnum, a.attstattarget)
      FROM rdma.table_members(tab) m JOIN pg_index i ON i.indrelid = m.oid JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_attribute a ON a.attrelid = i.indexrelid
      WHERE NOT c.relispartition AND a.attstattarget >= 0 ORDER BY m.level, m.name, i.indexrelid::regclass::text, a.attnum)
    || ARRAY(SELECT format('CREATE STATISTICS %I.%I', n.nspname, e.stxname) || substr(d.text, length(format('CREATE STATISTICS %I.%I', s.nspname, e.stxname)) + 1)
      FROM rdma.table_members(tab) m JOIN pg_class c ON c.oid = m.oid JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_statistic_ext e ON e.stxrelid = m.oid JOIN pg_namespace s ON s.oid = e.stxnamespace, LATERAL pg_get_statisticsobjdef(e.oid) d(text)
      ORDER BY m.level, m.name, e.stxname)
$function$;
COMMENT ON FUNCTION rdma.index_statements(regclass) IS 'internal: the statements that give a table what this one and its partitions have of keys, indexes and extended statistics';

CREATE FUNCTION rdma.run_as_owner(tab regclass, command text)
RETURNS bigint
AS 'MODULE_PATHNAME', 'rdma_run_as_owner' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma.run_as_owner(regclass, text) IS 'internal: runs a command with the rights of the owner of a table, which the caller needs; how many rows it had to do with';

-- The table of a node as a foreign table of this session's, with the columns that it has there. What the node says becomes names, and
-- types that are known here.
CREATE FUNCTION rdma.reach_table(node name, relation text, generated boolean, OUT tab text, OUT columns text)
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  there jsonb;
  definition text;
BEGIN
  there := rdma.ask_node(node, format($sql$
    SELECT jsonb_build_object('schema', n.nspname, 'name', c.relname,
        'columns', jsonb_agg(jsonb_build_object('name', a.attname, 'type', format_type(a.atttypid, a.atttypmod), 'generated', a.attgenerated <> '') ORDER BY a.attnum))
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
      WHERE c.oid = %L::regclass AND a.attnum > 0 AND NOT a.attisdropped AND (%L OR a.attgenerated = '') GROUP BY n.nspname, c.relname $sql$, relation, generated), '{}'::jsonb);
  SELECT string_agg(format('%I %s', d->>'name', rdma.known_type(d->>'type')), ', ' ORDER BY place), string_agg(quote_ident(d->>'name'), ', ' ORDER BY place) FILTER (WHERE NOT (d->>'generated')::boolean)
    INTO definition, columns FROM jsonb_array_elements(there->'columns') WITH ORDINALITY e(d, place);
  tab := format('pg_temp.%I', 'rdma ' || md5(node || ' ' || relation));
  EXECUTE format('CREATE FOREIGN TABLE %s (%s) SERVER %I OPTIONS (schema_name %L, table_name %L)', tab, definition, node, there->>'schema', there->>'name');
END $function$;
COMMENT ON FUNCTION rdma.reach_table(name, text, boolean) IS 'internal: a temporary foreign table for a table of a node, with or without columns that are generated, and its columns that can be written';

-- Rows of a table on one node that fulfil the condition, to another node.
CREATE FUNCTION rdma.copy_rows(source name, target name, relation text, condition text)
RETURNS bigint
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  here record;
  there record;
  count bigint;
BEGIN
  SELECT * INTO here FROM rdma.reach_table(source, relation, true);
  SELECT * INTO there FROM rdma.reach_table(target, relation, false);
  -- what belongs to the table's owner on either node runs as he
  PERFORM rdma.run_on(n, format('SET LOCAL rdma_fdw.as_owner_of = %L', relation)) FROM unnest(ARRAY[source, target]) n;
  EXECUTE format('INSERT INTO %s (%s) SELECT %s FROM %s WHERE %s', there.tab, here.columns, here.columns, here.tab, condition);
  GET DIAGNOSTICS count = ROW_COUNT;
  PERFORM rdma.run_on(n, 'SET LOCAL rdma_fdw.as_owner_of = ''''') FROM unnest(ARRAY[source, target]) n;
  EXECUTE format('DROP FOREIGN TABLE %s, %s', here.tab, there.tab);
  RETURN count;
END $function$;
COMMENT ON FUNCTION rdma.copy_rows(name, name, text, text) IS 'internal: copies rows of a table from one node to another, and counts them';

CREATE FUNCTION rdma.add_node(server name, node name, wait integer DEFAULT 10000)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp SET rdma_fdw.snapshot = each_node
SET client_min_messages = warning
AS $function$
DECLARE
  nodes name[];
  tab regclass;
  part record;
  definition text[];
  statement text;
  key jsonb;
  created text[] := '{}';
BEGIN
  IF rdma.named_nodes(server) IS NULL THEN
    RAISE EXCEPTION 'server "%" has no nodes', server USING ERRCODE = 'wrong_object_type';
  END IF;
  nodes := ARRAY(SELECT n.node FROM rdma.nodes(server) n ORDER BY n.place);
  IF node = ANY (nodes) THEN
    RAISE EXCEPTION 'server "%" is a node of server "%" already', node, server USING ERRCODE = 'duplicate_object';
  END IF;
  PERFORM set_config('rdma_fdw.commit', 'required', true);
  PERFORM rdma.note_move(server, 'add_node', nodes[1], node, NULL);
  PERFORM rdma.begin_copy(server, nodes[1], wait);
  PERFORM rdma.note_phase('preparing');
  PERFORM rdma.enroll_nodes(server);
  nodes := ARRAY(SELECT n.node FROM rdma.nodes(server) n ORDER BY n.place);
  FOR tab IN SELECT f.ftrelid FROM pg_foreign_table f JOIN pg_foreign_server s ON s.oid = f.ftserver WHERE s.srvname = server ORDER BY f.ftrelid LOOP
    SELECT * INTO part FROM rdma.placement_conditions(tab) WHERE place = 0;
    IF rdma.ask_node(node, format('SELECT to_regclass(%L) IS NOT NULL', part.relation), false) THEN
      IF rdma.ask_node(node, format('SELECT EXISTS (SELECT FROM %s)', part.relation), false) THEN
        RAISE EXCEPTION 'table % on server "%" has rows', part.relation, node USING ERRCODE = 'object_not_in_prerequisite_state',
          HINT = 'Empty or drop it: rows come to the new node by rdma.rebalance.';
      END IF;
    ELSE
      definition := rdma.ask_node(nodes[1], format('SELECT rdma.table_statements(%L) || rdma.index_statements(%L)', part.relation, part.relation), NULL::text[]);
      FOR statement IN SELECT DISTINCT (parse_ident(name))[1] FROM unnest(rdma.ask_node(nodes[1], format('SELECT array_agg(name) FROM rdma.table_members(%L)', part.relation), NULL::text[])) name LOOP
        IF rdma.ask_node(node, format('SELECT to_regnamespace(%L) IS NULL', quote_ident(statement)), false) THEN
          PERFORM rdma.run_on(node, format('CREATE SCHEMA %I', statement));
        END IF;
      END LOOP;
      FOREACH statement IN ARRAY definition LOOP
        PERFORM rdma.define_on(node, part.relation, statement, true);
      END LOOP;
      created := created || part.relation;
    END IF;
    IF part.replicated THEN
      PERFORM rdma.note_phase('copying', part.relation);
      PERFORM rdma.copy_rows(nodes[1], node, part.relation, 'true');
      PERFORM rdma.note_phase('preparing');
      PERFORM rdma.run_on(node, format('ANALYZE %s', part.relation));
    ELSIF part.condition IS NOT NULL THEN
      -- it has no bucket
      PERFORM rdma.run_on(node, format('ALTER TABLE %s DROP CONSTRAINT IF EXISTS rdma_placement, ADD CONSTRAINT rdma_placement CHECK (false)', part.relation));
    END IF;
  END LOOP;
  -- when all of the tables and copies are there
  FOR key IN SELECT k FROM rdma.node_foreign_keys(nodes[1], created) k WHERE format('%I.%I', k->'table'->>0, k->'table'->>1) = ANY (created) LOOP
    IF (rdma.table_named(server, key->'other_table')).tab IS NULL THEN
      RAISE EXCEPTION 'table %.% cannot be created on another node', quote_ident(key->'table'->>0), quote_ident(key->'table'->>1) USING ERRCODE = 'feature_not_supported',
        DETAIL = format('On its node, foreign key "%s" refers to %I.%I, which is no table of server "%s".', key->>'name', key->'other_table'->>0, key->'other_table'->>1, server),
        HINT = 'Create it there yourself, without rows.';
    END IF;
    PERFORM rdma.run_on(node, rdma.foreign_key_statement(key));
  END LOOP;
  -- readers wait from here on, and no longer at a time than for a move
  PERFORM rdma.note_phase('waiting for locks');
  PERFORM rdma.await_change(server, wait);
  PERFORM rdma.note_phase('recording');
  PERFORM rdma.change_placement(server, nodes || node, rdma.buckets(server));
  EXECUTE format('ALTER SERVER %I OPTIONS (SET nodes %L)', server, (SELECT string_agg(quote_ident(n), ', ') FROM unnest(nodes || node) n));
  PERFORM rdma.note_phase('committing');
END $function$;
COMMENT ON FUNCTION rdma.add_node(name, name, integer) IS 'a server becomes one more node of a server with nodes: its tables are created there, replicated ones with their rows; rdma.rebalance moves rows to it';

CREATE FUNCTION rdma.move_buckets(server name, source name, target name, moved integer[], wait integer DEFAULT 200)
RETURNS bigint
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp SET rdma_fdw.snapshot = each_node
SET client_min_messages = warning
AS $function$
DECLARE
  nodes name[];
  buckets smallint[];
  relations text[];
  members text[];
  keys text[] := '{}';
  tab regclass;
  part record;
  place integer;
  condition text;
  share double precision;
  count bigint;
  counts bigint[] := '{}';
  there record;
  key jsonb;
  invalid jsonb[] := '{}';
  total bigint := 0;
  undo jsonb[] := '{}';
BEGIN
  nodes := ARRAY(SELECT n.node FROM rdma.nodes(server) n ORDER BY n.place);
  IF source = target OR NOT ARRAY[source, target] <@ nodes THEN
    RAISE EXCEPTION 'rows cannot be moved from node "%" to node "%"', source, target USING ERRCODE = 'invalid_parameter_value',
      DETAIL = format('The nodes of server "%s" are %s.', server, (SELECT string_agg(quote_ident(n), ', ') FROM unnest(nodes) n));
  END IF;
  PERFORM set_config('rdma_fdw.commit', 'required', true);
  PERFORM rdma.note_move(server, 'move_buckets', source, target, moved);
  PERFORM rdma.begin_change(server, ARRAY[source, target], false, wait);
  PERFORM rdma.note_phase('preparing');
  nodes := ARRAY(SELECT n.node FROM rdma.nodes(server) n ORDER BY n.place);
  buckets := rdma.buckets(server);
  share := cardinality(moved)::double precision / greatest(cardinality(array_positions(buckets, (array_position(nodes, source) - 1)::smallint)), 1);
  FOREACH place IN ARRAY moved LOOP
    IF (nodes[buckets[place + 1] + 1] = source) IS NOT TRUE THEN
      RAISE EXCEPTION 'bucket % is not on node "%"', place, source USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    buckets[place + 1] := array_position(nodes, target) - 1;
  END LOOP;

  -- Foreign keys between tables of a node hold after each statement: rows that others refer to come first, and go last.
  PERFORM rdma.run_on(n, 'SET CONSTRAINTS ALL IMMEDIATE') FROM unnest(ARRAY[source, target]) n;
  PERFORM rdma.run_on(n, 'SET LOCAL row_security = off') FROM unnest(ARRAY[source, target]) n;
  FOR part IN
    SELECT c.*, f.ftrelid::regclass AS tab FROM pg_foreign_table f JOIN pg_foreign_server s ON s.oid = f.ftserver, LATERAL rdma.placement_conditions(f.ftrelid, buckets) c
      WHERE s.srvname = server AND c.condition IS NOT NULL AND c.node IN (source, target) ORDER BY f.ftrelid, c.node = source
  LOOP
    IF rdma.ask_node(part.node, format($sql$SELECT EXISTS (SELECT FROM pg_constraint WHERE conrelid = %L::regclass AND conname = 'rdma_placement')$sql$, part.relation), false) IS NOT TRUE THEN
      RAISE EXCEPTION 'rows of table % are not known to lie where its option "distributed_by" says', part.tab USING ERRCODE = 'object_not_in_prerequisite_state',
        HINT = format('SELECT rdma.protect_table(%L)', part.tab);
    END IF;
    -- what the rows were proven to be they still are when these are gone or there: nothing has to be read again
    PERFORM rdma.run_on(part.node, format('ALTER TABLE %s DROP CONSTRAINT rdma_placement, ADD CONSTRAINT rdma_placement CHECK (%s) NOT VALID', part.relation, part.condition));
    -- A row that moves is neither written nor deleted. The node names its triggers; the commands are written here.
    FOR there IN
      SELECT format('%I.%I', m->>0, m->>1) AS name, m->2 AS triggers FROM jsonb_array_elements(rdma.ask_node(part.node, format($sql$SELECT jsonb_agg(jsonb_build_array(n.nspname, c.relname,
          (SELECT jsonb_agg(jsonb_build_array(tgname, tgenabled)) FROM pg_trigger WHERE tgrelid = m.oid AND NOT tgisinternal AND tgenabled <> 'D')))
        FROM rdma.table_members(%L) m JOIN pg_class c ON c.oid = m.oid JOIN pg_namespace n ON n.oid = c.relnamespace$sql$, part.relation), '[[]]'::jsonb)) m
    LOOP
      undo := undo || ARRAY(SELECT jsonb_build_array(part.node, format('ALTER TABLE ONLY %s %s TRIGGER %I', there.name,
        CASE t->>1 WHEN 'A' THEN 'ENABLE ALWAYS' WHEN 'R' THEN 'ENABLE REPLICA' ELSE 'ENABLE' END, t->>0)) FROM jsonb_array_elements(nullif(there.triggers, 'null')) t);
      PERFORM rdma.run_on(part.node, format('ALTER TABLE ONLY %s DISABLE TRIGGER USER', there.name));
    END LOOP;
    IF part.node = source THEN
      relations := relations || part.relation;
      keys := keys || format('rdma.hash_node(%s, %s) = ANY (%L::integer[])', cardinality(buckets), part.key, moved);
    END IF;
  END LOOP;
  IF relations IS NOT NULL THEN
    SELECT array_agg(r.relation ORDER BY a.depth, r.number), array_agg(r.condition ORDER BY a.depth, r.number) INTO relations, keys
      FROM unnest(relations, keys, rdma.ask_node(source, format($sql$
        WITH RECURSIVE r(relation, number, depth) AS (
          SELECT t::regclass::oid, number, 0 FROM unnest(%L::text[]) WITH ORDINALITY u(t, number)
          UNION SELECT c.conrelid, o.number, r.depth + 1 FROM r JOIN pg_constraint c ON c.confrelid = r.relation AND c.contype = 'f' AND c.conrelid <> c.confrelid
            JOIN unnest(%L::text[]) WITH ORDINALITY o(t, number) ON o.t::regclass = c.conrelid WHERE r.depth < 64)
        SELECT array_agg(depth ORDER BY number) FROM (SELECT number, max(depth) AS depth FROM r GROUP BY number) d$sql$, relations, relations), NULL::integer[]))
        WITH ORDINALITY r(relation, condition, depth, number), LATERAL (SELECT r.depth) a WHERE r.relation IS NOT NULL;
    -- what refers to a row that goes must go with it, or ON DELETE would take rows that stay
    members := rdma.ask_node(source, format('SELECT array_agg(m.name) FROM unnest(%L::regclass[]) t, rdma.table_members(t) m', relations), NULL::text[]);
    FOR key IN SELECT k FROM rdma.node_foreign_keys(source, members) k WHERE k->>'on_delete' IN ('c', 'n', 'd') AND format('%I.%I', k->'other_table'->>0, k->'other_table'->>1) = ANY (members) LOOP
      IF rdma.foreign_key_problem(server, key, false) IS NOT NULL THEN
        RAISE EXCEPTION 'rows of table %.% cannot be moved', quote_ident(key->'other_table'->>0), quote_ident(key->'other_table'->>1) USING ERRCODE = 'object_not_in_prerequisite_state',
          DETAIL = format('On node "%s", foreign key "%s" of %I.%I would change rows that stay there. %s', source, key->>'name', key->'table'->>0, key->'table'->>1, rdma.foreign_key_problem(server, key, false)),
          HINT = 'Drop it on the nodes, or let it have no ON DELETE action.';
      END IF;
    END LOOP;
    -- one that is not valid says nothing of rows that are there, and so of rows that move
    invalid := ARRAY(SELECT k FROM rdma.node_foreign_keys(target, relations) k WHERE NOT (k->>'valid')::boolean AND (k->>'enforced')::boolean IS NOT FALSE);
    FOREACH key IN ARRAY invalid LOOP
      PERFORM rdma.run_on(target, format('ALTER TABLE %I.%I DROP CONSTRAINT %I', key->'table'->>0, key->'table'->>1, key->>'name'));
    END LOOP;
  END IF;
  PERFORM rdma.note_phase('preparing', NULL, (share * rdma.ask_node(source,
    format('SELECT sum(reltuples)::bigint FROM pg_class WHERE oid = ANY (%L::regclass[]) HAVING min(reltuples) >= 0', relations), NULL::bigint))::bigint);
  -- foreign keys that form a circle hold when all is done, if they are deferrable. What another role owns there, the restricted operation
  -- lets no trigger wait for, and other constraints have code of the owner run.
  FOR part IN
    SELECT n.node, string_agg(format('%I.%I', k->>0, k->>1), ', ') AS names FROM unnest(ARRAY[source, target]) n(node), LATERAL jsonb_array_elements(rdma.ask_node(n.node, format($sql$
        SELECT jsonb_agg(DISTINCT jsonb_build_array(n.nspname, c.conname)) FROM pg_constraint c JOIN pg_namespace n ON n.oid = c.connamespace JOIN pg_class r ON r.oid = c.conrelid
          WHERE c.contype = 'f' AND c.condeferrable AND c.conrelid = ANY (%L::regclass[]) AND r.relowner = current_user::regrole
            AND NOT EXISTS (SELECT FROM pg_constraint o WHERE o.connamespace = c.connamespace AND o.conname = c.conname AND o.contype <> 'f')$sql$, relations), '[[]]'::jsonb)) k
      WHERE relations IS NOT NULL GROUP BY n.node
  LOOP
    PERFORM rdma.run_on(part.node, format('SET CONSTRAINTS %s DEFERRED', part.names));
  END LOOP;
  FOR i IN 1 .. coalesce(cardinality(relations), 0) LOOP
    PERFORM rdma.note_phase('copying', relations[i]);
    counts[i] := rdma.copy_rows(source, target, relations[i], keys[i]);
    total := total + counts[i];
  END LOOP;
  FOR i IN REVERSE coalesce(cardinality(relations), 0) .. 1 LOOP
    PERFORM rdma.note_phase('deleting', relations[i]);
    count := rdma.ask_node(source, format('SELECT rdma.run_as_owner(%L, %L)', relations[i], format('DELETE FROM %s WHERE %s', relations[i], keys[i])), NULL::bigint);
    IF count IS DISTINCT FROM counts[i] THEN
      RAISE EXCEPTION 'moved % rows of table % and removed % rows', counts[i], relations[i], count USING ERRCODE = 'data_corrupted';
    END IF;
  END LOOP;
  PERFORM rdma.run_on(n, 'SET CONSTRAINTS ALL IMMEDIATE') FROM unnest(ARRAY[source, target]) n;
  PERFORM rdma.note_phase('recording');
  FOREACH key IN ARRAY invalid LOOP
    PERFORM rdma.run_on(target, rdma.foreign_key_statement(key));
  END LOOP;
  PERFORM rdma.run_on(CAST(u.step->>0 AS name), u.step->>1) FROM unnest(undo) WITH ORDINALITY u(step, number) ORDER BY u.number;
  PERFORM rdma.change_placement(server, nodes, buckets);
  PERFORM rdma.note_phase('committing');
  RETURN total;
END $function$;
COMMENT ON FUNCTION rdma.move_buckets(name, name, name, integer[], integer) IS 'moves the rows of buckets of all distributed tables of a server from one of its nodes to another; how many';

CREATE FUNCTION rdma.next_move(server name, drained name, most integer, OUT source name, OUT target name, OUT moved integer[], OUT buckets_left integer)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  giver record;
  taker record;
  total integer;
  nodes integer;
BEGIN
  IF rdma.named_nodes(server) IS NULL THEN
    RAISE EXCEPTION 'server "%" has no nodes', server USING ERRCODE = 'wrong_object_type';
  END IF;
  IF drained IS NOT NULL AND NOT EXISTS (SELECT FROM rdma.nodes(server) n WHERE n.node = drained) THEN
    RAISE EXCEPTION 'server "%" is no node of server "%"', drained, server USING ERRCODE = 'undefined_object', HINT = 'rdma.nodes() lists them.';
  END IF;
  SELECT cardinality(rdma.buckets(server)), count(*) FILTER (WHERE n.node IS DISTINCT FROM drained) INTO total, nodes FROM rdma.nodes(server) n;
  IF nodes = 0 THEN
    RAISE EXCEPTION 'node "%" of server "%" cannot be drained', drained, server USING ERRCODE = 'object_in_use', DETAIL = 'There is no other one.';
  END IF;
  SELECT c.place, c.node, c.count INTO giver
    FROM (SELECT n.place, n.node, count(b.b) FROM rdma.nodes(server) n LEFT JOIN unnest(rdma.buckets(server)) b ON b.b = n.place GROUP BY n.place, n.node) c
    WHERE c.node = coalesce(drained, c.node) ORDER BY c.count DESC, c.place LIMIT 1;
  SELECT c.place, c.node, c.count INTO taker
    FROM (SELECT n.place, n.node, count(b.b) FROM rdma.nodes(server) n LEFT JOIN unnest(rdma.buckets(server)) b ON b.b = n.place GROUP BY n.place, n.node) c
    WHERE c.node IS DISTINCT FROM drained ORDER BY c.count, c.place LIMIT 1;
  IF (drained IS NULL AND giver.count - taker.count <= 1) OR (drained IS NOT NULL AND giver.count = 0) THEN
    RETURN;
  END IF;
  source := giver.node;
  target := taker.node;
  moved := ARRAY(SELECT b.number - 1 FROM unnest(rdma.buckets(server)) WITH ORDINALITY b(place, number) WHERE b.place = giver.place ORDER BY b.number
    LIMIT greatest(1, least(most, (total + nodes - 1) / nodes - taker.count, CASE WHEN drained IS NULL THEN giver.count - total / nodes ELSE giver.count END)));
  SELECT CASE WHEN drained IS NULL THEN sum(greatest(c.count - total / nodes, 0)) - least(total % nodes, count(*) FILTER (WHERE c.count > total / nodes)) ELSE giver.count END INTO buckets_left
    FROM (SELECT count(b.b) FROM rdma.nodes(server) n LEFT JOIN unnest(rdma.buckets(server)) b ON b.b = n.place GROUP BY n.place) c;
END $function$;
COMMENT ON FUNCTION rdma.next_move(name, name, integer) IS 'internal: which buckets to move next, and from where to where, until all nodes have as many, or the drained one has none; NULL: that is so';

CREATE FUNCTION rdma.move_size(server name, source name, most integer, took interval, goal integer)
RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  bytes numeric;
BEGIN
  IF most IS NULL THEN
    -- the first one: as if 10 MB moved in a second
    SELECT rdma.ask_node(source, format('SELECT sum(pg_table_size(m.oid)) FROM unnest(%L::regclass[]) t, rdma.table_members(t) m', array_agg(c.relation)), NULL::numeric) INTO bytes
      FROM pg_foreign_table f JOIN pg_foreign_server s ON s.oid = f.ftserver, LATERAL rdma.placement_conditions(f.ftrelid) c
      WHERE s.srvname = server AND c.condition IS NOT NULL AND c.node = source;
    RETURN greatest(1, least(1000, floor(goal * 10000.0 * (SELECT count(*) FROM unnest(rdma.buckets(server)) b JOIN rdma.nodes(server) n ON n.place = b WHERE n.node = source)
      / greatest(bytes, 1))));
  END IF;
  RETURN greatest(1, least(2 * most, 1000, floor(most * goal / greatest(1000 * extract(epoch FROM took), 1))));
END $function$;
COMMENT ON FUNCTION rdma.move_size(name, name, integer, interval, integer) IS 'internal: how many buckets to move at once, after so many took so long, to take `goal` milliseconds';

-- Each move is a transaction. These have no search_path of their own, since they commit, and name all that they use with its schema.
CREATE PROCEDURE rdma.move_all(server name, drained name, goal integer, wait integer, rest integer)
LANGUAGE plpgsql
AS $procedure$
DECLARE
  step record;
  most integer;
  started timestamptz;
  took interval;
BEGIN
  PERFORM rdma.note_job(server, CASE WHEN drained IS NULL THEN 'rebalance' ELSE 'drain_node' END, NULL);
  SELECT * INTO step FROM rdma.next_move(server, drained, 1);
  IF step.source IS NOT NULL THEN
    most := rdma.move_size(server, step.source, NULL, NULL, goal);
  END IF;
  COMMIT;
  LOOP
    SELECT * INTO step FROM rdma.next_move(server, drained, most);
    EXIT WHEN step.source IS NULL;
    PERFORM rdma.note_job(server, CASE WHEN drained IS NULL THEN 'rebalance' ELSE 'drain_node' END, step.buckets_left);
    took := NULL;
    BEGIN
      started := pg_catalog.clock_timestamp();
      PERFORM rdma.move_buckets(server, step.source, step.target, step.moved, wait);
      took := pg_catalog.age(pg_catalog.clock_timestamp(), started);
    EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
      -- somebody needs longer: others, who came behind us, go first
      NULL;
    END;
    COMMIT;
    IF took IS NULL THEN
      PERFORM rdma.note_phase('giving way');
      PERFORM pg_catalog.pg_sleep(1);
    ELSE
      PERFORM rdma.note_phase('resting');
      most := rdma.move_size(server, step.source, pg_catalog.cardinality(step.moved), took, goal);
      PERFORM pg_catalog.pg_sleep_for(pg_catalog.make_interval(secs => pg_catalog.float8div(rest, 1000)));
    END IF;
  END LOOP;
  PERFORM rdma.note_job(server, NULL, NULL);
END $procedure$;
COMMENT ON PROCEDURE rdma.move_all(name, name, integer, integer, integer) IS 'internal: moves buckets until nothing is left to move';

CREATE PROCEDURE rdma.rebalance(server name, goal integer DEFAULT 300, wait integer DEFAULT 200, rest integer DEFAULT 100)
LANGUAGE plpgsql
AS $procedure$
BEGIN
  CALL rdma.move_all(server, NULL, goal, wait, rest);
END $procedure$;
COMMENT ON PROCEDURE rdma.rebalance(name, integer, integer, integer) IS 'moves rows until each node of a server has as many buckets as the others';

CREATE PROCEDURE rdma.drain_node(server name, node name, goal integer DEFAULT 300, wait integer DEFAULT 200, rest integer DEFAULT 100)
LANGUAGE plpgsql
AS $procedure$
BEGIN
  CALL rdma.move_all(server, node, goal, wait, rest);
END $procedure$;
COMMENT ON PROCEDURE rdma.drain_node(name, name, integer, integer, integer) IS 'moves the rows of all distributed tables from a node to the others';

CREATE FUNCTION rdma.remove_node(server name, node name, wait integer DEFAULT 10000, lost boolean DEFAULT false)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp SET rdma_fdw.snapshot = each_node
SET client_min_messages = warning
AS $function$
DECLARE
  nodes name[] := ARRAY(SELECT n.node FROM rdma.nodes(server) n ORDER BY n.place);
  removed integer := array_position(nodes, node) - 1;
  buckets smallint[];
  tab regclass;
  part record;
BEGIN
  IF removed IS NULL OR rdma.named_nodes(server) IS NULL THEN
    RAISE EXCEPTION 'server "%" is no node of server "%"', node, server USING ERRCODE = 'undefined_object', HINT = 'rdma.nodes() lists them.';
  END IF;
  PERFORM set_config('rdma_fdw.commit', 'required', true);
  PERFORM rdma.note_move(server, 'remove_node', node, NULL, NULL);
  PERFORM rdma.await_change(server, wait);
  PERFORM rdma.begin_change(server, CASE WHEN lost THEN '{}' ELSE ARRAY[node] END, false, wait);
  PERFORM rdma.note_phase('recording');
  nodes := ARRAY(SELECT n.node FROM rdma.nodes(server) n ORDER BY n.place);
  removed := array_position(nodes, node) - 1;
  buckets := rdma.buckets(server);
  IF cardinality(nodes) = 1 OR removed = ANY (buckets) THEN
    RAISE EXCEPTION 'node "%" of server "%" cannot be removed', node, server USING ERRCODE = 'object_in_use',
      DETAIL = CASE WHEN cardinality(nodes) = 1 THEN 'There is no other one.'
        ELSE format('It has %s of %s buckets.', cardinality(array_positions(buckets, removed::smallint)), cardinality(buckets)) END,
      HINT = CASE WHEN cardinality(nodes) > 1 AND lost THEN format('Restore it, on any machine, and tell with rdma.replace_node(%L, %L).', server, node)
        WHEN cardinality(nodes) > 1 THEN format('CALL rdma.drain_node(%L, %L)', server, node) ELSE 'Drop the server''s tables, and the server.' END;
  END IF;
  FOR tab IN SELECT f.ftrelid FROM pg_foreign_table f JOIN pg_foreign_server s ON s.oid = f.ftserver WHERE s.srvname = server ORDER BY f.ftrelid LOOP
    SELECT * INTO part FROM rdma.placement_conditions(tab) WHERE place = removed;
    IF NOT lost AND NOT part.replicated AND rdma.ask_node(node, format('SELECT EXISTS (SELECT FROM %s)', part.relation), false) IS NOT FALSE THEN
      RAISE EXCEPTION 'node "%" of server "%" cannot be removed', node, server USING ERRCODE = 'object_in_use',
        DETAIL = format('It has rows of table %s.', tab), HINT = 'Rows that lie where no option "distributed_by" says do not move by themselves.';
    END IF;
  END LOOP;
  -- the nodes behind it get the numbers before theirs
  PERFORM rdma.change_placement(server, array_remove(nodes, node),
    ARRAY(SELECT u.b - (u.b > removed)::integer FROM unnest(buckets) WITH ORDINALITY u(b, number) ORDER BY u.number)::smallint[]);
  IF NOT lost THEN
    PERFORM rdma.ask_node(node, format('SELECT rdma.join_set(%L, -1, 0, true)', (SELECT p.set_id FROM rdma.placement p WHERE p.server = remove_node.server)), NULL::text);
  END IF;
  EXECUTE format('ALTER SERVER %I OPTIONS (SET nodes %L)', server, (SELECT string_agg(quote_ident(n), ', ') FROM unnest(array_remove(nodes, node)) n));
  PERFORM rdma.note_phase('committing');
END $function$;
COMMENT ON FUNCTION rdma.remove_node(name, name, integer, boolean) IS 'a node without rows is no node of a server with nodes any more; its tables stay there';

-- On a node.

CREATE TABLE rdma.membership (
  set_id uuid PRIMARY KEY,
  number integer NOT NULL,
  version bigint NOT NULL,
  member uuid NOT NULL DEFAULT gen_random_uuid(),
  origin text NOT NULL,
  role name NOT NULL DEFAULT session_user
);
COMMENT ON TABLE rdma.membership IS 'one row per set of nodes that this database is one of';
COMMENT ON COLUMN rdma.membership.set_id IS 'as in rdma.placement of a coordinator';
COMMENT ON COLUMN rdma.membership.number IS 'which of the nodes it is, from 0';
COMMENT ON COLUMN rdma.membership.version IS 'of the placement, with which what lies here changed last';
COMMENT ON COLUMN rdma.membership.member IS 'who this database is in that set';
COMMENT ON COLUMN rdma.membership.origin IS 'rdma.database_origin() of the database that joined; another one''s is a copy';
COMMENT ON COLUMN rdma.membership.role IS 'who had it join';
SELECT pg_extension_config_dump('rdma.membership', '');
-- for pg_dump of a database's owner
GRANT SELECT ON rdma.placement, rdma.membership TO PUBLIC;

CREATE FUNCTION rdma.database_origin()
RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $function$
  SELECT c.system_identifier || '/' || d.oid FROM pg_control_system() c, pg_database d WHERE d.datname = current_database()
$function$;
COMMENT ON FUNCTION rdma.database_origin() IS 'internal: tells a database from its copies in other clusters and in this one';

CREATE FUNCTION rdma.join_set(set_id uuid, number integer, version bigint, replace boolean)
RETURNS uuid
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  old rdma.membership;
BEGIN
  IF replace THEN
    SELECT * INTO old FROM rdma.membership m WHERE m.set_id = join_set.set_id;
    -- any role with access to write may call this; it must not make a database forget which node it is
    -- a copy in another cluster may not have the role
    IF FOUND AND NOT (SELECT rolsuper FROM pg_roles WHERE rolname = session_user)
        AND (old.origin = rdma.database_origin() OR EXISTS (SELECT FROM pg_roles WHERE rolname = old.role))
        AND NOT EXISTS (SELECT FROM pg_roles WHERE rolname = old.role AND pg_has_role(session_user, oid, 'MEMBER')) THEN
      RAISE EXCEPTION 'permission denied to change which node database "%" is', current_database() USING ERRCODE = 'insufficient_privilege',
        DETAIL = format('Role %s had it join the set of nodes.', quote_ident(old.role));
    END IF;
    DELETE FROM rdma.membership m WHERE m.set_id = join_set.set_id AND (m.origin <> rdma.database_origin() OR m.number <> join_set.number);
    UPDATE rdma.membership m SET version = join_set.version WHERE m.set_id = join_set.set_id;
    IF number < 0 THEN
      RETURN old.member;
    END IF;
  END IF;
  INSERT INTO rdma.membership (set_id, number, version, origin) VALUES (set_id, number, version, rdma.database_origin()) ON CONFLICT DO NOTHING;
  SELECT * INTO STRICT old FROM rdma.membership m WHERE m.set_id = join_set.set_id;
  IF old.number <> number OR old.origin <> rdma.database_origin() THEN
    RAISE EXCEPTION 'database "%" cannot become node % of this set of nodes', current_database(), number USING ERRCODE = 'object_not_in_prerequisite_state',
      DETAIL = CASE WHEN old.origin = rdma.database_origin() THEN format('It is node %s.', old.number)
        ELSE format('It is a copy of the database that is node %s.', old.number) END,
      HINT = 'Correct the options of the node''s server. If this database has taken the node''s place, call rdma.replace_node on the coordinator.';
  END IF;
  RETURN old.member;
END $function$;
COMMENT ON FUNCTION rdma.join_set(uuid, integer, bigint, boolean) IS 'internal: this database becomes a node of a coordinator''s server with nodes, or another one of them; none with number -1';

CREATE FUNCTION rdma.timeline()
RETURNS bigint
AS 'MODULE_PATHNAME', 'rdma_timeline' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION rdma.timeline() IS 'internal: the timeline that this server writes or replays WAL of';

CREATE FUNCTION rdma.memberships(sets uuid[])
RETURNS text
LANGUAGE sql STABLE STRICT PARALLEL SAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
  SELECT string_agg(concat_ws(' ', m.set_id, m.number, m.version, m.member, m.origin = rdma.database_origin(), rdma.timeline()), E'\n')
    FROM rdma.membership m WHERE m.set_id = ANY (sets)
$function$;
COMMENT ON FUNCTION rdma.memberships(uuid[]) IS 'internal: which nodes of these sets this database is, for sessions of a coordinator';

REVOKE EXECUTE ON FUNCTION rdma.join_set, rdma.complete_placement, rdma.placement_changed, rdma.keep_placement, rdma.drop_placement FROM PUBLIC;

-- Servers of 1.0: their rows lie as the option says.
INSERT INTO rdma.placement (server) SELECT s.srvname FROM pg_foreign_server s JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw
  JOIN pg_proc h ON h.oid = w.fdwhandler AND h.proname = 'rdma_fdw_handler'
  WHERE EXISTS (SELECT FROM pg_options_to_table(s.srvoptions) WHERE option_name = 'nodes');

-- Transactions that commit on several nodes, or on none.

CREATE TABLE rdma.decisions (
  gid text NOT NULL,
  server oid NOT NULL,
  usr oid NOT NULL,
  node bigint NOT NULL,
  decided timestamptz NOT NULL);
COMMENT ON TABLE rdma.decisions IS 'internal: parts of transactions over several nodes that have committed and are not known to be finished; a part that is prepared and has no row is rolled back';
COMMENT ON COLUMN rdma.decisions.gid IS 'name of the prepared transaction';
COMMENT ON COLUMN rdma.decisions.server IS 'foreign server by which it was prepared';
COMMENT ON COLUMN rdma.decisions.usr IS 'whose user mapping was used';
COMMENT ON COLUMN rdma.decisions.node IS 'system identifier of the node';
COMMENT ON COLUMN rdma.decisions.decided IS 'when the commit began';

CREATE FUNCTION rdma.transactions(
  OUT gid text, OUT server_name text, OUT user_name text, OUT decision text, OUT since timestamptz, OUT problem text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_transactions' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 4;
COMMENT ON FUNCTION rdma.transactions() IS 'transactions over several nodes that are decided and not finished on a node';
CREATE VIEW rdma.transactions AS SELECT * FROM rdma.transactions();
COMMENT ON VIEW rdma.transactions IS 'one row per node on which a transaction of this database is decided and not finished; it is finished in the background once the node can be asked';
COMMENT ON COLUMN rdma.transactions.gid IS 'name of the transaction in pg_prepared_xacts there; NULL: the node could not be asked since the server started, and may have some';
COMMENT ON COLUMN rdma.transactions.server_name IS 'foreign server';
COMMENT ON COLUMN rdma.transactions.user_name IS 'whose user mapping was used';
COMMENT ON COLUMN rdma.transactions.decision IS 'commit or rollback';
COMMENT ON COLUMN rdma.transactions.since IS 'when that was decided, or when the node was first found not to answer';
COMMENT ON COLUMN rdma.transactions.problem IS 'why it could not be finished; NULL: nobody has tried';
REVOKE ALL ON FUNCTION rdma.transactions() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION rdma.transactions() TO pg_read_all_stats;
GRANT SELECT ON rdma.transactions TO pg_read_all_stats;

CREATE FUNCTION rdma.resolve(server name, forget boolean DEFAULT false)
RETURNS integer
AS 'MODULE_PATHNAME', 'rdma_resolve' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma.resolve(name, boolean) IS 'finishes on a server what transactions left there, with the caller''s user mapping; with forget, gives it up because the server will never come back; how many';
REVOKE ALL ON FUNCTION rdma.resolve(name, boolean) FROM PUBLIC;

-- Points to which all nodes can be recovered together

CREATE TABLE rdma.restore_points (
  name text PRIMARY KEY,
  made timestamptz NOT NULL DEFAULT pg_catalog.now(),
  lsn pg_lsn);
COMMENT ON TABLE rdma.restore_points IS 'names that rdma.create_restore_point has used, on the coordinator and on its nodes';
COMMENT ON COLUMN rdma.restore_points.name IS 'for recovery_target_name';
COMMENT ON COLUMN rdma.restore_points.made IS 'when it was about to be created, by this server''s clock';
COMMENT ON COLUMN rdma.restore_points.lsn IS 'where it is in this server''s WAL; NULL: this server does not have it, or it was not confirmed';
GRANT SELECT ON rdma.restore_points TO pg_read_all_stats;

CREATE FUNCTION rdma.create_restore_point(name text, OUT server_name name, OUT lsn pg_lsn)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_create_restore_point' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE ROWS 4;
COMMENT ON FUNCTION rdma.create_restore_point(text) IS 'creates a named restore point here and on the nodes of all servers, such that recovery to it has each transaction on all of them or on none; a row for each server, and one without a name for this one';
REVOKE ALL ON FUNCTION rdma.create_restore_point(text) FROM PUBLIC;

-- Rows that were found before they are written

CREATE FUNCTION rdma.lock_row(relation regclass, member oid, place tid, delete boolean)
RETURNS void
AS 'MODULE_PATHNAME', 'rdma_lock_row' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma.lock_row(regclass, oid, tid, boolean) IS 'internal: locks the row at this place of this part of the table, an error if another transaction has changed it';

CREATE FUNCTION rdma.is_key(value anycompatible, wanted anycompatible)
RETURNS boolean
AS 'MODULE_PATHNAME', 'rdma_is_key' LANGUAGE C STABLE PARALLEL SAFE COST 10;
COMMENT ON FUNCTION rdma.is_key(anycompatible, anycompatible) IS 'internal: true, an error if a column of the distribution key is not the wanted one';

-- SELECT ... LIMIT ... FOR UPDATE over several nodes: rows that were found before they are locked

CREATE FUNCTION rdma.lock_version(relation regclass, member oid, place tid, strength text, waiting text)
RETURNS boolean
AS 'MODULE_PATHNAME', 'rdma_lock_version' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma.lock_version(regclass, oid, tid, text, text) IS 'internal: locks the last version of the row that was at this place of this part of the table; false: there is none to be returned';

CREATE FUNCTION rdma.locked_place()
RETURNS tid
AS 'MODULE_PATHNAME', 'rdma_locked_place' LANGUAGE C STABLE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma.locked_place() IS 'internal: where the row is that rdma.lock_version has locked last';

-- Snapshots of several nodes, while other coordinators commit there

CREATE FUNCTION rdma.other_parts_age(coordinator bigint)
RETURNS bigint
AS 'MODULE_PATHNAME', 'rdma_other_parts_age' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma.other_parts_age(bigint) IS 'internal: microseconds since a transaction of another coordinator was committed here';
CREATE FUNCTION rdma.unseen_parts(coordinator bigint, statement bigint, OUT part bigint, OUT age bigint, OUT owner bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_unseen_parts' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE ROWS 10;
COMMENT ON FUNCTION rdma.unseen_parts(bigint, bigint) IS 'internal: transactions of other coordinators that the snapshot of a statement does not see here';
CREATE FUNCTION rdma.seen_parts(statement bigint, parts bigint[], ages bigint[])
RETURNS boolean
AS 'MODULE_PATHNAME', 'rdma_seen_parts' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma.seen_parts(bigint, bigint[], bigint[]) IS 'internal: may the snapshot of a statement see one of these transactions here?';

-- The gate between commits and snapshots of several nodes

CREATE FUNCTION rdma.stat_gate(
	OUT commits bigint, OUT commit_waits bigint, OUT commit_wait_us bigint,
	OUT snapshots bigint, OUT snapshot_waits bigint, OUT snapshot_wait_us bigint, OUT snapshots_renewed bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_stat_gate' LANGUAGE C VOLATILE STRICT PARALLEL SAFE ROWS 1;
COMMENT ON FUNCTION rdma.stat_gate() IS 'commits on nodes and common snapshots of several, of all databases, and how they waited for each other';
CREATE VIEW rdma.stat_gate AS SELECT * FROM rdma.stat_gate();
COMMENT ON VIEW rdma.stat_gate IS 'one row: commits on nodes and common snapshots of several nodes, of all databases since the server started, and how they waited for each other';
COMMENT ON COLUMN rdma.stat_gate.commits IS 'transactions that wrote on nodes, one or several, and began to commit';
COMMENT ON COLUMN rdma.stat_gate.commit_waits IS 'those that waited for others to take snapshots';
COMMENT ON COLUMN rdma.stat_gate.commit_wait_us IS 'how long in total';
COMMENT ON COLUMN rdma.stat_gate.snapshots IS 'times that snapshots of several nodes were taken as one';
COMMENT ON COLUMN rdma.stat_gate.snapshot_waits IS 'times that this waited for commits';
COMMENT ON COLUMN rdma.stat_gate.snapshot_wait_us IS 'how long in total';
COMMENT ON COLUMN rdma.stat_gate.snapshots_renewed IS 'of snapshots, those taken in place of others of the same transaction';
REVOKE ALL ON FUNCTION rdma.stat_gate() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION rdma.stat_gate() TO pg_read_all_stats;
GRANT SELECT ON rdma.stat_gate TO pg_read_all_stats;

CREATE FUNCTION rdma.locks(
  OUT server_name text, OUT waiting_pid integer, OUT blocking_pid integer, OUT waiting_backend integer, OUT blocking_backend integer)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_locks' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE ROWS 10;
COMMENT ON FUNCTION rdma.locks() IS 'who waits for whose locks, here and on the nodes that sessions of this database are connected with';
CREATE VIEW rdma.locks AS SELECT * FROM rdma.locks();
COMMENT ON VIEW rdma.locks IS 'one row per process that waits for a lock and process that it waits for, here and on the nodes that sessions of this database are connected with; nodes are asked with the caller''s user mappings';
COMMENT ON COLUMN rdma.locks.server_name IS 'foreign server on whose node they wait; NULL: here';
COMMENT ON COLUMN rdma.locks.waiting_pid IS 'process of that server that waits';
COMMENT ON COLUMN rdma.locks.blocking_pid IS 'process of that server that it waits for';
COMMENT ON COLUMN rdma.locks.waiting_backend IS 'process here that the first serves, or that it is; NULL: none';
COMMENT ON COLUMN rdma.locks.blocking_backend IS 'the same of the second';
REVOKE ALL ON FUNCTION rdma.locks() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION rdma.locks() TO pg_read_all_stats;
GRANT SELECT ON rdma.locks TO pg_read_all_stats;

-- All counters in one view, by the names and units that Prometheus expects. The word after rdma_fdw_ says
-- which labels a metric has. What asks nodes (rdma.locks), or has a row per queue pair (rdma.qps), is not in it.

CREATE VIEW rdma.metrics AS
  SELECT m.name, '{}'::jsonb AS labels, m.value, m.type, m.help
    FROM (VALUES ('rdma_fdw_engine_up', (SELECT count(e.pid)::double precision FROM rdma.stat_engine() e), 'gauge', 'The engine runs.'),
      ('rdma_fdw_engine_max_flows', current_setting('rdma_fdw.max_flows', true)::double precision, 'gauge', 'Streams that may be open at once (rdma_fdw.max_flows).')) m(name, value, type, help)
    WHERE m.value IS NOT NULL
  UNION ALL
  SELECT 'rdma_fdw_device_info', jsonb_build_object('provider', coalesce(e.provider, ''), 'device', coalesce(e.device, '')), 1, 'gauge', 'What the engine moves data with.'
    FROM rdma.stat_engine() e
  UNION ALL
  SELECT m.name, '{}', m.value, m.type, m.help FROM rdma.stat_engine() e, LATERAL (VALUES
      ('rdma_fdw_engine_start_time_seconds', extract(epoch FROM e.started)::double precision, 'gauge', 'When the engine started, in seconds since 1970.'),
      ('rdma_fdw_engine_starts_total', e.starts, 'counter', 'Starts of the engine since the server started.'),
      ('rdma_fdw_engine_lanes', e.lanes, 'gauge', 'Threads that move data.'),
      ('rdma_fdw_engine_buffer_bytes', e.buffer_memory, 'gauge', 'Memory for the buffers of streams.'),
      ('rdma_fdw_engine_buffer_used_bytes', e.buffer_used, 'gauge', 'Buffer memory that streams have.'),
      ('rdma_fdw_engine_segments', e.segments, 'gauge', 'Segments of buffer memory.'),
      ('rdma_fdw_engine_segments_lent', e.segments_lent, 'gauge', 'Segments that are lent to peers.'),
      ('rdma_fdw_engine_segments_held', e.segments_held, 'gauge', 'Segments that a stopped engine of this host may still write into.'),
      ('rdma_fdw_engine_handshakes_total', e.handshakes, 'counter', 'Connections of engines that were agreed on.'),
      ('rdma_fdw_engine_handshakes_refused_total', e.handshakes_refused, 'counter', 'Connections of engines that were refused.'),
      ('rdma_fdw_engine_garbage_connections_total', e.garbage_connections, 'counter', 'TCP connections that did not speak the protocol.'),
      ('rdma_fdw_engine_connections_lost_total', e.connections_lost, 'counter', 'Connections of engines that were lost.'),
      ('rdma_fdw_engine_flows_refused_total', e.flows_refused, 'counter', 'Streams that could not be opened.'),
      ('rdma_fdw_engine_buffer_waits_total', e.buffer_waits, 'counter', 'Streams that waited for buffer memory.'),
      ('rdma_fdw_engine_in_flight_bytes', e.bytes_in_flight, 'gauge', 'Bytes in flight under rdma_fdw.admission_window.'),
      ('rdma_fdw_engine_in_flight_max_bytes', e.bytes_in_flight_max, 'gauge', 'Most bytes that were in flight since the engine started.'),
      ('rdma_fdw_engine_value_bytes', e.value_memory, 'gauge', 'Value memory.'),
      ('rdma_fdw_engine_value_used_bytes', e.value_used, 'gauge', 'Value memory that streams have.'),
      ('rdma_fdw_engine_value_registered_bytes', e.value_registered, 'gauge', 'Value memory that is registered, once for each peer.'),
      ('rdma_fdw_engine_registrations_total', e.registrations, 'counter', 'Registrations of pieces of value memory.'),
      ('rdma_fdw_engine_registration_hits_total', e.registration_hits, 'counter', 'Pieces of value memory that were registered when a stream wanted them.'),
      ('rdma_fdw_engine_registration_evictions_total', e.registration_evictions, 'counter', 'Registrations of value memory given up for others.'),
      ('rdma_fdw_engine_registrations_refused_total', e.registrations_refused, 'counter', 'Times that a stream got no piece of value memory, and copied.')) m(name, value, type, help)
    WHERE m.value IS NOT NULL
  UNION ALL
  SELECT 'rdma_fdw_connection_info', jsonb_build_object('peer', p.peer::text, 'host', coalesce(p.host, ''), 'direction', p.direction, 'state', p.state,
      'transport', coalesce(p.transport, ''), 'encryption', coalesce(p.encryption, '')), 1, 'gauge', 'Another engine that this one is connected with.'
    FROM rdma.stat_peers() p
  UNION ALL
  SELECT m.name, jsonb_build_object('peer', p.peer::text, 'host', coalesce(p.host, '')), m.value, m.type, m.help FROM rdma.stat_peers() p, LATERAL (VALUES
      ('rdma_fdw_peer_connected', (p.state = 'connected')::integer::double precision, 'gauge', 'The engines are connected.'),
      ('rdma_fdw_peer_degraded', (p.error IS NOT NULL)::integer, 'gauge', 'The connection failed, or uses TCP instead of RDMA.'),
      ('rdma_fdw_peer_unencrypted', (p.encryption IS NOT DISTINCT FROM 'none')::integer, 'gauge', 'Rows cross a network that is not trusted in clear.'),
      ('rdma_fdw_peer_connections_total', p.connections, 'counter', 'Connections made, reconnects included.'),
      ('rdma_fdw_peer_handshake_seconds', p.handshake_ms / 1000, 'gauge', 'How long connecting took.'),
      ('rdma_fdw_peer_round_trip_seconds', p.round_trip_us / 1e6, 'gauge', 'The last round trip between the engines.'),
      ('rdma_fdw_peer_usual_round_trip_seconds', p.usual_round_trip_us / 1e6, 'gauge', 'The shortest of the last round trips.'),
      ('rdma_fdw_peer_bandwidth_bytes_per_second', p.bandwidth, 'gauge', 'What pulls from the peer got while both ends waited for the network.'),
      ('rdma_fdw_peer_sent_bytes_total', p.bytes_sent, 'counter', 'Payload sent.'),
      ('rdma_fdw_peer_received_bytes_total', p.bytes_received, 'counter', 'Payload received.'),
      ('rdma_fdw_peer_flows_opened_total', p.flows_opened, 'counter', 'Streams opened.'),
      ('rdma_fdw_peer_segments', p.segments, 'gauge', 'Segments of buffer memory that are lent to the peer.')) m(name, value, type, help)
    WHERE m.value IS NOT NULL
  UNION ALL
  SELECT m.name, jsonb_build_object('lane', l.lane::text), m.value, m.type, m.help FROM rdma.stat_lanes() l, LATERAL (VALUES
      ('rdma_fdw_lane_busy_seconds_total', l.busy_ms / 1000, 'counter', 'CPU time of the thread.'),
      ('rdma_fdw_lane_sent_bytes_total', l.bytes_sent, 'counter', 'Bytes sent.'),
      ('rdma_fdw_lane_in_place_bytes_total', l.in_place_bytes, 'counter', 'Bytes sent from value memory without a copy.'),
      ('rdma_fdw_lane_from_pages_bytes_total', l.from_pages_bytes, 'counter', 'Bytes sent from shared buffers without a copy.'),
      ('rdma_fdw_lane_requests_total', l.requests, 'counter', 'Buffers and messages that were to be sent.'),
      ('rdma_fdw_lane_work_requests_total', l.work_requests, 'counter', 'Work requests that carried them.'),
      ('rdma_fdw_lane_merged_total', l.merged, 'counter', 'Requests that left within the work request of a neighbour.'),
      ('rdma_fdw_lane_chained_total', l.chained, 'counter', 'Work requests that shared a doorbell with an earlier one.'),
      ('rdma_fdw_lane_doorbells_total', l.doorbells, 'counter', 'Times that work requests were handed to the device.'),
      ('rdma_fdw_lane_immediates_total', l.immediates, 'counter', 'Immediates received.'),
      ('rdma_fdw_lane_turns_total', l.turns, 'counter', 'Turns that ended because it was the next stream''s.'),
      ('rdma_fdw_lane_throttled_total', l.throttled, 'counter', 'Times that the admission window made the lane wait.'),
      ('rdma_fdw_lane_throttled_seconds_total', l.throttled_ms / 1000, 'counter', 'How long it made it wait.'),
      ('rdma_fdw_lane_protocol_errors_total', l.protocol_errors, 'counter', 'Messages that broke the protocol.'),
      ('rdma_fdw_lane_polls_total', l.polls, 'counter', 'Looks at the completion queue.'),
      ('rdma_fdw_lane_empty_polls_total', l.empty_polls, 'counter', 'Looks that found nothing.'),
      ('rdma_fdw_lane_completions_total', l.completions, 'counter', 'Completions and immediates found.'),
      ('rdma_fdw_lane_sleeps_total', l.sleeps, 'counter', 'Times that the lane went to sleep.'),
      ('rdma_fdw_lane_credit_waits_total', l.credit_waits, 'counter', 'Waits of streams for credit of a queue pair.'),
      ('rdma_fdw_lane_claims_total', l.claims, 'counter', 'Receive buffers of shared pools won by remote compare-and-swap.'),
      ('rdma_fdw_lane_claims_lost_total', l.claims_lost, 'counter', 'Attempts that found the buffer taken.'),
      ('rdma_fdw_lane_claims_asked_total', l.claims_asked, 'counter', 'Receive buffers of shared pools that were asked for.'),
      ('rdma_fdw_lane_claims_held_up_total', l.claims_held_up, 'counter', 'Claims that had to wait for earlier ones of the stream.'),
      ('rdma_fdw_lane_grants_total', l.grants, 'counter', 'Receive buffers of own pools granted to nodes that asked.'),
      ('rdma_fdw_lane_backoff_seconds_total', l.backoff_ms / 1000, 'counter', 'Time between lost attempts and the next ones.')) m(name, value, type, help)
  UNION ALL
  SELECT m.name, jsonb_build_object('role', f.role), m.value, m.type, m.help
    FROM (SELECT r.role, count(s.flow) AS streams, max(extract(epoch FROM clock_timestamp() - s.started)) AS oldest
        FROM (VALUES ('reader'), ('sender')) r(role) LEFT JOIN rdma.stat_flows() s ON s.role = r.role
        WHERE EXISTS (SELECT FROM rdma.stat_engine()) GROUP BY r.role) f,
      LATERAL (VALUES ('rdma_fdw_flow_streams', f.streams::double precision, 'gauge', 'Streams that are open, or about to be.'),
        ('rdma_fdw_flow_oldest_seconds', coalesce(f.oldest, 0), 'gauge', 'Age of the oldest of them.')) m(name, value, type, help)
  UNION ALL
  SELECT m.name, '{}', m.value, m.type, m.help FROM rdma.stat_gate() g, LATERAL (VALUES
      ('rdma_fdw_gate_commits_total', g.commits::double precision, 'counter', 'Transactions that wrote on nodes and began to commit.'),
      ('rdma_fdw_gate_commit_waits_total', g.commit_waits, 'counter', 'Commits that waited for others to take snapshots.'),
      ('rdma_fdw_gate_commit_wait_seconds_total', g.commit_wait_us / 1e6, 'counter', 'How long they waited.'),
      ('rdma_fdw_gate_snapshots_total', g.snapshots, 'counter', 'Snapshots of several nodes that were taken as one.'),
      ('rdma_fdw_gate_snapshot_waits_total', g.snapshot_waits, 'counter', 'Snapshots that waited for commits.'),
      ('rdma_fdw_gate_snapshot_wait_seconds_total', g.snapshot_wait_us / 1e6, 'counter', 'How long they waited.'),
      ('rdma_fdw_gate_snapshots_renewed_total', g.snapshots_renewed, 'counter', 'Snapshots taken in place of others of the same transaction.')) m(name, value, type, help)
  UNION ALL
  SELECT m.name, jsonb_build_object('datname', current_database(), 'foreign_server', t.server), m.value, m.type, m.help
    FROM (SELECT coalesce(s.srvname::text, x.server_name) AS server, count(x.gid) AS unfinished, count(*) FILTER (WHERE x.server_name IS NOT NULL AND x.gid IS NULL) AS unknown,
          max(extract(epoch FROM clock_timestamp() - x.since)) AS oldest
        FROM (SELECT s.srvname FROM pg_foreign_server s JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw JOIN pg_proc h ON h.oid = w.fdwhandler AND h.proname = 'rdma_fdw_handler'
          WHERE NOT EXISTS (SELECT FROM pg_options_to_table(s.srvoptions) WHERE option_name = 'nodes')) s
        FULL JOIN rdma.transactions() x ON x.server_name = s.srvname GROUP BY 1) t,
      LATERAL (VALUES ('rdma_fdw_transaction_unfinished', t.unfinished::double precision, 'gauge', 'Transactions that are decided and not finished on the node.'),
        ('rdma_fdw_transaction_unknown', t.unknown, 'gauge', 'User mappings with which the node could not be asked whether it has such transactions.'),
        ('rdma_fdw_transaction_oldest_seconds', coalesce(t.oldest, 0), 'gauge', 'For how long the oldest of either is so.')) m(name, value, type, help)
    WHERE t.server IS NOT NULL
  UNION ALL
  SELECT m.name, jsonb_build_object('datname', current_database(), 'foreign_server', s.server, 'command', s.command), m.value, m.type, m.help
    FROM (SELECT server, command, count(*) AS running, sum(total_rows) AS rows, sum(total_bytes) AS bytes, sum(buckets_left) AS buckets_left,
          max(extract(epoch FROM clock_timestamp() - move_started)) AS oldest FROM rdma.stat_moves() WHERE server IS NOT NULL GROUP BY server, command) s,
      LATERAL (VALUES ('rdma_fdw_move_running', s.running::double precision, 'gauge', 'Sessions that move rows from node to node.'),
        ('rdma_fdw_move_rows', s.rows, 'gauge', 'Rows that they have moved since their commands began.'),
        ('rdma_fdw_move_bytes', s.bytes, 'gauge', 'Bytes of these rows, as they travel.'),
        ('rdma_fdw_move_buckets_left', s.buckets_left, 'gauge', 'Buckets that they still have to move.'),
        ('rdma_fdw_move_age_seconds', s.oldest, 'gauge', 'Age of the move that runs; clients wait meanwhile.')) m(name, value, type, help)
    WHERE m.value IS NOT NULL
  UNION ALL
  SELECT 'rdma_fdw_node_buckets', jsonb_build_object('datname', current_database(), 'foreign_server', p.server, 'node', n.node), count(b.place), 'gauge', 'Buckets of distributed tables that lie on the node.'
    FROM rdma.placement p CROSS JOIN unnest(p.nodes) WITH ORDINALITY n(node, number) LEFT JOIN LATERAL unnest(p.buckets) b(place) ON b.place = n.number - 1
    GROUP BY p.server, n.node;
COMMENT ON VIEW rdma.metrics IS 'one row per sample for a monitoring system: counters of this server''s engine, and of this database''s servers; asks no node';
COMMENT ON COLUMN rdma.metrics.name IS 'name of the metric, with its unit; ends with _total if it only rises';
COMMENT ON COLUMN rdma.metrics.labels IS 'which one: an object of strings; with the name it is unique';
COMMENT ON COLUMN rdma.metrics.value IS 'never NULL: what is not known has no row';
COMMENT ON COLUMN rdma.metrics.type IS 'counter or gauge';
COMMENT ON COLUMN rdma.metrics.help IS 'what it is; the same for all rows of a name';
REVOKE ALL ON rdma.metrics FROM PUBLIC;
GRANT SELECT ON rdma.metrics TO pg_read_all_stats;

-- What INSERT ... ON CONFLICT DO UPDATE would do to a foreign table, if the planner did not look for the unique index here.

CREATE FUNCTION rdma.upsert_rows(tab regclass, source regclass, conflict_columns text[], assignments text, condition text)
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
  SELECT c.relname, n.nspname, s.srvname AS server, c.relkind, rdma.named_nodes(s.srvname) IS NOT NULL AS many,
      format('%I.%I', coalesce(o.schema_name, n.nspname), coalesce(o.table_name, c.relname)) AS relation, coalesce(o.replicated::boolean, false) AS replicated,
      (SELECT string_agg(quote_ident(tgname), ', ' ORDER BY tgname) FROM pg_trigger WHERE tgrelid = c.oid AND NOT tgisinternal AND tgenabled <> 'D' AND tgtype & (4 | 16) <> 0) AS triggers
    INTO target FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_foreign_table f ON f.ftrelid = c.oid
      LEFT JOIN pg_foreign_server s ON s.oid = f.ftserver LEFT JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw LEFT JOIN pg_proc h ON h.oid = w.fdwhandler,
      LATERAL (SELECT max(option_value) FILTER (WHERE option_name = 'schema_name') AS schema_name, max(option_value) FILTER (WHERE option_name = 'table_name') AS table_name,
        max(option_value) FILTER (WHERE option_name = 'replicated') AS replicated FROM pg_options_to_table(f.ftoptions)) o
    WHERE c.oid = tab AND h.proname = 'rdma_fdw_handler';
  IF target.relation IS NULL THEN
    RAISE EXCEPTION '"%" is not a foreign table of rdma_fdw', tab USING ERRCODE = 'wrong_object_type';
  END IF;
  IF NOT has_table_privilege(tab, 'INSERT') OR NOT has_table_privilege(tab, 'UPDATE') OR NOT has_table_privilege(tab, 'SELECT') THEN
    RAISE EXCEPTION 'permission denied for foreign table %', tab USING ERRCODE = 'insufficient_privilege', DETAIL = 'It takes SELECT, INSERT and UPDATE.';
  END IF;
  IF target.triggers IS NOT NULL THEN
    RAISE EXCEPTION 'rows cannot be written to foreign table "%" by rdma.upsert', target.relname USING ERRCODE = 'feature_not_supported',
      DETAIL = format('It has triggers, which would not run: %s.', target.triggers);
  END IF;
  SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) AS names INTO part FROM pg_attribute a
    WHERE a.attrelid = source AND a.attnum > 0 AND NOT EXISTS (SELECT FROM pg_attribute t WHERE t.attrelid = tab AND t.attname = a.attname AND t.attnum > 0 AND NOT t.attisdropped AND t.attgenerated = '');
  IF part.names IS NOT NULL THEN
    RAISE EXCEPTION 'foreign table "%" has no such columns to be written: %', target.relname, part.names USING ERRCODE = 'undefined_column';
  END IF;
  SELECT string_agg(quote_ident(c), ', ') AS names INTO part FROM unnest(conflict_columns) c
    WHERE NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = source AND a.attnum > 0 AND a.attname = c);
  IF cardinality(conflict_columns) = 0 OR part.names IS NOT NULL THEN
    RAISE EXCEPTION 'rows have no value for columns of the conflict: %', coalesce(part.names, 'there is no such column') USING ERRCODE = 'invalid_column_reference';
  END IF;
  nodes := ARRAY[target.server];
  IF target.many THEN
    nodes := ARRAY(SELECT n.node FROM rdma.nodes(target.server) n ORDER BY n.place);
    keys := rdma.distribution_key(tab);
    IF NOT target.replicated AND (keys IS NULL OR NOT keys <@ conflict_columns) THEN
      RAISE EXCEPTION 'a conflict of columns % of foreign table "%" cannot be seen', conflict_columns, target.relname USING ERRCODE = 'feature_not_supported',
        DETAIL = CASE WHEN keys IS NULL THEN 'Nothing says on which node a row is.'
          ELSE format('The table is distributed by (%s): rows that are equal in the columns may be on different nodes.', array_to_string(keys, ', ')) END;
    END IF;
    IF target.replicated AND (assignments IS NOT NULL OR condition IS NOT NULL) THEN
      RAISE EXCEPTION 'assignments and conditions of rdma.upsert are not for replicated tables' USING ERRCODE = 'feature_not_supported',
        DETAIL = format('Table "%s" would not be the same on all nodes if they have values of their own, such as now().', target.relname);
    END IF;
    IF NOT target.replicated AND assignments IS NOT NULL AND EXISTS (SELECT FROM rdma.run_on(target.server,
        format($sql$SELECT EXISTS (SELECT FROM pg_catalog.pg_constraint WHERE conrelid = %L::pg_catalog.regclass AND conname = 'rdma_placement')$sql$, target.relation)) r WHERE r.answer <> 't') THEN
      RAISE EXCEPTION 'assignments could move rows of foreign table "%" to where they are not found', target.relname USING ERRCODE = 'object_not_in_prerequisite_state',
        HINT = format('SELECT rdma.protect_table(%L)', tab);
    END IF;
    IF NOT target.replicated THEN
      -- which of the nodes, by the values that the rows will have
      place_of_row := format('(%L::smallint[])[rdma.hash_node(%s, %s) + 1]', rdma.buckets(target.server), cardinality(rdma.buckets(target.server)),
        (SELECT string_agg(format('s.%I::%s', a.attname, a.type), ', ' ORDER BY array_position(keys, a.attname::text))
          FROM (SELECT a.attname, format('%I.%I', n.nspname, t.typname) AS type FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid JOIN pg_namespace n ON n.oid = t.typnamespace
            WHERE a.attrelid = tab AND a.attname = ANY (keys)) a));
    END IF;
  END IF;

  -- Columns that the rows lack get the defaults of here. Values travel as text.
  SELECT array_agg(quote_ident(c.remote) ORDER BY c.attnum) AS names, string_agg(format('u.%I::%s', 'c' || c.attnum, c.type), ', ' ORDER BY c.attnum) AS taken,
      string_agg(format('%I', 'c' || c.attnum), ', ' ORDER BY c.attnum) AS given, string_agg('%L::pg_catalog.text[]', ', ' ORDER BY c.attnum) AS arrays,
      string_agg(format('pg_catalog.array_agg(CASE WHEN v.%1$I IS NOT NULL THEN pg_catalog.format(''%%s'', v.%1$I) END ORDER BY v.number)::text', 'c' || c.attnum), ', ' ORDER BY c.attnum) AS texts,
      string_agg(format('%s AS %I', CASE WHEN c.sent THEN format('s.%I::%s', c.attname, c.type) ELSE c.expression END, 'c' || c.attnum), ', ' ORDER BY c.attnum) AS selected,
      string_agg(format('%1$s = excluded.%1$s', quote_ident(c.remote)), ', ' ORDER BY c.attnum) FILTER (WHERE c.sent AND c.attname <> ALL (conflict_columns)) AS assigned,
      string_agg(quote_ident(c.remote), ', ' ORDER BY c.attnum) FILTER (WHERE c.attname = ANY (conflict_columns)) AS conflict,
      string_agg(format('s.%I::%s', c.attname, c.type), ', ' ORDER BY c.attnum) FILTER (WHERE c.attname = ANY (conflict_columns)) AS compared,
      string_agg(format('s.%I IS NOT NULL', c.attname), ' AND ' ORDER BY c.attnum) FILTER (WHERE c.attname = ANY (conflict_columns)) AS known
    INTO part
    FROM (SELECT a.attnum, a.attname::text, coalesce((SELECT option_value FROM pg_options_to_table(a.attfdwoptions) WHERE option_name = 'column_name'), a.attname) AS remote,
          format('%I.%I', n.nspname, t.typname) AS type, pg_get_expr(d.adbin, d.adrelid) AS expression,
          EXISTS (SELECT FROM pg_attribute s WHERE s.attrelid = source AND s.attnum > 0 AND s.attname = a.attname) AS sent
        FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid JOIN pg_namespace n ON n.oid = t.typnamespace LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        WHERE a.attrelid = tab AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '') c
    WHERE c.sent OR c.expression IS NOT NULL;
  EXECUTE format('SELECT EXISTS (SELECT FROM %s s WHERE %s GROUP BY %s HAVING pg_catalog.count(*) > 1)', source, part.known, part.compared) INTO tag;
  IF tag::boolean THEN
    RAISE EXCEPTION 'rdma.upsert cannot affect row a second time' USING ERRCODE = 'cardinality_violation',
      HINT = 'Ensure that no rows proposed for insertion have duplicate values in the columns of the conflict.';
  END IF;
  -- the literals of the arrays come between these two
  head := format('INSERT INTO %s AS %I (%s) SELECT %s FROM unnest(', target.relation, target.relname, array_to_string(part.names, ', '), part.taken);
  tail := format(') AS u (%s) ON CONFLICT (%s) ', part.given, part.conflict)
    || CASE WHEN coalesce(assignments, part.assigned) IS NULL THEN 'DO NOTHING' ELSE 'DO UPDATE SET ' || coalesce(assignments, part.assigned) || coalesce(' WHERE ' || condition, '') END;
  FOR place, columns IN
    EXECUTE format('SELECT v.place, ARRAY[%s] FROM (SELECT %s AS place, pg_catalog.row_number() OVER (PARTITION BY %s) AS number, %s FROM %s s) v GROUP BY v.place, (v.number - 1) / %s ORDER BY v.place, pg_catalog.min(v.number)',
      part.texts, place_of_row, place_of_row, part.selected, source, most)
  LOOP
    IF target.replicated THEN
      SELECT min(r.answer) INTO tag FROM rdma.run_on(target.server, head || format(part.arrays, VARIADIC columns) || tail) r;
    ELSE
      tag := rdma.ask_node(nodes[place + 1], head || format(part.arrays, VARIADIC columns) || tail, NULL::text);
    END IF;
    place := coalesce((regexp_match(tag, '^INSERT 0 ([0-9]{1,9})$'))[1]::integer, -1);
    IF place < 0 THEN
      RAISE EXCEPTION 'server "%" answered a question of rdma_fdw with something else', target.server USING ERRCODE = 'protocol_violation', DETAIL = format('After INSERT it said "%s".', tag);
    END IF;
    total := total + place;
  END LOOP;
  RETURN total;
END $function$;
COMMENT ON FUNCTION rdma.upsert_rows(regclass, regclass, text[], text, text) IS 'internal: writes the rows of a table for rdma.upsert';

CREATE FUNCTION rdma.upsert(tab regclass, query text, conflict_columns text[], assignments text DEFAULT NULL, condition text DEFAULT NULL)
RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $function$
-- The query means what it means to the caller, so there is no search_path of its own here.
DECLARE
  rows_name text := pg_catalog.format('pg_temp.%I', pg_catalog.concat('rdma upsert ', pg_catalog.gen_random_uuid()));
  count bigint;
BEGIN
  IF tab IS NULL OR query IS NULL OR conflict_columns IS NULL THEN
    RAISE EXCEPTION 'table, query and columns of the conflict must not be NULL' USING ERRCODE = 'null_value_not_allowed';
  END IF;
  EXECUTE pg_catalog.format('CREATE TEMPORARY TABLE %s ON COMMIT DROP AS %s', rows_name, query);
  count := rdma.upsert_rows(tab, CAST(rows_name AS pg_catalog.regclass), conflict_columns, assignments, condition);
  EXECUTE pg_catalog.format('DROP TABLE %s', rows_name);
  RETURN count;
END $function$;
COMMENT ON FUNCTION rdma.upsert(regclass, text, text[], text, text) IS 'inserts the rows of a query into a foreign table, and updates those that are there already, by these columns; how many';
