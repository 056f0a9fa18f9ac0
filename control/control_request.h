/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests of the control socket, as text:
 *
 *	status
 *	set direct-io=on|off [export=NAME]
 *	resize [export=NAME]
 *	add NAME=PATH[,OPTION=VALUE...]
 *	remove export=NAME
 *
 * The value of export= is the rest of the line, since a name may hold blanks; so is what add adds.
 */
#ifndef CONTROL_CONTROL_REQUEST_H
#define CONTROL_CONTROL_REQUEST_H

#include <stdbool.h>
#include <stdio.h>

/* Longest request line, with its newline: a verb and an export name of 4096 bytes. */
#define CONTROL_REQUEST_MAX 4608

enum control_verb {
	CONTROL_STATUS,
	CONTROL_SET,
	CONTROL_RESIZE,
	CONTROL_ADD,
	CONTROL_REMOVE,
};

struct control_request {
	enum control_verb verb;
	bool direct_io;          /* CONTROL_SET: the wanted value */
	const char *export_name; /* inside the parsed line; NULL: not given */
	const char *addition;    /* CONTROL_ADD: what follows the verb; inside the parsed line */
};

/*
 * Parses a line without its newline, changing it in place; `request` points into it.
 * Returns 0 or -EINVAL with *error a static sentence that tells what is allowed.
 */
int
control_request_parse(char *line, struct control_request *request, const char **error);

/*
 * Carries out one request and writes its answer (one JSON object, no newline) to `out`.
 * A request that could not be parsed doesn't come here: it is answered by the socket.
 * A status is asked for on one thread, changes are on another: a status may come beside a change,
 * but never two of a kind at once.
 */
typedef void (*control_handler)(const struct control_request *request, FILE *out, void *data);

#endif
