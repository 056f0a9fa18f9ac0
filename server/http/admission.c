/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/http/admission.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "common/log.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* ---- the host */

static bool
is_port(const char *text)
{
	return *text == '\0' || (*text == ':' && text[1 + strspn(text + 1, "0123456789")] == '\0');
}

static bool
is_local_name(const char *name)
{
	struct in_addr address;

	return strcasecmp(name, "localhost") == 0 ||
	       (inet_pton(AF_INET, name, &address) == 1 &&
		ntohl(address.s_addr) >> 24 == IN_LOOPBACKNET);
}

bool
http_host_is_local(const char *host)
{
	char name[16]; /* "255.255.255.255" */
	size_t length;

	if (!host)
		return true;
	if (strncmp(host, "[::1]", 5) == 0)
		return is_port(host + 5);
	length = strcspn(host, ":");
	if (length >= sizeof(name) || !is_port(host + length))
		return false;
	memcpy(name, host, length);
	name[length] = '\0';
	return is_local_name(name);
}

/* ---- the token */

/* Reads the file's first bytes.  The number of them, or -errno. */
static ssize_t
read_file(const char *path, char *bytes, size_t size)
{
	int CLEANUP_CLOSE fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t length = 0;
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (st.st_mode & S_IROTH)
		log_warning("%s: every user of this machine can read the token; chmod o-r changes "
			    "that",
			    path);
	while (length < size && (n = read(fd, bytes + length, size - length)) != 0) {
		if (n < 0)
			return -errno;
		length += (size_t)n;
	}
	return (ssize_t)length;
}

int
http_token_read(const char *path, char **token, char **error)
{
	char bytes[HTTP_TOKEN_MAX + 2]; /* a newline, and one that is too many */
	ssize_t length = read_file(path, bytes, sizeof(bytes));

	if (length < 0)
		return error_set(error, (int)length, "%s: %s", path, strerror((int)-length));
	if (length > 0 && bytes[length - 1] == '\n')
		length--;
	for (ssize_t i = 0; i < length; i++) {
		if (bytes[i] <= ' ' || bytes[i] > '~')
			length = 0;
	}
	if (length < HTTP_TOKEN_MIN || length > HTTP_TOKEN_MAX)
		return error_set(error, -EINVAL,
				 "%s: a token is one line of %d to %d visible ASCII characters; "
				 "openssl rand -hex 32 makes one",
				 path, HTTP_TOKEN_MIN, HTTP_TOKEN_MAX);
	*token = strndup(bytes, (size_t)length);
	explicit_bzero(bytes, sizeof(bytes));
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
