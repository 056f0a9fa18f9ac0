/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/file/file_extent.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

struct extent {
	uint64_t end; /* offset in the file */
	bool hole;
};

/*
 * Finds the extent at offset `place` of the file, cut off at `end`. Returns 0 or -errno. lseek()
 * moves the descriptor's position, which nothing uses; its result is right even if other threads
 * call it at the same time. It is always correct to call a range data, so that is the answer if the
 * file system can't tell (EINVAL), or if the file changes during the call.
 */
static int
extent_at(int fd, uint64_t place, uint64_t end, struct extent *extent)
{
	off_t next = lseek(fd, (off_t)place, SEEK_DATA);

	*extent = (struct extent){.end = end};
	if (next < 0 && errno == ENXIO) {
		/* There is no more data up to the end of the file. Bytes that the file lost when it
		 * was truncated are no hole: a reader must get the error there, not zeroes. */
		next = lseek(fd, 0, SEEK_END);
		extent->hole = next > (off_t)place;
	} else if (next == (off_t)place) {
		next = lseek(fd, (off_t)place, SEEK_HOLE);
	} else if (next < 0 && errno != EINVAL) {
		return -errno;
	} else {
		extent->hole = next > (off_t)place;
	}
	if (next > (off_t)place && (uint64_t)next < end)
		extent->end = (uint64_t)next;
	return 0;
}

int
file_extents(const struct backing *backing, uint64_t offset, uint64_t length, bool one,
	     extent_visit visit, void *data)
{
	uint64_t place = offset, end = offset + length;
	int r = 0;

	while (place < end && r == 0) {
		struct extent extent;

		r = extent_at(backing->fd, place, end, &extent);
		if (r == 0)
			r = visit(data, place, extent.end - place, extent.hole);
		if (one)
			break;
		place = extent.end;
	}
	return r;
}

bool
file_have_holes(const struct backing *backing)
{
	struct stat facts;

	/* st_blocks counts units of 512 bytes, whatever the file system's block size. */
	return fstat(backing->fd, &facts) == 0 && S_ISREG(facts.st_mode) &&
	       facts.st_blocks < facts.st_size / 512;
}
