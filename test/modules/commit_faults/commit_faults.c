/*
 * commit_faults.c - stops or fails a process at a step of a commit over several nodes, for
 * test/faults.
 *
 * A step is named as in include/rdma_fdw/steps.h, with ".NUMBER" behind if that is not 0; a node
 * has steps of its own besides:
 *
 *	node_began			it has begun a transaction, and has not answered
 *	node_prepare		before it prepares one (an error is allowed)
 *	node_prepared		it has prepared one, and has not answered
 *	node_commit			before COMMIT PREPARED (an error is allowed)
 *	node_committed		after that, before the answer
 *	node_rollback		before ROLLBACK PREPARED (an error is allowed)
 *	node_rolled_back	after that, before the answer
 *
 * Orders are files in the folder commit_faults of the data folder, so that they outlive a crash:
 * STEP has the word "hold" or "error". The first process that comes there takes the file (renames
 * it to STEP.taken, with its process number as content), and stays until somebody removes it, or
 * raises an error. It may be killed meanwhile, and it dies with its postmaster. Without the folder
 * a step costs a system call.
 */
#include "postgres.h"

#include <signal.h>
#include <unistd.h>

#include "access/xact.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "storage/pmsignal.h"
#include "tcop/utility.h"

#include "rdma_fdw/steps.h"

#define FOLDER		"commit_faults/"
#define LOOK_US		2000

PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

static ProcessUtility_hook_type previous_utility = NULL;

/*
 * Nothing here raises an error but the order itself: most steps are where no error may be raised.
 */
static void
obey(const char *name)
{
	char		order[MAXPGPATH];
	char		mine[MAXPGPATH];
	char		taken[MAXPGPATH];
	char		word[16] = "";
	FILE	   *file;

	snprintf(order, sizeof(order), FOLDER "%s", name);
	if (access(order, F_OK) != 0)
		return;
	snprintf(mine, sizeof(mine), FOLDER "%s.%d", name, MyProcPid);
	snprintf(taken, sizeof(taken), FOLDER "%s.taken", name);
	if (rename(order, mine) != 0)
		return;					/* another process was faster */
	file = fopen(mine, "r");
	if (file == NULL || fscanf(file, "%15s", word) != 1)
		word[0] = '\0';
	if (file != NULL)
		fclose(file);
	file = fopen(mine, "w");
	if (file != NULL)
	{
		fprintf(file, "%d\n", MyProcPid);
		fclose(file);
	}
	if (rename(mine, taken) != 0)
		return;
	if (strcmp(word, "error") == 0)
		ereport(ERROR,
				(errcode(ERRCODE_SYSTEM_ERROR),
				 errmsg("the test wants an error at step \"%s\"", name)));
	while (access(taken, F_OK) == 0)
	{
		if (!PostmasterIsAlive())
			_exit(1);
		CHECK_FOR_INTERRUPTS(); /* nothing where they are held */
		pg_usleep(LOOK_US);
	}
}

static void
at_step(const char *step, int number)
{
	char		name[64];

	if (access(FOLDER, F_OK) != 0)
		return;
	if (number == 0)
		obey(step);
	else
	{
		snprintf(name, sizeof(name), "%s.%d", step, number);
		obey(name);
	}
}

static void
at_transaction(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_PRE_PREPARE)
		at_step("node_prepare", 0);
	else if (event == XACT_EVENT_PREPARE)
		at_step("node_prepared", 0);
}

static void
utility(PlannedStmt *statement, const char *text, bool read_only, ProcessUtilityContext context,
		ParamListInfo params, QueryEnvironment *environment, DestReceiver *receiver,
		QueryCompletion *completion)
{
	const char *before = NULL;
	const char *after = NULL;

	if (IsA(statement->utilityStmt, TransactionStmt))
	{
		switch (((TransactionStmt *) statement->utilityStmt)->kind)
		{
			case TRANS_STMT_BEGIN:
			case TRANS_STMT_START:
				after = "node_began";
				break;
			case TRANS_STMT_COMMIT_PREPARED:
				before = "node_commit";
				after = "node_committed";
				break;
			case TRANS_STMT_ROLLBACK_PREPARED:
				before = "node_rollback";
				after = "node_rolled_back";
				break;
			default:
				break;
		}
	}
	if (before)
		at_step(before, 0);
	if (previous_utility)
		previous_utility(statement, text, read_only, context, params, environment, receiver,
						 completion);
	else
		standard_ProcessUtility(statement, text, read_only, context, params, environment, receiver,
								completion);
	if (after)
		at_step(after, 0);
}

void
_PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	rf_step_hook = at_step;
	RegisterXactCallback(at_transaction, NULL);
	previous_utility = ProcessUtility_hook;
	ProcessUtility_hook = utility;
}
