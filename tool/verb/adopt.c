/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop adopt: another guard for a device whose guard was killed.
 */
#include "tool/guard/guard.h"
#include "tool/verb/our_device.h"
#include "tool/verb/verb.h"

static bool
run_adopt(const struct verb_call *call, GError **error)
{
	struct our_device OUR_DEVICE_CLEANUP ours = {.device = NULL};

	return our_device_find(&ours, call->operands[0], error) &&
	       guard_adopt(ours.device->name, error);
}

const struct verb verb_adopt = {
	.name = "adopt",
	.help = "start a new guard for a device whose guard was killed",
	.synopsis = "DEVICE",
	.summary =
		"Starts a new guard for a device in use whose guard was killed. For an image, it also starts a new server.",
	.least = 1,
	.most = 1,
	.run = run_adopt,
};
