/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/snapshot/source.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static int
duplicate(int fd, int *copy)
{
	*copy = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
	return fd >= 0 && *copy < 0 ? -errno : 0;
}

int
source_open(struct source *source, const struct backing *backing, uint64_t direct_end)
{
	int r;

	*source = (struct source){.backing = *backing, .direct_end = direct_end};
	source->backing.path = NULL;
	source->backing.direct_fd = source->backing.claim_fd = -1;
	r = duplicate(backing->fd, &source->backing.fd);
	if (r == 0)
		r = duplicate(backing->direct_fd, &source->backing.direct_fd);
	return r;
}

void
source_close(struct source *source)
{
	if (source->backing.direct_fd >= 0)
		close(steal_fd(&source->backing.direct_fd));
	if (source->backing.fd >= 0)
		close(steal_fd(&source->backing.fd));
}

bool
source_takes_direct(const struct source *source, const void *buffer, size_t length, uint64_t offset)
{
	const struct backing *backing = &source->backing;

	return backing->direct_fd >= 0 && !((offset | length) & (backing->direct_align - 1)) &&
	       !((uintptr_t)buffer & (backing->memory_align - 1)) &&
	       offset + length <= source->direct_end;
}

int
source_read(const struct source *source, bool direct, void *buffer, size_t length, uint64_t offset,
	    uint64_t *reached)
{
	char *to = buffer;

	while (length > 0) {
		/* After a direct read that has met the end of the file, the rest may not fit. */
		int fd = direct && source_takes_direct(source, to, length, offset)
				 ? source->backing.direct_fd
				 : source->backing.fd;
		ssize_t n = pread(fd, to, length, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		*reached = offset;
		if (n <= 0)
			return n < 0 ? -errno : -ENODATA;
		to += n;
		offset += (size_t)n;
		length -= (size_t)n;
	}
	return 0;
}

bool
source_is_hole(const struct source *source, uint64_t from, uint64_t to)
{
	int fd = source->backing.fd;
	off_t data;

	if (lseek(fd, (off_t)from, SEEK_HOLE) != (off_t)from)
		return false;
	data = lseek(fd, (off_t)from, SEEK_DATA);
	if (data >= 0)
		return (uint64_t)data >= to;
	/* A hole up to the end of the file, which may be before `to`: it was truncated. */
	return errno == ENXIO && lseek(fd, 0, SEEK_END) >= (off_t)to;
}
