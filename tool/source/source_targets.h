/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where connections to a remote export may lead: the servers that have it, in the order in which
 * they are tried, and the addresses of each.
 */
#ifndef TOOL_SOURCE_SOURCE_TARGETS_H
#define TOOL_SOURCE_SOURCE_TARGETS_H

#include "tool/link/export_facts.h"
#include "tool/link/nbd_uri.h"
#include "tool/link/negotiation.h"
#include "tool/source/source_tls.h"

#include <glib.h>

/* What is looked for; all is borrowed. */
struct source_search {
	const char *uri;       /* that names all, for messages */
	const GPtrArray *uris; /* char *, one for each server, in the order to try; at least one */
	const struct source_tls *tls;
	/* What an export of any server but the first must be like (export_facts_fit()); NULL: the
	 * device isn't attached yet, and any export will do. */
	const struct export_facts *device;
};

struct source_server {
	struct nbd_uri uri;
	struct negotiation_aim aim;
	char *name; /* nbd_uri_server_name(); NULL: there is only one, and no need to say which */
	const struct export_facts *device; /* of the search; NULL: it may have any export */
};

struct source_target {
	struct nbd_address address;
	unsigned int server; /* an index into .servers, and into the search's .uris */
};

struct source_targets {
	struct source_server *servers;
	unsigned int count;
	GArray *all;      /* struct source_target, in the order to try */
	GString *unknown; /* why the names of some servers have no address; or "" */
	struct tls_credentials *credentials;
};

/* Waits for the name service.  False with an error: no server has an address, or a URI or a file of
 * TLS is wrong.  Caller frees (source_targets_fini), after an error, too. */
bool
source_targets_find(struct source_targets *targets, const struct source_search *search,
		    GError **error);
void
source_targets_fini(struct source_targets *targets);

/* The server of the target with that index. */
static inline const struct source_server *
source_targets_server(const struct source_targets *targets, unsigned int index)
{
	return &targets->servers[g_array_index(targets->all, struct source_target, index).server];
}

/* For how many milliseconds that target, the first or a later one, is tried alone before the next
 * one is tried as well. */
unsigned int
source_targets_head_start(const struct source_targets *targets, unsigned int index,
			  unsigned int limit_ms);

/* "a:10809: REASON" where there are several servers, after what is in `reasons` already. */
void
source_server_add_reason(const struct source_server *server, GString *reasons, const char *reason);

#endif
