/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel's TLS (kTLS): takes over the records of a session whose handshake has ended, so that
 * plain reads and writes on its socket are encrypted.
 */
#ifndef NBD_TLS_KTLS_H
#define NBD_TLS_KTLS_H

#include "nbd/tls/session.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* Size of the text that says why the kernel can't, with its NUL. */
#define KTLS_REASON_MAX 128

/*
 * Gives the keys of the session to the kernel. Before, all output must have been sent, and the
 * session must have taken all bytes that were received, and stand at a record
 * (tls_session_at_record()) without data (tls_session_has_data()).
 *
 * Returns 0: the session can only be freed. 1: not possible, `reason` says why, and the session
 * goes on. -errno: the socket can't be used any more.
 *
 * From then on, a record that is no data (an alert, a key update) makes receives fail with EIO, and
 * ends the connection. No MSG_WAITALL. With AES-GCM, the connection must end before
 * ktls_record_limit() records in either direction.
 */
int
ktls_begin(struct tls_session *session, int fd, char reason[KTLS_REASON_MAX]);

/* Tells the peer that no more data follows, as tls_session_close() does; not if the socket has no
 * room, as it never waits. */
void
ktls_close(int fd);

/* Most records that may be sent or received with the session's cipher, which is not proven to be
 * safe beyond; 0: no limit. GnuTLS changes its keys in time, the kernel does not. */
uint64_t
ktls_record_limit(const struct tls_session *session);

/* The bytes of as many full records; 0 for 0. For tests, which would need days for so many,
 * $NBDLOOP_TLS_BYTES takes their place. */
static inline uint64_t
ktls_bytes(uint64_t records)
{
	const char *text = getenv("NBDLOOP_TLS_BYTES");

	return records && text ? strtoull(text, NULL, 10) : records * TLS_RECORD_DATA;
}

/* Returns whether a peer on GnuTLS will change the keys after that many records, which ends a
 * session of the kernel's: with AES-GCM and TLS 1.3. */
bool
ktls_keys_change(const struct tls_session *session);

/* 0: this kernel has TLS, or has just loaded its module. 1: it has not; `reason` says why. */
int
ktls_missing(char reason[KTLS_REASON_MAX]);

#endif
