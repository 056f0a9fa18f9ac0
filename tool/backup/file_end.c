/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/backup/file_end.h"

#include "tool/backup/end.h"
#include "tool/failure.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- threads that write, several requests at a time and in no order */

#define THREADS 16 /* a disk's queue */

struct result {
	struct end_request *request;
	int failed;
};

struct writers {
	int (*carry_out)(void *data, const struct end_request *request);
	void *data;
	GThreadPool *threads;
	GAsyncQueue *results; /* struct result */
	int event; /* can be read (POLLIN) when writers_finished() has a request to return */
};

static void
write_one(void *pushed, void *data)
{
	struct writers *writers = data;
	struct result *result = g_new(struct result, 1);
	const uint64_t one = 1;

	result->request = pushed;
	result->failed = writers->carry_out(writers->data, pushed);
	g_async_queue_push(writers->results, result);
	while (write(writers->event, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

/* Ends the threads after the requests that they have begun, and forgets the others. */
static void
writers_free(struct writers *writers)
{
	if (writers->threads)
		g_thread_pool_free(writers->threads, TRUE, TRUE);
	g_async_queue_unref(writers->results);
	if (writers->event >= 0)
		close(writers->event);
	g_free(writers);
}

/* `carry_out` is called with `data` on any of the threads, and returns 0 or an errno.  The caller
 * frees it (writers_free); NULL: the machine has no room for a thread. */
static struct writers *
writers_new(int (*carry_out)(void *data, const struct end_request *request), void *data)
{
	struct writers *writers = g_new0(struct writers, 1);

	writers->carry_out = carry_out;
	writers->data = data;
	writers->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	writers->results = g_async_queue_new_full(g_free);
	if (writers->event >= 0)
		writers->threads = g_thread_pool_new(write_one, writers, THREADS, TRUE, NULL);
	/* One thread is enough to go on. */
	if (writers->threads && g_thread_pool_get_num_threads(writers->threads) > 0)
		return writers;
	writers_free(writers);
	return NULL;
}

/* A request that was carried out, with its result; NULL: there is none now. */
static struct end_request *
writers_finished(struct writers *writers, int *failed)
{
	struct result *result = g_async_queue_try_pop(writers->results);
	struct end_request *request;
	uint64_t events;

	if (!result) {
		/* Before the next look: what comes now makes it readable again. */
		if (read(writers->event, &events, sizeof(events)) < 0)
			return NULL;
		result = g_async_queue_try_pop(writers->results);
	}
	if (!result)
		return NULL;
	request = result->request;
	*failed = result->failed;
	g_free(result);
	return request;
}

/* ---- the end */

#define GRAIN            4096       /* bytes: so many zeroes become a hole */
#define LARGEST_BLOCK    65536      /* bytes: of any file system's */
#define WRITE_BACK_EVERY (64 << 20) /* bytes: the disk is to work meanwhile, not at the end */

struct file_end {
	struct end end;
	int fd;
	bool fresh;
	uint64_t unwritten; /* bytes whose write-back was not begun */
	/* From the first write into a file with data on: */
	struct writers *writers;
	int direct;     /* the same file, for direct I/O; -1: it can't */
	uint64_t block; /* bytes: direct I/O moves whole blocks, at multiples of it */
};

/* Never written to, but not const: as a constant, it would be in the program's file. */
static unsigned char zeroes[PLAN_DATA_MAX];

int
file_read_all(int fd, void *bytes, size_t size, uint64_t offset)
{
	unsigned char *next = bytes;

	while (size) {
		ssize_t n = pread(fd, next, size, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? errno : EIO;
		next += n;
		size -= (size_t)n;
		offset += (uint64_t)n;
	}
	return 0;
}

int
file_write_all(int fd, const void *bytes, size_t size, uint64_t offset)
{
	const unsigned char *next = bytes;

	while (size) {
		ssize_t n = pwrite(fd, next, size, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? errno : ENOSPC;
		next += n;
		size -= (size_t)n;
		offset += (uint64_t)n;
	}
	return 0;
}

const char *
file_way_out(int failed)
{
	return failed == ENOSPC || failed == EDQUOT ? ": make room for all of it, and try again"
						    : "";
}

/* How many bytes at `data` are zeroes, in whole grains; or, if none are, how many come before the
 * next grain of zeroes.  The file's last grain may be shorter. */
static size_t
run_length(const unsigned char *data, size_t size, bool *zero)
{
	size_t length = 0;

	while (length < size) {
		const size_t grain = MIN(size - length, GRAIN);
		const bool is_zero = memcmp(data + length, zeroes, grain) == 0;

		if (length && is_zero != *zero)
			break;
		*zero = is_zero;
		length += grain;
	}
	return length;
}

/* Leaves out what is zero, because the file has holes there. */
static int
write_sparse(int fd, const unsigned char *data, size_t size, uint64_t offset)
{
	int failed = 0;

	while (size && !failed) {
		bool zero = false;
		const size_t length = run_length(data, size, &zero);

		if (!zero)
			failed = file_write_all(fd, data, length, offset);
		data += length;
		size -= length;
		offset += length;
	}
	return failed;
}

static int
file_zero_by_writing(int fd, uint64_t offset, uint64_t length)
{
	int failed = 0;

	while (length && !failed) {
		const size_t size = MIN(length, sizeof(zeroes));

		failed = file_write_all(fd, zeroes, size, offset);
		offset += size;
		length -= size;
	}
	return failed;
}

static int
file_zero(const struct file_end *file, const struct part *piece)
{
	if (file->fresh || fallocate(file->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				     (off_t)piece->offset, (off_t)piece->length) == 0)
		return 0;
	return file_zero_by_writing(file->fd, piece->offset, piece->length);
}

void
file_write_back(int fd, uint64_t length, uint64_t *unwritten)
{
	*unwritten += length;
	if (*unwritten < WRITE_BACK_EVERY)
		return;
	*unwritten = 0;
	sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
}

/* ---- into a file with data, by threads */

/* A block of the page cache, as it is written back: that of a piece which is no whole block would
 * put old bytes over those that direct I/O writes beside it. */
static uint64_t
file_block_of(int fd)
{
	uint64_t block = MAX((uint64_t)sysconf(_SC_PAGESIZE), FILE_END_ALIGNMENT);
	struct stat st;

	/* A larger size only recommends a size of requests. */
	if (fstat(fd, &st) == 0 && st.st_blksize <= LARGEST_BLOCK)
		while (block < (uint64_t)st.st_blksize)
			block *= 2;
	return block;
}

/* Runs on any thread. */
static int
file_overwrite(void *data, const struct end_request *request)
{
	const struct file_end *file = data;
	const struct part *piece = &request->piece;

	if (request->operation == END_ZERO)
		return file_zero(file, piece);
	/* What direct I/O can't do (EINVAL), the page cache can; what the disk can't, the sync
	 * tells. */
	if (file->direct >= 0 && ((piece->offset | piece->length) & (file->block - 1)) == 0 &&
	    ((uintptr_t)request->data & (FILE_END_ALIGNMENT - 1)) == 0 &&
	    file_write_all(file->direct, request->data, piece->length, piece->offset) == 0)
		return 0;
	return file_write_all(file->fd, request->data, piece->length, piece->offset);
}

static bool
begin_overwriting(struct file_end *file)
{
	char name[64];

	if (file->writers)
		return true;
	file->writers = writers_new(file_overwrite, file);
	if (!file->writers)
		return false;
	/* The same file once more: its name may lead to another one.  The threads see both members,
	 * since they have no request yet. */
	snprintf(name, sizeof(name), "/proc/self/fd/%d", file->fd);
	file->direct = open(name, O_WRONLY | O_DIRECT | O_CLOEXEC);
	file->block = file_block_of(file->fd);
	return true;
}

/* ---- requests */

static int
file_carry_out(struct file_end *file, const struct end_request *request)
{
	const struct part *piece = &request->piece;

	if (request->operation == END_READ)
		return file_read_all(file->fd, request->data, piece->length, piece->offset);
	if (request->operation == END_ZERO)
		return file_zero(file, piece);
	file_write_back(file->fd, piece->length, &file->unwritten);
	return write_sparse(file->fd, request->data, piece->length, piece->offset);
}

static void
file_finish(const struct end *end, struct end_request *request, int failed)
{
	const struct part *piece = &request->piece;
	GError *error = NULL;

	if (failed)
		failure(&error, failed,
			"%s: %s %" G_GUINT64_FORMAT " bytes at %" G_GUINT64_FORMAT ": %s%s",
			end->name, request->operation == END_READ ? "reading" : "writing",
			piece->length, piece->offset, g_strerror(failed), file_way_out(failed));
	request->done(request, error);
}

static void
file_start(struct end *end, struct end_request *request)
{
	struct file_end *file = (struct file_end *)end;

	if (request->operation == END_READ || file->fresh)
		file_finish(end, request, file_carry_out(file, request));
	else if (begin_overwriting(file))
		/* Its caller keeps it until writers_finished() has returned it. */
		g_thread_pool_push(file->writers->threads, request, NULL);
	else
		file_finish(end, request, EAGAIN);
}

static int
file_prepare(struct end *end, struct pollfd polled[END_POLLED_MAX])
{
	const struct file_end *file = (const struct file_end *)end;

	if (!file->writers)
		return 0;
	polled[0] = (struct pollfd){.fd = file->writers->event, .events = POLLIN};
	return 1;
}

static bool
file_turn(struct end *end, const struct pollfd *polled, int count, GError **error)
{
	const struct file_end *file = (const struct file_end *)end;
	struct end_request *request;
	int failed;

	(void)polled, (void)count, (void)error;
	while ((request = writers_finished(file->writers, &failed)))
		file_finish(end, request, failed);
	return true;
}

static void
file_stop(struct end *end)
{
	struct file_end *file = (struct file_end *)end;

	g_clear_pointer(&file->writers, writers_free);
}

static bool
sync_file(struct end *end, GError **error)
{
	const struct file_end *file = (const struct file_end *)end;

	/* A file system that is another process (FUSE) may keep what it has for each descriptor. */
	if ((file->direct >= 0 && fsync(file->direct) < 0) || fsync(file->fd) < 0)
		return failure_errno(error, errno, "%s: writing to the disk", end->name);
	/* Nobody needs it soon; and a comparison is to read what the disk has. */
	posix_fadvise(file->fd, 0, 0, POSIX_FADV_DONTNEED);
	return true;
}

static void
free_file(struct end *end)
{
	struct file_end *file = (struct file_end *)end;

	file_stop(end);
	close(file->fd);
	if (file->direct >= 0)
		close(file->direct);
	g_free(end->name);
	g_free(end);
}

static const struct end_kind file_end_kind = {
	.start = file_start,
	.sync = sync_file,
	.prepare = file_prepare,
	.turn = file_turn,
	.stop = file_stop,
	.free = free_file,
};

struct end *
file_end_new(int fd, const char *path, bool fresh)
{
	struct file_end *file = g_new0(struct file_end, 1);

	file->end = (struct end){
		.kind = &file_end_kind, .name = g_strdup(path), .zero_max = PLAN_ZERO_MAX};
	file->fd = fd;
	file->direct = -1;
	file->fresh = fresh;
	return &file->end;
}

bool
file_end_allocated(const struct end *end, uint64_t size, GArray *plan, GError **error)
{
	const int fd = ((const struct file_end *)end)->fd;
	uint64_t offset = 0;

	while (offset < size) {
		off_t data = lseek(fd, (off_t)offset, SEEK_DATA), hole;

		if (data < 0 && errno != ENXIO)
			return failure_errno(error, errno, "%s: looking for holes", end->name);
		if (data < 0 || (uint64_t)data > size)
			data = (off_t)size;
		plan_add(plan, offset, (uint64_t)data - offset, true);
		offset = (uint64_t)data;
		if (offset == size)
			break;
		hole = lseek(fd, data, SEEK_HOLE);
		if (hole <= data || (uint64_t)hole > size)
			hole = (off_t)size;
		plan_add(plan, offset, (uint64_t)hole - offset, false);
		offset = (uint64_t)hole;
	}
	return true;
}
