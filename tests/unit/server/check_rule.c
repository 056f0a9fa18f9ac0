/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rules about clients: what they are, and whom they name.
 */
#include "server/access/rule.h"

#include "tests/lib/suite.h"
#include "tests/unit/server/rule_fixture.h"

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The error names the option and the rule, and gives a hint. */
static void
assert_refused(const char *text, const char *rule, const char *hint)
{
	struct rules rules;
	char *error = NULL;

	ck_assert_msg(rules_parse(&rules, "allow-write", text, &error) == -EINVAL, "%s", text);
	ck_assert_ptr_nonnull(error);
	ck_assert_msg(strncmp(error, "allow-write", 11) == 0, "%s", error);
	ck_assert_msg(strstr(error, rule) != NULL, "%s: %s", text, error);
	ck_assert_msg(strstr(error, hint) != NULL, "%s: %s", text, error);
	ck_assert_uint_eq(rules.count, 0);
	ck_assert_ptr_null(rules.list);
	free(error);
}

/* ---- whom a rule names */

START_TEST(any_names_all_and_none_no_client)
{
	const struct identity *all[] = {&inet, &local, &vm, &nobody_known};

	for (size_t i = 0; i < 4; i++) {
		ck_assert(rules_name("any", all[i]));
		ck_assert(!rules_name("none", all[i]));
		ck_assert(rules_name("none,any", all[i]));
	}
}
END_TEST

START_TEST(each_fact_is_told_from_the_others)
{
	/* The same text as each fact; clients that have the text as one fact only. */
	static const char *const kinds[] = {"psk", "cn", "dn", "san:dns", "uid", "gid", "cid"};
	char text[] = "7", alternative[] = "dns:7", *sans[] = {alternative, NULL};
	uint32_t seven[] = {7};
	const struct identity clients[] = {
		{.kind = IDENTITY_INET, .psk = text},
		{.kind = IDENTITY_INET, .common_name = text},
		{.kind = IDENTITY_INET, .dn = text},
		{.kind = IDENTITY_INET, .alt_names = sans},
		{.kind = IDENTITY_UNIX, .uid = 7, .gid = 8},
		{.kind = IDENTITY_UNIX, .uid = 8, .gid = 8, .groups = seven, .group_count = 1},
		{.kind = IDENTITY_VSOCK, .cid = 7},
	};
	char rule[16];

	for (size_t i = 0; i < 7; i++) {
		snprintf(rule, sizeof(rule), "%s:7", kinds[i]);
		for (size_t j = 0; j < 7; j++)
			ck_assert_msg(rules_name(rule, &clients[j]) == (i == j), "%s, client %zu",
				      rule, j);
	}
}
END_TEST

/* A fact that the client doesn't have is 0 in the structure. */
START_TEST(absent_facts_match_nothing)
{
	const struct identity *all[] = {&inet, &local, &vm, &nobody_known};

	local.uid = local.gid = 1;
	for (size_t i = 0; i < 4; i++)
		ck_assert(!rules_name(
			"uid:0 gid:0 cid:0 net:0.0.0.0 net::: psk:x cn:x dn:x san:dns:x", all[i]));
	ck_assert(!rules_name("net:0.0.0.0/0", &local));
	ck_assert(!rules_name("net:0.0.0.0/0 net:::/0", &vm));
	ck_assert(!rules_name("net:0.0.0.0/0 net:::/0", &nobody_known));
}
END_TEST

START_TEST(group_is_the_primary_or_any_supplementary_one)
{
	ck_assert(rules_name("gid:100", &local));
	ck_assert(rules_name("gid:36", &local));
	ck_assert(rules_name("gid:107", &local));
	ck_assert(!rules_name("gid:1000", &local));
	ck_assert(!rules_name("uid:36", &local));
	ck_assert(!rules_name("uid:100", &local));
}
END_TEST

START_TEST(names_of_users_and_groups_are_found)
{
	local.uid = local.gid = 0;
	local.group_count = 0;
	ck_assert(rules_name("user:root", &local));
	ck_assert(rules_name("group:root", &local));
	local.uid = local.gid = 1;
	ck_assert(!rules_name("user:root", &local));
	ck_assert(!rules_name("group:root", &local));
}
END_TEST

START_TEST(names_match_whole_and_exactly)
{
	local.psk = (char[]){"alice"};
	local.alt_names = local_names;
	ck_assert(rules_name("psk:alice", &local));
	ck_assert(!rules_name("psk:alic", &local));
	ck_assert(!rules_name("psk:alice2", &local));
	ck_assert(!rules_name("psk:Alice", &local));
	ck_assert(!rules_name("psk:*", &local));
	ck_assert(rules_name("san:dns:host.example.org", &local));
	ck_assert(rules_name("san:ip:10.1.2.3", &local));
	ck_assert(!rules_name("san:dns:example.org", &local));
	ck_assert(!rules_name("san:dns:*.example.org", &local));
	ck_assert(!rules_name("cn:host.example.org", &local));
	/* Another type of name with the same text. */
	ck_assert(!rules_name("san:uri:host.example.org", &local));
	ck_assert(!rules_name("san:email:host.example.org", &local));
	ck_assert(!rules_name("san:dns:10.1.2.3", &local));
}
END_TEST

START_TEST(bytes_of_a_name_may_be_written_as_numbers)
{
	local.psk = (char[]){"a b,100%:/\xc3\xa4"};
	ck_assert(rules_name("psk:a%20b%2c100%25:/\xc3\xa4", &local));
	ck_assert(rules_name("psk:%61%20b%2C100%25%3A/%C3%a4", &local));
	ck_assert(!rules_name("psk:a%20b", &local));
}
END_TEST

START_TEST(one_of_several_rules_is_enough)
{
	ck_assert(rules_name("uid:1,uid:1000", &local));
	ck_assert(rules_name("  uid:1000 ,\tuid:1,, ", &local));
	ck_assert(rules_name("uid:1 uid:1000 uid:2", &local));
	ck_assert(rules_name("psk:alice,net:10.0.0.0/8", &inet));
	ck_assert(!rules_name("uid:1,gid:1000,psk:alice,net:10.0.0.0/8", &local));
}
END_TEST

/* ---- networks */

/* The first `bits` of the two are the same: the rule itself, a bit at a time. */
static bool
share_bits(const uint8_t *a, const uint8_t *b, unsigned int bits)
{
	for (unsigned int i = 0; i < bits; i++) {
		if ((a[i / 8] ^ b[i / 8]) & (0x80 >> i % 8))
			return false;
	}
	return true;
}

static void
assert_each_length(int family, unsigned int most)
{
	struct identity client = {.kind = IDENTITY_INET};
	uint8_t net[16] = {0}, address[16];
	char text[INET6_ADDRSTRLEN], rule[INET6_ADDRSTRLEN + 16];

	for (unsigned int i = 0; i < most / 8; i++)
		address[i] = (uint8_t)(0xa5 + 7 * i);
	for (unsigned int bits = 0; bits <= most; bits++) {
		memset(net, 0, sizeof(net));
		for (unsigned int i = 0; i < bits; i++)
			net[i / 8] |= (uint8_t)(address[i / 8] & (0x80 >> i % 8));
		inet_ntop(family, net, text, sizeof(text));
		snprintf(rule, sizeof(rule), "net:%s/%u", text, bits);
		/* The client differs from the network in one bit, or in none. */
		for (unsigned int bit = 0; bit <= most; bit++) {
			uint8_t other[16];

			memcpy(other, address, sizeof(other));
			if (bit < most)
				other[bit / 8] ^= (uint8_t)(0x80 >> bit % 8);
			net_address_set(&client.address, family == AF_INET6, other);
			ck_assert_msg(rules_name(rule, &client) == share_bits(net, other, bits),
				      "%s, bit %u", rule, bit);
		}
	}
}

START_TEST(network_of_each_length_has_its_addresses_alone)
{
	assert_each_length(AF_INET, 32);
	assert_each_length(AF_INET6, 128);
}
END_TEST

START_TEST(address_alone_is_one_host)
{
	ck_assert(rules_name("net:10.1.2.3", &inet));
	ck_assert(!rules_name("net:10.1.2.4", &inet));
	client_set_address(&inet, "2001:db8::7");
	ck_assert(rules_name("net:2001:DB8:0::7", &inet));
	ck_assert(!rules_name("net:2001:db8::8", &inet));
}
END_TEST

/* CVE-2013-6410 of nbd-server: an address was compared as text. */
START_TEST(addresses_are_not_compared_as_text)
{
	client_set_address(&inet, "10.1.2.30");
	ck_assert(!rules_name("net:10.1.2.3", &inet));
	client_set_address(&inet, "110.1.2.3");
	ck_assert(!rules_name("net:10.0.0.0/8", &inet));
}
END_TEST

START_TEST(mapped_address_is_one_of_ipv4)
{
	client_set_address(&inet, "::ffff:10.1.2.3");
	ck_assert(!inet.address.six);
	ck_assert(rules_name("net:10.0.0.0/8", &inet));
	ck_assert(rules_name("net:::ffff:10.0.0.0/104", &inet));
	ck_assert(rules_name("net:::ffff:10.1.2.3", &inet));
	ck_assert(rules_name("net:::ffff:0:0/96", &inet));
	ck_assert(!rules_name("net:::ffff:11.0.0.0/104", &inet));
}
END_TEST

START_TEST(all_of_ipv6_is_none_of_ipv4)
{
	ck_assert(rules_name("net:0.0.0.0/0", &inet));
	ck_assert(!rules_name("net:::/0", &inet));
	client_set_address(&inet, "::ffff:10.1.2.3");
	ck_assert(!rules_name("net:::/0", &inet));
	client_set_address(&inet, "2001:db8::7");
	ck_assert(rules_name("net:::/0", &inet));
	ck_assert(!rules_name("net:0.0.0.0/0", &inet));
	client_set_address(&inet, "a01:203::");
	ck_assert(!rules_name("net:10.1.2.3", &inet));
}
END_TEST

/* ---- wrong rules */

START_TEST(wrong_rules_are_explained)
{
	static const char *const wrong[][2] = {
		{"alice", "psk:USER"},
		{"psk", "psk:USER"},
		{"psk:", "name must follow"},
		{"dn:", "name must follow"},
		/* As it was written before; a name of any type would do. */
		{"san:host.example.org", "an alternative name has a type: write san:dns:NAME"},
		{"san:dns:", "an alternative name has a type"},
		{"san:DNS:a", "an alternative name has a type"},
		{"any:", "any, none"},
		{"Any", "any, none"},
		{"PSK:a", "psk:USER"},
		{"ps:a", "psk:USER"},
		{":a", "psk:USER"},
		{"uid:", "whole number"},
		{"uid:x", "user:NAME"},
		{"uid:-1", "whole number"},
		{"uid:+1", "whole number"},
		{"uid:0x1", "whole number"},
		{"uid:4294967295", "0 to 4294967294"},
		{"uid:18446744073709551616", "whole number"},
		{"gid:x", "group:NAME"},
		{"cid:x", "whole number"},
		{"user:nobody-of-this-name", "no user of this name"},
		{"user:", "no user of this name"},
		{"user:4000000", "uid:4000000"},
		{"group:nobody-of-this-name", "no group of this name"},
		{"group:4000000", "gid:4000000"},
		{"psk:a%", "%25"},
		{"psk:a%2", "%25"},
		{"psk:a%2g", "%25"},
		{"psk:a%00b", "%25"},
		{"net:", "10.0.0.0/8"},
		{"net:host.example.org", "no name"},
		{"net:10.1", "10.0.0.0/8"},
		{"net:10.0.0.0/33", "10.0.0.0/8"},
		{"net:10.0.0.0/", "10.0.0.0/8"},
		{"net:10.0.0.0/-1", "10.0.0.0/8"},
		{"net:10.0.0.0/255.0.0.0", "10.0.0.0/8"},
		{"net:[::1]", "2001:db8::/32"},
		{"net:::1/129", "2001:db8::/32"},
		{"net:fe80::1%eth0", "2001:db8::/32"},
		{"net:10.1.2.3/8", "write net:10.0.0.0/8"},
		{"net:10.1.2.3/0", "write net:0.0.0.0/0"},
		{"net:2001:db8::1/32", "write net:2001:db8::/32"},
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		char list[128];

		assert_refused(wrong[i][0], wrong[i][0], wrong[i][1]);
		/* So that what was read before it is freed. */
		snprintf(list, sizeof(list), "psk:a,cn:b %s", wrong[i][0]);
		assert_refused(list, wrong[i][0], wrong[i][1]);
	}
}
END_TEST

/* An empty list would be taken for "all" by some, for "none" by others. */
START_TEST(list_without_a_rule_is_an_error)
{
	assert_refused("", "empty", "any");
	assert_refused(" ,\t, ", "empty", "none");
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "matching", .begin = clients_begin},
		{.test = any_names_all_and_none_no_client},
		{.test = each_fact_is_told_from_the_others},
		{.test = absent_facts_match_nothing},
		{.test = group_is_the_primary_or_any_supplementary_one},
		{.test = names_of_users_and_groups_are_found},
		{.test = names_match_whole_and_exactly},
		{.test = bytes_of_a_name_may_be_written_as_numbers},
		{.test = one_of_several_rules_is_enough},

		{.name = "networks", .begin = clients_begin},
		{.test = network_of_each_length_has_its_addresses_alone},
		{.test = address_alone_is_one_host},
		{.test = addresses_are_not_compared_as_text},
		{.test = mapped_address_is_one_of_ipv4},
		{.test = all_of_ipv6_is_none_of_ipv4},

		{.name = "errors", .begin = clients_begin},
		{.test = wrong_rules_are_explained},
		{.test = list_without_a_rule_is_an_error},
		{0},
	};

	return suite_run("rule", cases);
}
