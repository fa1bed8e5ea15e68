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

# rf_regress_results GROUP LOG TEST...: LOG is what pg_regress printed (its own format, or TAP from PostgreSQL 16 on);
# a test it never got to is a failure.
rf_regress_results()
{
	local group=$1 log=$2 name
	shift 2
	for name in "$@"; do
		if grep -Eq "^(test +$name +\.\.\. ok|ok +[0-9]+ +- +$name )" "$log"; then
			rf_result ok "$group/$name"
		elif grep -Eq "^(test +$name +\.\.\. FAILED|not ok +[0-9]+ +- +$name )" "$log"; then
			rf_result FAIL "$group/$name" "differs from the expected output"
		else
			rf_result FAIL "$group/$name" "did not run"
		fi
	done
}

# rf_tap_results NAME LOG: the top-level "ok" and "not ok" lines of LOG; false when there is none
rf_tap_results()
{
	sed -nE "s,^not ok *(.*),FAIL $1  (\\1),p; s,^ok *(.*),ok   $1  (\\1),p" "$2" >"$2.results"
	cat "$2.results" >>"${RF_RESULTS:-/dev/null}"
	[ -s "$2.results" ] || return 1
	grep '^FAIL' "$2.results"
	printf 'ok   %s  (%s assertions)\n' "$1" "$(grep -c '^ok' "$2.results")"
}

# The start of a diff or log, for someone who only has the output to look at.
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
