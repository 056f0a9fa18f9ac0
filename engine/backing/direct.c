/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/direct.h"

#include "engine/backing/block_queue.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

/* What we fall back on, and the least that NBD and the kernel's block layer know. */
#define SECTOR 512u
/* Memory alignment where the kernel doesn't tell it: always enough. */
#define PAGE 4096u

static bool
is_alignment(unsigned int n)
{
	return n != 0 && (n & (n - 1)) == 0;
}

/* Linux 6.1.  Not every file system answers: -ENODATA then.  Both alignments 0 say that direct
 * I/O isn't possible on this file (ext4 with data journalling or encryption): -EOPNOTSUPP. */
static int
ask_statx(int fd, struct backing *backing)
{
	/* <sys/stat.h> and <linux/stat.h> both declare struct statx: only the kernel's has the
	 * fields that we need in every C library, so this file doesn't include the former. */
	struct statx stx = {0};

	if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stx) < 0)
		return -ENODATA;
	if (!(stx.stx_mask & STATX_DIOALIGN))
		return -ENODATA;
	if (stx.stx_dio_offset_align == 0)
		return -EOPNOTSUPP;
	if (!is_alignment(stx.stx_dio_offset_align) || !is_alignment(stx.stx_dio_mem_align))
		return -ENODATA;
	backing->direct_align = stx.stx_dio_offset_align;
	backing->memory_align = stx.stx_dio_mem_align;
	return 0;
}

unsigned int
direct_device_block(const struct backing *backing)
{
	uint64_t size;

	if (backing->block_device)
		return backing->block_size;
	if (block_queue_read(backing->device, "logical_block_size", &size) < 0 || size < SECTOR ||
	    size > PAGE || !is_alignment((unsigned int)size))
		return 0;
	return (unsigned int)size;
}

/* A file smaller than a block ends the read early, which is no failure. */
static int
try_read(int fd, unsigned int align)
{
	void *CLEANUP_FREE buffer = NULL;

	if (posix_memalign(&buffer, align > PAGE ? align : PAGE, align) != 0)
		return -ENOMEM;
	return pread(fd, buffer, align, 0) < 0 ? -errno : 0;
}

int
direct_learn(int fd, struct backing *backing)
{
	int r = ask_statx(fd, backing);

	if (r == -EOPNOTSUPP) {
		snprintf(backing->direct_reason, REASON_MAX,
			 "the file system does not support it for this file");
		return r;
	}
	if (r < 0) {
		backing->direct_align = direct_device_block(backing);
		backing->memory_align = PAGE;
	}
	if (backing->direct_align < SECTOR)
		backing->direct_align = SECTOR;

	r = try_read(fd, backing->direct_align);
	if (r == -EINVAL && backing->direct_align < PAGE) {
		backing->direct_align = PAGE;
		r = try_read(fd, PAGE);
	}
	if (r < 0)
		snprintf(backing->direct_reason, REASON_MAX,
			 "a direct read of the first %u bytes failed: %s", backing->direct_align,
			 strerror(-r));
	return r;
}

int
direct_possible(const struct backing *backing, uint64_t offset, uint64_t size,
		unsigned int sector_size, char reason[REASON_MAX])
{
	unsigned int align = backing->direct_align;

	if (backing->direct_fd < 0) {
		snprintf(reason, REASON_MAX, "%s", backing->direct_reason);
		return -EINVAL;
	}
	if (sector_size > 1 && sector_size < align) {
		snprintf(reason, REASON_MAX,
			 "sector-size=%u is smaller than the %u-byte blocks that it needs",
			 sector_size, align);
		return -EINVAL;
	}
	if (offset % align) {
		snprintf(reason, REASON_MAX,
			 "offset=%llu is not a multiple of the %u-byte blocks that it needs",
			 (unsigned long long)offset, align);
		return -EINVAL;
	}
	if (size % align && (sector_size > 1 || backing->block_device)) {
		snprintf(reason, REASON_MAX,
			 "the size %llu is not a multiple of the %u-byte blocks that it needs",
			 (unsigned long long)size, align);
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
