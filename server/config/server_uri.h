/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The NBD URI by which a program on this machine reaches the server: its first address, and its
 * first export.
 */
#ifndef SERVER_CONFIG_SERVER_URI_H
#define SERVER_CONFIG_SERVER_URI_H

#include "server/config/server_config.h"

#include <stdio.h>

/* Returns whether the configuration names an address: without one, the server listens where
 * listener.c decides. */
bool
config_names_address(const struct server_config *config);

/* Returns the URI, "nbd+unix:///debian?socket=/run/nbdloopd.sock". The caller frees it; NULL: out
 * of memory. `path` is the absolute path of the first unix socket; NULL: there is none. */
char *
server_uri(const struct server_config *config, const char *path);

/* Writes text, with all bytes but the unreserved ones of RFC 3986 and slashes as %XX. */
void
server_uri_put_encoded(FILE *out, const char *text);

#endif
