/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several connections write, zero, trim and read at random, from 1 byte to 32 MiB, and each keeps a
 * model of its bytes. Every byte of the image belongs to exactly one connection, but nearly every
 * block to several: a connection must never change the bytes of the others.
 */
#include "tests/nbd/ceph_image.h"
#include "tests/nbd/client.h"
#include "tests/nbd/crew.h"
#include "tests/nbd/pattern.h"
#include "tests/nbd/rng.h"
#include "tests/nbd/scratch.h"
#include "tests/nbd/target.h"

#include "common/cleanup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNECTIONS  6
#define OPERATIONS   600        /* turns of each connection */
#define LARGE        (32 * MIB) /* the largest request */
#define LARGE_RANGES 2
#define LARGE_RARITY 48 /* one operation in so many may be that large */
#define RANGES       3000
#define CROWD        40   /* ranges on which all connections work at the same time, */
#define CROWD_TURNS  25   /* for so many turns */
#define MARGIN       5000 /* other connections' bytes that a read takes along */

struct range {
	uint64_t offset, length;
	unsigned int owner;
};

struct model {
	uint64_t seed;
	uint64_t size;
	unsigned char *bytes; /* what the image must hold; each byte is written by its owner */
	struct range ranges[RANGES];      /* in order, without gaps */
	unsigned int large[LARGE_RANGES]; /* indices of the large ranges */
};

/* Lays out ranges of all sizes, with owners at random. */
static void
model_init(struct model *model, uint64_t seed)
{
	struct rng rng;

	rng_init(&rng, seed, CONNECTIONS);
	model->seed = seed;
	model->size = 0;
	for (unsigned int i = 0; i < LARGE_RANGES; i++)
		model->large[i] = RANGES * (i + 1) / (LARGE_RANGES + 1);
	for (unsigned int i = 0; i < RANGES; i++) {
		struct range *range = &model->ranges[i];

		range->offset = model->size;
		range->length = rng_length(&rng, 8192);
		range->owner = (unsigned int)rng_below(&rng, CONNECTIONS);
		for (unsigned int k = 0; k < LARGE_RANGES; k++)
			if (model->large[k] == i)
				*range = (struct range){model->size, LARGE + range->length, k};
		/* The image ends on a sector. */
		if (i == RANGES - 1)
			range->length += 511 - (model->size + range->length + 511) % 512;
		model->size += range->length;
	}
	model->bytes = malloc(model->size);
	ck_assert_ptr_nonnull(model->bytes);
	pattern_fill(model->bytes, model->size, 0, 1);
}

/* A connection: its generator, its buffer and its progress. */
struct player {
	struct crew_member *member;
	struct model *model;
	struct rng rng;
	unsigned char *buffer; /* LARGE bytes and both margins */
};

/* The first of the ranges on which all connections work in this turn. */
static uint64_t
crowd_start(const struct model *model, unsigned int turn)
{
	struct rng rng;

	rng_init(&rng, model->seed, CONNECTIONS + 1 + turn / CROWD_TURNS);
	return rng_below(&rng, RANGES - CROWD);
}

static const struct range *
player_range(struct player *player, unsigned int turn)
{
	struct model *model = player->model;
	uint64_t start = crowd_start(model, turn);

	if (turn % LARGE_RARITY == 0 && player->member->index < LARGE_RANGES)
		return &model->ranges[model->large[player->member->index]];
	for (unsigned int attempt = 0;; attempt++) {
		/* A connection that owns none of them works elsewhere. */
		uint64_t i = attempt < 2 * CROWD ? start + rng_below(&player->rng, CROWD)
						 : rng_below(&player->rng, RANGES);
		const struct range *range = &model->ranges[i];

		if (range->owner == player->member->index && range->length <= LARGE / 2)
			return range;
	}
}

static void
player_fail(struct player *player, const char *what, uint64_t offset, uint64_t length)
{
	crew_fail(player->member, "%s of %llu bytes at offset %llu: %s", what,
		  (unsigned long long)length, (unsigned long long)offset, nbd_get_error());
}

/* Compares the connection's own bytes in the buffer with the model. */
static void
player_compare(struct player *player, uint64_t offset, uint64_t length, const char *when)
{
	struct model *model = player->model;

	for (unsigned int i = 0; i < RANGES; i++) {
		const struct range *range = &model->ranges[i];
		uint64_t start = range->offset > offset ? range->offset : offset;
		uint64_t end = range->offset + range->length;
		ssize_t at;

		if (end > offset + length)
			end = offset + length;
		if (range->owner != player->member->index || start >= end)
			continue;
		at = bytes_mismatch(player->buffer + (start - offset), model->bytes + start,
				    end - start);
		if (at < 0)
			continue;
		crew_fail(player->member,
			  "%s: byte at offset %llu is 0x%02x, not 0x%02x (read of %llu at %llu)",
			  when, (unsigned long long)start + (unsigned long long)at,
			  player->buffer[start - offset + (uint64_t)at],
			  model->bytes[start + (uint64_t)at], (unsigned long long)length,
			  (unsigned long long)offset);
		return;
	}
}

static void
player_read(struct player *player, uint64_t offset, uint64_t length)
{
	uint64_t before = rng_below(&player->rng, MARGIN);
	uint64_t after = rng_below(&player->rng, MARGIN);

	/* Others may be writing there; they must not change these bytes. */
	before = before < offset ? before : offset;
	offset -= before;
	length += before + after;
	if (length > LARGE)
		length = LARGE;
	if (length > player->model->size - offset)
		length = player->model->size - offset;
	if (nbd_pread(player->member->client, player->buffer, length, offset, 0) != 0)
		player_fail(player, "read", offset, length);
	else
		player_compare(player, offset, length, "during the run");
}

static void
player_write(struct player *player, uint64_t offset, uint64_t length)
{
	unsigned char *expected = player->model->bytes + offset;
	uint32_t flags = rng_below(&player->rng, 16) ? 0 : LIBNBD_CMD_FLAG_FUA;

	rng_fill(&player->rng, expected, length);
	if (nbd_pwrite(player->member->client, expected, length, offset, flags) != 0)
		player_fail(player, "write", offset, length);
}

static void
player_zero(struct player *player, uint64_t offset, uint64_t length)
{
	uint32_t flags = rng_below(&player->rng, 2) ? LIBNBD_CMD_FLAG_NO_HOLE : 0;

	memset(player->model->bytes + offset, 0, length);
	if (nbd_zero(player->member->client, length, offset, flags) != 0)
		player_fail(player, "zero", offset, length);
}

/* After a trim, each byte is what it was, or zero; the model takes what it finds. */
static void
player_trim(struct player *player, uint64_t offset, uint64_t length)
{
	unsigned char *expected = player->model->bytes + offset;

	if (nbd_trim(player->member->client, length, offset, 0) != 0 ||
	    nbd_pread(player->member->client, player->buffer, length, offset, 0) != 0) {
		player_fail(player, "trim or read after it", offset, length);
		return;
	}
	for (uint64_t i = 0; i < length; i++) {
		if (player->buffer[i] == 0)
			expected[i] = 0;
		if (player->buffer[i] != expected[i]) {
			crew_fail(player->member, "trim of %llu bytes at %llu left 0x%02x at %llu",
				  (unsigned long long)length, (unsigned long long)offset,
				  player->buffer[i], (unsigned long long)(offset + i));
			return;
		}
	}
}

static void
player_turn(struct player *player, unsigned int turn)
{
	const struct range *range = player_range(player, turn);
	uint64_t most = range->length < LARGE ? range->length : LARGE;
	/* The largest write and read are part of every run. */
	uint64_t length = turn == 0 ? most : rng_length(&player->rng, most);
	uint64_t offset = range->offset + rng_below(&player->rng, range->length - length + 1);

	if (turn == 0) {
		player_write(player, offset, length);
		player_read(player, offset, length);
		return;
	}
	switch (rng_below(&player->rng, 10)) {
	case 0 ... 3: player_write(player, offset, length); break;
	case 4: player_zero(player, offset, length); break;
	case 5: player_trim(player, offset, length); break;
	default: player_read(player, offset, length); break;
	}
}

static void
play(struct crew_member *member)
{
	struct player player = {.member = member, .model = member->data};
	unsigned char *CLEANUP_FREE buffer = malloc(LARGE + 2 * MARGIN);

	player.buffer = buffer;
	rng_init(&player.rng, player.model->seed, member->index);
	for (unsigned int turn = 0; turn < crew_rounds(OPERATIONS) && !crew_failed(member); turn++)
		player_turn(&player, turn);
}

/* At the end, all bytes are compared: as the server reads them, and as the file has them. */
static void
model_compare(const struct model *model, const struct server *server, const char *path)
{
	struct nbd_handle *client = client_connect(server, "");
	unsigned char *CLEANUP_FREE buffer = malloc(model->size);
	FILE *image;

	ceph_image_update(path);
	image = fopen(path, "re");
	ck_assert_ptr_nonnull(image);
	for (uint64_t offset = 0; offset < model->size; offset += LARGE) {
		uint64_t length = model->size - offset < LARGE ? model->size - offset : LARGE;

		ck_assert_msg(nbd_pread(client, buffer + offset, length, offset, 0) == 0, "%s",
			      nbd_get_error());
	}
	ck_assert_msg(bytes_mismatch(buffer, model->bytes, model->size) < 0,
		      "LOOP_SEED=%llu: byte %zd of the export is wrong at the end",
		      (unsigned long long)model->seed,
		      bytes_mismatch(buffer, model->bytes, model->size));
	ck_assert_uint_eq(fread(buffer, 1, model->size, image), model->size);
	ck_assert_msg(bytes_mismatch(buffer, model->bytes, model->size) < 0,
		      "LOOP_SEED=%llu: byte %zd of the file is wrong at the end",
		      (unsigned long long)model->seed,
		      bytes_mismatch(buffer, model->bytes, model->size));
	fclose(image);
	client_close(client);
}

static void
run(const struct target *target, unsigned int contexts, const char *parameter)
{
	static struct model model;
	const char *path;
	struct server *server;

	model_init(&model, rng_seed());
	path = scratch_image("disk.img", model.size, 1);
	/* Each of nbdkit's threads keeps a buffer of its largest request. */
	server = server_start(target, &(struct server_config){.file = path,
							      .parameters = {parameter},
							      .threads = 4,
							      .contexts = contexts});
	crew_run(server, (const char *const[]){""}, 1, CONNECTIONS, play, &model, model.seed);
	model_compare(&model, server, path);
	server_stop(server);
	free(model.bytes);
}

START_TEST(image_equals_its_model_after_random_requests_of_several_connections)
{
	run(TARGET, 0, NULL);
}
END_TEST

START_TEST(image_equals_its_model_when_connections_share_few_contexts)
{
	run(TARGET, 2, "depth=1");
}
END_TEST

static void
add_tests(TCase *tests, int row)
{
	target_add_test(tests, image_equals_its_model_after_random_requests_of_several_connections,
			row);
	target_add_test(tests, image_equals_its_model_when_connections_share_few_contexts, row);
}

int
main(void)
{
	return target_main("model", add_tests, 0);
}
