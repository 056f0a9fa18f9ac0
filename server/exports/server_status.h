/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server's answers on its control socket.
 */
#ifndef SERVER_EXPORTS_SERVER_STATUS_H
#define SERVER_EXPORTS_SERVER_STATUS_H

#include "server/config/server_config.h"

#include "control/control_socket.h"

#include <limits.h>

struct exports;

/* The parts that the answers are about. */
struct status {
	const struct server_config *config;
	struct exports *exports;
	/* Sees to it that clients of snapshots can connect; `local`: also on this machine. 0, or
	 * -errno with *error a sentence (caller frees). */
	int (*listen)(void *data, bool local, char **error);
	/* The path of a unix socket that is only for them; NULL: there is none. */
	const char *(*socket)(const void *data);
	void *data; /* of both */
	/* Reads the configuration again. Returns false if nothing was changed. *text says what was
	 * changed, or why nothing was (caller frees; NULL: out of memory); *failed: how many
	 * exports could not follow. */
	bool (*reload)(void *data, char **text, unsigned int *failed);
	void *reload_data;
	char host[HOST_NAME_MAX + 1]; /* the name of the machine */
	uint64_t begun;               /* when the server was started: CLOCK_BOOTTIME, ns */
	const char *http;             /* where HTTP is answered; NULL: nowhere */
};

/* The control_handler; `data` is a struct status, which it doesn't change. For a request for the
 * status, any number of threads may call it at once, but none of an event loop. */
void
status_handle(const struct control_request *request, FILE *out, void *data);

#endif
