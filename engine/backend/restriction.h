/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Restricted rings (Linux 5.10): they take only the operations, flags and registrations that this
 * engine and nbdloopd's loops use, whoever queues them.
 */
#ifndef ENGINE_BACKEND_RESTRICTION_H
#define ENGINE_BACKEND_RESTRICTION_H

#include <liburing.h>

/* Has all rings that are made from now on restricted. To be called before other threads make rings.
 * Returns 0, or -errno of making a ring: -EINVAL if the kernel can't restrict rings, which then are
 * as they were. */
int
restriction_begin(void);

/* As io_uring_queue_init_params(); the ring is restricted, if that has begun. */
int
restricted_uring_init(unsigned int entries, struct io_uring *uring, struct io_uring_params *params);

#endif
