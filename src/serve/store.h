/*
 * store.h - shared by store.c, store_insert.c and store_update.c. Nobody outside the room includes
 * it.
 */
#ifndef RF_STORE_H
#define RF_STORE_H

#include "nodes/execnodes.h"
#include "storage/itemptr.h"

/* The statement that is run for the request, for observers of this node. */
extern void rf_store_show(const char *sql);

/*
 * For errors: the current work is about the `back`-th row before the row that was read last; or
 * about no particular row.
 */
extern void rf_store_at_row(uint64 back);
extern void rf_store_at_no_row(void);

/*
 * Rows that were read are kept, until this writes them: it is called before the writing node hears
 * that their batch was read, which to it means that they are written. NULL: none are kept any more.
 */
extern void rf_store_keeps_rows(void (*write) (void *keeper), void *keeper);

/* The row that is read last names this one. It must stay where it is until the next is read. */
extern void rf_store_at_ctid(ItemPointer ctid);

/*
 * Let a ModifyTable that has been started, but not run yet, insert its rows many at a time where
 * nobody can tell the difference. Its rows come from the custom scan of store.c, without junk
 * attributes.
 */
extern void rf_store_insert_together(ModifyTableState *node);

/*
 * lock_row.c: locks the row at this place (ctid) of a table, which is the relation or one of its
 * partitions or children, to be updated or deleted. Waits for other transactions. ERROR (40001) if
 * one has changed it since the writing node read it, if it is not there, or if the caller may not
 * see it; (42501) if it may not write the relation. The end closes what was opened, in the same
 * transaction.
 */
typedef struct RfRowLocker RfRowLocker;

extern RfRowLocker *rf_row_locker_create(Oid relid, bool delete);
extern void rf_lock_row(RfRowLocker *locker, Oid table, ItemPointer ctid);
extern void rf_row_locker_end(RfRowLocker *locker);

/*
 * UPDATE or DELETE of the relation's rows that the request's rows name: their first place_count
 * columns are ctid, tableoid and the distribution key, the others are the new values of the columns
 * of the same name. row_types: the column definition list of rdma_internal.receive(). Inside SPI;
 * returns how many rows were written, and in *statements what it runs, the outermost first.
 */
extern uint64 rf_store_by_ctid(const char *relation, TupleDesc rows, int place_count,
							   const char *row_types, bool delete, List **statements);

#endif
