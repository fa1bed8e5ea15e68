/*
 * nodes.c
 *		Servers that stand for many nodes, and where the rows of their tables lie, from their
 *		options.
 */
#include "postgres.h"

#include "catalog/pg_foreign_server.h"
#include "commands/defrem.h"
#include "foreign/foreign.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"
#include "utils/varlena.h"

#include "rdma_fdw/exchange.h"
#include "rdma_fdw/group.h"

static const char *
option_value(List *options, const char *name)
{
	ListCell   *lc;

	foreach(lc, options)
	{
		DefElem    *def = lfirst_node(DefElem, lc);

		if (strcmp(def->defname, name) == 0)
			return defGetString(def);
	}
	return NULL;
}

List *
rf_server_list(const char *option, const char *value)
{
	List	   *names;
	ListCell   *lc;

	/* SplitIdentifierString scribbles on its input, and the list points into it */
	if (!SplitIdentifierString(pstrdup(value), ',', &names) || names == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("option \"%s\" must be a list of names of servers", option)));
	if (list_length(names) > RF_GROUP_MAX_MEMBERS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("option \"%s\" names %d servers", option, list_length(names)),
				 errdetail("There can be at most %d.", RF_GROUP_MAX_MEMBERS)));
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
	foreach(lc, rf_server_list(option, value))
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
		if (!OidIsValid(lookup_type_cache(distribution->types[i],
										  TYPECACHE_HASH_EXTENDED_PROC)->hash_extended_proc))
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_FUNCTION),
					 errmsg("rows cannot be distributed by column \"%s\" of foreign table \"%s\"",
							name, get_rel_name(foreigntableid)),
					 errdetail("Type %s has no extended hash function.",
							   format_type_be(distribution->types[i]))));
	}
	return distribution;
}
