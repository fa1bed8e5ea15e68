/*
 * support.c - shared functions of the engine's main thread: its state, the set of sources that it
 * waits for, the log, its own hello, and waking backends.
 */
#include "postgres.h"

#include <sys/epoll.h>

#include "storage/proc.h"

#include "rdma_fdw/guc.h"

#include "engine_int.h"

RfEngine   *rf_engine = NULL;

bool
rf_watch(RfSource *source, uint32_t events)
{
	struct epoll_event event;
	int			what = source->events == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;

	if (source->events == events)
		return true;
	memset(&event, 0, sizeof(event));
	event.events = events;
	event.data.ptr = source;
	if (epoll_ctl(rf_engine->epoll_fd, what, source->fd, &event) != 0)
		return false;
	source->events = events;
	return true;
}

void
rf_unwatch(RfSource *source)
{
	if (source->events != 0 && source->fd >= 0)
		epoll_ctl(rf_engine->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
	source->events = 0;
}

void
rf_log_error(int level, const char *what, const RfError *error)
{
	ereport(level,
			(errcode(rf_error_sqlstate(error->kind)),
			 errmsg("rdma_fdw engine: %s: %s", what, error->message),
			 error->detail[0] ? errdetail_internal("%s", error->detail) : 0,
			 error->hint[0] ? errhint("%s", error->hint) : 0));
}

/* Our hello; every connection gets a nonce of its own. */
void
rf_own_hello(RfControlHello *hello, int fd)
{
	memset(hello, 0, sizeof(*hello));
	hello->node = rf_shared->node;
	rf_type_image(&hello->image);
	memcpy(hello->host, rf_engine->boot_id, sizeof(hello->host));
	if (!pg_strong_random(hello->nonce, sizeof(hello->nonce)))
		ereport(FATAL,
				(errmsg("rdma_fdw engine: could not get random bytes")));
	hello->lanes = rf_engine->lane_count > 0 ? rf_engine->lane_count : 1;
	hello->provider = rf_engine->provider == &rf_provider_fallback ? RF_OFFER_ALL :
		rf_engine->provider == &rf_provider_verbs ? RF_OFFER_VERBS : RF_OFFER_SOFT;
	if (rf_provider != RF_PROVIDER_TCP)
		strlcpy(hello->local_name, rf_shared->engine_local_name, sizeof(hello->local_name));
	/* There a device will do; over TCP it makes no difference. */
	hello->encryption = rf_encryption == RF_ENCRYPTION_REQUIRE && rf_socket_trusted(fd) ?
		RF_ENCRYPTION_AUTO :
		rf_encryption;
}

const char *
rf_offer_text(uint32_t offer)
{
	return offer == RF_OFFER_SOFT ? "soft" : offer == RF_OFFER_VERBS ? "verbs" : "auto";
}

void
rf_flow_wake_owner(RfFlow *flow)
{
	SetLatch(rf_proc_latch(flow->owner_proc));
}

void
rf_flow_wake(RfFlow *flow)
{
	atomic_store(&flow->waiting, RF_WAIT_NONE);
	rf_flow_wake_owner(flow);
}
