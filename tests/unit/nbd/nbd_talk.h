/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client that talks to the handshake, for tests: it says options, and takes the replies apart.
 *
 *	talk_begin(); talk_flags(...); talk_go(NBD_OPT_GO, "disk", 0);
 *	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_TRANSMISSION);
 *	talk_expect(NBD_OPT_GO, NBD_REP_INFO, &reply); ...
 *
 * talk_end(), in a checked teardown, says all of it again byte by byte and in other pieces, and
 * through the smallest output buffer: that must not make a difference.
 */
#ifndef TESTS_UNIT_NBD_TALK_H
#define TESTS_UNIT_NBD_TALK_H

#include "nbd/handshake.h"

#include <stddef.h>
#include <stdint.h>

/* The exports: "disk", which "" means, too; "cd", read-only, without description and contexts;
 * "longest", whose real name and description are as long as may be. */
extern struct nbd_export talk_disk, talk_cd, talk_longest;

/* May be changed between talk_begin() and the first talk_run(). */
extern struct nbd_handshake_config talk_config;
extern struct nbd_export_source talk_source;
extern struct nbd_refusal talk_refusal; /* what find() answers, if .type is set */
extern bool talk_read_only;             /* the client may only read */
extern uint32_t talk_join_error;        /* what join() answers */
extern unsigned int talk_joined;        /* how often it let a client in */
extern unsigned int talk_found;         /* how often an export was looked for */
extern struct nbd_handshake talk_handshake;

#define TALK_FIXED (NBD_FLAG_C_FIXED_NEWSTYLE | NBD_FLAG_C_NO_ZEROES)

void
talk_begin(void);
void
talk_end(void);

/* What the client says; it is only sent by talk_run(). */
void
talk_bytes(const void *bytes, size_t length);
void
talk_number(uint64_t number, unsigned int bytes);
void
talk_flags(uint32_t flags);
void
talk_option_header(uint32_t option, uint32_t length);
void
talk_option(uint32_t option, const void *data, size_t length);
/* NBD_OPT_INFO or NBD_OPT_GO, with `infos` information requests (int). */
void
talk_go(uint32_t option, const char *name, unsigned int infos, ...);
/* LIST_META_CONTEXT or SET_META_CONTEXT, with `queries` queries (const char *). */
void
talk_context(uint32_t option, const char *name, unsigned int queries, ...);

/* Sends what has been said since the last time. */
enum nbd_handshake_result
talk_run(void);

struct talk_reply {
	uint32_t length;
	const uint8_t *data;
};

/* The next reply must be to this option and of this type. reply may be NULL. */
void
talk_expect(uint32_t option, uint32_t type, struct talk_reply *reply);

/* The next bytes are these. */
void
talk_expect_bytes(const void *bytes, size_t length);

/* All that the server said has been looked at. */
void
talk_expect_silence(void);

/* How many bytes of what was sent are left over (after TRANSMISSION or CLOSE). */
size_t
talk_left(void);

/* A reply of one export's information, from NBD_REP_INFO on; and the short forms of frequent
 * replies. */
void
talk_expect_export(uint32_t option, uint64_t size, uint16_t flags);
void
talk_expect_text(uint32_t option, uint16_t info, const char *text);
void
talk_expect_error(uint32_t option, uint32_t type, const char *text);

#endif
