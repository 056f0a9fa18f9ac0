/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/backing.h"

#include "engine/backing/kind.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/sysmacros.h>
#include <unistd.h>

void
backing_close(struct backing *backing)
{
	backing->kind->close(backing);
}

int64_t
backing_size(const struct backing *backing)
{
	return backing->kind->size(backing);
}

bool
backing_same(const struct backing *a, const struct backing *b)
{
	return a->kind == b->kind && a->kind->same(a, b);
}

/* Parts must not share a page: if one server uses the page cache and the other does not, the cached
 * page could overwrite new data with old. */
struct lock_part
backing_part_pages(const struct lock_part *part)
{
	const long size = sysconf(_SC_PAGESIZE);
	const uint64_t page = size > 4096 ? (uint64_t)size : 4096;
	uint64_t start = part->start / page * page, end = BACKING_PART_END;

	if (part->end < end - page)
		end = (part->end + page - 1) / page * page;
	return (struct lock_part){start < end ? start : end - 1, end};
}

bool
backing_parts_meet(const struct lock_part *a, const struct lock_part *b)
{
	const struct lock_part one = backing_part_pages(a), other = backing_part_pages(b);

	return one.start < other.end && other.start < one.end;
}

int
backing_reopen(int fd)
{
	int again, flags = fcntl(fd, F_GETFL);
	char path[64];

	if (flags < 0)
		return -errno;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, (flags & (O_ACCMODE | O_DIRECT)) | O_CLOEXEC);
	return again < 0 ? -errno : again;
}

static int
backing_read_number(const struct backing *backing, const char *const places[2], const char *name,
		    uint64_t *value)
{
	for (size_t i = 0; i < 2; i++) {
		char path[128];
		FILE *f;
		int n;

		snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/%s%s", major(backing->device),
			 minor(backing->device), places[i], name);
		f = fopen(path, "re");
		if (!f)
			continue;
		n = fscanf(f, "%" SCNu64, value);
		fclose(f);
		if (n == 1)
			return 0;
	}
	return -ENOENT;
}

int
backing_queue_read(const struct backing *backing, const char *name, uint64_t *value)
{
	static const char *const places[] = {"queue/", "../queue/"};

	return backing_read_number(backing, places, name, value);
}

int
backing_disk_read(const struct backing *backing, const char *name, uint64_t *value)
{
	static const char *const places[] = {"", "../"};

	return backing_read_number(backing, places, name, value);
}

unsigned int
backing_device_block(const struct backing *backing)
{
	uint64_t size;

	if (backing->block_device)
		return backing->block_size;
	if (backing_queue_read(backing, "logical_block_size", &size) < 0)
		return 0;
	return size >= 512 && size <= 4096 && (size & (size - 1)) == 0 ? (unsigned int)size : 0;
}
