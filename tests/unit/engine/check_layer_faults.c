/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Layers whose files are damaged, moved or forged, whose disk is full or fails, or which somebody
 * else seals: none serves other bytes in silence.
 */
#include "engine/backing/open.h"
#include "engine/changes/boot.h"
#include "engine/context/ioctx.h"
#include "engine/image/image.h"
#include "engine/io/io.h"
#include "engine/layer/layer.h"
#include "engine/layer/layer_create.h"
#include "engine/layer/layer_format.h"

#include "tests/lib/suite.h"
#include "tests/unit/log_capture.h"
#include "tests/unit/scratch_file.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define GRANULE 4096u
#define SIZE    (64 * GRANULE)

/* ---- the kernel, whose calls fail on demand */

static char boot[40] = "boot 1";
static int allocate_fails, sync_fails;
static void (*before_second_read)(void);
static unsigned int header_reads;

void
boot_id(char *id, size_t size)
{
	snprintf(id, size, "%s", boot);
}

void
boot_clocks(int64_t *now, int64_t *age)
{
	*now = *age = 0;
}

int
fallocate(int fd, int mode, off_t offset, off_t length)
{
	if (allocate_fails && mode == FALLOC_FL_KEEP_SIZE) {
		errno = allocate_fails;
		return -1;
	}
	return (int)syscall(SYS_fallocate, fd, mode, offset, length);
}

int
fdatasync(int fd)
{
	if (sync_fails) {
		errno = sync_fails;
		sync_fails = 0;
		return -1;
	}
	return (int)syscall(SYS_fdatasync, fd);
}

ssize_t
pread(int fd, void *bytes, size_t size, off_t offset)
{
	ssize_t n = syscall(SYS_pread64, fd, bytes, size, offset);

	if (before_second_read && offset == 0 && size == 2 * LAYER_HEADER_SIZE &&
	    ++header_reads == 1)
		before_second_read();
	return n;
}

/* ---- a layer and its server */

static char directory[SCRATCH_PATH], base_path[SCRATCH_PATH + 32], layer_path[SCRATCH_PATH + 32];
static unsigned char was[SIZE];
static struct image *image;
static struct ioctx *ctx;
static char *error;

static void
path_in(char path[SCRATCH_PATH + 32], const char *name)
{
	snprintf(path, SCRATCH_PATH + 32, "%s/%s", directory, name);
}

static void
put_bytes(const char *path, const void *bytes, size_t length, off_t offset)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	ck_assert_int_eq(pwrite(fd, bytes, length, offset), (ssize_t)length);
	close(fd);
}

static void
flip_byte(const char *path, off_t offset)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	unsigned char byte;

	ck_assert_int_eq(pread(fd, &byte, 1, offset), 1);
	byte ^= 0x10;
	ck_assert_int_eq(pwrite(fd, &byte, 1, offset), 1);
	close(fd);
}

static int
try_open(const char *path, unsigned int flags)
{
	const struct image_config config = {
		.direct_io = TRISTATE_OFF,
		.engine = ENGINE_THREADS,
		.depth = 8,
		.sector_size = 1,
		.discard = TRISTATE_ON,
	};
	int r;

	free(error);
	error = NULL;
	r = image_open(AT_FDCWD, path, flags, &config, &image, &error);
	if (r == 0)
		ck_assert_int_eq(ioctx_new(image, &ctx), 0);
	return r;
}

static int
try_server(const char *path)
{
	return try_open(path, 0);
}

static void
start_server(const char *path)
{
	int r = try_server(path);

	ck_assert_msg(r == 0, "%s", error);
}

static void
stop_server(void)
{
	ioctx_free(ctx);
	image_close(image);
}

static unsigned int done_count;

static void
note_done(struct io *io)
{
	(void)io;
	done_count++;
}

static void
await_done(void)
{
	while (!done_count)
		ioctx_run(ctx, true);
	done_count = 0;
}

static int
run(struct io io)
{
	io.done = note_done;
	io_submit(ctx, &io);
	await_done();
	return io.result;
}

static int
write_fill(unsigned char fill, uint64_t offset, uint64_t length)
{
	static unsigned char bytes[SIZE];

	memset(bytes, fill, sizeof(bytes));
	return run(
		(struct io){.op = IO_WRITE, .offset = offset, .length = length, .buffer = bytes});
}

static int
flush(void)
{
	return run((struct io){.op = IO_FLUSH});
}

static void
read_all(unsigned char seen[SIZE])
{
	ck_assert_int_eq(run((struct io){.op = IO_READ, .length = SIZE, .buffer = seen}), 0);
}

static void
assert_disk(const unsigned char *wanted)
{
	static unsigned char seen[SIZE];

	read_all(seen);
	for (size_t i = 0; memcmp(seen, wanted, SIZE) != 0 && i < SIZE; i++)
		ck_assert_msg(seen[i] == wanted[i], "byte %zu is %d, not %d", i, seen[i],
			      wanted[i]);
}

static bool
error_has(const char *text)
{
	return error && strstr(error, text);
}

/* Runs it in a process that is killed at its end. */
static void
in_killed_server(void (*work)(void))
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		start_server(layer_path);
		work();
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
}

static void
make_clone(const char *base, const char *layer)
{
	ck_assert_msg(layer_create(layer, base, 0, 0, &error) == 0, "%s", error);
}

static void
begin(void)
{
	log_capture_begin();
	scratch_directory_new(directory);
	path_in(base_path, "base.raw");
	path_in(layer_path, "vm.layer");
	for (size_t i = 0; i < SIZE; i++)
		was[i] = (unsigned char)(1 + i / 97 % 250);
	put_bytes(base_path, was, SIZE, 0);
	make_clone(base_path, layer_path);
}

static void
end(void)
{
	char command[SCRATCH_PATH + 32];

	snprintf(command, sizeof(command), "rm -rf %s", directory);
	ck_assert_int_eq(system(command), 0);
	free(error);
	error = NULL;
	log_capture_end();
}

/* ---- what is no layer, or stands on none */

START_TEST(forged_header_in_raw_bytes_is_raw)
{
	char path[SCRATCH_PATH + 32];
	unsigned char bytes[SIZE];
	int fd = open(layer_path, O_RDONLY | O_CLOEXEC);

	memset(bytes, 7, sizeof(bytes));
	ck_assert_int_eq(pread(fd, bytes, 2 * LAYER_HEADER_SIZE, 0), 2 * LAYER_HEADER_SIZE);
	close(fd);
	path_in(path, "guest.raw");
	put_bytes(path, bytes, SIZE, 0);
	start_server(path);
	assert_disk(bytes);
	stop_server();
	ck_assert(log_capture_has(LOG_LEVEL_WARNING, "looks like a layer image"));
}
END_TEST

START_TEST(raw_bytes_named_as_a_layer_are_refused)
{
	char path[SCRATCH_PATH + 32], other[SCRATCH_PATH + 32];

	path_in(path, "raw.layer");
	path_in(other, "on.layer");
	put_bytes(path, was, SIZE, 0);
	ck_assert_int_eq(try_server(path), -EBADMSG);
	ck_assert(error_has("does not begin as a layer does"));
	free(error);
	ck_assert_int_eq(layer_create(other, path, 0, 0, &error), -EBADMSG);
	free(error);
	path_in(other, "on.img");
	ck_assert_int_eq(layer_create(other, base_path, 0, 0, &error), -EINVAL);
}
END_TEST

/* Writes the header of a layer without a base, or on another layer. */
static void
craft_layer(unsigned int number, bool based)
{
	struct layer_header header = {
		.state = LAYER_SEALED,
		.sequence = 2,
		.size = SIZE,
		.granule = GRANULE,
		.id.bytes = {(uint8_t)number},
	};
	uint8_t bytes[2 * LAYER_HEADER_SIZE] = {0};
	char path[SCRATCH_PATH + 32], name[32];

	if (based) {
		header.visible = header.base_size = SIZE;
		header.base = LAYER_BASE_LAYER;
		header.base_id.bytes[0] = (uint8_t)(number - 1);
		snprintf(header.path, sizeof(header.path), "%u.layer", number - 1);
	}
	layer_header_place(&header);
	layer_header_encode(&header, bytes);
	snprintf(name, sizeof(name), "%u.layer", number);
	path_in(path, name);
	put_bytes(path, bytes, sizeof(bytes), 0);
	ck_assert_int_eq(truncate(path, (off_t)(header.data_at + SIZE)), 0);
}

START_TEST(chain_may_be_as_deep_as_it_is_said_and_no_deeper)
{
	static const unsigned char zeroes[SIZE];
	char path[SCRATCH_PATH + 32];

	for (unsigned int i = 0; i <= LAYER_DEPTH_MAX + 1; i++)
		craft_layer(i, i > 0);
	snprintf(path, sizeof(path), "%s/%d.layer", directory, LAYER_DEPTH_MAX);
	start_server(path);
	assert_disk(zeroes);
	stop_server();
	snprintf(path, sizeof(path), "%s/%d.layer", directory, LAYER_DEPTH_MAX + 1);
	ck_assert_int_eq(try_server(path), -ELOOP);
}
END_TEST

/* The base of a layer behind a link lies beside that layer, not beside the link. */
START_TEST(base_is_looked_for_where_its_layer_really_is)
{
	char path[SCRATCH_PATH + 32], inner[SCRATCH_PATH + 32], top[SCRATCH_PATH + 32];

	path_in(path, "inner");
	ck_assert_int_eq(mkdir(path, 0700), 0);
	path_in(path, "inner/base.raw");
	put_bytes(path, was, SIZE, 0);
	path_in(inner, "inner/below.layer");
	make_clone(path, inner);
	ck_assert_int_eq(layer_seal(inner, &error), 0);
	path_in(path, "link.layer");
	ck_assert_int_eq(symlink("inner/below.layer", path), 0);
	/* The layer names the link. */
	path_in(top, "top.layer");
	{
		struct layer_header header;
		uint8_t bytes[LAYER_HEADER_SIZE];
		int fd;

		make_clone(inner, top);
		fd = open(top, O_RDWR | O_CLOEXEC);
		ck_assert_int_eq(layer_header_read(fd, top, &header, &error), 0);
		strcpy(header.path, "link.layer");
		layer_header_encode(&header, bytes);
		ck_assert_int_eq(pwrite(fd, bytes, sizeof(bytes), 0), (ssize_t)sizeof(bytes));
		close(fd);
	}
	start_server(top);
	assert_disk(was);
	stop_server();
}
END_TEST

/* This process has a kernel without openat2() from now on. */
static void
become_old(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

	ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

START_TEST(layer_needs_no_openat2_and_no_more_than_a_boot_id)
{
	become_old();
	start_server(layer_path);
	assert_disk(was);
	stop_server();
	boot[0] = '\0';
	ck_assert_int_eq(try_server(layer_path), -ENODATA);
	ck_assert(error_has("boot_id can't be read"));
}
END_TEST

/* A link that leads out of the tree of the layer is not followed, wherever in the path it is. The
 * second time, the kernel is an old one. */
START_TEST(base_outside_of_the_layers_tree_is_refused)
{
	static const char *const paths[] = {"../base.raw", "out/base.raw", "file.raw"};
	char path[SCRATCH_PATH + 32], layer[SCRATCH_PATH + 32];

	if (_i == 1)
		become_old();
	path_in(path, "in");
	ck_assert_int_eq(mkdir(path, 0700), 0);
	path_in(path, "in/out");
	ck_assert_int_eq(symlink("..", path), 0);
	path_in(path, "in/file.raw");
	ck_assert_int_eq(symlink("../base.raw", path), 0);
	path_in(layer, "in/vm.layer");
	make_clone(base_path, layer);
	for (unsigned int i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		struct layer_header header;
		uint8_t bytes[LAYER_HEADER_SIZE];
		int fd = open(layer, O_RDWR | O_CLOEXEC);

		ck_assert_int_eq(layer_header_read(fd, layer, &header, &error), 0);
		strcpy(header.path, paths[i]);
		layer_header_encode(&header, bytes);
		ck_assert_int_eq(pwrite(fd, bytes, sizeof(bytes), 0), (ssize_t)sizeof(bytes));
		close(fd);
		ck_assert_int_eq(try_server(layer), -EACCES);
	}
}
END_TEST

/* ---- damage */

static void
write_some(void)
{
	ck_assert_int_eq(write_fill(0xa1, 5000, 300), 0);
	ck_assert_int_eq(write_fill(0xa2, 10 * GRANULE, 3 * GRANULE), 0);
	ck_assert_int_eq(flush(), 0);
	ck_assert_int_eq(write_fill(0xa3, 20 * GRANULE + 1, GRANULE), 0);
	ck_assert_int_eq(flush(), 0);
}

static void
apply_some(void)
{
	memset(was + 5000, 0xa1, 300);
	memset(was + 10 * GRANULE, 0xa2, 3 * GRANULE);
	memset(was + 20 * GRANULE + 1, 0xa3, GRANULE);
}

static struct layer_header
header_of(const char *path)
{
	struct layer_header header;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	ck_assert_int_eq(layer_header_read(fd, path, &header, &error), 0);
	close(fd);
	return header;
}

/* After a power cut, one generation of a block may be torn: the other one counts. */
START_TEST(torn_map_block_is_replaced_by_its_other_generation)
{
	struct layer_header header;

	in_killed_server(write_some);
	apply_some();
	header = header_of(layer_path);
	strcpy(boot, "boot 2");
	/* The second flush wrote generation 2. Let power fail in the midst of it. */
	flip_byte(layer_path, (off_t)layer_block_at(&header, 0, 2) + 100);
	start_server(layer_path);
	ck_assert(log_capture_has(LOG_LEVEL_WARNING, "map are damaged"));
	/* That flush has not been answered, so its granules may be as before. */
	{
		static unsigned char seen[SIZE];

		read_all(seen);
		ck_assert_mem_eq(seen, was, 20 * GRANULE);
		ck_assert_mem_eq(seen + 22 * GRANULE, was + 22 * GRANULE, SIZE - 22 * GRANULE);
	}
	stop_server();
	/* It has been repaired. */
	flip_byte(layer_path, (off_t)layer_block_at(&header, 0, 1) + 100);
	ck_assert_int_eq(try_server(layer_path), -EBADMSG);
	flip_byte(layer_path, (off_t)layer_block_at(&header, 0, 1) + 100);
	start_server(layer_path);
	stop_server();
}
END_TEST

START_TEST(damaged_map_of_a_layer_that_was_ended_well_is_refused)
{
	struct layer_header header;

	start_server(layer_path);
	write_some();
	stop_server();
	header = header_of(layer_path);
	ck_assert_str_eq(header.boot, "");
	for (unsigned int slot = 0; slot < 2; slot++) {
		flip_byte(layer_path, (off_t)layer_block_at(&header, 0, slot) + 100);
		ck_assert_int_eq(try_server(layer_path), -EBADMSG);
		flip_byte(layer_path, (off_t)layer_block_at(&header, 0, slot) + 100);
	}
}
END_TEST

/* Whichever byte is damaged, the bytes of the disk are the same, or the layer is refused. */
START_TEST(no_damaged_byte_changes_the_disk)
{
	struct layer_header header;
	off_t places[2 * LAYER_HEADER_SIZE / 16 + 3 * LAYER_BLOCK_SIZE];
	size_t count = 0;

	start_server(layer_path);
	write_some();
	stop_server();
	apply_some();
	header = header_of(layer_path);
	for (off_t i = 0; i < 2 * LAYER_HEADER_SIZE; i += i % LAYER_HEADER_SIZE < 200 ? 1 : 211)
		places[count++] = i;
	for (off_t i = _i; i < LAYER_BLOCK_SIZE; i += 7) {
		places[count++] = LAYER_STABLE_AT + i;
		places[count++] = (off_t)header.other_at + i;
		places[count++] = (off_t)header.recent_at + i;
	}
	for (size_t i = 0; i < count; i++) {
		flip_byte(layer_path, places[i]);
		if (try_open(layer_path, BACKING_READ_ONLY) == 0) {
			assert_disk(was);
			stop_server();
		}
		flip_byte(layer_path, places[i]);
	}
}
END_TEST

/* ---- a disk that is full, or fails */

START_TEST(full_disk_fails_the_change_and_no_flush)
{
	start_server(layer_path);
	allocate_fails = ENOSPC;
	ck_assert_int_eq(write_fill(0xb1, 0, 2 * GRANULE), -ENOSPC);
	ck_assert_int_eq(flush(), 0);
	assert_disk(was);
	allocate_fails = 0;
	ck_assert_int_eq(write_fill(0xb1, 0, 2 * GRANULE), 0);
	/* The block has its space, in both generations. */
	allocate_fails = ENOSPC;
	ck_assert_int_eq(write_fill(0xb2, 2 * GRANULE, GRANULE), 0);
	ck_assert_int_eq(flush(), 0);
	allocate_fails = 0;
	stop_server();
}
END_TEST

static void
lose_a_flush(void)
{
	ck_assert_int_eq(write_fill(0xc1, 0, GRANULE), 0);
	ck_assert_int_eq(flush(), 0);
	ck_assert_int_eq(write_fill(0xc2, 2 * GRANULE, GRANULE), 0);
	sync_fails = EIO;
	ck_assert_int_eq(flush(), -EIO);
	/* What was lost stays lost. */
	ck_assert_int_eq(flush(), -EIO);
	ck_assert_int_eq(write_fill(0xc3, 4 * GRANULE, GRANULE), 0);
}

START_TEST(granules_of_a_failed_sync_are_given_up)
{
	in_killed_server(lose_a_flush);
	memset(was, 0xc1, GRANULE);
	start_server(layer_path);
	assert_disk(was);
	ck_assert_int_eq(write_fill(0xc4, 6 * GRANULE, GRANULE), 0);
	ck_assert_int_eq(flush(), 0);
	memset(was + 6 * GRANULE, 0xc4, GRANULE);
	assert_disk(was);
	stop_server();
}
END_TEST

static void
seal_layer(void)
{
	char *why = NULL;

	ck_assert_msg(layer_seal(layer_path, &why) == 0, "%s", why);
}

START_TEST(layer_that_is_sealed_while_it_is_opened_is_not_written_to)
{
	before_second_read = seal_layer;
	header_reads = 0;
	ck_assert_int_eq(try_server(layer_path), -EAGAIN);
	ck_assert(error_has("was sealed just now"));
	before_second_read = NULL;
	start_server(layer_path);
	ck_assert(!image_writable(image));
	stop_server();
}
END_TEST

/* ---- parts of a change that failed */

START_TEST(part_of_a_failed_change_copies_its_edges)
{
	const uint64_t offset = GRANULE + 1000, length = 3 * GRANULE, first = 2000;
	unsigned char *bytes =
		mmap(NULL, 4 * GRANULE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct io whole = {
		.op = IO_WRITE,
		.flags = IO_KEEP_RANGE,
		.offset = offset,
		.length = length,
		.buffer = bytes,
		.done = note_done,
	};
	struct io parts[2] = {whole, whole};

	memset(bytes, 0xd1, 4 * GRANULE);
	start_server(layer_path);
	mprotect(bytes, 4 * GRANULE, PROT_NONE);
	io_submit(ctx, &whole);
	await_done();
	ck_assert_int_eq(whole.result, -EIO);
	mprotect(bytes, 4 * GRANULE, PROT_READ);
	parts[0].length = GRANULE + first;
	parts[1].offset = offset + parts[0].length;
	parts[1].length = length - parts[0].length;
	parts[1].buffer = bytes + parts[0].length;
	for (unsigned int i = 0; i < 2; i++) {
		io_retry_part(&whole, &parts[i]);
		await_done();
		ck_assert_int_eq(parts[i].result, 0);
		memset(was + parts[i].offset, 0xd1, parts[i].length);
		assert_disk(was);
	}
	io_release_range(&whole);
	stop_server();
	start_server(layer_path);
	assert_disk(was);
	stop_server();
	munmap(bytes, 4 * GRANULE);
}
END_TEST

int
main(void)
{
	const struct suite_row rows[] = {
		{.name = "layer_faults", .begin = begin, .end = end, .seconds = 120},
		{.test = forged_header_in_raw_bytes_is_raw},
		{.test = raw_bytes_named_as_a_layer_are_refused},
		{.test = chain_may_be_as_deep_as_it_is_said_and_no_deeper},
		{.test = base_is_looked_for_where_its_layer_really_is},
		{.test = base_outside_of_the_layers_tree_is_refused, .last = 2},
		{.test = layer_needs_no_openat2_and_no_more_than_a_boot_id},
		{.test = torn_map_block_is_replaced_by_its_other_generation},
		{.test = damaged_map_of_a_layer_that_was_ended_well_is_refused},
		{.test = no_damaged_byte_changes_the_disk, .last = 7},
		{.test = full_disk_fails_the_change_and_no_flush},
		{.test = granules_of_a_failed_sync_are_given_up},
		{.test = layer_that_is_sealed_while_it_is_opened_is_not_written_to},
		{.test = part_of_a_failed_change_copies_its_edges},
		{0},
	};

	return suite_run("layer_faults", rows);
}
