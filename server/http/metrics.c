/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/http/metrics.h"

#include "server/config/server_config.h"
#include "server/exports/exports.h"
#include "server/exports/server_status.h"
#include "server/http/metric_rows.h"
#include "server/http/open_metrics.h"
#include "server/sandbox/sandbox.h"

#include "common/cleanup.h"
#include "engine/changes/checkpoint.h"
#include "engine/image/image.h"
#include "engine/image/image_status.h"

#include <errno.h>
#include <string.h>

/* ---- the figures of all exports, since a family has the samples of all of them */

struct gathered {
	struct metric_figures *figures;
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
copy_figures(struct gathered *gathered, struct metric_figures *figures,
	     const struct visited *visited)
{
	const struct export *export = visited->export;
	struct checkpoint_facts facts;
	struct image_status status;

	image_status(export->image, &status);
	*figures = (struct metric_figures){
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
	if (export_is_snapshot(export))
		figures->snapshot_of = copy_name(gathered, export->origin->config->name);
	while (checkpoints_at(export->checkpoints, figures->checkpoints, &facts))
		figures->checkpoints++;
	traffic_sum(export->traffic, export->threads, &figures->traffic);
	memcpy(figures->counters, status.counters, sizeof(figures->counters));
}

static void
metrics_gather(void *data, const struct visited *visited)
{
	struct gathered *gathered = data;
	struct metric_figures *longer =
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
	const struct server_config *config = status->config;
	const struct metric_label version[] = {{"program", "nbdloopd"},
					       {"version", PACKAGE_VERSION}};
	const struct metric_label choices[] = {{"tls", tls_choice_name(config_tls(config))},
					       {"swap", config->swap == TRISTATE_ON ? "on" : "off"},
					       {"sandbox", sandbox_text()}};
	const struct {
		const struct metric_label *labels;
		unsigned int count;
		uint64_t value;
	} samples[] = {
		[METRIC_BUILD] = {version, 2, 1},
		[METRIC_SERVER] = {choices, 3, 1},
		[METRIC_THREADS] = {NULL, 0, status->exports->worker_count},
		[METRIC_CONNECTIONS_LIMIT] = {NULL, 0, config->max_connections},
		[METRIC_EXPORTS] = {NULL, 0, exports},
	};

	for (unsigned int i = 0; i < METRIC_SERVER_ROWS; i++) {
		metric_family(out, &metric_server_rows[i]);
		metric_sample(out, &metric_server_rows[i], samples[i].labels, samples[i].count,
			      samples[i].value);
	}
}

/* ---- exports */

static void
write_info(const struct metric_text *out, const struct gathered *gathered)
{
	metric_family(out, &metric_export_row);
	for (size_t i = 0; i < gathered->count; i++) {
		const struct metric_figures *figures = &gathered->figures[i];
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

		metric_sample(out, &metric_export_row, labels, sizeof(labels) / sizeof(labels[0]),
			      1);
	}
}

static void
write_figures(const struct metric_text *out, const struct metric_table *table,
	      const struct figure_row *row, const struct metric_figures *figures)
{
	const uint64_t *values = (const void *)((const char *)figures + table->base + row->field);

	for (unsigned int n = 0; n == 0 || n < table->ops; n++) {
		const char *op = table->ops ? traffic_op_name(n) : row->op;
		const struct metric_label labels[] = {{"export", figures->name}, {"op", op}};

		metric_sample(out, row, labels, op ? 2 : 1, values[n]);
	}
}

/* Families whose rows don't follow each other are written at the first one. */
static void
write_table(const struct metric_text *out, const struct metric_table *table,
	    const struct gathered *gathered)
{
	for (size_t first = 0; first < table->count; first++) {
		if (!metric_row_is_first(table, first))
			continue;
		metric_family(out, &table->rows[first]);
		for (size_t n = 0; n < gathered->count; n++) {
			for (size_t i = first; i < table->count; i++) {
				if (strcmp(table->rows[i].metric, table->rows[first].metric) == 0)
					write_figures(out, table, &table->rows[i],
						      &gathered->figures[n]);
			}
		}
	}
}

/* ---- latency */

static void
write_histogram(const struct metric_text *out, const struct metric_figures *figures,
		unsigned int op)
{
	uint64_t below = 0;
	char bound[32];
	const struct metric_label labels[] = {
		{"export", figures->name}, {"op", traffic_op_name(op)}, {"le", bound}};

	for (unsigned int bucket = 0; bucket < TRAFFIC_BUCKETS; bucket++) {
		below += figures->traffic.latency[op][bucket];
		/* The upper bound of the bucket, in seconds. */
		if (bucket == TRAFFIC_BUCKETS - 1)
			snprintf(bound, sizeof(bound), "+Inf");
		else
			snprintf(bound, sizeof(bound), "%u.%06u", (1u << bucket) / 1000000,
				 (1u << bucket) % 1000000);
		metric_sample(out, &metric_latency_row, labels, 3, below);
	}
}

int
metrics_write(FILE *file, bool open, const struct status *status)
{
	const struct metric_text text = {.out = file, .open = open}, *out = &text;
	struct gathered gathered = {0};
	int r;

	exports_visit(status->exports, NULL, metrics_gather, &gathered);
	r = gathered.incomplete ? -ENOMEM : 0;
	if (r == 0) {
		write_server(out, status, gathered.count);
		write_info(out, &gathered);
		for (const struct metric_table *table = metric_tables; table->rows; table++)
			write_table(out, table, &gathered);
		metric_family(out, &metric_latency_row);
		for (size_t i = 0; i < gathered.count; i++) {
			for (unsigned int op = 0; op < TRAFFIC_OPS; op++)
				write_histogram(out, &gathered.figures[i], op);
		}
		metrics_end(out);
	}
	gathered_fini(&gathered);
	return r;
}
