/*
 * guc.c - the settings of rdma_fdw: names, descriptions, units, ranges and when they may change.
 *
 * Defines them and nothing else; their variables are in base/settings.c, with the defaults of
 * numbers and enumerations. What a setting does is told where it is used. Settings that need a
 * start of the server exist in a session that loaded the library by itself too, where they show
 * what the configuration file says and change nothing.
 */
#include "postgres.h"

#include <limits.h>

#include "miscadmin.h"
#include "utils/guc.h"
#include "utils/varlena.h"

#include "base/networks.h"
#include "rdma_fdw/compat.h"
#include "rdma_fdw/exchange.h"
#include "rdma_fdw/guc.h"
#include "rdma_fdw/serve.h"
#include "shmem/layout.h"

static char *disable = NULL;

static const struct config_enum_entry register_pages_options[] = {
	{"auto", RF_REGISTER_AUTO, false},
	{"on", RF_REGISTER_ON, false},
	{"off", RF_REGISTER_OFF, false},
	{NULL, 0, false}
};

static const struct config_enum_entry provider_options[] = {
	{"auto", RF_PROVIDER_AUTO, false},
	{"verbs", RF_PROVIDER_VERBS, false},
	{"soft", RF_PROVIDER_SOFT, false},
	{"tcp", RF_PROVIDER_TCP, false},
	{NULL, 0, false}
};

static const struct config_enum_entry polling_mode_options[] = {
	{"adaptive", RF_POLLING_ADAPTIVE, false},
	{"busy", RF_POLLING_BUSY, false},
	{NULL, 0, false}
};

static const struct config_enum_entry push_down_options[] = {
	{"all", RF_PUSH_DOWN_ALL, false},
	{"scans", RF_PUSH_DOWN_SCANS, false},
	{"none", RF_PUSH_DOWN_NONE, false},
	{NULL, 0, false}
};

static const struct config_enum_entry exchange_strategy_options[] = {
	{"auto", RF_STRATEGY_AUTO, false},
	{"colocated", RF_STRATEGY_COLOCATED, false},
	{"repartition_one", RF_STRATEGY_REPARTITION_ONE, false},
	{"repartition_both", RF_STRATEGY_REPARTITION_BOTH, false},
	{"replicate", RF_STRATEGY_REPLICATE, false},
	{"pull", RF_STRATEGY_PULL, false},
	{NULL, 0, false}
};

static const struct config_enum_entry snapshot_options[] = {
	{"common", RF_SNAPSHOT_COMMON, false},
	{"each_node", RF_SNAPSHOT_EACH_NODE, false},
	{NULL, 0, false}
};

static const struct config_enum_entry commit_options[] = {
	{"atomic", RF_COMMIT_ATOMIC, false},
	{"required", RF_COMMIT_REQUIRED, false},
	{"best_effort", RF_COMMIT_BEST_EFFORT, false},
	{NULL, 0, false}
};

static const struct config_enum_entry encryption_options[] = {
	{"off", RF_ENCRYPTION_OFF, false},
	{"auto", RF_ENCRYPTION_AUTO, false},
	{"require", RF_ENCRYPTION_REQUIRE, false},
	{NULL, 0, false}
};

/* What rdma_fdw.disable names, see guc.h. */
static const struct
{
	const char *name;
	int			technique;
}			techniques[] = {

	{"lookahead", RF_LOOKAHEAD},
	{"local_rows", RF_LOCAL_ROWS},
	{"partitions", RF_PARTITIONS},
	{"exchange_filters", RF_EXCHANGE_FILTERS},
	{"exchange_filter_costs", RF_EXCHANGE_FILTER_COSTS},
	{"compute_nodes", RF_COMPUTE_NODES},
	{"compute_node_costs", RF_COMPUTE_NODE_COSTS},
	{"decorrelation", RF_DECORRELATION},
	{"decorrelation_costs", RF_DECORRELATION_COSTS},
	{"value_memory", RF_VALUE_MEMORY},
	{"value_costs", RF_VALUE_COSTS},
	{"page_copies", RF_PAGE_COPIES},
	{"page_boxes", RF_PAGE_BOXES},
	{"page_gathers", RF_PAGE_GATHERS},
	{"page_strides", RF_PAGE_STRIDES},
	{"kept_memory", RF_KEPT_MEMORY},
	{"receive_pool", RF_RECEIVE_POOL},
	{"receive_pool_costs", RF_RECEIVE_POOL_COSTS},
	{"receive_claims", RF_RECEIVE_CLAIMS},
	{"columns", RF_COLUMNS},
	{"column_costs", RF_COLUMN_COSTS},
	{"column_kernels", RF_COLUMN_KERNELS},
};

/* rdma_fdw.disable: the names of techniques, whose bits go to assign_disable() in `extra`. */
static bool
check_disable(char **newval, void **extra, GucSource source)
{
	char	   *names = pstrdup(*newval);
	List	   *list;
	ListCell   *lc;
	int			disabled = 0;

	if (!SplitIdentifierString(names, ',', &list))
	{
		GUC_check_errdetail("List syntax is invalid.");
		return false;
	}
	foreach(lc, list)
	{
		int			technique = 0;

		for (int i = 0; i < lengthof(techniques); i++)
		{
			if (strcmp(techniques[i].name, lfirst(lc)) == 0)
				technique = techniques[i].technique;
		}
		if (technique == 0)
		{
			GUC_check_errdetail("There is no technique \"%s\".", (char *) lfirst(lc));
			return false;
		}
		disabled |= technique;
	}
	list_free(list);
	pfree(names);
	*extra = rf_guc_malloc(sizeof(int));
	if (*extra == NULL)
		return false;
	*(int *) *extra = disabled;
	return true;
}

static void
assign_disable(const char *newval, void *extra)
{
	rf_disabled = *(int *) extra;
}

static bool
check_trusted_networks(char **newval, void **extra, GucSource source)
{
	char		wrong[64];

	if (rf_networks_valid(*newval, wrong, sizeof(wrong)))
		return true;
	GUC_check_errdetail("\"%s\" is neither an address nor a network in CIDR notation.", wrong);
	return false;
}

/* Settings that need a restart: memory, device, transport. */
static void
define_start_settings(GucContext context)
{
	DefineCustomIntVariable("rdma_fdw.buffer_memory",
							"Memory for the send and receive buffers of all flows.",
							"Lent to peers in pieces. With an RDMA device it is locked in memory. "
							"A quarter as much besides is for rows that do not fit a buffer.",
							&rf_buffer_memory, rf_buffer_memory, 4 * 1024, INT_MAX / 2,
							context, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("rdma_fdw.max_flows",
							"Maximum number of streams, incoming and outgoing, at one time.",
							NULL,
							&rf_max_flows, rf_max_flows, 16, RF_MAX_FLOWS,
							context, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("rdma_fdw.engine_lanes",
							"Number of threads of the engine that move data.",
							"0: one for each 8 processors, at most 4. Two nodes use as many as "
							"the one with fewer has.",
							&rf_engine_lanes, rf_engine_lanes, 0, RF_MAX_LANES,
							context, 0, NULL, NULL, NULL);
	DefineCustomStringVariable("rdma_fdw.listen_address",
							   "Host name or address on which the engine listens for other "
							   "engines.",
							   "Empty: the first of listen_addresses.",
							   &rf_listen_address, "",
							   context, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("rdma_fdw.engine_port",
							"TCP port on which the engine listens for other engines.",
							"0 takes any free port; readers learn it over their database "
							"connection.",
							&rf_engine_port, rf_engine_port, 0, 65535,
							context, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("rdma_fdw.provider",
							 "What moves the data: an RDMA device (verbs), shared memory and TCP "
							 "(soft), or TCP alone (tcp).",
							 "\"auto\" takes verbs when a usable device is found, and TCP for "
							 "nodes that it does not reach.",
							 &rf_provider, rf_provider, provider_options,
							 context, 0, NULL, NULL, NULL);
	DefineCustomStringVariable("rdma_fdw.device",
							   "RDMA device to use, its port and partition: \"mlx5_0:1:0x8001\".",
							   "Empty: the first with an active port. The view rdma.devices lists "
							   "them.",
							   &rf_device, "",
							   context, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("rdma_fdw.gid_index",
							"Index of the GID to use on the RDMA device; -1 chooses the best one.",
							"RoCEv2 with an IPv4 address is preferred.",
							&rf_gid_index, rf_gid_index, -1, 1023,
							context, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("rdma_fdw.traffic_class",
							"Traffic class of RDMA packets (on RoCEv2: DSCP * 4).",
							NULL,
							&rf_traffic_class, rf_traffic_class, 0, 255,
							context, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("rdma_fdw.service_level",
							"Service level of RDMA packets.",
							NULL,
							&rf_service_level, rf_service_level, 0, 15,
							context, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("rdma_fdw.encryption",
							 "Whether engines encrypt their traffic over TCP; the stricter of two "
							 "nodes' settings holds.",
							 "\"auto\" does, \"require\" also keeps rows from RDMA devices, which "
							 "do not encrypt; \"off\" leaves it to the other node.",
							 &rf_encryption, rf_encryption, encryption_options,
							 context, 0, NULL, NULL, NULL);
}

/* Settings of the engine that a reload changes. */
static void
define_engine_settings(void)
{
	DefineCustomIntVariable("rdma_fdw.peer_timeout",
							"Time after which another engine counts as lost: without any sign of "
							"life, or without any data getting through.",
							NULL,
							&rf_peer_timeout, rf_peer_timeout, 500, 3600 * 1000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomEnumVariable("rdma_fdw.polling_mode",
							 "How the engine's lanes wait for completions.",
							 "\"adaptive\" sleeps, and once woken polls on for about as long as a "
							 "sleep takes; \"busy\" never sleeps and takes a core per lane.",
							 &rf_polling_mode, rf_polling_mode, polling_mode_options,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("rdma_fdw.admission_window",
							"Most bytes that the engine has in flight; further slots wait, and "
							"are merged while they wait.",
							"0 has no limit.",
							&rf_admission_window, rf_admission_window, 0, 1024 * 1024,
							PGC_SIGHUP, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomStringVariable("rdma_fdw.engine_address",
							   "Address that this node tells readers to connect their engines to.",
							   "\"host\", \"host:port\" or \"[IPv6 address]:port\". Empty: the "
							   "host that their database connection uses, and the engine's own "
							   "port.",
							   &rf_engine_address, "",
							   PGC_SIGHUP, 0, rf_check_engine_address, NULL, NULL);
	DefineCustomStringVariable("rdma_fdw.trusted_networks",
							   "Networks that protect their traffic, so that rows may cross "
							   "them in clear.",
							   "A list of addresses and networks in CIDR notation. Default: empty.",
							   &rf_trusted_networks, "",
							   PGC_SIGHUP, GUC_LIST_INPUT, check_trusted_networks, NULL, NULL);
	DefineCustomStringVariable("rdma_fdw.exchange_hosts",
							   "Other nodes that this node's engine connects to when a statement "
							   "over several nodes asks for it.",
							   "A list of addresses, networks in CIDR notation, host names, "
							   "\"samehost\", \"samenet\" (any subnet that this server is "
							   "directly connected to) and \"all\". If empty, it connects to "
							   "no host.",
							   &rf_exchange_hosts, "samehost, samenet",
							   PGC_SIGHUP, GUC_LIST_INPUT, rf_check_exchange_hosts, NULL, NULL);
}

/* Buffers of the streams of a session, and times to wait for them and for peers. */
static void
define_stream_settings(void)
{
	DefineCustomIntVariable("rdma_fdw.receive_buffers",
							"Number of receive buffers of one stream.",
							"1 is the single-buffer mode. Servers and tables can have their own "
							"value.",
							&rf_receive_buffers, rf_receive_buffers, 1, RF_MAX_SLOTS,
							PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("rdma_fdw.receive_buffer_size",
							"Size of each receive buffer of a stream.",
							"Servers and tables can have their own value.",
							&rf_receive_buffer_size, rf_receive_buffer_size,
							RF_MIN_SLOT_SIZE / 1024, RF_MAX_SLOT_SIZE / 1024,
							PGC_USERSET, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("rdma_fdw.inline_limit",
							"Results up to this size come inside the answer on the database "
							"connection.",
							"Servers and tables can have their own value. 0 sends every row "
							"through the engines.",
							&rf_inline_limit, rf_inline_limit, 0, RF_MAX_INLINE / 1024,
							PGC_USERSET, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("rdma_fdw.flow_weight",
							"Share of the streams that this session reads, when streams compete.",
							"Bytes are shared in proportion to the weights.",
							&rf_flow_weight, rf_flow_weight, 1, RF_MAX_WEIGHT,
							PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("rdma_fdw.role_share",
							"Part of the flows, buffers, connected nodes and one-time tokens that "
							"one role may have, in percent.",
							"Superusers may have all.",
							&rf_role_share, rf_role_share, 1, 100,
							PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("rdma_fdw.buffer_wait",
							"Time to wait for buffers when rdma_fdw.buffer_memory is used up.",
							"The stream then fails. Each of its two sessions has its own value. A "
							"statement that exchanges rows tries for six times as long.",
							&rf_buffer_wait, rf_buffer_wait, 0, 3600 * 1000,
							PGC_USERSET, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("rdma_fdw.cores",
							"Processor cores that nodes of one statement on this machine share.",
							"Each node's part of a statement that exchanges rows has no more "
							"parallel workers than its share. 0: as many as the machine has.",
							&rf_cores, rf_cores, 0, 65536,
							PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("rdma_fdw.connect_timeout",
							"Time to wait for the connection between two engines.",
							NULL,
							&rf_connect_timeout, rf_connect_timeout, 100, 600 * 1000,
							PGC_USERSET, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomStringVariable("rdma_fdw.application_name",
							   "application_name of the sessions on data nodes.",
							   "The escapes %a, %c, %C, %d, %p, %u and %% have the same "
							   "meaning as in postgres_fdw.",
							   &rf_application_name, "",
							   PGC_USERSET, 0, NULL, NULL, NULL);
}

/* Settings of a session on a data node. */
static void
define_data_node_settings(void)
{
	DefineCustomStringVariable("rdma_fdw.as_owner_of",
							   "The relation as whose owner rows are read and stored for another "
							   "node.",
							   "Moves of rows set it, so that code that belongs to the relation "
							   "runs with its owner's rights. The caller needs these rights.",
							   &rf_as_owner_of, "",
							   PGC_USERSET, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
	DefineCustomIntVariable("rdma_fdw.flush_time",
							"Time after which a data node sends rows although their batch is not "
							"full.",
							"They leave with the next row that the query makes. 0 sends full "
							"batches only.",
							&rf_flush_time, rf_flush_time, 0, 3600 * 1000,
							PGC_USERSET, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomBoolVariable("rdma_fdw.allow_page_shipping",
							 "On a data node: the role may be sent rows of labelled tables as they "
							 "are stored.",
							 "With them leave columns and dead rows that the query did not ask "
							 "for.",
							 &rf_allow_page_shipping, rf_allow_page_shipping,
							 PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("rdma_fdw.register_shared_buffers",
							 "On a data node: heap pages are sent from shared buffers without a "
							 "copy, which are registered for it.",
							 "An RDMA device locks all shared buffers in memory for that. \"auto\" "
							 "does not register when it would keep the engine for long.",
							 &rf_register_pages, rf_register_pages, register_pages_options,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
}

/* Settings of the coordinator's planner and EXPLAIN. */
static void
define_plan_settings(void)
{
	DefineCustomEnumVariable("rdma_fdw.push_down",
							 "The parts of a query that data nodes are asked to do.",
							 "\"all\" is all that they can do, \"scans\" only conditions of single "
							 "tables, "
							 "\"none\" nothing but to send columns. "
							 "It goes for statements that are planned from now on.",
							 &rf_push_down, rf_push_down, push_down_options,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("rdma_fdw.measured_costs",
							 "Counts the network's round trip and bandwidth, as measured, into "
							 "costs of foreign scans.",
							 "Only where the options fdw_startup_cost and fdw_tuple_cost of the "
							 "server are not set.",
							 &rf_measured_costs, rf_measured_costs,
							 PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
	DefineCustomEnumVariable("rdma_fdw.exchange_strategy",
							 "How tables of a server with several nodes are joined.",
							 "auto takes the cheapest strategy; any other value is taken where "
							 "it is possible. "
							 "pull joins on this node.",
							 &rf_exchange_strategy, rf_exchange_strategy, exchange_strategy_options,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomStringVariable("rdma_fdw.disable",
							   "Techniques that are not used.",
							   "A list of names. A name that ends in _costs has the technique used "
							   "wherever that is possible, whatever it costs.",
							   &disable, "",
							   PGC_USERSET, GUC_LIST_INPUT | GUC_EXPLAIN, check_disable,
							   assign_disable, NULL);
	DefineCustomBoolVariable("rdma_fdw.explain_nodes",
							 "EXPLAIN shows the plans that the nodes of a server with nodes have "
							 "for their part.",
							 NULL,
							 &rf_explain_nodes, rf_explain_nodes,
							 PGC_USERSET, 0, NULL, NULL, NULL);
}

/* Transactions over several nodes. */
static void
define_transaction_settings(void)
{
	DefineCustomEnumVariable("rdma_fdw.commit",
							 "How a transaction commits that wrote on several nodes, or on one and "
							 "here.",
							 "\"atomic\" commits on all or not at all where all nodes have "
							 "prepared transactions, and warns where one has not; "
							 "\"required\" refuses to write then; \"best_effort\" commits on each "
							 "node for itself.",
							 &rf_commit_mode, rf_commit_mode, commit_options,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("rdma_fdw.snapshot",
							 "Whether a statement that reads several nodes sees each "
							 "transaction on all of them or not at all.",
							 "\"common\" takes one snapshot of all, while no transaction commits "
							 "on nodes; "
							 "\"each_node\" takes each when the transaction first uses the node, "
							 "and may see half of another.",
							 &rf_snapshot_mode, rf_snapshot_mode, snapshot_options,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("rdma_fdw.allow_snapshot_isolation",
							 "Lets SERIALIZABLE transactions use several nodes, or a node and "
							 "local tables.",
							 "They have snapshot isolation on each then: write skew between nodes "
							 "is not found.",
							 &rf_allow_snapshot_isolation, rf_allow_snapshot_isolation,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("rdma_fdw.propagate_ddl",
							 "Has DROP, ALTER and RENAME of foreign tables with the option "
							 "propagate_ddl reach the tables of the nodes.",
							 "Off: they change what is here only, as for other foreign tables.",
							 &rf_propagate_ddl, rf_propagate_ddl,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("rdma_fdw.resolve",
							 "Finishes in the background the parts that transactions left prepared "
							 "on nodes.",
							 "Off in a copy of a coordinator that still runs: both would finish "
							 "the same transactions.",
							 &rf_resolve, rf_resolve,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
}

void
rf_define_settings(void)
{
	/*
	 * A setting that is fixed at start cannot be defined later with its own context. PGC_SIGHUP
	 * keeps a value from the configuration file visible, and ordinary SET is refused.
	 */
	define_start_settings(process_shared_preload_libraries_in_progress ? PGC_POSTMASTER :
						  PGC_SIGHUP);
	define_engine_settings();
	define_stream_settings();
	define_data_node_settings();
	define_plan_settings();
	define_transaction_settings();
	MarkGUCPrefixReserved("rdma_fdw");
}
