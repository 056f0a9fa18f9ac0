/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/backup/file_end.h"

#include "tool/failure.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define GRAIN            4096       /* bytes: so many zeroes become a hole */
#define WRITE_BACK_EVERY (64 << 20) /* bytes: the disk is to work meanwhile, not at the end */

struct file_end {
	struct end end;
	int fd;
	bool fresh;
	uint64_t unwritten; /* bytes whose write-back was not begun */
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
zero_by_writing(int fd, uint64_t offset, uint64_t length)
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
zero(const struct file_end *file, const struct part *piece)
{
	if (file->fresh || fallocate(file->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				     (off_t)piece->offset, (off_t)piece->length) == 0)
		return 0;
	return zero_by_writing(file->fd, piece->offset, piece->length);
}

static void
write_back(struct file_end *file, uint64_t length)
{
	file->unwritten += length;
	if (file->unwritten < WRITE_BACK_EVERY)
		return;
	file->unwritten = 0;
	sync_file_range(file->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
}

static int
write_piece(struct file_end *file, const struct part *piece, const unsigned char *data)
{
	write_back(file, piece->length);
	return file->fresh ? write_sparse(file->fd, data, piece->length, piece->offset)
			   : file_write_all(file->fd, data, piece->length, piece->offset);
}

static void
start(struct end *end, struct end_request *request)
{
	struct file_end *file = (struct file_end *)end;
	const struct part *piece = &request->piece;
	const bool reads = request->operation == END_READ;
	GError *error = NULL;
	int failed;

	if (reads)
		failed = file_read_all(file->fd, request->data, piece->length, piece->offset);
	else if (request->operation == END_WRITE)
		failed = write_piece(file, piece, request->data);
	else
		failed = zero(file, piece);
	if (failed)
		failure(&error, failed,
			"%s: %s %" G_GUINT64_FORMAT " bytes at %" G_GUINT64_FORMAT ": %s%s",
			end->name, reads ? "reading" : "writing", piece->length, piece->offset,
			g_strerror(failed), file_way_out(failed));
	request->done(request, error);
}

static bool
sync_file(struct end *end, GError **error)
{
	const struct file_end *file = (const struct file_end *)end;

	if (fsync(file->fd) < 0)
		return failure_errno(error, errno, "%s: writing to the disk", end->name);
	/* Nobody needs it soon; and a comparison is to read what the disk has. */
	posix_fadvise(file->fd, 0, 0, POSIX_FADV_DONTNEED);
	return true;
}

static void
free_file(struct end *end)
{
	close(((struct file_end *)end)->fd);
	g_free(end->name);
	g_free(end);
}

static const struct end_kind file_end_kind = {
	.start = start,
	.sync = sync_file,
	.free = free_file,
};

struct end *
file_end_new(int fd, const char *path, bool fresh)
{
	struct file_end *file = g_new0(struct file_end, 1);

	file->end = (struct end){
		.kind = &file_end_kind, .name = g_strdup(path), .zero_max = PLAN_ZERO_MAX};
	file->fd = fd;
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
