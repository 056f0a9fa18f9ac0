/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a server whose images are all in Ceph, and whose cluster does not answer: after a
 * while in which no image could be closed, the process exits with calls under way.
 */
#ifndef SERVER_DAEMON_LEAVE_H
#define SERVER_DAEMON_LEAVE_H

#include "server/daemon/pid_file.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct exports;

struct leave {
	struct pid_file *pid_file;
	int status;     /* of the process */
	int64_t limit;  /* for one image to be closed, ms */
	bool snapshots; /* there may be some that the cluster has to remove */
	bool started;
	pthread_t thread;
	pthread_mutex_t mutex; /* guards the members below */
	pthread_cond_t news;
	int64_t until; /* CLOCK_MONOTONIC, ms: then the process exits */
	bool over;     /* nothing has to be left */
};

/* From now on, if the images may be left, the process exits two seconds after the last one that
 * exports_free() could close, or after this call, unless leave_end() is called before. With
 * snapshots, which the cluster has to remove, it is ten seconds. */
void
leave_begin(struct leave *leave, struct exports *exports, struct pid_file *pid_file, int status);
void
leave_end(struct leave *leave);

#endif
