/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The value of --http: a TCP address and port, or the path of a unix socket.
 */
#ifndef SERVER_CONFIG_HTTP_ADDRESS_H
#define SERVER_CONFIG_HTTP_ADDRESS_H

struct http_address {
	char *path;        /* of the unix socket; NULL: TCP */
	char *host;        /* an address without brackets, or a name; NULL: a unix socket */
	unsigned int port; /* 0 to 65535; 0: the kernel chooses one */
};

/* Parses "ADDRESS:PORT", "[ADDRESS]:PORT" or "unix:PATH", and looks no name up. Returns 0, after
 * which the caller ends with http_address_fini(); or -EINVAL with *error a sentence (caller frees);
 * or -ENOMEM. */
int
http_address_parse(const char *text, struct http_address *address, char **error);
void
http_address_fini(struct http_address *address);

#endif
