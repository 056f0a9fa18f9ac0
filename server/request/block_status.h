/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The answer to a request for block status: the extents of an image, and what has changed since its
 * checkpoints.
 */
#ifndef SERVER_REQUEST_BLOCK_STATUS_H
#define SERVER_REQUEST_BLOCK_STATUS_H

#include <stdbool.h>

struct helper_job;
struct request;

/* Looks for it on a helper's thread, then calls `done` on the worker's, with the result in
 * request->result. False: no memory now. */
bool
block_status_find(struct request *request, void (*done)(struct helper_job *job));

/* Writes the reply. */
void
block_status_reply(struct request *request);

#endif
