/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/http/http_name.h"

#include "engine/backing/http/fetch_wire.h"

#include "common/error.h"

#include <errno.h>
#include <string.h>

static const char *const options[] = {"base-timeout", "base-ca", NULL};

const struct image_kind image_kind_http = {
	.name = "http",
	.one = "an image on a web server",
	.all = "images on web servers (https://HOST/PATH)",
	.prefixes = {"https://", "http://"},
	.library = FETCH_PROGRAM,
	.helper = FETCH_PROGRAM,
	.options = options,
};

int
http_name_check(const char *url, char **error)
{
	const char *host = strstr(url, "://") + strlen("://");
	size_t length = strcspn(host, "/?#");

	if (memchr(host, '@', length))
		return error_set(error, -EINVAL,
				 "a user or password in the web address would be visible in the "
				 "list of processes, in the log and in the status: remove it");
	if (length == 0)
		return error_set(error, -EINVAL, "%s: the web address has no host", url);
	if (strlen(url) >= FETCH_URL_MAX)
		return error_set(error, -EINVAL, "%.64s...: the web address is too long", url);
	for (const char *at = url; *at; at++) {
		if ((unsigned char)*at <= ' ' || *at == 0x7f)
			return error_set(error, -EINVAL,
					 "%s: a web address has no spaces: write %%20", url);
	}
	return 0;
}
