/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The present run of the kernel. Tests have a boot.c of their own.
 */
#ifndef ENGINE_CHANGES_BOOT_H
#define ENGINE_CHANGES_BOOT_H

#include <stddef.h>
#include <stdint.h>

/* Writes the boot id, at most `size` bytes with the NUL, or "" if the kernel doesn't tell. */
void
boot_id(char *id, size_t size);

/* Returns how long ago it began, in nanoseconds. */
int64_t
boot_age(void);

#endif
