/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * attachment_settle() in a thread of its own, so that the guard can meanwhile look after the server
 * that it waits for.
 */
#ifndef TOOL_GUARD_SETTLING_H
#define TOOL_GUARD_SETTLING_H

#include "tool/guard/attachment.h"

#include <glib.h>
#include <pthread.h>
#include <stdbool.h>

struct settling {
	const struct attachment *attachment;
	pthread_t thread;
	int fd;        /* a pipe's end, which hangs up when the thread has done its work */
	int thread_fd; /* the other end, the thread's */
	bool settled;  /* the thread's until then, as is `error` */
	GError *error;
};

/* False with an error: it hasn't begun, and there is nothing to end.  `attachment` stays where it
 * is until settling_end(). */
bool
settling_begin(struct settling *settling, const struct attachment *attachment, GError **error);

/* Whether it has done its work; waits so many milliseconds for that. */
bool
settling_wait(const struct settling *settling, int milliseconds);

/* Waits for it, and returns what attachment_settle() has. */
bool
settling_end(struct settling *settling, GError **error);

#endif
