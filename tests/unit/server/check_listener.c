/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What nbdloopd does to a connection that it has accepted.
 */
#include "server/daemon/listener.h"

#include "tests/lib/suite.h"

#include <check.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int listening, client, accepted;
static char peer[PEER_MAX];

static void
begin(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(address);

	listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(listening, (struct sockaddr *)&address, length), 0);
	ck_assert_int_eq(listen(listening, 1), 0);
	ck_assert_int_eq(getsockname(listening, (struct sockaddr *)&address, &length), 0);
	client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(connect(client, (struct sockaddr *)&address, length), 0);
	accepted = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
	ck_assert_int_ge(accepted, 0);
	peer_prepare(accepted, peer);
}

static void
end(void)
{
	close(accepted);
	close(client);
	close(listening);
}

static int
option(int level, int name)
{
	int value = -1;
	socklen_t length = sizeof(value);

	ck_assert_int_eq(getsockopt(accepted, level, name, &value, &length), 0);
	return value;
}

/* Its place is one of connections-limit: with the kernel's two hours, no other client gets it. */
START_TEST(client_that_is_gone_without_a_word_is_noticed_in_a_minute)
{
	ck_assert_int_eq(option(SOL_SOCKET, SO_KEEPALIVE), 1);
	ck_assert_int_le(option(IPPROTO_TCP, TCP_KEEPIDLE) +
				 option(IPPROTO_TCP, TCP_KEEPCNT) *
					 option(IPPROTO_TCP, TCP_KEEPINTVL),
			 60);
	ck_assert_int_ge(option(IPPROTO_TCP, TCP_KEEPCNT), 3);
}
END_TEST

START_TEST(replies_are_not_delayed)
{
	ck_assert_int_eq(option(IPPROTO_TCP, TCP_NODELAY), 1);
}
END_TEST

START_TEST(client_is_named_by_its_address)
{
	ck_assert_int_eq(strncmp(peer, "127.0.0.1:", strlen("127.0.0.1:")), 0);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "tcp", .begin = begin, .end = end},
		{.test = client_that_is_gone_without_a_word_is_noticed_in_a_minute},
		{.test = replies_are_not_delayed},
		{.test = client_is_named_by_its_address},
		{0},
	};

	return suite_run("listener", cases);
}
