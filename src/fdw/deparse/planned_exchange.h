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
	char	   *spec;			/* rows of this node, which sends them: the argument of
								 * rdma_internal.exchange(); else empty, and: */
	/* IntLists of members: the place of a node among the nodes that run the statement */
	List	   *producers;		/* these members run the query of the exchange */
	List	   *consumers;		/* these members receive its rows */
} RfPlannedExchange;

#endif
