/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The aim of a negotiation.
 */
#ifndef TOOL_LINK_NEGOTIATION_AIM_H
#define TOOL_LINK_NEGOTIATION_AIM_H

#include <stdbool.h>

struct tls_credentials;

/* Borrowed until the end of the negotiation. */
struct negotiation_aim {
	const char *export;                  /* its name */
	struct tls_credentials *credentials; /* NULL: no TLS */
	const char *hostname; /* that the server's certificate must have; NULL: any that it has */
	bool proxy;           /* with TLS: a proxy gets the keys, and not the kernel */
};

#endif
