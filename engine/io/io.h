/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One operation on an image. The caller owns the io and embeds it in its own request.
 *
 * Submitting never fails. Every error (a range outside the image, a read-only image, a full queue,
 * a medium error) arrives in .result when .done is called, so there is only one path of completion.
 */
#ifndef ENGINE_IO_IO_H
#define ENGINE_IO_IO_H

#include "engine/io/range.h"
#include "engine/registered.h"

#include "common/container_of.h"

#include <stdbool.h>
#include <stdint.h>

struct image;
struct ioctx;

enum io_op {
	IO_READ,
	IO_WRITE,
	IO_FLUSH,   /* puts every completed write on stable storage; has no range */
	IO_DISCARD, /* makes the contents undefined, and may release the space */
	IO_ZERO,    /* makes the range read as zeroes */
};

enum {
	IO_FUA = 1,        /* WRITE, DISCARD, ZERO: complete only on stable storage */
	IO_MAY_UNMAP = 2,  /* ZERO: may make holes */
	IO_FAST = 4,       /* ZERO: fails with -EOPNOTSUPP rather than write zeroes */
	IO_KEEP_RANGE = 8, /* WRITE: after a failure, keeps the range until io_release_range() */
};

enum io_care {
	IO_RETRIED = 1,   /* issued by io_retry_part(), whose caller releases the range */
	IO_STEPS = 2,     /* a change of an image with io_steps */
	IO_MARKED = 4,    /* on a layer: its granules are marked, or need not be */
	IO_COMMITTED = 8, /* on a layer: a commit has taken the place of its sync */
};

struct io {
	/* Set by the caller, which must not touch other members from io_submit() until done(). */
	enum io_op op;
	unsigned int flags;
	uint64_t offset; /* in the image's window, in bytes; any alignment */
	uint64_t length; /* in bytes; any alignment; an io of 0 bytes completes at once */
	void *buffer;    /* READ, WRITE: the caller's, any alignment */
	/* READ, WRITE: NULL, or how far .buffer is registered with the ring of the event loop that
	 * the context shares. The caller's, and may change until done(). */
	const struct registered *registered;
	/* READ: NULL, or called on the context's thread when `bytes` bytes from `start` on (both in
	 * bytes, `start` from the beginning of the io) are in .buffer, in any order, and each byte
	 * once; after a failure, not all of them. Must not end the io. */
	void (*arrived)(struct io *io, uint64_t start, uint64_t bytes);
	void (*done)(struct io *io); /* called once, on the context's thread; may free the io */
	/* NULL, or called on the context's thread before each part is issued. For a change, the
	 * range is held at that time, so no newer change can enter it. If it returns false, the
	 * rest is not done and the result is -ECANCELED. */
	bool (*wanted)(struct io *io);

	/* 0, or -errno: -EINVAL or (WRITE, ZERO) -ENOSPC if the range is outside the image; -EPERM
	 * if the image is read-only; -EOPNOTSUPP only with IO_FAST; -ECANCELED, see .wanted;
	 * -ENOSPC if there is no room; -ESHUTDOWN if another server may have the image, so that the
	 * client must look for it there; -EIO for every other error, and if the file is shorter
	 * than the image. After a failure, the contents of the buffer (READ) or of the
	 * range (all others) are undefined. */
	int result;
	bool written; /* WRITE: it failed only in a sync, and all its bytes are in the file */

	/* The engine's. */
	struct ioctx *ctx;
	uint64_t issued;        /* how many bytes of .length are in chunks already */
	unsigned int in_flight; /* number of chunks */
	unsigned int attempt;   /* DISCARD, ZERO: how many kinds of fallocate() have failed */
	bool waiting;           /* in the context's list of ios with something left to issue */
	bool durable;           /* FUA: on stable storage, or will be after the chunk in flight */
	uint8_t care;           /* what is to be thought of before it is done: enum io_care; 0:
				   nothing */
	bool reported;          /* its failure is in the log */
	bool in_registered;     /* bytes of it moved to or from registered memory */
	bool syncing;           /* only the last chunk, an fdatasync, is missing */
	bool ranged;            /* .range is held, and the observers are being asked or were */
	struct range range;     /* not set before a change asks for it */
	struct io *next;
};

/* What the ios of an image need besides their chunks; all are called on the context's thread. */
struct io_steps {
	/* Called when all chunks of a change with IO_STEPS have succeeded, and before its range is
	 * released.
	 * Returns whether the io may go on; otherwise io_settle() is called again. */
	bool (*after_change)(struct io *io);
	/* Called before a part of a failed change is issued again (io_retry_part()). Returns
	 * whether it may be queued now; otherwise it is queued later. */
	bool (*before_retry)(struct io *io);
};

static inline bool
io_changes_data(const struct io *io)
{
	return io->op == IO_WRITE || io->op == IO_DISCARD || io->op == IO_ZERO;
}

/* Returns the io whose range it is. */
static inline struct io *
io_of_range(struct range *range)
{
	return container_of(range, struct io, range);
}

/* Queues the operation on a context. It starts with the next ioctx_run(). Only the context's thread
 * may call this, and the io must stay until done(). */
void
io_submit(struct ioctx *ctx, struct io *io);

/*
 * Tries a part of a failed write again, or the whole write if `part` is `whole`. The write has kept
 * its range (IO_KEEP_RANGE), so the part runs under that range, before all changes that wait for
 * it. The caller has set the part's fields, as for io_submit(). Only one part may be in flight at a
 * time, because two parts may share a block that is read, modified and written.
 */
void
io_retry_part(struct io *whole, struct io *part);

/* Releases the range that a failed write has kept, if it holds one. None of its parts may be in
 * flight. */
void
io_release_range(struct io *io);

/* Returns "read", "write", "flush", "discard" or "zero", for messages. The string is static. */
const char *
io_op_name(enum io_op op);

/* ---- For the engine's own files. */

/* Appends the io to its context's list of ios with something left to issue. The io must not be in
 * the list. */
void
io_queue(struct ioctx *ctx, struct io *io);

/* Must be called, on the context's thread, for an io from the inbox: a change that has got its
 * range, or that an observer has released. Queues the io, unless an observer lets it wait. */
void
io_come_back(struct io *io);

/* Must be called when a chunk of the io has ended. Does the io's next step, or calls its done(),
 * which may free the io. */
void
io_settle(struct io *io);

/* Sets start and end of the range of the file that the io changes, in bytes. The range covers whole
 * blocks, because direct I/O may have to read and write back whole blocks. */
void
io_range(const struct image *image, const struct io *io, struct range *range);

/*
 * Logs one line about a failed operation: the operation, its place and the error. The rate is
 * limited for the whole process. `path` is the image's, `err` is -errno, and `detail` (may be NULL)
 * explains the error further.
 */
void
io_log_failure(const char *path, const struct io *io, int err, const char *detail);

#endif
