/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/file/file_look.h"

#include "engine/backing/file/claim.h"
#include "engine/backing/file/obstacle.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

/* Returns whether these facts are those of the file or device that is open. */
static bool
is_ours(const struct backing *backing, const struct stat *st)
{
	if (backing->block_device)
		return S_ISBLK(st->st_mode) && st->st_rdev == backing->device;
	return st->st_dev == backing->device && st->st_ino == backing->inode;
}

/* The kernel counts the disks, and what is put into a drive: a number is never used again. Returns
 * 0 if it does not (before Linux 5.15). */
static uint64_t
disk_number(const struct backing *backing)
{
	uint64_t number;

	return backing->block_device && backing_disk_read(backing, "diskseq", &number) == 0 ? number
											    : 0;
}

void
file_look_prepare(struct backing *backing, bool by_name)
{
	struct stat st;

	backing->named = by_name && stat(backing->path, &st) == 0 && is_ours(backing, &st);
	backing->disk_number = disk_number(backing);
}

/* Returns whether the path still leads to the file. If not, says what became of it. */
static bool
find_by_name(const struct backing *backing, char trouble[BACKING_TROUBLE])
{
	struct stat named, opened;
	int r = stat(backing->path, &named) < 0 ? -errno : 0;

	if (r == 0 && is_ours(backing, &named))
		return true;
	if (r == 0)
		snprintf(trouble, BACKING_TROUBLE,
			 "another %s has this name now; the one that was opened is still served, "
			 "until the export is removed and added again, or the server restarted",
			 S_ISBLK(named.st_mode) ? "device" : "file");
	else if (r == -ENOENT && !backing->block_device && fstat(backing->fd, &opened) == 0 &&
		 opened.st_nlink == 0)
		snprintf(trouble, BACKING_TROUBLE,
			 "it was deleted; it is still served, and its data is lost when the server "
			 "ends");
	else if (r == -ENOENT)
		snprintf(trouble, BACKING_TROUBLE,
			 "nothing has this name any more; what was opened is still served, until "
			 "the server ends");
	/* Else it may be there: perhaps only this process may not look any more. */
	return trouble[0] == '\0';
}

static bool
is_gone(const struct backing *backing, char trouble[BACKING_TROUBLE])
{
	if (backing->block_device && backing_size(backing) == 0)
		snprintf(trouble, BACKING_TROUBLE, "the device is gone, or has no medium");
	else if (backing->disk_number && disk_number(backing) != backing->disk_number)
		snprintf(trouble, BACKING_TROUBLE,
			 "the device was replaced, or has another medium; the export must be "
			 "removed and added again, or the server restarted");
	return trouble[0] != '\0';
}

void
file_look(const struct backing *backing, struct backing_look *look)
{
	char reason[REASON_MAX];

	look->trouble[0] = '\0';
	look->size = backing_size(backing);
	look->writable_again = obstacle_is_gone(backing);
	if (is_gone(backing, look->trouble))
		return;
	if (backing->named && !find_by_name(backing, look->trouble))
		return;
	if (backing->writable && obstacle_find(backing, reason))
		snprintf(look->trouble, BACKING_TROUBLE, "writes fail, because %s", reason);
	else
		claim_look(backing, look->trouble);
}
