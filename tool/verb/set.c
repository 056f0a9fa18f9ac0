/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop set: changes a setting of an attached device's server.
 */
#include "tool/failure.h"
#include "tool/verb/our_device.h"
#include "tool/verb/verb.h"

#include "common/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define SYNOPSIS "--direct-io=on|off DEVICE"

struct set_options {
	char *direct_io; /* NULL: it stays as it is */
};

static const struct option_row set_option_rows[] = {
	{
		.name = "direct-io",
		.type = OPTION_STRING,
		.field = offsetof(struct set_options, direct_io),
		.alone = "on",
		.arg = "on|off",
		.help = "switch direct I/O to the image on or off",
		.manual = "Switch direct I/O to the image on or off while the device is in use.\n",
	},
	{.name = NULL},
};

/* The next server is to begin with the present setting. */
static void
tell_guard(const struct our_device *ours, bool on)
{
	g_autoptr(GError) why = NULL;

	if (!our_device_ask_guard(ours, on ? "direct-io on" : "direct-io off", &why))
		log_warning("the next server will not begin with this setting: %s", why->message);
}

/* *on: the setting that is in force afterwards. */
static bool
switch_direct_io(const struct our_device *ours, bool wanted, bool *on, GError **error)
{
	json_auto_t *changed = our_device_change_export(
		ours, wanted ? "set direct-io=on" : "set direct-io=off", error);
	json_auto_t *now = NULL;

	if (!changed)
		return false;
	tell_guard(ours, json_is_true(json_object_get(changed, "direct_io")));
	now = our_device_export(ours, error);
	if (now)
		*on = json_is_true(json_object_get(now, "direct_io"));
	return now != NULL;
}

static bool
set_direct_io(const struct our_device *ours, bool wanted, GError **error)
{
	bool on;

	if (!switch_direct_io(ours, wanted, &on, error))
		return false;
	/* Another server took over just before the guard knew, and began with the old setting; all
	 * later ones begin with the new one. */
	if (on != wanted && !switch_direct_io(ours, wanted, &on, error))
		return false;
	printf("/dev/%s: direct I/O %s\n", ours->device->name, on ? "on" : "off");
	return on == wanted || failure(error, EIO, "/dev/%s: direct I/O stays %s",
				       ours->device->name, on ? "on" : "off");
}

static bool
run_set(const struct verb_call *call, GError **error)
{
	const struct set_options *options = call->options;
	struct our_device OUR_DEVICE_CLEANUP ours = {.device = NULL};
	bool wanted = g_strcmp0(options->direct_io, "on") == 0;

	if (!options->direct_io)
		return failure(error, EINVAL, "a setting is missing: nbdloop set %s", SYNOPSIS);
	if (!wanted && strcmp(options->direct_io, "off") != 0)
		return failure(error, EINVAL, "--direct-io=%s: must be on or off",
			       options->direct_io);
	return our_device_find_served(&ours, call->operands[0], error) &&
	       set_direct_io(&ours, wanted, error);
}

const struct verb verb_set = {
	.name = "set",
	.help = "switch direct I/O on or off",
	.synopsis = SYNOPSIS,
	.summary =
		"Changes a setting of an attached device while it is in use, and prints the resulting value.",
	.rows = set_option_rows,
	.least = 1,
	.most = 1,
	.options_size = sizeof(struct set_options),
	.run = run_set,
};
