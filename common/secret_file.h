/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The content of a small file that may hold a secret: wiped before it is freed.
 */
#ifndef COMMON_SECRET_FILE_H
#define COMMON_SECRET_FILE_H

#include <stddef.h>
#include <sys/types.h>

struct secret_file {
	char *bytes; /* a NUL follows them */
	size_t length;
	mode_t mode; /* of the file */
};

/* Reads all of a regular file, of at most 1 MiB. Returns 0 or -errno with *error a sentence (caller
 * frees). */
int
secret_file_read(struct secret_file *file, const char *path, char **error);

/* Whether all users may read or change a file of this mode; its directory may still forbid it. */
#define SECRET_FILE_IS_OPEN(mode) ((mode) & (S_IROTH | S_IWOTH))

/* The end of a warning about such a file, for printf(): its mode, its path. */
#define SECRET_FILE_OPEN "every user of this machine can use it (mode %03o): chmod o= %s"

void
secret_file_fini(struct secret_file *file);

#define SECRET_FILE_CLEANUP __attribute__((cleanup(secret_file_fini)))

#endif
