/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The content of a small file that may hold a secret: wiped before it is freed.
 */
#ifndef NBD_TLS_SECRET_FILE_H
#define NBD_TLS_SECRET_FILE_H

#include <stddef.h>

struct secret_file {
	char *bytes;
	size_t length;
};

/* Reads all of a file, of at most 1 MiB.  Returns 0 or -errno with *error a sentence (caller
 * frees). */
int
secret_file_read(struct secret_file *file, const char *path, char **error);

void
secret_file_fini(struct secret_file *file);

#define SECRET_FILE_CLEANUP __attribute__((cleanup(secret_file_fini)))

#endif
