/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The plugin's side of the control socket: the status as JSON, and what can be changed.
 */
#ifndef PLUGIN_STATUS_H
#define PLUGIN_STATUS_H

#include "control/control_request.h"

#include <stdio.h>

/* A control_handler. */
void
status_handle(const struct control_request *request, FILE *out, void *data);

#endif
