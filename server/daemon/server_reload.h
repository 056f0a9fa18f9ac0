/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SIGHUP: the configuration is read again, in a thread of its own.
 */
#ifndef SERVER_DAEMON_SERVER_RELOAD_H
#define SERVER_DAEMON_SERVER_RELOAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct command_line;
struct exports;
struct server_config;
struct server_tls;

/* How it ended. */
struct reload_result {
	char text[512];      /* "1 export added, 2 changed", or why nothing was changed */
	bool refused;        /* nothing was changed */
	unsigned int failed; /* exports, and the keys of TLS */
};

struct server_reload {
	const struct command_line *line;
	const struct server_config *config; /* with which the server was started */
	struct exports *exports;
	struct server_tls *tls;
	int wake; /* an eventfd that wakes the main thread up */

	pthread_t thread;
	bool running;
	bool again;        /* it is to be read once more: SIGHUP came meanwhile */
	bool failed;       /* the configuration is as before; the thread's, until it has ended */
	_Atomic bool over; /* the thread ends */

	/* For those who wait on other threads, server_reload_await(). */
	pthread_mutex_t mutex; /* guards the members below */
	pthread_cond_t ended;
	uint64_t asked;              /* how often they asked */
	uint64_t begun, done;        /* how many of these it has begun for, and ended for */
	struct reload_result result; /* of the last time */
	bool closed;                 /* the server ends */
};

/* Begins to follow the configuration. If that is under way, it is done once more. */
void
server_reload_begin(struct server_reload *reload);

/* After each wake-up of the main thread: notes that it is done, and begins it if the exports want
 * that. Returns whether the configuration has been read. */
bool
server_reload_go_on(struct server_reload *reload);

/* On another thread than the main one: has it done, and waits for the end. Returns false if the
 * server ends instead. */
bool
server_reload_await(struct server_reload *reload, struct reload_result *result);

/* The server ends: nobody waits any longer, or from now on. */
void
server_reload_close(struct server_reload *reload);

/* Returns whether it is under way. */
bool
server_reload_is_running(const struct server_reload *reload);

/* Waits until it is done. Returns as server_reload_go_on(). */
bool
server_reload_join(struct server_reload *reload);

#endif
