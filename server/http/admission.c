/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/http/admission.h"

#include "common/error.h"
#include "common/log.h"
#include "common/secret_file.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* ---- the host */

static bool
is_port(const char *text)
{
	return *text == '\0' || (*text == ':' && text[1 + strspn(text + 1, "0123456789")] == '\0');
}

bool
http_host_is_local(const char *host)
{
	char name[16]; /* "255.255.255.255" */
	struct in_addr address;
	size_t length;

	if (!host)
		return false;
	if (strncmp(host, "[::1]", 5) == 0)
		return is_port(host + 5);
	length = strcspn(host, ":");
	if (length >= sizeof(name) || !is_port(host + length))
		return false;
	memcpy(name, host, length);
	name[length] = '\0';
	return strcasecmp(name, "localhost") == 0 ||
	       (inet_pton(AF_INET, name, &address) == 1 &&
		ntohl(address.s_addr) >> 24 == IN_LOOPBACKNET);
}

/* ---- the token */

int
http_token_read(const char *path, char **token, char **error)
{
	struct secret_file SECRET_FILE_CLEANUP file = {0};
	int r = secret_file_read(&file, path, error);
	size_t length;

	if (r < 0)
		return r;
	if (SECRET_FILE_IS_OPEN(file.mode))
		log_warning("the token: " SECRET_FILE_OPEN, (unsigned int)file.mode, path);
	length = file.length;
	if (length > 0 && file.bytes[length - 1] == '\n')
		length--;
	for (size_t i = 0; i < length; i++) {
		if (file.bytes[i] <= ' ' || file.bytes[i] > '~')
			length = 0;
	}
	if (length < HTTP_TOKEN_MIN || length > HTTP_TOKEN_MAX)
		return error_set(error, -EINVAL,
				 "%s: a token is one line of %d to %d visible ASCII characters; "
				 "openssl rand -hex 32 makes one",
				 path, HTTP_TOKEN_MIN, HTTP_TOKEN_MAX);
	*token = strndup(file.bytes, length);
	return *token ? 0 : -ENOMEM;
}

bool
http_token_fits(const char *token, const char *authorization)
{
	static const char scheme[] = "Bearer ";
	size_t length = strlen(token), given;
	unsigned char different = 0;

	if (!authorization || strncasecmp(authorization, scheme, strlen(scheme)) != 0)
		return false;
	authorization += strlen(scheme);
	given = strlen(authorization);
	/* Only the length of what was given decides how long this takes. */
	for (size_t i = 0; i < given; i++)
		different |= (unsigned char)(authorization[i] ^ token[i % (length + 1)]);
	return !different && given == length;
}
