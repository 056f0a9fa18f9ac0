/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The disk: files, their names, and what of both survives.
 *
 * A file has its bytes as programs see them (the page cache, or what a direct write gave the
 * device), and its bytes as they are for sure after a power failure. A sector in which they differ
 * is unstable: a crash takes the new or the old one, or one in between, for each sector on its own.
 * A sync makes the sectors stable that were written before it began. A failed write-back makes
 * sectors lost: they stay in the page cache, no later sync writes them, and a crash brings the old
 * bytes back.
 *
 * A name that was made or removed is sure only after a sync of the directory; a crash keeps the
 * first few changes, as a journal does.
 */
#ifndef TESTS_SIMULATION_DISK_H
#define TESTS_SIMULATION_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SECTOR_SIZE 512u
#define FILE_BLOCK  4096u /* of the file system, and of the page cache */

struct listener;

struct disk_lock {
	const void *owner; /* a description */
	uint64_t start, end;
	bool exclusive;
	struct disk_lock *next;
};

struct sector {
	unsigned int version, stable_version; /* the same: it is stable */
	bool lost;
};

struct file {
	unsigned int number; /* inode */
	unsigned int names, users;
	mode_t mode;
	size_t size, stable_size, room;
	uint8_t *bytes, *stable, *between; /* .room bytes each */
	struct sector *sectors;
	uint8_t *allocated;                         /* of blocks */
	unsigned int writeback_errors, told_errors; /* so many were met; told to anybody */
	int last_error;
	int64_t modified;
	struct disk_lock *locks;
	const void *flock_owner;
	struct listener *listener; /* of a socket's file */
	struct file *next;
};

/* Empties the disk. */
void
disk_begin(void);
void
disk_end(void);

/* Returns NULL if there is no such name. */
struct file *
disk_find(const char *path);

/* Returns the name of a file; NULL: it has none. */
const char *
disk_path(const struct file *file);

/* A new file; it has no name and one user. */
struct file *
disk_make(mode_t mode);

/* Gives it a name, in place of the file that may have it. */
void
disk_name(struct file *file, const char *path);

void
disk_unname(const char *path);

/* One user less: the file is gone if it has neither users nor names. */
void
disk_put(struct file *file);

/* Writes to the page cache, or frees (bytes NULL) a range; extends the file. */
void
disk_write(struct file *file, const void *bytes, size_t length, uint64_t offset);

void
disk_resize(struct file *file, size_t size);

/* A sync begins: notes what is unstable. */
struct disk_sync *
disk_sync_begin(const struct file *file);

/* It ends: what was noted is stable, if `well`; and the note is freed. */
void
disk_sync_end(struct file *file, struct disk_sync *sync, bool well);

/* A range is stable as it is, and so is the size. */
void
disk_settle_range(struct file *file, uint64_t offset, size_t length);

/* The write-back of some unstable sectors fails. */
void
disk_lose(struct file *file, int error);

/* All changes of names are sure. */
void
disk_settle_names(void);

/* The power fails, and the machine boots again. */
void
disk_crash(void);

/* How often it has booted before, and when it did. */
unsigned int
disk_boots(void);
int64_t
disk_booted_at(void);

#endif
