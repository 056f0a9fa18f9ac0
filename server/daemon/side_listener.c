/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/daemon/side_listener.h"

#include "server/daemon/listener.h"

#include "common/cleanup.h"
#include "common/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#define CONTROL_SUFFIX ".sock"

int
side_listener_open(void *data, bool local, char **error)
{
	struct side_listener *side = data;
	struct listener *listener = NULL;
	char *CLEANUP_FREE path = NULL;
	size_t length, suffix = strlen(CONTROL_SUFFIX);
	int r;

	if (!side->control || (!side->needed && !local) || atomic_load(&side->listener))
		return 0;
	/* The control socket's path, with another suffix. */
	length = strlen(side->control);
	if (length > suffix && strcmp(side->control + length - suffix, CONTROL_SUFFIX) == 0)
		length -= suffix;
	if (asprintf(&path, "%.*s.nbd", (int)length, side->control) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	r = listeners_add_unix(&listener, path, true, error);
	if (r < 0)
		return r;
	log_info("listening on %s, for users of the control socket", listener->text);
	atomic_store(&side->listener, listener);
	eventfd_write(side->wake, 1);
	return 0;
}

const char *
side_listener_path(const void *data)
{
	const struct side_listener *side = data;
	const struct listener *listener = atomic_load(&side->listener);

	return listener ? listener->file.path : NULL;
}

void
side_listener_close(struct side_listener *side)
{
	struct listener *listener = atomic_exchange(&side->listener, NULL);

	if (listener)
		listeners_close(&listener);
}
