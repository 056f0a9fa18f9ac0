/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device while it is attached, as seen by the process that keeps it so: made with the connections
 * of a upstream, given new ones in place of dead ones, and ended.
 */
#ifndef TOOL_GUARD_ATTACHMENT_H
#define TOOL_GUARD_ATTACHMENT_H

#include "tool/device/device.h"
#include "tool/device/nbd_driver.h"
#include "tool/guard/guard_plan.h"
#include "tool/guard/upstream.h"

#include <stdint.h>

struct attachment {
	const struct attachment_plan *plan;
	struct nbd_driver *driver;
	char *backend; /* identifier */
	char *name;    /* "nbd0"; NULL: it isn't made yet */
	char *pid; /* what the kernel tells as pid of the device while it is this attachment's */
	unsigned int index;
	uint64_t size; /* bytes, when it was made */
	bool changing; /* since attachment_prepare_change() */
};

/* `backend` is taken over.  The driver is opened; false with an error. */
bool
attachment_init(struct attachment *attachment, const struct attachment_plan *plan, char *backend,
		GError **error);
void
attachment_fini(struct attachment *attachment);

/* Attaches the device with all connections of `upstream`.  After an error it may be made all the
 * same: see attachment_undo(). */
bool
attachment_make(struct attachment *attachment, const struct upstream *upstream, GError **error);

/*
 * Makes it ready to be used.  The kernel looks for partitions then: without a server, this waits
 * for one.  It changes nothing of the attachment, and may be called by a thread of its own.
 */
bool
attachment_settle(const struct attachment *attachment, GError **error);

/* Takes over one that another process has made: `device` as it is now.  ENXIO: it isn't any more.
 */
bool
attachment_take(struct attachment *attachment, const struct device *device, GError **error);

/* Detaches it, if it was made. */
void
attachment_undo(struct attachment *attachment);

/* Whether the kernel still has it. */
bool
attachment_is_there(const struct attachment *attachment);

/* Gives the kernel those connections of `upstream` that are new (as many flags as it has
 * connections).  EINVAL: the device is being detached. */
bool
attachment_hand_over(struct attachment *attachment, const struct upstream *upstream,
		     const bool *is_new, GError **error);

/*
 * Whether the kernel has taken another connection, which it does in place of one that is dead only;
 * of a device with a timeout. An error of the kernel's is no: the device is being detached.
 */
bool
attachment_offer(struct attachment *attachment, int socket);

/*
 * Gives it another size, bytes.  Since Linux 6.12 the kernel waits for all requests in flight then,
 * and takes no new connection meanwhile, for no device at all: so only while its server lives, and
 * by the process that would replace that.
 */
bool
attachment_resize(struct attachment *attachment, uint64_t size, GError **error);

/*
 * Before its connections are ended on purpose: requests in flight are then sent again sooner.
 * Returns when the requests that began before this are usually over.
 */
void
attachment_prepare_change(struct attachment *attachment);

#endif
