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
 * export= comes last and takes the rest of the line, since a name may hold blanks; so does what is
 *added.
 */
#ifndef CONTROL_CONTROL_REQUEST_H
#define CONTROL_CONTROL_REQUEST_H

#include <stdbool.h>

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

#endif
