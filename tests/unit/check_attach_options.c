/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the options of nbdloop attach mean for the server and for the kernel.
 */
#include "tool/table/attach_options.h"

#include "tool/failure.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct attach_options options;
static struct guard_plan plan;
static GError *error;

static void
begin(void)
{
	ck_assert_int_eq(options_init(attach_option_rows, &options), 0);
}

static void
end(void)
{
	guard_plan_fini(&plan);
	options_free(attach_option_rows, &options);
	g_clear_error(&error);
}

static void
set(const char *name, const char *value)
{
	char *why = NULL;

	ck_assert_msg(option_set(attach_option_rows, &options, name, value, &why) == 0, "%s",
		      why ? why : "?");
}

static void
make_plan(bool remote)
{
	ck_assert_msg(attach_options_plan(&options, g_strdup(remote ? "nbd://host" : "/disk.img"),
					  remote, &plan, &error),
		      "%s", error ? error->message : "?");
}

/* The words for the server, in one line. */
static void
assert_words(const char *wanted)
{
	g_autofree char *line = NULL;

	g_ptr_array_add(plan.upstream.server_options, NULL);
	line = g_strjoinv(" ", (char **)plan.upstream.server_options->pdata);
	g_ptr_array_remove_index(plan.upstream.server_options,
				 plan.upstream.server_options->len - 1);
	ck_assert_str_eq(line, wanted);
}

START_TEST(image_has_one_connection_and_no_timeout)
{
	make_plan(false);
	ck_assert_str_eq(plan.upstream.place, "/disk.img");
	ck_assert(!plan.upstream.remote);
	ck_assert_uint_eq(plan.upstream.connections, 1);
	ck_assert_str_eq(plan.upstream.direct_io, "auto");
	assert_words("--threads=1 --offset=0 --sizelimit=0 --engine=auto --poll=off");
	ck_assert(!plan.attachment.read_only && !plan.attachment.partscan);
	ck_assert_uint_eq(plan.attachment.block_size, 0);
	ck_assert_uint_eq(plan.attachment.timeout, 0);
	ck_assert_uint_eq(plan.attachment.dead_timeout, 60);
}
END_TEST

/* Linux has no "never" for several: it would take the first answer that is late for a dead
 * connection. */
START_TEST(several_connections_have_a_timeout_and_threads)
{
	set("connections", "4");
	make_plan(false);
	ck_assert_uint_eq(plan.upstream.connections, 4);
	ck_assert_uint_eq(plan.attachment.timeout, 30);
	assert_words("--threads=4 --offset=0 --sizelimit=0 --engine=auto --poll=off");
}
END_TEST

START_TEST(remote_server_has_a_timeout)
{
	make_plan(true);
	ck_assert(plan.upstream.remote);
	ck_assert_uint_eq(plan.attachment.timeout, 30);
}
END_TEST

START_TEST(timeouts_are_taken_as_given)
{
	set("timeout", "7");
	set("dead-timeout", "8");
	set("connections", "2");
	make_plan(false);
	ck_assert_uint_eq(plan.attachment.timeout, 7);
	ck_assert_uint_eq(plan.attachment.dead_timeout, 8);
}
END_TEST

START_TEST(what_the_server_must_know_is_told)
{
	set("offset", "1M");
	set("sizelimit", "3s");
	set("sector-size", "4096");
	set("read-only", "on");
	set("engine", "aio");
	set("poll", "auto");
	set("threads", "2");
	set("direct-io", "on");
	set("force", "on");
	make_plan(false);
	assert_words(
		"--threads=2 --offset=1048576 --sizelimit=1536 --engine=aio --poll=auto --sector-size=4096 --read-only");
	ck_assert_str_eq(plan.upstream.direct_io, "on");
	ck_assert(plan.upstream.force);
	ck_assert(plan.attachment.read_only);
	ck_assert_uint_eq(plan.attachment.block_size, 4096);
}
END_TEST

static const struct {
	const char *name, *value;
} for_images[] = {
	{"offset", "512"},    {"sizelimit", "512"}, {"direct-io", "on"},
	{"direct-io", "off"}, {"nooverlap", "on"},  {"force", "on"},
	{"threads", "2"},     {"engine", "aio"},    {"poll", "on"},
};

/* With its own default, nbdloopd would lock several times as much. */
START_TEST(server_of_swap_space_locks_little_memory)
{
	set("swap", "on");
	make_plan(false);
	assert_words(
		"--threads=1 --offset=0 --sizelimit=0 --engine=auto --poll=off --swap --memory=32M");
	guard_plan_fini(&plan);
	set("server", "nbdkit");
	make_plan(false);
	assert_words("--offset=0 --sizelimit=0 --engine=auto --poll=off --swap");
}
END_TEST

START_TEST(what_a_remote_server_can_not_be_told_is_refused)
{
	g_autofree char *option = g_strconcat("--", for_images[_i].name, " is for images", NULL);

	set(for_images[_i].name, for_images[_i].value);
	ck_assert(!attach_options_plan(&options, g_strdup("nbd://host"), true, &plan, &error));
	ck_assert(failure_is(error, EINVAL));
	ck_assert_msg(g_str_has_prefix(error->message, option), "%s", error->message);
}
END_TEST

START_TEST(what_the_kernel_does_is_for_remote_servers_too)
{
	set("read-only", "on");
	set("partscan", "on");
	set("sector-size", "1024");
	set("connections", "2");
	make_plan(true);
	ck_assert(plan.attachment.read_only && plan.attachment.partscan);
	ck_assert_uint_eq(plan.attachment.block_size, 1024);
	ck_assert_uint_eq(plan.upstream.connections, 2);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "meaning", .begin = begin, .end = end},
		{.test = image_has_one_connection_and_no_timeout},
		{.test = several_connections_have_a_timeout_and_threads},
		{.test = remote_server_has_a_timeout},
		{.test = timeouts_are_taken_as_given},
		{.test = what_the_server_must_know_is_told},
		{.test = server_of_swap_space_locks_little_memory},
		{.test = what_a_remote_server_can_not_be_told_is_refused,
		 .last = G_N_ELEMENTS(for_images)},
		{.test = what_the_kernel_does_is_for_remote_servers_too},
		{0},
	};

	/* A wrong call of a library's function is a failure, too. */
	g_log_set_always_fatal(G_LOG_LEVEL_CRITICAL);
	return suite_run("attach_options", cases);
}
