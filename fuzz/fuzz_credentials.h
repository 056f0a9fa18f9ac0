/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Credentials of both sides, for the TLS fuzzer.
 */
#ifndef FUZZ_FUZZ_CREDENTIALS_H
#define FUZZ_FUZZ_CREDENTIALS_H

#include "nbd/tls/credentials.h"

/* Bits of a kind of credentials. */
#define OLD_PROTOCOL 0x01 /* TLS 1.2 */
#define CERTIFICATES 0x02 /* of both sides, which check them; else a key */
#define KINDS        0x04

/* What the certificates name, and the user of the key. */
#define FUZZ_CLIENT "fuzzer"
#define FUZZ_SERVER "server.example"

/* Those of one side; other bits of `kind` are ignored.  Borrowed; the first call loads all. */
struct tls_credentials *
fuzz_credentials(enum tls_side side, unsigned int kind);

#endif
