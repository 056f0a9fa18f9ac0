/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/change_queue.h"

#include "control/answer.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

int
change_queue_init(struct change_queue *queue, control_handler handler, void *data)
{
	*queue = (struct change_queue){.handler = handler, .data = data};
	queue->last = &queue->first;
	queue->over_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (queue->over_fd < 0)
		return -errno;
	pthread_mutex_init(&queue->mutex, NULL);
	pthread_cond_init(&queue->wanted, NULL);
	return 0;
}

void
change_queue_fini(struct change_queue *queue)
{
	pthread_cond_destroy(&queue->wanted);
	pthread_mutex_destroy(&queue->mutex);
	close(queue->over_fd);
}

void
change_carry_out(struct change *change, control_handler handler, void *data)
{
	change->answer = answer_line(&change->request, handler, data, &change->answer_size);
}

static void *
carry_out_all(void *data)
{
	struct change_queue *queue = data;
	struct change *change;

	/* Another thread would have to open a file for that, which the sandbox forbids. */
	pthread_setname_np(pthread_self(), "changes");
	pthread_mutex_lock(&queue->mutex);
	for (;;) {
		while (!queue->first && !queue->ending)
			pthread_cond_wait(&queue->wanted, &queue->mutex);
		if (queue->ending)
			break;
		change = queue->first; /* and stays that until it is over */
		pthread_mutex_unlock(&queue->mutex);
		change_carry_out(change, queue->handler, queue->data);
		pthread_mutex_lock(&queue->mutex);
		queue->first = change->next;
		if (!queue->first)
			queue->last = &queue->first;
		change->over = true;
		eventfd_write(queue->over_fd, 1);
	}
	pthread_mutex_unlock(&queue->mutex);
	return NULL;
}

int
change_queue_start(struct change_queue *queue)
{
	int r = -pthread_create(&queue->thread, NULL, carry_out_all, queue);

	queue->started = r == 0;
	return r;
}

void
change_queue_add(struct change_queue *queue, struct change *change)
{
	pthread_mutex_lock(&queue->mutex);
	change->over = false;
	change->next = NULL;
	*queue->last = change;
	queue->last = &change->next;
	pthread_cond_signal(&queue->wanted);
	pthread_mutex_unlock(&queue->mutex);
}

bool
change_is_over(struct change_queue *queue, const struct change *change)
{
	bool over;

	pthread_mutex_lock(&queue->mutex);
	over = change->over;
	pthread_mutex_unlock(&queue->mutex);
	return over;
}

void
change_queue_stop(struct change_queue *queue)
{
	if (!queue->started)
		return;
	pthread_mutex_lock(&queue->mutex);
	queue->ending = true;
	pthread_cond_signal(&queue->wanted);
	pthread_mutex_unlock(&queue->mutex);
	pthread_join(queue->thread, NULL);
	queue->started = false;
}
