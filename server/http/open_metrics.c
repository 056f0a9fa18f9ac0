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

void
metric_family(const struct metric_text *text, const struct metric_family *family)
{
	const char *type = family->type, *suffix = "";

	/* The older format names a family as its samples, and has no type for facts. */
	if (!text->open && strcmp(type, "counter") == 0) {
		suffix = "_total";
	} else if (!text->open && strcmp(type, "info") == 0) {
		suffix = "_info";
		type = "gauge";
	}
	fprintf(text->out, "# TYPE %s%s %s\n", family->name, suffix, type);
	if (text->open && family->unit)
		fprintf(text->out, "# UNIT %s %s\n", family->name, family->unit);
	fprintf(text->out, "# HELP %s%s %s\n", family->name, suffix, family->help);
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
metric_sample(const struct metric_text *text, const struct metric_family *family,
	      const char *suffix, const struct metric_label *labels, unsigned int count,
	      uint64_t value)
{
	FILE *out = text->out;

	fprintf(out, "%s%s", family->name, suffix);
	for (unsigned int i = 0; i < count; i++) {
		fprintf(out, "%s%s=\"", i == 0 ? "{" : ",", labels[i].name);
		if (labels[i].value)
			write_value(out, labels[i].value);
		fputc('"', out);
	}
	fprintf(out, "%s %" PRIu64 "\n", count > 0 ? "}" : "", value);
}

void
metrics_end(const struct metric_text *text)
{
	if (text->open)
		fputs("# EOF\n", text->out);
}
