/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A request that can't be done ends in the right error, never in padding, silence or a dead server.
 * The log says what failed and where, since the kernel's client tells its user no more than "I/O
 * error".
 */
#include "tests/nbd/client.h"
#include "tests/nbd/scratch.h"
#include "tests/nbd/target.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SIZE         (4 * MIB)
#define FILE_PATTERN 1

static char buffer[MIB];

START_TEST(request_past_the_end_is_refused_and_changes_nothing)
{
	const char *path = scratch_image("disk.img", SIZE, FILE_PATTERN);
	struct server *server = server_start(TARGET, &(struct server_config){.file = path});
	struct nbd_handle *client = client_connect(server, "");
	static const struct {
		uint64_t offset, length;
	} ranges[] = {
		{SIZE, 512},
		{SIZE - 512, 1024},
		{SIZE - 1, 2},
		{SIZE + MIB, 1},
		{INT64_MAX - 511, 512},
		{UINT64_MAX - 511, 512},
		{UINT64_MAX - 511, 4096},
	};

	client_send_anything(client);
	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		uint64_t offset = ranges[i].offset, length = ranges[i].length;

		client_refused(nbd_pread(client, buffer, length, offset, 0), EINVAL);
		client_refused(nbd_pwrite(client, buffer, length, offset, 0), ENOSPC);
		client_refused(nbd_zero(client, length, offset, 0), ENOSPC);
		client_refused(nbd_trim(client, length, offset, 0), EINVAL);
	}
	client_expect(client, 0, SIZE, FILE_PATTERN);
	client_close(client);
	server_stop(server);
	ck_assert_uint_le(scratch_allocated(path), SIZE + MIB);
	scratch_expect(path, 0, SIZE, FILE_PATTERN);
}
END_TEST

START_TEST(read_only_export_refuses_every_change)
{
	const char *path = scratch_image("disk.img", SIZE, FILE_PATTERN);
	struct server *server =
		server_start(TARGET, &(struct server_config){.file = path, .read_only = true});
	struct nbd_handle *client = client_connect(server, "");

	ck_assert_int_eq(nbd_is_read_only(client), 1);
	client_send_anything(client);
	client_refused(nbd_pwrite(client, buffer, 512, 0, 0), EPERM);
	client_refused(nbd_pwrite(client, buffer, 100, 700, LIBNBD_CMD_FLAG_FUA), EPERM);
	client_refused(nbd_zero(client, 4096, 0, 0), EPERM);
	client_refused(nbd_trim(client, 4096, 0, 0), EPERM);
	client_expect(client, 0, SIZE, FILE_PATTERN);
	client_expect(client, 100, 1000, FILE_PATTERN);
	client_close(client);
	server_stop(server);
	scratch_expect(path, 0, SIZE, FILE_PATTERN);
}
END_TEST

START_TEST(request_of_no_bytes_or_unknown_flags_leaves_the_connection_usable)
{
	const char *path = scratch_image("disk.img", SIZE, FILE_PATTERN);
	struct server *server = server_start(TARGET, &(struct server_config){.file = path});
	struct nbd_handle *client = client_connect(server, "");

	client_send_anything(client);
	/* The protocol doesn't say whether that is an error. */
	for (uint64_t offset = 0; offset <= SIZE; offset += SIZE / 2) {
		(void)nbd_pread(client, buffer, 0, offset, 0);
		(void)nbd_pwrite(client, buffer, 0, offset, 0);
		(void)nbd_zero(client, 0, offset, 0);
		(void)nbd_trim(client, 0, offset, 0);
		(void)nbd_cache(client, 0, offset, 0);
	}
	client_refused(nbd_pwrite(client, buffer, 512, 0, LIBNBD_CMD_FLAG_REQ_ONE), EINVAL);
	client_expect(client, 0, SIZE, FILE_PATTERN);
	client_close(client);
	server_stop(server);
}
END_TEST

/* The file loses its second half while it is served. */
static struct server *
serve_truncated(const struct target *target, struct nbd_handle **client, uint64_t rest)
{
	const char *path = scratch_image("disk.img", SIZE, FILE_PATTERN);
	struct server *server = server_start(target, &(struct server_config){.file = path});

	*client = client_connect(server, "");
	client_expect(*client, 0, SIZE, FILE_PATTERN);
	ck_assert_int_eq(truncate(path, (off_t)rest), 0);
	return server;
}

START_TEST(read_beyond_a_truncated_file_fails_and_is_logged)
{
	struct nbd_handle *client;
	struct server *server = serve_truncated(TARGET, &client, 2 * MIB);

	client_refused(nbd_pread(client, buffer, 4096, 3 * MIB, 0), EIO);
	server_expect_log(server, "disk.img: read of 4096 bytes at offset 3145728",
			  "Input/output error");
	/* Reads across the new end: aligned, unaligned, long. */
	client_refused(nbd_pread(client, buffer, 8192, 2 * MIB - 4096, 0), EIO);
	client_refused(nbd_pread(client, buffer, 2, 2 * MIB - 1, 0), EIO);
	client_refused(nbd_pread(client, buffer, MIB, 2 * MIB - 100, 0), EIO);
	client_refused(nbd_pread(client, buffer, 1, 2 * MIB, 0), EIO);
	client_refused(nbd_pread(client, buffer, 512, SIZE - 512, 0), EIO);
	/* The rest can still be read and written. */
	client_expect(client, 0, 2 * MIB, FILE_PATTERN);
	client_expect(client, 2 * MIB - 1, 1, FILE_PATTERN);
	client_expect(client, 100, MIB, FILE_PATTERN);
	client_close(client);
	server_stop(server);
}
END_TEST

START_TEST(file_truncated_inside_of_a_sector_is_readable_up_to_its_last_whole_sector)
{
	struct nbd_handle *client;
	struct server *server = serve_truncated(TARGET, &client, 2 * MIB + 100);

	client_expect(client, 0, 2 * MIB, FILE_PATTERN);
	client_expect(client, 2 * MIB - 700, 700, FILE_PATTERN);
	client_refused(nbd_pread(client, buffer, 512, 2 * MIB, 0), EIO);
	client_refused(nbd_pread(client, buffer, 50, 2 * MIB + 90, 0), EIO);
	client_refused(nbd_pread(client, buffer, 50, 2 * MIB + 200, 0), EIO);
	client_close(client);
	server_stop(server);
}
END_TEST

START_TEST(partial_write_beyond_a_truncated_file_never_pretends_the_rest_was_zero)
{
	struct nbd_handle *client;
	struct server *server = serve_truncated(TARGET, &client, 2 * MIB);

	/* The block can't be read any more. The result is an error, or just these bytes. */
	memset(buffer, 'x', 100);
	if (nbd_pwrite(client, buffer, 100, 3 * MIB + 100, 0) == 0) {
		ck_assert_int_eq(nbd_pread(client, buffer + 100, 100, 3 * MIB + 100, 0), 0);
		ck_assert_mem_eq(buffer, buffer + 100, 100);
	} else {
		ck_assert_int_eq(nbd_get_errno(), EIO);
		server_expect_log(server, "disk.img: write of 100 bytes at offset 3145828",
				  "Input/output error");
	}
	client_expect(client, 0, 2 * MIB, FILE_PATTERN);
	client_close(client);
	server_stop(server);
}
END_TEST

START_TEST(repeated_errors_are_logged_a_few_times_only)
{
	struct nbd_handle *client;
	struct server *server = serve_truncated(TARGET, &client, 2 * MIB);
	unsigned int logged = 0;

	for (uint64_t i = 0; i < 2000; i++)
		client_refused(nbd_pread(client, buffer, 512, 3 * MIB + i * 512, 0), EIO);
	for (uint64_t i = 0; i < 2000; i++) {
		char where[64];

		snprintf(where, sizeof(where), "offset %llu failed",
			 (unsigned long long)(3 * MIB + i * 512));
		logged += server_log_has(server, where, "Input/output error");
	}
	ck_assert_uint_ge(logged, 1);
	ck_assert_uint_le(logged, 200);
	client_close(client);
	server_stop(server);
}
END_TEST

static void
add_tests(TCase *tests, int row)
{
	target_add_test(tests, request_past_the_end_is_refused_and_changes_nothing, row);
	target_add_test(tests, read_only_export_refuses_every_change, row);
	target_add_test(tests, request_of_no_bytes_or_unknown_flags_leaves_the_connection_usable,
			row);
	target_add_test(tests, read_beyond_a_truncated_file_fails_and_is_logged, row);
	target_add_test(tests,
			file_truncated_inside_of_a_sector_is_readable_up_to_its_last_whole_sector,
			row);
	target_add_test(
		tests, partial_write_beyond_a_truncated_file_never_pretends_the_rest_was_zero, row);
	target_add_test(tests, repeated_errors_are_logged_a_few_times_only, row);
}

int
main(void)
{
	return target_main("errors", add_tests, 0);
}
