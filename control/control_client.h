/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One connection to the control socket: a state machine that never blocks. It receives a line, has
 * it answered and sends the answer before it looks at the next line, so the server holds at most
 * one answer for each client. The change queue carries out changes.
 */
#ifndef CONTROL_CONTROL_CLIENT_H
#define CONTROL_CONTROL_CLIENT_H

#include "control/change_queue.h"
#include "control/control_request.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Time limit for a client to send its first request, and to receive each answer and send the next
 * request, in milliseconds. The time that a change takes does not count. */
#define CONTROL_CLIENT_TIMEOUT_MS 5000

struct control_client {
	int fd;           /* -1: no client is connected */
	int64_t deadline; /* CLOCK_MONOTONIC, ms */
	char *answer;     /* being sent, or NULL; freed by the client */
	size_t answer_size;
	size_t answer_sent;
	bool last_answer; /* the connection ends after .answer */
	bool draining;    /* all is sent, and input is discarded until the client closes */
	bool changing;    /* .change, whose texts are in .line, is not answered yet */
	struct change change;
	size_t used;  /* bytes in .line */
	size_t taken; /* how many of these belong to the line that is being answered */
	char line[CONTROL_REQUEST_MAX];
};

/* Sets the state in which no client is connected. */
void
control_client_init(struct control_client *client);

/* Takes a connected, non-blocking socket, which the client closes. */
void
control_client_open(struct control_client *client, int fd);

/* Closes the connection if there is one. */
void
control_client_close(struct control_client *client);

/* Returns the events for poll(). Not to be called while .changing. */
short
control_client_events(const struct control_client *client);

/* Returns how many milliseconds are left until the deadline; 0: it has passed. */
int
control_client_patience(const struct control_client *client);

/* A result of control_client_serve(): the client asks for a change, which is in .change. */
#define CONTROL_CLIENT_CHANGES 1

/*
 * Receives and sends what is possible without waiting. Answers at most one request, so that other
 * clients get their turn. Returns 0, CONTROL_CLIENT_CHANGES, or -errno if the connection has ended
 * (-ESHUTDOWN: the client closed it). Does not call the handler for changes: the caller has the
 * change carried out, then calls control_client_changed(), and no other function between the two.
 */
int
control_client_serve(struct control_client *client, control_handler handler, void *data);

/* Takes the answer of the change, which is over. Returns 0, or -errno if the connection has ended.
 */
int
control_client_changed(struct control_client *client);

#endif
