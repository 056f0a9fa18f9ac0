/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backend/restriction.h"

#include "common/thread.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool restricted;

/* What the loops and contexts queue; the timeout is of liburing, before Linux 5.11. */
static const uint8_t operations[] = {
	IORING_OP_NOP,
	IORING_OP_READ,
	IORING_OP_WRITE,
	IORING_OP_READ_FIXED,
	IORING_OP_WRITE_FIXED,
	IORING_OP_FSYNC,
	IORING_OP_FALLOCATE,
	IORING_OP_RECV,
	IORING_OP_SENDMSG,
	IORING_OP_POLL_ADD,
	IORING_OP_ASYNC_CANCEL,
	IORING_OP_TIMEOUT,
	IORING_OP_TIMEOUT_REMOVE,
};

const uint8_t restriction_registrations[] = {
	IORING_REGISTER_FILES,         IORING_REGISTER_FILES2,         IORING_REGISTER_FILES_UPDATE,
	IORING_REGISTER_FILES_UPDATE2, IORING_UNREGISTER_FILES,        IORING_REGISTER_BUFFERS,
	IORING_REGISTER_BUFFERS2,      IORING_REGISTER_BUFFERS_UPDATE, IORING_UNREGISTER_BUFFERS,
	IORING_REGISTER_EVENTFD,       IORING_REGISTER_PROBE,
};
const unsigned int restriction_registration_count = sizeof(restriction_registrations);

#define RESTRICTIONS (sizeof(operations) + sizeof(restriction_registrations) + 1)

/* Some builds of liburing 2.3 lack the functions for these two. Returns 0 or -errno. */
static int
restriction_register(const struct io_uring *uring, unsigned int what, const void *argument,
		     unsigned int count)
{
	return syscall(SYS_io_uring_register, uring->ring_fd, what, argument, count) < 0 ? -errno
											 : 0;
}

/* The ring is disabled. Returns 0 or -errno. */
static int
restriction_set(struct io_uring *uring)
{
	struct io_uring_restriction all[RESTRICTIONS] = {0};
	unsigned int count = 0;

	for (unsigned int i = 0; i < sizeof(operations); i++) {
		all[count].opcode = IORING_RESTRICTION_SQE_OP;
		all[count++].sqe_op = operations[i];
	}
	for (unsigned int i = 0; i < sizeof(restriction_registrations); i++) {
		all[count].opcode = IORING_RESTRICTION_REGISTER_OP;
		all[count++].register_op = restriction_registrations[i];
	}
	all[count].opcode = IORING_RESTRICTION_SQE_FLAGS_ALLOWED;
	all[count++].sqe_flags = IOSQE_FIXED_FILE | IOSQE_ASYNC | IOSQE_CQE_SKIP_SUCCESS;
	return restriction_register(uring, IORING_REGISTER_RESTRICTIONS, all, count);
}

/* With restrictions, the ring is disabled still. */
static int
restriction_make_ring(unsigned int entries, struct io_uring *uring, struct io_uring_params *params)
{
	int r;

	if (restricted)
		params->flags |= IORING_SETUP_R_DISABLED;
	r = io_uring_queue_init_params(entries, uring, params);
	if (r < 0 || !restricted)
		return r;
	r = restriction_set(uring);
	if (r < 0)
		io_uring_queue_exit(uring);
	return r < 0 ? r : 0;
}

/* ---- the thread that makes rings for those that may not */

struct order {
	struct order *next;
	unsigned int entries;
	struct io_uring *uring;
	struct io_uring_params *params;
	int result;
	bool done;
};

static struct {
	pthread_mutex_t mutex;
	pthread_cond_t ordered, delivered;
	pthread_t thread;
	void (*confine)(void);
	struct order *orders;
	bool running, ending;
} maker = {
	.mutex = PTHREAD_MUTEX_INITIALIZER,
	.ordered = PTHREAD_COND_INITIALIZER,
	.delivered = PTHREAD_COND_INITIALIZER,
};

static void *
restriction_make_rings(void *data)
{
	struct order *order;

	(void)data;
	maker.confine();
	pthread_mutex_lock(&maker.mutex);
	maker.running = true;
	pthread_cond_broadcast(&maker.delivered);
	while (!maker.ending) {
		order = maker.orders;
		if (!order) {
			pthread_cond_wait(&maker.ordered, &maker.mutex);
			continue;
		}
		maker.orders = order->next;
		order->result = restriction_make_ring(order->entries, order->uring, order->params);
		order->done = true;
		pthread_cond_broadcast(&maker.delivered);
	}
	pthread_mutex_unlock(&maker.mutex);
	return NULL;
}

int
restriction_start_maker(void (*confine)(void))
{
	int r;

	maker.confine = confine;
	r = thread_start(&maker.thread, restriction_make_rings, NULL);
	if (r < 0)
		return r;
	pthread_mutex_lock(&maker.mutex);
	while (!maker.running)
		pthread_cond_wait(&maker.delivered, &maker.mutex);
	pthread_mutex_unlock(&maker.mutex);
	return 0;
}

void
restriction_end_maker(void)
{
	if (!maker.running)
		return;
	pthread_mutex_lock(&maker.mutex);
	maker.ending = true;
	pthread_cond_signal(&maker.ordered);
	pthread_mutex_unlock(&maker.mutex);
	pthread_join(maker.thread, NULL);
	maker.running = maker.ending = false;
}

static int
restriction_order_ring(unsigned int entries, struct io_uring *uring, struct io_uring_params *params)
{
	struct order order = {.entries = entries, .uring = uring, .params = params};

	pthread_mutex_lock(&maker.mutex);
	order.next = maker.orders;
	maker.orders = &order;
	pthread_cond_signal(&maker.ordered);
	while (!order.done)
		pthread_cond_wait(&maker.delivered, &maker.mutex);
	pthread_mutex_unlock(&maker.mutex);
	return order.result;
}

int
restricted_uring_init(unsigned int entries, struct io_uring *uring, struct io_uring_params *params)
{
	int r = maker.running ? restriction_order_ring(entries, uring, params)
			      : restriction_make_ring(entries, uring, params);

	if (r < 0 || !restricted)
		return r;
	/* A ring of one submitter (IORING_SETUP_SINGLE_ISSUER) belongs to the thread that enables
	 * it. */
	r = restriction_register(uring, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
	if (r < 0)
		io_uring_queue_exit(uring);
	return r < 0 ? r : 0;
}

int
restriction_begin(void)
{
	struct io_uring_params params = {0};
	struct io_uring uring;
	int r;

	restricted = true;
	r = restricted_uring_init(1, &uring, &params);
	if (r == 0)
		io_uring_queue_exit(&uring);
	/* If there is no ring now, for another reason, later ones are restricted all the same. */
	restricted = r != -EINVAL;
	return r;
}
