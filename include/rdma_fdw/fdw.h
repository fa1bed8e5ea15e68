/*
 * fdw.h
 *		The room src/fdw/: planning and running foreign scans in the coordinator's backend.
 *
 * Does: options and their checks, what may be sent to the data node, the remote SQL text, costs,
 * IMPORT FOREIGN SCHEMA, and the executor callbacks that return rows. Each folder of it has headers
 * of its own.
 * Does not: open connections or transactions (remote/), decode bytes (batch/), move data (flow/
 * and below).
 */
#ifndef RDMA_FDW_FDW_H
#define RDMA_FDW_FDW_H

/* At the start of each process, or of the server; never twice. */
extern void rf_fdw_install_hooks(void);

#endif							/* RDMA_FDW_FDW_H */
