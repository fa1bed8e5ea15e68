/*
 * credentials.c - the identities with which a session may connect to a data node.
 *
 * An ordinary user must not reach data nodes with the identity of the local server's operating
 * system user (peer, ident, trust, a .pgpass file, a ticket of its own). The credentials must be
 * the user's own: a password in the mapping, from 16 on delegated GSSAPI credentials, from 18 on
 * the SCRAM keys of the user's own login. They are checked before connecting; afterwards it is
 * checked that libpq used them. The rules and messages equal those in postgres_fdw of the same
 * major version.
 */
#include "postgres.h"

#include "commands/defrem.h"
#if PG_VERSION_NUM >= 180000
#include "common/base64.h"
#endif
/*
 * The headers of Kerberos that come with libpq-be.h may not be installed. The layout does not
 * change without them.
 */
#if PG_VERSION_NUM >= 160000 && defined(ENABLE_GSS)
#define HAVE_GSS_DELEGATION
#endif
#undef ENABLE_GSS
#include "libpq/libpq-be.h"
#include "miscadmin.h"

#include "rdma_fdw/compat.h"
#include "session.h"

#ifdef HAVE_GSS_DELEGATION
extern bool be_gssapi_get_delegation(Port * port);
#endif

#if PG_VERSION_NUM >= 160000
#define REQUIRED	"password or GSSAPI delegated credentials required"
#define NOT_REQUESTED \
	"Non-superuser cannot connect if the server does not request a password " \
	"or use GSSAPI with delegated credentials."
#else
#define REQUIRED	"password is required"
#define NOT_REQUESTED	"Non-superuser cannot connect if the server does not request a password."
#endif

#if PG_VERSION_NUM >= 180000
#define WAYS_TO_PROVE \
	"Non-superusers must delegate GSSAPI credentials, provide a password, " \
	"or enable SCRAM pass-through in user mapping."
#elif PG_VERSION_NUM >= 160000
#define WAYS_TO_PROVE \
	"Non-superusers must delegate GSSAPI credentials or provide a password in the user mapping."
#else
#define WAYS_TO_PROVE	"Non-superusers must provide a password in the user mapping."
#endif

static bool
password_given(UserMapping *user)
{
	DefElem    *password = rf_option_find(user->options, "password");

	return password != NULL && defGetString(password)[0] != '\0';
}

/*
 * Returns true if a superuser has declared that this mapping needs no credentials of the user's
 * own.
 */
static bool
nothing_required(UserMapping *user)
{
	DefElem    *required = rf_option_find(user->options, "password_required");

	return superuser_arg(user->userid) || (required != NULL && !defGetBoolean(required));
}

/* Returns true if this session's client delegated its GSSAPI credentials. */
static bool
has_delegated_ticket(void)
{
#ifdef HAVE_GSS_DELEGATION
	return MyProcPort != NULL && be_gssapi_get_delegation(MyProcPort);
#else
	return false;
#endif
}

/*
 * Returns true if the client's SCRAM keys are to be used, and it has keys. The server's option
 * takes precedence.
 */
static bool
passes_scram(ForeignServer *server, UserMapping *user)
{
#if PG_VERSION_NUM >= 180000
	DefElem    *option = rf_option_find(server->options, "use_scram_passthrough");

	if (option == NULL)
		option = rf_option_find(user->options, "use_scram_passthrough");
	return option != NULL && defGetBoolean(option) && MyProcPort != NULL &&
		MyProcPort->has_scram_keys;
#else
	return false;
#endif
}

#if PG_VERSION_NUM >= 180000
static char *
encoded_key(const uint8 *key, int length)
{
	int			room = pg_b64_enc_len(length);
	char	   *text = palloc0(room + 1);

	if (pg_b64_encode(key, length, text, room) < 0)
		elog(ERROR, "could not encode a SCRAM key");
	return text;
}
#endif

int
rf_credentials_options(ForeignServer *server, UserMapping *user, const char **keywords,
					   const char **values)
{
	int			n = 0;

#if PG_VERSION_NUM >= 180000
	if (passes_scram(server, user))
	{
		keywords[n] = "scram_client_key";
		values[n++] = encoded_key(MyProcPort->scram_ClientKey, sizeof(MyProcPort->scram_ClientKey));
		keywords[n] = "scram_server_key";
		values[n++] = encoded_key(MyProcPort->scram_ServerKey, sizeof(MyProcPort->scram_ServerKey));

		/* Any other method would authenticate the server's operating system user. */
		keywords[n] = "require_auth";
		values[n++] = "scram-sha-256";
	}
#endif
	return n;
}

void
rf_credentials_check(ForeignServer *server, UserMapping *user)
{
	if (nothing_required(user) || password_given(user) || has_delegated_ticket() ||
		passes_scram(server, user))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_S_R_E_PROHIBITED_SQL_STATEMENT_ATTEMPTED),
			 errmsg(REQUIRED),
			 errdetail(WAYS_TO_PROVE)));
}

void
rf_credentials_connected(RfSession *session, ForeignServer *server, UserMapping *user)
{
	/* with the keys, require_auth made sure that they were used */
	session->own_credentials = passes_scram(server, user) ||
		(PQconnectionUsedPassword(session->conn) && password_given(user));
#if PG_VERSION_NUM >= 160000
	if (PQconnectionUsedGSSAPI(session->conn) && has_delegated_ticket())
		session->own_credentials = true;
#endif
}

void
rf_credentials_check_session(RfSession *session, UserMapping *user)
{
	if (nothing_required(user) || session->own_credentials)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_S_R_E_PROHIBITED_SQL_STATEMENT_ATTEMPTED),
			 errmsg(REQUIRED), errdetail(NOT_REQUESTED),
			 errhint("Target server's authentication method must be changed or "
					 "password_required=false set in the user mapping attributes.")));
}
