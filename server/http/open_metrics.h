/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes the text formats of Prometheus and others: families of samples, each with its labels.
 * OpenMetrics (version 1.0.0) is for clients that ask for it; the older text format (version 0.0.4)
 * is for all others, whose parsers stop at the first word that only OpenMetrics has ("info", "#
 * EOF"). A failure to write shows in the stream (ferror()).
 */
#ifndef SERVER_HTTP_OPEN_METRICS_H
#define SERVER_HTTP_OPEN_METRICS_H

#include "common/figure_row.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define OPEN_METRICS_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define METRICS_TEXT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* Where families and samples are written. */
struct metric_text {
	FILE *out;
	bool open; /* OpenMetrics */
};

/* Returns whether the header field "Accept", or NULL, names OpenMetrics, as Prometheus' client
 * libraries decide: by the name alone, without weights. */
bool
open_metrics_wanted(const char *accept);

struct metric_label {
	const char *name;
	const char *value; /* any text: what is special in the format is escaped, and bytes that are
			      not UTF-8 become U+FFFD.  NULL: "" */
};

/* Begins the family of a figure, to which all samples belong that follow. */
void
metric_family(const struct metric_text *text, const struct figure_row *row);

/* Writes one sample, with `count` labels. The value of a family in seconds, unless that is a
 * histogram of requests, is in microseconds. */
void
metric_sample(const struct metric_text *text, const struct figure_row *row,
	      const struct metric_label *labels, unsigned int count, uint64_t value);

/* Writes the end, without which OpenMetrics text counts as cut off. */
void
metrics_end(const struct metric_text *text);

#endif
