# budget.sh: how a bench says how far it is, and how it ends in time. Source it first.
#
#   MINUTES              what the whole bench may take (default 9); of each thing at least one round is measured
#   say WORDS            a line on stderr, after the time since the start
#   step_of LEFT [N]     the next step may take N (default 1) of LEFT equal shares of the time that is left
#   another_round N MOST before round N of a step, where round 0 warms up and is not counted: false after MOST counted rounds, and
#                        when one as long as the last would go beyond the step's time
budget=$((${MINUTES:-9} * 60))
say() { printf '%d:%02d  %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*" >&2; }
step_of() { step_end=$((SECONDS < budget ? SECONDS + (budget - SECONDS) * ${2:-1} / $1 : SECONDS)); }
another_round()
{
	local began=${round_began:-0}
	round_began=$SECONDS
	[ "$1" -le 1 ] || { [ "$1" -le "$2" ] && [ $((2 * SECONDS - began)) -le "$step_end" ]; }
}
