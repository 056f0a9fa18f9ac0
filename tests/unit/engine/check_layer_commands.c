/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Power is cut at each call by which a command changes a layer or its base: what was not synced is
 * on the disk, or not, sector by sector.  The disk of the layer must have its bytes, or, amid a
 * commit, be refused; the command, run again, must end well.
 */
#include "engine/changes/boot.h"
#include "engine/layer/layer.h"
#include "engine/layer/layer_commit.h"
#include "engine/layer/layer_create.h"
#include "engine/layer/layer_keeper.h"
#include "engine/layer/layer_rebase.h"
#include "engine/layer/layer_report.h"

#include "tests/lib/suite.h"
#include "tests/unit/log_capture.h"
#include "tests/unit/scratch_file.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define GRANULE  65536u
#define SIZE     (10 * GRANULE + 1024)
#define BASE     (8 * GRANULE)
#define SECTOR   512u
#define FILE_MAX (2u << 20) /* bytes of a file */
#define CALLS    2000

/* ---- the kernel, which notes what is done to two files */

enum noted_kind {
	NOTED_WRITE,
	NOTED_PUNCH,
	NOTED_RESIZE,
	NOTED_SYNC,
};

static struct call {
	enum noted_kind kind;
	unsigned int file;
	uint64_t offset, length;
	unsigned char *bytes;
	struct timespec modified; /* SYNC: the file's time then */
} calls[CALLS];

static struct noted_file {
	char path[SCRATCH_PATH + 32];
	ino_t inode;
	uint64_t size;
	struct timespec modified;
	unsigned char *bytes; /* before the command */
} files[2];

static unsigned int call_count;
static bool noting;
static char boot[40];

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

static void
note_call(int fd, enum noted_kind kind, uint64_t offset, uint64_t length, const void *bytes)
{
	struct call call = {.kind = kind, .offset = offset, .length = length};
	struct stat st;

	if (!noting || fstat(fd, &st) < 0)
		return;
	while (call.file < 2 && files[call.file].inode != st.st_ino)
		call.file++;
	if (call.file == 2)
		return;
	ck_assert_uint_lt(call_count, CALLS);
	call.modified = st.st_mtim;
	if (bytes) {
		call.bytes = malloc(length);
		memcpy(call.bytes, bytes, length);
	}
	calls[call_count++] = call;
}

ssize_t
pwrite(int fd, const void *bytes, size_t size, off_t offset)
{
	ssize_t n = syscall(SYS_pwrite64, fd, bytes, size, offset);

	if (n > 0)
		note_call(fd, NOTED_WRITE, (uint64_t)offset, (uint64_t)n, bytes);
	return n;
}

int
fallocate(int fd, int mode, off_t offset, off_t length)
{
	int r = (int)syscall(SYS_fallocate, fd, mode, offset, length);

	if (r == 0 && mode & FALLOC_FL_PUNCH_HOLE)
		note_call(fd, NOTED_PUNCH, (uint64_t)offset, (uint64_t)length, NULL);
	return r;
}

int
ftruncate(int fd, off_t size)
{
	int r = (int)syscall(SYS_ftruncate, fd, size);

	if (r == 0)
		note_call(fd, NOTED_RESIZE, 0, (uint64_t)size, NULL);
	return r;
}

/* No real power is cut. */
int
fsync(int fd)
{
	note_call(fd, NOTED_SYNC, 0, 0, NULL);
	return 0;
}

int
fdatasync(int fd)
{
	return fsync(fd);
}

/* ---- random choices */

static unsigned int seed;

static unsigned int
draw(unsigned int below)
{
	seed = seed * 1103515245u + 12345u;
	return (seed >> 8) % below;
}

/* ---- files, as they are and as a power cut leaves them */

static void
read_file(struct noted_file *file)
{
	int fd = open(file->path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_uint_le((uint64_t)st.st_size, FILE_MAX);
	file->inode = st.st_ino;
	file->size = (uint64_t)st.st_size;
	file->modified = st.st_mtim;
	free(file->bytes);
	file->bytes = calloc(1, FILE_MAX);
	ck_assert_int_eq(pread(fd, file->bytes, file->size, 0), (ssize_t)file->size);
	close(fd);
}

/* Only what is not zero takes space. */
static void
write_file(const char *path, const unsigned char *bytes, uint64_t size)
{
	static const unsigned char zeroes[GRANULE];
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	ck_assert_int_eq(ftruncate(fd, (off_t)size), 0);
	for (uint64_t at = 0; at < size; at += GRANULE) {
		const size_t length = size - at < GRANULE ? (size_t)(size - at) : GRANULE;

		if (memcmp(bytes + at, zeroes, length) != 0)
			ck_assert_int_eq(pwrite(fd, bytes + at, length, (off_t)at), length);
	}
	close(fd);
}

/* Carries out a call, or `partly`: on some of its sectors. */
static void
replay(const struct call *call, unsigned char *bytes, uint64_t *size, bool partly)
{
	if (call->kind == NOTED_RESIZE && (!partly || draw(2)))
		*size = call->length;
	if (call->kind == NOTED_RESIZE || call->kind == NOTED_SYNC)
		return;
	for (uint64_t at = call->offset; at < call->offset + call->length;) {
		const uint64_t rest = call->offset + call->length - at;
		const uint64_t length = rest < SECTOR - at % SECTOR ? rest : SECTOR - at % SECTOR;

		if (!partly || draw(2)) {
			if (call->kind == NOTED_PUNCH)
				memset(bytes + at, 0, length);
			else
				memcpy(bytes + at, call->bytes + (at - call->offset), length);
			if (call->kind == NOTED_WRITE && at + length > *size)
				*size = at + length;
		}
		at += length;
	}
}

/* Leaves of a file what may be on the disk after the first `count` calls. */
static void
cut_file(unsigned int number, unsigned int count)
{
	const struct noted_file *file = &files[number];
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, file->modified};
	unsigned char *bytes = malloc(FILE_MAX);
	uint64_t size = file->size;
	unsigned int synced = 0;
	bool later = false;

	memcpy(bytes, file->bytes, FILE_MAX);
	for (unsigned int i = 0; i < count; i++) {
		if (calls[i].file == number && calls[i].kind == NOTED_SYNC) {
			synced = i + 1;
			times[1] = calls[i].modified;
		}
	}
	for (unsigned int i = 0; i < count; i++) {
		if (calls[i].file != number)
			continue;
		replay(&calls[i], bytes, &size, i >= synced);
		later = later || i >= synced;
	}
	write_file(file->path, bytes, size);
	/* The time is on the disk, or not. */
	if (!later || draw(2))
		ck_assert_int_eq(utimensat(AT_FDCWD, file->path, times, 0), 0);
	free(bytes);
}

/* ---- a layer */

static char directory[SCRATCH_PATH], base_path[SCRATCH_PATH + 32], below_path[SCRATCH_PATH + 32],
	other_path[SCRATCH_PATH + 32], layer_path[SCRATCH_PATH + 32];
static unsigned char wanted[SIZE], seen[SIZE];
static char *error;

static void
make_raw(const char *path, uint64_t size, unsigned int kind)
{
	unsigned char *bytes = calloc(1, size);

	for (uint64_t at = 0; at < size; at++) {
		if (at / 8192 % 5 != kind)
			bytes[at] = (unsigned char)(at / 97 * kind + at % 13 + kind);
	}
	write_file(path, bytes, size);
	free(bytes);
}

static struct layers *
open_layer(int fd)
{
	const struct layer_wish wish = {.path = layer_path, .lock = LOCK_AUTO};
	struct layers *layers = NULL;

	free(error);
	error = NULL;
	if (layers_open(fd, &wish, &layers, &error) < 0)
		return NULL;
	ck_assert_int_eq(layer_keeper_begin(layers, fd, false), 0);
	return layers;
}

/* Gives a layer some granules. */
static void
fill_layer(const char *path)
{
	const struct layer_wish wish = {.path = path, .lock = LOCK_AUTO};
	int fd = open(path, O_RDWR | O_CLOEXEC);
	struct layers *layers;

	ck_assert_int_eq(layers_open(fd, &wish, &layers, &error), 0);
	ck_assert_int_eq(layer_keeper_begin(layers, fd, true), 0);
	for (uint64_t granule = 0; granule < layers->map.granules; granule++) {
		const struct layer_span span = {granule, granule + 1};
		unsigned char bytes[GRANULE];

		if (draw(3))
			continue;
		memset(bytes, (int)(1 + draw(255)), sizeof(bytes));
		if (draw(4))
			ck_assert_int_eq(
				pwrite(fd, bytes, granule < SIZE / GRANULE ? GRANULE : 1024,
				       (off_t)(layers->header.data_at + granule * GRANULE)) > 0,
				1);
		ck_assert_int_eq(layer_keeper_mark(layers, fd, &span, 1), 0);
	}
	ck_assert_int_eq(layer_settle(layers, fd), 0);
	ck_assert_int_eq(layer_header_write(&layers->header, fd), 0);
	layers_close(layers);
	close(fd);
}

/* The disk has its bytes. */
static void
expect_disk(bool may_be_refused)
{
	int fd = open(layer_path, O_RDONLY | O_CLOEXEC);
	struct layers *layers = open_layer(fd);

	if (!layers && may_be_refused) {
		ck_assert_msg(strstr(error, "carries it on") != NULL, "%s", error);
	} else {
		ck_assert_msg(layers != NULL, "%s", error);
		ck_assert_int_eq(layers_read(layers, seen, SIZE, 0), 0);
		for (uint64_t at = 0; memcmp(seen, wanted, SIZE) != 0 && at < SIZE; at++)
			ck_assert_msg(seen[at] == wanted[at], "byte %llu is %d, not %d",
				      (unsigned long long)at, seen[at], wanted[at]);
	}
	layers_close(layers);
	close(fd);
}

/* ---- commands */

static unsigned int steps = UINT_MAX; /* until the command is interrupted */

static int
step(void *data, uint64_t done, uint64_t total)
{
	(void)data;
	ck_assert_uint_le(done, total);
	return steps-- == 0 ? -EINTR : 0;
}

static const struct layer_watch watch = {step, NULL};

static int
run_flatten(void)
{
	const struct layer_wish wish = {.path = layer_path, .lock = LOCK_AUTO};
	uint64_t moved;

	return layer_rebase(&wish, NULL, &watch, &moved, &error);
}

static int
run_rebase(void)
{
	const struct layer_wish wish = {.path = layer_path, .lock = LOCK_AUTO};
	uint64_t moved;

	return layer_rebase(&wish, other_path, &watch, &moved, &error);
}

static int
run_commit(void)
{
	const struct layer_wish wish = {.path = layer_path, .lock = LOCK_AUTO};
	uint64_t moved;

	return layer_commit(&wish, &watch, &moved, &error);
}

static const struct command {
	int (*run)(void);
	bool below; /* the layer stands on a layer */
	bool commits;
} commands[] = {
	{run_flatten, false, false},
	{run_flatten, true, false},
	{run_rebase, true, false},
	{run_commit, false, true},
};
#define COMMANDS ((int)(sizeof(commands) / sizeof(commands[0])))

static void
run_well(const struct command *command)
{
	unsigned char *bytes = malloc(SIZE);
	int fd;

	free(error);
	error = NULL;
	ck_assert_msg(command->run() == 0, "%s", error);
	expect_disk(false);
	if (command->commits) {
		fd = open(base_path, O_RDONLY | O_CLOEXEC);
		ck_assert_int_eq(pread(fd, bytes, SIZE, 0), SIZE);
		ck_assert_mem_eq(bytes, wanted, SIZE);
		close(fd);
	}
	free(bytes);
}

static void
make_all(const struct command *command)
{
	int fd;

	strcpy(boot, "boot 1");
	make_raw(base_path, BASE, 1);
	make_raw(other_path, BASE, 2);
	ck_assert_msg(layer_create(below_path, base_path, SIZE, GRANULE, &error) == 0, "%s", error);
	fill_layer(below_path);
	ck_assert_msg(layer_seal(below_path, &error) == 0, "%s", error);
	if (command->commits)
		unlink(below_path);
	ck_assert_msg(layer_create(layer_path, command->below ? below_path : base_path, SIZE,
				   GRANULE, &error) == 0,
		      "%s", error);
	fill_layer(layer_path);
	fd = open(layer_path, O_RDONLY | O_CLOEXEC);
	struct layers *layers = open_layer(fd);
	ck_assert_int_eq(layers_read(layers, wanted, SIZE, 0), 0);
	layers_close(layers);
	close(fd);
	strcpy(files[0].path, layer_path);
	strcpy(files[1].path, base_path);
	read_file(&files[0]);
	read_file(&files[1]);
}

START_TEST(power_cut_at_any_call_loses_no_byte)
{
	const struct command *command = &commands[_i % COMMANDS];
	unsigned int count;

	seed = (unsigned int)_i + 1;
	make_all(command);
	call_count = 0;
	noting = true;
	run_well(command);
	noting = false;
	count = call_count;
	ck_assert_uint_gt(count, 8);
	for (unsigned int at = 0; at <= count; at++) {
		cut_file(0, at);
		cut_file(1, at);
		snprintf(boot, sizeof(boot), "boot %u", at + 2);
		expect_disk(command->commits);
		run_well(command);
	}
}
END_TEST

START_TEST(command_that_is_interrupted_leaves_the_disk_to_servers)
{
	const struct command *command = &commands[_i];
	bool done = false;

	seed = (unsigned int)_i + 1;
	make_all(command);
	for (unsigned int at = 0; !done; at++) {
		int r;

		steps = at;
		r = command->run();
		steps = UINT_MAX;
		done = r == 0;
		ck_assert_int_eq(r, done ? 0 : -EINTR);
		expect_disk(false);
		ck_assert(at > 0 || !done);
	}
	run_well(command);
}
END_TEST

/* The layer stands on `below`, which would stand on the layer. */
START_TEST(layer_does_not_come_below_itself)
{
	const struct layer_wish wish = {.path = below_path, .lock = LOCK_AUTO};
	const struct layer_wish forced = {.path = below_path, .lock = LOCK_AUTO, .force = true};
	uint64_t moved;

	make_all(&commands[1]);
	ck_assert_int_eq(layer_seal(layer_path, &error), 0);
	ck_assert_int_lt(layer_rebase(&wish, layer_path, &watch, &moved, &error), 0);
	free(error);
	ck_assert_int_lt(layer_rebase(&forced, layer_path, &watch, &moved, &error), 0);
	free(error);
	ck_assert_int_lt(layer_rebase(&forced, below_path, &watch, &moved, &error), 0);
	expect_disk(false);
}
END_TEST

/* ---- what no writer leaves */

/* Writes a block of the stable map that has these granules in its first word. */
static void
put_block(uint64_t generation, uint64_t word)
{
	const struct layer_block block = {.generation = generation, .words = {word}};
	int fd = open(layer_path, O_RDWR | O_CLOEXEC);
	uint8_t bytes[LAYER_BLOCK_SIZE];
	struct layer_header header;

	ck_assert_int_eq(layer_header_read(fd, layer_path, &header, &error), 0);
	layer_block_encode(&block, &header.id, bytes);
	ck_assert_int_eq(
		pwrite(fd, bytes, sizeof(bytes), (off_t)layer_block_at(&header, 0, generation)),
		sizeof(bytes));
	close(fd);
}

/* Returns how many bytes the layer holds. */
static uint64_t
expect_finding(const char *text)
{
	const struct layer_wish wish = {.path = layer_path, .lock = LOCK_AUTO};
	struct layer_report *report = NULL;
	uint64_t held;

	ck_assert_int_eq(layer_report_new(&wish, true, &report, &error), 0);
	ck_assert_uint_eq(report->finding_count, text ? 1 : 0);
	ck_assert(!text || strstr(report->findings[0].text, text) != NULL);
	ck_assert(!text || report->findings[0].trouble == LAYER_DAMAGED);
	held = report->parts[0].held;
	layer_report_free(report);
	return held;
}

START_TEST(report_finds_maps_that_no_writer_leaves)
{
	make_all(&commands[0]);
	expect_finding(NULL);
	put_block(6, 0x7);
	put_block(7, 0xf);
	ck_assert_uint_eq(expect_finding(NULL), 4 * GRANULE);
	put_block(7, 0x400 | 0xf);
	ck_assert_uint_eq(expect_finding(NULL), 4 * GRANULE + 1024);
	put_block(7, 0x800 | 0xf);
	ck_assert_uint_eq(expect_finding("beyond the end of the disk: 1"), 4 * GRANULE);
	put_block(7, 0xb);
	ck_assert_uint_eq(expect_finding("newer copy lacks granules"), 4 * GRANULE);
}
END_TEST

/* ---- the world of a test */

static void
begin(void)
{
	log_capture_begin();
	scratch_directory_new(directory);
	snprintf(base_path, sizeof(base_path), "%s/base.raw", directory);
	snprintf(other_path, sizeof(other_path), "%s/other.raw", directory);
	snprintf(below_path, sizeof(below_path), "%s/below.layer", directory);
	snprintf(layer_path, sizeof(layer_path), "%s/vm.layer", directory);
}

static void
end(void)
{
	unlink(base_path);
	unlink(other_path);
	unlink(below_path);
	unlink(layer_path);
	scratch_directory_remove(directory);
	for (unsigned int i = 0; i < call_count; i++)
		free(calls[i].bytes);
	call_count = 0;
	free(error);
	error = NULL;
	log_capture_end();
}

int
main(void)
{
	const struct suite_row rows[] = {
		{.name = "layer commands", .begin = begin, .end = end, .seconds = 120},
		{.test = power_cut_at_any_call_loses_no_byte, .last = 3 * COMMANDS},
		{.test = command_that_is_interrupted_leaves_the_disk_to_servers, .last = COMMANDS},
		{.test = layer_does_not_come_below_itself},
		{.test = report_finds_maps_that_no_writer_leaves},
		{0},
	};

	return suite_run("layer_commands", rows);
}
