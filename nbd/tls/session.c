/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A session on GnuTLS, whose transport is memory.
 */
#include "nbd/tls/session.h"

#include "common/cleanup.h"
#include "nbd/tls/session_state.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A record's header: type, version, and the length of what follows. */
#define HEADER_SIZE 5

/* ---- GnuTLS's transport */

/* Follows the records of the peer, so that tls_session_at_record() is known: GnuTLS keeps a part of
 * a record without telling. */
static void
session_follow_records(struct tls_session *session, const uint8_t *bytes, size_t length)
{
	while (length > 0) {
		size_t n;

		if (session->record > 0) {
			n = length < session->record ? length : session->record;
			session->record -= n;
		} else {
			n = 1;
			if (session->header >= HEADER_SIZE - 2)
				session->length[session->header - (HEADER_SIZE - 2)] = *bytes;
			if (++session->header == HEADER_SIZE) {
				session->header = 0;
				session->record =
					(size_t)session->length[0] << 8 | session->length[1];
			}
		}
		bytes += n;
		length -= n;
	}
}

static ssize_t
session_pull(gnutls_transport_ptr_t data, void *to, size_t size)
{
	struct tls_session *session = data;
	struct tls_input *input = session->input;
	size_t n = input && input->length < size ? input->length : size;

	if (!input || n == 0) {
		gnutls.transport_set_errno(session->tls, EAGAIN);
		return -1;
	}
	memcpy(to, input->bytes, n);
	session_follow_records(session, input->bytes, n);
	input->bytes += n;
	input->length -= n;
	return (ssize_t)n;
}

static int
pull_timeout(gnutls_transport_ptr_t data, unsigned int ms)
{
	const struct tls_session *session = data;

	(void)ms;
	return session->input && session->input->length > 0;
}

static ssize_t
session_push(gnutls_transport_ptr_t data, const void *bytes, size_t length)
{
	struct tls_session *session = data;
	struct nbd_output *output = session->output;

	if (!output || output->size - output->used < length) {
		session->full = true;
		gnutls.transport_set_errno(session->tls, EAGAIN);
		return -1;
	}
	memcpy(output->bytes + output->used, bytes, length);
	output->used += length;
	return (ssize_t)length;
}

/* ---- beginning and end */

static int
set_credentials(struct tls_session *session)
{
	const struct tls_credentials *credentials = session->credentials;
	gnutls_session_t tls = session->tls;
	int r = gnutls.priority_set(tls, credentials->priority);

	if (r == 0 && credentials->psk_server)
		r = gnutls.credentials_set(tls, GNUTLS_CRD_PSK, credentials->psk_server);
	if (r == 0 && credentials->psk_client)
		r = gnutls.credentials_set(tls, GNUTLS_CRD_PSK, credentials->psk_client);
	if (r == 0 && credentials->certificates)
		r = gnutls.credentials_set(tls, GNUTLS_CRD_CERTIFICATE, credentials->certificates);
	if (credentials->side == TLS_SERVER)
		gnutls.certificate_server_set_request(
			tls, credentials->verify ? GNUTLS_CERT_REQUIRE : GNUTLS_CERT_IGNORE);
	return r;
}

/* The peer's certificate is checked during the handshake, so that a peer whose certificate is
 * refused gets an alert. */
static int
set_verification(struct tls_session *session, const char *server_name)
{
	bool client = session->credentials->side == TLS_CLIENT;

	if (!session->credentials->verify || !session->credentials->certificates)
		return 0;
	if (server_name) {
		session->server_name = strdup(server_name);
		if (!session->server_name)
			return -1;
	}
	session->verified[0] = (gnutls_typed_vdata_st){
		.type = GNUTLS_DT_KEY_PURPOSE_OID,
		.data = (unsigned char *)(client ? GNUTLS_KP_TLS_WWW_SERVER
						 : GNUTLS_KP_TLS_WWW_CLIENT)};
	session->verified[1] = (gnutls_typed_vdata_st){
		.type = GNUTLS_DT_DNS_HOSTNAME, .data = (unsigned char *)session->server_name};
	gnutls.session_set_verify_cert2(session->tls, session->verified,
					session->server_name ? 2 : 1, 0);
	return 0;
}

static int
session_prepare(struct tls_session *session, const char *server_name)
{
	bool client = session->credentials->side == TLS_CLIENT;
	int r = gnutls.init(&session->tls, (client ? GNUTLS_CLIENT : GNUTLS_SERVER) |
						   GNUTLS_NONBLOCK | GNUTLS_NO_TICKETS |
						   GNUTLS_NO_SIGNAL);

	if (r < 0)
		return r;
	session->lookup.users = &session->credentials->users;
	gnutls.session_set_ptr(session->tls, &session->lookup);
	gnutls.transport_set_ptr(session->tls, session);
	gnutls.transport_set_pull_function(session->tls, session_pull);
	gnutls.transport_set_pull_timeout_function(session->tls, pull_timeout);
	gnutls.transport_set_push_function(session->tls, session_push);
	/* The caller has the time limit. */
	gnutls.handshake_set_timeout(session->tls, 0);
	r = set_credentials(session);
	/* An address is not sent as the name of the server. */
	if (r == 0 && client && server_name && !strchr(server_name, ':') &&
	    strspn(server_name, "0123456789.") < strlen(server_name))
		r = gnutls.server_name_set(session->tls, GNUTLS_NAME_DNS, server_name,
					   strlen(server_name));
	return r < 0 ? r : set_verification(session, server_name);
}

int
tls_session_new(struct tls_session **made, struct tls_credentials *credentials,
		const char *server_name)
{
	struct tls_session *session = calloc(1, sizeof(*session));

	if (!session)
		return -ENOMEM;
	session->credentials = tls_credentials_ref(credentials);
	if (session_prepare(session, server_name) < 0) {
		tls_session_free(session);
		return -ENOMEM;
	}
	*made = session;
	return 0;
}

void
tls_session_free(struct tls_session *session)
{
	if (!session)
		return;
	if (session->tls)
		gnutls.deinit(session->tls);
	tls_credentials_unref(session->credentials);
	free(session->server_name);
	free(session);
}

/* ---- failures */

static void
explain_verification(struct tls_session *session)
{
	unsigned int status = gnutls.session_get_verify_cert_status(session->tls);
	gnutls_datum_t text = {NULL, 0};
	size_t length;

	if (gnutls.certificate_verification_status_print(status, GNUTLS_CRT_X509, &text, 0) < 0)
		snprintf(session->reason, sizeof(session->reason),
			 "the certificate can't be trusted");
	else
		snprintf(session->reason, sizeof(session->reason), "%s", text.data);
	free(text.data);
	/* GnuTLS's sentences end with a blank. */
	length = strlen(session->reason);
	if (length > 0 && session->reason[length - 1] == ' ')
		session->reason[length - 1] = '\0';
}

/* An unknown user and a wrong key look the same to the client, on purpose; which alert a server
 * sends then differs by protocol and by server. */
static bool
is_about_key(const struct tls_session *session, gnutls_alert_description_t alert)
{
	if (!session->credentials->psk_client || session->description[0])
		return false;
	switch (alert) {
	case GNUTLS_A_BAD_RECORD_MAC:
	case GNUTLS_A_DECRYPTION_FAILED:
	case GNUTLS_A_DECRYPT_ERROR:
	case GNUTLS_A_ILLEGAL_PARAMETER:
	case GNUTLS_A_UNKNOWN_PSK_IDENTITY: return true;
	default: return false;
	}
}

static void
explain_alert(struct tls_session *session)
{
	gnutls_alert_description_t alert = gnutls.alert_get(session->tls);
	const char *name = gnutls.alert_get_name(alert);

	if (!name)
		name = "unknown";
	if (is_about_key(session, alert))
		snprintf(session->reason, sizeof(session->reason),
			 "the server does not know the user \"%s\", or has another key for it "
			 "(its alert: %s)",
			 session->credentials->user, name);
	else if (session->credentials->side == TLS_CLIENT && alert == GNUTLS_A_CERTIFICATE_REQUIRED)
		snprintf(session->reason, sizeof(session->reason),
			 "the server demands a certificate of its clients (its alert: %s)", name);
	else
		snprintf(session->reason, sizeof(session->reason), "the peer sent an alert: %s",
			 name);
}

static enum tls_result
session_fail(struct tls_session *session, int code)
{
	/* Of a session that has failed before: the first reason is the right one. */
	if (session->reason[0] && code == GNUTLS_E_INVALID_SESSION)
		return TLS_FAILED;
	if (code == GNUTLS_E_FATAL_ALERT_RECEIVED || code == GNUTLS_E_WARNING_ALERT_RECEIVED)
		explain_alert(session);
	else if (code == GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR)
		explain_verification(session);
	else if (code == GNUTLS_E_CERTIFICATE_REQUIRED || code == GNUTLS_E_NO_CERTIFICATE_FOUND)
		snprintf(session->reason, sizeof(session->reason),
			 session->credentials->side == TLS_SERVER
				 ? "the client has shown no certificate, and " TLS_CA_FILE
				   " is there to verify it (tls-verify-peer=off lets in clients "
				   "without one)"
				 : "the server has shown no certificate");
	else if (session->lookup.unknown[0])
		snprintf(session->reason, sizeof(session->reason), "the user \"%s\" is unknown",
			 session->lookup.unknown);
	else if (session->credentials->psk_server && !session->description[0] &&
		 (code == GNUTLS_E_DECRYPTION_FAILED ||
		  code == GNUTLS_E_RECEIVED_ILLEGAL_PARAMETER))
		/* In a handshake, a wrong key shows as a message that can't be verified. */
		snprintf(session->reason, sizeof(session->reason), "the key is wrong");
	else
		snprintf(session->reason, sizeof(session->reason), "%s", gnutls.strerror(code));
	return TLS_FAILED;
}

/* The result of a call that returned an error. */
static enum tls_result
session_result(struct tls_session *session, int code)
{
	if (code == GNUTLS_E_AGAIN || code == GNUTLS_E_INTERRUPTED)
		return session->full ? TLS_FULL : TLS_MORE;
	return session_fail(session, code);
}

static void
begin_call(struct tls_session *session, struct tls_input *input, struct nbd_output *output)
{
	session->input = input;
	session->output = output;
	session->full = false;
}

/* Returns whether a call that returned this must be made again: after a record that holds only a
 * part of a message, GnuTLS stops though there is input. */
static bool
session_goes_on(const struct tls_session *session, int code, size_t input_before)
{
	return code == GNUTLS_E_INTERRUPTED ||
	       (code == GNUTLS_E_AGAIN && !session->full && session->input->length > 0 &&
		session->input->length < input_before);
}

static void
end_call(struct tls_session *session)
{
	session->input = NULL;
	session->output = NULL;
}

/* ---- handshake */

static void
session_describe(struct tls_session *session)
{
	const char *version = gnutls.protocol_get_name(gnutls.protocol_get_version(session->tls));
	const char *cipher = gnutls.cipher_get_name(gnutls.cipher_get(session->tls));

	/* "TLS1.3". */
	snprintf(session->description, sizeof(session->description), "%s %s",
		 version && strncmp(version, "TLS", 3) == 0 ? version + 3 : "?",
		 cipher ? cipher : "?");
}

enum tls_result
tls_session_handshake(struct tls_session *session, struct tls_input *input,
		      struct nbd_output *output)
{
	enum tls_result result = TLS_DONE;
	size_t before;
	int r;

	begin_call(session, input, output);
	/* After an alert that only warns, such as an unrecognized name, the handshake goes on. */
	do {
		before = input->length;
		r = gnutls.handshake(session->tls);
	} while (r == GNUTLS_E_WARNING_ALERT_RECEIVED || session_goes_on(session, r, before));
	if (r < 0) {
		result = session_result(session, r);
		if (result == TLS_FAILED && r != GNUTLS_E_FATAL_ALERT_RECEIVED)
			gnutls.alert_send_appropriate(session->tls, r);
	} else {
		session_describe(session);
	}
	end_call(session);
	return result;
}

/* ---- data */

enum tls_result
tls_session_read(struct tls_session *session, struct tls_input *input, void *to, size_t size,
		 size_t *length)
{
	enum tls_result result = TLS_DONE;
	size_t before;
	ssize_t n;

	*length = 0;
	begin_call(session, input, NULL);
	do {
		before = input->length;
		n = gnutls.record_recv(session->tls, to, size);
	} while (n < 0 && session_goes_on(session, (int)n, before));
	end_call(session);
	if (n < 0)
		result = session_result(session, (int)n);
	else if (n == 0)
		result = TLS_CLOSED;
	else
		*length = (size_t)n;
	return result;
}

enum tls_result
tls_session_write(struct tls_session *session, const void *data, size_t length, size_t *taken,
		  struct nbd_output *output)
{
	const uint8_t *bytes = data;

	*taken = 0;
	begin_call(session, NULL, output);
	while (*taken < length && output->size - output->used >= TLS_ROOM) {
		size_t left = length - *taken;
		ssize_t n = gnutls.record_send(session->tls, bytes + *taken,
					       left < TLS_RECORD_DATA ? left : TLS_RECORD_DATA);

		if (n < 0) {
			end_call(session);
			/* A record that has room is never refused by our own session_push(). */
			return session_fail(session, (int)n);
		}
		*taken += (size_t)n;
	}
	end_call(session);
	return *taken > 0 || length == 0 ? TLS_DONE : TLS_FULL;
}

void
tls_session_close(struct tls_session *session, struct nbd_output *output)
{
	begin_call(session, NULL, output);
	gnutls.bye(session->tls, GNUTLS_SHUT_WR);
	end_call(session);
}

bool
tls_session_has_data(const struct tls_session *session)
{
	return gnutls.record_check_pending(session->tls) > 0;
}

bool
tls_session_at_record(const struct tls_session *session)
{
	return session->record == 0 && session->header == 0;
}

bool
tls_session_uses(const struct tls_session *session, const struct tls_credentials *credentials)
{
	return session->credentials == credentials;
}

const char *
tls_session_reason(const struct tls_session *session)
{
	return session->reason;
}

const char *
tls_session_describe(const struct tls_session *session)
{
	return session->description;
}

/* ---- who the other side is */

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

/* "dns:host.example": a name of one type never looks like one of another. NULL as
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
read_certificate(gnutls_x509_crt_t certificate, struct tls_identity *identity)
{
	gnutls_datum_t dn = {NULL, 0};
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
	if (r == 0 && gnutls.x509_crt_get_dn2(certificate, &dn) == 0 && dn.size > 0)
		identity->dn = identity_copy_name((const char *)dn.data, dn.size, &r);
	free(dn.data);
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
