/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads from pages (files on web servers), by the process nbdloop-fetch, which has libcurl.
 *
 * There is one nbdloop-fetch for a process, and one thread that speaks with it. A read waits in its
 * page's queue until the thread has sent it; then it has a slot. A failed transfer puts the read
 * back into the queue, with the bytes that have come, and no transfer of the page begins during a
 * pause, which grows. A read without a new byte for the page's timeout fails with EIO. Only the
 * thread writes into a read's buffer and ends the read, so it may end a read at any time.
 */
#ifndef ENGINE_BACKING_HTTP_FETCHER_H
#define ENGINE_BACKING_HTTP_FETCHER_H

#include "engine/backing/http/fetch_wire.h"
#include "engine/backing/kind.h"

#include <stdbool.h>
#include <stdint.h>

struct fetch_page;

/* Starts nbdloop-fetch and the thread, if they do not run yet. They run until as many calls of
 * fetcher_leave() have come. Returns 0; or -errno with *error, a sentence (the caller frees it). */
int
fetcher_join(char **error);
void
fetcher_leave(void);

/* Finds the page at a URL, with its size and validator. `ca_file`: with the certificates that
 * verify its server; NULL: those of the system. `timeout` is in seconds. Waits for the server.
 * Returns 0, and the caller gives *page back with fetcher_close(); or -errno with *error, as above.
 */
int
fetcher_open(const char *url, const char *ca_file, unsigned int timeout, struct fetch_page **page,
	     char **error);

/* Gives a page back. It may be NULL. No read may be under way. */
void
fetcher_close(struct fetch_page *page);

/* Begins a read. Never waits. */
void
fetcher_start(struct fetch_page *page, struct backing_call *call);

/* Ends reads that wait because of a failure, with -ESHUTDOWN, and later ones after one failure or
 * one second. Never waits. */
void
fetcher_stop_waiting(struct fetch_page *page);

/* The size in bytes; and what stays the same as long as the page does: an ETag or a time. */
uint64_t
fetcher_size(const struct fetch_page *page);
const char *
fetcher_validator(const struct fetch_page *page);

/* Copies the reason of the present failure into `why`, "" if there is none. Returns since when,
 * in milliseconds; 0 without a failure. Never waits. */
int64_t
fetcher_trouble(struct fetch_page *page, char why[FETCH_TEXT_MAX]);

#endif
