/*
 * connection.c - hands out sessions on data nodes. It connects them, reconnects where a connection
 * can no longer be used, and chooses one of several nodes that store the same rows. credentials.c
 * decides which roles may connect.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_foreign_table.h"
#include "catalog/pg_user_mapping.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "mb/pg_wchar.h"
#include "storage/fd.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include <poll.h>

#include "rdma_fdw/compat.h"
#include "rdma_fdw/guc.h"
#include "rdma_fdw/sql_text.h"
#include "session.h"
#include "waiting.h"

static void connect_session(RfSession *session, UserMapping *user);
static PGconn *connect_server(ForeignServer *server, const char **keywords, const char **values);
static bool idle_and_alive(RfSession *session);
static char *expand_application_name(const char *pattern);
static void choose_application_name(const char **keywords, const char **values, int count);
static void receive_notice(void *arg, const PGresult *result);

Oid
rf_mapping_id(Oid userid, Oid serverid)
{
	Oid			umid = GetSysCacheOid2(USERMAPPINGUSERSERVER, Anum_pg_user_mapping_oid,
									   ObjectIdGetDatum(userid), ObjectIdGetDatum(serverid));

	if (!OidIsValid(umid))
		umid = GetSysCacheOid2(USERMAPPINGUSERSERVER, Anum_pg_user_mapping_oid,
							   ObjectIdGetDatum(InvalidOid), ObjectIdGetDatum(serverid));
	return umid;
}

UserMapping *
rf_user_mapping(Oid userid, Oid serverid)
{
	if (!OidIsValid(rf_mapping_id(userid, serverid)))
	{
		char	   *user = MappingUserName(userid);
		char	   *server = GetForeignServer(serverid)->servername;

		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("user mapping not found for user \"%s\", server \"%s\"", user, server),
				 errhint("CREATE USER MAPPING FOR %s SERVER %s "
						 "OPTIONS (user '...', password '...')",
						 quote_identifier(user), quote_identifier(server))));
	}
	return GetUserMapping(userid, serverid);
}

bool
rf_is_node(const ForeignServer *server)
{
	return strcmp(GetForeignDataWrapper(server->fdwid)->fdwname, "rdma_fdw") == 0 &&
		rf_option_find(server->options, "nodes") == NULL;
}

List *
rf_foreign_tables(Oid serverid)
{
	Relation	catalog = table_open(ForeignTableRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(catalog, InvalidOid, false, NULL, 0, NULL);
	List	   *tables = NIL;
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_foreign_table form = (Form_pg_foreign_table) GETSTRUCT(tuple);

		if (!OidIsValid(serverid) || form->ftserver == serverid)
			tables = lappend_oid(tables, form->ftrelid);
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	list_sort(tables, list_oid_cmp);
	return tables;
}

RfSession *
rf_session_get(UserMapping *user, bool in_transaction)
{
	RfSession  *session = rf_session_find(user->umid);

	rf_transaction_register();
	rf_session_set_in_use(true);

	if (session->xact.depth > 0 || session->running || session->load ||
		!dlist_is_empty(&session->collecting))
	{
		if (session->broken || session->conn == NULL || PQstatus(session->conn) != CONNECTION_OK)
			rf_session_lost(session);
	}
	else if (session->conn &&
			 (session->invalidated || session->broken || !idle_and_alive(session)))
		rf_session_disconnect(session);

	if (session->conn == NULL)
		connect_session(session, user);
	else
		rf_credentials_check_session(session, user);	/* it may have been made for another user
														 * of a mapping for PUBLIC */

	session->userid = user->userid;
	session->xact.wanted = in_transaction || session->xact.depth > 0;
	if (in_transaction)
		rf_session_verify_placement(session);
	return session;
}

/* ---------- any of several nodes ---------- */

/* For this long a lost node is tried after all other nodes. */
#define LOST_MS		10000

/* How suitable a node is for reading rows that other nodes have as well, best first. */
typedef enum Suitability
{
	READS_COPIES,				/* the transaction reads copies there already */
	IN_USE,						/* the transaction uses it */
	CONNECTED,
	NOT_CONNECTED,
	LOST,						/* a moment ago */
	NO_MAPPING
} Suitability;

static Suitability
suitability(Oid userid, Oid serverid)
{
	Oid			umid = rf_mapping_id(userid, serverid);
	RfSession  *session;

	if (!OidIsValid(umid))
		return NO_MAPPING;
	session = rf_session_find(umid);
	if (session->xact.depth > 0)
		return session->xact.reads_copies ? READS_COPIES : IN_USE;
	if (session->conn != NULL && !session->broken && PQstatus(session->conn) == CONNECTION_OK)
		return CONNECTED;
	if (session->loss.at != 0 &&
		!TimestampDifferenceExceeds(session->loss.at, GetCurrentTimestamp(), LOST_MS))
		return LOST;
	return NOT_CONNECTED;
}

static bool
is_connection_error(int code)
{
	return ERRCODE_TO_CATEGORY(code) == ERRCODE_CONNECTION_EXCEPTION &&
		code != ERRCODE_PROTOCOL_VIOLATION;
}

RfSession *
rf_session_try(UserMapping *user)
{
	MemoryContext context = CurrentMemoryContext;
	RfSession  *volatile session = NULL;

	PG_TRY();
	{
		session = rf_session_get(user, true);
	}
	PG_CATCH();
	{
		RfSession  *lost = rf_session_find(user->umid);

		/* the transaction's work there is lost */
		if (lost->xact.depth > 0 || !is_connection_error(geterrcode()))
			PG_RE_THROW();
		MemoryContextSwitchTo(TopMemoryContext);
		if (lost->loss.why != NULL)
			FreeErrorData(lost->loss.why);
		lost->loss.why = NULL;
		lost->loss.why = CopyErrorData();
		FlushErrorState();
		lost->loss.at = GetCurrentTimestamp();
		MemoryContextSwitchTo(context);
	}
	PG_END_TRY();
	return session;
}

static bool
is_left_out(const RfSession *session, uint64 statement)
{
	return statement != 0 && session->loss.left_out >= statement;
}

RfSession *
rf_statement_session(uint64 statement, UserMapping *user)
{
	RfSession  *session = rf_session_find(user->umid);

	if (is_left_out(session, statement))
		ReThrowError(session->loss.why);
	return rf_session_get(user, true);
}

static void
append_reason(StringInfo reasons, const ErrorData *error)
{
	appendStringInfo(reasons, "%s%s", reasons->len > 0 ? "\n" : "", error->message);
	if (error->detail)
		appendStringInfo(reasons, ": %s", error->detail);
}

RfSession *
rf_session_get_any(uint64 statement, Oid userid, List *servers, UserMapping **user)
{
	int			count = list_length(servers);
	bool	   *failed;
	StringInfoData reasons;

	failed = palloc0_array(bool, count);
	initStringInfo(&reasons);
	for (int i = 0; i < count; i++)
	{
		Oid			umid = rf_mapping_id(userid, list_nth_oid(servers, i));

		failed[i] = OidIsValid(umid) && is_left_out(rf_session_find(umid), statement);
		if (failed[i])
			append_reason(&reasons, rf_session_find(umid)->loss.why);
	}
	for (int tries = 0; tries < count; tries++)
	{
		Suitability suits = NO_MAPPING;
		int			best = -1;
		RfSession  *session;
		ErrorData  *error;

		for (int i = 0; i < count; i++)
		{
			Suitability other = failed[i] ? NO_MAPPING :
				suitability(userid, list_nth_oid(servers, i));

			if (other < suits)
			{
				suits = other;
				best = i;
			}
		}
		if (best < 0)
			break;
		*user = rf_user_mapping(userid, list_nth_oid(servers, best));
		session = rf_session_try(*user);
		if (session != NULL)
		{
			session->xact.reads_copies |= count > 1;
			pfree(failed);
			return session;
		}
		failed[best] = true;
		error = rf_session_find((*user)->umid)->loss.why;
		if (count == 1)
			ReThrowError(error);
		ereport(LOG,
				(errmsg("%s", error->message),
				 error->detail ? errdetail_internal("%s", error->detail) : 0,
				 errhint("Rows of replicated tables are read from another node meanwhile.")));
		append_reason(&reasons, error);
	}
	if (reasons.len == 0)
		*user = rf_user_mapping(userid, linitial_oid(servers)); /* raises the error */
	ereport(ERROR,
			(errcode(ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION),
			 errmsg("could not connect to any node that has the rows"),
			 errdetail_internal("%s", reasons.data)));
}

uint32
rf_session_uses(RfSession *session)
{
	return session->uses;
}

bool
rf_session_forsake(UserMapping *user, uint32 uses)
{
	RfSession  *session = rf_session_find(user->umid);

	if (!is_connection_error(geterrcode()) || session->uses != uses)
		return false;
	session->loss.at = GetCurrentTimestamp();
	rf_session_disconnect(session);
	return true;
}

/* ---------- connecting ---------- */

/* Options that the server does not have get their defaults. */
static void
read_options(RfSessionOptions *options, const ForeignServer *server)
{
	ListCell   *lc;

	options->keep = options->parallel_commit = options->parallel_abort = true;
	options->require_encryption = false;
	foreach(lc, server->options)
	{
		DefElem    *def = lfirst_node(DefElem, lc);

		if (strcmp(def->defname, "keep_connections") == 0)
			options->keep = defGetBoolean(def);
		else if (strcmp(def->defname, "parallel_commit") == 0)
			options->parallel_commit = defGetBoolean(def);
		else if (strcmp(def->defname, "parallel_abort") == 0)
			options->parallel_abort = defGetBoolean(def);
		else if (strcmp(def->defname, "encryption") == 0)
			options->require_encryption = strcmp(defGetString(def), "require") == 0;
	}
}

/*
 * Reads the options of server and mapping, connects with them, and finds out which node it is and
 * whose session there.
 */
static void
connect_session(RfSession *session, UserMapping *user)
{
	ForeignServer *server = GetForeignServer(user->serverid);
	const char **keywords;
	const char **values;
	int			room = list_length(server->options) + list_length(user->options) + 4 +
		RF_CREDENTIAL_OPTIONS;
	int			n;
	const char *host;

	/* The entry may be of a mapping that was dropped since. Names change, too. */
	if (session->server_name)
		pfree(session->server_name);
	session->server_name = NULL;
	session->server_name = MemoryContextStrdup(TopMemoryContext, server->servername);
	session->serverid = server->serverid;
	session->server_hash = GetSysCacheHashValue1(FOREIGNSERVEROID,
												 ObjectIdGetDatum(server->serverid));
	session->mapping_hash = GetSysCacheHashValue1(USERMAPPINGOID, ObjectIdGetDatum(user->umid));
	read_options(&session->options, server);
	session->engines.told_clear = false;

	keywords = palloc0(room * sizeof(char *));
	values = palloc0(room * sizeof(char *));
	n = 0;
	keywords[n] = "fallback_application_name";
	values[n++] = "rdma_fdw";
	n += rf_extract_connection_options(server->options, keywords + n, values + n);
	n += rf_extract_connection_options(user->options, keywords + n, values + n);
	n += rf_credentials_options(server, user, keywords + n, values + n);
	if (rf_application_name && rf_application_name[0] != '\0')
	{
		keywords[n] = "application_name";
		values[n++] = rf_application_name;
	}
	choose_application_name(keywords, values, n);
	keywords[n] = "client_encoding";
	values[n++] = GetDatabaseEncodingName();

	rf_credentials_check(server, user);
	session->conn = connect_server(server, keywords, values);
	session->prepared.connection++;

	PG_TRY();
	{
		rf_credentials_connected(session, server, user);
		rf_credentials_check_session(session, user);
		PQsetNoticeReceiver(session->conn, receive_notice, session);

		/* An engine connects by TCP, also where libpq used a local socket. */
		host = PQhostaddr(session->conn);
		if (host == NULL || host[0] == '\0')
			host = PQhost(session->conn);
		if (host == NULL || host[0] == '\0' || host[0] == '/' || host[0] == '@')
			host = "localhost";
		if (session->engines.host)
			pfree(session->engines.host);
		session->engines.host = NULL;
		session->engines.host = MemoryContextStrdup(TopMemoryContext, host);

		rf_session_pin_settings(session);
		if (!session->node.pooled)
		{
			RfWaitingSession mine = {session->node.cluster, PQbackendPID(session->conn),
			server->serverid, user->userid};

			rf_waiting_connected(&mine);
		}
	}
	PG_CATCH();
	{
		rf_session_disconnect(session);
		PG_RE_THROW();
	}
	PG_END_TRY();
	pfree(keywords);
	pfree(values);
}

/*
 * When to give up. libpq applies connect_timeout in its own blocking loop only, and to each host;
 * so the hosts of a list get their share here. 0: never.
 */
static TimestampTz
connect_deadline(const char **keywords, const char **values)
{
	int			seconds = 0;
	int			hosts = 1;

	for (int i = 0; keywords[i]; i++)
	{
		if (strcmp(keywords[i], "connect_timeout") == 0)
			seconds = atoi(values[i]);
		if (strcmp(keywords[i], "host") == 0)
			for (const char *p = values[i]; *p; p++)
				hosts += *p == ',';
	}
	if (seconds <= 0)
		return 0;
	return TimestampTzPlusMilliseconds(GetCurrentTimestamp(),
									   (int64) Max(seconds, 2) * 1000 * hosts);
}

/* libpq's steps of connecting, driven from here so that interrupts are not blocked. */
static void
drive_connect(PGconn *conn, const char *name, TimestampTz deadline)
{
	static uint32 wait_event = 0;
	PostgresPollingStatusType status = PGRES_POLLING_WRITING;

	if (wait_event == 0)
		wait_event = rf_wait_event_new("RdmaFdwConnect");

	while (PQstatus(conn) != CONNECTION_BAD && status != PGRES_POLLING_OK &&
		   status != PGRES_POLLING_FAILED)
	{
		int			events = WL_LATCH_SET | WL_EXIT_ON_PM_DEATH;
		long		timeout = -1;
		int			got;

		events |= status == PGRES_POLLING_READING ? WL_SOCKET_READABLE : WL_SOCKET_WRITEABLE;
		if (deadline != 0)
		{
			timeout = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline);
			events |= WL_TIMEOUT;
			if (timeout <= 0)
				ereport(ERROR,
						(errcode(ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION),
						 errmsg("could not connect to server \"%s\"", name),
						 errdetail("Timeout expired (option connect_timeout).")));
		}
		got = WaitLatchOrSocket(MyLatch, events, PQsocket(conn), timeout, wait_event);
		if (got & WL_LATCH_SET)
		{
			ResetLatch(MyLatch);
			CHECK_FOR_INTERRUPTS();
		}
		if (got & (WL_SOCKET_READABLE | WL_SOCKET_WRITEABLE))
			status = PQconnectPoll(conn);
	}

	if (PQstatus(conn) != CONNECTION_OK)
		ereport(ERROR,
				(errcode(ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION),
				 errmsg("could not connect to server \"%s\"", name),
				 errdetail_internal("%s", rf_message_text(pchomp(PQerrorMessage(conn))))));
	if (PQsetnonblocking(conn, 1) != 0)
		elog(ERROR, "could not make the connection to server \"%s\" non-blocking", name);
}

/*
 * Connects to the server, serving interrupts meanwhile and not longer than its connect_timeout. An
 * error releases the connection and its descriptor.
 */
static PGconn *
connect_server(ForeignServer *server, const char **keywords, const char **values)
{
	PGconn	   *conn;

	if (!AcquireExternalFD())
		ereport(ERROR,
				(errcode(ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION),
				 errmsg("could not connect to server \"%s\"", server->servername),
				 errdetail("There are too many open files on the local server."),
				 errhint("Raise the server's max_files_per_process and/or \"ulimit -n\" limits.")));

	conn = PQconnectStartParams(keywords, values, false);
	if (conn == NULL)
	{
		ReleaseExternalFD();
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory")));
	}
	PG_TRY();
	{
		drive_connect(conn, server->servername, connect_deadline(keywords, values));
	}
	PG_CATCH();
	{
		PQfinish(conn);
		ReleaseExternalFD();
		PG_RE_THROW();
	}
	PG_END_TRY();
	return conn;
}

/* ---------- keeping connections in step with the world ---------- */

/*
 * An idle connection receives nothing. If its socket is readable, the server has closed it or has
 * announced its shutdown. One poll(2) here makes a restarted data node cost a new connection
 * instead of an error.
 */
static bool
idle_and_alive(RfSession *session)
{
	struct pollfd fd;

	if (PQstatus(session->conn) != CONNECTION_OK ||
		PQtransactionStatus(session->conn) != PQTRANS_IDLE)
		return false;
	fd.fd = PQsocket(session->conn);
	fd.events = POLLIN;
	fd.revents = 0;
	while (poll(&fd, 1, 0) > 0)
	{
		/*
		 * parameters and warnings are harmless; receive_notice() marks a session that ends as
		 * broken
		 */
		if (!PQconsumeInput(session->conn) || PQisBusy(session->conn) ||
			PQstatus(session->conn) != CONNECTION_OK || session->broken)
			return false;
	}
	return true;
}

/* A remote NOTICE or WARNING goes to the server's log, as with postgres_fdw, with its origin. */
static void
receive_notice(void *arg, const PGresult *result)
{
	RfSession  *session = arg;
	const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
	const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	int			level = DEBUG1;

	if (severity && (strcmp(severity, "WARNING") == 0 || strcmp(severity, "NOTICE") == 0 ||
					 strcmp(severity, "INFO") == 0))
		level = LOG_SERVER_ONLY;
	else if (severity && (strcmp(severity, "FATAL") == 0 || strcmp(severity, "PANIC") == 0))
		session->broken = true; /* no command was running: the server shuts down */
	ereport(level,
			(errmsg_internal("%s%s%s", severity ? rf_message_text(severity) : "",
							 severity ? ":  " : "",
							 message ? rf_message_text(message) : "message from a remote server"),
			 errcontext("remote server \"%s\"", session->server_name)));
}

/*
 * The last name that is not empty after its escapes were replaced: the setting's, else the server's
 * option. The names behind it are set to NULL, which libpq skips.
 */
static void
choose_application_name(const char **keywords, const char **values, int count)
{
	for (int i = count - 1; i >= 0; i--)
	{
		if (strcmp(keywords[i], "application_name") != 0)
			continue;
		values[i] = expand_application_name(values[i]);
		if (values[i][0] != '\0')
			return;
		values[i] = NULL;
	}
}

/*
 * Escapes in application names: %a this session's application_name, %c session ID, %C cluster_name,
 * %u user, %d database, %p process ID, %% a percent sign. Any other escape is removed.
 */
static char *
expand_application_name(const char *pattern)
{
	StringInfoData buf;

	initStringInfo(&buf);
	for (const char *p = pattern; *p; p++)
	{
		if (*p != '%')
		{
			appendStringInfoChar(&buf, *p);
			continue;
		}
		p++;
		switch (*p)
		{
			case '\0':
				return buf.data;
			case '%':
				appendStringInfoChar(&buf, '%');
				break;
			case 'a':
				appendStringInfoString(&buf, application_name ? application_name : "");
				break;
			case 'c':
				appendStringInfo(&buf, "%lx.%x", (long) MyStartTime, MyProcPid);
				break;
			case 'C':
				appendStringInfoString(&buf, cluster_name);
				break;
			case 'd':
				appendStringInfoString(&buf, get_database_name(MyDatabaseId));
				break;
			case 'u':
				appendStringInfoString(&buf, GetUserNameFromId(GetSessionUserId(), false));
				break;
			case 'p':
				appendStringInfo(&buf, "%d", MyProcPid);
				break;
			default:
				break;
		}
	}
	return buf.data;
}
