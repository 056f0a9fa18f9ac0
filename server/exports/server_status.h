/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server's answers on its control socket.
 */
#ifndef SERVER_EXPORTS_SERVER_STATUS_H
#define SERVER_EXPORTS_SERVER_STATUS_H

#include "server/config/server_config.h"

#include "control/control_socket.h"

struct exports;

/* The parts that the answers are about. */
struct status {
	const struct server_config *config;
	struct exports *exports;
};

/* The control_handler; `data` is a struct status. */
void
status_handle(const struct control_request *request, FILE *out, void *data);

#endif
