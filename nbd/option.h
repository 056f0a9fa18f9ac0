/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The options of the handshake, each once it has arrived whole.  How they arrive is handshake.c's.
 */
#ifndef NBD_OPTION_H
#define NBD_OPTION_H

#include "nbd/handshake_state.h"

#include <stdbool.h>
#include <stdint.h>

/* Whether this option's data is looked at. If not, or if it is longer than NBD_OPTION_MAX, it need
 * not be kept. */
bool
nbd_option_has_data(uint32_t option);

/* Answers h->option, with h->length bytes of data (in h->payload where they were to be kept), and
 * sets what comes next. The output has room. */
void
nbd_option_answer(struct nbd_handshake *h, struct nbd_output *output);

/* Goes on with the replies to NBD_OPT_LIST as far as the output has room; at their end the next
 * option is waited for. */
void
nbd_option_list(struct nbd_handshake *h, struct nbd_output *output);

#endif
