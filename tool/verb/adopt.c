/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop adopt: another guard for a device whose guard was killed.
 */
#include "tool/guard/guard.h"
#include "tool/verb/our_device.h"

static const struct verb_usage usage = {
	.synopsis = "DEVICE",
	.summary =
		"Starts a new guard, and for an image a new server, for a device whose guard was killed, while it is in use.",
	.rows = no_option_rows,
	.least = 1,
	.most = 1,
};

static bool
adopt(const struct our_device *ours, char **operands, GError **error)
{
	(void)operands;
	return guard_adopt(ours->device->name, error);
}

int
verb_adopt(int argc, char **argv)
{
	return our_device_verb(&usage, argc, argv, our_device_find, adopt);
}
