/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server's shutdown.
 */
#include "server/daemon/server.h"

#include "server/daemon/leave.h"
#include "server/daemon/listener.h"
#include "server/daemon/watchdog.h"
#include "server/exports/export_look.h"
#include "server/exports/exports.h"
#include "server/http/http.h"
#include "server/sandbox/sandbox.h"
#include "server/connection/handshakes.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "control/control_socket.h"
#include "nbd/tls/credentials.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Milliseconds for the replies to requests that are refused at the end. */
#define REFUSAL_LIMIT 1000

/* Milliseconds between two checks whether a change has ended, at most, and the time that it gets at
 * least. */
#define CHANGE_INTERVAL 20
#define CHANGE_MINIMUM  200

static void
stop_workers(struct server *server, enum worker_end end)
{
	for (unsigned int i = 0; i < server->started; i++)
		worker_stop(&server->workers[i], end);
}

/* Waits until no connection is left, but only until a second signal or the limit.  Returns how many
 * are left. */
static unsigned int
await_connections(struct server *server, int64_t limit_ms)
{
	int64_t end = clock_ms(CLOCK_MONOTONIC) + limit_ms;
	unsigned int connections;
	eventfd_t count;
	int64_t left_ms;

	while ((connections = atomic_load(&server->acceptor.connections)) > 0 && !server->abort &&
	       (left_ms = end - clock_ms(CLOCK_MONOTONIC)) > 0) {
		if (poll(server->polled, POLL_REFUSALS, (int)left_ms) <= 0)
			continue;
		if (server->polled[POLL_SIGNAL].revents)
			server_take_signals(server);
		if (server->polled[POLL_WAKE].revents)
			eventfd_read(server->wake, &count);
	}
	return connections;
}

/*
 * Waits until the requests in flight are answered.  If the server never listened, the program that
 * passed the connections (--fd), such as nbdloop, can pass them to another server and repeat the
 * unanswered requests there, so no request is refused.
 */
static void
drain_connections(struct server *server, bool listened)
{
	unsigned int connections;

	stop_workers(server, listened ? WORKER_DRAINS : WORKER_LEAVES);
	connections = await_connections(server, (int64_t)server->config->drain_limit * 1000);
	if (connections > 0 && !server->abort) {
		stop_workers(server, WORKER_REFUSES);
		connections = await_connections(server, REFUSAL_LIMIT);
	}
	if (connections == 0)
		return;
	log_warning("%u connections are closed with requests unanswered", connections);
	stop_workers(server, WORKER_ABORTS);
}

static bool
is_changing(const struct server *server)
{
	return !control_socket_is_over(server->control) || server_is_reloading(server) ||
	       (server->exports && exports_are_looking(server->exports));
}

/* Waits until a running change has ended, the configuration is read, and HTTP has ended, at most
 * until `end` (clock_ms(CLOCK_MONOTONIC)).  False: it has not. */
static bool
await_change(struct server *server, int64_t end)
{
	/* Even without a change, the control socket takes a moment to end; a second signal doesn't
	 * cut it short. */
	int64_t soon = clock_ms(CLOCK_MONOTONIC) + CHANGE_MINIMUM;
	int interval = 1;

	while (is_changing(server) || !http_is_over(server->http)) {
		if (clock_ms(CLOCK_MONOTONIC) >= end ||
		    (server->abort && clock_ms(CLOCK_MONOTONIC) >= soon))
			return false;
		if (poll(server->polled, POLL_WAKE, interval) > 0)
			server_take_signals(server);
		interval = 2 * interval < CHANGE_INTERVAL ? 2 * interval : CHANGE_INTERVAL;
	}
	return true;
}

/* Connections and a change end at the same time, within the same limit.  False: the change has not.
 */
static bool
drain(struct server *server, bool listened)
{
	int64_t end = clock_ms(CLOCK_MONOTONIC) + (int64_t)server->config->drain_limit * 1000 +
		      REFUSAL_LIMIT;

	drain_connections(server, listened);
	return await_change(server, end);
}

static const char *
unfinished(const struct server *server)
{
	if (server_is_reloading(server))
		return "the reading of the configuration";
	if (!control_socket_is_over(server->control))
		return "a change that the control socket asked for";
	return is_changing(server) ? "a look at the size of an image" : "an answer by HTTP";
}

/* Frees nothing, since the change still uses everything. */
static _Noreturn void
exit_during_change(struct server *server, int status)
{
	log_warning("%s has not finished; the server exits without it", unfinished(server));
	pid_file_close(&server->pid_file);
	_exit(status);
}

void
server_end(struct server *server, int status)
{
	bool listened = server->listeners;
	struct leave leave;

	/* From STOPPING=1 on, systemd has another limit. */
	watchdog_stop(server->watchdog);
	/* No client can connect any more, or ask for a change. */
	listeners_close(&server->listeners);
	refusals_close(&server->acceptor.refusals);
	control_socket_stop(server->control);
	server_stop_http(server);
	supply_close(&server->supply);
	if (server->polled)
		server->polled[POLL_SIDE].fd = server->polled[POLL_SUPPLY].fd = -1;
	if (server->exports)
		exports_stop_waiting(server->exports);
	if (!server->polled)
		stop_workers(server, WORKER_ABORTS);
	else if (!drain(server, listened))
		exit_during_change(server, status);
	leave_begin(&leave, server->exports, &server->pid_file, status);
	/* First, since the threads of these may wait for answers of the workers. */
	control_socket_free(steal_pointer(&server->control));
	server_free_http(server);
	side_listener_close(&server->side);
	server_join_reload(server);
	for (unsigned int i = 0; i < server->started; i++)
		worker_join(&server->workers[i]);
	watchdog_free(server->watchdog);
	handshakes_free(server->handshakes);
	tls_credentials_unref(server->credentials);
	if (server->exports)
		exports_stop_looking(server->exports);
	exports_free(server->exports);
	leave_end(&leave);
	pid_file_close(&server->pid_file);
	user_fini(&server->user);
	sandbox_fini();
	free(server->polled);
	free(server->workers);
	if (server->wake >= 0)
		close(server->wake);
	if (server->signals >= 0)
		close(server->signals);
}
