/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The least that a direct-I/O plugin can do: one preadv or pwritev per request, through an aligned
 * buffer of the thread. bench/compare compiles this plugin and measures how much more the loop
 * plugin costs. The plugin is not for use: it checks nothing, and unaligned requests fail.
 */

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL
#define BUFFER_ALIGN 4096
#define BUFFER_SIZE  (32 * 1024 * 1024) /* the largest request; only used pages take memory */

static char *file;
static int fd = -1;

/* Never freed: nbdkit's threads end with their connection, and the server ends with the run. */
static __thread void *buffer;

static int
preadv_config(const char *key, const char *value)
{
	if (strcmp(key, "file") != 0 || file) {
		nbdkit_error("one file is all that can be given, not %s", key);
		return -1;
	}
	file = nbdkit_realpath(value);
	return file ? 0 : -1;
}

static int
preadv_get_ready(void)
{
	fd = open(file, O_RDWR | O_DIRECT | O_CLOEXEC);
	if (fd < 0)
		nbdkit_error("%s: %m", file);
	return fd < 0 ? -1 : 0;
}

static void *
preadv_open(int readonly)
{
	(void)readonly;
	return NBDKIT_HANDLE_NOT_NEEDED;
}

static int64_t
preadv_get_size(void *handle)
{
	struct stat status;

	(void)handle;
	return fstat(fd, &status) < 0 ? -1 : status.st_size;
}

static int
preadv_can_multi_conn(void *handle)
{
	(void)handle;
	return 1;
}

static int
buffer_take(void)
{
	if (!buffer)
		errno = posix_memalign(&buffer, BUFFER_ALIGN, BUFFER_SIZE);
	return buffer ? 0 : -1;
}

/* Returns 0 or -1. A short transfer is an error here. */
static int
transfer_check(ssize_t done, uint32_t count)
{
	if (done == (ssize_t)count)
		return 0;
	if (done >= 0)
		errno = EIO;
	nbdkit_error("%m");
	return -1;
}

static int
preadv_pread(void *handle, void *data, uint32_t count, uint64_t offset, uint32_t flags)
{
	struct iovec part = {.iov_len = count};

	(void)handle;
	(void)flags;
	if (buffer_take() < 0)
		return -1;
	part.iov_base = buffer;
	if (transfer_check(preadv(fd, &part, 1, (off_t)offset), count) < 0)
		return -1;
	memcpy(data, buffer, count);
	return 0;
}

static int
preadv_pwrite(void *handle, const void *data, uint32_t count, uint64_t offset, uint32_t flags)
{
	struct iovec part = {.iov_len = count};

	(void)handle;
	(void)flags;
	if (buffer_take() < 0)
		return -1;
	part.iov_base = buffer;
	memcpy(buffer, data, count);
	return transfer_check(pwritev(fd, &part, 1, (off_t)offset), count);
}

static int
preadv_flush(void *handle, uint32_t flags)
{
	(void)handle;
	(void)flags;
	return fdatasync(fd);
}

static struct nbdkit_plugin plugin = {
	.name = "preadv",
	.magic_config_key = "file",
	.config = preadv_config,
	.get_ready = preadv_get_ready,
	.open = preadv_open,
	.get_size = preadv_get_size,
	.can_multi_conn = preadv_can_multi_conn,
	.pread = preadv_pread,
	.pwrite = preadv_pwrite,
	.flush = preadv_flush,
	.errno_is_preserved = 1,
};

NBDKIT_REGISTER_PLUGIN(plugin)
