/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client's connection: its state, how it begins, with a handshake of any form, and its end.
 */
#ifndef TESTS_SIMULATION_CLIENT_CONNECTION_H
#define TESTS_SIMULATION_CLIENT_CONNECTION_H

#include "tests/simulation/scheduler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Requests at once. */
#define WINDOW 16

/* A request must be answered within this time, or its connection end. */
#define ANSWER_LIMIT (60 * SECOND)

enum replies {
	SIMPLE,
	STRUCTURED,
	EXTENDED,
};

struct sent {
	bool used;
	uint16_t type, flags;
	unsigned int first, count; /* sectors */
	uint64_t write;            /* of the model; 0: none */
	uint64_t request;
	int64_t sent_at;
	uint8_t *bytes; /* of a read */
	bool *arrived;  /* its sectors */
	uint32_t error;
};

struct client {
	unsigned int number;
	unsigned int life; /* of the server to which it is connected */
	char name[16];
	struct socket *socket;
	bool twin;         /* it is connected to the second export of the image */
	const char *other; /* the export of the other image to which it is connected; NULL: none */
	unsigned int disconnected; /* of the plan, when it connected */
	bool alone;                /* nobody else has changed the image since it connected */
	enum replies replies;
	uint16_t facts;          /* transmission flags */
	unsigned int checkpoint; /* whose bitmap it has chosen, if `has_bitmap` */
	uint64_t created;        /* when that was created; 0: nobody knows */
	bool has_bitmap;
	uint32_t bitmap;     /* the number of its list */
	bool has_allocation; /* it has chosen the list of holes */
	uint32_t allocation; /* the number of that */
	bool looks;          /* it has not looked at all of the bitmap yet */
	bool leaves;         /* it has sent a disconnect request, and has patience */
	struct sent sent[WINDOW];
	unsigned int in_flight;
	struct sent repeats[WINDOW]; /* changes without an answer, for the next connection */
	unsigned int repeat_count;
	unsigned int snapshot; /* to which it is connected */
	uint64_t taken;        /* when that was made; 0: it is connected to the image */
};

/* Receives all; 0 or -errno. A client that gets nothing for a minute has found a fault. */
int
client_receive(struct client *client, void *bytes, size_t size);

/* The connection is over, with requests unanswered. */
void
client_hang_up(struct client *client);

/* Returns whether it is connected to the first export of the image. */
bool
client_is_at_main(const struct client *client);

/* Of the image to which it is connected. */
unsigned int
client_sectors(const struct client *client);

/* Returns whether it may not write. */
bool
client_is_reader(const struct client *client);

/* Connects and negotiates. Afterwards, the client has a socket, or some time has passed. */
void
client_connect(struct client *client);

/* The request is over. */
void
sent_free(struct sent *sent);

#endif
