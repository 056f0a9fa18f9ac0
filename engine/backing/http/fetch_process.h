/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starts the process nbdloop-fetch.
 */
#ifndef ENGINE_BACKING_HTTP_FETCH_PROCESS_H
#define ENGINE_BACKING_HTTP_FETCH_PROCESS_H

/* Returns the socket to a new nbdloop-fetch, which ends when the socket is closed, and is no child
 * of this process; or -errno with *error, a sentence with the way out (the caller frees it). */
int
fetch_process_start(char **error);

#endif
