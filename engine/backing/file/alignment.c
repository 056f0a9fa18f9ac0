/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/file/alignment.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/stat.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

/* The smallest block that NBD and the kernel's block layer know, in bytes. */
#define SECTOR 512u
/* The memory alignment if the kernel does not tell it, in bytes: always enough. */
#define PAGE 4096u

static bool
is_alignment(unsigned int n)
{
	return n != 0 && (n & (n - 1)) == 0;
}

/* Asks for the alignment with statx (Linux 6.1). Returns -ENODATA if the file system does not
 * answer, and -EOPNOTSUPP if direct I/O is not possible on this file (both alignments are 0: ext4
 * with data journalling or encryption). */
static int
ask_statx(int fd, struct alignment *alignment)
{
	/* <sys/stat.h> and <linux/stat.h> both declare struct statx. Only the kernel's has the
	 * fields that we need with every C library, so this file does not include <sys/stat.h>. */
	struct statx stx = {0};

	if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stx) < 0)
		return -ENODATA;
	if (!(stx.stx_mask & STATX_DIOALIGN))
		return -ENODATA;
	if (stx.stx_dio_offset_align == 0)
		return -EOPNOTSUPP;
	if (!is_alignment(stx.stx_dio_offset_align) || !is_alignment(stx.stx_dio_mem_align))
		return -ENODATA;
	alignment->offset = stx.stx_dio_offset_align;
	alignment->memory = stx.stx_dio_mem_align;
	return 0;
}

/* Tries a direct read of one block. Returns 0 or -errno. A short read is no failure: the file may
 * be smaller than a block. */
static int
try_read(int fd, unsigned int align)
{
	void *CLEANUP_FREE buffer = NULL;
	ssize_t n;

	if (posix_memalign(&buffer, align > PAGE ? align : PAGE, align) != 0)
		return -ENOMEM;
	do {
		n = pread(fd, buffer, align, 0);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

/*
 * A direct write into a hole of a file without extents goes through the page cache. Such a
 * write may make a page dirty again while a direct write to another part of the page is in flight.
 * The kernel then considers the direct write lost ("Page cache invalidation failure on direct
 * I/O"), and the next sync fails. With whole pages, no two writes in flight share a page.
 */
static bool
is_without_extents(int fd)
{
	struct statfs facts;
	int flags;

	return fstatfs(fd, &facts) == 0 && (uint32_t)facts.f_type == EXT4_SUPER_MAGIC &&
	       ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0 && !(flags & FS_EXTENT_FL);
}

int
alignment_learn(int fd, unsigned int device_block, struct alignment *alignment, char *reason,
		size_t size)
{
	unsigned int page = (unsigned int)sysconf(_SC_PAGESIZE);
	int r = ask_statx(fd, alignment);

	if (r == -EOPNOTSUPP) {
		snprintf(reason, size, "the file system does not support it for this file");
		return r;
	}
	if (r < 0)
		*alignment = (struct alignment){.offset = device_block, .memory = PAGE};
	if (alignment->offset < SECTOR)
		alignment->offset = SECTOR;

	r = try_read(fd, alignment->offset);
	if (r == -EINVAL && alignment->offset < PAGE) {
		alignment->offset = PAGE;
		r = try_read(fd, PAGE);
	}
	if (r < 0)
		snprintf(reason, size, "a direct read of the first %u bytes failed: %s",
			 alignment->offset, strerror(-r));
	alignment->sector = alignment->offset;
	if (alignment->offset < page && is_without_extents(fd))
		alignment->offset = page;
	return r;
}
