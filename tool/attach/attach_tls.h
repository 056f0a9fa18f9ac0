/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The options of `nbdloop attach' about TLS, and what they and a URI say together.
 */
#ifndef TOOL_ATTACH_ATTACH_TLS_H
#define TOOL_ATTACH_ATTACH_TLS_H

#include "tool/link/nbd_uri.h"
#include "tool/source/source_tls.h"

#include <glib.h>
#include <stdbool.h>

struct attach_tls {
	char *by;                 /* "kernel" or "proxy"; NULL: the kernel */
	char *certificates, *psk; /* paths, which may be relative; NULL: none */
	char *hostname;           /* NULL: the URI's */
	unsigned int verify_peer; /* 0 or 1 */
};

/* The name of the first option that was given, or NULL. */
const char *
attach_tls_option(const struct attach_tls *options);

/* `uri` is parsed, and gives the rest.  source_tls_fini() frees *tls, after an error, too. */
bool
attach_tls_plan(const struct attach_tls *options, struct nbd_uri *uri, struct source_tls *tls,
		GError **error);

/* Whether the kernel can swap over connections that are encrypted like this. */
bool
attach_tls_check_swap(const struct attach_tls *options, GError **error);

#endif
