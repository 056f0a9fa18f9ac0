/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A kind of backing, as the rest of the engine sees it: a table of functions. An image has its
 * window, ranges, counters and errors from the layers above, which never ask for the kind.
 */
#ifndef ENGINE_BACKING_KIND_H
#define ENGINE_BACKING_KIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct backing;
struct image_config;
struct image_kind;
struct json;
struct lock_part;

enum call_op {
	CALL_READ,
	CALL_WRITE,
	CALL_FLUSH,      /* puts every completed write on stable storage; has no range */
	CALL_DISCARD,    /* makes the contents undefined, and may release the space */
	CALL_ZERO,       /* makes the range read as zeroes, and may release the space */
	CALL_ZERO_THICK, /* the same, but the space stays or becomes allocated */
	CALL_SEARCH,     /* rbd_search.c's own */
};

/* An asynchronous call of a backing's own. The caller owns it and leaves it alone until done(). */
struct backing_call {
	/* Set by the caller. */
	enum call_op op;
	uint64_t offset, length; /* in bytes; any alignment */
	void *buffer;            /* READ, WRITE, SEARCH */
	uint64_t checkpoint;     /* SEARCH: id of one, for what has changed since; 0: for extents */
	size_t room;             /* SEARCH: of the buffer, in bytes */
	/* Called once, by any thread, also before start() returns. `result` is the number of bytes
	 * moved (READ, WRITE) or found (SEARCH), 0, or -errno. Must not wait. */
	void (*done)(struct backing_call *call, int result);
	void *owner;

	/* The backing's until done(), then the caller's. */
	int result;
	void *backing, *state;
	struct backing_call *next;
	struct backing_call *older, *newer; /* of those that have not ended */
	int64_t since;                      /* when it was started, or sent; clock_ms() */
	bool sent;
};

/* Is told of each change of a backing's size that others made, on a thread that may wait. */
struct size_follower {
	/* `shrunk`: the backing was smaller since the last call that returned true. Returns whether
	 * it has followed; if not, it is called again a moment later. */
	bool (*resized)(void *data, bool shrunk);
	void *data;

	/* The backing's. */
	bool behind; /* it has not followed yet */
	bool shrunk; /* and does not know that the backing was smaller */
	struct size_follower *next;
};

/* The longest text about trouble, in bytes, with its NUL. */
#define BACKING_TROUBLE 256

/* What has come up since a backing was opened. */
struct backing_look {
	int64_t size;                  /* in bytes, or -errno */
	char trouble[BACKING_TROUBLE]; /* "it was deleted; ..."; "": none */
	bool writable_again; /* it could be opened only for reading, and may be opened for writing
				now */
};

/* Gets an extent; offset and length are in bytes. Any result but 0 ends the visit. */
typedef int (*extent_visit)(void *data, uint64_t offset, uint64_t length, bool hole);

struct backing_snapshot;

/* Snapshots that a backing makes by itself. Errors come with *error, a sentence (the caller frees
 * it; NULL: no memory). */
struct backing_snapshots {
	/* Checks whether one is possible, and prepares it. `label` is for its name in the backing.
	 * Never waits. Returns 0 and the caller frees *snapshot before it closes the backing; or
	 * -errno. */
	int (*prepare)(const struct backing *backing, const char *label,
		       struct backing_snapshot **snapshot, char **error);
	/* Begins to make it. What was changed before is in it; the caller keeps all changes from
	 * the backing until await() has returned. Never waits. Returns 0 or -errno. */
	int (*start)(struct backing_snapshot *snapshot, char **error);
	/* Waits until it is made, up to a time of clock_ms(CLOCK_MONOTONIC). Returns 0; -ETIMEDOUT;
	 * or another -errno. */
	int (*await)(struct backing_snapshot *snapshot, int64_t end, char **error);
	/* Opens it, with the configuration of the backing's image. When the opened backing is
	 * closed, the snapshot is removed. Returns 0 or -errno. */
	int (*open)(struct backing_snapshot *snapshot, const struct image_config *config,
		    struct backing *opened, char **error);
	/* Removes it soon, if it was made and not opened, also when it is made later. Never waits.
	 */
	void (*free)(struct backing_snapshot *snapshot);
};

/* The longest name of a checkpoint, in bytes. */
#define BACKING_CHECKPOINT_NAME_MAX 128

/* The most checkpoints that count: older ones before newer ones. */
#define BACKING_CHECKPOINTS_MAX 32

struct backing_removal;

struct backing_checkpoint {
	uint64_t id;     /* not 0, rises with each of the backing, and never comes back there */
	uint64_t random; /* another one for each, also of other backings */
	uint64_t size;   /* of the backing then, in bytes */
	int64_t begun;   /* seconds since 1970 */
	char name[BACKING_CHECKPOINT_NAME_MAX + 1];
};

/* Checkpoints that a backing keeps by itself: they are there after it was closed, all processes
 * that have it open have them, and they count what any of these changes. */
struct backing_checkpoints {
	/* Copies the oldest ones, at most `most`, oldest first, and returns their number. There may
	 * be several of a name. edition() returns another number when the list has changed. Both
	 * never wait. */
	size_t (*list)(const struct backing *backing, struct backing_checkpoint list[],
		       size_t most);
	uint64_t (*edition)(const struct backing *backing);
	/* As prepare() of struct backing_snapshots, whose start(), await() and free() are for
	 * checkpoints, too. keep(): it stays; when await() has returned 0. Never waits. */
	int (*prepare)(const struct backing *backing, const char *name,
		       struct backing_snapshot **snapshot, char **error);
	void (*keep)(struct backing_snapshot *snapshot);
	/* Begins to end one. `anyway`: also if the backing is known not to answer. Never waits.
	 * Returns 0 and *removal for await_removal(), or NULL if there is none of that id; or
	 * -errno with *error, as above. */
	int (*remove)(const struct backing *backing, uint64_t id, bool anyway,
		      struct backing_removal **removal, char **error);
	/* Waits until it has ended, up to a time of clock_ms(CLOCK_MONOTONIC). Returns 0; or -errno
	 * with *error, as above; after -ETIMEDOUT, the removal goes on. */
	int (*await_removal)(struct backing_removal *removal, int64_t end, char **error);
	/* As extents() of struct backing_kind: what has changed since is no hole, and all else is
	 * one; what is beyond the end of the backing has changed. -ENOENT: there is no such
	 * checkpoint any more, and what was visited may be too little. */
	int (*changes)(const struct backing *backing, uint64_t id, uint64_t offset, uint64_t length,
		       extent_visit visit, void *data);
};

/* All functions may be called by any thread, and may wait for the backing, unless a comment says
 * otherwise. Offsets and lengths are bytes of the backing. */
struct backing_kind {
	const struct image_kind *facts; /* NULL: its backings are not opened by a name */

	/* As backing_prepare() and backing_release(). NULL: there is nothing to prepare. */
	int (*prepare)(char **error);
	void (*release)(void);

	/* As backing_open(). */
	int (*open)(struct backing *backing, int dirfd, const char *path, unsigned int flags,
		    const struct image_config *config, char **error);

	const char *engine; /* with .start(): its name in the status */

	/* Begins a call, and never waits. NULL: the kernel moves the bytes of .fd and .direct_fd.
	 */
	void (*start)(const struct backing *backing, struct backing_call *call);

	/* Reads in place of the kernel's calls on .fd and .direct_fd (`direct`). Returns the number
	 * of bytes or -errno. The backing is then read-only, and its image has the engine
	 * `threads`; .indirect is set. NULL: the kernel's calls read. */
	int (*read)(const struct backing *backing, bool direct, void *buffer, size_t length,
		    uint64_t offset);

	/* Releases the lock, and closes what was opened, after a failure perhaps only a part of it.
	 * May be called again. */
	void (*close)(struct backing *backing);

	/* Returns the current size in bytes, or -errno. */
	int64_t (*size)(const struct backing *backing);

	/* Looks at what may have changed without a word to this process. NULL: the backing tells
	 * its followers, or can't change. */
	void (*look)(const struct backing *backing, struct backing_look *look);

	/* Adds a follower, which belongs to the caller; and removes it, after which it is not
	 * called any more. NULL: the backing tells nothing, and .size() must be asked. */
	void (*follow_size)(const struct backing *backing, struct size_follower *follower);
	void (*unfollow_size)(const struct backing *backing, struct size_follower *follower);

	/* Returns the size in bytes of which followers are told. Never waits. */
	int64_t (*told_size)(const struct backing *backing);

	/* Returns whether both, which are of this kind, hold the same bytes. */
	bool (*same)(const struct backing *a, const struct backing *b);

	/* Reads the first bytes from `offset` on, at most `length`. Returns their number or -errno.
	 */
	ssize_t (*peek)(const struct backing *backing, void *buffer, size_t length,
			uint64_t offset);

	/*
	 * Calls `visit` for each extent of the range of `length` bytes at `offset`, in order, and
	 * never beyond the range; with `one`, only for the first extent. If `visit` returns a value
	 * other than 0, the visit ends and the function returns that value. Otherwise returns 0 or
	 * -errno. Calling a hole data is always right.
	 */
	int (*extents)(const struct backing *backing, uint64_t offset, uint64_t length, bool one,
		       extent_visit visit, void *data);

	/* Returns whether the bytes take less space than their number, so that there are holes. */
	bool (*have_holes)(const struct backing *backing);

	/*
	 * Takes the lock that the configuration asks for, on a part of the backing. `locked`, which
	 * needs `writable`: there is a reader's lock, which becomes a writer's, and stays after a
	 * failure. Returns 0, or -errno with *error, a sentence that names the holder if it can be
	 * found (the caller frees it). lock_check() makes the same checks, but takes no lock. NULL,
	 * all three: nobody else can have it open.
	 */
	int (*lock)(struct backing *backing, const struct image_config *config,
		    const struct lock_part *part, bool writable, bool locked, char **error);
	int (*lock_check)(const struct backing *backing, const struct image_config *config,
			  const struct lock_part *part, bool writable, char **error);
	/* Releases it, as if it had never been taken. */
	void (*unlock)(struct backing *backing);

	/* Returns whether another server may have the backing now, so that nothing may succeed
	 * here. Never waits. NULL: that can't be. */
	bool (*is_fenced)(const struct backing *backing);

	/* Ends waits for another server that has the backing, with -ESHUTDOWN, because this one
	 * ends. Never waits. NULL: there are none. */
	void (*stop_waiting)(const struct backing *backing);

	/* Returns whether the process may end while calls are under way: whoever has the backing
	 * next sees to it that none of them is carried out any more. NULL: it may not. */
	bool (*may_be_left)(const struct backing *backing);

	/* NULL: the backing makes none. */
	const struct backing_snapshots *snapshots;
	/* NULL: the backing keeps none. Otherwise it makes snapshots, too. */
	const struct backing_checkpoints *checkpoints;

	/* Writes the kind's own facts as members of the status. NULL: it has none. Never waits. */
	void (*put_status)(const struct backing *backing, struct json *json);
};

#endif
