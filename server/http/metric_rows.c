/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/http/metric_rows.h"

#include <string.h>

#define FIELD(name_) offsetof(struct metric_figures, name_)
#define TABLE(rows_, base_)                                                                        \
	.rows = (rows_), .count = sizeof(rows_) / sizeof((rows_)[0]), .base = (base_)
#define TRAFFIC_ROW(row_) .rows = &traffic_rows[row_], .count = 1, .base = FIELD(traffic)

const struct figure_row metric_server_rows[] = {
	[METRIC_BUILD] = {"nbdloop_build", "info", NULL, "The program.", NULL, NULL, 0},
	[METRIC_SERVER] = {"nbdloop_server", "info", NULL, "Choices of the whole server.", NULL,
			   NULL, 0},
	[METRIC_THREADS] = {"nbdloop_threads", "gauge", NULL, "Event loops.", NULL, "threads", 0},
	[METRIC_CONNECTIONS_LIMIT] = {"nbdloop_connections_limit", "gauge", NULL,
				      "Most connections at a time; 0: no limit.", NULL,
				      "max_connections", 0},
	[METRIC_EXPORTS] = {"nbdloop_exports", "gauge", NULL, "Exports, with snapshots.", NULL,
			    NULL, 0},
};

const struct figure_row metric_export_row = {
	"nbdloop_export", "info", NULL, "How the export is served.", NULL, NULL, 0};

static const struct figure_row export_rows[] = {
	{"nbdloop_export_size_bytes", "gauge", "bytes", "Size of the export.", NULL, "size",
	 FIELD(size)},
	{"nbdloop_export_checkpoints", "gauge", NULL, "Checkpoints of the export.", NULL, NULL,
	 FIELD(checkpoints)},
	{"nbdloop_connections", "gauge", NULL, "Clients that have chosen the export.", NULL,
	 "connections", FIELD(connections)},
};

/* The three limits of a kind. */
#define LIMIT(rate_, metric_, unit_, help_)                                                        \
	{metric_, "gauge", unit_, help_, "both", "both", FIELD(rate_.both)},                       \
		{metric_, "gauge", unit_, help_, "read", "read", FIELD(rate_.read)},               \
	{                                                                                          \
		metric_, "gauge", unit_, help_, "write", "write", FIELD(rate_.write)               \
	}

static const struct figure_row limit_rows[] = {
	LIMIT(limits[LIMIT_EXPORT].rates[LIMIT_IOPS], "nbdloop_export_iops_limit", NULL,
	      "Operations per second; 0: no limit."),
	LIMIT(limits[LIMIT_EXPORT].rates[LIMIT_BANDWIDTH], "nbdloop_export_bandwidth_limit_bytes",
	      "bytes", "Bytes per second; 0: no limit."),
	LIMIT(limits[LIMIT_CLIENT].rates[LIMIT_IOPS], "nbdloop_export_client_iops_limit", NULL,
	      "Operations per second of each client; 0: no limit."),
	LIMIT(limits[LIMIT_CLIENT].rates[LIMIT_BANDWIDTH],
	      "nbdloop_export_client_bandwidth_limit_bytes", "bytes",
	      "Bytes per second of each client; 0: no limit."),
};

const struct metric_table metric_tables[] = {
	{TABLE(export_rows, 0)},
	{TRAFFIC_ROW(TRAFFIC_UNDER_WAY)},
	{TABLE(limit_rows, 0)},
	{TRAFFIC_ROW(TRAFFIC_HELD_NOW)},
	{TRAFFIC_ROW(TRAFFIC_HELD)},
	{TRAFFIC_ROW(TRAFFIC_HELD_US)},
	{TABLE(traffic_op_rows, FIELD(traffic)), .ops = TRAFFIC_OPS},
	{TABLE(counter_rows, FIELD(counters))},
	{.rows = NULL},
};

/* Without a sum, which the event loops don't count; then there may be no count either. */
const struct figure_row metric_latency_row = {
	"nbdloop_request_duration_seconds",
	"histogram",
	"seconds",
	"Requests by the time from their arrival to their answer.",
	"each",
	NULL,
	0};

bool
metric_row_is_first(const struct metric_table *table, size_t row)
{
	for (size_t i = 0; i < row; i++) {
		if (strcmp(table->rows[i].metric, table->rows[row].metric) == 0)
			return false;
	}
	return true;
}

static void
metric_print_pod(FILE *out, const struct figure_row *row, bool ops)
{
	fprintf(out, "=item C<%s%s>%s\n\n%s\n\n__MORE %s__\n\n", row->metric,
		strcmp(row->type, "counter") == 0 ? "_total"
		: strcmp(row->type, "info") == 0  ? "_info"
						  : "",
		ops ? ", by C<op>" : "", row->help, row->metric);
}

void
metric_rows_print_pod(FILE *out)
{
	for (size_t i = 0; i < METRIC_SERVER_ROWS; i++)
		metric_print_pod(out, &metric_server_rows[i], false);
	metric_print_pod(out, &metric_export_row, false);
	for (const struct metric_table *table = metric_tables; table->rows; table++) {
		for (size_t i = 0; i < table->count; i++) {
			if (metric_row_is_first(table, i))
				metric_print_pod(out, &table->rows[i],
						 table->ops || table->rows[i].op);
		}
	}
	metric_print_pod(out, &metric_latency_row, true);
}
