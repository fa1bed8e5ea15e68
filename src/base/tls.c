/*
 * tls.c - see tls.h.
 *
 * libssl does the protocol. Between it and the socket stands a BIO of our own: records gather in a
 * buffer and leave in one send for many of them, libssl reads as much as its own buffer has room
 * for, and no signal is raised where the other end is gone.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "tls.h"

#define RF_TLS_IDENTITY		"rdma_fdw"
#define RF_TLS_LABEL		"EXPORTER-rdma_fdw socket"
#define RF_TLS_OVERHEAD		256 /* most that a record is longer than its bytes (RFC 8446, 5.2), and
								 * its header */

struct RfTls
{
	SSL		   *ssl;
	int			sock;
	RfTlsKey	key;			/* the secret is wiped when the handshake is over */
	bool		ready;
	bool		ended;			/* the socket's end was read */
	bool		failed;
	bool		more;			/* the last call of SSL_read gave bytes */
	int			socket_errno;	/* of the last read from the socket that failed */
	const char *reason;
	uint64_t	sent;			/* since the keys were made anew, in full records */
	char	   *out;			/* records that wait for the socket */
	size_t		out_size;
	size_t		out_limit;		/* no further record begins above it */
	size_t		out_head;
	size_t		out_end;
	char		stage[RF_TLS_RECORD];	/* small pieces on their way into one record */
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static SSL_CTX *shared_context;
static BIO_METHOD *bio_method;

/* ---------- between libssl and the socket ---------- */

static int
bio_write(BIO *bio, const char *bytes, int length)
{
	RfTls	   *tls = BIO_get_data(bio);
	size_t		need = tls->out_end + length;

	if (need > tls->out_size)
	{
		char	   *bigger = realloc(tls->out, need);

		if (bigger == NULL)
			return -1;
		tls->out = bigger;
		tls->out_size = need;
	}
	memcpy(tls->out + tls->out_end, bytes, length);
	tls->out_end = need;
	return length;
}

/*
 * OpenSSL's source of bytes: reads the socket without waiting, and keeps the reason why there are
 * no bytes.
 */
static int
bio_read(BIO *bio, char *to, int size)
{
	RfTls	   *tls = BIO_get_data(bio);
	ssize_t		got;

	BIO_clear_retry_flags(bio);
	do
		got = recv(tls->sock, to, size, MSG_DONTWAIT);
	while (got < 0 && errno == EINTR);
	if (got > 0)
		return (int) got;
	if (got == 0)
		tls->ended = true;
	else if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOMEM || errno == ENOBUFS)
		BIO_set_retry_read(bio);
	else
		tls->socket_errno = errno;
	return got == 0 ? 0 : -1;
}

static long
bio_control(BIO *bio, int command, long number, void *pointer)
{
	return command == BIO_CTRL_FLUSH;
}

/* ---------- the secret ---------- */

static SSL_SESSION *
make_session(SSL *ssl)
{
	static const unsigned char suite[] = {0x13, 0x02};	/* TLS_AES_256_GCM_SHA384 */
	RfTls	   *tls = SSL_get_app_data(ssl);
	const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, suite);
	SSL_SESSION *session = cipher != NULL ? SSL_SESSION_new() : NULL;

	if (session != NULL &&
		(!SSL_SESSION_set1_master_key(session, tls->key.secret, RF_TLS_KEY_SIZE) ||
		 !SSL_SESSION_set_cipher(session, cipher) ||
		 !SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION)))
	{
		SSL_SESSION_free(session);
		return NULL;
	}
	return session;
}

static int
use_secret(SSL *ssl, const EVP_MD *hash, const unsigned char **identity, size_t *length,
		   SSL_SESSION **session)
{
	*identity = (const unsigned char *) RF_TLS_IDENTITY;
	*length = sizeof(RF_TLS_IDENTITY) - 1;
	*session = make_session(ssl);
	return *session != NULL;
}

static int
find_secret(SSL *ssl, const unsigned char *identity, size_t length, SSL_SESSION **session)
{
	*session = NULL;
	if (length == sizeof(RF_TLS_IDENTITY) - 1 && memcmp(identity, RF_TLS_IDENTITY, length) == 0)
		*session = make_session(ssl);
	return 1;
}

/* ---------- beginning and end ---------- */

/*
 * The common part of all connections; a server's configuration of OpenSSL changes nothing of it.
 */
static void
make_shared(void)
{
	SSL_CTX    *context = SSL_CTX_new(TLS_method());

	bio_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "rdma_fdw socket");
	if (context == NULL || bio_method == NULL || !BIO_meth_set_write(bio_method, bio_write) ||
		!BIO_meth_set_read(bio_method, bio_read) || !BIO_meth_set_ctrl(bio_method, bio_control) ||
		!SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) ||
		!SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) ||
		!SSL_CTX_set_ciphersuites(context, "TLS_AES_256_GCM_SHA384") ||
		!SSL_CTX_set1_groups_list(context, "X25519") || !SSL_CTX_set_num_tickets(context, 0))
	{
		SSL_CTX_free(context);
		return;
	}
	SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
	SSL_CTX_clear_options(context, SSL_OP_ENABLE_MIDDLEBOX_COMPAT | SSL_OP_ALLOW_NO_DHE_KEX);
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_CTX_set_read_ahead(context, 1);
	SSL_CTX_set_psk_use_session_callback(context, use_secret);
	SSL_CTX_set_psk_find_session_callback(context, find_secret);
	shared_context = context;
}

static const char *
library_reason(void)
{
	const char *reason = ERR_reason_error_string(ERR_peek_error());

	return reason != NULL ? reason : "unknown error of OpenSSL";
}

/* The connection is of no more use. errno: the socket's, or EPROTO. */
static void
fail(RfTls *tls)
{
	tls->failed = true;
	tls->reason = library_reason();
	ERR_clear_error();
	OPENSSL_cleanse(tls->key.secret, sizeof(tls->key.secret));
	errno = tls->socket_errno != 0 ? tls->socket_errno : EPROTO;
}

/* False: not all left. errno: EAGAIN, or why never. */
static bool
flush(RfTls *tls)
{
	while (tls->out_head < tls->out_end)
	{
		ssize_t		sent = send(tls->sock, tls->out + tls->out_head, tls->out_end - tls->out_head,
								MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
		{
			if (errno == EWOULDBLOCK)
				errno = EAGAIN;
			return false;
		}
		tls->out_head += sent;
	}
	tls->out_head = tls->out_end = 0;
	return true;
}

/* Whether the handshake is over, and that by the secret and nothing else. False: it has failed. */
static bool
look_at_handshake(RfTls *tls)
{
	if (tls->ready || !SSL_is_init_finished(tls->ssl))
		return true;
	if (!SSL_session_reused(tls->ssl))
	{
		fail(tls);
		return false;
	}
	tls->ready = true;
	OPENSSL_cleanse(tls->key.secret, sizeof(tls->key.secret));
	return true;
}

RfTls *
rf_tls_new(int sock, const RfTlsKey *key, int records, RfError *error)
{
	RfTls	   *tls = calloc(1, sizeof(RfTls));
	BIO		   *bio = NULL;

	(void) pthread_once(&once, make_shared);
	if (tls == NULL || shared_context == NULL)
	{
		free(tls);
		(void) rf_error(error, RF_ERROR_RESOURCES, NULL, NULL,
						"OpenSSL has no TLS 1.3 with AES-256-GCM and X25519, or no memory");
		return NULL;
	}
	tls->sock = sock;
	tls->key = *key;
	tls->out_limit = (size_t) records * (RF_TLS_RECORD + RF_TLS_OVERHEAD);
	tls->out_size = tls->out_limit;
	tls->out = malloc(tls->out_size);
	ERR_clear_error();
	tls->ssl = SSL_new(shared_context);
	bio = BIO_new(bio_method);
	if (tls->out == NULL || tls->ssl == NULL || bio == NULL)
	{
		BIO_free(bio);
		rf_tls_free(tls);
		(void) rf_error(error, RF_ERROR_RESOURCES, NULL, NULL, "out of memory");
		return NULL;
	}
	BIO_set_data(bio, tls);
	BIO_set_init(bio, 1);
	SSL_set_bio(tls->ssl, bio, bio);
	SSL_set_app_data(tls->ssl, tls);
	SSL_set_default_read_buffer_len(tls->ssl, (size_t) records * (RF_TLS_RECORD + RF_TLS_OVERHEAD));
	if (!key->client)
		SSL_set_accept_state(tls->ssl);
	else
	{
		/*
		 * Nobody's certificate is trusted: a server that shows one, and not the secret, is
		 * refused.
		 */
		SSL_set_verify(tls->ssl, SSL_VERIFY_PEER, NULL);
		SSL_set_connect_state(tls->ssl);
		if (SSL_get_error(tls->ssl, SSL_do_handshake(tls->ssl)) != SSL_ERROR_WANT_READ)
		{
			(void) rf_error(error, RF_ERROR_RESOURCES, library_reason(), NULL,
							"could not begin TLS");
			rf_tls_free(tls);
			return NULL;
		}
		(void) flush(tls);
	}
	return tls;
}

void
rf_tls_free(RfTls *tls)
{
	if (tls == NULL)
		return;
	SSL_free(tls->ssl);
	free(tls->out);
	OPENSSL_cleanse(tls, sizeof(*tls));
	free(tls);
}

/* ---------- sending ---------- */

/* One record at most, into the buffer. */
static bool
write_record(RfTls *tls, const void *bytes, size_t length)
{
	if (tls->sent >= tls->key.rekey_after)
	{
		if (!SSL_key_update(tls->ssl, SSL_KEY_UPDATE_NOT_REQUESTED))
		{
			fail(tls);
			return false;
		}
		tls->sent = 0;
	}
	if (SSL_write(tls->ssl, bytes, (int) length) != (int) length)
	{
		fail(tls);
		return false;
	}
	tls->sent += RF_TLS_RECORD;
	return true;
}

ssize_t
rf_tls_send(RfTls *tls, const struct iovec *pieces, int count)
{
	size_t		taken = 0;
	size_t		offset = 0;		/* of the next bytes in its piece */
	int			piece = 0;

	if (tls->failed)
	{
		errno = EPROTO;
		return -1;
	}
	if (!flush(tls))
		return -1;
	if (!tls->ready)
	{
		/* Only receiving reads: bytes that are read ahead here nobody would look for. */
		errno = EAGAIN;
		return -1;
	}
	ERR_clear_error();
	while (piece < count)
	{
		const char *from = NULL;
		size_t		length = 0;

		/* Large pieces are encrypted from their place, small ones are gathered first. */
		while (piece < count && length < RF_TLS_RECORD)
		{
			const char *bytes = (const char *) pieces[piece].iov_base + offset;
			size_t		left = pieces[piece].iov_len - offset;
			size_t		part = left < RF_TLS_RECORD - length ? left : RF_TLS_RECORD - length;

			if (part == RF_TLS_RECORD)
				from = bytes;
			else
			{
				memcpy(tls->stage + length, bytes, part);
				from = tls->stage;
			}
			length += part;
			offset += part;
			if (offset == pieces[piece].iov_len)
			{
				piece++;
				offset = 0;
			}
		}
		if (tls->out_end + RF_TLS_RECORD + RF_TLS_OVERHEAD > tls->out_limit && !flush(tls))
			break;
		if (!write_record(tls, from, length))
			return -1;
		taken += length;
	}
	if (!flush(tls) && errno != EAGAIN && taken == 0)
		return -1;
	return taken;
}

/* ---------- receiving ---------- */

ssize_t
rf_tls_receive(RfTls *tls, void *to, size_t size)
{
	int			got;
	int			why;

	if (tls->failed)
	{
		errno = EPROTO;
		return -1;
	}
	ERR_clear_error();
	got = SSL_read(tls->ssl, to, size > INT32_MAX ? INT32_MAX : (int) size);
	why = got > 0 ? SSL_ERROR_NONE : SSL_get_error(tls->ssl, got);
	tls->more = got > 0;
	if (why != SSL_ERROR_NONE && why != SSL_ERROR_WANT_READ)
	{
		/*
		 * Treats EOF without close_notify as the end; the caller's byte counts detect truncation.
		 */
		bool		ended = tls->ended || why == SSL_ERROR_ZERO_RETURN;

		fail(tls);
		(void) flush(tls);		/* an alert says why */
		errno = tls->socket_errno != 0 ? tls->socket_errno : EPROTO;
		return ended ? 0 : -1;
	}
	if (!look_at_handshake(tls))
		return -1;

	/*
	 * Parts of the handshake, most often; a full socket is told by rf_tls_unsent, a broken one by
	 * the next call.
	 */
	if (tls->out_head < tls->out_end)
		(void) flush(tls);
	if (got > 0)
		return got;
	errno = EAGAIN;
	return -1;
}

/* ---------- asking ---------- */

bool
rf_tls_unsent(const RfTls *tls)
{
	return tls->out_head < tls->out_end;
}

bool
rf_tls_unread(const RfTls *tls)
{
	return tls->more && SSL_has_pending(tls->ssl);
}

bool
rf_tls_ready(const RfTls *tls)
{
	return tls->ready;
}

bool
rf_tls_export(RfTls *tls, const void *context, size_t size, uint8_t secret[RF_TLS_KEY_SIZE])
{
	return tls->ready &&
		SSL_export_keying_material(tls->ssl, secret, RF_TLS_KEY_SIZE, RF_TLS_LABEL,
								   sizeof(RF_TLS_LABEL) - 1, context, size, 1) == 1;
}

const char *
rf_tls_reason(const RfTls *tls)
{
	return tls->reason;
}
