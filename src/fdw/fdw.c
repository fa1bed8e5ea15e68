/*
 * fdw.c
 *		The handler: the table of functions that makes this a foreign data wrapper.
 *
 * Foreign tables are read-only, so the callbacks for writing are absent and core reports
 * "cannot insert into foreign table".
 */
#include "postgres.h"

#include "fmgr.h"
#include "foreign/fdwapi.h"

#include "rdma_fdw/fdw.h"

PG_FUNCTION_INFO_V1(rdma_fdw_handler);

Datum
rdma_fdw_handler(PG_FUNCTION_ARGS)
{
	FdwRoutine *routine = makeNode(FdwRoutine);

	routine->GetForeignRelSize = rdmaGetForeignRelSize;
	routine->GetForeignPaths = rdmaGetForeignPaths;
	routine->GetForeignPlan = rdmaGetForeignPlan;

	routine->BeginForeignScan = rdmaBeginForeignScan;
	routine->IterateForeignScan = rdmaIterateForeignScan;
	routine->ReScanForeignScan = rdmaReScanForeignScan;
	routine->EndForeignScan = rdmaEndForeignScan;

	routine->ExplainForeignScan = rdmaExplainForeignScan;

	routine->AnalyzeForeignTable = rdmaAnalyzeForeignTable;

	routine->ImportForeignSchema = rdmaImportForeignSchema;

	PG_RETURN_POINTER(routine);
}
