/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A line of nbdloop top: what is known of a device, or of an export of a server, in the interval
 * between two answers.
 */
#ifndef TOOL_TOP_ROW_H
#define TOOL_TOP_ROW_H

#include "tool/show/figures.h"
#include "tool/top/watched.h"

#include <glib.h>
#include <jansson.h>
#include <stdbool.h>

/* What rows are sorted by. */
enum row_order {
	ROW_NAME,
	ROW_IOPS, /* reads, writes and others */
	ROW_READS,
	ROW_WRITES,
	ROW_BANDWIDTH, /* of reads and writes */
	ROW_READ_BANDWIDTH,
	ROW_WRITE_BANDWIDTH,
	ROW_MILLISECONDS,
	ROW_P99,
	ROW_DISK, /* operations on the disk */
	ROW_IN_FLIGHT,
	ROW_HELD,
	ROW_CONNECTIONS,
	ROW_ORDERS,
};

/* "name", "iops", ...; NULL after the last one. */
extern const char *const row_order_names[ROW_ORDERS + 1];

struct row {
	bool device;
	char *name;   /* "/dev/nbd0", "8003:disk" (the server's process, and the export), or the
			 path of a control socket whose server was never heard */
	char *socket; /* the control socket; NULL: of a device */
	char *image;  /* a path or URI; NULL: unknown */
	char *engine; /* NULL: unknown; of the strings below, too */
	char *tls;
	char *limits;  /* as the options of nbdloopd have them; "": none */
	char *trouble; /* what is wrong; NULL: nothing */
	bool silent;   /* the server does not answer; its figures are 0 */
	bool told;     /* the server told its figures: .in_flight (unless it is a device) and
			   .connections are known */
	bool measured; /* .figures are known, but for those that only a server knows */
	int64_t pid;   /* the server's process; 0: unknown */
	uint64_t in_flight, connections, errors;
	uint64_t held;       /* requests that a limit holds back now */
	uint64_t size;       /* bytes */
	double milliseconds; /* the average time in the kernel; of an export 0 */
	struct figures figures;
};

/* Appends the rows (struct row *) of a source: none of a server that was found by itself, and is
 * gone or refuses us. */
void
rows_add(GPtrArray *rows, const struct watched *source);

/* Sorts numbers from the largest to the smallest, names in their order; `reverse`: the other way
 * round. */
void
rows_sort(GPtrArray *rows, enum row_order order, bool reverse);

/* NULL is fine. */
void
row_free(struct row *row);

/* The figure that rows are sorted by; of ROW_NAME, 0. */
double
row_figure(const struct row *row, enum row_order order);

/* Whether nothing has happened in the interval, and nothing is in flight or wrong. */
bool
row_is_idle(const struct row *row);

/* Caller frees (json_decref). */
json_t *
row_object(const struct row *row);

#endif
