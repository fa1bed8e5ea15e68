/*
 * conninfo.c - selects libpq's options from the options of a server and a user mapping.
 *
 * Does: list them, and find one among them. Does not: check values, which libpq does when it
 * connects.
 */
#include "postgres.h"

#include "commands/defrem.h"
#include "libpq-fe.h"
#include "nodes/parsenodes.h"
#include "utils/memutils.h"

#include "rdma_fdw/remote.h"

/* Built once per backend, in TopMemoryContext. */
static RfConnectionOption *connection_options = NULL;
static int	connection_option_count = 0;

/*
 * The list comes from libpq itself, so it fits the libpq that is loaded. It leaves out debug
 * options, options that we set on every connection, and OAuth's options, which would wait for a
 * person at the server's console.
 */
static bool
is_hidden(const PQconninfoOption *lopt)
{
	return strchr(lopt->dispchar, 'D') != NULL ||
		strncmp(lopt->keyword, "oauth_", 6) == 0 ||
		strcmp(lopt->keyword, "fallback_application_name") == 0 ||
		strcmp(lopt->keyword, "client_encoding") == 0;
}

/*
 * The options of the loaded libpq that servers and user mappings may have; asked once per process.
 */
const RfConnectionOption *
rf_connection_options(int *count)
{
	if (connection_options == NULL)
	{
		PQconninfoOption *all = PQconndefaults();
		RfConnectionOption *options;
		int			n = 0;

		if (all == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_FDW_OUT_OF_MEMORY),
					 errmsg("out of memory"),
					 errdetail("Could not get libpq's default connection options.")));
		for (PQconninfoOption *lopt = all; lopt->keyword; lopt++)
			n++;

		options = MemoryContextAllocZero(TopMemoryContext, sizeof(RfConnectionOption) * n);
		n = 0;
		for (PQconninfoOption *lopt = all; lopt->keyword; lopt++)
		{
			if (is_hidden(lopt))
				continue;
			options[n].name = MemoryContextStrdup(TopMemoryContext, lopt->keyword);
			options[n].in_user_mapping = strchr(lopt->dispchar, '*') != NULL ||
				strcmp(lopt->keyword, "user") == 0;
			n++;
		}
		PQconninfoFree(all);

		connection_option_count = n;
		connection_options = options;
	}

	*count = connection_option_count;
	return connection_options;
}

int
rf_extract_connection_options(List *options, const char **keywords, const char **values)
{
	ListCell   *lc;
	int			count;
	int			n = 0;
	const RfConnectionOption *known = rf_connection_options(&count);

	foreach(lc, options)
	{
		DefElem    *def = lfirst_node(DefElem, lc);

		for (int i = 0; i < count; i++)
		{
			if (strcmp(known[i].name, def->defname) == 0)
			{
				keywords[n] = def->defname;
				values[n++] = defGetString(def);
				break;
			}
		}
	}
	return n;
}

DefElem *
rf_option_find(List *options, const char *name)
{
	ListCell   *lc;

	foreach(lc, options)
	{
		if (strcmp(lfirst_node(DefElem, lc)->defname, name) == 0)
			return lfirst_node(DefElem, lc);
	}
	return NULL;
}
