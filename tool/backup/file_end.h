/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A raw image file as an end of a copy.  What is read, and written into a new file, is done at
 * once: the page cache takes it.  Into a file that has data, threads write with direct I/O: the
 * disk is to work from the first piece on, and its pieces are scattered.
 */
#ifndef TOOL_BACKUP_FILE_END_H
#define TOOL_BACKUP_FILE_END_H

#include "tool/backup/end.h"

#include <glib.h>
#include <stdbool.h>

#define FILE_END_ALIGNMENT 4096 /* bytes: of buffers, for direct I/O */

/* Takes over `fd`, which is open to read and, if it is the target, to write.  `fresh`: all of the
 * file is a hole, so zeroes need not be written.  The caller frees it (end_clear). */
struct end *
file_end_new(int fd, const char *path, bool fresh);

/* Adds all of the file, whose size is `size`, to a plan: holes are zeroes. */
bool
file_end_allocated(const struct end *end, uint64_t size, GArray *plan, GError **error);

/* Reads or writes all of `size` bytes; a file that ends before is an error (EIO).  Returns 0 or an
 * errno. */
int
file_read_all(int fd, void *bytes, size_t size, uint64_t offset);
int
file_write_all(int fd, const void *bytes, size_t size, uint64_t offset);

/* Begins the write-back of all that was written if it's much; `unwritten` begins with 0, and counts
 * bytes. */
void
file_write_back(int fd, uint64_t length, uint64_t *unwritten);

/* What a message about that errno ends with: what can be done, or "". */
const char *
file_way_out(int failed);

#endif
