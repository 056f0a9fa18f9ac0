/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Recognizes image formats that are not raw by their first bytes. nbdloop serves bytes: a client of
 * a qcow2 file sees the file's bytes as a disk, which the user rarely wants.
 */
#ifndef ENGINE_IMAGE_FORMAT_H
#define ENGINE_IMAGE_FORMAT_H

#include <stddef.h>

/* How many bytes from the start of the image format_name() needs. */
#define FORMAT_HEAD 72

/* Returns "qcow2", "gzip-compressed" and so on, or NULL if the bytes look raw. The string is
 * static. `length` is the number of bytes at `head`, which may be less than FORMAT_HEAD. */
const char *
format_name(const void *head, size_t length);

#endif
