/*
 * store.h - what store.c, store_insert.c and store_update.c share. Nobody outside the room includes it.
 */
#ifndef RF_STORE_H
#define RF_STORE_H

#include "nodes/execnodes.h"

/*
 * Let a ModifyTable that has been started, but not run yet, insert its rows many at a time where
 * nobody can tell the difference. Its rows come from the custom scan of store.c, without junk
 * attributes.
 */
extern void rf_store_insert_together(ModifyTableState *node);

/*
 * UPDATE or DELETE of the relation's rows that the request's rows name: their first column is a
 * ctid, the others are the new values of the columns of the same name. row_types: the column
 * definition list of rdma.receive(). Inside SPI; returns how many rows were written.
 */
extern uint64 rf_store_by_ctid(const char *relation, TupleDesc rows, const char *row_types, bool delete);

#endif
