# results.sh: how the test scripts report. Source it; RF_RESULTS names the file that run_check.sh counts.
#
# One line per test, "ok GROUP/NAME" or "FAIL GROUP/NAME reason", is kept; of a program with many assertions only the
# failed ones are printed, and how many passed.

rf_result()
{
	local verdict=$1 name=$2
	shift 2
	printf '%-4s %s%s\n' "$verdict" "$name" "${*:+  ($*)}" | tee -a "${RF_RESULTS:-/dev/null}"
}

# rf_again TEST: how to repeat just that. run_check.sh sets RF_AGAIN to its group's command.
rf_again() { printf 'again: %s TESTS=%s' "${RF_AGAIN:-make check}" "$1"; }

# rf_server_groups: which groups versions and memory run on their servers: both, or the one that TESTS is of
rf_server_groups()
{
	if [ -z "${TESTS:-}" ]; then
		echo sql isolation
	elif [ -e "$RF_TREE/test/specs/${TESTS%% *}.spec" ]; then
		echo isolation
	else
		echo sql
	fi
}

# rf_first_difference NAME DIFFS: where pg_regress's test NAME first differs from what was expected, out of its DIFFS
rf_first_difference()
{
	awk -v name="$1" -v tree="$RF_TREE/" '
		/^diff -/ {
			file = $(NF - 1); line = 0
			if (index(file, tree) == 1) file = substr(file, length(tree) + 1)
			ours = $NF ~ ("/" name "[.]out$")
			next
		}
		ours && /^@@ / { line = -$2; next }
		ours && line && /^[-+]/ { printf "%s:%d: %.120s", file, line, $0; exit }
		ours && line { line++ }' "$2" 2>/dev/null
}

# rf_regress_results GROUP LOG DIFFS TEST...: LOG is what pg_regress printed (its own format, or TAP from PostgreSQL 16 on);
# a test it never got to is a failure.
rf_regress_results()
{
	local group=$1 log=$2 diffs=$3 name
	shift 3
	for name in "$@"; do
		if grep -Eq "^(test +$name +\.\.\. ok|ok +[0-9]+ +- +$name )" "$log"; then
			rf_result ok "$group/$name"
		elif grep -Eq "^(test +$name +\.\.\. FAILED|not ok +[0-9]+ +- +$name )" "$log"; then
			rf_result FAIL "$group/$name" "$(rf_first_difference "$name" "$diffs"); $(rf_again "$name")"
		else
			rf_result FAIL "$group/$name" "did not run; $(rf_again "$name")"
		fi
	done
}

# rf_tap_results NAME LOG FILE: the top-level "ok" and "not ok" lines of LOG; false when there is none. Perl says at which line
# of FILE a test failed; the C programs do not.
rf_tap_results()
{
	local test=${3##*/}
	awk -v name="$1" -v file="$3" -v again="$(rf_again "${test%.*}")" '
		{ what = $0; sub(/^(not )?ok *([0-9]+ *)?(- )?/, "", what) }
		FNR == NR {
			if (sub(/^# +Failed test \047/, "") && sub(/\047$/, "")) failed = $0
			else if (/^# +at .* line [0-9]+\.$/ && !(failed in line)) line[failed] = " line " ($NF + 0)
			next
		}
		/^ok/ { printf "ok   %s  (%s)\n", name, what }
		/^not ok/ { printf "FAIL %s  (%s: %s; %s)\n", name, file line[what], what, again }' "$2" "$2" >"$2.results"
	cat "$2.results" >>"${RF_RESULTS:-/dev/null}"
	[ -s "$2.results" ] || return 1
	grep '^FAIL' "$2.results"
	printf 'ok   %s  (%s assertions)\n' "$1" "$(grep -c '^ok' "$2.results")"
}

# rf_check_numbers GROUP FILE...: names are NUMBER_FEATURE, and each number is of one file
rf_check_numbers()
{
	local group=$1 twice
	shift
	twice=$(printf '%s\n' "${@##*/}" | sed 's/_.*//' | sort | uniq -d | tr '\n' ' ')
	[ -z "$twice" ] || rf_result FAIL "$group/numbers" "of more than one test: $twice"
}

# rf_check_alternates GROUP FOLDER: each of pg_regress's alternates, NAME_N.out beside NAME.out, is explained in FOLDER/README.md
rf_check_alternates()
{
	local file
	for file in "$2"/*_[0-9].out; do
		[ ! -e "${file%_[0-9].out}.out" ] || grep -Fq "\`${file##*/}\`" "$2/README.md" ||
			rf_result FAIL "$1/${file##*/}" "${file#"$RF_TREE/"} is not in ${2#"$RF_TREE/"}/README.md"
	done
}

# rf_check_log NAME LOG: a server that crashed or an engine that died in passing is a failure even when every output is
# right, and so is a report of a tool that watches memory (test/memory).
rf_check_log()
{
	local bad
	bad=$(grep -E 'PANIC|TRAP:|terminated by signal (6|7|8|11)|AddressSanitizer|runtime error:|VALGRINDERROR-BEGIN' \
		--no-group-separator -A "${RF_LOG_LINES:-0}" "$2" | head -n $((5 + 5 * ${RF_LOG_LINES:-0})))
	if [ -n "$bad" ]; then
		printf '%s\n' "$bad"
		rf_result FAIL "$1" "a process crashed, or a tool reports it"
	fi
}

# The start of a diff or log, for readers who only have the output.
rf_show()
{
	[ ! -s "$1" ] || { printf -- '--- %s\n' "$1"; head -n "${2:-150}" "$1"; printf -- '---\n'; }
}

# rf_side_by_side LIMIT FUNCTION ITEM...: FUNCTION ITEM for each, LIMIT of them at a time, each in a subshell. What one
# prints comes out in one piece when it ends, so that lines of two never mix.
rf_side_by_side()
{
	local limit=$1 function=$2 outputs item running=0
	shift 2
	outputs=$(mktemp -d)
	for item in "$@"; do
		if [ $running -ge "$limit" ]; then
			wait -n
			running=$((running - 1))
		fi
		{
			"$function" "$item" >"$outputs/$BASHPID" 2>&1 </dev/null
			flock "$outputs" cat "$outputs/$BASHPID"
		} &
		running=$((running + 1))
	done
	wait
	rm -rf "$outputs"
}
