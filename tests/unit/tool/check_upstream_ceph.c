/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a guard learns of its servers of an image in Ceph, so that the next one takes the place of
 * the last one.
 */
#include "tool/guard/upstream_ceph.h"

#include "tool/guard/upstream.h"

#include "common/log.h"
#include "control/control_socket.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct upstream_plan plan;
static struct upstream upstream;

static void
begin(void)
{
	plan = (struct upstream_plan){.place = (char *)"rbd:p/i", .connections = 1};
	upstream_init(&upstream, &plan, g_strdup("/nowhere/sock"));
	upstream.ceph_fence = g_strdup("1.2.3.4:0/1");
}

static void
end(void)
{
	upstream_fini(&upstream);
}

START_TEST(lock_may_be_free_after_a_server_has_given_it_back)
{
	static const char line[] = "rbd:p/i: gave the image's lock back";

	upstream_ceph_take_line(&upstream, LOG_LEVEL_INFO, line);
	ck_assert_str_eq(upstream.ceph_fence, "1.2.3.4:0/1+free");
	upstream_ceph_take_line(&upstream, LOG_LEVEL_INFO, line);
	ck_assert_str_eq(upstream.ceph_fence, "1.2.3.4:0/1+free");
	g_clear_pointer(&upstream.ceph_fence, g_free);
	upstream_ceph_take_line(&upstream, LOG_LEVEL_INFO, line);
	ck_assert_ptr_null(upstream.ceph_fence);
}
END_TEST

/* The next one comes after it, even if it never serves. */
START_TEST(server_that_took_the_place_of_the_last_one_is_known)
{
	static const char words[] =
		"rbd:p/i: in place of 1.2.3.4:0/1, this server is the client 1.2.3.4:0/2";

	upstream_ceph_take_line(&upstream, LOG_LEVEL_WARNING,
				"rbd:p/i: fenced the client 1.2.3.4:0/1, which had the image's "
				"lock before (ceph-fence)");
	ck_assert_str_eq(upstream.ceph_fence, "1.2.3.4:0/1");
	upstream_ceph_take_line(&upstream, LOG_LEVEL_ERROR, words);
	ck_assert_str_eq(upstream.ceph_fence, "1.2.3.4:0/1");
	upstream_ceph_take_line(&upstream, LOG_LEVEL_INFO, words);
	ck_assert_str_eq(upstream.ceph_fence, "1.2.3.4:0/2");
	ck_assert(!upstream.fenced);
}
END_TEST

static const struct {
	int level;
	const char *line;
	bool lost;
} lines[] = {
	{LOG_LEVEL_ERROR, "rbd:p/i: another client has fenced this server and may write", true},
	{LOG_LEVEL_ERROR, "rbd:p/i: this server has lost the image's lock, because another", true},
	{LOG_LEVEL_ERROR, "rbd:p/i: another client has had the image since 1.2.3.4:0/1, whose",
	 true},
	{LOG_LEVEL_WARNING, "rbd:p/i: another client has had the image since 1.2.3.4:0/1", false},
	{LOG_LEVEL_ERROR, "rbd:p/i: the client 1.2.3.4:0/2 has the image's lock; end it", false},
};

START_TEST(image_that_others_had_is_lost)
{
	upstream_ceph_take_line(&upstream, lines[_i].level, lines[_i].line);
	ck_assert_int_eq(upstream.fenced, lines[_i].lost);
}
END_TEST

/* It doesn't answer, and what was known stays. */
START_TEST(client_of_a_silent_server_is_an_error)
{
	g_autoptr(GError) error = NULL;

	ck_assert(!upstream_ceph_ask(&upstream, &error));
	ck_assert_str_eq(upstream.ceph_fence, "1.2.3.4:0/1");
}
END_TEST

/* ---- a server that answers */

#define CEPH(members_) "{\"exports\": [{\"ceph\": {" members_ "}}]}"

static const struct {
	const char *status, *client; /* client: afterwards */
	bool known, fenced;
} answers[] = {
	{CEPH("\"lock_owner\": true, \"lock_address\": \"1.2.3.4:0/2\""), "1.2.3.4:0/2", true,
	 false},
	/* A reader, or one that was fenced: the last owner is as it was. */
	{CEPH("\"lock_owner\": false, \"lock_address\": null"), "1.2.3.4:0/1", true, false},
	{CEPH("\"lock_owner\": false, \"fenced\": true"), "1.2.3.4:0/1", true, true},
	{CEPH("\"lock_owner\": true, \"lock_address\": null"), "1.2.3.4:0/1", false, false},
	{"{\"exports\": []}", "1.2.3.4:0/1", false, false},
};

static void
answer(const struct control_request *request, FILE *out, void *data)
{
	(void)request;
	fputs(data, out);
}

START_TEST(server_tells_its_client)
{
	char directory[] = "/tmp/check-upstream-ceph-XXXXXX", *error = NULL;
	struct control_socket *control;
	g_autoptr(GError) why = NULL;

	ck_assert_ptr_nonnull(mkdtemp(directory));
	g_free(upstream.control);
	upstream.control = g_build_filename(directory, "control", NULL);
	ck_assert_int_eq(control_socket_new(upstream.control, answer, (char *)answers[_i].status,
					    &control, &error),
			 0);
	ck_assert_int_eq(control_socket_start(control), 0);
	ck_assert_int_eq(upstream_ceph_ask(&upstream, &why), answers[_i].known);
	ck_assert_int_eq(!why, answers[_i].known);
	ck_assert_str_eq(upstream.ceph_fence, answers[_i].client);
	ck_assert_int_eq(upstream.fenced, answers[_i].fenced);
	control_socket_free(control);
	ck_assert_int_eq(rmdir(directory), 0);
}
END_TEST

/* Nor is any of these asked for its client of Ceph. */
START_TEST(others_take_no_place)
{
	ck_assert(upstream_ceph_follows(&upstream));
	plan.force = true;
	ck_assert(!upstream_ceph_follows(&upstream));
	ck_assert(upstream_ceph_ask(&upstream, NULL));
	plan.force = false;
	g_free(upstream.place);
	upstream.place = g_strdup("/disk.img");
	ck_assert(!upstream_ceph_follows(&upstream));
	ck_assert(upstream_ceph_ask(&upstream, NULL));
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "client of Ceph", .begin = begin, .end = end},
		{.test = lock_may_be_free_after_a_server_has_given_it_back},
		{.test = server_that_took_the_place_of_the_last_one_is_known},
		{.test = image_that_others_had_is_lost, .last = G_N_ELEMENTS(lines)},
		{.test = client_of_a_silent_server_is_an_error},
		{.test = server_tells_its_client, .last = G_N_ELEMENTS(answers)},
		{.test = others_take_no_place},
		{0},
	};

	return suite_run("upstream_ceph", cases);
}
