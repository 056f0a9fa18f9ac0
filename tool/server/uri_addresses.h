/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The addresses that an NBD URI's host name has.  An NBD library that is given the name tries them
 * one after the other, and may wait for minutes for one that answers nothing.
 */
#ifndef TOOL_SERVER_URI_ADDRESSES_H
#define TOOL_SERVER_URI_ADDRESSES_H

#include <glib.h>

/*
 * The URI once for each address, in the system's order, with the address in place of the name; or
 * only as it is, where it has one address, none, or no name that may be replaced: with TLS
 * (nbds://), the name says whose certificate it is.  Waits for the name service.  Caller frees
 * (g_strfreev); never empty.
 */
char **
uri_addresses(const char *uri);

#endif
