/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop start and nbdloop stop: attach and detach devices of the table, named ones or all, for
 * an administrator and for systemd's units.  A device that is already in the wanted state is no
 * error.
 */
#include "tool/failure.h"
#include "tool/guard/guard_record.h"
#include "tool/show/listing.h"
#include "tool/system_file.h"
#include "tool/table/table.h"
#include "tool/verb/attach.h"
#include "tool/verb/detach.h"
#include "tool/verb/verb.h"

#include "common/log.h"

#include <errno.h>
#include <string.h>

struct start_options {
	unsigned int all;
};

static const struct option_row start_option_rows[] = {
	OPTION_SWITCH("all", 'a', offsetof(struct start_options, all),
		      "attach all devices of the table, except those with noauto"),
	{.name = NULL},
};

static const struct option_row stop_option_rows[] = {
	OPTION_SWITCH("all", 'a', offsetof(struct start_options, all),
		      "detach all devices of the table, including those with noauto"),
	{.name = NULL},
};

/* ---- what is attached; the driver need not be loaded */

/* Whether the device is attached to the image of its entry.  *what: the image or URI that it is
 * attached to instead (caller frees); NULL if its server doesn't report it. */
static bool
has_what_entry_has(const char *name, const struct table_entry *entry, char **what)
{
	struct device *device = device_read_attached(name, NULL);
	struct listing *listing;
	bool same;

	*what = NULL;
	if (!device)
		return false;
	listing = listing_new(device);
	same = listing_has_source(listing, entry->image);
	if (same && listing->image) {
		json_auto_t *offset = listing_member(listing, "offset");

		same = json_is_integer(offset) &&
		       (uint64_t)json_integer_value(offset) == entry->options.offset;
	}
	if (!same)
		*what = listing_source(listing);
	listing_free(listing);
	return same;
}

static bool
start_device(const char *name, const void *data, GError **error)
{
	const struct table *table = data;
	const struct table_entry *entry = table_find(table, name);
	struct device *DEVICE_CLEANUP attached = device_read_attached(name, NULL);
	g_autofree char *what = NULL;

	if (!entry) {
		/* They do not matter to a user who named a device with a good line. */
		table_log_errors(table);
		return failure(error, ENOENT, "/dev/%s has no line in the table /etc/nbdloop.tab%s",
			       name, table->errors->len > 0 ? ", or none that can be read" : "");
	}
	if (!attached) {
		g_autoptr(GError) why = NULL;

		if (attach_image(&entry->options, entry->image, name, &why))
			return true;
		log_error("%s", why->message);
		return failure(error, why->code, "/dev/%s is not attached; its line is %s:%u", name,
			       entry->file, entry->line);
	}
	return has_what_entry_has(name, entry, &what) ||
	       failure(error, EBUSY, "/dev/%s is attached already, to %s; in %s:%u it has %s", name,
		       what ? what : "an image that its server does not report now", entry->file,
		       entry->line, entry->image);
}

static bool
start_whole_table(const struct table *table)
{
	bool all = table_log_errors(table);

	for (guint i = 0; i < table->entries->len; i++) {
		const struct table_entry *entry = g_ptr_array_index(table->entries, i);

		if (entry->at_boot)
			all = verb_each_device((char *[]){entry->device, NULL}, start_device,
					       table) &&
			      all;
	}
	return all;
}

/*
 * systemd runs `stop' a moment after the device was detached by hand.  If something else was
 * attached to it meanwhile, that does not belong to the unit and must not be detached.
 */
static bool
is_of_another(const struct table *table, const struct device *device)
{
	const struct table_entry *entry = table_find(table, device->name);
	const pid_t guard = guard_record_keeper(device);
	g_autofree char *group = system_file_read("/proc/self/cgroup");
	g_autofree char *other =
		system_file_read("/proc/%d/cgroup", (int)(guard > 0 ? guard : device->pid));
	g_autofree char *what = NULL;

	if (!entry || !group || !other || !strstr(group, "/nbdloop@") || strcmp(group, other) == 0)
		return false;
	return !has_what_entry_has(device->name, entry, &what) && what;
}

static bool
stop_device(const char *name, const void *table, GError **error)
{
	struct device *DEVICE_CLEANUP device = device_read_attached(name, NULL);
	struct nbd_driver *NBD_DRIVER_CLEANUP driver = NULL;
	g_autoptr(GError) why = NULL;

	if (!device)
		return true;
	if (!detach_is_ours(device))
		return failure(error, EINVAL,
			       "/dev/%s was not attached by nbdloop, but by process %d", name,
			       (int)device->pid);
	if (is_of_another(table, device)) {
		log_warning("/dev/%s has been attached to something else meanwhile, and stays",
			    name);
		return true;
	}
	driver = nbd_driver_open(&why);
	/* ENXIO: it was detached in the meantime. */
	if ((driver && detach_device(driver, name, false, &why)) || failure_is(why, ENXIO))
		return true;
	return failure_pass(error, &why);
}

static bool
stop_all(const struct table *table)
{
	bool all = true;

	/* Of a line that can't be read, nothing was attached. */
	table_log_errors(table);
	for (guint i = table->entries->len; i > 0; i--) {
		const struct table_entry *entry = g_ptr_array_index(table->entries, i - 1);

		all = verb_each_device((char *[]){entry->device, NULL}, stop_device, table) && all;
	}
	return all;
}

static bool
start_check(const struct verb_call *call, GError **error)
{
	const struct start_options *options = call->options;

	return verb_takes_devices(call, options->all, " of the table", error);
}

static bool
run_on_devices(const struct verb_call *call,
	       bool (*run_one)(const char *name, const void *table, GError **error),
	       bool (*run_all)(const struct table *table))
{
	const struct start_options *options = call->options;
	struct table TABLE_CLEANUP table = {.entries = NULL};
	g_autofree char *path = table_path();

	table_read(&table, path);
	return options->all ? run_all(&table) : verb_each_device(call->operands, run_one, &table);
}

static bool
run_start(const struct verb_call *call, GError **error)
{
	(void)error;
	return run_on_devices(call, start_device, start_whole_table);
}

static bool
run_stop(const struct verb_call *call, GError **error)
{
	(void)error;
	return run_on_devices(call, stop_device, stop_all);
}

const struct verb verb_start = {
	.name = "start",
	.help = "attach a device as /etc/nbdloop.tab describes it",
	.synopsis = "DEVICE... | --all",
	.summary =
		"Attaches devices as the table /etc/nbdloop.tab describes them, unless they are attached already.",
	.rows = start_option_rows,
	.most = -1,
	.options_size = sizeof(struct start_options),
	.check = start_check,
	.run = run_start,
};

const struct verb verb_stop = {
	.name = "stop",
	.help = "detach a device of /etc/nbdloop.tab",
	.synopsis = "DEVICE... | --all",
	.summary = "Detaches devices of the table /etc/nbdloop.tab that are attached.",
	.rows = stop_option_rows,
	.most = -1,
	.options_size = sizeof(struct start_options),
	.check = start_check,
	.run = run_stop,
};
