/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/guard/settling.h"

#include "tool/failure.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

/* With --swap, all of it is locked memory. */
#define STACK ((size_t)256 << 10)

static void *
run(void *data)
{
	struct settling *settling = data;

	settling->settled = attachment_settle(settling->attachment, &settling->error);
	close(settling->thread_fd);
	return NULL;
}

static int
start(struct settling *settling)
{
	pthread_attr_t attributes;
	int err = pthread_attr_init(&attributes);

	if (err)
		return err;
	pthread_attr_setstacksize(&attributes, STACK);
	err = pthread_create(&settling->thread, &attributes, run, settling);
	pthread_attr_destroy(&attributes);
	return err;
}

bool
settling_begin(struct settling *settling, const struct attachment *attachment, GError **error)
{
	int ends[2], err;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return failure(error, errno, "no pipe: %s", g_strerror(errno));
	*settling =
		(struct settling){.attachment = attachment, .fd = ends[0], .thread_fd = ends[1]};
	err = start(settling);
	if (err == 0)
		return true;
	close(ends[0]);
	close(ends[1]);
	return failure(error, err, "no thread: %s", g_strerror(err));
}

bool
settling_wait(const struct settling *settling, int milliseconds)
{
	struct pollfd end = {.fd = settling->fd};

	return poll(&end, 1, milliseconds) > 0;
}

bool
settling_end(struct settling *settling, GError **error)
{
	pthread_join(settling->thread, NULL);
	close(settling->fd);
	if (settling->error)
		g_propagate_error(error, settling->error);
	return settling->settled;
}
