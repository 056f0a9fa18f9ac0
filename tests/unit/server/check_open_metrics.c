/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The text of metrics, and who gets which format: what a hostile name may do to it is nothing.
 */
#include "server/http/open_metrics.h"

#include "tests/lib/suite.h"

#include <stdlib.h>
#include <string.h>

static const struct figure_row size = {.metric = "size_bytes",
				       .type = "gauge",
				       .unit = "bytes",
				       .help = "How large."},
			       reads = {.metric = "reads", .type = "counter", .help = "How many."};
static char *text;
static size_t length;
static struct metric_text stream, *out = &stream;

static void
begin(void)
{
	stream = (struct metric_text){.out = open_memstream(&text, &length), .open = true};
	ck_assert_ptr_nonnull(stream.out);
}

static void
end(void)
{
	free(text);
}

static void
expect(const char *wanted)
{
	ck_assert_int_eq(fclose(stream.out), 0);
	ck_assert_str_eq(text, wanted);
}

START_TEST(a_family_tells_its_type_and_unit)
{
	metric_family(out, &size);
	metric_sample(out, &size, NULL, 0, UINT64_MAX);
	metric_family(out, &reads);
	metrics_end(out);
	expect("# TYPE size_bytes gauge\n"
	       "# UNIT size_bytes bytes\n"
	       "# HELP size_bytes How large.\n"
	       "size_bytes 18446744073709551615\n"
	       "# TYPE reads counter\n"
	       "# HELP reads How many.\n"
	       "# EOF\n");
}
END_TEST

/* Times are counted in microseconds, and told in seconds. */
START_TEST(a_time_is_told_in_seconds)
{
	static const struct figure_row waits = {.metric = "waits_seconds",
						.type = "counter",
						.unit = "seconds",
						.help = "How long."};

	metric_family(out, &waits);
	metric_sample(out, &waits, NULL, 0, 12000034);
	expect("# TYPE waits_seconds counter\n"
	       "# UNIT waits_seconds seconds\n"
	       "# HELP waits_seconds How long.\n"
	       "waits_seconds_total 12.000034\n");
}
END_TEST

START_TEST(the_older_text_names_families_as_their_samples)
{
	static const struct figure_row build = {
		.metric = "build", .type = "info", .help = "The program."};

	stream.open = false;
	metric_family(out, &size);
	metric_family(out, &reads);
	metric_sample(out, &reads, NULL, 0, 7);
	metric_family(out, &build);
	metrics_end(out);
	expect("# TYPE size_bytes gauge\n"
	       "# HELP size_bytes How large.\n"
	       "# TYPE reads_total counter\n"
	       "# HELP reads_total How many.\n"
	       "reads_total 7\n"
	       "# TYPE build_info gauge\n"
	       "# HELP build_info The program.\n");
}
END_TEST

START_TEST(labels_are_in_their_order)
{
	const struct metric_label labels[] = {{"export", "a"}, {"op", NULL}};

	metric_sample(out, &reads, labels, 2, 7);
	expect("reads_total{export=\"a\",op=\"\"} 7\n");
}
END_TEST

static const struct {
	const char *value, *escaped;
} values[] = {
	{"", ""},
	{"a\"} 1\nforged 2", "a\\\"} 1\\nforged 2"},
	{"c:\\d", "c:\\\\d"},
	{"\\n", "\\\\n"},
	{"tab\tand\rreturn", "tab\tand\rreturn"},
	{"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
	{"\xff-\xc3", "\xef\xbf\xbd-\xef\xbf\xbd"},
	{"\xc3\"", "\xef\xbf\xbd\\\""},
};

START_TEST(a_value_ends_where_its_label_does)
{
	const struct metric_label label = {"name", values[_i].value};
	char wanted[256];

	metric_sample(out, &reads, &label, 1, 0);
	snprintf(wanted, sizeof(wanted), "reads_total{name=\"%s\"} 0\n", values[_i].escaped);
	expect(wanted);
}
END_TEST

/* ---- what a client asks for */

static const struct {
	const char *accept;
	bool wanted;
} accepts[] = {
	{NULL, false},
	{"", false},
	{"*/*", false},
	{"text/html,application/xhtml+xml,*/*;q=0.8", false},
	{"text/plain;version=0.0.4", false},
	{"application/openmetrics-text", true},
	{"Application/OpenMetrics-Text", true},
	{"application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4", true},
	{"text/plain;q=0.5 , application/openmetrics-text ; version=1.0.0", true},
	{"application/openmetrics-text-not", false},
	{"text/plain;x=application/openmetrics-text", false},
};

START_TEST(open_metrics_is_for_those_who_ask_for_it)
{
	ck_assert_int_eq(open_metrics_wanted(accepts[_i].accept), accepts[_i].wanted);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "text", .begin = begin, .end = end},
		{.test = a_family_tells_its_type_and_unit},
		{.test = a_time_is_told_in_seconds},
		{.test = the_older_text_names_families_as_their_samples},
		{.test = labels_are_in_their_order},
		{.test = a_value_ends_where_its_label_does,
		 .last = sizeof(values) / sizeof(values[0])},
		{.name = "accept"},
		{.test = open_metrics_is_for_those_who_ask_for_it,
		 .last = sizeof(accepts) / sizeof(accepts[0])},
		{0},
	};

	return suite_run("open_metrics", cases);
}
