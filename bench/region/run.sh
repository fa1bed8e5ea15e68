#!/usr/bin/env bash
# run.sh [rounds] [microseconds per run]: regions copied out, gathered, as boxes and as the measured costs choose, no PostgreSQL.
#
# OVER says over what:
#   OVER=soft     shared memory and TCP on this machine (default): results.tsv, table.txt and region.svg
#   OVER=verbs    verbs in the soft-RoCE machine (test/soft_roce), where all is emulated, so that only ratios mean anything: verbs.tsv, verbs.txt
#   OVER=device   verbs on this machine's own device: the same files
# What runs, and after which time, goes to stderr.
# The ways are interleaved, and of each the best round counts. Writes the files into OUT (this folder) and prints the table.
set -euo pipefail
tree=$(cd "$(dirname "$0")/../.." && pwd)
over=${OVER:-soft}
rounds=${1:-$([ "$over" = verbs ] && echo 5 || echo 11)} us=${2:-$([ "$over" = verbs ] && echo 2000 || echo 300)}
out=${OUT:-$tree/bench/region}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
case $over in
	soft) results=$out/results.tsv table=$out/table.txt command=() transports=(shm tcp) ;;
	# Fewer fragments: each costs a hundred times as much there.
	verbs) results=$out/verbs.tsv table=$out/verbs.txt command=("$tree/test/soft_roce/vm.sh") transports=(-f 8192 verbs) ;;
	device) results=$out/verbs.tsv table=$out/verbs.txt command=() transports=(verbs) ;;
	*) echo "OVER is soft, verbs or device" >&2; exit 2 ;;
esac
(cd "$tree" && "${CC:-gcc}" -std=gnu11 -O2 -D_GNU_SOURCE -DWITH_VERBS -Iinclude -Isrc -Itest/unit bench/region/region_bench.c bench/region/ncr*.c src/engine/regions.c \
	src/batch/region_plan.c src/provider/*.c src/base/error.c src/base/tls.c test/unit/sim*.c -libverbs -lrdmacm -lssl -lcrypto -lpthread -lm -o "$work/region_bench")
chmod 755 "$work"
VM_TIMEOUT=${VM_TIMEOUT:-1800} "${command[@]}" "$work/region_bench" -r "$rounds" -u "$us" "${transports[@]}" |
	awk '/^(row|costs|route)\t/ {print; next} {print >"/dev/stderr"}' >"$work/results.tsv"
mv "$work/results.tsv" "$results"

{
	echo "$rounds rounds of $us us; ns per row"
	{
		printf 'over\tlayout\twidth\tdensity\trows\tcopy\tgather\tbox\tchosen\teach\tchoice\tbest\tchosen/best\teach/copy\tstrided\n'
		grep '^row' "$results" | cut -f 2-
	} | column -t -s "$(printf '\t')"
	awk -F'\t' '
		$1 == "row" {n[$2]++
			# The same without what other load added to one run of it: the chosen way where it ran as itself.
			way = $12 ~ /^gather/ ? $8 : $12 ~ /^box/ ? $9 : $12 ~ /^strided/ ? $16 : $7; best = $7 < $8 ? $7 : $8; best = $9 < best ? $9 : best
			if ($16 !~ /nan/ && $16 < best) best = $16
			if (way <= 1.1 * best) right[$2]++
			if ($14 <= 1.1) good[$2]++; if ($14 > worst[$2]) worst[$2] = $14
			if ($4 == 4 && $5 < 1 && $15 != "nan" && $15 != "-nan" && (!($2 in least) || $15 < least[$2])) least[$2] = $15}
		$1 == "route" {route = route sprintf("\nrouting five columns of 4 bytes to %d: million rows per CPU second row by row %s, by bitmap %s, %s times", $2, $3, $4, $5)}
		END {
			for (t in n) printf "%s: chosen at most 1.1 of the best in %d of %d (worst %s), its way when forced in %d; one request per 4-byte field costs at least %s times copying out\n", t, good[t], n[t], worst[t], right[t], least[t]
			print substr(route, 2)
		}' "$results"
	grep '^costs' "$results" | cut -f 2- | sed 's/\t/: /'
} | tee "$table"

[ "$over" = soft ] || exit 0
if command -v gnuplot >/dev/null; then
	gnuplot -e "table='$results'; out='$out/region.svg'" "$tree/bench/region/region.gp" && echo "plot: $out/region.svg"
else
	echo "gnuplot is not installed: no plot"
fi
