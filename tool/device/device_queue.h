/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device's queue of requests: what suits a disk that is served by a program.
 */
#ifndef TOOL_DEVICE_DEVICE_QUEUE_H
#define TOOL_DEVICE_DEVICE_QUEUE_H

#include <stdbool.h>

/* No scheduler, since the server's own disk has one; requests as large as the server carries out
 * best, or `swap`: no larger than one piece of the server's, so that each needs little memory.
 * Where /sys is read-only (a container), a warning. */
void
device_queue_tune(const char *name, bool swap);

/*
 * How long the kernel waits before it looks after a request that is not answered, in milliseconds.
 * A request whose connection has died is sent again only then, so this is how long a file system
 * may stand still when the server was restarted.
 */
void
device_queue_set_timeout(const char *name, unsigned int milliseconds);

/*
 * The same of a device in use, by a process of its own, some time soon.  Linux since 6.11, unless
 * it was mended, first waits for all requests in flight, which may be waiting for the
 * caller to restart their server.
 */
void
device_queue_set_timeout_later(const char *name, unsigned int milliseconds);

#endif
