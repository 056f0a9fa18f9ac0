/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which files one side of TLS reads. They have the names and forms that qemu and nbdkit gave them.
 */
#ifndef NBD_TLS_FILES_H
#define NBD_TLS_FILES_H

/* Files of a directory with certificates, all in PEM. */
#define TLS_CA_FILE          "ca-cert.pem"
#define TLS_CRL_FILE         "ca-crl.pem"
#define TLS_SERVER_CERT_FILE "server-cert.pem"
#define TLS_SERVER_KEY_FILE  "server-key.pem"
#define TLS_CLIENT_CERT_FILE "client-cert.pem"
#define TLS_CLIENT_KEY_FILE  "client-key.pem"

/*
 * The usual protocols and ciphers, as GnuTLS writes them. The server chooses: AES-128-GCM first,
 * the fastest where processors have instructions for AES; GnuTLS alone would take ChaCha20 with
 * keys (PSK), at an eighth of that speed. Whatever a user writes instead, there is no protocol
 * before TLS 1.2, and there are no session tickets.
 */
#define TLS_PRIORITY                                                                               \
	"NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-CIPHER-ALL:+AES-128-GCM:+AES-256-GCM:"        \
	"+CHACHA20-POLY1305:%SERVER_PRECEDENCE"

enum tls_side {
	TLS_SERVER,
	TLS_CLIENT,
};

/* Whether the other side's certificate is checked. */
enum tls_verify {
	TLS_VERIFY_AUTO, /* the server does if it has ca-cert.pem, the client does */
	TLS_VERIFY_OFF,
	TLS_VERIFY_ON, /* the server must have ca-cert.pem */
};

/* Which files to read. A server may have certificates and keys, a client has one of them or, with
 * neither, trusts the CAs of its system. */
struct tls_files {
	enum tls_side side;
	const char *certificates; /* a directory, or NULL */
	const char *psk;          /* a file with lines USER:HEXKEY, or NULL */
	const char *user;         /* the client's, in that file; NULL: its first */
	const char *priority;     /* NULL: TLS_PRIORITY */
	enum tls_verify verify;
};

#endif
