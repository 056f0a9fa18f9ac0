#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdkit --help lists every key of the plugin, and the plugin accepts each listed key.
. "$(dirname "$0")/../../lib/functions.sh"

nbdkit --help "$plugin" >"$dir/help" || fail "nbdkit --help fails"
listed=$(sed -n 's/^ *\[\{0,1\}\([a-z][a-z-]*\)=.*/\1/p' "$dir/help" | sort)
wanted=$(printf '%s\n' base-ca base-path base-timeout changed-base ceph-conf ceph-fence ceph-keyring ceph-lock ceph-user cluster-timeout file dir offset sizelimit sector-size direct-io page-cache engine poll contexts depth \
	discard lock force temporary scratch control notify-fd swap | sort)
expect_equal "keys" "$wanted" "$listed"

# The plugin knows the key, though it may reject this value.
for key in $listed; do
	refuse_start -- "$key=" file=/nonexistent dir=/nonexistent
	reject_log "unknown parameter.*$key"
done
refuse_start -- no-such-key=1
expect_log "unknown parameter.*no-such-key"
