/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/guard/attachment.h"

#include "tool/device/device.h"
#include "tool/device/device_node.h"
#include "tool/device/device_owner.h"
#include "tool/device/device_queue.h"
#include "tool/device/device_users.h"
#include "tool/failure.h"

#include "common/log.h"
#include "nbd/protocol.h"

#include <errno.h>
#include <inttypes.h>

enum {
	TIMEOUT_MS = 5000, /* see device_queue.h; with less, the kernel would complain about any
				 slow disk */
	TIMEOUT_SOON_MS = 1000, /* the least that makes sense: the kernel rounds it to seconds */
	TIMEOUT_PAUSE_US = 200000,
	TRY_US = 100000,
	BUSY_TRIES = 30, /* udev looks at a device for less than that */
	INVALID_TRIES = 10,
	GONE_TRIES = 100,
	TAKE_TRIES = 100,
	TAKE_US = 50000,
};

bool
attachment_init(struct attachment *attachment, const struct attachment_plan *plan, char *backend,
		GError **error)
{
	*attachment = (struct attachment){.plan = plan, .backend = backend};
	attachment->driver = nbd_driver_open(error);
	return attachment->driver != NULL;
}

void
attachment_fini(struct attachment *attachment)
{
	nbd_driver_cleanup(&attachment->driver);
	g_free(attachment->backend);
	g_free(attachment->name);
	g_free(attachment->pid);
}

static char *
attached_pid(const char *name)
{
	g_autofree char *path = g_build_filename("/sys/block", name, "pid", NULL);
	char *text = NULL;

	return g_file_get_contents(path, &text, NULL, NULL) ? text : NULL;
}

bool
attachment_is_there(const struct attachment *attachment)
{
	g_autofree char *pid = attached_pid(attachment->name);

	return pid && g_strcmp0(pid, attachment->pid) == 0;
}

/* ---- making it */

/* The reason why a device that was named is busy: it is attached, or only open. */
static bool
explain_busy(unsigned int index, GError **error)
{
	g_autofree char *name = g_strdup_printf("nbd%u", index);
	struct device *DEVICE_CLEANUP device = device_read("/sys", name, NULL);
	g_autofree char *users = device ? device_users("/sys", "/proc", device) : NULL;

	if (device && device->pid != 0)
		return device_owner_explain(device, error);
	return failure(error, EBUSY, "/dev/%s is in use: %s", name,
		       users ? users : "another program has it open");
}

static bool
is_attached(int index)
{
	g_autofree char *name = g_strdup_printf("nbd%d", index);
	g_autofree char *pid = index != NBD_DRIVER_ANY ? attached_pid(name) : NULL;

	return pid != NULL;
}

/* Another program, such as udev, may have the device open for a moment. */
static bool
connect_device(struct attachment *attachment, const struct nbd_driver_attachment *wanted,
	       GError **error)
{
	for (unsigned int i = 0;; i++) {
		g_autoptr(GError) why = NULL;

		if (nbd_driver_connect(attachment->driver, wanted, &attachment->index, &why))
			return true;
		if (failure_is(why, EBUSY) && wanted->index != NBD_DRIVER_ANY &&
		    (i == BUSY_TRIES || is_attached(wanted->index)))
			return explain_busy((unsigned int)wanted->index, error);
		/* EINVAL: it is just being detached, or something is wrong indeed. */
		if ((!failure_is(why, EBUSY) || i == BUSY_TRIES) &&
		    (!failure_is(why, EINVAL) || i == INVALID_TRIES)) {
			g_propagate_error(error, g_steal_pointer(&why));
			return false;
		}
		g_usleep(TRY_US);
	}
}

/* Of `length` bytes; as the server warns where it is the one that rounds. */
static void
warn_about_rest(const struct attachment_plan *plan, const char *place, uint64_t length,
		unsigned int block_size)
{
	const uint64_t rest = length % block_size;
	const char *bytes = rest == 1 ? "byte" : "bytes";

	if (plan->sizelimit == length)
		log_warning("%s: --sizelimit=%" PRIu64
			    " is no multiple of the sector size, %u bytes; the last %" PRIu64
			    " %s can't be reached",
			    place, length, block_size, rest, bytes);
	else if (plan->offset % block_size && (plan->offset + length) % block_size == 0)
		log_warning("%s: --offset=%" PRIu64
			    " is no multiple of the sector size, %u bytes; the last %" PRIu64
			    " %s can't be reached",
			    place, plan->offset, block_size, rest, bytes);
	else
		log_warning("%s: file does not end on a %u-byte sector boundary; the last %" PRIu64
			    " %s can't be reached",
			    place, block_size, rest, bytes);
}

bool
attachment_make(struct attachment *attachment, const struct upstream *upstream, GError **error)
{
	const struct attachment_plan *plan = attachment->plan;
	const struct upstream_connection *first = &upstream->connections[0];
	unsigned int count = upstream->plan->connections;
	g_autofree int *sockets = g_new(int, count);
	uint64_t rest;
	struct nbd_driver_attachment wanted = {
		.index = plan->index,
		.size = first->size,
		.block_size = plan->block_size ? plan->block_size : first->block_size,
		.flags = (uint16_t)(first->flags | (plan->read_only ? NBD_FLAG_READ_ONLY : 0)),
		.timeout = plan->timeout,
		.dead_timeout = plan->dead_timeout,
		.backend = attachment->backend,
		.sockets = sockets,
		.socket_count = count,
	};

	for (unsigned int i = 0; i < count; i++)
		sockets[i] = upstream->connections[i].fd;
	rest = wanted.size % wanted.block_size;
	wanted.size -= rest;
	if (wanted.size == 0)
		return failure(error, EINVAL,
			       "%s is too small: a device has at least one block, of %u bytes",
			       upstream->place, wanted.block_size);
	if (!connect_device(attachment, &wanted, error))
		return false;
	if (rest)
		warn_about_rest(plan, upstream->place, wanted.size + rest, wanted.block_size);
	attachment->size = wanted.size;
	attachment->name = g_strdup_printf("nbd%u", attachment->index);
	attachment->pid = attached_pid(attachment->name);
	return true;
}

bool
attachment_settle(const struct attachment *attachment, GError **error)
{
	uint64_t size = 0;

	device_queue_tune(attachment->name, attachment->plan->swap);
	if (attachment->plan->timeout == 0)
		device_queue_set_timeout(attachment->name, TIMEOUT_MS);
	if (!device_node_settle(attachment->name, attachment->plan->partscan, &size, error))
		return false;
	/* With its pid, all that was found out is of the same device. */
	if (!attachment_is_there(attachment))
		return failure(error, ENXIO, "/dev/%s has just been detached by another program",
			       attachment->name);
	if (size != attachment->size)
		return failure(error, EIO, "/dev/%s has %" PRIu64 " bytes instead of %" PRIu64,
			       attachment->name, size, attachment->size);
	return true;
}

bool
attachment_take(struct attachment *attachment, const struct device *device, GError **error)
{
	attachment->index = device->index;
	attachment->size = device->size;
	attachment->name = g_strdup(device->name);
	attachment->pid = attached_pid(device->name);
	return (attachment->pid && g_ascii_strtoll(attachment->pid, NULL, 10) == device->pid) ||
	       failure(error, ENXIO, "/dev/%s has just been detached", device->name);
}

void
attachment_undo(struct attachment *attachment)
{
	/* Another program may have detached it meanwhile, and attached something else. */
	if (!attachment->name || !attachment_is_there(attachment))
		return;
	nbd_driver_disconnect(attachment->driver, attachment->index, NULL);
	for (unsigned int i = 0; i < GONE_TRIES && attachment_is_there(attachment); i++)
		g_usleep(TRY_US);
}

/* ---- changing it */

/* With a timeout, it is that. */
static void
change_timeout(const struct attachment *attachment, unsigned int milliseconds)
{
	if (attachment->plan->timeout == 0)
		device_queue_set_timeout_later(attachment->name, milliseconds);
}

/* It may have been resized. */
static void
warn_about_change(const struct attachment *attachment, const struct upstream *upstream,
		  const struct upstream_connection *connection)
{
	struct device *DEVICE_CLEANUP device = device_read("/sys", attachment->name, NULL);

	if (device && connection->size < device->size)
		log_warning(
			"/dev/%s: %s has become smaller; data after its new end can no longer be read",
			device->name, upstream->place);
	if (device && !device->read_only && connection->flags & NBD_FLAG_READ_ONLY)
		log_warning(
			"/dev/%s: %s can only be read now, and writes fail; when it can be written to again, nbdloop "
			"replace-server /dev/%s",
			device->name, upstream->place, device->name);
}

/*
 * Until the kernel has noticed that the old connection is dead, it takes no new one, and says
 * nothing.  With a timeout, whether it has taken it can be seen.  Without, it isn't given one just
 * for that: to take it back, the kernel would have to be told by a file of /sys, and Linux 6.12
 * then waits for all requests, also those that are yet to be sent again.  But without a timeout
 * there is one connection only, to our own server: if it isn't taken, the server ends soon, and is
 * started again.
 */
static bool
hand_over_one(struct attachment *attachment, int socket, GError **error)
{
	const unsigned int *timeout = attachment->plan->timeout ? &attachment->plan->timeout : NULL;
	const struct nbd_driver_change change = {
		.backend = attachment->backend, .timeout = timeout, .socket = &socket};

	for (unsigned int i = 0; i < TAKE_TRIES; i++) {
		if (!nbd_driver_change(attachment->driver, attachment->index, &change, error))
			return false;
		if (!timeout || nbd_driver_uses_socket(socket))
			return true;
		g_usleep(TAKE_US);
	}
	return failure(error, EBUSY, "the kernel doesn't take a new connection for /dev/%s",
		       attachment->name);
}

bool
attachment_offer(struct attachment *attachment, int socket)
{
	const struct nbd_driver_change change = {
		.backend = attachment->backend,
		.timeout = &attachment->plan->timeout,
		.socket = &socket,
	};

	return nbd_driver_change(attachment->driver, attachment->index, &change, NULL) &&
	       nbd_driver_uses_socket(socket);
}

bool
attachment_hand_over(struct attachment *attachment, const struct upstream *upstream,
		     const bool *is_new, GError **error)
{
	for (unsigned int i = 0; i < upstream->plan->connections; i++) {
		const struct upstream_connection *connection = &upstream->connections[i];

		if (!is_new[i])
			continue;
		warn_about_change(attachment, upstream, connection);
		if (!hand_over_one(attachment, connection->fd, error))
			return false;
	}
	if (attachment->changing)
		change_timeout(attachment, TIMEOUT_MS);
	attachment->changing = false;
	return true;
}

bool
attachment_resize(struct attachment *attachment, uint64_t size, GError **error)
{
	const struct nbd_driver_change change = {.backend = attachment->backend, .size = &size};

	return nbd_driver_change(attachment->driver, attachment->index, &change, error);
}

void
attachment_prepare_change(struct attachment *attachment)
{
	attachment->changing = true;
	change_timeout(attachment, TIMEOUT_SOON_MS);
	g_usleep(TIMEOUT_PAUSE_US);
}
