/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sandbox of nbdloop-fetch, which talks to servers that may be hostile: no files but those that
 * libcurl and the resolver read, no programs, no unix sockets, no other process.
 */
#ifndef ENGINE_BACKING_HTTP_FETCH_CONFINE_H
#define ENGINE_BACKING_HTTP_FETCH_CONFINE_H

#include <stddef.h>

/* For the outer process: gives up root. Returns 0 or -errno. */
int
confine_user(void);

/* For the inner process, before it reads an order. Writes what is in force, and what is not, to
 * `text`. */
void
confine(char *text, size_t size);

#endif
