/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel's nbd driver, through its netlink interface.  The driver keeps the devices; their
 * facts are in /sys (tool/device/device.h).
 */
#ifndef TOOL_DEVICE_NBD_DRIVER_H
#define TOOL_DEVICE_NBD_DRIVER_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* The kernel takes any free device, or makes one. */
#define NBD_DRIVER_ANY (-1)

struct nbd_driver;

/* Loads the module if there is no driver yet.  NULL with an error: no module, or not root. */
struct nbd_driver *
nbd_driver_open(GError **error);
void
nbd_driver_cleanup(struct nbd_driver **driver);

#define NBD_DRIVER_CLEANUP __attribute__((cleanup(nbd_driver_cleanup)))

struct nbd_driver_attachment {
	int index;               /* of the device, or NBD_DRIVER_ANY */
	uint64_t size;           /* bytes */
	unsigned int block_size; /* bytes; a power of two, 512 to the size of a page */
	uint16_t flags;          /* the export's transmission flags, NBD_FLAG_* */
	unsigned int timeout; /* seconds until an unanswered request ends its connection; 0: never,
				 with one connection; with several, the kernel always has a limit */
	unsigned int dead_timeout; /* seconds that requests wait for a new connection when none is
				      left; 0: they fail */
	const char *backend;       /* identifier */
	const int *sockets; /* ready for requests; on success, the kernel has its own references */
	unsigned int socket_count; /* >= 1 */
};

/*
 * Attaches a device; when this returns, the device has its size, and *index is its index.  Errors:
 * EBUSY, the device is attached or open; EOPNOTSUPP, this kernel has no backend identifiers
 * (before Linux 5.14); others.
 */
bool
nbd_driver_connect(struct nbd_driver *driver, const struct nbd_driver_attachment *attachment,
		   unsigned int *index, GError **error);

/* Detaches it at once: data in its page cache is lost. */
bool
nbd_driver_disconnect(struct nbd_driver *driver, unsigned int index, GError **error);

struct nbd_driver_change {
	const char *backend;         /* the identifier that it was attached with; NULL: none */
	const uint64_t *size;        /* new size, bytes; NULL: unchanged */
	const unsigned int *timeout; /* as above; NULL: unchanged */
	const int *socket;           /* replaces a dead one, if there is one; NULL: none */
	bool end_on_close;           /* detach the device when its last user closes it */
};

/*
 * Changes an attached device.  EINVAL: it isn't attached, or is being detached.  Success does not
 * mean that the kernel took the socket: see nbd_driver_uses_socket().
 */
bool
nbd_driver_change(struct nbd_driver *driver, unsigned int index,
		  const struct nbd_driver_change *change, GError **error);

/*
 * Whether the kernel took this socket, which was given to it with a timeout other than 0: it sets
 * that timeout on the socket.
 */
bool
nbd_driver_uses_socket(int socket);

#endif
