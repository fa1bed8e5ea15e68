/*
 * lookahead.h
 * 		Messages from a node that reads rows ahead (lookahead.c) to nodes that look rows up for them
 * 		(batched_lookup.c).
 */
#ifndef RF_LOOKAHEAD_H
#define RF_LOOKAHEAD_H

#include "postgres.h"

#include "nodes/execnodes.h"

typedef struct RfLookup RfLookup;

/* The lookup with this number in the plan that is being run; NULL if there is no such lookup. */
extern RfLookup *rf_lookup_find(EState *estate, int number);

/*
 * For how many rows, of `rows` that could be read next, it is worth to know values before those are
 * read; rows that it kept for earlier values may go. first: since the plan above started.
 */
extern int	rf_lookup_begin(RfLookup *lookup, int rows, bool first);

/*
 * It will be asked for the values that its parameters have now. Returns false if further values
 * should not be expected yet.
 */
extern bool rf_lookup_expect(RfLookup *lookup);

/* more: it will be asked for further values than the expected ones. */
extern void rf_lookup_expected(RfLookup *lookup, bool more);

#endif
