/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TLS in a build without GnuTLS: there are no credentials, so there are no sessions.
 */
#include "nbd/tls/credentials.h"
#include "nbd/tls/ktls.h"
#include "nbd/tls/session.h"

#include "common/error.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>

/* None of the functions looks at a session, since there is none. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

int
tls_credentials_load(const struct tls_files *files, struct tls_credentials **credentials,
		     char **error)
{
	*credentials = NULL;
	return error_set(
		error, -ENOTSUP,
		"TLS is not possible: this program was built without GnuTLS (Debian package: libgnutls28-dev)");
}

struct tls_credentials *
tls_credentials_ref(struct tls_credentials *credentials)
{
	return credentials;
}

void
tls_credentials_unref(struct tls_credentials *credentials)
{
}

bool
tls_credentials_verify(const struct tls_credentials *credentials)
{
	return false;
}

bool
tls_credentials_revoke(const struct tls_credentials *credentials)
{
	return false;
}

time_t
tls_credentials_warn(const struct tls_credentials *credentials, time_t since, time_t now)
{
	return 0;
}

int
tls_session_new(struct tls_session **session, struct tls_credentials *credentials,
		const char *server_name)
{
	*session = NULL;
	return -ENOMEM;
}

void
tls_session_free(struct tls_session *session)
{
	assert(!session);
}

enum tls_result
tls_session_handshake(struct tls_session *session, struct tls_input *input,
		      struct nbd_output *output)
{
	return TLS_FAILED;
}

enum tls_result
tls_session_read(struct tls_session *session, struct tls_input *input, void *to, size_t size,
		 size_t *length)
{
	*length = 0;
	return TLS_FAILED;
}

enum tls_result
tls_session_write(struct tls_session *session, const void *data, size_t length, size_t *taken,
		  struct nbd_output *output)
{
	*taken = 0;
	return TLS_FAILED;
}

void
tls_session_close(struct tls_session *session, struct nbd_output *output)
{
}

bool
tls_session_has_data(const struct tls_session *session)
{
	return false;
}

bool
tls_session_at_record(const struct tls_session *session)
{
	return true;
}

bool
tls_session_uses(const struct tls_session *session, const struct tls_credentials *credentials)
{
	return true;
}

const char *
tls_session_reason(const struct tls_session *session)
{
	return "there is no TLS in this build";
}

const char *
tls_session_describe(const struct tls_session *session)
{
	return "";
}

int
tls_session_identity(const struct tls_session *session, struct tls_identity *identity)
{
	*identity = (struct tls_identity){0};
	return 0;
}

void
tls_identity_fini(struct tls_identity *identity)
{
	*identity = (struct tls_identity){0};
}

int
ktls_begin(struct tls_session *session, int fd, char reason[KTLS_REASON_MAX])
{
	reason[0] = '\0';
	return 1;
}

void
ktls_close(int fd)
{
}

uint64_t
ktls_record_limit(const struct tls_session *session)
{
	return 0;
}

bool
ktls_keys_change(const struct tls_session *session)
{
	return false;
}

int
ktls_missing(char reason[KTLS_REASON_MAX])
{
	reason[0] = '\0';
	return 1;
}
