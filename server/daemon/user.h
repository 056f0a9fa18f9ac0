/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The user that the server becomes, to have no more privileges than it needs.
 */
#ifndef SERVER_DAEMON_USER_H
#define SERVER_DAEMON_USER_H

#include <stdbool.h>
#include <sys/types.h>

struct user {
	char *name; /* NULL: the user is a number without an entry in the database */
	uid_t uid;
	gid_t gid;
	bool only_group; /* .gid was given, and is the only group */
};

/* Finds USER[:GROUP], each a name or a number. Without GROUP, a number must have an entry in the
 * database, which tells its groups. Returns 0, or -errno with *error a sentence (caller frees) or
 * NULL. */
int
user_find(struct user *user, const char *text, char **error);

void
user_fini(struct user *user);

/* Becomes the user for good, in all threads. Returns as user_find(). */
int
user_become(const struct user *user, char **error);

#endif
