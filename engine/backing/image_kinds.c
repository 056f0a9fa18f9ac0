/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/image_kinds.h"

#include "engine/backing/ceph/rbd_name.h"
#include "engine/backing/file/file.h"
#include "engine/backing/http/http_name.h"

#include "common/cleanup.h"
#include "common/error.h"

#include <errno.h>
#include <string.h>

/* The one without a prefix is the last one. */
const struct image_kind *const image_kinds[] = {&image_kind_ceph, &image_kind_http,
						&image_kind_file, NULL};

static bool
image_kind_has(const struct image_kind *kind, const char *image)
{
	for (unsigned int i = 0; i < sizeof(kind->prefixes) / sizeof(kind->prefixes[0]); i++) {
		const char *prefix = kind->prefixes[i];

		if (prefix && strncmp(image, prefix, strlen(prefix)) == 0)
			return true;
	}
	return !kind->prefixes[0];
}

const struct image_kind *
image_kind_of(const char *image)
{
	const struct image_kind *const *kind = image_kinds;

	while (!image_kind_has(*kind, image))
		kind++;
	return *kind;
}

bool
image_kind_is_path(const char *image)
{
	return image_kind_of(image) == &image_kind_file;
}

const struct image_kind *
image_kind_of_option(const char *name)
{
	for (const struct image_kind *const *kind = image_kinds; *kind; kind++) {
		const char *const *option = (*kind)->options;

		while (option && *option && strcmp(*option, name) != 0)
			option++;
		if (option && *option)
			return *kind;
	}
	return NULL;
}

const char *
image_kind_option(const struct image_kind *kind, const struct image_config *config,
		  const struct image_config *others)
{
	for (const char *const *option = kind->options; option && *option; option++) {
		const struct option_row *row = option_find(image_option_rows, *option);
		char *CLEANUP_FREE value = option_value_text(row, config);
		char *CLEANUP_FREE other = others ? option_value_text(row, others)
						  : strdup(row->initial ? row->initial : "");

		if (value && other && strcmp(value, other) != 0)
			return *option;
	}
	return NULL;
}

int
image_kind_check(const char *image, const struct image_config *config,
		 const struct image_config *defaults, char **error)
{
	const struct image_kind *own = image_kind_of(image);

	for (const struct image_kind *const *kind = image_kinds; *kind; kind++) {
		const char *option =
			*kind == own ? NULL : image_kind_option(*kind, config, defaults);

		if (option)
			return error_set(error, -EINVAL, "%s is only for %s, not for %s", option,
					 (*kind)->all, image);
	}
	return 0;
}
