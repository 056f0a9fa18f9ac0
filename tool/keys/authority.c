/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/keys/authority.h"

#include "tool/failure.h"
#include "tool/keys/new_files.h"

#include "common/cleanup.h"
#include "common/log.h"
#include "common/secret_file.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

enum {
	AUTHORITY_DAYS = 3650,
	/* A client whose clock is slow would refuse a certificate of this moment. */
	EARLIER_SECONDS = 3600,
	SERIAL_SIZE = 16,
	/* ub-common-name of RFC 5280, in bytes here. */
	NAME_MAX_BYTES = 64,
};

static bool
is_good(int r, GError **error)
{
	return r >= 0 || failure(error, EIO, "a certificate can't be made: %s", gnutls.strerror(r));
}

static bool
load_library(GError **error)
{
	char *CLEANUP_FREE why = NULL;

	return gnutls_library_load(&why) == 0 || failure(error, ENOTSUP, "%s", why ?: "no memory");
}

/* ---- a key and a certificate that no one has signed yet */

static bool
make_key(gnutls_x509_privkey_t *key, GError **error)
{
	const unsigned int bits = GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1);

	return is_good(gnutls.x509_privkey_init(key), error) &&
	       is_good(gnutls.x509_privkey_generate(*key, GNUTLS_PK_ECDSA, bits, 0), error);
}

static bool
set_serial(gnutls_x509_crt_t certificate, GError **error)
{
	unsigned char serial[SERIAL_SIZE];

	if (!is_good(gnutls.rnd(GNUTLS_RND_NONCE, serial, sizeof(serial)), error))
		return false;
	/* It is a positive number. */
	serial[0] = (unsigned char)((serial[0] & 0x7f) | 0x40);
	return is_good(gnutls.x509_crt_set_serial(certificate, serial, sizeof(serial)), error);
}

static bool
set_key(gnutls_x509_crt_t certificate, gnutls_x509_privkey_t key, GError **error)
{
	unsigned char id[64];
	size_t size = sizeof(id);

	return is_good(gnutls.x509_crt_set_key(certificate, key), error) &&
	       is_good(gnutls.x509_crt_get_key_id(certificate, 0, id, &size), error) &&
	       is_good(gnutls.x509_crt_set_subject_key_id(certificate, id, size), error);
}

/* What certificates of all kinds have.  `end`: of its validity. */
static bool
begin_certificate(gnutls_x509_crt_t *certificate, gnutls_x509_privkey_t key, const char *name,
		  time_t end, GError **error)
{
	return is_good(gnutls.x509_crt_init(certificate), error) &&
	       is_good(gnutls.x509_crt_set_version(*certificate, 3), error) &&
	       set_serial(*certificate, error) &&
	       is_good(gnutls.x509_crt_set_activation_time(*certificate,
							   time(NULL) - EARLIER_SECONDS),
		       error) &&
	       is_good(gnutls.x509_crt_set_expiration_time(*certificate, end), error) &&
	       is_good(gnutls.x509_crt_set_dn_by_oid(*certificate, GNUTLS_OID_X520_COMMON_NAME, 0,
						     name, (unsigned int)strlen(name)),
		       error) &&
	       set_key(*certificate, key, error);
}

/* ---- PEM */

static char *
take_text(gnutls_datum_t *text)
{
	char *taken = g_strndup((const char *)text->data, text->size);

	gnutls.memset(text->data, 0, text->size);
	free(text->data);
	return taken;
}

static char *
certificate_text(gnutls_x509_crt_t certificate, GError **error)
{
	gnutls_datum_t text;

	return is_good(gnutls.x509_crt_export2(certificate, GNUTLS_X509_FMT_PEM, &text), error)
		       ? take_text(&text)
		       : NULL;
}

static bool
make_pem(gnutls_x509_crt_t certificate, gnutls_x509_privkey_t key, struct certificate_pem *pem,
	 GError **error)
{
	gnutls_datum_t text;
	char *SECRET_CLEANUP key_text = NULL;

	if (!is_good(gnutls.x509_privkey_export2_pkcs8(key, GNUTLS_X509_FMT_PEM, NULL,
						       GNUTLS_PKCS_PLAIN, &text),
		     error))
		return false;
	key_text = take_text(&text);
	pem->certificate = certificate_text(certificate, error);
	pem->key = pem->certificate ? g_steal_pointer(&key_text) : NULL;
	return pem->key != NULL;
}

/* ---- the authority */

bool
authority_make(struct authority *authority, struct certificate_pem *pem, GError **error)
{
	/* Some programs tell CAs apart by their names. */
	g_autofree char *name = g_strdup_printf("nbdloop CA %08x", g_random_int());
	const time_t end = time(NULL) + AUTHORITY_DAYS * (time_t)86400;

	*authority = (struct authority){.key = NULL};
	return load_library(error) && make_key(&authority->key, error) &&
	       begin_certificate(&authority->certificate, authority->key, name, end, error) &&
	       /* No CAs below it. */
	       is_good(gnutls.x509_crt_set_basic_constraints(authority->certificate, 1, 0),
		       error) &&
	       is_good(gnutls.x509_crt_set_key_usage(authority->certificate,
						     GNUTLS_KEY_KEY_CERT_SIGN |
							     GNUTLS_KEY_CRL_SIGN),
		       error) &&
	       is_good(gnutls.x509_crt_sign2(authority->certificate, authority->certificate,
					     authority->key, GNUTLS_DIG_SHA256, 0),
		       error) &&
	       make_pem(authority->certificate, authority->key, pem, error);
}

static bool
read_text(const char *path, struct secret_file *file, gnutls_datum_t *text, GError **error)
{
	char *CLEANUP_FREE why = NULL;
	const int r = secret_file_read(file, path, &why);

	if (r < 0)
		return failure(error, -r, "%s", why ? why : g_strerror(-r));
	*text = (gnutls_datum_t){(unsigned char *)file->bytes, (unsigned int)file->length};
	return true;
}

static bool
load_certificate(gnutls_x509_crt_t *certificate, const char *path, GError **error)
{
	struct secret_file SECRET_FILE_CLEANUP file = {0};
	gnutls_datum_t text;
	int r = gnutls.x509_crt_init(certificate);

	if (r < 0 || !read_text(path, &file, &text, error))
		return is_good(r, error) && false;
	r = gnutls.x509_crt_import(*certificate, &text, GNUTLS_X509_FMT_PEM);
	return r >= 0 ||
	       failure(error, EINVAL, "%s is no certificate: %s", path, gnutls.strerror(r));
}

static bool
load_key(gnutls_x509_privkey_t *key, const char *path, GError **error)
{
	struct secret_file SECRET_FILE_CLEANUP file = {0};
	gnutls_datum_t text;
	int r = gnutls.x509_privkey_init(key);

	if (r < 0 || !read_text(path, &file, &text, error))
		return is_good(r, error) && false;
	if (SECRET_FILE_IS_OPEN(file.mode))
		log_warning("%s: " SECRET_FILE_OPEN, path, (unsigned int)file.mode, path);
	r = gnutls.x509_privkey_import2(*key, &text, GNUTLS_X509_FMT_PEM, NULL, 0);
	return r >= 0 ||
	       failure(error, EINVAL, "%s is no private key: %s", path, gnutls.strerror(r));
}

/* Whether the certificate has the public half of the key. */
static bool
fits(const struct authority *authority)
{
	unsigned char one[64], other[64];
	size_t size = sizeof(one), other_size = sizeof(other);

	return gnutls.x509_crt_get_key_id(authority->certificate, 0, one, &size) >= 0 &&
	       gnutls.x509_privkey_get_key_id(authority->key, 0, other, &other_size) >= 0 &&
	       size == other_size && memcmp(one, other, size) == 0;
}

bool
authority_load(struct authority *authority, const char *certificate_path, const char *key_path,
	       GError **error)
{
	*authority = (struct authority){.key = NULL};
	if (!load_library(error) ||
	    !load_certificate(&authority->certificate, certificate_path, error) ||
	    !load_key(&authority->key, key_path, error))
		return false;
	if (!fits(authority))
		return failure(error, EINVAL, "%s is not the key of %s", key_path,
			       certificate_path);
	return gnutls.x509_crt_get_expiration_time(authority->certificate) > time(NULL) ||
	       failure(error, EINVAL,
		       "%s has expired: make another CA, and new certificates, in an empty directory",
		       certificate_path);
}

char *
authority_certificate(const struct authority *authority, GError **error)
{
	return certificate_text(authority->certificate, error);
}

void
authority_fini(struct authority *authority)
{
	if (authority->certificate)
		gnutls.x509_crt_deinit(authority->certificate);
	if (authority->key)
		gnutls.x509_privkey_deinit(authority->key);
	*authority = (struct authority){.key = NULL};
}

/* ---- what it issues */

/* The end of the validity; 0: *error is set. */
static time_t
find_end(const struct authority *authority, unsigned int days, GError **error)
{
	const time_t own = gnutls.x509_crt_get_expiration_time(authority->certificate);
	const time_t end = time(NULL) + days * (time_t)86400;

	if (days == 0 || end <= own)
		return days == 0 ? own : end;
	failure(error, EINVAL, "--days=%u: the CA itself is valid for %lld more days", days,
		(long long)(own - time(NULL)) / 86400);
	return 0;
}

static bool
add_name(gnutls_x509_crt_t certificate, const char *name, GError **error)
{
	unsigned char address[16];
	gnutls_x509_subject_alt_name_t type = GNUTLS_SAN_IPADDRESS;
	const void *value = address;
	unsigned int length;

	if (inet_pton(AF_INET, name, address) == 1) {
		length = 4;
	} else if (inet_pton(AF_INET6, name, address) == 1) {
		length = 16;
	} else {
		type = GNUTLS_SAN_DNSNAME;
		value = name;
		length = (unsigned int)strlen(name);
	}
	return is_good(gnutls.x509_crt_set_subject_alt_name(certificate, type, value, length,
							    GNUTLS_FSAN_APPEND),
		       error);
}

/* Signs a certificate for one purpose. */
static bool
sign(const struct authority *authority, gnutls_x509_crt_t certificate, const char *purpose,
     GError **error)
{
	unsigned char id[64];
	size_t size = sizeof(id);

	return is_good(gnutls.x509_crt_set_basic_constraints(certificate, 0, -1), error) &&
	       is_good(gnutls.x509_crt_set_key_usage(certificate, GNUTLS_KEY_DIGITAL_SIGNATURE),
		       error) &&
	       is_good(gnutls.x509_crt_set_key_purpose_oid(certificate, purpose, 0), error) &&
	       is_good(gnutls.x509_crt_get_key_id(authority->certificate, 0, id, &size), error) &&
	       is_good(gnutls.x509_crt_set_authority_key_id(certificate, id, size), error) &&
	       is_good(gnutls.x509_crt_sign2(certificate, authority->certificate, authority->key,
					     GNUTLS_DIG_SHA256, 0),
		       error);
}

/* `names`: of a server; NULL: it is a client. */
static bool
issue(const struct authority *authority, const char *name, char *const *names, unsigned int days,
      struct certificate_pem *pem, GError **error)
{
	const time_t end = find_end(authority, days, error);
	gnutls_x509_crt_t certificate = NULL;
	gnutls_x509_privkey_t key = NULL;
	bool good = end && make_key(&key, error) &&
		    begin_certificate(&certificate, key, name, end, error);

	for (char *const *one = names; good && one && *one; one++)
		good = add_name(certificate, *one, error);
	good = good &&
	       sign(authority, certificate,
		    names ? GNUTLS_KP_TLS_WWW_SERVER : GNUTLS_KP_TLS_WWW_CLIENT, error) &&
	       make_pem(certificate, key, pem, error);
	if (certificate)
		gnutls.x509_crt_deinit(certificate);
	if (key)
		gnutls.x509_privkey_deinit(key);
	return good;
}

bool
authority_issue_server(const struct authority *authority, char *const *names, unsigned int days,
		       struct certificate_pem *pem, GError **error)
{
	/* Clients look at the names in the extension only. */
	return issue(authority, strlen(names[0]) <= NAME_MAX_BYTES ? names[0] : "server", names,
		     days, pem, error);
}

bool
authority_issue_client(const struct authority *authority, const char *name, unsigned int days,
		       struct certificate_pem *pem, GError **error)
{
	return issue(authority, name, NULL, days, pem, error);
}
