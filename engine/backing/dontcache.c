/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/dontcache.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

int
dontcache_kernel(const char *release, char reason[REASON_MAX])
{
	unsigned int major = 0, minor = 0;

	sscanf(release, "%u.%u", &major, &minor);
	if (major > 6 || (major == 6 && minor >= 16))
		return 0;
	/* Linux 6.14 and 6.15 have the flag, but may drop a page that was written once more while
	 * its write-back was in flight. No test shows that. */
	snprintf(reason, REASON_MAX, "Linux %u.%u %s", major, minor,
		 major == 6 && minor >= 14 ? "may lose writes with it" : "does not know it");
	return -EOPNOTSUPP;
}

int
dontcache_learn(int fd, char reason[REASON_MAX])
{
	struct utsname name;
	char byte;
	struct iovec iov = {&byte, sizeof(byte)};
	int r = uname(&name) < 0 ? -EOPNOTSUPP : dontcache_kernel(name.release, reason);

	if (r < 0)
		return r;
	/* The file system is asked the same question for reads and for writes; a read changes
	 * nothing. */
	if (preadv2(fd, &iov, 1, 0, RWF_DONTCACHE) >= 0)
		return 0;
	r = errno;
	if (r == EOPNOTSUPP)
		snprintf(reason, REASON_MAX, "the file system does not support it");
	else
		snprintf(reason, REASON_MAX, "a read of the first byte with it failed: %s",
			 strerror(r));
	return -EOPNOTSUPP;
}
