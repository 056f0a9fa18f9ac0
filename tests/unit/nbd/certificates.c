/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/nbd/certificates.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define DAY 86400

/* Stops the process if r is an error. */
static void
must(int r)
{
	if (r >= 0)
		return;
	fprintf(stderr, "making certificates: %s\n", gnutls_strerror(r));
	abort();
}

static void
make_key(gnutls_x509_privkey_t *key)
{
	must(gnutls_x509_privkey_init(key));
	must(gnutls_x509_privkey_generate(*key, GNUTLS_PK_ECDSA,
					  GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0));
}

static void
begin(gnutls_x509_crt_t *certificate, gnutls_x509_privkey_t key, const char *name,
      unsigned int number, int from, int until)
{
	unsigned char serial[4] = {0, 0, 0, (unsigned char)number};

	must(gnutls_x509_crt_init(certificate));
	must(gnutls_x509_crt_set_version(*certificate, 3));
	must(gnutls_x509_crt_set_key(*certificate, key));
	must(gnutls_x509_crt_set_serial(*certificate, serial, sizeof(serial)));
	must(gnutls_x509_crt_set_dn_by_oid(*certificate, GNUTLS_OID_X520_COMMON_NAME, 0, name,
					   (unsigned int)strlen(name)));
	must(gnutls_x509_crt_set_activation_time(*certificate, time(NULL) + (time_t)from * DAY));
	must(gnutls_x509_crt_set_expiration_time(*certificate, time(NULL) + (time_t)until * DAY));
}

void
authority_init(struct authority *authority)
{
	authority_init_named(authority, "An authority", -30, 30);
}

void
authority_init_named(struct authority *authority, const char *name, int from, int until)
{
	*authority = (struct authority){0};
	make_key(&authority->key);
	begin(&authority->certificate, authority->key, name, 100, from, until);
	must(gnutls_x509_crt_set_ca_status(authority->certificate, 1));
	must(gnutls_x509_crt_set_key_usage(authority->certificate,
					   GNUTLS_KEY_KEY_CERT_SIGN | GNUTLS_KEY_CRL_SIGN));
	must(gnutls_x509_crt_sign2(authority->certificate, authority->certificate, authority->key,
				   GNUTLS_DIG_SHA256, 0));
}

void
authority_fini(struct authority *authority)
{
	gnutls_x509_crt_deinit(authority->certificate);
	gnutls_x509_privkey_deinit(authority->key);
}

void
certificates_write(const char *directory, const char *name, const void *text, size_t length)
{
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	file = fopen(path, "w");
	/* It may be a key. */
	if (!file || fchmod(fileno(file), 0600) < 0 || fwrite(text, 1, length, file) != length ||
	    fclose(file) != 0) {
		perror(path);
		abort();
	}
}

static void
write_certificate(gnutls_x509_crt_t certificate, const char *directory, const char *name)
{
	gnutls_datum_t pem;

	must(gnutls_x509_crt_export2(certificate, GNUTLS_X509_FMT_PEM, &pem));
	certificates_write(directory, name, pem.data, pem.size);
	gnutls_free(pem.data);
}

void
authority_write(const struct authority *authority, const char *directory)
{
	write_certificate(authority->certificate, directory, TLS_CA_FILE);
}

void
authority_issue(struct authority *authority, const char *directory, enum tls_side side,
		const char *name, int from, int until)
{
	bool server = side == TLS_SERVER;
	gnutls_x509_privkey_t key;
	gnutls_x509_crt_t certificate;
	gnutls_datum_t pem;

	make_key(&key);
	begin(&certificate, key, name, ++authority->issued, from, until);
	if (authority->second)
		must(gnutls_x509_crt_set_dn_by_oid(certificate, GNUTLS_OID_X520_COMMON_NAME, 0,
						   authority->second,
						   (unsigned int)strlen(authority->second)));
	must(gnutls_x509_crt_set_key_purpose_oid(
		certificate, server ? GNUTLS_KP_TLS_WWW_SERVER : GNUTLS_KP_TLS_WWW_CLIENT, 0));
	must(gnutls_x509_crt_set_key_usage(certificate, GNUTLS_KEY_DIGITAL_SIGNATURE));
	must(gnutls_x509_crt_set_subject_alt_name(certificate, GNUTLS_SAN_DNSNAME, name,
						  (unsigned int)strlen(name), GNUTLS_FSAN_SET));
	must(gnutls_x509_crt_set_subject_alt_name(certificate, GNUTLS_SAN_IPADDRESS,
						  "\x7f\x00\x00\x01", 4, GNUTLS_FSAN_APPEND));
	must(gnutls_x509_crt_sign2(certificate, authority->certificate, authority->key,
				   GNUTLS_DIG_SHA256, 0));
	write_certificate(certificate, directory,
			  server ? TLS_SERVER_CERT_FILE : TLS_CLIENT_CERT_FILE);
	must(gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &pem));
	certificates_write(directory, server ? TLS_SERVER_KEY_FILE : TLS_CLIENT_KEY_FILE, pem.data,
			   pem.size);
	gnutls_free(pem.data);
	gnutls_x509_crt_deinit(certificate);
	gnutls_x509_privkey_deinit(key);
}

void
authority_revoke(const struct authority *authority, const char *directory, unsigned int number,
		 int from, int until)
{
	unsigned char serial[4] = {0, 0, 0, (unsigned char)number};
	gnutls_x509_crl_t list;
	gnutls_datum_t pem;

	must(gnutls_x509_crl_init(&list));
	must(gnutls_x509_crl_set_version(list, 2));
	must(gnutls_x509_crl_set_this_update(list, time(NULL) + (time_t)from * DAY));
	if (until)
		must(gnutls_x509_crl_set_next_update(list, time(NULL) + (time_t)until * DAY));
	must(gnutls_x509_crl_set_number(list, "\x01", 1));
	must(gnutls_x509_crl_set_crt_serial(list, serial, sizeof(serial), time(NULL) - DAY));
	must(gnutls_x509_crl_sign2(list, authority->certificate, authority->key, GNUTLS_DIG_SHA256,
				   0));
	must(gnutls_x509_crl_export2(list, GNUTLS_X509_FMT_PEM, &pem));
	certificates_write(directory, TLS_CRL_FILE, pem.data, pem.size);
	gnutls_free(pem.data);
	gnutls_x509_crl_deinit(list);
}

/* What openssl writes by default; its content doesn't matter. */
static const char old_form[] = "-----BEGIN EC PRIVATE KEY-----\n"
			       "Proc-Type: 4,ENCRYPTED\n"
			       "DEK-Info: AES-256-CBC,00\n\nAAAA\n"
			       "-----END EC PRIVATE KEY-----\n";

void
certificates_write_secret_key(const char *directory, const char *name, bool old)
{
	gnutls_x509_privkey_t key;
	gnutls_datum_t pem;

	if (old) {
		certificates_write(directory, name, old_form, strlen(old_form));
		return;
	}
	make_key(&key);
	must(gnutls_x509_privkey_export2_pkcs8(key, GNUTLS_X509_FMT_PEM, "password",
					       GNUTLS_PKCS_PBES2_AES_128, &pem));
	certificates_write(directory, name, pem.data, pem.size);
	gnutls_free(pem.data);
	gnutls_x509_privkey_deinit(key);
}
