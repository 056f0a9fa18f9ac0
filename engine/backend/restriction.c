/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backend/restriction.h"

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

static const uint8_t registrations[] = {
	IORING_REGISTER_FILES,         IORING_REGISTER_FILES2,         IORING_REGISTER_FILES_UPDATE,
	IORING_REGISTER_FILES_UPDATE2, IORING_UNREGISTER_FILES,        IORING_REGISTER_BUFFERS,
	IORING_REGISTER_BUFFERS2,      IORING_REGISTER_BUFFERS_UPDATE, IORING_UNREGISTER_BUFFERS,
	IORING_REGISTER_EVENTFD,       IORING_REGISTER_PROBE,
};

#define RESTRICTIONS (sizeof(operations) + sizeof(registrations) + 1)

/* Some builds of liburing 2.3 lack the functions for these two.  Returns 0 or -errno. */
static int
register_plainly(const struct io_uring *uring, unsigned int what, const void *argument,
		 unsigned int count)
{
	return syscall(SYS_io_uring_register, uring->ring_fd, what, argument, count) < 0 ? -errno
											 : 0;
}

/* The ring is disabled until then.  Returns 0 or -errno. */
static int
restrict_and_enable(struct io_uring *uring)
{
	struct io_uring_restriction all[RESTRICTIONS] = {0};
	unsigned int count = 0;
	int r;

	for (unsigned int i = 0; i < sizeof(operations); i++) {
		all[count].opcode = IORING_RESTRICTION_SQE_OP;
		all[count++].sqe_op = operations[i];
	}
	for (unsigned int i = 0; i < sizeof(registrations); i++) {
		all[count].opcode = IORING_RESTRICTION_REGISTER_OP;
		all[count++].register_op = registrations[i];
	}
	all[count].opcode = IORING_RESTRICTION_SQE_FLAGS_ALLOWED;
	all[count++].sqe_flags = IOSQE_FIXED_FILE | IOSQE_ASYNC;
	r = register_plainly(uring, IORING_REGISTER_RESTRICTIONS, all, count);
	return r < 0 ? r : register_plainly(uring, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
}

int
restricted_uring_init(unsigned int entries, struct io_uring *uring, struct io_uring_params *params)
{
	int r;

	if (restricted)
		params->flags |= IORING_SETUP_R_DISABLED;
	r = io_uring_queue_init_params(entries, uring, params);
	if (r < 0 || !restricted)
		return r;
	r = restrict_and_enable(uring);
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
