/*
 * compat.h
 * 	One spelling for the differences between PostgreSQL 15 and 19.
 *
 * Every entry names the release that made the change. Nothing here changes behaviour: a file that
 * includes this header is written for the newest interface, and older servers are adapted to it.
 * Files that must compile without PostgreSQL headers (provider/, the plain-C part of engine/, flow/
 * and batch/) do not include it.
 */
#ifndef RDMA_FDW_COMPAT_H
#define RDMA_FDW_COMPAT_H

#include "postgres.h"

#include "access/heapam.h"
#include "access/multixact.h"
#include "access/stratnum.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "access/tupdesc.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_proc.h"
#include "commands/vacuum.h"
#include "executor/executor.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "nodes/plannodes.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "parser/parse_type.h"
#include "parser/parser.h"
#include "parser/parsetree.h"
#include "storage/bufmgr.h"
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
#include "nodes/nodeFuncs.h"	/* a walker of RETURNING, which has OLD there */
#include "storage/waiteventset.h"	/* 18 took the wait sets out of latch.h */
#else
#include "commands/explain.h"
#endif

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 200000
#error "rdma_fdw supports PostgreSQL 15 to 19"
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

/* 19 lets planner hooks see EXPLAIN's state. */
#if PG_VERSION_NUM >= 190000
#define RF_EXPLAIN_PARAM	,ExplainState *explain
#define RF_EXPLAIN			,explain
#else
#define RF_EXPLAIN_PARAM
#define RF_EXPLAIN
#endif

#if PG_VERSION_NUM >= 190000
#define rf_plan_query(query, sql, options)	pg_plan_query((query), (sql), (options), NULL, NULL)
#else
#define rf_plan_query(query, sql, options)	pg_plan_query((query), (sql), (options), NULL)
#endif

/*
 * 19 aggregates parts of joins early ("eager aggregation"). The grouped relation begins as a copy
 * of the ungrouped relation, with its wrapper and its fdw_private, but has other rows, which
 * fdw_private does not describe.
 */
static inline bool
rf_is_grouped_early(RelOptInfo *rel)
{
#if PG_VERSION_NUM >= 190000
	return IS_GROUPED_REL(rel);
#else
	return false;
#endif
}

/*
 * The outer side of a JOIN_UNIQUE_OUTER with each row once; NULL if that cannot be. 19 has made it
 * so before it asks for paths of the join.
 */
static inline Path *
rf_unique_path(PlannerInfo *root, RelOptInfo *rel, Path *path, SpecialJoinInfo *sjinfo)
{
#if PG_VERSION_NUM >= 190000
	return path;
#else
	return (Path *) create_unique_path(root, rel, path, sjinfo);
#endif
}

/* 19 is told which strategies the path stands for, instead of looking at settings. */
#if PG_VERSION_NUM >= 190000
#define rf_initial_cost_nestloop(root, workspace, jointype, outer, inner, extra) \
	initial_cost_nestloop((root), (workspace), (jointype), \
						  PGS_NESTLOOP_PLAIN | PGS_CONSIDER_NONPARTIAL, (outer), (inner), (extra))
#else
#define rf_initial_cost_nestloop	initial_cost_nestloop
#endif

/* 19 asks each relation which kinds of paths it may have: a new one has those of another. */
static inline void
rf_allow_strategies(RelOptInfo *rel, RelOptInfo *like)
{
#if PG_VERSION_NUM >= 190000
	rel->pgs_mask = like->pgs_mask;
#endif
}

/* 19 put the lists of paths below into a struct. */
static inline Path *
rf_create_append_path(PlannerInfo *root, RelOptInfo *rel, List *paths, double rows)
{
#if PG_VERSION_NUM >= 190000
	AppendPathInput input = {.subpaths = paths};

	return (Path *) create_append_path(root, rel, input, NIL, NULL, 0, false, rows);
#else
	return (Path *) create_append_path(root, rel, paths, NIL, NIL, NULL, 0, false, rows);
#endif
}

/* 19 renamed it, since its SQL functions need not return sets. */
#if PG_VERSION_NUM >= 190000
#define rf_inline_function	inline_function_in_from
#else
#define rf_inline_function	inline_set_returning_function
#endif

/* All functions that a name may mean. 19 also tells why it found no function. */
static inline FuncCandidateList
rf_function_candidates(List *names)
{
#if PG_VERSION_NUM >= 190000
	int			flags;

	return FuncnameGetCandidates(names, -1, NIL, false, false, false, true, &flags);
#else
	return FuncnameGetCandidates(names, -1, NIL, false, false, false, true);
#endif
}

static inline FuncCandidateList
rf_operator_candidates(List *names, char kind)
{
#if PG_VERSION_NUM >= 190000
	int			flags;

	return OpernameGetCandidates(names, kind, true, &flags);
#else
	return OpernameGetCandidates(names, kind, true);
#endif
}

/* To be called when all columns are described: 19 then knows where values lie in tuples. */
static inline void
rf_tupdesc_finish(TupleDesc desc)
{
#if PG_VERSION_NUM >= 190000
	TupleDescFinalize(desc);
#endif
}

/* 19 added what a scan is told about its query. */
static inline TableScanDesc
rf_table_beginscan(Relation rel, Snapshot snapshot)
{
#if PG_VERSION_NUM >= 190000
	return table_beginscan(rel, snapshot, 0, NULL, SO_NONE);
#else
	return table_beginscan(rel, snapshot, 0, NULL);
#endif
}

static inline TableScanDesc
rf_table_beginscan_parallel(Relation rel, ParallelTableScanDesc shared)
{
#if PG_VERSION_NUM >= 190000
	return table_beginscan_parallel(rel, shared, SO_NONE);
#else
	return table_beginscan_parallel(rel, shared);
#endif
}

/* 19 can set the visibility map's bits then, which is not asked for here. */
static inline void
rf_page_prune(Relation rel, Buffer buffer)
{
#if PG_VERSION_NUM >= 190000
	Buffer		map = InvalidBuffer;

	heap_page_prune_opt(rel, buffer, &map, false);
	if (BufferIsValid(map))
		ReleaseBuffer(map);
#else
	heap_page_prune_opt(rel, buffer);
#endif
}

/* Makes index entries of a new row; returns the deferred constraints to check again. */
static inline List *
rf_insert_index_tuples(ResultRelInfo *target, TupleTableSlot *slot, EState *estate)
{
#if PG_VERSION_NUM >= 190000
	return ExecInsertIndexTuples(target, estate, 0, slot, NIL, NULL);
#elif PG_VERSION_NUM >= 160000
	return ExecInsertIndexTuples(target, slot, estate, false, false, NULL, NIL, false);
#else
	return ExecInsertIndexTuples(target, slot, estate, false, false, NULL, NIL);
#endif
}

/* Is the time of a plan's node measured? 19 put what all measurements have into a part of it. */
static inline bool
rf_is_timed(PlanState *node)
{
#if PG_VERSION_NUM >= 190000
	return node->instrument != NULL && node->instrument->instr.need_timer;
#else
	return node->instrument != NULL && node->instrument->need_timer;
#endif
}

/* 19 can begin at any block. */
#if PG_VERSION_NUM >= 190000
#define rf_parallel_scan_begin(rel, own, shared) \
	table_block_parallelscan_startblock_init((rel), (own), (shared), InvalidBlockNumber, \
											 InvalidBlockNumber)
#else
#define rf_parallel_scan_begin(rel, own, shared) \
	table_block_parallelscan_startblock_init((rel), (own), (shared))
#endif

/* What ExecutorRun() does around its run. 19 measures statements in another way than nodes. */
static inline void
rf_instrument_start(QueryDesc *query)
{
#if PG_VERSION_NUM >= 190000
	if (query->query_instr)
		InstrStart(query->query_instr);
#else
	if (query->totaltime)
		InstrStartNode(query->totaltime);
#endif
}

static inline void
rf_instrument_stop(QueryDesc *query)
{
#if PG_VERSION_NUM >= 190000
	if (query->query_instr)
		InstrStop(query->query_instr);
#else
	if (query->totaltime)
		InstrStopNode(query->totaltime, query->estate->es_processed);
#endif
}

/* 19 has IGNORE NULLS for window functions, which older data nodes do not know. */
static inline bool
rf_ignores_nulls(WindowFunc *func)
{
#if PG_VERSION_NUM >= 190000
	return func->ignore_nulls == IGNORE_NULLS;
#else
	return false;
#endif
}

/* 19 has ON CONFLICT DO SELECT. */
static inline bool
rf_conflict_selects(const OnConflictExpr *conflict)
{
#if PG_VERSION_NUM >= 190000
	return conflict->action == ONCONFLICT_SELECT;
#else
	return false;
#endif
}

/* Returns true if an expression of RETURNING has columns of the row as it was: 18 has OLD. */
static inline bool
rf_has_old_columns(Node *node, void *context)
{
#if PG_VERSION_NUM >= 180000
	if (node == NULL)
		return false;
	if (IsA(node, Var))
		return ((Var *) node)->varreturningtype == VAR_RETURNING_OLD;
	if (IsA(node, ReturningExpr) && ((ReturningExpr *) node)->retold)
		return true;
	return expression_tree_walker(node, rf_has_old_columns, context);
#else
	return false;
#endif
}

/* 19 knows no other meaning of backslashes in literals any more. */
static inline bool
rf_conforming_strings(void)
{
#if PG_VERSION_NUM >= 190000
	return true;
#else
	return standard_conforming_strings;
#endif
}

#endif							/* RDMA_FDW_COMPAT_H */
