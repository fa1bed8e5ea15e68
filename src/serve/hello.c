/*
 * hello.c - rdma_internal.hello(): a reading node introduces itself over its authenticated session
 * and learns how to reach this node's engine.
 *
 * Does: answer with identity, address, and (when asked) a one-time token for the engines'
 * handshake. Does not: connect anything.
 */
#include "postgres.h"

#include <ctype.h>

#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "rdma_fdw/client.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/guc.h"
#include "rdma_fdw/serve.h"
#include "shmem/layout.h"
#include "shmem/peer_table.h"
#include "utils/guc.h"

PG_FUNCTION_INFO_V1(rdma_hello);

/*
 * rdma_fdw.engine_address: "host", "host:port" or "[IPv6 address]:port". With a port, readers
 * connect to that one, which something (a port mapping of a container, a proxy) leads to the
 * engine's own. A bare IPv6 address has more than one colon and no port. False: it is none of
 * these.
 */
static bool
parse_address(const char *setting, RfHelloReply *reply)
{
	const char *colon = strrchr(setting, ':');
	size_t		length = strlen(setting);

	if (colon != NULL && (strchr(setting, ':') == colon || (colon > setting && colon[-1] == ']')))
	{
		char	   *end;
		unsigned long port = strtoul(colon + 1, &end, 10);

		if (!isdigit((unsigned char) colon[1]) || *end != '\0' || port < 1 || port > 65535)
			return false;
		reply->port = port;
		length = colon - setting;
		if (setting[0] == '[' && length >= 2)
		{
			setting++;
			length -= 2;
		}
		if (length == 0)
			return false;
	}
	if (length >= sizeof(reply->address))
		return false;
	strlcpy(reply->address, setting, length + 1);
	return true;
}

bool
rf_check_engine_address(char **newval, void **extra, GucSource source)
{
	RfHelloReply unused;

	if (parse_address(*newval, &unused))
		return true;
	GUC_check_errdetail(
						"It must be \"host\", \"host:port\" or \"[IPv6 address]:port\", with a "
						"port from 1 to 65535 and at most %d bytes for the host.",
						(int) sizeof(unused.address) - 1);
	return false;
}

/*
 * rdma_internal.hello(bytea): tells a reading node how its engine finds ours, and makes a token for
 * it if it asks for one. ERROR where the request has another length, or no engine runs.
 */
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
				 errmsg("invalid request to rdma_internal.hello"),
				 errdetail("It has %zu bytes instead of %zu.", (size_t) VARSIZE_ANY_EXHDR(bytes),
						   sizeof(request)),
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
	(void) parse_address(rf_engine_address, &reply);

	answer = palloc(VARHDRSZ + sizeof(reply));
	SET_VARSIZE(answer, VARHDRSZ + sizeof(reply));
	memcpy(VARDATA(answer), &reply, sizeof(reply));
	PG_RETURN_BYTEA_P(answer);
}
