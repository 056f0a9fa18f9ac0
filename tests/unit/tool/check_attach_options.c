/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The options of nbdloop attach, as the server and the kernel get them.
 */
#include "tool/attach/attach_plan.h"

#include "tool/failure.h"

#include "common/thread.h"
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

	g_ptr_array_add(plan.source.server_options, NULL);
	line = g_strjoinv(" ", (char **)plan.source.server_options->pdata);
	g_ptr_array_remove_index(plan.source.server_options, plan.source.server_options->len - 1);
	ck_assert_str_eq(line, wanted);
}

START_TEST(image_has_one_connection_and_no_timeout)
{
	make_plan(false);
	ck_assert_str_eq(plan.source.place, "/disk.img");
	ck_assert(!plan.source.remote);
	ck_assert_uint_eq(plan.source.connections, 1);
	ck_assert_str_eq(plan.source.direct_io, "auto");
	assert_words("--threads=1 --offset=0 --sizelimit=0 --engine=auto --poll=off");
	ck_assert(!plan.attachment.read_only && !plan.attachment.partscan);
	ck_assert_uint_eq(plan.attachment.block_size, 0);
	ck_assert_uint_eq(plan.attachment.timeout, 0);
	ck_assert_uint_eq(plan.source.silence, 0);
	ck_assert_uint_eq(plan.attachment.dead_timeout, 60);
}
END_TEST

/* With several connections Linux has no "never": it would take a connection for dead after its
 * first late answer. */
START_TEST(several_connections_have_a_timeout_and_threads)
{
	char *words =
		g_strdup_printf("--threads=%u --offset=0 --sizelimit=0 --engine=auto --poll=off",
				MIN(4, thread_processors()));

	set("connections", "4");
	make_plan(false);
	ck_assert_uint_eq(plan.source.connections, 4);
	ck_assert_uint_eq(plan.attachment.timeout, 30);
	assert_words(words);
	g_free(words);
}
END_TEST

START_TEST(connections_share_the_threads_of_all_processors)
{
	char *words =
		g_strdup_printf("--threads=%u --offset=0 --sizelimit=0 --engine=auto --poll=off",
				MIN(64, thread_processors()));

	set("connections", "64");
	make_plan(false);
	assert_words(words);
	g_free(words);
}
END_TEST

/* With a timeout, Linux would repeat the requests of a lost connection only when that is over. */
START_TEST(uri_has_one_connection_and_no_timeout)
{
	make_plan(true);
	ck_assert(plan.source.remote);
	ck_assert_uint_eq(plan.source.connections, 1);
	ck_assert_uint_eq(plan.attachment.timeout, 0);
	ck_assert_uint_eq(plan.source.silence, 30);
	guard_plan_fini(&plan);
	set("connections", "2");
	make_plan(true);
	ck_assert_uint_eq(plan.attachment.timeout, 30);
	ck_assert_uint_eq(plan.source.silence, 0);
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
	set("page-cache", "drop");
	set("threads", "2");
	set("direct-io", "on");
	set("force", "on");
	make_plan(false);
	assert_words(
		"--threads=2 --offset=1048576 --sizelimit=1536 --engine=aio --poll=auto --page-cache=drop --sector-size=4096 --read-only");
	ck_assert_str_eq(plan.source.direct_io, "on");
	ck_assert(plan.source.force);
	ck_assert(plan.attachment.read_only);
	ck_assert_uint_eq(plan.attachment.block_size, 4096);
}
END_TEST

static const struct {
	const char *name, *value;
} for_images[] = {
	{"offset", "512"},   {"sizelimit", "512"},   {"direct-io", "on"}, {"direct-io", "off"},
	{"nooverlap", "on"}, {"force", "on"},        {"threads", "2"},    {"engine", "aio"},
	{"poll", "on"},      {"page-cache", "keep"},
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

/* ---- images in Ceph */

static void
assert_ceph_refuses(const char *place, const char *reason)
{
	ck_assert(!attach_options_plan(&options, g_strdup(place), false, &plan, &error));
	ck_assert(failure_is(error, EINVAL));
	ck_assert_msg(g_str_has_prefix(error->message, reason), "%s", error->message);
	g_clear_error(&error);
	guard_plan_fini(&plan);
}

/* The server's directory is another one. */
START_TEST(servers_of_images_in_ceph_get_whole_paths)
{
	g_autofree char *here = g_get_current_dir();
	g_autofree char *words = g_strdup_printf(
		"--threads=1 --offset=0 --sizelimit=0 --engine=auto --poll=off --ceph-conf=/c "
		"--ceph-user=vm --ceph-keyring=%s/k --cluster-timeout=7",
		here);

	set("ceph-conf", "/c");
	set("ceph-user", "vm");
	set("ceph-keyring", "k");
	set("cluster-timeout", "7");
	ck_assert(attach_options_plan(&options, g_strdup("rbd:p/i"), false, &plan, &error));
	ck_assert_str_eq(plan.source.place, "rbd:p/i");
	assert_words(words);
}
END_TEST

/* The next server may have another environment. */
START_TEST(the_environments_configuration_of_ceph_is_kept)
{
	g_setenv("CEPH_CONF", "/of/the/environment", true);
	ck_assert(attach_options_plan(&options, g_strdup("rbd:p/i"), false, &plan, &error));
	assert_words("--threads=1 --offset=0 --sizelimit=0 --engine=auto --poll=off "
		     "--ceph-conf=/of/the/environment");
	g_unsetenv("CEPH_CONF");
}
END_TEST

START_TEST(what_does_not_suit_an_image_in_ceph_is_refused)
{
	set("swap", "on");
	assert_ceph_refuses("rbd:p/i", "--swap is not possible with rbd:p/i: ");
	set("swap", "off");
	set("nooverlap", "on");
	assert_ceph_refuses("rbd:p/i", "--nooverlap is not possible with rbd:p/i: ");
	set("nooverlap", "off");
	set("cluster-timeout", "1");
	assert_ceph_refuses("/disk.img", "--cluster-timeout is for images in Ceph ");
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
	ck_assert_uint_eq(plan.source.connections, 2);
}
END_TEST

/* ---- several servers */

static void
assert_plan_fails(const char *place, const char *reason)
{
	ck_assert(!attach_options_plan(&options, g_strdup(place), *place != '/', &plan, &error));
	ck_assert_msg(g_str_has_prefix(error->message, reason), "%s", error->message);
	g_clear_error(&error);
	guard_plan_fini(&plan);
}

START_TEST(several_servers_write_only_if_they_are_fenced)
{
	assert_plan_fails("nbd://a,b/x", "nbd://a,b/x: with several servers, a write that one of");
	assert_plan_fails("nbd://a,,b/x", "nbd://a,,b/x: a server's name is missing");
	set("read-only", "on");
	ck_assert(attach_options_plan(&options, g_strdup("nbd://a,b/x"), true, &plan, &error));
	guard_plan_fini(&plan);
	set("read-only", "off");
	set("fenced", "on");
	ck_assert(attach_options_plan(&options, g_strdup("nbd://a,b/x"), true, &plan, &error));
	ck_assert_str_eq(plan.source.place, "nbd://a,b/x");
	guard_plan_fini(&plan);
	assert_plan_fails("nbd://a/x", "--fenced is for a URI of several servers, as in");
	assert_plan_fails("/disk.img", "--fenced is for a URI of several servers, and /disk.img");
	assert_plan_fails("nbd://a,b:x/", "nbd://b:x/: ");
	plan = (struct guard_plan){.source.place = NULL};
}
END_TEST

/* ---- TLS */

static void
make_tls_plan(const char *uri)
{
	ck_assert_msg(attach_options_plan(&options, g_strdup(uri), true, &plan, &error), "%s",
		      error ? error->message : "?");
	ck_assert(plan.source.tls.wanted);
}

START_TEST(tls_options_and_uri_make_one_plan)
{
	g_autofree char *here = g_get_current_dir(), *path = g_build_filename(here, "k", NULL);

	set("tls-psk", "k");
	make_tls_plan("nbds://alice@two/x");
	ck_assert_str_eq(plan.source.place, "nbds://alice@two/x");
	ck_assert_str_eq(plan.source.tls.psk, path);
	ck_assert_str_eq(plan.source.tls.user, "alice");
	ck_assert_ptr_null(plan.source.tls.certificates);
}
END_TEST

START_TEST(certificate_must_have_the_name_that_is_given)
{
	make_tls_plan("nbds://two/x?tls-certificates=/pki");
	ck_assert_str_eq(plan.source.tls.certificates, "/pki");
	/* Each server of a URI has its own. */
	ck_assert_ptr_null(plan.source.tls.hostname);
	ck_assert(plan.source.tls.verify);
	guard_plan_fini(&plan);
	set("tls-hostname", "three");
	set("tls-verify-peer", "off");
	make_tls_plan("nbds://two/x");
	ck_assert_str_eq(plan.source.tls.hostname, "three");
	ck_assert(!plan.source.tls.verify);
}
END_TEST

START_TEST(proxy_encrypts_if_it_is_wanted)
{
	make_tls_plan("nbds://two/x");
	ck_assert(!plan.source.tls.proxy);
	guard_plan_fini(&plan);
	set("tls", "kernel");
	make_tls_plan("nbds://two/x");
	ck_assert(!plan.source.tls.proxy);
	guard_plan_fini(&plan);
	set("tls", "proxy");
	make_tls_plan("nbds+unix:///x?socket=/s");
	ck_assert(plan.source.tls.proxy);
}
END_TEST

START_TEST(proxy_is_not_for_swap_space)
{
	set("tls", "proxy");
	set("swap", "on");
	ck_assert(!attach_options_plan(&options, g_strdup("nbds://two/"), true, &plan, &error));
	ck_assert_msg(g_str_has_prefix(error->message, "--swap needs TLS by the kernel"), "%s",
		      error->message);
}
END_TEST

static const struct {
	const char *name, *value, *place, *reason;
} wrong_tls[] = {
	{"tls", "proxy", "nbd://two/", "--tls is for nbds:// URIs"},
	{"tls", "kernel", "nbd://two/", "--tls is for nbds:// URIs"},
	{"tls", "proxy", "/disk.img", "--tls is for nbds:// URIs, and /disk.img"},
	{"tls", "off", "nbds://two/", "--tls=off: must be kernel or proxy"},
	{"tls", "kernel", "nbds+unix:///?socket=/s", "the kernel has TLS for TCP only"},
	{"tls-verify-peer", "off", "nbds+unix:///?socket=/s", "the kernel has TLS for TCP only"},
	{"tls-psk", "/k", "nbd://two/", "--tls-psk is for nbds:// URIs"},
	{"tls-verify-peer", "off", "nbd://two/", "--tls-verify-peer is for nbds:// URIs"},
	{"tls-hostname", "two", "/disk.img", "--tls-hostname is for nbds:// URIs, and /disk.img"},
	{"tls-psk", "/k", "nbds://two/?tls-psk-file=/k", "--tls-psk was given, and the URI"},
	{"tls-psk", "/k", "nbds://two/?tls-certificates=/p", "--tls-certificates is for certi"},
	{"tls-hostname", "x", "nbds://two/?tls-psk-file=/k", "--tls-hostname is for certificates"},
	{"tls-certificates", "/p", "nbds://me@two/", "the URI names a user, me, who needs a key"},
};

START_TEST(tls_option_without_a_meaning_is_refused)
{
	set(wrong_tls[_i].name, wrong_tls[_i].value);
	ck_assert(!attach_options_plan(&options, g_strdup(wrong_tls[_i].place),
				       *wrong_tls[_i].place != '/', &plan, &error));
	ck_assert_msg(g_str_has_prefix(error->message, wrong_tls[_i].reason), "%s", error->message);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "meaning", .begin = begin, .end = end},
		{.test = image_has_one_connection_and_no_timeout},
		{.test = several_connections_have_a_timeout_and_threads},
		{.test = connections_share_the_threads_of_all_processors},
		{.test = uri_has_one_connection_and_no_timeout},
		{.test = timeouts_are_taken_as_given},
		{.test = what_the_server_must_know_is_told},
		{.test = server_of_swap_space_locks_little_memory},
		{.test = what_a_remote_server_can_not_be_told_is_refused,
		 .last = G_N_ELEMENTS(for_images)},
		{.test = servers_of_images_in_ceph_get_whole_paths},
		{.test = the_environments_configuration_of_ceph_is_kept},
		{.test = what_does_not_suit_an_image_in_ceph_is_refused},
		{.test = what_the_kernel_does_is_for_remote_servers_too},
		{.test = several_servers_write_only_if_they_are_fenced},
		{.test = tls_options_and_uri_make_one_plan},
		{.test = certificate_must_have_the_name_that_is_given},
		{.test = proxy_encrypts_if_it_is_wanted},
		{.test = proxy_is_not_for_swap_space},
		{.test = tls_option_without_a_meaning_is_refused, .last = G_N_ELEMENTS(wrong_tls)},
		{0},
	};

	/* GLib only warns about a wrong call; make that a failure. */
	g_log_set_always_fatal(G_LOG_LEVEL_CRITICAL);
	return suite_run("attach_options", cases);
}
