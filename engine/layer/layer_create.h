/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes new layers.
 */
#ifndef ENGINE_LAYER_LAYER_CREATE_H
#define ENGINE_LAYER_LAYER_CREATE_H

#include <stdint.h>

/* Makes the file `path`, which must not exist, a layer on a base. `size` is that of its disk in
 * bytes, 0: that of the base; `granule` is in bytes, 0: that of a base that is a layer, or 4096.
 * Returns 0; or -errno with *error, a sentence (the caller frees it), and there is no new file. */
int
layer_create(const char *path, const char *base, uint64_t size, uint64_t granule, char **error);

/* Writes into the layer that it is not written to any more, so that other layers can stand on it.
 * Returns 0; or -errno with *error, as above: nothing has changed. */
int
layer_seal(const char *path, char **error);

#endif
