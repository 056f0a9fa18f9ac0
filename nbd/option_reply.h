/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replies to options ("Option reply types"), appended to an output that has room for them:
 * NBD_HANDSHAKE_ROOM bytes are enough for all replies to one option, or for one entry of a list.
 */
#ifndef NBD_OPTION_REPLY_H
#define NBD_OPTION_REPLY_H

#include "nbd/export.h"
#include "nbd/handshake_state.h"

#include <stdint.h>

/* Longest text of an error, in bytes; a longer one is cut between characters. */
#define NBD_REP_TEXT_MAX 200

/* Returns whether the output has room for all replies to one option other than LIST, or for one
 * entry of a list. */
bool
nbd_output_has_room(const struct nbd_output *output);

/* The server's first bytes: magics and handshake flags. */
void
nbd_reply_greeting(struct nbd_output *output);

/* NBD_REP_ACK: the end of the replies to an option that succeeded. */
void
nbd_reply_ack(struct nbd_output *output, uint32_t option);

/* An error. type: NBD_REP_ERR_*. */
void
nbd_reply_refusal(struct nbd_output *output, uint32_t option, uint32_t type, const char *text);

/* NBD_REP_SERVER: an entry of a list. */
void
nbd_reply_server(struct nbd_output *output, uint32_t option, const struct nbd_export *export);

/* NBD_REP_INFO, one function for each form of it. size: bytes; type: NBD_INFO_NAME or
 * NBD_INFO_DESCRIPTION; text: up to NBD_STRING_MAX bytes. */
void
nbd_reply_info_export(struct nbd_output *output, uint32_t option, uint64_t size, uint16_t flags);
void
nbd_reply_info_text(struct nbd_output *output, uint32_t option, uint16_t type, const char *text);
void
nbd_reply_info_block_size(struct nbd_output *output, uint32_t option,
			  const struct nbd_export *export);

/* NBD_REP_META_CONTEXT. id: 0 in reply to NBD_OPT_LIST_META_CONTEXT. */
void
nbd_reply_context(struct nbd_output *output, uint32_t option, uint32_t id, const char *name);

/* The reply to NBD_OPT_EXPORT_NAME, which has no header. size: bytes; zeroes: the client did not
 * set NBD_FLAG_C_NO_ZEROES, so that 124 bytes of zeroes follow. */
void
nbd_reply_export(struct nbd_output *output, uint64_t size, uint16_t flags, bool zeroes);

#endif
