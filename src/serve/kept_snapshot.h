/*
 * kept_snapshot.h - the snapshots that statements of a reader have here, see kept_snapshot.c.
 * Nobody outside the room includes it.
 */
#ifndef RF_KEPT_SNAPSHOT_H
#define RF_KEPT_SNAPSHOT_H

#include "postgres.h"

#include "executor/execdesc.h"
#include "utils/snapshot.h"

#include "rdma_fdw/wire.h"

/* The active snapshot becomes the statement's; snapshots of statements that are over go. */
extern void rf_kept_snapshot_keep(const RfStreamSnapshot *request);

/*
 * Good until the next call that keeps one. *position, unless NULL: of the log of parts (part_log.h)
 * behind it. ERROR (40001) if there is no such snapshot.
 */
extern Snapshot rf_kept_snapshot(const RfStreamSnapshot *request, uint64 *position);

/* A query that was started under one writes and locks rows as a part of that statement. */
extern void rf_kept_snapshot_writes(QueryDesc *query);

/* The next statement that the client sends runs under it. The same error. */
extern void rf_kept_snapshot_next(const RfStreamSnapshot *request);

#endif
