/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server that a verb asks to change something: that of a device, or that of a control socket.
 */
#ifndef TOOL_VERB_ASKED_SERVER_H
#define TOOL_VERB_ASKED_SERVER_H

#include "tool/verb/our_device.h"

#include <stdbool.h>

struct asked_server {
	struct our_device ours;
	const char *socket; /* its path, borrowed; NULL: the device's server is asked */
};

/* `text`: DEVICE or SOCKET, as the user wrote it. */
bool
asked_server_find(struct asked_server *server, const char *text, GError **error);
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
