/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * In place of http.c in a build without libmicrohttpd.
 */
#include "server/http/http.h"

#include "common/error.h"

#include <errno.h>

int
http_new(const struct http_config *config, struct http **http, char **error)
{
	(void)config;
	(void)http;
	return error_set(error, -ENOTSUP,
			 "--http is not possible: nbdloopd was built without libmicrohttpd "
			 "(configure --with-http; Debian package: libmicrohttpd-dev)");
}

int
http_start(struct http *http)
{
	(void)http;
	return -ENOTSUP;
}

void
http_stop(struct http *http)
{
	(void)http;
}

bool
http_is_over(struct http *http)
{
	(void)http;
	return true;
}

void
http_free(struct http *http)
{
	(void)http;
}
