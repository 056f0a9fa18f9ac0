/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The changes that clients of a control socket ask for: carried out one after the other, in the
 * order in which they came, on a thread of its own, since one may take minutes (to write back what
 * is buffered).  Not who asks, nor how the answers get there.
 */
#ifndef CONTROL_CHANGE_QUEUE_H
#define CONTROL_CHANGE_QUEUE_H

#include "control/control_request.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* One change; embedded by its owner, who leaves it alone until it is over. */
struct change {
	struct control_request request; /* its texts are the owner's */
	char *answer;                   /* a line, the owner's from then on; NULL: out of memory */
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
	pthread_cond_t wanted; /* a change, or the end */
	pthread_mutex_t mutex; /* guards what follows */
	bool ending;
	struct change *first, **last; /* `first` is under way, or is the next */
};

/* Returns 0 or -errno. */
int
change_queue_init(struct change_queue *queue, control_handler handler, void *data);

/* Starts the thread, which has the signal mask of the caller.  Returns 0 or -errno. */
int
change_queue_start(struct change_queue *queue);

void
change_queue_add(struct change_queue *queue, struct change *change);

bool
change_is_over(struct change_queue *queue, const struct change *change);

/* Lets the change that is under way end, and begins no other one. */
void
change_queue_stop(struct change_queue *queue);

/* Frees what was made; after change_queue_stop() if it was started. */
void
change_queue_fini(struct change_queue *queue);

/* Carries a change out, on the caller's thread. */
void
change_carry_out(struct change *change, control_handler handler, void *data);

#endif
