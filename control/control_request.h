/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests of the control socket, as text:
 *
 *	status
 *	set direct-io=on|off [export=NAME]
 *	set allow=RULES [allow-write=RULES] [export=NAME]
 *	set allow-write=RULES [export=NAME]
 *	set iops-limit=LIMIT [bandwidth-limit=LIMIT] [connections-limit=N] [client-iops-limit=LIMIT]
 *		[client-bandwidth-limit=LIMIT] [client-connections-limit=N] [export=NAME]
 *	resize [export=NAME]
 *	reload
 *	listen
 *	add NAME=PATH[,OPTION=VALUE...]
 *	remove export=NAME
 *	disconnect RULES [export=NAME]
 *	snapshot NEW [scratch=DIR] [scratch-size=SIZE] [expire=SECONDS] [checkpoint=CHECKPOINT]
 *		[local] [all | export=NAME]
 *	checkpoint create CHECKPOINT [granularity=SIZE] [export=NAME]
 *	checkpoint delete CHECKPOINT [export=NAME]
 *
 * The value of export= is the rest of the line, because a name may contain blanks. The argument of
 * add is the rest of the line, too.
 */
#ifndef CONTROL_CONTROL_REQUEST_H
#define CONTROL_CONTROL_REQUEST_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* The longest request, in bytes, with its newline: a verb and an export name of 4096 bytes. */
#define CONTROL_REQUEST_MAX 4608

enum control_verb {
	CONTROL_STATUS,
	CONTROL_SET, /* direct-io */
	CONTROL_SET_RULES,
	CONTROL_SET_LIMITS,
	CONTROL_RESIZE,
	CONTROL_RELOAD, /* reads the configuration again */
	CONTROL_LISTEN, /* on a socket for clients on this machine */
	CONTROL_ADD,
	CONTROL_REMOVE,
	CONTROL_DISCONNECT,
	CONTROL_SNAPSHOT,
	CONTROL_CREATE_CHECKPOINT,
	CONTROL_DELETE_CHECKPOINT,
};

struct control_request {
	enum control_verb verb;
	bool direct_io; /* CONTROL_SET: the wanted value */
	/* In the parsed line: */
	const char *export_name;         /* NULL: none */
	const char *addition;            /* CONTROL_ADD: the text after the verb */
	const char *allow, *allow_write; /* CONTROL_SET_RULES; one of them may be NULL */
	/* CONTROL_SET_LIMITS; at least one of them is not NULL. */
	struct control_limits {
		const char *iops, *bandwidth, *connections;
	} limits, client_limits; /* of all clients together, and of each */
	const char *clients;     /* CONTROL_DISCONNECT: rules */
	const char *snapshot; /* CONTROL_SNAPSHOT: name of the new export, or .all: how it ends */
	bool all;             /* CONTROL_SNAPSHOT: of each export, at one moment */
	bool local;           /* CONTROL_SNAPSHOT: clients need a socket on this machine */
	const char *scratch;  /* CONTROL_SNAPSHOT: a directory, or NULL */
	/* CONTROL_SNAPSHOT; 0: no limit. */
	uint64_t scratch_size; /* bytes */
	unsigned int expire;   /* seconds */
	/* CONTROL_CREATE_CHECKPOINT, CONTROL_DELETE_CHECKPOINT; CONTROL_SNAPSHOT, or NULL: none */
	const char *checkpoint;
	const char *granularity; /* CONTROL_CREATE_CHECKPOINT: a size; NULL: none */
};

/*
 * Parses a line, which has no newline. Changes the line, and *request points into it. Returns 0, or
 * -EINVAL with *error, a static sentence that says what is allowed.
 */
int
control_request_parse(char *line, struct control_request *request, const char **error);

/*
 * Carries out a request and writes its answer (one JSON object, no newline) to `out`. Is not called
 * for a request that could not be parsed. One thread calls it for the status, another one for
 * changes: a status may be asked for during a change, but there are never two of a kind at once.
 */
typedef void (*control_handler)(const struct control_request *request, FILE *out, void *data);

#endif
