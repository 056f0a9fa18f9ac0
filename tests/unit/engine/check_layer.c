/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A layer against an array of bytes, on each way to the kernel: random operations, kills and power
 * cuts.  Each process of the server is a child, which ends without a word; after a power cut the
 * next one has another boot id, so that the recent map does not count.
 */
#include "engine/backend/ring.h"
#include "engine/changes/boot.h"
#include "engine/context/ioctx.h"
#include "engine/context/pool.h"
#include "engine/image/image.h"
#include "engine/io/io.h"
#include "engine/layer/layer_create.h"

#include "tests/lib/suite.h"
#include "tests/unit/log_capture.h"
#include "tests/unit/scratch_file.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIB       1024u
#define MIB       (1u << 20)
#define SIZE_MAX_ (4 * MIB)
#define BATCH     8
#define BATCHES   20
#define LIVES     4
#define SECTOR    512u
#define HISTORY   (BATCH * BATCHES)

static const struct way {
	const char *name;
	enum engine_choice engine;
	bool hosted, ring, direct;
} ways[] = {
	{"io_uring, direct", ENGINE_IO_URING, false, false, true},
	{"io_uring, buffered", ENGINE_IO_URING, false, false, false},
	{"aio, direct", ENGINE_AIO, false, false, true},
	{"threads, direct", ENGINE_THREADS, false, false, true},
	{"threads, buffered", ENGINE_THREADS, false, false, false},
	{"loop, io_uring, direct", ENGINE_IO_URING, true, true, true},
	{"loop, io_uring, buffered", ENGINE_IO_URING, true, true, false},
	{"loop, own io_uring, direct", ENGINE_IO_URING, true, false, true},
	{"loop, aio, direct", ENGINE_AIO, true, false, true},
	{"loop, aio, buffered", ENGINE_AIO, true, false, false},
	{"loop, threads, direct", ENGINE_THREADS, true, false, true},
	{"loop, threads, buffered", ENGINE_THREADS, true, false, false},
};
#define WAYS ((int)(sizeof(ways) / sizeof(ways[0])))

/* A change that was answered, or was in flight when power failed. */
struct past {
	enum io_op op;
	uint64_t offset, length;
	unsigned char fill;
};

/* What outlives a child. */
struct world {
	char boot[40];
	uint64_t size; /* of the image */
	unsigned int seed;
	unsigned int count; /* of .history, since the last flush */
	struct past history[HISTORY];
	unsigned char now[SIZE_MAX_], durable[SIZE_MAX_];
};

static struct world *world;
static char directory[SCRATCH_PATH], base_path[SCRATCH_PATH + 32], layer_path[SCRATCH_PATH + 32];
static bool temporary;  /* the server makes a temporary clone of it */
static uint64_t window; /* where the image begins on the disk, in bytes */

void
boot_id(char *id, size_t size)
{
	snprintf(id, size, "%s", world->boot);
}

void
boot_clocks(int64_t *now, int64_t *age)
{
	*now = *age = 0;
}

static unsigned int
draw(unsigned int below)
{
	world->seed = world->seed * 1103515245u + 12345u;
	return (world->seed >> 8) % below;
}

/* ---- the process of a server */

static struct image *image;
static struct ring ring;
static struct ioctx *ctx;
static unsigned int done_count;

static void
server_start(const struct way *way)
{
	const struct image_config config = {
		.direct_io = way->direct ? TRISTATE_AUTO : TRISTATE_OFF,
		.engine = way->engine,
		.depth = 8,
		.discard = TRISTATE_ON,
		.offset = window,
		.sizelimit = window ? world->size : 0,
		.temporary = temporary ? TRISTATE_ON : TRISTATE_OFF,
	};
	char *error = NULL;

	ck_assert_msg(image_open(AT_FDCWD, layer_path, 0, &config, &image, &error) == 0, "%s",
		      error);
	ck_assert_uint_eq(image_size(image), world->size);
	if (way->ring) {
		ck_assert_int_eq(ring_init(&ring, 4, 64, 0, 64), 0);
		ring_offer_memory(&ring);
	}
	if (way->hosted)
		ck_assert_int_eq(pool_host(image, way->ring ? &ring : NULL, &ctx), 0);
	else
		ck_assert_int_eq(ioctx_new(image, &ctx), 0);
}

static void
count_done(struct io *io)
{
	ck_assert_int_eq(io->result, 0);
	done_count++;
}

static void
run_all(const struct way *way, struct io *ios, unsigned int count)
{
	done_count = 0;
	for (unsigned int i = 0; i < count; i++) {
		ios[i].done = count_done;
		io_submit(ctx, &ios[i]);
	}
	ioctx_run(ctx, !way->hosted);
	while (done_count < count) {
		struct pollfd event = {.fd = ioctx_event(ctx), .events = POLLIN};
		eventfd_t n;

		if (way->ring)
			ck_assert_int_eq(ring_run_for(&ring, 10), 0);
		if (way->hosted && !ioctx_wants_run(ctx) &&
		    poll(&event, 1, way->ring ? 0 : 10000) == 1)
			eventfd_read(event.fd, &n);
		ioctx_run(ctx, !way->hosted);
	}
}

static void
run_one(const struct way *way, struct io io)
{
	run_all(way, &io, 1);
}

static void
compare_all(const struct way *way, const unsigned char *wanted)
{
	unsigned char *seen = aligned_alloc(4096, SIZE_MAX_);

	run_one(way, (struct io){.op = IO_READ, .length = world->size, .buffer = seen});
	for (uint64_t i = 0; memcmp(seen, wanted, world->size) != 0 && i < world->size; i++)
		ck_assert_msg(seen[i] == wanted[i], "byte %llu is %d, not %d",
			      (unsigned long long)i, seen[i], wanted[i]);
	free(seen);
}

/* ---- random operations */

static void
apply(unsigned char *bytes, const struct past *past)
{
	if (past->op == IO_WRITE)
		memset(bytes + past->offset, past->fill, past->length);
	else if (past->op != IO_READ)
		memset(bytes + past->offset, 0, past->length);
}

/* Ranges of different places of the disk, so that the result does not depend on an order. */
static void
draw_batch(struct io *ios, struct past *pasts, unsigned char **buffers)
{
	static const enum io_op ops[] = {IO_WRITE, IO_WRITE, IO_WRITE,  IO_READ,
					 IO_READ,  IO_ZERO,  IO_DISCARD};
	const uint64_t part = world->size / BATCH;

	for (unsigned int i = 0; i < BATCH; i++) {
		const enum io_op op = ops[draw(sizeof(ops) / sizeof(ops[0]))];
		const unsigned int unit = (unsigned int[]){1, 512, 4096}[draw(3)];
		uint64_t offset = part * i + draw((unsigned int)part);
		uint64_t length = draw(draw(4) ? 3 * 4096 : 200 * KIB) + 1;

		offset = offset / unit * unit;
		offset = offset < part * i ? part * i : offset;
		length = (length + unit - 1) / unit * unit;
		if (offset + length > part * (i + 1))
			length = part * (i + 1) - offset;
		if (i == BATCH - 1 && draw(3) == 0)
			length = world->size - offset;
		pasts[i] = (struct past){op, offset, length, (unsigned char)(1 + draw(255))};
		memset(buffers[i], pasts[i].fill, length);
		ios[i] = (struct io){
			.op = op,
			.offset = offset,
			.length = length,
			.buffer = buffers[i] + (draw(4) ? 0 : 1),
			.flags = (op != IO_READ && draw(32) == 0 ? IO_FUA : 0) |
				 (op == IO_ZERO && draw(2) ? IO_MAY_UNMAP : 0),
		};
		if (op == IO_WRITE)
			memset(ios[i].buffer, pasts[i].fill, length);
	}
}

static void
check_batch(const struct io *ios, const struct past *pasts)
{
	for (unsigned int i = 0; i < BATCH; i++) {
		if (ios[i].op == IO_READ)
			ck_assert_mem_eq(ios[i].buffer, world->now + ios[i].offset, ios[i].length);
		apply(world->now, &pasts[i]);
		if (ios[i].flags & IO_FUA && ios[i].op != IO_DISCARD)
			apply(world->durable, &pasts[i]);
		world->history[world->count++] = pasts[i];
	}
}

static void
flushed(void)
{
	memcpy(world->durable, world->now, world->size);
	world->count = 0;
}

/* What a discard has left is zeroes or the old bytes. Makes it zeroes. */
static void
settle_discard(const struct way *way, const struct past *past)
{
	unsigned char *seen = aligned_alloc(4096, SIZE_MAX_ + 4096);

	run_one(way, (struct io){.op = IO_READ,
				 .offset = past->offset,
				 .length = past->length,
				 .buffer = seen});
	for (uint64_t i = 0; i < past->length; i++) {
		if (seen[i] != 0 && seen[i] != world->now[past->offset + i])
			ck_abort_msg("byte %llu is %d after a discard",
				     (unsigned long long)(past->offset + i), seen[i]);
	}
	run_one(way, (struct io){.op = IO_ZERO, .offset = past->offset, .length = past->length});
	free(seen);
}

static void
operate(const struct way *way)
{
	struct io ios[BATCH];
	struct past pasts[BATCH];
	unsigned char *buffers[BATCH];

	for (unsigned int i = 0; i < BATCH; i++)
		buffers[i] = aligned_alloc(4096, SIZE_MAX_ / BATCH + 2 * MIB);
	for (unsigned int i = 0; i < BATCHES; i++) {
		draw_batch(ios, pasts, buffers);
		run_all(way, ios, BATCH);
		for (unsigned int j = 0; j < BATCH; j++) {
			if (pasts[j].op == IO_DISCARD)
				settle_discard(way, &pasts[j]);
		}
		check_batch(ios, pasts);
		if (draw(8) == 0) {
			run_one(way, (struct io){.op = IO_FLUSH});
			flushed();
		}
	}
	for (unsigned int i = 0; i < BATCH; i++)
		free(buffers[i]);
}

/* ---- lives of servers */

static void
end_in_order(const struct way *way)
{
	if (way->hosted)
		pool_unhost(image, ctx);
	else
		ioctx_free(ctx);
	if (way->ring)
		ring_fini(&ring);
	image_close(image);
}

/* Each sector must have bytes of some time since the last flush. */
static void
adopt_after_power_cut(const struct way *way)
{
	unsigned char *seen = aligned_alloc(4096, SIZE_MAX_), *then = malloc(SIZE_MAX_);
	uint8_t *right = calloc(SIZE_MAX_ / SECTOR + 1, 1);

	run_one(way, (struct io){.op = IO_READ, .length = world->size, .buffer = seen});
	memcpy(then, world->durable, world->size);
	for (unsigned int i = 0; i <= world->count; i++) {
		for (uint64_t place = 0; place < world->size; place += SECTOR) {
			uint64_t rest = world->size - place;

			if (memcmp(seen + place, then + place, rest < SECTOR ? rest : SECTOR) == 0)
				right[place / SECTOR] = 1;
		}
		if (i < world->count)
			apply(then, &world->history[i]);
	}
	for (uint64_t place = 0;
	     memchr(right, 0, (world->size + SECTOR - 1) / SECTOR) && place < world->size;
	     place += SECTOR)
		ck_assert_msg(right[place / SECTOR], "the sector at %llu has other bytes (%d)",
			      (unsigned long long)place, seen[place]);
	memcpy(world->now, seen, world->size);
	free(right);
	free(then);
	free(seen);
}

static void
live(const struct way *way, bool after_power_cut, bool in_order)
{
	server_start(way);
	if (after_power_cut)
		adopt_after_power_cut(way);
	else
		compare_all(way, world->now);
	/* What was adopted is durable only after a flush. */
	run_one(way, (struct io){.op = IO_FLUSH});
	flushed();
	operate(way);
	compare_all(way, world->now);
	if (in_order) {
		end_in_order(way);
		flushed();
	}
	_exit(0);
}

static void
in_child(const struct way *way, bool after_power_cut, bool in_order)
{
	int status;
	pid_t child = fork();

	if (child == 0)
		live(way, after_power_cut, in_order);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
}

/* ---- the world of a test */

static void
make_base(uint64_t size)
{
	int fd = open(base_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	unsigned char *bytes = malloc(size);

	ck_assert_int_eq(ftruncate(fd, (off_t)size), 0);
	for (uint64_t i = 0; i < size; i++)
		bytes[i] = (unsigned char)(i / 97 * 31 + i % 13);
	/* The second megabyte is a hole. */
	memset(bytes + MIB, 0, MIB);
	ck_assert_int_eq(pwrite(fd, bytes, MIB, 0), MIB);
	ck_assert_int_eq(pwrite(fd, bytes + 2 * MIB, size - 2 * MIB, 2 * MIB), size - 2 * MIB);
	close(fd);
	for (uint64_t i = 0; i < world->size && window + i < size; i++)
		world->now[i] = bytes[window + i];
	free(bytes);
}

static void
remove_files(void)
{
	static const char *const names[] = {"base.raw", "0.layer", "1.layer", "vm.layer"};
	char path[SCRATCH_PATH + 32];

	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", directory, names[i]);
		unlink(path);
	}
}

static void
begin(void)
{
	log_capture_begin();
	/* A test that fails leaves them. */
	remove_files();
	world = mmap(NULL, sizeof(*world), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	ck_assert_ptr_ne(world, MAP_FAILED);
	strcpy(world->boot, "boot 1");
}

static void
end(void)
{
	remove_files();
	log_capture_end();
}

static void
begin_once(void)
{
	scratch_directory_new(directory);
	snprintf(base_path, sizeof(base_path), "%s/base.raw", directory);
}

static void
end_once(void)
{
	scratch_directory_remove(directory);
}

static const struct shape {
	uint64_t base, size, granule; /* bytes */
	uint64_t offset, cut;         /* bytes before and after the image's window */
	unsigned int below;           /* sealed layers between base and layer */
} shapes[] = {
	{.base = 3 * MIB, .size = 3 * MIB, .granule = 4096},
	{.base = 3 * MIB + 5000, .size = 3 * MIB + 5000, .granule = 4096, .below = 2},
	{.base = 3 * MIB, .size = 4 * MIB, .granule = 65536},
	{.base = 3 * MIB, .size = 2 * MIB + 700 * KIB, .granule = 16384, .below = 1},
	{.base = 3 * MIB, .size = 3 * MIB, .granule = 16384, .offset = 40960, .cut = 9 * KIB},
	{.base = 4 * MIB, .size = 4 * MIB, .granule = 65536, .offset = 512, .cut = 512, .below = 1},
};
#define SHAPES ((int)(sizeof(shapes) / sizeof(shapes[0])))

static void
clone_of(const char *base, const struct shape *shape)
{
	char *error = NULL;

	ck_assert_msg(layer_create(layer_path, base, shape->size, shape->granule, &error) == 0,
		      "%s", error);
}

/* Makes the layer, and those below it, whose bytes are those of some life. */
static void
make_chain(const struct way *way, const struct shape *shape)
{
	char path[SCRATCH_PATH + 32], *error = NULL;

	window = shape->offset;
	world->size = shape->size - shape->offset - shape->cut;
	make_base(shape->base);
	memcpy(world->durable, world->now, world->size);
	strcpy(path, base_path);
	for (unsigned int i = 0; i < shape->below; i++) {
		snprintf(layer_path, sizeof(layer_path), "%s/%u.layer", directory, i);
		clone_of(path, shape);
		in_child(way, false, i % 2);
		ck_assert_msg(layer_seal(layer_path, &error) == 0, "%s", error);
		flushed();
		strcpy(path, layer_path);
	}
	snprintf(layer_path, sizeof(layer_path), "%s/vm.layer", directory);
	clone_of(path, shape);
}

START_TEST(layer_equals_its_model_through_kills_and_power_cuts)
{
	const struct way *way = &ways[_i % WAYS];
	bool cut = false;

	world->seed = (unsigned int)_i + 1;
	make_chain(way, &shapes[(_i + _i / WAYS) % SHAPES]);
	for (unsigned int life = 0; life < LIVES; life++) {
		in_child(way, cut, life % 3 == 2);
		cut = life % 2 == 1;
		if (cut)
			snprintf(world->boot, sizeof(world->boot), "boot %u", life + 2);
	}
}
END_TEST

/* Whether the clone's server is killed or ends, the next clone begins as the base, too. */
START_TEST(temporary_clone_equals_its_model_and_leaves_its_base)
{
	const struct way *way = &ways[_i % WAYS];
	const struct shape *shape = &shapes[_i % SHAPES];
	unsigned char *before = malloc(SIZE_MAX_);

	world->seed = (unsigned int)_i + 100;
	make_chain(way, shape);
	if (_i >= SHAPES && !shape->below && shape->size == shape->base)
		strcpy(layer_path, base_path);
	memcpy(before, world->now, world->size);
	for (unsigned int life = 0; life < 2; life++) {
		temporary = true;
		in_child(way, false, life);
		temporary = false;
		memcpy(world->now, before, world->size);
	}
	server_start(way);
	compare_all(way, before);
	end_in_order(way);
	free(before);
}
END_TEST

int
main(void)
{
	const struct suite_row rows[] = {
		{.name = "layer",
		 .begin = begin,
		 .end = end,
		 .begin_once = begin_once,
		 .end_once = end_once,
		 .seconds = 120},
		{.test = layer_equals_its_model_through_kills_and_power_cuts, .last = 3 * WAYS},
		{.test = temporary_clone_equals_its_model_and_leaves_its_base, .last = WAYS},
		{0},
	};

	return suite_run("layer", rows);
}
