/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/daemon/user.h"

#include "common/cleanup.h"
#include "common/error.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Reads the number of a user or group; both have 32 bits, and the highest number means "none". */
static bool
read_number(const char *text, uint32_t *number)
{
	unsigned long long value;
	char *end;

	if (text[0] < '0' || text[0] > '9')
		return false;
	value = strtoull(text, &end, 10);
	*number = (uint32_t)value;
	return *end == '\0' && value < UINT32_MAX;
}

/* A number without an entry leaves .name NULL. */
static int
find_name(struct user *user, const char *name)
{
	const struct passwd *entry = getpwnam(name);

	if (!entry) {
		if (!read_number(name, &user->uid))
			return -ENOENT;
		entry = getpwuid(user->uid);
		if (!entry)
			return 0;
	}
	user->uid = entry->pw_uid;
	user->gid = entry->pw_gid;
	user->name = strdup(entry->pw_name);
	return user->name ? 0 : -ENOMEM;
}

int
user_find(struct user *user, const char *text, char **error)
{
	char *CLEANUP_FREE name = strdup(text);
	char *group;
	int r;

	*user = (struct user){0};
	if (!name)
		return -ENOMEM;
	group = strchr(name, ':');
	if (group)
		*group++ = '\0';
	r = find_name(user, name);
	if (r == -ENOENT)
		return error_set(error, r, "--user=%s: there is no such user", text);
	if (r < 0)
		return r;
	if (group) {
		const struct group *entry = getgrnam(group);

		user->only_group = true;
		if (entry)
			user->gid = entry->gr_gid;
		else if (!read_number(group, &user->gid))
			return error_set(error, -ENOENT, "--user=%s: there is no such group", text);
	}
	/* A group of the same number may belong to anybody. */
	if (!group && !user->name)
		return error_set(
			error, -ENOENT,
			"--user=%s: no user has this number, so its group must be given: USER:GROUP",
			text);
	return r;
}

void
user_fini(struct user *user)
{
	free(user->name);
	*user = (struct user){0};
}

int
user_become(const struct user *user, char **error)
{
	int r = user->name && !user->only_group ? initgroups(user->name, user->gid)
						: setgroups(1, &user->gid);
	int err;

	if (r == 0 && setresgid(user->gid, user->gid, user->gid) == 0 &&
	    setresuid(user->uid, user->uid, user->uid) == 0)
		return 0;
	err = errno;
	return error_set(error, -err, "--user: cannot become user %u: %s%s",
			 (unsigned int)user->uid, strerror(err),
			 err == EPERM ? "; only root can" : "");
}
