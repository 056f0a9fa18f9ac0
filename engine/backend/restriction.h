/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Restricted rings (Linux 5.10): they take only the operations, flags and registrations that this
 * engine and nbdloopd's loops use, whoever queues them.
 */
#ifndef ENGINE_BACKEND_RESTRICTION_H
#define ENGINE_BACKEND_RESTRICTION_H

#include <liburing.h>
#include <stdint.h>

/* Has all rings that are made from now on restricted. To be called before other threads make rings.
 * Returns 0, or -errno of making a ring: -EINVAL if the kernel can't restrict rings, which then are
 * as they were. */
int
restriction_begin(void);

/* The registrations (IORING_REGISTER_*) of a ring in use. Besides these, a new ring needs
 * IORING_REGISTER_ENABLE_RINGS. */
extern const uint8_t restriction_registrations[];
extern const unsigned int restriction_registration_count;

/* From now on, one thread makes all rings, so that others need no io_uring_setup(). The thread
 * calls confine() first. To be called while no other thread makes rings. Returns 0 or -errno. */
int
restriction_start_maker(void (*confine)(void));
/* Ends that thread, if there is one. No thread makes rings any more. */
void
restriction_end_maker(void);

/* As io_uring_queue_init_params(); the ring is restricted, if that has begun. The caller becomes
 * its only submitter, if flags ask for that. */
int
restricted_uring_init(unsigned int entries, struct io_uring *uring, struct io_uring_params *params);

#endif
