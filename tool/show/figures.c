/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/show/figures.h"

#include "tool/failure.h"
#include "tool/system_file.h"

#include "engine/counters.h"

#include <errno.h>

/* The unit of the file "stat", whatever the device's block size. */
#define SECTOR 512

const char *const figures_op_names[FIGURES_OPS] = {"read", "write", "flush", "discard", "zero"};

/* ---- the kernel's part */

/* Where the fields of an operation begin in "stat": count, merged, sectors, milliseconds; of a
 * flush: count, milliseconds (since Linux 5.5). */
enum {
	STAT_READ = 0,
	STAT_WRITE = 4,
	STAT_BUSY = 9,
	STAT_DISCARD = 11,
	STAT_FLUSH = 15,
	STAT_FIELDS = 17,
};

/* Reads the numbers in a file; missing ones are 0. */
static bool
read_numbers(const struct device *device, const char *file, uint64_t *numbers, size_t count,
	     GError **error)
{
	g_autofree char *path = system_file_path("/sys/block/%s/%s", device->name, file);
	g_autofree char *text = NULL;
	g_autoptr(GError) reason = NULL;
	char *at;

	if (!g_file_get_contents(path, &text, NULL, &reason))
		return failure(error, EIO, "%s", reason->message);
	at = text;
	for (size_t i = 0; i < count; i++)
		numbers[i] = g_ascii_strtoull(at, &at, 10);
	return true;
}

static void
take_fields(struct sample *sample, enum figures_op op, const uint64_t *fields)
{
	sample->count[op] = fields[0];
	sample->sectors[op] = fields[2];
	sample->milliseconds[op] = fields[3];
}

bool
sample_read(struct sample *sample, const struct device *device, GError **error)
{
	uint64_t stat[STAT_FIELDS];

	*sample = (struct sample){.time = g_get_monotonic_time()};
	if (!read_numbers(device, "stat", stat, STAT_FIELDS, error) ||
	    !read_numbers(device, "inflight", sample->in_flight, 2, error))
		return false;
	take_fields(sample, FIGURES_READ, stat + STAT_READ);
	take_fields(sample, FIGURES_WRITE, stat + STAT_WRITE);
	take_fields(sample, FIGURES_DISCARD, stat + STAT_DISCARD);
	sample->count[FIGURES_FLUSH] = stat[STAT_FLUSH];
	sample->milliseconds[FIGURES_FLUSH] = stat[STAT_FLUSH + 1];
	sample->busy = stat[STAT_BUSY];
	return true;
}

/* ---- the server's part */

/* Requests that clients got errors for; a server that doesn't count them tells of operations. */
static uint64_t
errors_of(json_t *image)
{
	json_t *answered = json_object_get(image, "answered"), *op;
	uint64_t errors = 0;
	const char *name;

	if (!answered)
		return (uint64_t)json_integer_value(
			json_object_get(json_object_get(image, "counters"), "errors"));
	json_object_foreach(answered, name, op)
	{
		errors += (uint64_t)json_integer_value(json_object_get(op, "errors"));
	}
	return errors;
}

static uint64_t
json_count(json_t *object, const char *member)
{
	json_int_t count = json_integer_value(json_object_get(object, member));

	return count > 0 ? (uint64_t)count : 0;
}

static uint64_t
export_count(json_t *export, enum counter counter)
{
	return json_count(json_object_get(export, "counters"), counter_rows[counter].name);
}

static void
sample_add_disk(struct sample *sample, json_t *image)
{
	static const enum counter operations[] = {COUNTER_READS, COUNTER_WRITES, COUNTER_FLUSHES,
						  COUNTER_DISCARDS, COUNTER_ZEROES};

	for (size_t i = 0; i < G_N_ELEMENTS(operations); i++)
		sample->disk_operations += export_count(image, operations[i]);
	sample->disk_bytes =
		export_count(image, COUNTER_READ_BYTES) + export_count(image, COUNTER_WRITE_BYTES);
}

void
sample_add_server(struct sample *sample, json_t *status, json_t *image)
{
	json_t *latency = json_object_get(image, "latency_us");

	if (!status || !image)
		return;
	sample->server = json_integer_value(json_object_get(status, "pid"));
	sample->requests = (uint64_t)json_integer_value(json_object_get(image, "requests"));
	sample->errors = errors_of(image);
	sample->held_now = json_count(image, "limited_now");
	sample->held = json_count(image, "limited");
	sample->held_us = json_count(image, "limited_us");
	sample_add_disk(sample, image);
	for (unsigned int op = 0; op < FIGURES_OPS; op++) {
		json_t *buckets = json_object_get(latency, figures_op_names[op]);

		for (guint i = 0; i < json_array_size(buckets) && i < FIGURES_BUCKETS; i++)
			sample->latency[op][i] =
				(uint64_t)json_integer_value(json_array_get(buckets, i));
	}
}

/* The operations on the image, of a server that doesn't count requests. */
static void
sample_take_operations(struct sample *sample, json_t *export)
{
	sample->count[FIGURES_READ] = export_count(export, COUNTER_READS);
	sample->count[FIGURES_WRITE] = export_count(export, COUNTER_WRITES);
	sample->count[FIGURES_FLUSH] = export_count(export, COUNTER_FLUSHES);
	sample->count[FIGURES_DISCARD] = export_count(export, COUNTER_DISCARDS);
	sample->sectors[FIGURES_READ] = export_count(export, COUNTER_READ_BYTES) / SECTOR;
	sample->sectors[FIGURES_WRITE] = export_count(export, COUNTER_WRITE_BYTES) / SECTOR;
}

void
sample_of_export(struct sample *sample, int64_t time, json_t *status, json_t *export)
{
	json_t *answered = json_object_get(export, "answered");

	*sample = (struct sample){.time = time};
	sample_add_server(sample, status, export);
	if (!answered) {
		sample_take_operations(sample, export);
		return;
	}
	/* Those of zeroes are known by their latencies. */
	for (unsigned int op = 0; op < FIGURES_ZERO; op++) {
		json_t *one = json_object_get(answered, figures_op_names[op]);

		sample->count[op] = json_count(one, "requests");
		sample->sectors[op] = json_count(one, "bytes") / SECTOR;
	}
}

/* ---- what happened between */

/* Counters of 32-bit machines, and of a device that was removed and made again, may decrease. */
static uint64_t
counter_growth(uint64_t before, uint64_t after)
{
	return after > before ? after - before : 0;
}

uint64_t
figures_percentile(const uint64_t buckets[FIGURES_BUCKETS], unsigned int percent)
{
	uint64_t total = 0, below = 0;

	for (unsigned int i = 0; i < FIGURES_BUCKETS; i++)
		total += buckets[i];
	for (unsigned int i = 0; total > 0 && i < FIGURES_BUCKETS; i++) {
		below += buckets[i];
		/* Multiplied, not divided, so that a few requests are not rounded to none. */
		if (below * 100 >= total * percent)
			return UINT64_C(1) << i;
	}
	return 0;
}

static void
compare_op(const struct sample *before, const struct sample *after, enum figures_op op,
	   struct figures *figures)
{
	struct op_figures *own = &figures->ops[op];
	uint64_t *latency = figures->latency[op];
	double count = (double)counter_growth(before->count[op], after->count[op]);
	double bytes = (double)counter_growth(before->sectors[op], after->sectors[op]) * SECTOR;
	double told = 0;

	for (unsigned int i = 0; before->server && i < FIGURES_BUCKETS; i++) {
		/* The counters of another server began at 0. */
		latency[i] =
			counter_growth(before->server == after->server ? before->latency[op][i] : 0,
				       after->latency[op][i]);
		told += (double)latency[i];
	}
	if (op == FIGURES_ZERO)
		count = told;
	own->iops = count / figures->seconds;
	own->bytes_per_second = bytes / figures->seconds;
	if (count > 0) {
		own->bytes = bytes / count;
		own->milliseconds =
			(double)counter_growth(before->milliseconds[op], after->milliseconds[op]) /
			count;
	}
	own->median = figures_percentile(latency, 50);
	own->p99 = figures_percentile(latency, 99);
	own->longest = figures_percentile(latency, 100);
}

/* What only the server knows besides latencies.  The counters of another one began at 0. */
static void
compare_server(const struct sample *before, const struct sample *after, struct figures *figures)
{
	static const struct sample none = {0};
	const struct sample *from = before->server == after->server ? before : &none;
	double held = (double)counter_growth(from->held, after->held);

	if (!before->server)
		return;
	figures->disk_iops = (double)counter_growth(from->disk_operations, after->disk_operations) /
			     figures->seconds;
	figures->disk_bytes_per_second =
		(double)counter_growth(from->disk_bytes, after->disk_bytes) / figures->seconds;
	figures->held_per_second = held / figures->seconds;
	if (held > 0)
		figures->held_milliseconds =
			(double)counter_growth(from->held_us, after->held_us) / 1000 / held;
}

void
figures_between(const struct sample *before, const struct sample *after, struct figures *figures)
{
	int64_t time = MAX(after->time - before->time, 1);
	uint64_t all[FIGURES_BUCKETS] = {0};

	*figures = (struct figures){.seconds = (double)time / G_USEC_PER_SEC};
	figures->busy = MIN(
		(double)counter_growth(before->busy, after->busy) / 1000 / figures->seconds, 1.0);
	for (unsigned int op = 0; op < FIGURES_OPS; op++) {
		compare_op(before, after, op, figures);
		for (unsigned int i = 0; i < FIGURES_BUCKETS; i++)
			all[i] += figures->latency[op][i];
	}
	compare_server(before, after, figures);
	figures->median = figures_percentile(all, 50);
	figures->p99 = figures_percentile(all, 99);
}

/* ---- JSON */

static json_t *
latency_value(uint64_t microseconds)
{
	return microseconds > 0 ? json_integer((json_int_t)microseconds) : json_null();
}

json_t *
figures_op_object(const struct figures *all, enum figures_op op)
{
	const struct op_figures *figures = &all->ops[op];
	const uint64_t *latency = all->latency[op];
	json_t *object = json_object();
	json_t *histogram = json_array();
	unsigned int count = FIGURES_BUCKETS;

	while (count > 0 && latency[count - 1] == 0)
		count--;
	for (unsigned int i = 0; i < count; i++)
		json_array_append_new(histogram, json_integer((json_int_t)latency[i]));
	json_object_set_new(object, "iops", json_real(figures->iops));
	json_object_set_new(object, "bytes-per-second", json_real(figures->bytes_per_second));
	json_object_set_new(object, "average-bytes", json_real(figures->bytes));
	json_object_set_new(object, "average-ms", json_real(figures->milliseconds));
	json_object_set_new(object, "p50-us", latency_value(figures->median));
	json_object_set_new(object, "p99-us", latency_value(figures->p99));
	json_object_set_new(object, "max-us", latency_value(figures->longest));
	json_object_set_new(object, "histogram", histogram);
	return object;
}

void
figures_put_server(json_t *object, const struct figures *figures, uint64_t held_now, bool known)
{
	json_t *disk = json_null(), *held = json_null();

	if (known) {
		disk = json_pack("{sf sf}", "iops", figures->disk_iops, "bytes-per-second",
				 figures->disk_bytes_per_second);
		held = json_pack("{sI sf sf}", "now", (json_int_t)held_now, "per-second",
				 figures->held_per_second, "average-ms",
				 figures->held_milliseconds);
	}
	json_object_set_new(object, "disk", disk);
	json_object_set_new(object, "held", held);
}
