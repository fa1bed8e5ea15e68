/*
 * guc.h - the settings and the meaning of their values. src/guc.c has descriptions and units,
 * docs/sql-reference.md lists them. Plain C.
 */
#ifndef RF_GUC_H
#define RF_GUC_H

#include <stdbool.h>

#define RF_CREDIT_AUTO		(-1)
#define RF_MAX_WEIGHT		100
#define RF_DEFAULT_WEIGHT	10

/* postmaster start */
extern int	rf_buffer_memory;	/* rdma_fdw.buffer_memory, kB: the arena */
extern int	rf_max_flows;		/* rdma_fdw.max_flows */
extern int	rf_engine_lanes;	/* rdma_fdw.engine_lanes */
extern char *rf_listen_address; /* rdma_fdw.listen_address; "": the first of listen_addresses */
extern int	rf_engine_port;		/* rdma_fdw.engine_port; 0 = any free port */
extern int	rf_provider;		/* rdma_fdw.provider: auto | verbs | soft | tcp */
extern char *rf_device;			/* rdma_fdw.device: "", NAME or NAME:PORT */
extern int	rf_gid_index;		/* -1 = by score */
extern int	rf_traffic_class;
extern int	rf_service_level;
extern int	rf_encryption;		/* rdma_fdw.encryption: RfEncryption (wire.h) */

/* reload (engine) */
extern int	rf_peer_timeout;	/* ms */
extern int	rf_polling_mode;	/* RfPollingMode */
extern int	rf_admission_window;	/* kB in flight per device, 0 = no limit */
extern int	rf_register_pages;	/* RF_REGISTER_*: shared buffers */
extern char *rf_engine_address; /* what a data node tells readers to connect to; "" = the host
								 * libpq used */
extern int	rf_role_share;		/* 1..100 percent */
extern char *rf_trusted_networks;	/* networks that rows may cross in clear */
extern char *rf_exchange_hosts; /* addresses that a statement may have the engine connect to; as
								 * pg_hba.conf names them */

/* session */
extern int	rf_receive_buffers; /* per flow, 1..16 */
extern int	rf_receive_buffer_size; /* kB */
extern int	rf_inline_limit;	/* kB */
extern int	rf_buffer_wait;		/* ms */
extern int	rf_cores;			/* rdma_fdw.cores, shared by nodes of a statement on this machine;
								 * 0: all of the machine */
extern char *rf_as_owner_of;	/* rdma_internal.stream and rdma_internal.store act as the owner of
								 * this relation */
extern bool rf_explain_nodes;	/* EXPLAIN shows the nodes' own plans */
extern int	rf_flow_weight;		/* 1..RF_MAX_WEIGHT */
extern bool rf_measured_costs;
extern int	rf_flush_time;		/* ms; 0: never */
extern bool rf_allow_page_shipping;
extern int	rf_connect_timeout; /* ms: engine to engine */
extern int	rf_commit_mode;		/* RfCommitMode */
extern int	rf_snapshot_mode;	/* RfSnapshotMode */
extern bool rf_allow_snapshot_isolation;	/* for SERIALIZABLE over several nodes */
extern bool rf_propagate_ddl;
extern bool rf_resolve;			/* reload: the resolver finishes the parts that transactions left */
extern char *rf_application_name;
extern int	rf_disabled;		/* rdma_fdw.disable: RfTechnique bits, see rf_is_disabled */
extern int	rf_push_down;		/* RfPushDown */
extern int	rf_exchange_strategy;	/* RfStrategy */

enum
{
	RF_PROVIDER_AUTO, RF_PROVIDER_VERBS, RF_PROVIDER_SOFT, RF_PROVIDER_TCP
};
enum
{
	RF_REGISTER_AUTO, RF_REGISTER_ON, RF_REGISTER_OFF
};

/* The values of rdma_fdw.snapshot: of a statement that reads several nodes. */
typedef enum RfSnapshotMode
{
	RF_SNAPSHOT_COMMON,			/* one of all */
	RF_SNAPSHOT_EACH_NODE		/* each has its own */
} RfSnapshotMode;

/*
 * The values of rdma_fdw.commit: of a transaction that wrote on several nodes, or on one and here.
 */
typedef enum RfCommitMode
{
	RF_COMMIT_ATOMIC,			/* on all or not at all, where all nodes can prepare transactions */
	RF_COMMIT_REQUIRED,			/* the same, and an error where one cannot */
	RF_COMMIT_BEST_EFFORT		/* each commits for itself */
} RfCommitMode;

/* Where rows that do not fit a slot are laid out. */
typedef enum RfValueMode
{
	RF_VALUES_OFF = 0,			/* never in value memory */
	RF_VALUES_AUTO,				/* when that is cheaper than to copy */
	RF_VALUES_ON				/* whenever there is room */
} RfValueMode;

/*
 * How a lane waits for completions (src/engine/polling.c says what each does). The first two are
 * the values of rdma_fdw.polling_mode; bench/engine compares them with the others.
 */
typedef enum RfPollingMode
{
	RF_POLLING_ADAPTIVE = 0,
	RF_POLLING_BUSY,
	RF_POLLING_EVENT,
	RF_POLLING_EVENT_BATCH,
	RF_POLLING_HYBRID
} RfPollingMode;

/* The ways of the rows of a heap page. */
typedef enum RfRegionMode
{
	RF_REGION_AUTO = 0,			/* the cheapest way */
	RF_REGION_COPY,
	RF_REGION_GATHER,
	RF_REGION_BOX,
	RF_REGION_STRIDED			/* as strided entries (provider.h), by a device that has them; else
								 * it is copied */
} RfRegionMode;

/* How rows of several nodes are joined, see fdw/plan/nodes_join.c */
typedef enum RfStrategy
{
	RF_STRATEGY_AUTO,
	RF_STRATEGY_COLOCATED,
	RF_STRATEGY_REPARTITION_ONE,
	RF_STRATEGY_REPARTITION_BOTH,
	RF_STRATEGY_REPLICATE,
	RF_STRATEGY_PULL
} RfStrategy;

/*
 * How much of a query the data nodes are asked to do. Each value sends the same as the value before
 * it, and more. The planner looks at it, so plans that are kept keep theirs.
 */
typedef enum RfPushDown
{
	RF_PUSH_DOWN_NONE,			/* columns of single tables */
	RF_PUSH_DOWN_SCANS,			/* and conditions on them */
	RF_PUSH_DOWN_ALL			/* and all operations that need several tables or rows */
} RfPushDown;

/*
 * What rdma_fdw.disable switches off, so that tests and measurements can compare: a technique, or
 * the comparison of costs that decides about it, so that it is used wherever it can be.
 */
typedef enum RfTechnique
{
	RF_LOOKAHEAD = 1 << 0,		/* fdw/plan/lookahead_plan.c */
	RF_LOCAL_ROWS = 1 << 1,		/* fdw/plan/local_rows.c */
	RF_PARTITIONS = 1 << 2,		/* fdw/plan/nodes_partitions.c, nodes_common.c */
	RF_EXCHANGE_FILTERS = 1 << 3,	/* fdw/plan/nodes_filter.c */
	RF_EXCHANGE_FILTER_COSTS = 1 << 4,
	RF_COMPUTE_NODES = 1 << 5,	/* fdw/plan/nodes_join.c */
	RF_COMPUTE_NODE_COSTS = 1 << 6,
	RF_DECORRELATION = 1 << 7,	/* fdw/plan/decorrelate.c */
	RF_DECORRELATION_COSTS = 1 << 8,
	RF_VALUE_MEMORY = 1 << 9,	/* shmem/value.c */
	RF_VALUE_COSTS = 1 << 10,
	RF_PAGE_COPIES = 1 << 11,	/* serve/dest.c */
	RF_PAGE_BOXES = 1 << 12,
	RF_PAGE_GATHERS = 1 << 13,
	RF_PAGE_STRIDES = 1 << 14,
	RF_KEPT_MEMORY = 1 << 15,	/* base/kept_memory.c */
	RF_RECEIVE_POOL = 1 << 16,	/* flow/group_consume.c */
	RF_RECEIVE_POOL_COSTS = 1 << 17,
	RF_RECEIVE_CLAIMS = 1 << 18,
	RF_COLUMNS = 1 << 19,		/* vector/columns.c */
	RF_COLUMN_COSTS = 1 << 20,
	RF_COLUMN_KERNELS = 1 << 21 /* for some rows only, to compare: vector/row_filter.c */
} RfTechnique;

static inline bool
rf_is_disabled(int technique)
{
	return (rf_disabled & technique) != 0;
}

/*
 * ms: how long a statement tries to get buffers on all of its nodes. It takes turns with the
 * statements that wait beside it, so it has as long as several streams that wait in a row.
 */
static inline int
rf_exchange_wait(void)
{
	return 6 * rf_buffer_wait;
}

static inline RfValueMode
rf_value_mode(void)
{
	return rf_is_disabled(RF_VALUE_MEMORY) ? RF_VALUES_OFF :
		rf_is_disabled(RF_VALUE_COSTS) ? RF_VALUES_ON : RF_VALUES_AUTO;
}

extern void rf_define_settings(void);

#endif
