/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop adopt: another guard for a device whose guard was killed.
 */
#include "tool/failure.h"
#include "tool/guard.h"
#include "tool/our_device.h"
#include "tool/verb.h"

#include "common/log.h"

#include <stdlib.h>

static const struct option_row rows[] = {{.name = NULL}};

static const struct verb_usage usage = {
	.synopsis = "DEVICE",
	.summary = "Starts a new guard and a new server for a device whose guard was killed, while it is in use.",
	.rows = rows,
	.least = 1,
	.most = 1,
};

int
verb_adopt(int argc, char **argv)
{
	struct our_device OUR_DEVICE_CLEANUP ours = {.device = NULL};
	g_autoptr(GError) error = NULL;
	enum verb_parsed parsed;
	char **operands;
	int count;

	parsed = verb_parse(&usage, NULL, argc, argv, &operands, &count);
	if (parsed != VERB_PARSED)
		return verb_exit_status(parsed);
	if (our_device_find_served(&ours, operands[0], &error) && guard_adopt(ours.device->name, &error))
		return EXIT_SUCCESS;
	log_error("%s", error->message);
	return EXIT_FAILURE;
}
