/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/http/open_metrics.h"

#include "common/utf8.h"

#include <inttypes.h>

void
metric_family(FILE *out, const struct metric_family *family)
{
	fprintf(out, "# TYPE %s %s\n", family->name, family->type);
	if (family->unit)
		fprintf(out, "# UNIT %s %s\n", family->name, family->unit);
	fprintf(out, "# HELP %s %s\n", family->name, family->help);
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
metric_sample(FILE *out, const struct metric_family *family, const char *suffix,
	      const struct metric_label *labels, unsigned int count, uint64_t value)
{
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
metrics_end(FILE *out)
{
	fputs("# EOF\n", out);
}
