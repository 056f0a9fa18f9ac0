/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/http/metrics.h"

#include "server/config/server_config.h"
#include "server/exports/exports.h"
#include "server/exports/server_status.h"
#include "server/http/open_metrics.h"
#include "server/limit/limits.h"
#include "server/sandbox/sandbox.h"
#include "server/request/traffic.h"

#include "common/cleanup.h"
#include "engine/changes/checkpoint.h"
#include "engine/image/image.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

/* ---- the figures of all exports, since a family has the samples of all of them */

struct figures {
	char *name, *file, *snapshot_of; /* snapshot_of NULL: it is no snapshot */
	const char *engine, *page_cache, *lock;
	bool direct, writable;
	uint64_t size; /* bytes */
	unsigned int connections, checkpoints;
	struct limits limits[LIMIT_SCOPES];
	struct traffic_sum traffic;
	uint64_t counters[COUNTERS];
};

struct gathered {
	struct figures *figures;
	size_t count;
	bool incomplete; /* out of memory */
};

static char *
copy_name(struct gathered *gathered, const char *name)
{
	char *copy = strdup(name);

	gathered->incomplete |= !copy;
	return copy;
}

static void
copy_figures(struct gathered *gathered, struct figures *figures, const struct visited *visited)
{
	const struct export *export = visited->export;
	struct checkpoint_facts facts;
	struct image_status status;

	image_status(export->image, &status);
	*figures = (struct figures){
		.name = copy_name(gathered, export->config->name),
		.file = copy_name(gathered, status.path),
		.engine = status.engine,
		.page_cache = status.page_cache,
		.lock = status.lock,
		.direct = status.direct,
		.writable = status.writable,
		.size = status.size,
		.connections = visited->connections,
	};
	memcpy(figures->limits, visited->limits, sizeof(figures->limits));
	if (export->origin)
		figures->snapshot_of = copy_name(gathered, export->origin->config->name);
	while (checkpoints_at(export->checkpoints, figures->checkpoints, &facts))
		figures->checkpoints++;
	traffic_sum(export->traffic, export->threads, &figures->traffic);
	memcpy(figures->counters, status.counters, sizeof(figures->counters));
}

static void
gather(void *data, const struct visited *visited)
{
	struct gathered *gathered = data;
	struct figures *longer =
		reallocarray(gathered->figures, gathered->count + 1, sizeof(*longer));

	if (!longer) {
		gathered->incomplete = true;
		return;
	}
	gathered->figures = longer;
	copy_figures(gathered, &longer[gathered->count++], visited);
}

static void
gathered_fini(struct gathered *gathered)
{
	for (size_t i = 0; i < gathered->count; i++) {
		free(gathered->figures[i].name);
		free(gathered->figures[i].file);
		free(gathered->figures[i].snapshot_of);
	}
	free(gathered->figures);
}

/* ---- the server itself */

static void
write_server(const struct metric_text *out, const struct status *status, size_t exports)
{
	static const struct metric_family build = {"nbdloop_build", "info", NULL, "The program."},
					  server = {"nbdloop_server", "info", NULL,
						    "Choices of the whole server."},
					  threads = {"nbdloop_threads", "gauge", NULL,
						     "Event loops."},
					  limit = {"nbdloop_connections_limit", "gauge", NULL,
						   "Most connections at a time; 0: no limit."},
					  count = {"nbdloop_exports", "gauge", NULL,
						   "Exports, with snapshots."};
	const struct server_config *config = status->config;
	const struct metric_label version[] = {{"program", "nbdloopd"},
					       {"version", PACKAGE_VERSION}};
	const struct metric_label choices[] = {{"tls", tls_choice_name(config_tls(config))},
					       {"swap", config->swap == TRISTATE_ON ? "on" : "off"},
					       {"sandbox", sandbox_text()}};

	metric_family(out, &build);
	metric_sample(out, &build, "_info", version, 2, 1);
	metric_family(out, &server);
	metric_sample(out, &server, "_info", choices, 3, 1);
	metric_family(out, &threads);
	metric_sample(out, &threads, "", NULL, 0, status->exports->worker_count);
	metric_family(out, &limit);
	metric_sample(out, &limit, "", NULL, 0, config->max_connections);
	metric_family(out, &count);
	metric_sample(out, &count, "", NULL, 0, exports);
}

/* ---- one value of each export */

static uint64_t
size_of(const struct figures *figures)
{
	return figures->size;
}

static uint64_t
connections_of(const struct figures *figures)
{
	return figures->connections;
}

static uint64_t
requests_of(const struct figures *figures)
{
	return figures->traffic.under_way;
}

static uint64_t
checkpoints_of(const struct figures *figures)
{
	return figures->checkpoints;
}

static const struct gauge_row {
	struct metric_family family;
	uint64_t (*value)(const struct figures *figures);
} gauges[] = {
	{{"nbdloop_export_size_bytes", "gauge", "bytes", "Size of the export."}, size_of},
	{{"nbdloop_export_checkpoints", "gauge", NULL, "Checkpoints of the export."},
	 checkpoints_of},
	{{"nbdloop_connections", "gauge", NULL, "Clients that have chosen the export."},
	 connections_of},
	{{"nbdloop_requests_in_flight", "gauge", NULL,
	  "Requests of clients whose reply is not sent yet."},
	 requests_of},
};

static void
write_gauges(const struct metric_text *out, const struct gathered *gathered)
{
	for (size_t row = 0; row < sizeof(gauges) / sizeof(gauges[0]); row++) {
		metric_family(out, &gauges[row].family);
		for (size_t i = 0; i < gathered->count; i++) {
			const struct figures *figures = &gathered->figures[i];
			const struct metric_label label = {"export", figures->name};

			metric_sample(out, &gauges[row].family, "", &label, 1,
				      gauges[row].value(figures));
		}
	}
}

static void
write_info(const struct metric_text *out, const struct gathered *gathered)
{
	static const struct metric_family family = {"nbdloop_export", "info", NULL,
						    "How the export is served."};

	metric_family(out, &family);
	for (size_t i = 0; i < gathered->count; i++) {
		const struct figures *figures = &gathered->figures[i];
		const struct metric_label labels[] = {
			{"export", figures->name},
			{"file", figures->file},
			{"engine", figures->engine},
			{"direct_io", figures->direct ? "on" : "off"},
			{"page_cache", figures->page_cache},
			{"read_only", figures->writable ? "off" : "on"},
			{"lock", figures->lock},
			{"snapshot_of", figures->snapshot_of},
		};

		metric_sample(out, &family, "_info", labels, sizeof(labels) / sizeof(labels[0]), 1);
	}
}

/* ---- limits */

static void
write_rate(const struct metric_text *out, const struct metric_family *family, const char *export,
	   const struct limit_rate *rate)
{
	const struct {
		const char *op;
		uint64_t value;
	} rows[] = {{"both", rate->both}, {"read", rate->read}, {"write", rate->write}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct metric_label labels[] = {{"export", export}, {"op", rows[i].op}};

		metric_sample(out, family, "", labels, 2, rows[i].value);
	}
}

static void
write_limits(const struct metric_text *out, const struct gathered *gathered)
{
	static const struct {
		enum limit_scope scope;
		enum limit_kind kind;
		struct metric_family family;
	} rows[] = {
		{LIMIT_EXPORT,
		 LIMIT_IOPS,
		 {"nbdloop_export_iops_limit", "gauge", NULL,
		  "Operations per second; 0: no limit."}},
		{LIMIT_EXPORT,
		 LIMIT_BANDWIDTH,
		 {"nbdloop_export_bandwidth_limit_bytes", "gauge", "bytes",
		  "Bytes per second; 0: no limit."}},
		{LIMIT_CLIENT,
		 LIMIT_IOPS,
		 {"nbdloop_export_client_iops_limit", "gauge", NULL,
		  "Operations per second of each client; 0: no limit."}},
		{LIMIT_CLIENT,
		 LIMIT_BANDWIDTH,
		 {"nbdloop_export_client_bandwidth_limit_bytes", "gauge", "bytes",
		  "Bytes per second of each client; 0: no limit."}},
	};
	static const struct metric_family held = {"nbdloop_held_requests", "counter", NULL,
						  "Requests that a limit has held back."};

	for (size_t row = 0; row < sizeof(rows) / sizeof(rows[0]); row++) {
		metric_family(out, &rows[row].family);
		for (size_t i = 0; i < gathered->count; i++) {
			const struct figures *figures = &gathered->figures[i];

			write_rate(out, &rows[row].family, figures->name,
				   &figures->limits[rows[row].scope].rates[rows[row].kind]);
		}
	}
	metric_family(out, &held);
	for (size_t i = 0; i < gathered->count; i++) {
		const struct metric_label label = {"export", gathered->figures[i].name};

		metric_sample(out, &held, "_total", &label, 1, gathered->figures[i].traffic.held);
	}
}

/* ---- requests */

static const struct request_row {
	struct metric_family family;
	size_t offset; /* in struct traffic_sum: a number for each of TRAFFIC_OPS */
} request_rows[] = {
	{{"nbdloop_requests", "counter", NULL, "Requests of clients that were answered."},
	 offsetof(struct traffic_sum, requests)},
	{{"nbdloop_request_bytes", "counter", "bytes",
	  "Length of the requests that succeeded, holes included."},
	 offsetof(struct traffic_sum, bytes)},
	{{"nbdloop_request_errors", "counter", NULL,
	  "Requests of clients that were answered with an error."},
	 offsetof(struct traffic_sum, errors)},
};

static void
write_requests(const struct metric_text *out, const struct gathered *gathered)
{
	for (size_t row = 0; row < sizeof(request_rows) / sizeof(request_rows[0]); row++) {
		const struct metric_family *family = &request_rows[row].family;

		metric_family(out, family);
		for (size_t n = 0; n < gathered->count * TRAFFIC_OPS; n++) {
			const struct figures *figures = &gathered->figures[n / TRAFFIC_OPS];
			unsigned int op = n % TRAFFIC_OPS;
			const struct metric_label labels[] = {{"export", figures->name},
							      {"op", traffic_op_name(op)}};
			const uint64_t *values = (const void *)((const char *)&figures->traffic +
								request_rows[row].offset);

			metric_sample(out, family, "_total", labels, 2, values[op]);
		}
	}
}

/* ---- counters */

/* Rows of one family follow each other: only the first one has its type and help. */
static const struct counter_row {
	struct metric_family family;
	enum counter counter;
	struct metric_label label; /* .name NULL: none */
} counters[] = {
	{{"nbdloop_operations", "counter", NULL, "Operations on the image."},
	 COUNTER_READS,
	 {"op", "read"}},
	{{"nbdloop_operations", NULL, NULL, NULL}, COUNTER_WRITES, {"op", "write"}},
	{{"nbdloop_operations", NULL, NULL, NULL}, COUNTER_FLUSHES, {"op", "flush"}},
	{{"nbdloop_operations", NULL, NULL, NULL}, COUNTER_DISCARDS, {"op", "discard"}},
	{{"nbdloop_operations", NULL, NULL, NULL}, COUNTER_ZEROES, {"op", "zero"}},
	{{"nbdloop_transferred_bytes", "counter", "bytes", "Bytes read from the image or written."},
	 COUNTER_READ_BYTES,
	 {"op", "read"}},
	{{"nbdloop_transferred_bytes", NULL, NULL, NULL}, COUNTER_WRITE_BYTES, {"op", "write"}},
	{{"nbdloop_errors", "counter", NULL, "Operations on the image that failed."},
	 COUNTER_ERRORS,
	 {0}},
	{{"nbdloop_bounced_chunks", "counter", NULL,
	  "System operations through a buffer of the server's own."},
	 COUNTER_BOUNCED,
	 {0}},
	{{"nbdloop_read_modify_writes", "counter", NULL,
	  "Blocks that were read because only a part of them was to be written."},
	 COUNTER_READ_MODIFY_WRITES,
	 {0}},
	{{"nbdloop_registered_operations", "counter", NULL,
	  "Operations in memory that is registered with the kernel."},
	 COUNTER_REGISTERED,
	 {0}},
	{{"nbdloop_short_transfers", "counter", NULL, "Transfers of fewer bytes than asked for."},
	 COUNTER_SHORT_TRANSFERS,
	 {0}},
	{{"nbdloop_retries", "counter", NULL, "Attempts after EINTR or EAGAIN."},
	 COUNTER_RETRIES,
	 {0}},
};

static void
write_counters(const struct metric_text *out, const struct gathered *gathered)
{
	for (size_t row = 0; row < sizeof(counters) / sizeof(counters[0]); row++) {
		const struct counter_row *counter = &counters[row];

		if (counter->family.type)
			metric_family(out, &counter->family);
		for (size_t i = 0; i < gathered->count; i++) {
			const struct figures *figures = &gathered->figures[i];
			const struct metric_label labels[] = {{"export", figures->name},
							      counter->label};

			metric_sample(out, &counter->family, "_total", labels,
				      counter->label.name ? 2 : 1,
				      figures->counters[counter->counter]);
		}
	}
}

/* ---- latency */

/* The upper bound of a bucket of struct traffic, in seconds. */
static void
bound_text(unsigned int bucket, char text[32])
{
	uint64_t us = UINT64_C(1) << bucket;

	if (bucket == TRAFFIC_BUCKETS - 1)
		snprintf(text, 32, "+Inf");
	else
		snprintf(text, 32, "%u.%06u", (unsigned int)(us / 1000000),
			 (unsigned int)(us % 1000000));
}

static void
write_histogram(const struct metric_text *out, const struct metric_family *family,
		const struct figures *figures, unsigned int op)
{
	uint64_t below = 0;
	char bound[32];
	const struct metric_label labels[] = {
		{"export", figures->name}, {"op", traffic_op_name(op)}, {"le", bound}};

	for (unsigned int bucket = 0; bucket < TRAFFIC_BUCKETS; bucket++) {
		below += figures->traffic.latency[op][bucket];
		bound_text(bucket, bound);
		metric_sample(out, family, "_bucket", labels, 3, below);
	}
}

static void
write_latency(const struct metric_text *out, const struct gathered *gathered)
{
	/* Without a sum, which the event loops don't count; then there may be no count either. */
	static const struct metric_family family = {
		"nbdloop_request_duration_seconds", "histogram", "seconds",
		"Requests by the time from their arrival to their answer."};

	metric_family(out, &family);
	for (size_t i = 0; i < gathered->count; i++) {
		for (unsigned int op = 0; op < TRAFFIC_OPS; op++)
			write_histogram(out, &family, &gathered->figures[i], op);
	}
}

int
metrics_write(FILE *file, bool open, const struct status *status)
{
	const struct metric_text text = {.out = file, .open = open}, *out = &text;
	struct gathered gathered = {0};
	int r;

	exports_visit(status->exports, NULL, gather, &gathered);
	r = gathered.incomplete ? -ENOMEM : 0;
	if (r == 0) {
		write_server(out, status, gathered.count);
		write_info(out, &gathered);
		write_gauges(out, &gathered);
		write_limits(out, &gathered);
		write_requests(out, &gathered);
		write_counters(out, &gathered);
		write_latency(out, &gathered);
		metrics_end(out);
	}
	gathered_fini(&gathered);
	return r;
}
