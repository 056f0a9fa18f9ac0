/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/io/shared_file.h"

#include "engine/backing/backing.h"

#include "common/cleanup.h"
#include "common/container_of.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* An offset in bytes at which the page cache never has a page: above its limits on 64-bit and on
 * 32-bit machines. */
#define NO_PAGE (sizeof(long) > 4 ? INT64_MAX - 0xffff : ((int64_t)1 << 44) - 0x10000)

struct entry {
	struct shared_file shared; /* the part that callers see */
	struct backing file;       /* only the members that identify the file, */
	char *identity;            /* and this one's text */
	unsigned int users;        /* number of images */
	/*
	 * A descriptor that no request uses. The kernel reports a failed write-back once to each
	 * open file, so the report is still available here, whichever other descriptor has received
	 * it. The witness also keeps the file in use, so no other file can get its inode number.
	 * -1: this machine's page cache holds nothing of the backing.
	 */
	int witness;
	pthread_mutex_t asking; /* held from asking the witness until its answer is recorded */
	struct entry *next;
};

/* Guards the list and its entries, except their .shared. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct entry *entries;

/* The caller holds the mutex. On success, the entry owns *witness. */
static struct entry *
shared_file_new(const struct backing *backing, int *witness)
{
	struct entry *entry = aligned_alloc(64, sizeof(*entry));

	if (!entry)
		return NULL;
	memset(entry, 0, sizeof(*entry));
	if (backing->identity && !(entry->identity = strdup(backing->identity))) {
		free(entry);
		return NULL;
	}
	entry->file.identity = entry->identity;
	entry->witness = steal_fd(witness);
	pthread_mutex_init(&entry->asking, NULL);
	range_lock_init(&entry->shared.ranges);
	entry->file.kind = backing->kind;
	entry->file.block_device = backing->block_device;
	entry->file.device = backing->device;
	entry->file.inode = backing->inode;
	entry->next = entries;
	entries = entry;
	return entry;
}

/* Takes the entry that *at points to out of the list, and frees it. */
static void
shared_file_free(struct entry **at)
{
	struct entry *entry = *at;

	*at = entry->next;
	range_lock_fini(&entry->shared.ranges);
	pthread_mutex_destroy(&entry->asking);
	if (entry->witness >= 0)
		close(entry->witness);
	free(entry->identity);
	free(entry);
}

/* Runs when the library that this code is linked into is unloaded. Entries with users stay, because
 * threads of a program that just exits may still use them. */
__attribute__((destructor)) static void
shared_file_free_kept(void)
{
	for (struct entry **at = &entries; *at;) {
		if ((*at)->users > 0)
			at = &(*at)->next;
		else
			shared_file_free(at);
	}
}

struct shared_file *
shared_file_get(const struct backing *backing)
{
	/* Done without the mutex: on a file system that hangs, it would block the images of other
	 * files. */
	int CLEANUP_CLOSE witness = backing->page_cache ? backing_reopen(backing->fd) : -1;
	struct entry *entry;

	/* Without /proc, the descriptor of the requests may still receive the report. */
	if (backing->page_cache && witness < 0)
		witness = fcntl(backing->fd, F_DUPFD_CLOEXEC, 0);
	if (backing->page_cache && witness < 0)
		return NULL;
	pthread_mutex_lock(&mutex);
	for (entry = entries; entry && !backing_same(&entry->file, backing); entry = entry->next)
		;
	if (!entry)
		entry = shared_file_new(backing, &witness);
	if (entry)
		entry->users++;
	pthread_mutex_unlock(&mutex);
	return entry ? &entry->shared : NULL;
}

bool
shared_file_record_loss(struct shared_file *shared, int err)
{
	int none = 0;

	return atomic_compare_exchange_strong(&shared->sync_failure, &none, err);
}

int
shared_file_lost(struct shared_file *shared)
{
	struct entry *entry = container_of(shared, struct entry, shared);

	if (entry->witness < 0)
		return atomic_load(&shared->sync_failure);
	pthread_mutex_lock(&entry->asking);
	/* The range has no pages, so the call waits for no write-back; it then reports whether any
	 * write-back of the file has failed. A sandbox may forbid the call, which means nothing. */
	if (sync_file_range(entry->witness, NO_PAGE, 1, SYNC_FILE_RANGE_WAIT_BEFORE) < 0 &&
	    errno != ENOSYS && errno != EPERM)
		shared_file_record_loss(shared, -errno);
	pthread_mutex_unlock(&entry->asking);
	return atomic_load(&shared->sync_failure);
}

void
shared_file_put(struct shared_file *shared)
{
	struct entry **at = &entries;

	if (!shared)
		return;
	pthread_mutex_lock(&mutex);
	while (&(*at)->shared != shared)
		at = &(*at)->next;
	/* Lost data stays lost when the last client leaves or the export is removed, so the next
	 * user that opens the file must be told, too. */
	if (--(*at)->users == 0 && !atomic_load(&shared->sync_failure))
		shared_file_free(at);
	pthread_mutex_unlock(&mutex);
}
