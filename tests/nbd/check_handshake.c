/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What client and server agree on before the first request: lists and facts of exports, metadata
 * contexts, and what older clients can do without them.
 */
#include "tests/nbd/client.h"
#include "tests/nbd/scratch.h"
#include "tests/nbd/target.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SIZE    (2 * MIB)
#define PATTERN 1
#define NAMES   8

struct names {
	char name[NAMES][64];
	char description[NAMES][64];
	unsigned int count;
};

static int
take_export(void *data, const char *name, const char *description)
{
	struct names *names = data;

	ck_assert_uint_lt(names->count, NAMES);
	snprintf(names->name[names->count], sizeof(names->name[0]), "%s", name);
	snprintf(names->description[names->count], sizeof(names->description[0]), "%s",
		 description);
	names->count++;
	return 0;
}

static int
take_context(void *data, const char *name)
{
	return take_export(data, name, "");
}

/* A client whose handshake stops after each step (libnbd's option mode). */
static struct nbd_handle *
negotiate(const struct server *server)
{
	struct nbd_handle *client = nbd_create();

	ck_assert_int_eq(nbd_set_opt_mode(client, true), 0);
	ck_assert_int_eq(nbd_set_full_info(client, true), 0);
	ck_assert_msg(client_reach(client, server) == 0, "%s", nbd_get_error());
	return client;
}

static void
list(struct nbd_handle *client, struct names *names)
{
	names->count = 0;
	ck_assert_msg(nbd_opt_list(client, (nbd_list_callback){.callback = take_export,
							       .user_data = names}) >= 0,
		      "%s", nbd_get_error());
}

static void
list_contexts(struct nbd_handle *client, struct names *names)
{
	names->count = 0;
	ck_assert_msg(
		nbd_opt_list_meta_context(client, (nbd_context_callback){.callback = take_context,
									 .user_data = names}) >= 0,
		"%s", nbd_get_error());
}

/* one.img has half the size of two.img, and another pattern. */
static struct server *
serve_two(const struct target *target, const char *parameter)
{
	static const char *const names[] = {"one.img", "two.img", NULL};

	ck_assert_int_eq(mkdir(scratch_path("images"), 0755), 0);
	scratch_image("images/one.img", SIZE / 2, PATTERN);
	scratch_image("images/two.img", SIZE, PATTERN + 1);
	return server_start(target, &(struct server_config){.dir = scratch_path("images"),
							    .names = names,
							    .parameters = {parameter}});
}

static struct server *
serve_one(const struct target *target)
{
	const char *path = scratch_image("disk.img", SIZE, PATTERN);

	return server_start(target, &(struct server_config){.file = path});
}

START_TEST(one_of_the_listed_exports_is_chosen)
{
	struct server *server = serve_two(TARGET, NULL);
	struct nbd_handle *client = negotiate(server);
	struct names names;

	list(client, &names);
	ck_assert_uint_eq(names.count, 2);
	ck_assert_str_ne(names.name[0], names.name[1]);
	ck_assert_int_eq(nbd_set_export_name(client, "two.img"), 0);
	ck_assert_msg(nbd_opt_go(client) == 0, "%s", nbd_get_error());
	ck_assert_int_eq(nbd_get_size(client), SIZE);
	client_expect(client, 0, SIZE, PATTERN + 1);
	client_close(client);
	server_stop(server);
}
END_TEST

START_TEST(exports_are_listed_in_the_order_and_with_the_description_that_they_were_given)
{
	struct server *server = serve_two(TARGET, "description=for the test");
	struct nbd_handle *client = negotiate(server);
	struct names names;
	char *description;

	/* nbdkit lists the exports only once. */
	for (unsigned int i = 0; i < 3; i++) {
		list(client, &names);
		ck_assert_uint_eq(names.count, 2);
		ck_assert_str_eq(names.name[0], "one.img");
		ck_assert_str_eq(names.name[1], "two.img");
		ck_assert_str_eq(names.description[1], "for the test");
	}
	ck_assert_int_eq(nbd_set_export_name(client, "two.img"), 0);
	ck_assert_msg(nbd_opt_go(client) == 0, "%s", nbd_get_error());
	description = nbd_get_export_description(client);
	ck_assert_msg(description != NULL, "%s", nbd_get_error());
	ck_assert_str_eq(description, "for the test");
	free(description);
	client_close(client);
	server_stop(server);
}
END_TEST

START_TEST(list_off_names_no_export_and_serves_them)
{
	struct server *server = serve_two(TARGET, "list=off");
	struct nbd_handle *client = negotiate(server);
	struct names names = {.count = 0};

	ck_assert_int_lt(nbd_opt_list(client, (nbd_list_callback){.callback = take_export,
								  .user_data = &names}),
			 0);
	ck_assert_uint_eq(names.count, 0);
	ck_assert_int_eq(nbd_set_export_name(client, "one.img"), 0);
	ck_assert_msg(nbd_opt_go(client) == 0, "%s", nbd_get_error());
	client_expect(client, 0, SIZE / 2, PATTERN);
	client_close(client);
	server_stop(server);
}
END_TEST

/* The facts that a client gets about an export. */
struct facts {
	int64_t size, minimum, preferred, maximum;
	int read_only, rotational, flush, fua, trim, zero, fast_zero, cache, df, multi_conn;
};

static struct facts
facts(struct nbd_handle *client)
{
	return (struct facts){
		.size = nbd_get_size(client),
		.minimum = nbd_get_block_size(client, LIBNBD_SIZE_MINIMUM),
		.preferred = nbd_get_block_size(client, LIBNBD_SIZE_PREFERRED),
		.maximum = nbd_get_block_size(client, LIBNBD_SIZE_MAXIMUM),
		.read_only = nbd_is_read_only(client),
		.rotational = nbd_is_rotational(client),
		.flush = nbd_can_flush(client),
		.fua = nbd_can_fua(client),
		.trim = nbd_can_trim(client),
		.zero = nbd_can_zero(client),
		.fast_zero = nbd_can_fast_zero(client),
		.cache = nbd_can_cache(client),
		.df = nbd_can_df(client),
		.multi_conn = nbd_can_multi_conn(client),
	};
}

START_TEST(information_is_what_who_chooses_the_export_is_told_then)
{
	struct server *server = serve_two(TARGET, NULL);
	struct nbd_handle *client = negotiate(server);
	struct facts informed, told;

	ck_assert_int_eq(nbd_set_export_name(client, "one.img"), 0);
	ck_assert_msg(nbd_opt_info(client) == 0, "%s", nbd_get_error());
	ck_assert_int_eq(nbd_get_size(client), SIZE / 2);
	ck_assert_int_eq(nbd_set_export_name(client, "two.img"), 0);
	ck_assert_msg(nbd_opt_info(client) == 0, "%s", nbd_get_error());
	informed = facts(client);
	ck_assert_int_eq(informed.size, SIZE);
	ck_assert_int_eq(informed.flush, 1);
	ck_assert_int_eq(informed.maximum, 32 * MIB);
	ck_assert_msg(nbd_opt_go(client) == 0, "%s", nbd_get_error());
	told = facts(client);
	ck_assert_mem_eq(&informed, &told, sizeof(told));
	client_expect(client, 0, SIZE, PATTERN + 1);
	client_close(client);
	server_stop(server);
}
END_TEST

START_TEST(unknown_export_is_refused_and_the_client_may_choose_another)
{
	struct server *server = serve_two(TARGET, NULL);
	struct nbd_handle *client = negotiate(server);

	for (unsigned int i = 0; i < 2; i++) {
		ck_assert_int_eq(nbd_set_export_name(client, "three.img"), 0);
		client_refused(nbd_opt_info(client), ENOENT);
		client_refused(nbd_opt_go(client), ENOENT);
		ck_assert_int_eq(nbd_set_export_name(client, ""), 0);
		client_refused(nbd_opt_go(client), ENOENT);
	}
	ck_assert_int_eq(nbd_set_export_name(client, "one.img"), 0);
	ck_assert_msg(nbd_opt_go(client) == 0, "%s", nbd_get_error());
	client_expect(client, 0, SIZE / 2, PATTERN);
	client_close(client);
	server_stop(server);
}
END_TEST

START_TEST(only_export_is_the_default_one_and_tells_its_name)
{
	static const char *const names[] = {"one.img", NULL};
	struct server *server;
	struct nbd_handle *client;
	char *name;

	ck_assert_int_eq(mkdir(scratch_path("images"), 0755), 0);
	scratch_image("images/one.img", SIZE, PATTERN);
	server = server_start(
		TARGET, &(struct server_config){.dir = scratch_path("images"), .names = names});
	client = negotiate(server);
	ck_assert_msg(nbd_opt_go(client) == 0, "%s", nbd_get_error());
	name = nbd_get_canonical_export_name(client);
	ck_assert_msg(name != NULL, "%s", nbd_get_error());
	ck_assert_str_eq(name, "one.img");
	free(name);
	client_expect(client, 0, SIZE, PATTERN);
	client_close(client);
	server_stop(server);
}
END_TEST

START_TEST(contexts_are_listed_by_name_by_prefix_and_all)
{
	static const struct {
		const char *query; /* NULL: no query, which asks for all contexts */
		unsigned int found;
	} questions[] = {
		{NULL, 1},
		{"base:", 1},
		{"base:allocation", 1},
		{"base:alloc", 0},
		{"base:allocation2", 0},
		{"qemu:", 0},
	};
	struct server *server = serve_one(TARGET);
	struct nbd_handle *client = negotiate(server);
	struct names names;

	for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
		ck_assert_int_eq(nbd_clear_meta_contexts(client), 0);
		if (questions[i].query)
			ck_assert_int_eq(nbd_add_meta_context(client, questions[i].query), 0);
		list_contexts(client, &names);
		ck_assert_uint_eq(names.count, questions[i].found);
		if (names.count > 0)
			ck_assert_str_eq(names.name[0], LIBNBD_CONTEXT_BASE_ALLOCATION);
	}
	ck_assert_int_eq(nbd_opt_abort(client), 0);
	nbd_close(client);
	server_stop(server);
}
END_TEST

static int
expect_allocation(void *data, const char *context, uint64_t offset, uint32_t *entries, size_t count,
		  int *error)
{
	unsigned int *replies = data;

	(void)error;
	ck_assert_str_eq(context, LIBNBD_CONTEXT_BASE_ALLOCATION);
	ck_assert_uint_eq(offset, 0);
	ck_assert_uint_eq(count, 2);
	ck_assert_uint_eq(entries[0], SIZE);
	++*replies;
	return 0;
}

START_TEST(of_several_contexts_the_known_one_is_granted_and_answered_once)
{
	static const char *const contexts[] = {"qemu:dirty-bitmap:b0", "base:allocation",
					       "base:", "x-unknown:thing"};
	struct server *server = serve_one(TARGET);
	struct nbd_handle *client = negotiate(server);
	unsigned int replies = 0;

	for (size_t i = 0; i < sizeof(contexts) / sizeof(contexts[0]); i++)
		ck_assert_int_eq(nbd_add_meta_context(client, contexts[i]), 0);
	ck_assert_msg(nbd_opt_go(client) == 0, "%s", nbd_get_error());
	for (size_t i = 0; i < sizeof(contexts) / sizeof(contexts[0]); i++)
		ck_assert_int_eq(nbd_can_meta_context(client, contexts[i]), i == 1);
	client_done_at(__FILE__, __LINE__,
		       nbd_block_status(client, SIZE, 0,
					(nbd_extent_callback){.callback = expect_allocation,
							      .user_data = &replies},
					0));
	ck_assert_uint_eq(replies, 1);
	client_close(client);
	server_stop(server);
}
END_TEST

/* From a client that knows only names to a client of today. */
START_TEST(client_that_knows_less_is_served)
{
	static const uint32_t flags[] = {
		0,
		LIBNBD_HANDSHAKE_FLAG_NO_ZEROES,
		LIBNBD_HANDSHAKE_FLAG_FIXED_NEWSTYLE,
		LIBNBD_HANDSHAKE_FLAG_FIXED_NEWSTYLE | LIBNBD_HANDSHAKE_FLAG_NO_ZEROES,
	};
	struct server *server = serve_two(TARGET, NULL);

	/* Only the fixed handshake has an option for TLS. */
	for (unsigned int i = TARGET->tls ? 4 : 0; i < 8; i++) {
		struct nbd_handle *client = nbd_create();
		bool structured = i % 2;

		ck_assert_int_eq(nbd_set_handshake_flags(client, flags[i / 2]), 0);
		ck_assert_int_eq(nbd_set_request_structured_replies(client, structured), 0);
		ck_assert_int_eq(nbd_set_export_name(client, "two.img"), 0);
		ck_assert_msg(client_reach(client, server) == 0, "%s", nbd_get_error());
		/* libnbd can ask for structured replies only by an option of the fixed
		 * handshake. */
		ck_assert_int_eq(nbd_get_structured_replies_negotiated(client),
				 structured && i >= 4);
		client_send_anything(client);
		ck_assert_int_eq(nbd_can_df(client), structured && i >= 4);
		ck_assert_int_eq(nbd_get_size(client), SIZE);
		client_expect(client, 0, SIZE, PATTERN + 1);
		client_write(client, i * 1000, 1000, PATTERN, LIBNBD_CMD_FLAG_FUA);
		client_expect(client, i * 1000, 1000, PATTERN);
		client_write(client, i * 1000, 1000, PATTERN + 1, 0);
		client_close(client);
	}
	server_stop(server);
}
END_TEST

static void
add_tests(TCase *tests, int row)
{
	target_add_test(tests, one_of_the_listed_exports_is_chosen, row);
	target_add_test_of(
		TARGET_NBDLOOPD, tests,
		exports_are_listed_in_the_order_and_with_the_description_that_they_were_given, row);
	target_add_test_of(TARGET_NBDLOOPD, tests, list_off_names_no_export_and_serves_them, row);
	target_add_test(tests, information_is_what_who_chooses_the_export_is_told_then, row);
	target_add_test(tests, unknown_export_is_refused_and_the_client_may_choose_another, row);
	target_add_test(tests, only_export_is_the_default_one_and_tells_its_name, row);
	target_add_test(tests, contexts_are_listed_by_name_by_prefix_and_all, row);
	target_add_test(tests, of_several_contexts_the_known_one_is_granted_and_answered_once, row);
	target_add_test(tests, client_that_knows_less_is_served, row);
}

int
main(void)
{
	return target_main("handshake", add_tests, 0);
}
