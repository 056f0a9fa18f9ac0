/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/daemon/server.h"

#include "server/config/command_line.h"
#include "server/daemon/activation.h"
#include "server/daemon/listener.h"
#include "server/daemon/readiness.h"
#include "server/daemon/watchdog.h"
#include "server/exports/export_changes.h"
#include "server/exports/export_limits.h"
#include "server/exports/export_look.h"
#include "server/exports/export_source.h"
#include "server/exports/exports.h"
#include "server/exports/snapshots.h"
#include "server/sandbox/sandbox.h"

#include "common/cleanup.h"
#include "common/event.h"
#include "common/log.h"
#include "common/reclaim.h"
#include "common/thread.h"
#include "control/control_socket.h"
#include "engine/backend/choice.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* ---- callbacks, on other threads */

static void
wake_main(void *data)
{
	struct server *server = data;

	eventfd_write(server->wake, 1);
}

static void
connection_closed(void *data)
{
	struct server *server = data;

	atomic_fetch_sub(&server->acceptor.connections, 1);
	wake_main(server);
}

/* ---- starting */

/* Logs a failure, if r is one.  Returns r. */
static int
log_failure(int r, const char *error)
{
	if (r < 0)
		log_error("%s", error ? error : strerror(-r));
	return r;
}

/* Each connection takes a descriptor. */
static void
raise_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

/* Leaves a signal alone that the parent blocked: it is meant for other processes of the group. */
static int
take_unblocked(int *signals)
{
	static const int wanted[] = {SIGTERM, SIGINT, SIGHUP};
	sigset_t set, inherited;

	sigprocmask(SIG_BLOCK, NULL, &inherited);
	sigemptyset(&set);
	for (unsigned int i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		if (!sigismember(&inherited, wanted[i]))
			sigaddset(&set, wanted[i]);
	}
	sigprocmask(SIG_BLOCK, &set, NULL);
	*signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return *signals < 0 ? -errno : 0;
}

static int
catch_signals(struct server *server)
{
	int r;

	signal(SIGPIPE, SIG_IGN);
	/* A write beyond RLIMIT_FSIZE fails (EFBIG), and is not the server's end. The other threads
	 * block the signal; this one writes the log, which may be a file. */
	signal(SIGXFSZ, SIG_IGN);
	r = take_unblocked(&server->signals);
	if (r < 0)
		return r;
	server->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return server->wake < 0 ? -errno : 0;
}

static int
open_exports(struct server *server)
{
	struct server_config *config = server->config;

	server->exports = exports_new(server->workers, server->worker_count, wake_main, server);
	if (!server->exports || exports_note_defaults(server->exports, &config->defaults) < 0)
		return log_failure(-ENOMEM, NULL);
	if (config->swap)
		exports_reserve(server->exports);
	if (config->user)
		exports_set_user(server->exports, server->user.uid);
	while (config->exports) {
		struct export_config *export = config->exports;
		char *CLEANUP_FREE error = NULL;
		int r;

		config->exports = export->next;
		readiness_opening(export->name);
		r = exports_add(server->exports, export, &error);
		if (r < 0)
			return log_failure(r, error);
	}
	return 0;
}

static int
open_sockets(struct server *server)
{
	const struct server_config *config = server->config;
	char *CLEANUP_FREE error = NULL;
	int r = listeners_open(&server->listeners, config, server->passed, &error);

	server->status = (struct status){
		.config = config,
		.exports = server->exports,
		.listen = side_listener_open,
		.socket = side_listener_path,
		.data = &server->side,
	};
	server->side.control = config->control;
	server->side.needed = !server->listeners;
	server->side.wake = server->wake;
	if (r == 0)
		r = server_read_tls(server, &error);
	if (r == 0 && config->control)
		r = control_socket_new(config->control, status_handle, &server->status,
				       &server->control, &error);
	if (r == 0)
		r = server_open_http(server, &error);
	if (r == 0)
		r = pid_file_open(&server->pid_file, config->pid_file, &error);
	return log_failure(r, error);
}

/* Does what needs privileges, then drops them. */
static int
use_privileges(struct server *server)
{
	const struct server_config *config = server->config;
	char *CLEANUP_FREE error = NULL;
	int r = 0;

	acceptor_prepare(config->fd);
	if (config->swap)
		r = server_lock_memory(server, &error);
	if (r == 0 && config->user)
		r = user_become(&server->user, &error);
	if (r == 0 && config->swap)
		log_info("swap=on: memory locked, I/O flusher, out-of-memory killer kept away");
	if (r == 0)
		r = sandbox_enter(config, &error);
	return log_failure(r, error);
}

static bool
use_ring(struct server *server)
{
	char reason[REASON_MAX];

	if (!exports_use_ring(server->exports))
		return false;
	if (backend_works(ENGINE_IO_URING, reason) == 0)
		return true;
	log_warning("all threads use epoll for their sockets, which is slower: %s", reason);
	return false;
}

static int
start_workers(struct server *server)
{
	int r;

	server->worker_config = (struct worker_config){
		.handshake =
			{
				.exports =
					server->config->list ? &exports_listed : &exports_unlisted,
				.options = NBD_HANDSHAKE_OPTIONS,
				.skip = NBD_HANDSHAKE_SKIP,
				.tls = server_tls(server->config),
			},
		.exports = server->exports,
		.look = exports_look,
		.limiters = exports_limiters,
		.left = exports_left,
		.forgotten = exports_forgotten,
		.offer_at = exports_at,
		.closed = connection_closed,
		.data = server,
		.handshakes = server->handshakes,
		.kernel_tls = server_kernel_tls(server->config),
		.use_ring = use_ring(server),
		.poll_max_us = server->config->poll_max_us,
		.handshake_limit = server->config->handshake_limit,
		.stuck_limit = server->config->stuck_limit,
		.memory_limit = server->config->memory,
		.reserve = server->config->swap == TRISTATE_ON,
	};
	r = exports_start_looking(server->exports);
	if (r < 0)
		return log_failure(r, NULL);
	for (; server->started < server->worker_count; server->started++) {
		r = worker_start(&server->workers[server->started], server->started,
				 &server->worker_config);

		if (r < 0) {
			log_error("cannot start thread %u: %s", server->started + 1, strerror(-r));
			return r;
		}
	}
	return 0;
}

static int
prepare_polling(struct server *server)
{
	unsigned int count = POLL_LISTENER;

	for (const struct listener *listener = server->listeners; listener;
	     listener = listener->next)
		count++;
	server->polled = calloc(count, sizeof(*server->polled));
	if (!server->polled)
		return log_failure(-ENOMEM, NULL);
	server->poll_count = count;
	server->polled[POLL_SIGNAL] = (struct pollfd){.fd = server->signals, .events = POLLIN};
	server->polled[POLL_WAKE] = (struct pollfd){.fd = server->wake, .events = POLLIN};
	server->polled[POLL_SIDE] = (struct pollfd){.fd = -1};
	return 0;
}

static void
visit_nothing(void *data, const struct visited *visited)
{
	(void)data;
	(void)visited;
}

/* Tells systemd how many there are, if it wants to know and that has changed. */
static void
tell_exports(struct server *server)
{
	unsigned int count;

	if (!readiness_wanted())
		return;
	count = exports_visit(server->exports, NULL, visit_nothing, NULL);
	if (count == server->told_exports)
		return;
	server->told_exports = count;
	readiness_serving(count, server->worker_count);
}

static int
tell_ready(const struct server *server)
{
	const char **CLEANUP_FREE addresses = calloc(server->poll_count, sizeof(*addresses));
	unsigned int count = 0;

	if (!addresses)
		return log_failure(-ENOMEM, NULL);
	for (const struct listener *listener = server->listeners; listener;
	     listener = listener->next)
		addresses[count++] = listener->text;
	event_raise(&(struct event){.kind = EVENT_READY, .addresses = addresses});
	readiness_ready();
	return 0;
}

/* Clients can connect from here on. */
static int
announce(struct server *server)
{
	const struct server_config *config = server->config;
	char *CLEANUP_FREE error = NULL;
	int r = server->control ? control_socket_start(server->control) : 0;

	if (r == 0)
		r = server_start_http(server);
	if (r == 0)
		r = pid_file_write(&server->pid_file, &error);
	if (r < 0)
		return log_failure(r, error);
	if (config->poll_max_us)
		log_info("each of %u threads polls up to %u us before it sleeps",
			 server->worker_count, config->poll_max_us);
	for (const struct listener *listener = server->listeners; listener;
	     listener = listener->next)
		log_info("listening on %s", listener->text);
	for (char **text = config->fd; text && *text; text++)
		acceptor_adopt(&server->acceptor, atoi(*text));
	if (readiness_watchdog() > 0)
		r = watchdog_start(&server->watchdog, server->workers, server->worker_count,
				   server->wake, readiness_watchdog());
	if (r < 0)
		return log_failure(r, NULL);
	tell_exports(server);
	return tell_ready(server);
}

/* Checks what the starting program passed, before anything is opened: a descriptor that was not
 * passed would get another use. */
static int
check_inherited(struct server *server)
{
	const struct server_config *config = server->config;
	char *CLEANUP_FREE error = NULL;
	int r = activation_check_fds(config->fd, &error);

	if (r == 0 && config->fd_from)
		r = supply_open(&server->supply, (int)config->fd_from, &error);
	if (r == 0 && config->activation != TRISTATE_OFF) {
		r = activation_take(config->activation == TRISTATE_ON, &error);
		server->passed = r > 0 ? (unsigned int)r : 0;
	}
	if (r >= 0)
		r = readiness_init(&error);
	if (r == 0 && config->notify_fd)
		r = event_open(config->notify_fd, &error);
	if (r == 0 && config->user)
		r = user_find(&server->user, config->user, &error);
	if (r < 0)
		return log_failure(r, error);
	if (config->swap && (r = reclaim_serve(&error)) < 0)
		log_error("--swap: %s", error ? error : strerror(-r));
	return r;
}

/* The buffer into which a connection receives is as large, and goes back to the system when the
 * connection has ended: malloc() would keep all below the last piece that is still in use, however
 * small that is.  Not with --swap, which keeps all memory (common/reclaim.c). */
static void
map_large_memory(void)
{
	mallopt(M_MMAP_THRESHOLD, 64 << 10);
}

static int
start(struct server *server)
{
	char *CLEANUP_FREE error = NULL;
	int r;

	raise_file_limit();
	map_large_memory();
	r = check_inherited(server);
	if (r < 0)
		return r;
	r = catch_signals(server);
	if (r < 0)
		return log_failure(r, NULL);
	server->worker_count =
		server->config->threads ? server->config->threads : thread_processors();
	server->workers = aligned_alloc(alignof(struct worker),
					server->worker_count * sizeof(*server->workers));
	if (!server->workers)
		return log_failure(-ENOMEM, NULL);
	memset(server->workers, 0, server->worker_count * sizeof(*server->workers));
	server->acceptor = (struct acceptor){
		.workers = server->workers,
		.worker_count = server->worker_count,
		.max = server->config->max_connections,
	};
	newcomers_init(&server->acceptor.newcomers, server->wake);
	refusals_init(&server->acceptor.refusals, server->config->max_connections);
	r = sandbox_prepare(server->config, server->line->config, &error);
	if (r < 0)
		return log_failure(r, error);
	r = open_exports(server);
	if (r == 0)
		r = open_sockets(server);
	if (r == 0)
		r = use_privileges(server);
	if (r == 0)
		r = server_start_tls(server);
	if (r == 0)
		r = start_workers(server);
	if (r == 0)
		r = prepare_polling(server);
	return r < 0 ? r : announce(server);
}

/* ---- serving */

void
server_take_signals(struct server *server)
{
	struct signalfd_siginfo info;

	while (read(server->signals, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGHUP && !server->ending) {
			readiness_reloading();
			server_reload(server);
		} else if (info.ssi_signo != SIGHUP) {
			server->abort = server->ending;
			server->ending = true;
		}
	}
}

static bool
is_over(struct server *server)
{
	/* First: a snapshot's client that leaves meanwhile is one of the others once more. */
	unsigned int connections = atomic_load(&server->acceptor.connections);
	const bool idle = connections <= exports_snapshot_connections(server->exports);

	/* The server was started for connections that are passed to it. */
	if (!supply_list(&server->supply, idle, &server->polled[POLL_SUPPLY]) && idle &&
	    !server->listeners)
		server->ending = true;
	return server->ending;
}

static void
take_connections(struct server *server, struct listener *listener, const struct pollfd *polled)
{
	for (; listener; listener = listener->next, polled++) {
		if (polled->revents && !server->ending)
			acceptor_take(&server->acceptor, listener);
	}
}

static void
serve(struct server *server)
{
	struct pollfd *polled = server->polled;
	eventfd_t count;

	while (!is_over(server)) {
		struct listener *side = atomic_load(&server->side.listener);
		int timeout = exports_expire(server->exports);

		timeout = accept_pause_timeout(timeout, server_watch_tls(server));
		timeout = acceptor_list(&server->acceptor, server->listeners,
					polled + POLL_LISTENER, timeout);
		timeout = acceptor_list(&server->acceptor, side, polled + POLL_SIDE, timeout);
		timeout =
			refusals_list(&server->acceptor.refusals, polled + POLL_REFUSALS, timeout);
		/* A failure (no memory, or an interruption) leaves nothing in .revents. */
		if (poll(polled, server->poll_count, timeout) <= 0)
			continue;
		watchdog_main_turned(server->watchdog);
		if (polled[POLL_SIGNAL].revents)
			server_take_signals(server);
		if (polled[POLL_WAKE].revents) {
			eventfd_read(server->wake, &count);
			exports_reap(server->exports);
			if (!server->ending)
				server_go_on_reloading(server);
			tell_exports(server);
		}
		refusals_answer(&server->acceptor.refusals, polled + POLL_REFUSALS);
		if (polled[POLL_SUPPLY].revents && !server->ending)
			supply_take(&server->supply, &server->acceptor);
		take_connections(server, side, polled + POLL_SIDE);
		take_connections(server, server->listeners, polled + POLL_LISTENER);
	}
}

int
server_run(struct server_config *config, const struct command_line *line)
{
	struct server server = {
		.config = config,
		.line = line,
		.told_exports = UINT_MAX,
		.pid_file.fd = -1,
		.supply.fd = -1,
		.signals = -1,
		.wake = -1,
	};
	int r = start(&server);

	if (r == 0) {
		serve(&server);
		log_info("ending");
		event_raise(&(struct event){.kind = EVENT_ENDING});
		readiness_stopping(config->drain_limit);
	}
	server_end(&server, r < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
	return r;
}
