/*
 * monitor.h - shared by the SQL functions about a server.
 */
#ifndef RF_MONITOR_H
#define RF_MONITOR_H

#include "postgres.h"

#include "foreign/foreign.h"

/*
 * The caller's user mapping for a server of rdma_fdw that it may use. ERROR when it is of another
 * wrapper, or the caller may not. (check.c)
 */
extern UserMapping *rf_monitor_mapping(ForeignServer *server);

#endif
