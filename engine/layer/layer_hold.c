/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/layer/layer_hold.h"

#include "engine/backing/file/lock.h"

#include "common/clock.h"
#include "common/error.h"
#include "common/image_use.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int64_t
hold_modified(const struct stat *st)
{
	return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

/* Returns whether the kernel uses the base, and how. */
static bool
hold_find_use(const struct stat *st, struct image_use *use)
{
	const bool block_device = S_ISBLK(st->st_mode);
	const struct image_part part = {
		.device = block_device ? st->st_rdev : st->st_dev,
		.inode = block_device ? 0 : st->st_ino,
		.end = UINT64_MAX,
	};

	return image_use_find("", &part, use);
}

static int
hold_refuse(const struct layer_wish *wish, const char *layer, const char *path, const char *use,
	    char **error)
{
	if (!wish->force)
		return error_set(error, -EBUSY,
				 "%s: its base %s may change: %s; end that first; with force=on "
				 "(--force) it is used all the same, and the layer may be damaged",
				 layer, path, use);
	log_warning("%s: its base %s may change: %s; with force=on it is used all the same", layer,
		    path, use);
	return 0;
}

/* Opens the device once more, exclusively. Returns a descriptor or -errno. */
static int
hold_open_claim(int fd)
{
	char again[64];
	int claim;

	snprintf(again, sizeof(again), "/proc/self/fd/%d", fd);
	claim = open(again, O_RDONLY | O_EXCL | O_CLOEXEC);
	return claim < 0 ? -errno : claim;
}

/* Claims a block device. A server that has a layer on the device, too, has a lock there, and the
 * claim, or one that has just begun to take both. Returns 0, or -EBUSY: somebody else has it. */
static int
hold_claim(struct layer_hold *hold, int fd, enum lock_choice lock)
{
	const int64_t end = clock_ms(CLOCK_MONOTONIC) + LOCK_LINGER_MS;
	int claim = hold_open_claim(fd);

	while (claim == -EBUSY && lock != LOCK_OFF && !lock_is_held(fd)) {
		if (clock_ms(CLOCK_MONOTONIC) >= end)
			return -EBUSY;
		usleep(LOCK_LINGER_STEP_MS * 1000);
		claim = hold_open_claim(fd);
	}
	hold->claim = claim < 0 ? -1 : claim;
	return 0;
}

/* Looks for the kernel's uses of the base, which ignore locks. One that only reads may go on, and
 * may have the claim. */
static int
hold_check_use(struct layer_hold *hold, int fd, const struct stat *st, const char *layer,
	       const char *path, const struct layer_wish *wish, char **error)
{
	struct image_use use;
	bool found = hold_find_use(st, &use);

	hold->used = found && use.writes;
	if (hold->used)
		return hold_refuse(wish, layer, path, use.text, error);
	if (found || !S_ISBLK(st->st_mode) || hold_claim(hold, fd, wish->lock) != -EBUSY)
		return 0;
	hold->used = true;
	return hold_refuse(wish, layer, path, "another program or file system has it for itself",
			   error);
}

int
layer_hold_begin(struct layer_hold *hold, int fd, bool raw, const char *layer, const char *path,
		 const struct layer_wish *wish, char **error)
{
	static const struct lock_part whole = {0, UINT64_MAX};
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0)
		return error_set(error, -errno, "%s: %s", path, strerror(errno));
	*hold = (struct layer_hold){
		.begun = true,
		.claim = -1,
		.raw = raw,
		.size = (uint64_t)st.st_size,
		.modified = hold_modified(&st),
	};
	/* Before the lock, since whoever has the claim is known by a lock. */
	r = raw ? hold_check_use(hold, fd, &st, layer, path, wish, error) : 0;
	if (r == 0)
		r = lock_take(fd, path, wish->lock == LOCK_OFF ? LOCK_OFF : LOCK_AUTO, &whole,
			      false, false, error);
	if (r < 0)
		layer_hold_end(hold, fd);
	return r;
}

void
layer_hold_look(const struct layer_hold *hold, int fd, const char *path, char *trouble, size_t room)
{
	struct image_use use;
	struct stat st;

	trouble[0] = '\0';
	if (!hold->begun || fstat(fd, &st) < 0)
		return;
	if (S_ISREG(st.st_mode) &&
	    ((uint64_t)st.st_size != hold->size || hold_modified(&st) != hold->modified))
		snprintf(trouble, room,
			 "its base %.120s was changed while it was in use: what clients read may "
			 "not fit together",
			 path);
	else if (hold->raw && !hold->used && hold_find_use(&st, &use) && use.writes)
		snprintf(trouble, room,
			 "its base %.60s may change: %.120s: end that, or the layer may be damaged",
			 path, use.text);
}

void
layer_hold_end(struct layer_hold *hold, int fd)
{
	if (!hold->begun)
		return;
	lock_drop(fd);
	if (hold->claim >= 0)
		close(hold->claim);
	*hold = (struct layer_hold){.begun = false};
}
