/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kinds of images that the engine opens, and which one a name or an option means.
 */
#ifndef ENGINE_BACKING_IMAGE_KINDS_H
#define ENGINE_BACKING_IMAGE_KINDS_H

#include "engine/backing/image_kind.h"
#include "engine/image_config.h"

#include <stdbool.h>

/* All kinds. NULL follows the last one. */
extern const struct image_kind *const image_kinds[];

/* Returns the kind that an image's name means. */
const struct image_kind *
image_kind_of(const char *image);

/* Returns whether the name is a path of this machine. */
bool
image_kind_is_path(const char *image);

/* Returns the kind that an option is for alone, or NULL. */
const struct image_kind *
image_kind_of_option(const char *name);

/* Returns the name of a kind's first option that has another value than in `others` (NULL: the
 * initial one), or NULL. */
const char *
image_kind_option(const struct image_kind *kind, const struct image_config *config,
		  const struct image_config *others);

/*
 * Refuses options that are only for another kind of images than `image`, unless they have the
 * values of `defaults` (NULL: the initial ones). Returns 0, or -EINVAL with *error, a sentence that
 * names the option and the image (the caller frees it).
 */
int
image_kind_check(const char *image, const struct image_config *config,
		 const struct image_config *defaults, char **error);

#endif
