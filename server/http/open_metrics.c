/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/http/open_metrics.h"

#include "common/utf8.h"

#include <inttypes.h>
#include <string.h>

bool
open_metrics_wanted(const char *accept)
{
	static const char type[] = "application/openmetrics-text";

	while (accept && *accept) {
		accept += strspn(accept, " \t,");
		if (strncasecmp(accept, type, strlen(type)) == 0 &&
		    strchr(" \t;,", accept[strlen(type)]))
			return true;
		accept += strcspn(accept, ",");
	}
	return false;
}

/* What the names of samples have after that of their family. */
static const char *
metric_suffix(const struct figure_row *row)
{
	return strcmp(row->type, "counter") == 0     ? "_total"
	       : strcmp(row->type, "info") == 0      ? "_info"
	       : strcmp(row->type, "histogram") == 0 ? "_bucket"
						     : "";
}

void
metric_family(const struct metric_text *text, const struct figure_row *row)
{
	const char *type = row->type, *suffix = "";

	/* The older format names a family as its samples, and has no type for facts. */
	if (!text->open && strcmp(type, "histogram") != 0)
		suffix = metric_suffix(row);
	if (!text->open && strcmp(type, "info") == 0)
		type = "gauge";
	fprintf(text->out, "# TYPE %s%s %s\n", row->metric, suffix, type);
	if (text->open && row->unit)
		fprintf(text->out, "# UNIT %s %s\n", row->metric, row->unit);
	fprintf(text->out, "# HELP %s%s %s\n", row->metric, suffix, row->help);
}

static void
write_value(FILE *out, const char *value)
{
	const unsigned char *at = (const unsigned char *)value;

	while (*at) {
		size_t length = utf8_length(at);

		if (*at == '\n')
			fputs("\\n", out);
		else if (*at == '"' || *at == '\\')
			fprintf(out, "\\%c", *at);
		else if (length > 0)
			fwrite(at, 1, length, out);
		else
			fputs(UTF8_REPLACEMENT, out);
		at += length ? length : 1;
	}
}

void
metric_sample(const struct metric_text *text, const struct figure_row *row,
	      const struct metric_label *labels, unsigned int count, uint64_t value)
{
	FILE *out = text->out;

	fprintf(out, "%s%s", row->metric, metric_suffix(row));
	for (unsigned int i = 0; i < count; i++) {
		fprintf(out, "%s%s=\"", i == 0 ? "{" : ",", labels[i].name);
		if (labels[i].value)
			write_value(out, labels[i].value);
		fputc('"', out);
	}
	fprintf(out, "%s ", count > 0 ? "}" : "");
	if (row->unit && strcmp(row->unit, "seconds") == 0 && strcmp(row->type, "histogram") != 0)
		fprintf(out, "%" PRIu64 ".%06" PRIu64 "\n", value / 1000000, value % 1000000);
	else
		fprintf(out, "%" PRIu64 "\n", value);
}

void
metrics_end(const struct metric_text *text)
{
	if (text->open)
		fputs("# EOF\n", text->out);
}
