/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop set: changes settings of a device, or of an export of a running nbdloopd.
 */
#include "tool/failure.h"
#include "tool/verb/served_export.h"
#include "tool/verb/verb.h"

#include "common/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct set_options {
	struct export_settings settings;
};

static const struct option_row set_option_rows[] = {
	EXPORT_SETTING_ROWS(struct set_options, settings, ""),
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

static bool
set_limit(const struct our_device *ours, const char *name, const char *wanted, GError **error)
{
	g_autofree char *value = export_setting_word(wanted);
	const struct setting setting = {name, value, "limits"};
	json_auto_t *now = NULL;

	if (!setting_change(ours, &setting, &now, error))
		return false;
	printf("/dev/%s: %s %s\n", ours->device->name, name, value);
	return true;
}

/* A device's guard is to know its settings. */
static bool
set_device(const struct our_device *ours, const struct export_settings *settings, GError **error)
{
	const char *direct_io =
		settings->direct_io ? option_choice_name(settings->direct_io) : NULL;

	if (direct_io && !set_direct_io(ours, direct_io, error))
		return false;
	if (settings->iops && !set_limit(ours, "iops-limit", settings->iops, error))
		return false;
	return !settings->bandwidth ||
	       set_limit(ours, "bandwidth-limit", settings->bandwidth, error);
}

/* ---- the verb */

static bool
set_check(const struct verb_call *call, GError **error)
{
	const struct set_options *options = call->options;
	const char *other = asked_server_is_device(call->operands[0])
				    ? export_settings_not_of_devices(&options->settings)
				    : NULL;

	if (other)
		return failure(error, EINVAL, "--%s is for exports, and %s is a device", other,
			       call->operands[0]);
	return export_settings_check(&options->settings, error);
}

static bool
run_set(const struct verb_call *call, GError **error)
{
	const struct set_options *options = call->options;
	struct asked_server server;
	bool done = asked_server_find(&server, call->operands[0], error);

	if (done && server.socket)
		done = served_export_set(&server, &options->settings, error);
	else if (done)
		done = set_device(&server.ours, &options->settings, error);
	asked_server_fini(&server);
	return done;
}

const struct verb verb_set = {
	.name = "set",
	.help = "change limits, rules and direct I/O of a device or an export",
	.synopsis = "[OPTION]... DEVICE|SOCKET|[SOCKET:]EXPORT",
	.summary =
		"Changes settings of a device, or of an export of nbdloopd, while it is in use, and prints them.",
	.rows = set_option_rows,
	.least = 1,
	.most = 1,
	.options_size = sizeof(struct set_options),
	.check = set_check,
	.run = run_set,
};
