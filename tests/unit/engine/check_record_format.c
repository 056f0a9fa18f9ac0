/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/changes/record_format.h"

#include "common/crc32c.h"
#include "engine/changes/record.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char path[64];

static uint8_t bytes[RECORD_HEADER_SIZE];

static struct record_header
sample(void)
{
	struct record_header header = {
		.state = RECORD_CLOSED,
		.sequence = 0x0102030405060708,
		.witness = {"boot", 2, 3, 4, 5, 6, 7, 8, -9, 10, 11, 12, false},
		.region = RECORD_REGION_MIN * 4,
		.reason = "why",
		.regions = {[0] = 1, [RECORD_REGIONS / 64 - 1] = UINT64_C(1) << 63},
		.count = 2,
		.entries = {{"monday", 65536, -1, 1000000, 16, 0, 7},
			    {"tuesday", 4096, 5, 4096 * 5000, 5000, 1, 8}},
	};

	return header;
}

static void
name_file(void)
{
	snprintf(path, sizeof(path), "check_record_format.%d.changes", (int)getpid());
}

static void
refused(int wanted, const char *part)
{
	struct record_header header;
	char *error = NULL;

	ck_assert_int_eq(record_header_decode(&header, bytes, &error), wanted);
	ck_assert_msg(error && strstr(error, part), "%s", error);
	free(error);
}

static void
mend(void)
{
	uint32_t sum = crc32c(0, bytes, sizeof(bytes) - 4);

	for (unsigned int i = 0; i < 4; i++)
		bytes[sizeof(bytes) - 4 + i] = (uint8_t)(sum >> 8 * i);
}

START_TEST(header_comes_back)
{
	struct record_header header = sample(), again;
	char *error = NULL;

	record_header_encode(&header, bytes);
	ck_assert_mem_eq(bytes,
			 "nbdloopC\x01\0\0\0\x02\0\0\0\x08\x07\x06\x05\x04\x03\x02\x01"
			 "boot",
			 29);
	ck_assert_int_eq(record_header_decode(&again, bytes, &error), 0);
	ck_assert_ptr_null(error);
	ck_assert_mem_eq(again.regions, header.regions, sizeof(header.regions));
	ck_assert_int_eq(again.witness.changed, -9);
	ck_assert_str_eq(again.entries[1].name, "tuesday");
	ck_assert_uint_eq(again.entries[1].granules, 5000);
	record_header_encode(&again, bytes);
	ck_assert_int_eq(record_header_decode(&again, bytes, &error), 0);
}
END_TEST

START_TEST(each_changed_byte_is_noticed)
{
	struct record_header header = sample();

	record_header_encode(&header, bytes);
	for (size_t i = 0; i < sizeof(bytes); i += 1 + i / 100) {
		bytes[i] ^= 0x10;
		refused(i < 8 ? -EILSEQ : i < 12 ? -ENOTSUP : -EBADMSG, "record of checkpoints");
		bytes[i] ^= 0x10;
	}
}
END_TEST

START_TEST(other_versions_are_refused_with_words)
{
	struct record_header header = sample();

	record_header_encode(&header, bytes);
	bytes[8] = 2;
	mend();
	refused(-ENOTSUP,
		"a newer version of nbdloopd: it has format 2, and this server has format 1");
	bytes[8] = 0;
	refused(-ENOTSUP, "an older version");
}
END_TEST

/* With the right checksum, as somebody who means harm would write it. */
START_TEST(nonsense_is_refused)
{
	static const struct {
		size_t at;
		uint8_t value;
	} nonsense[] = {
		{12, 0},                              /* state */
		{12, 4},           {64, 0},           /* kind */
		{64, 4},           {68, 33},          /* number of checkpoints */
		{68, 1},                              /* bytes behind the last one */
		{152, 1},                             /* region */
		{160 + 159, 1},                       /* a reason without end */
		{160 + 1, 27},                        /* that moves a cursor */
		{832, 0},                             /* no name */
		{832, ' '},        {832 + 8, 'x'},    /* bytes behind the name */
		{832 + 136, 1},                       /* granule */
		{832 + 138, 32},   {832 + 154, 0xff}, /* covered */
		{832 + 167, 0xff},                    /* granules */
		{832 + 168, 1},                       /* a block of the other one */
		{832 + 175, 0xff},
	};

	for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
		struct record_header header = sample();

		record_header_encode(&header, bytes);
		bytes[nonsense[i].at] = nonsense[i].value;
		mend();
		refused(-EBADMSG, "torn or corrupted");
	}
}
END_TEST

START_TEST(block_belongs_to_its_place)
{
	uint64_t words[RECORD_BLOCK_WORDS] = {1, [RECORD_BLOCK_WORDS - 1] = 2};
	uint64_t again[RECORD_BLOCK_WORDS];
	uint8_t block[RECORD_BLOCK_SIZE];

	record_block_encode(words, 7, 3, block);
	ck_assert_int_eq(record_block_decode(again, 7, 3, block), 0);
	ck_assert_mem_eq(again, words, sizeof(words));
	ck_assert_int_eq(record_block_decode(again, 8, 3, block), -EBADMSG);
	ck_assert_int_eq(record_block_decode(again, 7, 4, block), -EBADMSG);
	for (size_t i = 0; i < sizeof(block); i++) {
		block[i] ^= 1;
		ck_assert_int_eq(record_block_decode(again, 7, 3, block), -EBADMSG);
		block[i] ^= 1;
	}
}
END_TEST

/* ---- files */

static void
write_file(const void *data, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, data, size), (ssize_t)size);
	close(fd);
}

static void
not_opened(int wanted, const char *part)
{
	struct record record;
	char *error = NULL;

	ck_assert_int_eq(record_open(&record, path, geteuid(), &error), wanted);
	ck_assert_msg(error ? strstr(error, part) != NULL : !*part, "%s", error);
	free(error);
}

START_TEST(files_of_others_are_left_alone)
{
	memset(bytes, 'x', sizeof(bytes));
	write_file(bytes, sizeof(bytes));
	not_opened(-EILSEQ, "is no record of checkpoints");
	ck_assert_int_eq(access(path, F_OK), 0);
	unlink(path);
	not_opened(-ENOENT, "");
	ck_assert_int_eq(symlink("/dev/null", path), 0);
	not_opened(-ELOOP, path);
	unlink(path);
}
END_TEST

static void
make_record(void)
{
	struct record record = {.header = sample()};

	write_file("", 0);
	record.path = strdup(path);
	record.fd = open(path, O_RDWR);
	ck_assert_int_eq(record_put_header(&record), 0);
	record_close(&record);
}

/* Others could hide changes, and have the server read what they like. */
START_TEST(record_that_others_may_write_is_not_trusted)
{
	struct record record;
	char *error = NULL, other[80];

	make_record();
	ck_assert_int_eq(chmod(path, 0620), 0);
	not_opened(-EPERM, "not trusted: other users may write to it");
	ck_assert_int_eq(chmod(path, 0602), 0);
	not_opened(-EPERM, "not trusted: other users may write to it");
	ck_assert_int_eq(chmod(path, 0644), 0);
	snprintf(other, sizeof(other), "%s.too", path);
	ck_assert_int_eq(link(path, other), 0);
	not_opened(-EPERM, "not trusted: it has several names");
	unlink(other);
	if (geteuid() == 0) {
		ck_assert_int_eq(chown(path, 4711, 4711), 0);
		not_opened(-EPERM, "not trusted: it belongs to another user");
		ck_assert_int_eq(record_open(&record, path, 4711, &error), 0);
	} else {
		ck_assert_int_eq(record_open(&record, path, geteuid(), &error), 0);
	}
	record_close(&record);
	unlink(path);
}
END_TEST

/* An empty file may be anybody's. A record may take its place, when there is something to keep. */
START_TEST(empty_file_is_left_alone_until_it_is_used)
{
	struct witness witness = {.kind = 1};
	struct record record;
	char *error = NULL;

	write_file("", 0);
	not_opened(-ENOENT, "");
	ck_assert_int_eq(access(path, F_OK), 0);
	ck_assert_int_eq(record_create(&record, path, 1 << 20, &witness, &error), 0);
	record_close(&record);
	unlink(path);
	memset(bytes, 0, sizeof(bytes));
	write_file(bytes, 4096);
	not_opened(-EILSEQ, "is no record of checkpoints");
	ck_assert_int_eq(record_create(&record, path, 1 << 20, &witness, &error), -EEXIST);
	free(error);
	ck_assert_int_eq(access(path, F_OK), 0);
	unlink(path);
}
END_TEST

START_TEST(record_is_open_once)
{
	struct witness witness = {.kind = 1};
	struct record record, again;
	char *error = NULL;

	unlink(path);
	ck_assert_int_eq(record_create(&record, path, 1 << 20, &witness, &error), 0);
	ck_assert_int_eq(record_open(&again, path, geteuid(), &error), -EBUSY);
	ck_assert_ptr_nonnull(strstr(error, "in use by another server"));
	free(error);
	record_close(&record);
	/* It never had a checkpoint. */
	not_opened(-ENOENT, "");
	ck_assert_int_lt(access(path, F_OK), 0);
}
END_TEST

START_TEST(one_bad_header_is_not_missed)
{
	struct record record = {.header = sample()}, again;
	char *error = NULL;

	for (off_t place = 0; place < 2; place++) {
		write_file("", 0);
		record.path = strdup(path);
		record.fd = open(path, O_RDWR);
		ck_assert_int_eq(record_put_header(&record), 0);
		ck_assert_int_eq(pwrite(record.fd, "?", 1, place * RECORD_HEADER_SIZE + 100), 1);
		record_close(&record);
		ck_assert_int_eq(record_open(&again, path, geteuid(), &error), 0);
		ck_assert_uint_eq(again.header.sequence, record.header.sequence);
		ck_assert_int_eq(pwrite(again.fd, "?", 1, !place * RECORD_HEADER_SIZE + 100), 1);
		record_close(&again);
		not_opened(-EBADMSG, "torn or corrupted");
	}
	unlink(path);
}
END_TEST

/* ---- the witness */

#define SECOND INT64_C(1000000000)

/* Changed at 100 s and seen at 110 s, 50 s after the boot. */
static const struct witness seen = {
	"one", 1, 2, 3, 4, 5, 0, 5, 100 * SECOND, 100 * SECOND, 110 * SECOND, 50 * SECOND, false};

START_TEST(witness_tells_who_has_changed_the_image)
{
	struct witness then = seen, now = then;
	char reason[REASON_MAX];

	/* The boot was at 60 s. */
	now.seen = 500 * SECOND;
	now.seen_boot = 440 * SECOND;
	ck_assert(witness_agrees(&then, &now, true, reason));
	now.changed = 120 * SECOND;
	ck_assert(!witness_agrees(&then, &now, true, reason));
	ck_assert_ptr_nonnull(strstr(reason, "changed without this server"));
	ck_assert(witness_agrees(&then, &now, false, reason));
	now.changed = 126 * SECOND;
	ck_assert(!witness_agrees(&then, &now, false, reason));
	/* After another one, at 60 s. */
	strcpy(now.boot, "two");
	now.changed = 120 * SECOND;
	ck_assert(!witness_agrees(&then, &now, false, reason));
	now.seen_boot = 370 * SECOND;
	ck_assert(witness_agrees(&then, &now, false, reason));
	now.size++;
	ck_assert(!witness_agrees(&then, &now, false, reason));
	ck_assert_ptr_nonnull(strstr(reason, "another size"));
	now.inode++;
	ck_assert(!witness_agrees(&then, &now, false, reason));
	ck_assert_ptr_nonnull(strstr(reason, "another image"));
}
END_TEST

/* Somebody else has changed it, and the times would hide that. */
START_TEST(times_that_went_back_are_noticed_after_a_kill)
{
	struct witness then = seen, now = then;
	char reason[REASON_MAX];

	now.seen = 500 * SECOND;
	now.seen_boot = 440 * SECOND;
	now.changed = 101 * SECOND;
	now.modified = 99 * SECOND;
	ck_assert(!witness_agrees(&then, &now, false, reason));
	now.modified = 100 * SECOND;
	ck_assert(witness_agrees(&then, &now, false, reason));
	now.changed = 99 * SECOND;
	ck_assert(!witness_agrees(&then, &now, false, reason));
	ck_assert_ptr_nonnull(strstr(reason, "changed without this server"));
	now.changed = 101 * SECOND;
	/* The clock was set back, or forth. */
	now.seen -= 2 * SECOND;
	ck_assert(!witness_agrees(&then, &now, false, reason));
	now.seen += 4 * SECOND;
	ck_assert(!witness_agrees(&then, &now, false, reason));
	now.seen -= 2 * SECOND;
	ck_assert(witness_agrees(&then, &now, false, reason));
	now.remote = true;
	ck_assert(!witness_agrees(&then, &now, false, reason));
	ck_assert_ptr_nonnull(strstr(reason, "network file system"));
	now.remote = false;
	/* In a power cut, times are lost, but not old ones. */
	strcpy(now.boot, "two");
	now.seen_boot = 300 * SECOND;
	now.changed = 41 * SECOND;
	ck_assert(witness_agrees(&then, &now, false, reason));
	now.changed = 39 * SECOND;
	ck_assert(!witness_agrees(&then, &now, false, reason));
}
END_TEST

START_TEST(witness_of_a_block_device_is_of_one_boot)
{
	struct witness then = {"one",        2,           2,    0, 4, 5, 0, 5, 100, 0,
			       110 * SECOND, 50 * SECOND, false};
	struct witness now = then;
	char reason[REASON_MAX];

	now.seen_boot = 64 * SECOND;
	ck_assert(witness_agrees(&then, &now, true, reason));
	now.changed++;
	ck_assert(!witness_agrees(&then, &now, true, reason));
	ck_assert(witness_agrees(&then, &now, false, reason));
	now.seen_boot = 66 * SECOND;
	ck_assert(!witness_agrees(&then, &now, false, reason));
	ck_assert_ptr_nonnull(strstr(reason, "killed too long ago"));
	now = then;
	strcpy(now.boot, "two");
	ck_assert(!witness_agrees(&then, &now, true, reason));
	ck_assert_ptr_nonnull(strstr(reason, "before this boot"));
	now.boot[0] = then.boot[0] = '\0';
	ck_assert(!witness_agrees(&then, &now, true, reason));
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "record format", .begin = name_file},
		{.test = header_comes_back},
		{.test = each_changed_byte_is_noticed},
		{.test = other_versions_are_refused_with_words},
		{.test = nonsense_is_refused},
		{.test = block_belongs_to_its_place},
		{.test = files_of_others_are_left_alone},
		{.test = record_that_others_may_write_is_not_trusted},
		{.test = empty_file_is_left_alone_until_it_is_used},
		{.test = record_is_open_once},
		{.test = one_bad_header_is_not_missed},
		{.test = witness_tells_who_has_changed_the_image},
		{.test = times_that_went_back_are_noticed_after_a_kill},
		{.test = witness_of_a_block_device_is_of_one_boot},
		{0},
	};

	return suite_run("record format", cases);
}
