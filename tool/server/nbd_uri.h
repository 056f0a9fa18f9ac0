/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An NBD URI, and the addresses that its host name has.  An NBD library that is given the name
 * tries them one after the other, and may wait for minutes for one that answers nothing.
 */
#ifndef TOOL_SERVER_NBD_URI_H
#define TOOL_SERVER_NBD_URI_H

#include <glib.h>
#include <stdbool.h>

/* Whether a text, which may be NULL, is an NBD URI, and no path. */
bool
nbd_uri_is(const char *text);

/*
 * The URI once for each address, in the system's order, with the address in place of the name; or
 * only as it is, where it has one address, none, or no name that may be replaced: with TLS
 * (nbds://), the name says whose certificate it is.  Waits for the name service.  Caller frees
 * (g_strfreev); never empty.
 */
char **
nbd_uri_addresses(const char *uri);

#endif
