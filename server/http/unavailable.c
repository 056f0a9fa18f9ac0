/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * In place of http.c in a build without libmicrohttpd.
 */
#include "server/http/http.h"

#include "common/error.h"

#include <errno.h>

/* None of the functions has something to look at. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

int
http_new(const struct http_config *config, struct http **http, char **error)
{
	return error_set(error, -ENOTSUP,
			 "--http is not possible: nbdloopd was built without libmicrohttpd "
			 "(configure --with-http; Debian package: libmicrohttpd-dev)");
}

int
http_start(struct http *http)
{
	return -ENOTSUP;
}

void
http_stop(struct http *http)
{
}

bool
http_is_over(struct http *http)
{
	return true;
}

void
http_free(struct http *http)
{
}
