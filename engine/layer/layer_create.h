/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes new layers, seals them, and has what all commands need that change a layer while no server
 * has it.
 */
#ifndef ENGINE_LAYER_LAYER_CREATE_H
#define ENGINE_LAYER_LAYER_CREATE_H

#include <stdint.h>

struct layer_header;
struct layers;

/* Makes the file `path`, which must not exist, a layer on a base. `size` is that of its disk in
 * bytes, 0: that of the base; `granule` is in bytes, 0: that of a base that is a layer, or 4096.
 * Returns 0; or -errno with *error, a sentence (the caller frees it), and there is no new file. */
int
layer_create(const char *path, const char *base, uint64_t size, uint64_t granule, char **error);

/* Writes into the layer that it is not written to any more, so that other layers can stand on it.
 * Returns 0; or -errno with *error, as above: nothing has changed. */
int
layer_seal(const char *path, char **error);

/* ---- for commands that change a layer */

/* Opens a layer for reading and writing, and takes a lock that lasts as long as the descriptor.
 * Returns the descriptor, or -errno with *error, as above. */
int
layer_open_alone(const char *path, char **error);

/* Opens a base for the layer `path` and takes a lock on it that keeps writers away as long as the
 * descriptor is open. Sets the members of the header that tell of the base, and .granule and .size
 * if they are 0. Returns the descriptor, or -errno with *error, as above. */
int
layer_take_base(struct layer_header *header, const char *path, const char *base, char **error);

/* Puts all that the topmost layer holds into its stable map, and sets the header's .boot as after
 * a server's end; the caller writes it. Returns 0 or -errno. */
int
layer_settle(struct layers *layers, int fd);

/* Puts the header in the place of both older ones, one after the other: a power cut leaves one of
 * them, after what was written before. Returns 0 or -errno. */
int
layer_header_write(struct layer_header *header, int fd);

/* A sync for layer_keeper_commit(); `data` points to the descriptor. */
int
layer_sync(void *data);

#endif
