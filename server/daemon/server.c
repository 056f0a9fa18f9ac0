/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/daemon/server.h"

#include "server/config/command_line.h"
#include "server/daemon/acceptor.h"
#include "server/daemon/activation.h"
#include "server/daemon/launcher.h"
#include "server/daemon/leave.h"
#include "server/daemon/listener.h"
#include "server/daemon/pid_file.h"
#include "server/daemon/readiness.h"
#include "server/daemon/server_http.h"
#include "server/daemon/server_reload.h"
#include "server/daemon/server_tls.h"
#include "server/daemon/side_listener.h"
#include "server/daemon/supply.h"
#include "server/daemon/swap.h"
#include "server/daemon/user.h"
#include "server/daemon/watchdog.h"
#include "server/exports/export_changes.h"
#include "server/exports/export_limits.h"
#include "server/exports/export_look.h"
#include "server/exports/export_source.h"
#include "server/exports/exports.h"
#include "server/exports/server_status.h"
#include "server/exports/snapshots.h"
#include "server/http/http.h"
#include "server/sandbox/sandbox.h"
#include "server/worker/worker.h"

#include "common/cleanup.h"
#include "common/clock.h"
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
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/utsname.h>
#include <unistd.h>

/* Milliseconds for the replies to requests that are refused at the end. */
#define REFUSAL_LIMIT 1000

/* Milliseconds between two checks whether a change has ended, at most, and the time that it gets at
 * least. */
#define CHANGE_INTERVAL 20
#define CHANGE_MINIMUM  200

enum poll_slot {
	POLL_SIGNAL,
	POLL_WAKE,
	POLL_SIDE,
	POLL_SUPPLY,
	POLL_REFUSALS,                                /* the first of them */
	POLL_LISTENER = POLL_REFUSALS + REFUSALS_MAX, /* the first of them */
};

struct server {
	struct server_config *config;
	const struct command_line *line;
	struct exports *exports;
	struct listener *listeners;
	struct side_listener side;
	struct supply supply;
	struct server_http http;
	struct control_socket *control;
	struct status status;
	struct pid_file pid_file;
	struct user user;
	struct server_tls tls;
	struct server_reload reload;
	struct worker_config worker_config;
	struct worker *workers;
	unsigned int worker_count;
	unsigned int started;      /* workers */
	unsigned int passed;       /* listening sockets */
	struct watchdog *watchdog; /* NULL: systemd wants no sign of life */
	unsigned int told_exports; /* how many systemd was told of */
	struct acceptor acceptor;
	struct pollfd *polled;
	unsigned int poll_count;
	int signals; /* signalfd */
	int wake;    /* eventfd: another thread has news */
	bool ending;
	bool abort; /* a second signal came: wait no longer */
};

/* ---- callbacks, on other threads */

static void
server_wake(void *data)
{
	struct server *server = data;

	eventfd_write(server->wake, 1);
}

static void
server_connection_closed(void *data)
{
	struct server *server = data;

	atomic_fetch_sub(&server->acceptor.connections, 1);
	server_wake(server);
}

/* ---- starting */

/* Logs a failure, if r is one. Returns r. */
static int
server_log_failure(int r, const char *error)
{
	if (r < 0)
		log_error("%s", error ? error : strerror(-r));
	return r;
}

/* Leaves a signal alone that the parent blocked: it is meant for other processes of the group. */
static int
server_take_unblocked(int *signals)
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
server_catch_signals(struct server *server)
{
	int r;

	signal(SIGPIPE, SIG_IGN);
	/* A write beyond RLIMIT_FSIZE fails (EFBIG), and is not the server's end. The other threads
	 * block the signal; this one writes the log, which may be a file. */
	signal(SIGXFSZ, SIG_IGN);
	r = server_take_unblocked(&server->signals);
	if (r < 0)
		return r;
	server->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return server->wake < 0 ? -errno : 0;
}

/* For a request of the control socket. */
static bool
server_reload_for_client(void *data, char **text, unsigned int *failed)
{
	struct reload_result result;

	if (!server_reload_await(data, &result)) {
		*text = strdup("the server is shutting down");
		return false;
	}
	*text = strdup(result.text);
	*failed = result.failed;
	return !result.refused;
}

static int
server_open_exports(struct server *server)
{
	struct server_config *config = server->config;

	server->exports = exports_new(server->workers, server->worker_count, server_wake, server);
	if (!server->exports || exports_note_defaults(server->exports, &config->defaults) < 0)
		return server_log_failure(-ENOMEM, NULL);
	server->reload = (struct server_reload){
		.line = server->line,
		.config = config,
		.exports = server->exports,
		.tls = &server->tls,
		.wake = server->wake,
		.mutex = PTHREAD_MUTEX_INITIALIZER,
		.ended = PTHREAD_COND_INITIALIZER,
	};
	server->exports->reserved = config->swap;
	if (config->user)
		server->exports->user = server->user.uid;
	while (config->exports) {
		struct export_config *export = config->exports;
		char *CLEANUP_FREE error = NULL;
		int r;

		config->exports = export->next;
		readiness_opening(export->name);
		r = exports_add(server->exports, export, &error);
		if (r < 0)
			return server_log_failure(r, error);
	}
	return 0;
}

static int
server_open_sockets(struct server *server)
{
	const struct server_config *config = server->config;
	char *CLEANUP_FREE error = NULL;
	int r = listeners_open(&server->listeners, config, server->passed, &error);
	struct utsname name;

	server->status = (struct status){
		.config = config,
		.exports = server->exports,
		.listen = side_listener_open,
		.socket = side_listener_path,
		.data = &server->side,
		.reload = server_reload_for_client,
		.reload_data = &server->reload,
		.begun = clock_ns(CLOCK_BOOTTIME),
	};
	if (uname(&name) == 0)
		snprintf(server->status.host, sizeof(server->status.host), "%s", name.nodename);
	server->side.control = config->control;
	server->side.needed = !server->listeners;
	server->side.wake = server->wake;
	if (r == 0)
		r = server_tls_read(&server->tls, config, &error);
	if (r == 0 && config->control)
		r = control_socket_new(config->control, status_handle, &server->status,
				       &server->control, &error);
	if (r == 0)
		r = server_http_open(&server->http, config, &server->status, &error);
	if (r == 0)
		r = pid_file_open(&server->pid_file, config->pid_file, &error);
	return server_log_failure(r, error);
}

/* Does what needs privileges, then drops them. */
static int
server_use_privileges(struct server *server)
{
	const struct server_config *config = server->config;
	char *CLEANUP_FREE error = NULL;
	int r = 0;

	acceptor_prepare(config->fd);
	if (config->swap)
		r = swap_lock_memory(config, server->exports, server->worker_count, &error);
	if (r == 0 && config->user)
		r = user_become(&server->user, &error);
	if (r == 0 && config->swap)
		log_info("swap=on: memory locked, I/O flusher, out-of-memory killer kept away");
	if (r == 0) {
		launcher_follow();
		r = sandbox_enter(config, &error);
	}
	return server_log_failure(r, error);
}

static bool
server_uses_ring(struct server *server)
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
server_start_workers(struct server *server)
{
	int r;

	server->worker_config = (struct worker_config){
		.handshake =
			{
				.exports =
					server->config->list ? &exports_listed : &exports_unlisted,
				.options = NBD_HANDSHAKE_OPTIONS,
				.skip = NBD_HANDSHAKE_SKIP,
				.tls = server_tls_mode(server->config),
			},
		.exports = server->exports,
		.look = exports_look,
		.limiters = exports_limiters,
		.left = exports_left,
		.forgotten = exports_forgotten,
		.offer_at = exports_at,
		.closed = server_connection_closed,
		.data = server,
		.handshakes = server->tls.handshakes,
		.kernel_tls = server_tls_kernel(server->config),
		.tls_spares_unix = config_tls_unix(server->config) == TLS_CHOICE_ALLOW,
		.use_ring = server_uses_ring(server),
		.poll_max_us = server->config->poll_max_us,
		.handshake_limit = server->config->handshake_limit,
		.stuck_limit = server->config->stuck_limit,
		.memory_limit = server->config->memory,
		.reserve = server->config->swap == TRISTATE_ON,
	};
	r = exports_start_looking(server->exports);
	if (r < 0)
		return server_log_failure(r, NULL);
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
server_prepare_polling(struct server *server)
{
	unsigned int count = POLL_LISTENER;

	for (const struct listener *listener = server->listeners; listener;
	     listener = listener->next)
		count++;
	server->polled = calloc(count, sizeof(*server->polled));
	if (!server->polled)
		return server_log_failure(-ENOMEM, NULL);
	server->poll_count = count;
	server->polled[POLL_SIGNAL] = (struct pollfd){.fd = server->signals, .events = POLLIN};
	server->polled[POLL_WAKE] = (struct pollfd){.fd = server->wake, .events = POLLIN};
	server->polled[POLL_SIDE] = (struct pollfd){.fd = -1};
	return 0;
}

/* Tells systemd how many there are, if it wants to know and that has changed. */
static void
server_tell_exports(struct server *server)
{
	unsigned int count;

	if (!readiness_wanted())
		return;
	count = exports_visit(server->exports, NULL, NULL, NULL);
	if (count == server->told_exports)
		return;
	server->told_exports = count;
	readiness_serving(count, server->worker_count);
}

static int
server_tell_ready(const struct server *server)
{
	const char **CLEANUP_FREE addresses = calloc(server->poll_count, sizeof(*addresses));
	char *CLEANUP_FREE error = NULL;
	unsigned int count = 0;
	int r;

	if (!addresses)
		return server_log_failure(-ENOMEM, NULL);
	for (const struct listener *listener = server->listeners; listener;
	     listener = listener->next)
		addresses[count++] = listener->text;
	r = launcher_tell_ready(&error);
	if (r < 0)
		return server_log_failure(r, error);
	event_raise(&(struct event){.kind = EVENT_READY, .addresses = addresses});
	readiness_ready();
	return 0;
}

/* Clients can connect from here on. */
static int
server_announce(struct server *server)
{
	const struct server_config *config = server->config;
	char *CLEANUP_FREE error = NULL;
	int r = server->control ? control_socket_start(server->control) : 0;

	if (r == 0)
		r = server_http_start(&server->http);
	if (r == 0)
		r = pid_file_write(&server->pid_file, &error);
	if (r < 0)
		return server_log_failure(r, error);
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
		return server_log_failure(r, NULL);
	server_tell_exports(server);
	return server_tell_ready(server);
}

/* Checks what the starting program passed, before anything is opened: a descriptor that was not
 * passed would get another use. */
static int
server_check_inherited(struct server *server)
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
		return server_log_failure(r, error);
	if (config->swap && (r = reclaim_serve(&error)) < 0)
		log_error("--swap: %s", error ? error : strerror(-r));
	return r;
}

static int
server_start(struct server *server)
{
	char *CLEANUP_FREE error = NULL;
	struct rlimit files;
	int r;

	/* Each connection takes a descriptor. */
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	/* The memory of a large allocation goes back to the system when it is freed. malloc() would
	 * keep all memory below the last piece in use: the buffers into which connections received,
	 * which are as large. With --swap, the server keeps all memory (common/reclaim.c). */
	mallopt(M_MMAP_THRESHOLD, 64 << 10);
	r = server_check_inherited(server);
	if (r < 0)
		return r;
	r = server_catch_signals(server);
	if (r < 0)
		return server_log_failure(r, NULL);
	server->worker_count =
		server->config->threads ? server->config->threads : thread_processors();
	server->workers = aligned_alloc(alignof(struct worker),
					server->worker_count * sizeof(*server->workers));
	if (!server->workers)
		return server_log_failure(-ENOMEM, NULL);
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
		return server_log_failure(r, error);
	r = server_open_exports(server);
	if (r == 0)
		r = server_open_sockets(server);
	if (r == 0)
		r = server_use_privileges(server);
	if (r == 0)
		r = server_tls_start(&server->tls);
	if (r == 0)
		r = server_start_workers(server);
	if (r == 0)
		r = server_prepare_polling(server);
	return r < 0 ? r : server_announce(server);
}

/* ---- serving */

static void
server_take_signals(struct server *server)
{
	struct signalfd_siginfo info;

	while (read(server->signals, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGHUP && !server->ending) {
			readiness_reloading();
			server_reload_begin(&server->reload);
		} else if (info.ssi_signo != SIGHUP) {
			server->abort = server->ending;
			server->ending = true;
		}
	}
}

static bool
server_is_over(struct server *server)
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
server_take_connections(struct server *server, struct listener *listener,
			const struct pollfd *polled)
{
	for (; listener; listener = listener->next, polled++) {
		if (polled->revents && !server->ending)
			acceptor_take(&server->acceptor, listener);
	}
}

static void
server_serve(struct server *server)
{
	struct pollfd *polled = server->polled;
	eventfd_t count;

	while (!server_is_over(server)) {
		struct listener *side = atomic_load(&server->side.listener);
		int timeout = exports_expire(server->exports);

		timeout = accept_pause_timeout(timeout, server_tls_watch(&server->tls));
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
			/* systemctl shows an error until the configuration is read: this one's, or
			 * that of a command that checked it. */
			if (!server->ending && server_reload_go_on(&server->reload))
				server->told_exports = UINT_MAX;
			server_tell_exports(server);
		}
		refusals_answer(&server->acceptor.refusals, polled + POLL_REFUSALS);
		if (polled[POLL_SUPPLY].revents && !server->ending)
			supply_take(&server->supply, &server->acceptor);
		server_take_connections(server, side, polled + POLL_SIDE);
		server_take_connections(server, server->listeners, polled + POLL_LISTENER);
	}
}

/* ---- ending */

static void
server_stop_workers(struct server *server, enum worker_end end)
{
	for (unsigned int i = 0; i < server->started; i++)
		worker_stop(&server->workers[i], end);
}

/* Waits until no connection is left, but only until a second signal or the limit. Returns how many
 * are left. */
static unsigned int
server_await_connections(struct server *server, int64_t limit_ms)
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
 * Waits until the requests in flight are answered. If the server never listened, no request is
 * refused: the program that passed the connections (--fd), such as nbdloop, can pass them to
 * another server, and repeat the unanswered requests there.
 */
static void
server_drain_connections(struct server *server, bool listened)
{
	unsigned int connections;

	server_stop_workers(server, listened ? WORKER_DRAINS : WORKER_LEAVES);
	connections = server_await_connections(server, (int64_t)server->config->drain_limit * 1000);
	if (connections > 0 && !server->abort) {
		server_stop_workers(server, WORKER_REFUSES);
		connections = server_await_connections(server, REFUSAL_LIMIT);
	}
	if (connections == 0)
		return;
	log_warning("%u connections are closed with requests unanswered", connections);
	server_stop_workers(server, WORKER_ABORTS);
}

static bool
server_is_changing(const struct server *server)
{
	return !control_socket_is_over(server->control) ||
	       server_reload_is_running(&server->reload) ||
	       (server->exports && exports_are_looking(server->exports));
}

/* Waits until a running change has ended, the configuration is read, and HTTP has ended, at most
 * until `end` (clock_ms(CLOCK_MONOTONIC)). False: it has not. */
static bool
server_await_change(struct server *server, int64_t end)
{
	/* Even without a change, the control socket takes a moment to end; a second signal doesn't
	 * cut it short. */
	int64_t soon = clock_ms(CLOCK_MONOTONIC) + CHANGE_MINIMUM;
	int interval = 1;

	while (server_is_changing(server) || !http_is_over(server->http.http)) {
		if (clock_ms(CLOCK_MONOTONIC) >= end ||
		    (server->abort && clock_ms(CLOCK_MONOTONIC) >= soon))
			return false;
		if (poll(server->polled, POLL_WAKE, interval) > 0)
			server_take_signals(server);
		interval = 2 * interval < CHANGE_INTERVAL ? 2 * interval : CHANGE_INTERVAL;
	}
	return true;
}

/* Connections and a change end at the same time, within the same limit. False: the change has not.
 */
static bool
server_drain(struct server *server, bool listened)
{
	int64_t end = clock_ms(CLOCK_MONOTONIC) + (int64_t)server->config->drain_limit * 1000 +
		      REFUSAL_LIMIT;

	server_drain_connections(server, listened);
	return server_await_change(server, end);
}

static const char *
server_unfinished(const struct server *server)
{
	if (server_reload_is_running(&server->reload))
		return "the reading of the configuration";
	if (!control_socket_is_over(server->control))
		return "a change that the control socket asked for";
	return server_is_changing(server) ? "a look at the size of an image" : "an answer by HTTP";
}

/* Stops and frees all that has been started, in good order: clients and a running change get the
 * time that the configuration gives them. If a change takes longer, the process exits here with
 * `status`. */
static void
server_end(struct server *server, int status)
{
	bool listened = server->listeners;
	struct leave leave;

	/* From STOPPING=1 on, systemd has another limit. */
	watchdog_stop(server->watchdog);
	/* No client can connect any more, or ask for a change. */
	listeners_close(&server->listeners);
	refusals_close(&server->acceptor.refusals);
	server_reload_close(&server->reload);
	control_socket_stop(server->control);
	server_http_stop(&server->http);
	supply_close(&server->supply);
	if (server->polled)
		server->polled[POLL_SIDE].fd = server->polled[POLL_SUPPLY].fd = -1;
	if (server->exports)
		exports_stop_waiting(server->exports);
	if (!server->polled) {
		server_stop_workers(server, WORKER_ABORTS);
	} else if (!server_drain(server, listened)) {
		/* Frees nothing, since the change still uses everything. */
		log_warning("%s has not finished; the server exits without it",
			    server_unfinished(server));
		pid_file_close(&server->pid_file);
		_exit(status);
	}
	leave_begin(&leave, server->exports, &server->pid_file, status);
	/* First, since the threads of these may wait for answers of the workers. */
	control_socket_free(steal_pointer(&server->control));
	server_http_free(&server->http);
	side_listener_close(&server->side);
	server_reload_join(&server->reload);
	for (unsigned int i = 0; i < server->started; i++)
		worker_join(&server->workers[i]);
	watchdog_free(server->watchdog);
	server_tls_free(&server->tls);
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

int
server_status_of(int r)
{
	return r == 0 ? EXIT_SUCCESS : r == -CONFIG_MISTAKE ? SERVER_MISCONFIGURED : EXIT_FAILURE;
}

int
server_check(const struct server_config *config, char **error)
{
	struct user user = {0};
	int r = config->user ? user_find(&user, config->user, error) : 0;

	if (r == 0)
		r = server_tls_check(config, error);
	user_fini(&user);
	return r;
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
	int r = server_start(&server);
	int status = server_status_of(r);

	if (r == 0) {
		server_serve(&server);
		log_info("ending");
		event_raise(&(struct event){.kind = EVENT_ENDING});
		readiness_stopping(config->drain_limit);
	}
	server_end(&server, status);
	return status;
}
