/*
 * store.h - what store.c and store_insert.c share. Nobody outside the room includes it.
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

#endif
