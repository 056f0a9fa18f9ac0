/* SPDX-License-Identifier: BSD-3-Clause */
#include "nbd/tls/credentials.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "common/secret_file.h"
#include "nbd/tls/credentials_state.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- trust: the authorities that verify the other side, and the certificates they revoked */

/* When a list is valid that doesn't say until when. */
#define FOR_EVER ((time_t)(sizeof(time_t) > 4 ? INT64_C(1) << 60 : INT32_MAX - 1))

/* By which a list is of another authority. Its dates are no reason to refuse it; nor are weak
 * algorithms, or a certificate that doesn't say that its key signs lists, which GnuTLS overlooks,
 * too. */
#define WRONG (GNUTLS_CERT_SIGNER_NOT_FOUND | GNUTLS_CERT_SIGNATURE_FAILURE)

struct authorities {
	gnutls_x509_crt_t *all;
	unsigned int count;
};

/* What GnuTLS says of a file, as an error; -ENOMEM has no text. */
static int
tls_explain(char **error, const char *path, int code)
{
	if (code == GNUTLS_E_MEMORY_ERROR)
		return -ENOMEM;
	return error_set(error, -EINVAL, "%s: %s", path, gnutls.strerror(code));
}

typedef int
load_pem(gnutls_certificate_credentials_t, const gnutls_datum_t *, gnutls_x509_crt_fmt_t);

/* Loads a file that may be missing. 1: it was loaded; 0: there is none; -errno. */
static int
load_optional(struct tls_credentials *credentials, const char *path, load_pem *load,
	      struct secret_file *file, gnutls_datum_t *pem, char **error)
{
	int r;

	if (access(path, F_OK) < 0 && errno == ENOENT)
		return 0;
	r = secret_file_read(file, path, error);
	if (r < 0)
		return r;
	*pem = (gnutls_datum_t){(unsigned char *)file->bytes, (unsigned int)file->length};
	r = load(credentials->certificates, pem, GNUTLS_X509_FMT_PEM);
	if (r == 0)
		return error_set(
			error, -EINVAL,
			"%s: there is no certificate or list of revoked certificates in this file",
			path);
	return r < 0 ? tls_explain(error, path, r) : 1;
}

/* ---- authorities */

static int
note_authority(struct tls_credentials *credentials, const char *path, gnutls_x509_crt_t authority)
{
	gnutls_datum_t name = {NULL, 0};
	char *subject = NULL;

	gnutls.x509_crt_get_dn2(authority, &name);
	if (asprintf(&subject, "%s: the certificate of the authority \"%s\"", path,
		     name.data ? (const char *)name.data : "") < 0)
		subject = NULL;
	free(name.data);
	return tls_cautions_add_dates(&credentials->cautions, subject,
				      "certificates that it has signed are refused",
				      gnutls.x509_crt_get_activation_time(authority),
				      gnutls.x509_crt_get_expiration_time(authority));
}

static int
load_authorities(struct tls_credentials *credentials, const char *path,
		 struct authorities *authorities, char **error)
{
	struct secret_file SECRET_FILE_CLEANUP file = {0};
	gnutls_datum_t pem;
	int r = load_optional(credentials, path, gnutls.certificate_set_x509_trust_mem, &file, &pem,
			      error);

	if (r <= 0)
		return r;
	r = gnutls.x509_crt_list_import2(&authorities->all, &authorities->count, &pem,
					 GNUTLS_X509_FMT_PEM, 0);
	if (r < 0)
		return tls_explain(error, path, r);
	for (unsigned int i = 0; r >= 0 && i < authorities->count; i++)
		r = note_authority(credentials, path, authorities->all[i]);
	return r < 0 ? r : 1;
}

/* ---- lists of revoked certificates */

/* Returns whether one of the authorities has signed the list; else *wrong has bits of what is wrong
 * with one that has its name, if there is one. Two may have the same name. */
static bool
is_signed(gnutls_x509_crl_t list, const struct authorities *authorities, unsigned int *wrong)
{
	*wrong = GNUTLS_CERT_SIGNER_NOT_FOUND;
	for (unsigned int i = 0; i < authorities->count; i++) {
		unsigned int status = 0;

		if (!gnutls.x509_crl_check_issuer(list, authorities->all[i]))
			continue;
		if (gnutls.x509_crl_verify(list, &authorities->all[i], 1,
					   GNUTLS_VERIFY_ALLOW_BROKEN, &status) < 0)
			status = GNUTLS_CERT_SIGNATURE_FAILURE;
		*wrong = status & WRONG;
		if (!*wrong)
			return true;
	}
	return false;
}

/* GnuTLS takes any list, and looks into those only that have the name of a certificate's issuer. */
static int
check_list(gnutls_x509_crl_t list, const char *path, const struct authorities *authorities,
	   char **error)
{
	gnutls_datum_t name = {NULL, 0};
	unsigned int wrong;
	int r;

	if (is_signed(list, authorities, &wrong))
		return 0;
	gnutls.x509_crl_get_issuer_dn2(list, &name);
	r = error_set(error, -EINVAL, "%s: the list of revoked certificates is of \"%s\", %s", path,
		      name.data ? (const char *)name.data : "",
		      wrong & GNUTLS_CERT_SIGNER_NOT_FOUND
			      ? "of which no certificate is in " TLS_CA_FILE
			      : "but the key of the certificate in " TLS_CA_FILE
				" has not signed it");
	free(name.data);
	return r;
}

static int
note_list(struct tls_credentials *credentials, const char *path, gnutls_x509_crl_t list)
{
	time_t end = gnutls.x509_crl_get_next_update(list);
	char *subject;

	if (asprintf(&subject, "%s: the list of revoked certificates", path) < 0)
		subject = NULL;
	return tls_cautions_add_dates(&credentials->cautions, subject,
				      "it is used, but may lack certificates that were revoked",
				      gnutls.x509_crl_get_this_update(list),
				      end < 0 ? FOR_EVER : end);
}

static int
load_lists(struct tls_credentials *credentials, const char *path,
	   const struct authorities *authorities, char **error)
{
	struct secret_file SECRET_FILE_CLEANUP file = {0};
	gnutls_x509_crl_t *lists;
	gnutls_datum_t pem;
	unsigned int count;
	int r = load_optional(credentials, path, gnutls.certificate_set_x509_crl_mem, &file, &pem,
			      error);

	if (r <= 0)
		return r;
	credentials->revoke = true;
	/* Then nobody's certificate is verified. */
	if (authorities->count == 0)
		return 0;
	r = gnutls.x509_crl_list_import2(&lists, &count, &pem, GNUTLS_X509_FMT_PEM, 0);
	if (r < 0)
		return tls_explain(error, path, r);
	for (unsigned int i = 0; i < count; i++) {
		if (r >= 0)
			r = check_list(lists[i], path, authorities, error);
		if (r >= 0)
			r = note_list(credentials, path, lists[i]);
		gnutls.x509_crl_deinit(lists[i]);
	}
	free(lists);
	return r;
}

/* Loads both files into the credentials; each may be missing. Returns 1: there are authorities; 0:
 * there are none; or -errno with *error. */
static int
tls_trust_load(struct tls_credentials *credentials, const char *authorities_path,
	       const char *lists_path, char **error)
{
	struct authorities authorities = {0};
	int r = load_authorities(credentials, authorities_path, &authorities, error);
	int there = r;

	if (r >= 0)
		r = load_lists(credentials, lists_path, &authorities, error);
	for (unsigned int i = 0; i < authorities.count; i++)
		gnutls.x509_crt_deinit(authorities.all[i]);
	free(authorities.all);
	return r < 0 ? r : there;
}

/* Certificates of a chain, at most. */
#define CHAIN_MAX 16

/* Whatever the user's priority string says. */
#define ALWAYS "-VERS-SSL3.0:-VERS-TLS1.0:-VERS-TLS1.1:-VERS-DTLS-ALL:%%NO_TICKETS"

/* Only exchanges with forward secrecy. */
#define PSK_EXCHANGES "+ECDHE-PSK:+DHE-PSK"

/* ---- certificates */

static char *
tls_file_path(const struct tls_files *files, const char *name)
{
	char *path;

	return asprintf(&path, "%s/%s", files->certificates, name) < 0 ? NULL : path;
}

/* The server's certificate with its chain, or the client's: if one could not be used now, every
 * peer would refuse it. */
static int
check_dates(const char *path, time_t begin, time_t end, char **error)
{
	char date[TLS_DATE_SIZE];
	time_t now = time(NULL);

	if (now < begin)
		return error_set(error, -EINVAL, "%s: the certificate is not valid before %s", path,
				 tls_date(begin, date));
	return now > end ? error_set(error, -EINVAL, "%s: the certificate has expired, on %s", path,
				     tls_date(end, date))
			 : 0;
}

static int
note_dates(struct tls_credentials *credentials, const char *path, const gnutls_datum_t *pem,
	   char **error)
{
	gnutls_x509_crt_t chain[CHAIN_MAX];
	unsigned int count = CHAIN_MAX;
	int r = gnutls.x509_crt_list_import(chain, &count, pem, GNUTLS_X509_FMT_PEM, 0);

	if (r < 0)
		return tls_explain(error, path, r);
	r = 0;
	for (unsigned int i = 0; i < count; i++) {
		time_t begin = gnutls.x509_crt_get_activation_time(chain[i]);
		time_t end = gnutls.x509_crt_get_expiration_time(chain[i]);
		char *subject;

		if (r == 0)
			r = check_dates(path, begin, end, error);
		if (r == 0 && asprintf(&subject, "%s: the certificate", path) < 0)
			subject = NULL;
		if (r == 0)
			r = tls_cautions_add_dates(&credentials->cautions, subject,
						   credentials->side == TLS_SERVER
							   ? "clients refuse it"
							   : "servers refuse it",
						   begin, end);
		gnutls.x509_crt_deinit(chain[i]);
	}
	return r;
}

static gnutls_datum_t
datum_of(const struct secret_file *file)
{
	return (gnutls_datum_t){(unsigned char *)file->bytes, (unsigned int)file->length};
}

static int
load_own(struct tls_credentials *credentials, const char *cert_path, const char *key_path,
	 char **error)
{
	struct secret_file SECRET_FILE_CLEANUP cert = {0};
	struct secret_file SECRET_FILE_CLEANUP key = {0};
	gnutls_datum_t cert_pem, key_pem;
	int r = secret_file_read(&cert, cert_path, error);

	if (r == 0)
		r = secret_file_read(&key, key_path, error);
	if (r < 0)
		return r;
	cert_pem = datum_of(&cert);
	key_pem = datum_of(&key);
	r = note_dates(credentials, cert_path, &cert_pem, error);
	if (r == 0)
		r = tls_cautions_add_secret(&credentials->cautions, key_path, key.mode);
	if (r < 0)
		return r;
	if (strstr(key.bytes, "BEGIN ENCRYPTED PRIVATE KEY") ||
	    strstr(key.bytes, "Proc-Type: 4,ENCRYPTED"))
		return error_set(
			error, -EINVAL,
			"%s: the key has a password, and nobody can be asked for it: certtool -k --infile %s --outfile NEW removes the password",
			key_path, key_path);
	r = gnutls.certificate_set_x509_key_mem2(credentials->certificates, &cert_pem, &key_pem,
						 GNUTLS_X509_FMT_PEM, NULL, 0);
	return r < 0 ? tls_explain(error, key_path, r) : 0;
}

static int
load_server(struct tls_credentials *credentials, const struct tls_files *files, const char *ca,
	    int ca_there, char **error)
{
	char *CLEANUP_FREE cert = tls_file_path(files, TLS_SERVER_CERT_FILE);
	char *CLEANUP_FREE key = tls_file_path(files, TLS_SERVER_KEY_FILE);

	if (!cert || !key)
		return -ENOMEM;
	if (files->verify == TLS_VERIFY_ON && !ca_there)
		return error_set(
			error, -ENOENT,
			"%s: there is no such file; it is needed to verify the certificates of clients",
			ca);
	if (files->verify == TLS_VERIFY_AUTO && credentials->revoke && !ca_there)
		return error_set(error, -ENOENT,
				 "%s: there is no such file; without it no certificate of a client "
				 "is verified, and those that " TLS_CRL_FILE " revokes are taken",
				 ca);
	credentials->verify = files->verify != TLS_VERIFY_OFF && ca_there;
	return load_own(credentials, cert, key, error);
}

static int
load_client(struct tls_credentials *credentials, const struct tls_files *files, const char *ca,
	    int ca_there, char **error)
{
	char *CLEANUP_FREE cert = tls_file_path(files, TLS_CLIENT_CERT_FILE);
	char *CLEANUP_FREE key = tls_file_path(files, TLS_CLIENT_KEY_FILE);

	if (!cert || !key)
		return -ENOMEM;
	if (credentials->verify && !ca_there)
		return error_set(
			error, -ENOENT,
			"%s: there is no such file; it is needed to verify the server's certificate",
			ca);
	/* Only some servers ask for it. */
	return access(cert, F_OK) < 0 && errno == ENOENT ? 0
							 : load_own(credentials, cert, key, error);
}

static int
load_directory(struct tls_credentials *credentials, const struct tls_files *files, char **error)
{
	char *CLEANUP_FREE ca = tls_file_path(files, TLS_CA_FILE);
	char *CLEANUP_FREE crl = tls_file_path(files, TLS_CRL_FILE);
	int ca_there;

	if (!ca || !crl)
		return -ENOMEM;
	if (access(files->certificates, X_OK) < 0) {
		int r = -errno;

		return error_set(error, r, "%s: %s", files->certificates, strerror(-r));
	}
	ca_there = tls_trust_load(credentials, ca, crl, error);
	if (ca_there < 0)
		return ca_there;
	return (credentials->side == TLS_SERVER ? load_server : load_client)(credentials, files, ca,
									     ca_there, error);
}

static int
load_certificates(struct tls_credentials *credentials, const struct tls_files *files, char **error)
{
	int r = gnutls.certificate_allocate_credentials(&credentials->certificates);

	if (r < 0)
		return -ENOMEM;
	if (files->certificates)
		return load_directory(credentials, files, error);
	r = gnutls.certificate_set_x509_system_trust(credentials->certificates);
	return r < 0 ? tls_explain(error, "the certificate authorities of this system", r) : 0;
}

/* ---- PSK */

static const struct psk_user *
user_of(const struct psk_file *file, const char *name)
{
	if (!name)
		return file->users;
	for (size_t i = 0; i < file->count; i++)
		if (strcmp(file->users[i].name, name) == 0)
			return &file->users[i];
	return NULL;
}

static int
set_client_key(struct tls_credentials *credentials, const struct tls_files *files, char **error)
{
	const struct psk_user *user = user_of(&credentials->users, files->user);
	gnutls_datum_t key;
	int r;

	if (!user)
		return error_set(error, -ENOENT, "%s: no user \"%s\" is in this file", files->psk,
				 files->user);
	if (gnutls.psk_allocate_client_credentials(&credentials->psk_client) < 0)
		return -ENOMEM;
	memcpy(credentials->user, user->name, sizeof(credentials->user));
	key = (gnutls_datum_t){(unsigned char *)user->key, user->key_length};
	r = gnutls.psk_set_client_credentials(credentials->psk_client, user->name, &key,
					      GNUTLS_PSK_KEY_RAW);
	/* GnuTLS has its own copy. */
	psk_file_fini(&credentials->users);
	return r < 0 ? tls_explain(error, files->psk, r) : 0;
}

/* GnuTLS asks for a user's key. If it is told that there is none (1), it goes on with a random key:
 * a client can't tell an unknown user from a wrong key. */
static int
find_key(gnutls_session_t tls, const gnutls_datum_t *name, gnutls_datum_t *key)
{
	struct tls_lookup *lookup = gnutls.session_get_ptr(tls);
	uint8_t *found = malloc(TLS_KEY_MAX);
	size_t length;

	if (!found)
		return -1;
	/* GnuTLS wipes and frees it. */
	*key = (gnutls_datum_t){found, TLS_KEY_MAX};
	if (!psk_file_find(lookup->users, name->data, name->size, found, &length)) {
		/* Without control characters, for the log. */
		length = name->size < TLS_USER_MAX ? name->size : TLS_USER_MAX;
		for (size_t i = 0; i < length; i++)
			lookup->unknown[i] = name->data[i] >= ' ' && name->data[i] < 0x7f
						     ? (char)name->data[i]
						     : '?';
		free(found);
		*key = (gnutls_datum_t){NULL, 0};
		return 1;
	}
	key->size = (unsigned int)length;
	return 0;
}

static int
load_psk(struct tls_credentials *credentials, const struct tls_files *files, char **error)
{
	int r = psk_file_read(&credentials->users, files->psk, error);

	if (r == 0)
		r = tls_cautions_add_secret(&credentials->cautions, files->psk,
					    credentials->users.mode);
	if (r < 0)
		return r;
	if (credentials->side == TLS_CLIENT)
		return set_client_key(credentials, files, error);
	if (gnutls.psk_allocate_server_credentials(&credentials->psk_server) < 0)
		return -ENOMEM;
	gnutls.psk_set_server_credentials_function2(credentials->psk_server, find_key);
	return 0;
}

/* ---- all */

static int
set_priority(struct tls_credentials *credentials, const struct tls_files *files, char **error)
{
	const char *wanted = files->priority && files->priority[0] ? files->priority : TLS_PRIORITY;
	char *CLEANUP_FREE text = NULL;
	const char *at;
	int r;

	if (asprintf(&text, "%s%s:" ALWAYS, wanted, files->psk ? ":" PSK_EXCHANGES : "") < 0) {
		text = NULL;
		return -ENOMEM;
	}
	r = gnutls.priority_init(&credentials->priority, text, &at);
	if (r == GNUTLS_E_INVALID_REQUEST)
		return error_set(error, -EINVAL,
				 "the TLS priority \"%s\" is wrong from \"%.40s\" on", wanted, at);
	return r < 0 ? tls_explain(error, "the TLS priority", r) : 0;
}

int
tls_credentials_load(const struct tls_files *files, struct tls_credentials **loaded, char **error)
{
	struct tls_credentials *credentials;
	int r;

	*error = NULL;
	*loaded = NULL;
	r = gnutls_library_load(error);
	if (r < 0)
		return r;
	credentials = calloc(1, sizeof(*credentials));
	if (!credentials)
		return -ENOMEM;
	atomic_init(&credentials->references, 1);
	credentials->side = files->side;
	credentials->verify = files->side == TLS_CLIENT && files->verify != TLS_VERIFY_OFF;
	r = set_priority(credentials, files, error);
	if (r == 0 && files->side == TLS_CLIENT && files->certificates && files->psk)
		r = error_set(error, -EINVAL,
			      "a client proves itself by certificates or by a key, not by both");
	if (r == 0 && files->psk)
		r = load_psk(credentials, files, error);
	if (r == 0 && (files->certificates || (files->side == TLS_CLIENT && !files->psk)))
		r = load_certificates(credentials, files, error);
	if (r < 0)
		tls_credentials_unref(credentials);
	else
		*loaded = credentials;
	return r;
}

struct tls_credentials *
tls_credentials_ref(struct tls_credentials *credentials)
{
	atomic_fetch_add_explicit(&credentials->references, 1, memory_order_relaxed);
	return credentials;
}

void
tls_credentials_unref(struct tls_credentials *credentials)
{
	if (!credentials ||
	    atomic_fetch_sub_explicit(&credentials->references, 1, memory_order_acq_rel) > 1)
		return;
	if (credentials->certificates)
		gnutls.certificate_free_credentials(credentials->certificates);
	if (credentials->psk_server)
		gnutls.psk_free_server_credentials(credentials->psk_server);
	if (credentials->psk_client)
		gnutls.psk_free_client_credentials(credentials->psk_client);
	if (credentials->priority)
		gnutls.priority_deinit(credentials->priority);
	psk_file_fini(&credentials->users);
	tls_cautions_fini(&credentials->cautions);
	free(credentials);
}

time_t
tls_credentials_warn(const struct tls_credentials *credentials, time_t since, time_t now)
{
	return tls_cautions_log(&credentials->cautions, since, now);
}

bool
tls_credentials_verify(const struct tls_credentials *credentials)
{
	return credentials->verify;
}

bool
tls_credentials_revoke(const struct tls_credentials *credentials)
{
	return credentials->revoke;
}
