/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server that a verb asks to change something: that of a device, or that of a control socket.
 *
 * An export is named in one way by all verbs, [SOCKET:]EXPORT. Without SOCKET, it is an export of
 * the packaged service. A SOCKET alone stands for the only export of its server, or for all of
 * them, as the request has it.
 */
#ifndef TOOL_VERB_ASKED_SERVER_H
#define TOOL_VERB_ASKED_SERVER_H

#include "tool/verb/our_device.h"

#include <stdbool.h>

struct asked_server {
	struct our_device ours;
	char *socket;       /* its path; NULL: the device's server is asked */
	const char *export; /* its name, in the user's text; NULL: none is named */
	const char *text;   /* the user's, borrowed; NULL: there is none */
};

/* Where the packaged service has its control socket (server/systemd/nbdloopd.service.in). */
#define ASKED_SERVER_SOCKET "/run/nbdloopd/control.sock"

/* The path of the control socket in the user's text, SOCKET or [SOCKET:]EXPORT; *export: the name
 * in the text, or NULL. What comes before a colon is a SOCKET if it is the path of a socket, or if
 * it contains a slash. Caller frees. */
char *
asked_server_socket(const char *text, const char **export);

/* Returns whether the text names a device: it begins with /dev/, or is nbd0 or the like, and no
 * socket of that name is in the working directory. Else it names an export. */
bool
asked_server_is_device(const char *text);

/* Returns whether the text names an export, and not only a device or a socket. */
bool
asked_server_names_export(const char *text);

/* `text`: DEVICE, SOCKET, or [SOCKET:]EXPORT, as the user wrote it. */
bool
asked_server_find(struct asked_server *server, const char *text, GError **error);

/* The same without devices; NULL: the server of the packaged service. */
bool
asked_server_find_export(struct asked_server *server, const char *text, GError **error);
void
asked_server_fini(struct asked_server *server);

/* Sends a request (control/control_request.h), and waits for the answer without a limit.  What is
 * asked of a device's server a second time, since that has died, has died with it.  Returns the
 * answer, which the caller frees (json_decref), or NULL with an error. */
json_t *
asked_server_ask(const struct asked_server *server, const char *request, GError **error);

/* A request is a line of words: an error names `what` the text is if it is no word, or no line. */
bool
request_word(const char *what, const char *text, GError **error);
bool
request_line(const char *what, const char *text, GError **error);

#endif
