/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/file_locks.h"

#include "tests/simulation/disk.h"

#include <errno.h>
#include <stdlib.h>

static struct disk_lock *
file_locks_find_conflict(const struct file *file, const struct disk_lock *wish)
{
	for (struct disk_lock *lock = file->locks; lock; lock = lock->next) {
		if (lock->owner != wish->owner && lock->start < wish->end &&
		    wish->start < lock->end && (lock->exclusive || wish->exclusive))
			return lock;
	}
	return NULL;
}

/* Takes the range out of the locks that this open file has. */
static void
file_locks_cut(struct file *file, const void *owner, uint64_t start, uint64_t end)
{
	struct disk_lock **at = &file->locks, *lock, *rest;

	while ((lock = *at) != NULL) {
		if (lock->owner != owner || lock->start >= end || start >= lock->end) {
			at = &lock->next;
			continue;
		}
		if (lock->start < start) {
			rest = malloc(sizeof(*rest));
			*rest = *lock;
			rest->end = start;
			*at = rest;
			at = &rest->next;
		}
		if (lock->end > end) {
			rest = malloc(sizeof(*rest));
			*rest = *lock;
			rest->start = end;
			*at = rest;
			at = &rest->next;
		}
		*at = lock->next;
		free(lock);
	}
}

long
file_locks_call(struct file *file, const void *owner, int command, struct flock *flock)
{
	struct disk_lock wish = {
		.owner = owner,
		.start = (uint64_t)flock->l_start,
		.end = flock->l_len ? (uint64_t)(flock->l_start + flock->l_len) : UINT64_MAX,
		.exclusive = flock->l_type == F_WRLCK,
	};
	const struct disk_lock *other = file_locks_find_conflict(file, &wish);
	struct disk_lock *lock;

	if (command == F_OFD_GETLK) {
		flock->l_type = F_UNLCK;
		if (!other)
			return 0;
		flock->l_type = other->exclusive ? F_WRLCK : F_RDLCK;
		flock->l_start = (off_t)other->start;
		flock->l_len = other->end == UINT64_MAX ? 0 : (off_t)(other->end - other->start);
		flock->l_pid = -1;
		return 0;
	}
	if (flock->l_type != F_UNLCK && other)
		return -EAGAIN;
	file_locks_cut(file, owner, wish.start, wish.end);
	if (flock->l_type == F_UNLCK)
		return 0;
	lock = malloc(sizeof(*lock));
	*lock = wish;
	lock->next = file->locks;
	file->locks = lock;
	return 0;
}

void
file_locks_drop(struct file *file, const void *owner)
{
	file_locks_cut(file, owner, 0, UINT64_MAX);
}
