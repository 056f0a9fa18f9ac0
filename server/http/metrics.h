/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server's figures as metrics (open_metrics.h): those of the status
 * (server/exports/server_status.h), from the same sources, without what is known of single clients.
 */
#ifndef SERVER_HTTP_METRICS_H
#define SERVER_HTTP_METRICS_H

#include <stdbool.h>
#include <stdio.h>

struct status;

/* Writes all of them, as OpenMetrics or as the older text. Waits neither for an event loop nor for
 * a disk. 0 or -ENOMEM. */
int
metrics_write(FILE *out, bool open, const struct status *status);

#endif
