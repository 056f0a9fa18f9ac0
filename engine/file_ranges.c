/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/file_ranges.h"

#include "engine/backing.h"

#include <stdlib.h>
#include <string.h>

struct file_ranges {
	struct range_lock ranges; /* first: what callers know */
	struct backing file;      /* only what tells it from others */
	unsigned int users;       /* images */
	struct file_ranges *next;
};

/* Guards the list and what is in it but for the locks themselves. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct file_ranges *files;

/* mutex held. */
static struct file_ranges *
file_new(const struct backing *backing)
{
	struct file_ranges *file = aligned_alloc(64, sizeof(*file));

	if (!file)
		return NULL;
	memset(file, 0, sizeof(*file));
	range_lock_init(&file->ranges);
	file->file.block_device = backing->block_device;
	file->file.device = backing->device;
	file->file.inode = backing->inode;
	file->next = files;
	files = file;
	return file;
}

struct range_lock *
file_ranges_get(const struct backing *backing)
{
	struct file_ranges *file;

	pthread_mutex_lock(&mutex);
	for (file = files; file && !backing_same(&file->file, backing); file = file->next)
		;
	if (!file)
		file = file_new(backing);
	if (file)
		file->users++;
	pthread_mutex_unlock(&mutex);
	return file ? &file->ranges : NULL;
}

void
file_ranges_put(struct range_lock *ranges)
{
	struct file_ranges *file = (struct file_ranges *)ranges, **at;

	if (!file)
		return;
	pthread_mutex_lock(&mutex);
	if (--file->users == 0) {
		for (at = &files; *at != file; at = &(*at)->next)
			;
		*at = file->next;
		range_lock_fini(&file->ranges);
		free(file);
	}
	pthread_mutex_unlock(&mutex);
}
