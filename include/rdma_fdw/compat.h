/*
 * compat.h
 * 	One spelling for the differences between PostgreSQL 15, 16, 17 and 18.
 *
 * Every entry names the release that made the change. Nothing here changes behaviour: a file that
 * includes this header is written for the newest interface, and older servers are adapted to it.
 * Files that must compile without PostgreSQL headers (provider/, the plain-C part of engine/, flow/
 * and batch/) do not include it.
 */
#ifndef RDMA_FDW_COMPAT_H
#define RDMA_FDW_COMPAT_H

#include "postgres.h"

#include "access/multixact.h"
#include "access/stratnum.h"
#include "access/transam.h"
#include "access/tupdesc.h"
#include "catalog/pg_class.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_proc.h"
#include "commands/vacuum.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "nodes/plannodes.h"
#include "optimizer/cost.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "parser/parse_type.h"
#include "parser/parsetree.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "utils/acl.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/wait_event.h"

#if PG_VERSION_NUM >= 160000
#include "parser/parse_relation.h"	/* getRTEPermissionInfo */
#include "varatt.h"				/* 16 took the varlena macros out of postgres.h */
#endif
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"	/* 18 split explain.h */
#include "commands/explain_state.h"
#include "storage/waiteventset.h"	/* 18 took the wait sets out of latch.h */
#else
#include "commands/explain.h"
#endif

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 190000
#error "rdma_fdw supports PostgreSQL 15 to 18"
#endif

/* Has it RETURNING? 18 made a clause of the list. */
static inline bool
rf_returns(const InsertStmt *statement)
{
#if PG_VERSION_NUM >= 180000
	return statement->returningClause != NULL;
#else
	return statement->returningList != NIL;
#endif
}

/* 18 took the "Ext" from the name, and wants to know what kind of slot comes. */
static inline TupleHashTable
rf_build_tuple_hash(PlanState *parent, TupleDesc desc, const TupleTableSlotOps *ops, int count,
					AttrNumber *columns, const Oid *equal, FmgrInfo *hash, Oid *collations,
					MemoryContext meta, MemoryContext table, MemoryContext temporary)
{
#if PG_VERSION_NUM >= 180000
	return BuildTupleHashTable(parent, desc, ops, count, columns, equal, hash, collations, 256, 0,
							   meta, table, temporary, false);
#else
	return BuildTupleHashTableExt(parent, desc, count, columns, equal, hash, collations, 256, 0,
								  meta, table, temporary, false);
#endif
}

/*
 * Inside a GUC nest level: the search_path that 17's maintenance commands run a table owner's code
 * with, for older servers, too.
 */
static inline void
rf_restrict_search_path(void)
{
#if PG_VERSION_NUM >= 170000
	RestrictSearchPath();
#else
	(void) set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
#endif
}

/*
 * A type's name and modifier from text; an ERROR if it is not a type. 16 added the place for soft
 * errors.
 */
static inline void
rf_parse_type(const char *text, Oid *type, int32 *modifier)
{
#if PG_VERSION_NUM >= 160000
	(void) parseTypeString(text, type, modifier, NULL);
#else
	parseTypeString(text, type, modifier, false);
#endif
}

/* Whose rights the scan of a base relation has, while planning. */
static inline Oid
rf_rel_userid(RelOptInfo *baserel)
{
	return OidIsValid(baserel->userid) ? baserel->userid : GetUserId();
}

/*
 * And for a relation that rows are written to: 16 moved the user from the range table entry to
 * RTEPermissionInfo. 15 finds it by range table index; a partition that rows are routed to has no
 * such entry and takes its root's. 0 there means "the user of the query".
 */
static inline Oid
rf_modify_userid(ResultRelInfo *rel, EState *estate)
{
	Oid			userid;

#if PG_VERSION_NUM >= 160000
	userid = ExecGetResultRelCheckAsUser(rel, estate);
#else
	Index		rti = rel->ri_RangeTableIndex != 0 || rel->ri_RootResultRelInfo == NULL ?
		rel->ri_RangeTableIndex : rel->ri_RootResultRelInfo->ri_RangeTableIndex;

	userid = rti == 0 ? InvalidOid : exec_rt_fetch(rti, estate)->checkAsUser;
#endif
	return OidIsValid(userid) ? userid : GetUserId();
}

/* The same while it is planned, as RelOptInfo.userid has it of relations that are read. */
static inline Oid
rf_planned_userid(PlannerInfo *root, RangeTblEntry *rte)
{
#if PG_VERSION_NUM >= 160000
	return getRTEPermissionInfo(root->parse->rteperminfos, rte)->checkAsUser;
#else
	return rte->checkAsUser;
#endif
}

/*
 * 17 added fdw_restrictinfo (only join paths use it), 18 added disabled_nodes (0: nothing in the
 * path is disabled by an enable_* setting).
 *
 * Only the leader of a parallel query may talk to a data node, so only paths that
 * rf_add_partial_path makes of these are parallel-safe.
 */
static inline ForeignPath *
rf_leader_only(ForeignPath *path)
{
	path->path.parallel_safe = false;
	return path;
}

static inline ForeignPath *
rf_create_foreignscan_path(PlannerInfo *root, RelOptInfo *rel, PathTarget *target,
						   double rows, Cost startup_cost, Cost total_cost,
						   List *pathkeys, Relids required_outer, Path *fdw_outerpath,
						   List *fdw_private)
{
	return rf_leader_only(create_foreignscan_path(root, rel, target, rows,
#if PG_VERSION_NUM >= 180000
												  0,
#endif
												  startup_cost, total_cost, pathkeys,
												  required_outer, fdw_outerpath,
#if PG_VERSION_NUM >= 170000
												  NIL,
#endif
												  fdw_private));
}

static inline ForeignPath *
rf_create_foreign_join_path(PlannerInfo *root, RelOptInfo *rel, double rows, Cost startup_cost,
							Cost total_cost, List *pathkeys, Path *fdw_outerpath,
							List *fdw_restrictinfo, List *fdw_private)
{
	return rf_leader_only(create_foreign_join_path(root, rel, NULL, rows,
#if PG_VERSION_NUM >= 180000
												   0,
#endif
												   startup_cost, total_cost, pathkeys, NULL,
												   fdw_outerpath,
#if PG_VERSION_NUM >= 170000
												   fdw_restrictinfo,
#endif
												   fdw_private));
}

static inline ForeignPath *
rf_create_foreign_upper_path(PlannerInfo *root, RelOptInfo *rel, PathTarget *target, double rows,
							 Cost startup_cost, Cost total_cost, List *pathkeys,
							 List *fdw_private)
{
	return rf_leader_only(create_foreign_upper_path(root, rel, target, rows,
#if PG_VERSION_NUM >= 180000
													0,
#endif
													startup_cost, total_cost, pathkeys, NULL,
#if PG_VERSION_NUM >= 170000
													NIL,
#endif
													fdw_private));
}

/* 17 has a join's clauses in a custom path, too; 18 counts the disabled nodes below. */
static inline void
rf_custom_join_path(CustomPath *path, Path *outer, List *restrictlist)
{
#if PG_VERSION_NUM >= 170000
	path->custom_restrictinfo = restrictlist;
#endif
#if PG_VERSION_NUM >= 180000
	path->path.disabled_nodes = outer->disabled_nodes;
#endif
}

/* 18 keeps the members of child relations apart, behind an iterator. */
static inline List *
rf_ec_members(EquivalenceClass *ec, Relids relids)
{
#if PG_VERSION_NUM >= 180000
	EquivalenceMemberIterator it;
	EquivalenceMember *em;
	List	   *members = NIL;

	setup_eclass_member_iterator(&it, ec, relids);
	while ((em = eclass_member_iterator_next(&it)) != NULL)
		members = lappend(members, em);
	return members;
#else
	return ec->ec_members;
#endif
}

/* Until 15 settings were in memory of malloc. */
static inline void *
rf_guc_malloc(size_t size)
{
#if PG_VERSION_NUM >= 160000
	return guc_malloc(LOG, size);
#else
	return malloc(size);
#endif
}

/* 18 no longer tells ExecutorRun whether it is the only call for the statement. */
#if PG_VERSION_NUM >= 180000
#define RF_EXECUTE_ONCE_PARAM
#define RF_EXECUTE_ONCE
#else
#define RF_EXECUTE_ONCE_PARAM	,bool execute_once
#define RF_EXECUTE_ONCE			,execute_once
#endif

/* 18 counts the disabled nodes below. */
static inline void
rf_cost_sort(Path *path, PlannerInfo *root, List *pathkeys, Cost input_cost, double tuples,
			 int width, double limit_tuples)
{
#if PG_VERSION_NUM >= 180000
	cost_sort(path, root, pathkeys, 0, input_cost, tuples, width, 0.0, work_mem, limit_tuples);
#else
	cost_sort(path, root, pathkeys, input_cost, tuples, width, 0.0, work_mem, limit_tuples);
#endif
}

/* 18 uses the meaning of a comparison instead of btree's strategy numbers. */
#if PG_VERSION_NUM >= 180000
#define RF_SORT_ASCENDING	COMPARE_LT
#else
#define RF_SORT_ASCENDING	BTLessStrategyNumber
#endif
static inline Oid
rf_pathkey_operator(PathKey *pathkey, Oid datatype)
{
#if PG_VERSION_NUM >= 180000
	return get_opfamily_member_for_cmptype(pathkey->pk_opfamily, datatype, datatype,
										   pathkey->pk_cmptype);
#else
	return get_opfamily_member(pathkey->pk_opfamily, datatype, datatype, pathkey->pk_strategy);
#endif
}

/* 18 counts frozen pages, too. */
#if PG_VERSION_NUM >= 180000
#define rf_update_relstats(rel, pages, tuples) \
	vac_update_relstats((rel), (pages), (tuples), 0, 0, false, InvalidTransactionId, \
						InvalidMultiXactId, NULL, NULL, true)
#else
#define rf_update_relstats(rel, pages, tuples) \
	vac_update_relstats((rel), (pages), (tuples), 0, false, InvalidTransactionId, \
						InvalidMultiXactId, NULL, NULL, true)
#endif

/*
 * 17 has the privilege MAINTAIN, which the owner can give away; 16 replaced pg_class_ownercheck().
 */
#if PG_VERSION_NUM >= 170000
#define rf_may_analyze(relid) \
	(pg_class_aclcheck((relid), GetUserId(), ACL_MAINTAIN) == ACLCHECK_OK)
#elif PG_VERSION_NUM >= 160000
#define rf_may_analyze(relid)	object_ownercheck(RelationRelationId, (relid), GetUserId())
#else
#define rf_may_analyze(relid)	pg_class_ownercheck((relid), GetUserId())
#endif

/* 16 replaced the pg_xxx_aclcheck() family by one function. */
#if PG_VERSION_NUM >= 160000
#define rf_server_aclcheck(serverid, userid, mode) \
	object_aclcheck(ForeignServerRelationId, (serverid), (userid), (mode))
#define rf_function_aclcheck(funcid, userid) \
	object_aclcheck(ProcedureRelationId, (funcid), (userid), ACL_EXECUTE)
#else
#define rf_server_aclcheck(serverid, userid, mode) \
	pg_foreign_server_aclcheck((serverid), (userid), (mode))
#define rf_function_aclcheck(funcid, userid)	pg_proc_aclcheck((funcid), (userid), ACL_EXECUTE)
#endif

/* The same of the pg_xxx_ownercheck() family. */
#if PG_VERSION_NUM >= 160000
#define rf_server_ownercheck(serverid, userid) \
	object_ownercheck(ForeignServerRelationId, (serverid), (userid))
#define rf_relation_ownercheck(relid, userid) \
	object_ownercheck(RelationRelationId, (relid), (userid))
#else
#define rf_server_ownercheck(serverid, userid) \
	pg_foreign_server_ownercheck((serverid), (userid))
#define rf_relation_ownercheck(relid, userid)	pg_class_ownercheck((relid), (userid))
#endif

/* 17 ties wait sets to a resource owner; before, the memory context alone decided. */
#if PG_VERSION_NUM >= 170000
#define rf_create_wait_event_set(nevents)	CreateWaitEventSet(CurrentResourceOwner, (nevents))
#define rf_create_lasting_wait_event_set(nevents)	CreateWaitEventSet(NULL, (nevents))
#else
#define rf_create_wait_event_set(nevents)	CreateWaitEventSet(CurrentMemoryContext, (nevents))
#define rf_create_lasting_wait_event_set(nevents)	CreateWaitEventSet(TopMemoryContext, (nevents))
#endif

/* 17 has named wait events for extensions; the caller keeps the number it got. */
#if PG_VERSION_NUM >= 170000
#define rf_wait_event_new(name)		WaitEventExtensionNew(name)
#else
#define rf_wait_event_new(name)		((uint32) PG_WAIT_EXTENSION)
#endif

/* 17 names a process by its slot number in a variable of its own. */
#if PG_VERSION_NUM >= 170000
#define rf_my_proc_number()			((int) MyProcNumber)
#else
#define rf_my_proc_number()			((int) MyProc->pgprocno)
#endif
#define rf_proc_latch(procno)		(&ProcGlobal->allProcs[(procno)].procLatch)

/* 18 dropped the argument that said a portal or executor runs once only. */
#if PG_VERSION_NUM >= 180000
#define rf_executor_run(desc, direction, count)	ExecutorRun((desc), (direction), (count))
#else
#define rf_executor_run(desc, direction, count)	ExecutorRun((desc), (direction), (count), true)
#endif

/* 16 lets a CustomScan choose the kind of slot it returns; 15 always uses a virtual one. */
#if PG_VERSION_NUM >= 160000
#define rf_custom_scan_set_slot_ops(css, ops)	((css)->slotOps = (ops))
#else
#define rf_custom_scan_set_slot_ops(css, ops)	((void) 0)
#endif

/* 18 has no name for the "POSIX" collation any more; its pinned OID is the same. */
#ifndef POSIX_COLLATION_OID
#define POSIX_COLLATION_OID		951
#endif

/* 17 asks whether a stronger lock counts, too. */
#if PG_VERSION_NUM >= 170000
#define rf_lock_held_by_me(tag, mode)	LockHeldByMe(tag, mode, false)
#else
#define rf_lock_held_by_me(tag, mode)	LockHeldByMe(tag, mode)
#endif

/* Rows of a sequential scan, many at once. 16 renamed the counters. */
#if PG_VERSION_NUM >= 160000
#define rf_count_rows_read(rel, n) \
	((void) (pgstat_should_count_relation(rel) && \
			 ((rel)->pgstat_info->counts.tuples_returned += (n))))
#else
#define rf_count_rows_read(rel, n) \
	((void) (pgstat_should_count_relation(rel) && \
			 ((rel)->pgstat_info->t_counts.t_tuples_returned += (n))))
#endif

/* 16 renamed RelFileNode. */
#if PG_VERSION_NUM >= 160000
#define rf_relation_locator(rel)	((rel)->rd_locator)
#else
#define rf_relation_locator(rel)	((rel)->rd_node)
#endif

/*
 * 17 lets the caller place the lexer's state, and frees it by a function. Text need not end with a
 * NUL.
 */
#if PG_VERSION_NUM >= 170000
#define rf_json_lex(text, length, encoding) \
	makeJsonLexContextCstringLen(NULL, text, length, encoding, false)
#define rf_json_lex_free(lex) freeJsonLexContext(lex)
#else
#define rf_json_lex(text, length, encoding) \
	makeJsonLexContextCstringLen(text, length, encoding, false)
#define rf_json_lex_free(lex) pfree(lex)
#endif

#endif							/* RDMA_FDW_COMPAT_H */
