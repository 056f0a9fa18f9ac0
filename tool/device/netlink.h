/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests to a part of the kernel through generic netlink: a message with attributes, and the
 * kernel's answer.  The few that the nbd driver needs take less code than a library takes time to
 * load.
 */
#ifndef TOOL_DEVICE_NETLINK_H
#define TOOL_DEVICE_NETLINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A message is one page: enough for hundreds of sockets, but not for a text of any length. */
#define NETLINK_ROOM 4096

struct netlink {
	int fd;
	uint32_t sequence; /* of the last request */
};

struct netlink_request {
	uint8_t bytes[NETLINK_ROOM] __attribute__((aligned(4)));
	size_t used;
	bool full; /* an attribute had no room */
};

/* Returns 0 or a negative errno; netlink_close() is needed only after 0. */
int
netlink_open(struct netlink *netlink);
void
netlink_close(struct netlink *netlink);

/* Begins a request to a family. */
void
netlink_begin(struct netlink_request *request, uint16_t family, uint8_t command, uint8_t version);

/* Adds an attribute.  What has no room is left out, and netlink_ask() says so. */
void
netlink_put(struct netlink_request *request, uint16_t attribute, const void *value, size_t size);

/* Begins an attribute that consists of those that are added until netlink_unnest(), which takes the
 * returned place. */
size_t
netlink_nest(struct netlink_request *request, uint16_t attribute);
void
netlink_unnest(struct netlink_request *request, size_t place);

/*
 * Sends the request and waits for the end of the answer.  If the answer has the attribute `wanted`
 * with `size` bytes, they are in *value; else that is unchanged.  Returns 0 or an errno: the
 * kernel's, or EMSGSIZE, an attribute had no room.
 */
int
netlink_ask(struct netlink *netlink, struct netlink_request *request, uint16_t wanted, void *value,
	    size_t size);

/* The number of the family with that name; 0: there is none, or it can't be reached. */
uint16_t
netlink_find_family(struct netlink *netlink, const char *name);

#endif
