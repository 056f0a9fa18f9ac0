/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file of pre-shared keys, as QEMU (keys.psk), nbdkit and psktool(1) have it: a line "USER:KEY"
 * for each user, with the key as hexadecimal digits.
 */
#ifndef TOOL_KEYS_PSK_FILE_H
#define TOOL_KEYS_PSK_FILE_H

#include <glib.h>
#include <stdbool.h>

/* Makes a random key for each of the users (ends with NULL), and adds them to the file, which is
 * made if it is missing.  It is an error if one of them has a key, unless `replace` is set.  Prints
 * the path. */
bool
psk_file_add(const char *path, char *const *users, bool replace, GError **error);

#endif
