/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/http/fetch_page.h"

#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* In milliseconds: the pauses after failures, and the longest wait without a new byte after
 * fetcher_stop_waiting(). */
#define PAUSE_FIRST   100
#define PAUSE_MAX     5000
#define STOPPED_LIMIT 1000

/* ---- reads that wait */

void
fetch_page_queue(struct fetch_page *page, struct backing_call *call)
{
	call->next = NULL;
	*page->waiting_tail = call;
	page->waiting_tail = &call->next;
}

struct backing_call *
fetch_page_take_waiting(struct fetch_page *page)
{
	struct backing_call *call = page->waiting;

	page->waiting = call->next;
	if (!page->waiting)
		page->waiting_tail = &page->waiting;
	return call;
}

/* ---- failures */

void
fetch_page_tell_failure(struct fetch_page *page, int64_t now)
{
	time_t since = clock_seconds(CLOCK_REALTIME);
	char text[32];
	struct tm parts;

	if (page->told)
		return;
	page->told = true;
	if (page->failing_since)
		since -= (time_t)((now - page->failing_since) / 1000);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&since, &parts));
	log_error("%s: reads fail, since %s: %s", page->url, text, page->why);
}

void
fetch_page_failed(struct fetch_page *page, const char *why, int64_t now)
{
	/* Each read shall be tried a few times before it is late. */
	const int64_t longest = page->timeout / 4 < PAUSE_MAX ? page->timeout / 4 : PAUSE_MAX;

	if (!page->failing_since)
		page->failing_since = now;
	snprintf(page->why, sizeof(page->why), "%s", why);
	/* Other transfers that failed meanwhile do not make the pause longer. */
	if (now < page->paused)
		return;
	page->pause = page->pause ? page->pause * 2 : PAUSE_FIRST;
	if (page->pause > longest)
		page->pause = longest;
	page->paused = now + page->pause;
}

void
fetch_page_works(struct fetch_page *page)
{
	if (page->told)
		log_info("%s: reads succeed again", page->url);
	page->told = false;
	page->failing_since = 0;
	page->why[0] = '\0';
	page->pause = page->paused = 0;
}

bool
fetch_page_is_late(const struct fetch_page *page, int64_t since, int64_t now, int *result)
{
	int64_t limit = page->timeout;

	*result = page->stops ? -ESHUTDOWN : -EIO;
	if (page->stops && page->failing_since)
		limit = 0;
	else if (page->stops && limit > STOPPED_LIMIT)
		limit = STOPPED_LIMIT;
	return now - since >= limit;
}

/* ---- the begin and the end of a page */

struct fetch_page *
fetch_page_new(const char *url, unsigned int timeout)
{
	struct fetch_page *page = calloc(1, sizeof(*page));

	if (!page)
		return NULL;
	page->ca_fd = -1;
	page->timeout = timeout * INT64_C(1000);
	page->waiting_tail = &page->waiting;
	page->url = strdup(url);
	if (page->url)
		return page;
	free(page);
	return NULL;
}

int
fetch_page_open_ca(struct fetch_page *page, const char *ca_file, char **error)
{
	struct stat st;

	if (!ca_file)
		return 0;
	/* A FIFO must not make the start wait. */
	page->ca_fd = open(ca_file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (page->ca_fd < 0 || fstat(page->ca_fd, &st) < 0)
		return error_set(error, -errno, "base-ca=%s: %s", ca_file, strerror(errno));
	return S_ISREG(st.st_mode)
		       ? 0
		       : error_set(error, -EINVAL, "base-ca=%s: it is no regular file", ca_file);
}

void
fetch_page_free(struct fetch_page *page)
{
	if (page->ca_fd >= 0)
		close(page->ca_fd);
	free(page->url);
	free(page);
}
