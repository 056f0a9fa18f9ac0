/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/attach/attach_kind.h"

#include "tool/failure.h"
#include "tool/link/nbd_uri.h"

#include "common/cleanup.h"
#include "engine/backing/image_kinds.h"

#include <errno.h>
#include <string.h>

/* The value of an option, or NULL if it was not given.  Caller frees. */
static char *
attach_kind_value(const struct option_row *row, const struct attach_options *options)
{
	char *value = option_value_text(row, options);

	if (value && strcmp(value, row->initial ? row->initial : "") != 0)
		return value;
	free(value);
	return NULL;
}

bool
attach_kind_check(const struct attach_options *options, const char *place, GError **error)
{
	const struct image_kind *kind = image_kind_of(place);

	for (const struct option_row *row = attach_option_rows; row->name; row++) {
		const struct image_kind *only = image_kind_of_option(row->name);
		char *CLEANUP_FREE value = attach_kind_value(row, options);

		if (only && only != kind && value)
			return failure(error, EINVAL, "--%s is for %s, and %s is %s", row->name,
				       only->all, place, nbd_uri_is(place) ? "a URI" : kind->one);
	}
	if (options->swap && kind->library)
		return failure(error, EINVAL,
			       "--swap is not possible with %s: %s takes memory for each request, "
			       "and the network does, so that swapping out could wait for memory "
			       "that only swapping out can free",
			       place, kind->library);
	return !options->nooverlap || !kind->lock ||
	       failure(error, EINVAL,
		       "--nooverlap is not possible with %s: devices of other machines may have "
		       "the image, too; its exclusive lock admits one writer at a time",
		       place);
}

void
attach_kind_add(const struct attach_options *options, const char *place, GPtrArray *words)
{
	const struct image_kind *kind = image_kind_of(place);

	for (const struct option_row *row = attach_option_rows; row->name; row++) {
		char *CLEANUP_FREE given = attach_kind_value(row, options);
		g_autofree char *absolute = NULL;
		const char *value = given;

		if (image_kind_of_option(row->name) != kind)
			continue;
		if (!value && g_strcmp0(row->name, kind->option_from[0]) == 0)
			value = g_getenv(kind->option_from[1]);
		if (value && option_is_path(row))
			value = absolute = g_canonicalize_filename(value, NULL);
		if (value)
			g_ptr_array_add(words, g_strdup_printf("--%s=%s", row->name, value));
	}
}
