/*
 * rdma_fdw.c - what PostgreSQL calls when it loads the library: settings, hooks, the engine.
 *
 * Loaded by shared_preload_libraries it asks for shared memory, registers the background workers,
 * and allows prepared transactions. Loaded later, by a session, it only defines the settings:
 * everything that needs the engine then raises through rf_engine_require(). Nothing is opened here.
 */
#include "postgres.h"

#include "access/twophase.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "utils/guc.h"

#include "rdma_fdw/exchange.h"
#include "rdma_fdw/guc.h"
#include "rdma_fdw/remote.h"
#include "rdma_fdw/serve.h"

#include "fdw/exec/exec.h"
#include "fdw/plan/plan_private.h"
#include "hooks.h"

#define RF_ENGINE_RESTART_SECONDS	1

PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

/* Plans that workers get as text name the methods of custom scans and of nodes of ours. */
static void
register_nodes(void)
{
	rf_plan_private_register();
	rf_store_register();
	rf_exchange_register();
	rf_local_rows_register();
	rf_lookahead_register();
	rf_lookup_register();
}

static void
register_engine(void)
{
	BackgroundWorker worker;

	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS;
	worker.bgw_start_time = BgWorkerStart_PostmasterStart;
	worker.bgw_restart_time = RF_ENGINE_RESTART_SECONDS;
	strlcpy(worker.bgw_library_name, "rdma_fdw", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "rf_engine_main", sizeof(worker.bgw_function_name));
	strlcpy(worker.bgw_name, "rdma_fdw engine", sizeof(worker.bgw_name));
	strlcpy(worker.bgw_type, "rdma_fdw engine", sizeof(worker.bgw_type));
	RegisterBackgroundWorker(&worker);
}

/*
 * Transactions over several nodes are prepared on each. The default of max_prepared_transactions,
 * 0, means that nobody thought of it; each session of a coordinator's needs one at a time.
 */
static void
allow_prepared_transactions(void)
{
	char		value[16];

	if (max_prepared_xacts > 0)
		return;
	snprintf(value, sizeof(value), "%d", MaxConnections);
	SetConfigOption("max_prepared_transactions", value, PGC_POSTMASTER, PGC_S_OVERRIDE);
}

/*
 * Called when the library is loaded: defines settings and installs hooks; in the postmaster also
 * asks for shared memory and registers the workers.
 */
void
_PG_init(void)
{
	rf_define_settings();
	register_nodes();
	rf_install_hooks();
	if (!process_shared_preload_libraries_in_progress)
		return;

	/* pg_upgrade's servers and single-user mode run no workers of ours. */
	if (IsBinaryUpgrade)
		return;
	register_engine();
	rf_resolver_register();
	allow_prepared_transactions();
}
