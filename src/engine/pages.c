/*
 * pages.c - PostgreSQL's shared buffers as a source: pages are sent from there without a copy.
 *
 * Does: register the pool for a peer's queue pairs when the first stream of pages to it opens, for
 * local reading only, so that no peer can name it; report the reason if that is not done. Does not:
 * know which pages are sent (layout.h) or check whether they may be.
 *
 * The pool is mapped before the engine starts and stays where it is. A software transport only
 * notes the addresses; a device pins all of it and writes a table entry for every page of memory,
 * for each peer, and blocks this thread meanwhile. So with "auto" it is not done if it would take
 * long, according to the costs measured when the engine started.
 *
 * Main thread of the engine only.
 */
#include "postgres.h"

#include "engine_int.h"
#include "rdma_fdw/guc.h"

#define MAX_REGISTER_MS		500
#define MB					(1024 * 1024)

static bool
refuse(RfPeer *peer, const RfError *error)
{
	strlcpy(peer->pages_error, error->message, sizeof(peer->pages_error));
	if (atomic_exchange(&peer->pages, RF_PAGES_REFUSED) != RF_PAGES_REFUSED &&
		rf_register_pages != RF_REGISTER_OFF)
		rf_log_error(LOG, "heap pages are copied, because shared buffers are not registered",
					 error);
	return false;
}

/*
 * Decides whether shared buffers are registered for this peer; a refusal is shown in
 * rdma.stat_peers with its reason.
 */
static bool
may_register(RfPeer *peer)
{
	const RfCalibration *costs = &rf_shared->calibration;
	double		ms = (double) rf_shared->page_memory_size / MB * costs->register_mb_ns / 1e6;
	RfError		error;

	memset(&error, 0, sizeof(error));
	if (rf_register_pages == RF_REGISTER_OFF)
		(void) rf_error(&error, RF_ERROR_CONFIGURATION, NULL, NULL,
						"rdma_fdw.register_shared_buffers is off");
	else if (rf_engine->caps.max_sge < 2)
		(void) rf_error(&error, RF_ERROR_CONFIGURATION, NULL, NULL, "the device gathers nothing");
	else if (rf_register_pages == RF_REGISTER_AUTO && ms > MAX_REGISTER_MS)
		(void) rf_error(&error, RF_ERROR_RESOURCES, NULL,
						"Huge pages make it cheap; or set rdma_fdw.register_shared_buffers = on.",
						"to register shared buffers would take %.0f ms", ms);
	else
		return true;
	return refuse(peer, &error);
}

RfRegion *
rf_pages_register(RfConnection *connection)
{
	RfPeer	   *peer = &rf_shared->peers[connection->peer];
	RfError		error;

	/* A registration stays; streams that open after it was switched off do not use it. */
	if (connection->pages == NULL || rf_register_pages == RF_REGISTER_OFF)
	{
		if (!may_register(peer))
			return NULL;
	}

	/* A device that has refused once is not asked again. */
	if (connection->pages_refused)
		return NULL;
	memset(&error, 0, sizeof(error));
	if (connection->pages == NULL)
		connection->pages =
			rf_engine->provider->source_register(connection->domain, rf_shared->page_memory,
												 rf_shared->page_memory_size, &error);
	if (connection->pages == NULL)
	{
		connection->pages_refused = true;
		(void) refuse(peer, &error);
		return NULL;
	}
	atomic_store(&peer->pages, RF_PAGES_REGISTERED);
	return connection->pages;
}

/* Its queue pairs are gone. */
void
rf_pages_deregister(RfConnection *connection)
{
	if (connection->pages != NULL)
		rf_engine->provider->region_deregister(connection->domain, connection->pages);
	connection->pages = NULL;
	atomic_store(&rf_shared->peers[connection->peer].pages, RF_PAGES_NOT_ASKED);
}
