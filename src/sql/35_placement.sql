/* src/sql/35_placement.sql: Which nodes a server stands for, and where the rows of its tables lie. */

CREATE FUNCTION rdma.distribution_key(tab regclass)
RETURNS text[]
AS 'MODULE_PATHNAME', 'rdma_distribution_key' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION rdma.distribution_key(regclass) IS
    'columns of a foreign table whose hash says on which node a row lies (option distributed_by); NULL when there are '
    'none';

-- Which nodes a server with nodes stands for, by numbers that never change, and the number of each
-- bucket's node. Option "nodes" names
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
COMMENT ON COLUMN rdma.placement.members IS
    'what the database of each node was given by rdma_internal.join_set; NULL: not known yet';
COMMENT ON COLUMN rdma.placement.buckets IS
    'the number of the node that each bucket lies on: a row is in the bucket rdma.hash_node(cardinality(buckets), key)';
COMMENT ON COLUMN rdma.placement.serverid IS 'the server''s OID, to follow it when it is renamed';
COMMENT ON COLUMN rdma.placement.nodeids IS 'the same of the nodes';
COMMENT ON COLUMN rdma.placement.versions IS
    'the version with which what lies on each node changed last, as in its rdma.membership';
COMMENT ON COLUMN rdma.placement.timelines IS
    'the newest timeline that each node was seen on: a server on an older one was replaced by a standby; 0: only the '
    'first was seen';

SELECT pg_extension_config_dump('rdma.placement', '');

CREATE FUNCTION rdma_internal.named_nodes(server name)
RETURNS name[]
AS 'MODULE_PATHNAME', 'rdma_named_nodes' LANGUAGE C STABLE STRICT PARALLEL SAFE;

CREATE FUNCTION rdma.buckets(server name)
RETURNS smallint[]
AS 'MODULE_PATHNAME', 'rdma_buckets' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION rdma.buckets(name) IS
    'the place, as in rdma.nodes, of the node on which each bucket of a server''s distributed tables lies; a row is in '
    'bucket rdma.hash_node(number of buckets, key), from 0';
COMMENT ON FUNCTION rdma_internal.named_nodes(name) IS 'the names in option nodes of a server, as they stand there';

-- A row that is restored from a dump takes the place of the one that CREATE SERVER made.
CREATE FUNCTION rdma_internal.complete_placement()
RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
  DELETE FROM rdma.placement WHERE server = NEW.server;
  NEW.nodes := coalesce(NEW.nodes, rdma_internal.named_nodes(NEW.server));
  NEW.members := coalesce(NEW.members, array_fill(NULL::uuid, ARRAY[cardinality(NEW.nodes)]));
  -- at least 840 buckets, and so many that they lie on the nodes in turn: where the remainder of a
  -- hash by the number of nodes says
  NEW.buckets := coalesce(NEW.buckets, ARRAY(SELECT bucket % n.count FROM (SELECT cardinality(NEW.nodes) AS count) n,
    generate_series(0, n.count * ceil(840.0 / n.count)::integer - 1) bucket ORDER BY bucket));
  NEW.versions := coalesce(NEW.versions, array_fill(NEW.version, ARRAY[cardinality(NEW.nodes)]));
  NEW.timelines := coalesce(NEW.timelines, array_fill(0::bigint, ARRAY[cardinality(NEW.nodes)]));
  NEW.serverid := (SELECT oid FROM pg_foreign_server WHERE srvname = NEW.server);
  NEW.nodeids := ARRAY(SELECT s.oid FROM unnest(NEW.nodes) WITH ORDINALITY n(name, number) LEFT
      JOIN pg_foreign_server s ON s.srvname = n.name ORDER BY n.number);
  RETURN NEW;
END $function$;
COMMENT ON FUNCTION rdma_internal.complete_placement() IS 'fills in what a new row of rdma.placement lacks';

CREATE TRIGGER complete BEFORE INSERT ON rdma.placement FOR EACH ROW EXECUTE FUNCTION
    rdma_internal.complete_placement();

CREATE FUNCTION rdma_internal.placement_changed()
RETURNS trigger
AS 'MODULE_PATHNAME', 'rdma_placement_changed' LANGUAGE C;
COMMENT ON FUNCTION rdma_internal.placement_changed() IS 'tells all sessions to read rdma.placement again';

CREATE TRIGGER changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON rdma.placement FOR EACH STATEMENT
    EXECUTE FUNCTION rdma_internal.placement_changed();
ALTER TABLE rdma.placement ENABLE ALWAYS TRIGGER complete;
ALTER TABLE rdma.placement ENABLE ALWAYS TRIGGER changed;

-- CREATE SERVER puts the nodes on record, in the order of the option. ALTER SERVER may name other
-- nodes only while there are no tables.
CREATE FUNCTION rdma_internal.keep_placement()
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
        EXISTS (SELECT FROM pg_foreign_data_wrapper w JOIN pg_proc h ON h.oid = w.fdwhandler WHERE w.oid = s.srvfdw
            AND h.proname = 'rdma_fdw_handler') AS ours
      FROM pg_event_trigger_ddl_commands() c JOIN pg_foreign_server s ON s.oid = c.objid
          WHERE c.classid = 'pg_foreign_server'::regclass
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
      SELECT p.server, n.number::integer AS number FROM rdma.placement p, unnest(p.nodes, p.nodeids)
          WITH ORDINALITY n(name, oid, number)
        WHERE n.oid = changed.oid AND n.name <> changed.srvname AND NOT changed.created
          AND NOT EXISTS (SELECT FROM pg_foreign_server WHERE srvname = n.name)
    LOOP
      UPDATE rdma.placement SET nodes[old.number] = changed.srvname WHERE server = old.server;
    END LOOP;

    -- The lock waits for rdma.distribute_table, whose table is seen then.
    names := rdma_internal.named_nodes(changed.srvname);
    SELECT * INTO old FROM rdma.placement p WHERE p.server = changed.srvname AND NOT changed.created FOR UPDATE;
    IF old.server IS NOT NULL AND names @> old.nodes AND names <@ old.nodes THEN
      UPDATE rdma.placement p SET serverid = changed.oid, nodeids = n.ids
        FROM (SELECT array_agg(s.oid ORDER BY n.number) AS ids FROM unnest(old.nodes) WITH ORDINALITY n(name, number)
            LEFT JOIN pg_foreign_server s ON s.srvname = n.name) n
        WHERE p.server = old.server AND (p.serverid IS DISTINCT FROM changed.oid OR p.nodeids <> n.ids);
    ELSIF NOT EXISTS (SELECT FROM pg_foreign_table WHERE ftserver = changed.oid) THEN
      DELETE FROM rdma.placement WHERE server = changed.srvname;
      IF names IS NOT NULL THEN
        INSERT INTO rdma.placement (server) VALUES (changed.srvname);
      END IF;
    ELSIF old.server IS NOT NULL THEN
      RAISE EXCEPTION 'nodes of server "%" cannot be changed while it has tables', changed.srvname
          USING ERRCODE = 'object_not_in_prerequisite_state',
        DETAIL = format('Rows of its tables lie on %s.', (SELECT string_agg(quote_ident(n), ', ')
            FROM unnest(old.nodes) n)),
        HINT = 'Create another server with these nodes, and distribute tables there. The order of the names has no '
            'meaning.';
    END IF;
  END LOOP;
END $function$;
COMMENT ON FUNCTION rdma_internal.keep_placement() IS 'keeps rdma.placement in step with servers';

CREATE EVENT TRIGGER rdma_keep_placement ON ddl_command_end WHEN TAG IN ('CREATE SERVER', 'ALTER SERVER')
    EXECUTE FUNCTION rdma_internal.keep_placement();
ALTER EVENT TRIGGER rdma_keep_placement ENABLE ALWAYS;

-- What is on record about a server goes with it.
CREATE FUNCTION rdma_internal.drop_placement()
RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
  DELETE FROM rdma.placement p USING pg_event_trigger_dropped_objects() d
    WHERE d.classid = 'pg_foreign_server'::regclass AND d.object_name = p.server;
END $function$;
COMMENT ON FUNCTION rdma_internal.drop_placement() IS 'drops what is on record about servers that are dropped';

CREATE EVENT TRIGGER rdma_drop_placement ON sql_drop WHEN TAG IN ('DROP SERVER', 'DROP OWNED',
    'DROP FOREIGN DATA WRAPPER')
  EXECUTE FUNCTION rdma_internal.drop_placement();
ALTER EVENT TRIGGER rdma_drop_placement ENABLE ALWAYS;

CREATE FUNCTION rdma.record_nodes(server name)
RETURNS void
AS 'MODULE_PATHNAME', 'rdma_record_nodes' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma.record_nodes(name) IS
    'puts the nodes of a server on record, in the order in which option nodes has them, if they are not on record';

CREATE FUNCTION rdma.enroll_nodes(server name)
RETURNS integer
AS 'MODULE_PATHNAME', 'rdma_enroll_nodes' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma.enroll_nodes(name) IS
    'has the databases of a server''s nodes remember which nodes they are, so that no other can be taken for one of '
    'them; returns how many did not know it yet';

CREATE FUNCTION rdma.replace_node(server name, node name)
RETURNS void
AS 'MODULE_PATHNAME', 'rdma_replace_node' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma.replace_node(name, name) IS
    'the database that the server of a node leads to now has taken the node''s place, with all of its rows';

-- The tables of each node have the map in their constraint rdma_placement. Its text is read as numbers, and never run.
CREATE FUNCTION rdma_internal.buckets_of_nodes(server name)
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
  FOR part IN SELECT n.name AS node, n.number - 1 AS number, cardinality(p.buckets) AS buckets FROM rdma.placement p,
      unnest(p.nodes) WITH ORDINALITY n(name, number) WHERE p.server = buckets_of_nodes.server ORDER BY n.number LOOP
    claimed := false;
    FOR tab IN
      SELECT c.oid::regclass AS name, coalesce(max(option_value) FILTER (WHERE option_name = 'schema_name'),
          n.nspname) AS schema_name, coalesce(max(option_value) FILTER (WHERE option_name = 'table_name'),
          c.relname) AS table_name
        FROM pg_foreign_table f JOIN pg_foreign_server s ON s.oid = f.ftserver JOIN pg_class c ON c.oid = f.ftrelid
            JOIN pg_namespace n ON n.oid = c.relnamespace, pg_options_to_table(f.ftoptions)
        WHERE s.srvname = server GROUP BY c.oid, n.nspname, c.relname HAVING bool_or(option_name = 'distributed_by')
            ORDER BY n.nspname, c.relname
    LOOP
      SELECT r.answer INTO said FROM rdma.run_on(part.node, format('SELECT (SELECT '
          'pg_catalog.pg_get_constraintdef(k.oid) FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_class c ON c.oid '
          '= k.conrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE k.conname = ''rdma_placement'' '
          'AND k.contype = ''c'' AND n.nspname = %L AND c.relname = %L)', tab.schema_name, tab.table_name)) r;
      CONTINUE WHEN said IS NULL;
      -- ('{0,1,...}'::smallint[])[rdma.hash_node(840, id) + 1] = 1, or rdma.hash_node(2, id) = 1
      own := (regexp_match(said, ' = ([0-9]{1,5})\)+(?: NOT VALID)?$'))[1]::integer;
      count := (regexp_match(said, 'hash_node\(([0-9]{1,5}), '))[1]::integer;
      map := ('{' || (regexp_match(said, '^CHECK \(+''\{([0-9]{1,4}(?:,[0-9]{1,4})*)\}''::smallint\[\]'))[1]
          || '}')::smallint[];
      IF map IS NULL AND count > 0 AND part.buckets % count = 0 THEN
        map := ARRAY(SELECT (b % count)::smallint FROM generate_series(0, part.buckets - 1) b);
      END IF;
      IF own IS DISTINCT FROM part.number OR map IS NULL THEN
        RAISE EXCEPTION 'constraint "rdma_placement" of table % on server "%" does not say where rows lie', tab.name,
            part.node USING ERRCODE = 'object_not_in_prerequisite_state', DETAIL = format('It is %s', said);
      END IF;
      buckets := coalesce(buckets, array_fill(NULL::smallint, ARRAY[cardinality(map)]));
      -- a node's constraints are as old as the last change of its own buckets, so each is asked for these
      IF cardinality(map) <> cardinality(buckets) OR EXISTS (SELECT FROM unnest(map, buckets) b(here, known) WHERE CASE
          WHEN claimed THEN (here = own) <> (known IS NOT DISTINCT FROM own) ELSE here = own AND known IS NOT NULL END)
          THEN
        RAISE EXCEPTION 'nodes of server "%" disagree about the buckets of server "%"', server, part.node
            USING ERRCODE = 'object_not_in_prerequisite_state',
            DETAIL = format('It follows from constraint "rdma_placement" of table %s.', tab.name);
      END IF;
      buckets := ARRAY(SELECT CASE WHEN here = own THEN here ELSE known END FROM unnest(map, buckets)
          WITH ORDINALITY b(here, known, place) ORDER BY place);
      claimed := true;
    END LOOP;
    IF NOT claimed THEN
      RAISE EXCEPTION 'server "%" does not say which buckets of server "%" it has', part.node, server
          USING ERRCODE = 'object_not_in_prerequisite_state',
        DETAIL = 'Constraint "rdma_placement" of a distributed table says it, and no foreign table of the server '
            'stands for such a table.',
        HINT = 'CREATE FOREIGN TABLE for one of them, with the option "distributed_by".';
    END IF;
  END LOOP;
  IF array_position(buckets, NULL) IS NOT NULL THEN
    RAISE EXCEPTION 'no node of server "%" has bucket %', server, array_position(buckets, NULL) - 1
        USING ERRCODE = 'object_not_in_prerequisite_state',
      HINT = 'Rows may lie on a node that is not on record here. Restore a backup that knows it.';
  END IF;
  RETURN buckets;
END $function$;
COMMENT ON FUNCTION rdma_internal.buckets_of_nodes(name) IS
    'the number of the node that each bucket lies on, by the constraints of the nodes'' tables';

CREATE FUNCTION rdma.read_placement(server name)
RETURNS void
AS 'MODULE_PATHNAME', 'rdma_read_placement' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma.read_placement(name) IS
    'reads from the nodes where the rows of a server lie, after the coordinator was restored from a backup that is '
    'older than a move of rows';

-- A row's node is the one on which its bucket lies.
CREATE FUNCTION rdma_internal.placement_conditions(tab regclass, buckets smallint[] DEFAULT NULL,
  OUT place integer, OUT node name, OUT relation text, OUT replicated boolean, OUT condition text, OUT key text)
RETURNS SETOF record
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  options record;
  nodes bigint;
BEGIN
  SELECT s.srvname, format('%I.%I', coalesce(max(o.option_value) FILTER (WHERE o.option_name = 'schema_name'),
      n.nspname),
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
    SELECT string_agg(quote_ident(coalesce((SELECT option_value FROM pg_options_to_table(a.attfdwoptions)
        WHERE option_name = 'column_name'), a.attname)),
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
    IF cardinality(buckets) % nodes = 0 AND NOT EXISTS (SELECT FROM unnest(buckets) WITH ORDINALITY b(place, number)
        WHERE b.place <> (b.number - 1) % nodes) THEN
      condition := format('rdma.hash_node(%s, %s) = %s', nodes, key, place);
    ELSE
      condition := format('(%L::smallint[])[rdma.hash_node(%s, %s) + 1] = %s', buckets, cardinality(buckets), key,
          place);
    END IF;
    IF key IS NULL THEN
      condition := NULL;
    END IF;
    RETURN NEXT;
  END LOOP;
END $function$;
COMMENT ON FUNCTION rdma_internal.placement_conditions(regclass, smallint[]) IS
    'per node of a foreign table, its table there and what holds for each of its rows if they lie as option '
    'distributed_by says';

CREATE FUNCTION rdma.check_distribution(tab regclass, OUT node name, OUT rows bigint, OUT misplaced bigint,
    OUT differs boolean)
RETURNS SETOF record
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  part record;
  answer numeric[];
  first_answer numeric[];
BEGIN
  FOR part IN SELECT * FROM rdma_internal.placement_conditions(tab) LOOP
    node := part.node;
    IF part.replicated THEN
      answer := rdma_internal.ask_node(part.node,
          format('SELECT ARRAY[count(*), sum(hashtextextended(t::text, 0))] FROM %s t',
          part.relation), NULL::numeric[]);
      first_answer := coalesce(first_answer, answer);
      differs := answer <> first_answer;
    ELSE
      answer := rdma_internal.ask_node(part.node,
          format('SELECT ARRAY[count(*), count(*) FILTER (WHERE NOT (%s))] FROM %s',
          coalesce(part.condition, 'true'), part.relation), NULL::bigint[]);
      misplaced := CASE WHEN part.condition IS NOT NULL THEN answer[2]::bigint END;
    END IF;
    rows := answer[1]::bigint;
    RETURN NEXT;
  END LOOP;
END $function$;
COMMENT ON FUNCTION rdma.check_distribution(regclass) IS
    'per node of a foreign table: its rows, and how many of them belong to another node by option distributed_by; of a '
    'replicated table, whether the copy differs from the first node''s';

CREATE FUNCTION rdma_internal.sample_tables(server name)
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
  FOR tab IN SELECT f.ftrelid FROM pg_foreign_table f JOIN pg_foreign_server s ON s.oid = f.ftserver
      WHERE s.srvname = server
      AND EXISTS (SELECT FROM pg_options_to_table(f.ftoptions) WHERE option_name IN ('distributed_by', 'replicated'))
          ORDER BY f.ftrelid::regclass::text LOOP
    first_answer := NULL;
    -- what the caller may not read is not looked at
    BEGIN
      FOR part IN SELECT * FROM rdma_internal.placement_conditions(tab) c WHERE c.replicated OR c.condition IS NOT NULL
          LOOP
        IF part.replicated THEN
          SELECT r.answer INTO answer FROM rdma.run_on(part.node, format('SELECT CASE WHEN count(*) > 100000 '
              'THEN ''many'' ELSE concat_ws('','', count(*), sum(hashtextextended(t::text, 0))) END FROM (SELECT * '
              'FROM %s LIMIT 100001) t', part.relation)) r;
          first_answer := coalesce(first_answer, answer);
          IF answer <> first_answer THEN
            RETURN NEXT format('%s on %s differs from other copies', tab, part.node);
          END IF;
        ELSE
          SELECT r.answer INTO answer FROM rdma.run_on(part.node, format('SELECT count(*) FROM (SELECT * FROM %s LIMIT '
              '100000) t WHERE NOT (%s)', part.relation, part.condition)) r;
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
COMMENT ON FUNCTION rdma_internal.sample_tables(name) IS
    'looks at the first 100000 rows of each table on each node of a server: what does not lie as the options '
    'distributed_by and replicated say';

CREATE FUNCTION rdma_internal.column_differences(server name, OUT missing text, OUT types text)
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  part record;
  columns jsonb;
  answer jsonb;
BEGIN
  SELECT jsonb_agg(jsonb_build_object('tab', c.oid::regclass::text, 'schema', coalesce(o.schema_name, n.nspname),
      'name', coalesce(o.table_name, c.relname),
        'col', coalesce((SELECT option_value FROM pg_options_to_table(a.attfdwoptions)
            WHERE option_name = 'column_name'), a.attname), 'here', format_type(a.atttypid, NULL),
        'type', t.typname, 'type_schema', tn.nspname) ORDER BY n.nspname, c.relname, a.attnum)
    INTO columns
    FROM pg_foreign_table f JOIN pg_foreign_server s ON s.oid = f.ftserver JOIN pg_class c ON c.oid = f.ftrelid
        JOIN pg_namespace n ON n.oid = c.relnamespace
      JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
          JOIN pg_type t ON t.oid = a.atttypid JOIN pg_namespace tn ON tn.oid = t.typnamespace,
      LATERAL (SELECT max(option_value) FILTER (WHERE option_name = 'schema_name') AS schema_name, max(option_value)
          FILTER (WHERE option_name = 'table_name') AS table_name FROM pg_options_to_table(f.ftoptions)) o
    WHERE s.srvname = server;
  FOR part IN SELECT n.node FROM rdma.nodes(server) n WHERE columns IS NOT NULL ORDER BY n.place LOOP
    answer := rdma_internal.ask_node(part.node, format($query$
      SELECT jsonb_build_object('missing', string_agg(DISTINCT concat_ws(' ', CASE WHEN r.oid IS NULL THEN 'table of'
          ELSE 'column ' || quote_ident(e.col) || ' of' END, e.tab), ', ') FILTER (WHERE a.attnum IS NULL),
          'types', string_agg(format('%%s.%%I is %%s, not %%s', e.tab, e.col, format_type(t.oid, NULL), e.here), ', '
              ORDER BY e.tab, e.col) FILTER (WHERE (t.typname, tn.nspname) <> (e.type, e.type_schema)))
        FROM jsonb_to_recordset(%L) e(tab text, schema name, name name, col name, here text, type name,
            type_schema name)
          LEFT JOIN (pg_class r JOIN pg_namespace n ON n.oid = r.relnamespace) ON n.nspname = e.schema
              AND r.relname = e.name
          LEFT JOIN pg_attribute a ON a.attrelid = r.oid AND a.attname = e.col AND a.attnum > 0 AND NOT a.attisdropped
              LEFT JOIN (pg_type t JOIN pg_namespace tn ON tn.oid = t.typnamespace) ON t.oid = a.atttypid
      $query$, columns), '{}'::jsonb);
    missing := concat_ws('; ', missing, format('%s has no ', part.node) || (answer->>'missing'));
    types := concat_ws('; ', types, format('on %s ', part.node) || (answer->>'types'));
  END LOOP;
  missing := nullif(missing, '');
  types := nullif(types, '');
END $function$;
COMMENT ON FUNCTION rdma_internal.column_differences(name) IS
    'columns of foreign tables of a server that its nodes lack or that have other types there, in words';

-- Rows that belong to another node are refused where they are written, whoever writes them.
CREATE FUNCTION rdma.protect_table(tab regclass)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp SET rdma_fdw.snapshot = each_node
AS $function$
DECLARE
  part record;
BEGIN
  FOR part IN SELECT * FROM rdma_internal.placement_conditions(tab) LOOP
    IF part.condition IS NULL THEN
      RAISE EXCEPTION 'foreign table "%" is not distributed by a key', tab USING ERRCODE = 'wrong_object_type',
          HINT = 'Option "distributed_by" names the columns of the key.';
    END IF;
    PERFORM rdma.run_on(part.node, format('ALTER TABLE %s DROP CONSTRAINT IF EXISTS rdma_placement, ADD CONSTRAINT '
        'rdma_placement CHECK (%s)', part.relation, part.condition));
  END LOOP;
END $function$;
COMMENT ON FUNCTION rdma.protect_table(regclass) IS
    'gives the table of each node a constraint that refuses rows which belong to another node; fails if there are such '
    'rows';

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
COMMENT ON COLUMN rdma.membership.origin IS
    'rdma_internal.database_origin() of the database that joined; another one''s is a copy';
COMMENT ON COLUMN rdma.membership.role IS 'who had it join';

SELECT pg_extension_config_dump('rdma.membership', '');

-- for pg_dump of a database's owner
GRANT SELECT ON rdma.placement, rdma.membership TO PUBLIC;

CREATE FUNCTION rdma_internal.database_origin()
RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $function$
  SELECT c.system_identifier || '/' || d.oid FROM pg_control_system() c, pg_database d
      WHERE d.datname = current_database()
$function$;
COMMENT ON FUNCTION rdma_internal.database_origin() IS
    'tells a database from its copies in other clusters and in this one';

CREATE FUNCTION rdma_internal.join_set(set_id uuid, number integer, version bigint, replace boolean)
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
        AND (old.origin = rdma_internal.database_origin() OR EXISTS (SELECT FROM pg_roles WHERE rolname = old.role))
        AND NOT EXISTS (SELECT FROM pg_roles WHERE rolname = old.role AND pg_has_role(session_user, oid, 'MEMBER')) THEN
      RAISE EXCEPTION 'permission denied to change which node database "%" is', current_database()
          USING ERRCODE = 'insufficient_privilege',
        DETAIL = format('Role %s had it join the set of nodes.', quote_ident(old.role));
    END IF;
    DELETE FROM rdma.membership m WHERE m.set_id = join_set.set_id AND (m.origin <> rdma_internal.database_origin()
        OR m.number <> join_set.number);
    UPDATE rdma.membership m SET version = join_set.version WHERE m.set_id = join_set.set_id;
    IF number < 0 THEN
      RETURN old.member;
    END IF;
  END IF;
  INSERT INTO rdma.membership (set_id, number, version, origin) VALUES (set_id, number, version,
      rdma_internal.database_origin())
      ON CONFLICT DO NOTHING;
  SELECT * INTO STRICT old FROM rdma.membership m WHERE m.set_id = join_set.set_id;
  IF old.number <> number OR old.origin <> rdma_internal.database_origin() THEN
    RAISE EXCEPTION 'database "%" cannot become node % of this set of nodes', current_database(), number
        USING ERRCODE = 'object_not_in_prerequisite_state',
      DETAIL = CASE WHEN old.origin = rdma_internal.database_origin() THEN format('It is node %s.', old.number)
        ELSE format('It is a copy of the database that is node %s.', old.number) END,
      HINT = 'Correct the options of the node''s server. If this database has taken the node''s place, call '
          'rdma.replace_node on the coordinator.';
  END IF;
  RETURN old.member;
END $function$;
COMMENT ON FUNCTION rdma_internal.join_set(uuid, integer, bigint, boolean) IS
    'this database becomes a node of a coordinator''s server with nodes, or another one of them; none with '
    'number -1';

CREATE FUNCTION rdma_internal.timeline()
RETURNS bigint
AS 'MODULE_PATHNAME', 'rdma_timeline' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION rdma_internal.timeline() IS 'the timeline that this server writes or replays WAL of';

CREATE FUNCTION rdma_internal.memberships(sets uuid[])
RETURNS text
LANGUAGE sql STABLE STRICT PARALLEL SAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
  SELECT string_agg(concat_ws(' ', m.set_id, m.number, m.version, m.member, m.origin = rdma_internal.database_origin(),
      rdma_internal.timeline()), E'\n')
    FROM rdma.membership m WHERE m.set_id = ANY (sets)
$function$;
COMMENT ON FUNCTION rdma_internal.memberships(uuid[]) IS
    'which nodes of these sets this database is, for sessions of a coordinator';
REVOKE EXECUTE ON FUNCTION rdma_internal.join_set, rdma_internal.complete_placement, rdma_internal.placement_changed,
    rdma_internal.keep_placement,
    rdma_internal.drop_placement FROM PUBLIC;
