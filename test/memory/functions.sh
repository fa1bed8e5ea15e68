#!/usr/bin/env bash
# functions.sh: chooses valgrind_tests of check.sh. It runs each SQL file with the extension compiled for gcov, and prints
# a list of files that together call every function that all of them call: again and again the file with the most
# functions not yet called for each second that it takes.
#
#   RF_WORK=/tmp/functions test/memory/functions.sh        RF_WORK is a folder for it, which stays
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
: "${RF_WORK:?a folder that the user PostgreSQL runs as can reach}"
export RF_TREE=$RF_WORK/source RF_PREFIX=$RF_WORK/pg
mkdir -p "$RF_TREE"
umask 022
cp -r "$here"/../../{Makefile,rdma_fdw.control,sql,expected,test,src,include} "$RF_TREE/"
find "$RF_TREE" \( -name '*.o' -o -name '*.so' \) -delete
RF_MAKE_ARGS=PROFILE=--coverage "$RF_TREE/test/tmp_install.sh" "$RF_PREFIX" >"$RF_WORK/build.log" 2>&1 || exit 1
for module in "$RF_TREE"/test/modules/*/; do
	make -s -C "$module" >>"$RF_WORK/build.log" 2>&1 &&
		install -m 755 "$module"/*.so "$("$RF_PREFIX/bin/pg_config" --pkglibdir)/" || exit 1
done
# Servers leave their counts beside the objects.
chmod a+w "$RF_TREE"/src "$RF_TREE"/src/*/

. "$here/../run_common.sh"
trap rf_stop_all EXIT
rf_start_trio "$RF_WORK/clusters"
rf_run mkdir -p "$RF_WORK/clusters/out"
regress=$(dirname "$(rf_pg_config --pgxs)")/../test/regress/pg_regress

: >"$RF_WORK/called"
for file in "$RF_TREE"/sql/[0-9]*.sql; do
	name=$(basename "$file" .sql)
	start=${EPOCHREALTIME/./}
	rf_run "$regress" --use-existing --bindir="$RF_BINDIR" --host="$RF_SOCKETS" --port="$(rf_port coord)" --user=postgres \
		--dbname=contrib_regression --inputdir="$RF_TREE" --outputdir="$RF_WORK/clusters/out" "$name" >/dev/null 2>&1
	status=$? seconds=$(((${EPOCHREALTIME/./} - start) / 1000000 + 1))
	# A process writes its counts when it ends.
	for cluster in coord n1 n2; do
		rf_stop "$cluster" fast
	done
	printf '%s: status %s, %s s\n' "$name" $status $seconds >&2
	(cd "$RF_TREE" && find src -name '*.gcda' -print0 | xargs -0 gcov --json-format --stdout 2>/dev/null) |
		perl -MJSON::PP -ne '
			foreach my $file (@{ decode_json($_)->{files} })
			{
				$file->{file} =~ /^src\// or next;
				$_->{execution_count} and print "'"$name $seconds"' $file->{file}:$_->{name}\n" foreach @{ $file->{functions} };
			}' >>"$RF_WORK/called"
	find "$RF_TREE/src" -name '*.gcda' -delete
	for cluster in coord n1 n2; do
		rf_run "$RF_BINDIR/pg_ctl" -D "$RF_ROOT/$cluster" -l "$(rf_log $cluster)" -w -t 60 -s start >/dev/null 2>&1 </dev/null
	done
done

perl -lane '
	$seconds{$F[0]} = $F[1];
	$calls{$F[0]}{$F[2]} = $left{$F[2]} = 1;
	END
	{
		while (%left)
		{
			my %new = map { my $test = $_; $test => scalar grep { $left{$_} } keys %{ $calls{$test} } } keys %calls;
			my ($best) = sort { $new{$b} / $seconds{$b} <=> $new{$a} / $seconds{$a} || $a cmp $b } keys %new;
			delete @left{ keys %{ $calls{$best} } };
			print "$best  # $new{$best} functions, $seconds{$best} s";
		}
	}' "$RF_WORK/called"
