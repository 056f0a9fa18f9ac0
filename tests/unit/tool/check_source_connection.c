/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections negotiated at the same time, and what is said of a server that can't be connected to.
 * The servers are threads.
 */
#include "tool/source/source_connection.h"

#include "nbd/protocol.h"
#include "tests/lib/suite.h"
#include "tests/unit/tool/least_server.h"

#include <check.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	COUNT = 16,
};

/* One thread for all: it greets the last connection first, and answers none before it has greeted
 * all. */
static int served[COUNT];
static uint16_t served_flags;
static unsigned int answered; /* how many get an answer */

static void *
serve_sockets(void *data)
{
	(void)data;
	for (unsigned int i = COUNT; i-- > 0;)
		least_server_greet(served[i]);
	for (unsigned int i = 0; i < COUNT; i++) {
		if (i < answered) {
			least_server_answer(served[i], 1 << 20, served_flags);
		} else {
			least_server_hear(served[i]);
			close(served[i]);
		}
	}
	return NULL;
}

/* ---- connected sockets */

static struct source_connection connections[COUNT], *all[COUNT];

static void
begin(void)
{
	for (unsigned int i = 0; i < COUNT; i++) {
		connections[i].fd = -1;
		all[i] = &connections[i];
	}
	served_flags = 0xffff;
	answered = COUNT;
}

static bool
connect_sockets(GError **error)
{
	int ours[COUNT], pair[2];
	pthread_t thread;
	bool done;

	for (unsigned int i = 0; i < COUNT; i++) {
		ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
		ours[i] = pair[0];
		served[i] = pair[1];
	}
	ck_assert_int_eq(pthread_create(&thread, NULL, serve_sockets, NULL), 0);
	done = source_connections_over_sockets(all, ours, COUNT, 0, NULL, error);
	pthread_join(thread, NULL);
	return done;
}

START_TEST(all_connections_are_negotiated_at_once)
{
	ck_assert(connect_sockets(NULL));
	for (unsigned int i = 0; i < COUNT; i++) {
		ck_assert_uint_eq(connections[i].export.size, 1 << 20);
		ck_assert_uint_eq(connections[i].export.block_size, 512);
		/* Only what the kernel knows. */
		ck_assert_uint_eq(connections[i].export.flags, 0x017f);
		ck_assert_int_eq(write(connections[i].fd, "r", 1), 1);
		ck_assert_int_eq(fcntl(connections[i].fd, F_GETFL) & O_NONBLOCK, 0);
		close(connections[i].fd);
		close(served[i]);
	}
}
END_TEST

START_TEST(server_that_hangs_is_given_up_after_the_limit)
{
	GError *error = NULL;
	int pair[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	ck_assert(!source_connections_over_sockets(all, &pair[0], 1, 1000, NULL, &error));
	ck_assert_str_eq(error->message, "the server hasn't answered for 1 seconds");
	g_error_free(error);
	ck_assert_int_eq(connections[0].fd, -1);
	/* Ours is closed. */
	ck_assert_int_eq(read(pair[1], &(char){0}, 1), 0);
	close(pair[1]);
}
END_TEST

START_TEST(one_that_is_lost_leaves_none)
{
	GError *error = NULL;

	answered = COUNT - 1;
	ck_assert(!connect_sockets(&error));
	ck_assert_str_eq(error->message,
			 "the server ended the negotiation: the server closed the connection");
	g_error_free(error);
	for (unsigned int i = 0; i < COUNT; i++)
		ck_assert_int_eq(connections[i].fd, -1);
}
END_TEST

/* ---- a server by its URI */

static const struct source_tls no_tls;

static int listener;
static char *socket_path, *uri;
static unsigned int accepted;

static void
begin_listening(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	begin();
	socket_path = g_strdup_printf("%s/nbd-%d.sock", g_get_tmp_dir(), (int)getpid());
	uri = g_strdup_printf("nbd+unix:///?socket=%s", socket_path);
	g_strlcpy(address.sun_path, socket_path, sizeof(address.sun_path));
	listener = socket(AF_UNIX, SOCK_STREAM, 0);
	ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	ck_assert_int_eq(listen(listener, COUNT), 0);
	accepted = 0;
}

static void
end_listening(void)
{
	close(listener);
	if (socket_path)
		unlink(socket_path);
	g_clear_pointer(&socket_path, g_free);
	g_clear_pointer(&uri, g_free);
}

/* Until the listener is shut down. */
static void *
serve_listener(void *data)
{
	int fd;

	(void)data;
	while ((fd = accept(listener, NULL, NULL)) >= 0) {
		accepted++;
		least_server_greet(fd);
		least_server_answer(fd, 1 << 20, served_flags);
	}
	return NULL;
}

static bool
connect_to(const char *to, unsigned int count, bool several, GError **error)
{
	g_autoptr(GPtrArray) uris = nbd_uri_servers(to, error);
	const struct source_search search = {.uri = to, .uris = uris, .tls = &no_tls};
	unsigned int server;

	return uris && source_connections_to_servers(all, count, several, &search, SOURCE_LIMIT_MS,
						     &server, error);
}

static bool
connect_uri(unsigned int count, bool several, GError **error)
{
	pthread_t thread;
	bool done;

	ck_assert_int_eq(pthread_create(&thread, NULL, serve_listener, NULL), 0);
	done = connect_to(uri, count, several, error);
	shutdown(listener, SHUT_RDWR);
	pthread_join(thread, NULL);
	return done;
}

START_TEST(several_connections_go_to_one_server)
{
	ck_assert(connect_uri(COUNT, true, NULL));
	ck_assert_uint_eq(accepted, COUNT);
	for (unsigned int i = 0; i < COUNT; i++)
		ck_assert_int_ge(connections[i].fd, 0);
}
END_TEST

/* connect() doesn't wait for room there, and fails if there is none. */
START_TEST(backlog_may_have_room_for_one_connection_only)
{
	GError *error = NULL;

	ck_assert_int_eq(listen(listener, 0), 0);
	ck_assert_msg(connect_uri(COUNT, true, &error), "%s", error ? error->message : "");
	ck_assert_uint_eq(accepted, COUNT);
}
END_TEST

START_TEST(several_connections_are_not_tried_where_one_is_allowed)
{
	g_autofree char *wanted =
		g_strconcat(uri, ": the server doesn't allow several connections", NULL);
	GError *error = NULL;

	served_flags = NBD_FLAG_HAS_FLAGS;
	ck_assert(!connect_uri(COUNT, true, &error));
	ck_assert_msg(g_str_has_prefix(error->message, wanted), "%s", error->message);
	g_error_free(error);
	ck_assert_uint_eq(accepted, 1);
	ck_assert_int_eq(connections[0].fd, -1);
}
END_TEST

/* ---- a host with several addresses */

enum {
	ADDRESSES = 3,
};

static struct sockaddr_in places[ADDRESSES];
static struct addrinfo found_places[ADDRESSES];

/* In place of the C library's. */
int
getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
	    struct addrinfo **found)
{
	(void)host;
	(void)service;
	(void)hints;
	for (unsigned int i = 0; i < ADDRESSES; i++) {
		found_places[i].ai_addr = (struct sockaddr *)&places[i];
		found_places[i].ai_addrlen = sizeof(places[i]);
		found_places[i].ai_next = i + 1 < ADDRESSES ? &found_places[i + 1] : NULL;
	}
	*found = found_places;
	return 0;
}

void
freeaddrinfo(struct addrinfo *found)
{
	ck_assert_ptr_eq(found, found_places);
}

static int
bind_place(unsigned int i)
{
	socklen_t length = sizeof(places[i]);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	places[i] = (struct sockaddr_in){.sin_family = AF_INET,
					 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&places[i], sizeof(places[i])), 0);
	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&places[i], &length), 0);
	return fd;
}

/* The first is silent, the second refuses, and the third answers. */
START_TEST(next_address_is_tried_at_once_after_one_that_fails)
{
	int silent = bind_place(0), refuses = bind_place(1);
	gint64 begin = g_get_monotonic_time();
	GError *error = NULL;

	end_listening();
	listener = bind_place(2);
	ck_assert_int_eq(listen(silent, 1), 0);
	ck_assert_int_eq(listen(listener, 1), 0);
	uri = g_strdup("nbd://three");
	ck_assert_msg(connect_uri(1, false, &error), "%s", error ? error->message : "");
	/* A fair share of thirty seconds would be ten. */
	ck_assert_int_lt(g_get_monotonic_time() - begin, 5000000);
	close(silent);
	close(refuses);
}
END_TEST

static void
assert_refused(const char *wrong, const char *wanted)
{
	GError *error = NULL;

	ck_assert(!connect_to(wrong, 1, false, &error));
	ck_assert_msg(g_str_has_prefix(error->message, wanted), "\"%s\" instead of \"%s\"",
		      error->message, wanted);
	g_error_free(error);
}

START_TEST(error_names_the_uri_and_no_function)
{
	assert_refused("nbd+unix:///?socket=/nonexistent/nbd.sock",
		       "nbd+unix:///?socket=/nonexistent/nbd.sock: No such file or directory");
	assert_refused("nbd+nonsense://x", "nbd+nonsense://x: unknown NBD URI scheme: ");
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "sockets", .begin = begin},
		{.test = all_connections_are_negotiated_at_once},
		{.test = server_that_hangs_is_given_up_after_the_limit},
		{.test = one_that_is_lost_leaves_none},
		{.name = "uri", .begin = begin_listening, .end = end_listening},
		{.test = several_connections_go_to_one_server},
		{.test = backlog_may_have_room_for_one_connection_only},
		{.test = several_connections_are_not_tried_where_one_is_allowed},
		{.test = next_address_is_tried_at_once_after_one_that_fails},
		{.test = error_names_the_uri_and_no_function},
		{0},
	};

	return suite_run("connection", cases);
}
