/*
 * permit.c - may this reader be sent rows as they are stored?
 *
 * A page has more than the query asked for: other columns, and rows that are gone, are not visible
 * or did not pass a filter. So no reader gets one unless an administrator of this node has allowed
 * it twice: for the role that logs in (rdma_fdw.allow_page_shipping, which only a superuser can
 * set, as by ALTER ROLE ... SET) and for the table (a security label of provider rdma_fdw, which
 * only a superuser can give). Both are PostgreSQL's own records: they go with their role and their
 * table, and are dumped with them.
 *
 * Beyond that the role could read the whole table anyway: it has SELECT on all of it, there is no
 * row security, nobody has labelled the table or a column otherwise (as extensions that mask
 * columns do), and the statement reads the table itself, not a view or a parent, with the rights of
 * the role that logged in.
 *
 * Does: answer, for each execution anew. Does not: know which bytes are sent.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "catalog/pg_class.h"
#include "catalog/pg_seclabel.h"
#include "commands/seclabel.h"
#include "miscadmin.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/guc.h"
#include "rdma_fdw/serve.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/rel.h"

#define LABEL_PROVIDER		"rdma_fdw"
#define LABEL_TEXT			"page_shipping"
#define RF_KEYS_LABEL		"foreign_keys "

static bool registered = false;
static bool named = false;		/* the SECURITY LABEL statement that runs says FOR rdma_fdw */

/*
 * Is it the label of a table whose foreign keys wait until the other tables are distributed, too
 * (rdma_internal.note_keys)? The owner gives it. It is an array of JSON.
 */
static bool
is_list_of_keys(const ObjectAddress *object, const char *label)
{
	char		kind;
	Datum		keys;

	if (strncmp(label, RF_KEYS_LABEL, strlen(RF_KEYS_LABEL)) != 0 ||
		object->classId != RelationRelationId || object->objectSubId != 0)
		return false;
	kind = get_rel_relkind(object->objectId);
	keys = DirectFunctionCall1(jsonb_in, CStringGetDatum(label + strlen(RF_KEYS_LABEL)));
	return (kind == RELKIND_RELATION || kind == RELKIND_PARTITIONED_TABLE ||
			kind == RELKIND_FOREIGN_TABLE) && JB_ROOT_IS_ARRAY(DatumGetJsonbP(keys)) &&
		!JB_ROOT_IS_SCALAR(DatumGetJsonbP(keys));
}

/* What core calls before it stores a label of this provider; NULL: it is taken away. */
static void
check_label(const ObjectAddress *object, const char *label)
{
	if (!named)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("no security label providers have been loaded")));
	/* The owner may take it away. */
	if (label == NULL)
		return;
	if (is_list_of_keys(object, label))
		return;
	if (object->classId != RelationRelationId || object->objectSubId != 0 ||
		get_rel_relkind(object->objectId) != RELKIND_RELATION)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("rdma_fdw labels ordinary tables only")));
	if (strcmp(label, LABEL_TEXT) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid security label \"%s\" for rdma_fdw", label),
				 errhint("The only label is \"%s\".", LABEL_TEXT)));
	if (!superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to let pages of table \"%s\" be shipped",
						get_rel_name(object->objectId)),
				 errdetail("Only a superuser may do that: readers get bytes that their query did "
						   "not ask for.")));
}

/*
 * SECURITY LABEL without FOR means the only provider that is loaded, and fails when there are
 * several. To keep its meaning without us, our provider exists only from the session's first
 * statement that names it, and for such statements only.
 */
void
rf_permit_label(Node *statement)
{
	const char *provider;

	if (!IsA(statement, SecLabelStmt))
		return;
	provider = castNode(SecLabelStmt, statement)->provider;
	named = provider != NULL && strcmp(provider, LABEL_PROVIDER) == 0;
	if (named && !registered)
	{
		register_label_provider(LABEL_PROVIDER, check_label);
		registered = true;
	}
}

/*
 * Returns true if the table has our label, and neither it nor its columns have a label of another
 * provider.
 */
static bool
is_labelled(Oid relid)
{
	bool		ours = false;
	bool		others = false;
	Relation	labels = table_open(SecLabelRelationId, AccessShareLock);
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&keys[0], Anum_pg_seclabel_objoid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	ScanKeyInit(&keys[1], Anum_pg_seclabel_classoid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(RelationRelationId));
	scan = systable_beginscan(labels, SecLabelObjectIndexId, true, NULL, 2, keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		bool		isnull;
		Datum		provider = heap_getattr(tuple, Anum_pg_seclabel_provider,
											RelationGetDescr(labels), &isnull);
		Datum		label = heap_getattr(tuple, Anum_pg_seclabel_label, RelationGetDescr(labels),
										 &isnull);

		if (strcmp(TextDatumGetCString(provider), LABEL_PROVIDER) == 0)
			ours |= strcmp(TextDatumGetCString(label), LABEL_TEXT) == 0;
		else
			others = true;
	}
	systable_endscan(scan);
	table_close(labels, AccessShareLock);
	return ours && !others;
}

bool
rf_may_ship_pages(const PlannedStmt *statement, Relation table)
{
	Oid			relid = RelationGetRelid(table);
	ListCell   *lc;

	if (!rf_allow_page_shipping)
		return false;

	/*
	 * Not within a SECURITY DEFINER function nor after SET ROLE: the setting belongs to the role
	 * that logged in.
	 */
	if (GetUserId() != GetSessionUserId() || InSecurityRestrictedOperation())
		return false;
	if (table->rd_rel->relkind != RELKIND_RELATION ||
		table->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT ||
		table->rd_rel->relrowsecurity || relid < FirstNormalObjectId ||
		RelationUsesLocalBuffers(table))
		return false;
	foreach(lc, statement->rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);

		/* A view leaves an entry of its own, as does a table with children. */
		if (OidIsValid(rte->relid) && rte->relid != relid)
			return false;
		if (rte->securityQuals != NIL || rte->security_barrier)
			return false;
	}
	if (pg_class_aclcheck(relid, GetUserId(), ACL_SELECT) != ACLCHECK_OK)
		return false;
	return is_labelled(relid);
}
