/*
 * hooks.c
 *		The hooks of src/fdw/, for plans about which the planner does not ask a wrapper.
 *
 * Other files of src/fdw/ set hooks of their own: forms.c and lookahead_plan.c the planner's,
 * copy.c and ddl.c that of utility commands; modify.c and scan_start.c the executor's, when a
 * session first needs them.
 */
#include "postgres.h"

#include "optimizer/paths.h"
#include "optimizer/planner.h"

#include "rdma_fdw/fdw.h"
#include "rdma_fdw/guc.h"

#include "fdw/catalog/catalog.h"
#include "fdw/exec/exec.h"
#include "fdw/plan/plan.h"

static create_upper_paths_hook_type previous_upper_paths = NULL;
static set_rel_pathlist_hook_type previous_rel_pathlist = NULL;
static set_join_pathlist_hook_type previous_join_pathlist = NULL;

/* Core asks a wrapper only if all input rows come from one of its servers. */
static void
upper_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel,
			RelOptInfo *output_rel, void *extra)
{
	if (previous_upper_paths)
		previous_upper_paths(root, stage, input_rel, output_rel, extra);
	if (rf_push_down != RF_PUSH_DOWN_ALL)
		return;
	if (stage == UPPERREL_SETOP)
		rf_set_operation_paths(root, output_rel);
	if (stage == UPPERREL_GROUP_AGG)
		rf_group_over_append(root, input_rel, output_rel, (GroupPathExtraData *) extra);
}

/* Subqueries and parents of tables are not foreign tables to core. */
static void
rel_pathlist(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	if (previous_rel_pathlist)
		previous_rel_pathlist(root, rel, rti, rte);
	if (rf_push_down != RF_PUSH_DOWN_ALL)
		return;
	rf_select_paths(root, rel, rte);
	if (rti == bms_prev_member(root->all_baserels, -1))
	{
		rf_place_tables_of_nodes(root);
		rf_place_local_rows(root);
	}
}

/* Joins of a foreign table with anything else. */
static void
join_pathlist(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel, RelOptInfo *innerrel,
			  JoinType jointype, JoinPathExtraData *extra)
{
	if (previous_join_pathlist)
		previous_join_pathlist(root, joinrel, outerrel, innerrel, jointype, extra);
	if (rf_push_down != RF_PUSH_DOWN_ALL)
		return;
	rf_note_unasked_join(root, joinrel, outerrel, innerrel);
	rf_key_join_paths(root, joinrel, outerrel, innerrel, jointype, extra);
	rf_add_local_rows_joins(root, joinrel, extra->restrictlist);
}

void
rf_fdw_install_hooks(void)
{
	previous_upper_paths = create_upper_paths_hook;
	create_upper_paths_hook = upper_paths;
	previous_rel_pathlist = set_rel_pathlist_hook;
	set_rel_pathlist_hook = rel_pathlist;
	previous_join_pathlist = set_join_pathlist_hook;
	set_join_pathlist_hook = join_pathlist;
	rf_key_join_register();
	rf_local_rows_register();
	rf_lookahead_register();
	rf_lookup_register();
	rf_lookahead_install_hook();
	rf_forms_install_hook();
	rf_copy_install_hook();
	rf_ddl_install_hooks();
}
