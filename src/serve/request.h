/*
 * request.h - the common part of requests of another node to this one: their wire version, and the
 * columns behind their header. Nobody outside the room includes it.
 */
#ifndef RF_REQUEST_H
#define RF_REQUEST_H

#include "postgres.h"

#include "rdma_fdw/wire.h"

typedef struct RfRequestKind
{
	const char *function;		/* that takes it, for messages */
	const char *caller;			/* "reading", "writing": the node that sends it */
	Size		size;			/* of its header, which begins with the wire version */
	Size		column_count;	/* where in the header that is, a uint32 */
	Size		trailer;		/* bytes that may follow its columns */
} RfRequestKind;

/*
 * A copy of the request out of its bytes, palloc'd; the columns follow it there. *trailer: the
 * bytes behind these, or NULL. ERROR if they are not a request.
 */
extern void *rf_request_read(const RfRequestKind *kind, bytea * bytes, RfStreamColumn **columns,
							 void **trailer);

/*
 * Observers of this node see the statement that a request carries or stands for, not the call: in
 * pg_stat_activity, and in the log's line about the statement of an error.
 */
extern void rf_request_show(const RfRequestKind *kind, const char *sql);

/* ERROR: it is no request, and why. */
extern void rf_request_bad(const RfRequestKind *kind, const char *problem)
			__attribute__((noreturn));

#endif
