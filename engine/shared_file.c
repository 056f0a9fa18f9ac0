/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/shared_file.h"

#include "engine/backing.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct entry {
	struct shared_file shared; /* first: what callers know */
	struct backing file;       /* only what tells it from others */
	unsigned int users;        /* images */
	int held;                  /* -1: none; else keeps the file, that no other one gets its number */
	struct entry *next;
};

/* Guards the list and what is in it but for what is shared. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct entry *entries;

/* mutex held. */
static struct entry *
entry_new(const struct backing *backing)
{
	struct entry *entry = aligned_alloc(64, sizeof(*entry));

	if (!entry)
		return NULL;
	memset(entry, 0, sizeof(*entry));
	range_lock_init(&entry->shared.ranges);
	entry->file.block_device = backing->block_device;
	entry->file.device = backing->device;
	entry->file.inode = backing->inode;
	entry->held = -1;
	entry->next = entries;
	entries = entry;
	return entry;
}

static void
entry_free(struct entry *entry)
{
	range_lock_fini(&entry->shared.ranges);
	if (entry->held >= 0)
		close(entry->held);
	free(entry);
}

/* With the library that this is linked into; but not what threads of a program that just exits may still use. */
__attribute__((destructor)) static void
free_kept(void)
{
	for (struct entry **at = &entries; *at;) {
		struct entry *entry = *at;

		if (entry->users > 0) {
			at = &entry->next;
			continue;
		}
		*at = entry->next;
		entry_free(entry);
	}
}

struct shared_file *
shared_file_get(const struct backing *backing)
{
	struct entry *entry;

	pthread_mutex_lock(&mutex);
	for (entry = entries; entry && !backing_same(&entry->file, backing); entry = entry->next)
		;
	if (!entry)
		entry = entry_new(backing);
	if (entry)
		entry->users++;
	pthread_mutex_unlock(&mutex);
	return entry ? &entry->shared : NULL;
}

/*
 * mutex held.  What was lost stays lost when the last client leaves, or the export is removed: who opens the file again
 * must be told, too.  Without a descriptor to spare that may hit another file that got its number: better than to forget.
 */
static void
keep(struct entry *entry, const struct backing *backing)
{
	if (entry->held < 0)
		entry->held = fcntl(backing->fd, F_DUPFD_CLOEXEC, 0);
}

void
shared_file_put(struct shared_file *shared, const struct backing *backing)
{
	struct entry *entry = (struct entry *)shared, **at;

	if (!entry)
		return;
	pthread_mutex_lock(&mutex);
	if (--entry->users > 0) {
		/* Others go on with it. */
	} else if (atomic_load(&shared->sync_failure)) {
		keep(entry, backing);
	} else {
		for (at = &entries; *at != entry; at = &(*at)->next)
			;
		*at = entry->next;
		entry_free(entry);
	}
	pthread_mutex_unlock(&mutex);
}
