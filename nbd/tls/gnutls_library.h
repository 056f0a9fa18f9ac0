/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * GnuTLS, which is loaded when TLS or keys are first needed: it brings ten more libraries, which
 * would more than double the time that a program without TLS takes to start, and be locked into the
 * memory of a server of swap space. Its functions are called as gnutls.init(...).
 *
 * What GnuTLS has allocated is freed by free().
 */
#ifndef NBD_TLS_GNUTLS_LIBRARY_H
#define NBD_TLS_GNUTLS_LIBRARY_H

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

/* Those that are called. Each is of GnuTLS 3.7 or older. */
#define GNUTLS_FUNCTIONS(F)                                                                        \
	F(alert_get)                                                                               \
	F(alert_get_name)                                                                          \
	F(alert_send_appropriate)                                                                  \
	F(auth_get_type)                                                                           \
	F(bye)                                                                                     \
	F(certificate_allocate_credentials)                                                        \
	F(certificate_free_credentials)                                                            \
	F(certificate_get_peers)                                                                   \
	F(certificate_server_set_request)                                                          \
	F(certificate_set_x509_crl_mem)                                                            \
	F(certificate_set_x509_key_mem2)                                                           \
	F(certificate_set_x509_system_trust)                                                       \
	F(certificate_set_x509_trust_mem)                                                          \
	F(certificate_verification_status_print)                                                   \
	F(cipher_get)                                                                              \
	F(cipher_get_name)                                                                         \
	F(credentials_set)                                                                         \
	F(deinit)                                                                                  \
	F(handshake)                                                                               \
	F(handshake_set_timeout)                                                                   \
	F(init)                                                                                    \
	F(priority_deinit)                                                                         \
	F(priority_init)                                                                           \
	F(priority_set)                                                                            \
	F(protocol_get_name)                                                                       \
	F(protocol_get_version)                                                                    \
	F(psk_allocate_client_credentials)                                                         \
	F(psk_allocate_server_credentials)                                                         \
	F(psk_free_client_credentials)                                                             \
	F(psk_free_server_credentials)                                                             \
	F(psk_server_get_username)                                                                 \
	F(psk_set_client_credentials)                                                              \
	F(psk_set_server_credentials_function2)                                                    \
	F(record_check_pending)                                                                    \
	F(record_get_state)                                                                        \
	F(record_recv)                                                                             \
	F(record_send)                                                                             \
	F(server_name_set)                                                                         \
	F(session_get_ptr)                                                                         \
	F(session_get_verify_cert_status)                                                          \
	F(session_set_ptr)                                                                         \
	F(session_set_verify_cert2)                                                                \
	F(strerror)                                                                                \
	F(transport_set_errno)                                                                     \
	F(transport_set_ptr)                                                                       \
	F(transport_set_pull_function)                                                             \
	F(transport_set_pull_timeout_function)                                                     \
	F(transport_set_push_function)                                                             \
	F(x509_crl_check_issuer)                                                                   \
	F(x509_crl_deinit)                                                                         \
	F(x509_crl_get_issuer_dn2)                                                                 \
	F(x509_crl_get_next_update)                                                                \
	F(x509_crl_get_this_update)                                                                \
	F(x509_crl_list_import2)                                                                   \
	F(x509_crl_verify)                                                                         \
	F(x509_crt_deinit)                                                                         \
	F(x509_crt_get_activation_time)                                                            \
	F(x509_crt_get_dn2)                                                                        \
	F(x509_crt_get_dn_by_oid)                                                                  \
	F(x509_crt_get_expiration_time)                                                            \
	F(x509_crt_get_subject_alt_name)                                                           \
	F(x509_crt_import)                                                                         \
	F(x509_crt_init)                                                                           \
	F(x509_crt_list_import)                                                                    \
	F(x509_crt_list_import2)

struct gnutls_functions {
#define GNUTLS_MEMBER(name) __typeof__(gnutls_##name) *name;
	GNUTLS_FUNCTIONS(GNUTLS_MEMBER)
#undef GNUTLS_MEMBER
};

/* Not to be used before gnutls_library_load() has returned 0. */
extern struct gnutls_functions gnutls;

/* Loads the library, if that was not done yet; any thread may call it. Returns 0, or -ENOTSUP with
 * an error text. */
int
gnutls_library_load(char **error);

#endif
