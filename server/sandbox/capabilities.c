/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/sandbox/capabilities.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const unsigned int kept[] = {
	CAP_DAC_OVERRIDE,
	CAP_DAC_READ_SEARCH,
	CAP_IPC_LOCK,
};

static bool
capability_is_kept(unsigned int capability)
{
	for (unsigned int i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
		if (kept[i] == capability)
			return true;
	}
	return false;
}

/* EINVAL ends the list of those that the kernel knows.  EPERM: without CAP_SETPCAP nothing can be
 * taken out; but then a program gets nothing either, for it gets no new privileges. */
static int
drop_bounds(void)
{
	for (unsigned int i = 0; prctl(PR_CAPBSET_READ, i, 0, 0, 0) >= 0; i++) {
		if (!capability_is_kept(i) && prctl(PR_CAPBSET_DROP, i, 0, 0, 0) < 0)
			return errno == EPERM ? 0 : -errno;
	}
	return 0;
}

int
capabilities_drop(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
	uint32_t mask[_LINUX_CAPABILITY_U32S_3] = {0};
	int r = drop_bounds();

	if (r < 0)
		return r;
	if (syscall(SYS_capget, &header, data) < 0)
		return -errno;
	for (unsigned int i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		mask[CAP_TO_INDEX(kept[i])] |= CAP_TO_MASK(kept[i]);
	for (unsigned int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		data[i].effective &= mask[i];
		data[i].permitted &= mask[i];
		data[i].inheritable = 0;
	}
	if (syscall(SYS_capset, &header, data) < 0)
		return -errno;
	/* They would outlive the inheritable ones only until now, but nothing says so. */
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	return 0;
}
