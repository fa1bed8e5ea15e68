/* rdma_fdw--1.0.sql - install script. Every object carries a comment, so \dx+ and \df+ explain themselves. */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION rdma_fdw" to load this file. \quit

-- Made here, not named in the control file, so that DROP EXTENSION takes it along.
CREATE SCHEMA rdma;
COMMENT ON SCHEMA rdma IS 'functions and views of the extension rdma_fdw';
GRANT USAGE ON SCHEMA rdma TO PUBLIC;

CREATE FUNCTION rdma.rdma_fdw_handler()
RETURNS fdw_handler
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;
COMMENT ON FUNCTION rdma.rdma_fdw_handler() IS 'foreign data wrapper routines of rdma_fdw';

CREATE FUNCTION rdma.rdma_fdw_validator(text[], oid)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;
COMMENT ON FUNCTION rdma.rdma_fdw_validator(text[], oid) IS 'checks the options of rdma_fdw servers, user mappings, tables and columns';

CREATE FOREIGN DATA WRAPPER rdma_fdw
  HANDLER rdma.rdma_fdw_handler
  VALIDATOR rdma.rdma_fdw_validator;
COMMENT ON FOREIGN DATA WRAPPER rdma_fdw IS 'tables of other PostgreSQL servers, pulled as columns over RDMA';

CREATE FUNCTION rdma.hello(request bytea)
RETURNS bytea
AS 'MODULE_PATHNAME', 'rdma_hello' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma.hello(bytea) IS 'internal: a reading node introduces itself and learns address, identity and one-time token of this node''s engine';

CREATE FUNCTION rdma.stream(request bytea, query text, parameter_types text[], parameter_values text[])
RETURNS bytea
AS 'MODULE_PATHNAME', 'rdma_stream' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma.stream(bytea, text, text[], text[]) IS 'internal: run a query with the caller''s rights and send its rows as column batches';

CREATE FUNCTION rdma.store(request bytea, relation text, columns text[], batch bytea)
RETURNS bytea
AS 'MODULE_PATHNAME', 'rdma_store' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma.store(bytea, text, text[], bytea) IS 'internal: insert rows that another node sends as column batches, or update or delete rows that it names, with the caller''s rights';

CREATE FUNCTION rdma.receive()
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_receive' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE ROWS 1000;
COMMENT ON FUNCTION rdma.receive() IS 'internal: stands for the rows that arrive in the statement that rdma.store runs';

CREATE FUNCTION rdma.hash_node(nodes integer, VARIADIC key "any")
RETURNS integer
AS 'MODULE_PATHNAME', 'rdma_hash_node' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION rdma.hash_node(integer, "any") IS 'place, from 0, of the node that holds a row with this key: the remainder of PostgreSQL''s hash partitioning';

-- Never runs: the planner puts the aggregate's transition state in its place.
CREATE FUNCTION rdma.partialize(aggregate "any", state anyelement)
RETURNS anyelement
AS 'MODULE_PATHNAME', 'rdma_partialize' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION rdma.partialize("any", anyelement) IS 'internal: the transition state of the aggregate that it stands over, of the second argument''s type: the state''s, or bytea for internal ones';

-- Statistics of a foreign table from those of the remote one.

CREATE FUNCTION rdma.import_statistics(relation regclass)
RETURNS integer
AS 'MODULE_PATHNAME', 'rdma_import_statistics' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma.import_statistics(regclass) IS 'copies the remote table''s statistics into the catalog here, as ANALYZE with the option analyze_sampling ''import'' does; gives the number of columns';

-- Servers that stand for many nodes, and where rows of their tables lie.

CREATE FUNCTION rdma.nodes(server name, OUT place integer, OUT node name)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_nodes' LANGUAGE C STABLE STRICT PARALLEL SAFE ROWS 4;
COMMENT ON FUNCTION rdma.nodes(name) IS 'the servers that a server stands for (option nodes), each with its place; an ordinary server stands for itself';

CREATE FUNCTION rdma.run_on(server name, command text, OUT node name, OUT answer text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_run_on' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 4;
COMMENT ON FUNCTION rdma.run_on(name, text) IS 'runs a command on each node of a server, with your user mapping and in the remote transaction; the answer is the only value of a query, or the command''s tag';

CREATE FUNCTION rdma.distribution_key(tab regclass)
RETURNS text[]
AS 'MODULE_PATHNAME', 'rdma_distribution_key' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION rdma.distribution_key(regclass) IS 'columns of a foreign table whose hash says on which node a row lies (option distributed_by); NULL when there are none';

CREATE FUNCTION rdma.distribute_table(tab regclass, server name, distributed_by text DEFAULT NULL, replicated boolean DEFAULT false)
RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  old record;
  part record;
  keys text[] := '{}';
  remote_columns text;
  local_columns text;
  names text;
  options text := '';
  moving name;
  moved bigint;
BEGIN
  IF distributed_by IS NOT NULL AND replicated THEN
    RAISE EXCEPTION 'a table is either distributed or replicated' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  IF EXISTS (SELECT FROM pg_class WHERE oid = tab AND relkind = 'r') THEN
    EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', tab);
  END IF;
  SELECT c.oid, c.relname, n.nspname, c.relkind, c.relispartition, c.relhassubclass, c.relrowsecurity, c.relacl, c.relpersistence, c.relowner::regrole AS owner,
      obj_description(c.oid, 'pg_class') AS comment,
      (SELECT string_agg(quote_ident(tgname), ', ' ORDER BY tgname) FROM pg_trigger WHERE tgrelid = c.oid AND NOT tgisinternal) AS triggers,
      (SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = c.oid AND attidentity <> '') AS identity
    INTO old FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = tab;
  IF old.relkind <> 'r' OR old.relispartition OR old.relhassubclass OR old.relpersistence = 't' THEN
    RAISE EXCEPTION '"%" is not an ordinary table', old.relname USING ERRCODE = 'wrong_object_type',
      DETAIL = 'Partitioned and temporary tables, partitions, parents and foreign tables cannot be distributed.';
  END IF;
  IF old.triggers IS NOT NULL OR old.relrowsecurity OR old.identity IS NOT NULL THEN
    RAISE EXCEPTION 'table "%" cannot be distributed', old.relname USING ERRCODE = 'feature_not_supported',
      DETAIL = concat_ws(' ', 'It has triggers: ' || old.triggers || '.', CASE WHEN old.relrowsecurity THEN 'It has row security.' END,
        'It has identity columns: ' || old.identity || '.'),
      HINT = 'Drop them first, and create their like on the foreign table or on the nodes.';
  END IF;
  SELECT string_agg(DISTINCT pg_describe_object(classid, objid, objsubid), ', ') AS names INTO part FROM pg_depend
    WHERE refclassid = 'pg_class'::regclass AND refobjid = tab AND (classid = 'pg_rewrite'::regclass OR
      classid = 'pg_constraint'::regclass AND NOT EXISTS (SELECT FROM pg_constraint WHERE oid = objid AND conrelid = tab));
  IF part.names IS NOT NULL THEN
    RAISE EXCEPTION 'table "%" cannot be distributed', old.relname USING ERRCODE = 'dependent_objects_still_exist',
      DETAIL = format('It would be dropped, and these depend on it: %s.', part.names), HINT = 'Drop them, and create them again afterwards.';
  END IF;
  IF distributed_by IS NOT NULL THEN
    options := format(', distributed_by %L', distributed_by);
  ELSIF replicated THEN
    options := ', replicated ''true''';
  END IF;

  -- Defaults stay here, where sequences are; the nodes compute what is generated.
  SELECT string_agg(format('%I %s%s%s%s', a.attname, format_type(a.atttypid, a.atttypmod),
        ' COLLATE ' || CASE WHEN a.attcollation <> t.typcollation THEN quote_ident(cn.nspname) || '.' || quote_ident(co.collname) END,
        CASE WHEN a.attgenerated <> '' THEN ' GENERATED ALWAYS AS (' || pg_get_expr(d.adbin, d.adrelid) || ') STORED' END,
        CASE WHEN a.attnotnull THEN ' NOT NULL' END), ', ' ORDER BY a.attnum),
      string_agg(format('%I %s%s%s%s', a.attname, format_type(a.atttypid, a.atttypmod),
        ' COLLATE ' || CASE WHEN a.attcollation <> t.typcollation THEN quote_ident(cn.nspname) || '.' || quote_ident(co.collname) END,
        CASE WHEN a.attgenerated <> '' THEN ' GENERATED ALWAYS AS (' || pg_get_expr(d.adbin, d.adrelid) || ') STORED'
          ELSE ' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid) END,
        CASE WHEN a.attnotnull THEN ' NOT NULL' END), ', ' ORDER BY a.attnum),
      string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) FILTER (WHERE a.attgenerated = '')
    INTO remote_columns, local_columns, names
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
      LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
      LEFT JOIN pg_collation co ON co.oid = a.attcollation LEFT JOIN pg_namespace cn ON cn.oid = co.collnamespace
    WHERE a.attrelid = tab AND a.attnum > 0 AND NOT a.attisdropped;

  PERFORM rdma.run_on(n.node, format('CREATE SCHEMA %I', old.nspname))
    FROM rdma.run_on(server, format('SELECT to_regnamespace(%L) IS NULL', quote_ident(old.nspname))) n WHERE n.answer = 't';
  PERFORM rdma.run_on(server, format('CREATE TABLE %I.%I (%s)', old.nspname, old.relname, remote_columns));
  FOR part IN SELECT conname, contype, pg_get_constraintdef(oid) AS definition FROM pg_constraint WHERE conrelid = tab AND contype = 'c' ORDER BY conname LOOP
    PERFORM rdma.run_on(server, format('ALTER TABLE %I.%I ADD CONSTRAINT %I %s', old.nspname, old.relname, part.conname, part.definition));
  END LOOP;

  -- The foreign table takes the table's place.
  moving := left(old.relname, 50) || '_moving';
  EXECUTE format('ALTER TABLE %s RENAME TO %I', tab, moving);
  EXECUTE format('CREATE FOREIGN TABLE %I.%I (%s) SERVER %I OPTIONS (schema_name %L, table_name %L%s)', old.nspname, old.relname,
    local_columns, server, old.nspname, old.relname, options);
  EXECUTE format('ALTER FOREIGN TABLE %I.%I OWNER TO %s', old.nspname, old.relname, old.owner);
  keys := coalesce(rdma.distribution_key(format('%I.%I', old.nspname, old.relname)::regclass), '{}');
  FOR part IN SELECT conname, pg_get_constraintdef(oid) AS definition FROM pg_constraint WHERE conrelid = tab AND contype = 'c' ORDER BY conname LOOP
    EXECUTE format('ALTER FOREIGN TABLE %I.%I ADD CONSTRAINT %I %s', old.nspname, old.relname, part.conname, part.definition);
  END LOOP;
  EXECUTE format('INSERT INTO %I.%I (%s) SELECT %s FROM %I.%I', old.nspname, old.relname, names, names, old.nspname, moving);
  GET DIAGNOSTICS moved = ROW_COUNT;

  -- Indexes are built over all rows at once; what is unique is so on each node.
  FOR part IN SELECT conname, contype, conkey, pg_get_constraintdef(oid) AS definition FROM pg_constraint WHERE conrelid = tab AND contype <> 'c' ORDER BY contype, conname LOOP
    IF part.contype = 'f' OR part.contype = 't' OR part.contype = 'n' THEN
      IF part.contype = 'f' THEN
        RAISE WARNING 'foreign key "%" of table "%" is left out', part.conname, old.relname;
      END IF;
      CONTINUE;
    END IF;
    IF NOT replicated AND NOT (part.contype <> 'x' AND cardinality(keys) > 0 AND keys <@
        (SELECT array_agg(attname::text) FROM pg_attribute WHERE attrelid = tab AND attnum = ANY (part.conkey))) THEN
      RAISE WARNING 'constraint "%" of table "%" holds on each node, not between nodes', part.conname, old.relname
        USING DETAIL = 'Its columns do not contain those that the table is distributed by.';
    END IF;
    PERFORM rdma.run_on(server, format('ALTER TABLE %I.%I ADD CONSTRAINT %I %s', old.nspname, old.relname, part.conname, part.definition));
  END LOOP;
  FOR part IN
    SELECT replace(pg_get_indexdef(i.indexrelid), format(' ON %s ', tab), format(' ON %I.%I ', old.nspname, old.relname)) AS definition
      FROM pg_index i WHERE i.indrelid = tab AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = i.indexrelid AND conrelid = tab)
      ORDER BY i.indexrelid::regclass::text
  LOOP
    PERFORM rdma.run_on(server, part.definition);
  END LOOP;
  PERFORM rdma.run_on(server, format('ANALYZE %I.%I', old.nspname, old.relname));

  FOR part IN
    SELECT d.objid::regclass AS seq, a.attname FROM pg_depend d JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
      WHERE d.refobjid = tab AND d.refclassid = 'pg_class'::regclass AND d.classid = 'pg_class'::regclass AND d.deptype = 'a'
        AND (SELECT relkind FROM pg_class WHERE oid = d.objid) = 'S'
  LOOP
    EXECUTE format('ALTER SEQUENCE %s OWNED BY %I.%I.%I', part.seq, old.nspname, old.relname, part.attname);
  END LOOP;
  FOR part IN
    SELECT CASE WHEN grantee = 0 THEN 'PUBLIC' ELSE quote_ident(grantee::regrole::text) END AS role, privilege_type, is_grantable
      FROM aclexplode(old.relacl) WHERE grantee <> (SELECT relowner FROM pg_class WHERE oid = tab)
  LOOP
    EXECUTE format('GRANT %s ON %I.%I TO %s%s', part.privilege_type, old.nspname, old.relname, part.role,
      CASE WHEN part.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END);
  END LOOP;
  IF old.comment IS NOT NULL THEN
    EXECUTE format('COMMENT ON FOREIGN TABLE %I.%I IS %L', old.nspname, old.relname, old.comment);
  END IF;
  EXECUTE format('DROP TABLE %I.%I', old.nspname, moving);
  EXECUTE format('ANALYZE %I.%I', old.nspname, old.relname);
  RETURN moved;
END $function$;
COMMENT ON FUNCTION rdma.distribute_table(regclass, name, text, boolean) IS 'makes a local table one of a server with nodes: creates it on the nodes, moves its rows there, and puts a foreign table in its place; returns how many rows it moved';

CREATE FUNCTION rdma.check_distribution(tab regclass, OUT node name, OUT rows bigint, OUT misplaced bigint, OUT differs boolean)
RETURNS SETOF record
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  options record;
  part record;
  answer text;
  first_answer text;
  columns text;
BEGIN
  SELECT s.srvname, (SELECT count(*) FROM rdma.nodes(s.srvname)) AS nodes,
      coalesce(max(o.option_value) FILTER (WHERE o.option_name = 'schema_name'), n.nspname) AS schema_name,
      coalesce(max(o.option_value) FILTER (WHERE o.option_name = 'table_name'), c.relname) AS table_name,
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
      INTO columns
      FROM unnest(rdma.distribution_key(tab)) WITH ORDINALITY AS k(name, place)
        LEFT JOIN pg_attribute a ON a.attrelid = tab AND a.attname = k.name AND NOT a.attisdropped;
  END IF;

  FOR part IN SELECT n.place, n.node FROM rdma.nodes(options.srvname) n ORDER BY n.place LOOP
    node := part.node;
    IF options.replicated THEN
      SELECT r.answer INTO answer FROM rdma.run_on(part.node, format('SELECT concat_ws('','', count(*), sum(hashtextextended(t::text, 0))) FROM %I.%I t',
        options.schema_name, options.table_name)) r;
      first_answer := coalesce(first_answer, answer);
      differs := answer <> first_answer;
    ELSE
      SELECT r.answer INTO answer FROM rdma.run_on(part.node, format('SELECT concat_ws('','', count(*), count(*) FILTER (WHERE %s)) FROM %I.%I',
        CASE WHEN columns IS NULL THEN 'false' ELSE format('rdma.hash_node(%s, %s) <> %s', options.nodes, columns, part.place) END, options.schema_name, options.table_name)) r;
      misplaced := CASE WHEN columns IS NOT NULL THEN split_part(answer, ',', 2)::bigint END;
    END IF;
    rows := split_part(answer, ',', 1)::bigint;
    RETURN NEXT;
  END LOOP;
END $function$;
COMMENT ON FUNCTION rdma.check_distribution(regclass) IS 'per node of a foreign table: its rows, and how many of them belong to another node by option distributed_by; of a replicated table, whether the copy differs from the first node''s';
-- Distributed statements: what a coordinator calls on every node, and what moves rows between them.

CREATE FUNCTION rdma.exchange_support(internal)
RETURNS internal
AS 'MODULE_PATHNAME', 'rdma_exchange_support' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION rdma.exchange_support(internal) IS 'internal: tells the planner how many rows rdma.exchange returns';

CREATE FUNCTION rdma.exchange(spec text, query text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_exchange' LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 1000 SUPPORT rdma.exchange_support;
COMMENT ON FUNCTION rdma.exchange(text, text) IS 'internal: the rows of a query that runs on all nodes of a distributed statement, each row on the node it belongs to';

CREATE FUNCTION rdma.exchange_greet()
RETURNS bytea
AS 'MODULE_PATHNAME', 'rdma_exchange_greet' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma.exchange_greet() IS 'internal: who this node is, as rdma.hello on another node wants to know it';

CREATE FUNCTION rdma.exchange_connect(host text, hello bytea)
RETURNS void
AS 'MODULE_PATHNAME', 'rdma_exchange_connect' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma.exchange_connect(text, bytea) IS 'internal: connect this node''s engine with that of the node whose rdma.hello answered this';

CREATE FUNCTION rdma.exchange_listen(member integer, groups bytea[], producers integer[] DEFAULT NULL, consumers integer[] DEFAULT NULL)
RETURNS bytea[]
AS 'MODULE_PATHNAME', 'rdma_exchange_listen' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma.exchange_listen(integer, bytea[], integer[], integer[]) IS 'internal: take part in the exchanges of the next statement; the groups come back with this node''s addresses';

CREATE FUNCTION rdma.exchange_open(member integer, groups bytea[])
RETURNS void
AS 'MODULE_PATHNAME', 'rdma_exchange_open' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma.exchange_open(integer, bytea[]) IS 'internal: all members listen at these addresses; the next statement may exchange rows';

CREATE FUNCTION rdma.exchange_stats(
  OUT number integer, OUT rows_out bigint, OUT bytes_out bigint, OUT rows_in bigint, OUT bytes_in bigint,
  OUT rows_kept_local bigint, OUT stalls bigint, OUT spilled_bytes bigint, OUT transport text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_exchange_stats' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 2;
COMMENT ON FUNCTION rdma.exchange_stats() IS 'internal: what the exchanges of this session''s last distributed statement moved';

-- Connections of this session to data nodes.

CREATE FUNCTION rdma.connections(
  OUT server text, OUT usename text, OUT valid boolean, OUT in_transaction boolean, OUT closed boolean, OUT remote_pid integer)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_connections' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 4;
COMMENT ON FUNCTION rdma.connections() IS 'connections to data nodes that this session holds open';
CREATE VIEW rdma.connections AS SELECT * FROM rdma.connections();
COMMENT ON VIEW rdma.connections IS 'one row per connection that this session holds to a data node; not valid: options have changed or its mapping is gone, so it will be closed; closed: the other side has hung up';
GRANT SELECT ON rdma.connections TO PUBLIC;

CREATE FUNCTION rdma.disconnect(server name)
RETURNS boolean
AS 'MODULE_PATHNAME', 'rdma_disconnect' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION rdma.disconnect(name) IS 'closes this session''s connections to a server; false when there was none that could be closed';

CREATE FUNCTION rdma.disconnect_all()
RETURNS boolean
AS 'MODULE_PATHNAME', 'rdma_disconnect_all' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION rdma.disconnect_all() IS 'closes all of this session''s connections to data nodes';

-- From postgres_fdw. Everything is made with the caller's rights, by the statements he could type himself.
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
  mappings_hidden boolean;
BEGIN
  SELECT s.oid, s.srvname, s.srvtype, s.srvversion, s.srvoptions, w.fdwname INTO old
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
    SELECT c.oid, c.relname, n.nspname, c.relacl, c.relispartition, c.relhassubclass, f.ftoptions,
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
    remark := nullif(concat_ws('; ', 'options left out: ' || array_to_string(unknown, ', '),
      CASE WHEN tab.relispartition THEN 'not attached as a partition of ' || tab.parents ELSE 'does not inherit from ' || tab.parents END,
      'triggers left out: ' || tab.triggers, CASE WHEN tab.relacl IS NOT NULL THEN 'privileges not copied' END), '');
    RETURN NEXT;
  END LOOP;
END $function$;
COMMENT ON FUNCTION rdma.adopt_server(name, name, name) IS 'makes an rdma_fdw server with user mappings and foreign tables, in a schema of your choice, from a postgres_fdw one; tells what it left out. The name of the new server is that of the old one and _rdma by default';

CREATE FUNCTION rdma.known_options(options text[], catalog oid, OUT known text[], OUT unknown text[])
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  option text;
BEGIN
  FOREACH option IN ARRAY coalesce(options, '{}') LOOP
    BEGIN
      PERFORM rdma.rdma_fdw_validator(ARRAY[option], catalog);
      known := array_append(known, option);
    EXCEPTION WHEN fdw_invalid_option_name OR invalid_parameter_value THEN
      unknown := array_append(unknown, split_part(option, '=', 1));
    END;
  END LOOP;
END $function$;
COMMENT ON FUNCTION rdma.known_options(text[], oid) IS 'internal: which of another wrapper''s options rdma_fdw has, too';

CREATE FUNCTION rdma.option_list(options text[])
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $function$
  SELECT coalesce(' OPTIONS (' || pg_catalog.string_agg(pg_catalog.format('%I %L', option_name, option_value), ', ') || ')', '')
    FROM pg_catalog.pg_options_to_table(options)
$function$;
COMMENT ON FUNCTION rdma.option_list(text[]) IS 'internal: options as CREATE statements want them';

-- What the engine does. The functions read counters in shared memory; the views give names to what they return.

CREATE FUNCTION rdma.stat_engine(
  OUT pid integer, OUT started timestamptz, OUT port integer, OUT starts integer, OUT node text,
  OUT provider text, OUT device text, OUT device_problem text, OUT lanes integer,
  OUT buffer_memory bigint, OUT buffer_used bigint, OUT segments integer, OUT segments_lent integer, OUT segments_held integer,
  OUT handshakes bigint, OUT handshakes_refused bigint, OUT garbage_connections bigint, OUT connections_lost bigint,
  OUT flows_refused bigint, OUT buffer_waits bigint, OUT bytes_in_flight bigint, OUT bytes_in_flight_max bigint,
  OUT sleep_us double precision, OUT empty_poll_us double precision,
  OUT value_memory bigint, OUT value_used bigint, OUT value_registered bigint,
  OUT registrations bigint, OUT registration_hits bigint, OUT registration_evictions bigint, OUT registrations_refused bigint,
  OUT copy_us_per_mb double precision, OUT register_us double precision, OUT register_us_per_mb double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_stat_engine' LANGUAGE C VOLATILE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION rdma.stat_engine() IS 'state and counters of this node''s engine';
CREATE VIEW rdma.stat_engine AS SELECT * FROM rdma.stat_engine();
COMMENT ON VIEW rdma.stat_engine IS 'this node''s engine: process, port, device, buffer memory, handshakes; pid is NULL while it does not run';
COMMENT ON COLUMN rdma.stat_engine.segments_held IS 'segments that an engine of this host may still write into although its connection is over (it was stopped, say); they are lent again when it has noticed or has ended';
COMMENT ON COLUMN rdma.stat_engine.bytes_in_flight IS 'bytes that are in flight under rdma_fdw.admission_window';
COMMENT ON COLUMN rdma.stat_engine.bytes_in_flight_max IS 'most that were since the engine started';
COMMENT ON COLUMN rdma.stat_engine.sleep_us IS 'what it costs a lane to sleep and be woken, in microseconds, measured when the engine started; lanes poll for about that long before they sleep';
COMMENT ON COLUMN rdma.stat_engine.empty_poll_us IS 'what one look at an empty completion queue costs, in microseconds, measured when the engine started';
COMMENT ON COLUMN rdma.stat_engine.value_memory IS 'bytes of memory in which rows that do not fit a buffer are laid out and sent from';
COMMENT ON COLUMN rdma.stat_engine.value_used IS 'bytes of it that streams have now';
COMMENT ON COLUMN rdma.stat_engine.value_registered IS 'bytes of it that are registered; what is registered for two peers counts twice';
COMMENT ON COLUMN rdma.stat_engine.registrations IS 'registrations of pieces of it';
COMMENT ON COLUMN rdma.stat_engine.registration_hits IS 'pieces that were registered already when a stream wanted them';
COMMENT ON COLUMN rdma.stat_engine.registration_evictions IS 'registrations of value memory given up for others';
COMMENT ON COLUMN rdma.stat_engine.registrations_refused IS 'times a stream got no piece, and copied';
COMMENT ON COLUMN rdma.stat_engine.copy_us_per_mb IS 'what it costs to copy a MB into buffers, in microseconds, measured when the engine started; whether a row is copied is decided by this and the next two';
COMMENT ON COLUMN rdma.stat_engine.register_us IS 'what it costs to register and deregister memory, in microseconds, whatever its size';
COMMENT ON COLUMN rdma.stat_engine.register_us_per_mb IS 'and for each MB of it';

CREATE FUNCTION rdma.stat_lanes(
  OUT lane integer, OUT asleep boolean, OUT requests bigint, OUT work_requests bigint, OUT merged bigint, OUT merged_while_throttled bigint,
  OUT chained bigint, OUT doorbells bigint, OUT signaled bigint, OUT turns bigint, OUT throttled bigint, OUT throttled_ms double precision,
  OUT bytes_sent bigint, OUT in_place bigint, OUT in_place_bytes bigint, OUT from_pages bigint, OUT from_pages_bytes bigint,
  OUT immediates bigint, OUT protocol_errors bigint,
  OUT polling_mode text, OUT poll_time integer, OUT polls bigint, OUT empty_polls bigint, OUT completions bigint,
  OUT armed bigint, OUT sleeps bigint, OUT busy_ms double precision,
  OUT c_max integer, OUT credit_waits bigint, OUT epoch bigint, OUT candidate_rates bigint[],
  OUT claims bigint, OUT claims_lost bigint, OUT claims_held_up bigint, OUT backoff_ms double precision, OUT backoff_limit integer,
  OUT claims_at_once integer, OUT claims_asked bigint, OUT grants bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_stat_lanes' LANGUAGE C VOLATILE STRICT PARALLEL SAFE ROWS 4;
COMMENT ON FUNCTION rdma.stat_lanes() IS 'counters of the engine''s threads that move data';
CREATE VIEW rdma.stat_lanes AS
  SELECT *, round((busy_ms * 1000 / nullif(completions, 0))::numeric, 2) AS cpu_us_per_completion FROM rdma.stat_lanes();
COMMENT ON VIEW rdma.stat_lanes IS 'the engine''s lanes: one row per thread that moves data';
COMMENT ON COLUMN rdma.stat_lanes.requests IS 'buffers and messages that were to be sent';
COMMENT ON COLUMN rdma.stat_lanes.work_requests IS 'work requests that carried them';
COMMENT ON COLUMN rdma.stat_lanes.merged IS 'requests that left within the work request of a neighbour';
COMMENT ON COLUMN rdma.stat_lanes.merged_while_throttled IS 'those of them that had to wait for the admission window or for room in the send queue';
COMMENT ON COLUMN rdma.stat_lanes.chained IS 'work requests that shared a doorbell with an earlier one';
COMMENT ON COLUMN rdma.stat_lanes.doorbells IS 'times work requests were handed to the device';
COMMENT ON COLUMN rdma.stat_lanes.signaled IS 'work requests that asked for a completion';
COMMENT ON COLUMN rdma.stat_lanes.turns IS 'turns that ended because it was the next stream''s';
COMMENT ON COLUMN rdma.stat_lanes.throttled IS 'times the admission policy made the lane wait';
COMMENT ON COLUMN rdma.stat_lanes.throttled_ms IS 'how long it waited in all, in milliseconds';
COMMENT ON COLUMN rdma.stat_lanes.in_place IS 'buffers whose payload was sent from value memory, where it had been laid out, without a copy';
COMMENT ON COLUMN rdma.stat_lanes.in_place_bytes IS 'bytes of such payload';
COMMENT ON COLUMN rdma.stat_lanes.from_pages IS 'buffers of which parts were sent from pages in shared buffers, without a copy (rdma_fdw.register_shared_buffers)';
COMMENT ON COLUMN rdma.stat_lanes.from_pages_bytes IS 'bytes of such parts';
COMMENT ON COLUMN rdma.stat_lanes.polling_mode IS 'rdma_fdw.polling_mode in force';
COMMENT ON COLUMN rdma.stat_lanes.poll_time IS 'microseconds that polling goes on after a success before it sleeps, in mode adaptive';
COMMENT ON COLUMN rdma.stat_lanes.polls IS 'looks at the completion queue';
COMMENT ON COLUMN rdma.stat_lanes.empty_polls IS 'those that found nothing';
COMMENT ON COLUMN rdma.stat_lanes.completions IS 'what the others found: immediates from peers and completions of own work requests';
COMMENT ON COLUMN rdma.stat_lanes.armed IS 'times the completion queue was asked for an event';
COMMENT ON COLUMN rdma.stat_lanes.sleeps IS 'times the lane went to sleep';
COMMENT ON COLUMN rdma.stat_lanes.busy_ms IS 'CPU time of the thread in milliseconds';
COMMENT ON COLUMN rdma.stat_lanes.cpu_us_per_completion IS 'that time in microseconds, divided by completions';
COMMENT ON COLUMN rdma.stat_lanes.c_max IS 'work requests that may be outstanding on one queue pair; NULL: no limit. The engine finds the best one by trying';
COMMENT ON COLUMN rdma.stat_lanes.credit_waits IS 'times that a stream had to wait because so many were';
COMMENT ON COLUMN rdma.stat_lanes.epoch IS 'automatic decisions about c_max so far; none while no queue pair has more than 4 outstanding';
COMMENT ON COLUMN rdma.stat_lanes.claims IS 'receive buffers of shared pools that were won by remote compare-and-swap';
COMMENT ON COLUMN rdma.stat_lanes.claims_lost IS 'attempts that found the buffer taken';
COMMENT ON COLUMN rdma.stat_lanes.claims_held_up IS 'times that a claim could not begin because the stream had claims_at_once of them';
COMMENT ON COLUMN rdma.stat_lanes.backoff_ms IS 'milliseconds between lost attempts and the next ones, in all';
COMMENT ON COLUMN rdma.stat_lanes.backoff_limit IS 'microseconds that a lost claim waits at most, of the stream that claimed last; it follows the share of lost attempts';
COMMENT ON COLUMN rdma.stat_lanes.claims_at_once IS 'claims that may be under way at once, of the stream that claimed last; they are made fewer before backoff_limit rises; 0: none claimed yet';
COMMENT ON COLUMN rdma.stat_lanes.claims_asked IS 'receive buffers of shared pools that were asked for, because there are no atomics or too many attempts were lost';
COMMENT ON COLUMN rdma.stat_lanes.grants IS 'receive buffers of this node''s shared pools that were granted to those that asked';
COMMENT ON COLUMN rdma.stat_lanes.candidate_rates IS 'bytes per second that the last decision measured with no limit, 4, 6, 8, 10, 12; NULL: not tried, because the load does not reach it';

CREATE FUNCTION rdma.qps(
  OUT lane integer, OUT peer integer, OUT host text, OUT qp bigint, OUT thread_domain integer,
  OUT outstanding integer, OUT outstanding_max integer, OUT c_max integer, OUT credit_waits bigint,
  OUT work_requests bigint, OUT bytes_sent bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_qps' LANGUAGE C VOLATILE STRICT PARALLEL SAFE ROWS 8;
COMMENT ON FUNCTION rdma.qps() IS 'queue pairs of this node''s engine';
CREATE VIEW rdma.qps AS SELECT * FROM rdma.qps();
COMMENT ON VIEW rdma.qps IS 'one row per queue pair: each lane has one to each peer';
COMMENT ON COLUMN rdma.qps.lane IS 'thread that owns it, as in rdma.stat_lanes';
COMMENT ON COLUMN rdma.qps.peer IS 'as in rdma.stat_peers';
COMMENT ON COLUMN rdma.qps.host IS 'the peer as rdma.stat_peers names it';
COMMENT ON COLUMN rdma.qps.qp IS 'the device''s queue pair number; for shared memory and TCP a number of the lane''s own';
COMMENT ON COLUMN rdma.qps.thread_domain IS 'thread domain that it is on, so that its doorbell is shared with no other lane; NULL where the device has none (shared memory, TCP, soft-RoCE)';
COMMENT ON COLUMN rdma.qps.outstanding IS 'work requests posted and not completed';
COMMENT ON COLUMN rdma.qps.outstanding_max IS 'most that ever were';
COMMENT ON COLUMN rdma.qps.c_max IS 'most that may be, as in rdma.stat_lanes; NULL: no limit';
COMMENT ON COLUMN rdma.qps.credit_waits IS 'times that a stream had to wait because so many were';
COMMENT ON COLUMN rdma.qps.work_requests IS 'work requests posted since it was connected';
COMMENT ON COLUMN rdma.qps.bytes_sent IS 'bytes of payload in them';

CREATE FUNCTION rdma.stat_peers(
  OUT peer integer, OUT node text, OUT host text, OUT port integer, OUT direction text, OUT state text, OUT transport text,
  OUT connected timestamptz, OUT connections integer, OUT handshake_ms double precision, OUT round_trip_us integer,
  OUT usual_round_trip_us integer, OUT bandwidth bigint, OUT bytes_sent bigint, OUT bytes_received bigint, OUT flows_opened bigint, OUT segments integer, OUT shared_buffers text, OUT error text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_stat_peers' LANGUAGE C VOLATILE STRICT PARALLEL SAFE ROWS 4;
COMMENT ON FUNCTION rdma.stat_peers() IS 'connections of this node''s engine to others';
CREATE VIEW rdma.stat_peers AS SELECT * FROM rdma.stat_peers();
COMMENT ON VIEW rdma.stat_peers IS 'one row per connection of this node''s engine to another: transport, round trip, bytes, and why it failed';
COMMENT ON COLUMN rdma.stat_peers.shared_buffers IS 'registered: heap pages are sent to this peer from where they are; not asked for: no stream of pages went there yet; else why they are copied first (rdma_fdw.register_shared_buffers)';
COMMENT ON COLUMN rdma.stat_peers.round_trip_us IS 'the last round trip between the engines, their own delays included';
COMMENT ON COLUMN rdma.stat_peers.usual_round_trip_us IS 'round trips smoothed, towards the shorter ones; what the planner counts on with rdma_fdw.measured_costs';
COMMENT ON COLUMN rdma.stat_peers.bandwidth IS 'bytes per second that pulls from this peer got while both ends waited for the network, smoothed; NULL: none did; what the planner counts on with rdma_fdw.measured_costs';

CREATE FUNCTION rdma.stat_flows(
  OUT flow integer, OUT pid integer, OUT datid oid, OUT usesysid oid, OUT role text, OUT state text, OUT peer integer, OUT host text,
  OUT transport text, OUT lane integer, OUT weight integer, OUT started timestamptz, OUT rows bigint, OUT bytes bigint,
  OUT estimated_rows bigint, OUT percent double precision, OUT buffers integer, OUT buffer_size integer, OUT buffer_states text,
  OUT slots bigint, OUT waits bigint, OUT wait_ms double precision, OUT work_requests bigint, OUT merged bigint, OUT chained bigint,
  OUT credit_stalls bigint, OUT credits_sent bigint, OUT probes bigint, OUT pool_buffers integer, OUT claims bigint,
  OUT claims_lost bigint, OUT region_copies bigint, OUT region_boxes bigint, OUT useful_bytes bigint,
  OUT gap_bytes bigint, OUT region_gathers bigint, OUT region_strided bigint, OUT uncopied_bytes bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_stat_flows' LANGUAGE C VOLATILE STRICT PARALLEL SAFE ROWS 10;
COMMENT ON FUNCTION rdma.stat_flows() IS 'streams of this node, incoming and outgoing; details of other roles'' streams are NULL';
CREATE VIEW rdma.stat_flows AS
  SELECT f.flow, f.pid, d.datname, r.rolname AS usename, f.role, f.state, f.host, f.transport, f.started,
    f.rows, f.bytes, f.estimated_rows, round(f.percent::numeric, 1) AS percent,
    f.buffers, f.buffer_size, f.buffer_states, f.slots, f.waits, f.wait_ms,
    f.work_requests, f.merged, f.chained, f.credit_stalls, f.credits_sent, f.probes, f.lane, f.weight, f.peer,
    f.pool_buffers, f.claims, f.claims_lost, f.region_copies, f.region_gathers, f.region_strided, f.region_boxes, f.useful_bytes, f.gap_bytes, f.uncopied_bytes
  FROM rdma.stat_flows() f
    LEFT JOIN pg_catalog.pg_database d ON d.oid = f.datid
    LEFT JOIN pg_catalog.pg_roles r ON r.oid = f.usesysid;
COMMENT ON COLUMN rdma.stat_flows.pool_buffers IS 'receive buffers that the reader''s streams share (rdma_fdw.receive_pool); NULL: the stream has its own';
COMMENT ON COLUMN rdma.stat_flows.claims IS 'of a sender: those that it got, each for one buffer full';
COMMENT ON COLUMN rdma.stat_flows.claims_lost IS 'of a sender: attempts to claim one that found it taken';
COMMENT ON COLUMN rdma.stat_flows.region_copies IS 'of a sender of heap pages (rdma_fdw.allow_page_shipping): pages of which the rows alone were sent';
COMMENT ON COLUMN rdma.stat_flows.region_gathers IS 'of a sender of heap pages: pages of which work requests gathered the rows from where they lay';
COMMENT ON COLUMN rdma.stat_flows.region_strided IS 'of a sender of heap pages: pages of equally long rows at equal distances, which the device took apart (rdma.devices.max_strided)';
COMMENT ON COLUMN rdma.stat_flows.region_boxes IS 'of a sender of heap pages: pages sent with what lies between the rows';
COMMENT ON COLUMN rdma.stat_flows.useful_bytes IS 'of a sender: bytes of rows in them';
COMMENT ON COLUMN rdma.stat_flows.gap_bytes IS 'of a sender: bytes that lay between';
COMMENT ON COLUMN rdma.stat_flows.uncopied_bytes IS 'of a sender: bytes of both that left from shared buffers (rdma_fdw.register_shared_buffers)';
COMMENT ON VIEW rdma.stat_flows IS 'one row per running stream: progress against the planner''s estimate, waits, and how the bytes left; buffer_states has a letter per buffer: - free, f being filled, r ready, i in flight, p arrived, u being read';

CREATE FUNCTION rdma.devices(
  OUT provider text, OUT device text, OUT port integer, OUT state text, OUT link_layer text, OUT rate text, OUT netdev text,
  OUT mtu integer, OUT gid text, OUT gid_type text, OUT in_use boolean,
  OUT atomics boolean, OUT thread_domains boolean, OUT max_strided integer)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_devices' LANGUAGE C VOLATILE STRICT PARALLEL SAFE ROWS 4;
COMMENT ON FUNCTION rdma.devices() IS 'RDMA devices of this machine and the software transport';
CREATE VIEW rdma.devices AS SELECT * FROM rdma.devices();
COMMENT ON VIEW rdma.devices IS 'what this machine can move data with: one row per port of an RDMA device, and the software transport; in_use is what the engine took';
COMMENT ON COLUMN rdma.devices.atomics IS 'remote compare-and-swap is available; NULL for what the engine has not opened';
COMMENT ON COLUMN rdma.devices.max_strided IS 'strided entries (interleaved memory keys of mlx5 devices) that one queue pair may have out; 0: it has none; NULL for what the engine has not opened';
COMMENT ON COLUMN rdma.devices.thread_domains IS 'each lane has a doorbell of its own, see rdma.qps; NULL for what the engine has not opened';

CREATE FUNCTION rdma."check"(server name, OUT item text, OUT status text, OUT value text, OUT fix text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'rdma_check' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE ROWS 15;
COMMENT ON FUNCTION rdma."check"(name) IS 'looks at everything that can be wrong between this node and a server: one row each, with what to do about it';

-- Counters of everybody's work are for everybody to see, as in pg_stat_activity; what names other machines is not.
REVOKE ALL ON rdma.stat_peers, rdma.qps FROM PUBLIC;
REVOKE ALL ON FUNCTION rdma.stat_peers(), rdma.qps() FROM PUBLIC;
GRANT SELECT ON rdma.stat_peers, rdma.qps TO pg_read_all_stats;
GRANT EXECUTE ON FUNCTION rdma.stat_peers(), rdma.qps() TO pg_read_all_stats;
GRANT SELECT ON rdma.stat_engine, rdma.stat_lanes, rdma.stat_flows, rdma.devices TO PUBLIC;

CREATE FUNCTION rdma.set_flow_weight(flow integer, weight integer)
RETURNS boolean
AS 'MODULE_PATHNAME', 'rdma_set_flow_weight' LANGUAGE C VOLATILE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION rdma.set_flow_weight(integer, integer) IS 'another weight, 1 to 100, for a stream that this node is sending; false when there is no such stream';
REVOKE ALL ON FUNCTION rdma.set_flow_weight(integer, integer) FROM PUBLIC;

CREATE FUNCTION rdma.zero_pages(bytes bigint, page_size integer)
RETURNS SETOF bytea
AS 'MODULE_PATHNAME', 'rdma_zero_pages' LANGUAGE C VOLATILE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION rdma.zero_pages(bigint, integer) IS 'pages of zeros, bytes in sum: what rdma.bench reads';

CREATE FUNCTION rdma.bench(server name, bytes bigint, buffer_size integer DEFAULT NULL, buffers integer DEFAULT NULL, copy boolean DEFAULT true,
  OUT throughput_mb_s double precision, OUT consume_mb_s double precision, OUT batches bigint, OUT waits bigint, OUT sender_waits bigint,
  OUT work_requests bigint, OUT merged bigint, OUT chained bigint, OUT credit_stalls bigint, OUT provider text, OUT transport text)
RETURNS record
AS 'MODULE_PATHNAME', 'rdma_bench' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION rdma.bench(name, bigint, integer, integer, boolean) IS 'moves bytes of zeros from a server through both engines: throughput test (buffers are released at once) and, with copy, consume test (they are copied first); buffer_size in kB and buffers are by default the settings rdma_fdw.receive_buffer_size and rdma_fdw.receive_buffers; the counters are of both tests together';
