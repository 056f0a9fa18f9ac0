/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop detach: writes back the data of a device that is not in use, detaches it, and returns
 * when it is gone.
 */
#include "tool/verb/detach.h"

#include "tool/device/device_node.h"
#include "tool/device/device_users.h"
#include "tool/failure.h"
#include "tool/guard/guard_record.h"
#include "tool/nap.h"
#include "tool/link/server_link.h"
#include "tool/verb/verb.h"

#include "common/cleanup.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	OPEN_TRIES = 20, /* while the device is open: programs that look at each new device, such as
			    udev's, have closed it by then */
	CLAIM_TRIES = 3, /* while it is claimed, for example by a mount */
	TRY_US = 100000,
	GONE_MS = 30000,
	END_PATIENCE_MS = 60000, /* the server completes the requests that it has begun */
};

struct detach_options {
	unsigned int all, lazy;
};

static const struct option_row detach_option_rows[] = {
	OPTION_SWITCH("all", 'D', offsetof(struct detach_options, all),
		      "detach all devices that nbdloop has attached"),
	OPTION_SWITCH("lazy", 0, offsetof(struct detach_options, lazy),
		      "detach a device that is in use later, when its last user closes it"),
	{.name = NULL},
};

/* ---- the processes of a device */

struct processes {
	struct pollfd fds[2]; /* pidfds; -1: none */
	unsigned int count;
};

static void
processes_add(struct processes *processes, pid_t pid)
{
	int fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;

	if (fd >= 0)
		processes->fds[processes->count++] = (struct pollfd){.fd = fd, .events = POLLIN};
}

static bool
processes_wait(struct processes *processes)
{
	bool all = true;

	for (unsigned int i = 0; i < processes->count; i++) {
		all = all && poll(&processes->fds[i], 1, END_PATIENCE_MS) == 1;
		close(processes->fds[i].fd);
	}
	processes->count = 0;
	return all;
}

/* ---- one device */

/*
 * Opens the device exclusively, which keeps out mounts and swap from now on.  -1 with an error:
 * EBUSY, it is in use.  It is not opened for writing: udev would read it again when it is closed,
 * which is just when it is disconnected, and the kernel would log errors.
 */
static int
claim_device(const struct device *device, GError **error)
{
	for (unsigned int i = 1;; i++) {
		g_autoptr(GError) why = NULL;
		int fd = device_node_open(device->name, O_RDONLY | O_EXCL, &why);
		g_autofree char *users = fd >= 0                  ? device_openers(device)
					 : failure_is(why, EBUSY) ? device_users(device)
								  : NULL;

		if (fd >= 0 && !users)
			return fd;
		if (fd >= 0)
			close(fd);
		else if (!failure_is(why, EBUSY)) {
			failure_pass(error, &why);
			return -1;
		}
		/* A program that looks at each new device opens it, but does not claim it. */
		if (i >= (fd >= 0 ? OPEN_TRIES : CLAIM_TRIES)) {
			failure(error, EBUSY,
				"/dev/%s is in use: %s.  It stays attached; --lazy detaches it when its last user closes it",
				device->name, users ? users : "it can't be opened exclusively");
			return -1;
		}
		g_usleep(TRY_US);
	}
}

/* Writes everything back to the server and its disk, and empties the device's page cache. */
static bool
detach_write_back(const struct device *device, int fd, GError **error)
{
	if (!device->read_only && fsync(fd) < 0)
		return failure_errno(
			error, errno,
			"some of the written data could not be stored, and is lost now");
	if (ioctl(fd, BLKFLSBUF) < 0)
		return failure_errno(error, errno, "its cache could not be emptied");
	return true;
}

static bool
device_is_gone(const struct device *device)
{
	struct device *DEVICE_CLEANUP now = device_read(device->name, NULL);

	return !now || (now->pid == 0 && now->size == 0) || now->pid != device->pid ||
	       g_strcmp0(now->backend, device->backend) != 0;
}

static bool
device_wait_until_gone(const struct device *device, GError **error)
{
	g_autofree char *users = NULL;

	struct nap nap = nap_for(GONE_MS);
	bool gone;

	while (!(gone = device_is_gone(device)) && nap_take(&nap))
		;
	if (gone)
		return true;
	users = device_users(device);
	return failure(error, EBUSY, "/dev/%s was disconnected, but the kernel keeps it: %s",
		       device->name, users ? users : "another program has it open");
}

static bool
end_when_closed(struct nbd_driver *driver, const struct device *device, GError **error)
{
	const struct nbd_driver_change change = {.backend = device->backend, .end_on_close = true};
	int CLEANUP_CLOSE fd = -1;

	if (!nbd_driver_change(driver, device->index, &change, error))
		return false;
	/* The last user may have closed it in the meantime: then this close is the last one. */
	fd = device_node_open(device->name, O_RDONLY, error);
	return fd >= 0;
}

static bool
disconnect_device(struct nbd_driver *driver, const struct device *device, int fd, GError **error)
{
	struct processes processes = {.count = 0};
	bool disconnected;

	processes_add(&processes, guard_record_keeper(device));
	processes_add(&processes, server_link_owner(device->backend));
	disconnected = nbd_driver_disconnect(driver, device->index, error);
	close(fd);
	if (!disconnected || !device_wait_until_gone(device, error))
		return false;
	/* The kernel removes partitions when the device is next opened. */
	fd = device->partitions->len > 0 ? device_node_open(device->name, O_RDONLY, NULL) : -1;
	if (fd >= 0)
		close(fd);
	device_node_forget(device);
	if (!processes_wait(&processes))
		return failure(
			error, ETIMEDOUT,
			"/dev/%s is detached, but its server hasn't ended after a minute: its disk may hang",
			device->name);
	guard_record_forget(device);
	return true;
}

static bool
end_now(struct nbd_driver *driver, const struct device *device, int fd, GError **error)
{
	g_autoptr(GError) lost = NULL;
	bool ended;

	detach_write_back(device, fd, &lost);
	ended = disconnect_device(driver, device, fd, error);
	if (lost && ended)
		return failure(error, lost->code, "/dev/%s is detached, but %s", device->name,
			       lost->message);
	if (lost)
		log_error("/dev/%s: %s", device->name, lost->message);
	return ended;
}

bool
detach_device(struct nbd_driver *driver, const char *name, bool lazy, GError **error)
{
	struct device *DEVICE_CLEANUP device = device_read_attached(name, error);
	g_autoptr(GError) busy = NULL;
	int fd;

	if (!device)
		return false;
	fd = claim_device(device, &busy);
	/* While it is open, nothing else can be attached to it. */
	if (fd >= 0 && device_is_gone(device)) {
		close(fd);
		return failure(
			error, ENXIO,
			"/dev/%s is no longer attached: another program has just detached it",
			name);
	}
	if (fd >= 0)
		return end_now(driver, device, fd, error);
	if (lazy)
		return end_when_closed(driver, device, error);
	return failure_pass(error, &busy);
}

/* ---- all of the command line */

bool
detach_is_ours(const struct device *device)
{
	g_autofree char *control = server_link_path(device->backend);

	return device->pid != 0 && (control || guard_record_keeper(device) >= 0);
}

/* The names of all devices that nbdloop attached; NULL with an error.  The driver need not be
 * loaded. */
static char **
find_ours(GError **error)
{
	g_autoptr(GPtrArray) devices = devices_identify_attached(error);
	g_autoptr(GStrvBuilder) names = g_strv_builder_new();

	for (guint i = 0; devices && i < devices->len; i++) {
		const struct device *device = g_ptr_array_index(devices, i);

		if (detach_is_ours(device))
			g_strv_builder_add(names, device->name);
	}
	return devices ? g_strv_builder_end(names) : NULL;
}

struct detaching {
	struct nbd_driver *driver;
	bool lazy;
};

static bool
detach_named(const char *name, const void *data, GError **error)
{
	const struct detaching *detaching = data;

	return detach_device(detaching->driver, name, detaching->lazy, error);
}

static bool
detach_check(const struct verb_call *call, GError **error)
{
	const struct detach_options *options = call->options;

	return verb_takes_devices(call, options->all, "", error);
}

static bool
run_detach(const struct verb_call *call, GError **error)
{
	const struct detach_options *options = call->options;
	struct nbd_driver *NBD_DRIVER_CLEANUP driver = NULL;
	g_auto(GStrv) ours = NULL;

	if (options->all) {
		ours = find_ours(error);
		if (!ours || !*ours)
			return ours != NULL;
	}
	driver = nbd_driver_open(error);
	return driver && verb_each_device(ours ? ours : call->operands, detach_named,
					  &(struct detaching){driver, options->lazy});
}

const struct verb verb_detach = {
	.name = "detach",
	.help = "detach a block device, after its data is written back",
	.synopsis = "[--lazy] DEVICE... | --all",
	.summary =
		"Detaches block devices that are not in use, after their data is written back, and returns when they are gone.",
	.rows = detach_option_rows,
	.least = 0,
	.most = -1,
	.options_size = sizeof(struct detach_options),
	.check = detach_check,
	.run = run_detach,
};
