/*
 * fdw.c
 *		The handler: the table of functions that makes this a foreign data wrapper.
 */
#include "postgres.h"

#include "fmgr.h"
#include "foreign/fdwapi.h"

#include "fdw/catalog/catalog.h"
#include "fdw/exec/exec.h"
#include "fdw/plan/plan.h"


PG_FUNCTION_INFO_V1(rdma_fdw_handler);

/* The handler that CREATE FOREIGN DATA WRAPPER names: the table of callbacks. */
Datum
rdma_fdw_handler(PG_FUNCTION_ARGS)
{
	FdwRoutine *routine = makeNode(FdwRoutine);

	routine->GetForeignRelSize = rdmaGetForeignRelSize;
	routine->GetForeignPaths = rdmaGetForeignPaths;
	routine->GetForeignJoinPaths = rdmaGetForeignJoinPaths;
	routine->GetForeignUpperPaths = rdmaGetForeignUpperPaths;
	routine->GetForeignPlan = rdmaGetForeignPlan;

	routine->BeginForeignScan = rdmaBeginForeignScan;
	routine->IterateForeignScan = rdmaIterateForeignScan;
	routine->RecheckForeignScan = rdmaRecheckForeignScan;
	routine->ReScanForeignScan = rdmaReScanForeignScan;
	routine->EndForeignScan = rdmaEndForeignScan;

	routine->GetForeignRowMarkType = rdmaGetForeignRowMarkType;
	routine->RefetchForeignRow = rdmaRefetchForeignRow;

	routine->AddForeignUpdateTargets = rdmaAddForeignUpdateTargets;
	routine->PlanForeignModify = rdmaPlanForeignModify;
	routine->BeginForeignModify = rdmaBeginForeignModify;
	routine->ExecForeignInsert = rdmaExecForeignInsert;
	routine->ExecForeignUpdate = rdmaExecForeignUpdate;
	routine->ExecForeignDelete = rdmaExecForeignDelete;
	routine->EndForeignModify = rdmaEndForeignModify;
	routine->BeginForeignInsert = rdmaBeginForeignInsert;
	routine->EndForeignInsert = rdmaEndForeignInsert;
	routine->IsForeignRelUpdatable = rdmaIsForeignRelUpdatable;
	routine->PlanDirectModify = rdmaPlanDirectModify;
	routine->BeginDirectModify = rdmaBeginDirectModify;
	routine->IterateDirectModify = rdmaIterateDirectModify;
	routine->EndDirectModify = rdmaEndDirectModify;
	routine->ExplainForeignModify = rdmaExplainForeignModify;
	routine->ExplainDirectModify = rdmaExplainDirectModify;
	routine->ExecForeignTruncate = rdmaExecForeignTruncate;

	routine->IsForeignScanParallelSafe = rdmaIsForeignScanParallelSafe;
	routine->EstimateDSMForeignScan = rdmaEstimateDSMForeignScan;
	routine->InitializeDSMForeignScan = rdmaInitializeDSMForeignScan;
	routine->ReInitializeDSMForeignScan = rdmaReInitializeDSMForeignScan;
	routine->InitializeWorkerForeignScan = rdmaInitializeWorkerForeignScan;
	routine->ShutdownForeignScan = rdmaShutdownForeignScan;

	routine->ExplainForeignScan = rdmaExplainForeignScan;

	routine->IsForeignPathAsyncCapable = rdmaIsForeignPathAsyncCapable;
	routine->ForeignAsyncRequest = rdmaForeignAsyncRequest;
	routine->ForeignAsyncConfigureWait = rdmaForeignAsyncConfigureWait;
	routine->ForeignAsyncNotify = rdmaForeignAsyncNotify;

	routine->AnalyzeForeignTable = rdmaAnalyzeForeignTable;

	routine->ImportForeignSchema = rdmaImportForeignSchema;

	PG_RETURN_POINTER(routine);
}
