/*
 * nodes.c - servers with several nodes, and the placement of their tables' rows, from their
 * options.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "foreign/foreign.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "parser/parser.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/varlena.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/exchange.h"
#include "rdma_fdw/group.h"
#include "rdma_fdw/remote.h"
#include "base/result_row.h"
#include "remote/placement.h"

static const char *
option_value(List *options, const char *name)
{
	DefElem    *def = rf_option_find(options, name);

	return def != NULL ? defGetString(def) : NULL;
}

List *
rf_node_names(const char *option, const char *value)
{
	List	   *names;
	ListCell   *lc;

	/* SplitIdentifierString scribbles on its input, and the list points into it */
	if (!SplitIdentifierString(pstrdup(value), ',', &names) || names == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("option \"%s\" must be a list of names of servers", option)));
	if (list_length(names) > RF_MAX_PEERS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("option \"%s\" names %d servers", option, list_length(names)),
				 errdetail("There can be at most %d.", RF_MAX_PEERS)));
	foreach(lc, names)
	{
		for (int i = 0; i < foreach_current_index(lc); i++)
		{
			if (strcmp(list_nth(names, i), lfirst(lc)) == 0)
				ereport(ERROR,
						(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						 errmsg("option \"%s\" names server \"%s\" twice", option,
								(char *) lfirst(lc))));
		}
	}
	return names;
}

static const char *
quoted_list(char *const *names, int count)
{
	StringInfoData buf;

	initStringInfo(&buf);
	for (int i = 0; i < count; i++)
		appendStringInfo(&buf, "%s%s", i > 0 ? ", " : "", quote_identifier(names[i]));
	return buf.data;
}

static bool
is_among(const char *name, List *names)
{
	ListCell   *lc;

	foreach(lc, names)
	{
		if (strcmp(lfirst(lc), name) == 0)
			return true;
	}
	return false;
}

/*
 * The names in option "nodes", in the order of the nodes' recorded numbers. The option must name
 * the same servers; its order has no meaning.
 */
static List *
by_number(ForeignServer *server, List *names)
{
	RfPlacementRecord *record = rf_placement_find(server->servername);
	List	   *result = NIL;
	bool		same;

	if (record == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("nodes of server \"%s\" are not on record",
						server->servername),
				 errdetail("It was created or renamed where event triggers did not run."),
				 errhint("If option \"nodes\" names them in the order in which their rows were "
						 "distributed, "
						 "let its owner run: SELECT rdma.record_nodes(%s)",
						 quote_literal_cstr(server->servername))));
	same = list_length(names) == record->node_count;
	for (int i = 0; i < record->node_count && same; i++)
	{
		same = is_among(record->nodes[i], names);
		result = lappend(result, record->nodes[i]);
	}
	if (!same)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("option \"nodes\" of server \"%s\" does not name the nodes that its rows "
						"lie on",
						server->servername),
				 errdetail("They are %s.",
						   quoted_list(record->nodes, record->node_count)),
				 errhint("Set the option to these names, in any order, with ALTER SERVER.")));
	return result;
}

RfBuckets *
rf_server_buckets(ForeignServer *server)
{
	const char *value = option_value(server->options, "nodes");
	RfBuckets  *buckets;
	RfPlacementRecord *record;

	if (value == NULL)
		return NULL;
	(void) by_number(server, rf_node_names("nodes", value));
	record = rf_placement_find(server->servername);
	buckets = palloc(sizeof(RfBuckets));
	buckets->count = record->bucket_count;
	buckets->places = record->buckets;
	return buckets;
}

/* One of the nodes that a server's option names, or is to name. */
static ForeignServer *
named_server(ForeignServer *server, const char *option, const char *name)
{
	ForeignServer *node = GetForeignServerByName(name, true);

	if (node == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("server \"%s\" does not exist", name),
				 errdetail("Option \"%s\" of server \"%s\" names it.", option, server->servername),
				 errhint("Create it, or take it out of the option with ALTER SERVER.")));
	if (node->fdwid != server->fdwid)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("server \"%s\" belongs to another foreign-data wrapper than server \"%s\"",
						name, server->servername),
				 errdetail("Option \"%s\" names it.", option)));
	if (option_value(node->options, "nodes") != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("server \"%s\" stands for many nodes itself", name),
				 errdetail("Option \"%s\" of server \"%s\" names it.", option,
						   server->servername)));
	/* as for a table on that server: the owner of the server with nodes needs the right */
	if (rf_server_aclcheck(node->serverid, server->owner, ACL_USAGE) != ACLCHECK_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for foreign server %s", name),
				 errdetail("Option \"%s\" of server \"%s\" names it, whose owner has no right to "
						   "use it.",
						   option, server->servername),
				 errhint("GRANT USAGE ON FOREIGN SERVER %s to that owner.",
						 quote_identifier(name))));
	return node;
}

UserMapping *
rf_node_mapping(ForeignServer *server, const char *node)
{
	return rf_user_mapping(GetUserId(), named_server(server, "nodes", node)->serverid);
}

static List *
named_servers(ForeignServer *server, const char *option, List *names)
{
	List	   *servers = NIL;
	ListCell   *lc;

	foreach(lc, names)
		servers = lappend_oid(servers, named_server(server, option, lfirst(lc))->serverid);
	return servers;
}

List *
rf_server_nodes(ForeignServer *server)
{
	const char *value = option_value(server->options, "nodes");

	return value == NULL ?
		NIL :
		named_servers(server, "nodes", by_number(server, rf_node_names("nodes", value)));
}

static int
place_of_server(List *oids, Oid wanted)
{
	ListCell   *lc;

	foreach(lc, oids)
	{
		if (lfirst_oid(lc) == wanted)
			return foreach_current_index(lc);
	}
	return -1;
}

List *
rf_server_compute_nodes(ForeignServer *server)
{
	const char *value = option_value(server->options, "compute_nodes");

	return value == NULL ?
		NIL :
		named_servers(server, "compute_nodes", rf_node_names("compute_nodes", value));
}

/* Adds to an error which buckets the node has, if its server is a node of the other one. */
static void
describe_loss(ErrorData *error, Oid node, ForeignServer *server)
{
	const char *name = GetForeignServer(node)->servername;
	int			number = place_of_server(rf_server_nodes(server), node);
	RfBuckets  *buckets;
	int			held = 0;
	bool		answered = error->detail != NULL && strstr(error->detail, "FATAL:") != NULL;
	char	   *detail;

	/* a statement over partitions of several servers has one of them for all */
	if (number < 0)
		return;
	buckets = rf_server_buckets(server);
	for (int i = 0; i < buckets->count; i++)
		held += buckets->places[i] == number;
	detail = psprintf("Server \"%s\" is node %d of server \"%s\": "
					  "it has %d of the %d buckets of distributed tables.",
					  name, number, server->servername, held, buckets->count);
	error->detail = error->detail != NULL ? psprintf("%s\n%s", error->detail, detail) : detail;
	if (answered)
		return;					/* it is there, and says why it takes no session */
	error->hint = psprintf("Rows of other nodes can be used by their keys, and replicated tables "
						   "can be read. Start that server, or let its standby take its place: "
						   "the option host can name both. For another database with all of its "
						   "rows: SELECT rdma.replace_node(%s, %s)",
						   quote_literal_cstr(server->servername), quote_literal_cstr(name));
}

RfSession *
rf_node_session(uint64 statement, UserMapping *user, Oid serverid)
{
	MemoryContext context = CurrentMemoryContext;
	RfSession  *volatile session = NULL;

	if (user->serverid == serverid)
		return rf_statement_session(statement, user);
	PG_TRY();
	{
		session = rf_statement_session(statement, user);
	}
	PG_CATCH();
	{
		ErrorData  *error;

		if (ERRCODE_TO_CATEGORY(geterrcode()) != ERRCODE_CONNECTION_EXCEPTION)
			PG_RE_THROW();
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		describe_loss(error, user->serverid, GetForeignServer(serverid));
		ReThrowError(error);
	}
	PG_END_TRY();
	return session;
}

RfDistribution *
rf_table_distribution(Oid foreigntableid)
{
	ForeignTable *table = GetForeignTable(foreigntableid);
	const char *replicated = option_value(table->options, "replicated");
	const char *distributed_by = option_value(table->options, "distributed_by");
	RfDistribution *distribution = palloc0(sizeof(RfDistribution));
	List	   *names;
	bool		everywhere = false;

	if (replicated != NULL)
		(void) parse_bool(replicated, &everywhere);
	if (everywhere)
	{
		distribution->placement = RF_PLACED_EVERYWHERE;
		return distribution;
	}
	if (distributed_by == NULL)
	{
		distribution->placement = RF_PLACED_ANYWHERE;
		return distribution;
	}

	if (!SplitIdentifierString(pstrdup(distributed_by), ',', &names))
		names = NIL;			/* the validator saw it */
	distribution->placement = RF_PLACED_BY_HASH;
	distribution->key_count = list_length(names);
	distribution->keys = palloc_array(AttrNumber, list_length(names));
	distribution->types = palloc_array(Oid, list_length(names));
	distribution->collations = palloc_array(Oid, list_length(names));
	for (int i = 0; i < list_length(names); i++)
	{
		const char *name = list_nth(names, i);
		AttrNumber	attnum = get_attnum(foreigntableid, name);
		int32		typmod;

		if (attnum <= 0)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_COLUMN),
					 errmsg("column \"%s\" of foreign table \"%s\" does not exist",
							name, get_rel_name(foreigntableid)),
					 errdetail("Option \"distributed_by\" names it.")));
		distribution->keys[i] = attnum;
		get_atttypetypmodcoll(foreigntableid, attnum, &distribution->types[i], &typmod,
							  &distribution->collations[i]);
		if (!rf_route_type(distribution->types[i]))
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_FUNCTION),
					 errmsg("rows cannot be distributed by column \"%s\" of foreign table \"%s\"",
							name, get_rel_name(foreigntableid)),
					 errdetail("Values of type %s do not hash to the same on every node.",
							   format_type_be(distribution->types[i]))));
	}
	return distribution;
}

/* ---------- for users ---------- */

PG_FUNCTION_INFO_V1(rdma_nodes);
PG_FUNCTION_INFO_V1(rdma_named_nodes);
PG_FUNCTION_INFO_V1(rdma_buckets);
PG_FUNCTION_INFO_V1(rdma_run_on);
PG_FUNCTION_INFO_V1(rdma_distribution_key);

/* rdma.distribution_key(tab): names of the columns, NULL without any */
Datum
rdma_distribution_key(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	RfDistribution *distribution;
	Datum	   *names;

	if (get_rel_relkind(relid) != RELKIND_FOREIGN_TABLE)
		PG_RETURN_NULL();
	distribution = rf_table_distribution(relid);
	if (distribution->placement != RF_PLACED_BY_HASH)
		PG_RETURN_NULL();
	names = palloc_array(Datum, distribution->key_count);
	for (int i = 0; i < distribution->key_count; i++)
		names[i] = CStringGetTextDatum(get_attname(relid, distribution->keys[i], false));
	PG_RETURN_ARRAYTYPE_P(construct_array(names, distribution->key_count, TEXTOID, -1,
										  false, TYPALIGN_INT));
}

/* rdma.nodes(server): the servers it stands for, itself if it is an ordinary one */
Datum
rdma_nodes(PG_FUNCTION_ARGS)
{
	ForeignServer *server = GetForeignServerByName(NameStr(*PG_GETARG_NAME(0)), false);
	List	   *nodes = rf_server_nodes(server);
	RfRow		row = RF_ROW(fcinfo);
	ListCell   *lc;

	InitMaterializedSRF(fcinfo, 0);
	if (nodes == NIL)
		nodes = list_make1_oid(server->serverid);
	foreach(lc, nodes)
	{
		char	   *name = GetForeignServer(lfirst_oid(lc))->servername;

		rf_put_int(&row, foreach_current_index(lc));
		rf_put(&row, DirectFunctionCall1(namein, CStringGetDatum(name)));
		rf_end_row(&row);
	}
	return (Datum) 0;
}

/*
 * rdma_internal.named_nodes(server): the names in option "nodes", as they stand there; NULL without
 * it
 */
Datum
rdma_named_nodes(PG_FUNCTION_ARGS)
{
	ForeignServer *server = GetForeignServerByName(NameStr(*PG_GETARG_NAME(0)), false);
	const char *value = option_value(server->options, "nodes");
	List	   *names;
	Datum	   *values;
	ListCell   *lc;

	if (value == NULL)
		PG_RETURN_NULL();
	names = rf_node_names("nodes", value);
	values = palloc_array(Datum, list_length(names));
	foreach(lc, names)
		values[foreach_current_index(lc)] = DirectFunctionCall1(namein,
																CStringGetDatum(lfirst(lc)));
	PG_RETURN_ARRAYTYPE_P(construct_array(values, list_length(names), NAMEOID, NAMEDATALEN,
										  false, TYPALIGN_CHAR));
}

/* rdma.buckets(server): the number of each bucket's node; NULL of an ordinary server */
Datum
rdma_buckets(PG_FUNCTION_ARGS)
{
	ForeignServer *server = GetForeignServerByName(NameStr(*PG_GETARG_NAME(0)), false);
	RfBuckets  *buckets = rf_server_buckets(server);
	Datum	   *values;

	if (buckets == NULL)
		PG_RETURN_NULL();
	values = palloc_array(Datum, buckets->count);
	for (int i = 0; i < buckets->count; i++)
		values[i] = Int16GetDatum(buckets->places[i]);
	PG_RETURN_ARRAYTYPE_P(construct_array(values, buckets->count, INT2OID, sizeof(int16),
										  true, TYPALIGN_SHORT));
}

/* The only value of a query's only row, or the command's tag. */
static Datum
single_answer(PGresult *result, ForeignServer *node, bool *isnull)
{
	*isnull = false;
	if (PQntuples(result) > 1 || PQnfields(result) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_CARDINALITY_VIOLATION),
				 errmsg("the command returned more than one value"),
				 errdetail("Server \"%s\" returned %d rows of %d columns.",
						   node->servername, PQntuples(result), PQnfields(result))));
	if (PQnfields(result) == 0)
		return CStringGetTextDatum(PQcmdStatus(result));
	*isnull = PQntuples(result) == 0 || PQgetisnull(result, 0, 0);
	return *isnull ? (Datum) 0 : CStringGetTextDatum(PQgetvalue(result, 0, 0));
}

/* Returns true if the options of a command have CONCURRENTLY. */
static bool
is_concurrent(List *options)
{
	ListCell   *lc;

	foreach(lc, options)
	{
		DefElem    *option = lfirst_node(DefElem, lc);

		if (strcmp(option->defname, "concurrently") == 0)
			return defGetBoolean(option);
	}
	return false;
}

/*
 * Returns true if PostgreSQL runs the command outside of transaction blocks only. A command that
 * this server's parser does not know counts as an ordinary one; the node may be of a later version.
 */
static bool
runs_alone(const char *command)
{
	MemoryContext context = CurrentMemoryContext;
	List	   *volatile parsed = NIL;
	Node	   *statement;

	PG_TRY();
	{
		parsed = raw_parser(command, RAW_PARSE_DEFAULT);
	}
	PG_CATCH();
	{
		if (geterrcode() != ERRCODE_SYNTAX_ERROR)
			PG_RE_THROW();
		MemoryContextSwitchTo(context);
		FlushErrorState();
	}
	PG_END_TRY();
	if (list_length(parsed) != 1)
		return false;

	statement = linitial_node(RawStmt, parsed)->stmt;
	switch (nodeTag(statement))
	{
		case T_VacuumStmt:
			return ((VacuumStmt *) statement)->is_vacuumcmd;
		case T_IndexStmt:
			return ((IndexStmt *) statement)->concurrent;
		case T_DropStmt:
			return ((DropStmt *) statement)->concurrent;
#if PG_VERSION_NUM >= 190000	/* REPACK, of which CLUSTER is now a form */
		case T_RepackStmt:
			return ((RepackStmt *) statement)->relation == NULL ||
				is_concurrent(((RepackStmt *) statement)->params);
#else
		case T_ClusterStmt:
			return ((ClusterStmt *) statement)->relation == NULL;
#endif
		case T_ReindexStmt:
			return is_concurrent(((ReindexStmt *) statement)->params) ||
				(((ReindexStmt *) statement)->kind != REINDEX_OBJECT_INDEX &&
				 ((ReindexStmt *) statement)->kind != REINDEX_OBJECT_TABLE);
		case T_CreatedbStmt:
		case T_DropdbStmt:
		case T_AlterSystemStmt:
		case T_CreateTableSpaceStmt:
		case T_DropTableSpaceStmt:
			return true;
		default:
			return false;
	}
}

static void
put_answers(List *nodes, PGresult **results, ReturnSetInfo *set)
{
	RfRow		row = {set};
	ListCell   *lc;

	foreach(lc, nodes)
	{
		ForeignServer *node = GetForeignServer(lfirst_oid(lc));
		bool		isnull = false;
		Datum		answer = single_answer(results[foreach_current_index(lc)], node, &isnull);

		rf_put(&row, DirectFunctionCall1(namein, CStringGetDatum(node->servername)));
		rf_put_if(&row, !isnull, answer);
		rf_end_row(&row);
	}
}

/*
 * The command was written for the caller's search_path, and the sessions' own statements for a
 * different one, which is set again afterwards. After an error the rollback on the nodes does that.
 */
static void
run_on_nodes(List *nodes, const char *command, bool alone, ReturnSetInfo *set)
{
	int			count = list_length(nodes);
	RfSession **sessions = palloc_array(RfSession *, count);
	PGresult  **results = palloc_array(PGresult *, count);
	ListCell   *lc;

	foreach(lc, nodes)
	{
		UserMapping *user = rf_user_mapping(GetUserId(), lfirst_oid(lc));

		sessions[foreach_current_index(lc)] = rf_session_get(user, !alone);
	}
	for (int i = 0; i < count && !alone; i++)
		rf_session_set_search_path(sessions[i], namespace_search_path);
	if (alone)
		rf_sessions_execute_bare(sessions, count, namespace_search_path, command, results);
	else
		rf_sessions_execute(sessions, count, command, true, results);
	PG_TRY();
	{
		for (int i = 0; i < list_length(nodes) && !alone; i++)
			rf_session_set_search_path(sessions[i], NULL);
		put_answers(nodes, results, set);
	}
	PG_FINALLY();
	{
		for (int i = 0; i < list_length(nodes); i++)
			PQclear(results[i]);
	}
	PG_END_TRY();
}

/*
 * rdma.run_on(server, command): runs it on all nodes at the same time, with the caller's user
 * mapping. It runs in the remote transaction, unless PostgreSQL refuses it there.
 */
Datum
rdma_run_on(PG_FUNCTION_ARGS)
{
	ForeignServer *server = GetForeignServerByName(NameStr(*PG_GETARG_NAME(0)), false);
	char	   *command = text_to_cstring(PG_GETARG_TEXT_PP(1));
	bool		alone = runs_alone(command);
	List	   *nodes = rf_server_nodes(server);
	AclResult	aclresult = rf_server_aclcheck(server->serverid, GetUserId(), ACL_USAGE);

	if (aclresult != ACLCHECK_OK)
		aclcheck_error(aclresult, OBJECT_FOREIGN_SERVER, server->servername);
	InitMaterializedSRF(fcinfo, 0);
	if (nodes == NIL)
		nodes = list_make1_oid(server->serverid);
	rf_placement_use(server->serverid);
	run_on_nodes(nodes, command, alone, (ReturnSetInfo *) fcinfo->resultinfo);
	return (Datum) 0;
}
