/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How busy a device is: samples of the kernel's and the server's counters, and the figures of the
 * time between two samples.
 */
#ifndef TOOL_SHOW_FIGURES_H
#define TOOL_SHOW_FIGURES_H

#include "tool/device/device.h"

#include <glib.h>
#include <jansson.h>

enum figures_op {
	FIGURES_READ,
	FIGURES_WRITE, /* the kernel counts WRITE ZEROES here, too */
	FIGURES_FLUSH,
	FIGURES_DISCARD,
	FIGURES_ZERO, /* known only to the server */
	FIGURES_OPS,
};

/* "read", ... */
extern const char *const figures_op_names[FIGURES_OPS];

/* The server's histogram: bucket i counts requests that took less than 2^i microseconds, the last
 * one all longer. */
#define FIGURES_BUCKETS 32

struct sample {
	int64_t time; /* monotonic, microseconds */
	/* The kernel's, since the device was made. */
	uint64_t count[FIGURES_OPS];
	uint64_t sectors[FIGURES_OPS];
	uint64_t milliseconds[FIGURES_OPS];
	uint64_t busy;         /* milliseconds with at least one request in flight */
	uint64_t in_flight[2]; /* now: reads, writes */
	/* The server's, since it opened the image. */
	int64_t server; /* its process ID; 0: it didn't answer, and the fields below are 0 */
	uint64_t latency[FIGURES_OPS][FIGURES_BUCKETS];
	uint64_t errors;
	uint64_t requests;                    /* in flight now */
	uint64_t held_now;                    /* requests that a limit holds back now */
	uint64_t held, held_us;               /* that were held back, and how long altogether */
	uint64_t disk_operations, disk_bytes; /* on the image: read and written */
};

/* Reads the kernel's part, and sets the time; the server's is 0.  False: *error is set
 * (tool/failure.h). */
bool
sample_read(struct sample *sample, const struct device *device, GError **error);

/* Adds the server's part: `status`, its answer, and `image` in it; NULL: it didn't answer. */
void
sample_add_server(struct sample *sample, json_t *status, json_t *image);

/* A sample of an export at `time`, when its server answered `status`: the requests that its clients
 * got answers to, in place of the kernel's.  A server that doesn't count requests tells of
 * operations on the image. */
void
sample_of_export(struct sample *sample, int64_t time, json_t *status, json_t *export);

/* Of one operation in an interval.  Unknown figures are 0. */
struct op_figures {
	double iops;
	double bytes_per_second;
	double bytes;        /* of one, on average */
	double milliseconds; /* of one in the kernel, on average, including waiting */
	/* Upper bounds of the time in the server, microseconds.  0: there were no requests. */
	uint64_t median, p99, longest;
};

struct figures {
	double seconds; /* the interval */
	double busy;    /* part of it with a request in flight, 0 to 1 */
	struct op_figures ops[FIGURES_OPS];
	uint64_t median, p99; /* of all requests, as struct op_figures has them of one kind */
	/* What the server did on the disk for them, and how long requests waited for a limit, on
	 * average. */
	double disk_iops, disk_bytes_per_second;
	double held_per_second, held_milliseconds;
	uint64_t latency[FIGURES_OPS][FIGURES_BUCKETS];
};

/* The figures of the time between two samples; in a server that was restarted meanwhile, since its
 * start.  If a sample has no server, the server's figures are 0. */
void
figures_between(const struct sample *before, const struct sample *after, struct figures *figures);

/* The upper bound, in microseconds, of the time that `percent` of the requests took; 0: there are
 * none. */
uint64_t
figures_percentile(const uint64_t buckets[FIGURES_BUCKETS], unsigned int percent);

/* Adds "disk" and "held" to an object: what the server did on the disk, and the requests that a
 * limit held back; null unless `known`. */
void
figures_put_server(json_t *object, const struct figures *figures, uint64_t held_now, bool known);

/* The figures of an operation, as the manual's "The status in JSON" has them.  Caller frees
 * (json_decref). */
json_t *
figures_op_object(const struct figures *all, enum figures_op op);

#endif
