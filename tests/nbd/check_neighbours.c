/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A write never undoes what another connection writes next to it, in the same block at the same
 * time.
 */
#include "tests/nbd/client.h"
#include "tests/nbd/crew.h"
#include "tests/nbd/neighbours.h"
#include "tests/nbd/rng.h"
#include "tests/nbd/scratch.h"
#include "tests/nbd/target.h"

static const char *const default_export[] = {""};

/* Runs one kind of neighbours on a fresh image full of data. */
static void
run(const struct target *target, void (*kind)(struct neighbours *neighbours),
    struct neighbours neighbours, const char *parameter, unsigned int contexts)
{
	const char *path = scratch_image("disk.img", MIB, 1);
	struct server *server =
		server_start(target, &(struct server_config){.file = path,
							     .parameters = {parameter},
							     .threads = 2,
							     .contexts = contexts});

	neighbours.server = server;
	neighbours.names = default_export;
	neighbours.name_count = 1;
	neighbours.seed = rng_seed();
	neighbours.rounds = crew_rounds(neighbours.rounds);
	kind(&neighbours);
	server_stop(server);
	/* Nobody owns the bytes around them. */
	scratch_expect(path, 0, neighbours.offset, 1);
	scratch_expect(path, MIB / 2, MIB / 2, 1);
}

START_TEST(eight_writers_of_one_block_keep_their_bytes)
{
	run(TARGET, neighbours_write,
	    (struct neighbours){.offset = 64 * 512, .length = 64, .connections = 8, .rounds = 600},
	    NULL, 0);
}
END_TEST

START_TEST(eight_writers_of_one_4k_sector_keep_their_bytes)
{
	run(TARGET, neighbours_write,
	    (struct neighbours){
		    .offset = 16 * 4096, .length = 500, .connections = 8, .rounds = 300},
	    "sector-size=4096", 0);
}
END_TEST

START_TEST(writers_that_meet_inside_of_blocks_keep_their_bytes)
{
	run(TARGET, neighbours_write,
	    (struct neighbours){
		    .offset = 4096 + 100, .length = 1300, .connections = 8, .rounds = 300},
	    NULL, 0);
}
END_TEST

START_TEST(writing_zeroing_and_trimming_small_parts_keeps_neighbours)
{
	run(TARGET, neighbours_change,
	    (struct neighbours){
		    .offset = 4096 + 100, .length = 700, .connections = 8, .rounds = 400},
	    NULL, 0);
}
END_TEST

START_TEST(writing_zeroing_and_trimming_large_parts_keeps_neighbours)
{
	run(TARGET, neighbours_change,
	    (struct neighbours){
		    .offset = 4096 + 100, .length = 30001, .connections = 8, .rounds = 200},
	    NULL, 0);
}
END_TEST

START_TEST(part_of_a_block_written_during_whole_writes_loses_none_of_them)
{
	run(TARGET, neighbours_overlap,
	    (struct neighbours){.offset = 64 * 512, .length = 512, .connections = 8, .rounds = 500},
	    NULL, 0);
}
END_TEST

START_TEST(part_of_a_page_written_during_whole_writes_loses_none_of_them)
{
	run(TARGET, neighbours_overlap,
	    (struct neighbours){
		    .offset = 16 * 4096, .length = 4096, .connections = 8, .rounds = 300},
	    NULL, 0);
}
END_TEST

START_TEST(writers_that_share_one_context_keep_their_bytes)
{
	run(TARGET, neighbours_change,
	    (struct neighbours){
		    .offset = 4096 + 100, .length = 700, .connections = 8, .rounds = 100},
	    NULL, 1);
}
END_TEST

static void
add_tests(TCase *tests, int row)
{
	target_add_test(tests, eight_writers_of_one_block_keep_their_bytes, row);
	target_add_test(tests, eight_writers_of_one_4k_sector_keep_their_bytes, row);
	target_add_test(tests, writers_that_meet_inside_of_blocks_keep_their_bytes, row);
	target_add_test(tests, writing_zeroing_and_trimming_small_parts_keeps_neighbours, row);
	target_add_test(tests, writing_zeroing_and_trimming_large_parts_keeps_neighbours, row);
	target_add_test(tests, writers_that_share_one_context_keep_their_bytes, row);
	target_add_test(tests, part_of_a_block_written_during_whole_writes_loses_none_of_them, row);
	target_add_test(tests, part_of_a_page_written_during_whole_writes_loses_none_of_them, row);
}

int
main(void)
{
	return target_main("neighbours", add_tests, 0);
}
