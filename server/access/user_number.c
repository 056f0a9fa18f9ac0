/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/access/user_number.h"

#include "common/cleanup.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdlib.h>

/* Bytes for an entry; a group may have thousands of members. */
#define ENTRY_MIN ((size_t)1 << 12)
#define ENTRY_MAX ((size_t)1 << 24)

/* An error that says only that there is no such name (getpwnam(3)). */
static bool
is_absence(int r)
{
	return r == 0 || r == ENOENT || r == ESRCH || r == EBADF || r == EPERM;
}

int
user_number(const char *name, uint32_t *uid)
{
	int r = ERANGE;

	for (size_t size = ENTRY_MIN; r == ERANGE && size <= ENTRY_MAX; size *= 2) {
		char *CLEANUP_FREE buffer = malloc(size);
		struct passwd entry, *found;

		if (!buffer)
			return -ENOMEM;
		r = getpwnam_r(name, &entry, buffer, size, &found);
		if (r == 0 && found) {
			*uid = entry.pw_uid;
			return 0;
		}
	}
	return is_absence(r) ? -ENOENT : -r;
}

int
group_number(const char *name, uint32_t *gid)
{
	int r = ERANGE;

	for (size_t size = ENTRY_MIN; r == ERANGE && size <= ENTRY_MAX; size *= 2) {
		char *CLEANUP_FREE buffer = malloc(size);
		struct group entry, *found;

		if (!buffer)
			return -ENOMEM;
		r = getgrnam_r(name, &entry, buffer, size, &found);
		if (r == 0 && found) {
			*gid = entry.gr_gid;
			return 0;
		}
	}
	return is_absence(r) ? -ENOENT : -r;
}
