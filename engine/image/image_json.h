/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes the status of an image as JSON, in the same way for every server.
 */
#ifndef ENGINE_IMAGE_IMAGE_JSON_H
#define ENGINE_IMAGE_IMAGE_JSON_H

#include "engine/image/image.h"

#include "common/json.h"

/* Writes the status as members of an object that the caller has begun. `file` is the path to show.
 */
void
json_image(struct json *json, const char *file, const struct image_status *status);

#endif
