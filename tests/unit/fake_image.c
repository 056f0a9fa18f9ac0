/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/fake_image.h"

#include "engine/backing/file/file.h"
#include "engine/io/chunk_plan.h"

#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096u

void
buffer_fill(unsigned char *buffer, size_t length, uint32_t seed)
{
	uint64_t word;

	for (size_t i = 0; i < length; i += sizeof(word)) {
		word = (i / 8 + 1 + ((uint64_t)seed << 32)) * UINT64_C(0x9e3779b97f4a7c15);
		/* No byte is 0, so that zeroes never come from here. */
		word |= UINT64_C(0x0101010101010101);
		memcpy(buffer + i, &word, length - i < sizeof(word) ? length - i : sizeof(word));
	}
}

static void
set_facts(struct image *image, const struct fake_facts *facts, uint64_t file_size)
{
	struct backing *backing = &image->backing;
	struct stat st;

	backing->kind = &backing_file;
	backing->page_cache = true;
	backing->path = strdup("disk.img");
	backing->fd = memfd_create("disk", MFD_CLOEXEC);
	ck_assert_int_ge(backing->fd, 0);
	ck_assert_int_eq(fstat(backing->fd, &st), 0);
	/* No two are the same file. */
	backing->device = st.st_dev;
	backing->inode = st.st_ino;
	backing->direct_fd = facts->align ? fcntl(backing->fd, F_DUPFD_CLOEXEC, 0) : -1;
	backing->claim_fd = -1;
	backing->direct_align = backing->direct_sector = facts->align;
	backing->cache_block = PAGE;
	backing->memory_align = facts->memory_align ? facts->memory_align : facts->align;
	backing->writable = !facts->read_only;
	backing->block_device = backing->slow_zero = facts->block_size != 0;
	backing->block_size = facts->block_size ? facts->block_size : 1;
	image->config = (struct image_config){
		.offset = facts->offset,
		.depth = facts->depth ? facts->depth : 8,
		.discard = facts->no_discard ? TRISTATE_OFF : TRISTATE_ON,
		.page_cache = PAGE_CACHE_AUTO,
		.lock = LOCK_AUTO,
	};
	image->sector_size = facts->align > 512 ? facts->align : 512;
	image->sector_reason = "";
	image_set_size(image, facts->size ? facts->size : file_size - facts->offset);
	atomic_store(&image->direct, facts->align && !facts->buffered);
	atomic_store(&image->cached, image_may_cache(image));
}

static void
fill_file(struct fake_image *fake, bool empty)
{
	int fd = fake->image->backing.fd;

	if (empty) {
		ck_assert_int_eq(ftruncate(fd, (off_t)fake->file_size), 0);
		return;
	}
	ck_assert_ptr_nonnull(fake->model);
	buffer_fill(fake->model, fake->file_size, 1);
	ck_assert_int_eq(pwrite(fd, fake->model, fake->file_size, 0), (ssize_t)fake->file_size);
}

void
fake_image_open(struct fake_image *fake, const struct fake_facts *facts)
{
	struct image *image = aligned_alloc(64, sizeof(*image));

	fake_init(&fake->fake);
	fake->file_size = facts->file_size ? facts->file_size : 1 << 20;
	fake->model = facts->empty ? NULL : malloc(fake->file_size);
	ck_assert_ptr_nonnull(image);
	memset(image, 0, sizeof(*image));
	set_facts(image, facts, fake->file_size);
	image->backend = &fake->fake.backend;
	image->plan = plan_chunk;
	pthread_mutex_init(&image->switching, NULL);
	pthread_mutex_init(&image->locking, NULL);
	pthread_mutex_init(&image->resizing, NULL);
	pthread_mutex_init(&image->facts, NULL);
	image->shared = shared_file_get(&image->backing);
	ck_assert_ptr_nonnull(image->shared);
	image->ranges = &image->shared->ranges;
	arena_init(&image->arena, (size_t)image->config.depth * CHUNK_SIZE);
	image->pool = pool_new(facts->contexts);
	fake->image = image;
	fill_file(fake, facts->empty);
	ck_assert_int_eq(ioctx_new(image, &fake->ctx), 0);
}

void
fake_image_close(struct fake_image *fake)
{
	ioctx_free(fake->ctx);
	image_close(fake->image);
	fake_fini(&fake->fake);
	free(fake->model);
}

void
fake_image_compare(const struct fake_image *fake)
{
	unsigned char *bytes = malloc(fake->file_size);
	struct stat st;
	uint64_t at = 0;

	ck_assert_ptr_nonnull(bytes);
	ck_assert_int_eq(fstat(fake->image->backing.fd, &st), 0);
	ck_assert_msg((uint64_t)st.st_size == fake->file_size, "the file has %lld bytes now",
		      (long long)st.st_size);
	ck_assert_int_eq(pread(fake->image->backing.fd, bytes, fake->file_size, 0),
			 (ssize_t)fake->file_size);
	if (memcmp(bytes, fake->model, fake->file_size) != 0) {
		while (bytes[at] == fake->model[at])
			at++;
		ck_abort_msg("byte %llu of the file is 0x%02x, not 0x%02x", (unsigned long long)at,
			     bytes[at], fake->model[at]);
	}
	free(bytes);
}

unsigned char *
fake_image_at(const struct fake_image *fake, uint64_t offset)
{
	return fake->model + fake->image->config.offset + offset;
}

static void
test_io_done(struct io *io)
{
	((struct test_io *)((char *)io - offsetof(struct test_io, io)))->done++;
}

void
test_io_submit(struct ioctx *ctx, struct test_io *test, enum io_op op, unsigned int flags,
	       uint64_t offset, uint64_t length, void *buffer)
{
	memset(test, 0xa5, sizeof(*test)); /* the engine sets what it needs */
	test->io.op = op;
	test->io.flags = flags;
	test->io.offset = offset;
	test->io.length = length;
	test->io.buffer = buffer;
	test->io.done = test_io_done;
	test->io.wanted = NULL;
	test->io.arrived = NULL;
	test->done = 0;
	io_submit(ctx, &test->io);
}

int
test_io_finish(struct ioctx *ctx, struct test_io *test)
{
	while (!test->done)
		ioctx_run(ctx, true);
	ck_assert_uint_eq(test->done, 1);
	return test->io.result;
}

int
test_io_execute(struct ioctx *ctx, enum io_op op, unsigned int flags, uint64_t offset,
		uint64_t length, void *buffer)
{
	struct test_io test;

	test_io_submit(ctx, &test, op, flags, offset, length, buffer);
	return test_io_finish(ctx, &test);
}

unsigned char *
buffer_new(size_t length, unsigned int misaligned)
{
	unsigned char *memory = aligned_alloc(PAGE, (length + misaligned + PAGE) / PAGE * PAGE);

	ck_assert_ptr_nonnull(memory);
	ck_assert_uint_lt(misaligned, PAGE);
	memset(memory, 0, length + misaligned); /* valgrind doesn't see what io_uring reads */
	return memory + misaligned;
}

void
buffer_free(unsigned char *buffer)
{
	free(buffer - (uintptr_t)buffer % PAGE);
}
