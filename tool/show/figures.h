/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How busy a device is: samples of the kernel's and the server's counters, and what two of them say
 * of the time between.  The arithmetic only; what the counters are read from is given.
 */
#ifndef TOOL_SHOW_FIGURES_H
#define TOOL_SHOW_FIGURES_H

#include "tool/device/device.h"

#include <json-glib/json-glib.h>

enum figures_op {
	FIGURES_READ,
	FIGURES_WRITE, /* the kernel counts zeroes, too, as writes */
	FIGURES_FLUSH,
	FIGURES_DISCARD,
	FIGURES_ZERO, /* known to the server only */
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
	int64_t server; /* its process ID; 0: it didn't answer, and what follows is 0 */
	uint64_t latency[FIGURES_OPS][FIGURES_BUCKETS];
	uint64_t errors;
	uint64_t requests; /* in flight now */
};

/* Reads the kernel's part, and sets the time; the server's is 0.  False: *error is set
 * (tool/failure.h). */
bool
sample_read(struct sample *sample, const char *sys, const struct device *device, GError **error);

/* Adds the server's part; `status`, its answer, and `image` in it, may be NULL: it didn't answer.
 */
void
sample_add_server(struct sample *sample, JsonObject *status, JsonObject *image);

/* Of one operation in an interval.  What can't be known is 0. */
struct op_figures {
	double iops;
	double bytes_per_second;
	double bytes;        /* of one, on average */
	double milliseconds; /* of one in the kernel, on average; waiting included */
	/* In the server, microseconds: so many took less than that.  0: there were none. */
	uint64_t median, p99, longest;
	uint64_t latency[FIGURES_BUCKETS];
};

struct figures {
	double seconds; /* the interval */
	double busy;    /* part of it with a request in flight, 0 to 1 */
	struct op_figures ops[FIGURES_OPS];
};

/* What happened between two samples; in a server that was started again meanwhile, since then.
 * Nothing is told of the server where either sample has none. */
void
figures_between(const struct sample *before, const struct sample *after, struct figures *figures);

/* The upper bound of the bucket below which `percent` of the requests are, in microseconds; 0:
 * there are none. */
uint64_t
figures_percentile(const uint64_t buckets[FIGURES_BUCKETS], unsigned int percent);

#endif
