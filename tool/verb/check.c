/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop check: whether a device, an export of a running nbdloopd, or the servers of a URI answer
 * a read. For monitors: for a URI, it needs no device, no nbd driver, and not root.
 */
#include "tool/attach/attach_tls.h"
#include "tool/device/direct_read.h"
#include "tool/failure.h"
#include "tool/link/nbd_uri.h"
#include "tool/link/server_link.h"
#include "tool/source/export_read.h"
#include "tool/source/proxies.h"
#include "tool/verb/served_export.h"
#include "tool/verb/verb.h"

#include "common/log.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

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

/* On a terminal, where a person waits for a word. `name`: what was checked, or NULL if the person
 * knows. */
static void
check_print_ok(const char *name, gint64 us)
{
	if (isatty(STDOUT_FILENO))
		printf("%s%sok, %.1f ms\n", name ? name : "", name ? ": " : "", (double)us / 1000);
}

static gint64
check_end(unsigned int seconds)
{
	return g_get_monotonic_time() + (gint64)seconds * G_USEC_PER_SEC;
}

/* ---- servers of a URI */

/* *us: how long the read took, microseconds. */
static bool
check_one_server(const char *uri, const struct source_tls *tls, gint64 end, gint64 *us,
		 GError **error)
{
	const gint64 left_ms = (end - g_get_monotonic_time()) / 1000;
	gint64 begin;
	struct source_connection connection = {.fd = -1}, *all = &connection;
	struct proxies proxies = {.pids = NULL};
	g_autoptr(GPtrArray) uris = g_ptr_array_new();
	const struct source_search search = {.uri = uri, .uris = uris, .tls = tls};
	GError *why = NULL;
	unsigned int server;
	bool done;

	g_ptr_array_add(uris, (char *)uri);
	if (!source_connections_to_servers(&all, 1, false, &search, (unsigned int)MAX(left_ms, 1),
					   &server, error))
		return false;
	/* A proxy does TLS, so that the kernel needs none, and unix sockets may have it. */
	done = !connection.session || proxies_start(&proxies, &all, 1, uri, &why);
	begin = g_get_monotonic_time();
	done = done && export_read_first(&connection, end, &why);
	*us = g_get_monotonic_time() - begin;
	source_connection_close(&connection);
	proxies_end(&proxies);
	if (!done)
		g_propagate_prefixed_error(error, why, "%s: ", uri);
	return done;
}

static bool
check_uri_server(const char *text, gint64 end, gint64 *us, GError **error)
{
	struct attach_tls options = {.verify_peer = 1};
	struct source_tls tls = {.wanted = false};
	struct nbd_uri uri;
	bool good = nbd_uri_parse(text, &uri, error);

	options.by = good && uri.tls ? (char *)"proxy" : NULL;
	good = good && attach_tls_plan(&options, &uri, &tls, error) &&
	       check_one_server(text, &tls, end, us, error);
	source_tls_fini(&tls);
	nbd_uri_fini(&uri);
	return good;
}

/* All of them, and each has the whole time. */
static bool
check_uri(const char *text, unsigned int seconds, GError **error)
{
	g_autoptr(GPtrArray) uris = nbd_uri_servers(text, error);
	bool all = true;

	for (guint i = 0; uris && i < uris->len; i++) {
		const char *uri = uris->pdata[i];
		g_autoptr(GError) why = NULL;
		gint64 us;

		if (check_uri_server(uri, check_end(seconds), &us, &why)) {
			check_print_ok(uris->len > 1 ? uri : NULL, us);
			continue;
		}
		log_error("%s", why->message);
		all = false;
	}
	return uris && all;
}

/* ---- an export of a running nbdloopd */

/* The socket is for users of the control socket: it needs no TLS, and no rule. Caller frees. */
static char *
check_find_socket(const struct asked_server *server, gint64 end, GError **error)
{
	json_auto_t *answer = server_link_ask_until(server->socket, "listen", end, error);
	const char *path = json_string_value(json_object_get(answer, "socket"));

	if (answer && !path)
		failure(error, EPROTO, "%s: the server names no socket", server->socket);
	return g_strdup(path);
}

/* "nbd+unix:///NAME?socket=PATH".  Caller frees. */
static char *
check_compose_uri(json_t *export, const char *path)
{
	const char *name = json_string_value(json_object_get(export, "name")) ?: "";
	g_autofree char *escaped_name = g_uri_escape_string(name, NULL, false),
			*escaped_path = g_uri_escape_string(path, "/", false);

	return g_strconcat("nbd+unix:///", escaped_name, "?socket=", escaped_path, NULL);
}

static bool
check_served_export(const char *text, unsigned int seconds, GError **error)
{
	const gint64 end = check_end(seconds);
	struct asked_server server;
	json_auto_t *status = asked_server_find(&server, text, error)
				      ? served_export_status_until(&server, end, error)
				      : NULL;
	json_t *export = json_array_get(json_object_get(status, "exports"), 0);
	g_autofree char *path = status ? check_find_socket(&server, end, error) : NULL,
			*uri = path ? check_compose_uri(export, path) : NULL;
	bool done;
	gint64 us;

	done = uri && check_uri_server(uri, end, &us, error);
	if (done)
		check_print_ok(NULL, us);
	asked_server_fini(&server);
	return done;
}

/* ---- a device */

static bool
check_node(const char *text, unsigned int seconds, GError **error)
{
	const gint64 end = check_end(seconds);
	struct device *DEVICE_CLEANUP device = device_read_attached(text, error);
	gint64 us;

	if (!device || !direct_read_first(device, end, &us, error))
		return false;
	check_print_ok(NULL, us);
	return true;
}

/* ---- the verb */

static bool
run_check(const struct verb_call *call, GError **error)
{
	const struct check_options *options = call->options;
	const char *text = call->operands[0];

	if (nbd_uri_is(text))
		return check_uri(text, options->timeout, error);
	return asked_server_is_device(text) ? check_node(text, options->timeout, error)
					    : check_served_export(text, options->timeout, error);
}

const struct verb verb_check = {
	.name = "check",
	.help = "check that a device, an export or a server answers, by reading from it",
	.synopsis = "[OPTION]... DEVICE|SOCKET|[SOCKET:]EXPORT|URI",
	.summary =
		"Reads the first block of a device or an export, and fails if there is no answer in time.",
	.rows = check_option_rows,
	.least = 1,
	.most = 1,
	.options_size = sizeof(struct check_options),
	.run = run_check,
};
