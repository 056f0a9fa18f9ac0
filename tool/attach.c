/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop attach: the command line, and --nooverlap.
 */
#include "tool/attach.h"

#include "tool/device.h"
#include "tool/failure.h"
#include "tool/image_file.h"
#include "tool/nbd_driver.h"
#include "tool/overlap.h"
#include "tool/verb.h"

#include "common/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct verb_usage usage = {
	.synopsis = "[OPTION]... IMAGE|URI [DEVICE]",
	.summary = "Makes a block device /dev/nbdN of an image file, a block device, or the export of an NBD server.",
	.rows = attach_option_rows,
	.least = 1,
	.most = 2,
};

/* Prints what is asked for: a name that the user doesn't know yet, or --show. */
static void
show(const struct attach_options *options, const char *device, const char *name)
{
	if (!device || options->show)
		printf("/dev/%s\n", name);
}

static bool
use_attached(const struct attach_options *options, const char *image, const char *place, char **name)
{
	g_autoptr(GError) error = NULL;

	*name = NULL;
	if (!options->nooverlap || overlap_find(place, options->offset, options->sizelimit, options->read_only, name, &error))
		return true;
	log_error("%s: %s", image, error->message);
	return false;
}

static bool
attach(struct guard_plan *plan, const struct attach_options *options, const char *image, const char *device)
{
	g_autofree char *name = NULL;

	if (!use_attached(options, image, plan->source.place, &name))
		return false;
	if (name && device && plan->attachment.index != (int)g_ascii_strtoull(name + strlen("nbd"), NULL, 10)) {
		log_error("%s: it is attached to /dev/%s already; name that, or no device", image, name);
		return false;
	}
	if (!name && !guard_start(plan, &name))
		return false;
	show(options, device, name);
	return true;
}

static bool
make_plan(const struct attach_options *options, const char *image, const char *device, struct guard_plan *plan, GError **error)
{
	g_autofree char *name = device ? device_name(device, error) : NULL;
	bool remote = connection_is_uri(image);
	char *place;

	if (device && !name)
		return false;
	if (device && options->find)
		return failure(error, EINVAL, "--find is for when no device is named; leave out one of both");
	place = remote ? g_strdup(image) : image_file_find(image, error);
	if (!place)
		return false;
	if (!attach_options_plan(options, place, remote, plan, error))
		return false;
	plan->attachment.index = name ? (int)g_ascii_strtoull(name + strlen("nbd"), NULL, 10) : NBD_DRIVER_ANY;
	return true;
}

bool
attach_image(const struct attach_options *options, const char *image, const char *device)
{
	struct guard_plan plan = {.source.place = NULL};
	g_autoptr(GError) error = NULL;
	bool attached = false;

	if (make_plan(options, image, device, &plan, &error))
		attached = attach(&plan, options, image, device);
	else
		log_error("%s", error->message);
	attach_options_plan_fini(&plan);
	return attached;
}

int
verb_attach(int argc, char **argv)
{
	struct attach_options options;
	enum verb_parsed parsed;
	char **operands;
	bool attached;
	int count;

	parsed = verb_parse(&usage, &options, argc, argv, &operands, &count);
	if (parsed != VERB_PARSED)
		return verb_exit_status(parsed);
	attached = attach_image(&options, operands[0], count > 1 ? operands[1] : NULL);
	options_free(attach_option_rows, &options);
	return attached ? EXIT_SUCCESS : EXIT_FAILURE;
}
