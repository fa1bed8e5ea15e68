# clusters.sh: the folder of a bench and the PostgreSQL clusters in it. Source it; it sources budget.sh and test/cluster.sh.
#
#   bench_begin [FOLDER]     the folder, or a throw-away one in /tmp, goes to $dir, with a private PostgreSQL that has this tree's
#                            extension. rf_start starts clusters there; they stop when the bench ends, and a throw-away folder goes.
#   bench_tpch               compiles the generator of TPC-H's rows: $dir/tpchgen
#   bench_start N [K=V ...]  starts data nodes n1 to nN, whose names go to ${names[@]}, and coord, with these settings
#   bench_server NAME CLUSTER [WRAPPER [OPTIONS]]    SQL for a server of that name which is the cluster, and for its user mapping
#   bench_once CASE QUERY TABLE    runs the bench's `query QUERY CASE` once, in a new session of cluster coord that its `session CASE QUERY` sets up
#                            and that has looked at a small table (which connects); prints milliseconds, $timeout seconds at most.
#                            The rows go to $dir/rows.CASE; a query that was too late is not run again. With $again it runs so many
#                            times more in that session, and prints "FIRST,LAST": LAST is the last time, of four and more the
#                            median of the last three
#   bench_same QUERY CASE OTHER    are the case's rows those of the other case? Not: says which differ. What was too late is not compared
#   bench_plot NAME SCRIPT [TITLE]    draws NAME.svg from NAME.tsv, both in $out, by a script of gnuplot, if that is installed
#   bench_cpu CLUSTER...     milliseconds of processors that all processes of these clusters have used since they started, also those
#                            that have ended
tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$tree/test/cluster.sh"
. "$tree/bench/budget.sh"

bench_begin()
{
	if [ -n "${1:-}" ]; then
		dir=$1
		mkdir -p "$dir"
		trap 'rf_stop_all fast' EXIT
	else
		dir=$(mktemp -d /tmp/rdma_fdw_bench.XXXXXX)
		trap 'rf_cleanup; rm -rf "$dir"' EXIT
	fi
	chmod 755 "$dir"
	RF_PREFIX=$dir/pg RF_BINDIR=$dir/pg/bin
	"$tree/test/tmp_install.sh" "$RF_PREFIX" >/dev/null
	rf_init "$dir/clusters"
}

bench_tpch() { ${CC:-cc} -O2 -std=gnu11 -o "$dir/tpchgen" "$tree/bench/tpch/tpchgen.c"; }

bench_start()
{
	local i nodes=$1
	shift
	say "starting clusters"
	names=()
	for ((i = 1; i <= nodes; i++)); do
		names+=("n$i")
		rf_start "n$i" "$@"
	done
	rf_start coord "$@"
}

bench_server()
{
	printf "CREATE SERVER %s FOREIGN DATA WRAPPER %s OPTIONS (host '127.0.0.1', port '%s', dbname 'postgres'%s);\n" \
		"$1" "${3:-rdma_fdw}" "$(rf_port "$2")" "${4:+, $4}"
	printf "CREATE USER MAPPING FOR CURRENT_USER SERVER %s OPTIONS (user 'postgres');\n" "$1"
}

# FIRST,LAST of times in lines; one alone stays alone.
first_and_last()
{
	local times
	mapfile -t times
	case ${#times[@]} in
		0 | 1) printf '%s\n' "${times[@]}" ;;
		2 | 3) printf '%s,%s\n' "${times[0]}" "${times[-1]}" ;;
		*) printf '%s,%s\n' "${times[0]}" "$(printf '%s\n' "${times[@]: -3}" | sort -n | sed -n 2p)" ;;
	esac
}

bench_once()
{
	local i rows=$dir/rows.$1
	if [ -e "$dir/late.$1.$2" ]; then
		printf '%d%s\n' $((timeout * 1000)) "${again:+,$((timeout * 1000))}"
		return
	fi
	{
		session "$1" "$2"
		printf 'SELECT count(*) FROM %s;\n\\timing on\n' "$3"
		for ((i = 0; i <= ${again:-0}; i++)); do query "$2" "$1"; done
	} | rf_psql coord -qAt -v ON_ERROR_STOP=0 >"$rows" 2>&1
	if grep -q 'statement timeout' "$rows"; then
		touch "$dir/late.$1.$2"
		printf '%d%s\n' $((timeout * 1000)) "${again:+,$((timeout * 1000))}"
	elif ! grep -q '^ERROR' "$rows"; then
		sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' "$rows" | first_and_last
	fi
	sed -i -e 1d -e '/^Time: /d' "$rows"
}

bench_same()
{
	local rows=$dir/rows.$2 others=$dir/rows.$3
	if grep -q 'statement timeout' "$rows" "$others" || cmp -s "$rows" "$others"; then return; fi
	echo "$1: rows of $2 are not those of $3" >&2
	diff "$rows" "$others" | head -5 >&2
	return 1
}

bench_cpu()
{
	local cluster pid files=()
	for cluster in "$@"; do
		for pid in "$(rf_pid "$cluster")" $(cat "/proc/$(rf_pid "$cluster")/task/"*/children); do
			files+=("/proc/$pid/stat")
		done
	done
	# behind the name come state and parent, and from the 12th on user, system, and both of the children that have been waited for
	# one of them may have ended meanwhile
	{ cat "${files[@]}" 2>/dev/null || :; } | sed 's/.*) //' | awk -v hz="$(getconf CLK_TCK)" '{ sum += $12 + $13 + $14 + $15 } END { printf "%d\n", sum * 1000 / hz }'
}

bench_plot()
{
	if command -v gnuplot >/dev/null; then
		gnuplot -e "table='$out/$1.tsv'; out='$out/$1.svg'; name='${3:-}'" "$2"
		echo "plot: $out/$1.svg"
	else
		echo "gnuplot is not installed: no plot"
	fi
}
