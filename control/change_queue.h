/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The changes that clients of the control socket ask for. A thread carries them out one after the
 * other, in the order in which they arrived. A change may take minutes, because buffered data may
 * have to be written back. The queue knows nothing of clients and sockets.
 */
#ifndef CONTROL_CHANGE_QUEUE_H
#define CONTROL_CHANGE_QUEUE_H

#include "control/control_request.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* One change. It is embedded by its owner, which does not touch it until it is over. */
struct change {
	struct control_request request; /* the owner keeps its texts */
	char *answer; /* when it is over: a line that the owner frees; NULL: out of
			 memory */
	size_t answer_size;
	bool over; /* guarded by the queue's mutex */
	struct change *next;
};

struct change_queue {
	control_handler handler;
	void *data;
	int over_fd; /* eventfd: readable when a change is over */
	bool started;
	pthread_t thread;
	pthread_cond_t wanted; /* there is a change, or the thread shall end */
	pthread_mutex_t mutex; /* guards the members below */
	bool ending;
	struct change *first, **last; /* oldest first; the first may be in progress */
};

/* Makes an empty queue. `handler` will be called with `data`. Returns 0 or -errno. */
int
change_queue_init(struct change_queue *queue, control_handler handler, void *data);

/* Starts the thread, with the signal mask of the caller. Returns 0 or -errno. */
int
change_queue_start(struct change_queue *queue);

/* Appends a change. */
void
change_queue_add(struct change_queue *queue, struct change *change);

/* Returns whether the change is over. */
bool
change_is_over(struct change_queue *queue, const struct change *change);

/* Waits for the end of the change in progress, and of the thread. Starts no other change. */
void
change_queue_stop(struct change_queue *queue);

/* Frees the queue. If it was started, it must have been stopped. */
void
change_queue_fini(struct change_queue *queue);

/* Carries out a change, on the calling thread. */
void
change_carry_out(struct change *change, control_handler handler, void *data);

#endif
