/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads that carry out requests to write a file, several at a time and in no order.
 */
#ifndef TOOL_BACKUP_WRITERS_H
#define TOOL_BACKUP_WRITERS_H

#include "tool/backup/end.h"

struct writers;

/* `carry_out` is called with `data` on any of the threads, and returns 0 or an errno.  The caller
 * frees it (writers_free); NULL: the machine has no room for a thread. */
struct writers *
writers_new(int (*carry_out)(void *data, const struct end_request *request), void *data);

/* Ends the threads after the requests that they have begun, and forgets the others. */
void
writers_free(struct writers *writers);

/* The caller keeps the request until writers_finished() has returned it. */
void
writers_start(struct writers *writers, struct end_request *request);

/* Can be read (POLLIN) when writers_finished() has a request to return. */
int
writers_descriptor(const struct writers *writers);

/* A request that was carried out, with its result; NULL: there is none now. */
struct end_request *
writers_finished(struct writers *writers, int *failed);

#endif
