/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/file/claim.h"

#include "engine/backing/file/obstacle.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/image_use.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WAY_OUT                                                                                    \
	"end that first, or serve it read-only; with force=on (--force) it is served all the same, and may be damaged"

/* Opens the device once more. Returns a descriptor or -errno. */
static int
open_again(const struct backing *backing, int flags)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", backing->fd);
	fd = open(path, O_RDWR | O_CLOEXEC | flags);
	return fd < 0 ? -errno : fd;
}

/* Claims the device with a new descriptor, which replaces .fd unless that has a lock to keep. The
 * descriptor that releases space on the device should itself have the claim, because fallocate()
 * may fail with EBUSY on all others as long as anyone has claimed the device. */
static int
file_claim(struct backing *backing, bool locked)
{
	int CLEANUP_CLOSE fd = open_again(backing, O_EXCL);

	if (fd < 0)
		return fd;
	if (locked)
		backing->claim_fd = steal_fd(&fd);
	else if (dup3(fd, backing->fd, O_CLOEXEC) < 0)
		return -errno;
	backing->claimed = true;
	return 0;
}

/* Returns whether the lock, and not the claim, decides about the holder of the claim: the holder
 * shares the image with us, or has another part of it, or is named in the lock's error. */
static bool
is_for_lock(const struct backing *backing, const struct image_config *config)
{
	return config->lock == LOCK_OFF || lock_is_held(backing->fd);
}

/* Claims the device, and waits for the claim of a killed server. Returns 0, or -EBUSY if an unknown
 * holder has claimed the device. */
static int
claim_patiently(struct backing *backing, const struct image_config *config, bool locked)
{
	int64_t end = clock_ms(CLOCK_MONOTONIC) + LOCK_LINGER_MS;
	int r = file_claim(backing, locked);

	while (r == -EBUSY && clock_ms(CLOCK_MONOTONIC) < end && !is_for_lock(backing, config)) {
		usleep(LOCK_LINGER_STEP_MS * 1000);
		r = file_claim(backing, locked);
	}
	return r == -EBUSY && !is_for_lock(backing, config) ? r : 0;
}

static int
refuse_writing(const struct backing *backing, const char *use, char **error)
{
	return error_set(error, -EBUSY, "%s: not served writable, because %s; " WAY_OUT,
			 backing->path, use);
}

static void
claim_warn(const struct backing *backing, bool writable, const char *use)
{
	if (writable)
		log_warning("%s: %s; force=on: it is served writable nevertheless", backing->path,
			    use);
	else
		log_warning(
			"%s: %s, so it may change: clients may read a mixture of old and new data",
			backing->path, use);
}

/* Returns whether the kernel may write to the claimed part, or relies on that nobody else does. */
static bool
is_used(const struct backing *backing, struct image_use *use)
{
	const struct image_part served = {
		.device = backing->device,
		.inode = backing->inode,
		.offset = backing->part.start,
		.end = backing->part.end,
	};

	return image_use_find("", &served, use) &&
	       (use->writes || (use->held && backing->part.writable));
}

void
claim_look(const struct backing *backing, char trouble[BACKING_TROUBLE])
{
	struct image_use use;

	trouble[0] = '\0';
	if (!backing->part.end || backing->part.used || !is_used(backing, &use))
		return;
	snprintf(trouble, BACKING_TROUBLE, "%.150s: %s", use.text,
		 backing->part.writable ? "end that, or the image may be damaged"
					: "clients may read a mixture of old and new data");
}

int
claim_take(struct backing *backing, const struct image_config *config, const struct lock_part *part,
	   bool writable, bool locked, char **error)
{
	bool force = config->force == TRISTATE_ON;
	char obstacle[REASON_MAX];
	struct image_use use;

	backing->part.start = part->start;
	backing->part.end = part->end;
	backing->part.writable = writable;
	/* Force would not help: each write would fail. */
	if (writable && obstacle_find(backing, obstacle))
		return error_set(
			error, -EBUSY,
			"%s: not served writable, because %s; until then, serve it read-only",
			backing->path, obstacle);
	backing->part.used = is_used(backing, &use);
	if (backing->part.used && writable && !force)
		return refuse_writing(backing, use.text, error);
	if (backing->part.used)
		claim_warn(backing, writable, use.text);
	if (backing->part.used || !writable || !backing->block_device || backing->claimed)
		return 0;
	if (claim_patiently(backing, config, locked) != -EBUSY)
		return 0;
	if (!force)
		return refuse_writing(backing, "another program or file system has claimed it",
				      error);
	claim_warn(backing, true, "another program or file system has claimed it");
	return 0;
}

void
claim_drop(struct backing *backing)
{
	int CLEANUP_CLOSE fd = backing->claimed ? open_again(backing, 0) : -1;

	if (backing->claim_fd >= 0)
		close(backing->claim_fd);
	else if (fd >= 0)
		dup3(fd, backing->fd, O_CLOEXEC);
	backing->claim_fd = -1;
	backing->claimed = false;
}
