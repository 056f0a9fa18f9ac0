/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/link/export_facts.h"

#include "tool/failure.h"

#include "nbd/protocol.h"

#include <errno.h>
#include <inttypes.h>

enum {
	SMALLEST_BLOCK = 512,
	LARGEST_BLOCK =
		4096, /* the smallest page of any machine: no device of 6.1 has larger blocks */
};

/* The flags that the kernel's client knows. */
#define KERNEL_FLAGS                                                                               \
	(NBD_FLAG_READ_ONLY | NBD_FLAG_SEND_FLUSH | NBD_FLAG_SEND_FUA | NBD_FLAG_ROTATIONAL |      \
	 NBD_FLAG_SEND_TRIM | NBD_FLAG_SEND_WRITE_ZEROES | NBD_FLAG_CAN_MULTI_CONN)

struct export_facts
export_facts_of(const struct nbd_client_handshake *handshake)
{
	return (struct export_facts){
		.size = handshake->size,
		.block_size = CLAMP(handshake->smallest_block, SMALLEST_BLOCK, LARGEST_BLOCK),
		.flags = (uint16_t)(NBD_FLAG_HAS_FLAGS | (handshake->flags & KERNEL_FLAGS)),
	};
}

/* ---- another one in its place */

/* What a device uses when it is writable.  A flag that the other server lacks would make it refuse
 * the kernel's requests. */
static const struct {
	uint16_t flag;
	const char *name;
} abilities[] = {
	{NBD_FLAG_SEND_FLUSH, "flush"},
	{NBD_FLAG_SEND_FUA, "FUA"},
	{NBD_FLAG_SEND_TRIM, "trim"},
	{NBD_FLAG_SEND_WRITE_ZEROES, "write zeroes"},
};

static bool
abilities_fit(uint16_t device, uint16_t other, GError **error)
{
	for (size_t i = 0; i < G_N_ELEMENTS(abilities); i++) {
		if (device & ~other & abilities[i].flag)
			return failure(
				error, EINVAL,
				"its export doesn't know the command that the device uses: %s",
				abilities[i].name);
	}
	/* The kernel wouldn't send any flush. */
	return !(other & ~device & NBD_FLAG_SEND_FLUSH) ||
	       failure(error, EINVAL,
		       "its export needs flushes, and the device was attached without");
}

bool
export_facts_fit(const struct export_facts *device, const struct export_facts *other,
		 GError **error)
{
	const bool writable = !(device->flags & NBD_FLAG_READ_ONLY);

	if (other->size - other->size % device->block_size != device->size)
		return failure(error, EINVAL,
			       "its export has %" PRIu64 " bytes, and the device %" PRIu64,
			       other->size, device->size);
	if (other->block_size > device->block_size)
		return failure(error, EINVAL,
			       "its export has blocks of %u bytes, and the device of %u",
			       other->block_size, device->block_size);
	if (writable && other->flags & NBD_FLAG_READ_ONLY)
		return failure(error, EINVAL,
			       "its export can only be read, and the device is writable");
	if (device->flags & ~other->flags & NBD_FLAG_CAN_MULTI_CONN)
		return failure(error, EINVAL, "it doesn't allow several connections (multi-conn)");
	return !writable || abilities_fit(device->flags, other->flags, error);
}
