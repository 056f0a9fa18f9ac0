/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The identity of a client: all that the server knows of who is at the other end of a connection.
 * The socket tells one part when the connection is accepted, TLS the other when its handshake is
 * over.
 */
#ifndef SERVER_ACCESS_IDENTITY_H
#define SERVER_ACCESS_IDENTITY_H

#include "server/access/newcomers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* An address of IPv4 or IPv6. An IPv6 address that stands for one of IPv4 (::ffff:10.0.0.1) is kept
 * as IPv4. */
struct net_address {
	bool six;          /* IPv6: all 16 bytes count, else the first 4 */
	uint8_t bytes[16]; /* in the network's order */
};

struct identity {
	char *text; /* for the log: where the client connects from, and what TLS tells of it */

	enum {
		IDENTITY_UNKNOWN, /* the client was gone before it could be asked for */
		IDENTITY_INET,
		IDENTITY_UNIX,
		IDENTITY_VSOCK,
	} kind;
	struct net_address address; /* INET */
	uint32_t cid;               /* VSOCK */
	/* UNIX: of the process that connected, when it did. For a socket that the server inherited
	 * already connected: of the process that made it. */
	uint32_t uid, gid;
	uint32_t *groups; /* the supplementary groups */
	size_t group_count;
	bool private;             /* over a socket that only the server's user can reach */
	struct newcomer newcomer; /* until the client has chosen an export */

	/* Of TLS; NULL: none. */
	char *psk;         /* the user whose key the client has */
	char *common_name; /* of the client's certificate */
	char *dn;          /* its distinguished name, "CN=a,O=b" */
	char **alt_names;  /* its subject alternative names, "dns:host"; ends with NULL */
};

/* Reads the identity from a connected socket. `place`, where the client connects from, is for
 * .text. NULL: out of memory. */
struct identity *
identity_new(int fd, const char *place);

/* NULL is fine. */
void
identity_free(struct identity *identity);

/* TLS has begun, with this user's key. 0 or -ENOMEM. */
int
identity_set_psk(struct identity *identity, const char *user);

/* TLS has begun, with a certificate that was verified. `common_name` and `dn` may be NULL; so may
 * `alt_names`, which ends with NULL.  0 or -ENOMEM. */
int
identity_set_certificate(struct identity *identity, const char *common_name, const char *dn,
			 char *const *alt_names);

/* Calls `visit` with each rule (server/access/rule.h) that names only what the identity has, such
 * as "uid:1000", "gid:36" or "psk:alice". Returns 0 or -ENOMEM. */
int
identity_visit(const struct identity *identity, void (*visit)(void *data, const char *rule),
	       void *data);

/* Returns the rule of the one fact by which a client counts as the same as another: the name that
 * TLS tells (the key's user, the certificate's common name, or else its distinguished name or its
 * first alternative name), or the user on a unix socket, the machine over vsock, the address over
 * IPv4, the network of 64 bits over IPv6; "any" for what is unknown. The caller frees it. NULL: out
 * of memory. */
char *
identity_rule(const struct identity *identity);

/* Returns a number of where the client is: its IPv4 address, its IPv6 network of 64 bits, its user
 * on a unix socket, its machine over vsock. Others may have the same number. */
uint32_t
identity_place(const struct identity *identity);

/* Sets the address, in IPv4 if it stands for one. */
void
net_address_set(struct net_address *address, bool six, const void *bytes);

#endif
