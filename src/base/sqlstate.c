/*
 * sqlstate.c - the SQLSTATE of an error that was carried as data.
 */
#include "postgres.h"

#include "error.h"

int
rf_error_sqlstate(RfErrorKind kind)
{
	switch (kind)
	{
		case RF_ERROR_CONNECTION:
			return ERRCODE_CONNECTION_FAILURE;
		case RF_ERROR_AUTHENTICATION:
			return ERRCODE_SQLSERVER_REJECTED_ESTABLISHMENT_OF_SQLCONNECTION;
		case RF_ERROR_PROTOCOL:
			return ERRCODE_PROTOCOL_VIOLATION;
		case RF_ERROR_VERSION:
		case RF_ERROR_CONFIGURATION:
			return ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE;
		case RF_ERROR_RESOURCES:
			return ERRCODE_INSUFFICIENT_RESOURCES;
		case RF_ERROR_GONE:
			return ERRCODE_CONNECTION_FAILURE;
		case RF_ERROR_NONE:
		case RF_ERROR_INTERNAL:
			break;
	}
	return ERRCODE_INTERNAL_ERROR;
}
