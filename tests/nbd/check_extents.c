/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base:allocation reports data and holes as the file has them, within the window and within the
 * queried range.
 */
#include "tests/nbd/client.h"
#include "tests/nbd/scratch.h"
#include "tests/nbd/target.h"

#include <errno.h>
#include <string.h>

#define HOLE    (LIBNBD_STATE_HOLE | LIBNBD_STATE_ZERO)
#define EXTENTS 256

struct extent {
	uint64_t offset, length;
	uint32_t state;
};

struct map {
	struct extent extents[EXTENTS]; /* neighbours in one state are one extent */
	unsigned int count;
	uint64_t end;
	unsigned int replied; /* extents of the last reply, in their order */
};

static int
take_extents(void *data, const char *context, uint64_t offset, uint32_t *entries, size_t count,
	     int *error)
{
	struct map *map = data;

	(void)offset;
	if (strcmp(context, LIBNBD_CONTEXT_BASE_ALLOCATION) != 0)
		return 0;
	map->replied = (unsigned int)count / 2;
	for (size_t i = 0; i + 1 < count; i += 2) {
		struct extent *last = map->count ? &map->extents[map->count - 1] : NULL;

		if (last && last->state == entries[i + 1]) {
			last->length += entries[i];
		} else if (map->count < EXTENTS) {
			map->extents[map->count++] =
				(struct extent){map->end, entries[i], entries[i + 1]};
		} else {
			*error = ERANGE;
			return -1;
		}
		map->end += entries[i];
	}
	return 0;
}

/* Sends one query; the answer must make progress and stay within the queried range. */
static void
ask(struct nbd_handle *client, struct map *map, uint64_t offset, uint64_t length, uint32_t flags)
{
	*map = (struct map){.end = offset};
	ck_assert_msg(
		nbd_block_status(client, length, offset,
				 (nbd_extent_callback){.callback = take_extents, .user_data = map},
				 flags) == 0,
		"block status of %llu bytes at %llu: %s", (unsigned long long)length,
		(unsigned long long)offset, nbd_get_error());
	ck_assert_uint_ge(map->replied, 1);
	ck_assert_uint_gt(map->end, offset);
	ck_assert_uint_le(map->end, offset + length);
}

/* Queries until the whole range is known. */
static void
ask_all(struct nbd_handle *client, struct map *map, uint64_t offset, uint64_t length)
{
	*map = (struct map){.end = offset};
	while (map->end < offset + length) {
		uint64_t from = map->end;

		ck_assert_msg(nbd_block_status(client, offset + length - from, from,
					       (nbd_extent_callback){.callback = take_extents,
								     .user_data = map},
					       0) == 0,
			      "%s", nbd_get_error());
		ck_assert_uint_gt(map->end, from);
		ck_assert_uint_le(map->end, offset + length);
	}
}

static void
expect_map(const struct map *map, const struct extent *expected, unsigned int count)
{
	for (unsigned int i = 0; i < count && i < map->count; i++) {
		ck_assert_msg(map->extents[i].offset == expected[i].offset &&
				      map->extents[i].length == expected[i].length &&
				      map->extents[i].state == expected[i].state,
			      "extent %u: %llu+%llu state %u, expected %llu+%llu state %u", i,
			      (unsigned long long)map->extents[i].offset,
			      (unsigned long long)map->extents[i].length, map->extents[i].state,
			      (unsigned long long)expected[i].offset,
			      (unsigned long long)expected[i].length, expected[i].state);
	}
	ck_assert_uint_eq(map->count, count);
}

/* 8 MiB with data at [1, 2), [3, 5) and [7, 8) MiB. */
static const char *
image_with_holes(void)
{
	const char *path = scratch_sparse_image("disk.img", 8 * MIB);

	scratch_write(path, MIB, MIB, 1);
	scratch_write(path, 3 * MIB, 2 * MIB, 1);
	scratch_write(path, 7 * MIB, MIB, 1);
	return path;
}

START_TEST(holes_and_data_are_reported_where_they_are)
{
	static const struct extent expected[] = {
		{0, MIB, HOLE},           {MIB, MIB, 0},
		{2 * MIB, MIB, HOLE},     {3 * MIB, 2 * MIB, 0},
		{5 * MIB, 2 * MIB, HOLE}, {7 * MIB, MIB, 0},
	};
	const char *path = image_with_holes();
	struct server *server = server_start(TARGET, &(struct server_config){.file = path});
	struct nbd_handle *client = client_connect(server, "");
	struct map map;

	ck_assert_int_eq(nbd_can_meta_context(client, LIBNBD_CONTEXT_BASE_ALLOCATION), 1);
	ask_all(client, &map, 0, 8 * MIB);
	expect_map(&map, expected, 6);
	/* The same, with a query that begins and ends within extents. */
	ask_all(client, &map, MIB + 4096, 3 * MIB);
	expect_map(&map,
		   (const struct extent[]){{MIB + 4096, MIB - 4096, 0},
					   {2 * MIB, MIB, HOLE},
					   {3 * MIB, MIB + 4096, 0}},
		   3);
	client_close(client);
	server_stop(server);
}
END_TEST

START_TEST(extents_of_a_window_count_from_its_start_and_end_with_it)
{
	static const struct extent expected[] = {
		{0, MIB / 2, 0},
		{MIB / 2, MIB, HOLE},
		{MIB / 2 + MIB, 2 * MIB, 0},
		{MIB / 2 + 3 * MIB, MIB / 2, HOLE},
	};
	const char *path = image_with_holes();
	struct server *server = server_start(
		TARGET, &(struct server_config){.file = path,
						.parameters = {"offset=1536k", "sizelimit=4M"}});
	struct nbd_handle *client = client_connect(server, "");
	struct map map;

	ask_all(client, &map, 0, 4 * MIB);
	expect_map(&map, expected, 4);
	client_close(client);
	server_stop(server);
}
END_TEST

START_TEST(one_extent_is_answered_where_one_is_asked_for)
{
	const char *path = image_with_holes();
	struct server *server = server_start(TARGET, &(struct server_config){.file = path});
	struct nbd_handle *client = client_connect(server, "");
	struct map map;

	ask(client, &map, 0, 8 * MIB, LIBNBD_CMD_FLAG_REQ_ONE);
	ck_assert_uint_eq(map.replied, 1);
	expect_map(&map, (const struct extent[]){{0, MIB, HOLE}}, 1);
	ask(client, &map, 3 * MIB + 512, 8 * MIB - 3 * MIB - 512, LIBNBD_CMD_FLAG_REQ_ONE);
	ck_assert_uint_eq(map.replied, 1);
	expect_map(&map, (const struct extent[]){{3 * MIB + 512, 2 * MIB - 512, 0}}, 1);
	ask(client, &map, 7 * MIB, 512, LIBNBD_CMD_FLAG_REQ_ONE);
	expect_map(&map, (const struct extent[]){{7 * MIB, 512, 0}}, 1);
	client_close(client);
	server_stop(server);
}
END_TEST

/* The export ends within a block of the file system. */
START_TEST(one_extent_is_no_shorter_than_a_block)
{
	const char *path = scratch_sparse_image("disk.img", 8 * MIB);
	struct server *server;
	struct nbd_handle *client;
	struct map map;

	scratch_write(path, 8 * 4096, MIB, 1);
	scratch_write(path, 4 * MIB, MIB, 1);
	server = server_start(
		TARGET, &(struct server_config){
				.file = path, .parameters = {"sector-size=4096", "offset=32256"}});
	client = client_connect(server, "");
	ask(client, &map, 0, 2 * MIB, LIBNBD_CMD_FLAG_REQ_ONE);
	ck_assert_uint_eq(map.replied, 1);
	ck_assert_uint_ge(map.end, 4096);
	ck_assert_uint_eq(map.end % 4096, 0);
	ck_assert_uint_eq(map.extents[0].state, 0);
	/* A hole ends with its last whole block. */
	ask(client, &map, 2 * MIB, 4 * MIB, LIBNBD_CMD_FLAG_REQ_ONE);
	expect_map(&map, (const struct extent[]){{2 * MIB, 2 * MIB - 8 * 4096, HOLE}}, 1);
	/* The query is shorter than the hole. */
	ask(client, &map, 0, 4096, LIBNBD_CMD_FLAG_REQ_ONE);
	expect_map(&map, (const struct extent[]){{0, 4096, 0}}, 1);
	client_close(client);
	server_stop(server);
}
END_TEST

START_TEST(written_and_trimmed_ranges_change_the_map)
{
	const char *path = scratch_sparse_image("disk.img", 8 * MIB);
	struct server *server = server_start(TARGET, &(struct server_config){.file = path});
	struct nbd_handle *client = client_connect(server, "");
	struct map map;

	ask_all(client, &map, 0, 8 * MIB);
	expect_map(&map, (const struct extent[]){{0, 8 * MIB, HOLE}}, 1);
	client_write(client, 2 * MIB, 4 * MIB, 1, 0);
	client_trim(client, 3 * MIB, MIB, 0);
	ask_all(client, &map, 0, 8 * MIB);
	expect_map(&map,
		   (const struct extent[]){{0, 2 * MIB, HOLE},
					   {2 * MIB, MIB, 0},
					   {3 * MIB, MIB, HOLE},
					   {4 * MIB, 2 * MIB, 0},
					   {6 * MIB, 2 * MIB, HOLE}},
		   5);
	client_close(client);
	server_stop(server);
}
END_TEST

START_TEST(what_is_called_zero_reads_zero_at_every_granularity)
{
	const char *path = scratch_sparse_image("disk.img", 4 * MIB);
	struct server *server;
	struct nbd_handle *client;
	struct map map;

	/* The export is much smaller than a block of the file system. */
	for (uint64_t i = 0; i < 40; i++)
		scratch_write(path, i * 100000, 1 + i * 7, 1);
	server = server_start(TARGET, &(struct server_config){.file = path});
	client = client_connect(server, "");
	ask_all(client, &map, 0, 4 * MIB);
	ck_assert_uint_gt(map.count, 1);
	for (unsigned int i = 0; i < map.count; i++)
		if (map.extents[i].state & LIBNBD_STATE_ZERO)
			client_expect(client, map.extents[i].offset, map.extents[i].length,
				      PATTERN_ZEROES);
	/* A query need not be aligned either. */
	for (uint64_t i = 0; i < 39; i++) {
		ask(client, &map, i * 100000, 1 + i * 7, 0);
		ck_assert_uint_eq(map.extents[0].state, 0);
		ask(client, &map, i * 100000 + 50001, 3, 0);
		ck_assert_uint_eq(map.end, i * 100000 + 50004);
	}
	client_close(client);
	server_stop(server);
}
END_TEST

/* nbdkit before 1.42.3 aborts when a plugin hands it an extent of 4 GiB or more. */
START_TEST(block_status_of_an_8_tib_hole_leaves_the_server_alive)
{
	const uint64_t tib = UINT64_C(1) << 40, most = UINT32_MAX;
	const char *path = scratch_sparse_image("disk.img", 8 * tib);
	struct server *server;
	struct nbd_handle *client;
	struct map map;

	scratch_write(path, 5 * tib, MIB, 1);
	server = server_start(TARGET, &(struct server_config){.file = path});
	client = client_connect(server, "");
	ck_assert_int_eq(nbd_get_size(client), 8 * tib);
	/* A client can query at most one byte less than 4 GiB. */
	ask(client, &map, 0, most, 0);
	ck_assert_uint_eq(map.extents[0].state, HOLE);
	ask(client, &map, 0, most, LIBNBD_CMD_FLAG_REQ_ONE);
	ask(client, &map, 8 * tib - most, most, 0);
	ck_assert_uint_eq(map.extents[0].state, HOLE);
	ask(client, &map, 8 * tib - 512, 512, 0);
	ask_all(client, &map, 5 * tib - 2 * MIB, 4 * MIB);
	expect_map(&map,
		   (const struct extent[]){{5 * tib - 2 * MIB, 2 * MIB, HOLE},
					   {5 * tib, MIB, 0},
					   {5 * tib + MIB, MIB, HOLE}},
		   3);
	client_expect(client, 5 * tib, MIB, 1);
	client_write(client, 8 * tib - 512, 512, 2, 0);
	client_expect(client, 8 * tib - 512, 512, 2);
	client_close(client);
	server_stop(server);
}
END_TEST

static void
add_tests(TCase *tests, int row)
{
	target_add_test(tests, holes_and_data_are_reported_where_they_are, row);
	target_add_test(tests, extents_of_a_window_count_from_its_start_and_end_with_it, row);
	target_add_test(tests, one_extent_is_answered_where_one_is_asked_for, row);
	target_add_test_of(TARGET_NBDLOOPD, tests, one_extent_is_no_shorter_than_a_block, row);
	target_add_test(tests, written_and_trimmed_ranges_change_the_map, row);
	target_add_test(tests, what_is_called_zero_reads_zero_at_every_granularity, row);
	target_add_file_test(tests, block_status_of_an_8_tib_hole_leaves_the_server_alive, row);
}

int
main(void)
{
	return target_main("extents", add_tests, 0);
}
