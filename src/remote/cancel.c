/*
 * cancel.c - sends cancel requests to several servers at the same time: a server that does not
 * answer must not delay the requests to the remaining servers.
 *
 * A request is started, then waited for. Nothing here raises an error.
 */
#include "postgres.h"

#include "storage/latch.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "rdma_fdw/compat.h"
#include "session.h"

static long
remaining(TimestampTz deadline)
{
	return TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline);
}

#ifdef LIBPQ_HAS_ASYNC_CANCEL

/* How long to wait for one request before the requests to other servers make progress. */
#define STEP_MS		5

struct RfCancel
{
	PGcancelConn *conn;
	PostgresPollingStatusType status;
};

void
rf_session_cancel_start(RfSession *session)
{
	RfCancel   *cancel = calloc(1, sizeof(RfCancel));

	if (session->cancel.request != NULL || cancel == NULL)
	{
		free(cancel);
		return;
	}
	cancel->conn = PQcancelCreate(session->conn);
	cancel->status = cancel->conn && PQcancelStart(cancel->conn) ?
		PGRES_POLLING_WRITING : PGRES_POLLING_FAILED;
	session->cancel.request = cancel;
}

static bool
under_way(const RfSession *session)
{
	return session->cancel.request->status != PGRES_POLLING_OK &&
		session->cancel.request->status != PGRES_POLLING_FAILED;
}

static void
step(RfSession *session, long timeout_ms)
{
	RfCancel   *cancel = session->cancel.request;
	struct pollfd fd;

	fd.fd = PQcancelSocket(cancel->conn);
	fd.events = cancel->status == PGRES_POLLING_READING ? POLLIN : POLLOUT;
	fd.revents = 0;
	if (poll(&fd, 1, timeout_ms) > 0)
		cancel->status = PQcancelPoll(cancel->conn);
}

bool
rf_session_cancel_finish(RfSession *session, TimestampTz deadline)
{
	bool		ok;

	if (session->cancel.request == NULL)
		return false;
	while (under_way(session) && remaining(deadline) > 0)
	{
		for (RfSession *other = session->cancel.next; other != NULL && other != session;
			 other = other->cancel.next)
		{
			if (other->cancel.request != NULL && under_way(other))
				step(other, 0);
		}
		step(session, Min(remaining(deadline), STEP_MS));
	}
	if (under_way(session))
		session->broken = true;
	ok = session->cancel.request->status == PGRES_POLLING_OK;
	PQcancelFinish(session->cancel.request->conn);
	free(session->cancel.request);
	session->cancel.request = NULL;
	return ok;
}

#else

/*
 * Before release 17 libpq has only PQcancel(), which blocks until the other machine answers. It
 * uses nothing of PostgreSQL and is safe in a thread, so a thread calls it, and we wait for the
 * thread no longer than the deadline allows. The last of the two to finish frees the request.
 */
struct RfCancel
{
	PGcancel   *cancel;
	int			done_fd;
	atomic_int	users;
	atomic_int	ok;
	char		error[256];
};

static void
cancel_free(RfCancel *request)
{
	PQfreeCancel(request->cancel);
	if (request->done_fd >= 0)
		close(request->done_fd);
	free(request);
}

static void
cancel_release(RfCancel *request)
{
	if (atomic_fetch_sub(&request->users, 1) == 1)
		cancel_free(request);
}

static void *
cancel_thread(void *arg)
{
	RfCancel   *request = arg;
	uint64_t	one = 1;

	atomic_store(&request->ok, PQcancel(request->cancel, request->error, sizeof(request->error)));
	if (write(request->done_fd, &one, sizeof(one)) < 0)
		atomic_store(&request->ok, 0);
	cancel_release(request);
	return NULL;
}

void
rf_session_cancel_start(RfSession *session)
{
	RfCancel   *request = session->cancel.request == NULL ? calloc(1, sizeof(RfCancel)) : NULL;
	pthread_attr_t attr;
	pthread_t	thread;
	sigset_t	all;
	sigset_t	old;
	bool		started;

	if (request == NULL)
		return;
	request->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	request->cancel = PQgetCancel(session->conn);
	atomic_init(&request->users, 2);
	if (request->done_fd < 0 || request->cancel == NULL)
	{
		cancel_free(request);
		return;
	}

	/* Signal handlers belong to the backend's own thread. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	started = pthread_create(&thread, &attr, cancel_thread, request) == 0;
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (started)
		session->cancel.request = request;
	else
		cancel_free(request);	/* no thread has it */
}

bool
rf_session_cancel_finish(RfSession *session, TimestampTz deadline)
{
	RfCancel   *request = session->cancel.request;
	bool		ok = false;

	if (request == NULL)
		return false;
	for (;;)
	{
		struct pollfd fd;
		long		left = remaining(deadline);

		if (left <= 0)
		{
			session->broken = true;
			break;
		}
		fd.fd = request->done_fd;
		fd.events = POLLIN;
		fd.revents = 0;
		if (poll(&fd, 1, left) > 0)
		{
			ok = atomic_load(&request->ok) != 0;
			break;
		}
	}
	session->cancel.request = NULL;
	cancel_release(request);
	return ok;
}

#endif

bool
rf_session_cancel(RfSession *session, int timeout_ms)
{
	rf_session_cancel_start(session);
	return rf_session_cancel_finish(session,
									TimestampTzPlusMilliseconds(GetCurrentTimestamp(), timeout_ms));
}
