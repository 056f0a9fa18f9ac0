# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# A machine of tests/vm/machine.sh that is user-mode Linux: a kernel of the series 6.1 that is a
# process here. Its processes compute at full speed. It has one processor and no network; its drives
# are /dev/ubda, /dev/ubdb and so on.

first_modules=(overlay)
machine_programs=(setsid)

# The kernel and its processes are a group.
machine_run()
{
	local file status=0 arguments=("ubd0=$machine/disk.raw")
	for file in "$machine"/drive*.raw; do
		[ ! -e "$file" ] || arguments+=("ubd$((${#arguments[@]}))=$file")
	done
	# Its console is its standard output, and the claims' is its standard error.
	# shellcheck disable=SC2016 # expanded by the inner shell
	timeout $machine_seconds setsid --wait bash -c 'echo $$ >"$0/pid.new" && mv "$0/pid.new" "$0/pid" && exec "$@" >"$0/console" 2>"$0/out"' \
		"$machine" "$kernel/linux.uml" "mem=$memory" "initrd=$machine/initramfs.cpio" "vm_share=$machine/share" \
		"uml_dir=$machine/" umid=uml con=null con0=null,fd:1 con1=null,fd:2 panic=-1 quiet loglevel=4 "${arguments[@]}" || status=$?
	machine_kill "$(<"$machine/pid")" || true
	return $status
}
