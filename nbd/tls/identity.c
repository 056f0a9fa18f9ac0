/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The identity of the other side of a session.
 */
#include "nbd/tls/session.h"
#include "nbd/tls/session_state.h"

#include "common/cleanup.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Alternative names of a certificate that are read, at most, and their longest. */
#define NAMES_MAX 64
#define NAME_SIZE 512
#define TYPE_SIZE 8

/* A copy of a name; NULL with *r 0: it holds a control character or a NUL, which could make it look
 * like another one. */
static char *
identity_copy_name(const char *name, size_t length, int *r)
{
	char *copy;

	for (size_t i = 0; i < length; i++)
		if ((unsigned char)name[i] < ' ' || name[i] == 0x7f)
			return NULL;
	copy = strndup(name, length);
	if (!copy)
		*r = -ENOMEM;
	return copy;
}

/* The size may count a NUL at the end. */
static char *
identity_copy_text(const char *text, size_t size, int *r)
{
	size_t length = strnlen(text, size);

	return size <= length + 1 ? identity_copy_name(text, length, r) : NULL;
}

/* "dns:host.example": a name of one type never looks like one of another.  NULL as
 * identity_copy_name(). */
static char *
copy_alternative(int type, const char *bytes, size_t size, int *r)
{
	char text[TYPE_SIZE + NAME_SIZE];
	const char *kind = type == GNUTLS_SAN_DNSNAME      ? "dns:"
			   : type == GNUTLS_SAN_RFC822NAME ? "email:"
			   : type == GNUTLS_SAN_URI        ? "uri:"
			   : type == GNUTLS_SAN_IPADDRESS  ? "ip:"
							   : NULL;
	char *to;

	if (!kind)
		return NULL;
	to = stpcpy(text, kind);
	if (type == GNUTLS_SAN_IPADDRESS)
		return (size == 4 || size == 16) && inet_ntop(size == 4 ? AF_INET : AF_INET6, bytes,
							      to, NAME_SIZE)
			       ? identity_copy_name(text, strlen(text), r)
			       : NULL;
	memcpy(to, bytes, size);
	return identity_copy_text(text, (size_t)(to - text) + size, r);
}

static int
add_names(gnutls_x509_crt_t certificate, struct tls_identity *identity)
{
	size_t count = 0;
	int r = 0;

	identity->names = calloc(NAMES_MAX + 1, sizeof(*identity->names));
	if (!identity->names)
		return -ENOMEM;
	for (unsigned int i = 0; r == 0 && count < NAMES_MAX; i++) {
		char name[NAME_SIZE];
		size_t size = sizeof(name);
		int type = gnutls.x509_crt_get_subject_alt_name(certificate, i, name, &size, NULL);

		if (type == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
			break;
		if (type >= 0)
			identity->names[count] = copy_alternative(type, name, size, &r);
		count += identity->names[count] != NULL;
	}
	if (count > 0)
		return r;
	free(steal_pointer(&identity->names));
	return r;
}

static int
add_dn(gnutls_x509_crt_t certificate, struct tls_identity *identity)
{
	gnutls_datum_t dn = {NULL, 0};
	int r = 0;

	if (gnutls.x509_crt_get_dn2(certificate, &dn) == 0 && dn.size > 0)
		identity->dn = identity_copy_name((const char *)dn.data, dn.size, &r);
	free(dn.data);
	return r;
}

static int
read_certificate(gnutls_x509_crt_t certificate, struct tls_identity *identity)
{
	char name[NAME_SIZE];
	size_t size = sizeof(name);
	int r = 0;

	/* With two names it could pass as either. */
	if (gnutls.x509_crt_get_dn_by_oid(certificate, GNUTLS_OID_X520_COMMON_NAME, 1, 0, NULL,
					  &(size_t){0}) != GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
		return -EINVAL;
	if (gnutls.x509_crt_get_dn_by_oid(certificate, GNUTLS_OID_X520_COMMON_NAME, 0, 0, name,
					  &size) == 0)
		identity->name = identity_copy_text(name, size, &r);
	if (r == 0)
		r = add_dn(certificate, identity);
	return r < 0 ? r : add_names(certificate, identity);
}

static int
of_certificate(const struct tls_session *session, struct tls_identity *identity)
{
	unsigned int count;
	const gnutls_datum_t *chain;
	gnutls_x509_crt_t certificate;
	int r = 0;

	/* Nothing of a certificate that was not verified may be believed. */
	if (!session->credentials->verify)
		return 0;
	chain = gnutls.certificate_get_peers(session->tls, &count);
	if (!chain || count == 0)
		return 0;
	if (gnutls.x509_crt_init(&certificate) < 0)
		return -ENOMEM;
	if (gnutls.x509_crt_import(certificate, &chain[0], GNUTLS_X509_FMT_DER) == 0)
		r = read_certificate(certificate, identity);
	gnutls.x509_crt_deinit(certificate);
	return r;
}

int
tls_session_identity(const struct tls_session *session, struct tls_identity *identity)
{
	const char *user;
	int r = 0;

	*identity = (struct tls_identity){0};
	if (gnutls.auth_get_type(session->tls) == GNUTLS_CRD_PSK) {
		user = session->credentials->side == TLS_SERVER
			       ? gnutls.psk_server_get_username(session->tls)
			       : NULL;
		if (user)
			identity->user = identity_copy_name(user, strlen(user), &r);
	} else {
		r = of_certificate(session, identity);
	}
	if (r < 0)
		tls_identity_fini(identity);
	return r;
}

void
tls_identity_fini(struct tls_identity *identity)
{
	for (char **name = identity->names; name && *name; name++)
		free(*name);
	free(identity->names);
	free(identity->name);
	free(identity->dn);
	free(identity->user);
	*identity = (struct tls_identity){0};
}
