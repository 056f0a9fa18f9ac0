/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop start and nbdloop stop: the devices of the table, one by one or all of them, as an
 * administrator and systemd's units attach and detach them.  What is as it is wanted already is no
 * error.
 */
#include "tool/failure.h"
#include "tool/guard/guard_record.h"
#include "tool/server/connection.h"
#include "tool/show/listing.h"
#include "tool/table/table.h"
#include "tool/verb/attach.h"
#include "tool/verb/detach.h"
#include "tool/verb/verb.h"

#include "common/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct start_options {
	unsigned int all;
};

const struct option_row start_option_rows[] = {
	OPTION_SWITCH("all", 'a', offsetof(struct start_options, all),
		      "attach all devices of the table, except those with noauto",
		      "Attach all devices of the table except those with the option C<noauto>, in\n"
		      "the order of the table.\n"),
	{.name = NULL},
};

const struct option_row stop_option_rows[] = {
	OPTION_SWITCH("all", 'a', offsetof(struct start_options, all),
		      "detach all devices of the table, including those with noauto",
		      "Detach all devices of the table that are attached, including those with\n"
		      "the option C<noauto>, the last one first.\n"),
	{.name = NULL},
};

static const struct verb_usage start_usage = {
	.synopsis = "DEVICE... | --all",
	.summary =
		"Attaches devices as the table /etc/nbdloop.tab describes them, unless they are attached already.",
	.rows = start_option_rows,
	.most = -1,
};

static const struct verb_usage stop_usage = {
	.synopsis = "DEVICE... | --all",
	.summary = "Detaches devices of the table /etc/nbdloop.tab that are attached.",
	.rows = stop_option_rows,
	.most = -1,
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

/* Lines that can't be read.  They don't matter to who has named a device with another line. */
static void
log_table_errors(const struct table *table)
{
	for (guint i = 0; i < table->errors->len; i++)
		log_error("%s", (const char *)g_ptr_array_index(table->errors, i));
}

static bool
start(const struct table *table, const char *name)
{
	const struct table_entry *entry = table_find(table, name);
	struct device *DEVICE_CLEANUP attached = find_attached(name);
	g_autofree char *what = NULL;

	if (!entry) {
		log_table_errors(table);
		log_error("/dev/%s has no line in the table /etc/nbdloop.tab%s", name,
			  table->errors->len > 0 ? ", or none that can be read" : "");
		return false;
	}
	if (!attached) {
		if (attach_image(&entry->options, entry->image, name))
			return true;
		log_error("/dev/%s is not attached; it stands in %s:%u", name, entry->file,
			  entry->line);
		return false;
	}
	if (has_what_entry_has(name, entry, &what))
		return true;
	log_error("/dev/%s is attached already, to %s; in %s:%u it has %s", name,
		  what ? what : "what its server doesn't tell just now", entry->file, entry->line,
		  entry->image);
	return false;
}

static bool
start_all(const struct table *table)
{
	bool all = table->errors->len == 0;

	log_table_errors(table);
	for (guint i = 0; i < table->entries->len; i++) {
		const struct table_entry *entry = g_ptr_array_index(table->entries, i);

		if (entry->at_boot)
			all = start(table, entry->device) && all;
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
 * systemd runs `stop' a moment after somebody has detached the device.  If he has attached
 * something else to it meanwhile, that is not of the unit, and must not be detached.
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
stop(const struct table *table, const char *name)
{
	struct device *DEVICE_CLEANUP device = find_attached(name);
	struct nbd_driver *NBD_DRIVER_CLEANUP driver = NULL;
	g_autoptr(GError) error = NULL;

	if (!device)
		return true;
	if (!detach_is_ours(device)) {
		log_error("/dev/%s was not attached by nbdloop, but by process %d", name,
			  (int)device->pid);
		return false;
	}
	if (is_of_another(table, device)) {
		log_warning("/dev/%s has been attached to something else meanwhile, and stays",
			    name);
		return true;
	}
	driver = nbd_driver_open(&error);
	if (driver && detach_device(driver, name, false, &error))
		return true;
	/* Gone by itself. */
	if (failure_is(error, ENXIO))
		return true;
	log_error("%s", error->message);
	return false;
}

static bool
stop_all(const struct table *table)
{
	bool all = table->errors->len == 0;

	log_table_errors(table);
	for (guint i = table->entries->len; i > 0; i--) {
		const struct table_entry *entry = g_ptr_array_index(table->entries, i - 1);

		all = stop(table, entry->device) && all;
	}
	return all;
}

/* ---- the command lines */

static bool
each_named(const struct table *table, char **names,
	   bool (*run)(const struct table *table, const char *name))
{
	bool all = true;

	for (; *names; names++) {
		g_autoptr(GError) error = NULL;
		g_autofree char *name = device_name(*names, &error);

		if (!name)
			log_error("%s", error->message);
		all = name && run(table, name) && all;
	}
	return all;
}

static int
run_verb(const struct verb_usage *usage, int argc, char **argv,
	 bool (*run)(const struct table *table, const char *name),
	 bool (*run_all)(const struct table *table))
{
	struct table TABLE_CLEANUP table = {.entries = NULL};
	g_autofree char *path = table_path();
	struct start_options options;
	enum verb_parsed parsed;
	char **operands;
	int count;
	bool good;

	parsed = verb_parse(usage, &options, argc, argv, &operands, &count);
	if (parsed != VERB_PARSED)
		return verb_exit_status(parsed);
	if (options.all ? count > 0 : count == 0) {
		log_error(
			count == 0
				? "which device of the table?  Name it, or use --all"
				: "--all is for all devices of the table; leave out the names, or --all");
		return EXIT_FAILURE;
	}
	table_read(&table, path);
	good = options.all ? run_all(&table) : each_named(&table, operands, run);
	return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

int
verb_start(int argc, char **argv)
{
	return run_verb(&start_usage, argc, argv, start, start_all);
}

int
verb_stop(int argc, char **argv)
{
	return run_verb(&stop_usage, argc, argv, stop, stop_all);
}
