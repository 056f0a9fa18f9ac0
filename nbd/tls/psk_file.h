/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file of keys that both sides of TLS have: a line USER:HEXKEY for each user, as psktool writes
 * it. Blank lines and lines that begin with # are left out, and so are blanks around a line.
 */
#ifndef NBD_TLS_PSK_FILE_H
#define NBD_TLS_PSK_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Longest name of a PSK user, and longest key, in bytes. */
#define TLS_USER_MAX 128
#define TLS_KEY_MAX  64

struct psk_user {
	char name[TLS_USER_MAX + 1]; /* zeroes after the name */
	uint8_t key[TLS_KEY_MAX];
	uint8_t key_length; /* bytes */
};

struct psk_file {
	struct psk_user *users;
	size_t count;
	mode_t mode; /* of the file */
};

/* Reads the file. Returns 0 or -errno with *error a sentence (caller frees). */
int
psk_file_read(struct psk_file *file, const char *path, char **error);

/* Wipes and frees the keys. */
void
psk_file_fini(struct psk_file *file);

/* Copies the key of a user to `key`; false: there is none of that name, and `key` is all zeroes.
 * The time that it takes tells neither whether there is one, nor which. */
bool
psk_file_find(const struct psk_file *file, const uint8_t *name, size_t length,
	      uint8_t key[TLS_KEY_MAX], size_t *key_length);

#endif
