#!/usr/bin/env bash
# run.sh [rounds] [milliseconds per run] [technique ...]: every technique of the engine without and with it, no PostgreSQL.
#
# Two processes, one per node, with real lanes, flows and providers: shared memory, TCP on this machine, the simulated fabric, and verbs
# in the soft-RoCE machine (test/soft_roce; VERBS=0 leaves it out, VERBS=here uses this machine's own device). Rounds are interleaved: each
# runs all variants of a technique in turn. A ratio is the median of the ratios within a round. Prints the table and writes into
# OUT (this folder): results.tsv, table.txt, and a plot per technique.
set -euo pipefail
tree=$(cd "$(dirname "$0")/../.." && pwd)
rounds=${1:-11} ms=${2:-300}
shift $(($# < 2 ? $# : 2))
out=${OUT:-$tree/bench/engine}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"

mapfile -t sources < <(cd "$tree" && grep -LE '#include[[:space:]]*"(postgres(_fe)?\.h|rdma_fdw/compat\.h|c\.h)"' src/*.c src/*/*.c)
(cd "$tree" && "${CC:-gcc}" -std=gnu11 -O2 -D_GNU_SOURCE -Iinclude -Itest/unit bench/engine/*.c "${sources[@]}" test/unit/sim*.c \
	-libverbs -lcrypto -lpthread -lm -o "$work/engine_bench")

{
	printf 'kind\ttechnique\ttransport\tx\tvariant\tMB/s\tCPU s/GB\tcores\tp50 us\tp99 us\trequests/message\tdoorbells/request\n'
	# 3: a target was not reached. The table says which.
	"$work/engine_bench" -r "$rounds" -m "$ms" "$@" || [ $? = 3 ]
	case ${VERBS:-vm} in
		0) ;;
		here) "$work/engine_bench" -r "$rounds" -m "$ms" -t verbs "$@" || [ $? = 3 ] ;;
		*)
			# Everything is emulated there, so only ratios mean anything, and few rounds do.
			chmod 755 "$work"
			"$tree/test/soft_roce/vm.sh" "$work/engine_bench" -r "${VERBS_ROUNDS:-3}" -m "$ms" -t verbs "$@" || [ $? = 3 ]
			;;
	esac
} | tee "$work/results.tsv" >&2
mv "$work/results.tsv" "$out/results.tsv"

{
	printf 'technique\tover\tmeasure\tours\twanted\treached\tthe paper\n'
	grep '^row' "$out/results.tsv" | cut -f 2-
} | column -t -s "$(printf '\t')" | tee "$out/table.txt"
grep '^note' "$out/results.tsv" | cut -f 2- | sed 's/\t/: /' | tee -a "$out/table.txt" || true

if command -v gnuplot >/dev/null; then
	for script in "$tree"/bench/engine/*.gp; do
		name=$(basename "$script" .gp)
		[ "$name" != bars ] && grep -Eq "^(series|row)	$name	" "$out/results.tsv" || continue
		gnuplot -e "table='$out/results.tsv'; out='$out/$name.svg'" "$script" && echo "plot: $out/$name.svg"
	done
	# The others alike: a bar per variant.
	cut -f 2 -s <(grep '^series' "$out/results.tsv") | sort -u | while read -r name; do
		[ ! -e "$tree/bench/engine/$name.gp" ] || continue
		gnuplot -e "table='$out/results.tsv'; technique='$name'; out='$out/$name.svg'" "$tree/bench/engine/bars.gp" &&
			echo "plot: $out/$name.svg"
	done
else
	echo "gnuplot is not installed: no plots"
fi
