/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replies to options, appended to an output that has room for them (NBD_HANDSHAKE_ROOM for all that
 * one option is answered, but for the entries of a list).
 */
#ifndef NBD_OPTION_REPLY_H
#define NBD_OPTION_REPLY_H

#include "nbd/export.h"
#include "nbd/handshake_state.h"

#include <stdint.h>

/* Longest text of an error. */
#define NBD_REP_TEXT_MAX 200

/* Whether all that an option other than LIST is answered fits, or one entry of a list. */
bool
nbd_output_has_room(const struct nbd_output *output);

void
nbd_reply_greeting(struct nbd_output *output);

void
nbd_reply_ack(struct nbd_output *output, uint32_t option);

/* type: NBD_REP_ERR_*. */
void
nbd_reply_refusal(struct nbd_output *output, uint32_t option, uint32_t type, const char *text);

/* An entry of a list. */
void
nbd_reply_server(struct nbd_output *output, uint32_t option, const struct nbd_export *export);

/* NBD_REP_INFO, one for each type. */
void
nbd_reply_info_export(struct nbd_output *output, uint32_t option, uint64_t size, uint16_t flags);
void
nbd_reply_info_text(struct nbd_output *output, uint32_t option, uint16_t type, const char *text);
void
nbd_reply_info_block_size(struct nbd_output *output, uint32_t option,
			  const struct nbd_export *export);

void
nbd_reply_context(struct nbd_output *output, uint32_t option, uint32_t id, const char *name);

/* What NBD_OPT_EXPORT_NAME is answered. */
void
nbd_reply_export(struct nbd_output *output, uint64_t size, uint16_t flags, bool zeroes);

#endif
