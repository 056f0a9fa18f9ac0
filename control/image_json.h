/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a status tells of an image, in every server alike.
 */
#ifndef CONTROL_IMAGE_JSON_H
#define CONTROL_IMAGE_JSON_H

#include "control/json.h"
#include "engine/image.h"

/* Writes members of an object that the caller has begun. `file`: the path to be shown. */
void
json_image(struct json *json, const char *file, const struct image_status *status);

/* {"error":"..."}, for a request that failed. NULL: out of memory. */
void
json_error(struct json *json, const char *error);

#endif
