/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a server tells of its export, as a block device can have it; and whether another server's
 * export can take the place of the one that a device was attached to.
 */
#ifndef TOOL_LINK_EXPORT_FACTS_H
#define TOOL_LINK_EXPORT_FACTS_H

#include "nbd/client_handshake.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

struct export_facts {
	uint64_t size;           /* bytes */
	unsigned int block_size; /* bytes: the smallest that the server wants, as a block device can
				    have it */
	uint16_t flags;          /* transmission flags, as the kernel wants them */
};

/* Of a handshake that is ready. */
struct export_facts
export_facts_of(const struct nbd_client_handshake *handshake);

/*
 * Whether a device, as the kernel knows it (`device`: its size is a multiple of its block size),
 * can have the other export.  Its size must be the same, apart from a last part of a block; and the
 * kernel asks once, when the device is attached, what a server can do, and whether writes must be
 * flushed.  EINVAL: it can't.
 */
bool
export_facts_fit(const struct export_facts *device, const struct export_facts *other,
		 GError **error);

#endif
