/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/server/rule_fixture.h"

#include "server/access/rule.h"

#include <arpa/inet.h>
#include <check.h>
#include <string.h>

struct identity inet, local, vm, nobody_known;
char *local_names[] = {(char[]){"dns:host.example.org"}, (char[]){"ip:10.1.2.3"}, NULL};

static uint32_t local_groups[] = {36, 107};

void
client_set_address(struct identity *client, const char *text)
{
	bool six = strchr(text, ':') != NULL;
	uint8_t bytes[16];

	ck_assert_int_eq(inet_pton(six ? AF_INET6 : AF_INET, text, bytes), 1);
	client->kind = IDENTITY_INET;
	net_address_set(&client->address, six, bytes);
}

void
clients_begin(void)
{
	inet = (struct identity){0};
	client_set_address(&inet, "10.1.2.3");
	local = (struct identity){
		.kind = IDENTITY_UNIX,
		.uid = 1000,
		.gid = 100,
		.groups = local_groups,
		.group_count = 2,
	};
	vm = (struct identity){.kind = IDENTITY_VSOCK, .cid = 3};
	nobody_known = (struct identity){0};
}

bool
rules_name(const char *text, const struct identity *client)
{
	struct rules rules;
	char *error = NULL;
	bool match;

	ck_assert_msg(rules_parse(&rules, "allow", text, &error) == 0, "%s: %s", text, error);
	match = rules_match(&rules, client);
	rules_fini(&rules);
	return match;
}
