/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The access to an export: the rules that say which clients may use it, and which of them may write
 * it. Never changes; several may hold it.
 */
#ifndef SERVER_ACCESS_ACCESS_H
#define SERVER_ACCESS_ACCESS_H

#include "server/access/identity.h"
#include "server/access/rule.h"

#include <stdbool.h>

enum access_right {
	ACCESS_NONE,
	ACCESS_READ,
	ACCESS_WRITE,
};

struct access {
	char *allow, *allow_write; /* as they were written; NULL: not given */
	struct rules readers, writers;
	_Atomic unsigned int holders;
};

/*
 * Reads the rules; either may be NULL. With neither, *access is NULL, and all clients may read and
 * write. A rule that can name no client is an error: see rules_problem(). May take a while: see
 * rules_parse(). Returns 0, or -errno with *error a sentence (caller frees; NULL: out of memory).
 * The caller holds *access.
 */
int
access_new(const char *allow, const char *allow_write, unsigned int proofs, struct access **access,
	   char **error);

/* One holder more; returns `access`. NULL is fine, here and below. */
struct access *
access_hold(struct access *access);

/* One holder less; the last one frees it. */
void
access_release(struct access *access);

/* The rights of the client. Clients that `allow_write` names may read and write; so may those that
 * `allow` names if there is no `allow_write`, else they may only read. A private client
 * (identity.h) may always read. */
enum access_right
access_right(const struct access *access, const struct identity *identity);

/* Returns whether both have the same rules, and the names in them had the same numbers. */
bool
access_same(const struct access *a, const struct access *b);

/* Logs which rules new clients of the export have. */
void
access_log(const struct access *access, const char *export);

#endif
