/*
 * partial_agg.c
 * 		The aggregates whose transition states a data node can supply, and the text that requests
 * 		them.
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/pathnode.h"
#include "parser/parse_coerce.h"
#include "parser/parse_func.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "rdma_fdw/batch.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/remote.h"

#include "deparse.h"

/*
 * *deserialfn is the function that the bytes of an internal state go through, else InvalidOid.
 */
static bool
result_is_state(Oid aggfnoid, Oid *deserialfn)
{
	HeapTuple	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggfnoid));
	Form_pg_aggregate form;
	bool		result;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for aggregate %u", aggfnoid);
	form = (Form_pg_aggregate) GETSTRUCT(tuple);
	result = !OidIsValid(form->aggfinalfn) && form->aggtranstype != INTERNALOID;
	*deserialfn = form->aggdeserialfn;
	ReleaseSysCache(tuple);
	return result;
}

/* Returns true for min() or max(), or aggregates like them. */
static bool
has_sort_operator(Oid aggfnoid)
{
	HeapTuple	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggfnoid));
	bool		result;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for aggregate %u", aggfnoid);
	result = OidIsValid(((Form_pg_aggregate) GETSTRUCT(tuple))->aggsortop);
	ReleaseSysCache(tuple);
	return result;
}

/* The user whose rights the scan will have; core has checked that all tables below agree. */
static Oid
user_of(PlannerInfo *root, RfRelInfo *info)
{
	int			relid = -1;

	while ((relid = bms_next_member(info->upper.scanrel->relids, relid)) >= 0)
	{
		RelOptInfo *base = root->simple_rel_array[relid];

		if (base != NULL)		/* 16 counts outer joins among them */
			return rf_rel_userid(base);
	}
	elog(ERROR, "an aggregate over no foreign table");
}

/* Returns true if the data node has our major version. Needs a user mapping. */
static bool
version_is_ours(Oid userid, Oid serverid)
{
	RfSession  *session;

	if (!OidIsValid(rf_mapping_id(userid, serverid)))
		return false;
	session = rf_session_get(rf_user_mapping(userid, serverid), false);
	return rf_session_server_version(session) / 10000 == PG_VERSION_NUM / 10000;
}

/*
 * Planning queries data nodes only for this, apart from estimates; it uses the connections that the
 * query will need anyway.
 */
static bool
states_are_ours(PlannerInfo *root, RfRelInfo *info)
{
	List	   *servers = info->nodes != NIL ? info->members :
		list_make1_oid(info->server->serverid);
	Oid			userid;
	ListCell   *lc;

	if (info->upper.states != RF_STATES_UNKNOWN)
		return info->upper.states == RF_STATES_OURS;
	userid = user_of(root, info);
	info->upper.states = RF_STATES_OURS;
	foreach(lc, servers)
	{
		if (!version_is_ours(userid, lfirst_oid(lc)))
			info->upper.states = RF_STATES_FOREIGN;
	}
	return info->upper.states == RF_STATES_OURS;
}

bool
rf_partial_agg_is_shippable(PlannerInfo *root, RfRelInfo *info, Aggref *agg)
{
	Oid			deserialfn;

	if (agg->aggsplit != AGGSPLIT_INITIAL_SERIAL || agg->aggdistinct != NIL ||
		agg->aggorder != NIL || AGGKIND_IS_ORDERED_SET(agg->aggkind))
		return false;
	if (result_is_state(agg->aggfnoid, &deserialfn))
		return true;
	if (agg->aggtranstype == INTERNALOID && rf_state_image(deserialfn) == NULL)
		return false;
	return states_are_ours(root, info);
}

/*
 * The columns may have other types on the node, whose aggregates have other states and other
 * orders. The node's parser drops a cast to the type that they have. min() and max() of numbers
 * need no cast: all types of numbers have one order, and a node finds them by an index on a column
 * of its type.
 */
static void
cast_arguments(Aggref *agg)
{
	Oid		   *declared;
	int			count;
	bool		ordered = has_sort_operator(agg->aggfnoid);
	ListCell   *lc;

	(void) get_func_signature(agg->aggfnoid, &declared, &count);
	foreach(lc, agg->args)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);
		int			place = foreach_current_index(lc);
		Node	   *arg = (Node *) tle->expr;
		Oid			type = exprType(arg);

		/* no aggregate of "any" reads its values, and the node may not have all types of ours */
		if (IsA(arg, Const) || place >= count || declared[place] == ANYOID ||
			(ordered && TypeCategory(type) == TYPCATEGORY_NUMERIC) ||
			(IsPolymorphicType(declared[place]) && type >= FirstGenbkiObjectId))
			continue;
		tle->expr = (Expr *) makeRelabelType((Expr *) arg, type, -1, exprCollation(arg),
											 COERCE_EXPLICIT_CAST);
	}
	pfree(declared);
}

Expr *
rf_partial_agg_expr(Aggref *agg)
{
	Aggref	   *whole = copyObject(agg);
	Oid			deserialfn;
	Oid			types[2] = {ANYOID, ANYELEMENTOID};
	Oid			marker;
	Expr	   *type;

	whole->aggsplit = AGGSPLIT_SIMPLE;
	cast_arguments(whole);
	if (result_is_state(agg->aggfnoid, &deserialfn))
		return (Expr *) whole;

	/*
	 * the result's type does not matter: nothing examines it before the data node parses the text
	 */
	marker = LookupFuncName(list_make2(makeString("rdma_internal"), makeString("partialize")), 2,
							types,
							false);
	type = (Expr *) makeNullConst(agg->aggtype, -1, agg->aggcollid);
	return (Expr *) makeFuncExpr(marker, agg->aggtype, list_make2(whole, type), agg->aggcollid,
								 agg->inputcollid, COERCE_EXPLICIT_CALL);
}

Oid
rf_state_deserialfn(Expr *expr)
{
	Aggref	   *agg = (Aggref *) expr;
	Oid			deserialfn;

	if (!IsA(agg, Aggref) || agg->aggsplit != AGGSPLIT_INITIAL_SERIAL ||
		agg->aggtranstype != INTERNALOID)
		return InvalidOid;
	(void) result_is_state(agg->aggfnoid, &deserialfn);
	return deserialfn;
}
