/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/user.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int
user_find(struct user *user, const char *text, char **error)
{
	const struct passwd *entry;
	char *end;

	*user = (struct user){0};
	errno = 0;
	entry = getpwnam(text);
	if (!entry && text[0] >= '0' && text[0] <= '9') {
		unsigned long number = strtoul(text, &end, 10);

		/* The highest means "no user". */
		if (*end == '\0' && number < (uid_t)-1) {
			user->uid = user->gid = (uid_t)number;
			entry = getpwuid(user->uid);
			if (!entry)
				return 0;
		}
	}
	if (!entry) {
		if (asprintf(error, "--user=%s: there is no such user", text) < 0)
			*error = NULL;
		return -ENOENT;
	}
	user->uid = entry->pw_uid;
	user->gid = entry->pw_gid;
	user->name = strdup(entry->pw_name);
	return user->name ? 0 : -ENOMEM;
}

void
user_fini(struct user *user)
{
	free(user->name);
	*user = (struct user){0};
}

static int
set_groups(const struct user *user)
{
	return user->name ? initgroups(user->name, user->gid) : setgroups(1, &user->gid);
}

int
user_become(const struct user *user, char **error)
{
	int err;

	if (set_groups(user) == 0 && setresgid(user->gid, user->gid, user->gid) == 0 &&
	    setresuid(user->uid, user->uid, user->uid) == 0)
		return 0;
	err = errno;
	if (asprintf(error, "--user: cannot become user %u: %s%s", (unsigned int)user->uid, strerror(err),
		     err == EPERM ? "; only root can" : "") < 0)
		*error = NULL;
	return -err;
}
