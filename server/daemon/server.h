/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server: starts its parts, handles what comes to the main thread, and shuts down in good order
 * (server_end.c).
 */
#ifndef SERVER_DAEMON_SERVER_H
#define SERVER_DAEMON_SERVER_H

#include "server/config/server_config.h"
#include "server/daemon/acceptor.h"
#include "server/daemon/pid_file.h"
#include "server/daemon/side_listener.h"
#include "server/daemon/supply.h"
#include "server/daemon/user.h"
#include "server/exports/server_status.h"
#include "server/worker/worker.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

struct command_line;
struct control_socket;
struct exports;
struct handshakes;
struct http;
struct http_socket;
struct listener;
struct pollfd;
struct reload;
struct tls_credentials;
struct watchdog;

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
	struct listener *http_listeners; /* of HTTP; its thread uses them */
	struct http_socket *http_sockets;
	struct http *http; /* NULL: none */
	struct control_socket *control;
	struct status status;
	struct pid_file pid_file;
	struct user user;
	struct tls_credentials *credentials; /* of TLS, until the threads have them; or NULL */
	struct handshakes *handshakes;       /* NULL: there is no TLS */
	bool verifies;                       /* clients need a certificate, or a key */
	bool revokes;                        /* some certificates are revoked */
	_Atomic time_t tls_end;              /* when a file of TLS expires next; 0: never */
	struct worker_config worker_config;
	struct worker *workers;
	unsigned int worker_count;
	unsigned int started;      /* workers */
	unsigned int passed;       /* listening sockets */
	struct watchdog *watchdog; /* NULL: systemd wants no sign of life */
	unsigned int told_exports; /* how many systemd was told of */
	bool reload_failed;        /* systemd was told of that instead */
	struct acceptor acceptor;
	struct pollfd *polled;
	unsigned int poll_count;
	int signals;           /* signalfd */
	int wake;              /* eventfd: another thread has news */
	struct reload *reload; /* the configuration is being read again; NULL: it is not */
	bool reread;           /* it is to be read once more: SIGHUP came meanwhile */
	bool ending;
	bool abort; /* a second signal came: wait no longer */
};

/* Serves until a signal ends the server.  `config` comes from the command line `line`, which is
 * read again on SIGHUP.  Returns 0, or -errno (the log says why). */
int
server_run(struct server_config *config, const struct command_line *line);

/* What the configuration says of TLS, for connections. */
enum nbd_tls
server_tls(const struct server_config *config);
enum kernel_tls
server_kernel_tls(const struct server_config *config);

/* Reads the certificates and keys of TLS into server->credentials, if there is TLS.  0, or -errno
 * with *error a sentence (caller frees). */
int
server_read_tls(struct server *server, char **error);

/* Starts the threads of TLS, and tells the log what clients need.  0 or -errno. */
int
server_start_tls(struct server *server);

/* Reads them again: for new connections, unless the files are of no use.  Waits for the files. */
void
server_reread_tls(struct server *server);

/* Logs what has expired of the files of TLS.  Returns a time limit for poll(), in milliseconds,
 * after which to call it again; 0: none. */
int
server_watch_tls(struct server *server);

/* Listens for requests of HTTP, and reads the token, if there is HTTP.  0, or -errno with *error a
 * sentence (caller frees). */
int
server_open_http(struct server *server, char **error);

/* Starts to answer them, and tells the log where.  0 or -errno. */
int
server_start_http(struct server *server);

/* Begins the end of HTTP, as http_stop(); the second one waits for it, while the event loops must
 * still run, and frees what the status tells of it. */
void
server_stop_http(struct server *server);
void
server_free_http(struct server *server);

/* SIGHUP: begins to follow the configuration, which is read again, in a thread of its own.  If that
 * is under way, it is done once more. */
void
server_reload(struct server *server);

/* After each wake-up of the main thread: notes that it is done, and begins it if the exports want
 * that. */
void
server_go_on_reloading(struct server *server);

/* Whether it is under way. */
bool
server_is_reloading(const struct server *server);

/* Waits until it is done. */
void
server_join_reload(struct server *server);

/* Handles the signals that have arrived. */
void
server_take_signals(struct server *server);

/*
 * Stops and frees all that has been started, in good order: clients and a running change get the
 * time that the configuration gives them.  If a change takes longer, the process exits here with
 * `status`.
 */
void
server_end(struct server *server, int status);

/*
 * --swap: locks the process's memory (common/reclaim.h), and takes what connections and requests
 * will need.  To be called when the exports are open, no thread has been started, and privileges
 * are still there.  Returns 0, or -errno with *error a sentence that names the options that reduce
 * the need (caller frees).
 */
int
server_lock_memory(const struct server *server, char **error);

#endif
