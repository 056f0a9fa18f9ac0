/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Certificates by certtool(1), a program of GnuTLS.  Keys stay in files, which only their owner can
 * read; certtool gets no secret but by them.
 */
#ifndef TOOL_KEYS_CERTTOOL_H
#define TOOL_KEYS_CERTTOOL_H

#include <glib.h>
#include <stdbool.h>
#include <time.h>

/* Two files, in PEM. */
struct certtool_pair {
	const char *certificate, *key;
};

/* Makes a key (ECDSA on P-256) and its certificate, signed by `authority`, or by itself (NULL).
 * `template`: a file of certtool's that tells what the certificate is for. */
bool
certtool_make(const struct certtool_pair *pair, const struct certtool_pair *authority,
	      const char *template, GError **error);

/* Checks that the files are a certificate and its key, all of both.  EINVAL: they are not. */
bool
certtool_check(const struct certtool_pair *pair, GError **error);

/* When the certificate in a file ends; 0: *error is set. */
time_t
certtool_end(const char *certificate, GError **error);

#endif
