/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests to a server over its control socket.
 */
#include "tool/link/server_link.h"

#include "tests/lib/suite.h"
#include "tests/unit/control_fixture.h"

#include "tool/failure.h"

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static GError *error;

/* The pause of a slow server in the middle of its answer. */
static useconds_t pause_us = 20000;

/* More than server_link_ask() waits. */
#define LONG_PAUSE_US 6000000

static void
assert_error(int err, const char *words)
{
	ck_assert_ptr_nonnull(error);
	ck_assert_msg(failure_is(error, err) && strstr(error->message, words), "%d: %s",
		      error->code, error->message);
	g_clear_error(&error);
}

/* ---- a server that says one thing and ends */

struct speaker {
	pthread_t thread;
	int fd;
	const char *words;
};

static void *
speak(void *data)
{
	struct speaker *speaker = data;
	int client = accept(speaker->fd, NULL, NULL);
	char request[64];

	ck_assert_int_gt(read(client, request, sizeof(request)), 0);
	/* The answer comes in two parts. */
	ck_assert_int_ge(send(client, speaker->words, 1, MSG_NOSIGNAL), 0);
	usleep(pause_us);
	/* The client may have given up. */
	send(client, speaker->words + 1, strlen(speaker->words + 1), MSG_NOSIGNAL);
	close(client);
	return NULL;
}

static json_t *
have_speaker_asked(const char *words,
		   json_t *(*ask)(const char *path, const char *request, GError **error))
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct speaker speaker = {.words = words};
	json_t *answer;

	strcpy(address.sun_path, fixture.path);
	speaker.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(speaker.fd, (struct sockaddr *)&address, sizeof(address)), 0);
	ck_assert_int_eq(listen(speaker.fd, 1), 0);
	ck_assert_int_eq(pthread_create(&speaker.thread, NULL, speak, &speaker), 0);
	answer = ask(fixture.path, "status", &error);
	pthread_join(speaker.thread, NULL);
	close(speaker.fd);
	unlink(fixture.path);
	return answer;
}

static json_t *
ask_speaker(const char *words)
{
	return have_speaker_asked(words, server_link_ask);
}

/* ---- */

START_TEST(path_survives_the_identifier)
{
	char *backend = server_link_backend("/run/nbdloop/12.sock"), *path;

	ck_assert_str_eq(backend, "nbdloop:/run/nbdloop/12.sock");
	path = server_link_path(backend);
	ck_assert_str_eq(path, "/run/nbdloop/12.sock");
	g_free(path);
	g_free(backend);
}
END_TEST

START_TEST(identifiers_of_others_have_no_path)
{
	ck_assert_ptr_null(server_link_path(NULL));
	ck_assert_ptr_null(server_link_path(""));
	ck_assert_ptr_null(server_link_path("nbd://host/nbdloop:/x"));
	ck_assert_ptr_null(server_link_path("nbdloop"));
	ck_assert_ptr_null(server_link_path("nbdloop:12.sock"));
}
END_TEST

START_TEST(answer_of_a_real_control_socket_comes_back)
{
	json_t *answer;

	socket_start();
	answer = server_link_ask(fixture.path, "status", &error);
	ck_assert_ptr_nonnull(answer);
	ck_assert_str_eq(json_string_value(json_object_get(answer, "data")), "d");
	json_decref(answer);
}
END_TEST

START_TEST(answer_may_be_longer_than_a_socket_holds)
{
	json_t *answer;

	socket_start();
	answer = server_link_ask(fixture.path, "resize export=huge", &error);
	ck_assert_msg(answer, "%s", error ? error->message : "");
	json_decref(answer);
}
END_TEST

START_TEST(answer_may_come_in_parts)
{
	json_t *answer = ask_speaker("{\"pid\":7}\n");

	ck_assert_ptr_nonnull(answer);
	ck_assert_int_eq(json_integer_value(json_object_get(answer, "pid")), 7);
	json_decref(answer);
}
END_TEST

START_TEST(answer_may_have_integers_of_64_bits)
{
	json_t *answer = ask_speaker("{\"inode\":18446744073709551615,\"size\":9223372036854775807,"
				     "\"file\":\"/\\\"9223372036854775808\",\"real\":-1.5e3}\n");

	ck_assert_msg(answer, "%s", error ? error->message : "");
	ck_assert_str_eq(json_string_value(json_object_get(answer, "inode")),
			 "18446744073709551615");
	ck_assert_int_eq(json_integer_value(json_object_get(answer, "size")), INT64_MAX);
	ck_assert_str_eq(json_string_value(json_object_get(answer, "file")),
			 "/\"9223372036854775808");
	ck_assert_double_eq(json_real_value(json_object_get(answer, "real")), -1500);
	json_decref(answer);
}
END_TEST

START_TEST(answer_that_takes_too_long_is_an_error)
{
	pause_us = LONG_PAUSE_US;
	ck_assert_ptr_null(ask_speaker("{\"pid\":7}\n"));
	assert_error(ETIMEDOUT, "it took too long");
}
END_TEST

START_TEST(change_may_take_its_time)
{
	json_t *answer;

	pause_us = LONG_PAUSE_US;
	answer = have_speaker_asked("{\"pid\":7}\n", server_link_change);
	ck_assert_msg(answer, "%s", error ? error->message : "");
	json_decref(answer);
}
END_TEST

START_TEST(change_ends_with_its_server)
{
	ck_assert_ptr_null(have_speaker_asked("{\"pid\":7}", server_link_change));
	assert_error(EPIPE, "ended before it answered");
}
END_TEST

START_TEST(refusal_is_told_in_the_servers_words)
{
	ck_assert_ptr_null(ask_speaker("{\"error\":\"no, thank you\"}\n"));
	assert_error(EINVAL, "no, thank you");
}
END_TEST

START_TEST(no_server_is_an_error_that_names_the_socket)
{
	ck_assert_ptr_null(server_link_ask(fixture.path, "status", &error));
	assert_error(ENOENT, fixture.path);
}
END_TEST

START_TEST(socket_that_nobody_listens_on_is_an_error)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(address.sun_path, fixture.path);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	close(fd);
	ck_assert_ptr_null(server_link_ask(fixture.path, "status", &error));
	assert_error(ECONNREFUSED, "can't be connected to");
	unlink(fixture.path);
}
END_TEST

START_TEST(half_an_answer_is_an_error)
{
	ck_assert_ptr_null(ask_speaker("{\"pid\":7}"));
	assert_error(EPIPE, "ended before it answered");
}
END_TEST

START_TEST(other_things_than_an_object_are_errors)
{
	static const char *const words[] = {"[1]\n", "7 \n", "\"x\"\n", "{\"pid\":\n", " \n"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		ck_assert_ptr_null(ask_speaker(words[i]));
		assert_error(EPROTO, "something other than a JSON object");
	}
}
END_TEST

START_TEST(path_that_no_socket_can_have_is_an_error)
{
	char path[200];

	memset(path, 'x', sizeof(path));
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	ck_assert_ptr_null(server_link_ask(path, "status", &error));
	assert_error(ENAMETOOLONG, "can't be connected to");
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "identifier"},
		{.test = path_survives_the_identifier},
		{.test = identifiers_of_others_have_no_path},
		{.name = "talk",
		 .seconds = 20,
		 .begin = fixture_begin,
		 .end = fixture_end}, /* two of them wait */
		{.test = answer_of_a_real_control_socket_comes_back},
		{.test = answer_may_be_longer_than_a_socket_holds},
		{.test = answer_may_come_in_parts},
		{.test = answer_may_have_integers_of_64_bits},
		{.test = answer_that_takes_too_long_is_an_error},
		{.test = change_may_take_its_time},
		{.test = change_ends_with_its_server},
		{.test = refusal_is_told_in_the_servers_words},
		{.test = no_server_is_an_error_that_names_the_socket},
		{.test = socket_that_nobody_listens_on_is_an_error},
		{.test = half_an_answer_is_an_error},
		{.test = other_things_than_an_object_are_errors},
		{.test = path_that_no_socket_can_have_is_an_error},
		{0},
	};

	/* GLib only warns about a wrong call; make that a failure. */
	g_log_set_always_fatal(G_LOG_LEVEL_CRITICAL);
	return suite_run("server_link", cases);
}
