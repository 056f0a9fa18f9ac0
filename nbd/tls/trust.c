/* SPDX-License-Identifier: BSD-3-Clause */
#include "nbd/tls/trust.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "common/secret_file.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* When a list is valid that doesn't say until when. */
#define FOR_EVER ((time_t)(sizeof(time_t) > 4 ? INT64_C(1) << 60 : INT32_MAX - 1))

/* By which a list is of another authority.  Its dates are no reason to refuse it; nor are weak
 * algorithms, or a certificate that doesn't say that its key signs lists, which GnuTLS overlooks,
 * too. */
#define WRONG (GNUTLS_CERT_SIGNER_NOT_FOUND | GNUTLS_CERT_SIGNATURE_FAILURE)

struct authorities {
	gnutls_x509_crt_t *all;
	unsigned int count;
};

int
tls_explain(char **error, const char *path, int code)
{
	if (code == GNUTLS_E_MEMORY_ERROR)
		return -ENOMEM;
	return error_set(error, -EINVAL, "%s: %s", path, gnutls.strerror(code));
}

typedef int
load_pem(gnutls_certificate_credentials_t, const gnutls_datum_t *, gnutls_x509_crt_fmt_t);

/* Loads a file that may be missing.  1: it was loaded; 0: there is none; -errno. */
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
		return error_set(error, -EINVAL, "%s: nothing that is of use is in this file",
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

/* Whether one of the authorities has signed the list; else *wrong has bits of what is wrong with
 * one that has its name, if there is one.  Two may have the same name. */
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

int
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
