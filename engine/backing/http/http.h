/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Images on web servers as backings: read-only. The process nbdloop-fetch reads them by libcurl.
 */
#ifndef ENGINE_BACKING_HTTP_HTTP_H
#define ENGINE_BACKING_HTTP_HTTP_H

#include "engine/backing/kind.h"

extern const struct backing_kind backing_http;

#endif
