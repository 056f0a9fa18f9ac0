/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/secret_file.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "common/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LENGTH_MAX (1 << 20)

/* The buffer is made once: realloc() would leave copies of a secret. */
static int
secret_read(struct secret_file *file, int fd)
{
	struct stat st;
	ssize_t n;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size > LENGTH_MAX)
		return -EFBIG;
	file->mode = st.st_mode & 07777;
	/* A file of /proc has no size. */
	file->bytes = malloc(LENGTH_MAX + 1);
	if (!file->bytes)
		return -ENOMEM;
	while ((n = read(fd, file->bytes + file->length, LENGTH_MAX - file->length)) > 0)
		file->length += (size_t)n;
	if (n < 0)
		return -errno;
	file->bytes[file->length] = '\0';
	return file->length == LENGTH_MAX ? -EFBIG : 0;
}

int
secret_file_read(struct secret_file *file, const char *path, char **error)
{
	int CLEANUP_CLOSE fd = regular_file_open(path, O_RDONLY);
	int r = fd < 0 ? fd : 0;

	*file = (struct secret_file){0};
	if (r == 0)
		r = secret_read(file, fd);
	if (r == 0)
		return 0;
	secret_file_fini(file);
	return error_set(error, r, "%s: %s", path, regular_file_strerror(-r));
}

void
secret_file_fini(struct secret_file *file)
{
	if (file->bytes)
		explicit_bzero(file->bytes, file->length);
	free(file->bytes);
	*file = (struct secret_file){0};
}
