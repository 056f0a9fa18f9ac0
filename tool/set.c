/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop set: changes of an attached device's server.
 */
#include "tool/failure.h"
#include "tool/our_device.h"
#include "tool/verb.h"

#include "common/log.h"

#include <errno.h>
#include <stdio.h>

enum {
	NOT_GIVEN = 2, /* of choices */
};

struct set_options {
	unsigned int direct_io;
};

/* The last is nobody's to write: it can't be told from what is not given. */
static const char *const choices[] = {"off", "on", "unchanged", NULL};

const struct option_row set_option_rows[] = {
	{
		.name = "direct-io",
		.type = OPTION_CHOICE,
		.field = offsetof(struct set_options, direct_io),
		.initial = "unchanged",
		.choices = choices,
		.alone = "on",
		.arg = "on|off",
		.help = "bypass the page cache that this machine has for the image, or use it",
		.manual = "Switch direct I/O to the image on or off, while the device is used.\n",
	},
	{.name = NULL},
};

static const struct verb_usage usage = {
	.synopsis = "--direct-io=on|off DEVICE",
	.summary = "Changes an attached device, while it is used, and prints what is in force then.",
	.rows = set_option_rows,
	.least = 1,
	.most = 1,
};

/* So that the next server begins as this one is now. */
static void
tell_guard(const struct our_device *ours, bool on)
{
	g_autoptr(GError) why = NULL;

	if (!our_device_ask_guard(ours, on ? "direct-io on" : "direct-io off", &why))
		log_warning("the next server won't know it: %s", why->message);
}

/* *on is what is in force then. */
static bool
switch_direct_io(const struct our_device *ours, bool wanted, bool *on, GError **error)
{
	g_autoptr(JsonObject) changed = our_device_change_export(ours, wanted ? "set direct-io=on" : "set direct-io=off", error);
	g_autoptr(JsonObject) now = NULL;

	if (!changed)
		return false;
	tell_guard(ours, json_object_get_boolean_member(changed, "direct_io"));
	now = our_device_export(ours, error);
	if (now)
		*on = json_object_get_boolean_member(now, "direct_io");
	return now != NULL;
}

static bool
set_direct_io(const struct our_device *ours, bool wanted, GError **error)
{
	bool on;

	if (!switch_direct_io(ours, wanted, &on, error))
		return false;
	/* Another server took over just before the guard knew, and began as the one before; all later ones begin as wanted. */
	if (on != wanted && !switch_direct_io(ours, wanted, &on, error))
		return false;
	printf("/dev/%s: direct I/O %s\n", ours->device->name, on ? "on" : "off");
	return on == wanted || failure(error, EIO, "/dev/%s: direct I/O is %s all the same", ours->device->name, on ? "on" : "off");
}

int
verb_set(int argc, char **argv)
{
	struct our_device OUR_DEVICE_CLEANUP ours = {.device = NULL};
	g_autoptr(GError) error = NULL;
	struct set_options options;
	enum verb_parsed parsed;
	char **operands;
	int count;

	parsed = verb_parse(&usage, &options, argc, argv, &operands, &count);
	if (parsed != VERB_PARSED)
		return verb_exit_status(parsed);
	if (options.direct_io == NOT_GIVEN)
		failure(&error, EINVAL, "what is to be set?  nbdloop set %s", usage.synopsis);
	else if (our_device_find_served(&ours, operands[0], &error))
		set_direct_io(&ours, options.direct_io, &error);
	if (error)
		log_error("%s", error->message);
	return error ? EXIT_FAILURE : EXIT_SUCCESS;
}
