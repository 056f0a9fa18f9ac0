/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/guard/attachment.h"

#include "tool/device/device_node.h"
#include "tool/device/device_users.h"
#include "tool/failure.h"
#include "tool/nap.h"
#include "tool/system_file.h"

#include "common/cleanup.h"
#include "common/log.h"
#include "nbd/protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* After common/log.h, which has its own LOG_... names. */
#include <syslog.h>

/* The default of Linux 6.12; in 6.1, the driver splits requests into pieces of 128 KiB. */
#define LARGEST_REQUEST_KIB "1280"
/* One chunk in the server, which always has memory for it. */
#define LARGEST_SWAP_REQUEST_KIB "128"

enum {
	TIMEOUT_MS = 5000, /* see set_timeout(); with less, the kernel would log messages about any
			      slow disk */
	TIMEOUT_SOON_MS = 1000, /* the least that makes sense: the kernel rounds it to seconds */
	TIMEOUT_PAUSE_US = 200000,
	TRY_US = 100000,
	BUSY_TRIES = 30, /* udev has a new device open for less than that */
	INVALID_TRIES = 10,
	GONE_MS = 10000,
	TAKE_TRIES = 100,
	TAKE_US = 50000,
	OFFERS = 10, /* of a connection that can't be seen to be taken */
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
	return system_file_read("/sys/block/%s/pid", name);
}

bool
attachment_is_there(const struct attachment *attachment)
{
	g_autofree char *pid = attached_pid(attachment->name);

	return pid && g_strcmp0(pid, attachment->pid) == 0;
}

/* ---- its request queue, with settings that suit a disk served by a program */

/*
 * Since Linux 6.12 each write waits until the queue is empty, which takes tens of milliseconds
 * even if it is, and the name of a scheduler has modprobe run: a value that is there already is
 * not written.  g_file_set_contents() would replace the file.
 */
static bool
write_setting(const char *name, const char *setting, const char *value)
{
	g_autofree char *path = g_build_filename("/sys/block", name, "queue", setting, NULL);
	g_autofree char *text = system_file_read_path(path);
	g_autofree char *chosen = g_strdup_printf("[%s]", value); /* "[none] mq-deadline" */
	int CLEANUP_CLOSE fd = -1;

	if (text && (g_str_equal(text, value) || strstr(text, chosen)))
		return true;
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd >= 0 && write(fd, value, strlen(value)) == (ssize_t)strlen(value))
		return true;
	log_warning("%s can't be set to %s: %s; the device works, but may be slower", path, value,
		    g_strerror(errno));
	return false;
}

/*
 * How long the kernel waits before it checks on an unanswered request, in milliseconds.  Only then
 * does it repeat a request whose connection has died, so a file system may stall for this long
 * after the server was restarted.
 */
static void
set_timeout(const char *name, unsigned int milliseconds)
{
	g_autofree char *value = g_strdup_printf("%u", milliseconds);

	write_setting(name, "io_timeout", value);
}

/*
 * The same for a device in use, from a separate process, soon after the call.  Linux 6.11 and
 * later, unless fixed, first waits for all requests in flight, which may be waiting for the caller
 * to restart their server.
 */
static void
change_timeout(const struct attachment *attachment, unsigned int milliseconds)
{
	pid_t child = fork();

	if (child < 0)
		log_warning("%s: no process to change its queue: %s", attachment->name,
			    g_strerror(errno));
	if (child > 0)
		waitpid(child, NULL, 0);
	if (child != 0)
		return;
	/* The grandchild runs on its own, and keeps none of the caller's files open. */
	if (fork() == 0) {
		closelog();
		close_range(STDERR_FILENO + 1, ~0U, 0);
		set_timeout(attachment->name, milliseconds);
	}
	_exit(0);
}

/* ---- making it */

/* The reason why a device that was named is busy: it is attached, or only open. */
static bool
explain_busy(const char *name, GError **error)
{
	struct device *DEVICE_CLEANUP device = device_read(name, NULL);
	g_autofree char *users = device ? device_users(device) : NULL;

	if (device && device->pid != 0)
		return device_explain_attached(device, error);
	return failure(error, EBUSY, "/dev/%s is in use: %s", name,
		       users ? users : "another program has it open");
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
		if (failure_is(why, EBUSY) && wanted->index != NBD_DRIVER_ANY) {
			g_autofree char *name = g_strdup_printf("nbd%d", wanted->index);
			g_autofree char *pid = attached_pid(name);

			if (pid || i == BUSY_TRIES)
				return explain_busy(name, error);
		}
		/* EINVAL: the device is just being detached, or the request is wrong. */
		if ((!failure_is(why, EBUSY) || i == BUSY_TRIES) &&
		    (!failure_is(why, EINVAL) || i == INVALID_TRIES))
			return failure_pass(error, &why);
		g_usleep(TRY_US);
	}
}

/* Of `length` bytes.  The server prints the same warnings when it rounds the size. */
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
attachment_make(struct attachment *attachment, const struct source *source, GError **error)
{
	const struct attachment_plan *plan = attachment->plan;
	const struct source_connection *first = &source->connections[0];
	unsigned int count = source->plan->connections;
	g_autofree int *sockets = g_new(int, count);
	uint64_t rest;
	struct nbd_driver_attachment wanted = {
		.index = plan->index,
		.size = first->export.size,
		.block_size = plan->block_size ? plan->block_size : first->export.block_size,
		.flags = (uint16_t)(first->export.flags |
				    (plan->read_only ? NBD_FLAG_READ_ONLY : 0)),
		.timeout = plan->timeout,
		.dead_timeout = plan->dead_timeout,
		.backend = attachment->backend,
		.sockets = sockets,
		.socket_count = count,
	};

	for (unsigned int i = 0; i < count; i++)
		sockets[i] = source->connections[i].fd;
	rest = wanted.size % wanted.block_size;
	wanted.size -= rest;
	if (wanted.size == 0)
		return failure(error, EINVAL,
			       "%s is too small: a device has at least one block, of %u bytes",
			       source->place, wanted.block_size);
	if (!connect_device(attachment, &wanted, error))
		return false;
	if (rest)
		warn_about_rest(plan, source->place, wanted.size + rest, wanted.block_size);
	attachment->size = wanted.size;
	attachment->name = g_strdup_printf("nbd%u", attachment->index);
	attachment->pid = attached_pid(attachment->name);
	return true;
}

bool
attachment_settle(const struct attachment *attachment, GError **error)
{
	uint64_t size = 0;

	/* No scheduler, since the disk of the image has one, and the request size that the server
	 * handles best; for swap space, at most one piece of the server's, so that each request
	 * needs little memory.  One warning is enough where /sys is read-only (a container). */
	if (write_setting(attachment->name, "scheduler", "none"))
		write_setting(attachment->name, "max_sectors_kb",
			      attachment->plan->swap ? LARGEST_SWAP_REQUEST_KIB
						     : LARGEST_REQUEST_KIB);
	if (attachment->plan->timeout == 0)
		set_timeout(attachment->name, TIMEOUT_MS);
	if (!device_node_settle(attachment->name, attachment->plan->partscan, &size, error))
		return false;
	/* If the pid is the same, all of the above was about this attachment. */
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
	struct nap nap = nap_for(GONE_MS);

	/* Another program may have detached it meanwhile, and attached something else. */
	if (!attachment->name || !attachment_is_there(attachment))
		return;
	nbd_driver_disconnect(attachment->driver, attachment->index, NULL);
	while (attachment_is_there(attachment) && nap_take(&nap))
		;
}

/* ---- changing it */

/* The device may have been resized since it was attached. */
static void
warn_about_change(const struct attachment *attachment, const struct source *source,
		  const struct source_connection *connection)
{
	struct device *DEVICE_CLEANUP device = device_read(attachment->name, NULL);

	if (device && connection->export.size < device->size)
		log_warning(
			"/dev/%s: %s has become smaller; data after its new end can no longer be read",
			device->name, source->place);
	if (device && !device->read_only && connection->export.flags & NBD_FLAG_READ_ONLY)
		log_warning(
			"/dev/%s: %s can only be read now, and writes fail; when it is writable again, run nbdloop "
			"replace-server /dev/%s",
			device->name, source->place, device->name);
}

/*
 * Until the kernel has noticed that the old connection is dead, it ignores a new one without an
 * error.  With a timeout, nbd_driver_uses_socket() shows whether it took the connection.  Without,
 * no timeout is set just for that: to remove it, a file of /sys would have to be written, and
 * Linux 6.12 then waits for all requests, including those that are yet to be sent again.  But
 * without a timeout there is only one connection.  If our own server's isn't taken, that server
 * soon tells that it has ended, and gets another one.  A remote one is offered for half a second,
 * since the kernel notices the end of the old one when the guard does; once it is taken, the kernel
 * ignores it.
 */
static bool
hand_over_one(struct attachment *attachment, int socket, bool remote, GError **error)
{
	const unsigned int *timeout = &attachment->plan->timeout;
	const unsigned int offers = remote ? OFFERS : 1;
	const struct nbd_driver_change change = {
		.backend = attachment->backend,
		.timeout = *timeout || attachment->limited ? timeout : NULL,
		.socket = &socket,
	};

	for (unsigned int i = 1; i <= TAKE_TRIES; i++) {
		if (!nbd_driver_change(attachment->driver, attachment->index, &change, error))
			return false;
		if (*timeout ? nbd_driver_uses_socket(socket) : i == offers)
			return true;
		g_usleep(TAKE_US);
	}
	return failure(error, EBUSY, "the kernel doesn't take a new connection for /dev/%s",
		       attachment->name);
}

bool
attachment_can_go_on(const struct attachment *attachment, GError **error)
{
	const struct nbd_driver_change nothing = {.backend = attachment->backend};
	g_autoptr(GError) why = NULL;

	if (nbd_driver_change(attachment->driver, attachment->index, &nothing, &why))
		return true;
	if (!failure_is(why, EINVAL))
		return failure_pass(error, &why);
	return failure(
		error, EINVAL,
		"/dev/%s was detached while it was in use, and can't be served any more: unmount "
		"or close it, then attach it again",
		attachment->name);
}

bool
attachment_offer(struct attachment *attachment, int socket)
{
	const struct nbd_driver_change change = {.backend = attachment->backend, .socket = &socket};

	return nbd_driver_change(attachment->driver, attachment->index, &change, NULL);
}

bool
attachment_hand_over(struct attachment *attachment, const struct source *source, const bool *is_new,
		     GError **error)
{
	for (unsigned int i = 0; i < source->plan->connections; i++) {
		const struct source_connection *connection = &source->connections[i];

		if (!is_new[i])
			continue;
		warn_about_change(attachment, source, connection);
		if (!hand_over_one(attachment, connection->fd, source->plan->remote, error))
			return false;
	}
	/* Handing over has set the one that was given, but the process of the shorter one may have
	 * been later. */
	if (attachment->renewing || (attachment->changing && attachment->plan->timeout == 0))
		change_timeout(attachment, attachment->plan->timeout
						   ? attachment->plan->timeout * 1000
						   : TIMEOUT_MS);
	attachment->changing = attachment->renewing = attachment->limited = false;
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
	/* One that the user gave stays. */
	if (attachment->plan->timeout == 0)
		change_timeout(attachment, TIMEOUT_SOON_MS);
	g_usleep(TIMEOUT_PAUSE_US);
}

void
attachment_prepare_renewal(struct attachment *attachment)
{
	attachment->renewing = true;
	change_timeout(attachment, TIMEOUT_SOON_MS);
	g_usleep(TIMEOUT_PAUSE_US);
}

void
attachment_end_connection(struct attachment *attachment, unsigned int timeout)
{
	const struct nbd_driver_change change = {.backend = attachment->backend,
						 .timeout = &timeout};

	attachment->changing = attachment->limited = true;
	nbd_driver_change(attachment->driver, attachment->index, &change, NULL);
}
