/*
 * check.c - the steps of rdma.check(server) (check_run.c): the possible problems between this node
 * and a server, one row each, with the remedy.
 *
 * They go from near to far: library, engine, device, database connection, the other node's
 * extension and engine, the connection between the engines, and a short stream. They run with the
 * caller's rights and user mapping.
 */
#include "postgres.h"

#include <sys/resource.h>

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "rdma_fdw/batch.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/exchange.h"
#include "rdma_fdw/guc.h"
#include "remote/placement.h"
#include "shmem/arena.h"
#include "shmem/layout.h"
#include "shmem/peer_table.h"
#include "check.h"
#include "monitor.h"

#define ROUND_TRIPS			7
#define STREAM_ROWS			1024
#define STREAM_ROW_BYTES	65000
#define TABLES_NAMED		10

static const char *
kept(Check *check, const char *text)
{
	return text && text[0] ? MemoryContextStrdup(check->context, text) : NULL;
}

void
rf_check_add(Check *check, const char *item, const char *status, const char *value, const char *fix)
{
	MemoryContext old = MemoryContextSwitchTo(check->context);
	CheckRow   *row = palloc(sizeof(CheckRow));

	row->item = check->node ? psprintf("%s: %s", check->node, item) : item;
	row->status = status;
	row->value = kept(check, value);
	row->fix = kept(check, fix);
	check->rows = lappend(check->rows, row);
	MemoryContextSwitchTo(old);
}

/* ---------- this node ---------- */

static void
check_preload(Check *check)
{
	const char *others;

	if (rf_shared != NULL)
	{
		ok(check, "preload", "rdma_fdw is loaded by shared_preload_libraries");
		return;
	}
	others = GetConfigOption("shared_preload_libraries", true, false);
	problem(
			check, "preload", "rdma_fdw is not in shared_preload_libraries",
			psprintf("Set shared_preload_libraries = '%s%srdma_fdw' in postgresql.conf and "
					 "restart the server.",
					 others != NULL ? others : "",
					 others != NULL && others[0] != '\0' ? ", " : ""));
	check->stop = true;
}

/* Reports whether this node's engine runs, and why it does not. */
static void
check_engine(Check *check)
{
	int32		pid = atomic_load(&rf_shared->engine_pid);

	if (pid == 0)
	{
		const RfError *error = &rf_shared->start_error;

		if (error->kind != RF_ERROR_NONE)
			problem(check, "engine", psprintf("not running: %s", error->message),
					error->hint[0] ? error->hint : "It tries again by itself.");
		else
			problem(check, "engine", "not running",
					"The server log says why; it tries again by itself.");
		check->stop = true;
		return;
	}
	ok(check, "engine", psprintf("process %d, port %u", pid, atomic_load(&rf_shared->engine_port)));
}

/*
 * An RDMA device's port: what commonly is wrong with it, how many nodes there is room for, and what
 * the device told last.
 */
static void
check_port(Check *check, const RfDeviceCaps *caps)
{
	if (pg_strcasecmp(caps->port_state, "active") == 0)
		ok(check, "link", caps->port_state);
	else
		problem(check, "link", caps->port_state, "Bring the port up: see rdma link and ip link.");
	if (strcmp(caps->gid_type, "RoCEv1") == 0)
		info(check, "GID",
			 psprintf("index %d, %s, %s", caps->gid_index, caps->gid, caps->gid_type),
			 "RoCEv1 is not routed. Give the network device an IPv4 address, or set "
			 "rdma_fdw.gid_index.");
	else
		ok(check, "GID", psprintf("index %d, %s, %s", caps->gid_index, caps->gid, caps->gid_type));
	if (caps->limited_member)
		info(check, "partitions", caps->partitions,
			 "The port is a limited member of all of them, so it reaches full members only: let "
			 "the subnet manager make the other nodes' ports full members.");
	else if (strcmp(caps->gid_type, "IB") == 0)
		ok(check, "partitions", caps->partitions);
	if (caps->mtu >= 2048)
		ok(check, "MTU", psprintf("%d bytes", caps->mtu));
	else
		info(check, "MTU", psprintf("%d bytes", caps->mtu),
			 "Larger packets are faster: raise the network device's MTU (4200 carries 4096) "
			 "here and there.");
	if (caps->max_peers >= RF_MAX_PEERS)
		ok(check, "device's room", psprintf("for %d nodes", RF_MAX_PEERS));
	else
		info(check, "device's room", psprintf("for %d nodes", caps->max_peers),
			 "Connections to more nodes than that fail; each has a queue pair in each lane "
			 "(rdma_fdw.engine_lanes).");
	if (rf_shared->device_event.time == 0)
		ok(check, "device events", "none since the server started");
	else
		info(check, "device events",
			 psprintf("at %s: %s",
					  timestamptz_to_str(time_t_to_timestamptz((pg_time_t)
															   rf_shared->device_event.time)),
					  rf_shared->device_event.text),
			 "This is the last one. The server's log has all of them.");
}

/*
 * Reports the device that the engine has opened, with its port, partitions, room and last event, or
 * why the engine has opened no device; and the limit of locked memory.
 */
static void
check_device(Check *check)
{
	RfDeviceCaps caps = rf_shared->device;
	const RfError *error = &rf_shared->device_error;
	struct rlimit limit;
	uint64		arena = rf_engine_lockable();

	if (caps.provider[0] == '\0')
	{
		problem(
				check, "device",
				error->detail[0] ? psprintf("%s (%s)", error->message, error->detail) :
				error->message,
				error->hint[0] ?
				error->hint :
				"Set rdma_fdw.provider = soft, or make the device work, and restart the server.");
		check->stop = true;
	}
	else if (strcmp(caps.provider, "verbs") != 0)
	{
		if (rf_provider == RF_PROVIDER_SOFT || rf_provider == RF_PROVIDER_TCP)
			ok(check, "device", "software transport, as rdma_fdw.provider says");
		else
			info(check, "device", psprintf("software transport: %s", error->message),
				 error->hint[0] ? error->hint : "Nothing, if this machine has no RDMA device.");
	}
	else
	{
		ok(check, "device", psprintf("%s, port %d", caps.device, caps.port));
		check_port(check, &caps);
	}

	if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 &&
		(caps.provider[0] == '\0' || strcmp(caps.provider, "verbs") == 0))
	{
		if (limit.rlim_cur == RLIM_INFINITY)
			ok(check, "memlock", "unlimited");
		else if (limit.rlim_cur >= arena)
			ok(check, "memlock", psprintf("%llu MB", (unsigned long long) limit.rlim_cur >> 20));
		else
			info(check, "memlock",
				 psprintf("%llu MB, the engine registers up to %llu MB",
						  (unsigned long long) limit.rlim_cur >> 20,
						  (unsigned long long) arena >> 20),
				 "Start the server with LimitMEMLOCK=infinity, or lower rdma_fdw.buffer_memory.");
	}
}

/* How many rows statistics here say that the table has; not more than 0: it is not known. */
static float4
known_rows(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	float4		rows = 1;

	if (HeapTupleIsValid(tuple))
	{
		rows = ((Form_pg_class) GETSTRUCT(tuple))->reltuples;
		ReleaseSysCache(tuple);
	}
	return rows;
}

/*
 * Plans of tables without statistics are guesses. A table that was empty when it was analyzed
 * counts as one of them (rdmaGetForeignRelSize). It may be empty still, so that is no problem for
 * sure.
 */
static void
check_statistics(Check *check)
{
	StringInfoData names;
	int			tables = 0;
	int			unknown = 0;
	ListCell   *lc;

	initStringInfo(&names);
	foreach(lc, rf_foreign_tables(check->serverid))
	{
		char	   *name = get_rel_name(lfirst_oid(lc));

		if (name == NULL)
			continue;
		tables++;
		if (known_rows(lfirst_oid(lc)) > 0)
			continue;
		if (unknown++ < TABLES_NAMED)
		{
			const char *schema = get_namespace_name(get_rel_namespace(lfirst_oid(lc)));

			appendStringInfo(&names, "%s%s", names.len == 0 ? "" : ", ",
							 quote_qualified_identifier(schema, name));
		}
	}
	if (unknown == 0)
		ok(check, "statistics", psprintf("of all foreign tables (%d)", tables));
	else
		info(
			 check, "statistics",
			 psprintf("missing, or of no rows, for %d of %d foreign tables",
					  unknown, tables),
			 psprintf("Run ANALYZE %s%s, or CALL rdma.analyze_tables(%s) for all. Without "
					  "statistics plans are guesses.",
					  names.data,
					  unknown > TABLES_NAMED ? ", and of further tables" : "",
					  quote_literal_cstr(
										 GetForeignServer(check->serverid)->servername)));
}

/* Transactions that wait for any node, possibly for this one. */
static void
check_transactions(Check *check)
{
	int			count = rf_commit_in_doubt();

	if (!rf_resolve)
		info(check, "transactions",
			 "parts that they leave prepared on nodes are not finished in the background",
			 "Nothing, in a copy of a coordinator. Otherwise set rdma_fdw.resolve = on.");
	else if (count > 0)
		problem(check, "transactions", psprintf("%d parts are to be finished on nodes", count),
				"The view rdma.transactions says where, and why they are not.");
	else
		ok(check, "transactions", "all are finished on the nodes");
}

/* ---------- the other node, over libpq ---------- */

/* One value, or NULL. */
static char *
remote_value(Check *check, const char *sql)
{
	PGresult   *result = rf_session_ask(check->session, sql, 1, 0, 1);
	char	   *value = NULL;

	if (PQntuples(result) > 0 && !PQgetisnull(result, 0, 0))
		value = pstrdup(PQgetvalue(result, 0, 0));
	PQclear(result);
	return value;
}

static void
check_mapping(Check *check)
{
	MemoryContext caller = MemoryContextSwitchTo(check->context);
	const char *user = GetUserNameFromId(GetUserId(), false);
	ListCell   *lc;

	check->user = rf_monitor_mapping(GetForeignServer(check->serverid));
	MemoryContextSwitchTo(caller);
	foreach(lc, check->user->options)
	{
		DefElem    *option = (DefElem *) lfirst(lc);

		if (strcmp(option->defname, "user") == 0)
			user = defGetString(option);
	}
	ok(check, "user mapping", psprintf("connects as %s", user));
}

static void
check_session(Check *check)
{
	check->session = rf_session_get(check->user, false);
	ok(check, "database connection",
	   psprintf("PostgreSQL %s",
				remote_value(check, "SELECT pg_catalog.current_setting('server_version')")));
}

/* Reports whether the database has the extension, in the same version. */
static void
check_remote_extension(Check *check)
{
	char	   *version = remote_value(
									   check,
									   "SELECT extversion FROM pg_catalog.pg_extension WHERE "
									   "extname = 'rdma_fdw'");

	if (version == NULL)
	{
		problem(check, "remote extension", "not installed in that database",
				"Run CREATE EXTENSION rdma_fdw there.");
		check->stop = true;
	}
	else if (strcmp(version, RF_EXTENSION_VERSION) != 0)
		info(check, "remote extension",
			 psprintf("version %s, this node has %s", version, RF_EXTENSION_VERSION),
			 "Install the same release on both nodes and run ALTER EXTENSION rdma_fdw UPDATE.");
	else
		ok(check, "remote extension", psprintf("version %s", version));
}

/* Reports whether the node's engine runs and uses a provider that fits this node's. */
static void
check_remote_engine(Check *check)
{
	char	   *preloaded = remote_value(check, "SELECT count(*) FROM rdma.stat_engine");
	char	   *pid;
	char	   *provider;
	char	   *trouble;

	if (preloaded == NULL || strcmp(preloaded, "0") == 0)
	{
		problem(check, "remote engine",
				"rdma_fdw is not in shared_preload_libraries of that server",
				"Add it there and restart that server.");
		check->stop = true;
		return;
	}
	pid = remote_value(check, "SELECT pid FROM rdma.stat_engine");
	if (pid == NULL)
	{
		problem(check, "remote engine", "not running", "The log of that server says why.");
		check->stop = true;
		return;
	}
	provider = remote_value(check, "SELECT provider FROM rdma.stat_engine");
	trouble = remote_value(check, "SELECT device_problem FROM rdma.stat_engine");
	if (provider == NULL || strcmp(provider, rf_shared->device.provider) != 0)
	{
		char	   *value = psprintf("uses %s, this node %s%s%s", provider ? provider : "no device",
									 rf_shared->device.provider, trouble ? ": " : "",
									 trouble ? trouble : "");

		/* They do connect when the one with the device may do without. */
		if (provider != NULL)
			info(check, "remote engine", value,
				 "Rows go over TCP, if rdma_fdw.provider is auto on the node with the device. "
				 "RDMA needs a device on both nodes.");
		else
			problem(
					check, "remote engine", value,
					"Set rdma_fdw.provider = soft there, or make its device work, and restart that "
					"server.");
		check->stop = provider == NULL;
		return;
	}
	ok(check, "remote engine", psprintf("process %s, provider %s", pid, provider));
}

/* Lists the functions for serving other nodes that the remote role may not call. */
static void
check_access(Check *check)
{
	static const char *sql =
		"SELECT pg_catalog.format('SELECT rdma.grant_access(%L, %s)', "
	"pg_catalog.quote_ident(current_user),"
	" pg_catalog.string_agg(DISTINCT pg_catalog.quote_literal(k.access), ', '))"
	" FROM (SELECT CASE WHEN proname IN ('hello', 'stream') THEN 'read' WHEN proname IN ('store', "
	"'join_set') THEN 'write'"
	" ELSE 'exchange' END AS access FROM pg_catalog.pg_proc WHERE pronamespace = "
	"'rdma_internal'::pg_catalog.regnamespace"
	" AND proname IN ('hello', 'stream', 'store', 'join_set', 'exchange', 'exchange_greet', "
	"'exchange_connect',"
	" 'exchange_listen', 'exchange_open') AND NOT pg_catalog.has_function_privilege(oid, "
	"'EXECUTE')) k"
	" HAVING pg_catalog.count(*) > 0";
	char	   *grant = remote_value(check, sql);

	if (grant != NULL && strstr(grant, "'read'") != NULL)
	{
		problem(check, "remote access", "the remote role may not serve other nodes",
				psprintf("A superuser there runs %s.", grant));
		check->stop = true;
	}
	else if (grant != NULL)
		info(check, "remote access", "the remote role may serve readers, and not everything else",
			 psprintf("Nothing, if it shall not. Otherwise a superuser there runs %s.", grant));
}

static void
check_prepared(Check *check)
{
	char	   *limit = remote_value(check,
									 "SELECT setting || CASE source WHEN 'override' THEN ', set by "
									 "rdma_fdw because it was 0' ELSE '' END"
									 " FROM pg_catalog.pg_settings WHERE name = "
									 "'max_prepared_transactions' AND setting <> '0'");

	if (limit != NULL)
		ok(check, "prepared transactions", psprintf("at most %s", limit));
	else
		info(check, "prepared transactions",
			 "not possible: a transaction that writes there and elsewhere commits on each node "
			 "for itself",
			 "Set max_prepared_transactions there, or add rdma_fdw to shared_preload_libraries, "
			 "and restart that server.");
}

/*
 * Asks the node's rdma_internal.hello for a greeting and compares wire version, type images and
 * identity; reports where rows would travel otherwise than expected.
 */
static void
check_hello(Check *check)
{
	RfHelloRequest request;
	RfTypeImage image;
	char		digits[2 * sizeof(request) + 1] = {0};
	char	   *answer;

	rf_hello_request(&request, false);
	(void) hex_encode((const char *) &request, sizeof(request), digits);
	answer = remote_value(check, psprintf("SELECT pg_catalog.encode("
										  "rdma_internal.hello('\\x%s'), 'hex')", digits));
	if (answer == NULL || strlen(answer) < 2 * sizeof(uint32))
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("the other node's rdma_internal.hello answered with something else")));
	memset(&check->hello, 0, sizeof(check->hello));
	(void) hex_decode(answer, Min(strlen(answer) / 2, sizeof(check->hello)) * 2,
					  (char *) &check->hello);

	if (check->hello.wire_version != RF_WIRE_VERSION)
	{
		problem(check, "wire version",
				psprintf("%u there, %u here", check->hello.wire_version, RF_WIRE_VERSION),
				RF_WIRE_BEHIND(check->hello.wire_version, "Upgrade rdma_fdw there.",
							   "Upgrade rdma_fdw here."));
		check->stop = true;
		return;
	}
	ok(check, "wire version", psprintf("%u on both", RF_WIRE_VERSION));

	rf_node_self(NULL, &image);
	if (memcmp(&image, &check->hello.image, sizeof(image)) == 0)
		ok(check, "value format", "the same on both: values are sent as they are");
	else
		info(check, "value format", "not the same: values of variable length are converted",
			 "Nothing; servers of the same architecture and build options are faster.");
}

/* ---------- between the engines ---------- */

static void
read_all(Check *check, const char *sql, uint64 *bytes)
{
	RfStreamColumn column;
	RfStreamSpec spec;
	RfStreamStats stats;
	RfStream   *stream = NULL;
	const void *batch;
	uint32		length;

	memset(&spec, 0, sizeof(spec));
	memset(&stats, 0, sizeof(stats));
	rf_column_wanted(TEXTOID, -1, false, &column);
	spec.sql = sql;
	spec.source = "rdma.check";
	spec.column_count = 1;
	spec.columns = &column;
	spec.receive_buffers = rf_receive_buffers;
	spec.receive_buffer_size = rf_receive_buffer_size * 1024;
	spec.inline_limit = 0;
	spec.in_place = true;
	rf_stream_start(rf_session_get(check->user, true), &spec, &stream);
	PG_TRY();
	{
		while (rf_stream_next(stream, &batch, &length))
			*bytes += length;
	}
	PG_CATCH();
	{
		/* `stream` lives on this stack. */
		if (stream)
			rf_stream_orphan(stream);
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (stream)
		rf_stream_close(stream, &stats);
}

/*
 * Reports unencrypted rows as a problem only if the database connection is encrypted.
 */
static void
check_encryption(Check *check, int peer)
{
	const char *encryption = rf_shared->peers[peer].encryption;

	if (encryption[0] == '\0')
		ok(check, "encryption", "not needed: rows cross no network");
	else if (strcmp(encryption, "none") != 0)
		ok(check, "encryption", encryption);
	else
	{
		const char *hint = "Anyone reading the network can read the rows. "
		"Set rdma_fdw.encryption = auto on one of the two nodes.";

		if (strcmp(rf_shared->peers[peer].transport, "tcp") != 0)
			hint = "Anyone reading the network can read the rows. List it in "
				"rdma_fdw.trusted_networks if it is protected, or set "
				"rdma_fdw.encryption = require on one of the two nodes: then the engines use TCP.";
		rf_check_add(check, "encryption", rf_session_encrypted(check->session) ? "problem" : "info",
					 encryption, hint);
	}
}

/* Has the engines connect, and reports the transport and encryption of their connection. */
static void
check_connection(Check *check)
{
	uint64		bytes = 0;
	int			peer;

	/* One row that may not come over libpq makes the engines connect. */
	read_all(check, "SELECT 'connect'::pg_catalog.text", &bytes);
	peer = rf_peer_find(&check->hello.node, false);
	if (peer == RF_NO_PEER)
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_FAILURE),
				 errmsg("the engines' connection was lost again")));
	ok(check, "engine connection",
	   psprintf("to %s, port %u, in %.1f ms", rf_shared->peers[peer].host, check->hello.port,
				rf_shared->peers[peer].handshake_us / 1000.0));
	if (rf_shared->peers[peer].error.message[0] != '\0')
	{
		RfError		error = rf_shared->peers[peer].error;

		error.message[sizeof(error.message) - 1] = '\0';
		error.hint[sizeof(error.hint) - 1] = '\0';
		problem(
				check, "transport",
				psprintf("%s instead of RDMA: %s",
						 rf_shared->peers[peer].transport, error.message),
				psprintf("%s RDMA is tried again when the engines connect again: when one of "
						 "them was restarted.",
						 error.hint));
	}
	else if (strcmp(rf_shared->peers[peer].transport, "tcp") == 0)
		info(check, "transport", "tcp", "On other hosts RDMA needs a device on both nodes.");
	else
		ok(check, "transport", rf_shared->peers[peer].transport);
	check_encryption(check, peer);
}

static int
compare_doubles(const void *a, const void *b)
{
	double		x = *(const double *) a;
	double		y = *(const double *) b;

	return x < y ? -1 : x > y;
}

/*
 * Reports the median time of a trivial statement, and the round trip between the engines if they
 * are connected.
 */
static void
check_round_trip(Check *check)
{
	double		ms[ROUND_TRIPS];
	int			peer = rf_peer_find(&check->hello.node, false);
	int			i;

	for (i = 0; i < ROUND_TRIPS; i++)
	{
		instr_time	start;
		instr_time	end;

		INSTR_TIME_SET_CURRENT(start);
		(void) remote_value(check, "SELECT 1");
		INSTR_TIME_SET_CURRENT(end);
		INSTR_TIME_SUBTRACT(end, start);
		ms[i] = INSTR_TIME_GET_MILLISEC(end);
	}
	qsort(ms, ROUND_TRIPS, sizeof(double), compare_doubles);
	if (peer != RF_NO_PEER)
		ok(check, "round trip",
		   psprintf("%.0f us for a statement, %u us between the engines",
					ms[ROUND_TRIPS / 2] * 1000, rf_shared->peers[peer].round_trip_us));
	else
		ok(check, "round trip", psprintf("%.0f us for a statement", ms[ROUND_TRIPS / 2] * 1000));
}

static void
check_bandwidth(Check *check)
{
	char	   *sql = psprintf("SELECT pg_catalog.repeat('x', %d) "
							   "FROM pg_catalog.generate_series(1, %d)",
							   STREAM_ROW_BYTES, STREAM_ROWS);
	uint64		bytes = 0;
	instr_time	start;
	instr_time	end;

	INSTR_TIME_SET_CURRENT(start);
	read_all(check, sql, &bytes);
	INSTR_TIME_SET_CURRENT(end);
	INSTR_TIME_SUBTRACT(end, start);
	ok(check, "bandwidth",
	   psprintf("%.0f MB/s (%llu MB of generated rows in %.0f ms)",
				bytes / 1e6 / INSTR_TIME_GET_DOUBLE(end), (unsigned long long) (bytes / 1000000),
				INSTR_TIME_GET_MILLISEC(end)));
}

UserMapping *
rf_monitor_mapping(ForeignServer *server)
{
	AclResult	allowed = rf_server_aclcheck(server->serverid, GetUserId(), ACL_USAGE);
	ForeignDataWrapper *wrapper = GetForeignDataWrapper(server->fdwid);

	if (allowed != ACLCHECK_OK)
		aclcheck_error(allowed, OBJECT_FOREIGN_SERVER, server->servername);
	if (strcmp(wrapper->fdwname, "rdma_fdw") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("server \"%s\" is not a server of rdma_fdw", server->servername)));
	if (rf_server_nodes(server) != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("server \"%s\" stands for many nodes", server->servername),
				 errhint("Name one of them; rdma.nodes() lists them.")));
	return rf_user_mapping(GetUserId(), server->serverid);
}

/* Nodes must hash alike, or rows would not be where they are looked for. */
static void
check_routing(Check *check)
{
	static const char *sql =
		"SELECT rdma.hash_node(1000000007, 42, 'routing'::pg_catalog.text, 1.5, "
	"'2020-02-02'::pg_catalog.date)";
	const Oid	types[] = {INT4OID, TEXTOID, NUMERICOID, DATEOID};
	const Oid	collations[] = {InvalidOid, DEFAULT_COLLATION_OID, InvalidOid, InvalidOid};
	const bool	isnull[] = {false, false, false, false};
	Datum		values[4];
	uint64		here;
	char	   *there = remote_value(check, sql);

	values[0] = Int32GetDatum(42);
	values[1] = CStringGetTextDatum("routing");
	values[2] = DirectFunctionCall3(numeric_in, CStringGetDatum("1.5"),
									ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
	values[3] = DirectFunctionCall1(date_in, CStringGetDatum("2020-02-02"));
	here = rf_route_hash(rf_route_create(lengthof(types), types, collations), values, isnull) %
		1000000007;
	if (there != NULL && strtoull(there, NULL, 10) == here)
		ok(check, "row routing", "values hash there as here");
	else
		problem(check, "row routing",
				psprintf("a sample key has hash %s there and " UINT64_FORMAT " here",
						 there != NULL ? there : "NULL", here),
				"Nodes of one server must be of the same byte order, and of major versions whose "
				"hash functions agree.");
}

/* A database that was not enrolled looks like any database with such tables. */
static void
check_identity(Check *check)
{
	ListCell   *lc;

	rf_placement_use(get_foreign_server_oid(check->server, false));
	foreach(lc, rf_placement_parts(check->node))
	{
		RfPlacementPart *part = lfirst(lc);

		if (strcmp(part->record->server, check->server) == 0)
		{
			ok(check, "node identity",
			   psprintf("the database says that it is node %d of this server", part->number));
			return;
		}
	}
	info(check, "node identity",
		 "nobody would notice if the server led to another database with such tables",
		 psprintf("SELECT rdma.enroll_nodes(%s)", quote_literal_cstr(check->server)));
}

/* The values of the only row of a query about the server, in the caller's memory. */
static void
ask_about_server(Check *check, const char *query, char **values, int count)
{
	MemoryContext caller = CurrentMemoryContext;
	Oid			types[1] = {NAMEOID};
	Datum		name[1];

	name[0] = DirectFunctionCall1(namein, CStringGetDatum(check->server));
	if (SPI_connect() != SPI_OK_CONNECT ||
		SPI_execute_with_args(query, 1, types, name, NULL, false, 0) != SPI_OK_SELECT ||
		SPI_processed != 1)
		elog(ERROR, "could not look at the tables of server \"%s\"", check->server);
	for (int i = 0; i < count; i++)
	{
		char	   *value = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, i + 1);

		values[i] = value ? MemoryContextStrdup(caller, value) : NULL;
	}
	SPI_finish();
}

/*
 * Columns of other types are converted, but computations on the node follow its own types.
 */
static void
check_columns(Check *check)
{
	char	   *values[2];

	ask_about_server(check, "SELECT missing, types FROM rdma_internal.column_differences($1)",
					 values, 2);
	if (values[0] != NULL)
		problem(check, "columns", values[0],
				"Create the missing columns, or correct the options of the foreign tables.");
	if (values[1] != NULL)
		info(check, "columns", values[1],
			 "Values are converted. Comparisons and computations on nodes follow their types: "
			 "ALTER the columns of the "
			 "foreign tables, unless it is meant.");
	if (values[0] == NULL && values[1] == NULL)
		ok(check, "columns", "the columns of all foreign tables have the same types there");
}

/* Queries rely on options of tables that nobody may have checked. */
static void
check_distribution(Check *check)
{
	char	   *wrong;

	ask_about_server(check, "SELECT pg_catalog.string_agg(p, '; ') FROM "
					 "rdma_internal.sample_tables($1) p",
					 &wrong, 1);
	if (wrong != NULL)
		problem(check, "distribution", wrong,
				"Queries rely on the options \"distributed_by\" and \"replicated\": take them "
				"away, or move the rows. "
				"rdma.check_distribution counts all of a table.");
	else
		ok(check, "distribution", "the first 100000 rows of each table are where its options say");
}

/* Each move of buckets reads all of a table that has no index on them. */
static void
check_bucket_indexes(Check *check)
{
	char	   *values[4];

	ask_about_server(check,
					 "SELECT pg_catalog.count(*), pg_catalog.count(*) FILTER (WHERE missing), "
					 "(pg_catalog.array_agg(pg_catalog.format('%s on %s, %s', relation, node, "
					 "pg_catalog.pg_size_pretty(bytes)) ORDER BY bytes DESC, node) "
					 "FILTER (WHERE missing))[1], "
					 "(pg_catalog.array_agg(pg_catalog.format("
					 "'CREATE INDEX CONCURRENTLY ON %s (%s)', relation, expression) "
					 "ORDER BY bytes DESC, node) FILTER (WHERE missing))[1] "
					 "FROM rdma_internal.bucket_indexes($1)",
					 values, 4);
	if (values[2] == NULL)
		ok(check, "bucket index",
		   psprintf("of all tables on nodes whose rows can move (%s)", values[0]));
	else
		info(check, "bucket index",
			 psprintf("missing for %s of %s tables on nodes; the largest is %s",
					  values[1], values[0], values[2]),
			 psprintf("Each move reads such a table as a whole. rdma.rebalance and "
					  "rdma.drain_node make the index for large tables as long as they run. "
					  "Before rdma.move_buckets: SELECT rdma.run_on(%s, %s)",
					  quote_literal_cstr(check->server), quote_literal_cstr(values[3])));
}

/* Statements over several nodes connect each pair of them. */
static void
check_exchange(Check *check)
{
	int			count = list_length(check->nodes);
	RfSession **sessions = palloc(sizeof(RfSession *) * count);
	ListCell   *cell;

	foreach(cell, check->nodes)
	{
		UserMapping *mapping = rf_monitor_mapping(GetForeignServer(lfirst_oid(cell)));

		sessions[foreach_current_index(cell)] = rf_session_get(mapping, true);
	}
	rf_exchange_connect_nodes(sessions, count);
	ok(check, "exchange", "the engines of all nodes are connected with each other");
}

/* ---------- lists ---------- */

/* Each step adds rows. If a step sets `stop`, the steps behind it in its list do not run. */
const CheckStep rf_check_here[] = {
	{"preload", check_preload},
	{"statistics", check_statistics},
	{"engine", check_engine},
	{"device", check_device},
	{"transactions", check_transactions},
	{NULL}
};
const CheckStep rf_check_there[] = {
	{"user mapping", check_mapping,
		"The role needs USAGE on the server, and CREATE USER MAPPING FOR CURRENT_USER SERVER ... "
	"OPTIONS (user '...', password '...')."},
	{"database connection", check_session,
		"psql must connect from this machine with the same host, port, dbname, user and "
		"password: see the options of the server and of the user mapping, and the data node's "
	"pg_hba.conf and log."},
	{"prepared transactions", check_prepared},
	{"remote extension", check_remote_extension},
	{"remote engine", check_remote_engine},
	{"remote access", check_access},
	{"wire version", check_hello},
	{"engine connection", check_connection},
	{"round trip", check_round_trip},
	{"bandwidth", check_bandwidth},
	{NULL}
};
const CheckStep rf_check_among_nodes[] = {
	{"row routing", check_routing},
	{"node identity", check_identity},
	{NULL}
};
const CheckStep rf_check_tables[] = {
	{"columns", check_columns},
	{NULL}
};
const CheckStep rf_check_between_nodes[] = {
	{"exchange", check_exchange},
	{"columns", check_columns},
	{"distribution", check_distribution},
	{"bucket index", check_bucket_indexes},
	{NULL}
};
