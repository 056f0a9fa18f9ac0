/* SPDX-License-Identifier: BSD-3-Clause */
#include "nbd/tls/ktls.h"

#include "nbd/tls/session.h"
#include "nbd/tls/session_state.h"

#include "common/cleanup.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <linux/tls.h>

#ifndef SOL_TLS
#define SOL_TLS 282
#endif

#define ULP "tls"

/* A record's type (RFC 8446, section 5.1). */
#define ALERT 21

/* RFC 8446, section 5.5: 2^24.5 full records with AES-GCM. */
#define GCM_RECORDS (UINT64_C(1) << 24)

/* The keys of one direction, as the kernel wants them. */
union keys {
	struct tls_crypto_info info;
	struct tls12_crypto_info_aes_gcm_128 aes_128;
	struct tls12_crypto_info_aes_gcm_256 aes_256;
	struct tls12_crypto_info_chacha20_poly1305 chacha;
};

static int
ktls_cannot(char reason[KTLS_REASON_MAX], const char *why)
{
	snprintf(reason, KTLS_REASON_MAX, "%s", why);
	return 1;
}

/* AES-GCM: the kernel wants the first 4 bytes of the nonce as a salt. TLS 1.3's nonce has 12 bytes;
 * TLS 1.2 has only the salt, and each record tells the rest, for which the record's number is
 * taken. */
static bool
split_nonce(const gnutls_datum_t *iv, bool is_13, const unsigned char number[8],
	    unsigned char salt[4], unsigned char rest[8])
{
	if (iv->size < (is_13 ? 12 : 4))
		return false;
	memcpy(salt, iv->data, 4);
	memcpy(rest, is_13 ? iv->data + 4 : number, 8);
	return true;
}

/* The length of the structure; 0: not a cipher of the kernel's. */
static socklen_t
ktls_fill_keys(const struct tls_session *session, const gnutls_datum_t *iv,
	       const gnutls_datum_t *key, const unsigned char number[8], union keys *keys)
{
	bool is_13 = gnutls.protocol_get_version(session->tls) == GNUTLS_TLS1_3;
	unsigned short version = is_13 ? TLS_1_3_VERSION : TLS_1_2_VERSION;

	switch (gnutls.cipher_get(session->tls)) {
	case GNUTLS_CIPHER_AES_128_GCM:
		keys->aes_128 = (struct tls12_crypto_info_aes_gcm_128){
			.info = {.version = version, .cipher_type = TLS_CIPHER_AES_GCM_128}};
		if (key->size != sizeof(keys->aes_128.key) ||
		    !split_nonce(iv, is_13, number, keys->aes_128.salt, keys->aes_128.iv))
			return 0;
		memcpy(keys->aes_128.key, key->data, key->size);
		memcpy(keys->aes_128.rec_seq, number, 8);
		return sizeof(keys->aes_128);
	case GNUTLS_CIPHER_AES_256_GCM:
		keys->aes_256 = (struct tls12_crypto_info_aes_gcm_256){
			.info = {.version = version, .cipher_type = TLS_CIPHER_AES_GCM_256}};
		if (key->size != sizeof(keys->aes_256.key) ||
		    !split_nonce(iv, is_13, number, keys->aes_256.salt, keys->aes_256.iv))
			return 0;
		memcpy(keys->aes_256.key, key->data, key->size);
		memcpy(keys->aes_256.rec_seq, number, 8);
		return sizeof(keys->aes_256);
	case GNUTLS_CIPHER_CHACHA20_POLY1305:
		keys->chacha = (struct tls12_crypto_info_chacha20_poly1305){
			.info = {.version = version, .cipher_type = TLS_CIPHER_CHACHA20_POLY1305}};
		if (key->size != sizeof(keys->chacha.key) || iv->size != sizeof(keys->chacha.iv))
			return 0;
		memcpy(keys->chacha.key, key->data, key->size);
		memcpy(keys->chacha.iv, iv->data, iv->size);
		memcpy(keys->chacha.rec_seq, number, 8);
		return sizeof(keys->chacha);
	default: return 0;
	}
}

/* The kernel's keys of one direction. Returns the length of the structure, or 0. */
static socklen_t
keys_of(const struct tls_session *session, bool reads, union keys *keys)
{
	unsigned char number[8];
	gnutls_datum_t mac, iv, key;

	if (gnutls.record_get_state(session->tls, reads, &mac, &iv, &key, number) < 0)
		return 0;
	return ktls_fill_keys(session, &iv, &key, number, keys);
}

static const char *
why_no_ulp(int err)
{
	switch (err) {
	case ENOENT: return "the kernel has no tls module";
	case ENOTCONN: return "the connection is over";
	default: return "the kernel's tls can't be used on this socket";
	}
}

/* Sets the keys of both directions. The kernel's sending side comes first: if it refuses the
 * cipher, the socket is as it was. */
static int
set_keys(const struct tls_session *session, int fd, char reason[KTLS_REASON_MAX])
{
	union keys sends, receives;
	socklen_t sends_length = keys_of(session, false, &sends);
	socklen_t receives_length = keys_of(session, true, &receives);
	int r = 0;

	if (!sends_length || !receives_length)
		r = ktls_cannot(reason, "the kernel has not this cipher");
	else if (setsockopt(fd, SOL_TLS, TLS_TX, &sends, sends_length) < 0)
		r = ktls_cannot(reason, "the kernel refuses this cipher or version");
	else if (setsockopt(fd, SOL_TLS, TLS_RX, &receives, receives_length) < 0)
		r = -errno;
	explicit_bzero(&sends, sizeof(sends));
	explicit_bzero(&receives, sizeof(receives));
	return r;
}

int
ktls_begin(struct tls_session *session, int fd, char reason[KTLS_REASON_MAX])
{
	socklen_t length = sizeof(int);
	int protocol;

	assert(tls_session_at_record(session) && !tls_session_has_data(session));
	if (getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &length) < 0 ||
	    protocol != IPPROTO_TCP)
		return ktls_cannot(reason, "not a TCP socket");
	/* Without keys, a socket with TLS goes on as before. */
	if (setsockopt(fd, IPPROTO_TCP, TCP_ULP, ULP, sizeof(ULP)) < 0)
		return ktls_cannot(reason, why_no_ulp(errno));
	return set_keys(session, fd, reason);
}

void
ktls_close(int fd)
{
	/* RFC 8446, section 6: a warning, close_notify. */
	uint8_t alert[] = {1, 0};
	struct iovec part = {alert, sizeof(alert)};
	union {
		struct cmsghdr header;
		uint8_t bytes[CMSG_SPACE(sizeof(uint8_t))];
	} control = {{.cmsg_level = SOL_TLS,
		      .cmsg_type = TLS_SET_RECORD_TYPE,
		      .cmsg_len = CMSG_LEN(sizeof(uint8_t))}};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control.bytes)};

	*CMSG_DATA(&control.header) = ALERT;
	sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

uint64_t
ktls_record_limit(const struct tls_session *session)
{
	bool is_gcm = gnutls.cipher_get(session->tls) != GNUTLS_CIPHER_CHACHA20_POLY1305;

	return is_gcm ? GCM_RECORDS : 0;
}

bool
ktls_keys_change(const struct tls_session *session)
{
	return ktls_record_limit(session) &&
	       gnutls.protocol_get_version(session->tls) == GNUTLS_TLS1_3;
}

int
ktls_missing(char reason[KTLS_REASON_MAX])
{
	int CLEANUP_CLOSE fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return ktls_cannot(reason, "no TCP socket can be made");
	/* A socket that is not connected is refused only after the module was found. */
	if (setsockopt(fd, IPPROTO_TCP, TCP_ULP, ULP, sizeof(ULP)) == 0 || errno == ENOTCONN)
		return 0;
	return ktls_cannot(reason, why_no_ulp(errno));
}
