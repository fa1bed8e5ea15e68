/*
 * nodes_placement.c
 *		Placement of the rows of statements that run on several nodes, and how rows are moved.
 *
 * Rows are placed by hash of keys, on every node, or anywhere. A key is known by a list of all
 * expressions that equal it, constants among them. Null-extended expressions are excluded by the
 * join code.
 *
 * Two rows that are equal in the keys are on one node only if all hash functions that were used
 * agree on it. So expressions count as equal by operators of one hash operator family only, the
 * default one of both types: int4 and int8 go together, int4 and numeric do not. A mere cast of
 * another expression is hashed as that, where the cast gives a value that is equal to its argument
 * in such a family (int4 as int8, varchar as text).
 */
#include "postgres.h"

#include "access/hash.h"
#include "access/htup_details.h"
#include "access/nbtree.h"
#include "access/transam.h"
#include "catalog/pg_cast.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_statistic.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/restrictinfo.h"
#include "parser/parsetree.h"
#include "partitioning/partbounds.h"
#include "utils/float.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "rdma_fdw/client.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/guc.h"

#include "fdw/catalog/catalog.h"
#include "fdw/deparse/deparse.h"

#include "plan.h"

/* Statements kept per relation; the most expensive are dropped. */
#define MAX_CHOICES		8

/* Hashes that are looked at for a proof; beyond that two servers count as different. */
#define MAX_PROOF		(1 << 20)

static Oid
hash_family(Expr *expr)
{
	Oid			collation = exprCollation((Node *) expr);
	TypeCacheEntry *type;

	/* equal values may differ in their bytes, and each node defines their equality */
	if (OidIsValid(collation) && !get_collation_isdeterministic(collation))
		return InvalidOid;
	type = lookup_type_cache(exprType((Node *) expr),
							 TYPECACHE_HASH_OPFAMILY | TYPECACHE_HASH_EXTENDED_PROC);
	return OidIsValid(type->hash_extended_proc) ? type->hash_opf : InvalidOid;
}

static bool
is_integer(Oid type)
{
	return type == INT2OID || type == INT4OID || type == INT8OID;
}

/*
 * Returns true for a built-in cast that keeps values equal, if the types have an equality at all.
 * Implicit casts lose nothing; other casts between integers fail where they would.
 */
static bool
keeps_equal(FuncExpr *cast)
{
	Oid			from;
	HeapTuple	tuple;
	bool		result;

	if (list_length(cast->args) != 1 || cast->funcid >= FirstGenbkiObjectId)
		return false;
	from = exprType(linitial(cast->args));
	tuple = SearchSysCache2(CASTSOURCETARGET, ObjectIdGetDatum(from),
							ObjectIdGetDatum(cast->funcresulttype));
	if (!HeapTupleIsValid(tuple))
		return false;
	result = ((Form_pg_cast) GETSTRUCT(tuple))->castfunc == cast->funcid &&
		(((Form_pg_cast) GETSTRUCT(tuple))->castcontext == COERCION_CODE_IMPLICIT ||
		 (is_integer(from) && is_integer(cast->funcresulttype)));
	ReleaseSysCache(tuple);
	return result;
}

/* The expression hashed for it: its argument's, if both have the same notion of equality. */
static Expr *
without_casts(Expr *expr)
{
	for (;;)
	{
		Expr	   *arg;

		if (IsA(expr, RelabelType))
			arg = ((RelabelType *) expr)->arg;
		else if (IsA(expr, FuncExpr) && keeps_equal((FuncExpr *) expr))
			arg = linitial(((FuncExpr *) expr)->args);
		else
			return expr;
		if (!OidIsValid(hash_family(expr)) || hash_family(expr) != hash_family(arg))
			return expr;
		expr = arg;
	}
}

Expr *
rf_hashable_key(Expr *expr, RfRelInfo *info)
{
	expr = without_casts(expr);
	/* enum values hash by their OIDs, which are different everywhere */
	if (!OidIsValid(hash_family(expr)) || !rf_is_shippable_type(exprType((Node *) expr), info))
		return NULL;
	return expr;
}

bool
rf_same_hash(Expr *a, Expr *b)
{
	return a != NULL && b != NULL && OidIsValid(hash_family(a)) && hash_family(a) == hash_family(b);
}

/* The two sides of an equality that hashing respects. */
static bool
hashable_sides(Expr *clause, Expr **left, Expr **right)
{
	OpExpr	   *op = (OpExpr *) clause;
	Oid			family;

	if (!IsA(op, OpExpr) || list_length(op->args) != 2 || op->opretset ||
		(OidIsValid(op->inputcollid) && !get_collation_isdeterministic(op->inputcollid)))
		return false;
	*left = without_casts(linitial(op->args));
	*right = without_casts(lsecond(op->args));
	family = hash_family(*left);
	return OidIsValid(family) && family == hash_family(*right) &&
		get_op_opfamily_strategy(op->opno, family) == HTEqualStrategyNumber;
}

List *
rf_hashable_equalities(List *rinfos, Relids outer, Relids inner)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, rinfos)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);
		RfEquality *equality = palloc(sizeof(RfEquality));

		if (bms_is_empty(rinfo->left_relids) || bms_is_empty(rinfo->right_relids) ||
			!hashable_sides(rinfo->clause, &equality->outer, &equality->inner))
			continue;
		equality->clause = rinfo->clause;
		if (bms_is_subset(rinfo->left_relids, inner) && bms_is_subset(rinfo->right_relids, outer))
		{
			Expr	   *left = equality->outer;

			equality->outer = equality->inner;
			equality->inner = left;
		}
		else if (!bms_is_subset(rinfo->left_relids, outer) ||
				 !bms_is_subset(rinfo->right_relids, inner))
			continue;
		result = lappend(result, equality);
	}
	return result;
}

/* Returns true if it has the same value in all rows of the query. */
static bool
is_fixed(Expr *expr)
{
	return !contain_var_clause((Node *) expr) && !contain_volatile_functions((Node *) expr) &&
		!contain_subplans((Node *) expr) && !contain_agg_clause((Node *) expr);
}

/* "key = 5" among the conditions: 5 is as good as the key. */
List *
rf_key_members(Expr *expr, List *rinfos)
{
	List	   *key = list_make1(expr);
	ListCell   *lc;

	foreach(lc, rinfos)
	{
		Expr	   *left;
		Expr	   *right;

		if (!hashable_sides(lfirst_node(RestrictInfo, lc)->clause, &left, &right))
			continue;
		if (list_member(key, left) && is_fixed(right))
			key = list_append_unique(key, right);
		else if (list_member(key, right) && is_fixed(left))
			key = list_append_unique(key, left);
	}
	return key;
}

void
rf_place_table(PlannerInfo *root, RfRelInfo *info)
{
	RfDistribution *distribution = info->distribution;
	RfFragment *fragment = palloc0(sizeof(RfFragment));

	fragment->choices = palloc0(sizeof(RfChoices));
	fragment->choices->infos = list_make1(info);
	fragment->placement = distribution->placement;
	for (int i = 0; fragment->placement == RF_PLACED_BY_HASH && i < distribution->key_count; i++)
	{
		Oid			type;
		int32		typmod;
		Oid			collation;
		Expr	   *key;

		get_atttypetypmodcoll(info->table->relid, distribution->keys[i], &type, &typmod,
							  &collation);
		key = (Expr *) makeVar(info->rel->relid, distribution->keys[i], type, typmod, collation, 0);
		if (rf_hashable_key(key, info) == NULL)
			fragment->placement = RF_PLACED_ANYWHERE;
		fragment->keys = lappend(fragment->keys, rf_key_members(key, info->remote_conds));
	}
	/* the only node has everything */
	if (list_length(info->nodes) == 1)
		fragment->placement = RF_PLACED_EVERYWHERE;
	if (fragment->placement != RF_PLACED_BY_HASH)
		fragment->keys = NIL;
	if (fragment->placement != RF_PLACED_EVERYWHERE)
		fragment->largest_part = rf_largest_part(info->table->relid, list_length(info->nodes));
	fragment->single_node = rf_has_single_node(fragment);
	info->fragment = fragment;
}

bool
rf_have_same_buckets(const RfRelInfo *a, const RfRelInfo *b)
{
	RfBuckets  *ours;
	RfBuckets  *others;
	int64		hashes;

	if (a->server->serverid == b->server->serverid)
		return true;
	ours = rf_server_buckets(a->server);
	others = rf_server_buckets(b->server);
	/* the least common multiple: then they begin again */
	hashes = ours->count;
	while (hashes % others->count != 0)
		hashes += ours->count;
	if (hashes > MAX_PROOF)
		return false;
	for (uint64 hash = 0; hash < hashes; hash++)
	{
		if (list_nth_oid(a->nodes, rf_bucket_place(ours, hash)) !=
			list_nth_oid(b->nodes, rf_bucket_place(others, hash)))
			return false;
	}
	return true;
}

bool
rf_same_layout(const RfLayout *a, const RfLayout *b)
{
	if (a == b)
		return true;
	if (a == NULL || b == NULL || a->place != b->place || a->serverid != b->serverid)
		return false;
	if (a->place >= 0 || OidIsValid(a->serverid))
		return true;
	if (a->scheme != b->scheme || a->count != b->count ||
		!partition_bounds_equal(a->scheme->partnatts, a->scheme->parttyplen,
								a->scheme->parttypbyval, a->bounds, b->bounds))
		return false;
	for (int i = 0; i < a->count; i++)
	{
		if (a->places[i] != b->places[i] && a->places[i] >= 0 && b->places[i] >= 0)
			return false;
	}
	return true;
}

int
rf_only_place(const RfFragment *fragment)
{
	return fragment->placement == RF_PLACED_BY_HASH && fragment->layout != NULL &&
		!fragment->exchanges ?
		fragment->layout->place :
		-1;
}

List *
rf_only_places(const RfFragment *fragment)
{
	int			place = rf_only_place(fragment);

	if (place >= 0)
		return list_make1_int(place);
	return fragment->placement == RF_PLACED_BY_HASH && fragment->layout != NULL &&
		!fragment->exchanges ?
		list_copy(fragment->layout->nodes) :
		NIL;
}

bool
rf_has_single_node(RfFragment *fragment)
{
	return rf_only_place(fragment) >= 0 || rf_single_node_values(fragment) != NIL;
}

List *
rf_equal_exprs(List *equalities, bool outer)
{
	List	   *exprs = NIL;
	ListCell   *lc;

	foreach(lc, equalities)
	{
		RfEquality *equality = (RfEquality *) lfirst(lc);

		exprs = lappend(exprs, outer ? equality->outer : equality->inner);
	}
	return exprs;
}

bool
rf_keys_agree(List *outer_key, List *inner_key, List *equalities)
{
	ListCell   *lc;

	foreach(lc, outer_key)
	{
		if (list_member(inner_key, lfirst(lc)))
			return true;
	}
	foreach(lc, equalities)
	{
		RfEquality *equality = (RfEquality *) lfirst(lc);

		if (list_member(outer_key, equality->outer) && list_member(inner_key, equality->inner))
			return true;
	}
	return false;
}

/* Anything that needs a's rows where they are has them with b's, too. */
static bool
placed_as_well(RfFragment *a, RfFragment *b)
{
	if (a->computed != b->computed)
		return false;
	if (a->placement == RF_PLACED_ANYWHERE)
		return b->placement != RF_PLACED_EVERYWHERE;
	if (a->placement != b->placement || !rf_same_layout(a->layout, b->layout))
		return false;
	if (list_length(a->keys) != list_length(b->keys))
		return false;
	for (int i = 0; i < list_length(a->keys); i++)
	{
		if (!rf_keys_agree(list_nth(a->keys, i), list_nth(b->keys, i), NIL))
			return false;
	}
	return true;
}

static const char *
address_option(ForeignServer *server, const char *name)
{
	ListCell   *lc;

	foreach(lc, server->options)
	{
		DefElem    *def = lfirst_node(DefElem, lc);

		if (strcmp(def->defname, name) == 0)
			return defGetString(def);
	}
	return "";
}

/* Most of the statement's nodes that are databases of one server, by their addresses. */
static int
nodes_of_one_server(List *nodes)
{
	List	   *addresses = NIL;
	int			most = 1;
	ListCell   *lc;

	foreach(lc, nodes)
	{
		ForeignServer *server = GetForeignServer(lfirst_oid(lc));
		String	   *address = makeString(psprintf("%s %s %s", address_option(server, "host"),
												  address_option(server, "hostaddr"),
												  address_option(server, "port")));
		int			same = 1;
		ListCell   *other;

		foreach(other, addresses)
			same += equal(address, lfirst(other));
		addresses = lappend(addresses, address);
		most = Max(most, same);
	}
	list_free_deep(addresses);
	return most;
}

bool
rf_has_flows(const RfRelInfo *info)
{
	uint32		nodes = list_length(info->members);
	uint32		flows = info->fragment->exchanges * 2 * (nodes - 1) + 1;
	uint32		limit = rf_role_limit(rf_max_flows);

	if (info->fragment->exchanges == 0 || (uint64) nodes * flows <= limit)
		return true;
	return (uint64) nodes_of_one_server(info->members) * flows <= limit;
}

bool
rf_add_choice(RfChoices *choices, RfRelInfo *info)
{
	RfRelInfo  *worst = NULL;
	ListCell   *lc;

	if (!rf_has_flows(info))
		return false;

	/*
	 * Conditions to be evaluated here may have been sorted otherwise where the relations were
	 * joined in another order; then the first statement is the only one.
	 */
	if (choices->infos != NIL &&
		(info->local_conds != NIL || ((RfRelInfo *) linitial(choices->infos))->local_conds != NIL))
		return false;

	foreach(lc, choices->infos)
	{
		RfRelInfo  *other = (RfRelInfo *) lfirst(lc);

		if (rf_nodes_cost(other) <= rf_nodes_cost(info) &&
			placed_as_well(info->fragment, other->fragment))
			return false;
	}
	foreach(lc, choices->infos)
	{
		RfRelInfo  *other = (RfRelInfo *) lfirst(lc);

		/* of two that cost the same the first one is chosen: that moves rows by more keys */
		if (rf_nodes_cost(info) < rf_nodes_cost(other) &&
			placed_as_well(other->fragment, info->fragment))
			choices->infos = foreach_delete_current(choices->infos, lc);
		else if (worst == NULL || rf_nodes_cost(other) > rf_nodes_cost(worst))
			worst = other;
	}
	if (list_length(choices->infos) >= MAX_CHOICES)
	{
		if (rf_nodes_cost(worst) <= rf_nodes_cost(info))
			return false;
		choices->infos = list_delete_ptr(choices->infos, worst);
	}
	choices->infos = lappend(choices->infos, info);
	return true;
}

/*
 * Returns the cost of the cheapest statement in the list that costs at most `least` and whose rows
 * lie as well as this fragment's. If the list is full, a new statement has to be cheaper than the
 * dearest statement in it, so the result is at most that statement's cost.
 */
Cost
rf_dearer_choice(RfChoices *choices, RfFragment *fragment, Cost least)
{
	bool		full = list_length(choices->infos) >= MAX_CHOICES;
	Cost		most = 0;
	Cost		dearer = get_float8_infinity();
	ListCell   *lc;

	foreach(lc, choices->infos)
	{
		RfRelInfo  *other = (RfRelInfo *) lfirst(lc);
		Cost		cost = rf_nodes_cost(other);

		most = Max(most, cost);
		if (cost <= least && cost < dearer && placed_as_well(fragment, other->fragment))
			dearer = cost;
	}
	return full ? Min(dearer, most) : dearer;
}

Cost
rf_cheapest_choice(RfChoices *choices)
{
	Cost		least = get_float8_infinity();
	ListCell   *lc;

	foreach(lc, choices->infos)
		least = Min(least, rf_nodes_cost((RfRelInfo *) lfirst(lc)));
	return least;
}

bool
rf_placed_by(RfRelInfo *info, List *exprs)
{
	RfFragment *fragment = info->fragment;
	List	   *bare = NIL;
	ListCell   *lc;

	if (fragment->placement != RF_PLACED_BY_HASH)
		return fragment->placement == RF_PLACED_EVERYWHERE;
	foreach(lc, exprs)
		bare = lappend(bare, without_casts(lfirst(lc)));
	foreach(lc, fragment->keys)
	{
		ListCell   *member;
		bool		found = false;

		foreach(member, (List *) lfirst(lc))
			found |= is_fixed(lfirst(member)) || list_member(bare, lfirst(member));
		if (!found)
			return false;
	}
	return true;
}

List *
rf_single_node_values(RfFragment *fragment)
{
	List	   *values = NIL;
	ListCell   *lc;

	if (fragment->placement != RF_PLACED_BY_HASH || fragment->exchanges || fragment->layout != NULL)
		return NIL;
	foreach(lc, fragment->keys)
	{
		ListCell   *member;
		Expr	   *value = NULL;

		foreach(member, (List *) lfirst(lc))
		{
			if (is_fixed(lfirst(member)) && value == NULL)
				value = (Expr *) lfirst(member);
		}
		if (value == NULL)
			return NIL;
		values = lappend(values, value);
	}
	return values;
}

/*
 * Columns are given their types by name, and their collations, so the nodes must have the same; and
 * a whole row is not such a column.
 */
static bool
have_columns_known_types(PlannerInfo *root, RfRelInfo *info)
{
	ListCell   *lc;

	foreach(lc, rf_visible_columns(root, info))
	{
		Node	   *expr = (Node *) lfirst(lc);
		Oid			collation = exprCollation(expr);

		if (!rf_is_shippable_type(exprType(expr), info) ||
			(IsA(expr, Var) && ((Var *) expr)->varattno == 0) ||
			(OidIsValid(collation) && collation != get_typcollation(exprType(expr)) &&
			 collation != C_COLLATION_OID && collation != POSIX_COLLATION_OID))
			return false;
	}
	return true;
}

bool
rf_can_move(PlannerInfo *root, RfRelInfo *info)
{
	if (info->movable == RF_ANSWER_UNKNOWN)
		info->movable = have_columns_known_types(root, info) ? RF_ANSWER_YES : RF_ANSWER_NO;
	return info->movable == RF_ANSWER_YES;
}

/*
 * A heavy value has more than half of a node's fair share of rows. NULLs, which hash to 0, match
 * nothing, but outer joins keep them.
 */
static char *
find_heavy_keys(PlannerInfo *root, Expr *key, int nodes)
{
	double		limit = 0.5 / nodes;
	Oid			type = exprType((Node *) key);
	Oid			collation = exprCollation((Node *) key);
	VariableStatData stats;
	AttStatsSlot slot;
	StringInfoData hashes;

	if (!rf_route_type(type))
		return NULL;
	initStringInfo(&hashes);
	examine_variable(root, (Node *) key, 0, &stats);
	if (HeapTupleIsValid(stats.statsTuple) && stats.acl_ok)
	{
		if (((Form_pg_statistic) GETSTRUCT(stats.statsTuple))->stanullfrac > limit)
			appendStringInfoString(&hashes, "0");
		if (stats.atttype == type &&
			get_attstatsslot(&slot, stats.statsTuple, STATISTIC_KIND_MCV, InvalidOid,
							 ATTSTATSSLOT_VALUES | ATTSTATSSLOT_NUMBERS))
		{
			RfRoute    *route = rf_route_create(1, &type, &collation);

			for (int i = 0; i < slot.nnumbers && slot.numbers[i] > limit; i++)
			{
				bool		isnull = false;

				appendStringInfo(&hashes, "%s" UINT64_FORMAT, hashes.len > 0 ? "," : "",
								 rf_route_hash(route, &slot.values[i], &isnull));
			}
			free_attstatsslot(&slot);
		}
	}
	ReleaseVariableStats(stats);
	return hashes.len > 0 ? hashes.data : NULL;
}

/* Many ways to join ask for the same column, so it is looked up in its statistics once. */
char *
rf_heavy_keys(PlannerInfo *root, RfRelInfo *info, Expr *key)
{
	Var		   *var = (Var *) key;
	RelOptInfo *rel = IsA(var, Var) && bms_is_member(var->varno, info->rel->relids) ?
		root->simple_rel_array[var->varno] : NULL;
	RfRelInfo  *table = rel != NULL ? (RfRelInfo *) rel->fdw_private : NULL;
	RfChoices  *choices = table != NULL && table->fragment != NULL ? table->fragment->choices :
		NULL;
	int			nodes = rf_node_count(info);
	MemoryContext caller;
	char	   *heavy;
	ListCell   *lc;

	if (choices == NULL)
		return find_heavy_keys(root, key, nodes);
	foreach(lc, choices->heavy)
	{
		List	   *known = (List *) lfirst(lc);

		if (linitial_node(Var, known)->varattno == var->varattno && intVal(lsecond(known)) == nodes)
			return lthird(known);
	}
	caller = MemoryContextSwitchTo(rf_memory_of(rel));
	heavy = find_heavy_keys(root, key, nodes);
	choices->heavy = lappend(choices->heavy,
							 list_make3(copyObject(var), makeInteger(nodes), heavy));
	MemoryContextSwitchTo(caller);
	return heavy;
}

bool
rf_equal_is_same(Oid type, Oid collation)
{
	TypeCacheEntry *order = lookup_type_cache(type, TYPECACHE_BTREE_OPFAMILY);
	Oid			proc;

	if (!OidIsValid(order->btree_opf))
		return false;
	proc = get_opfamily_proc(order->btree_opf, order->btree_opintype, order->btree_opintype,
							 BTEQUALIMAGE_PROC);
	return OidIsValid(proc) &&
		DatumGetBool(OidFunctionCall1Coll(proc, collation,
										  ObjectIdGetDatum(order->btree_opintype)));
}

RfRelInfo *
rf_different_rows(PlannerInfo *root, RfRelInfo *info, List *columns)
{
	RfRelInfo  *different = palloc(sizeof(RfRelInfo));
	double		share = rf_node_share(info);
	double		rows = info->est.retrieved_rows * share;
	double		groups = Min(estimate_num_groups(root, columns, info->est.retrieved_rows, NULL,
												 NULL),
							 rows);

	*different = *info;
	different->upper.distinct = true;
	different->rel_startup_cost = info->rel_total_cost +
		rows * cpu_operator_cost * list_length(columns);
	different->rel_total_cost = different->rel_startup_cost + groups * cpu_tuple_cost;
	different->est.retrieved_rows = clamp_row_est(groups / share);
	return different;
}

/* Conditions and expressions above see no difference between rows whose columns are equal. */
static bool
equal_rows_are_same(PlannerInfo *root, RfRelInfo *info, List *columns)
{
	ListCell   *lc;

	foreach(lc, columns)
	{
		Var		   *var = (Var *) lfirst(lc);

		if (!IsA(var, Var) || var->varattno <= 0 ||
			!rf_equal_is_same(var->vartype, var->varcollid) ||
			(OidIsValid(var->varcollid) && !rf_is_known_collation(root, info->rel, (Expr *) var)))
			return false;
	}
	return columns != NIL;
}

RfRelInfo *
rf_move_different(PlannerInfo *root, RfRelInfo *info, List *keys, bool computed)
{
	RfRelInfo  *move = rf_move(root, info, keys, computed);
	List	   *columns = rf_visible_columns(root, info);
	RfRelInfo  *different;

	if (!equal_rows_are_same(root, info, columns))
		return move;
	different = rf_move(root, rf_different_rows(root, info, columns), keys, computed);
	return rf_nodes_cost(different) < rf_nodes_cost(move) ? different : move;
}

RfRelInfo *
rf_move(PlannerInfo *root, RfRelInfo *info, List *keys, bool computed)
{
	RfRelInfo  *move = palloc(sizeof(RfRelInfo));
	RfFragment *fragment = palloc0(sizeof(RfFragment));
	ListCell   *lc;

	Assert(keys != NIL || info->fragment->placement != RF_PLACED_EVERYWHERE ||
		   info->fragment->computed != computed);

	/* for operations above it is a table, whose conditions have been met */
	*move = *info;
	move->remote_conds = NIL;
	move->indexes = NIL;
	move->join.outer = NULL;
	move->join.inner = NULL;
	move->upper.scanrel = NULL;
	move->upper.scan = NULL;
	move->select = NULL;
	move->parts = NIL;
	move->upper.grouped = false;
	move->upper.having = NIL;
	move->upper.partial = false;
	move->upper.windowed = false;
	move->upper.distinct = false;
	move->movable = RF_ANSWER_UNKNOWN;
	move->fragment = fragment;
	fragment->moved = info;
	fragment->exchanges = info->fragment->exchanges + 1;
	fragment->computed = computed;
	fragment->sending = info->fragment->sending;
	fragment->strategies = info->fragment->strategies;
	fragment->replicate = keys == NIL;
	fragment->move_keys = keys;
	fragment->placement = keys == NIL ? RF_PLACED_EVERYWHERE : RF_PLACED_BY_HASH;
	foreach(lc, keys)
		fragment->keys = lappend(fragment->keys, list_make1(lfirst(lc)));
	rf_estimate_move(move);
	return move;
}
