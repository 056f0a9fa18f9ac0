/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/changes/record.h"

#include "common/cleanup.h"
#include "common/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* How often, and how long after each other, the lock is tried. */
#define LOCK_TRIES    50
#define LOCK_PAUSE_NS 20000000

/* How many blocks of a new bitmap are written at once. */
#define CLEARED_BLOCKS 128u

/* ---- whole transfers */

static int
record_write_all(int fd, const void *bytes, size_t size, uint64_t offset)
{
	while (size) {
		ssize_t n = pwrite(fd, bytes, size, (off_t)offset);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0) {
			bytes = (const uint8_t *)bytes + n;
			size -= (size_t)n;
			offset += (uint64_t)n;
		}
	}
	return 0;
}

/* Bytes that the file does not have are read as zeroes. */
static int
record_read_all(int fd, void *bytes, size_t size, uint64_t offset)
{
	memset(bytes, 0, size);
	while (size) {
		ssize_t n = pread(fd, bytes, size, (off_t)offset);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			return 0;
		if (n > 0) {
			bytes = (uint8_t *)bytes + n;
			size -= (size_t)n;
			offset += (uint64_t)n;
		}
	}
	return 0;
}

int
record_sync(const struct record *record)
{
	return fdatasync(record->fd) < 0 ? -errno : 0;
}

/* Makes a name that was made or removed durable. */
static int
record_sync_directory(const char *path)
{
	char *CLEANUP_FREE directory = strdup(path);
	char *slash = directory ? strrchr(directory, '/') : NULL;
	int CLEANUP_CLOSE fd = -1;

	if (!directory)
		return -ENOMEM;
	if (slash)
		slash[slash == directory] = '\0';
	fd = open(slash ? directory : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

/* ---- opening */

/* A server that was killed may hold the lock for another moment. */
static bool
record_lock(int fd)
{
	const struct timespec moment = {.tv_nsec = LOCK_PAUSE_NS};
	unsigned int left = LOCK_TRIES;

	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (--left == 0)
			return false;
		nanosleep(&moment, NULL);
	}
	return true;
}

/* Whoever can write to a record can hide changes, and choose what the server reads. */
static int
record_check_trust(const char *path, const struct stat *facts, uid_t owner, char **error)
{
	const char *problem = NULL;

	if (!S_ISREG(facts->st_mode))
		return error_set(error, -EINVAL, "%s is no regular file", path);
	if (facts->st_uid != 0 && facts->st_uid != geteuid() && facts->st_uid != owner)
		problem = "it belongs to another user than this server's";
	else if (facts->st_mode & (S_IWGRP | S_IWOTH))
		problem = "other users may write to it";
	else if (facts->st_nlink != 1)
		problem = "it has several names, or none";
	return problem ? error_set(error, -EPERM, "%s is not trusted: %s", path, problem) : 0;
}

static int
record_open_file(struct record *record, const char *path, int flags, uid_t owner, char **error)
{
	struct stat facts, named;
	int r;

	*record = (struct record){.fd = -1, .path = strdup(path)};
	if (!record->path)
		return -ENOMEM;
	record->fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | flags, 0600);
	if (record->fd < 0 && errno == ENOENT && !(flags & O_CREAT))
		return -ENOENT;
	if (record->fd < 0 || fstat(record->fd, &facts) < 0) {
		r = -errno;
		return error_set(error, r, "%s: %s", path, strerror(-r));
	}
	r = record_check_trust(path, &facts, owner, error);
	if (r < 0)
		return r;
	if (!record_lock(record->fd))
		return error_set(error, -EBUSY,
				 "%s is in use by another server, or by another export of this one",
				 path);
	/* The one that had the lock may have removed it. */
	if (lstat(path, &named) < 0 || named.st_dev != facts.st_dev || named.st_ino != facts.st_ino)
		return error_set(error, -EAGAIN, "%s was replaced while it was opened: try again",
				 path);
	return 0;
}

/* Returns whether there is nothing in the place of a header. */
static bool
record_is_zero(const struct record *record, unsigned int header)
{
	uint8_t bytes[RECORD_HEADER_SIZE];

	return record_read_all(record->fd, bytes, sizeof(bytes),
			       (uint64_t)header * sizeof(bytes)) == 0 &&
	       bytes[0] == 0 && memcmp(bytes, bytes + 1, sizeof(bytes) - 1) == 0;
}

/* Returns whether there is nothing in the file. It may be one that its maker left when it was
 * killed. */
static bool
record_is_empty(const struct record *record)
{
	struct stat facts;

	return fstat(record->fd, &facts) == 0 &&
	       (facts.st_size == 0 || (facts.st_size == (off_t)RECORD_BLOCKS_AT &&
				       record_is_zero(record, 0) && record_is_zero(record, 1)));
}

/* Takes the one with the higher sequence. One that is torn was not needed yet, or the other one is
 * the same. */
static int
record_choose_header(struct record *record, const struct record_header headers[2],
		     const int results[2], char *const why[2], char **error)
{
	if (record_is_empty(record))
		return -ENOENT;
	/* A record without a durable header: its maker was killed. The second one is written first.
	 */
	if ((results[1] == -EBADMSG && record_is_zero(record, 0)) ||
	    ((results[0] == 0 || results[1] == 0) && headers[0].count + headers[1].count == 0)) {
		unlink(record->path);
		return -ENOENT;
	}
	for (unsigned int i = 0; i < 2; i++) {
		/* One of another version tells that another server was here. */
		if (results[i] == -ENOTSUP ||
		    (results[i] < 0 && results[!i] < 0 && (i == 1 || results[i] == -EBADMSG)))
			return error_set(error, results[i], "%s %s", record->path,
					 why[i] ? why[i] : "can't be read");
	}
	record->newest =
		results[0] < 0 || (results[1] == 0 && headers[1].sequence > headers[0].sequence);
	record->header = headers[record->newest];
	return 0;
}

/* Neither header can be read, so nobody knows whether this is a record. It is kept, but under
 * another name, so that no other server trusts it. */
static int
record_set_aside(struct record *record, int err, char **error)
{
	char *CLEANUP_FREE aside = NULL;
	bool moved = asprintf(&aside, "%s.unreadable", record->path) >= 0 &&
		     renameat2(AT_FDCWD, record->path, AT_FDCWD, aside, RENAME_NOREPLACE) == 0 &&
		     record_sync_directory(record->path) == 0;

	return error_set(error, err, "%s: %s; %s%s", record->path, strerror(-err),
			 moved ? "it is now " : "remove it before another server trusts it",
			 moved ? aside : "");
}

/* Takes the header that can be read, for which the other one gave `err`. It may be the older one.
 */
static int
record_choose_readable(struct record *record, const struct record_header headers[2],
		       const int results[2], char *const why[2], int err, char **error)
{
	for (unsigned int i = 0; i < 2; i++) {
		if (results[i] == -ENOTSUP)
			return error_set(error, results[i], "%s %s", record->path, why[i]);
	}
	if (results[0] < 0 && results[1] < 0)
		return record_set_aside(record, err, error);
	record->newest = results[0] < 0;
	record->header = headers[record->newest];
	record->lost = err;
	return 0;
}

static int
record_read_headers(struct record *record, char **error)
{
	struct record_header *CLEANUP_FREE headers = calloc(2, sizeof(*headers));
	char *why[2] = {NULL, NULL};
	int results[2], unread = 0, r;

	if (!headers)
		return -ENOMEM;
	for (unsigned int i = 0; i < 2; i++) {
		uint8_t bytes[RECORD_HEADER_SIZE];

		r = record_read_all(record->fd, bytes, sizeof(bytes),
				    (uint64_t)i * RECORD_HEADER_SIZE);
		results[i] = r == 0 ? record_header_decode(&headers[i], bytes, &why[i]) : -EBADMSG;
		unread = r < 0 ? r : unread;
	}
	r = unread ? record_choose_readable(record, headers, results, why, unread, error)
		   : record_choose_header(record, headers, results, why, error);
	free(why[0]);
	free(why[1]);
	return r;
}

int
record_open(struct record *record, const char *path, uid_t owner, char **error)
{
	int r = record_open_file(record, path, 0, owner, error);

	if (r == 0) {
		/* An error of a write-back that nobody has seen: the page cache may have lost
		 * marks. The kernel doesn't tell the next server of it. */
		record->lost = record_sync(record);
		r = record_read_headers(record, error);
	}
	if (r < 0)
		record_close(record);
	return r;
}

int
record_create(struct record *record, const char *path, uint64_t image_size,
	      const struct witness *witness, char **error)
{
	int r = record_open_file(record, path, O_CREAT, geteuid(), error);

	if (r == 0 && !record_is_empty(record))
		r = error_set(error, -EEXIST, "%s exists already, and is no record", path);
	if (r == 0) {
		record->header.state = RECORD_IN_USE;
		record->header.region = record_region_for(image_size);
		record->header.witness = *witness;
		r = record_put_header(record);
		if (r < 0) {
			error_set(error, r, "%s: %s", path, strerror(-r));
			unlink(path);
		}
	}
	if (r < 0)
		record_close(record);
	return r;
}

void
record_close(struct record *record)
{
	if (record->fd >= 0)
		close(record->fd);
	record->fd = -1;
	free(steal_pointer(&record->path));
}

int
record_remove(struct record *record)
{
	if (unlink(record->path) < 0 && errno != ENOENT)
		return -errno;
	return record_sync_directory(record->path);
}

/* ---- writing */

int
record_put_header(struct record *record)
{
	uint8_t bytes[RECORD_HEADER_SIZE];
	unsigned int older = !record->newest;
	bool first = record->header.sequence == 0;
	int r;

	record->header.sequence++;
	record_header_encode(&record->header, bytes);
	/* The newest one stays until this one is durable. */
	r = record_write_all(record->fd, bytes, sizeof(bytes),
			     (uint64_t)older * RECORD_HEADER_SIZE);
	if (r == 0)
		r = record_sync(record);
	if (r < 0)
		return r;
	record->newest = older;
	/* Then both are the same, so that one of them may decay. */
	r = record_write_all(record->fd, bytes, sizeof(bytes),
			     (uint64_t)!older * RECORD_HEADER_SIZE);
	return r == 0 && first ? record_sync_directory(record->path) : r;
}

int
record_put_block(struct record *record, const struct record_entry *entry, uint32_t n,
		 const uint64_t *words)
{
	uint8_t bytes[RECORD_BLOCK_SIZE];

	record_block_encode(words, entry->owner, n, bytes);
	return record_write_all(record->fd, bytes, sizeof(bytes),
				RECORD_BLOCKS_AT + (entry->first_block + n) * RECORD_BLOCK_SIZE);
}

int
record_get_block(const struct record *record, const struct record_entry *entry, uint32_t n,
		 uint64_t *words)
{
	uint8_t bytes[RECORD_BLOCK_SIZE];
	int r = record_read_all(record->fd, bytes, sizeof(bytes),
				RECORD_BLOCKS_AT + (entry->first_block + n) * RECORD_BLOCK_SIZE);

	return r < 0 ? r : record_block_decode(words, entry->owner, n, bytes);
}

/* The first place with `blocks` blocks that no entry has. */
static uint64_t
record_find_place(const struct record_header *header, uint64_t blocks)
{
	uint64_t place = 0;
	bool moved = true;

	while (moved) {
		moved = false;
		for (uint32_t i = 0; i < header->count; i++) {
			const struct record_entry *entry = &header->entries[i];
			uint64_t end = entry->first_block + record_blocks_for(entry->granules);

			if (place < end && entry->first_block < place + blocks) {
				place = end;
				moved = true;
			}
		}
	}
	return place;
}

void
record_find_room(const struct record *record, struct record_entry *entry)
{
	entry->first_block = record_find_place(&record->header, record_blocks_for(entry->granules));
	entry->owner = record->header.sequence + 1;
}

/* Writes blocks without a mark, from `first` up to `end`, at most CLEARED_BLOCKS of them. */
static int
record_clear_blocks(const struct record *record, const struct record_entry *entry, uint64_t first,
		    uint64_t end)
{
	static const uint64_t none[RECORD_BLOCK_WORDS];
	uint8_t bytes[CLEARED_BLOCKS * RECORD_BLOCK_SIZE];

	for (uint64_t n = first; n < end; n++)
		record_block_encode(none, entry->owner, (uint32_t)n,
				    bytes + (n - first) * RECORD_BLOCK_SIZE);
	return record_write_all(record->fd, bytes, (size_t)(end - first) * RECORD_BLOCK_SIZE,
				RECORD_BLOCKS_AT +
					(entry->first_block + first) * RECORD_BLOCK_SIZE);
}

int
record_clear_room(const struct record *record, const struct record_entry *entry)
{
	uint64_t blocks = record_blocks_for(entry->granules);
	int r = 0;

	/* Marks must not fail for want of space later. */
	if (fallocate(record->fd, 0,
		      (off_t)(RECORD_BLOCKS_AT + entry->first_block * RECORD_BLOCK_SIZE),
		      (off_t)(blocks * RECORD_BLOCK_SIZE)) < 0 &&
	    errno != EOPNOTSUPP)
		return -errno;
	for (uint64_t n = 0; r == 0 && n < blocks; n += CLEARED_BLOCKS)
		r = record_clear_blocks(record, entry, n,
					n + CLEARED_BLOCKS < blocks ? n + CLEARED_BLOCKS : blocks);
	/* A header that has the entry must not be on the disk before these. */
	return r < 0 ? r : record_sync(record);
}

int
record_give_up(struct record *record, const char *reason)
{
	int r;

	record->header.state = RECORD_UNKNOWN;
	snprintf(record->header.reason, sizeof(record->header.reason), "%s", reason);
	r = record_put_header(record);
	return r < 0 ? record_remove(record) : 0;
}
