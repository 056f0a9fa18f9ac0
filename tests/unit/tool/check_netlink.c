/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests and answers of generic netlink; the test plays the kernel.
 */
#include "tool/device/netlink.h"

#include "tests/lib/suite.h"

#include <check.h>
#include <errno.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	FAMILY = 27,
	COMMAND = 5,
	FIRST = 1,
	WANTED = 3,
};

static struct netlink netlink;
static struct netlink_request request;
static int kernel;
static uint8_t answer[NETLINK_ROOM];
static size_t answer_size;

static void
begin(void)
{
	int pair[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	netlink = (struct netlink){.fd = pair[0]};
	kernel = pair[1];
	answer_size = 0;
	netlink_begin(&request, FAMILY, COMMAND, FIRST);
}

static void
end(void)
{
	close(netlink.fd);
	close(kernel);
}

/* Adds a message to the datagram of the answer. */
static void
add_message(uint16_t type, uint32_t sequence, const void *bytes, size_t size)
{
	const struct nlmsghdr header = {.nlmsg_len = (uint32_t)(NLMSG_HDRLEN + size),
					.nlmsg_type = type,
					.nlmsg_seq = sequence};

	memcpy(answer + answer_size, &header, sizeof(header));
	memcpy(answer + answer_size + NLMSG_HDRLEN, bytes, size);
	answer_size += NLMSG_ALIGN(header.nlmsg_len);
}

static void
add_end(uint32_t sequence, int error)
{
	const struct nlmsgerr acknowledgement = {.error = error};

	add_message(NLMSG_ERROR, sequence, &acknowledgement, sizeof(acknowledgement));
}

/* With the attributes 2, of three bytes, and WANTED. */
static void
add_reply(uint32_t sequence, uint32_t value)
{
	const struct {
		struct genlmsghdr what;
		struct nlattr other;
		uint8_t bytes[4];
		struct nlattr wanted;
		uint32_t value;
	} reply = {
		.other = {.nla_len = NLA_HDRLEN + 3, .nla_type = 2},
		.wanted = {.nla_len = NLA_HDRLEN + sizeof(value), .nla_type = WANTED},
		.value = value,
	};

	add_message(FAMILY, sequence, &reply, sizeof(reply));
}

static void
send_answer(void)
{
	ck_assert_int_eq(send(kernel, answer, answer_size, 0), (ssize_t)answer_size);
	answer_size = 0;
}

START_TEST(request_has_its_attributes)
{
	/* A number, a list with two items, and a text that is padded. */
	static const uint32_t wanted[] = {60,
					  FAMILY | (NLM_F_REQUEST | NLM_F_ACK) << 16,
					  1,
					  0,
					  COMMAND | FIRST << 8,
					  8 | 1 << 16,
					  7,
					  28 | (7 | NLA_F_NESTED) << 16,
					  12 | (1 | NLA_F_NESTED) << 16,
					  8 | 1 << 16,
					  100,
					  12 | (1 | NLA_F_NESTED) << 16,
					  8 | 1 << 16,
					  101,
					  5 | 9 << 16,
					  'x'};
	uint32_t seen[32] = {0}, value = 7;
	size_t list;

	netlink_put(&request, 1, &value, sizeof(value));
	list = netlink_nest(&request, 7);
	for (value = 100; value <= 101; value++) {
		const size_t item = netlink_nest(&request, 1);

		netlink_put(&request, 1, &value, sizeof(value));
		netlink_unnest(&request, item);
	}
	netlink_unnest(&request, list);
	netlink_put(&request, 9, "x", 1);
	add_end(1, 0);
	send_answer();
	ck_assert_int_eq(netlink_ask(&netlink, &request, WANTED, NULL, 0), 0);
	ck_assert_int_eq(recv(kernel, seen, sizeof(seen), 0), sizeof(wanted));
	ck_assert_uint_eq(seen[0], sizeof(wanted));
	ck_assert_mem_eq(seen + 1, wanted + 1, sizeof(wanted) - sizeof(*wanted));
}
END_TEST

START_TEST(attribute_without_room_is_an_error)
{
	static const uint8_t text[NETLINK_ROOM];

	netlink_put(&request, 1, text, sizeof(text) - 100);
	netlink_put(&request, 2, text, 100);
	ck_assert_int_eq(netlink_ask(&netlink, &request, WANTED, NULL, 0), EMSGSIZE);
	ck_assert_int_lt(recv(kernel, answer, sizeof(answer), MSG_DONTWAIT), 0);
}
END_TEST

START_TEST(wanted_attribute_is_found)
{
	uint32_t value = 0;

	add_reply(1, 4711);
	send_answer();
	add_end(1, 0);
	send_answer();
	ck_assert_int_eq(netlink_ask(&netlink, &request, WANTED, &value, sizeof(value)), 0);
	ck_assert_uint_eq(value, 4711);
	/* And in the same datagram as the end. */
	add_reply(2, 4712);
	add_end(2, 0);
	send_answer();
	ck_assert_int_eq(netlink_ask(&netlink, &request, WANTED, &value, sizeof(value)), 0);
	ck_assert_uint_eq(value, 4712);
}
END_TEST

START_TEST(errors_of_the_kernel_are_passed_on)
{
	uint32_t value = 1;

	add_end(1, -EBUSY);
	send_answer();
	ck_assert_int_eq(netlink_ask(&netlink, &request, WANTED, &value, sizeof(value)), EBUSY);
	ck_assert_uint_eq(value, 1);
}
END_TEST

START_TEST(answer_to_an_earlier_request_is_skipped)
{
	uint32_t value = 1;

	netlink.sequence = 8;
	add_reply(8, 4711);
	add_end(8, -EIO);
	add_end(9, 0);
	send_answer();
	ck_assert_int_eq(netlink_ask(&netlink, &request, WANTED, &value, sizeof(value)), 0);
	ck_assert_uint_eq(value, 1);
}
END_TEST

START_TEST(nonsense_is_skipped)
{
	struct nlattr attribute = {.nla_len = 1000, .nla_type = WANTED};
	uint8_t bytes[GENL_HDRLEN + sizeof(attribute)] = {0};
	uint32_t value = 1;

	memcpy(bytes + GENL_HDRLEN, &attribute, sizeof(attribute));
	add_message(FAMILY, 1, bytes, sizeof(bytes));
	add_message(FAMILY, 1, bytes, 1);
	add_message(NLMSG_ERROR, 1, bytes, 2);
	send_answer();
	/* A length beyond the datagram. */
	add_reply(1, 5);
	answer[0] = 255;
	send_answer();
	add_end(1, 0);
	send_answer();
	ck_assert_int_eq(netlink_ask(&netlink, &request, WANTED, &value, sizeof(value)), 0);
	ck_assert_uint_eq(value, 1);
}
END_TEST

START_TEST(families_are_found_by_name)
{
	struct netlink real;

	ck_assert_int_eq(netlink_open(&real), 0);
	ck_assert_uint_eq(netlink_find_family(&real, "nlctrl"), GENL_ID_CTRL);
	ck_assert_uint_eq(netlink_find_family(&real, "no such family"), 0);
	netlink_close(&real);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "played", .begin = begin, .end = end},
		{.test = request_has_its_attributes},
		{.test = attribute_without_room_is_an_error},
		{.test = wanted_attribute_is_found},
		{.test = errors_of_the_kernel_are_passed_on},
		{.test = answer_to_an_earlier_request_is_skipped},
		{.test = nonsense_is_skipped},
		{.name = "real"},
		{.test = families_are_found_by_name},
		{0},
	};

	return suite_run("netlink", cases);
}
