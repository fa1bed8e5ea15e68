# run_common.sh: what run_sql.sh and run_isolation.sh share: one coordinator and two data nodes, and how tests find them.
# Source it after run_check.sh has set RF_WORK, RF_TREE and RF_PREFIX.
#
# An input finds its clusters by RF_N1_PORT, RF_N2_PORT and RF_COORD_PORT in the environment (psql's \getenv). What those that
# need a server with nodes begin with is in test/setup/two_nodes.sql.
# All listen on 127.0.0.1; the superuser is postgres without a password; the database is contrib_regression everywhere.

. "${BASH_SOURCE[0]%/*}/results.sh"
. "${BASH_SOURCE[0]%/*}/cluster.sh"

: "${RF_WORK:?run this through make check-...}" "${RF_TREE:?}" "${RF_PREFIX:?}"

rf_pg_config() { "${PG_CONFIG:-pg_config}" "$@"; }

# rf_provider_settings: PROVIDER as settings, one per line
rf_provider_settings()
{
	case ${PROVIDER:-auto} in
		auto | verbs | soft) printf 'rdma_fdw.provider=%s\n' "${PROVIDER:-auto}" ;;
		soft_shm) printf 'rdma_fdw.provider=soft\n' ;;
		soft_tcp) printf 'rdma_fdw.provider=tcp\n' ;;
	esac
}

# rf_database NAME: the tests' database in the cluster NAME
rf_database()
{
	rf_psql "$1" -q <<-SQL
		SELECT 'CREATE DATABASE contrib_regression TEMPLATE template0'
		WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = 'contrib_regression') \gexec
		ALTER DATABASE contrib_regression SET lc_messages = 'C';
		ALTER DATABASE contrib_regression SET bytea_output = 'hex';
	SQL
}

# rf_start_trio FOLDER: clusters coord, n1 and n2, each knowing all ports. With RF_PREPARED they are there, with the database.
rf_start_trio()
{
	local name settings started=() eager=()
	mapfile -t settings < <(rf_provider_settings)
	# EXPLAIN's counts of batches must not depend on how fast a machine is.
	# More settings for all clusters: SETTINGS="rdma_fdw.engine_lanes=4 ..."
	# shellcheck disable=SC2206
	# Nor plans on how fast its network is, and on how many cores it has. To compile expressions takes a tenth of a second in each process, half of all that some
	# inputs use.
	settings+=(rdma_fdw.flush_time=1h rdma_fdw.measured_costs=off rdma_fdw.cores=64 jit="${RF_JIT:-off}" ${SETTINGS:-})
	rf_init "$1"
	# side by side, which an emulated machine is thankful for
	for name in coord n1 n2; do
		# Plans would be others than those of earlier versions.
		[ "$(rf_major "$name")" -lt 19 ] || eager=(enable_eager_aggregate=off)
		rf_start "$name" timezone=America/Los_Angeles shared_buffers=64MB max_connections=50 default_toast_compression=pglz log_min_messages=log \
			rdma_fdw.buffer_memory=96MB "${eager[@]}" "${settings[@]}" &
		started+=($!)
	done
	RF_CLUSTERS=(coord n1 n2)
	for name in "${started[@]}"; do
		wait "$name" || exit 1
	done
	RF_COORD_PORT=$(rf_port coord) RF_N1_PORT=$(rf_port n1) RF_N2_PORT=$(rf_port n2)
	export RF_COORD_PORT RF_N1_PORT RF_N2_PORT
	for name in coord n1 n2; do
		[ -n "${RF_PREPARED:-}" ] || rf_database "$name"
	done
}

# rf_expect FOLDER TEST...: pg_regress gives up at a missing expected output; an empty one is just different, and the diff
# shows what to write.
rf_expect()
{
	local folder=$1 name
	shift
	mkdir -p "$folder"
	for name in "$@"; do
		[ -e "$folder/$name.out" ] || : >"$folder/$name.out"
	done
}

rf_check_logs()
{
	local group=$1 name
	for name in coord n1 n2; do
		rf_check_log "$group/log of $name" "$(rf_log "$name")"
	done
}

# rf_check_left GROUP: the inputs run in one database, one after another, so what one leaves there can change another's output.
rf_check_left()
{
	local left
	left=$(RF_DB=contrib_regression rf_sql coord "
		SELECT 'server ' || srvname FROM pg_foreign_server
		UNION ALL SELECT 'foreign table ' || ftrelid::regclass FROM pg_foreign_table
		UNION ALL SELECT 'schema ' || nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname NOT IN ('information_schema', 'public', 'rdma', 'rdma_internal')") ||
		left="it could not be asked"
	[ -z "$left" ] || rf_result FAIL "$1/left behind" "on the coordinator: ${left//$'\n'/, }"
}
