/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A layer as the image of a run, and what it holds, as nbdloop-layer(5) says: made and read without
 * the product's code.
 */
#ifndef TESTS_SIMULATION_LAYER_DISK_H
#define TESTS_SIMULATION_LAYER_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct file;

/* Makes the file an empty layer for a disk of `size` bytes on the file `base`, which lies in the
 * same directory. */
void
layer_disk_make(struct file *layer, const struct file *base, const char *base_name, size_t size);

/* The disk's bytes, for a server that begins now: valid until the next call. */
const uint8_t *
layer_disk_bytes(const struct file *layer, const struct file *base);

/* The sector of the file that has a sector of the disk. */
size_t
layer_disk_sector(unsigned int sector);

/* Whether a server has written that a sync failed: the layer has gone back to its stable map. */
bool
layer_disk_has_failed(const struct file *layer);

#endif
