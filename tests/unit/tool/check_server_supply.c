/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/link/server_supply.h"

#include "tool/link/server_process.h"

#include "tests/lib/suite.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	COUNT = 3
};

static int supply, server;

static void
begin(void)
{
	ck_assert(server_supply_make(&supply, &server, NULL));
}

static void
end(void)
{
	server_sockets_close(&supply, 1);
	server_sockets_close(&server, 1);
}

/* As the server does.  Returns how many. */
static unsigned int
take(int *theirs)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(SERVER_SUPPLY_MAX * sizeof(int))];
	char text[16];
	struct iovec bytes = {text, sizeof(text)};
	struct msghdr message = {
		.msg_iov = &bytes,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	size_t length;

	ck_assert_int_gt(recvmsg(server, &message, MSG_DONTWAIT), 0);
	length = CMSG_FIRSTHDR(&message)->cmsg_len - CMSG_LEN(0);
	memcpy(theirs, CMSG_DATA(CMSG_FIRSTHDR(&message)), length);
	return (unsigned int)(length / sizeof(int));
}

START_TEST(connections_are_passed_in_one_message)
{
	int ours[COUNT], theirs[SERVER_SUPPLY_MAX];
	char byte;

	ck_assert(server_supply_pass(supply, ours, COUNT, NULL));
	ck_assert_uint_eq(take(theirs), COUNT);
	for (unsigned int i = 0; i < COUNT; i++) {
		byte = (char)i;
		ck_assert_int_eq(write(ours[i], &byte, 1), 1);
		byte = 'x';
		ck_assert_int_eq(read(theirs[i], &byte, 1), 1);
		ck_assert_int_eq(byte, i);
		/* The server's end is not kept open here. */
		close(theirs[i]);
		ck_assert_int_eq(read(ours[i], &byte, 1), 0);
		close(ours[i]);
	}
}
END_TEST

START_TEST(as_many_as_possible_are_passed)
{
	int ours[SERVER_SUPPLY_MAX], theirs[SERVER_SUPPLY_MAX];

	ck_assert(server_supply_pass(supply, ours, SERVER_SUPPLY_MAX, NULL));
	ck_assert_uint_eq(take(theirs), SERVER_SUPPLY_MAX);
	for (unsigned int i = 0; i < SERVER_SUPPLY_MAX; i++) {
		close(ours[i]);
		close(theirs[i]);
	}
}
END_TEST

START_TEST(server_is_idle_when_it_says_so)
{
	ck_assert(!server_supply_is_idle(&supply));
	ck_assert_int_eq(send(server, "idle", 4, 0), 4);
	ck_assert(server_supply_is_idle(&supply));
	ck_assert(!server_supply_is_idle(&supply));
	ck_assert_int_ge(supply, 0);
}
END_TEST

START_TEST(server_that_has_ended_is_not_idle_and_takes_nothing)
{
	int ours[COUNT];
	g_autoptr(GError) error = NULL;

	close(server);
	server = -1;
	ck_assert(!server_supply_pass(supply, ours, COUNT, &error));
	ck_assert(g_str_has_prefix(error->message, "the server takes no connections: "));
	for (unsigned int i = 0; i < COUNT; i++)
		ck_assert_int_eq(ours[i], -1);
	ck_assert(!server_supply_is_idle(&supply));
	ck_assert_int_eq(supply, -1);
	ck_assert(!server_supply_is_idle(&supply));
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "supply", .begin = begin, .end = end},
		{.test = connections_are_passed_in_one_message},
		{.test = as_many_as_possible_are_passed},
		{.test = server_is_idle_when_it_says_so},
		{.test = server_that_has_ended_is_not_idle_and_takes_nothing},
		{0},
	};

	return suite_run("server_supply", cases);
}
