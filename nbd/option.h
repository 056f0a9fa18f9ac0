/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Answers the options of the handshake ("Option types"), each when it has arrived completely.
 * handshake.c receives them.
 */
#ifndef NBD_OPTION_H
#define NBD_OPTION_H

#include "nbd/handshake_state.h"

#include <stdbool.h>
#include <stdint.h>

/* Returns whether the answer depends on this option's data. If not, or if the data are longer than
 * NBD_OPTION_MAX, the caller need not keep them. */
bool
nbd_option_has_data(uint32_t option);

/* Answers h->option, which has h->length bytes of data (in h->payload if they had to be kept), and
 * sets h->at to the next state. The output must have NBD_HANDSHAKE_ROOM bytes of room. */
void
nbd_option_answer(struct nbd_handshake *h, struct nbd_output *output);

/* Continues the replies to NBD_OPT_LIST as far as the output has room; after the last one the
 * handshake waits for the next option. */
void
nbd_option_list(struct nbd_handshake *h, struct nbd_output *output);

#endif
