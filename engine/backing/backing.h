/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The backing of an image: what holds its bytes, and its properties. A regular file or block device
 * is open twice: through the page cache, and with direct I/O if possible. It knows nothing of
 * windows, sector sizes or the user's choices.
 */
#ifndef ENGINE_BACKING_BACKING_H
#define ENGINE_BACKING_BACKING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Size of the longest reason why the engine does not use a feature, in bytes, with its NUL. */
#define REASON_MAX 160

struct backing_kind;
struct layers;

struct backing {
	const struct backing_kind *kind;
	char *path;            /* as the caller gave it, for messages */
	void *state;           /* the kind's own */
	const char *identity;  /* the kind's: the same only for the same bytes; NULL: .block_device,
				 .device and .inode tell */
	struct layers *layers; /* a layer and the files below it; NULL: it holds all its bytes */
	uint64_t start;        /* where the disk begins in it, in bytes; 0 but for a layer */
	int fd;                /* open through the page cache */
	int direct_fd;         /* open with O_DIRECT; -1: not possible */
	bool indirect;         /* the kind has .read, or there are layers: a chunk's bytes may be
				 elsewhere than in .fd and .direct_fd */
	bool writable;
	bool page_cache; /* this machine's page cache may hold bytes of it */
	bool block_device;
	bool slow_zero;  /* zeroing without releasing the space may write zeroes */
	bool claimed;    /* .fd or .claim_fd has claimed the device: engine/backing/file/claim.h */
	int claim_fd;    /* a descriptor that only holds the claim; -1: .fd holds it, or none */
	bool compressed; /* the file system says so: what it compresses goes through the page
			  * cache, also with direct I/O */
	bool in_memory;  /* a file of tmpfs or ramfs: no call waits for a disk */
	/* The part of the image that was claimed last. A look may read it while another thread
	 * claims it for writing. */
	struct {
		_Atomic uint64_t start, end; /* in bytes; both 0: there was no claim yet */
		_Atomic bool writable;       /* some clients may write to it */
		_Atomic bool used;           /* the kernel used it already, and may go on */
	} part;
	dev_t device; /* st_dev of a file, st_rdev of a block device */
	ino_t inode;
	unsigned int block_size;    /* in bytes; block device: its logical block size; file: 1 */
	unsigned int cache_block;   /* file: unit that the page cache reads and writes back as a
				       whole, in bytes, a power of 2 */
	unsigned int direct_align;  /* direct I/O: alignment of offset and length, in bytes, a power
				       of 2 */
	unsigned int direct_sector; /* direct I/O: the smallest sector that it takes, in bytes, a
				       power of 2, at most .direct_align */
	unsigned int memory_align;  /* direct I/O: alignment of memory, in bytes, a power of 2 */
	char direct_reason[REASON_MAX];    /* why .direct_fd is -1 */
	char read_only_reason[REASON_MAX]; /* why .writable is false; "": the caller wanted that */
	bool obstacle_shows;               /* obstacle_is_gone() can tell */
	bool named;           /* .path led to it when it was opened, for this process */
	uint64_t disk_number; /* of the disk or medium that was opened; 0: not known */
};

/*
 * A part of an image. Servers of this project can have parts of one image at the same time, whether
 * they read or write, if the parts share no page. A page has 4096 bytes, or more if the machine's
 * pages are larger. Each server keeps all other programs out of the whole image.
 */
struct lock_part {
	uint64_t start, end; /* in bytes; end UINT64_MAX: up to the end of the image */
};

/* The end of the last page that a part may have, in bytes. */
#define BACKING_PART_END ((UINT64_C(1) << 61) - 1)

/* How to open a backing: see open.h. */
enum {
	BACKING_READ_ONLY = 1, /* do not try to open for writing */
	BACKING_BENEATH = 2,   /* `path` is a single name in `dirfd`. No link may lead out of that
				  directory, and the file must be a regular one; anything else is
				  refused without opening it */
};

/* Closes all descriptors and frees the path. May be called again. */
void
backing_close(struct backing *backing);

/*
 * Opens the file of .fd or .direct_fd once more, in the same way, for one thread. Each system call
 * changes the reference count of the open file, so threads that share one write the same cache line
 * with each call. Returns a descriptor, which the caller closes, or -errno if there is no /proc, or
 * if this user may not open the file any more.
 */
int
backing_reopen(int fd);

/* Returns the current size in bytes, or -errno. */
int64_t
backing_size(const struct backing *backing);

/* Returns the logical block size of the device that holds the bytes, 512 to 4096 bytes; 0 if it is
 * not known, or if the file is not on a single device. */
unsigned int
backing_device_block(const struct backing *backing);

/*
 * Reads a whole number about the device below, from /sys/dev/block/MAJOR:MINOR/queue/NAME, into
 * *value. A partition has no queue of its own, so the function reads the queue of its disk. Returns
 * 0, or -ENOENT if the kernel has no such number (the device may be one that only a file system
 * knows).
 */
int
backing_queue_read(const struct backing *backing, const char *name, uint64_t *value);

/* The same from .../NAME, which a partition's disk has, too. */
int
backing_disk_read(const struct backing *backing, const char *name, uint64_t *value);

/* Returns the pages that a part has bytes in, at most up to BACKING_PART_END. */
struct lock_part
backing_part_pages(const struct lock_part *part);

/* Returns whether two parts of one image share a page. */
bool
backing_parts_meet(const struct lock_part *a, const struct lock_part *b);

/* Returns whether both are the same file or device. */
bool
backing_same(const struct backing *a, const struct backing *b);

#endif
