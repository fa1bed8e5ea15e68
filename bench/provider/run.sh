#!/usr/bin/env bash
# run.sh: the software provider alone, between two processes of this machine. Needs gcc, and gnuplot for the picture.
#
#   bench/provider/run.sh [rounds] [milliseconds per run] [folder for the results]
#
# Prints a table and writes soft.tsv and soft.svg. The columns: GB/s and CPU seconds of both processes per GB are medians over the
# rounds; the ratio is the median of the ratios within a round (shm to memcpy, tcp to a plain socket, 2 and 4 buffers to 1); the last
# two columns are the best round, which other load on the machine disturbs least.
set -euo pipefail
tree=$(cd "$(dirname "$0")/../.." && pwd)
rounds=${1:-31} ms=${2:-30} out=${3:-$tree/build/bench-provider}
mkdir -p "$out"
# shellcheck disable=SC2086
${CC:-gcc} -std=gnu11 -O2 -D_GNU_SOURCE -I"$tree/include" -I"$tree/src" -I"$tree/test/unit" -o "$out/bench_soft" \
	"$tree"/bench/provider/bench_soft.c "$tree"/src/base/error.c "$tree"/src/base/tls.c "$tree"/src/provider/soft*.c "$tree"/test/unit/sim*.c -lssl -lcrypto -lpthread
"$out/bench_soft" "$rounds" "$ms" | tee "$out/soft.tsv" | column -t -s "$(printf '\t')"
if command -v gnuplot >/dev/null; then
	gnuplot -e "table='$out/soft.tsv'; out='$out/soft.svg'" "$tree/bench/provider/plot_soft.gp"
	echo "plot: $out/soft.svg"
else
	echo "gnuplot is not installed: no plot"
fi
