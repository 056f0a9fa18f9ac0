/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop start and nbdloop stop: attach and detach the devices of the table, one by one or all of
 * them, for an administrator and for systemd's units.  A device that is in the wanted state already
 * is no error.
 */
#include "tool/failure.h"
#include "tool/guard/guard_record.h"
#include "tool/show/listing.h"
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
		      "attach all devices of the table, except those with noauto",
		      "Attach all devices of the table except those with the option C<noauto>, in\n"
		      "the order of the table.\n"),
	{.name = NULL},
};

static const struct option_row stop_option_rows[] = {
	OPTION_SWITCH("all", 'a', offsetof(struct start_options, all),
		      "detach all devices of the table, including those with noauto",
		      "Detach all devices of the table that are attached, including those with\n"
		      "the option C<noauto>, the last one first.\n"),
	{.name = NULL},
};

/* ---- what is attached */

/* The device, if anything is attached to it; the driver needn't even be loaded. */
static struct device *
find_attached(const char *name)
{
	struct device *DEVICE_CLEANUP device = device_read("/sys", name, NULL);

	return device && device->pid != 0 ? g_steal_pointer(&device) : NULL;
}

/* Whether its data is what the table has for it.  *what: what it is instead (caller frees); NULL if
 * its server doesn't tell. */
static bool
has_what_entry_has(const char *name, const struct table_entry *entry, char **what)
{
	struct device *device = find_attached(name);
	struct listing *listing;
	bool same;

	*what = NULL;
	if (!device)
		return false;
	listing = listing_new(device, "/proc");
	same = listing_has_source(listing, entry->image);
	if (same && listing->image) {
		g_autoptr(JsonNode) offset = listing_member(listing, "offset");

		same = JSON_NODE_HOLDS_VALUE(offset) &&
		       (uint64_t)json_node_get_int(offset) == entry->options.offset;
	}
	if (!same)
		*what = listing_source(listing);
	listing_free(listing);
	return same;
}

/* ---- start */

/* Logs the lines that cannot be read.  They do not matter to a user who named a device with a
 * good line. */
static void
log_table_errors(const struct table *table)
{
	for (guint i = 0; i < table->errors->len; i++)
		log_error("%s", (const char *)g_ptr_array_index(table->errors, i));
}

static bool
start(const char *name, const void *data, GError **error)
{
	const struct table *table = data;
	const struct table_entry *entry = table_find(table, name);
	struct device *DEVICE_CLEANUP attached = find_attached(name);
	g_autofree char *what = NULL;

	if (!entry) {
		log_table_errors(table);
		return failure(error, ENOENT, "/dev/%s has no line in the table /etc/nbdloop.tab%s",
			       name, table->errors->len > 0 ? ", or none that can be read" : "");
	}
	if (!attached) {
		g_autoptr(GError) why = NULL;

		if (attach_image(&entry->options, entry->image, name, &why))
			return true;
		log_error("%s", why->message);
		return failure(error, why->code, "/dev/%s is not attached; it stands in %s:%u",
			       name, entry->file, entry->line);
	}
	return has_what_entry_has(name, entry, &what) ||
	       failure(error, EBUSY, "/dev/%s is attached already, to %s; in %s:%u it has %s", name,
		       what ? what : "what its server doesn't tell just now", entry->file,
		       entry->line, entry->image);
}

static bool
start_all(const struct table *table)
{
	bool all = table->errors->len == 0;

	log_table_errors(table);
	for (guint i = 0; i < table->entries->len; i++) {
		const struct table_entry *entry = g_ptr_array_index(table->entries, i);

		if (entry->at_boot)
			all = verb_each_device((char *[]){entry->device, NULL}, start, table) &&
			      all;
	}
	return all;
}

/* ---- stop */

/* The control group of a process; NULL: it isn't there. */
static char *
control_group(pid_t pid)
{
	g_autofree char *path =
		pid ? g_strdup_printf("/proc/%d/cgroup", (int)pid) : g_strdup("/proc/self/cgroup");
	char *text = NULL;

	return g_file_get_contents(path, &text, NULL, NULL) ? text : NULL;
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
	g_autofree char *group = control_group(0),
			*other = control_group(guard > 0 ? guard : device->pid);
	g_autofree char *what = NULL;

	if (!entry || !group || !other || !strstr(group, "/nbdloop@") || strcmp(group, other) == 0)
		return false;
	return !has_what_entry_has(device->name, entry, &what) && what;
}

static bool
stop(const char *name, const void *table, GError **error)
{
	struct device *DEVICE_CLEANUP device = find_attached(name);
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
	/* ENXIO: gone by itself. */
	if ((driver && detach_device(driver, name, false, &why)) || failure_is(why, ENXIO))
		return true;
	g_propagate_error(error, g_steal_pointer(&why));
	return false;
}

static bool
stop_all(const struct table *table)
{
	bool all = table->errors->len == 0;

	log_table_errors(table);
	for (guint i = table->entries->len; i > 0; i--) {
		const struct table_entry *entry = g_ptr_array_index(table->entries, i - 1);

		all = verb_each_device((char *[]){entry->device, NULL}, stop, table) && all;
	}
	return all;
}

/* ---- the command lines */

static bool
run(const struct verb_call *call,
    bool (*run_one)(const char *name, const void *table, GError **error),
    bool (*run_all)(const struct table *table), GError **error)
{
	const struct start_options *options = call->options;
	struct table TABLE_CLEANUP table = {.entries = NULL};
	g_autofree char *path = table_path();

	if (!verb_takes_devices(call, options->all, " of the table", error))
		return false;
	table_read(&table, path);
	return options->all ? run_all(&table) : verb_each_device(call->operands, run_one, &table);
}

static bool
run_start(const struct verb_call *call, GError **error)
{
	return run(call, start, start_all, error);
}

static bool
run_stop(const struct verb_call *call, GError **error)
{
	return run(call, stop, stop_all, error);
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
	.run = run_stop,
};
