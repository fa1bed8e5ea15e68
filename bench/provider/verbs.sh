#!/usr/bin/env bash
# verbs.sh [rounds] [folder for the results]: write bandwidth of the verbs provider against perftest's ib_write_bw, same sizes, same boot of
# the soft-RoCE machine, interleaved. Emulated: only the ratios mean anything. Target: 0.9.
#
# Prints a table and writes verbs.tsv and verbs.svg. MiB/s are medians over the rounds (default 7); a ratio is the median of the ratios
# within a round. Plain writes and chains of 16 per post stand against ib_write_bw. Writes with an immediate each, whose target sleeps in
# between, stand against the same done straight with libibverbs: perftest 6.06 has no write with immediate.
#
# Against ib_write_bw, immediates came out at 0.4 to 1.0 on the virtual machine. That is not the provider: in one boot, five rounds of 48 MB,
# they were 0.89, 0.97, 0.96, 0.93 of plain verbs (4 kB .. 1 MB; single values scatter by a factor of two, the host was busy). What costs is,
# as far as six rounds tell, the target, which has to run: rxe works in soft interrupts of the two processors that writer and target need too. Plain verbs, 256 kB,
# MiB/s, medians of six interleaved rounds: write 89; with immediate, the target taking them as they come 58; taking none 89; polling
# without sleep 54; both pinned to one processor 84; receives posted one by one instead of 32 by 32 74 (no worse, within the scatter).
# rxe's counters show no RNR NAK in any run. The retries that they show (one per 67 ms, the timeout) come with and without immediate;
# timeout = 0 takes them away and changes no figure beyond the scatter.
#
# Settings: SIZES (default "4096 65536 262144 1048576"), BYTES per run (default 48 MB; never more than 2,000 messages).
#
# On a machine with an RDMA device of its own, without the virtual one: verbs.sh here ROUNDS [ib_write_bw's options, e.g. -d mlx5_0 -x 3].
set -euo pipefail
tree=$(cd "$(dirname "$0")/../.." && pwd)
build()
{
	"${CC:-gcc}" -std=gnu11 -O2 -D_GNU_SOURCE -I"$tree/include" -I"$tree/src" -I"$tree/src/provider" "$tree/bench/provider/verbs_bw.c" \
		"$tree"/src/provider/verbs*.c "$tree/src/base/error.c" -o "$1" -libverbs -lrdmacm -lcrypto -lpthread
}

if [ "${1:-}" != here ]; then
	rounds=${1:-7} out=${2:-$tree/build/bench-provider}
	mkdir -p "$out"
	build "$out/verbs_bw"
	"$tree/test/soft_roce/vm.sh" env VERBS_BW="$(cd "$out" && pwd)/verbs_bw" SERVER=10.77.0.1 \
		SIZES="${SIZES:-}" BYTES="${BYTES:-}" \
		"$tree/bench/provider/verbs.sh" here "$rounds" -d rxe0 -x 1 | tee "$out/verbs.tsv" | column -t -s "$(printf '\t')"
	if command -v gnuplot >/dev/null; then
		gnuplot -e "table='$out/verbs.tsv'; out='$out/verbs.svg'" "$tree/bench/provider/plot_verbs.gp"
		echo "plot: $out/verbs.svg"
	fi
	exit
fi
rounds=$2
shift 2
samples=$(mktemp -d)
trap 'rm -rf "$samples"' EXIT
if [ -z "${VERBS_BW:-}" ]; then
	VERBS_BW=$samples/verbs_bw
	build "$VERBS_BW"
fi

perftest()
{
	ib_write_bw -F "$@" -s "$size" -n "$count" >/dev/null 2>&1 &
	local server=$! try
	for try in 1 2 3 4 5 6 7 8 9 10; do
		sleep 0.3
		if ib_write_bw -F "$@" -s "$size" -n "$count" "${SERVER:-127.0.0.1}" 2>/dev/null | awk -v s="$size" '$1 == s {print $4; found = 1} END {exit !found}'; then
			break
		fi
	done
	wait "$server" || true
}

median() { sort -n | awk '{v[NR] = $1} END {print (NR % 2) ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }

printf 'message\tib_write_bw\twrite\tratio\tchain\tratio\tplain_immediate\timmediate\tratio\n'
for size in ${SIZES:-4096 65536 262144 1048576}; do
	count=$((${BYTES:-50331648} / size))
	[ "$count" -le 2000 ] || count=2000
	rm -f "$samples"/*.MB "$samples"/*.ratio
	for ((round = 0; round < rounds; round++)); do
		base=$(perftest "$@")
		echo "$base" >>"$samples/perftest.MB"
		for kind in write chain plain imm; do
			value=$("$VERBS_BW" "$size" "$count" $kind)
			echo "$value" >>"$samples/$kind.MB"
			if [ "$kind" = plain ]; then		# what the immediates that follow are measured by
				base=$value
				continue
			fi
			awk -v a="$value" -v b="$base" 'BEGIN {print a / b}' >>"$samples/$kind.ratio"
		done
	done
	printf '%s\t%.1f' "$size" "$(median <"$samples/perftest.MB")"
	for kind in write chain imm; do
		[ "$kind" != imm ] || printf '\t%.1f' "$(median <"$samples/plain.MB")"
		printf '\t%.1f\t%.2f' "$(median <"$samples/$kind.MB")" "$(median <"$samples/$kind.ratio")"
	done
	printf '\n'
done
