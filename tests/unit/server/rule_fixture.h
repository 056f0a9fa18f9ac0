/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Clients whose identity is known, for tests of rules about them.
 */
#ifndef TESTS_UNIT_SERVER_RULE_FIXTURE_H
#define TESTS_UNIT_SERVER_RULE_FIXTURE_H

#include "server/access/identity.h"

#include <stdbool.h>

/* Over TCP (10.1.2.3), on a unix socket (user 1000, groups 100, 36 and 107), over vsock (3), and
 * one of which nothing is known.  A test changes its own. */
extern struct identity inet, local, vm, nobody_known;
/* Subject alternative names: host.example.org, 10.1.2.3. */
extern char *local_names[];

/* For a checked fixture. */
void
clients_begin(void);

/* Makes it a client over TCP from this address, IPv4 or IPv6. */
void
client_set_address(struct identity *client, const char *text);

/* Whether the rules, which must be right, name the client. */
bool
rules_name(const char *rules, const struct identity *client);

#endif
