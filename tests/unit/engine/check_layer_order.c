/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a thread may see of a layer while another one marks granules or commits. Each answer that
 * does not wait for a commit rests on it.
 */
#include "engine/context/ioctx.h"
#include "engine/image/image.h"
#include "engine/io/io.h"
#include "engine/layer/layer.h"
#include "engine/layer/layer_create.h"
#include "engine/layer/layer_keeper.h"

#include "tests/lib/suite.h"
#include "tests/unit/scratch_file.h"

#include <check.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define GRANULE 4096u
#define SIZE    (64 * GRANULE)

static char directory[SCRATCH_PATH], base_path[SCRATCH_PATH + 32], layer_path[SCRATCH_PATH + 32];

/* ---- the kernel, whose syncs last until they are allowed to end */

static bool syncs_wait;
static atomic_uint syncs;
static sem_t sync_begins, sync_may_end;

int
fdatasync(int fd)
{
	atomic_fetch_add(&syncs, 1);
	if (syncs_wait) {
		sem_post(&sync_begins);
		sem_wait(&sync_may_end);
	}
	return (int)syscall(SYS_fdatasync, fd);
}

/* ---- an empty layer */

static void
begin(void)
{
	char *error = NULL;
	int fd;

	scratch_directory_new(directory);
	snprintf(base_path, sizeof(base_path), "%s/base.raw", directory);
	snprintf(layer_path, sizeof(layer_path), "%s/vm.layer", directory);
	fd = open(base_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ck_assert_int_eq(ftruncate(fd, (off_t)SIZE), 0);
	close(fd);
	ck_assert_msg(layer_create(layer_path, base_path, 0, 0, &error) == 0, "%s", error);
	sem_init(&sync_begins, 0, 0);
	sem_init(&sync_may_end, 0, 0);
	syncs_wait = false;
}

static void
end(void)
{
	char command[SCRATCH_PATH + 32];

	snprintf(command, sizeof(command), "rm -rf %s", directory);
	ck_assert_int_eq(system(command), 0);
}

/* ---- marks */

/* The members of a page up to .bits, which the map's readers see, are in a page of memory of their
 * own: the first store into them is seen. */
#define WATCHED sizeof(((struct layer_page *)NULL)->owners)

static struct layers *layers;
static char *watched;
static bool was_stored, was_stale;

static void
note_store(int number)
{
	(void)number;
	was_stored = true;
	was_stale = layer_keeper_is_stale(layers);
	mprotect(watched, 4096, PROT_READ | PROT_WRITE);
}

static struct layer_page *
watch_page(void)
{
	const struct sigaction action = {.sa_handler = note_store};

	watched = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(watched, MAP_FAILED);
	mprotect(watched, 4096, PROT_READ);
	ck_assert_int_eq(sigaction(SIGSEGV, &action, NULL), 0);
	return (struct layer_page *)(watched + 4096 - WATCHED);
}

/* A change that finds its granule in the map is not marked itself, and if it has FUA, it commits
 * only what is stale. So the map must not have a granule before it is. */
START_TEST(granule_is_stale_before_the_map_has_it)
{
	const struct layer_wish wish = {.path = layer_path};
	const struct layer_span span = {3, 5};
	const int fd = open(layer_path, O_RDWR | O_CLOEXEC);
	char *error = NULL;

	ck_assert_msg(layers_open(fd, &wish, &layers, &error) == 0, "%s", error);
	ck_assert_int_eq(layer_keeper_begin(layers, fd, true), 0);
	ck_assert(!layer_keeper_is_stale(layers));
	ck_assert_ptr_null(atomic_load(&layers->map.pages[0]));
	atomic_store(&layers->map.pages[0], watch_page());
	ck_assert_int_eq(layer_keeper_mark(layers, fd, &span, 1), 0);
	ck_assert(was_stored);
	ck_assert(was_stale);
	ck_assert_uint_eq(layer_map_owner(&layers->map, 3), layers->top);
	signal(SIGSEGV, SIG_DFL);
	atomic_store(&layers->map.pages[0], NULL);
	munmap(watched, 8192);
	layers_close(layers);
	close(fd);
}
END_TEST

/* ---- commits of an event loop */

static struct image *image;
static struct ioctx *ctx;
static unsigned int done_count;

static void
count_done(struct io *io)
{
	ck_assert_int_eq(io->result, 0);
	done_count++;
}

static void
run_until(unsigned int count)
{
	while (done_count < count) {
		struct pollfd event = {.fd = ioctx_event(ctx), .events = POLLIN};
		eventfd_t n;

		ioctx_run(ctx, false);
		if (done_count < count && poll(&event, 1, 10000) == 1)
			eventfd_read(event.fd, &n);
	}
}

static void *
commit_run(void *data)
{
	(void)data;
	ck_assert_int_eq(image_sync(image), 0);
	return NULL;
}

/* A commit that is under way says nothing about what came after its beginning. One that begins
 * after several flushes is for all of them. The helper begins with the ticket that it was given,
 * while the loop notes others: the thread sanitizer sees whether it does. */
START_TEST(flushes_wait_for_a_commit_that_begins_after_them)
{
	const struct image_config config = {
		.direct_io = TRISTATE_OFF,
		.engine = ENGINE_THREADS,
		.depth = 8,
		.sector_size = 1,
	};
	static unsigned char bytes[2 * GRANULE];
	struct io write = {
		.op = IO_WRITE, .length = sizeof(bytes), .buffer = bytes, .done = count_done};
	struct io flushes[] = {{.op = IO_FLUSH, .done = count_done},
			       {.op = IO_FLUSH, .done = count_done}};
	char *error = NULL;
	pthread_t thread;

	ck_assert_msg(image_open(AT_FDCWD, layer_path, 0, &config, &image, &error) == 0, "%s",
		      error);
	ck_assert_int_eq(ioctx_new_hosted(image, NULL, &ctx), 0);
	io_submit(ctx, &write);
	run_until(1);
	syncs_wait = true;
	atomic_store(&syncs, 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, commit_run, NULL), 0);
	sem_wait(&sync_begins);
	for (unsigned int i = 0; i < 2; i++) {
		io_submit(ctx, &flushes[i]);
		ioctx_run(ctx, false);
		/* Not a lock or the like: that would order what must not need it. */
		usleep(100000);
	}
	/* That commit syncs before and after the map. */
	sem_post(&sync_may_end);
	sem_wait(&sync_begins);
	sem_post(&sync_may_end);
	pthread_join(thread, NULL);
	sem_wait(&sync_begins);
	ioctx_run(ctx, false);
	ck_assert_uint_eq(done_count, 1);
	sem_post(&sync_may_end);
	run_until(3);
	ck_assert_uint_eq(atomic_load(&syncs), 3);
	syncs_wait = false;
	ioctx_free(ctx);
	image_close(image);
}
END_TEST

/* ---- what is thrown away */

/* With direct I/O, a write with FUA could carry its sync in the call. */
START_TEST(temporary_clone_is_never_synced)
{
	static const enum engine_choice engines[] = {ENGINE_IO_URING, ENGINE_AIO, ENGINE_THREADS};
	const struct image_config config = {
		.direct_io = TRISTATE_AUTO,
		.engine = engines[_i % 3],
		.depth = 8,
		.sector_size = 1,
		.temporary = TRISTATE_ON,
	};
	static unsigned char bytes[4 * GRANULE] __attribute__((aligned(4096)));
	struct io ios[] = {
		{.op = IO_WRITE, .length = sizeof(bytes), .flags = IO_FUA},
		{.op = IO_WRITE, .offset = 100, .length = 1000, .flags = IO_FUA},
		{.op = IO_ZERO, .offset = 3 * GRANULE, .length = GRANULE, .flags = IO_FUA},
		{.op = IO_FLUSH},
	};
	char *error = NULL;

	done_count = 0;
	ck_assert_msg(image_open(AT_FDCWD, _i < 3 ? base_path : layer_path, 0, &config, &image,
				 &error) == 0,
		      "%s", error);
	ck_assert(image_is_temporary(image));
	ck_assert_int_eq(ioctx_new_hosted(image, NULL, &ctx), 0);
	atomic_store(&syncs, 0);
	for (unsigned int i = 0; i < sizeof(ios) / sizeof(ios[0]); i++) {
		ios[i].buffer = bytes;
		ios[i].done = count_done;
		io_submit(ctx, &ios[i]);
		run_until(i + 1);
	}
	ck_assert_int_eq(image_sync(image), 0);
	ioctx_free(ctx);
	image_close(image);
	ck_assert_uint_eq(atomic_load(&syncs), 0);
}
END_TEST

int
main(void)
{
	const struct suite_row rows[] = {
		{.name = "layer_order", .begin = begin, .end = end, .seconds = 30},
		{.test = granule_is_stale_before_the_map_has_it},
		{.test = flushes_wait_for_a_commit_that_begins_after_them},
		{.test = temporary_clone_is_never_synced, .last = 6},
		{0},
	};

	return suite_run("layer_order", rows);
}
