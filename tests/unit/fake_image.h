/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An image on a file in memory, reached through the fake backend, and a model of what the file must
 * hold.  "Direct I/O" uses another descriptor of the same file; the facts set its rules, which the
 * fake backend checks.
 */
#ifndef TESTS_UNIT_FAKE_IMAGE_H
#define TESTS_UNIT_FAKE_IMAGE_H

#include "tests/unit/fake_backend.h"

#include "engine/context/ioctx.h"
#include "engine/context/pool.h"
#include "engine/image/image.h"
#include "engine/io/chunk.h"
#include "engine/io/image_state.h"
#include "engine/io/io.h"
#include "engine/io/ioctx_state.h"

/* What the image is like; 0 for a default. */
struct fake_facts {
	uint64_t file_size;        /* bytes; default 1 MiB */
	uint64_t offset, size;     /* the window; default: to the end */
	unsigned int align;        /* of direct I/O; 0: not possible */
	unsigned int memory_align; /* default: align */
	bool buffered;             /* direct I/O possible, but off */
	unsigned int block_size;   /* 0: a regular file */
	unsigned int depth;        /* default 8 */
	unsigned int contexts;     /* limit of the pool */
	bool read_only, no_discard;
	bool empty; /* the file is a hole, and has no model: for large ones */
};

struct fake_image {
	struct fake fake;
	struct image *image;
	struct ioctx *ctx;    /* not of the pool */
	unsigned char *model; /* the whole file; or NULL */
	uint64_t file_size;
};

/* Both file and model hold a pattern in which every 8 bytes differ, unless the file is empty. */
void
fake_image_open(struct fake_image *fake, const struct fake_facts *facts);
void
fake_image_close(struct fake_image *fake);

/* Fails the test where file and model differ. */
void
fake_image_compare(const struct fake_image *fake);

/* The model's bytes of the window. */
unsigned char *
fake_image_at(const struct fake_image *fake, uint64_t offset);

/* An io, and how often its done() was called. */
struct test_io {
	struct io io;
	unsigned int done;
};

void
test_io_submit(struct ioctx *ctx, struct test_io *test, enum io_op op, unsigned int flags,
	       uint64_t offset, uint64_t length, void *buffer);

/* Runs the context until the io is done, and returns its result. */
int
test_io_finish(struct ioctx *ctx, struct test_io *test);

/* Both. */
int
test_io_execute(struct ioctx *ctx, enum io_op op, unsigned int flags, uint64_t offset,
		uint64_t length, void *buffer);

/* Memory that is `misaligned` bytes away from a page's start; release it with buffer_free(). */
unsigned char *
buffer_new(size_t length, unsigned int misaligned);
void
buffer_free(unsigned char *buffer);

/* Fills a buffer with bytes that appear nowhere else. */
void
buffer_fill(unsigned char *buffer, size_t length, uint32_t seed);

#endif
