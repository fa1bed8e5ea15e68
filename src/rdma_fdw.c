/*
 * rdma_fdw.c - what PostgreSQL calls when it loads the library: settings, shared memory, the
 * engine.
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
#include "storage/ipc.h"
#include "utils/guc.h"

#include "rdma_fdw/fdw.h"
#include "rdma_fdw/exchange.h"
#include "rdma_fdw/guc.h"
#include "rdma_fdw/remote.h"
#include "rdma_fdw/serve.h"

#include "shmem/arena.h"

#define RF_ENGINE_RESTART_SECONDS	1

PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

static shmem_request_hook_type previous_shmem_request_hook = NULL;
static shmem_startup_hook_type previous_shmem_startup_hook = NULL;

static void
rf_shmem_request(void)
{
	if (previous_shmem_request_hook)
		previous_shmem_request_hook();
	rf_arena_request();
	rf_commit_shmem_request();
	rf_gate_shmem_request();
	rf_waiting_shmem_request();
	rf_moves_shmem_request();
	rf_part_log_shmem_request();
}

static void
rf_shmem_startup(void)
{
	if (previous_shmem_startup_hook)
		previous_shmem_startup_hook();
	rf_arena_startup();
	rf_commit_shmem_startup();
	rf_gate_shmem_startup();
	rf_waiting_shmem_startup();
	rf_moves_shmem_startup();
	rf_part_log_shmem_startup();
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

void
_PG_init(void)
{
	rf_define_settings();
	rf_partialize_install_hooks();
	rf_fdw_install_hooks();
	rf_array_stats_install_hook();
	rf_exchange_install_hooks();
	rf_permit_install_hook();
	rf_part_log_install_hook();
	rf_commit_install_hook();

	if (!process_shared_preload_libraries_in_progress)
		return;

	previous_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = rf_shmem_request;
	previous_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = rf_shmem_startup;

	/* pg_upgrade's servers and single-user mode run no workers of ours. */
	if (IsBinaryUpgrade)
		return;
	register_engine();
	rf_resolver_register();
	allow_prepared_transactions();
}
