/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ways to the kernel that there are, and which of them an image gets.
 */
#ifndef ENGINE_BACKEND_CHOICE_H
#define ENGINE_BACKEND_CHOICE_H

#include "engine/backing/backing.h"
#include "engine/image_config.h"
#include "engine/io/backend.h"

extern const struct backend backend_uring;
extern const struct backend backend_polled;
extern const struct backend backend_aio;
extern const struct backend backend_calls;
/* `threads` for an event loop, which must not block: the calls are made by threads of the context.
 * Where the image is in memory, the loop makes them itself. */
extern const struct backend backend_threads;

/*
 * The backend for what the user chose.  `direct` tells whether direct I/O is on.  Returns 0 and
 * *backend, with reasons ("" or why a better one isn't used) for engine and polling; or -errno and
 * *error, a sentence that names the option (caller frees).
 */
int
backend_choose(const struct image_config *config, const struct backing *backing, bool direct,
	       const struct backend **backend, char engine_reason[REASON_MAX],
	       char poll_reason[REASON_MAX], char **error);

/* Whether this machine allows an engine (not ENGINE_AUTO).  0, or -errno with the reason. */
int
backend_works(enum engine_choice engine, char reason[REASON_MAX]);

#endif
