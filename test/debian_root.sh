# debian_root.sh: folders with a Debian of their own, for other releases and for a clean one. Source it as root.
#
#   rf_debian_tools PROGRAM...        installs what is missing of them; false: it cannot
#   rf_debian_unpack SUITE ROOT PACKAGES LOG    ROOT has the suite and these packages (with commas between), whole or it is not
#                                     there; nothing is done if it is there already. Of "experimental" it has what is named so
#                                     (PACKAGE/experimental), and of sid the rest
#   rf_debian_inside ROOT COMMAND...  runs in ROOT as if it were a machine of its own; mounts and processes end with the command

rf_debian_tools()
{
	local program
	[ "$(id -u)" = 0 ] || return 1
	for program in "$@"; do
		command -v "$program" >/dev/null || apt-get install -y --no-install-recommends "$program" >/dev/null 2>&1 || return 1
	done
}

rf_debian_unpack()
{
	local suite=$1 root=$2 packages=$3 log=$4 mirror sources
	[ ! -e "$root" ] || return 0
	# The mirror that this machine uses; a frozen one has Release files that have expired.
	mirror=$(apt-get indextargets --format '$(SITE)' | grep -v security | sort -u | head -n 1)
	sources=("$mirror")
	if [ "$suite" = experimental ]; then
		suite=sid
		sources=("deb $mirror sid main" "deb $mirror experimental main")
	fi
	mkdir -p "$(dirname "$root")"
	rm -rf "$root.new"
	mmdebstrap --variant=apt --mode=root --aptopt='Acquire::Check-Valid-Until "false"' \
		--include="$packages" "$suite" "$root.new" "${sources[@]}" >"$log" 2>&1 && mv "$root.new" "$root"
}

rf_debian_inside()
{
	local root=$1
	shift
	# shellcheck disable=SC2016
	unshare --mount --pid --fork --kill-child bash -c '
		root=$1; shift
		mount --rbind /dev "$root/dev" && mount -t proc proc "$root/proc" && exec chroot "$root" "$@"' bash "$root" "$@"
}
