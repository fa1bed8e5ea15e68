/*
 * stream_end.c - ends streams: closes their flows, counts their rows, and frees them with their
 * owner, their (sub)transaction, their resource owner or their connection.
 */
#include "postgres.h"

#include "storage/ipc.h"
#include "utils/memutils.h"

#include "base/clock.h"
#include "shmem/arena.h"
#include "session.h"

/* The flow knows its peer's address only; the user knows servers. */
void
rf_stream_error_context(void *arg)
{
	RfStream   *stream = arg;

	errcontext("rows of \"%s\" from server \"%s\"", stream->source, stream->session->server_name);
}

void
rf_stream_check_flow(RfStream *stream)
{
	ErrorContextCallback callback = {error_context_stack, rf_stream_error_context, stream};

	error_context_stack = &callback;
	(void) rf_flow_opened(stream->flow);
	error_context_stack = callback.previous;
}

/* ---------- counting rows ---------- */

static void
add_flow_stats(RfFlowHandle *flow, RfStreamStats *stats)
{
	const RfFlow *entry = rf_flow_entry(flow);

	stats->waits += atomic_load_explicit(&entry->stats.waits, memory_order_relaxed);
	stats->wait_us += atomic_load_explicit(&entry->stats.wait_us, memory_order_relaxed);
	stats->credits += atomic_load_explicit(&entry->stats.credits_sent, memory_order_relaxed);
	if (atomic_load_explicit(&entry->stats.slots, memory_order_relaxed) > 0)
	{
		stats->buffers = entry->slot_count;
		stats->buffer_size = entry->slot_size;
		if (rf_shared && entry->peer >= 0 && entry->peer < RF_MAX_PEERS)
		{
			const RfPeer *peer = &rf_shared->peers[entry->peer];

			strlcpy(stats->transport, peer->transport, sizeof(stats->transport));
			strlcpy(stats->encryption, peer->encryption, sizeof(stats->encryption));
		}
	}
}

void
rf_stream_note_time(RfStream *stream)
{
	if (stream->started == 0)
		return;
	stream->stats.last_batch_us = Max(rf_now_us() - stream->started, 1);
	if (stream->stats.first_batch_us == 0)
		stream->stats.first_batch_us = stream->stats.last_batch_us;
}

void
rf_stream_note_run(RfStream *stream)
{
	const RfStreamReply *reply = &stream->reply;
	RfStreamStats *stats = &stream->stats;

	if (stream->started == 0)
		return;
	stats->run_us = Min(reply->run_us, (uint64) Max(rf_now_us() - stream->started, 1));
	stats->exchange_wait_us = Min(reply->exchange_wait_us, stats->run_us);
	stats->reader_wait_us = Min(reply->wait_us, stats->run_us - stats->exchange_wait_us);
}

void
rf_stream_share_stats(RfStream *stream)
{
	RfShareTotals totals;

	rf_flow_share_totals(stream->flow, &totals);
	stream->stats.batches = 0;
	stream->stats.bytes = totals.bytes;
	stream->stats.sharers = totals.joined;
	for (int i = 0; i < RF_SHARE_MEMBERS; i++)
	{
		stream->stats.batches += totals.batches[i];
		stream->stats.sharers_batches[i] = totals.batches[i];
	}
	rf_reader_waits(stream->reader, &stream->stats.waits, &stream->stats.wait_us);
}

void
rf_stream_stats_add(const RfStreamStats *own, RfStreamStats *stats)
{
	stats->streams += own->streams;
	stats->inlined += own->inlined;
	stats->rows += own->rows;
	stats->batches += own->batches;
	stats->bytes += own->bytes;
	stats->fragments += own->fragments;
	stats->waits += own->waits;
	stats->wait_us += own->wait_us;
	stats->spooled_bytes += own->spooled_bytes;
	stats->credits += own->credits;
	stats->work_requests += own->work_requests;
	stats->merged += own->merged;
	stats->chained += own->chained;
	stats->credit_stalls += own->credit_stalls;
	stats->sender_waits += own->sender_waits;
	stats->sender_wait_us += own->sender_wait_us;
	stats->page_rows += own->page_rows;
	stats->pages_box += own->pages_box;
	stats->pages_packed += own->pages_packed;
	stats->useful_bytes += own->useful_bytes;
	stats->gap_bytes += own->gap_bytes;
	stats->pages_gathered += own->pages_gathered;
	stats->pages_strided += own->pages_strided;
	stats->uncopied_bytes += own->uncopied_bytes;
	stats->first_batch_us += own->first_batch_us;
	stats->last_batch_us += own->last_batch_us;
	stats->run_us += own->run_us;
	stats->reader_wait_us += own->reader_wait_us;
	stats->exchange_wait_us += own->exchange_wait_us;
	stats->sharers |= own->sharers;
	for (int i = 0; i < RF_STREAM_SHARERS; i++)
		stats->sharers_batches[i] += own->sharers_batches[i];
	if (own->transport[0] != '\0')
	{
		stats->buffers = own->buffers;
		stats->buffer_size = own->buffer_size;
		strlcpy(stats->transport, own->transport, sizeof(stats->transport));
		strlcpy(stats->encryption, own->encryption, sizeof(stats->encryption));
	}
}

void
rf_stream_stats(RfStream *stream, RfStreamStats *stats)
{
	rf_stream_stats_add(&stream->stats, stats);
	if (stream->flow)
		add_flow_stats(stream->flow, stats);
}

/* ---------- the end ---------- */

void
rf_stream_close_flow(RfStream *stream)
{
	RfFlowHandle *flow = stream->flow;

	if (flow == NULL)
		return;
	if (stream->reader && !proc_exit_inprogress)
		rf_stream_share_stats(stream);
	stream->flow = NULL;
	stream->reader = NULL;
	stream->holding = false;

	/*
	 * An ending backend closes its flows before it aborts its transaction; the handle is gone
	 * then.
	 */
	if (proc_exit_inprogress)
		return;
	add_flow_stats(flow, &stream->stats);
	if (atomic_load(&rf_flow_entry(flow)->state) == RF_FLOW_FAILED)
		stream->session->suspect = true;
	rf_flow_close(flow);
}

void
rf_stream_free(RfStream *stream)
{
	if (stream->owner_ref)
		*stream->owner_ref = NULL;
	if (stream->session->failed == stream)
		stream->session->failed = NULL;
	rf_stream_close_flow(stream);
	if (stream->set)
		rf_stream_set_leave(stream);
	rf_pipeline_clear(&stream->answer);
	MemoryContextDelete(stream->context);
}

/*
 * Nobody reads it any more. If it runs, it stays until its libpq answer has come. Raises nothing.
 */
void
rf_stream_abandon(RfStream *stream)
{
	if (stream->owner_ref)
		*stream->owner_ref = NULL;
	stream->owner_ref = NULL;
	rf_stream_close_flow(stream);
	if (stream->session->running == stream)
		stream->state = RF_STREAM_STOPPING;
	else
	{
		dlist_delete(&stream->node);
		rf_stream_free(stream);
	}
}

void
rf_stream_close(RfStream *stream, RfStreamStats *stats)
{
	if (stats)
		rf_stream_stats(stream, stats);
	if (stream->stored)
		rf_batches_close(rf_batches_of(stream->stored));
	rf_stream_abandon(stream);
}

void
rf_stream_orphan(RfStream *stream)
{
	/* its resource owner, and with it flow and files, is gone or going */
	stream->owner_ref = NULL;
	stream->moved = NULL;
	rf_stream_abandon(stream);
}

/*
 * Runs at the rollback of the (sub)transaction that started the stream. A cursor that was made in
 * an outer level lives on, but its rows that are still in a receive buffer go with the flow.
 */
static void
lose_flow(RfStream *stream)
{
	if (stream->holding && stream->moved)
		stream->moved(stream->owner, NULL, 0);
	rf_stream_close_flow(stream);
}

/* The same, and its remote command is being cancelled. */
void
rf_stream_lose(RfStream *stream)
{
	lose_flow(stream);
	stream->session->running = NULL;
	if (stream->owner_ref)
		stream->state = RF_STREAM_LOST;
	else
	{
		dlist_delete(&stream->node);
		rf_stream_free(stream);
	}
}

/*
 * Runs when a subtransaction ends. Its streams become the outer one's, or, before its resource
 * owners are released, close their flows: their owners may live a little longer.
 */
void
rf_stream_end_level(RfSession *session, int level, bool commit)
{
	dlist_iter	iter;

	dlist_foreach(iter, &session->streams)
	{
		RfStream   *stream = dlist_container(RfStream, node, iter.cur);

		if (stream->level < level)
			continue;
		if (commit)
			stream->level = level - 1;
		else
			lose_flow(stream);
	}
}

/*
 * Runs when a resource owner is released. A stream that it still has belongs to a cursor that
 * failed in a subtransaction, and whose memory may live on for long. That owner closes the stream's
 * flow and files, too, before or after this.
 */
void
rf_stream_release_owner(RfSession *session, ResourceOwner owner)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &session->streams)
	{
		RfStream   *stream = dlist_container(RfStream, node, iter.cur);

		if (stream->resowner != owner)
			continue;
		stream->flow = NULL;
		stream->reader = NULL;
		stream->holding = false;
		stream->stored = NULL;
		rf_stream_abandon(stream);
	}
}
