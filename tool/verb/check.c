/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop check: whether a server answers, and reads.  For monitors; it needs no device, no nbd
 * driver, and not root.
 */
#include "tool/failure.h"
#include "tool/source/proxies.h"
#include "tool/source/export_read.h"
#include "tool/link/nbd_uri.h"
#include "tool/attach/attach_tls.h"
#include "tool/verb/verb.h"

#include "common/log.h"

#include <errno.h>

struct check_options {
	unsigned int timeout; /* seconds */
};

static const struct option_row check_option_rows[] = {
	{
		.name = "timeout",
		.type = OPTION_UINT,
		.field = offsetof(struct check_options, timeout),
		.initial = "30",
		.min = 1,
		.max = 86400,
		.arg = "SECONDS",
		.help = "how long connection and read may take together",
	},
	{.name = NULL},
};

static bool
check_one_server(const char *uri, const struct source_tls *tls, unsigned int seconds,
		 GError **error)
{
	const gint64 end = g_get_monotonic_time() + (gint64)seconds * G_USEC_PER_SEC;
	struct source_connection connection = {.fd = -1}, *all = &connection;
	struct proxies proxies = {.pids = NULL};
	g_autoptr(GPtrArray) uris = g_ptr_array_new();
	const struct source_search search = {.uri = uri, .uris = uris, .tls = tls};
	GError *why = NULL;
	unsigned int server;
	bool done;

	g_ptr_array_add(uris, (char *)uri);
	if (!source_connections_to_servers(&all, 1, false, &search, seconds * 1000, &server, error))
		return false;
	/* A proxy does TLS, so that the kernel needs none, and unix sockets may have it. */
	done = (!connection.session || proxies_start(&proxies, &all, 1, uri, &why)) &&
	       export_read_first(&connection, end, &why);
	source_connection_close(&connection);
	proxies_end(&proxies);
	if (!done)
		g_propagate_prefixed_error(error, why, "%s: ", uri);
	return done;
}

static bool
check_uri(const char *text, unsigned int seconds, GError **error)
{
	struct attach_tls options = {.verify_peer = 1};
	struct source_tls tls = {.wanted = false};
	struct nbd_uri uri;
	bool good = nbd_uri_parse(text, &uri, error);

	options.by = good && uri.tls ? (char *)"proxy" : NULL;
	good = good && attach_tls_plan(&options, &uri, &tls, error) &&
	       check_one_server(text, &tls, seconds, error);
	source_tls_fini(&tls);
	nbd_uri_fini(&uri);
	return good;
}

static bool
run_check(const struct verb_call *call, GError **error)
{
	const struct check_options *options = call->options;
	g_autoptr(GPtrArray) uris = NULL;
	bool all = true;

	if (!nbd_uri_is(call->operands[0]))
		return failure(error, EINVAL, "%s is no NBD URI", call->operands[0]);
	uris = nbd_uri_servers(call->operands[0], error);
	for (guint i = 0; uris && i < uris->len; i++) {
		g_autoptr(GError) why = NULL;

		if (check_uri(uris->pdata[i], options->timeout, &why))
			continue;
		log_error("%s", why->message);
		all = false;
	}
	return uris && all;
}

const struct verb verb_check = {
	.name = "check",
	.help = "check that a server answers, by reading from its export",
	.synopsis = "[OPTION]... URI",
	.summary = "Reads the first block of an export, and fails if the server doesn't answer.",
	.rows = check_option_rows,
	.least = 1,
	.most = 1,
	.options_size = sizeof(struct check_options),
	.run = run_check,
};
