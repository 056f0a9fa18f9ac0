/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes OpenMetrics text (version 1.0.0, the format of Prometheus and others): families of
 * samples, each with its labels.  A failure to write shows in the stream (ferror()).
 */
#ifndef SERVER_HTTP_OPEN_METRICS_H
#define SERVER_HTTP_OPEN_METRICS_H

#include <stdint.h>
#include <stdio.h>

#define OPEN_METRICS_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

struct metric_family {
	const char *name; /* ends with the unit, if there is one */
	const char *type; /* "counter", "gauge", "histogram" or "info" */
	const char *unit; /* a base unit: "seconds", "bytes"; NULL: none */
	const char *help; /* one line, without a backslash */
};

struct metric_label {
	const char *name;
	const char *value; /* any text: what is special in the format is escaped, and bytes that are
			      not UTF-8 become U+FFFD.  NULL: "" */
};

/* Begins a family, to which all samples belong that follow. */
void
metric_family(FILE *out, const struct metric_family *family);

/* Writes one sample.  `suffix`: "_total" of counters, "_info", "_bucket", or "". `labels`: `count`
 * of them. */
void
metric_sample(FILE *out, const struct metric_family *family, const char *suffix,
	      const struct metric_label *labels, unsigned int count, uint64_t value);

/* Writes the end, without which the text counts as cut off. */
void
metrics_end(FILE *out);

#endif
