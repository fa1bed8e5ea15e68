/*
 * enroll.h
 * 	Shared by enroll.c and change.c: writing the record of a server with nodes, and making its nodes
 * 	know their part of it.
 */
#ifndef RF_ENROLL_H
#define RF_ENROLL_H

#include "postgres.h"

#include "foreign/foreign.h"

#include "remote/placement.h"

/* A statement about rdma.placement, with the rights of its owner. */
extern void rf_record_execute(const char *sql, int count, Oid *types, Datum *values,
							  const char *nulls);

/*
 * The record, locked until the transaction ends: its nodes do not change. To be written, including
 * writes of another session meanwhile. ERROR without a record.
 */
extern RfPlacementRecord *rf_record_lock(ForeignServer *server, bool write);

/*
 * Has the database that a server leads to become a node (rdma_internal.join_set), in the remote
 * transaction; returns its new identity.
 */
extern char *rf_node_join(ForeignServer *server, const char *node, const char *set_id, int number,
						  const char *version, bool replace);

#endif							/* RF_ENROLL_H */
