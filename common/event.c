/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/event.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const event_names[EVENT_KINDS] = {
	[EVENT_READY] = "ready",
	[EVENT_LOCK_TAKEN] = "lock-taken",
	[EVENT_LOCK_RELEASED] = "lock-released",
	[EVENT_FENCED] = "fenced",
	[EVENT_REFUSED] = "refused",
	[EVENT_ENDING] = "ending",
};

/* Held while a line is written, so that lines of several threads don't mix. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int target = -1; /* -1: nobody reads events */

/* A file would make the writer wait for a disk, and a terminal would stay non-blocking for its
 * other users. */
int
event_open(unsigned int fd, char **error)
{
	struct stat st;

	if (fstat((int)fd, &st) < 0)
		return error_set(error, -EBADF,
				 "notify-fd=%u: it is not open; the program that starts the server "
				 "must pass it",
				 fd);
	if (!S_ISFIFO(st.st_mode) && !S_ISSOCK(st.st_mode))
		return error_set(error, -EINVAL, "notify-fd=%u: it must be a pipe or a socket", fd);
	/* What was opened or taken here closes at exec(), and what was inherited does not. If this
	 * number were closed and opened again, as an image, an event would overwrite its bytes. */
	if (fcntl((int)fd, F_GETFD) & FD_CLOEXEC)
		return error_set(error, -EINVAL,
				 "notify-fd=%u: it has another use; pass a pipe or a socket of its "
				 "own",
				 fd);
	if (fcntl((int)fd, F_SETFD, FD_CLOEXEC) < 0 || fcntl((int)fd, F_SETFL, O_NONBLOCK) < 0)
		return error_set(error, -errno, "notify-fd=%u: %s", fd, strerror(errno));
	target = (int)fd;
	return 0;
}

void
event_close(void)
{
	pthread_mutex_lock(&mutex);
	if (target >= 0)
		close(target);
	target = -1;
	pthread_mutex_unlock(&mutex);
}

char *
event_line(const struct event *event, size_t *size)
{
	struct json json;
	char *line = NULL;
	FILE *out = open_memstream(&line, size);

	if (!out)
		return NULL;
	json_init(&json, out);
	json_object_begin(&json, NULL);
	json_put_string(&json, "event", event_names[event->kind]);
	if (event->subject)
		json_put_string(&json, "subject", event->subject);
	if (event->client)
		json_put_string(&json, "client", event->client);
	if (event->error)
		json_put_uint(&json, "errno", (unsigned int)event->error);
	if (event->text)
		json_put_string(&json, "text", event->text);
	if (event->addresses)
		json_array_begin(&json, "addresses");
	for (const char *const *at = event->addresses; at && *at; at++)
		json_put_string(&json, NULL, *at);
	if (event->addresses)
		json_array_end(&json);
	json_object_end(&json);
	fputc('\n', out);
	json_text_close(out, &line, size);
	return line;
}

/* A reader that is gone has had what it wanted: some wait only for the first line. */
void
event_raise(const struct event *event)
{
	char *CLEANUP_FREE line = NULL;
	size_t size = 0;
	ssize_t n;
	int err = ENOMEM;

	pthread_mutex_lock(&mutex);
	if (target >= 0 && (line = event_line(event, &size)) != NULL) {
		n = write(target, line, size);
		err = n == (ssize_t)size ? 0 : n < 0 ? errno : EAGAIN;
	}
	if (target >= 0 && err) {
		if (err != EPIPE)
			log_warning("notify-fd=%d: \"%s\" can't be written, so no more events "
				    "are: %s",
				    target, event_names[event->kind], strerror(err));
		close(target);
		target = -1;
	}
	pthread_mutex_unlock(&mutex);
}
