/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop set: changes settings of an attached device's server.
 */
#include "tool/failure.h"
#include "tool/verb/our_device.h"
#include "tool/verb/verb.h"

#include "common/log.h"
#include "common/option_row.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define SYNOPSIS "[--direct-io=on|off] [--iops-limit=LIMIT] [--bandwidth-limit=LIMIT] DEVICE"

struct set_options {
	char *direct_io; /* NULL: it stays as it is; so do the others */
	char *iops_limit, *bandwidth_limit;
};

static const struct option_row set_option_rows[] = {
	{
		.name = "direct-io",
		.type = OPTION_STRING,
		.field = offsetof(struct set_options, direct_io),
		.alone = "on",
		.arg = "on|off",
		.help = "switch direct I/O to the image on or off",
	},
	OPTION_TEXT("iops-limit", 0, offsetof(struct set_options, iops_limit), "LIMIT",
		    "limit the device's operations per second; 0 means no limit"),
	OPTION_TEXT("bandwidth-limit", 0, offsetof(struct set_options, bandwidth_limit), "LIMIT",
		    "limit the device's bytes per second, such as 100M; 0 means no limit"),
	{.name = NULL},
};

/* ---- one setting */

struct setting {
	const char *name;  /* of the option, for server and guard */
	const char *value; /* wanted */
	const char *fact;  /* that it changes: a member of the server's status */
};

/* *now: the fact afterwards.  *same: the server's answer to the change told it, too.  Caller frees
 * *now. */
static bool
change_once(const struct our_device *ours, const struct setting *setting, json_t **now, bool *same,
	    GError **error)
{
	g_autofree char *request = g_strdup_printf("set %s=%s", setting->name, setting->value);
	json_auto_t *changed = our_device_change_export(ours, request, error), *later = NULL;
	g_autofree char *message = NULL;
	g_autoptr(GError) why = NULL;
	const char *value = setting->value;
	json_t *fact;

	if (!changed)
		return false;
	fact = json_object_get(changed, setting->fact);
	if (json_is_boolean(fact))
		value = json_is_true(fact) ? "on" : "off";
	/* The next server is to begin with the present setting. */
	message = g_strdup_printf("%s %s", setting->name, value);
	if (!our_device_ask_guard(ours, message, &why))
		log_warning("the next server will not begin with this setting: %s", why->message);
	later = our_device_export(ours, error);
	if (!later)
		return false;
	*now = json_incref(json_object_get(later, setting->fact));
	*same = json_equal(fact, *now);
	return true;
}

/* As above. */
static bool
setting_change(const struct our_device *ours, const struct setting *setting, json_t **now,
	       GError **error)
{
	bool same;

	if (!change_once(ours, setting, now, &same, error))
		return false;
	/* Another server took over just before the guard knew, and began with the old setting; all
	 * later ones begin with the new one. */
	if (same)
		return true;
	json_decref(*now);
	return change_once(ours, setting, now, &same, error);
}

static bool
set_direct_io(const struct our_device *ours, const char *wanted, GError **error)
{
	const struct setting setting = {"direct-io", wanted, "direct_io"};
	json_auto_t *now = NULL;
	const char *state;

	if (!setting_change(ours, &setting, &now, error))
		return false;
	state = json_is_true(now) ? "on" : "off";
	printf("/dev/%s: direct I/O %s\n", ours->device->name, state);
	return g_str_equal(state, wanted) ||
	       failure(error, EIO, "/dev/%s: direct I/O stays %s", ours->device->name, state);
}

/* The request is a line of words: the parts have commas between them. */
static bool
set_limit(const struct our_device *ours, const char *name, const char *wanted, GError **error)
{
	g_autofree char *value = g_strdelimit(g_strdup(wanted), " \t\n", ',');
	const struct setting setting = {name, value, "limits"};
	json_auto_t *now = NULL;

	if (!setting_change(ours, &setting, &now, error))
		return false;
	printf("/dev/%s: %s %s\n", ours->device->name, name, value);
	return true;
}

/* ---- the verb */

static bool
run_set(const struct verb_call *call, GError **error)
{
	const struct set_options *options = call->options;
	const char *direct_io = options->direct_io ? option_choice_name(options->direct_io) : NULL;
	struct our_device OUR_DEVICE_CLEANUP ours = {.device = NULL};

	if (!direct_io && !options->iops_limit && !options->bandwidth_limit)
		return failure(error, EINVAL, "a setting is missing: nbdloop set %s", SYNOPSIS);
	if (direct_io && strcmp(direct_io, "on") != 0 && strcmp(direct_io, "off") != 0)
		return failure(error, EINVAL, "--direct-io=%s: must be on or off", direct_io);
	if (!our_device_find_served(&ours, call->operands[0], error))
		return false;
	if (direct_io && !set_direct_io(&ours, direct_io, error))
		return false;
	if (options->iops_limit && !set_limit(&ours, "iops-limit", options->iops_limit, error))
		return false;
	return !options->bandwidth_limit ||
	       set_limit(&ours, "bandwidth-limit", options->bandwidth_limit, error);
}

const struct verb verb_set = {
	.name = "set",
	.help = "switch direct I/O on or off, or set limits",
	.synopsis = SYNOPSIS,
	.summary =
		"Changes settings of an attached device while it is in use, and prints the resulting values.",
	.rows = set_option_rows,
	.least = 1,
	.most = 1,
	.options_size = sizeof(struct set_options),
	.run = run_set,
};
