#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# vm: memory 768M
# vm: limit 900
# Debian's packages, of which NBDLOOP_PACKAGES names a directory, attach an image, keep its files,
# and are not removed under it: debian/tests/attach.
. "$(dirname "$0")/functions.sh"

packages=${NBDLOOP_PACKAGES:-}
[ -d "$packages" ] || skip "NBDLOOP_PACKAGES names no directory of packages: see debian/README.source"
# Nothing of the build tree: the packages' programs.
PATH=/usr/sbin:/usr/bin:/sbin:/bin
quietly dpkg --no-triggers -i "$packages"/nbdloop_*.deb "$packages"/nbdloopd_*.deb
AUTOPKGTEST_TMP=$dir "$VM_SOURCE/../../debian/tests/attach" >"$dir/attach.log" 2>&1 || fail "debian/tests/attach fails"
[ ! -e /usr/sbin/nbdloop ] || fail "nbdloop was not removed"
