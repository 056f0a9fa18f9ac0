/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Image formats that aren't raw.
 */
#include "engine/image/format.h"

#include "tests/lib/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

struct format_row {
	const char *name;
	size_t offset, length;
	const char *bytes;
};

#define ROW(name_, offset_, bytes_)                                                                \
	{                                                                                          \
		(name_), (offset_), sizeof(bytes_) - 1, (bytes_)                                   \
	}

/* From the formats' own descriptions, not from engine/image/format.c. */
static const struct format_row rows[] = {
	ROW("qcow", 0, "QFI\xfb\x00\x00\x00\x01"),
	ROW("qcow2", 0, "QFI\xfb\x00\x00\x00\x02"),
	ROW("qcow2", 0, "QFI\xfb\x00\x00\x00\x03"),
	ROW("QED", 0, "QED\x00"),
	ROW("VMDK", 0, "KDMV\x01\x00\x00\x00"),
	ROW("VMDK", 0, "COWD\x01\x00\x00\x00"),
	ROW("VMDK", 0, "# Disk DescriptorFile\nversion=1\n"),
	ROW("VHDX", 0, "vhdxfile"),
	ROW("VHD", 0, "conectix"),
	ROW("VDI", 0,
	    "<<< Oracle VM VirtualBox Disk Image >>>\n\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
	    "\x7f\x10\xda\xbe"),
	ROW("gzip-compressed", 0, "\x1f\x8b\x08\x00"),
	ROW("xz-compressed", 0, "\xfd\x37\x7a\x58\x5a\x00"),
	ROW("zstd-compressed", 0, "\x28\xb5\x2f\xfd"),
	ROW("bzip2-compressed", 0, "BZh91AY&SY"),
	ROW("lz4-compressed", 0, "\x04\x22\x4d\x18"),
};

#define ROWS ((int)(sizeof(rows) / sizeof(rows[0])))

START_TEST(format_is_known_by_its_first_bytes)
{
	unsigned char head[FORMAT_HEAD] = {0};

	ck_assert_uint_le(rows[_i].length, FORMAT_HEAD);
	memcpy(head, rows[_i].bytes, rows[_i].length);
	ck_assert_pstr_eq(format_name(head, FORMAT_HEAD), rows[_i].name);
}
END_TEST

START_TEST(file_that_ends_within_the_magic_is_raw)
{
	/* The buffer has exactly that size, so that valgrind sees a read past its end. */
	for (size_t length = 0; length < 3; length++) {
		char *head = malloc(length ? length : 1);

		ck_assert_ptr_nonnull(head);
		memcpy(head, rows[_i].bytes, length);
		ck_assert_pstr_eq(format_name(head, length), NULL);
		free(head);
	}
}
END_TEST

START_TEST(raw_disks_are_raw)
{
	unsigned char head[FORMAT_HEAD] = {0};

	ck_assert_pstr_eq(format_name(head, sizeof(head)), NULL);
	ck_assert_pstr_eq(format_name(head, 0), NULL);
	memset(head, 0xff, sizeof(head));
	ck_assert_pstr_eq(format_name(head, sizeof(head)), NULL);
	memcpy(head, "\xeb\x63\x90\x10\x8e\xd0\xbc\x00", 8); /* GRUB in a master boot record */
	ck_assert_pstr_eq(format_name(head, sizeof(head)), NULL);
	memcpy(head, "\xeb\x3c\x90mkfs.fat", 11);
	ck_assert_pstr_eq(format_name(head, sizeof(head)), NULL);
	memcpy(head, "LUKS\xba\xbe\x00\x02", 8);
	ck_assert_pstr_eq(format_name(head, sizeof(head)), NULL);
}
END_TEST

START_TEST(magic_somewhere_else_means_nothing)
{
	unsigned char head[FORMAT_HEAD] = {0};

	memcpy(head + 1, "QFI\xfb\x00\x00\x00\x03", 8);
	memcpy(head + 20, "\x7f\x10\xda\xbe", 4);
	ck_assert_pstr_eq(format_name(head, sizeof(head)), NULL);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "known"},
		{.test = format_is_known_by_its_first_bytes, .last = ROWS},
		{.name = "raw"},
		{.test = file_that_ends_within_the_magic_is_raw, .last = ROWS},
		{.test = raw_disks_are_raw},
		{.test = magic_somewhere_else_means_nothing},
		{0},
	};

	return suite_run("format", cases);
}
