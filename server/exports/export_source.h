/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exports as a client may see them in its handshake: those that their rules let it use.
 */
#ifndef SERVER_EXPORTS_EXPORT_SOURCE_H
#define SERVER_EXPORTS_EXPORT_SOURCE_H

#include "nbd/handshake_state.h"

/* The data of their functions are a struct applicant. */
extern const struct nbd_export_source exports_listed, exports_unlisted;

#endif
