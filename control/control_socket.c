/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control socket: the thread that serves its clients. The change queue has a thread for
 * changes.
 */
#include "control/control_socket.h"

#include "common/accept_pause.h"
#include "common/unix_socket.h"
#include "control/answer.h"
#include "control/change_queue.h"
#include "control/control_client.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* The most clients. Others wait in the backlog until a client leaves or gives its place up. */
#define CLIENTS_MAX 64
/* How long a client may be silent while others wait for its place, in milliseconds. */
#define SILENT_MS 100
/* The most clients that may wait for changes, even if some of them are gone. The other places are
 * for clients that ask for the status. */
#define CHANGES_MAX 5
/* How long to wait before the next poll(), in milliseconds, after one failed for lack of memory. */
#define PAUSE_MS 100

enum poll_slot {
	POLL_STOP,
	POLL_CHANGED,
	POLL_LISTEN,
	POLL_CLIENT
};

struct control_socket {
	struct unix_socket socket;
	int stop_fd; /* eventfd: readable when the thread shall end */
	control_handler handler;
	void *data;
	struct change_queue changes;
	bool started;
	pthread_t thread;
	/* Used only by the thread. */
	struct accept_pause pause;
	struct control_client clients[CLIENTS_MAX];
};

int
control_socket_new(const char *path, control_handler handler, void *data,
		   struct control_socket **made, char **error)
{
	struct control_socket *control = calloc(1, sizeof(*control));
	int r;

	if (!control)
		return -ENOMEM;
	control->pause = (struct accept_pause)ACCEPT_PAUSE_INIT;
	control->handler = handler;
	control->data = data;
	for (int i = 0; i < CLIENTS_MAX; i++)
		control_client_init(&control->clients[i]);
	r = change_queue_init(&control->changes, handler, data);
	if (r == 0) {
		control->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (control->stop_fd < 0) {
			r = -errno;
			change_queue_fini(&control->changes);
		}
	}
	if (r) {
		if (asprintf(error, "control socket %s: %s", path, strerror(-r)) < 0)
			*error = NULL;
		free(control);
		return r;
	}
	r = unix_socket_listen(&control->socket, path, S_IRUSR | S_IWUSR, "control socket", error);
	if (r) {
		control_socket_free(control);
		return r;
	}
	*made = control;
	return 0;
}

static struct control_client *
clients_free_slot(struct control_socket *control)
{
	for (int i = 0; i < CLIENTS_MAX; i++)
		if (control->clients[i].fd < 0)
			return &control->clients[i];
	return NULL;
}

/* Returns the client that has been silent for longest: the server waits for its request. NULL:
 * there is none. */
static struct control_client *
clients_silent(struct control_socket *control)
{
	struct control_client *longest = NULL;

	for (int i = 0; i < CLIENTS_MAX; i++) {
		struct control_client *client = &control->clients[i];

		if (client->fd >= 0 && !client->changing &&
		    control_client_events(client) == POLLIN &&
		    (!longest || client->deadline < longest->deadline))
			longest = client;
	}
	return longest;
}

/* Returns in how many milliseconds a client can be accepted, if one waits: 0 if there is a place,
 * or a client that has been silent for so long that it gives its place up; -1: not by time. */
static int
clients_place_in(struct control_socket *control)
{
	const struct control_client *silent;
	int left;

	if (clients_free_slot(control))
		return 0;
	silent = clients_silent(control);
	if (!silent)
		return -1;
	left = control_client_patience(silent) - (CONTROL_CLIENT_TIMEOUT_MS - SILENT_MS);
	return left > 0 ? left : 0;
}

/* Returns the time limit for poll(), in milliseconds: until a client's deadline, the end of the
 * pause, or `place_in`, a result of clients_place_in(), is over; -1: none. */
static int
clients_patience(struct control_socket *control, int place_in)
{
	int least = accept_pause_timeout(-1, accept_pause_left(&control->pause));

	if (place_in > 0 && (least < 0 || place_in < least))
		least = place_in;
	for (int i = 0; i < CLIENTS_MAX; i++) {
		const struct control_client *client = &control->clients[i];

		if (client->fd >= 0 && !client->changing) {
			int left = control_client_patience(client);

			if (least < 0 || left < least)
				least = left;
		}
	}
	return least;
}

static int
clients_changing(const struct control_socket *control)
{
	int changing = 0;

	for (int i = 0; i < CLIENTS_MAX; i++)
		changing += control->clients[i].changing;
	return changing;
}

static void
client_serve(struct control_socket *control, struct control_client *client)
{
	int r = control_client_serve(client, control->handler, control->data);

	if (r == CONTROL_CLIENT_CHANGES && clients_changing(control) <= CHANGES_MAX) {
		change_queue_add(&control->changes, &client->change);
		return;
	}
	if (r == CONTROL_CLIENT_CHANGES) {
		client->change.answer = answer_error_line(
			"too many changes wait for the one in progress; try again later",
			&client->change.answer_size);
		r = control_client_changed(client);
	}
	if (r)
		control_client_close(client);
}

static void
clients_serve(struct control_socket *control, const struct pollfd *polled)
{
	for (int i = 0; i < CLIENTS_MAX; i++) {
		struct control_client *client = &control->clients[i];

		if (client->fd < 0 || client->changing)
			continue;
		/* A client whose time is over is served once more before it is closed: its bytes
		 * may have arrived in time, while another client was served. Single bytes that
		 * trickle in do not help. */
		if (polled[i].revents || control_client_patience(client) == 0)
			client_serve(control, client);
		if (client->fd >= 0 && !client->changing && control_client_patience(client) == 0)
			control_client_close(client);
	}
}

/* Answers the clients whose changes are over. */
static void
clients_take_answers(struct control_socket *control)
{
	for (int i = 0; i < CLIENTS_MAX; i++) {
		struct control_client *client = &control->clients[i];

		if (client->changing && change_is_over(&control->changes, &client->change) &&
		    control_client_changed(client))
			control_client_close(client);
	}
}

/* Closes a client, after its answer was sent as far as that is possible without waiting. */
static void
client_dismiss(struct control_socket *control, struct control_client *client)
{
	if (client->answer)
		control_client_serve(client, control->handler, control->data);
	control_client_close(client);
}

/* Closes all clients. The client whose change is in progress gets its answer before that. */
static void
clients_end(struct control_socket *control)
{
	unix_socket_close(&control->socket);
	for (int i = 0; i < CLIENTS_MAX; i++)
		if (!control->clients[i].changing)
			client_dismiss(control, &control->clients[i]);
	change_queue_stop(&control->changes);
	clients_take_answers(control);
	for (int i = 0; i < CLIENTS_MAX; i++)
		client_dismiss(control, &control->clients[i]);
}

static void
control_accept(struct control_socket *control)
{
	struct control_client *slot;
	char name[128];
	int fd;

	/* The silent client may have sent its request since the poll. */
	if (clients_place_in(control) != 0)
		return;
	slot = clients_free_slot(control);
	if (!slot) {
		slot = clients_silent(control);
		control_client_close(slot);
	}
	snprintf(name, sizeof(name), "control socket %s", control->socket.path);
	fd = accept_or_pause(&control->pause, control->socket.fd, SOCK_CLOEXEC | SOCK_NONBLOCK,
			     name);
	if (fd >= 0)
		control_client_open(slot, fd);
}

static void *
control_socket_run(void *data)
{
	struct control_socket *control = data;
	struct pollfd polled[POLL_CLIENT + CLIENTS_MAX];
	eventfd_t changed;

	pthread_setname_np(pthread_self(), "control");
	for (;;) {
		int place_in = clients_place_in(control);
		bool may_accept = accept_pause_left(&control->pause) == 0 && place_in == 0;

		polled[POLL_STOP] = (struct pollfd){.fd = control->stop_fd, .events = POLLIN};
		polled[POLL_CHANGED] =
			(struct pollfd){.fd = control->changes.over_fd, .events = POLLIN};
		polled[POLL_LISTEN] = (struct pollfd){
			.fd = may_accept ? control->socket.fd : -1,
			.events = POLLIN,
		};
		for (int i = 0; i < CLIENTS_MAX; i++) {
			const struct control_client *client = &control->clients[i];

			polled[POLL_CLIENT + i] = (struct pollfd){
				.fd = client->changing ? -1 : client->fd,
				.events = control_client_events(client),
			};
		}

		if (poll(polled, POLL_CLIENT + CLIENTS_MAX, clients_patience(control, place_in)) <
		    0) {
			/* The kernel had no memory, which will pass. */
			usleep(PAUSE_MS * 1000);
			continue;
		}
		if (polled[POLL_STOP].revents)
			break;
		clients_serve(control, polled + POLL_CLIENT);
		/* Must come after clients_serve(), because it changes what clients wait for. */
		if (polled[POLL_CHANGED].revents) {
			eventfd_read(control->changes.over_fd, &changed);
			clients_take_answers(control);
		}
		if (polled[POLL_LISTEN].revents)
			control_accept(control);
	}
	clients_end(control);
	return NULL;
}

int
control_socket_start(struct control_socket *control)
{
	sigset_t all, before;
	int r;

	/* Signals are for the program's own threads. The new threads inherit the mask. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = change_queue_start(&control->changes);
	if (r == 0)
		r = -pthread_create(&control->thread, NULL, control_socket_run, control);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r) {
		change_queue_stop(&control->changes);
		return r;
	}
	control->started = true;
	return 0;
}

void
control_socket_stop(struct control_socket *control)
{
	if (control && control->started)
		eventfd_write(control->stop_fd, 1);
}

bool
control_socket_is_over(struct control_socket *control)
{
	if (control && control->started && pthread_tryjoin_np(control->thread, NULL) == 0)
		control->started = false;
	return !control || !control->started;
}

void
control_socket_free(struct control_socket *control)
{
	if (!control)
		return;
	control_socket_stop(control);
	if (control->started)
		pthread_join(control->thread, NULL);
	for (int i = 0; i < CLIENTS_MAX; i++)
		control_client_close(&control->clients[i]);
	unix_socket_close(&control->socket);
	change_queue_fini(&control->changes);
	close(control->stop_fd);
	free(control);
}
