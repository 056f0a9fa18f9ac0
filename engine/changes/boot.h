/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The present run of the kernel, and its clocks. Tests have a boot.c of their own.
 */
#ifndef ENGINE_CHANGES_BOOT_H
#define ENGINE_CHANGES_BOOT_H

#include <stddef.h>
#include <stdint.h>

/* Writes the boot id, at most `size` bytes with the NUL, or "" if the kernel doesn't tell. */
void
boot_id(char *id, size_t size);

/* Sets *now to the time since 1970, and *age to the time since the run began, in nanoseconds. */
void
boot_clocks(int64_t *now, int64_t *age);

#endif
