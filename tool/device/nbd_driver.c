/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/device/nbd_driver.h"

#include "tool/device/netlink.h"
#include "tool/failure.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/nbd-netlink.h>
#include <linux/nbd.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct nbd_driver {
	struct netlink netlink; /* .fd is -1 until it is open */
	uint16_t family;
};

void
nbd_driver_cleanup(struct nbd_driver **driver)
{
	if (*driver && (*driver)->netlink.fd >= 0)
		netlink_close(&(*driver)->netlink);
	g_free(*driver);
}

/* ---- finding the driver */

static bool
load_module(GError **error)
{
	g_autofree char *found = g_find_program_in_path("modprobe");
	/* PATH may have none of the directories for administrators. */
	const char *argv[] = {found ? found : "/sbin/modprobe", "nbd", NULL};
	g_autofree char *said = NULL;
	int status = 0;

	if (!g_spawn_sync(NULL, (char **)argv, NULL, G_SPAWN_STDOUT_TO_DEV_NULL, NULL, NULL, NULL,
			  &said, &status, NULL))
		return failure(
			error, ENOENT,
			"the kernel has no nbd driver loaded, and there is no modprobe to load it: "
			"install the package kmod");
	if (status == 0)
		return true;
	g_strdelimit(g_strstrip(said), "\n", ' ');
	return failure(
		error, ENODEV,
		"the kernel's nbd driver isn't loaded, and can't be: %s.  Load the module nbd, or boot a "
		"kernel that has it%s",
		*said ? said : "modprobe nbd failed", "; in a container, load it outside");
}

static bool
find_family(struct nbd_driver *driver)
{
	driver->family = netlink_find_family(&driver->netlink, NBD_GENL_FAMILY_NAME);
	return driver->family != 0;
}

static bool
driver_open_socket(struct nbd_driver *driver)
{
	if (driver->netlink.fd >= 0)
		netlink_close(&driver->netlink);
	return netlink_open(&driver->netlink) == 0;
}

/*
 * The driver's netlink interface is only in the network namespace that the machine started with.  A
 * socket stays in the namespace where it was made: all else, such as a connection to a remote
 * server, belongs to this one.
 */
static bool
find_family_outside(struct nbd_driver *driver)
{
	int CLEANUP_CLOSE here = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	int CLEANUP_CLOSE first = open("/proc/1/ns/net", O_RDONLY | O_CLOEXEC);
	bool found;

	if (here < 0 || first < 0 || setns(first, CLONE_NEWNET) < 0)
		return false;
	found = driver_open_socket(driver) && find_family(driver);
	return setns(here, CLONE_NEWNET) == 0 && found;
}

static bool
find_driver(struct nbd_driver *driver, GError **error)
{
	if (find_family(driver) || find_family_outside(driver))
		return true;
	if (!load_module(error))
		return false;
	if (find_family(driver) || find_family_outside(driver))
		return true;
	return failure(
		error, ENODEV,
		"the nbd driver is loaded, but can't be reached from here: its netlink interface is only in the "
		"network namespace that the machine started with.  Run nbdloop there, in a container with the host's network");
}

struct nbd_driver *
nbd_driver_open(GError **error)
{
	struct nbd_driver *NBD_DRIVER_CLEANUP driver = g_new0(struct nbd_driver, 1);

	if (geteuid() != 0)
		return FAILURE_NULL(error, EPERM,
				    "only root can attach and change block devices: use sudo");
	driver->netlink.fd = -1;
	if (!driver_open_socket(driver))
		return FAILURE_NULL(error, EPROTO, "no connection to the kernel (generic netlink)");
	if (!find_driver(driver, error))
		return NULL;
	return steal_pointer(&driver);
}

/* ---- asking it */

/* Begins a request, to which attributes can be added. */
static void
driver_begin(const struct nbd_driver *driver, struct netlink_request *request, uint8_t command)
{
	netlink_begin(request, driver->family, command, NBD_GENL_VERSION);
}

static void
put_u32(struct netlink_request *request, uint16_t attribute, uint32_t value)
{
	netlink_put(request, attribute, &value, sizeof(value));
}

static void
put_u64(struct netlink_request *request, uint16_t attribute, uint64_t value)
{
	netlink_put(request, attribute, &value, sizeof(value));
}

static void
put_backend(struct netlink_request *request, const char *backend)
{
	if (backend)
		netlink_put(request, NBD_ATTR_BACKEND_IDENTIFIER, backend, strlen(backend) + 1);
}

static void
put_sockets(struct netlink_request *request, const int *sockets, unsigned int count)
{
	const size_t list = netlink_nest(request, NBD_ATTR_SOCKETS);

	for (unsigned int i = 0; i < count; i++) {
		const size_t item = netlink_nest(request, NBD_SOCK_ITEM);

		put_u32(request, NBD_SOCK_FD, (uint32_t)sockets[i]);
		netlink_unnest(request, item);
	}
	netlink_unnest(request, list);
}

/* Sends a request to which the kernel answers nothing but yes or no.  `what` it is, for the error,
 * which names the device. */
static bool
driver_order(struct nbd_driver *driver, struct netlink_request *request, const char *what,
	     unsigned int index, GError **error)
{
	const int err = netlink_ask(&driver->netlink, request, NBD_ATTR_UNSPEC, NULL, 0);

	return !err ||
	       failure_errno(error, err, "the kernel refuses to %s /dev/nbd%u", what, index);
}

static void
fill_connect(struct netlink_request *request, const struct nbd_driver_attachment *attachment)
{
	if (attachment->index != NBD_DRIVER_ANY)
		put_u32(request, NBD_ATTR_INDEX, (uint32_t)attachment->index);
	put_u64(request, NBD_ATTR_SIZE_BYTES, attachment->size);
	put_u64(request, NBD_ATTR_BLOCK_SIZE_BYTES, attachment->block_size);
	put_u64(request, NBD_ATTR_SERVER_FLAGS, attachment->flags);
	/* Without a timeout the kernel would set the queue's to its default, which must be changed
	 * again then (tool/guard/attachment.c).  Each attachment begins without one. */
	if (attachment->timeout)
		put_u64(request, NBD_ATTR_TIMEOUT, attachment->timeout);
	put_u64(request, NBD_ATTR_DEAD_CONN_TIMEOUT, attachment->dead_timeout);
	put_sockets(request, attachment->sockets, attachment->socket_count);
	put_backend(request, attachment->backend);
}

bool
nbd_driver_connect(struct nbd_driver *driver, const struct nbd_driver_attachment *attachment,
		   unsigned int *index, GError **error)
{
	g_autofree char *shown = NULL;
	struct netlink_request request;
	uint32_t given = UINT32_MAX;
	int err;

	driver_begin(driver, &request, NBD_CMD_CONNECT);
	fill_connect(&request, attachment);
	err = netlink_ask(&driver->netlink, &request, NBD_ATTR_INDEX, &given, sizeof(given));
	if (err == EPERM)
		return failure(
			error, err,
			"attaching block devices is not allowed here: it needs the capability "
			"CAP_SYS_ADMIN, outside of containers without privileges");
	if (err || given == UINT32_MAX)
		return failure(error, err ? err : EPROTO, "the kernel's nbd driver refuses: %s",
			       g_strerror(err ? err : EPROTO));
	*index = given;
	shown = g_strdup_printf("/sys/block/nbd%u/backend", *index);
	if (access(shown, F_OK) == 0)
		return true;
	nbd_driver_disconnect(driver, *index, NULL);
	return failure(
		error, EOPNOTSUPP,
		"this kernel is too old: its nbd driver can't say what a device is attached to.  "
		"Linux 5.14 and later can");
}

bool
nbd_driver_disconnect(struct nbd_driver *driver, unsigned int index, GError **error)
{
	struct netlink_request request;

	driver_begin(driver, &request, NBD_CMD_DISCONNECT);
	put_u32(&request, NBD_ATTR_INDEX, index);
	return driver_order(driver, &request, "detach", index, error);
}

bool
nbd_driver_change(struct nbd_driver *driver, unsigned int index,
		  const struct nbd_driver_change *change, GError **error)
{
	struct netlink_request request;

	driver_begin(driver, &request, NBD_CMD_RECONFIGURE);
	put_u32(&request, NBD_ATTR_INDEX, index);
	put_backend(&request, change->backend);
	if (change->size)
		put_u64(&request, NBD_ATTR_SIZE_BYTES, *change->size);
	if (change->timeout)
		put_u64(&request, NBD_ATTR_TIMEOUT, *change->timeout);
	if (change->end_on_close)
		put_u64(&request, NBD_ATTR_CLIENT_FLAGS, NBD_CFLAG_DISCONNECT_ON_CLOSE);
	if (change->socket)
		put_sockets(&request, change->socket, 1);
	return driver_order(driver, &request, "change", index, error);
}

bool
nbd_driver_uses_socket(int socket)
{
	struct timeval timeout = {0};
	socklen_t length = sizeof(timeout);

	return getsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &timeout, &length) == 0 &&
	       (timeout.tv_sec || timeout.tv_usec);
}
