/*
 * steps.h - the steps of a commit over several nodes and of a move of buckets, and the hook by
 * which a test's module stops there.
 *
 * A module includes this header, is listed behind rdma_fdw in shared_preload_libraries, and sets
 * rf_step_hook in its _PG_init: test/modules/commit_faults does. Without one a step costs a
 * comparison. It is called where a process could die as well, and may raise an error only where the
 * table says so.
 *
 *	step				number	error	when
 *	prepare				node	yes		before this node hears PREPARE
 *	prepare_sent		node	yes		it was told, and has not been heard
 *	prepared			node	yes		it has answered
 *	rows_written		-		yes		the rows that decide are written
 *	commit_gate			-		yes		in the gate, before the local commit
 *	decided				-		-		the local commit is flushed
 *	commit_prepared		node	-		before this node hears COMMIT PREPARED
 *	commit_sent			node	-		it was told, and has not been heard
 *	committed			-		-		nodes have answered, or not in time
 *	commit_left			-		-		unfinished parts are left to the resolver; in the gate
 *	snapshot_gate		-		yes		in the gate, before snapshots are taken
 *	snapshots_taken		-		-		before the gate is left
 *	resolver			-		yes		a worker has taken the work of its database
 *	recover_listed		-		yes		it knows the parts that are prepared on a node
 *	recover_inactive	-		yes		and which of them no backend works on
 *	recover_rows		-		yes		and has read the rows that decide
 *	recover_finish		-		yes		before it finishes a part
 *	recover_finished	-		yes		after that
 *	recover_delete		-		yes		before it removes rows of finished parts
 *	recover_deleted		-		yes		after that, before its commit
 *	resolver_rows		-		yes		before it removes rows without asking nodes
 *	move_preparing		-		yes		a move has its locks
 *	move_copying		-		yes		before it copies the rows of a table
 *	move_deleting		-		yes		before it deletes them on their old node
 *	move_recording		-		yes		all rows are on the new node only
 *	move_committing		-		yes		it is done, but for its commit
 *
 * Nodes are numbered from 1 as the transaction's parts are.
 */
#ifndef RF_STEPS_H
#define RF_STEPS_H

typedef void (*rf_step_hook_type) (const char *step, int number);

extern __attribute__((visibility("default")))
rf_step_hook_type rf_step_hook;

static inline void
rf_step(const char *step, int number)
{
	if (rf_step_hook)
		rf_step_hook(step, number);
}

#endif
