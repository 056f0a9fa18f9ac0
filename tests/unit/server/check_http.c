/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Clients of HTTP that are slow: they may keep neither a place nor the thread.  Most ask for the
 * page only, so there is no server behind it.
 */
#include "server/http/http.h"

#include "server/exports/exports.h"
#include "server/exports/server_status.h"
#include "tests/lib/suite.h"
#include "tests/unit/log_capture.h"

#include <netinet/in.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PLACES  16  /* for clients at a time */
#define LIMIT   200 /* ms */

#define REQUEST "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"

static struct server_config config;
static struct status status;
static _Atomic bool status_is_asked, status_may_be_told;
static struct http *http;
static struct http_socket listening;
static struct sockaddr_in address = {.sin_family = AF_INET};
static int idle[PLACES];

static void
begin(void)
{
	const struct http_config http_config = {
		.sockets = &listening,
		.count = 1,
		.client_limit = LIMIT,
		.status = &status,
	};
	socklen_t length = sizeof(address);
	char *error = NULL;

	log_capture_begin();
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listening.name = "test";
	listening.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(listening.fd, (struct sockaddr *)&address, length), 0);
	ck_assert_int_eq(listen(listening.fd, SOMAXCONN), 0);
	ck_assert_int_eq(getsockname(listening.fd, (struct sockaddr *)&address, &length), 0);
	ck_assert_msg(http_new(&http_config, &http, &error) == 0, "%s",
		      error ? error : "no memory");
	ck_assert_int_eq(http_start(http), 0);
}

static void
end(void)
{
	http_free(http);
	close(listening.fd);
	log_capture_end();
}

static int
client_new(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

/* Whether the whole page comes, and then the end. */
static bool
gets_the_page(int fd)
{
	char answer[32768];
	size_t length = 0;
	ssize_t n;

	ck_assert_int_eq(send(fd, REQUEST, strlen(REQUEST), MSG_NOSIGNAL),
			 (ssize_t)strlen(REQUEST));
	while ((n = read(fd, answer + length, sizeof(answer) - 1 - length)) > 0)
		length += (size_t)n;
	answer[length] = '\0';
	close(fd);
	return strncmp(answer, "HTTP/1.1 200 ", 13) == 0 && strstr(answer, "</html>");
}

START_TEST(idle_clients_lose_their_places)
{
	char byte;

	for (int i = 0; i < PLACES; i++)
		idle[i] = client_new();
	/* It waits for a place. */
	ck_assert(gets_the_page(client_new()));
	for (int i = 0; i < PLACES; i++) {
		ck_assert_int_le(read(idle[i], &byte, 1), 0);
		close(idle[i]);
	}
}
END_TEST

START_TEST(a_client_that_trickles_is_ended)
{
	static const char start[] = "GET / HTTP/1.1\r\nHost: localhost\r\nField: ";
	int fd = client_new();

	ck_assert_int_eq(send(fd, start, strlen(start), MSG_NOSIGNAL), (ssize_t)strlen(start));
	/* Until the socket is closed; the header would have room for ten minutes of that. */
	while (send(fd, "x", 1, MSG_NOSIGNAL) == 1)
		usleep(20000);
	close(fd);
}
END_TEST

START_TEST(a_slow_client_delays_no_other)
{
	int fd = client_new();

	ck_assert_int_eq(send(fd, REQUEST, 10, MSG_NOSIGNAL), 10);
	for (int i = 0; i < 50; i++)
		ck_assert(gets_the_page(client_new()));
	close(fd);
}
END_TEST

START_TEST(it_ends_while_clients_are_connected)
{
	int fd = client_new();
	char byte;

	ck_assert(gets_the_page(client_new()));
	http_free(http);
	http = NULL;
	ck_assert_int_le(read(fd, &byte, 1), 0);
	close(fd);
}
END_TEST

/* A part of the status, as one of a disk that does not answer. */
static const char *
tell_late(const void *data)
{
	atomic_store(&status_is_asked, true);
	while (!atomic_load(&status_may_be_told))
		sched_yield();
	return data;
}

START_TEST(its_end_does_not_wait_for_an_answer)
{
	static const char request[] = "GET /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n";
	int fd = client_new();

	ck_assert_int_eq(config_init(&config), 0);
	status = (struct status){.config = &config,
				 .exports = exports_new(NULL, 0, NULL, NULL),
				 .socket = tell_late};
	ck_assert_int_eq(send(fd, request, strlen(request), MSG_NOSIGNAL),
			 (ssize_t)strlen(request));
	while (!atomic_load(&status_is_asked))
		sched_yield();
	http_stop(http);
	ck_assert(!http_is_over(http));
	atomic_store(&status_may_be_told, true);
	while (!http_is_over(http))
		sched_yield();
	close(fd);
	/* The address is free, although the socket is not closed yet. */
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_lt(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	close(fd);
	exports_free(status.exports);
	config_fini(&config);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "slow", .begin = begin, .end = end},
		{.test = idle_clients_lose_their_places},
		{.test = a_client_that_trickles_is_ended},
		{.test = a_slow_client_delays_no_other},
		{.test = it_ends_while_clients_are_connected},
		{.test = its_end_does_not_wait_for_an_answer},
		{0},
	};

	return suite_run("http", cases);
}
