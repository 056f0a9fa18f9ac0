/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop clone: makes a layer, a writable disk on a base image; or seals one, to be a base.
 */
#include "tool/failure.h"
#include "tool/verb/verb.h"

#include "engine/layer/layer_create.h"

#include "common/cleanup.h"

#include <errno.h>
#include <string.h>

struct clone_options {
	uint64_t size, granule; /* bytes; 0: those of the base */
	unsigned int seal;
};

static const char *const granules[] = {"4096", "8192", "16384", "32768", "65536", NULL};

static const struct option_row clone_option_rows[] = {
	{
		.name = "size",
		.letter = 's',
		.type = OPTION_SIZE,
		.field = offsetof(struct clone_options, size),
		.arg = "SIZE",
		.help = "size of the new disk (default: that of the base)",
	},
	{
		.name = "granule",
		.type = OPTION_SIZE,
		.field = offsetof(struct clone_options, granule),
		.choices = granules,
		.arg = "4096|8192|16384|32768|65536",
		.help = "unit of what is kept in the layer (default: 4096, or as a base that is a "
			"layer)",
	},
	{
		.name = "seal",
		OPTION_OFF_ON,
		.field = offsetof(struct clone_options, seal),
		.initial = "off",
		.alone = "on",
		.help = "end all writing to LAYER, so that other layers can stand on it",
	},
	{.name = NULL},
};

static bool
run_clone(const struct verb_call *call, GError **error)
{
	const struct clone_options *options = call->options;
	char *CLEANUP_FREE why = NULL;
	int r;

	if (options->seal && call->count != 1)
		return failure(error, EINVAL, "with --seal, only the layer is named");
	if (!options->seal && call->count != 2)
		return failure(error, EINVAL,
			       "a base and a new layer are needed: nbdloop clone BASE LAYER");
	r = options->seal ? layer_seal(call->operands[0], &why)
			  : layer_create(call->operands[1], call->operands[0], options->size,
					 options->granule, &why);
	return r == 0 || failure(error, -r, "%s", why ? why : strerror(-r));
}

const struct verb verb_clone = {
	.name = "clone",
	.help = "make a writable disk on a base image",
	.synopsis = "[OPTION]... BASE LAYER | --seal LAYER",
	.summary =
		"Makes the file LAYER, a writable disk that begins as BASE and holds what differs "
		"from it.",
	.rows = clone_option_rows,
	.least = 1,
	.most = 2,
	.options_size = sizeof(struct clone_options),
	.run = run_clone,
};
