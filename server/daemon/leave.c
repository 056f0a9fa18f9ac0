/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/daemon/leave.h"

#include "server/exports/exports.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/thread.h"

#include <unistd.h>

/* Milliseconds for one image to be closed: they are closed one after the other. With a snapshot,
 * the cluster must also remove it, which takes a second in an idle one. */
#define CLOSE_LIMIT          2000
#define CLOSE_SNAPSHOT_LIMIT 10000

static void *
wait_and_exit(void *data)
{
	struct leave *leave = data;
	int64_t left;

	pthread_mutex_lock(&leave->mutex);
	while (!leave->over && (left = leave->until - clock_ms(CLOCK_MONOTONIC)) > 0)
		thread_wait(&leave->news, &leave->mutex, (unsigned int)left);
	if (!leave->over) {
		log_warning("the Ceph cluster does not answer: the server exits without closing "
			    "its images; the next one that writes to them fences this one first%s",
			    leave->snapshots ? "; snapshots of the images, nbdloop.*, may be left"
					     : "");
		pid_file_close(leave->pid_file);
		_exit(leave->status);
	}
	pthread_mutex_unlock(&leave->mutex);
	return NULL;
}

/* The thread finds that out when it looks at the clock. */
static void
image_closed(void *data)
{
	struct leave *leave = data;

	pthread_mutex_lock(&leave->mutex);
	leave->until = clock_ms(CLOCK_MONOTONIC) + leave->limit;
	pthread_mutex_unlock(&leave->mutex);
}

void
leave_begin(struct leave *leave, struct exports *exports, struct pid_file *pid_file, int status)
{
	*leave = (struct leave){
		.pid_file = pid_file,
		.status = status,
	};
	if (!exports || !exports_may_be_left(exports))
		return;
	leave->snapshots = exports_have_snapshots(exports);
	leave->limit = leave->snapshots ? CLOSE_SNAPSHOT_LIMIT : CLOSE_LIMIT;
	leave->until = clock_ms(CLOCK_MONOTONIC) + leave->limit;
	pthread_mutex_init(&leave->mutex, NULL);
	thread_condition_init(&leave->news);
	/* Without a thread to be had, it waits as long as it takes. */
	leave->started = thread_start(&leave->thread, wait_and_exit, leave) == 0;
	if (leave->started) {
		exports_tell_closed(exports, image_closed, leave);
		return;
	}
	pthread_cond_destroy(&leave->news);
	pthread_mutex_destroy(&leave->mutex);
}

void
leave_end(struct leave *leave)
{
	if (!leave->started)
		return;
	pthread_mutex_lock(&leave->mutex);
	leave->over = true;
	pthread_cond_signal(&leave->news);
	pthread_mutex_unlock(&leave->mutex);
	pthread_join(leave->thread, NULL);
	pthread_cond_destroy(&leave->news);
	pthread_mutex_destroy(&leave->mutex);
}
