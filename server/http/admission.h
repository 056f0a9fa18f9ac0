/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which requests of HTTP are answered. Without a token, the server listens only where programs of
 * this machine can connect; but a browser on it may be told by a foreign page to connect, too.
 */
#ifndef SERVER_HTTP_ADMISSION_H
#define SERVER_HTTP_ADMISSION_H

#include <stdbool.h>

/* Returns whether the header field "Host" names this machine by localhost or an address of its own
 * (127.0.0.0/8, ::1). A page whose name was made to lead to such an address ("DNS rebinding") has
 * that name in it. NULL, no such field: false. */
bool
http_host_is_local(const char *host);

/* The shortest and longest token, in bytes. */
#define HTTP_TOKEN_MIN 16
#define HTTP_TOKEN_MAX 512

/* Reads a token from a file: one line of visible ASCII characters. Returns 0 with *token (the
 * caller frees), or -errno with *error a sentence (the caller frees). */
int
http_token_read(const char *path, char **token, char **error);

/* Returns whether the header field "Authorization" (RFC 6750), or NULL, has this token. Takes the
 * same time wherever they differ. */
bool
http_token_fits(const char *token, const char *authorization);

#endif
