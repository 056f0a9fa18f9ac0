/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A page: a file on a web server, as fetcher.c sees it. It contains the reads that wait for a
 * transfer, and since when, and why, transfers fail. The functions neither lock nor wait: unless a
 * comment says otherwise, the caller holds fetcher.c's mutex.
 */
#ifndef ENGINE_BACKING_HTTP_FETCH_PAGE_H
#define ENGINE_BACKING_HTTP_FETCH_PAGE_H

#include "engine/backing/http/fetch_wire.h"
#include "engine/backing/kind.h"

#include <stdbool.h>
#include <stdint.h>

struct fetch_page {
	/* Constant after fetcher_open(). */
	char *url;
	int ca_fd; /* -1: the system's certificates */
	uint32_t id;
	int64_t timeout; /* ms */
	uint64_t size;
	char validator[FETCH_VALIDATOR_MAX];

	/* Guarded by fetcher.mutex. */
	struct backing_call *waiting, **waiting_tail;
	bool stops;               /* fetcher_stop_waiting() */
	bool closing;             /* the thread forgets and frees it */
	bool opened;              /* the attempt of fetcher_open() is over */
	int result;               /* of the attempt */
	int64_t failing_since;    /* clock_ms(); 0: it does not fail */
	char why[FETCH_TEXT_MAX]; /* "": it does not */
	struct fetch_page *next;

	/* The thread's. */
	bool known; /* nbdloop-fetch has been told of it */
	bool told;  /* the log has, of the failure */
	unsigned int transfers;
	int64_t pause, paused; /* the last pause, and the clock_ms() of its end; 0: none */
	int64_t progress;      /* the clock_ms() of the last byte */
};

/* Returns a page without a server, or NULL. `timeout` is in seconds. Without the mutex. */
struct fetch_page *
fetch_page_new(const char *url, unsigned int timeout);
void
fetch_page_free(struct fetch_page *page);

/* Opens the file with certificates; NULL: there is none. Returns 0; or -errno with *error, a
 * sentence (the caller frees it). Without the mutex. */
int
fetch_page_open_ca(struct fetch_page *page, const char *ca_file, char **error);

/* Adds a read to those that wait, and takes the first one, which there must be. */
void
fetch_page_queue(struct fetch_page *page, struct backing_call *call);
struct backing_call *
fetch_page_take_waiting(struct fetch_page *page);

/* Notes that a transfer has failed: no other begins before page->paused. */
void
fetch_page_failed(struct fetch_page *page, const char *why, int64_t now);
/* Notes that one has succeeded. */
void
fetch_page_works(struct fetch_page *page);
/* Tells the log of a failure that lasts, once. */
void
fetch_page_tell_failure(struct fetch_page *page, int64_t now);

/* Returns whether a read has waited too long, and with which result it ends then. `since`: when its
 * last byte came. */
bool
fetch_page_is_late(const struct fetch_page *page, int64_t since, int64_t now, int *result);

#endif
