/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The addresses of a URI's host name, as the name service has them: here, it is this file's.
 */
#include "tool/server/nbd_uri.h"

#include "tests/lib/suite.h"

#include <arpa/inet.h>
#include <check.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

static struct sockaddr_in6 six;
static struct sockaddr_in four;
static struct addrinfo second = {
	.ai_family = AF_INET, .ai_addr = (struct sockaddr *)&four, .ai_addrlen = sizeof(four)};
static struct addrinfo first = {
	.ai_family = AF_INET6, .ai_addr = (struct sockaddr *)&six, .ai_addrlen = sizeof(six)};
static unsigned int asked;

/* In place of the C library's. */
int
getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
	    struct addrinfo **found)
{
	(void)service;
	(void)hints;
	asked++;
	if (strcmp(host, "two") != 0 && strcmp(host, "one") != 0)
		return EAI_NONAME;
	six = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	four = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xc0000201)};
	first.ai_next = strcmp(host, "two") == 0 ? &second : NULL;
	*found = &first;
	return 0;
}

void
freeaddrinfo(struct addrinfo *all)
{
	ck_assert_ptr_eq(all, &first);
}

static void
assert_uris(const char *uri, const char *wanted_first, const char *wanted_second)
{
	g_auto(GStrv) uris = nbd_uri_addresses(uri);

	ck_assert_str_eq(uris[0], wanted_first);
	ck_assert_msg(g_strcmp0(uris[1], wanted_second) == 0, "%s: %s instead of %s", uri, uris[1],
		      wanted_second);
	ck_assert(!uris[1] || !uris[2]);
}

START_TEST(each_address_is_in_place_of_the_name)
{
	assert_uris("nbd://two", "nbd://[::1]", "nbd://192.0.2.1");
	assert_uris("nbd://two:10810/", "nbd://[::1]:10810/", "nbd://192.0.2.1:10810/");
	assert_uris("nbd://me@two/an%20export%2F?a=b%26c", "nbd://me@[::1]/an%20export%2F?a=b%26c",
		    "nbd://me@192.0.2.1/an%20export%2F?a=b%26c");
}
END_TEST

START_TEST(one_address_leaves_the_uri_as_it_is)
{
	assert_uris("nbd://one:10810/x", "nbd://one:10810/x", NULL);
	assert_uris("nbd://none/x", "nbd://none/x", NULL);
	ck_assert_uint_eq(asked, 2);
}
END_TEST

START_TEST(what_has_no_name_to_replace_is_left_as_it_is)
{
	static const char *const uris[] = {"nbds://two/x",
					   "nbd+unix:///x?socket=/run/a%20b",
					   "nbd+vsock://2",
					   "nbd:///x",
					   "nbd+nonsense://two",
					   "nbd://two:what",
					   "nbd://%zz",
					   "/srv/disk.img",
					   ""};

	for (size_t i = 0; i < G_N_ELEMENTS(uris); i++)
		assert_uris(uris[i], uris[i], NULL);
	ck_assert_uint_eq(asked, 0);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "uri"},
		{.test = each_address_is_in_place_of_the_name},
		{.test = one_address_leaves_the_uri_as_it_is},
		{.test = what_has_no_name_to_replace_is_left_as_it_is},
		{0},
	};

	return suite_run("uri_addresses", cases);
}
