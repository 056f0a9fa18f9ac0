/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An attached device, as its guard sees it: it is attached with the connections of a source,
 * gets new ones in place of dead ones, and is detached.
 */
#ifndef TOOL_GUARD_ATTACHMENT_H
#define TOOL_GUARD_ATTACHMENT_H

#include "tool/device/device.h"
#include "tool/device/nbd_driver.h"
#include "tool/guard/guard_plan.h"
#include "tool/source/source.h"

#include <stdint.h>

struct attachment {
	const struct attachment_plan *plan;
	struct nbd_driver *driver;
	char *backend; /* identifier */
	char *name;    /* "nbd0"; NULL: it isn't attached yet */
	char *pid;     /* the device's pid in /sys, as long as it is this attachment's */
	unsigned int index;
	uint64_t size; /* bytes, when it was attached */
	bool changing; /* since attachment_prepare_change() */
	bool renewing; /* since attachment_prepare_renewal() */
	bool limited;  /* since attachment_end_connection() */
};

/* `backend` is taken over.  The driver is opened; false with an error. */
bool
attachment_init(struct attachment *attachment, const struct attachment_plan *plan, char *backend,
		GError **error);
void
attachment_fini(struct attachment *attachment);

/* Attaches the device with all connections of `source`.  After an error it may be attached
 * nevertheless: see attachment_undo(). */
bool
attachment_make(struct attachment *attachment, const struct source *source, GError **error);

/*
 * Makes the device ready for use.  The kernel looks for partitions meanwhile, so this waits for
 * the server.  It changes nothing in the attachment, and may run in a thread of its own.
 */
bool
attachment_settle(const struct attachment *attachment, GError **error);

/* Takes over a device that another process attached.  ENXIO: it isn't attached any more. */
bool
attachment_take(struct attachment *attachment, const struct device *device, GError **error);

/* Detaches the device, if it was attached. */
void
attachment_undo(struct attachment *attachment);

/* Whether the device is still attached. */
bool
attachment_is_there(const struct attachment *attachment);

/* Whether the kernel would take another connection.  EINVAL: the device was detached, and is only
 * kept by those that have it open. */
bool
attachment_can_go_on(const struct attachment *attachment, GError **error);

/* Gives the kernel those connections of `source` that are new (a flag for each).  EINVAL: the
 * device is being detached. */
bool
attachment_hand_over(struct attachment *attachment, const struct source *source, const bool *is_new,
		     GError **error);

/* Offers the kernel a connection, which it takes only in place of a dead one.  False: it didn't
 * even look, because the device is being detached. */
bool
attachment_offer(struct attachment *attachment, int socket);

/*
 * Changes the size, in bytes.  Since Linux 6.12 the kernel waits for all requests in flight then,
 * and meanwhile takes no new connection for any device.  Therefore only the guard, which also
 * replaces the server, may do this, and only while the server is alive.
 */
bool
attachment_resize(struct attachment *attachment, uint64_t size, GError **error);

/*
 * To be called before the connections are ended on purpose, so that requests in flight are sent
 * again sooner.  Returns when the requests that began before the call are usually done.
 */
void
attachment_prepare_change(struct attachment *attachment);

/* The same for connections that have used up their keys.  Even a timeout that the user gave is
 * shortened, until the new connections are handed over. */
void
attachment_prepare_renewal(struct attachment *attachment);

/*
 * Has the kernel end the connection of a device without a timeout, within five seconds: at its next
 * look at a request in flight.  Until the next connection is handed over, the device has `timeout`
 * (seconds).
 */
void
attachment_end_connection(struct attachment *attachment, unsigned int timeout);

#endif
