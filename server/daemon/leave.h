/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a server whose images are all in Ceph, and whose cluster does not answer: after a
 * while, the process exits with calls under way.
 */
#ifndef SERVER_DAEMON_LEAVE_H
#define SERVER_DAEMON_LEAVE_H

#include "server/daemon/pid_file.h"

#include <pthread.h>
#include <stdbool.h>

struct exports;

struct leave {
	struct pid_file *pid_file;
	int status; /* of the process */
	bool started;
	pthread_t thread;
	pthread_mutex_t mutex; /* guards .over */
	pthread_cond_t news;
	bool over; /* nothing has to be left */
};

/* From now on, if the images may be left, the process exits in a moment, unless leave_end() is
 * called before. */
void
leave_begin(struct leave *leave, struct exports *exports, struct pid_file *pid_file, int status);
void
leave_end(struct leave *leave);

#endif
