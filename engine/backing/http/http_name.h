/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of images on web servers: http://HOST/PATH and https://HOST/PATH.
 */
#ifndef ENGINE_BACKING_HTTP_HTTP_NAME_H
#define ENGINE_BACKING_HTTP_HTTP_NAME_H

#include "engine/backing/image_kind.h"

/* A file of such a name is ./http://... */
extern const struct image_kind image_kind_http;

/* Checks a name. Returns 0; or -EINVAL with *error, a sentence (the caller frees it). */
int
http_name_check(const char *url, char **error);

#endif
