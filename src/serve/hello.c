/*
 * hello.c - rdma.hello(): a reading node introduces itself over its authenticated session and
 * learns how to reach this node's engine.
 *
 * Does: answer with identity, address, and (when asked) a one-time token for the engines'
 * handshake. Does not: connect anything.
 */
#include "postgres.h"

#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "rdma_fdw/client.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/guc.h"
#include "rdma_fdw/serve.h"
#include "shmem/layout.h"
#include "shmem/peer_table.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(rdma_hello);

/*
 * rdma_fdw.engine_address: "host", "host:port" or "[IPv6 address]:port". With a port, readers
 * connect to that one, which something (a port mapping of a container, a proxy) leads to the
 * engine's own. A bare IPv6 address has more than one colon and no port.
 */
static void
set_address(RfHelloReply *reply)
{
	const char *setting = rf_engine_address != NULL ? rf_engine_address : "";
	const char *colon = strrchr(setting, ':');
	size_t		length = strlen(setting);

	if (colon != NULL && (strchr(setting, ':') == colon || (colon > setting && colon[-1] == ']')))
	{
		reply->port = pg_strtoint32(colon + 1);
		length = colon - setting;
		if (setting[0] == '[' && length >= 2)
		{
			setting++;
			length -= 2;
		}
	}
	strlcpy(reply->address, setting, Min(length + 1, sizeof(reply->address)));
}

Datum
rdma_hello(PG_FUNCTION_ARGS)
{
	bytea	   *bytes = PG_GETARG_BYTEA_PP(0);
	RfHelloRequest request;
	RfHelloReply reply = {0};
	bytea	   *answer;

	if (VARSIZE_ANY_EXHDR(bytes) != sizeof(request))
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("invalid request to rdma.hello"),
				 errdetail("It has %zu bytes instead of %zu.", (size_t) VARSIZE_ANY_EXHDR(bytes), sizeof(request)),
				 errhint("This function is called by rdma_fdw of a reading node, not by users.")));
	memcpy(&request, VARDATA_ANY(bytes), sizeof(request));
	rf_engine_require();

	/* A reader of another wire version is told ours, and says so to its user: it gets no token. */
	reply.wire_version = RF_WIRE_VERSION;
	reply.server_version_num = PG_VERSION_NUM;
	reply.encoding = GetDatabaseEncoding();
	reply.port = atomic_load(&rf_shared->engine_port);
	rf_node_self(&reply.node, &reply.image);
	if (request.need_token != 0 && request.wire_version == RF_WIRE_VERSION)
		rf_token_issue(&request, reply.token_id);
	memcpy(reply.key, rf_shared->public_key, sizeof(reply.key));
	strlcpy(reply.extension_version, RF_EXTENSION_VERSION, sizeof(reply.extension_version));
	set_address(&reply);

	answer = palloc(VARHDRSZ + sizeof(reply));
	SET_VARSIZE(answer, VARHDRSZ + sizeof(reply));
	memcpy(VARDATA(answer), &reply, sizeof(reply));
	PG_RETURN_BYTEA_P(answer);
}
