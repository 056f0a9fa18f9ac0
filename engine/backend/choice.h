/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The backends, and the choice of one for an image.
 */
#ifndef ENGINE_BACKEND_CHOICE_H
#define ENGINE_BACKEND_CHOICE_H

#include "engine/backing/backing.h"
#include "engine/image_config.h"
#include "engine/io/backend.h"

extern const struct backend backend_uring;
extern const struct backend backend_polled;
extern const struct backend backend_aio;
/* The same for layers. */
extern const struct backend backend_aio_layered;
extern const struct backend backend_calls;
/* The engine `threads` for an event loop, which must not block: the context's helpers make the
 * system calls. If the image is in memory, the loop makes the calls itself, with backend_calls. */
extern const struct backend backend_threads;
/* The only way to a backing that has calls of its own. */
extern const struct backend backend_own_calls;

/*
 * Chooses the backend for the user's configuration. `direct` tells whether direct I/O is on.
 * Returns 0 with *backend, and with two reasons, each "" or why a better engine, or polling, is not
 * used. Otherwise returns -errno with *error, a sentence that names the option (the caller frees
 * it).
 */
int
backend_choose(const struct image_config *config, const struct backing *backing, bool direct,
	       const struct backend **backend, char engine_reason[REASON_MAX],
	       char poll_reason[REASON_MAX], char **error);

/* Tests whether this machine allows an engine (not ENGINE_AUTO). Returns 0, or -errno with the
 * reason. */
int
backend_works(enum engine_choice engine, char reason[REASON_MAX]);

#endif
