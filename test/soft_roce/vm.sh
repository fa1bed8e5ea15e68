#!/usr/bin/env bash
# vm.sh COMMAND...: run COMMAND as root inside a throw-away virtual machine that has a soft-RoCE device.
#
# The machine runs Debian's stock kernel, by hardware virtualisation where that works and emulated where not, without a network or a disk
# image. It sees this machine's whole file system read-only, below an overlay that lives in its own memory: what is built here can be run there, and what the
# command writes is gone afterwards. It has the device rxe0 over a dummy interface with 10.77.0.1/24 (port 1, RoCE v2), or siw0 in its
# place (VM_DEVICE), and no memlock limit. The command runs in the same folder as this script was called from, with TMPDIR on a tmpfs. Its output is passed on as it comes.
#
# Exit status: the command's. 125 when the machine could not be started or ended on its own; the reason is printed.
#
# Settings (environment):
#   VM_OUT      folder that the command may really write; it has the same path inside      (default: none)
#   VM_MEMORY   memory in MB, allocated as it is touched                                   (default 4096)
#   VM_TIMEOUT  seconds after which the machine is ended                                   (default 900)
#   VM_STALL    seconds without a line of output after which it is ended too; 0 = any       (default 0)
#   VM_WIRE     "listen SOCKET ADDRESS/BITS" or "connect SOCKET ADDRESS/BITS": a wire to another such machine, which is started after the
#               one that listens; rxe0 is over its card, with that address, instead of the dummy
#   VM_DEVICE   rxe: soft-RoCE; siw: soft-iWARP, whose module is made of the kernel's source    (default rxe)
#   VM_MODULES  kernel modules to load besides
#   VM_CACHE    where the unpacked kernel is kept       (default $XDG_CACHE_HOME/rdma_fdw or ~/.cache/rdma_fdw)
#   VM_ACCEL    kvm or tcg                                              (default: kvm if a kernel boots with it here)
#   VM_CPU      processor model                                                            (default below)
#   VM_APPEND, VM_QEMU    more kernel parameters, more options of qemu
#   VM_VERBOSE  1: also print the kernel's console and the time to boot
#
# Needs the Debian packages qemu-system-x86, busybox-static, cpio, kmod, iproute2, rdma-core and, to boot faster, xz-utils; the kernel package is fetched by name
# with apt-get download and unpacked, never installed. For siw also make and gcc: Debian's kernel package lacks the module, so its source (139 MB) and the
# kernel's headers are fetched likewise, once, and only the module is kept.
set -euo pipefail

# An emulated processor: the kernel copies memory with "rep movsb" where the processor says that it is fast. An emulated one moves a byte per step: without
# these two flags the kernel takes another way and the device moves twice as many bytes per second (85 -> 165 MB/s). For the same
# reason the crc32-pclmul module is left out below: the table in crc32_generic is faster (64 -> 85 MB/s).
TCG_CPU=max,-erms,-fsrm
VM_MEMORY=${VM_MEMORY:-4096}
VM_TIMEOUT=${VM_TIMEOUT:-900}
VM_STALL=${VM_STALL:-0}
VM_DEVICE=${VM_DEVICE:-rxe}
read -r wire_role wire_socket wire_address <<<"${VM_WIRE:-}" || true
cache=${VM_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/rdma_fdw}

fail()
{
	echo "vm.sh: $*" >&2
	exit 125
}

if [ $# -eq 0 ]; then
	sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "$0"
	exit 2
fi
[ "$(uname -m)" = x86_64 ] || fail "only x86-64 machines are supported, this one is $(uname -m)"
PATH=$PATH:/usr/sbin:/sbin
for tool in qemu-system-x86_64:qemu-system-x86 busybox:busybox-static cpio:cpio modprobe:kmod depmod:kmod ip:iproute2 rdma:iproute2; do
	command -v "${tool%%:*}" >/dev/null || fail "${tool%%:*} is missing: install the Debian package ${tool##*:}"
done
mkdir -p "$cache" || fail "cannot make the folder $cache"
cache=$(cd "$cache" && pwd)
job=$(mktemp -d)
qemu_pid=
trap '[ -z "$qemu_pid" ] || kill "$qemu_pid" 2>/dev/null || true; rm -rf "$job"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# The kernel: newest one unpacked in the cache, else Debian's current one. Two runs may start at once, hence the lock.
newest_kernel()
{
	find "$cache/kernel/boot" -name 'vmlinuz-*[0-9a-z]' ! -name '*.elf' 2>/dev/null | sort -V | tail -1
}

# The image unpacks itself at every boot, which takes three seconds under emulation: do it once here. Without the unpacked
# image (another compression, say) the packed one is booted.
unpack_image()
{
	local offset
	offset=$(LC_ALL=C grep -abom1 $'\xfd7zXZ' "$1" | head -1 | cut -d: -f1)
	[ -n "$offset" ] || return 0
	tail -c +$((offset + 1)) "$1" | xz -dcq --single-stream >"$1.elf" 2>/dev/null || true
	[ "$(head -c 4 "$1.elf" | tail -c 3)" = ELF ] || rm -f "$1.elf"
}

fetch_kernel()
{
	local package download
	package=$(apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends: linux-image/ {print $2; exit}')
	if [ -z "$package" ] && [ "$(id -u)" = 0 ]; then
		apt-get update -qq >/dev/null 2>&1 || true
		package=$(apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends: linux-image/ {print $2; exit}')
	fi
	[ -n "$package" ] || fail "apt knows no linux-image-amd64: run apt-get update (the package lists of a Debian release are needed)"
	download=$cache/download.$$
	mkdir -p "$download"
	echo "vm.sh: fetching the kernel package $package (once)" >&2
	if ! (cd "$download" && apt-get download -qq "$package") >"$download/log" 2>&1; then
		if [ "$(id -u)" != 0 ] || ! apt-get update -qq >>"$download/log" 2>&1 ||
			! (cd "$download" && apt-get download -qq "$package") >>"$download/log" 2>&1; then
			sed 's/^/vm.sh: /' "$download/log" >&2
			rm -rf "$download"
			fail "cannot download $package: is the network reachable, are the package lists current (apt-get update)?"
		fi
	fi
	dpkg -x "$download"/*.deb "$download/kernel" || fail "cannot unpack $package into $cache"
	depmod -b "$download/kernel" "${package#linux-image-}" || fail "depmod failed on $package"
	unpack_image "$download/kernel/boot/vmlinuz-${package#linux-image-}"
	rm -rf "$cache/kernel"
	mv "$download/kernel" "$cache/kernel"
	rm -rf "$download"
}

# The module siw of the kernel's source, built for the kernel in the cache: half a minute.
make_siw()
{
	local place=$cache/siw.$$ package headers folder
	headers=linux-headers-$version
	folder=$place/usr/src/$headers
	package=linux-source-$(cut -d. -f1,2 <<<"$version")
	echo "vm.sh: fetching $package and $headers, and building the module siw (once)" >&2
	mkdir -p "$place/siw"
	if ! (cd "$place" && apt-get download -qq "$package" "$headers" "${headers%-*}-common" "linux-kbuild-${package##*-}" &&
		for deb in linux-[hk]*.deb; do dpkg -x "$deb" .; done &&
		dpkg --fsys-tarfile "$package"_*.deb | tar -xO "./usr/src/$package.tar.xz" | xz -dcT0 |
		tar -x -C siw --strip-components=5 "$package/drivers/infiniband/sw/siw" &&
		sed -i "s,include /usr/src,include $place/usr/src," "$folder/Makefile" &&
		make -s -C "$folder" "M=$place/siw" CONFIG_RDMA_SIW=m modules && strip --strip-debug siw/siw.ko) >"$cache/siw.log" 2>&1; then
		tail -5 "$cache/siw.log" | sed 's/^/vm.sh: /' >&2
		rm -rf "$place"
		fail "cannot build the module siw for kernel $version; $cache/siw.log says why"
	fi
	mv "$place/siw/siw.ko" "$siw"
	rm -rf "$place"
}

exec 9>"$cache/lock"
flock -w 600 9 || fail "another run has held $cache/lock for ten minutes"
[ -n "$(newest_kernel)" ] || fetch_kernel
kernel=$(newest_kernel)
version=$(basename "$kernel")
version=${version#vmlinuz-}
[ ! -e "$kernel.elf" ] || kernel=$kernel.elf
siw=$cache/kernel/siw-$version.ko
[ "$VM_DEVICE" != siw ] || [ -e "$siw" ] || make_siw

# The initial file system: busybox, the modules in the order in which they load, and the two scripts below.
modules="virtio_pci virtio_console virtio_rng 9pnet_virtio 9p overlay dummy crc32_generic ib_uverbs rdma_ucm"
case $VM_DEVICE in
	rxe) modules="$modules rdma_rxe" ;;
	siw) modules="$modules crc32c_generic libcrc32c" ;;
	*) fail "VM_DEVICE is rxe or siw, not $VM_DEVICE" ;;
esac
modules="$modules ${VM_WIRE:+virtio_net} ${VM_MODULES:-}"

build_initramfs()
{
	local root=$job/initramfs n=100 file
	mkdir -p "$root"/{bin,m,proc,sys,dev,ro,rw,job,newroot}
	cp "$(command -v busybox)" "$root/bin/busybox"
	ln -s busybox "$root/bin/sh"
	for module in $modules; do
		modprobe -d "$cache/kernel" -S "$version" --show-depends "$module" >"$job/depends" 2>&1 ||
			fail "kernel $version has no module $module: $(head -1 "$job/depends")"
		awk '$1 == "insmod" {print $2}' "$job/depends"
	done | awk '!seen[$0]++' >"$job/modules"
	while read -r file; do
		case $file in
			*.xz) xz -dc "$file" ;;
			*.zst) zstd -qdc "$file" ;;
			*) cat "$file" ;;
		esac >"$root/m/$n-$(basename "${file%%.ko*}").ko"
		n=$((n + 1))
	done <"$job/modules"
	[ "$VM_DEVICE" != siw ] || cp "$siw" "$root/m/$n-siw.ko"

	cat >"$root/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
ulimit -l unlimited		# here, because PAM gives whoever logs in the limits of process 1
give_up()
{
	echo "vm.sh-reason: $*" >/dev/console
	sync
	poweroff -f
}
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for m in /m/*.ko; do
	insmod "$m" || echo "vm.sh-reason: module $m did not load" >/dev/console
done
share="-t 9p -o trans=virtio,version=9p2000.L,msize=512000"
mount $share,cache=loose,ro root /ro || give_up "cannot mount the host's file system"
mount $share,cache=none job /job || give_up "cannot mount the job folder"
mount -t tmpfs -o size=80% tmpfs /rw && mkdir -p /rw/up /rw/work &&
	mount -t overlay -o lowerdir=/ro,upperdir=/rw/up,workdir=/rw/work overlay /newroot || give_up "cannot mount the overlay"
cd /newroot
mkdir -p proc sys dev run tmp vmtmp vmjob
for d in proc sys dev; do mount --bind /$d $d; done
mkdir -p dev/pts dev/shm
mount -t devpts devpts dev/pts
for d in dev/shm run vmtmp; do mount -t tmpfs -o size=80%,mode=1777 tmpfs $d; done
mount --bind /job vmjob
out=$(cat /job/out 2>/dev/null)
if [ -n "$out" ]; then
	mkdir -p ".$out"
	mount $share,cache=none out ".$out" || give_up "cannot mount $out"
fi
ln -sf /proc/self/fd dev/fd
ln -sf fd/0 dev/stdin
ln -sf fd/1 dev/stdout
ln -sf fd/2 dev/stderr
chroot . /bin/bash /vmjob/start
sync
poweroff -f
INIT
	chmod +x "$root/init"
	(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$job/initramfs.new"
	mv "$job/initramfs.new" "$initramfs"
}

initramfs=$cache/initramfs-$version-$({ echo "$VM_DEVICE $modules"; cat "$0" "$(command -v busybox)"; } | md5sum | cut -c1-12).gz
if [ ! -e "$initramfs" ]; then
	find "$cache" -maxdepth 1 -name 'initramfs-*' -mtime +1 -delete		# not those that another run may be about to boot
	build_initramfs
fi

# /dev/kvm may be there and of no use, inside other virtual machines above all. A kernel that boots with it, and comes so far as to miss its
# root file system, is the proof; asked for once per boot of this machine.
choose_accel()
{
	local known
	known=$cache/accel-$(cat /proc/sys/kernel/random/boot_id)
	if [ ! -s "$known" ]; then
		find "$cache" -maxdepth 1 -name 'accel-*' -delete
		echo tcg >"$known"
		if [ -w /dev/kvm ] && timeout -k 2 15 qemu-system-x86_64 -accel kvm -cpu host -m 512 -nographic -no-reboot -nodefaults -serial stdio \
			-kernel "$kernel" -initrd "$initramfs" -append "console=ttyS0 quiet panic=-1 no_timer_check" </dev/null 2>/dev/null | grep -q 'vm.sh-reason: cannot mount'; then
			echo kvm >"$known"
		fi
	fi
	cat "$known"
}
VM_ACCEL=${VM_ACCEL:-$(choose_accel)}
# An emulated kernel that compares its clocks while it boots, beside other load, takes the cycle counter for slower than it is:
# one was seen whose clock then ran eight times too fast, and all time limits with it. The counter is this machine's, and
# where this machine is virtual, its kernel says how fast that is.
tsc=
case $VM_ACCEL in
	kvm) accel=kvm VM_CPU=${VM_CPU:-host} ;;
	*)
		accel="tcg,thread=multi,tb-size=512" VM_CPU=${VM_CPU:-$TCG_CPU}
		tsc=$(awk '/^flags/ && / hypervisor / {hypervisor = 1} /^cpu MHz/ {mhz = $NF}
			END {if (hypervisor && mhz) printf "tsc_early_khz=%d", mhz * 1000}' /proc/cpuinfo)
		;;
esac
exec 9>&-

# What runs inside. The output goes through a pipe because the port can be opened only once.
mkdir -p "$job/share"
echo "VM_DEVICE=$VM_DEVICE" >"$job/share/start"
cat >>"$job/share/start" <<'START'
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TMPDIR=/vmtmp PAGER=cat LC_ALL=C.UTF-8
for port in /sys/class/virtio-ports/*; do
	[ "$(cat "$port/name")" = vm.output ] && output=/dev/${port##*/}
done
mkfifo /run/output
cat /run/output >"${output:-/dev/console}" &
copier=$!
exec >/run/output 2>&1 </dev/null
hostname soft-roce
ip link set lo up
reason=
card=d0 address=10.77.0.1/24
if [ -s /vmjob/wire ]; then
	address=$(cat /vmjob/wire)
	for try in 1 2 3 4 5 6 7 8 9 10; do
		card=$(ls -d /sys/class/net/*/device 2>/dev/null | head -1)		# not lo, nor a dummy
		card=${card#/sys/class/net/} card=${card%/device}
		[ -z "$card" ] || break
		sleep 0.5
	done
else
	ip link add d0 type dummy
fi
ip link set "$card" mtu 4200 up && ip addr add "$address" dev "$card" && rdma link add "${VM_DEVICE}0" type "$VM_DEVICE" netdev "$card" ||
	reason="no device ${VM_DEVICE}0"
export VM_CARD=$card VM_DEVICE
chmod 666 /dev/infiniband/* || reason="no device files"
[ "$(ulimit -l)" = unlimited ] || reason="cannot lift the memlock limit"
if [ -z "$reason" ]; then
	cut -d' ' -f1 /proc/uptime >/vmjob/started
	/bin/bash /vmjob/command
	echo $? >/vmjob/status
else
	echo "vm.sh-reason: $reason" >/dev/console
fi
exec >/dev/null 2>&1
for i in 1 2 3 4 5 6 7 8 9 10; do
	kill -0 $copier 2>/dev/null || break
	sleep 0.1
done
START
{
	printf 'cd %q\n' "$PWD"
	printf '%q ' "$@"
	echo
} >"$job/share/command"

# no_timer_check: beside other load a check of the emulated timer fails now and then, and the kernel panics.
options=(-accel "$accel" -cpu "$VM_CPU" -m "$VM_MEMORY" -smp "${VM_CPUS:-2}" -nographic -no-reboot -nodefaults
	-kernel "$kernel" -initrd "$initramfs"
	-append "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check tsc=reliable clocksource=tsc audit=0 random.trust_cpu=on $tsc ${VM_APPEND:-}"
	-chardev "file,id=console,path=$job/console" -serial chardev:console
	-device virtio-serial-pci -chardev stdio,id=output,signal=off -device virtserialport,chardev=output,name=vm.output
	-device virtio-rng-pci
	-fsdev "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap" -device virtio-9p-pci,fsdev=root,mount_tag=root
	-fsdev "local,id=job,path=$job/share,security_model=none" -device virtio-9p-pci,fsdev=job,mount_tag=job)
if [ -n "${VM_OUT:-}" ]; then
	mkdir -p "$VM_OUT" || fail "cannot make the folder $VM_OUT"
	out=$(cd "$VM_OUT" && pwd)
	echo "$out" >"$job/share/out"
	options+=(-fsdev "local,id=out,path=$out,security_model=none" -device virtio-9p-pci,fsdev=out,mount_tag=out)
fi
if [ -n "${VM_WIRE:-}" ]; then
	echo "$wire_address" >"$job/share/wire"
	end=off
	[ "$wire_role" != listen ] || end=on
	card=${wire_address%/*}
	options+=(-netdev "stream,id=wire,server=$end,addr.type=unix,addr.path=$wire_socket"
		-device "virtio-net-pci,netdev=wire,host_mtu=4200,romfile=,mac=52:54:00:00:00:$(printf '%02x' "${card##*.}")")
fi
# shellcheck disable=SC2206
options+=(${VM_QEMU:-})

began=$(date +%s.%N)
mkfifo "$job/input"
exec 8<>"$job/input"		# input that never ends: qemu closes the output port when its input ends
mkfifo "$job/output"
touch "$job/alive"
while IFS= read -r line || [ -n "$line" ]; do
	printf '%s\n' "$line"
	touch "$job/alive"
done <"$job/output" &
copier=$!
timeout -k 5 "$VM_TIMEOUT" qemu-system-x86_64 "${options[@]}" <&8 >"$job/output" 2>"$job/qemu" &
qemu_pid=$!
stalled=
while [ "$VM_STALL" -gt 0 ] && kill -0 "$qemu_pid" 2>/dev/null; do
	if [ $(($(date +%s) - $(stat -c %Y "$job/alive"))) -ge "$VM_STALL" ]; then
		stalled=1
		kill "$qemu_pid" 2>/dev/null || true
		break
	fi
	sleep 1
done
qemu_status=0
wait "$qemu_pid" || qemu_status=$?
qemu_pid=
wait "$copier" || true

if [ "${VM_VERBOSE:-0}" = 1 ]; then
	sed 's/^/vm.sh console: /' "$job/console" >&2 || true
	echo "vm.sh: command started after $(cat "$job/share/started" 2>/dev/null || echo -) s of the machine's time; whole run $(echo "$(date +%s.%N) $began" | awk '{printf "%.1f", $1 - $2}') s" >&2
fi
if [ -s "$job/share/status" ]; then
	exit "$(cat "$job/share/status")"
fi
{
	sed 's/^/vm.sh: qemu: /' "$job/qemu"
	tr -d '\r' <"$job/console" 2>/dev/null | tail -25 | sed 's/^/vm.sh: console: /'
} >&2 || true
reason=$(tr -d '\r' <"$job/console" 2>/dev/null | sed -n 's/.*vm.sh-reason: //p' | paste -sd';')
[ -z "$stalled" ] || reason="it said nothing for VM_STALL = $VM_STALL s${reason:+; }$reason"
[ "$qemu_status" != 124 ] || reason="it was still running after VM_TIMEOUT = $VM_TIMEOUT s${reason:+; }$reason"
[ -e "$job/share/started" ] && fail "the virtual machine ended while the command ran: ${reason:-see the lines above}"
fail "the virtual machine could not be started: ${reason:-see the lines above (qemu status $qemu_status)}"
