/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which of several servers a device is connected to.  The servers are threads, each on a port of
 * its own of the loopback.
 */
#include "tool/source/source.h"
#include "tool/source/other_servers.h"

#include "nbd/protocol.h"
#include "tests/lib/suite.h"
#include "tests/unit/tool/least_server.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	SERVERS = 3,
	SIZE = 1 << 20,
	MOST = 8, /* connections */
};

#define FLAGS                                                                                      \
	(NBD_FLAG_HAS_FLAGS | NBD_FLAG_SEND_FLUSH | NBD_FLAG_SEND_FUA | NBD_FLAG_CAN_MULTI_CONN)

/* One after the other, until it is stopped. */
static struct server {
	int listener; /* -1: there is none */
	uint16_t port;
	uint64_t size;
	pthread_t thread;
	int clients[MOST];
	unsigned int count;
} servers[SERVERS];

static struct source_plan plan;
static struct source source;
static struct export_source *export;
static GError *error;

static void *
serve(void *data)
{
	struct server *server = data;
	int fd;

	while ((fd = accept(server->listener, NULL, NULL)) >= 0) {
		ck_assert_uint_lt(server->count, MOST);
		server->clients[server->count++] = fd;
		least_server_greet(fd);
		least_server_answer(fd, server->size, FLAGS);
	}
	return NULL;
}

static void
start(unsigned int i)
{
	servers[i].count = 0;
	ck_assert_int_eq(listen(servers[i].listener, MOST), 0);
	ck_assert_int_eq(pthread_create(&servers[i].thread, NULL, serve, &servers[i]), 0);
}

/* The connections stay until leave(). */
static void
stop_listening(unsigned int i)
{
	shutdown(servers[i].listener, SHUT_RDWR);
	pthread_join(servers[i].thread, NULL);
}

static void
leave(unsigned int i)
{
	for (unsigned int k = 0; k < servers[i].count; k++)
		close(servers[i].clients[k]);
	servers[i].count = 0;
}

static void
end_server(unsigned int i)
{
	stop_listening(i);
	leave(i);
}

static void
begin(unsigned int connections)
{
	for (unsigned int i = 0; i < SERVERS; i++) {
		servers[i].listener = least_server_bind(&servers[i].port);
		servers[i].size = SIZE;
	}
	plan = (struct source_plan){
		.place = g_strdup_printf("nbd://127.0.0.1:%u,127.0.0.1:%u,127.0.0.1:%u/x",
					 servers[0].port, servers[1].port, servers[2].port),
		.remote = true,
		.connections = connections,
		.direct_io = "auto",
	};
	source_init(&source, &plan, NULL, NULL);
	export = source.state;
}

static void
begin_with_one(void)
{
	begin(1);
}

static void
begin_with_two(void)
{
	begin(2);
}

static void
end(void)
{
	source_fini(&source);
	g_free(plan.place);
	g_clear_error(&error);
	for (unsigned int i = 0; i < SERVERS; i++)
		close(servers[i].listener);
}

static void
assert_open(unsigned int server)
{
	ck_assert_msg(source_open(&source, &error), "%s", error ? error->message : "?");
	ck_assert_uint_eq(export->in_use, server);
	export->device = (struct export_facts){.size = SIZE, .block_size = 512, .flags = FLAGS};
}

/* The loss of a connection arrives in its own time. */
static void
assert_lost(const char *reason)
{
	bool crashed, lost = false;
	g_autofree char *why = NULL;

	for (unsigned int i = 0; i < 1000 && !lost; i++) {
		lost = source_is_lost(&source, &crashed, &why);
		if (!lost)
			g_usleep(10000);
	}
	ck_assert(lost && !crashed);
	ck_assert_msg(g_str_has_prefix(why, reason), "%s", why);
}

static void
assert_fails(const char *reason)
{
	ck_assert(!source_open(&source, &error));
	ck_assert_msg(strstr(error->message, reason), "%s", error->message);
	g_clear_error(&error);
}

START_TEST(preferred_server_is_the_first)
{
	start(0);
	start(1);
	assert_open(0);
	end_server(0);
	end_server(1);
}
END_TEST

START_TEST(next_server_follows_one_that_is_lost)
{
	g_autofree char *why =
		g_strdup_printf("the connection to 127.0.0.1:%u ended", servers[0].port);

	start(0);
	assert_open(0);
	start(2);
	end_server(0);
	assert_lost(why);
	assert_open(2);
	end_server(2);
}
END_TEST

/* Only its connection was lost. */
START_TEST(server_in_use_is_tried_before_the_preferred_one)
{
	start(1);
	assert_open(1);
	start(0);
	leave(1);
	assert_lost("the connection to ");
	assert_open(1);
	end_server(0);
	end_server(1);
}
END_TEST

START_TEST(silent_server_holds_the_next_one_up_for_a_moment)
{
	gint64 begun = g_get_monotonic_time();

	ck_assert_int_eq(listen(servers[0].listener, 1), 0);
	start(1);
	assert_open(1);
	ck_assert_int_lt(g_get_monotonic_time() - begun, 10 * G_USEC_PER_SEC);
	end_server(1);
}
END_TEST

START_TEST(other_export_is_refused_until_it_fits)
{
	g_autofree char *reason =
		g_strdup_printf("127.0.0.1:%u: its export has %u bytes, and the device %u",
				servers[1].port, SIZE / 2, SIZE);

	start(0);
	assert_open(0);
	end_server(0);
	assert_lost("the connection to ");
	servers[1].size = SIZE / 2;
	start(1);
	assert_fails(reason);
	servers[1].size = SIZE;
	assert_open(1);
	end_server(1);
}
END_TEST

START_TEST(look_tells_which_other_servers_do_not_fit)
{
	g_autofree char *smaller = g_strdup_printf(
		"127.0.0.1:%u can't take the device over: its export has %u bytes, and the device %u",
		servers[1].port, SIZE / 2, SIZE);
	g_autofree char *found = NULL;

	start(0);
	servers[1].size = SIZE / 2;
	start(1);
	assert_open(0);
	found = other_servers_result(other_servers_look(&source));
	ck_assert_str_eq(found, smaller);
	ck_assert_uint_eq(export->in_use, 0);
	ck_assert(!source_lacks(&source, 0));
	end_server(1);
	g_free(found);
	found = other_servers_result(other_servers_look(&source));
	ck_assert_ptr_null(found);
	end_server(0);
}
END_TEST

/* No write may go to one server while another one still has one. */
START_TEST(connections_never_lead_to_two_servers)
{
	g_autofree char *why =
		g_strdup_printf("1 of 2 connections to 127.0.0.1:%u ended", servers[0].port);

	start(0);
	start(1);
	assert_open(0);
	stop_listening(0);
	ck_assert_uint_eq(servers[0].count, 2);
	close(servers[0].clients[0]);
	assert_lost(why);
	assert_fails("Connection refused");
	ck_assert(source_lacks(&source, 0) && source_lacks(&source, 1));
	ck_assert_uint_eq(servers[1].count, 0);
	assert_open(1);
	end_server(1);
	ck_assert(!source_lacks(&source, 0) && !source_lacks(&source, 1));
	close(servers[0].clients[1]);
}
END_TEST

START_TEST(lost_connection_is_replaced_by_one_to_the_same_server)
{
	start(0);
	start(1);
	assert_open(0);
	close(servers[0].clients[1]);
	assert_lost("1 of 2 connections to ");
	assert_open(0);
	end_server(1);
	stop_listening(0);
	ck_assert_uint_eq(servers[0].count, 3);
	ck_assert_uint_eq(servers[1].count, 0);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "one connection", .begin = begin_with_one, .end = end, .seconds = 30},
		{.test = preferred_server_is_the_first},
		{.test = next_server_follows_one_that_is_lost},
		{.test = server_in_use_is_tried_before_the_preferred_one},
		{.test = silent_server_holds_the_next_one_up_for_a_moment},
		{.test = other_export_is_refused_until_it_fits},
		{.test = look_tells_which_other_servers_do_not_fit},
		{.name = "two connections", .begin = begin_with_two, .end = end},
		{.test = connections_never_lead_to_two_servers},
		{.test = lost_connection_is_replaced_by_one_to_the_same_server},
		{0},
	};

	return suite_run("export_source", cases);
}
