/*
 * request.c - the checks that requests of other nodes have in common, see request.h.
 */
#include "postgres.h"

#include "access/htup_details.h"

#include "rdma_fdw/compat.h"
#include "tcop/tcopprot.h"
#include "utils/backend_status.h"
#include "utils/memutils.h"
#include "request.h"

void
rf_request_bad(const RfRequestKind *kind, const char *problem)
{
	ereport(ERROR,
			(errcode(ERRCODE_PROTOCOL_VIOLATION),
			 errmsg("invalid request to %s", kind->function), errdetail_internal("%s", problem),
			 errhint("This function is called by rdma_fdw of a %s node, not by users.",
					 kind->caller)));
}

void
rf_request_show(const RfRequestKind *kind, const char *sql)
{
	static char *shown = NULL;
	const char *call = "SELECT ";

	pgstat_report_activity(STATE_RUNNING, sql);

	/*
	 * A log line of an error says the client's statement. Only if that is the call and nothing
	 * else: within a function that catches errors, or before another statement of the same
	 * message, nothing would set it back. The text outlives the statement, since core may log with
	 * it after its memory is gone.
	 */
	if (debug_query_string == NULL || strncmp(debug_query_string, call, strlen(call)) != 0 ||
		strncmp(debug_query_string + strlen(call), kind->function, strlen(kind->function)) != 0 ||
		debug_query_string[strlen(call) + strlen(kind->function)] != '(' ||
		strchr(debug_query_string, ';') != NULL)
		return;
	debug_query_string = NULL;
	if (shown != NULL)
		pfree(shown);
	shown = NULL;
	shown = MemoryContextStrdup(TopMemoryContext, sql);
	debug_query_string = shown;
}

void *
rf_request_read(const RfRequestKind *kind, bytea * bytes, RfStreamColumn **columns, void **trailer)
{
	Size		length = VARSIZE_ANY_EXHDR(bytes);
	char	   *request;
	uint32		version;
	uint32		count;
	Size		known;

	if (length < kind->size)
		rf_request_bad(kind, "It is shorter than its header.");
	request = palloc(length);
	memcpy(request, VARDATA_ANY(bytes), length);
	memcpy(&version, request, sizeof(version));
	if (version != RF_WIRE_VERSION)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the %s node speaks wire version %u, this node %d", kind->caller, version,
						RF_WIRE_VERSION),
				 errhint("Upgrade rdma_fdw on the %s node.",
						 RF_WIRE_BEHIND(version, kind->caller, "data"))));
	memcpy(&count, request + kind->column_count, sizeof(count));
	known = kind->size + count * sizeof(RfStreamColumn);
	if (count > MaxTupleAttributeNumber || (length != known && length != known + kind->trailer))
		rf_request_bad(kind, "Its length does not match its number of columns.");
	*columns = (RfStreamColumn *) (request + kind->size);
	*trailer = length > known ? request + known : NULL;
	for (uint32 i = 0; i < count; i++)
		if (memchr((*columns)[i].type_name, 0, sizeof((*columns)[i].type_name)) == NULL)
			rf_request_bad(kind, "The name of a column's type has no end.");
	return request;
}
