/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/top/row.h"

#include "tool/link/server_link.h"
#include "tool/show/export_columns.h"

#include <inttypes.h>
#include <string.h>

/* How long an answer may take before the line tells that it is missing. */
#define PATIENCE G_USEC_PER_SEC

const char *const row_order_names[ROW_ORDERS + 1] = {
	"name", "iops", "read-iops", "write-iops", "bandwidth", "read-bandwidth", "write-bandwidth",
	"ms",   "p99",  "disk-iops", "in-flight",  "held",      "connections",    NULL,
};

void
row_free(struct row *row)
{
	if (!row)
		return;
	g_free(row->name);
	g_free(row->socket);
	g_free(row->image);
	g_free(row->engine);
	g_free(row->tls);
	g_free(row->limits);
	g_free(row->trouble);
	g_free(row);
}

/* ---- facts of an export, in the status of its server */

static char *
member_text(json_t *object, const char *member)
{
	return g_strdup(json_string_value(json_object_get(object, member)));
}

static uint64_t
member_number(json_t *object, const char *member)
{
	json_int_t number = json_integer_value(json_object_get(object, member));

	return number > 0 ? (uint64_t)number : 0;
}

static const char *
export_name(json_t *export)
{
	return json_string_value(json_object_get(export, "name")) ?: "";
}

/* The exports of the answer before by their names, which it keeps.  Not looked for one by one, and
 * no hash table: a server of somebody else's, with as many exports as an answer has room for, must
 * not hold the screen up.  Caller frees (g_tree_unref). */
static GTree *
earlier_exports(const struct watched *source)
{
	json_t *status = source->before ? source->before->status : NULL, *export;
	GTree *earlier = g_tree_new((GCompareFunc)strcmp);
	size_t i;

	json_array_foreach(json_object_get(status, "exports"), i, export)
		g_tree_insert(earlier, (char *)export_name(export), export);
	return earlier;
}

/* The counters of a server that was restarted meanwhile began at 0.  `earlier`: the export in the
 * answer before, or NULL. */
static void
figures_of_export(const struct watched *source, json_t *export, json_t *earlier,
		  struct figures *figures)
{
	struct sample before, now;

	sample_of_export(&before, source->before->time, source->before->status, earlier);
	sample_of_export(&now, source->now->time, source->now->status, export);
	if (before.server != now.server)
		before = (struct sample){.time = before.time, .server = now.server};
	figures_between(&before, &now, figures);
}

static void
row_take_export(struct row *row, json_t *status, json_t *export)
{
	struct sample sample;

	sample_of_export(&sample, 0, status, export);
	row->told = true;
	row->pid = server_link_pid(status);
	row->engine = member_text(export, "engine");
	row->tls = member_text(status, "tls");
	row->limits = export_limits_text(json_object_get(export, "limits"));
	row->connections = member_number(export, "connections");
	row->errors = sample.errors;
	row->held = sample.held_now;
}

/* ---- one row */

static void
row_take_trouble(struct row *row, const struct watched *source)
{
	int64_t silence = source->asked ? g_get_monotonic_time() - source->asked : 0;
	const char *why = source->trouble;

	row->silent = !source->now || silence > PATIENCE ||
		      (why && !source->now->status && source->asked);
	if (!row->silent)
		row->trouble = g_strdup(why);
	else
		row->trouble =
			g_strdup_printf("no answer for %" PRId64 " s%s%s", silence / G_USEC_PER_SEC,
					why ? ": " : "", why ? why : "");
}

/* Of the requests of `kernel`, the server knows how long they took, how many were zeroes, and what
 * became of them. */
static void
merge_figures(struct figures *kernel, const struct figures *server)
{
	for (unsigned int op = 0; op < FIGURES_OPS; op++) {
		kernel->ops[op].median = server->ops[op].median;
		kernel->ops[op].p99 = server->ops[op].p99;
		kernel->ops[op].longest = server->ops[op].longest;
	}
	kernel->disk_iops = server->disk_iops;
	kernel->disk_bytes_per_second = server->disk_bytes_per_second;
	kernel->held_per_second = server->held_per_second;
	kernel->held_milliseconds = server->held_milliseconds;
	kernel->median = server->median;
	kernel->p99 = server->p99;
	memcpy(kernel->latency, server->latency, sizeof(kernel->latency));
	kernel->ops[FIGURES_ZERO].iops = server->ops[FIGURES_ZERO].iops;
}

static double
average_milliseconds(const struct figures *figures)
{
	double count = 0, sum = 0;

	for (unsigned int op = 0; op < FIGURES_ZERO; op++) {
		count += figures->ops[op].iops;
		sum += figures->ops[op].iops * figures->ops[op].milliseconds;
	}
	return count > 0 ? sum / count : 0;
}

static void
row_measure_device(struct row *row, const struct watched *source, json_t *export)
{
	const struct sample *kernel = &source->kernel_now;

	row->in_flight = kernel->in_flight[0] + kernel->in_flight[1];
	row->measured = source->kernel_before.time != 0;
	if (!row->measured)
		return;
	figures_between(&source->kernel_before, kernel, &row->figures);
	row->milliseconds = average_milliseconds(&row->figures);
	if (export && !row->silent && source->before && source->before->status) {
		g_autoptr(GTree) earlier = earlier_exports(source);
		struct figures server;

		figures_of_export(source, export, g_tree_lookup(earlier, export_name(export)),
				  &server);
		merge_figures(&row->figures, &server);
	}
}

static struct row *
row_of_device(const struct watched *source)
{
	struct row *row = g_new0(struct row, 1);
	const struct listing *listing = source->now ? source->now->listing : NULL;

	row->device = true;
	row->name = g_strconcat("/dev/", source->name, NULL);
	row_take_trouble(row, source);
	if (listing) {
		row->size = listing->device->size;
		row->image = g_strdup(source->now->image);
		if (listing->image && !row->silent)
			row_take_export(row, listing->status, listing->image);
		if (listing->tls) {
			g_free(row->tls);
			row->tls = g_strdup(listing->tls);
		}
	}
	row_measure_device(row, source, listing ? listing->image : NULL);
	return row;
}

static struct row *
row_of_server(const struct watched *source, json_t *export, GTree *earlier)
{
	struct row *row = g_new0(struct row, 1);
	json_t *status = source->now ? source->now->status : NULL;

	row->socket = g_strdup(source->name);
	row_take_trouble(row, source);
	row->name = status ? g_strdup_printf("%" PRId64 ":%s", (int64_t)server_link_pid(status),
					     export_name(export))
			   : g_strdup(source->name);
	if (!export)
		return row;
	row->image = member_text(export, "file");
	row->size = member_number(export, "size");
	if (row->silent)
		return row;
	row_take_export(row, status, export);
	row->in_flight = member_number(export, "requests");
	row->measured = source->before && source->before->status;
	if (row->measured)
		figures_of_export(source, export, g_tree_lookup(earlier, export_name(export)),
				  &row->figures);
	return row;
}

void
rows_add(GPtrArray *rows, const struct watched *source)
{
	json_t *exports = source->now && !source->device
				  ? json_object_get(source->now->status, "exports")
				  : NULL,
	       *export;
	g_autoptr(GTree) earlier = NULL;
	size_t i;

	if (source->device) {
		g_ptr_array_add(rows, row_of_device(source));
		return;
	}
	if (watched_is_gone(source) || watched_is_denied(source))
		return;
	earlier = earlier_exports(source);
	json_array_foreach(exports, i, export)
		g_ptr_array_add(rows, row_of_server(source, export, earlier));
	if (json_array_size(exports) == 0)
		g_ptr_array_add(rows, row_of_server(source, NULL, earlier));
}

/* ---- order */

double
row_figure(const struct row *row, enum row_order order)
{
	const struct op_figures *ops = row->figures.ops;
	double sum = 0;

	switch (order) {
	case ROW_IOPS:
		for (unsigned int op = 0; op < FIGURES_OPS; op++)
			sum += ops[op].iops;
		return sum;
	case ROW_READS: return ops[FIGURES_READ].iops;
	case ROW_WRITES: return ops[FIGURES_WRITE].iops;
	case ROW_BANDWIDTH:
		return ops[FIGURES_READ].bytes_per_second + ops[FIGURES_WRITE].bytes_per_second;
	case ROW_READ_BANDWIDTH: return ops[FIGURES_READ].bytes_per_second;
	case ROW_WRITE_BANDWIDTH: return ops[FIGURES_WRITE].bytes_per_second;
	case ROW_MILLISECONDS: return row->milliseconds;
	case ROW_P99: return (double)row->figures.p99;
	case ROW_DISK: return row->figures.disk_iops;
	case ROW_IN_FLIGHT: return (double)row->in_flight;
	case ROW_HELD: return (double)row->held;
	case ROW_CONNECTIONS: return (double)row->connections;
	case ROW_NAME:
	case ROW_ORDERS: break;
	}
	return 0;
}

struct comparison {
	enum row_order order;
	bool reverse;
};

static gint
row_compare(gconstpointer a, gconstpointer b, gpointer data)
{
	const struct row *one = *(const struct row *const *)a,
			 *other = *(const struct row *const *)b;
	const struct comparison *comparison = data;
	double first = row_figure(one, comparison->order),
	       second = row_figure(other, comparison->order);
	int result = first > second ? -1 : first < second ? 1 : 0;

	if (comparison->order == ROW_NAME)
		result = strverscmp(one->name, other->name);
	if (comparison->reverse)
		result = -result;
	/* Lines that are alike keep their places. */
	return result ? result : strverscmp(one->name, other->name);
}

void
rows_sort(GPtrArray *rows, enum row_order order, bool reverse)
{
	struct comparison comparison = {order, reverse};

	g_ptr_array_sort_with_data(rows, row_compare, &comparison);
}

bool
row_is_idle(const struct row *row)
{
	return row_figure(row, ROW_IOPS) == 0 && row->in_flight == 0 && row->held == 0 &&
	       !row->trouble;
}

/* ---- JSON */

static json_t *
text_or_null(const char *text)
{
	json_t *string = text ? json_string(text) : NULL;

	/* A path may hold any bytes. */
	return string ? string : json_null();
}

static json_t *
number_or_null(bool known, uint64_t number)
{
	return known ? json_integer((json_int_t)number) : json_null();
}

json_t *
row_object(const struct row *row)
{
	json_t *object = json_object(), *ops = row->measured ? json_object() : json_null();

	for (unsigned int op = 0; row->measured && op < FIGURES_OPS; op++)
		json_object_set_new(ops, figures_op_names[op],
				    figures_op_object(&row->figures, op));
	json_object_set_new(object, "name", text_or_null(row->name));
	json_object_set_new(object, "kind", json_string(row->device ? "device" : "export"));
	json_object_set_new(object, "image", text_or_null(row->image));
	json_object_set_new(object, "size", number_or_null(row->size > 0, row->size));
	json_object_set_new(object, "control", text_or_null(row->socket));
	json_object_set_new(object, "server-pid", number_or_null(row->pid > 0, (uint64_t)row->pid));
	json_object_set_new(object, "answers", json_boolean(!row->silent));
	json_object_set_new(object, "trouble", text_or_null(row->trouble));
	json_object_set_new(object, "engine", text_or_null(row->engine));
	json_object_set_new(object, "tls", text_or_null(row->tls));
	json_object_set_new(object, "limits", text_or_null(row->limits));
	json_object_set_new(object, "connections", number_or_null(row->told, row->connections));
	json_object_set_new(object, "in-flight",
			    number_or_null(row->told || row->device, row->in_flight));
	json_object_set_new(object, "errors", number_or_null(row->told, row->errors));
	json_object_set_new(object, "seconds",
			    row->measured ? json_real(row->figures.seconds) : json_null());
	json_object_set_new(object, "p50-us",
			    number_or_null(row->figures.median > 0, row->figures.median));
	json_object_set_new(object, "p99-us",
			    number_or_null(row->figures.p99 > 0, row->figures.p99));
	json_object_set_new(object, "requests", ops);
	figures_put_server(object, &row->figures, row->held, row->measured && row->told);
	return object;
}
