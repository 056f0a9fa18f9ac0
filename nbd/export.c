/* SPDX-License-Identifier: BSD-3-Clause */
#include "nbd/export.h"

#include "nbd/protocol.h"
#include "nbd/text.h"

#include <stddef.h>
#include <string.h>

static bool
is_power_of_two(uint32_t n)
{
	return n && !(n & (n - 1));
}

const char *
nbd_export_problem(const struct nbd_export *export)
{
	const char *description = export->description ? export->description : "";

	if (!export->name)
		return "it has no name";
	if (strlen(export->name) > NBD_STRING_MAX || strlen(description) > NBD_STRING_MAX)
		return "name and description may have 4096 bytes each";
	if (!nbd_text_valid(export->name, strlen(export->name)) ||
	    !nbd_text_valid(description, strlen(description)))
		return "name and description must be UTF-8";
	if (!is_power_of_two(export->min_block) || export->min_block > NBD_MIN_BLOCK_MAX)
		return "the minimum block size must be a power of two up to 65536";
	if (!is_power_of_two(export->preferred_block) || export->preferred_block < 512 ||
	    export->preferred_block < export->min_block)
		return "the preferred block size must be a power of two, at least 512 and the minimum block size";
	if (export->max_payload < export->preferred_block || export->max_payload < (1u << 20))
		return "the maximum payload size must be at least 1 MiB and the preferred block size";
	if (export->flags & ~NBD_EXPORT_FLAGS)
		return "it has transmission flags that it must not set";
	return NULL;
}

uint16_t
nbd_export_flags(const struct nbd_export *export, bool read_only, bool chunks)
{
	unsigned int flags = (export->flags & NBD_EXPORT_FLAGS) | NBD_FLAG_HAS_FLAGS;

	if (read_only)
		flags |= NBD_FLAG_READ_ONLY;
	if (flags & NBD_FLAG_READ_ONLY)
		flags &= ~(NBD_FLAG_SEND_TRIM | NBD_FLAG_SEND_WRITE_ZEROES);
	if (!(flags & NBD_FLAG_SEND_WRITE_ZEROES))
		flags &= ~NBD_FLAG_SEND_FAST_ZERO;
	if (chunks)
		flags |= NBD_FLAG_SEND_DF;
	return (uint16_t)flags;
}
