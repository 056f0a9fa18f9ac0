/* SPDX-License-Identifier: BSD-3-Clause */
#include "nbd/tls/secret_file.h"

#include "common/cleanup.h"
#include "common/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LENGTH_MAX (1 << 20)

/* The buffer is made once: realloc() would leave copies of a secret. */
static int
read_all(struct secret_file *file, int fd)
{
	struct stat st;
	ssize_t n;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	if (st.st_size > LENGTH_MAX)
		return -EFBIG;
	/* A pipe has no size. */
	file->bytes = malloc(LENGTH_MAX);
	if (!file->bytes)
		return -ENOMEM;
	while ((n = read(fd, file->bytes + file->length, LENGTH_MAX - file->length)) > 0)
		file->length += (size_t)n;
	if (n < 0)
		return -errno;
	return file->length == LENGTH_MAX ? -EFBIG : 0;
}

int
secret_file_read(struct secret_file *file, const char *path, char **error)
{
	int CLEANUP_CLOSE fd = open(path, O_RDONLY | O_CLOEXEC);
	int r = fd < 0 ? -errno : 0;

	*file = (struct secret_file){0};
	if (r == 0)
		r = read_all(file, fd);
	if (r == 0)
		return 0;
	secret_file_fini(file);
	return error_set(error, r, "%s: %s", path, strerror(-r));
}

void
secret_file_fini(struct secret_file *file)
{
	if (file->bytes)
		explicit_bzero(file->bytes, file->length);
	free(file->bytes);
	*file = (struct secret_file){0};
}
