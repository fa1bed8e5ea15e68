/* src/sql/60_moves.sql: Nodes come and go, and rows move between them. */

CREATE FUNCTION rdma_internal.begin_copy(server name, node name, wait integer)
RETURNS void
AS 'MODULE_PATHNAME', 'rdma_begin_copy' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma_internal.begin_copy(name, name, integer) IS
    'keeps all others from writing the replicated tables of a server, here and on one of its nodes, until '
    'the transaction ends';

CREATE FUNCTION rdma_internal.begin_change(server name, nodes name[], replicated boolean, wait integer)
RETURNS void
AS 'MODULE_PATHNAME', 'rdma_begin_change' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma_internal.begin_change(name, name[], boolean, integer) IS
    'keeps all others from the tables of a server, and from the replicated or distributed ones on some of '
    'its nodes, until the transaction ends';

CREATE FUNCTION rdma_internal.await_change(server name, wait integer)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  stop timestamptz := clock_timestamp() + make_interval(secs => wait / 1000.0);
BEGIN
  LOOP
    BEGIN
      PERFORM rdma_internal.begin_change(server, '{}', false, least(wait, 200));
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
COMMENT ON FUNCTION rdma_internal.await_change(name, integer) IS
    'keeps all others from the tables of a server until the transaction ends, as soon as nobody uses them; '
    'nobody waits for longer than 200 milliseconds at a time for that';

CREATE FUNCTION rdma_internal.change_placement(server name, nodes name[], buckets smallint[])
RETURNS bigint
AS 'MODULE_PATHNAME', 'rdma_change_placement' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma_internal.change_placement(name, name[], smallint[]) IS
    'records the nodes of a server, and which of them has which bucket, here and on the nodes concerned; the '
    'new version of the placement';

-- What moves do now. A move is noted by the function that moves; what consists of many moves notes that, too.
CREATE FUNCTION rdma_internal.note_job(server name, command text, buckets_left integer)
RETURNS void
AS 'MODULE_PATHNAME', 'rdma_note_job' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma_internal.note_job(name, text, integer) IS
    'this session begins or goes on with a command of many moves, for rdma.stat_moves; with command NULL it '
    'has ended';

CREATE FUNCTION rdma_internal.note_move(server name, command text, source name, target name, moved integer[])
RETURNS void
AS 'MODULE_PATHNAME', 'rdma_note_move' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma_internal.note_move(name, text, name, name, integer[]) IS
    'this session begins a move, for rdma.stat_moves';

CREATE FUNCTION rdma_internal.note_phase(phase text, relation text DEFAULT NULL, estimated_rows bigint DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'rdma_note_phase' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma_internal.note_phase(text, text, bigint) IS
    'what the move of this session does now, for rdma.stat_moves';

CREATE FUNCTION rdma_internal.stat_moves(
  OUT pid integer, OUT usesysid oid, OUT server text, OUT command text, OUT phase text, OUT source text,
      OUT target text,
  OUT buckets integer, OUT first_bucket integer, OUT last_bucket integer, OUT relation text, OUT rows bigint,
      OUT bytes bigint,
  OUT estimated_rows bigint, OUT move_started timestamptz, OUT moves bigint, OUT total_rows bigint,
      OUT total_bytes bigint, OUT buckets_left integer)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_stat_moves' LANGUAGE C VOLATILE STRICT PARALLEL SAFE ROWS 1;

CREATE VIEW rdma.stat_moves AS
  SELECT m.pid, r.rolname AS usename, m.server, m.command, m.phase, m.source, m.target, m.buckets, m.first_bucket,
      m.last_bucket, m.relation,
      m.rows, m.bytes, m.estimated_rows, m.move_started, m.moves, m.total_rows, m.total_bytes, m.buckets_left
    FROM rdma_internal.stat_moves() m LEFT JOIN pg_catalog.pg_roles r ON r.oid = m.usesysid;
COMMENT ON VIEW rdma.stat_moves IS 'one row per session of this database that moves rows from node to node';
COMMENT ON COLUMN rdma.stat_moves.pid IS 'process that moves them';
COMMENT ON COLUMN rdma.stat_moves.usename IS
    'its role; all that follows is NULL for those who may not see what the role does';
COMMENT ON COLUMN rdma.stat_moves.server IS 'the server with nodes';
COMMENT ON COLUMN rdma.stat_moves.command IS 'rebalance, drain_node, move_buckets, add_node or remove_node';
COMMENT ON COLUMN rdma.stat_moves.phase IS
    'choosing, waiting for locks, preparing, copying, deleting, recording or committing; between moves indexing, '
    'resting, or giving way to those who use the tables';
COMMENT ON COLUMN rdma.stat_moves.source IS
    'node that has the rows; NULL between moves, as all columns up to move_started';
COMMENT ON COLUMN rdma.stat_moves.target IS 'node that gets them';
COMMENT ON COLUMN rdma.stat_moves.buckets IS 'how many buckets this move moves; NULL: it is not about buckets';
COMMENT ON COLUMN rdma.stat_moves.first_bucket IS 'the lowest of them';
COMMENT ON COLUMN rdma.stat_moves.last_bucket IS 'the highest of them';
COMMENT ON COLUMN rdma.stat_moves.relation IS 'table on the nodes of which rows are copied or deleted now';
COMMENT ON COLUMN rdma.stat_moves.rows IS 'rows of this move that have left for the target';
COMMENT ON COLUMN rdma.stat_moves.bytes IS 'bytes of them, as they travel';
COMMENT ON COLUMN rdma.stat_moves.estimated_rows IS
    'about how many rows this move has, by the statistics of the source; NULL: it has none, or the move has not got so '
    'far';
COMMENT ON COLUMN rdma.stat_moves.move_started IS 'when this move began';
COMMENT ON COLUMN rdma.stat_moves.moves IS 'moves of this command that have committed';
COMMENT ON COLUMN rdma.stat_moves.total_rows IS 'rows of them, and of this move';
COMMENT ON COLUMN rdma.stat_moves.total_bytes IS 'bytes of them, and of this move';
COMMENT ON COLUMN rdma.stat_moves.buckets_left IS
    'buckets that were still to be moved when this move was chosen; NULL: the command is one move';
GRANT SELECT ON rdma.stat_moves TO PUBLIC;
COMMENT ON FUNCTION rdma_internal.stat_moves() IS
    'moves of rows from node to node that run in this database; details of other roles'' moves are NULL';

CREATE FUNCTION rdma_internal.run_as_owner(tab regclass, command text)
RETURNS bigint
AS 'MODULE_PATHNAME', 'rdma_run_as_owner' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma_internal.run_as_owner(regclass, text) IS
    'runs a command with the rights of the owner of a table, which the caller needs; how many rows it had to '
    'do with';

-- The table of a node as a foreign table of this session's, with the columns that it has there.
-- What the node says becomes names, and
-- types that are known here.
CREATE FUNCTION rdma_internal.reach_table(node name, relation text, generated boolean, OUT tab text, OUT columns text)
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  there jsonb;
  definition text;
BEGIN
  there := rdma_internal.ask_node(node, format($sql$
    SELECT jsonb_build_object('schema', n.nspname, 'name', c.relname,
        'columns', jsonb_agg(jsonb_build_object('name', a.attname, 'type', format_type(a.atttypid, a.atttypmod),
            'generated', a.attgenerated <> '') ORDER BY a.attnum))
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
      WHERE c.oid = %L::regclass AND a.attnum > 0 AND NOT a.attisdropped AND (%L OR a.attgenerated = '')
          GROUP BY n.nspname, c.relname $sql$, relation, generated), '{}'::jsonb);
  SELECT string_agg(format('%I %s', d->>'name', rdma_internal.known_type(d->>'type')), ', ' ORDER BY place),
      string_agg(quote_ident(d->>'name'), ', ' ORDER BY place) FILTER (WHERE NOT (d->>'generated')::boolean)
    INTO definition, columns FROM jsonb_array_elements(there->'columns') WITH ORDINALITY e(d, place);
  tab := format('pg_temp.%I', 'rdma ' || md5(node || ' ' || relation));
  EXECUTE format('CREATE FOREIGN TABLE %s (%s) SERVER %I OPTIONS (schema_name %L, table_name %L)', tab, definition,
      node, there->>'schema', there->>'name');
END $function$;
COMMENT ON FUNCTION rdma_internal.reach_table(name, text, boolean) IS
    'a temporary foreign table for a table of a node, with or without columns that are generated, and its '
    'columns that can be written';

-- Rows of a table on one node that fulfil the condition, to another node.
CREATE FUNCTION rdma_internal.copy_rows(source name, target name, relation text, condition text)
RETURNS bigint
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  here record;
  there record;
  count bigint;
BEGIN
  SELECT * INTO here FROM rdma_internal.reach_table(source, relation, true);
  SELECT * INTO there FROM rdma_internal.reach_table(target, relation, false);
  -- what belongs to the table's owner on either node runs as he
  PERFORM rdma.run_on(n, format('SET LOCAL rdma_fdw.as_owner_of = %L', relation)) FROM unnest(ARRAY[source, target]) n;
  EXECUTE format('INSERT INTO %s (%s) SELECT %s FROM %s WHERE %s', there.tab, here.columns, here.columns, here.tab,
      condition);
  GET DIAGNOSTICS count = ROW_COUNT;
  PERFORM rdma.run_on(n, 'SET LOCAL rdma_fdw.as_owner_of = ''''') FROM unnest(ARRAY[source, target]) n;
  EXECUTE format('DROP FOREIGN TABLE %s, %s', here.tab, there.tab);
  RETURN count;
END $function$;
COMMENT ON FUNCTION rdma_internal.copy_rows(name, name, text, text) IS
    'copies rows of a table from one node to another, and counts them';

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
  created_here regclass[] := '{}';
BEGIN
  IF rdma_internal.named_nodes(server) IS NULL THEN
    RAISE EXCEPTION 'server "%" has no nodes', server USING ERRCODE = 'wrong_object_type';
  END IF;
  nodes := ARRAY(SELECT n.node FROM rdma.nodes(server) n ORDER BY n.place);
  IF node = ANY (nodes) THEN
    RAISE EXCEPTION 'server "%" is a node of server "%" already', node, server USING ERRCODE = 'duplicate_object';
  END IF;
  PERFORM set_config('rdma_fdw.commit', 'required', true);
  PERFORM rdma_internal.note_move(server, 'add_node', nodes[1], node, NULL);
  PERFORM rdma_internal.begin_copy(server, nodes[1], wait);
  PERFORM rdma_internal.note_phase('preparing');
  PERFORM rdma.enroll_nodes(server);
  nodes := ARRAY(SELECT n.node FROM rdma.nodes(server) n ORDER BY n.place);
  FOR tab IN SELECT f.ftrelid FROM pg_foreign_table f JOIN pg_foreign_server s ON s.oid = f.ftserver
      WHERE s.srvname = server ORDER BY f.ftrelid LOOP
    SELECT * INTO part FROM rdma_internal.placement_conditions(tab) WHERE place = 0;
    IF rdma_internal.ask_node(node, format('SELECT to_regclass(%L) IS NOT NULL', part.relation), false) THEN
      IF rdma_internal.ask_node(node, format('SELECT EXISTS (SELECT FROM %s)', part.relation), false) THEN
        RAISE EXCEPTION 'table % on server "%" has rows', part.relation, node
            USING ERRCODE = 'object_not_in_prerequisite_state',
          HINT = 'Empty or drop it: rows come to the new node by rdma.rebalance.';
      END IF;
    ELSE
      definition := rdma_internal.ask_node(nodes[1],
          format('SELECT rdma_internal.table_statements(%L) || rdma_internal.index_statements(%L) || '
          'rdma_internal.trigger_statements(%L)', part.relation, part.relation, part.relation), NULL::text[]);
      FOR statement IN SELECT DISTINCT (parse_ident(name))[1]
          FROM unnest(rdma_internal.ask_node(nodes[1],
              format('SELECT array_agg(name) FROM rdma_internal.table_members(%L)',
          part.relation), NULL::text[])) name LOOP
        IF rdma_internal.ask_node(node, format('SELECT to_regnamespace(%L) IS NULL', quote_ident(statement)),
            false) THEN
          PERFORM rdma.run_on(node, format('CREATE SCHEMA %I', statement));
        END IF;
      END LOOP;
      PERFORM rdma_internal.send_objects(node, rdma_internal.needed_objects(ARRAY[tab::oid])
          || rdma_internal.trigger_functions(rdma_internal.ask_node(nodes[1], format('SELECT '
          'array_agg(DISTINCT function) FROM rdma_internal.triggers(%L)', part.relation), NULL::text[])));
      FOREACH statement IN ARRAY definition LOOP
        PERFORM rdma_internal.define_on(node, part.relation, statement, true);
      END LOOP;
      created := created || part.relation;
      created_here := created_here || tab;
    END IF;
    IF part.replicated THEN
      PERFORM rdma_internal.note_phase('copying', part.relation);
      PERFORM rdma_internal.copy_rows(nodes[1], node, part.relation, 'true');
      PERFORM rdma_internal.note_phase('preparing');
      PERFORM rdma.run_on(node, format('ANALYZE %s', part.relation));
    ELSIF part.condition IS NOT NULL THEN
      -- it has no bucket
      PERFORM rdma.run_on(node, format('ALTER TABLE %s DROP CONSTRAINT IF EXISTS rdma_placement, ADD CONSTRAINT '
          'rdma_placement CHECK (false)', part.relation));
    END IF;
  END LOOP;
  -- when all of the tables and copies are there
  FOR key IN SELECT k FROM rdma_internal.node_foreign_keys(nodes[1], created) k WHERE format('%I.%I', k->'table'->>0,
      k->'table'->>1) = ANY (created) LOOP
    IF (rdma_internal.table_named(server, key->'other_table')).tab IS NULL THEN
      RAISE EXCEPTION 'table %.% cannot be created on another node', quote_ident(key->'table'->>0),
          quote_ident(key->'table'->>1) USING ERRCODE = 'feature_not_supported',
        DETAIL = format('On its node, foreign key "%s" refers to %I.%I, which is no table of server "%s".',
            key->>'name', key->'other_table'->>0, key->'other_table'->>1, server),
        HINT = 'Create it there yourself, without rows.';
    END IF;
    PERFORM rdma.run_on(node, rdma_internal.foreign_key_statement(key));
  END LOOP;
  -- readers wait from here on, and no longer at a time than for a move
  PERFORM rdma_internal.note_phase('waiting for locks');
  PERFORM rdma_internal.await_change(server, wait);
  PERFORM rdma_internal.note_phase('recording');
  PERFORM rdma_internal.change_placement(server, nodes || node, rdma.buckets(server));
  EXECUTE format('ALTER SERVER %I OPTIONS (SET nodes %L)', server, (SELECT string_agg(quote_ident(n), ', ')
      FROM unnest(nodes || node) n));
  PERFORM rdma_internal.send_rights(t, node) FROM unnest(created_here) t JOIN pg_class c ON c.oid = t
    WHERE pg_has_role(c.relowner, 'USAGE');
  PERFORM rdma_internal.note_phase('committing');
END $function$;
COMMENT ON FUNCTION rdma.add_node(name, name, integer) IS
    'a server becomes one more node of a server with nodes: its tables are created there, replicated ones with their '
    'rows; rdma.rebalance moves rows to it';

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
    RAISE EXCEPTION 'rows cannot be moved from node "%" to node "%"', source, target
        USING ERRCODE = 'invalid_parameter_value',
      DETAIL = format('The nodes of server "%s" are %s.', server, (SELECT string_agg(quote_ident(n), ', ')
          FROM unnest(nodes) n));
  END IF;
  PERFORM set_config('rdma_fdw.commit', 'required', true);
  PERFORM rdma_internal.note_move(server, 'move_buckets', source, target, moved);
  PERFORM rdma_internal.begin_change(server, ARRAY[source, target], false, wait);
  PERFORM rdma_internal.note_phase('preparing');
  nodes := ARRAY(SELECT n.node FROM rdma.nodes(server) n ORDER BY n.place);
  buckets := rdma.buckets(server);
  share := cardinality(moved)::double precision / greatest(cardinality(array_positions(buckets,
      (array_position(nodes, source) - 1)::smallint)), 1);
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
    SELECT c.*, f.ftrelid::regclass AS tab FROM pg_foreign_table f JOIN pg_foreign_server s ON s.oid = f.ftserver,
        LATERAL rdma_internal.placement_conditions(f.ftrelid, buckets) c
      WHERE s.srvname = server AND c.condition IS NOT NULL AND c.node IN (source, target) ORDER BY f.ftrelid,
          c.node = source
  LOOP
    IF rdma_internal.ask_node(part.node,
        format($sql$SELECT EXISTS (SELECT FROM pg_constraint WHERE conrelid = %L::regclass AND conname = 'rdma_placement')$sql$, part.relation), false) IS NOT TRUE THEN
      RAISE EXCEPTION 'rows of table % are not known to lie where its option "distributed_by" says', part.tab
          USING ERRCODE = 'object_not_in_prerequisite_state',
        HINT = format('SELECT rdma.protect_table(%L)', part.tab);
    END IF;
    -- what the rows were proven to be they still are when these are gone or there: nothing has to be read again
    PERFORM rdma.run_on(part.node, format('ALTER TABLE %s DROP CONSTRAINT rdma_placement, ADD CONSTRAINT '
        'rdma_placement CHECK (%s) NOT VALID', part.relation, part.condition));
    -- A row that moves is neither written nor deleted. The node names its triggers; the commands are written here.
    FOR there IN
      SELECT format('%I.%I', m->>0, m->>1) AS name, m->2 AS triggers FROM
          jsonb_array_elements(rdma_internal.ask_node(part.node,
              format($sql$SELECT jsonb_agg(jsonb_build_array(n.nspname, c.relname,
          (SELECT jsonb_agg(jsonb_build_array(tgname, tgenabled)) FROM pg_trigger WHERE tgrelid = m.oid AND NOT tgisinternal AND tgenabled <> 'D')))
        FROM rdma_internal.table_members(%L) m JOIN pg_class c ON c.oid = m.oid JOIN pg_namespace n ON n.oid =
            c.relnamespace$sql$, part.relation), '[[]]'::jsonb)) m
    LOOP
      undo := undo || ARRAY(SELECT jsonb_build_array(part.node, format('ALTER TABLE ONLY %s %s TRIGGER %I', there.name,
        CASE t->>1 WHEN 'A' THEN 'ENABLE ALWAYS' WHEN 'R' THEN 'ENABLE REPLICA' ELSE 'ENABLE' END, t->>0))
            FROM jsonb_array_elements(nullif(there.triggers, 'null')) t);
      PERFORM rdma.run_on(part.node, format('ALTER TABLE ONLY %s DISABLE TRIGGER USER', there.name));
    END LOOP;
    IF part.node = source THEN
      relations := relations || part.relation;
      keys := keys || format('rdma.hash_node(%s, %s) = ANY (%L::integer[])', cardinality(buckets), part.key, moved);
    END IF;
  END LOOP;
  IF relations IS NOT NULL THEN
    SELECT array_agg(r.relation ORDER BY a.depth, r.number), array_agg(r.condition ORDER BY a.depth, r.number)
        INTO relations, keys
      FROM unnest(relations, keys, rdma_internal.ask_node(source, format($sql$
        WITH RECURSIVE r(relation, number, depth) AS (
          SELECT t::regclass::oid, number, 0 FROM unnest(%L::text[]) WITH ORDINALITY u(t, number)
          UNION SELECT c.conrelid, o.number, r.depth + 1 FROM r JOIN pg_constraint c ON c.confrelid = r.relation
              AND c.contype = 'f' AND c.conrelid <> c.confrelid
            JOIN unnest(%L::text[]) WITH ORDINALITY o(t, number) ON o.t::regclass = c.conrelid WHERE r.depth < 64)
        SELECT array_agg(depth ORDER BY number) FROM (SELECT number, max(depth) AS depth FROM r GROUP BY number) d$sql$, relations, relations), NULL::integer[]))
        WITH ORDINALITY r(relation, condition, depth, number), LATERAL (SELECT r.depth) a WHERE r.relation IS NOT NULL;
    -- what refers to a row that goes must go with it, or ON DELETE would take rows that stay
    members := rdma_internal.ask_node(source, format('SELECT array_agg(m.name) FROM unnest(%L::regclass[]) t, '
        'rdma_internal.table_members(t) m', relations), NULL::text[]);
    FOR key IN SELECT k FROM rdma_internal.node_foreign_keys(source, members) k WHERE k->>'on_delete' IN ('c', 'n', 'd')
        AND format('%I.%I', k->'other_table'->>0, k->'other_table'->>1) = ANY (members) LOOP
      IF rdma_internal.foreign_key_problem(server, key, false) IS NOT NULL THEN
        RAISE EXCEPTION 'rows of table %.% cannot be moved', quote_ident(key->'other_table'->>0),
            quote_ident(key->'other_table'->>1) USING ERRCODE = 'object_not_in_prerequisite_state',
          DETAIL = format('On node "%s", foreign key "%s" of %I.%I would change rows that stay there. %s', source,
              key->>'name', key->'table'->>0, key->'table'->>1, rdma_internal.foreign_key_problem(server, key, false)),
          HINT = 'Drop it on the nodes, or let it have no ON DELETE action.';
      END IF;
    END LOOP;
    -- one that is not valid says nothing of rows that are there, and so of rows that move
    invalid := ARRAY(SELECT k FROM rdma_internal.node_foreign_keys(target, relations) k WHERE NOT (k->>'valid')::boolean
        AND (k->>'enforced')::boolean IS NOT FALSE);
    FOREACH key IN ARRAY invalid LOOP
      PERFORM rdma.run_on(target, format('ALTER TABLE %I.%I DROP CONSTRAINT %I', key->'table'->>0, key->'table'->>1,
          key->>'name'));
    END LOOP;
  END IF;
  PERFORM rdma_internal.note_phase('preparing', NULL, (share * rdma_internal.ask_node(source,
    format('SELECT sum(reltuples)::bigint FROM pg_class WHERE oid = ANY (%L::regclass[]) HAVING min(reltuples) >= 0',
        relations), NULL::bigint))::bigint);
  -- foreign keys that form a circle hold when all is done, if they are deferrable. What another
  -- role owns there, the restricted operation
  -- lets no trigger wait for, and other constraints have code of the owner run.
  FOR part IN
    SELECT n.node, string_agg(format('%I.%I', k->>0, k->>1), ', ') AS names FROM unnest(ARRAY[source, target]) n(node),
        LATERAL jsonb_array_elements(rdma_internal.ask_node(n.node, format($sql$
        SELECT jsonb_agg(DISTINCT jsonb_build_array(n.nspname, c.conname)) FROM pg_constraint c
            JOIN pg_namespace n ON n.oid = c.connamespace JOIN pg_class r ON r.oid = c.conrelid
          WHERE c.contype = 'f' AND c.condeferrable AND c.conrelid = ANY (%L::regclass[])
              AND r.relowner = current_user::regrole
            AND NOT EXISTS (SELECT FROM pg_constraint o WHERE o.connamespace = c.connamespace AND o.conname = c.conname
                AND o.contype <> 'f')$sql$, relations), '[[]]'::jsonb)) k
      WHERE relations IS NOT NULL GROUP BY n.node
  LOOP
    PERFORM rdma.run_on(part.node, format('SET CONSTRAINTS %s DEFERRED', part.names));
  END LOOP;
  FOR i IN 1 .. coalesce(cardinality(relations), 0) LOOP
    PERFORM rdma_internal.note_phase('copying', relations[i]);
    counts[i] := rdma_internal.copy_rows(source, target, relations[i], keys[i]);
    total := total + counts[i];
  END LOOP;
  FOR i IN REVERSE coalesce(cardinality(relations), 0) .. 1 LOOP
    PERFORM rdma_internal.note_phase('deleting', relations[i]);
    count := rdma_internal.ask_node(source, format('SELECT rdma_internal.run_as_owner(%L, %L)', relations[i],
        format('DELETE FROM %s WHERE %s', relations[i], keys[i])), NULL::bigint);
    IF count IS DISTINCT FROM counts[i] THEN
      RAISE EXCEPTION 'moved % rows of table % and removed % rows', counts[i], relations[i], count
          USING ERRCODE = 'data_corrupted';
    END IF;
  END LOOP;
  PERFORM rdma.run_on(n, 'SET CONSTRAINTS ALL IMMEDIATE') FROM unnest(ARRAY[source, target]) n;
  PERFORM rdma_internal.note_phase('recording');
  FOREACH key IN ARRAY invalid LOOP
    PERFORM rdma.run_on(target, rdma_internal.foreign_key_statement(key));
  END LOOP;
  PERFORM rdma.run_on(CAST(u.step->>0 AS name), u.step->>1) FROM unnest(undo) WITH ORDINALITY u(step, number)
      ORDER BY u.number;
  PERFORM rdma_internal.change_placement(server, nodes, buckets);
  PERFORM rdma_internal.note_phase('committing');
  RETURN total;
END $function$;
COMMENT ON FUNCTION rdma.move_buckets(name, name, name, integer[], integer) IS
    'moves the rows of buckets of all distributed tables of a server from one of its nodes to another; how many';

CREATE FUNCTION rdma_internal.next_move(server name, drained name, most integer, OUT source name, OUT target name,
    OUT moved integer[], OUT buckets_left integer)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  giver record;
  taker record;
  total integer;
  nodes integer;
BEGIN
  IF rdma_internal.named_nodes(server) IS NULL THEN
    RAISE EXCEPTION 'server "%" has no nodes', server USING ERRCODE = 'wrong_object_type';
  END IF;
  IF drained IS NOT NULL AND NOT EXISTS (SELECT FROM rdma.nodes(server) n WHERE n.node = drained) THEN
    RAISE EXCEPTION 'server "%" is no node of server "%"', drained, server USING ERRCODE = 'undefined_object',
        HINT = 'rdma.nodes() lists them.';
  END IF;
  SELECT cardinality(rdma.buckets(server)), count(*) FILTER (WHERE n.node IS DISTINCT FROM drained) INTO total, nodes
      FROM rdma.nodes(server) n;
  IF nodes = 0 THEN
    RAISE EXCEPTION 'node "%" of server "%" cannot be drained', drained, server USING ERRCODE = 'object_in_use',
        DETAIL = 'There is no other one.';
  END IF;
  SELECT c.place, c.node, c.count INTO giver
    FROM (SELECT n.place, n.node, count(b.b) FROM rdma.nodes(server) n LEFT
        JOIN unnest(rdma.buckets(server)) b ON b.b = n.place GROUP BY n.place, n.node) c
    WHERE c.node = coalesce(drained, c.node) ORDER BY c.count DESC, c.place LIMIT 1;
  SELECT c.place, c.node, c.count INTO taker
    FROM (SELECT n.place, n.node, count(b.b) FROM rdma.nodes(server) n LEFT
        JOIN unnest(rdma.buckets(server)) b ON b.b = n.place GROUP BY n.place, n.node) c
    WHERE c.node IS DISTINCT FROM drained ORDER BY c.count, c.place LIMIT 1;
  IF (drained IS NULL AND giver.count - taker.count <= 1) OR (drained IS NOT NULL AND giver.count = 0) THEN
    RETURN;
  END IF;
  source := giver.node;
  target := taker.node;
  moved := ARRAY(SELECT b.number - 1 FROM unnest(rdma.buckets(server)) WITH ORDINALITY b(place, number)
      WHERE b.place = giver.place ORDER BY b.number
    LIMIT greatest(1, least(most, (total + nodes - 1) / nodes - taker.count, CASE WHEN drained IS NULL
        THEN giver.count - total / nodes ELSE giver.count END)));
  SELECT CASE WHEN drained IS NULL THEN sum(greatest(c.count - total / nodes, 0)) - least(total % nodes, count(*)
      FILTER (WHERE c.count > total / nodes)) ELSE giver.count END INTO buckets_left
    FROM (SELECT count(b.b) FROM rdma.nodes(server) n LEFT JOIN unnest(rdma.buckets(server)) b ON b.b = n.place
        GROUP BY n.place) c;
END $function$;
COMMENT ON FUNCTION rdma_internal.next_move(name, name, integer) IS
    'which buckets to move next, and from where to where, until all nodes have as many, or the drained one '
    'has none; NULL: that is so';

CREATE FUNCTION rdma_internal.move_size(server name, source name, most integer, took interval, goal integer)
RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  bytes numeric;
BEGIN
  IF most IS NULL THEN
    -- the first one: as if 10 MB moved in a second
    SELECT rdma_internal.ask_node(source, format('SELECT sum(pg_table_size(m.oid)) FROM unnest(%L::regclass[]) t, '
        'rdma_internal.table_members(t) m', array_agg(c.relation)), NULL::numeric) INTO bytes
      FROM pg_foreign_table f JOIN pg_foreign_server s ON s.oid = f.ftserver,
          LATERAL rdma_internal.placement_conditions(f.ftrelid) c
      WHERE s.srvname = server AND c.condition IS NOT NULL AND c.node = source;
    RETURN greatest(1, least(1000, floor(goal * 10000.0 * (SELECT count(*) FROM unnest(rdma.buckets(server)) b
        JOIN rdma.nodes(server) n ON n.place = b WHERE n.node = source)
      / greatest(bytes, 1))));
  END IF;
  RETURN greatest(1, least(2 * most, 1000, floor(most * goal / greatest(1000 * extract(epoch FROM took), 1))));
END $function$;
COMMENT ON FUNCTION rdma_internal.move_size(name, name, integer, interval, integer) IS
    'how many buckets to move at once, after so many took so long, to take `goal` milliseconds';

-- The node says which of its tables lack the index; the commands are written here.
CREATE FUNCTION rdma_internal.bucket_indexes(server name, OUT node name, OUT relation text, OUT bytes bigint,
    OUT missing boolean, OUT made text, OUT same boolean, OUT index text, OUT expression text)
RETURNS SETOF record
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  part record;
BEGIN
  FOR part IN SELECT c.node, array_agg(c.relation) AS relations, array_agg(format('rdma.hash_node(%s, %s)',
        cardinality(rdma.buckets(server)), c.key)) AS expressions
      FROM pg_foreign_table f JOIN pg_foreign_server s ON s.oid = f.ftserver,
          LATERAL rdma_internal.placement_conditions(f.ftrelid) c
      WHERE s.srvname = server AND c.condition IS NOT NULL GROUP BY c.place, c.node ORDER BY c.place LOOP
    node := part.node;
    FOR relation, bytes, missing, made, same, index, expression IN
      SELECT format('%I.%I', e->>'schema', e->>'name'), (e->>'bytes')::bigint, (e->>'missing')::boolean,
          CASE WHEN (e->>'made')::boolean THEN format('%I.%I', e->>'schema', i.name) END, (e->>'same')::boolean,
          i.name, part.expressions[(e->>'table')::integer]
        FROM jsonb_array_elements(rdma_internal.ask_node(part.node, format($query$
          SELECT coalesce(jsonb_agg(jsonb_build_object('table', t.number, 'schema', n.nspname, 'name', c.relname,
              'oid', c.oid::bigint, 'bytes', pg_table_size(c.oid),
              'missing', NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisvalid
                AND i.indpred IS NULL AND pg_get_indexdef(i.indexrelid, 1, false) = t.expression),
              'made', to_regclass(format('%%I.rdma_bucket_%%s', n.nspname, c.oid)) IS NOT NULL,
              'same', rdma_internal.database_origin() = %L AND extract(epoch FROM pg_postmaster_start_time()) = %L)
              ORDER BY t.number, n.nspname, c.relname), '[]')
            FROM unnest(%L::text[], %L::text[]) WITH ORDINALITY t(relation, expression, number),
              rdma_internal.table_members(to_regclass(t.relation)) m JOIN pg_class c ON c.oid = m.oid
                  AND c.relkind = 'r' JOIN pg_namespace n ON n.oid = c.relnamespace $query$,
          rdma_internal.database_origin(), extract(epoch FROM pg_postmaster_start_time()), part.relations,
          part.expressions), '[{}]'::jsonb)) e,
        LATERAL (SELECT format('rdma_bucket_%s', (e->>'oid')::oid) AS name) i LOOP
      RETURN NEXT;
    END LOOP;
  END LOOP;
END $function$;
COMMENT ON FUNCTION rdma_internal.bucket_indexes(name) IS
    'per table on the nodes of a server whose rows may move: its size, whether it lacks an index on the bucket, the '
    'one that rdma.rebalance made, whether the node is this database, the name and the expression of such an index';

CREATE FUNCTION rdma_internal.index_commands(server name, source name, goal integer)
RETURNS text[]
LANGUAGE sql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
  -- as if a node read 100 MB in a second. It would wait for this transaction if it were this database.
  SELECT coalesce(array_agg(c.command ORDER BY i.relation, c.place), '{}')
    FROM rdma_internal.bucket_indexes(server) i,
      LATERAL (VALUES (1, 'DROP INDEX CONCURRENTLY ' || i.made),
          (2, CASE WHEN i.missing AND i.bytes > goal * 100000::bigint THEN format('CREATE INDEX CONCURRENTLY %s ON %s '
            '(%s)', i.index, i.relation, i.expression) END)) c(place, command)
    WHERE i.node = source AND NOT i.same AND c.command IS NOT NULL AND (goal IS NULL OR i.missing)
$function$;
COMMENT ON FUNCTION rdma_internal.index_commands(name, name, integer) IS
    'the commands that make indexes on the bucket on a node for tables that take longer than `goal` milliseconds to '
    'read; goal NULL: that drop those again';

-- Each move is a transaction. These have no search_path of their own, since they commit, and name
-- all that they use with its schema.
CREATE PROCEDURE rdma_internal.index_buckets(server name, source name, goal integer)
LANGUAGE plpgsql
AS $procedure$
DECLARE
  commands text[] := rdma_internal.index_commands(server, source, goal);
  command text;
BEGIN
  COMMIT;
  FOREACH command IN ARRAY commands LOOP
    PERFORM rdma_internal.note_phase('indexing');
    PERFORM rdma.run_on(source, command);
    COMMIT;
  END LOOP;
END $procedure$;
COMMENT ON PROCEDURE rdma_internal.index_buckets(name, name, integer) IS
    'runs rdma_internal.index_commands on a node, each command alone';

CREATE PROCEDURE rdma_internal.move_all(server name, drained name, goal integer, wait integer, rest integer)
LANGUAGE plpgsql
AS $procedure$
DECLARE
  step record;
  most integer;
  started timestamptz;
  took interval;
  source name;
  indexed name[] := '{}';
BEGIN
  PERFORM rdma_internal.note_job(server, CASE WHEN drained IS NULL THEN 'rebalance' ELSE 'drain_node' END, NULL);
  SELECT * INTO step FROM rdma_internal.next_move(server, drained, 1);
  IF step.source IS NOT NULL THEN
    most := rdma_internal.move_size(server, step.source, NULL, NULL, goal);
  END IF;
  COMMIT;
  LOOP
    SELECT * INTO step FROM rdma_internal.next_move(server, drained, most);
    EXIT WHEN step.source IS NULL;
    IF pg_catalog.array_position(indexed, step.source) IS NULL THEN
      indexed := pg_catalog.array_append(indexed, step.source);
      CALL rdma_internal.index_buckets(server, step.source, goal);
    END IF;
    PERFORM rdma_internal.note_job(server, CASE WHEN drained IS NULL THEN 'rebalance' ELSE 'drain_node' END,
        step.buckets_left);
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
      PERFORM rdma_internal.note_phase('giving way');
      PERFORM pg_catalog.pg_sleep(1);
    ELSE
      PERFORM rdma_internal.note_phase('resting');
      most := rdma_internal.move_size(server, step.source, pg_catalog.cardinality(step.moved), took, goal);
      PERFORM pg_catalog.pg_sleep_for(pg_catalog.make_interval(secs => pg_catalog.float8div(rest, 1000)));
    END IF;
  END LOOP;
  FOREACH source IN ARRAY indexed LOOP
    CALL rdma_internal.index_buckets(server, source, NULL);
  END LOOP;
  PERFORM rdma_internal.note_job(server, NULL, NULL);
END $procedure$;
COMMENT ON PROCEDURE rdma_internal.move_all(name, name, integer, integer, integer) IS
    'moves buckets until nothing is left to move';

CREATE PROCEDURE rdma.rebalance(server name, goal integer DEFAULT 300, wait integer DEFAULT 200,
    rest integer DEFAULT 100)
LANGUAGE plpgsql
AS $procedure$
BEGIN
  CALL rdma_internal.move_all(server, NULL, goal, wait, rest);
END $procedure$;
COMMENT ON PROCEDURE rdma.rebalance(name, integer, integer, integer) IS
    'moves rows until each node of a server has as many buckets as the others';

CREATE PROCEDURE rdma.drain_node(server name, node name, goal integer DEFAULT 300, wait integer DEFAULT 200,
    rest integer DEFAULT 100)
LANGUAGE plpgsql
AS $procedure$
BEGIN
  CALL rdma_internal.move_all(server, node, goal, wait, rest);
END $procedure$;
COMMENT ON PROCEDURE rdma.drain_node(name, name, integer, integer, integer) IS
    'moves the rows of all distributed tables from a node to the others';

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
  IF removed IS NULL OR rdma_internal.named_nodes(server) IS NULL THEN
    RAISE EXCEPTION 'server "%" is no node of server "%"', node, server USING ERRCODE = 'undefined_object',
        HINT = 'rdma.nodes() lists them.';
  END IF;
  PERFORM set_config('rdma_fdw.commit', 'required', true);
  PERFORM rdma_internal.note_move(server, 'remove_node', node, NULL, NULL);
  PERFORM rdma_internal.await_change(server, wait);
  PERFORM rdma_internal.begin_change(server, CASE WHEN lost THEN '{}' ELSE ARRAY[node] END, false, wait);
  PERFORM rdma_internal.note_phase('recording');
  nodes := ARRAY(SELECT n.node FROM rdma.nodes(server) n ORDER BY n.place);
  removed := array_position(nodes, node) - 1;
  buckets := rdma.buckets(server);
  IF cardinality(nodes) = 1 OR removed = ANY (buckets) THEN
    RAISE EXCEPTION 'node "%" of server "%" cannot be removed', node, server USING ERRCODE = 'object_in_use',
      DETAIL = CASE WHEN cardinality(nodes) = 1 THEN 'There is no other one.'
        ELSE format('It has %s of %s buckets.', cardinality(array_positions(buckets, removed::smallint)),
            cardinality(buckets)) END,
      HINT = CASE WHEN cardinality(nodes) > 1 AND lost THEN format('Restore it, on any machine, and tell with '
          'rdma.replace_node(%L, %L).', server, node)
        WHEN cardinality(nodes) > 1 THEN format('CALL rdma.drain_node(%L, %L)', server, node)
            ELSE 'Drop the server''s tables, and the server.' END;
  END IF;
  FOR tab IN SELECT f.ftrelid FROM pg_foreign_table f JOIN pg_foreign_server s ON s.oid = f.ftserver
      WHERE s.srvname = server ORDER BY f.ftrelid LOOP
    SELECT * INTO part FROM rdma_internal.placement_conditions(tab) WHERE place = removed;
    IF NOT lost AND NOT part.replicated AND rdma_internal.ask_node(node, format('SELECT EXISTS (SELECT FROM %s)',
        part.relation),
        false) IS NOT FALSE THEN
      RAISE EXCEPTION 'node "%" of server "%" cannot be removed', node, server USING ERRCODE = 'object_in_use',
        DETAIL = format('It has rows of table %s.', tab), HINT = 'Rows that lie where no option "distributed_by" says '
            'do not move by themselves.';
    END IF;
  END LOOP;
  -- the nodes behind it get the numbers before theirs
  PERFORM rdma_internal.change_placement(server, array_remove(nodes, node),
    ARRAY(SELECT u.b - (u.b > removed)::integer FROM unnest(buckets) WITH ORDINALITY u(b, number)
        ORDER BY u.number)::smallint[]);
  IF NOT lost THEN
    PERFORM rdma_internal.ask_node(node, format('SELECT rdma_internal.join_set(%L, -1, 0, true)',
        (SELECT p.set_id FROM rdma.placement p
        WHERE p.server = remove_node.server)), NULL::text);
  END IF;
  EXECUTE format('ALTER SERVER %I OPTIONS (SET nodes %L)', server, (SELECT string_agg(quote_ident(n), ', ')
      FROM unnest(array_remove(nodes, node)) n));
  PERFORM rdma_internal.note_phase('committing');
END $function$;
COMMENT ON FUNCTION rdma.remove_node(name, name, integer, boolean) IS
    'a node without rows is no node of a server with nodes any more; its tables stay there';
