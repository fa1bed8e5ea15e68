/*
 * path.c - see path.h.
 *
 * Why both ends reach the same result: the acceptor is up only after the initiator's READY, and the
 * initiator only after the acceptor's. An initiator that has sent READY has completed its own
 * proofs; it follows the acceptor, and may not give up the device on its own. An acceptor that is
 * up never goes back.
 */
#include <string.h>

#include "path.h"

void
rf_path_init(RfPath *path, bool initiator, bool may_fall_back)
{
	memset(path, 0, sizeof(*path));
	path->initiator = initiator;
	path->may_fall_back = may_fall_back;
}

bool
rf_path_void(const RfPath *path)
{
	return path->fell_back && !path->broken_came;
}

bool
rf_path_unproven(const RfPath *path)
{
	return path->state == RF_PATH_SETTING_UP && path->connected && path->linked && !path->proven;
}

static uint32_t
wait_for(RfPath *path, int tenths, uint32_t actions)
{
	path->tenths = tenths;
	return actions | RF_PATH_WAIT;
}

/*
 * A session waits for the whole of connect_timeout: a possible second attempt needs its share of
 * it.
 */
static uint32_t
prove(RfPath *path, uint32_t actions)
{
	return wait_for(path, path->may_fall_back && !path->fell_back ? 4 : 8, actions | RF_PATH_PROVE);
}

static uint32_t
fail(RfPath *path, uint32_t actions)
{
	path->state = RF_PATH_HAS_FAILED;
	return actions;
}

/*
 * Begins the second attempt. Messages of the other end for it are kept. Only the first attempt's
 * time has run out: lanes destroy queue pairs when they get to it.
 */
static uint32_t
fall_back(RfPath *path)
{
	path->state = RF_PATH_LETTING_GO;
	path->fell_back = true;
	path->connected = path->proven = path->ready_sent = false;
	path->linked = path->ready_came = false;
	return wait_for(path, 10, RF_PATH_SEND_BROKEN | RF_PATH_LET_GO);
}

static uint32_t
dead(RfPath *path)
{
	if (path->state != RF_PATH_SETTING_UP)
		return 0;				/* of queue pairs that are given up already */
	if (path->fell_back || !path->may_fall_back || (path->initiator && path->ready_sent))
		return fail(path, RF_PATH_SEND_BROKEN | RF_PATH_FAIL);
	return fall_back(path);
}

static uint32_t
broken(RfPath *path)
{
	if (path->broken_came || !path->may_fall_back)
		return fail(path, RF_PATH_FAIL);
	path->broken_came = true;
	return path->fell_back ? 0 : fall_back(path);
}

static uint32_t
ready(RfPath *path)
{
	if (path->ready_came || (path->initiator && !path->ready_sent))
		return fail(path, RF_PATH_WRONG);
	path->ready_came = true;
	if (!path->proven)
		return 0;
	path->state = RF_PATH_IS_UP;
	return path->initiator ? RF_PATH_UP : RF_PATH_UP | RF_PATH_SEND_READY;
}

static uint32_t
proven(RfPath *path)
{
	path->proven = true;
	if (path->initiator)
	{
		path->ready_sent = true;
		return wait_for(path, 10, RF_PATH_SEND_READY);
	}
	if (!path->ready_came)
		return wait_for(path, 10, 0);
	path->state = RF_PATH_IS_UP;
	return RF_PATH_UP | RF_PATH_SEND_READY;
}

/*
 * Moves the state machine on. Returns the RF_PATH_* actions that the caller has to take; an event
 * of an earlier attempt has no effect.
 */
uint32_t
rf_path_event(RfPath *path, RfPathEvent event)
{
	if (path->state == RF_PATH_HAS_FAILED || path->state == RF_PATH_IS_UP)
		return 0;
	switch (event)
	{
		case RF_PATH_CONNECTED:
			path->connected = true;
			return path->linked ? prove(path, RF_PATH_SEND_LINKED) : RF_PATH_SEND_LINKED;
		case RF_PATH_LINKED:
			if (rf_path_void(path))
				return 0;
			if (path->linked)
				return fail(path, RF_PATH_WRONG);
			path->linked = true;
			return path->connected ? prove(path, 0) : 0;
		case RF_PATH_PROVEN:
			return path->state == RF_PATH_SETTING_UP ? proven(path) : 0;
		case RF_PATH_READY:
			return rf_path_void(path) ? 0 : ready(path);
		case RF_PATH_DEAD:
			return dead(path);
		case RF_PATH_BROKEN:
			return broken(path);
		case RF_PATH_GONE:
			path->state = RF_PATH_SETTING_UP;
			return wait_for(path, 10, RF_PATH_AGAIN);
	}
	return 0;
}
