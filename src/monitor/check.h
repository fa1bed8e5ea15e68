/*
 * check.h - rdma.check(server): its steps (check.c), and what they share with the function that
 * runs them (check_run.c).
 */
#ifndef RF_CHECK_H
#define RF_CHECK_H

#include "postgres.h"

#include "foreign/foreign.h"
#include "utils/timestamp.h"

#include "rdma_fdw/remote.h"

typedef struct CheckRow
{
	const char *item;
	const char *status;
	const char *value;
	const char *fix;
} CheckRow;

typedef struct Check
{
	MemoryContext context;		/* of the rows */
	List	   *rows;
	Oid			serverid;		/* of the server that is asked for, or of the node that the steps
								 * are about */
	UserMapping *user;
	const char *server;			/* with nodes */
	List	   *nodes;			/* OidList: its nodes' servers; NIL: an ordinary server */
	const char *node;			/* named in front of items; NULL: an ordinary server */
	RfSession  *session;
	RfHelloReply hello;
	bool		stop;			/* the next steps need the failed step */
	TimestampTz deadline;		/* of the steps at this node; 0 = no deadline */
} Check;

typedef struct CheckStep
{
	const char *item;
	void		(*step) (Check *check);
	const char *fix;			/* of an error without a hint of its own; NULL: see the logs */
} CheckStep;

/*
 * About this node, another one, one as a part of a server, tables of a server, and a server with
 * nodes and its tables. A step without an item ends each list.
 */
extern const CheckStep rf_check_here[];
extern const CheckStep rf_check_there[];
extern const CheckStep rf_check_among_nodes[];
extern const CheckStep rf_check_tables[];
extern const CheckStep rf_check_between_nodes[];

/* Adds a row of the answer; value and fix may be NULL. */
extern void rf_check_add(Check *check, const char *item, const char *status, const char *value,
						 const char *fix);

static inline void
ok(Check *check, const char *item, const char *value)
{
	rf_check_add(check, item, "ok", value, NULL);
}

static inline void
info(Check *check, const char *item, const char *value, const char *fix)
{
	rf_check_add(check, item, "info", value, fix);
}

static inline void
problem(Check *check, const char *item, const char *value, const char *fix)
{
	rf_check_add(check, item, "problem", value, fix);
}

#endif
