/*
 * error.h - an error as data: threads and providers return it, the main thread logs it, a backend
 * raises it. Plain C, but for the SQLSTATE.
 */
#ifndef RF_ERROR_H
#define RF_ERROR_H

#include <stdbool.h>

typedef enum RfErrorKind
{
	RF_ERROR_NONE = 0,
	RF_ERROR_CONNECTION,		/* peer unreachable, lost, timed out */
	RF_ERROR_AUTHENTICATION,	/* token or proof wrong */
	RF_ERROR_PROTOCOL,			/* invalid bytes on the wire */
	RF_ERROR_VERSION,			/* other wire version or type image */
	RF_ERROR_RESOURCES,			/* memory, buffers, queue pairs, descriptors, memlock */
	RF_ERROR_CONFIGURATION,		/* device, GID, MTU, settings */
	RF_ERROR_INTERNAL,
	RF_ERROR_GONE,				/* the reader does not want it any more */
	RF_ERROR_NOT_CONNECTED		/* no connection was established; never sent to a peer */
} RfErrorKind;

typedef struct RfError
{
	RfErrorKind kind;
	char		message[320];	/* the address, and the other end's answer: up to 188 bytes */
	char		detail[192];
	char		hint[192];
} RfError;

/*
 * Fills an error; detail and hint may be NULL. Returns false, so that `return rf_error(...)` reads
 * well.
 */
extern bool rf_error(RfError *error, RfErrorKind kind, const char *detail, const char *hint,
					 const char *format,...) __attribute__((format(printf, 5, 6)));

/* Its SQLSTATE, for raising or logging. (sqlstate.c, which needs PostgreSQL) */
extern int	rf_error_sqlstate(RfErrorKind kind);

#endif
