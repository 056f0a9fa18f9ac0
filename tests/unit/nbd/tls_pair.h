/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Both sides of TLS in one process: what one says reaches the other in pieces.
 */
#ifndef TESTS_UNIT_NBD_TLS_PAIR_H
#define TESTS_UNIT_NBD_TLS_PAIR_H

#include "nbd/tls/session.h"
#include "tests/unit/nbd/certificates.h"
#include "tests/unit/scratch_file.h"

#include <stdbool.h>

#define KEY "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

struct side {
	struct tls_session *session;
	struct nbd_output output;
	struct tls_input input; /* in the other side's output */
	enum tls_result result; /* of the handshake */
	uint8_t bytes[256 << 10];
};

extern struct side client, server;

/* A directory with a CA, a server's and a client's certificate, and `file`, keys.psk. */
extern char directory[SCRATCH_PATH], file[SCRATCH_PATH + 16];
extern struct authority authority;

/* Credentials from that directory. */
extern const struct tls_files client_files, server_files, client_psk, server_psk;

/* Sizes of pieces, and the one that is used. */
#define PIECES 3
extern const size_t pieces[PIECES];
extern size_t piece;

/* Fixtures: once, and for each test. */
void
make_directory(void);
void
remove_directory(void);
void
begin(void);
void
end(void);

/* Writes keys.psk. */
void
write_keys(const char *text);

/* Begins a session; `name`: the server's, for a client. */
void
open_side(struct side *side, const struct tls_files *files, const char *name);

/* Lets the next piece of the other side's output reach this one.  False: there is none. */
bool
deliver(struct side *to, struct side *from);

/* One step of a side's handshake. */
void
step(struct side *side);

/* Both sides speak until nothing more comes. */
void
shake_hands(void);

/* The same; both must agree on this. */
void
expect_done(const char *description);

/* What a side reads when no data have come. */
enum tls_result
read_nothing(struct side *side);

/* Sends data, which the other side must read. */
void
send_data(struct side *to, struct side *from);

#endif
