/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Image formats that are not raw, known by their first bytes.  nbdloop serves bytes: who gives
 * it a qcow2 file sees the file's bytes as a disk, which is rarely what was meant.
 */
#ifndef ENGINE_IMAGE_FORMAT_H
#define ENGINE_IMAGE_FORMAT_H

#include <stddef.h>

/* How many first bytes format_name() wants to see. */
#define FORMAT_HEAD 72

/* "qcow2", "gzip-compressed", ... or NULL when the bytes look raw. */
const char *
format_name(const void *head, size_t length);

#endif
