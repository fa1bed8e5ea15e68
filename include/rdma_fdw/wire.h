/*
 * wire.h - every byte that two nodes exchange, except SQL text and the providers' own framing.
 *
 * Three layers, each with its section below:
 *   1. control messages between two engines, on a TCP or local stream socket (handshake, then
 *      opening of flows);
 *   2. the payloads inside libpq's answers (hello and stream: request and reply);
 *   3. slots and column batches, written by RDMA into the reader's memory.
 *
 * All integers are little-endian; nodes of another byte order are refused in the handshake. All
 * structures are laid out without padding holes and are copied in and out with memcpy where their
 * alignment is not given. A reader checks every length, offset and enumeration against the bytes it
 * has before using it.
 *
 * No PostgreSQL header. The batch room, the engine, the fuzzers and the benches share this file.
 */
#ifndef RF_WIRE_H
#define RF_WIRE_H

#include <stdint.h>

/*
 * The release is default_version of the control file.
 *
 * The wire version counts changes to this file that a node without them cannot take; 2 is the first
 * that was released. A release that brings version N still speaks N - 1, so that nodes can be
 * upgraded one at a time. The newer side adapts. Every message says the version it is of.
 * rdma_internal.hello() is asked in the newest; when the answer names an older version that is
 * spoken here, it is asked again in that, and later messages, the engines' HELLO too, are of that
 * version. A node that is asked in an older version answers in it, if it speaks that. An older side
 * needs to know nothing of this, as long as RfHelloRequest and the first word of RfHelloReply stay
 * as they are. While 2 is the only version there is nothing to choose: any other is refused, with
 * an error that says which side to upgrade.
 */
#define RF_EXTENSION_VERSION	"1.1"
#define RF_WIRE_VERSION		2

/*
 * Where to upgrade when another node speaks this wire version: one of two words for an error's
 * hint.
 */
#define RF_WIRE_BEHIND(version, theirs, ours)	((version) > RF_WIRE_VERSION ? (ours) : (theirs))

/*
 * A node: one postmaster's run, from its start or crash restart on. For that time it has an X25519
 * key, and its identity is the first 16 bytes of the SHA-256 of the public one (base/agree.h). So
 * an identity can be claimed by anybody and used by nobody else: a token is for the engine that has
 * the private key, as its proof in the handshake shows.
 */
typedef struct RfNodeId
{
	uint64_t	words[2];		/* the bytes of the hash as they are */
} RfNodeId;

/*
 * The properties that must be the same for raw images of values to mean the same on both nodes.
 * Compared bytewise.
 */
typedef struct RfTypeImage
{
	uint32_t	byte_order_mark;	/* 0x01020304 as stored by the node */
	uint8_t		sizeof_datum;
	uint8_t		maximum_alignment;
	uint8_t		float8_by_value;
	uint8_t		name_data_length;
	uint32_t	double_format;	/* top half of the bits of 1.0 */
	uint32_t	image_version;	/* bumped when a major changes a built-in type's stored form; 15 to
								 * 18: 1 */
} RfTypeImage;

/* ---------- 1. engine to engine: control ---------- */

/*
 * Every control message: header, then `length` bytes of payload. Length is bounded by
 * RF_CONTROL_MAX; anything longer, an unknown type or a type that does not fit the state closes the
 * connection.
 *
 *   initiator                                acceptor
 *   HELLO  (node, version, image, nonce_i) ->
 *                                         <- CHALLENGE (node, version, image, nonce_a)
 *   PROOF  (token id, HMAC_i)             ->
 *                                         <- WELCOME   (HMAC_a, lanes)    or  REFUSED (reason)
 *   from here on under TLS, unless both ends' policy is RF_ENCRYPTION_OFF
 *   QP     (lane, blob) ...               <->  QP (lane, blob) ...
 *   LINKED (where to write a proof)       <->  LINKED
 *   a proof over each queue pair          <->  a proof over each queue pair
 *   READY                                 ->
 *                                         <- READY
 *   then OPEN / OPENED / OPEN_FAILED / PING / PONG / BYE in both directions.
 *
 * HMAC_i = HMAC-SHA256(token secret, "initiator" | HELLO payload | CHALLENGE payload), HMAC_a the
 * same with "acceptor": both sides prove that they know the token's secret; a token is used once,
 * by one connection set. The secret is sent by nobody. An authenticated libpq session carries the
 * token's id and a public key of either engine (RfHelloRequest, RfHelloReply); each computes
 * HKDF-SHA256(X25519(own private key, other public key), salt = id, info = "rdma_fdw token" |
 * initiator's public key | acceptor's), 32 bytes. So neither logs nor listeners have it.
 *
 * TLS is version 1.3 with an external pre-shared key, a fresh X25519 exchange and
 * TLS_AES_256_GCM_SHA384; the initiator is its client. The key is HMAC-SHA256(token secret, "tls" |
 * HELLO payload | CHALLENGE payload), so that it belongs to this handshake, in which both ends have
 * said the same policies. The policies are under the HMACs of PROOF and WELCOME as well: an
 * attacker that changes one on the way gets no connection. A data socket over TCP is under TLS
 * where the control connection is, from the byte after ATTACH and ATTACHED on, with a key of its
 * own: the secret that the control connection's TLS exports (RFC 8446, 7.5) for the connection's id
 * and the lane. Sockets of a lane, or of another connection, cannot take each other's place.
 * Nothing goes on in clear when TLS fails.
 *
 * QP messages are sent by both sides after WELCOME, one per lane. LINKED says that the sender's
 * queue pairs are connected, and where their proofs go: a WRITE_IMM (RF_PATH_PROOF) of
 * RF_PROOF_SIZE bytes over each queue pair, with the number that LINKED asks for all over, so that
 * packets as large as any cross the path that rows will take. A queue pair is proven when its own
 * proof was acknowledged and the peer's has come. The initiator sends READY when all are, the
 * acceptor when all are and READY came; then the connection set is up. BROKEN before that says that
 * a proof did not get through: both ends send it once and begin with QP again over the software
 * transport, if both have it; messages that the other end sent before its own BROKEN are void.
 * BROKEN later says that the data connection was lost, and why its end closes the control
 * connection. READY, BROKEN and BYE have no payload; PING and PONG carry 8 bytes that come back as
 * they are. A socket that carries a queue pair of the soft provider begins with ATTACH (connection
 * id, lane, HMAC) instead of HELLO, and is answered by ATTACHED (HMAC): on either end, memory is
 * passed only to a process that has proved to be the engine at the other end of the control
 * connection. An engine that shuts down sends BYE.
 */
#define RF_CONTROL_MAGIC	0x31464452u /* "RDF1" */
#define RF_CONTROL_MAX		4096u
#define RF_NONCE_SIZE		32
#define RF_HMAC_SIZE		32
#define RF_TOKEN_SIZE		32
#define RF_TOKEN_ID_SIZE	16
#define RF_KEY_SIZE			32	/* X25519 */

typedef enum RfControlType
{
	RF_CONTROL_HELLO = 1,
	RF_CONTROL_CHALLENGE,
	RF_CONTROL_PROOF,
	RF_CONTROL_WELCOME,
	RF_CONTROL_REFUSED,
	RF_CONTROL_ATTACH,
	RF_CONTROL_ATTACHED,
	RF_CONTROL_QP,
	RF_CONTROL_READY,
	RF_CONTROL_OPEN,
	RF_CONTROL_OPENED,
	RF_CONTROL_OPEN_FAILED,
	RF_CONTROL_PING,
	RF_CONTROL_PONG,
	RF_CONTROL_BYE,
	RF_CONTROL_LINKED,
	RF_CONTROL_BROKEN
} RfControlType;

typedef struct RfControlHeader
{
	uint32_t	magic;
	uint16_t	type;
	uint16_t	version;
	uint32_t	length;			/* of the payload */
	uint32_t	reserved;		/* 0 */
} RfControlHeader;

/*
 * An end's requirement for connections; of the two ends' words the stricter, which is the greater,
 * holds.
 */
typedef enum RfEncryption
{
	RF_ENCRYPTION_OFF = 0,		/* TCP in clear, if the other end wants that too */
	RF_ENCRYPTION_AUTO,			/* TCP under TLS; devices as they are */
	RF_ENCRYPTION_REQUIRE		/* and no devices, which cannot encrypt */
} RfEncryption;

#define RF_OFFER_SOFT		1u
#define RF_OFFER_VERBS		2u
#define RF_OFFER_ALL		(RF_OFFER_SOFT | RF_OFFER_VERBS)

typedef struct RfControlHello	/* HELLO and CHALLENGE */
{
	RfNodeId	node;
	RfTypeImage image;
	uint8_t		host[16];		/* boot id of the machine: equal means "try the local socket" */
	uint8_t		nonce
	[			RF_NONCE_SIZE]; /* random. HELLO's begins with the id of the token that PROOF will
								 * use: an acceptor with more connections than it has room for
								 * keeps connections that name a token of its own */
	uint32_t	lanes;
	uint32_t	provider;		/* RF_OFFER_*: the transports that the sender is ready to use */
	char		local_name[64]; /* abstract AF_UNIX name of the engine, NUL-padded */
	uint32_t	encryption;		/* RfEncryption */
	uint32_t	reserved;		/* 0 */
} RfControlHello;

typedef struct RfControlProof	/* PROOF */
{
	uint8_t		token_id[16];
	uint8_t		hmac[RF_HMAC_SIZE];
} RfControlProof;

typedef struct RfControlWelcome /* WELCOME */
{
	uint8_t		hmac[RF_HMAC_SIZE];
	uint8_t		connection_id[16];	/* random; names the connection set in ATTACH */
	uint32_t	lanes;			/* min of both */
	uint32_t	provider;		/* chosen: a transport that both offer, verbs if both do */
} RfControlWelcome;

/*
 * The acceptor is connecting to the initiator itself and its connection has precedence. The token
 * stays valid.
 */
#define RF_REFUSED_CROSSING 100

typedef struct RfControlRefused /* REFUSED */
{
	uint32_t	reason;			/* RfErrorKind, or RF_REFUSED_CROSSING */
	char		message[188];	/* NUL-terminated */
} RfControlRefused;

typedef struct RfControlAttach	/* ATTACH: HMAC-SHA256(token secret, "attach" | connection_id |
								 * lane) */
{
	uint8_t		connection_id[16];
	uint32_t	lane;
	uint32_t	reserved;
	uint8_t		hmac[RF_HMAC_SIZE];
} RfControlAttach;

typedef struct RfControlAttached	/* ATTACHED: HMAC-SHA256(token secret, "attached" |
									 * connection_id | lane) */
{
	uint8_t		hmac[RF_HMAC_SIZE];
} RfControlAttached;

typedef struct RfControlQp		/* QP */
{
	uint32_t	lane;
	uint32_t	reserved;
	uint8_t		blob[128];
} RfControlQp;

#define RF_PROOF_SIZE		4096u	/* as large as the largest path MTU */

typedef struct RfControlLinked	/* LINKED */
{
	uint64_t	remote_addr;	/* RF_PROOF_SIZE bytes for the proof of lane 0, later for its
								 * mails; those of the other lanes follow */
	uint64_t	number;			/* its contents, little-endian; not 0 */
	uint32_t	rkey;
	uint32_t	reserved;
} RfControlLinked;

typedef struct RfControlOpen	/* OPEN: producer's engine to consumer's engine */
{
	uint32_t	producer_flow;	/* sender's flow index */
	uint32_t	consumer_flow;	/* receiver's flow index */
	uint64_t	key;			/* from the stream request: proves that the reader asked for it */
	uint32_t	lane;			/* both ends use this lane */
	uint32_t	reserved;
} RfControlOpen;

typedef struct RfControlOpened	/* OPENED: where the producer may write */
{
	uint32_t	producer_flow;
	uint32_t	consumer_flow;
	uint64_t	remote_addr;	/* of receive buffer 0; the next buffers follow it without gap */
	uint32_t	rkey;
	uint32_t	slot_count;		/* slots that may be sent and not released yet */
	uint32_t	slot_size;
	uint32_t	weight;			/* the reader's rdma_fdw.flow_weight; 1..100 */
	uint32_t	pool_buffers;	/* 0: slot_count receive buffers for this flow alone; else so many
								 * for all producers, and 4096 bytes before buffer 0 begins a word
								 * of 8 bytes for each (receive.h) */
	uint32_t	pool_claimable; /* how many of these, from buffer 0, compare-and-swap may claim */
} RfControlOpened;

typedef struct RfControlOpenFailed
{
	uint32_t	producer_flow;
	uint32_t	reason;			/* RfErrorKind */
	char		message[184];
} RfControlOpenFailed;

/* ---------- 2. inside libpq's answers ---------- */

/* rdma_internal.hello(request bytea) returns bytea */
typedef struct RfHelloRequest
{
	uint32_t	wire_version;
	uint32_t	need_token;		/* 1: the reader's engine has no connection to this node */
	RfNodeId	node;			/* the reader's node */
	RfTypeImage image;
	uint8_t		key[RF_KEY_SIZE];	/* public key of its engine's life */
} RfHelloRequest;

typedef struct RfHelloReply
{
	uint32_t	wire_version;
	uint32_t	server_version_num;
	uint32_t	encoding;		/* database encoding (pg_enc) of the data node */
	uint32_t	port;			/* where its engine listens */
	RfNodeId	node;
	RfTypeImage image;
	uint8_t		token_id[16];	/* zeros when the reader asked for no key */
	uint8_t		key[RF_KEY_SIZE];	/* public key of this engine's life */
	char		extension_version[16];
	char		address[64];	/* rdma_fdw.engine_address if set, else "": use the host that libpq
								 * connected to */
} RfHelloReply;

/*
 * rdma_internal.stream(request bytea, query text, parameter_types text[], parameter_values text[])
 * returns bytea: RfStreamRequest, then column_count RfStreamColumn, then an RfStreamSnapshot if a
 * flag asks for it.
 */
typedef struct RfStreamRequest
{
	uint32_t	wire_version;
	uint32_t	flags;			/* RF_STREAM_* */
	RfNodeId	node;			/* the reader's node: names the peer */
	uint64_t	key;			/* of the reader's flow */
	uint32_t	consumer_flow;	/* its index */
	uint32_t	inline_limit;	/* bytes of batch that may come back in the reply */
	uint32_t	encoding;		/* the reader's database encoding */
	uint32_t	column_count;
	uint64_t	bandwidth;		/* bytes per second that its pulls from this node got; 0 = not
								 * known */
} RfStreamRequest;

#define RF_STREAM_PORTABLE	0x1 /* no raw images of variable-length values: send/receive or text */
#define RF_STREAM_FLOW		0x2 /* open the flow before the query runs and end it in any case:
								 * several processes read it */
#define RF_STREAM_PAGES		0x4 /* rows may come as tuples of heap pages: same image, major version
								 * and ways of compression */
#define RF_STREAM_INLINE	0x8 /* there is no flow: rows that do not fit the answer are an error */
#define RF_STREAM_KEEP		0x10	/* the query's snapshot becomes the snapshot of the reader's
									 * statement */
#define RF_STREAM_KEPT		0x20	/* the query runs under that snapshot */
#define RF_STREAM_NO_QUERY	0x40	/* there is no query: keep the snapshot, or (KEPT) run the
									 * session's next statement under it */
#define RF_STREAM_EXPLAIN	0x80	/* counts the rows of the query's plan; the answer has its
									 * EXPLAIN (ANALYZE), and with these: */
#define RF_STREAM_EXPLAIN_TIMING	0x100	/* its times, */
#define RF_STREAM_EXPLAIN_BUFFERS	0x200	/* its buffers, */
#define RF_STREAM_EXPLAIN_COSTS		0x400	/* the planner's estimates, */
#define RF_STREAM_EXPLAIN_VERBOSE	0x800	/* and what VERBOSE adds */
/*
 * The highest bits: how many nodes run the reader's statement on one machine with this one; 0: not
 * known.
 */
#define RF_STREAM_NODES_SHIFT	24
#define RF_STREAM_NODES_MAX		255 /* so many or more */

/*
 * In READ COMMITTED: the snapshot that a statement of the reader has here. The session keeps it
 * until the transaction ends, or a later request to keep one says that the statement is over: those
 * before `oldest` are, and those between `outer` and its own.
 */
typedef struct RfStreamSnapshot
{
	uint64_t	statement;		/* the reader's number for it, never used again in a session */
	uint64_t	oldest;
	uint64_t	outer;			/* the last statement before it that may go on; 0 if there is no
								 * such statement */
	uint64_t	coordinator;	/* system identifier of the reader's server */
} RfStreamSnapshot;

/* The answer to RF_STREAM_KEEP with RF_STREAM_NO_QUERY. */
typedef struct RfKeepReply
{
	int64_t		others_age;		/* microseconds since a part of a transaction of another
								 * coordinator was committed here; 0 if one is prepared, INT64_MAX
								 * if there was no such part since this server started */
} RfKeepReply;

/*
 * rdma_internal.seen_parts may hear how old a part is so much later than rdma_internal.unseen_parts
 * said it.
 */
#define RF_PARTS_SLACK_US	5000000

/*
 * A coordinator names the parts of its transactions on nodes for PREPARE TRANSACTION: this, its
 * system identifier in 16 hexadecimal digits, _, a text that tells its transactions apart and is
 * the same in all parts of one, _, the number of the part.
 */
#define RF_GID_PREFIX	"rdma_fdw_"

typedef struct RfStreamColumn
{
	uint32_t	type_oid;		/* the reader's type if it is built in (< 10000) and its image will
								 * do, else 0 */
	int32_t		typmod;
	char		type_name[128]; /* schema-qualified and quoted as format_type prints it; truncated
								 * names never match */
} RfStreamColumn;

/*
 * Followed by `inline_length` bytes: one column batch. What is left, with RF_STREAM_EXPLAIN, is the
 * plan's text, in the reader's encoding.
 */
typedef struct RfStreamReply
{
	uint32_t	wire_version;
	uint32_t	inline_length;	/* 0 when the rows went over the flow (or there are no rows) */
	uint64_t	rows;			/* all rows of the query, inline or not */
	uint64_t	batches;		/* sent over the flow */
	uint64_t	bytes;			/* batch bytes sent over the flow */
	uint32_t	used_flow;		/* 1: rows went over the flow */
	uint32_t	wrote;			/* 1: the transaction has written, or locked rows */

	/*
	 * How they went, for EXPLAIN: the sender's counters of the flow (shmem/layout.h, RfFlowStats).
	 */
	uint64_t	work_requests;
	uint64_t	merged;
	uint64_t	chained;
	uint64_t	credit_stalls;
	uint64_t	waits;
	uint64_t	wait_us;

	/* Heap pages that went as they are: */
	uint64_t	page_rows;
	uint64_t	pages_box;		/* tuples with the bytes between them */
	uint64_t	pages_packed;	/* tuples alone */
	uint64_t	useful_bytes;	/* of tuples */
	uint64_t	gap_bytes;		/* the bytes between */
	uint64_t	pages_gathered; /* tuples alone, from where they lay */
	uint64_t	pages_strided;	/* and the wanted bytes, at equal distances */
	uint64_t	uncopied_bytes; /* that left from there */

	/* From the request to this answer; `wait_us` and this wait are parts of it: */
	uint64_t	run_us;
	uint64_t	exchange_wait_us;	/* for rows of other nodes, or until they take ours */
} RfStreamReply;

/*
 * rdma_internal.store(request bytea, relation text, columns text[], batch bytea) returns bytea:
 * RfStoreRequest, then column_count RfStreamColumn, the writer's types. With a batch its rows are
 * all there is; without one the data node opens a flow for reading and says where by reporting a
 * new value of the parameter RF_STORE_PARAMETER: "id index key", hexadecimal, decimal, hexadecimal.
 */
typedef struct RfStoreRequest
{
	uint32_t	wire_version;
	uint32_t	flags;			/* RF_STORE_* */
	RfNodeId	node;			/* the writer's node: names the peer */
	uint64_t	id;				/* random: tells this request's flow from an earlier one's */
	uint32_t	receive_buffers;
	uint32_t	receive_buffer_size;	/* bytes, a multiple of 4096 */
	uint32_t	column_count;
	uint32_t	place_count;	/* the first columns, which say which row it is; 0: rows are
								 * inserted */
} RfStoreRequest;

#define RF_STORE_ON_CONFLICT	0x1 /* the last argument of the call has the clause */
/*
 * Rows that are there: the first place_count columns are ctid, tableoid, and the columns of the
 * distribution key, the others are new values; or rows are deleted, and there are no others.
 */
#define RF_STORE_UPDATE		0x2
#define RF_STORE_DELETE		0x4
#define RF_STORE_PARAMETER	"rdma_fdw.store_flow"

/* Last line of the context of an error that is about one of the request's rows, counted from 1. */
#define RF_STORE_ROW_CONTEXT	"row %llu of rdma_internal.store()"

typedef struct RfStoreReply
{
	uint32_t	wire_version;
	uint32_t	reserved;
	uint64_t	rows;			/* that arrived */
	uint64_t	batches;
	uint64_t	bytes;			/* of batches */
	uint64_t	written;		/* rows that the statement counted: triggers and ON CONFLICT may
								 * drop some */
} RfStoreReply;

/*
 * Description of a group of flows (group.h): RfGroupHeader, then an RfNodeId for every producer and
 * every consumer, then the addresses: for every consumer, for every producer, the entry that the
 * producer opens.
 */
#define RF_GROUP_MAGIC		0x50524752u /* "RGRP" */

typedef struct RfGroupHeader
{
	uint32_t	magic;
	uint16_t	version;		/* RF_WIRE_VERSION */
	uint16_t	kind;			/* RfGroupKind */
	uint32_t	length;			/* of the whole description */
	uint16_t	producers;
	uint16_t	consumers;
	uint8_t		id[16];			/* random */
	uint32_t	slot_count;		/* of every pair */
	uint32_t	slot_size;
} RfGroupHeader;

typedef struct RfGroupAddress
{
	uint32_t	flow;			/* index in the flow table of the reading end's node */
	uint32_t	known;			/* 0: that member does not listen yet, the rest is 0 */
	uint64_t	key;
} RfGroupAddress;

/* ---------- 3. slots and batches ---------- */

/*
 * The immediate of a WRITE_IMM: kind (3 bits) | receiver's flow index (13 bits) | value (16 bits).
 *   DATA    value = low bits of the number of slots written so far, this one included; the k-th
 *           slot lies in receive buffer k mod r. A flow with a shared receive pool sends the number
 *           of the receive buffer that has the next slot (low 8 bits), and how many more slots it
 *           wrote, into the buffers after that buffer (high 8 bits)
 *   CREDIT  value = low bits of the number of receive buffers released so far
 *   PROBE   the producer has waited for credit: answer with CREDIT
 *   STOP    value = RF_STOP_IMM_*. The reader wants no more; the producer discards and ends. Or
 *   (LEAVE) it wants no new batch; the producer ends its
 *           stream with the next whole one. Sent after something came from the producer, never
 *           earlier
 *   END     the sender of it will send nothing more for this flow and no write of its own is in
 *   flight; each side sends it once;
 *           value = RF_END_*
 *   CLAIM   value = low bits of the number of buffers of the pool that the producer has asked for
 *   so far
 *   GRANT   value = a buffer of the pool, now the producer's for one slot
 *   PATH    of no flow; in place of the flow's index:
 *           RF_PATH_PROOF (value 0): the queue pair's proof, see LINKED. Once, before anything else
 *           RF_PATH_MAIL + s: an RfMail with `value` immediates lies at place s of the memory in
 *           which the proof landed
 *           RF_PATH_READ: value = low bits of the number of mails read so far
 */
typedef enum RfImmKind
{
	RF_IMM_DATA = 0,
	RF_IMM_CREDIT = 1,
	RF_IMM_PROBE = 2,
	RF_IMM_STOP = 3,
	RF_IMM_END = 4,
	RF_IMM_CLAIM = 5,
	RF_IMM_GRANT = 6,
	RF_IMM_PATH = 7
} RfImmKind;

#define RF_IMM(kind, flow, value) \
	(((uint32_t) (kind) << 29) | ((uint32_t) (flow) << 16) | ((uint32_t) (value) & 0xffff))
#define RF_IMM_KIND(imm)	((imm) >> 29)
#define RF_IMM_FLOW(imm)	(((imm) >> 16) & 0x1fff)
#define RF_IMM_VALUE(imm)	((imm) & 0xffff)

/* The value of DATA into a pool: slots from that buffer on. */
#define RF_IMM_PLACED(place, slots)	((place) | ((slots) - 1) << 8)
#define RF_IMM_PLACE(value)			((value) & 0xff)
#define RF_IMM_PLACED_SLOTS(value)	(((value) >> 8) + 1)

#define RF_PATH_PROOF		0u
#define RF_PATH_MAIL		1u
#define RF_PATH_READ		0x1fffu

/*
 * Immediates other than DATA of any flows between two lanes that leave in one work request: its
 * bytes up to the last of its words. The lanes use RF_MAILS places in turn, each again when the
 * reader has said that it read it; without a free place immediates leave alone.
 */
#define RF_MAILS			16
#define RF_MAIL_WORDS		63

typedef struct RfMail
{
	uint32_t	read;			/* mails of the reader that the sender has read */
	uint32_t	words[RF_MAIL_WORDS];
} RfMail;

#define RF_MAX_FLOWS		8192
#define RF_MAX_SLOTS		16	/* per flow: SB slots, RBs; one is the single-buffer mode */
#define RF_MIN_SLOT_SIZE	4096
#define RF_MAX_SLOT_SIZE	(4 * 1024 * 1024)
#define RF_MAX_INLINE		(64 * 1024 * 1024)	/* RfStreamRequest.inline_limit */

#define RF_STOP_IMM_CLEAN	0	/* it has all rows it needs */
#define RF_STOP_IMM_FAILED	1	/* it failed; libpq says why */
#define RF_STOP_IMM_LEAVE	2	/* it reads the rows sent, discard nothing */

#define RF_END_CLEAN		0	/* after end-of-stream was acknowledged */
#define RF_END_STOPPED		1	/* after STOP */
#define RF_END_FAILED		2	/* the producer's backend gave up; libpq says why */

/* First 64 bytes of every slot as it is written; the payload follows. */
#define RF_SLOT_MAGIC		0x544c5352u /* "RSLT" */

typedef struct RfSlotHeader
{
	uint32_t	magic;
	uint32_t	flags;			/* RF_SLOT_* */
	uint64_t	key;			/* the flow's key: old traffic never matches */
	uint64_t	sequence;		/* 0, 1, 2, ... */
	uint32_t	length;			/* of the payload in this slot */
	uint32_t	offset;			/* bytes of the batch in the slots before this one; 0 with FIRST
								 * and in END */
	uint64_t	rows;			/* rows of the batch that ends here; in END: all rows of the flow */
	uint64_t	bytes;			/* 0; in END: all payload bytes of the flow */
	uint32_t	checksum;		/* with LAST: CRC-32C of the whole batch; 0 if the sender computes
								 * no checksum */
	uint32_t	reserved;
	uint64_t	reserved2;
} RfSlotHeader;

#define RF_SLOT_FIRST		0x1 /* a batch begins here */
#define RF_SLOT_LAST		0x2 /* and ends here; batches larger than a slot span several */
#define RF_SLOT_END			0x4 /* end of stream, no payload; its credit is the acknowledgement */

/*
 * A column batch. Offsets count from the batch's first byte, which is 8-aligned (64-aligned in a
 * slot).
 *
 *   RfBatchHeader | RfBatchColumn[column_count] | per column: null bitmap, vector | heap of
 *   variable-length values
 *
 * Null bitmap: bit (row & 7) of byte (row >> 3) set = NULL; absent when nulls_offset is 0. Vectors
 * hold an entry for every row, NULL or not.
 */
#define RF_BATCH_MAGIC		0x48435442u /* "BTCH" */

typedef struct RfBatchHeader
{
	uint32_t	magic;
	uint32_t	length;			/* of the whole batch, this header included */
	uint32_t	row_count;
	uint16_t	column_count;
	uint16_t	flags;			/* RF_BATCH_* */
} RfBatchHeader;

#define RF_BATCH_PAGES		0x1 /* no columns but tuples of heap pages, see below */

typedef enum RfColumnKind
{
	RF_COLUMN_BYVAL = 1,		/* vector of `width` bytes each (1, 2, 4, 8): the value's image */
	RF_COLUMN_BYREF,			/* vector of `width` bytes each (multiple of 8 above the type's
								 * length): fixed-length, by reference */
	RF_COLUMN_VARLENA,			/* vector of uint32 offsets: varlena with its header, detoasted,
								 * 1-byte headers kept; 4-byte headers are 8-aligned */
	RF_COLUMN_BINARY,			/* vector of uint32 offsets: uint32 length (4-aligned), then the
								 * type's send() image */
	RF_COLUMN_TEXT				/* vector of uint32 offsets: uint32 length (4-aligned), then the
								 * output text and a NUL not counted */
} RfColumnKind;

typedef struct RfBatchColumn
{
	uint8_t		kind;
	uint8_t		reserved[3];
	uint32_t	width;			/* stride of the vector */
	uint32_t	nulls_offset;	/* 0: no NULL in this batch */
	uint32_t	data_offset;	/* 8-aligned */
} RfBatchColumn;

/*
 * In the place of a batch, from a member of an exchange to another member that has rows for it, at
 * most once and before any rows: the keys that it has partners for. Of h, the hash of a key by
 * which rows are routed, multiplied by RF_FILTER_FACTOR, the highest bits number a word, and bits
 * 22-27, 28-33, 34-39 and 40-45 four bits of it, from the lowest: one of them is not set in the
 * word: no partner.
 *
 *   RfFilterHeader | uint64_t words[word_count]
 */
#define RF_FILTER_MAGIC		0x544c4946u /* "FILT" */
#define RF_FILTER_FACTOR	UINT64_C(0x9E3779B97F4A7C15)
#define RF_FILTER_MAX_WORDS	131072

typedef struct RfFilterHeader
{
	uint32_t	magic;
	uint32_t	word_count;		/* a power of two, from 64; 0: any key may have partners */
} RfFilterHeader;

/*
 * A batch of heap tuples as they lie on their pages; a reader has asked for it by RF_STREAM_PAGES.
 *
 *   RfBatchHeader | RfTupleLayout | RfTupleAttr[attr_count] | values of attributes that old tuples
 *   lack
 *   then runs, each 8-aligned: RfTupleRun | uint32 items[item_count], padded to 8 | `length` bytes,
 *   padded to 8
 *
 * A run holds visible tuples of one page: with the bytes between them, or one behind the other. Its
 * items are line pointers as PostgreSQL stores them: offset from the page's start (low 15 bits),
 * state (2 bits; only those with 1, normal, count), length (15 bits). From a tuple's 16th byte on,
 * which is 8-aligned, it is as PostgreSQL 15 to 19 store it: 2 bytes to be ignored, uint16 number
 * of attributes (low 11 bits), uint16 flags (0x0001: a null bitmap), uint8 offset of the data from
 * the tuple's first byte, null bitmap (set = not NULL), padding, attributes. The front
 * (transactions and address) is no business of the reader's and may be missing. A wanted attribute
 * may be compressed; it never lies elsewhere.
 */
typedef struct RfTupleLayout
{
	uint32_t	attr_count;		/* up to the last that is wanted */
	uint32_t	run_count;
} RfTupleLayout;

typedef struct RfTupleAttr
{
	int16_t		length;			/* -1: varlena */
	uint8_t		align;			/* 1, 2, 4, 8 */
	uint8_t		by_value;
	uint16_t	column;			/* 1 + the column it fills; 0 if it fills no column */
	uint16_t	reserved;		/* 0 */
	uint32_t	type;			/* OID of its base type; 0 if it fills no column */
	uint32_t	missing_offset; /* 8-aligned, of its value in tuples that end before it; 0: NULL */
} RfTupleAttr;

typedef struct RfTupleRun
{
	uint32_t	length;			/* at most 32768 */
	uint16_t	item_count;
	uint16_t	base;			/* assumed page position of the bytes: offset of the first one;
								 * 8-aligned */
} RfTupleRun;

#define RF_TUPLE_SKIPPED	16	/* bytes of a tuple that do not count */
#define RF_ITEM_OFFSET(item) ((item) & 0x7fff)
#define RF_ITEM_STATE(item)	(((item) >> 15) & 3)
#define RF_ITEM_LENGTH(item) ((item) >> 17)
#define RF_ITEM_NORMAL		1
#define RF_ITEM(offset, length) \
	((uint32_t) (offset) | (uint32_t) RF_ITEM_NORMAL << 15 | (uint32_t) (length) << 17)

#endif
