/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/http/http.h"

#include "engine/backing/backing.h"
#include "engine/backing/http/fetcher.h"
#include "engine/backing/http/http_name.h"

#include "common/clock.h"
#include "common/error.h"
#include "common/json.h"
#include "common/log.h"
#include "engine/image_config.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An open image. */
struct http_image {
	struct fetch_page *page;
	unsigned int timeout; /* base-timeout, in seconds */
	char *identity;
};

static struct http_image *
http_image_of(const struct backing *backing)
{
	return backing->state;
}

static void
http_image_close(struct backing *backing)
{
	struct http_image *image = http_image_of(backing);

	if (image) {
		fetcher_close(image->page);
		fetcher_leave();
		free(image->identity);
		free(image);
	}
	backing->state = NULL;
	backing->identity = NULL;
	free(backing->path);
	backing->path = NULL;
}

static int64_t
http_image_size(const struct backing *backing)
{
	return (int64_t)fetcher_size(http_image_of(backing)->page);
}

static bool
http_image_same(const struct backing *a, const struct backing *b)
{
	return strcmp(a->identity, b->identity) == 0;
}

static void
http_image_start(const struct backing *backing, struct backing_call *call)
{
	fetcher_start(http_image_of(backing)->page, call);
}

static void
http_image_stop_waiting(const struct backing *backing)
{
	fetcher_stop_waiting(http_image_of(backing)->page);
}

/* ---- the first bytes */

struct http_image_waiter {
	struct backing_call call;
	pthread_mutex_t mutex; /* guards the members below */
	pthread_cond_t over;
	bool done;
	int result;
};

static void
http_image_waited(struct backing_call *call, int result)
{
	struct http_image_waiter *waiter = call->owner;

	pthread_mutex_lock(&waiter->mutex);
	waiter->done = true;
	waiter->result = result;
	pthread_cond_signal(&waiter->over);
	pthread_mutex_unlock(&waiter->mutex);
}

static ssize_t
http_image_peek(const struct backing *backing, void *buffer, size_t length, uint64_t offset)
{
	uint64_t size = fetcher_size(http_image_of(backing)->page);
	struct http_image_waiter waiter = {
		.call = {.op = CALL_READ,
			 .offset = offset,
			 .buffer = buffer,
			 .done = http_image_waited,
			 .owner = &waiter},
		.mutex = PTHREAD_MUTEX_INITIALIZER,
		.over = PTHREAD_COND_INITIALIZER,
	};

	if (offset >= size)
		return 0;
	waiter.call.length = length < size - offset ? length : (size_t)(size - offset);
	http_image_start(backing, &waiter.call);
	pthread_mutex_lock(&waiter.mutex);
	while (!waiter.done)
		pthread_cond_wait(&waiter.over, &waiter.mutex);
	pthread_mutex_unlock(&waiter.mutex);
	return waiter.result;
}

/* ---- holes: HTTP knows none */

static bool
http_image_have_holes(const struct backing *backing)
{
	(void)backing;
	return false;
}

static int
http_image_extents(const struct backing *backing, uint64_t offset, uint64_t length, bool one,
		   extent_visit visit, void *data)
{
	(void)backing;
	(void)one;
	return length ? visit(data, offset, length, false) : 0;
}

/* ---- the status */

/* Formats the time that was `ms` milliseconds ago. */
static void
http_image_time_text(int64_t ms, char text[32])
{
	time_t since = clock_seconds(CLOCK_REALTIME) - (time_t)(ms / 1000);
	struct tm parts;

	strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&since, &parts));
}

static void
http_image_put_status(const struct backing *backing, struct json *json)
{
	const struct http_image *image = http_image_of(backing);
	char why[FETCH_TEXT_MAX], since[32];
	int64_t ms = fetcher_trouble(image->page, why);

	http_image_time_text(ms, since);
	json_object_begin(json, "http");
	json_put_string(json, "validator", fetcher_validator(image->page));
	json_put_uint(json, "base_timeout", image->timeout);
	json_put_string(json, "failing_since", ms > 0 ? since : NULL);
	json_put_string(json, "failure", ms > 0 ? why : NULL);
	json_object_end(json);
}

/* ---- opening */

static int
http_image_prepare(char **error)
{
	return fetcher_join(error);
}

/* After a failure, http_image_close() frees what there is. */
static int
http_image_find(struct backing *backing, const struct image_config *config, char **error)
{
	struct http_image *image = http_image_of(backing);
	int r = fetcher_open(backing->path, config->base_ca, config->base_timeout, &image->page,
			     error);

	if (r < 0)
		return r;
	image->timeout = config->base_timeout;
	if (asprintf(&image->identity, "%s %llu %s", backing->path,
		     (unsigned long long)fetcher_size(image->page),
		     fetcher_validator(image->page)) < 0) {
		image->identity = NULL;
		return -ENOMEM;
	}
	backing->identity = image->identity;
	if (!fetcher_validator(image->page)[0])
		log_warning("%s: the server sends neither an ETag nor a Last-Modified: a change of "
			    "the file that keeps its size would go unnoticed",
			    backing->path);
	return 0;
}

static int
http_image_open(struct backing *backing, int dirfd, const char *path, unsigned int flags,
		const struct image_config *config, char **error)
{
	int r = http_name_check(path, error);

	(void)dirfd;
	if (r == 0)
		r = fetcher_join(error);
	if (r < 0)
		return r;
	*backing = (struct backing){
		.kind = &backing_http,
		.path = strdup(path),
		.state = calloc(1, sizeof(struct http_image)),
		.fd = -1,
		.direct_fd = -1,
		.claim_fd = -1,
		.block_size = 1,
	};
	snprintf(backing->direct_reason, REASON_MAX, "the image is on a web server");
	if (!(flags & BACKING_READ_ONLY))
		snprintf(backing->read_only_reason, REASON_MAX, "it is on a web server");
	if (!backing->state)
		fetcher_leave();
	r = backing->path && backing->state ? http_image_find(backing, config, error) : -ENOMEM;
	if (r < 0)
		http_image_close(backing);
	return r;
}

const struct backing_kind backing_http = {
	.facts = &image_kind_http,
	.prepare = http_image_prepare,
	.release = fetcher_leave,
	.open = http_image_open,
	.engine = "libcurl",
	.start = http_image_start,
	.close = http_image_close,
	.size = http_image_size,
	.same = http_image_same,
	.peek = http_image_peek,
	.extents = http_image_extents,
	.have_holes = http_image_have_holes,
	.stop_waiting = http_image_stop_waiting,
	.put_status = http_image_put_status,
};
