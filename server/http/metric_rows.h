/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All metrics of the server, in the order in which they are told: what /metrics and the manual's
 * list are made from. Those that are figures of the status, too, have their rows where they are
 * counted (engine/counters.h, server/request/traffic.h).
 */
#ifndef SERVER_HTTP_METRIC_ROWS_H
#define SERVER_HTTP_METRIC_ROWS_H

#include "server/limit/limits.h"
#include "server/request/traffic.h"

#include "engine/counters.h"

#include <stdbool.h>
#include <stdio.h>

/* An export's. */
struct metric_figures {
	char *name, *file, *snapshot_of; /* snapshot_of NULL: it is no snapshot */
	const char *engine, *page_cache, *lock;
	bool direct, writable;
	uint64_t size; /* bytes */
	uint64_t connections, checkpoints;
	struct limits limits[LIMIT_SCOPES];
	struct traffic_sum traffic;
	uint64_t counters[COUNTERS];
};

struct metric_table {
	const struct figure_row *rows; /* NULL: no more tables */
	size_t count;
	size_t base; /* of the rows' fields, in struct metric_figures */
	unsigned int
		ops; /* the number of figures of a row, one for each kind of requests; 0: one */
};

/* Of the server itself. */
enum {
	METRIC_BUILD,
	METRIC_SERVER,
	METRIC_THREADS,
	METRIC_CONNECTIONS_LIMIT,
	METRIC_EXPORTS,
	METRIC_SERVER_ROWS,
};

extern const struct figure_row metric_server_rows[METRIC_SERVER_ROWS];

/* Returns whether no row above this one is of the same family. */
bool
metric_row_is_first(const struct metric_table *table, size_t row);

/* Of the exports: how they are served, numbers, and the histogram of latencies. */
extern const struct figure_row metric_export_row, metric_latency_row;
extern const struct metric_table metric_tables[];

/* Prints an entry of the manual for each family: "=item C<nbdloop_errors_total>\n\nHelp.\n\n
 * __MORE nbdloop_errors__\n\n", in which man/make-manual replaces the last line. */
void
metric_rows_print_pod(FILE *out);

#endif
