/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/direct.h"

#include <errno.h>
#include <stdio.h>

int
direct_possible(const struct backing *backing, uint64_t offset, uint64_t size,
		unsigned int sector_size, char reason[REASON_MAX])
{
	unsigned int align = backing->direct_align;

	if (backing->direct_fd < 0) {
		snprintf(reason, REASON_MAX, "%s", backing->direct_reason);
		return -EINVAL;
	}
	if (sector_size > 1 && sector_size < backing->direct_sector) {
		snprintf(reason, REASON_MAX,
			 "sector-size=%u is smaller than the %u-byte blocks that it needs",
			 sector_size, backing->direct_sector);
		return -EINVAL;
	}
	if (offset % align) {
		snprintf(reason, REASON_MAX,
			 "offset=%llu is not a multiple of the %u-byte blocks that it needs",
			 (unsigned long long)offset, align);
		return -EINVAL;
	}
	/* Where that is less than a block of ours, the end of the file goes through the page cache.
	 */
	if (size % backing->direct_sector && (sector_size > 1 || backing->block_device)) {
		snprintf(reason, REASON_MAX,
			 "the size %llu is not a multiple of the %u-byte blocks that it needs",
			 (unsigned long long)size, backing->direct_sector);
		return -EINVAL;
	}
	return 0;
}

uint64_t
direct_end(const struct backing *backing, uint64_t end)
{
	uint64_t block = backing->cache_block;

	if (backing->direct_fd < 0 || backing->block_device || end % backing->direct_align == 0)
		return UINT64_MAX;
	if (block < backing->direct_align)
		block = backing->direct_align;
	return end / block * block;
}
