/*
 * lane.c - a lane: the thread that moves the data of its flows.
 *
 * Does: the loop, sleeping and waking (polling.c decides when), commands from the main thread,
 * connections, and completions. lane.h lists the other files.
 *
 * Plain C. The thread calls no function of PostgreSQL except the wake_owner callback, and reports
 * failures as events.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "shmem/ring.h"
#include "admit.h"
#include "lane.h"
#include "lane_thread.h"

/* ---------- between the main thread and the lane ---------- */

/* Wake the lane from the main thread. */
static void
wake_lane(RfLaneThread *lane)
{
	atomic_store(&lane->talk.pending, 1);
	rf_lane_wake(lane->lane);
}

static void
command(RfLaneThread *lane, LaneCommandKind kind, int peer, uint32_t flow, RfQp *qp,
		const RfLaneProof *proof, const RfError *error)
{
	LaneCommand *slot;

	pthread_mutex_lock(&lane->talk.lock);
	slot = &lane->talk.commands[lane->talk.command_head++ % lane->talk.command_size];
	slot->kind = kind;
	slot->peer = peer;
	slot->flow = flow;
	slot->qp = qp;
	slot->proof = proof;
	if (error != NULL)
		lane->talk.drop_errors[peer] = *error;
	pthread_mutex_unlock(&lane->talk.lock);
	wake_lane(lane);
}

void
rf_lane_add_connection(RfLaneThread *lane, int peer, RfQp *qp, const RfLaneProof *proof)
{
	command(lane, LANE_ADD, peer, 0, qp, proof, NULL);
}

void
rf_lane_prove(RfLaneThread *lane, int peer)
{
	command(lane, LANE_PROVE, peer, 0, NULL, NULL, NULL);
}

void
rf_lane_drop_connection(RfLaneThread *lane, int peer, const RfError *error)
{
	command(lane, LANE_DROP, peer, 0, NULL, NULL, error);
}

void
rf_lane_attach_flow(RfLaneThread *lane, uint32_t flow_index)
{
	command(lane, LANE_ATTACH, 0, flow_index, NULL, NULL, NULL);
}

void
rf_lane_tune(RfLaneThread *lane, const RfLaneConfig *config)
{
	pthread_mutex_lock(&lane->talk.lock);
	lane->talk.tune = *config;
	lane->talk.tuned = true;
	pthread_mutex_unlock(&lane->talk.lock);
	wake_lane(lane);
}

static uint32_t
between(uint32_t value, uint32_t low, uint32_t high)
{
	return value < low ? low : value > high ? high : value;
}

/*
 * Takes over the settings that may change while the lane runs, within the limits that its arrays
 * were made for.
 */
static void
take_settings(RfLaneThread *lane, const RfLaneConfig *from)
{
	RfLaneConfig *to = &lane->config;

	to->polling_mode = from->polling_mode;
	to->poll_batch = between(from->poll_batch, 1, LANE_MAX_POLL);
	to->poll_us = from->poll_us;
	to->probe_ms = between(from->probe_ms, 1, 1u << 20);
	if (to->peer_timeout_ms != from->peer_timeout_ms)
		lane->watch_at = 0;		/* check again */
	to->peer_timeout_ms = from->peer_timeout_ms;
	to->merge_limit = from->merge_limit;
	to->chain_limit = between(from->chain_limit, 1, RF_MAX_CHAIN);
	if (to->chain_limit > to->max_wr)
		to->chain_limit = to->max_wr;
	to->signal_all = from->signal_all;
	to->claim_at_once = from->claim_at_once;
	to->admission_window = from->admission_window;
	to->credit_limit = from->credit_limit;
	rf_throttle_set(&lane->throttle, to->credit_limit);
	rf_polling_set(&lane->polling, to->polling_mode, to->poll_batch, to->poll_us);
	atomic_store_explicit(&lane->lane->polling_mode, to->polling_mode, memory_order_relaxed);
	atomic_store_explicit(&lane->lane->poll_us, to->poll_us, memory_order_relaxed);
}

/* ---------- connections ---------- */

/* Initializes its row of rdma.qps. */
static void
show_qp(RfLaneThread *lane, int peer, RfQp *qp)
{
	RfLaneQp   *shown = &lane->lane->qps[peer];
	bool		thread_domain = false;
	uint32_t	number = 0;

	if (lane->config.provider->qp_number != NULL)
		number = lane->config.provider->qp_number(qp, &thread_domain);
	if (number == 0)
		number = ++lane->numbered;
	atomic_store(&shown->thread_domain, thread_domain);
	atomic_store(&shown->outstanding, 0);
	atomic_store(&shown->outstanding_max, 0);
	atomic_store(&shown->work_requests, 0);
	atomic_store(&shown->bytes, 0);
	atomic_store(&shown->waits, 0);
	atomic_store(&shown->number, number);
}

/*
 * Takes a connected queue pair over from the main thread. Without memory for its requests, or if
 * the connection failed in the meantime, the peer is reported as lost.
 */
static void
add_connection(RfLaneThread *lane, int peer, RfQp *qp, const RfLaneProof *proof)
{
	LaneConnection *connection = &lane->connections[peer];
	bool		failed_early = connection->failed_early;

	connection->posts = malloc(lane->config.max_wr * sizeof(LanePost));
	connection->wrs = malloc(RF_MAX_CHAIN * sizeof(RfWr));
	connection->sges = malloc(LANE_SGES * sizeof(RfSge));
	connection->strided = malloc((lane->max_strided + 1) * sizeof(RfStrided));
	connection->qp = qp;
	connection->failed = false;
	connection->failed_early = false;
	connection->posted = connection->completed = 0;
	connection->chain_strided = connection->strided_out = 0;
	connection->chain = 0;
	connection->unsignaled = 0;
	connection->touched = false;
	connection->proof = proof;
	connection->proof_sent = connection->proof_seen = false;
	show_qp(lane, peer, qp);

	if (connection->posts == NULL || connection->wrs == NULL || connection->sges == NULL ||
		connection->strided == NULL)
	{
		RfError		error;

		(void) rf_error(&error, RF_ERROR_RESOURCES, NULL, NULL, "out of memory for a connection");
		rf_lane_lost(lane, peer, &error);
	}
	else if (failed_early)
	{
		RfError		error;

		(void) rf_error(&error, RF_ERROR_CONNECTION, NULL, NULL,
						"the peer closed the connection while it was set up");
		rf_lane_lost(lane, peer, &error);
	}
}

/* Admitted bytes are no longer in flight. */
static void
give_back(RfLaneThread *lane, uint64_t bytes)
{
	if (bytes == 0)
		return;
	lane->queue.in_flight -= bytes;
	rf_lane_wake_others(lane, rf_admission_give(&lane->config.shared->admission, bytes));
}

/* Requests that will not complete: their queue pair is gone. */
static void
forget_posts(RfLaneThread *lane, LaneConnection *connection)
{
	uint64_t	admitted = 0;

	while (connection->posts != NULL && connection->completed < connection->posted)
		admitted += connection->posts[++connection->completed % lane->config.max_wr].admitted;
	give_back(lane, admitted);
}

/*
 * Destroys the peer's queue pair, fails the flows that used it, and tells the main thread that
 * nothing of it is left here.
 */
static void
drop_connection(RfLaneThread *lane, int peer, const RfError *error)
{
	LaneConnection *connection = &lane->connections[peer];

	connection->failed = true;
	connection->failed_early = false;
	connection->dropped_round = lane->round;
	if (connection->qp != NULL)
		rf_throttle_forget(&lane->throttle, connection->posted - connection->completed, lane->now);
	atomic_store(&lane->lane->qps[peer].number, 0);
	if (connection->qp != NULL)
		lane->config.provider->qp_destroy(connection->qp);
	forget_posts(lane, connection);
	connection->qp = NULL;
	connection->proof = NULL;
	connection->chain = 0;
	connection->mail = (LaneMail)
	{
		0
	};
	free(connection->posts);
	free(connection->wrs);
	free(connection->sges);
	free(connection->strided);
	connection->posts = NULL;
	connection->wrs = NULL;
	connection->sges = NULL;
	connection->strided = NULL;
	for (uint32_t i = 0; i < lane->config.shared->max_flows; i++)
	{
		if (lane->local[i]->attached && lane->local[i]->peer == peer)
			rf_lane_flow_fail(lane, i, error);
	}
	rf_lane_notice(lane, RF_LANE_CONNECTION_DROPPED, peer, 0);
}

/*
 * Runs the commands that are there now; returns false if there are no commands. It leaves commands
 * that come meanwhile: a connection that is added again after a drop must belong to a later round
 * than the old one's last completions.
 */
static bool
run_commands(RfLaneThread *lane)
{
	uint64_t	end;

	if (atomic_load(&lane->talk.pending) == 0)
		return false;
	pthread_mutex_lock(&lane->talk.lock);
	atomic_store(&lane->talk.pending, 0);
	end = lane->talk.command_head;
	if (lane->talk.tuned)
		take_settings(lane, &lane->talk.tune);
	lane->talk.tuned = false;
	while (lane->talk.command_tail != end)
	{
		LaneCommand next = lane->talk.commands[lane->talk.command_tail++ % lane->talk.command_size];
		RfError		error;

		if (next.kind == LANE_DROP)
			error = lane->talk.drop_errors[next.peer];
		pthread_mutex_unlock(&lane->talk.lock);
		switch (next.kind)
		{
			case LANE_ADD:
				add_connection(lane, next.peer, next.qp, next.proof);
				break;
			case LANE_PROVE:
				rf_lane_path_prove(lane, next.peer);
				break;
			case LANE_DROP:
				drop_connection(lane, next.peer, &error);
				break;
			case LANE_ATTACH:
				rf_lane_flow_attach(lane, next.flow);
				break;
		}
		pthread_mutex_lock(&lane->talk.lock);
	}
	pthread_mutex_unlock(&lane->talk.lock);
	return true;
}

/* ---------- completions ---------- */

static const char *
status_text(RfWcStatus status)
{
	switch (status)
	{
		case RF_WC_SUCCESS:
			return "The peer closed it, or the link is down.";
		case RF_WC_FLUSHED:
			return "The queue pair had failed before.";
		case RF_WC_REMOTE_ACCESS:
			return "The peer refused access to its memory.";
		case RF_WC_TRANSPORT:
			return "The peer does not answer.";
		case RF_WC_LOCAL:
			return "A request was not valid on this side.";
	}
	return "Its status is unknown.";
}

/* All requests of the connection up to `wr_id` are complete. */
static bool
requests_completed(RfLaneThread *lane, LaneConnection *connection, uint64_t wr_id)
{
	uint64_t	before = connection->completed;
	uint64_t	bytes = 0;
	uint64_t	admitted = 0;

	if (wr_id <= connection->completed || wr_id > connection->posted)
		return false;
	while (connection->completed < wr_id && !connection->failed)
	{
		LanePost	post = connection->posts[++connection->completed % lane->config.max_wr];

		connection->strided_out -= post.strided;

		admitted += post.admitted;

		/*
		 * A flow is attached until all of its own requests completed, so it is still the same one.
		 */
		bytes += post.bytes;
		if (post.flow == LANE_NO_FLOW)
			rf_lane_mail_posted(lane, connection, &post, rf_lane_flow_posted);
		else
			rf_lane_flow_posted(lane, &post);
	}
	lane_path_progress(lane, connection);
	rf_throttle_complete(&lane->throttle, connection->completed - before, bytes, lane->now);
	atomic_store_explicit(&lane->lane->qps[connection - lane->connections].outstanding,
						  (uint32_t) (connection->posted - connection->completed),
						  memory_order_relaxed);
	give_back(lane, admitted);

	rf_queue_unpark(lane, connection, rf_lane_flow_serve);
	return true;
}

/* Hands each immediate of a mail to its flow, as if it had come alone. */
static bool
open_mail(RfLaneThread *lane, int peer, const RfWc *wc, RfError *error)
{
	uint32_t	words[RF_MAIL_WORDS];
	int			count = rf_lane_mail_arrived(lane, peer, wc, words, error);

	for (int i = 0; i < count && !lane->connections[peer].failed; i++)
	{
		RfWc		word = *wc;

		word.imm = words[i];
		word.byte_len = 0;
		if (!rf_lane_flow_immediate(lane, peer, &word, error))
			return false;
	}
	return count >= 0;
}

static void
handle_completion(RfLaneThread *lane, const RfWc *wc)
{
	int			peer = (int) (intptr_t) wc->qp_context;
	LaneConnection *connection = &lane->connections[peer];
	RfError		error;

	if (connection->qp == NULL)
	{
		/* Not added yet; or polled before the queue pair was destroyed. */
		if (connection->dropped_round != lane->round &&
			(wc->opcode == RF_WC_DISCONNECTED || wc->status != RF_WC_SUCCESS))
			connection->failed_early = true;
		return;
	}
	if (connection->failed)
		return;

	if (wc->opcode == RF_WC_DISCONNECTED || wc->status != RF_WC_SUCCESS)
	{
		(void) rf_error(&error, RF_ERROR_CONNECTION, status_text(wc->status), NULL,
						"lost the data connection to the peer");
		rf_lane_lost(lane, peer, &error);
	}
	else if (wc->opcode == RF_WC_WRITE && wc->wr_id == LANE_PROOF_ID && connection->proof != NULL)
		rf_lane_path_acknowledged(lane, peer);
	else if (wc->opcode == RF_WC_WRITE)
	{
		if (!requests_completed(lane, connection, wc->wr_id))
		{
			(void) rf_error(&error, RF_ERROR_INTERNAL, NULL, NULL,
							"a completion names a request that is not out");
			rf_lane_lost(lane, peer, &error);
		}
	}
	else
	{
		lane_count(&lane->lane->immediates, 1);
		if (wc->byte_len > 0)
			atomic_fetch_add_explicit(&lane->config.shared->peers[peer].bytes_received,
									  wc->byte_len, memory_order_relaxed);
		if (RF_IMM_KIND(wc->imm) != RF_IMM_PATH ? !rf_lane_flow_immediate(lane, peer, wc, &error) :
			RF_IMM_FLOW(wc->imm) == RF_PATH_PROOF ? !rf_lane_path_seen(lane, peer, wc, &error) :
			!open_mail(lane, peer, wc, &error))
		{
			lane_count(&lane->lane->protocol_errors, 1);
			rf_lane_lost(lane, peer, &error);
		}
	}
}

/* ---------- the loop ---------- */

/* One round over all sources. True if there was any work. */
static bool
run_round(RfLaneThread *lane)
{
	int			count;
	uint32_t	flow;
	uint32_t	taken = 0;
	bool		commanded;
	bool		claimed;
	bool		sent;

	lane->round++;
	count = lane->config.provider->cq_poll(lane->cq, lane->wcs,
										   (int) rf_polling_batch(&lane->polling));
	lane_count(&lane->lane->polls, 1);
	if (count > 0)
		lane_count(&lane->lane->completions, (uint64_t) count);
	else
		lane_count(&lane->lane->empty_polls, 1);

	/*
	 * After the poll: a flow is attached, and a connection added, before the peer learns of it, so
	 * the command for the object that a completion names is there by now.
	 */
	commanded = run_commands(lane);
	for (int i = 0; i < count; i++)
		handle_completion(lane, &lane->wcs[i]);

	/* At most once round the table, so that completions are not delayed. */
	while (taken < lane->config.shared->max_flows &&
		   rf_lane_take(lane->lane, lane->flows, &flow))
	{
		taken++;
		if (flow < lane->config.shared->max_flows)
			rf_lane_flow_serve(lane, flow);
	}

	claimed = rf_claims_run(lane, rf_lane_flow_serve);
	claimed = rf_claims_grant(lane) || claimed;
	sent = rf_queue_run(lane, rf_lane_flow_send);
	rf_lane_mail_close(lane);
	rf_lane_post_chains(lane);
	return count > 0 || taken > 0 || commanded || sent || claimed;
}

/*
 * Sleeps until an event, or until an attempt to claim a buffer is due. Any other event after the
 * checks here writes one of the two descriptors.
 */
static void
sleep_until_woken(RfLaneThread *lane, int timeout_ms)
{
	RfLane	   *shared = lane->lane;
	int64_t		timeout_us = timeout_ms < 0 ? INT64_MAX : (int64_t) timeout_ms * 1000;
	struct timespec timeout;
	struct pollfd fds[2] = {
		{.fd = shared->wake_fd, .events = POLLIN},
		{.fd = lane->config.provider->cq_fd(lane->cq), .events = POLLIN}
	};

	if (lane->claiming.count > 0 && lane->claim_at - lane->now < timeout_us)
		timeout_us = lane->claim_at > lane->now ? lane->claim_at - lane->now : 0;
	if (lane->watch_at - lane->now < timeout_us)
		timeout_us = lane->watch_at > lane->now ? lane->watch_at - lane->now : 0;
	timeout = (struct timespec)
	{
		.tv_sec = timeout_us / 1000000, .tv_nsec = timeout_us % 1000000 * 1000
	};

	atomic_store(&shared->asleep, 1);
	if (atomic_load(&shared->ring[atomic_load(&shared->tail) % RF_MAX_FLOWS]) == 0 &&
		atomic_load(&lane->talk.pending) == 0 && !atomic_load(&lane->stop) &&
		!rf_queue_may_continue(lane) && !rf_claims_may_grant(lane))
	{
		lane_count(&shared->sleeps, 1);
		(void) ppoll(fds, 2, timeout_us == INT64_MAX ? NULL : &timeout, NULL);
	}
	atomic_store(&shared->asleep, 0);

	if (fds[0].revents & POLLIN)
	{
		uint64_t	value;

		if (read(shared->wake_fd, &value, sizeof(value)) < 0)
			return;
	}
}

/*
 * The lane's thread: rounds of work until it is told to stop, and between rounds what the polling
 * mode decides: look again, arm the completion queue, or sleep.
 */
static void *
lane_main(void *argument)
{
	RfLaneThread *lane = argument;
	RfLane	   *shared = lane->lane;
	int			timeout_ms = -1;

	lane->now = rf_now_us();
	rf_polling_init(&lane->polling, lane->now);
	while (!atomic_load(&lane->stop))
	{
		bool		found = run_round(lane);
		RfPollingStep step;
		uint64_t	cpu_us;

		lane->now = rf_now_us();
		if (lane->now >= lane->watch_at)
			rf_lane_path_watch(lane);
		step = rf_polling_next(&lane->polling, found, lane->now);
		if (step == RF_POLLING_ARM)
		{
			timeout_ms = rf_lane_flow_probe(lane);
			rf_lane_mail_close(lane);
			rf_lane_post_chains(lane);
			lane->config.provider->cq_arm(lane->cq);
			lane_count(&shared->armed, 1);
		}
		if (rf_polling_tick(&lane->polling, lane->now, &cpu_us))
		{
			lane_count(&shared->busy_us, cpu_us);
			if (step == RF_POLLING_LOOK)
				(void) rf_lane_flow_probe(lane);	/* the lane may never arm its queue */
		}
		if (step == RF_POLLING_SLEEP)
		{
			sleep_until_woken(lane, timeout_ms);
			lane->now = rf_now_us();
		}
		else if (step == RF_POLLING_LOOK && !found)
			rf_polling_yield(&lane->polling, lane->now);
	}
	return NULL;
}

/* ---------- start and stop ---------- */

static void
free_lane(RfLaneThread *lane)
{
	if (lane->cq != NULL)
		lane->config.provider->cq_destroy(lane->cq);
	for (uint32_t i = 0; lane->local != NULL && i < lane->config.shared->max_flows; i++)
		if (lane->local[i] != NULL && lane->local[i] != &lane->nothing)
			free(lane->local[i]);
	free(lane->local);
	free(lane->wcs);
	free(lane->talk.commands);
	free(lane->talk.notices);
	pthread_mutex_destroy(&lane->talk.lock);
	free(lane);
}

RfLaneThread *
rf_lane_start(const RfLaneConfig *config, RfError *error)
{
	RfLaneThread *lane = calloc(1, sizeof(*lane));
	uint32_t	flows = config->shared->max_flows;
	sigset_t	all;
	sigset_t	before;
	int			result;

	if (lane == NULL)
	{
		(void) rf_error(error, RF_ERROR_RESOURCES, NULL, NULL, "out of memory for a lane");
		return NULL;
	}
	lane->config = *config;
	lane->lane = &config->shared->lanes[config->lane];
	lane->lane->number = (uint32_t) config->lane;
	for (int peer = 0; peer < RF_MAX_PEERS; peer++)
		atomic_store(&lane->lane->qps[peer].number, 0);
	rf_throttle_init(&lane->throttle, &lane->lane->throttle);
	take_settings(lane, config);
	lane->flows = config->shared->flows;
	lane->max_message = config->shared->device.max_message;
	if (lane->max_message == 0 || lane->max_message > RF_MAX_MESSAGE)
		lane->max_message = RF_MAX_MESSAGE;
	lane->max_strided = (uint32_t) config->shared->device.max_strided;
	lane->max_sge = (uint32_t) config->shared->device.max_sge;
	if (lane->max_sge == 0 || lane->max_sge > RF_MAX_SGE)
		lane->max_sge = RF_MAX_SGE;
	lane_list_init(&lane->starving, LANE_LINK_STARVING);
	lane_list_init(&lane->claiming, LANE_LINK_CLAIM);
	lane_list_init(&lane->asking, LANE_LINK_CLAIM);
	lane->claim_at = lane->watch_at = INT64_MAX;
	rf_queue_init(lane);
	pthread_mutex_init(&lane->talk.lock, NULL);

	/* Each flow at most once and each connection a few times, see rf_lane_notice. */
	lane->talk.command_size = lane->talk.notice_size = flows + 4 * RF_MAX_PEERS;
	lane->local = calloc(flows, sizeof(LaneFlow *));
	lane->wcs = calloc(LANE_MAX_POLL, sizeof(RfWc));
	lane->talk.commands = calloc(lane->talk.command_size, sizeof(LaneCommand));
	lane->talk.notices = calloc(lane->talk.notice_size, sizeof(LaneNotice));
	if (lane->local == NULL || lane->wcs == NULL ||
		lane->talk.commands == NULL || lane->talk.notices == NULL)
	{
		(void) rf_error(error, RF_ERROR_RESOURCES, NULL, NULL, "out of memory for a lane");
		free_lane(lane);
		return NULL;
	}
	for (uint32_t i = 0; i < flows; i++)
		lane->local[i] = &lane->nothing;
	lane->cq = config->provider->cq_create(config->device, config->cq_depth, error);
	if (lane->cq == NULL)
	{
		free_lane(lane);
		return NULL;
	}

	/* Signal handlers belong to the main thread. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	result = pthread_create(&lane->thread, NULL, lane_main, lane);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (result != 0)
	{
		(void) rf_error(error, RF_ERROR_RESOURCES, strerror(result), NULL,
						"could not start a lane's thread");
		free_lane(lane);
		return NULL;
	}
	return lane;
}

RfCq *
rf_lane_cq(RfLaneThread *lane)
{
	return lane->cq;
}

void
rf_lane_stop(RfLaneThread *lane)
{
	atomic_store(&lane->stop, true);
	wake_lane(lane);
	pthread_join(lane->thread, NULL);
	(void) run_commands(lane);	/* a queue pair that was added last must be destroyed here */
	for (int peer = 0; peer < RF_MAX_PEERS; peer++)
	{
		LaneConnection *connection = &lane->connections[peer];

		forget_posts(lane, connection);
		if (connection->qp != NULL)
			lane->config.provider->qp_destroy(connection->qp);
		free(connection->posts);
		free(connection->wrs);
		free(connection->sges);
		free(connection->strided);
	}
	free_lane(lane);
}
