/*
 * placement.c - reads the records of servers with nodes, and compares them with what the nodes'
 * databases report.
 *
 * The table rdma.placement has a row for each server with nodes: the servers that it stands for, by
 * numbers that never change, and the identity that the database of each was given
 * (rdma.enroll_nodes). A database has its side of it in rdma.membership. Both are compared once for
 * each session: a wrong host, exchanged names, or a copy of a node must never be read as the node.
 *
 * Does: read. Does not: write, which the event trigger and functions of the extension do, in SQL,
 * and timeline.c.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_type.h"
#include "foreign/foreign.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/uuid.h"

#include "rdma_fdw/remote.h"
#include "placement.h"

/*
 * All records, read at the first use. The table's triggers invalidate the catalog of foreign
 * servers when it changes, so an invalidation of that discards them.
 */
static MemoryContext cache = NULL;
static List *cached = NIL;		/* of RfPlacementRecord */
static bool cache_valid = false;
static uint64 generation = 1;

static bool some_bind_users = false;	/* a record binds only the users of its server */
static List *used = NIL;		/* the records that the transaction uses, in its memory */

static void
forget(Datum arg, int cacheid, uint32 hashvalue)
{
	cache_valid = false;
	generation++;
}

static Datum
column(HeapTuple tuple, TupleDesc desc, int attnum)
{
	bool		isnull;
	Datum		value = heap_getattr(tuple, attnum, desc, &isnull);

	if (isnull)
		elog(ERROR, "column %d of rdma.placement is NULL", attnum);
	return value;
}

static char *
uuid_text(Datum uuid)
{
	return DatumGetCString(DirectFunctionCall1(uuid_out, uuid));
}

/* An administrator may have written into the table. */
static void
read_buckets(RfPlacementRecord *record, ArrayType *array)
{
	Datum	   *values;

	deconstruct_array(array, INT2OID, sizeof(int16), true, TYPALIGN_SHORT, &values, NULL,
					  &record->bucket_count);
	if (record->bucket_count == 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("rdma.placement has no buckets for server \"%s\"", record->server)));
	record->buckets = palloc_array(uint16, record->bucket_count);
	for (int i = 0; i < record->bucket_count; i++)
	{
		int16		number = DatumGetInt16(values[i]);

		if (number < 0 || number >= record->node_count)
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("rdma.placement has bucket %d of server \"%s\" on node %d", i,
							record->server, number),
					 errdetail("The server has %d nodes.", record->node_count)));
		record->buckets[i] = number;
	}
}

/* Whose record is it? */
static void
find_owners(RfPlacementRecord *record)
{
	ForeignServer *server = GetForeignServerByName(record->server, true);

	record->serverid = server != NULL && rf_option_find(server->options, "nodes") != NULL ?
		server->serverid :
		InvalidOid;
	record->binds_all = palloc0_array(bool, record->node_count);
	for (int i = 0; i < record->node_count && OidIsValid(record->serverid); i++)
	{
		ForeignServer *node = GetForeignServerByName(record->nodes[i], true);

		record->binds_all[i] = node != NULL && has_privs_of_role(server->owner, node->owner);
		some_bind_users |= node != NULL && !record->binds_all[i];
	}
}

/* The row of a server in the table of placements, in the current memory context. */
static RfPlacementRecord *
read_record(HeapTuple tuple, TupleDesc desc)
{
	RfPlacementRecord *record = palloc0(sizeof(RfPlacementRecord));
	ArrayType  *nodes = DatumGetArrayTypeP(column(tuple, desc, PLACEMENT_NODES));
	ArrayType  *members = DatumGetArrayTypeP(column(tuple, desc, PLACEMENT_MEMBERS));
	ArrayType  *versions = DatumGetArrayTypeP(column(tuple, desc, PLACEMENT_VERSIONS));
	ArrayType  *timelines = DatumGetArrayTypeP(column(tuple, desc, PLACEMENT_TIMELINES));
	Datum	   *values;
	bool	   *isnull;
	int			count;

	record->server = pstrdup(NameStr(*DatumGetName(column(tuple, desc, PLACEMENT_SERVER))));
	record->set_id = uuid_text(column(tuple, desc, PLACEMENT_SET_ID));
	record->version = psprintf(INT64_FORMAT, DatumGetInt64(column(tuple, desc, PLACEMENT_VERSION)));
	deconstruct_array(nodes, NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR, &values, NULL,
					  &record->node_count);
	record->nodes = palloc_array(char *, record->node_count);
	for (int i = 0; i < record->node_count; i++)
		record->nodes[i] = pstrdup(NameStr(*DatumGetName(values[i])));
	deconstruct_array(members, UUIDOID, UUID_LEN, false, TYPALIGN_CHAR, &values, &isnull, &count);
	record->members = palloc0_array(char *, record->node_count);
	for (int i = 0; i < record->node_count && i < count; i++)
		record->members[i] = isnull[i] ? NULL : uuid_text(values[i]);
	deconstruct_array(versions, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE, &values,
					  &isnull, &count);
	record->versions = palloc_array(char *, record->node_count);
	for (int i = 0; i < record->node_count; i++)
		record->versions[i] = i < count && !isnull[i] ?
			psprintf(INT64_FORMAT, DatumGetInt64(values[i])) :
			record->version;
	deconstruct_array(timelines, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE, &values,
					  &isnull, &count);
	record->timelines = palloc_array(int64, record->node_count);
	for (int i = 0; i < record->node_count; i++)
		record->timelines[i] = i < count && !isnull[i] ? DatumGetInt64(values[i]) : 0;
	read_buckets(record, DatumGetArrayTypeP(column(tuple, desc, PLACEMENT_BUCKETS)));
	find_owners(record);
	return record;
}

Oid
rf_placement_table(void)
{
	Oid			schema = get_namespace_oid("rdma", true);

	return OidIsValid(schema) ? get_relname_relid("placement", schema) : InvalidOid;
}

/*
 * Reads all rows of that table into the cache. Without the table, as before the extension is
 * created, the cache stays empty.
 */
static void
read_records(void)
{
	Oid			relid = rf_placement_table();
	Relation	rel;
	SysScanDesc scan;
	HeapTuple	tuple;

	if (!OidIsValid(relid))
		return;
	rel = table_open(relid, AccessShareLock);
	scan = systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		MemoryContext caller = MemoryContextSwitchTo(cache);

		cached = lappend(cached, read_record(tuple, RelationGetDescr(rel)));
		MemoryContextSwitchTo(caller);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
}

/* Loads the records. They stay until the next call of a function that may handle invalidations. */
static List *
records(void)
{
	if (cache == NULL)
	{
		cache = AllocSetContextCreate(CacheMemoryContext, "rdma_fdw placement",
									  ALLOCSET_SMALL_SIZES);
		CacheRegisterSyscacheCallback(FOREIGNSERVEROID, forget, (Datum) 0);
	}
	while (!cache_valid)
	{
		cached = NIL;
		some_bind_users = false;
		MemoryContextReset(cache);
		/* an invalidation during the reading makes the loop run again */
		cache_valid = true;
		PG_TRY();
		{
			read_records();
		}
		PG_CATCH();
		{
			cache_valid = false;
			PG_RE_THROW();
		}
		PG_END_TRY();
	}
	return cached;
}

/* A copy of the record with all that it points to, in the current memory context. */
static RfPlacementRecord *
copy_record(const RfPlacementRecord *record)
{
	RfPlacementRecord *copy = palloc(sizeof(RfPlacementRecord));

	*copy = *record;
	copy->server = pstrdup(record->server);
	copy->set_id = pstrdup(record->set_id);
	copy->version = pstrdup(record->version);
	copy->nodes = palloc_array(char *, record->node_count);
	copy->members = palloc_array(char *, record->node_count);
	copy->versions = palloc_array(char *, record->node_count);
	copy->timelines = palloc_array(int64, record->node_count);
	memcpy(copy->timelines, record->timelines, record->node_count * sizeof(int64));
	copy->binds_all = palloc_array(bool, record->node_count);
	memcpy(copy->binds_all, record->binds_all, record->node_count * sizeof(bool));
	for (int i = 0; i < record->node_count; i++)
	{
		copy->nodes[i] = pstrdup(record->nodes[i]);
		copy->members[i] = record->members[i] != NULL ? pstrdup(record->members[i]) : NULL;
		copy->versions[i] = pstrdup(record->versions[i]);
	}
	copy->buckets = palloc_array(uint16, record->bucket_count);
	memcpy(copy->buckets, record->buckets, record->bucket_count * sizeof(uint16));
	return copy;
}

RfPlacementRecord *
rf_placement_find(const char *server)
{
	ListCell   *lc;

	foreach(lc, records())
	{
		if (strcmp(((RfPlacementRecord *) lfirst(lc))->server, server) == 0)
			return copy_record(lfirst(lc));
	}
	return NULL;
}

uint64
rf_placement_generation(void)
{
	(void) records();
	return generation;
}

void
rf_placement_invalidate(void)
{
	Relation	servers = table_open(ForeignServerRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(servers, InvalidOid, false, NULL, 0, NULL);
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Oid			serverid = ((Form_pg_foreign_server) GETSTRUCT(tuple))->oid;

		/* not those of the nodes' own servers: their sessions remain valid */
		if (rf_option_find(GetForeignServer(serverid)->options, "nodes") != NULL)
			CacheInvalidateHeapTuple(servers, tuple, NULL);
	}
	systable_endscan(scan);
	table_close(servers, AccessShareLock);
}

/* ---------- identities of nodes ---------- */

bool
rf_placement_may_use(void)
{
	(void) records();
	return some_bind_users;
}

static void
forget_used(void *arg)
{
	used = NIL;
	generation++;
}

void
rf_placement_use(Oid serverid)
{
	MemoryContextCallback *gone;
	MemoryContext caller;
	bool		known = false;
	ListCell   *lc;

	if (!rf_placement_may_use() || list_member_oid(used, serverid))
		return;
	foreach(lc, records())
		known |= ((RfPlacementRecord *) lfirst(lc))->serverid == serverid;
	if (!known)
		return;
	caller = MemoryContextSwitchTo(TopTransactionContext);
	if (used == NIL)
	{
		gone = palloc0(sizeof(MemoryContextCallback));
		gone->func = forget_used;
		MemoryContextRegisterResetCallback(TopTransactionContext, gone);
	}
	used = lappend_oid(used, serverid);
	MemoryContextSwitchTo(caller);
	generation++;
}

/*
 * The sets that the node of this name is a part of: RfPlacementPart, in the current memory context.
 */
List *
rf_placement_parts(const char *node)
{
	List	   *parts = NIL;
	ListCell   *lc;

	foreach(lc, records())
	{
		const RfPlacementRecord *record = lfirst(lc);
		bool		in_use = list_member_oid(used, record->serverid);

		for (int i = 0; i < record->node_count && OidIsValid(record->serverid); i++)
		{
			RfPlacementPart *part;

			if (record->members[i] == NULL || strcmp(record->nodes[i], node) != 0 ||
				!(record->binds_all[i] || in_use))
				continue;
			part = palloc(sizeof(RfPlacementPart));
			part->record = copy_record(record);
			part->number = i;
			parts = lappend(parts, part);
		}
	}
	return parts;
}

char *
rf_placement_question(List *parts)
{
	StringInfoData buf;
	ListCell   *lc;

	initStringInfo(&buf);
	foreach(lc, parts)
		appendStringInfo(&buf, "%s%s",
						 buf.len == 0 ? ", (SELECT rdma_internal.memberships('{" : ",",
						 ((RfPlacementPart *) lfirst(lc))->record->set_id);
	if (parts != NIL)
		appendStringInfoString(&buf, "}'))");
	return buf.data;
}

/* hint: NULL for the usual one, that another database may have taken the node's place */
__attribute__((noreturn)) static void
complain_of_node(const RfPlacementPart *part, const char *detail, const char *hint)
{
	const char *node = part->record->nodes[part->number];
	const char *server = part->record->server;

	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("server \"%s\" does not lead to the node of server \"%s\" that it stands for",
					node, server),
			 errdetail_internal("%s", detail),
			 hint != NULL ?
			 errhint("%s", hint) :
			 errhint("Correct the options of server \"%s\". If this database has taken the "
					 "node's place, with all of its rows, "
					 "let the owner of server \"%s\" run: SELECT rdma.replace_node(%s, %s)",
					 node, server, quote_literal_cstr(server),
					 quote_literal_cstr(node))));
}

/*
 * An answer has a line for each set that the database is in: set, number, version, its UUID,
 * whether it is the database that was given it ("t") or a copy ("f"), and its timeline. False: it
 * is not in this one.
 */
enum
{
	SAID_NUMBER, SAID_VERSION, SAID_MEMBER, SAID_ORIGINAL, SAID_TIMELINE, SAID_WORDS
};

static bool
find_part(const RfPlacementPart *part, const char *answer, char *words[SAID_WORDS])
{
	char	   *rest = pstrdup(answer != NULL ? answer : "");
	char	   *line;
	size_t		length = strlen(part->record->set_id);

	while ((line = strsep(&rest, "\n")) != NULL)
	{
		if (strncmp(line, part->record->set_id, length) == 0 && line[length] == ' ')
			break;
	}
	if (line == NULL)
		return false;
	(void) strsep(&line, " ");
	for (int i = 0; i < SAID_WORDS; i++)
	{
		char	   *word = strsep(&line, " ");

		words[i] = word != NULL ? word : "";
	}
	return true;
}

int64
rf_placement_timeline(const RfPlacementPart *part, const char *answer)
{
	char	   *words[SAID_WORDS];

	if (!find_part(part, answer, words))
		return 0;
	return strtoul(words[SAID_TIMELINE], NULL, 10) & PG_UINT32_MAX;
}

bool
rf_placement_is_later(List *parts, const char *answer)
{
	ListCell   *lc;

	foreach(lc, parts)
	{
		const RfPlacementPart *part = lfirst(lc);

		if (rf_placement_timeline(part, answer) > Max(part->record->timelines[part->number], 1))
			return true;
	}
	return false;
}

static bool
is_outdated(const RfPlacementPart *part, const char *answer)
{
	return rf_placement_timeline(part, answer) < part->record->timelines[part->number];
}

void
rf_placement_check(List *parts, const char *answer)
{
	ListCell   *lc;

	foreach(lc, parts)
	{
		const RfPlacementPart *part = lfirst(lc);
		char	   *words[SAID_WORDS];
		char	   *detail = NULL;
		char	   *hint = NULL;

		if (!find_part(part, answer, words))
			detail = "The database there is no node of that server.";
		else if (atoi(words[SAID_NUMBER]) != part->number)
		{
			detail = psprintf("The database there is node %s of that server, not node %d.",
							  words[SAID_NUMBER], part->number);
			hint = psprintf("Correct the options of server \"%s\".",
							part->record->nodes[part->number]);
		}
		else if (strcmp(words[SAID_MEMBER], part->record->members[part->number]) != 0)
			detail = psprintf("The database there was node %d of that server before another one "
							  "took its place.",
							  part->number);
		else if (strcmp(words[SAID_ORIGINAL], "t") != 0)
			detail = psprintf("The database there is a copy of node %d: it was restored or cloned "
							  "from it.",
							  part->number);
		else if (is_outdated(part, answer))
		{
			const char *server = part->record->server;
			const char *node = part->record->nodes[part->number];
			int64		timeline = rf_placement_timeline(part, answer);

			detail = psprintf("The database there is on timeline " INT64_FORMAT
							  ", and node %d has been on timeline " INT64_FORMAT
							  " since: a standby was promoted in its place.",
							  timeline, part->number,
							  part->record->timelines[part->number]);
			hint = psprintf("Stop that server, or make it a standby of the promoted one with "
							"pg_rewind. If the node shall go on there, without what was committed "
							"on the later timeline, let the owner of server \"%s\" run: "
							"SELECT rdma.replace_node(%s, %s)",
							server, quote_literal_cstr(server), quote_literal_cstr(node));
		}
		if (detail != NULL)
			complain_of_node(part, detail, hint);
	}
}

const char *
rf_placement_version(const RfPlacementPart *part, const char *answer)
{
	char	   *words[SAID_WORDS];

	return find_part(part, answer, words) ? words[SAID_VERSION] : NULL;
}

RfPlacementPart *
rf_placement_differs(List *parts, const char *answer, char **there)
{
	ListCell   *lc;

	foreach(lc, parts)
	{
		RfPlacementPart *part = lfirst(lc);
		char	   *words[SAID_WORDS] = {"", "", "", "", ""};

		if (find_part(part, answer, words) && !is_outdated(part, answer) &&
			strcmp(words[SAID_VERSION], part->record->versions[part->number]) == 0 &&
			atoi(words[SAID_NUMBER]) == part->number &&
			strcmp(words[SAID_MEMBER], part->record->members[part->number]) == 0)
			continue;
		*there = words[SAID_VERSION];
		return part;
	}
	return NULL;
}

void
rf_placement_complain(const RfPlacementPart *part, const char *there)
{
	const char *node = part->record->nodes[part->number];
	const char *here = part->record->versions[part->number];
	char	   *hint;

	if (strtoll(there, NULL, 10) > strtoll(here, NULL, 10))
		hint = psprintf("If this coordinator was restored from a backup, let the owner of server "
						"\"%s\" run: SELECT rdma.read_placement(%s)",
						part->record->server, quote_literal_cstr(part->record->server));
	else
		hint = psprintf("Rows were moved since the backup of that database: recover it to a later "
						"time. If its rows lie where rdma.buckets(%s) says, let the owner of "
						"server \"%s\" run: SELECT rdma.replace_node(%s, %s)",
						quote_literal_cstr(part->record->server), part->record->server,
						quote_literal_cstr(part->record->server), quote_literal_cstr(node));
	complain_of_node(
					 part,
					 psprintf("The database there has version %s of the placement, version %s is "
							  "on record here: one of both was restored from a backup.",
							  there, here),
					 hint);
}
