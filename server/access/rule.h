/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rules: each names clients by one fact of their identity. A list of them is text, with commas or
 * blanks between the rules:
 *
 *	psk:USER, cn:NAME, dn:NAME, san:TYPE:NAME	what TLS tells
 *	uid:N, user:NAME				the user of a client on a unix socket
 *	gid:N, group:NAME				any group of that client
 *	net:ADDRESS[/BITS]				the network of a client over TCP
 *	cid:N						the machine of a client over vsock
 *	any, none					all clients, no client
 */
#ifndef SERVER_ACCESS_RULE_H
#define SERVER_ACCESS_RULE_H

#include "server/access/identity.h"

#include <stdbool.h>
#include <stddef.h>

enum rule_fact {
	RULE_ANY,
	RULE_NONE,
	RULE_PSK,
	RULE_CN,
	RULE_DN,
	RULE_SAN,
	RULE_UID,
	RULE_GID,
	RULE_NET,
	RULE_CID,
};

struct rule {
	enum rule_fact fact;
	union {
		char *name;      /* PSK, CN, DN, SAN */
		uint32_t number; /* UID, GID, CID */
		struct {
			struct net_address address;
			unsigned int bits; /* of the address that count */
		} net;
	};
};

struct rules {
	struct rule *list;
	size_t count;
};

/*
 * Parses a list, and finds the users and groups that it names, which may take a while. `option`
 * begins the error's sentence. Returns 0, or -errno with *error (caller frees; NULL: out of
 * memory) and nothing to free in *rules.
 */
int
rules_parse(struct rules *rules, const char *option, const char *text, char **error);

void
rules_fini(struct rules *rules);

/* Returns whether one of the rules names the client. */
bool
rules_match(const struct rules *rules, const struct identity *identity);

/* Returns whether both name the same, in the same order. */
bool
rules_same(const struct rules *a, const struct rules *b);

/* How clients of a server can prove what only TLS tells: bits. */
enum rule_proof {
	RULE_PROOF_KEY = 1,         /* psk: */
	RULE_PROOF_CERTIFICATE = 2, /* cn:, dn:, san: */
};

/* Returns NULL, or a static sentence about a rule that can name no client of a server whose clients
 * can prove themselves in these ways only (bits of enum rule_proof). */
const char *
rules_problem(const struct rules *rules, unsigned int proofs);

#endif
