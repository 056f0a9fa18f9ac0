/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One connection to the control socket: a state machine that never blocks.  It reads a line,
 * has it answered, sends the answer, and only then looks at the next line, so that a client
 * makes the server hold one answer at most.  A change is carried out elsewhere.
 */
#ifndef CONTROL_CONTROL_CLIENT_H
#define CONTROL_CONTROL_CLIENT_H

#include "control/change_queue.h"
#include "control/control_request.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A client has so long to complete its first request, and from each answer on to take that and
 * complete the next request.  The time that a change takes isn't the client's. */
#define CONTROL_CLIENT_TIMEOUT_MS 5000

struct control_client {
	int fd;           /* -1: nobody is connected */
	int64_t deadline; /* CLOCK_MONOTONIC, ms */
	char *answer;     /* being sent, or NULL; owned */
	size_t answer_size;
	size_t answer_sent;
	bool last_answer; /* nothing more is read after `answer` */
	bool draining;    /* all is said; what still comes in is thrown away */
	bool changing;    /* `change`, whose texts are in `line`, is not answered yet */
	struct change change;
	size_t used;  /* bytes in `line` */
	size_t taken; /* of them those of the line that is being answered */
	char line[CONTROL_REQUEST_MAX];
};

/* Nobody is connected. */
void
control_client_init(struct control_client *client);

/* Takes over a connected, non-blocking socket. */
void
control_client_open(struct control_client *client, int fd);

/* Closes the connection if there is one. */
void
control_client_close(struct control_client *client);

/* What poll() should wait for; not while it is changing. */
short
control_client_events(const struct control_client *client);

/* Milliseconds that the client still has; 0 when its time is over. */
int
control_client_patience(const struct control_client *client);

/* control_client_serve(): the client asks for a change, in `change`. */
#define CONTROL_CLIENT_CHANGES 1

/*
 * Does what is possible without waiting; answers one request at most, so that the others get
 * their turn.  Returns 0, CONTROL_CLIENT_CHANGES, or -errno when the connection is over
 * (-ESHUTDOWN: in good order).  The handler isn't given any changes: who calls this has them
 * carried out, then calls control_client_changed(), and nothing else of this client between.
 */
int
control_client_serve(struct control_client *client, control_handler handler, void *data);

/* The change is over; its answer can be sent.  Returns 0, or -errno when the connection is over. */
int
control_client_changed(struct control_client *client);

#endif
