/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop status: measures and shows the activity of a device, or of an export of a running
 * nbdloopd.
 */
#include "tool/show/columns.h"
#include "tool/show/export_columns.h"
#include "tool/show/figures.h"
#include "tool/show/output.h"
#include "tool/verb/served_export.h"
#include "tool/verb/verb.h"

#include "common/log.h"
#include "common/unit.h"

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
	OPTION_SWITCH("json", 'J', FIELD(json), "print JSON"),
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
	},
	{.name = NULL},
};

/* A device or an export at one moment. */
struct view {
	struct listing *listing; /* of a device; NULL: it is an export */
	json_t *status;          /* of an export: its server's, with this export alone; or NULL */
	const char *text;        /* the name, as the user wrote it */
	struct sample sample;
};

static void
status_view_fini(struct view *view)
{
	listing_free(view->listing);
	json_decref(view->status);
}

static json_t *
view_export(const struct view *view)
{
	return json_array_get(json_object_get(view->status, "exports"), 0);
}

/* ---- text for people */

static const char *
on_off(json_t *image, const char *member)
{
	return json_is_true(json_object_get(image, member)) ? "on" : "off";
}

/* " (why)", or nothing.  Caller frees. */
static char *
status_reason(json_t *image, const char *member)
{
	const char *why = json_string_value(json_object_get(image, member)) ?: "";

	return *why ? g_strdup_printf(" (%s)", why) : g_strdup("");
}

/* ", page cache keep" with its reason; nothing with direct I/O.  Caller frees. */
static char *
page_cache(json_t *image)
{
	const char *pages = json_string_value(json_object_get(image, "page_cache")) ?: "";
	g_autofree char *why = status_reason(image, "page_cache_reason");

	if (!*pages || json_is_true(json_object_get(image, "direct_io")))
		return g_strdup("");
	return g_strdup_printf(", page cache %s%s", pages, why);
}

static void
status_print_silent_server(const struct listing *listing)
{
	g_autofree char *server =
		output_plain(listing->server ? listing->server : "unknown", false);

	printf("server: %s%s%s%s%s; it reports nothing\n", server, listing->remote ? ", " : "",
	       listing->remote ? listing->remote : "", listing->tls ? ", over TLS " : "",
	       listing->tls ? listing->tls : "");
}

/* `image`: in the server's status. */
static void
status_print_server(json_t *status, json_t *image)
{
	const char *program = json_string_value(json_object_get(status, "program"));
	g_autofree char *engine = NULL, *direct = NULL, *cache = NULL, *poll = NULL, *access = NULL,
			*line = NULL, *plain = NULL;
	int64_t connections;

	connections = json_integer_value(json_object_get(image, "connections"));
	engine = status_reason(image, "engine_reason");
	direct = status_reason(image, "direct_io_reason");
	poll = status_reason(image, "poll_reason");
	cache = page_cache(image);
	access = status_reason(image, "read_only_reason");
	line = g_strdup_printf("%s %s, process %" PRId64 ": %" PRId64
			       " connection%s, engine %s%s, direct I/O %s%s%s, polling %s%s%s%s",
			       program ?: "?",
			       json_string_value(json_object_get(status, "version")) ?: "?",
			       (int64_t)json_integer_value(json_object_get(status, "pid")),
			       connections, connections == 1 ? "" : "s",
			       json_string_value(json_object_get(image, "engine")) ?: "?", engine,
			       on_off(image, "direct_io"), direct, cache, on_off(image, "poll"),
			       poll, *access ? ", read-only" : "", access);
	plain = output_plain(line, false);
	puts(plain);
}

static void
status_print_device(const struct listing *listing)
{
	const struct device *device = listing->device;
	g_autofree char *source = listing_source(listing),
			*text = output_plain(source ? source : "unknown image", false);
	char size[UNIT_SIZE_TEXT];

	printf("/dev/%s: %s, %s, %s, sectors of %u bytes\n", device->name, text,
	       unit_format_size(device->size, size), device->read_only ? "read-only" : "writable",
	       device->block_size);
	if (listing->image)
		status_print_server(listing->status, listing->image);
	else
		status_print_silent_server(listing);
	if (listing->guard == 0)
		printf("guard: none: %s\n", listing->trouble);
	else if (listing->trouble)
		printf("trouble: %s\n", listing->trouble);
}

static void
status_print_export(const struct view *view)
{
	json_t *export = view_export(view);
	const char *file = json_string_value(json_object_get(export, "file"));
	g_autofree char *name = output_plain(view->text, false),
			*image = output_plain(file ?: "unknown image", false),
			*limits = export_limits_text(json_object_get(export, "limits"));
	char size[UNIT_SIZE_TEXT];

	printf("%s: %s, %s, %s\n", name, image,
	       unit_format_size((uint64_t)json_integer_value(json_object_get(export, "size")),
				size),
	       json_is_true(json_object_get(export, "read_only")) ? "read-only" : "writable");
	status_print_server(view->status, export);
	if (limits && *limits)
		printf("limits: %s\n", limits);
}

static void
print_latency(uint64_t microseconds)
{
	char text[24] = "-";

	if (microseconds > 0)
		snprintf(text, sizeof(text), "<%" PRIu64, microseconds);
	printf(" %9s", text);
}

/* `timed`: the kernel measures how long an operation takes. */
static void
print_op(enum figures_op op, const struct op_figures *figures, bool timed)
{
	printf("%-8s %9.1f %9.1f", figures_op_names[op], figures->iops,
	       figures->bytes_per_second / 1e6);
	if (figures->bytes > 0)
		printf(" %9.1f", figures->bytes / 1024);
	else
		printf(" %9s", "-");
	if (timed && figures->iops > 0 && op != FIGURES_ZERO)
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
latency_sum(const uint64_t latency[FIGURES_OPS][FIGURES_BUCKETS], unsigned int bucket)
{
	uint64_t all = 0;

	for (unsigned int op = 0; op < FIGURES_OPS; op++)
		all += latency[op][bucket];
	return all;
}

static void
print_histogram(const struct sample *sample, const struct figures *figures)
{
	unsigned int first = FIGURES_BUCKETS, last = 0;
	uint64_t most = 0;

	for (unsigned int i = 0; i < FIGURES_BUCKETS; i++) {
		if (latency_sum(sample->latency, i) == 0)
			continue;
		first = MIN(first, i);
		last = i;
		most = MAX(most, latency_sum(sample->latency, i));
	}
	if (most == 0)
		return;
	printf("\nmicroseconds in the server   last %3.0f s    since opened\n", figures->seconds);
	for (unsigned int i = first; i <= last; i++) {
		int width =
			(int)((double)latency_sum(sample->latency, i) / (double)most * BAR_WIDTH +
			      0.5);

		printf("%18s %-8" PRIu64 " %10" PRIu64 " %15" PRIu64 "  %.*s\n", "<",
		       UINT64_C(1) << i, latency_sum(figures->latency, i),
		       latency_sum(sample->latency, i), width,
		       "########################################");
	}
}

static void
print_text(const struct view *view, const struct figures *figures)
{
	const struct sample *sample = &view->sample;

	if (view->listing)
		status_print_device(view->listing);
	else
		status_print_export(view);
	printf("\n              IO/s      MB/s    KiB/IO     ms/IO    p50 us    p99 us    max us\n");
	for (unsigned int op = 0; op < FIGURES_OPS; op++)
		print_op(op, &figures->ops[op], view->listing != NULL);
	putchar('\n');
	if (view->listing)
		printf("in flight: %" PRIu64 " reads, %" PRIu64 " writes; busy %.0f %% of %.1f s%s",
		       sample->in_flight[0], sample->in_flight[1], figures->busy * 100,
		       figures->seconds, sample->server ? "; " : "");
	if (sample->server)
		printf("requests in the server: %" PRIu64
		       ", failed since the image was opened: %" PRIu64,
		       sample->requests, sample->errors);
	printf("\n");
	if (sample->server)
		printf("on the disk: %.1f operations/s, %.1f MB/s\n", figures->disk_iops,
		       figures->disk_bytes_per_second / 1e6);
	if (sample->held_now || figures->held_per_second > 0)
		printf("held by a limit: %" PRIu64 "; %.1f/s waited %.1f ms on average\n",
		       sample->held_now, figures->held_per_second, figures->held_milliseconds);
	print_histogram(sample, figures);
}

/* ---- JSON */

static void
status_print_json(const struct view *view, const struct figures *figures, bool pretty)
{
	g_autoptr(GPtrArray) columns = columns_all();
	json_t *ops = json_object(), *status = view->listing ? view->listing->status : view->status,
	       *name = json_object_get(view_export(view), "name");
	json_auto_t *object = view->listing ? columns_object(columns, view->listing)
					    : json_pack("{sO}", "export", name);

	for (unsigned int op = 0; op < FIGURES_OPS; op++)
		json_object_set_new(ops, figures_op_names[op], figures_op_object(figures, op));
	json_object_set_new(object, "seconds", json_real(figures->seconds));
	if (view->listing) {
		json_object_set_new(object, "busy", json_real(figures->busy));
		json_object_set_new(object, "in-flight",
				    json_pack("{sI sI}", "read",
					      (json_int_t)view->sample.in_flight[0], "write",
					      (json_int_t)view->sample.in_flight[1]));
	}
	json_object_set_new(object, "requests", ops);
	figures_put_server(object, figures, view->sample.held_now, view->sample.server != 0);
	json_object_set_new(object, "server-status", status ? json_incref(status) : json_null());
	output_json(stdout, object, pretty);
}

/* ---- measuring, once or repeatedly */

static bool
view_read_device(struct view *view, GError **error)
{
	struct device *DEVICE_CLEANUP device = device_read_attached(view->text, error);

	if (!device || !sample_read(&view->sample, device, error))
		return false;
	view->listing = listing_new(g_steal_pointer(&device));
	sample_add_server(&view->sample, view->listing->status, view->listing->image);
	return true;
}

static bool
view_read_export(struct view *view, GError **error)
{
	struct asked_server server;

	if (asked_server_find(&server, view->text, error))
		view->status = served_export_status(&server, error);
	asked_server_fini(&server);
	if (!view->status)
		return false;
	sample_of_export(&view->sample, g_get_monotonic_time(), view->status, view_export(view));
	return true;
}

static bool
view_read(struct view *view, const char *text, GError **error)
{
	*view = (struct view){.text = text};
	return asked_server_is_device(text) ? view_read_device(view, error)
					    : view_read_export(view, error);
}

static bool
print_report(const struct status_options *options, const struct view *before,
	     const struct view *now)
{
	struct sample earlier = before->sample;
	struct figures figures;

	/* The counters of another server began at 0; those of the kernel go on. */
	if (!now->listing && earlier.server != now->sample.server)
		earlier = (struct sample){.time = earlier.time, .server = now->sample.server};
	figures_between(&earlier, &now->sample, &figures);
	if (options->json) {
		if (now->listing && now->listing->trouble)
			log_warning("/dev/%s: %s", now->listing->device->name,
				    now->listing->trouble);
		status_print_json(now, &figures, !options->watch);
	} else {
		/* On a terminal, overwrite the last report. */
		if (options->watch && isatty(STDOUT_FILENO))
			fputs("\033[H\033[J", stdout);
		print_text(now, &figures);
		if (options->watch)
			putchar('\n');
	}
	return fflush(stdout) == 0;
}

static bool
run_status(const struct verb_call *call, GError **error)
{
	const struct status_options *options = call->options;
	unsigned int seconds = options->watch ? options->watch : 1;
	struct view before = {0}, now = {0};
	bool good = view_read(&before, call->operands[0], error);

	do {
		for (unsigned int i = 0; good && i < seconds; i++)
			g_usleep(G_USEC_PER_SEC);
		good = good && view_read(&now, call->operands[0], error) &&
		       print_report(options, &before, &now);
		status_view_fini(&before);
		before = now;
		now = (struct view){0};
	} while (good && options->watch);
	status_view_fini(&before);
	return good;
}

const struct verb verb_status = {
	.name = "status",
	.help = "measure and show the activity of a device or an export",
	.synopsis = "[OPTION]... DEVICE|SOCKET|[SOCKET:]EXPORT",
	.summary = "Measures and shows the activity of a device, or of an export of nbdloopd.",
	.rows = status_option_rows,
	.least = 1,
	.most = 1,
	.options_size = sizeof(struct status_options),
	.failure_status = EXIT_UNKNOWN,
	.run = run_status,
};
