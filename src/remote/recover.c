/*
 * recover.c - finishes the parts that transactions over several nodes left on a node, implements
 * rdma_internal.transactions() and rdma.resolve(), and prevents servers from being dropped before.
 *
 * The order of the steps matters. First a part is found prepared, then its backend is found to have
 * left it: now the part is decided. The rows are read after that, and a missing row means rollback.
 * A row is removed when the node no longer has a part of that name.
 *
 * A session that has lost its coordinator may still prepare: it was told to, and waits for a lock,
 * for example. So a node that has such a session is asked again.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_user_mapping.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/syscache.h"

#include "rdma_fdw/compat.h"
#include "rdma_fdw/sql_text.h"
#include "rdma_fdw/steps.h"
#include "base/result_row.h"
#include "session.h"

/* How long a node may take to finish one part. */
#define RF_RECOVER_TIMEOUT_MS	5000

PG_FUNCTION_INFO_V1(rdma_transactions);
PG_FUNCTION_INFO_V1(rdma_resolve);


/* ---------- one node ---------- */

/* Names of this database's parts that are prepared there: of its role, or all of them. Sorted. */
static int
prepared_there(RfSession *session, bool own, char ***gids)
{
	const char *which =
		own ? " AND owner = current_user AND database = pg_catalog.current_database()" : "";
	char	   *sql = psprintf("SELECT gid FROM pg_catalog.pg_prepared_xacts"
							   " WHERE pg_catalog.starts_with(gid, '%s')%s"
							   " ORDER BY gid COLLATE pg_catalog.\"C\"", rf_gid_prefix(), which);
	PGresult   *result = rf_session_ask(session, sql, 1, 0, PG_INT32_MAX);
	int			count = PQntuples(result);

	*gids = palloc(sizeof(char *) * (count + 1));
	for (int i = 0; i < count; i++)
		(*gids)[i] = pstrdup(PQgetvalue(result, i, 0));
	PQclear(result);
	return count;
}

/*
 * Age in milliseconds of the oldest transaction of the role there that is preparing, or may still
 * be told to; -1 if there is no such transaction.
 */
static int64
oldest_preparing(RfSession *session)
{
	static const char *sql =
		"SELECT (extract(epoch FROM pg_catalog.max(pg_catalog.clock_timestamp() - xact_start)) * "
	"1000)"
	"::pg_catalog.int8 FROM pg_catalog.pg_stat_activity"
	" WHERE usename = current_user AND pid <> pg_catalog.pg_backend_pid()"
	" AND (query = '" RF_WROTE_SQL "' OR pg_catalog.starts_with(query, '" RF_PREPARE_SQL "'))";
	PGresult   *result = rf_session_ask(session, sql, 1, 1, 1);
	int64		age = -1;

	if (!PQgetisnull(result, 0, 0) &&
		!rf_answer_int64(result, 0, 0, PG_INT64_MIN, PG_INT64_MAX, &age))
		rf_session_bad_answer(session, result, sql);
	PQclear(result);
	return age;
}

static bool
began_before(int64 age, TimestampTz when)
{
	return age >= 0 && age >= TimestampDifferenceMilliseconds(when, GetCurrentTimestamp());
}

static int
compare_decisions(const void *a, const void *b)
{
	return strcmp(((const RfDecision *) a)->gid, ((const RfDecision *) b)->gid);
}

static RfDecision *
find_decision(RfDecision *sorted, int count, const char *gid)
{
	RfDecision	key = {0};

	strlcpy(key.gid, gid, sizeof(key.gid));
	return bsearch(&key, sorted, count, sizeof(RfDecision), compare_decisions);
}

static int
compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *) a, *(char *const *) b);
}

static bool
is_listed(char **sorted, int count, const char *gid)
{
	return bsearch(&gid, sorted, count, sizeof(char *), compare_names) != NULL;
}

static void
note_problem(RfSession *session, uint64 node, const char *gid, bool commit, TimestampTz since,
			 const char *problem)
{
	RfUnresolved part;

	memset(&part, 0, sizeof(part));
	part.database = MyDatabaseId;
	part.serverid = session->serverid;
	part.userid = session->userid;
	part.node = node;
	part.commit = commit;
	part.since = since;
	strlcpy(part.gid, gid, sizeof(part.gid));
	rf_commit_problem(&part, problem);
}

/* False: the node refused, and the reason is noted. Raises an ERROR when the connection is lost. */
static bool
finish_part(RfSession *session, const char *gid, bool commit)
{
	char	   *sql = psprintf("%s PREPARED '%s'", commit ? "COMMIT" : "ROLLBACK", gid);
	TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(),
													   RF_RECOVER_TIMEOUT_MS);
	PGresult   *result = rf_session_command_deadline(session, sql, deadline);
	const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	bool		done = PQresultStatus(result) == PGRES_COMMAND_OK;

	if (result == NULL || PQstatus(session->conn) != CONNECTION_OK)
	{
		PQclear(result);
		rf_session_lost(session);
	}
	if (!done && (sqlstate == NULL || strcmp(sqlstate, "42704") != 0))
	{
		const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

		note_problem(session, session->node.cluster, gid, commit, GetCurrentTimestamp(),
					 message ? rf_message_text(message) : "unknown error");
	}
	else
		rf_commit_resolved(gid);
	PQclear(result);
	pfree(sql);
	return done;
}

/*
 * Finishes the parts whose backends have left them: commits parts that have a row, and rolls back
 * the rest.
 */
static int
finish_prepared(RfSession *session)
{
	char	  **gids;
	int			count = prepared_there(session, true, &gids);
	bool	   *decided = palloc(sizeof(bool) * (count + 1));
	RfDecision *decisions;
	int			decision_count;
	int			finished = 0;

	rf_step("recover_listed", 0);
	for (int i = 0; i < count; i++)
	{
		RfGid		gid;

		decided[i] = rf_gid_parse(gids[i], &gid) && !rf_commit_is_active(&gid);
	}
	rf_step("recover_inactive", 0);
	decision_count = rf_decision_read(&decisions);
	rf_step("recover_rows", 0);
	qsort(decisions, decision_count, sizeof(RfDecision), compare_decisions);
	for (int i = 0; i < count; i++)
	{
		if (!decided[i])
			continue;
		rf_step("recover_finish", 0);
		finished += finish_part(session, gids[i],
								find_decision(decisions, decision_count, gids[i]) != NULL);
		rf_step("recover_finished", 0);
	}
	return finished;
}

/* Removes the rows and the entries in shared memory of parts that no longer exist. */
static void
remove_finished(RfSession *session, Oid serverid, Oid userid, int64 preparing)
{
	RfDecision *decisions;
	RfUnresolved *unresolved;
	int			decision_count = rf_decision_read(&decisions);
	int			unresolved_count = rf_commit_list(&unresolved);
	const char **done = palloc(sizeof(char *) * (decision_count + 1));
	int			done_count = 0;
	char	  **there;
	int			there_count;
	RfGid		gid;

	/* a part that no backend works on, and that is then prepared nowhere, is finished */
	for (int i = 0; i < decision_count; i++)
	{
		if (decisions[i].serverid != serverid || decisions[i].userid != userid ||
			!rf_gid_parse(decisions[i].gid, &gid) || rf_commit_is_active(&gid))
			continue;
		if (decisions[i].node == session->node.cluster)
			done[done_count++] = decisions[i].gid;
		else
			note_problem(session, decisions[i].node, decisions[i].gid, true, decisions[i].decided,
						 "the server leads to another node now");
	}
	there_count = prepared_there(session, false, &there);
	for (int i = 0; i < unresolved_count; i++)
	{
		if (unresolved[i].serverid == serverid && unresolved[i].userid == userid &&
			!unresolved[i].commit && unresolved[i].gid[0] != '\0' &&
			!began_before(preparing, unresolved[i].since) &&
			!is_listed(there, there_count, unresolved[i].gid))
			rf_commit_resolved(unresolved[i].gid);
	}
	for (int i = 0; i < done_count;)
	{
		if (is_listed(there, there_count, done[i]))
		{
			RfDecision *decision = (RfDecision *) (done[i] - offsetof(RfDecision, gid));

			note_problem(session, session->node.cluster, done[i], true, decision->decided,
						 "another role or database of the node has it prepared");
			done[i] = done[--done_count];
		}
		else
			rf_commit_resolved(done[i++]);
	}
	rf_step("recover_delete", 0);
	rf_decision_delete(done, done_count);
	rf_step("recover_deleted", 0);
}

int
rf_recover_node(RfSession *session, Oid serverid, Oid userid)
{
	int64		preparing = oldest_preparing(session);
	int			finished = finish_prepared(session);

	remove_finished(session, serverid, userid, preparing);
	if (began_before(preparing, rf_commit_life_start()))
		note_problem(session, session->node.cluster, "", false, GetCurrentTimestamp(),
					 "a session there may still prepare a transaction of before the last start");
	else
		rf_commit_asked(serverid, userid, false);
	return finished;
}

void
rf_recover_gone(Oid serverid, Oid userid)
{
	RfDecision *decisions;
	int			count = rf_decision_read(&decisions);
	const char **gone = palloc(sizeof(char *) * (count + 1));
	int			gone_count = 0;

	for (int i = 0; i < count; i++)
	{
		RfGid		gid;

		if (decisions[i].serverid == serverid && decisions[i].userid == userid &&
			rf_gid_parse(decisions[i].gid, &gid) && !rf_commit_is_active(&gid))
			gone[gone_count++] = decisions[i].gid;
	}
	rf_decision_delete(gone, gone_count);
	rf_commit_asked(serverid, userid, true);
}

/* ---------- parts in doubt ---------- */

/*
 * Known parts that are decided and not finished: parts that backends and the resolver noted, and
 * rows of earlier lives, which were not examined yet. `busy`: also parts of transactions that are
 * committing.
 */
static int
list_in_doubt(RfUnresolved **list, bool busy)
{
	int			count = rf_commit_list(list);
	int			noted = count;
	RfDecision *decisions;
	int			decision_count;

	if (!rf_commit_available() || !OidIsValid(rf_decision_table()))
		return count;
	decision_count = rf_decision_read(&decisions);
	*list = repalloc(*list, sizeof(RfUnresolved) * (count + decision_count + 1));
	for (int i = 0; i < decision_count; i++)
	{
		RfUnresolved *part = &(*list)[count];
		RfGid		gid;
		bool		known = false;

		for (int k = 0; k < noted && !known; k++)
			known = strcmp((*list)[k].gid, decisions[i].gid) == 0;
		if (known || !rf_gid_parse(decisions[i].gid, &gid) ||
			(gid.life == rf_commit_life() && !(busy && rf_commit_is_active(&gid))))
			continue;
		memset(part, 0, sizeof(*part));
		part->database = MyDatabaseId;
		part->serverid = decisions[i].serverid;
		part->userid = decisions[i].userid;
		part->node = decisions[i].node;
		part->commit = true;
		part->since = decisions[i].decided;
		strlcpy(part->gid, decisions[i].gid, sizeof(part->gid));
		count++;
	}
	return count;
}

int
rf_commit_in_doubt(void)
{
	RfUnresolved *parts;

	return list_in_doubt(&parts, false);
}

/* rdma.transactions: the parts on nodes that are not finished, as far as they are known here. */
Datum
rdma_transactions(PG_FUNCTION_ARGS)
{
	RfRow		row = RF_ROW(fcinfo);
	RfUnresolved *parts;
	int			count = list_in_doubt(&parts, false);

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < count; i++)
	{
		ForeignServer *server = GetForeignServerExtended(parts[i].serverid, FSV_MISSING_OK);
		bool		named = parts[i].gid[0] != '\0';

		rf_put_text(&row, parts[i].gid);
		rf_put_text(&row, server ? server->servername : NULL);
		rf_put_text(&row, GetUserNameFromId(parts[i].userid, true));
		rf_put_text(&row, !named ? NULL : parts[i].commit ? "commit" : "rollback");
		rf_put(&row, TimestampTzGetDatum(parts[i].since));
		rf_put_text(&row, parts[i].problem);
		rf_end_row(&row);
	}
	return (Datum) 0;
}

/* Forgets the parts in doubt on a server. Returns their number. */
static int
forget(Oid serverid)
{
	RfUnresolved *parts;
	int			count = list_in_doubt(&parts, false);
	const char **gids = palloc(sizeof(char *) * (count + 1));
	int			forgotten = 0;

	for (int i = 0; i < count; i++)
	{
		if (parts[i].serverid != serverid)
			continue;
		rf_commit_asked(serverid, parts[i].userid, true);
		if (parts[i].gid[0] != '\0')
			gids[forgotten++] = parts[i].gid;
	}
	rf_decision_delete(gids, forgotten);
	return forgotten;
}

/*
 * rdma.resolve(server, forget): finishes the parts of transactions on this node now, in the
 * caller's session with it, or forgets them.
 */
Datum
rdma_resolve(PG_FUNCTION_ARGS)
{
	ForeignServer *server = GetForeignServerByName(NameStr(*PG_GETARG_NAME(0)), false);
	AclResult	allowed = rf_server_aclcheck(server->serverid, GetUserId(), ACL_USAGE);
	RfSession  *session;

	if (allowed != ACLCHECK_OK)
		aclcheck_error(allowed, OBJECT_FOREIGN_SERVER, server->servername);
	if (!rf_is_node(server))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("server \"%s\" is not a node of rdma_fdw", server->servername)));
	if (!rf_commit_available() || !OidIsValid(rf_decision_table()))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("transactions do not commit on several nodes atomically here"),
				 errhint("Add rdma_fdw to shared_preload_libraries, and run ALTER EXTENSION "
						 "rdma_fdw UPDATE.")));
	if (!rf_decision_lock())
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("another session is finishing transactions now"),
				 errhint("Try again in some seconds.")));
	if (PG_GETARG_BOOL(1))
		PG_RETURN_INT32(forget(server->serverid));

	session = rf_session_get(rf_user_mapping(GetUserId(), server->serverid), false);
	if (rf_session_in_transaction(session))
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("rdma.resolve cannot run in a transaction that has used server \"%s\"",
						server->servername)));
	PG_RETURN_INT32(rf_recover_node(session, server->serverid, GetUserId()));
}

/* ---------- servers, mappings, and the table, that are still needed ---------- */

static void
refuse_drop(const RfUnresolved *part, const char *what)
{
	ForeignServer *server = GetForeignServerExtended(part->serverid, FSV_MISSING_OK);
	char	   *name = server ? server->servername : "?";

	ereport(ERROR,
			(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
			 errmsg("cannot drop %s while a transaction is to be finished on server \"%s\"", what,
					name),
			 errdetail("It is prepared there as \"%s\".", part->gid),
			 errhint("It is finished as soon as the server can be reached; see rdma.transactions. "
					 "If it never can: SELECT rdma.resolve(%s, true).", quote_literal_cstr(name))));
}

/*
 * Refuses to drop the extension, a server or a user mapping while a part of a transaction on a node
 * needs it to be finished.
 */
static void
check_drop(Oid class_id, Oid object_id)
{
	RfUnresolved *parts;
	int			count;
	Oid			serverid = InvalidOid;
	Oid			userid = InvalidOid;
	const char *what = "the extension";

	if (class_id == ForeignServerRelationId)
	{
		serverid = object_id;
		what = "the server";
	}
	else if (class_id == UserMappingRelationId)
	{
		HeapTuple	tuple = SearchSysCache1(USERMAPPINGOID, ObjectIdGetDatum(object_id));

		if (!HeapTupleIsValid(tuple))
			return;
		serverid = ((Form_pg_user_mapping) GETSTRUCT(tuple))->umserver;
		userid = ((Form_pg_user_mapping) GETSTRUCT(tuple))->umuser;
		ReleaseSysCache(tuple);
		what = "the user mapping";
	}

	/* a mapping for PUBLIC may serve any of them */
	count = list_in_doubt(&parts, true);
	for (int i = 0; i < count; i++)
	{
		if (parts[i].gid[0] != '\0' && (!OidIsValid(serverid) || parts[i].serverid == serverid) &&
			(!OidIsValid(userid) || parts[i].userid == userid))
			refuse_drop(&parts[i], what);
	}
}

/* A database takes its table along, and then nobody can finish the parts that it left. */
static void
check_drop_database(Oid database)
{
	if (rf_commit_is_unresolved(database))
		ereport(ERROR,
				(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
				 errmsg("cannot drop the database while its transactions are to be finished on "
						"other servers"),
				 errhint("Its view rdma.transactions shows them. They are finished as soon as "
						 "the servers can be reached. "
						 "If one never can: SELECT rdma.resolve('name of the server', true), in "
						 "that database.")));
}

void
rf_commit_object_access(ObjectAccessType access, Oid class_id, Oid object_id)
{
	if (access != OAT_DROP || !rf_commit_available())
		return;
	if (class_id == DatabaseRelationId)
		check_drop_database(object_id);
	if (class_id == ForeignServerRelationId || class_id == UserMappingRelationId ||
		(class_id == RelationRelationId && object_id == rf_decision_table()))
		check_drop(class_id, object_id);
}
