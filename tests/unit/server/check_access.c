/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Identities of clients, and the access to an export that they have.
 */
#include "server/access/access.h"

#include "tests/lib/suite.h"
#include "tests/unit/server/rule_fixture.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- identities as rules */

struct match {
	const struct identity *identity;
	unsigned int count;
	char text[512];
};

static void
match_rule(void *data, const char *rule)
{
	struct match *match = data;

	ck_assert_msg(rules_name(rule, match->identity), "%s", rule);
	match->count++;
	strcat(match->text, rule);
	strcat(match->text, " ");
}

static void
assert_counts_as(const struct identity *identity, const char *rule)
{
	char *counts_as = identity_rule(identity);

	ck_assert_str_eq(counts_as, rule);
	free(counts_as);
}

START_TEST(client_counts_by_the_surest_fact)
{
	assert_counts_as(&local, "uid:1000");
	local.alt_names = local_names;
	assert_counts_as(&local, "san:dns:host.example.org");
	local.dn = (char[]){"O=b"};
	assert_counts_as(&local, "dn:O=b");
	local.common_name = (char[]){"backup"};
	assert_counts_as(&local, "cn:backup");
	local.psk = (char[]){"a b"};
	assert_counts_as(&local, "psk:a%20b");
	assert_counts_as(&inet, "net:10.1.2.3");
	client_set_address(&inet, "2001:db8:1:2:3:4:5:6");
	assert_counts_as(&inet, "net:2001:db8:1:2::/64");
	client_set_address(&inet, "::ffff:10.9.8.7");
	assert_counts_as(&inet, "net:10.9.8.7");
	assert_counts_as(&vm, "cid:3");
	assert_counts_as(&nobody_known, "any");
}
END_TEST

START_TEST(identity_is_told_as_rules_that_name_it)
{
	struct match match = {&local, 0, ""};

	local.psk = (char[]){"a b,%\n\x7f\xc3\xa4"};
	local.common_name = (char[]){"backup"};
	local.alt_names = local_names;
	ck_assert_int_eq(identity_visit(&local, match_rule, &match), 0);
	ck_assert_str_eq(match.text,
			 "psk:a%20b%2C%25%0A%7F\xc3\xa4 cn:backup san:dns:host.example.org "
			 "san:ip:10.1.2.3 uid:1000 gid:100 gid:36 gid:107 ");
	match = (struct match){&inet, 0, ""};
	ck_assert_int_eq(identity_visit(&inet, match_rule, &match), 0);
	ck_assert_str_eq(match.text, "net:10.1.2.3 ");
	client_set_address(&inet, "2001:db8::7");
	match = (struct match){&inet, 0, ""};
	ck_assert_int_eq(identity_visit(&inet, match_rule, &match), 0);
	ck_assert_str_eq(match.text, "net:2001:db8::7 ");
	match = (struct match){&vm, 0, ""};
	ck_assert_int_eq(identity_visit(&vm, match_rule, &match), 0);
	ck_assert_str_eq(match.text, "cid:3 ");
	match = (struct match){&nobody_known, 0, ""};
	ck_assert_int_eq(identity_visit(&nobody_known, match_rule, &match), 0);
	ck_assert_uint_eq(match.count, 0);
}
END_TEST

START_TEST(unix_socket_tells_user_and_groups)
{
	struct identity *identity;
	gid_t groups[512];
	int count = getgroups(512, groups), pair[2];
	char rule[32];

	ck_assert_int_ge(count, 0);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	identity = identity_new(pair[0], "here");
	ck_assert_ptr_nonnull(identity);
	ck_assert_str_eq(identity->text, "here");
	snprintf(rule, sizeof(rule), "uid:%u", (unsigned int)geteuid());
	ck_assert(rules_name(rule, identity));
	snprintf(rule, sizeof(rule), "gid:%u", (unsigned int)getegid());
	ck_assert(rules_name(rule, identity));
	ck_assert_uint_eq(identity->group_count, (size_t)count);
	for (int i = 0; i < count; i++) {
		snprintf(rule, sizeof(rule), "gid:%u", (unsigned int)groups[i]);
		ck_assert(rules_name(rule, identity));
	}
	identity_free(identity);
	close(pair[0]);
	close(pair[1]);
}
END_TEST

START_TEST(tls_adds_to_the_identity_and_its_text)
{
	char *const none[] = {NULL};
	struct identity *identity = identity_new(-1, "10.0.0.5:4711");

	ck_assert_int_eq(identity->kind, IDENTITY_UNKNOWN);
	ck_assert_int_eq(identity_set_psk(identity, "alice"), 0);
	ck_assert_str_eq(identity->text, "10.0.0.5:4711 (psk:alice)");
	ck_assert(rules_name("psk:alice", identity));
	identity_free(identity);
	identity = identity_new(-1, "10.0.0.5:4711");
	ck_assert_int_eq(identity_set_certificate(identity, "a\nb", "CN=a,O=b", local_names), 0);
	ck_assert_str_eq(
		identity->text,
		"10.0.0.5:4711 (cn:a%0Ab, dn:CN=a%2CO=b, san:dns:host.example.org, san:ip:10.1.2.3)");
	ck_assert(rules_name("san:ip:10.1.2.3", identity));
	ck_assert(rules_name("dn:CN=a%2CO=b", identity));
	identity_free(identity);
	identity = identity_new(-1, "10.0.0.5:4711");
	ck_assert_int_eq(identity_set_certificate(identity, "a", "CN=a", none), 0);
	ck_assert_str_eq(identity->text, "10.0.0.5:4711 (cn:a)");
	ck_assert(rules_name("dn:CN=a", identity));
	identity_free(identity);
	identity = identity_new(-1, "10.0.0.5:4711");
	ck_assert_int_eq(identity_set_certificate(identity, NULL, NULL, none), 0);
	ck_assert_str_eq(identity->text, "10.0.0.5:4711");
	identity_free(identity);
}
END_TEST

/* ---- access */

static struct access *
read_access(const char *allow, const char *allow_write)
{
	struct access *access;
	char *error;

	ck_assert_msg(access_new(allow, allow_write, RULE_PROOF_KEY | RULE_PROOF_CERTIFICATE,
				 &access, &error) == 0,
		      "%s", error);
	return access;
}

/* Clients that neither, only allow, only allow-write, or both name. A private one may always read.
 */
START_TEST(rights_follow_from_both_lists)
{
	static const struct {
		const char *allow, *allow_write;
		enum access_right rights[4];
	} rows[] = {
		{NULL, NULL, {ACCESS_WRITE, ACCESS_WRITE, ACCESS_WRITE, ACCESS_WRITE}},
		{"uid:1,uid:3", NULL, {ACCESS_NONE, ACCESS_WRITE, ACCESS_NONE, ACCESS_WRITE}},
		{NULL, "uid:2,uid:3", {ACCESS_NONE, ACCESS_NONE, ACCESS_WRITE, ACCESS_WRITE}},
		{"uid:1,uid:3",
		 "uid:2,uid:3",
		 {ACCESS_NONE, ACCESS_READ, ACCESS_WRITE, ACCESS_WRITE}},
		{"any", "uid:2,uid:3", {ACCESS_READ, ACCESS_READ, ACCESS_WRITE, ACCESS_WRITE}},
		{"any", "none", {ACCESS_READ, ACCESS_READ, ACCESS_READ, ACCESS_READ}},
		{"none", NULL, {ACCESS_NONE, ACCESS_NONE, ACCESS_NONE, ACCESS_NONE}},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct access *access = read_access(rows[i].allow, rows[i].allow_write);

		for (uint32_t uid = 0; uid < 4; uid++) {
			local.uid = uid;
			ck_assert_msg(access_right(access, &local) == rows[i].rights[uid],
				      "row %zu, uid %u", i, uid);
			local.private = true;
			ck_assert_msg(access_right(access, &local) ==
					      MAX(rows[i].rights[uid], ACCESS_READ),
				      "row %zu, uid %u, private", i, uid);
			local.private = false;
		}
		access_release(access);
	}
}
END_TEST

START_TEST(access_is_freed_by_its_last_holder)
{
	struct access *access = read_access("uid:0", NULL);

	ck_assert_ptr_eq(access_hold(access), access);
	access_release(access);
	ck_assert_str_eq(access->allow, "uid:0");
	access_release(access);
	ck_assert_ptr_null(access_hold(NULL));
	access_release(NULL);
}
END_TEST

START_TEST(access_differs_if_a_rule_does)
{
	static const char *const texts[][2] = {
		{NULL, NULL},
		{"uid:1", NULL},
		{NULL, "uid:1"},
		{"uid:1", "uid:1"},
		{"gid:1", NULL},
		{"uid:2", NULL},
		{"uid:1,uid:2", NULL},
		{"psk:a", NULL},
		{"psk:b", NULL},
		{"net:10.0.0.0/8", NULL},
		{"net:10.0.0.0/9", NULL},
		{"net:11.0.0.0/8", NULL},
		{"any", NULL},
		{"none", NULL},
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct access *a = read_access(texts[i][0], texts[i][1]);

		for (size_t j = 0; j < sizeof(texts) / sizeof(texts[0]); j++) {
			struct access *b = read_access(texts[j][0], texts[j][1]);

			ck_assert_msg(access_same(a, b) == (i == j), "%zu, %zu", i, j);
			access_release(b);
		}
		access_release(a);
	}
}
END_TEST

/* The text stays, but a name in it has got another number since. */
START_TEST(access_differs_if_a_name_has_another_number)
{
	struct access *a = read_access("user:root", NULL), *b = read_access("user:root", NULL);

	ck_assert(access_same(a, b));
	b->readers.list[0].number = 1;
	ck_assert(!access_same(a, b));
	access_release(a);
	access_release(b);
}
END_TEST

START_TEST(rules_that_no_client_can_meet_are_refused)
{
	static const struct {
		const char *rules;
		unsigned int needed;
	} rows[] = {
		{"any,uid:1,gid:1,net:10.0.0.0/8,cid:1,none", 0},
		{"uid:1,psk:a", RULE_PROOF_KEY},
		{"cn:a", RULE_PROOF_CERTIFICATE},
		{"dn:CN=a", RULE_PROOF_CERTIFICATE},
		{"net:10.0.0.0/8,san:dns:a", RULE_PROOF_CERTIFICATE},
		{"psk:a cn:a", RULE_PROOF_KEY | RULE_PROOF_CERTIFICATE},
	};
	struct access *access;
	char *error;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (unsigned int proofs = 0; proofs < 4; proofs++) {
			bool right = (rows[i].needed & ~proofs) == 0;

			ck_assert_int_eq(access_new(rows[i].rules, "any", proofs, &access, &error),
					 right ? 0 : -EINVAL);
			ck_assert_int_eq(access != NULL, right);
			ck_assert(right || strncmp(error, "allow=", 6) == 0);
			ck_assert(right || strstr(error, "no client of this server"));
			access_release(access);
			free(error);
			ck_assert_int_eq(access_new("any", rows[i].rules, proofs, &access, &error),
					 right ? 0 : -EINVAL);
			ck_assert(right || strncmp(error, "allow-write=", 12) == 0);
			access_release(access);
			free(error);
		}
	}
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "identities", .begin = clients_begin},
		{.test = client_counts_by_the_surest_fact},
		{.test = identity_is_told_as_rules_that_name_it},
		{.test = unix_socket_tells_user_and_groups},
		{.test = tls_adds_to_the_identity_and_its_text},

		{.name = "access", .begin = clients_begin},
		{.test = rights_follow_from_both_lists},
		{.test = access_is_freed_by_its_last_holder},
		{.test = access_differs_if_a_rule_does},
		{.test = access_differs_if_a_name_has_another_number},
		{.test = rules_that_no_client_can_meet_are_refused},
		{0},
	};

	return suite_run("access", cases);
}
