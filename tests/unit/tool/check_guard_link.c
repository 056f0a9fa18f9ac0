/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests to a device's guard over its socket.
 */
#include "tool/guard/guard_link.h"

#include "tests/lib/suite.h"
#include "tests/unit/control_fixture.h"

#include "tool/failure.h"

#include "common/log.h"

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static GError *error;
static struct guard_link made;

/* A client in a thread of its own: both ends wait for each other. */
struct client {
	pthread_t thread;
	const char *request;
	GError *error;
	bool done;
};

static void *
ask(void *data)
{
	struct client *client = data;

	client->done = guard_link_ask(fixture.path, client->request, &client->error);
	return NULL;
}

static void
client_start(struct client *client, const char *request)
{
	*client = (struct client){.request = request};
	ck_assert_int_eq(pthread_create(&client->thread, NULL, ask, client), 0);
}

static void
client_join(struct client *client)
{
	ck_assert_int_eq(pthread_join(client->thread, NULL), 0);
}

/* Waits 10 seconds at most. */
static char *
take(int *peer)
{
	char *request = NULL;

	for (unsigned int i = 0; !request && i < 10000; i++) {
		request = guard_link_take(&made, peer);
		usleep(1000);
	}
	ck_assert_ptr_nonnull(request);
	return request;
}

static void
begin(void)
{
	fixture_begin();
	ck_assert_msg(guard_link_listen(&made, fixture.path, &error), "%s",
		      error ? error->message : "");
}

static void
end(void)
{
	guard_link_close(&made);
	fixture_end();
}

START_TEST(request_and_success_arrive)
{
	struct client client;
	char *request;
	int peer;

	client_start(&client, "direct-io on");
	request = take(&peer);
	ck_assert_str_eq(request, "direct-io on");
	g_free(request);
	guard_link_answer(peer, NULL);
	client_join(&client);
	ck_assert(client.done);
	ck_assert_ptr_null(client.error);
}
END_TEST

START_TEST(error_arrives_in_the_guards_words)
{
	struct client client;
	int peer;

	client_start(&client, "replace");
	g_free(take(&peer));
	failure(&error, EIO, "the disk is on fire");
	guard_link_answer(peer, error);
	g_clear_error(&error);
	client_join(&client);
	ck_assert(!client.done);
	ck_assert(failure_is(client.error, EINVAL));
	ck_assert_str_eq(client.error->message, "the disk is on fire");
	g_clear_error(&client.error);
}
END_TEST

START_TEST(path_of_any_length_arrives)
{
	char text[4200] = "image ", *request;
	struct client client;
	int peer;

	memset(text + strlen(text), 'x', sizeof(text) - strlen(text) - 1);
	client_start(&client, text);
	request = take(&peer);
	ck_assert_str_eq(request, text);
	g_free(request);
	guard_link_answer(peer, NULL);
	client_join(&client);
	ck_assert(client.done);
}
END_TEST

START_TEST(guard_that_ends_without_an_answer_is_an_error)
{
	struct client client;
	int peer;

	client_start(&client, "replace");
	g_free(take(&peer));
	close(peer);
	client_join(&client);
	ck_assert(!client.done);
	ck_assert(failure_is(client.error, EPIPE));
	g_clear_error(&client.error);
}
END_TEST

START_TEST(no_guard_is_an_error_of_its_own)
{
	guard_link_close(&made);
	ck_assert(!guard_link_ask(fixture.path, "replace", &error));
	ck_assert(failure_is(error, ECONNREFUSED));
	g_clear_error(&error);
}
END_TEST

/* A guard that was killed leaves its socket file, on which no process listens; the next guard of
 * the device takes it over. */
START_TEST(file_of_a_killed_guard_is_in_nobodys_way)
{
	struct guard_link next;

	close(made.fd);
	ck_assert(!guard_link_ask(fixture.path, "replace", &error));
	ck_assert_msg(failure_is(error, ECONNREFUSED), "%s", error->message);
	g_clear_error(&error);
	ck_assert(guard_link_listen(&next, fixture.path, &error));
	g_free(made.path);
	made = next;
}
END_TEST

START_TEST(what_a_killed_guard_left_can_be_removed)
{
	close(made.fd);
	ck_assert_int_eq(access(made.path, F_OK), 0);
	guard_link_forget(fixture.path);
	ck_assert_int_eq(access(made.path, F_OK), -1);
	g_free(made.path);
	made = (struct guard_link){.fd = -1};
}
END_TEST

START_TEST(only_the_owner_may_connect)
{
	struct stat st;

	ck_assert_int_eq(stat(made.path, &st), 0);
	ck_assert(S_ISSOCK(st.st_mode));
	ck_assert_uint_eq(st.st_mode & 07777, 0600);
}
END_TEST

START_TEST(nobody_asks_is_no_request)
{
	int peer;

	ck_assert_ptr_null(guard_link_take(&made, &peer));
	guard_link_close(&made);
	ck_assert_ptr_null(guard_link_take(&made, &peer));
}
END_TEST

static bool accept_fails;

/* Replaces the C library's accept4(): if a security module refuses it, the connection stays in the
 * queue. */
int
accept4(int listener, __SOCKADDR_ARG address, socklen_t *length, int flags)
{
	(void)flags;
	errno = EPERM;
	return accept_fails ? -1 : accept(listener, address, length);
}

static void
sink_nothing(enum log_level level, const char *text)
{
	(void)level;
	(void)text;
}

START_TEST(guard_pauses_when_accept_fails)
{
	struct client client;
	struct pollfd polled;
	int peer, timeout = -1;

	ck_assert_int_eq(guard_link_polled(&made, &timeout).fd, made.fd);
	ck_assert_int_eq(timeout, -1);
	log_set_sink(sink_nothing);
	accept_fails = true;
	client_start(&client, "replace");
	ck_assert_ptr_null(guard_link_take(&made, &peer));
	polled = guard_link_polled(&made, &timeout);
	ck_assert_int_eq(polled.fd, -1);
	ck_assert(timeout > 0 && timeout <= 1000);
	usleep((useconds_t)timeout * 1000 + 10000);
	ck_assert_int_eq(guard_link_polled(&made, &timeout).fd, made.fd);
	accept_fails = false;
	g_free(take(&peer));
	guard_link_answer(peer, NULL);
	client_join(&client);
	log_set_sink(NULL);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "asking", .begin = begin, .end = end},
		{.test = request_and_success_arrive},
		{.test = error_arrives_in_the_guards_words},
		{.test = path_of_any_length_arrives},
		{.test = guard_that_ends_without_an_answer_is_an_error},
		{.test = no_guard_is_an_error_of_its_own},
		{.test = file_of_a_killed_guard_is_in_nobodys_way},
		{.test = what_a_killed_guard_left_can_be_removed},
		{.test = only_the_owner_may_connect},
		{.test = nobody_asks_is_no_request},
		{.test = guard_pauses_when_accept_fails},
		{0},
	};

	/* GLib only warns about a wrong call; make that a failure. */
	g_log_set_always_fatal(G_LOG_LEVEL_CRITICAL);
	return suite_run("guard_link", cases);
}
