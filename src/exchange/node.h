/*
 * node.h - inside the exchange room: a data node's side.
 *
 * From the bottom to the top, each calls those before it only:
 *
 * spec.c        the specification of rdma_internal.exchange
 * node_set.c    the session's set of exchanges and the functions that set it up
 * node_queues.c  batches of the workers that run an exchange's query, on their way to their leader
 * node_filter.c  which keys have partners, and dropping rows without
 * node_out.c    one exchange's rows: out of its query, to the nodes they belong to
 * sender.c      the same on the coordinator, for rows of its own
 * node_move.c   and in from other nodes
 * node_collect.c  and while they wait for the reader, as a store of batches
 * node_drive.c  which exchanges go on while one waits, and the end of the statement
 * node_share.c  that is read, by the processes of a Gather or several plan nodes, too
 * node_exec.c   the custom scan's executor: one row after the other, and waiting
 * node_workers.c  the custom scan below a Gather that makes its workers producers
 * node_probe.c  its rows in the order of an index that they are looked up in
 * node_plan.c   the custom scan in the place of rdma_internal.exchange()
 *
 * All of it belongs to one backend, but for the queues that node_queues.c shares with parallel
 * workers, and a shared store of batches (batches.h).
 */
#ifndef RF_EXCHANGE_NODE_H
#define RF_EXCHANGE_NODE_H

#include "postgres.h"

#include "executor/execdesc.h"
#include "nodes/execnodes.h"
#include "nodes/extensible.h"
#include "nodes/pathnodes.h"
#include "storage/dsm.h"
#include "utils/dsa.h"
#include "utils/plancache.h"
#include "utils/resowner.h"

#include "rdma_fdw/batch.h"
#include "rdma_fdw/batches.h"
#include "rdma_fdw/exchange.h"
#include "rdma_fdw/group.h"
#include "rdma_fdw/plan_node.h"
#include "rdma_fdw/reassemble.h"

#define EXCHANGE_MAX	64		/* of one statement */

/* ---------- spec.c ---------- */

typedef enum ExchangeHeavy
{
	HEAVY_NONE,
	HEAVY_SPREAD,				/* rows of such a key go to the nodes in turn, */
	HEAVY_BROADCAST				/* rows that they are joined with to all nodes */
} ExchangeHeavy;

typedef struct ExchangeSpec
{
	int			number;			/* 1.. */
	bool		replicate;
	int			key_count;
	AttrNumber *keys;			/* columns of the query, from 1 */
	double		rows;
	bool		uneven;			/* some nodes have clearly more rows to send than the average */
	int			distinct_count; /* of the first columns; <= 0: not known */
	double	   *distinct;
	int			map_count;		/* 0: a row's consumer is hash % consumers */
	uint16	   *map;			/* else the node at hash % map_count */
	ExchangeHeavy heavy;
	int			heavy_count;
	uint64	   *heavy_hashes;	/* sorted */
	int			filter;			/* only rows with partners in that exchange are needed; 0: all */
	int			reader;			/* 0: the exchange itself; else a place that reads the rows of the
								 * one with this number */
} ExchangeSpec;

/* In the current memory context; ERROR when it is not one. */
extern ExchangeSpec *rf_exchange_spec_parse(const char *text);

/* The hash of its keys, which are columns of `desc`. */
extern RfRoute *rf_exchange_spec_route(const ExchangeSpec *spec, TupleDesc desc);

/* For EXPLAIN. */
extern const char *rf_exchange_describe(const ExchangeSpec *spec);

/*
 * A plan node of an exchange, which is a custom scan: the only member of its custom_private. Made
 * by node_plan.c.
 */
typedef struct ExchangePlan
{
	ExtensibleNode node;
	Oid			function;		/* that was called: running the plan needs the right to it */
	char	   *spec;			/* see rf_exchange_spec_parse() */
	char	   *query;			/* empty: this node sends no rows */
	bool		unsafe;			/* the statement around it must not run in parallel mode */
} ExchangePlan;

static inline ExchangePlan *
rf_exchange_plan_of(const Plan *plan)
{
	return rf_plan_node_of(ExchangePlan,
						   castNode(CustomScan, unconstify(Plan *, plan))->custom_private);
}

/* ---------- the set ---------- */

typedef struct ExchangeState ExchangeState;
typedef struct ExchangeKeys ExchangeKeys;
typedef struct ExchangeFilters ExchangeFilters;
typedef struct ExchangeQueue ExchangeQueue;
typedef struct ExchangeQueues ExchangeQueues;
typedef struct ExchangeWorkerBatch ExchangeWorkerBatch;

typedef struct ExchangeCounters
{
	uint64		rows_out;
	uint64		bytes_out;
	uint64		rows_in;
	uint64		bytes_in;
	uint64		rows_local;		/* that stayed */
	uint64		stalls;			/* sleeps because it could not go on */
	uint64		spilled_bytes;	/* of rows stored on disk until their reader asks */
	char	   *process_rows;	/* "5/7/6": the rows that each process of a Gather took; NULL: not
								 * shared */
	char	   *taken_rows;		/* the same of its query's rows; NULL: the query had no workers
								 * that send */
	char		transport[32];
	char		encryption[64]; /* "": the rows cross no network */
	uint64		rows_filtered;	/* that went nowhere, because they had no partners */
} ExchangeCounters;

typedef struct ExchangeMember
{
	RfGroupDesc *desc;
	int			producer;		/* this session's places in the group, or -1 */
	int			consumer;
	RfGroup    *in;				/* NULL: not a consumer, or over */
	RfGroup    *out;
	ExchangeState *state;		/* the plan node that uses it; NULL before the first */
	List	   *readers;		/* plan nodes that read its rows too, ExchangeState */
	int			keys_wanted;	/* so many, by which another exchange is filtered by it; 0 if it
								 * filters no exchange */
	ExchangeCounters counters;
} ExchangeMember;

typedef struct ExchangeSet
{
	MemoryContext context;
	int			member;
	int			count;
	bool		opened;
	SubTransactionId subid;		/* it was made in */
	EState	   *estate;			/* of the statement that uses it, in this backend: */
	SubTransactionId taken_subid;
	bool		serial;			/* something that runs meanwhile forbids parallel mode */
	int			starting;		/* depth of exchanges whose queries are being started */
	int			unread;			/* exchanges of the statement whose rows are still wanted */
	ExchangeMember members[FLEXIBLE_ARRAY_MEMBER];	/* number - 1 */
} ExchangeSet;

/* The session's, or NULL. Gone when its transaction ends. */
extern ExchangeSet *rf_exchange_set;

/* Enter the plan node into the set. ERROR when there is no set. */
extern ExchangeMember *rf_exchange_take(ExchangeState *state, EState *estate);

/* Enter another plan node that reads the rows of the one with its number. */
extern void rf_exchange_join(ExchangeState *state, EState *estate);

/* The plan node leaves the set; the last one ends it. */
extern void rf_exchange_give_back(ExchangeMember *member);

/* ---------- one exchange in execution ---------- */

typedef enum ExchangeProduction
{
	PRODUCTION_RUNNING,			/* the query may have more rows */
	PRODUCTION_ENDING,			/* all rows were sent; consumers have not acknowledged them yet */
	PRODUCTION_OVER
} ExchangeProduction;

/* Towards one consumer. */
typedef struct ExchangeOutlet
{
	RfEncoder  *encoder;		/* NULL: only whole batches go there */
	RfGroupBuffer buffer;
	bool		has_buffer;
	bool		filling;		/* a batch has begun in the buffer */
	bool		stopped;		/* wants no more; its rows are dropped */
	uint32		room;			/* of a buffer that the next batch may take: the first batches
								 * leave early */
	uint32		parcel_left;	/* bytes of the parcel that it still lacks */
} ExchangeOutlet;

/*
 * One exchange is several jobs. All of the following belongs to the backend that runs the plan
 * node; its memory goes with the query. Workers of a Gather above it have only the fields that
 * begin a scan, and `sharing`; workers of its query have `input`, `routing`, `sending` and their
 * queue.
 */

/* The rows of this node's query (node_exec.c) */
typedef struct ExchangeInput
{
	CachedPlan *plan;
	QueryDesc  *query;			/* NULL: this node sends no rows */
	bool		started;		/* its first row was asked for, in parallel mode if it needs it */
	bool		inside;			/* its ExecProcNode is on the stack */
	PlanState  *node;			/* the source of this process's rows: its plan, or a worker's part
								 * of it */
	bool		over;			/* that gives no more rows, or no more rows are wanted */
	uint64		rows;			/* that it has given */
	SeqScanState *scan;			/* a bare sequential scan, which needs no executor */
	PlanState  *columns;		/* which runs on columns (vector.h); NULL: it does not */
	bool		local;			/* `node` is part of the coordinator's own plan */
} ExchangeInput;

/* Workers of that query (node_workers.c) */
typedef struct ExchangeWorkers
{
	GatherState *gather;		/* NULL without workers */
	ExchangeQueues *queues;		/* their batches; NULL: no workers were started, or all is sent */
	ExchangeQueue *queue;		/* in such a worker: takes the place of the flows */
} ExchangeWorkers;

/* Which consumers get the rows of the query (node_out.c) */
typedef struct ExchangeRouting
{
	RfRows	   *rows;			/* taken from the query, not all sent yet */
	uint32		rows_wanted;	/* before they are routed; grows */
	bool		routed;
	RfRoute    *route;
	int			consumers;
	uint64		consumer_mask;	/* consumers - 1 when they are a power of two, else 0 */
	int			destinations;	/* consumers; in a worker also all of them together */
	uint64	   *hashes;			/* of `rows` */
	uint16	   *places;			/* where each row goes: a consumer, `consumers` for all of them, or
								 * nowhere */
	uint16	   *numbers;		/* routed: the rows by place; room to list those for all thrice */
	uint32	   *next;			/* for each place the first row that has still to go, */
	uint32	   *left;			/* and how many these are; this node's own rows wait for the reader
								 * here */
	uint32		spread_turn;
	MemoryContext hashing;		/* garbage of hashing a toasted key */
} ExchangeRouting;

/*
 * Rows that all consumers get are encoded once. encoder NULL: there are no such rows, or one other
 * consumer, or this is a worker.
 */
typedef struct ExchangeCommon
{
	bool		list;			/* they are a list of their own */
	RfEncoder  *encoder;
	uint8	   *space;
	uint8	   *place;			/* where the batch lies: memory that all of them are sent from, or
								 * NULL: `space` */
	uint32		size;
	uint32		room;
	bool		filling;
} ExchangeCommon;

/* A batch outside the send buffers: of ExchangeCommon, or of one large row. */
typedef struct ExchangeParcel
{
	const uint8 *data;			/* NULL: no parcel is on its way */
	bool		placed;			/* it is sent from there, else copied into send buffers */
	const ExchangeWorkerBatch *from;	/* it is this; NULL: the leader's own */
	uint32		length;
	uint64		rows;
} ExchangeParcel;

/* Batches on their way to the consumers (node_out.c) */
typedef struct ExchangeSending
{
	ExchangeProduction production;
	int			live_outlets;
	ExchangeOutlet *outlets;	/* one for each destination; the own one is not used */
	RfGroupSubmit *submits;		/* room for a batch of each destination */
	ExchangeCommon common;
	ExchangeParcel parcel;
	TupleTableSlot *large;		/* virtual */
	uint32		flags;			/* of the encoders; RF_STREAM_PORTABLE: the consumers store some
								 * types differently */
	int			encoding;		/* of the consumers' databases */
	uint32		flush_seen;		/* tick of the flush timer */
	bool		flush;			/* rows have waited for rdma_fdw.flush_time: send the rows so far */
} ExchangeSending;

/* Batches of other nodes (node_move.c) */
typedef struct ExchangeReceiving
{
	bool		ended;
	RfDecoder  *decoder;
	bool		loaded;			/* the decoder has a batch, this: */
	const void *batch;
	uint32		length;
	uint32		rows;			/* in it, read or not */
	const ExchangeWorkerBatch *from;	/* it is this, for this node; NULL: it was received */
	bool		holding;		/* it lies in this receive buffer, or in `copy` */
	RfGroupBuffer buffer;
	RfReassembly copy;			/* of batches that came in pieces */
	uint32		unpolled;		/* own rows given out since the last check for arrivals */
} ExchangeReceiving;

/*
 * Rows that wait for the reader, as batches (node_collect.c). In a worker of a Gather above only
 * `batches`, and of a plan node with a source nothing.
 */
typedef struct ExchangeStore
{
	RfBatches  *batches;		/* NULL: nothing was stored yet */
	RfEncoder  *encoder;		/* writes own rows into `space`, until that is a full batch; NULL
								 * until the store is made */
	char	   *space;
	TupleTableSlot *arriving;	/* virtual, for rows on their way into the store */
	bool		waiting;		/* rows were put in since all of them had been read */
	bool		complete;		/* all rows of the exchange are in the batches */
} ExchangeStore;

/* How stored rows are read: here alone, by several processes, or plan nodes (node_share.c) */
typedef struct ExchangeSharing
{
	RfBatchCursor *cursor;		/* of the processes that read them here; NULL before the first */
	ExchangeState *source;		/* the plan node that has the exchange and the store; NULL: this
								 * one */
	RfDecoder  *decoder;		/* of the batch that this process took; arriving batches have their
								 * own */
	bool		taken;			/* the decoder has rows */
	bool		shared;			/* with workers, or by a leader */
	bool		appended;		/* an Append has it together with other rows */
	struct ParallelContext *parallel;	/* of the Gather above it */
} ExchangeSharing;

/* The plan above it, and what it has seen of the rows (node_exec.c, node_drive.c) */
typedef struct ExchangeReader
{
	bool		keep;			/* it may rescan, or several plan nodes read */
	bool		nested;			/* it is part of another exchange's query */
	bool		copied;			/* a reader above it copies the rows that it takes; see
								 * node_drive.c */
	bool		exposed;		/* its row may be in use while another exchange waits */
	bool		given;			/* it has got a row since the start */
	bool		lent;			/* it has a row that points into memory of the query or of a batch
								 * that is not stored */
	bool		over;			/* it has had the last row, or needs no more */
} ExchangeReader;

/* Which rows have partners in other exchanges (node_filter.c) */
typedef struct ExchangePartners
{
	ExchangeKeys *keys;			/* of its rows on this node; NULL: no other exchange is filtered by
								 * it */
	bool		cut_short;		/* nobody waited for all of them */
	ExchangeFilters *filters;	/* of its own rows; NULL: all are needed */
	bool		sent;			/* our filter was sent or is being sent */
	bool		asks_first;		/* rf_filter_passes() is asked before the scan's conditions */
} ExchangePartners;

struct ExchangeState
{
	CustomScanState css;		/* first */
	ExchangeSpec *spec;
	const char *query_text;
	ExchangeSet *set;			/* NULL: EXPLAIN without execution */
	ExchangeMember *member;
	ResourceOwner owner;		/* current when it began */
	bool		by_reference;	/* some column is passed by reference */

	ExchangeInput input;
	ExchangeWorkers workers;
	ExchangeRouting routing;
	ExchangeSending sending;
	ExchangeReceiving in;
	ExchangeStore store;
	ExchangeSharing sharing;
	ExchangeReader reader;
	ExchangePartners partners;
};

/* All rows for this node are here, read or not. */
static inline bool
rf_exchange_has_arrived(const ExchangeState *state)
{
	return state->in.ended && !state->in.loaded && state->sending.production != PRODUCTION_RUNNING;
}

/*
 * Returns true if it may be driven while other exchanges are in use. Not while its query is on the
 * stack, or its last row may be in use. `waiting`: for an exchange, not for the reader of the
 * result.
 */
static inline bool
rf_exchange_is_free(const ExchangeState *state, bool waiting)
{
	return !state->input.inside &&
		!(state->reader.lent && (!state->reader.copied || (waiting && state->reader.exposed)));
}

/* node_queues.c */

/* A worker's batch. */
struct ExchangeWorkerBatch
{
	int			consumer;		/* the number of consumers: for all of them */
	const uint8 *data;			/* 8-aligned */
	uint32		length;
	uint64		rows;
};

typedef struct ExchangeQueueShape
{
	int			workers;
	int			consumers;
	int			own;			/* the consumer that is the leader's node itself, or -1 */
	uint32		batch_size;		/* of a buffer; only a batch of one row may be larger */
} ExchangeQueueShape;

/*
 * Leader: makes the queues of `workers` at `space` in the segment, which is 8-aligned, and has the
 * size that rf_queues_size() says. The handle lives in the current memory context, and is of no use
 * after the space has gone.
 */
extern Size rf_queues_size(const ExchangeQueueShape *shape);
extern ExchangeQueues *rf_queues_create(const ExchangeQueueShape *shape, void *space,
										dsm_segment * segment);

/*
 * The next batch for other nodes, and the next one for this node; NULL if there is no batch now.
 * The caller returns it by rf_queues_sent() or rf_queues_read(); until then there is no further one
 * of that worker.
 */
extern const ExchangeWorkerBatch *rf_queues_next_to_send(ExchangeQueues *queues);
extern const ExchangeWorkerBatch *rf_queues_next_to_read(ExchangeQueues *queues);
extern void rf_queues_sent(ExchangeQueues *queues, const ExchangeWorkerBatch *batch);
extern void rf_queues_read(ExchangeQueues *queues, const ExchangeWorkerBatch *batch);

/* All batches that the workers have put in were sent and read. */
extern bool rf_queues_are_empty(ExchangeQueues *queues);

/* Nobody wants more rows: the workers may end. */
extern void rf_queues_stop(ExchangeQueues *queues);

/* Nobody reads here any more: drop the rows for this node. */
extern void rf_queues_stop_reading(ExchangeQueues *queues);

/*
 * Rows that each worker took from the plan, and how many of all were filtered; the workers have
 * ended.
 */
extern void rf_queues_count(ExchangeQueues *queues, uint64 *rows, uint64 *filtered);

/* Worker: its own, in the current memory context. */
extern ExchangeQueue *rf_queue_attach(void *space, int worker);

/* Memory for its next batch for that consumer, which may be all of them; always the same. */
extern void rf_queue_buffer(ExchangeQueue *queue, int consumer, RfGroupBuffer *buffer);

/* Copies a batch, from anywhere, into the queue; waits for room. */
extern void rf_queue_put(ExchangeQueue *queue, int consumer, const uint8 *batch, uint32 length,
						 uint64 rows);
extern bool rf_queue_is_stopped(const ExchangeQueue *queue);

/* Nothing more comes; the numbers are for rf_queues_count(). */
extern void rf_queue_end(ExchangeQueue *queue, uint64 rows, uint64 filtered);

/* node_filter.c */

/* Called once the state is in the set, and knows its producer's and consumer's places. */
extern void rf_filter_begin(ExchangeState *state, TupleDesc desc);

/*
 * With state->partners.keys: rows that are here, routed rows of this node's query, or all of the
 * loaded batch, which has been decoded then.
 */
extern void rf_filter_add_own(ExchangeState *state);
extern void rf_filter_add_batch(ExchangeState *state);

/*
 * With state->partners.filters, before its query runs. Returns the message to be sent to all
 * consumers, once; NULL: not yet, drive the exchange that it is filtered by.
 */
extern const void *rf_filter_message(ExchangeState *state, uint32 *length);

/*
 * After that: returns true if all other nodes have sent their filters, or it has waited long
 * enough.
 */
extern bool rf_filter_is_complete(ExchangeState *state);

/* Then: returns true if no row has a partner anywhere. The query need not run. */
extern bool rf_filter_is_empty(const ExchangeState *state);

/* Milliseconds until that is so in any case; -1 if it does not wait for other nodes. */
extern long rf_filter_patience(const ExchangeState *state);

/*
 * Returns true if the message is that consumer's filter and not a batch. ERROR when it is damaged.
 */
extern bool rf_filter_receive(ExchangeState *state, int consumer, const void *message,
							  uint32 length);

/* Send the routed rows that have no partners to the place that does not exist, consumers + 1. */
extern void rf_filter_drop(ExchangeState *state);

/* Returns true if it drops rows now. */
extern bool rf_filter_is_on(const ExchangeState *state);

/*
 * The filters as they are now, for workers of the query, which get no further filters: written to
 * `space`, 8-aligned.
 */
extern Size rf_filter_shared_size(const ExchangeState *state);
extern void rf_filter_share(const ExchangeState *state, uint64 *space);
extern void rf_filter_attach(ExchangeState *state, const uint64 *space);

/*
 * With state->partners.asks_first: a row of state->input.scan, before the conditions of the scan.
 * False: it has no partner. Finds out, too, whether it pays to ask that so early, and as long as it
 * does not says true.
 */
extern bool rf_filter_passes(ExchangeState *state, TupleTableSlot *slot);

/* node_out.c */
typedef enum ExchangeStep
{
	STEP_STUCK,					/* nothing can be done now, or ever */
	STEP_MOVED,
	STEP_OWN_ROW				/* there is a row for this node: rf_exchange_take_own() */
} ExchangeStep;

extern void rf_exchange_begin_sending(ExchangeState *state, TupleDesc desc);
extern ExchangeStep rf_exchange_produce(ExchangeState *state);

/* Into a virtual slot, without a copy: valid until rf_exchange_produce is called again. */
extern void rf_exchange_take_own(ExchangeState *state, TupleTableSlot *slot);

/* Instead of taking them one by one: as many as fit the encoder's batch; returns how many. */
extern uint32 rf_exchange_encode_own(ExchangeState *state, RfEncoder *encoder);

/* For rows of the exchange, in that encoding; goes with the current memory context. */
extern RfEncoder *rf_exchange_make_encoder(TupleDesc desc, uint32 flags, int encoding);
extern void rf_exchange_end_sending(ExchangeState *state);

/* sender.c: for form_exchanges.c; connects once all nodes listen. ERROR: its flows are closed. */
extern void rf_sender_connect(RfSender *sender, RfGroupDesc *desc,
							  struct RfSession *const *sessions, int count);
extern void rf_sender_disconnect(RfSender *sender);

/* node_move.c */
extern RfDecoder *rf_exchange_make_decoder(ExchangeState *state, TupleDesc desc);
extern void rf_exchange_begin_moving(ExchangeState *state, TupleDesc desc);
extern bool rf_exchange_receive(ExchangeState *state);	/* load the next batch that has arrived, if
														 * no batch is loaded */
extern bool rf_exchange_next_received(ExchangeState *state, TupleTableSlot *slot);
extern void rf_exchange_drop_batch(ExchangeState *state);	/* the loaded one is done with */
extern void rf_exchange_stop_reading(ExchangeState *state);

/* node_collect.c */

/*
 * Returns true if all rows go through the store, and are read when all are there: because they are
 * read again, or by several. Otherwise only rows that arrive while the reader does something else
 * are stored.
 */
static inline bool
rf_exchange_collects(const ExchangeState *state)
{
	return state->reader.keep || state->sharing.shared;
}

/* Makes the store, unless it is there. */
extern void rf_exchange_require_store(ExchangeState *state);

/* Into the store: the rows of the loaded batch that were not read yet; some own rows, if any. */
extern void rf_exchange_store_received(ExchangeState *state);
extern void rf_exchange_store_own(ExchangeState *state);

/* Own rows that are in no batch yet become one. Returns false if there were no such rows. */
extern bool rf_exchange_store_begun(ExchangeState *state);

/* All rows are stored. */
extern void rf_exchange_complete_store(ExchangeState *state);

/* node_drive.c */

/* For rf_stream_acquire: drives the statement's exchanges while the result waits for its reader. */
extern bool rf_exchange_acquire(RfFlowHandle *flow, RfBuffer *buffer);

/* Drive other exchanges, or sleep until something may have changed for `waiting`. */
extern void rf_exchange_sleep(ExchangeState *waiting);

/* The statement needs no more rows: send the rows that other nodes still wait for. */
extern void rf_exchange_finish_all(ExchangeSet *set);

/*
 * Decides which exchanges' rows may be in use while other exchanges wait, and which may be read
 * again: for the tree of the statement and for the tree of each exchange's query (nested).
 */
extern void rf_exchange_inspect(PlanState *tree, bool nested);

/* node_share.c */

/*
 * The next stored row; its values stay until the next call. next_stored: of the rows that are here
 * now, false: there are no more. next_collected: of all, which it waits for.
 */
extern bool rf_exchange_next_stored(ExchangeState *state, TupleTableSlot *slot);
extern TupleTableSlot *rf_exchange_next_collected(ExchangeState *state, TupleTableSlot *slot);
extern void rf_exchange_rescan_collected(ExchangeState *state);

/* The custom scan's callbacks. */
extern Size rf_exchange_estimate_shared(CustomScanState *node, struct ParallelContext *pcxt);
extern void rf_exchange_initialize_shared(CustomScanState *node, struct ParallelContext *pcxt,
										  void *coordinate);
extern void rf_exchange_reinitialize_shared(CustomScanState *node, struct ParallelContext *pcxt,
											void *coordinate);
extern void rf_exchange_initialize_worker(CustomScanState *node, struct shm_toc *toc,
										  void *coordinate);

/*
 * The statement starts: exchanges that several plan nodes read keep their rows for all of them.
 * ERROR when their rows differ.
 */
extern void rf_exchange_link_readers(ExchangeSet *set);

/* Nobody below its Gather will read on: workers that wait are woken. */
extern void rf_exchange_abandon_shared(ExchangeState *state);

/* For ExchangeCounters.process_rows, in the context; the workers have ended. */
extern char *rf_exchange_process_rows(ExchangeState *state, MemoryContext context);

/* node_exec.c */
extern Node *rf_exchange_create_state(CustomScan *scan);

/* The name of its path, plan and state, which tells them from other custom scans. */
extern const char rf_exchange_name[];

static inline bool
rf_exchange_is_state(PlanState *node)
{
	return IsA(node, CustomScanState) &&
		((CustomScanState *) node)->methods->CustomName == rf_exchange_name;
}

static inline bool
rf_exchange_is_path(Path *path)
{
	return IsA(path, CustomPath) && ((CustomPath *) path)->methods->CustomName == rf_exchange_name;
}

/* node_workers.c */

/* Called once. */
extern void rf_workers_register(void);

/* True while exchanges' queries are planned that may have such workers. */
extern bool rf_workers_wanted;

/* The query has been started: make its workers, if its plan has some, producers of the exchange. */
extern void rf_workers_link(ExchangeState *state);

#endif
