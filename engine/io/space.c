/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/io/space.h"

#include "engine/io/image_state.h"
#include "engine/io/io.h"

#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>

#define PUNCH (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE)
#define ZERO  (FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE)

/* Bits of image.unsupported. */
enum {
	NO_PUNCH = 1,
	NO_ZERO = 2,
};

/* The fallocate() modes for an operation, best first; 0 ends the list. */
struct ways {
	int mode[3];
};

/*
 * On a block device, PUNCH zeroes the range with the device's own command, and unmaps it if the
 * device can; it fails if the device has no such command. ZERO never unmaps, and may write zero
 * pages itself, which is not fast.
 */
static const struct ways *
space_ways(const struct image *image, const struct io *io)
{
	static const struct ways unmap = {{PUNCH, 0}};
	static const struct ways zero = {{ZERO, 0}};
	static const struct ways unmap_or_zero = {{PUNCH, ZERO, 0}};
	static const struct ways none = {{0}};
	bool may_unmap = (io->flags & IO_MAY_UNMAP) && image->config.discard == TRISTATE_ON;

	if (io->op == IO_DISCARD)
		return image->config.discard == TRISTATE_ON ? &unmap : &none;
	if (image->backing.slow_zero && (io->flags & IO_FAST))
		return may_unmap ? &unmap : &none;
	return may_unmap ? &unmap_or_zero : &zero;
}

static unsigned int
space_bit(int mode)
{
	return mode == PUNCH ? NO_PUNCH : NO_ZERO;
}

int
space_mode(const struct image *image, const struct io *io, unsigned int *attempt)
{
	const struct ways *ways = space_ways(image, io);
	unsigned int unsupported = atomic_load_explicit(&image->unsupported, memory_order_relaxed);

	while (ways->mode[*attempt] && (unsupported & space_bit(ways->mode[*attempt])))
		(*attempt)++;
	return ways->mode[*attempt] ? ways->mode[*attempt] : -EOPNOTSUPP;
}

void
space_unsupported(struct image *image, const struct io *io, unsigned int attempt)
{
	unsigned int bit = space_bit(space_ways(image, io)->mode[attempt]);

	if (atomic_fetch_or(&image->unsupported, bit) & bit)
		return;
	if (bit == NO_PUNCH)
		log_warning(
			"%s: no holes can be made here: discarding has no effect, and zeroes are "
			"written or allocated",
			image->backing.path);
	else
		log_warning("%s: ranges can't be zeroed in place here: zeroes are written",
			    image->backing.path);
}
