#!/usr/bin/env bash
# run.sh [rounds] [milliseconds per run] [technique ...]: every technique of the engine without and with it, no PostgreSQL.
#
# Without rounds, or with 0, there are as many as fit into MINUTES (default 8), at least one and at most 11. What runs, how much is done, and after which time,
# goes to stderr.
#
# Two processes, one per node and each on half of the cores as if on its own machine, with real lanes, flows and providers. OVER says which:
#   OVER=soft     shared memory, TCP on this machine, the simulated fabric (default): results.tsv, table.txt and a plot per technique
#   OVER=verbs    verbs in the soft-RoCE machine (test/soft_roce), where all is emulated, so that only ratios mean anything: verbs.tsv, verbs.txt
#   OVER=nodes    the exchange between 2 to 256 simulated nodes (nodes.c), once: nodes.tsv, nodes.txt, nodes.svg
#   OVER=device   verbs on this machine's own device: the same files
# Rounds are interleaved: each runs all variants of a technique in turn. A ratio is the median of the ratios within a round. Prints the table, and
# writes the files into OUT (this folder).
set -euo pipefail
tree=$(cd "$(dirname "$0")/../.." && pwd)
over=${OVER:-soft}
rounds=${1:-0} ms=${2:-300}
shift $(($# < 2 ? $# : 2))
out=${OUT:-$tree/bench/engine}
say() { printf '%s %s\n' "$(date +%T)" "$*" >&2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"

say "compiling"
mapfile -t sources < <(cd "$tree" && grep -LE '#include[[:space:]]*"(postgres(_fe)?\.h|rdma_fdw/compat\.h|c\.h)"' src/*.c src/*/*.c src/*/*/*.c)
(cd "$tree" && "${CC:-gcc}" -std=gnu11 -O2 -D_GNU_SOURCE -Iinclude -Isrc -Itest/unit bench/engine/*.c "${sources[@]}" test/unit/sim*.c \
	-libverbs -lrdmacm -lssl -lcrypto -lpthread -lm -o "$work/engine_bench")

case $over in
	soft) results=$out/results.tsv table=$out/table.txt command=() transport=() ;;
	verbs) results=$out/verbs.tsv table=$out/verbs.txt command=("$tree/test/soft_roce/vm.sh") transport=(-t verbs) ;;
	nodes) results=$out/nodes.tsv table=$out/nodes.txt command=() transport=(-t fabric) ;;
	device) results=$out/verbs.tsv table=$out/verbs.txt command=() transport=(-t verbs) ;;
	*) echo "OVER is soft, nodes, verbs or device" >&2; exit 2 ;;
esac
chmod 755 "$work"
[ "$over" != verbs ] || say "starting the machine"
{
	[ "$over" = nodes ] || printf 'kind\ttechnique\ttransport\tx\tvariant\tMB/s\tCPU s/GB\tcores\tp50 us\tp99 us\trequests/message\tdoorbells/request\n'
	# 3: a target was not reached. The table says which. The machine has one output for both, so what is not a result goes on to stderr.
	VM_TIMEOUT=${VM_TIMEOUT:-7200} "${command[@]}" "$work/engine_bench" -r "$rounds" -b "${MINUTES:-8}" -m "$ms" "${transport[@]}" "$@" || [ $? = 3 ]
} | awk '/^(kind|series|row|note|rounds|nodes)\t/ {print; next} {print >"/dev/stderr"}' >"$work/results.tsv"
mv "$work/results.tsv" "$results"

if [ "$over" = nodes ]; then
	grep '^nodes' "$results" | cut -f 2- | column -t -s "$(printf '\t')" | tee "$table"
	echo | tee -a "$table"
else
	awk -F'\t' '$1 == "rounds" {printf "%s rounds of %s ms\n", $2, $3}' "$results" >"$table"
fi
{
	printf 'technique\tover\tmeasure\tours\twanted\treached\tthe paper\n'
	grep '^row' "$results" | cut -f 2-
} | column -t -s "$(printf '\t')" | tee -a "$table"
grep '^note' "$results" | cut -f 2- | sed 's/\t/: /' | tee -a "$table" || true

[ "$over" = soft ] || [ "$over" = nodes ] || exit 0
if command -v gnuplot >/dev/null; then
	for script in "$tree"/bench/engine/*.gp; do
		name=$(basename "$script" .gp)
		[ "$name" != bars ] && grep -Eq "^(series	$name|row	$name|$name)	" "$results" || continue
		gnuplot -e "table='$results'; out='$out/$name.svg'" "$script" && echo "plot: $out/$name.svg"
	done
	# The others alike: a bar per variant.
	cut -f 2 -s <(grep '^series' "$results") | sort -u | while read -r name; do
		[ ! -e "$tree/bench/engine/$name.gp" ] || continue
		file=$out/${name// /-}.svg
		gnuplot -e "table='$results'; technique='$name'; out='$file'" "$tree/bench/engine/bars.gp" && echo "plot: $file"
	done
else
	echo "gnuplot is not installed: no plots"
fi
