/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One operation on an image.  The caller owns it and embeds it in its own request.
 *
 * Submitting never fails: a range outside the image, a read-only image, a full queue, a medium
 * error all arrive in .result when .done is called, so that there is one path of completion.
 */
#ifndef ENGINE_IO_IO_H
#define ENGINE_IO_IO_H

#include "engine/io/range.h"

#include <stdbool.h>
#include <stdint.h>

struct image;
struct ioctx;

enum io_op {
	IO_READ,
	IO_WRITE,
	IO_FLUSH,   /* every write that was done before is on stable storage; no range */
	IO_DISCARD, /* the contents become undefined, the space may be given back */
	IO_ZERO,    /* the range reads back as zeroes */
};

enum {
	IO_FUA = 1,       /* WRITE, DISCARD, ZERO: done means on stable storage */
	IO_MAY_UNMAP = 2, /* ZERO: holes will do */
	IO_FAST = 4,      /* ZERO: fail with -EOPNOTSUPP rather than write zeroes */
	IO_KEEP_RANGE =
		8, /* WRITE: a failure lets nobody else into the range until io_release_range() */
};

struct io {
	/* Set by the caller, who leaves all else alone from io_submit() until done(). */
	enum io_op op;
	unsigned int flags;
	uint64_t offset;             /* in the image's window, bytes; any alignment */
	uint64_t length;             /* bytes; any alignment; 0 is done at once */
	void *buffer;                /* READ, WRITE: the caller's, any alignment */
	void (*done)(struct io *io); /* called once, on the context's thread; may free the io */
	/* NULL, or asked on the context's thread before each part is issued, of a change when its
	 * range is held, so that nothing newer can get into it any more.  False: the rest is left
	 * undone, the result is -ECANCELED. */
	bool (*wanted)(struct io *io);

	/* 0, or -errno: -EINVAL or (WRITE, ZERO) -ENOSPC for a range outside the image; -EPERM on a
	 * read-only image; -EOPNOTSUPP for IO_FAST only; -ECANCELED, see .wanted; else what the
	 * kernel said, -EIO where the file turned out to be shorter than the image. The contents of
	 * the buffer (READ) or of the range (all others) are undefined after a failure. */
	int result;
	bool written; /* WRITE: though it failed, all of it is in the file: only a sync has failed
		       */

	/* The engine's. */
	struct ioctx *ctx;
	uint64_t issued;        /* how many bytes of .length went into chunks */
	unsigned int in_flight; /* chunks */
	unsigned int attempt;   /* DISCARD, ZERO: how many kinds of fallocate() have failed */
	bool waiting;           /* in the context's list of ios with something left to issue */
	bool syncing;           /* a last chunk, an fdatasync, is all that is missing */
	bool durable;           /* FUA: it has reached stable storage */
	bool ranged;            /* .range is held */
	bool retried;           /* under a range that io_retry_part()'s caller lets go */
	bool reported;          /* its failure is in the log */
	struct range range;
	struct io *next;
};

/* Queues the operation on a context; it starts with the next ioctx_run(). */
void
io_submit(struct ioctx *ctx, struct io *io);

/*
 * Tries again a part of a write that failed and kept its range (IO_KEEP_RANGE), or all of it,
 * `part` being `whole`: under that range, before all changes that have waited for it.  The caller
 * has set the part's fields, as for io_submit().  Only one part may be under way at a time: two may
 * share a block that is read, modified and written.
 */
void
io_retry_part(struct io *whole, struct io *part);

/* Lets go of the range that a failed write has kept.  None of its parts may be under way. */
void
io_release_range(struct io *io);

/* "read", "write", "flush", "discard", "zero": for messages. */
const char *
io_op_name(enum io_op op);

/* ---- for the engine's own files */

/* Puts the io at the end of its context's list of ios with something left to issue. */
void
io_queue(struct ioctx *ctx, struct io *io);

/* To be called when a chunk of the io has come to its end: does what the io needs next, or calls
 * its done(), after which it may be gone. */
void
io_settle(struct io *io);

/* Sets start and end of the range of the file that the io changes, in whole blocks: what direct I/O
 * may have to read and write back. */
void
io_range(const struct image *image, const struct io *io, struct range *range);

/*
 * One line about a failed operation, rate-limited for the whole process: what, where, why.  `path`
 * is the image's; `detail` (may be NULL) explains the error further.
 */
void
io_log_failure(const char *path, const struct io *io, int err, const char *detail);

#endif
