/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a status tells of an image, in every server alike.
 */
#ifndef ENGINE_IMAGE_IMAGE_JSON_H
#define ENGINE_IMAGE_IMAGE_JSON_H

#include "engine/image/image.h"

#include "common/json.h"

/* Writes members of an object that the caller has begun. `file`: the path to be shown. */
void
json_image(struct json *json, const char *file, const struct image_status *status);

#endif
