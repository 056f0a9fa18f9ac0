/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The images of a directory are exports, and nothing else is: no name and no link leads out of the
 * directory. With dir=, all of its regular files are exports; nbdloopd gets each as an option.
 */
#include "tests/nbd/client.h"
#include "tests/nbd/crew.h"
#include "tests/nbd/neighbours.h"
#include "tests/nbd/rng.h"
#include "tests/nbd/scratch.h"
#include "tests/nbd/target.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define NAMES        32
#define FOREIGN_NAME "gr\xc3\xb6n.img"

struct list {
	char names[NAMES][300];
	unsigned int count;
};

static int
take_name(void *data, const char *name, const char *description)
{
	struct list *list = data;

	(void)description;
	if (list->count < NAMES)
		snprintf(list->names[list->count++], sizeof(list->names[0]), "%s", name);
	return 0;
}

static void
list_exports(const struct server *server, struct list *list)
{
	struct nbd_handle *client = nbd_create();

	list->count = 0;
	ck_assert_int_eq(nbd_set_opt_mode(client, true), 0);
	ck_assert_msg(client_reach(client, server) == 0, "%s", nbd_get_error());
	ck_assert_msg(nbd_opt_list(client, (nbd_list_callback){.callback = take_name,
							       .user_data = list}) >= 0,
		      "%s", nbd_get_error());
	nbd_opt_abort(client);
	nbd_close(client);
}

static bool
listed(const struct list *list, const char *name)
{
	for (unsigned int i = 0; i < list->count; i++)
		if (strcmp(list->names[i], name) == 0)
			return true;
	return false;
}

/* "images/name" in the scratch directory; scratch_path() owns it. */
static const char *
in_images(const char *name)
{
	char path[512];

	snprintf(path, sizeof(path), "images/%s", name);
	return scratch_path(path);
}

static struct server *
serve_images(const struct target *target)
{
	static const char *const names[] = {"one.img", "two words.img", FOREIGN_NAME, NULL};

	return server_start(target,
			    &(struct server_config){.dir = scratch_path("images"), .names = names});
}

static void
make_images(void)
{
	ck_assert_int_eq(mkdir(scratch_path("images"), 0755), 0);
	scratch_image("images/one.img", MIB, 1);
	scratch_image("images/two words.img", 2 * MIB, 2);
	scratch_image("images/" FOREIGN_NAME, 3 * MIB, 3);
}

/* Every entry of a directory that is not a regular file in it. */
static void
make_traps(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	scratch_image("outside.img", MIB, 4);
	ck_assert_int_eq(symlink(scratch_path("outside.img"), in_images("absolute")), 0);
	ck_assert_int_eq(symlink("../outside.img", in_images("relative")), 0);
	ck_assert_int_eq(symlink("..", in_images("up")), 0);
	ck_assert_int_eq(symlink("nowhere", in_images("dangling")), 0);
	ck_assert_int_eq(symlink("/dev/null", in_images("null")), 0);
	ck_assert_int_eq(mkfifo(in_images("fifo"), 0666), 0);
	ck_assert_int_eq(mkdir(in_images("sub"), 0755), 0);
	scratch_image("images/sub/inner.img", MIB, 5);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", in_images("socket"));
	ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	close(listener);
}

START_TEST(exports_are_the_regular_files_of_the_directory)
{
	struct server *server;
	struct list list;

	make_images();
	make_traps();
	server = serve_images(TARGET);
	list_exports(server, &list);
	ck_assert(listed(&list, "one.img"));
	ck_assert(listed(&list, "two words.img"));
	ck_assert(listed(&list, FOREIGN_NAME));
	ck_assert_uint_eq(list.count, 3);
	server_stop(server);
}
END_TEST

START_TEST(each_export_has_the_size_and_content_of_its_file)
{
	struct server *server;
	struct nbd_handle *one, *two, *three;

	make_images();
	server = serve_images(TARGET);
	one = client_connect(server, "one.img");
	two = client_connect(server, "two words.img");
	three = client_connect(server, FOREIGN_NAME);
	ck_assert_int_eq(nbd_get_size(one), MIB);
	ck_assert_int_eq(nbd_get_size(two), 2 * MIB);
	ck_assert_int_eq(nbd_get_size(three), 3 * MIB);
	client_expect(one, 0, MIB, 1);
	client_expect(two, 0, 2 * MIB, 2);
	client_expect(three, 0, 3 * MIB, 3);
	client_write(two, 100, MIB, 7, LIBNBD_CMD_FLAG_FUA);
	client_expect(one, 0, MIB, 1);
	client_expect(three, 0, 3 * MIB, 3);
	client_close(one);
	client_close(two);
	client_close(three);
	server_stop(server);
	scratch_expect(in_images("two words.img"), 100, MIB, 7);
	scratch_expect(in_images("two words.img"), MIB + 100, MIB - 100, 2);
}
END_TEST

START_TEST(hostile_name_is_refused_and_the_server_lives)
{
	static const char *const names[] = {
		"",
		".",
		"..",
		"/",
		"missing",
		"../outside.img",
		"../images/one.img",
		"./one.img",
		"one.img/",
		"one.img/.",
		"sub",
		"sub/inner.img",
		"/etc/passwd",
		"absolute",
		"relative",
		"up",
		"up/outside.img",
		"up/images/one.img",
		"dangling",
		"null",
		"fifo",
		"socket",
		"%s%n%s",
		"\x01\x1b[31m",
	};
	static char long_name[4096 + 1]; /* the longest name that the protocol allows */
	struct server *server;
	struct nbd_handle *client;

	make_images();
	make_traps();
	server = serve_images(TARGET);
	memset(long_name, 'a', sizeof(long_name) - 1);
	ck_assert_ptr_null(client_try_connect(server, long_name));
	memset(long_name, '/', sizeof(long_name) - 1);
	ck_assert_ptr_null(client_try_connect(server, long_name));
	snprintf(long_name, sizeof(long_name), "%s", scratch_path("outside.img"));
	ck_assert_ptr_null(client_try_connect(server, long_name));
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		client = client_try_connect(server, names[i]);
		ck_assert_msg(client == NULL, "export \"%s\" was opened", names[i]);
	}
	client = client_connect(server, "one.img");
	client_expect(client, 0, MIB, 1);
	client_close(client);
	server_stop(server);
	scratch_expect(scratch_path("outside.img"), 0, MIB, 4);
}
END_TEST

START_TEST(image_that_appears_or_goes_later_is_seen_by_the_next_client)
{
	struct server *server;
	struct nbd_handle *client;
	struct list list;

	make_images();
	server = serve_images(TARGET);
	client = client_connect(server, "one.img");
	client_close(client);

	scratch_image("images/late.img", MIB, 8);
	client = client_connect(server, "late.img");
	client_expect(client, 0, MIB, 8);
	client_close(client);

	scratch_image("new.img", 2 * MIB, 9);
	ck_assert_int_eq(rename(scratch_path("new.img"), in_images("one.img")), 0);
	client = client_connect(server, "one.img");
	ck_assert_int_eq(nbd_get_size(client), 2 * MIB);
	client_expect(client, 0, 2 * MIB, 9);
	client_close(client);

	ck_assert_int_eq(unlink(in_images("late.img")), 0);
	ck_assert_ptr_null(client_try_connect(server, "late.img"));
	list_exports(server, &list);
	ck_assert(!listed(&list, "late.img"));
	server_stop(server);
}
END_TEST

START_TEST(image_unlinked_under_its_client_goes_on_for_that_client)
{
	struct server *server;
	struct nbd_handle *client;

	make_images();
	server = serve_images(TARGET);
	client = client_connect(server, "one.img");
	ck_assert_int_eq(unlink(in_images("one.img")), 0);
	client_expect(client, 0, MIB, 1);
	client_write(client, 100, 1000, 7, 0);
	client_expect(client, 100, 1000, 7);
	client_close(client);
	server_stop(server);
}
END_TEST

START_TEST(writers_through_two_names_of_one_file_keep_their_bytes)
{
	static const char *const names[] = {"one.img", "same.img", NULL};
	struct neighbours neighbours = {
		.names = names,
		.name_count = 2,
		.offset = 64 * 512,
		.length = 64,
		.connections = 8,
		.rounds = crew_rounds(500),
		.seed = rng_seed(),
	};
	struct server *server;

	make_images();
	ck_assert_int_eq(link(in_images("one.img"), in_images("same.img")), 0);
	server = server_start(TARGET, &(struct server_config){.dir = scratch_path("images"),
							      .names = names,
							      .parameters = {"lock=shared"}});
	neighbours.server = server;
	neighbours_write(&neighbours);
	server_stop(server);
	scratch_expect(in_images("same.img"), 0, 64 * 512, 1);
	scratch_expect(in_images("same.img"), 65 * 512, MIB - 65 * 512, 1);
}
END_TEST

static void
expect_description(const struct server *server, const char *name)
{
	struct nbd_handle *client = nbd_create();
	char *description;

	ck_assert_int_eq(nbd_set_full_info(client, true), 0);
	ck_assert_int_eq(nbd_set_export_name(client, name), 0);
	ck_assert_msg(client_reach(client, server) == 0, "%s", nbd_get_error());
	description = nbd_get_export_description(client);
	ck_assert_msg(description != NULL, "%s", nbd_get_error());
	ck_assert_uint_ge(strlen(description), 1);
	free(description);
	client_close(client);
}

START_TEST(export_has_a_description)
{
	struct server *server;

	make_images();
	server = serve_images(TARGET);
	expect_description(server, "one.img");
	expect_description(server, "two words.img");
	server_stop(server);
	server = server_start(TARGET, &(struct server_config){.file = in_images("one.img")});
	expect_description(server, "");
	server_stop(server);
}
END_TEST

static void
add_tests(TCase *tests, int row)
{
	target_add_test(tests, exports_are_the_regular_files_of_the_directory, row);
	target_add_test(tests, each_export_has_the_size_and_content_of_its_file, row);
	target_add_test(tests, hostile_name_is_refused_and_the_server_lives, row);
	target_add_test_of(TARGET_PLUGIN, tests,
			   image_that_appears_or_goes_later_is_seen_by_the_next_client, row);
	target_add_test(tests, image_unlinked_under_its_client_goes_on_for_that_client, row);
	target_add_test(tests, writers_through_two_names_of_one_file_keep_their_bytes, row);
	target_add_test_of(TARGET_PLUGIN, tests, export_has_a_description, row);
}

int
main(void)
{
	return target_main("exports", add_tests, 0);
}
