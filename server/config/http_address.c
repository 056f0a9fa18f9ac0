/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/config/http_address.h"

#include "common/cleanup.h"
#include "common/error.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define UNIX_PREFIX "unix:"

static bool
parse_port(const char *text, unsigned int *port)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	*port = (unsigned int)value;
	return *text >= '0' && *text <= '9' && *end == '\0' && value <= 65535;
}

/* The host without its brackets, for the caller to free; NULL: there is none, no memory, or an IPv6
 * address without brackets, whose last part is no port. */
static char *
host_of(const char *text, size_t length)
{
	if (length > 2 && text[0] == '[' && text[length - 1] == ']')
		return strndup(text + 1, length - 2);
	return length > 0 && !memchr(text, ':', length) ? strndup(text, length) : NULL;
}

static int
parse_inet(const char *text, struct http_address *address)
{
	const char *colon = strrchr(text, ':');

	if (!colon || !parse_port(colon + 1, &address->port))
		return -EINVAL;
	errno = 0;
	address->host = host_of(text, (size_t)(colon - text));
	if (!address->host)
		return errno == ENOMEM ? -ENOMEM : -EINVAL;
	return 0;
}

int
http_address_parse(const char *text, struct http_address *address, char **error)
{
	size_t prefix = strlen(UNIX_PREFIX);
	int r = -EINVAL;

	*address = (struct http_address){0};
	if (strncmp(text, UNIX_PREFIX, prefix) != 0) {
		r = parse_inet(text, address);
	} else if (text[prefix]) {
		address->path = strdup(text + prefix);
		r = address->path ? 0 : -ENOMEM;
	}
	if (r != -EINVAL)
		return r;
	return error_set(error, r,
			 "http=%s: must be ADDRESS:PORT, such as localhost:9140 or [::1]:9140, or "
			 "unix:PATH",
			 text);
}

void
http_address_fini(struct http_address *address)
{
	free(steal_pointer(&address->path));
	free(steal_pointer(&address->host));
}
