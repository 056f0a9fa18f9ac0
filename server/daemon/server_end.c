/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of the server.
 */
#include "server/daemon/server_state.h"

#include "server/daemon/listener.h"
#include "server/exports/exports.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "control/control_socket.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Milliseconds for the answers to what is refused at the end. */
#define REFUSAL_LIMIT 1000

/* Milliseconds between two looks whether a change is over. */
#define CHANGE_INTERVAL 20
#define CHANGE_MOMENT   200

static void
stop_workers(struct server *server, enum worker_end end)
{
	for (unsigned int i = 0; i < server->started; i++)
		worker_stop(&server->workers[i], end);
}

/* Waits until no connection is left, a second signal, or for so long.  Returns how many are left.
 */
static unsigned int
await_connections(struct server *server, int64_t limit_ms)
{
	int64_t end = clock_ms(CLOCK_MONOTONIC) + limit_ms;
	unsigned int connections;
	eventfd_t count;
	int64_t left_ms;

	while ((connections = atomic_load(&server->acceptor.connections)) > 0 && !server->abort &&
	       (left_ms = end - clock_ms(CLOCK_MONOTONIC)) > 0) {
		if (poll(server->polled, POLL_LISTENER, (int)left_ms) <= 0)
			continue;
		if (server->polled[POLL_SIGNAL].revents)
			server_take_signals(server);
		if (server->polled[POLL_WAKE].revents)
			eventfd_read(server->wake, &count);
	}
	return connections;
}

/*
 * Waits until what is under way is answered.  Who gave it its only connections (--fd), such as
 * nbdloop, can give them to another server, and have done there what was not answered here: no
 * request is refused.
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

/* Waits until the change that somebody asked for is over, at most until then (as
 * clock_ms(CLOCK_MONOTONIC)).  False: it isn't. */
static bool
await_change(struct server *server, int64_t end)
{
	/* Without a change it takes a moment, too, which a second signal doesn't make shorter. */
	int64_t soon = clock_ms(CLOCK_MONOTONIC) + CHANGE_MOMENT;

	while (!control_socket_is_over(server->control)) {
		if (clock_ms(CLOCK_MONOTONIC) >= end ||
		    (server->abort && clock_ms(CLOCK_MONOTONIC) >= soon))
			return false;
		if (poll(server->polled, POLL_WAKE, CHANGE_INTERVAL) > 0)
			server_take_signals(server);
	}
	return true;
}

/* Connections and a change end beside each other, in the same time. */
static bool
drain(struct server *server, bool listened)
{
	int64_t end = clock_ms(CLOCK_MONOTONIC) + (int64_t)server->config->drain_limit * 1000 +
		      REFUSAL_LIMIT;

	drain_connections(server, listened);
	return await_change(server, end);
}

/* A change uses all that would be freed. */
static _Noreturn void
leave(struct server *server, int status)
{
	log_warning(
		"a change that was asked for on the control socket is not over; the server ends without it");
	pid_file_close(&server->pid_file);
	_exit(status);
}

void
server_end(struct server *server, int status)
{
	bool listened = server->listeners;

	/* Nobody can connect any more, nor ask for a change. */
	listeners_close(&server->listeners);
	control_socket_stop(server->control);
	if (!server->polled)
		stop_workers(server, WORKER_ABORTS);
	else if (!drain(server, listened))
		leave(server, status);
	/* The workers answer what it asks them to the last. */
	control_socket_free(steal_pointer(&server->control));
	for (unsigned int i = 0; i < server->started; i++)
		worker_join(&server->workers[i]);
	exports_free(server->exports);
	pid_file_close(&server->pid_file);
	user_fini(&server->user);
	free(server->polled);
	free(server->workers);
	if (server->wake >= 0)
		close(server->wake);
	if (server->signals >= 0)
		close(server->signals);
}
