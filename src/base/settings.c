/*
 * settings.c - the variables of the settings, with their defaults. guc.c, which knows all rooms,
 * registers them with PostgreSQL. Plain C.
 */
#include <stddef.h>

#include "rdma_fdw/guc.h"
#include "rdma_fdw/wire.h"

int			rf_buffer_memory = 256 * 1024;
int			rf_max_flows = 4096;
int			rf_engine_lanes = 0;
char	   *rf_listen_address = NULL;
int			rf_engine_port = 0;
int			rf_provider = RF_PROVIDER_AUTO;
char	   *rf_device = NULL;
int			rf_gid_index = -1;
int			rf_traffic_class = 0;
int			rf_service_level = 0;
int			rf_encryption = RF_ENCRYPTION_AUTO;

int			rf_peer_timeout = 30 * 1000;
int			rf_polling_mode = RF_POLLING_ADAPTIVE;
int			rf_admission_window = 4 * 1024;
char	   *rf_engine_address = NULL;
char	   *rf_trusted_networks = NULL;
char	   *rf_exchange_hosts = NULL;

int			rf_receive_buffers = 4;
int			rf_receive_buffer_size = 256;
int			rf_inline_limit = 64;
int			rf_buffer_wait = 10 * 1000;
int			rf_cores = 0;
char	   *rf_as_owner_of = NULL;
bool		rf_explain_nodes = false;
int			rf_role_share = 50;
int			rf_flow_weight = RF_DEFAULT_WEIGHT;
bool		rf_measured_costs = true;
int			rf_flush_time = 200;
bool		rf_allow_page_shipping = false;
int			rf_register_pages = RF_REGISTER_AUTO;
int			rf_disabled = 0;
int			rf_push_down = RF_PUSH_DOWN_ALL;
int			rf_exchange_strategy = RF_STRATEGY_AUTO;
int			rf_connect_timeout = 10 * 1000;
int			rf_commit_mode = RF_COMMIT_ATOMIC;
int			rf_snapshot_mode = RF_SNAPSHOT_COMMON;
bool		rf_allow_snapshot_isolation = false;
bool		rf_propagate_ddl = true;
bool		rf_resolve = true;
char	   *rf_application_name = NULL;
