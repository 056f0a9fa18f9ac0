/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop attach: the command line, and --nooverlap.
 */
#include "tool/verb/attach.h"

#include "tool/device/device.h"
#include "tool/device/device_owner.h"
#include "tool/device/image_file.h"
#include "tool/device/nbd_driver.h"
#include "tool/failure.h"
#include "tool/guard/guard.h"
#include "tool/guard/guard_files.h"
#include "tool/server/connection.h"
#include "tool/verb/attach_turn.h"
#include "tool/verb/overlap.h"
#include "tool/verb/verb.h"

#include "common/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
	SMALLEST_BLOCK = 512, /* bytes, of a device; what the server wants may be more */
};

static const struct verb_usage usage = {
	.synopsis = "[OPTION]... IMAGE|URI [DEVICE]",
	.summary =
		"Makes a block device /dev/nbdN of an image file, a block device, or the export of an NBD server.",
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
use_attached(const struct attach_options *options, const char *image, const char *place,
	     char **name)
{
	g_autoptr(GError) error = NULL;

	*name = NULL;
	if (!options->nooverlap || overlap_find(place, options, name, &error))
		return true;
	log_error("%s: %s", image, error->message);
	return false;
}

/* Who uses the image is a server's process; the device is what the user knows. */
static void
log_failure(const struct guard_plan *plan, const struct attach_options *options, const char *image,
	    const GError *failed)
{
	g_autoptr(GError) why = NULL;

	if (failure_is(failed, ETXTBSY) && !overlap_explain(plan->source.place, options, &why))
		log_error("%s: %s", image, why->message);
	else
		log_error("%s", failed->message);
}

static bool
attach(struct guard_plan *plan, const struct attach_options *options, const char *image,
       const char *device)
{
	g_autoptr(GError) error = NULL;
	g_autofree char *name = NULL;

	if (!use_attached(options, image, plan->source.place, &name))
		return false;
	if (name && device &&
	    plan->attachment.index != (int)g_ascii_strtoull(name + strlen("nbd"), NULL, 10)) {
		log_error("%s: it is attached to /dev/%s already; name that, or no device", image,
			  name);
		return false;
	}
	/* Before the image: another one is found sooner than another device. */
	if (!name &&
	    ((device && !device_owner_none(device, &error)) || !guard_start(plan, &name, &error))) {
		log_failure(plan, options, image, error);
		return false;
	}
	show(options, device, name);
	return true;
}

/* The server would warn about it, and then there would be no device. */
static bool
check_size(const struct attach_options *options, const char *place, GError **error)
{
	const uint64_t block = options->sector_size ? options->sector_size : SMALLEST_BLOCK,
		       offset = options->offset;
	uint64_t size;
	struct stat st;

	if (stat(place, &st) < 0)
		return failure(error, errno, "%s: %s", place, g_strerror(errno));
	size = image_file_size(place, &st);
	if (options->sizelimit > 0 && options->sizelimit < block)
		return failure(error, EINVAL,
			       "--sizelimit=%" PRIu64
			       ": a device has at least one block, of %" PRIu64 " bytes",
			       options->sizelimit, block);
	if (size == 0)
		return failure(error, EINVAL,
			       "%s is empty, and a device has at least one block, of %" PRIu64
			       " bytes: make it larger "
			       "(truncate -s)",
			       place, block);
	if (size < block)
		return failure(error, EINVAL,
			       "%s has %" PRIu64
			       " bytes, and a device at least one block, of %" PRIu64,
			       place, size, block);
	return offset <= size - block ||
	       failure(error, EINVAL,
		       "--offset=%" PRIu64 ": %s has %" PRIu64
		       " bytes, and behind the offset there is no block of %" PRIu64,
		       offset, place, size, block);
}

/* Of several with --nooverlap at once, one attaches it, and the others find it attached. */
static bool
attach_in_turn(struct guard_plan *plan, const struct attach_options *options, const char *image,
	       const char *device)
{
	struct attach_turn turn = {.fd = -1};
	struct stat st;
	bool attached;

	if (!plan->source.remote && stat(plan->source.place, &st) == 0)
		attach_turn_take(&turn, GUARD_DIRECTORY, &st, options->nooverlap);
	attached = attach(plan, options, image, device);
	attach_turn_end(&turn);
	return attached;
}

static bool
make_plan(const struct attach_options *options, const char *image, const char *device,
	  struct guard_plan *plan, GError **error)
{
	g_autofree char *name = device ? device_name(device, error) : NULL;
	bool remote = connection_is_uri(image);
	char *place;

	if (device && !name)
		return false;
	if (device && options->find)
		return failure(error, EINVAL,
			       "--find is for when no device is named; leave out one of both");
	place = remote ? g_strdup(image) : image_file_find(image, error);
	if (!place)
		return false;
	if (!remote && !check_size(options, place, error)) {
		g_free(place);
		return false;
	}
	if (!attach_options_plan(options, place, remote, plan, error))
		return false;
	plan->attachment.index =
		name ? (int)g_ascii_strtoull(name + strlen("nbd"), NULL, 10) : NBD_DRIVER_ANY;
	return true;
}

bool
attach_image(const struct attach_options *options, const char *image, const char *device)
{
	struct guard_plan plan = {.source.place = NULL};
	g_autoptr(GError) error = NULL;
	bool attached = false;

	if (make_plan(options, image, device, &plan, &error))
		attached = attach_in_turn(&plan, options, image, device);
	else
		log_error("%s", error->message);
	guard_plan_fini(&plan);
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
