/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop status: what a device does just now.
 */
#include "tool/failure.h"
#include "tool/show/columns.h"
#include "tool/show/figures.h"
#include "tool/show/json_text.h"
#include "tool/show/plain_text.h"
#include "tool/system_root.h"
#include "tool/verb/verb.h"

#include "common/log.h"
#include "common/unit.h"

#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

/* As losetup, for which 1 means that the device isn't attached. */
enum {
	EXIT_UNKNOWN = 2,
};

#define BAR_WIDTH 40

struct status_options {
	unsigned int json;  /* off, on */
	unsigned int watch; /* seconds; 0: once */
};

#define FIELD(name_) offsetof(struct status_options, name_)

static const struct option_row status_option_rows[] = {
	OPTION_SWITCH("json", 'J', FIELD(json), "print JSON",
		      "Print a JSON object; with I<--watch>, one per line.  See\n"
		      "L</The status in JSON>.\n"),
	{
		.name = "watch",
		.letter = 'w',
		.type = OPTION_UINT,
		.field = FIELD(watch),
		.min = 1,
		.max = 86400,
		.alone = "1",
		.arg = "SECONDS",
		.help = "measure again and again, each time for SECONDS (default: 1)",
		.manual =
			"Measure again and again until interrupted, or until the device is\n"
			"detached.  On a terminal, each report overwrites the last one.  A report\n"
			"is about the SECONDS before it, as in C<--watch=5>; about one second if\n"
			"no number is given.\n",
	},
	{.name = NULL},
};

/* All facts of one moment. */
struct view {
	struct listing *listing;
	struct sample sample;
};

/* ---- text for people */

static const char *
on_off(JsonObject *image, const char *member)
{
	return json_object_get_boolean_member_with_default(image, member, FALSE) ? "on" : "off";
}

/* " (why)", or nothing.  Caller frees. */
static char *
reason(JsonObject *image, const char *member)
{
	const char *why = json_object_get_string_member_with_default(image, member, "");

	return *why ? g_strdup_printf(" (%s)", why) : g_strdup("");
}

static void
print_server(const struct listing *listing)
{
	JsonObject *image = listing->image;
	g_autofree char *engine = NULL, *direct = NULL, *poll = NULL;
	int64_t connections;

	if (!image) {
		g_autofree char *server =
			plain_text(listing->server ? listing->server : "unknown", false);

		printf("server: %s; it tells nothing\n", server);
		return;
	}
	connections = json_object_get_int_member_with_default(image, "connections", 0);
	engine = reason(image, "engine_reason");
	direct = reason(image, "direct_io_reason");
	poll = reason(image, "poll_reason");
	printf("%s %s, process %" PRId64 ": %" PRId64
	       " connection%s, engine %s%s, direct I/O %s%s, polling %s%s\n",
	       listing->server,
	       json_object_get_string_member_with_default(listing->status, "version", "?"),
	       json_object_get_int_member_with_default(listing->status, "pid", 0), connections,
	       connections == 1 ? "" : "s",
	       json_object_get_string_member_with_default(image, "engine", "?"), engine,
	       on_off(image, "direct_io"), direct, on_off(image, "poll"), poll);
}

/* Prints only what is wrong. */
static void
print_guard(const struct listing *listing)
{
	if (listing->guard == 0)
		printf("guard: none: %s\n", listing->trouble);
	else if (listing->trouble)
		printf("trouble: %s\n", listing->trouble);
}

static void
print_device(const struct listing *listing)
{
	const struct device *device = listing->device;
	g_autofree char *source = listing_source(listing),
			*text = plain_text(source ? source : "unknown image", false);
	char size[UNIT_SIZE_TEXT];

	printf("/dev/%s: %s, %s, %s, sectors of %u bytes\n", device->name, text,
	       unit_format_size(device->size, size), device->read_only ? "read-only" : "writable",
	       device->block_size);
	print_server(listing);
	print_guard(listing);
}

static void
print_latency(uint64_t microseconds)
{
	char text[24] = "-";

	if (microseconds > 0)
		snprintf(text, sizeof(text), "<%" PRIu64, microseconds);
	printf(" %9s", text);
}

static void
print_op(enum figures_op op, const struct op_figures *figures)
{
	printf("%-8s %9.1f %9.1f", figures_op_names[op], figures->iops,
	       figures->bytes_per_second / 1e6);
	if (figures->bytes > 0)
		printf(" %9.1f", figures->bytes / 1024);
	else
		printf(" %9s", "-");
	if (figures->iops > 0 && op != FIGURES_ZERO)
		printf(" %9.2f", figures->milliseconds);
	else
		printf(" %9s", "-");
	print_latency(figures->median);
	print_latency(figures->p99);
	print_latency(figures->longest);
	printf("\n");
}

/* Of all operations. */
static uint64_t
sum_now(const struct figures *figures, unsigned int bucket)
{
	uint64_t sum = 0;

	for (unsigned int op = 0; op < FIGURES_OPS; op++)
		sum += figures->ops[op].latency[bucket];
	return sum;
}

static uint64_t
sum_ever(const struct sample *sample, unsigned int bucket)
{
	uint64_t sum = 0;

	for (unsigned int op = 0; op < FIGURES_OPS; op++)
		sum += sample->latency[op][bucket];
	return sum;
}

static void
print_histogram(const struct sample *sample, const struct figures *figures)
{
	unsigned int first = FIGURES_BUCKETS, last = 0;
	uint64_t most = 0;

	for (unsigned int i = 0; i < FIGURES_BUCKETS; i++) {
		if (sum_ever(sample, i) == 0)
			continue;
		first = MIN(first, i);
		last = i;
		most = MAX(most, sum_ever(sample, i));
	}
	if (most == 0)
		return;
	printf("\nmicroseconds in the server   last %3.0f s    since opened\n", figures->seconds);
	for (unsigned int i = first; i <= last; i++) {
		int width = (int)((double)sum_ever(sample, i) / (double)most * BAR_WIDTH + 0.5);

		printf("%18s %-8" PRIu64 " %10" PRIu64 " %15" PRIu64 "  %.*s\n", "<",
		       UINT64_C(1) << i, sum_now(figures, i), sum_ever(sample, i), width,
		       "########################################");
	}
}

static void
print_text(const struct view *view, const struct figures *figures)
{
	const struct sample *sample = &view->sample;

	print_device(view->listing);
	printf("\n              IO/s      MB/s    KiB/IO     ms/IO    p50 us    p99 us    max us\n");
	for (unsigned int op = 0; op < FIGURES_OPS; op++)
		print_op(op, &figures->ops[op]);
	printf("\nin flight: %" PRIu64 " reads, %" PRIu64 " writes; busy %.0f %% of %.1f s",
	       sample->in_flight[0], sample->in_flight[1], figures->busy * 100, figures->seconds);
	if (sample->server)
		printf("; in the server: %" PRIu64 ", %" PRIu64
		       " failed since the image was opened",
		       sample->requests, sample->errors);
	printf("\n");
	print_histogram(sample, figures);
}

/* ---- JSON */

static void
set_latency(JsonObject *object, const char *name, uint64_t microseconds)
{
	if (microseconds > 0)
		json_object_set_int_member(object, name, (gint64)microseconds);
	else
		json_object_set_null_member(object, name);
}

static JsonObject *
op_object(const struct op_figures *figures)
{
	JsonObject *object = json_object_new();
	JsonArray *histogram = json_array_new();
	unsigned int count = FIGURES_BUCKETS;

	while (count > 0 && figures->latency[count - 1] == 0)
		count--;
	for (unsigned int i = 0; i < count; i++)
		json_array_add_int_element(histogram, (gint64)figures->latency[i]);
	json_object_set_double_member(object, "iops", figures->iops);
	json_object_set_double_member(object, "bytes-per-second", figures->bytes_per_second);
	json_object_set_double_member(object, "average-bytes", figures->bytes);
	json_object_set_double_member(object, "average-ms", figures->milliseconds);
	set_latency(object, "p50-us", figures->median);
	set_latency(object, "p99-us", figures->p99);
	set_latency(object, "max-us", figures->longest);
	json_object_set_array_member(object, "histogram", histogram);
	return object;
}

static JsonObject *
in_flight_object(const struct sample *sample)
{
	JsonObject *object = json_object_new();

	json_object_set_int_member(object, "read", (gint64)sample->in_flight[0]);
	json_object_set_int_member(object, "write", (gint64)sample->in_flight[1]);
	return object;
}

static void
print_json(const struct view *view, const struct figures *figures, bool pretty)
{
	g_autoptr(GPtrArray) columns = columns_all();
	g_autoptr(JsonObject) object = columns_object(columns, view->listing);
	JsonObject *ops = json_object_new();
	JsonObject *status = view->listing->status;

	for (unsigned int op = 0; op < FIGURES_OPS; op++)
		json_object_set_object_member(ops, figures_op_names[op],
					      op_object(&figures->ops[op]));
	json_object_set_double_member(object, "seconds", figures->seconds);
	json_object_set_double_member(object, "busy", figures->busy);
	json_object_set_object_member(object, "in-flight", in_flight_object(&view->sample));
	json_object_set_object_member(object, "operations", ops);
	json_object_set_object_member(object, "server-status",
				      status ? json_object_ref(status) : NULL);
	json_text_print(stdout, object, pretty);
}

/* ---- looking, again and again */

static void
view_clear(struct view *view)
{
	listing_free(g_steal_pointer(&view->listing));
}

static bool
look(struct view *view, const char *name, GError **error)
{
	g_autofree char *sys = system_root_path("/sys");
	g_autofree char *proc = system_root_path("/proc");
	struct device *DEVICE_CLEANUP device = device_read(sys, name, error);

	if (!device || !sample_read(&view->sample, sys, device, error))
		return false;
	if (device->pid == 0)
		return failure(error, ENXIO, "/dev/%s is not attached", device->name);
	view->listing = listing_new(g_steal_pointer(&device), proc);
	sample_add_server(&view->sample, view->listing->status, view->listing->image);
	return true;
}

static bool
report(const struct status_options *options, const struct view *before, const struct view *now)
{
	struct figures figures;

	figures_between(&before->sample, &now->sample, &figures);
	if (options->json) {
		if (now->listing->trouble)
			log_warning("/dev/%s: %s", now->listing->device->name,
				    now->listing->trouble);
		print_json(now, &figures, !options->watch);
	} else {
		/* On a terminal, over the last one. */
		if (options->watch && isatty(STDOUT_FILENO))
			fputs("\033[H\033[J", stdout);
		print_text(now, &figures);
		if (options->watch)
			putchar('\n');
	}
	return fflush(stdout) == 0;
}

static bool
watch(const struct verb_call *call, GError **error)
{
	const struct status_options *options = call->options;
	unsigned int seconds = options->watch ? options->watch : 1;
	struct view before = {0}, now = {0};
	bool good = look(&before, call->operands[0], error);

	do {
		for (unsigned int i = 0; good && i < seconds; i++)
			g_usleep(G_USEC_PER_SEC);
		good = good && look(&now, call->operands[0], error) &&
		       report(options, &before, &now);
		view_clear(&before);
		before = now;
		now = (struct view){0};
	} while (good && options->watch);
	view_clear(&before);
	return good;
}

const struct verb verb_status = {
	.name = "status",
	.help = "measure and show the activity of a device",
	.synopsis = "[OPTION]... DEVICE",
	.summary = "Measures and shows the activity of a device.",
	.rows = status_option_rows,
	.least = 1,
	.most = 1,
	.options_size = sizeof(struct status_options),
	.failure_status = EXIT_UNKNOWN,
	.run = watch,
};
