/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The plugin's requests of the control socket: its status as JSON, and changes.
 */
#ifndef PLUGIN_STATUS_H
#define PLUGIN_STATUS_H

#include "control/control_request.h"

#include <stdio.h>

/* A control_handler. */
void
status_handle(const struct control_request *request, FILE *out, void *data);

#endif
