/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel's nbd driver, by its netlink interface.  It keeps the devices; what it tells about
 * them is in /sys (tool/device/device.h).
 */
#ifndef TOOL_DEVICE_NBD_DRIVER_H
#define TOOL_DEVICE_NBD_DRIVER_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* Let the kernel take any device that is free, or make one. */
#define NBD_DRIVER_ANY (-1)

struct nbd_driver;

/* Loads the module where there is no driver yet.  NULL with an error: no module, not root. */
struct nbd_driver *
nbd_driver_open(GError **error);
void
nbd_driver_close(struct nbd_driver *driver);

static inline void
nbd_driver_cleanup(struct nbd_driver **driver)
{
	if (*driver)
		nbd_driver_close(*driver);
}

/* struct nbd_driver *NBD_DRIVER_CLEANUP driver = NULL; */
#define NBD_DRIVER_CLEANUP __attribute__((cleanup(nbd_driver_cleanup)))

struct nbd_driver_attachment {
	int index;               /* of the device, or NBD_DRIVER_ANY */
	uint64_t size;           /* bytes */
	unsigned int block_size; /* bytes; a power of two, 512 to the size of a page */
	uint16_t flags;          /* the export's transmission flags, NBD_FLAG_* */
	unsigned int timeout; /* seconds until a request that is not answered ends its connection;
			       * 0: never, if there is one connection only; the kernel has no never
			       * for several */
	unsigned int dead_timeout; /* seconds that requests wait for a new connection when there is
				      none; 0: they fail */
	const char *backend;       /* identifier */
	const int *sockets; /* ready for requests; the kernel has its own references when this
			       succeeds */
	unsigned int socket_count; /* >= 1 */
};

/*
 * Attaches a device; it has its size when this returns, and its index is in *index.  Errors: EBUSY,
 * the device is attached or open; EOPNOTSUPP, this kernel knows no backend identifier (before
 * Linux 5.14); others.
 */
bool
nbd_driver_connect(struct nbd_driver *driver, const struct nbd_driver_attachment *attachment,
		   unsigned int *index, GError **error);

/* Ends it at once: what is in the page cache is lost. */
bool
nbd_driver_disconnect(struct nbd_driver *driver, unsigned int index, GError **error);

struct nbd_driver_change {
	const char *backend;         /* as it is attached with; NULL: it has none */
	const uint64_t *size;        /* new size, bytes; NULL: as it is */
	const unsigned int *timeout; /* as above; NULL: as it is */
	const int *socket; /* takes the place of a dead one, if there is one; NULL: none */
	bool end_on_close; /* detach it when the last one who has it open closes it */
};

/*
 * Changes an attached device.  EINVAL: it isn't attached, or is just being detached.  Success
 * doesn't say that the socket was taken: see nbd_driver_uses_socket().
 */
bool
nbd_driver_change(struct nbd_driver *driver, unsigned int index,
		  const struct nbd_driver_change *change, GError **error);

/*
 * Whether the kernel uses this socket, given to it together with a timeout that isn't 0: it gives
 * the socket that timeout, too.
 */
bool
nbd_driver_uses_socket(int socket);

#endif
