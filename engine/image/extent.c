/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/image/extent.h"

#include "engine/io/image_state.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

struct extent {
	uint64_t end; /* in the file */
	bool hole;
};

/*
 * The extent at `place` (in the file), cut off at `end`.  lseek() moves the descriptor's position,
 * which nobody uses: what it returns is right whoever else calls it at the same time.  Data is what
 * is always true: it is the answer where the file system can't tell (EINVAL) or the file changes
 * meanwhile.
 */
static int
extent_at(int fd, uint64_t place, uint64_t end, struct extent *extent)
{
	off_t next = lseek(fd, (off_t)place, SEEK_DATA);

	*extent = (struct extent){.end = end};
	if (next < 0 && errno == ENXIO) {
		/* No more data up to the end of the file.  What it lost when it was truncated is no
		 * hole: whoever reads there must get the error, not zeroes. */
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
extents_visit(struct image *image, uint64_t offset, uint64_t length, bool one,
	      int (*visit)(void *data, uint64_t offset, uint64_t length, bool hole), void *data)
{
	uint64_t base = image->config.offset;
	uint64_t place = base + offset, end = place + length;
	int r = 0;

	while (place < end && r == 0) {
		struct extent extent;

		r = extent_at(image->backing.fd, place, end, &extent);
		if (r == 0)
			r = visit(data, place - base, extent.end - place, extent.hole);
		if (one)
			break;
		place = extent.end;
	}
	return r;
}

bool
extents_have_holes(const struct image *image)
{
	struct stat facts;

	/* st_blocks counts 512 bytes each, whatever the file system's blocks are. */
	return fstat(image->backing.fd, &facts) == 0 && S_ISREG(facts.st_mode) &&
	       facts.st_blocks < facts.st_size / 512;
}
