/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The user that the server becomes, so that it has no more privileges than it needs.
 */
#ifndef SERVER_USER_H
#define SERVER_USER_H

#include <sys/types.h>

struct user {
	char *name; /* NULL: known by the number only; then it has just its own group */
	uid_t uid;
	gid_t gid;
};

/* By name or number.  Returns 0, or -errno with *error a sentence (caller frees). */
int
user_find(struct user *user, const char *text, char **error);

void
user_fini(struct user *user);

/* For good, for all threads.  The same. */
int
user_become(const struct user *user, char **error);

#endif
