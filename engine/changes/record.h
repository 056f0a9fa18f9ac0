/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file with the record of an image's checkpoints (record_format.h). Its calls may wait for the
 * disk, and are made by one thread at a time.
 */
#ifndef ENGINE_CHANGES_RECORD_H
#define ENGINE_CHANGES_RECORD_H

#include "engine/changes/record_format.h"

#include <stdbool.h>
#include <sys/types.h>

struct record {
	int fd; /* -1: none */
	char *path;
	unsigned int newest; /* which of the two headers in the file is newer: 0 or 1 */
	int lost; /* -errno if what was written to it before it was opened may be lost, or one of
		     its headers can't be read; or 0 */
	struct record_header header;
};

/* Opens the file and reads its header. Nobody else has it open then, until record_close(). It must
 * belong to root, to this process's user, or to `owner`, who alone can write to it. Returns 0;
 * -ENOENT: there is no such file, or it is empty; or -errno with *error, a sentence (the caller
 * frees it), and the file is as it was; but one that can't be read for an I/O error is removed: the
 * next server may be able to read it, and would not know what has changed meanwhile. */
int
record_open(struct record *record, const char *path, uid_t owner, char **error);

/* Makes the file, without checkpoints: it does not count as a record until it has one. It must not
 * exist, or be empty. Returns 0, or -errno with *error, a sentence, and there is none. */
int
record_create(struct record *record, const char *path, uint64_t image_size,
	      const struct witness *witness, char **error);

/* Closes the file. May be called again. */
void
record_close(struct record *record);

/* Removes the file, durably. Returns 0 or -errno. */
int
record_remove(struct record *record);

/* Writes the header, after all blocks that were written before it, and both are durable then. A
 * power cut leaves this header or the one before. Returns 0 or -errno. */
int
record_put_header(struct record *record);

/* Makes all that was written durable. Returns 0 or -errno. */
int
record_sync(const struct record *record);

/* Finds room for the bitmap of an entry that is not in the header: sets its .first_block and
 * .owner. */
void
record_find_room(const struct record *record, struct record_entry *entry);

/* Sets all bits there to 0, durably. Until the entry is in the header, another thread may use the
 * record meanwhile, but for closing it. Returns 0 or -errno. */
int
record_clear_room(const struct record *record, const struct record_entry *entry);

/* Writes the n-th block of an entry's bitmap, RECORD_BLOCK_WORDS words, into the page cache.
 * Returns 0 or -errno. */
int
record_put_block(struct record *record, const struct record_entry *entry, uint32_t n,
		 const uint64_t *words);

/* Reads one. Returns 0, -EBADMSG if it is torn or corrupted, or -errno. */
int
record_get_block(const struct record *record, const struct record_entry *entry, uint32_t n,
		 uint64_t *words);

/* Marks the record as unknown, so that nobody trusts it, or removes it. Returns 0, or -errno if
 * neither was possible. */
int
record_give_up(struct record *record, const char *reason);

#endif
