/*
 * nodes.c
 *		Servers with several nodes, and the placement of their tables' rows, from their options.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "foreign/foreign.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/varlena.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/exchange.h"
#include "rdma_fdw/group.h"
#include "rdma_fdw/remote.h"

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
						 errmsg("option \"%s\" names server \"%s\" twice", option, (char *) lfirst(lc))));
		}
	}
	return names;
}

static List *
named_servers(ForeignServer *server, const char *option)
{
	const char *value = option_value(server->options, option);
	List	   *servers = NIL;
	ListCell   *lc;

	if (value == NULL)
		return NIL;
	foreach(lc, rf_node_names(option, value))
	{
		const char *name = lfirst(lc);
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
					 errdetail("Option \"%s\" of server \"%s\" names it.", option, server->servername)));
		/* as for a table on that server: the owner of the server with nodes needs the right */
		if (rf_server_aclcheck(node->serverid, server->owner, ACL_USAGE) != ACLCHECK_OK)
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					 errmsg("permission denied for foreign server %s", name),
					 errdetail("Option \"%s\" of server \"%s\" names it, whose owner has no right to use it.",
							   option, server->servername),
					 errhint("GRANT USAGE ON FOREIGN SERVER %s to that owner.", quote_identifier(name))));
		servers = lappend_oid(servers, node->serverid);
	}
	return servers;
}

List *
rf_server_nodes(ForeignServer *server)
{
	return named_servers(server, "nodes");
}

List *
rf_server_compute_nodes(ForeignServer *server)
{
	return named_servers(server, "compute_nodes");
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
					 errdetail("Option \"distributed_by\" names it."),
					 errhint("Set the option to columns of the table with ALTER FOREIGN TABLE.")));
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
	PG_RETURN_ARRAYTYPE_P(construct_array(names, distribution->key_count, TEXTOID, -1, false, TYPALIGN_INT));
}

/* rdma.nodes(server): the servers it stands for, itself if it is an ordinary one */
Datum
rdma_nodes(PG_FUNCTION_ARGS)
{
	ForeignServer *server = GetForeignServerByName(NameStr(*PG_GETARG_NAME(0)), false);
	List	   *nodes = rf_server_nodes(server);
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	ListCell   *lc;

	InitMaterializedSRF(fcinfo, 0);
	if (nodes == NIL)
		nodes = list_make1_oid(server->serverid);
	foreach(lc, nodes)
	{
		Datum		values[2];
		bool		nulls[2] = {false, false};

		values[0] = Int32GetDatum(foreach_current_index(lc));
		values[1] = DirectFunctionCall1(namein, CStringGetDatum(GetForeignServer(lfirst_oid(lc))->servername));
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
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

/*
 * The command was written for the caller's search_path. The session's own statements are written
 * for another one, which it has again afterwards; an error takes the change back on the node.
 */
static void
run_on_node(ForeignServer *node, const char *command, ReturnSetInfo *set)
{
	RfSession  *session = rf_session_get(GetUserMapping(GetUserId(), node->serverid), true);
	PGresult   *result;
	Datum		values[2];
	bool		nulls[2] = {false, false};

	rf_session_set_search_path(session, namespace_search_path);
	result = rf_session_execute(session, command);
	PG_TRY();
	{
		rf_session_set_search_path(session, NULL);
		values[0] = DirectFunctionCall1(namein, CStringGetDatum(node->servername));
		values[1] = single_answer(result, node, &nulls[1]);
		tuplestore_putvalues(set->setResult, set->setDesc, values, nulls);
	}
	PG_FINALLY();
	{
		PQclear(result);
	}
	PG_END_TRY();
}

/* rdma.run_on(server, command): on each node, with the caller's user mapping, in the remote transaction */
Datum
rdma_run_on(PG_FUNCTION_ARGS)
{
	ForeignServer *server = GetForeignServerByName(NameStr(*PG_GETARG_NAME(0)), false);
	char	   *command = text_to_cstring(PG_GETARG_TEXT_PP(1));
	List	   *nodes = rf_server_nodes(server);
	AclResult	aclresult = rf_server_aclcheck(server->serverid, GetUserId(), ACL_USAGE);
	ListCell   *lc;

	if (aclresult != ACLCHECK_OK)
		aclcheck_error(aclresult, OBJECT_FOREIGN_SERVER, server->servername);
	InitMaterializedSRF(fcinfo, 0);
	if (nodes == NIL)
		nodes = list_make1_oid(server->serverid);
	foreach(lc, nodes)
		run_on_node(GetForeignServer(lfirst_oid(lc)), command, (ReturnSetInfo *) fcinfo->resultinfo);
	return (Datum) 0;
}
