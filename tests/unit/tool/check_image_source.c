/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a guard learns of its servers of an image in Ceph, so that the next one takes the place of
 * the last one.
 */
#include "tool/source/source_ceph.h"

#include "tool/source/source.h"

#include "common/event.h"
#include "control/control_socket.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct source_plan plan;
static struct source source;
static struct image_source *image;

static int writer; /* of events */

static void
begin(void)
{
	int ends[2];

	plan = (struct source_plan){.place = (char *)"rbd:p/i", .connections = 1};
	source_init(&source, &plan, g_strdup("/nowhere/sock"), NULL);
	image = source.state;
	image->ceph_fence = g_strdup("1.2.3.4:0/1");
	ck_assert_int_eq(pipe2(ends, O_NONBLOCK), 0);
	ck_assert_int_eq(event_open((unsigned int)ends[1], NULL), 0);
	writer = ends[1];
	image->server.events = (struct server_lines){ends[0], g_string_new(NULL)};
	image->server.output.unread = g_string_new(NULL);
}

static void
end(void)
{
	source_fini(&source);
	event_close();
}

/* As the server writes it, and the guard reads it. */
static void
tell(const struct event *event)
{
	event_raise(event);
	source_pass_output(&source);
}

START_TEST(lock_may_be_free_after_a_server_has_given_it_back)
{
	static const struct event event = {.kind = EVENT_LOCK_RELEASED, .subject = "rbd:p/i"};

	tell(&event);
	ck_assert_str_eq(image->ceph_fence, "1.2.3.4:0/1+free");
	tell(&event);
	ck_assert_str_eq(image->ceph_fence, "1.2.3.4:0/1+free");
	g_clear_pointer(&image->ceph_fence, g_free);
	tell(&event);
	ck_assert_ptr_null(image->ceph_fence);
}
END_TEST

/* The next one comes after it, even if it never serves. */
START_TEST(server_that_took_the_lock_is_known)
{
	tell(&(struct event){
		.kind = EVENT_LOCK_TAKEN, .subject = "rbd:p/i", .client = "1.2.3.4:0/2"});
	ck_assert_str_eq(image->ceph_fence, "1.2.3.4:0/2");
	ck_assert(!image->nameless);
	tell(&(struct event){.kind = EVENT_LOCK_TAKEN, .subject = "rbd:p/i"});
	ck_assert_str_eq(image->ceph_fence, "1.2.3.4:0/2");
	ck_assert(image->nameless);
	image->nameless = false;
	tell(&(struct event){.kind = EVENT_LOCK_TAKEN, .subject = "rbd:p/i", .client = ""});
	ck_assert_str_eq(image->ceph_fence, "1.2.3.4:0/2");
	ck_assert(image->nameless);
	ck_assert(!image->fenced);
}
END_TEST

START_TEST(fenced_source_stays_fenced)
{
	tell(&(struct event){.kind = EVENT_FENCED, .subject = "rbd:p/i"});
	tell(&(struct event){.kind = EVENT_READY});
	ck_assert(image->fenced);
}
END_TEST

static const struct {
	struct event event;
	bool ready, fenced, locked;
} told[] = {
	{{.kind = EVENT_READY, .addresses = (const char *const[]){"[::]:10809", NULL}},
	 .ready = true},
	{{.kind = EVENT_FENCED, .subject = "rbd:p/i", .text = "it may write"}, .fenced = true},
	{{.kind = EVENT_REFUSED, .subject = "/disk", .error = EAGAIN, .text = "\"in\nuse\""},
	 .locked = true},
	{{.kind = EVENT_REFUSED, .subject = "rbd:p/i", .error = ESTALE}, .ready = false},
	{{.kind = EVENT_REFUSED}, .ready = false},
	{{.kind = EVENT_ENDING}, .ready = false},
};

START_TEST(each_event_tells_what_it_means)
{
	tell(&told[_i].event);
	ck_assert_int_eq(image->ready, told[_i].ready);
	ck_assert_int_eq(image->fenced, told[_i].fenced);
	ck_assert_int_eq(image->locked, told[_i].locked);
	ck_assert_str_eq(image->ceph_fence, "1.2.3.4:0/1");
	ck_assert_int_ge(image->server.events.fd, 0);
}
END_TEST

static const struct {
	const char *text;
	bool goes_on;
} lines[] = {
	{"{\"event\":\"of a newer server\"}\n", true},
	{"{\"event\":\"rea", true},
	{"\n", false},
	{"{}\n", false},
	{"{}\n{\"event\":\"ready\"}\n", false},
	{"{\"event\":1}\n", false},
	{"[\"event\"]\n", false},
};

/* After what is no event, others may be missing. */
START_TEST(nothing_is_read_after_what_is_no_event)
{
	ck_assert_int_gt(dprintf(writer, "%s", lines[_i].text), 0);
	source_pass_output(&source);
	ck_assert_int_eq(image->server.events.fd >= 0, lines[_i].goes_on);
	ck_assert(!image->ready);
	event_close();
	source_pass_output(&source);
	ck_assert_int_lt(image->server.events.fd, 0);
	ck_assert(!image->ready && !image->fenced);
	ck_assert_str_eq(image->ceph_fence, "1.2.3.4:0/1");
}
END_TEST

/* It doesn't answer, and what was known stays. */
START_TEST(client_of_a_silent_server_is_an_error)
{
	g_autoptr(GError) error = NULL;

	ck_assert(!source_ceph_ask(&source, &error));
	ck_assert_str_eq(image->ceph_fence, "1.2.3.4:0/1");
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
	{CEPH("\"lock_owner\": false, \"lock_address\": \"1.2.3.4:0/3\""), "1.2.3.4:0/1", true,
	 false},
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
	char directory[] = "/tmp/check-source-ceph-XXXXXX", *error = NULL;
	struct control_socket *control;
	g_autoptr(GError) why = NULL;

	ck_assert_ptr_nonnull(mkdtemp(directory));
	g_free(source.control);
	source.control = g_build_filename(directory, "control", NULL);
	ck_assert_int_eq(control_socket_new(source.control, answer, (char *)answers[_i].status,
					    &control, &error),
			 0);
	ck_assert_int_eq(control_socket_start(control), 0);
	ck_assert_int_eq(source_ceph_ask(&source, &why), answers[_i].known);
	ck_assert_int_eq(!why, answers[_i].known);
	ck_assert_str_eq(image->ceph_fence, answers[_i].client);
	ck_assert_int_eq(image->fenced, answers[_i].fenced);
	image->fenced = true;
	source_ceph_ask(&source, NULL);
	ck_assert(image->fenced);
	control_socket_free(control);
	ck_assert_int_eq(rmdir(directory), 0);
}
END_TEST

/* Nor is any of these asked for its client of Ceph. */
START_TEST(others_take_no_place)
{
	static const struct event event = {
		.kind = EVENT_LOCK_TAKEN, .subject = "rbd:p/i", .client = "1.2.3.4:0/9"};

	ck_assert(source_ceph_follows(&source));
	plan.force = true;
	ck_assert(!source_ceph_follows(&source));
	ck_assert(source_ceph_ask(&source, NULL));
	tell(&event);
	ck_assert_str_eq(image->ceph_fence, "1.2.3.4:0/1");
	plan.force = false;
	g_free(source.place);
	source.place = g_strdup("/disk.img");
	ck_assert(!source_ceph_follows(&source));
	ck_assert(source_ceph_ask(&source, NULL));
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "client of Ceph", .begin = begin, .end = end},
		{.test = lock_may_be_free_after_a_server_has_given_it_back},
		{.test = server_that_took_the_lock_is_known},
		{.test = fenced_source_stays_fenced},
		{.test = each_event_tells_what_it_means, .last = G_N_ELEMENTS(told)},
		{.test = nothing_is_read_after_what_is_no_event, .last = G_N_ELEMENTS(lines)},
		{.test = client_of_a_silent_server_is_an_error},
		{.test = server_tells_its_client, .last = G_N_ELEMENTS(answers)},
		{.test = others_take_no_place},
		{0},
	};

	return suite_run("image_source", cases);
}
