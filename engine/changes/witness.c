/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/changes/witness.h"

#include "engine/changes/boot.h"
#include "engine/layer/layer.h"

#include "common/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S (int64_t) NS_PER_SECOND

/* How long the kernel may keep a file's times in memory only, in seconds. */
#define TIMES_DELAY 60

enum witness_kind {
	WITNESS_FILE = 1,
	WITNESS_BLOCK_DEVICE,
	WITNESS_LAYER,
};

/* .modified of a layer whose base has changed: no opening has this number. */
#define WITNESS_MIXED (-1)

/* ---- taking one */

static int64_t
witness_ns(int64_t seconds, uint32_t rest)
{
	return seconds * NS_PER_S + rest;
}

/* Returns whether other machines may set the times of a file, by their clocks. */
static bool
witness_is_remote(int fd)
{
	static const uint32_t types[] = {
		NFS_SUPER_MAGIC,  SMB_SUPER_MAGIC,   CIFS_SUPER_MAGIC,      SMB2_SUPER_MAGIC,
		CEPH_SUPER_MAGIC, V9FS_MAGIC,        AFS_SUPER_MAGIC,       CODA_SUPER_MAGIC,
		FUSE_SUPER_MAGIC, OCFS2_SUPER_MAGIC, 0x01161970 /* GFS2 */,
	};
	struct statfs facts;

	if (fstatfs(fd, &facts) < 0)
		return true;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		/* The type is signed, and has 32 or 64 bits. */
		if ((uint32_t)facts.f_type == types[i])
			return true;
	}
	return false;
}

static int
witness_take_file(struct witness *witness, const struct backing *backing)
{
	struct statx facts;

	if (statx(backing->fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &facts) < 0)
		return -errno;
	witness->kind = WITNESS_FILE;
	witness->device = makedev(facts.stx_dev_major, facts.stx_dev_minor);
	witness->inode = facts.stx_ino;
	if (facts.stx_mask & STATX_BTIME)
		witness->birth =
			(uint64_t)witness_ns(facts.stx_btime.tv_sec, facts.stx_btime.tv_nsec);
	witness->size = facts.stx_size;
	witness->changed = witness_ns(facts.stx_ctime.tv_sec, facts.stx_ctime.tv_nsec);
	witness->modified = witness_ns(facts.stx_mtime.tv_sec, facts.stx_mtime.tv_nsec);
	witness->remote = witness_is_remote(backing->fd);
	return 0;
}

static void
witness_take_layer(struct witness *witness, const struct layers *layers)
{
	witness->kind = WITNESS_LAYER;
	witness->changed = (int64_t)layers->opening;
	witness->modified = layers->mixed ? WITNESS_MIXED : (int64_t)layers->found;
}

/* Opens a file that tells of the disk of a block device. What is written to a disk at the place of
 * a partition counts for the disk only. Returns NULL with errno. */
static FILE *
witness_open_disk_file(dev_t device, const char *name)
{
	char path[96];

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/partition", major(device),
		 minor(device));
	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/%s%s", major(device), minor(device),
		 access(path, F_OK) == 0 ? "../" : "", name);
	return fopen(path, "re");
}

static int
witness_take_counts(struct witness *witness, dev_t device)
{
	FILE *file = witness_open_disk_file(device, "stat");
	int n;

	if (!file)
		return -errno;
	/* Documentation/block/stat.rst of the kernel. */
	n = fscanf(file, "%*u %*u %*u %*u %*u %*u %" SCNd64 " %*u %*u %*u %*u %*u %*u %" SCNd64,
		   &witness->changed, &witness->modified);
	fclose(file);
	return n >= 1 ? 0 : -EIO;
}

static int
witness_take_block_device(struct witness *witness, const struct backing *backing)
{
	FILE *file = witness_open_disk_file(backing->device, "diskseq");
	uint64_t counts;
	int64_t size = backing_size(backing);

	if (size < 0)
		return (int)size;
	witness->kind = WITNESS_BLOCK_DEVICE;
	witness->device = backing->device;
	witness->size = (uint64_t)size;
	if (file) {
		if (fscanf(file, "%" SCNu64, &witness->birth) != 1)
			witness->birth = 0;
		fclose(file);
	}
	/* An administrator can turn the counts off. */
	if (backing_queue_read(backing, "iostats", &counts) == 0 && !counts)
		return -ENODATA;
	return witness_take_counts(witness, backing->device);
}

int
witness_take(struct witness *witness, const struct backing *backing, uint64_t offset,
	     uint64_t window)
{
	int r;

	*witness = (struct witness){
		.offset = offset,
		.window = window,
	};
	boot_clocks(&witness->seen, &witness->seen_boot);
	boot_id(witness->boot, sizeof(witness->boot));
	r = backing->block_device ? witness_take_block_device(witness, backing)
				  : witness_take_file(witness, backing);

	if (r == 0 && backing->layers)
		witness_take_layer(witness, backing->layers);
	return r;
}

/* ---- comparing two */

bool
witness_same_boot(const struct witness *a, const struct witness *b)
{
	return a->boot[0] && strcmp(a->boot, b->boot) == 0;
}

static bool
witness_say(char reason[REASON_MAX], const char *text)
{
	snprintf(reason, REASON_MAX, "%s", text);
	return false;
}

bool
witness_is_of_image(const struct witness *then, const struct witness *now, char reason[REASON_MAX])
{
	/* A file system may have another device number after a boot. */
	bool device = then->device == now->device ||
		      (then->kind != WITNESS_BLOCK_DEVICE && !witness_same_boot(then, now));

	if (then->kind != now->kind || !device || then->inode != now->inode ||
	    then->birth != now->birth)
		return witness_say(reason,
				   "this is another image than the one that they belong to");
	if (then->offset != now->offset)
		return witness_say(reason, "the image began at another offset");
	return true;
}

bool
witness_is_untouched(const struct witness *then, const struct witness *now)
{
	return then->changed == now->changed && then->modified == now->modified;
}

/* Returns whether the clock, and the times of the file, have gone on as they should. Somebody can
 * set the times of a file to older ones, and the clock. After a power cut, the file may have older
 * times, since the kernel had not written the newer ones yet. */
static bool
witness_is_after(const struct witness *then, const struct witness *now)
{
	int64_t set = now->seen - now->seen_boot - (then->seen - then->seen_boot);

	if (!witness_same_boot(then, now))
		return now->changed >= then->changed - TIMES_DELAY * NS_PER_S;
	return now->changed >= then->changed && now->modified >= then->modified &&
	       set >= -NS_PER_S && set <= NS_PER_S;
}

/* Returns whether the last change of the file may have been made by the server that was killed. */
static bool
witness_was_killed(const struct witness *then, const struct witness *now)
{
	int64_t limit = then->seen + WITNESS_TRUST * NS_PER_S;
	int64_t boot = now->seen - now->seen_boot;

	return witness_is_after(then, now) && now->changed <= limit && now->modified <= limit &&
	       (witness_same_boot(then, now) || now->changed < boot);
}

/* Returns whether the last server that has changed a layer is the one that kept the record, or none
 * has since that one began. What this opening has changed before counts as the change of another.
 */
static bool
witness_layer_agrees(const struct witness *then, const struct witness *now)
{
	if (then->changed == now->changed && now->changed != now->modified)
		return false;
	if (then->modified == WITNESS_MIXED || now->modified == WITNESS_MIXED)
		return false;
	return now->modified == then->changed || now->modified == then->modified;
}

bool
witness_agrees(const struct witness *then, const struct witness *now, bool closed,
	       char reason[REASON_MAX])
{
	static const char changed[] = "the image was changed without this server";

	if (!witness_is_of_image(then, now, reason))
		return false;
	if (then->size != now->size || then->window != now->window)
		return witness_say(reason, "the image had another size");
	if (then->kind == WITNESS_LAYER)
		return witness_layer_agrees(then, now) || witness_say(reason, changed);
	if (then->kind == WITNESS_BLOCK_DEVICE && !witness_same_boot(then, now))
		return witness_say(reason,
				   "a block device doesn't tell whether it was changed before "
				   "this boot");
	if (witness_is_untouched(then, now))
		return true;
	if (closed)
		return witness_say(reason, changed);
	if (then->kind == WITNESS_FILE && now->remote)
		return witness_say(reason,
				   "the server that kept them was killed, and the times of a file "
				   "on a network file system don't tell who changed it since");
	if (then->kind == WITNESS_FILE)
		return witness_was_killed(then, now) || witness_say(reason, changed);
	return now->seen_boot - then->seen_boot <= WITNESS_TRUST * NS_PER_S ||
	       witness_say(reason, "the server that kept them was killed too long ago to know what "
				   "changed the block device since");
}
