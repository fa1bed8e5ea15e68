/*
 * planned_exchange.h - what execution and EXPLAIN know of an exchange in a remote statement.
 */
#ifndef RF_PLANNED_EXCHANGE_H
#define RF_PLANNED_EXCHANGE_H

#include "rdma_fdw/plan_node.h"

/*
 * An exchange of a remote statement, for execution and EXPLAIN; its number is its place in the
 * statement's list, from 1. A node of the plan: its fields are in plan_private.c.
 */
typedef struct RfPlannedExchange
{
	ExtensibleNode node;
	bool		replicate;		/* each consumer gets all rows; else each row goes to one of them */
	double		rows;			/* expected to move */
	char	   *description;	/* in EXPLAIN */
	List	   *producers;		/* IntList: members, places among those that run the statement,
								 * that */
	List	   *consumers;		/* run its query; and that receive its rows */
} RfPlannedExchange;

#endif
