/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/backup/delta_end.h"

#include "tool/backup/file_end.h"
#include "tool/backup/interruption.h"
#include "tool/failure.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct delta_end {
	struct end end;
	int fd;
	const struct delta_header *header;
	uint64_t position;       /* of the next record, bytes */
	uint64_t records, bytes; /* that were written, of data */
	uint64_t unwritten;      /* bytes whose write-back was not begun */
	bool fresh;              /* it is full: zeroes need no records */
	uint32_t merged;         /* later backups that are in it, too */
};

/* ---- to write one */

static int
write_record(struct delta_end *delta, const struct delta_record *record, const void *data)
{
	const uint64_t length = record->type == DELTA_DATA ? record->length : 0;
	uint8_t bytes[DELTA_RECORD_SIZE];
	int failed;

	delta_record_encode(delta->header, record, bytes);
	failed = file_write_all(delta->fd, bytes, sizeof(bytes), delta->position);
	if (!failed && length)
		failed = file_write_all(delta->fd, data, length, delta->position + sizeof(bytes));
	if (failed)
		return failed;
	file_write_back(delta->fd, sizeof(bytes) + length, &delta->unwritten);
	delta->position += sizeof(bytes) + length;
	delta->records++;
	delta->bytes += length;
	return 0;
}

static int
write_piece(struct delta_end *delta, const struct part *piece, const void *data)
{
	const struct delta_record record = {
		.type = data ? DELTA_DATA : DELTA_ZEROES,
		.offset = piece->offset,
		.length = piece->length,
		.checksum = data ? delta_data_checksum(delta->header, data, piece->length) : 0,
	};

	return !data && delta->fresh ? 0 : write_record(delta, &record, data);
}

/* All data of a record, which has that of the piece. */
static int
delta_read_record(const struct delta_end *delta, const struct part *piece, void *data)
{
	int failed = file_read_all(delta->fd, data, piece->record, piece->position);

	if (!failed && delta_data_checksum(delta->header, data, piece->record) != piece->checksum)
		failed = EBADMSG;
	return failed;
}

static int
read_piece(const struct delta_end *delta, const struct part *piece, void *data)
{
	g_autofree unsigned char *whole = NULL;
	int failed;

	if (piece->zero) {
		memset(data, 0, piece->length);
		return 0;
	}
	if (piece->length == piece->record)
		return delta_read_record(delta, piece, data);
	/* Only all of the data has a checksum. */
	whole = g_malloc(piece->record);
	failed = delta_read_record(delta, piece, whole);
	if (!failed)
		memcpy(data, whole + piece->skip, piece->length);
	return failed;
}

static bool
delta_say_failure(const char *name, const struct part *piece, int failed, const char *doing,
		  GError **error)
{
	if (failed == EBADMSG)
		return failure(error, EBADMSG,
			       "%s: the data for %" G_GUINT64_FORMAT " bytes at %" G_GUINT64_FORMAT
			       " of the image has a wrong checksum: the file is damaged",
			       name, piece->length, piece->offset);
	return failure(error, failed, "%s: %s: %s%s", name, doing, g_strerror(failed),
		       file_way_out(failed));
}

static void
delta_start(struct end *end, struct end_request *request)
{
	struct delta_end *delta = (struct delta_end *)end;
	const struct part *piece = &request->piece;
	GError *error = NULL;
	int failed;

	if (request->operation == END_READ)
		failed = read_piece(delta, piece, request->data);
	else
		failed = write_piece(delta, piece,
				     request->operation == END_WRITE ? request->data : NULL);
	if (failed)
		delta_say_failure(end->name, piece, failed,
				  request->operation == END_READ ? "reading" : "writing", &error);
	request->done(request, error);
}

static bool
end_file(struct end *end, GError **error)
{
	struct delta_end *delta = (struct delta_end *)end;
	const struct delta_record record = {
		.type = DELTA_END,
		.checksum = delta->merged,
		.offset = delta->records,
		.length = delta->bytes,
	};
	int failed = write_record(delta, &record, NULL);

	if (!failed && fsync(delta->fd) < 0)
		failed = errno;
	return !failed || failure_errno(error, failed, "%s: writing to the disk", end->name);
}

static void
free_delta(struct end *end)
{
	close(((struct delta_end *)end)->fd);
	g_free(end->name);
	g_free(end);
}

static const struct end_kind delta_end_kind = {
	.start = delta_start,
	.sync = end_file,
	.free = free_delta,
};

struct end *
delta_end_open(int fd, const char *path, const struct delta_header *header)
{
	struct delta_end *delta = g_new0(struct delta_end, 1);

	delta->end = (struct end){
		.kind = &delta_end_kind, .name = g_strdup(path), .zero_max = PLAN_ZERO_MAX};
	delta->fd = fd;
	delta->header = header;
	return &delta->end;
}

struct end *
delta_end_create(int fd, const char *path, struct delta_header *header, GError **error)
{
	g_autofree uint8_t *bytes = g_malloc(DELTA_HEADER_MAX);
	const size_t size = delta_header_encode(header, bytes);
	struct end *end = delta_end_open(fd, path, header);
	struct delta_end *delta = (struct delta_end *)end;
	int failed = file_write_all(fd, bytes, size, 0);

	delta->position = size;
	delta->fresh = header->number == 0;
	if (!failed)
		return end;
	end_clear(&end);
	return FAILURE_NULL(error, failed, "%s: %s", path, g_strerror(failed));
}

void
delta_end_set_merged(struct end *end, uint32_t merged)
{
	((struct delta_end *)end)->merged = merged;
}

/* ---- to read one */

bool
delta_read_header(int fd, const char *path, struct delta_header *header, GError **error)
{
	g_autofree uint8_t *bytes = g_malloc(DELTA_HEADER_MAX);
	char *CLEANUP_FREE why = NULL;
	ssize_t n = pread(fd, bytes, DELTA_HEADER_MAX, 0);

	if (n < 0)
		return failure_errno(error, errno, "%s", path);
	if (delta_header_decode(header, bytes, (size_t)n, &why) < 0)
		return failure(error, EBADMSG, "%s: %s", path, why ? why : g_strerror(ENOMEM));
	return true;
}

static bool
delta_is_torn(const char *path, uint64_t position, const char *why, GError **error)
{
	return failure(error, EBADMSG,
		       "%s is torn or damaged at its byte %" G_GUINT64_FORMAT ": %s", path,
		       position, why);
}

/* What the records so far have in common with the last one. */
struct scan {
	const char *path;
	uint64_t position, size; /* of the next record, of the file; bytes */
	uint64_t records, bytes;
	bool ended;
};

static bool
scan_take_record(struct scan *scan, const struct delta_record *record, GArray *plan, GError **error)
{
	struct part part = {
		.offset = record->offset,
		.length = record->length,
		.zero = record->type == DELTA_ZEROES,
		.checksum = record->checksum,
	};

	if (record->type == DELTA_END) {
		scan->ended = true;
		return (record->offset == scan->records && record->length == scan->bytes &&
			scan->position + DELTA_RECORD_SIZE == scan->size) ||
		       delta_is_torn(scan->path, scan->position, "its end is that of another file",
				     error);
	}
	scan->records++;
	scan->position += DELTA_RECORD_SIZE;
	if (record->type == DELTA_DATA) {
		part.position = scan->position;
		part.record = (uint32_t)record->length;
		scan->bytes += record->length;
		scan->position += record->length;
	}
	g_array_append_val(plan, part);
	return true;
}

static int
compare_parts(const void *a, const void *b)
{
	const struct part *first = a, *second = b;

	return first->offset < second->offset ? -1 : first->offset > second->offset;
}

/* Parts that overlap would have to be written in the order of the file. */
static bool
sort_parts(GArray *plan, const char *path, GError **error)
{
	g_array_sort(plan, compare_parts);
	for (guint i = 1; i < plan->len; i++) {
		const struct part *before = plan_part(plan, i - 1);

		if (before->offset + before->length > plan_part(plan, i)->offset)
			return failure(error, EBADMSG,
				       "%s: two of its records are for the same bytes", path);
	}
	return true;
}

/* Adds the records to the plan. */
static bool
scan_records(int fd, const char *path, const struct delta_header *header, GArray *plan,
	     GError **error)
{
	struct scan scan = {.path = path, .position = header->length};
	struct stat st;

	if (fstat(fd, &st) < 0)
		return failure_errno(error, errno, "%s", path);
	scan.size = (uint64_t)st.st_size;
	while (!scan.ended) {
		uint8_t bytes[DELTA_RECORD_SIZE];
		char *CLEANUP_FREE why = NULL;
		struct delta_record record;
		int failed;

		if (scan.position + DELTA_RECORD_SIZE > scan.size)
			return delta_is_torn(path, scan.position, "it ends there", error);
		failed = file_read_all(fd, bytes, sizeof(bytes), scan.position);
		if (failed)
			return failure(error, failed,
				       "%s: reading at its byte %" G_GUINT64_FORMAT ": %s", path,
				       scan.position, g_strerror(failed));
		if (delta_record_decode(header, bytes, &record, &why) < 0)
			return delta_is_torn(path, scan.position, why ? why : g_strerror(ENOMEM),
					     error);
		if (!scan_take_record(&scan, &record, plan, error))
			return false;
	}
	return sort_parts(plan, path, error);
}

GArray *
delta_plan(int fd, const char *path, const struct delta_header *header, GError **error)
{
	g_autoptr(GArray) records = plan_new();

	if (!scan_records(fd, path, header, records, error))
		return NULL;
	return header->number ? g_steal_pointer(&records) : plan_of_all(records, header->size);
}

static bool
delta_check_data(int fd, const char *path, const struct delta_header *header, GArray *plan,
		 struct progress *progress, GError **error)
{
	const struct delta_end delta = {.fd = fd, .header = header};
	g_autofree void *data = g_malloc(DELTA_DATA_MAX);

	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	for (guint i = 0; i < plan->len; i++) {
		const struct part *part = plan_part(plan, i);
		int failed = part->position ? read_piece(&delta, part, data) : 0;

		if (failed)
			return delta_say_failure(path, part, failed, "reading", error);
		if (!interruption_check(error))
			return false;
		if (part->position && progress)
			progress_add(progress, part->length);
	}
	return true;
}

bool
delta_is_whole(int fd, const char *path, const struct delta_header *header, bool data,
	       struct progress *progress, GError **error)
{
	g_autoptr(GArray) plan = delta_plan(fd, path, header, error);

	return plan && (!data || delta_check_data(fd, path, header, plan, progress, error));
}

bool
delta_read_end(int fd, const char *path, const struct delta_header *header,
	       struct delta_record *record, GError **error)
{
	uint8_t bytes[DELTA_RECORD_SIZE];
	char *CLEANUP_FREE why = NULL;
	g_autoptr(GArray) plan = NULL;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return failure_errno(error, errno, "%s", path);
	if ((uint64_t)st.st_size >= header->length + DELTA_RECORD_SIZE &&
	    file_read_all(fd, bytes, sizeof(bytes), (uint64_t)st.st_size - sizeof(bytes)) == 0 &&
	    delta_record_decode(header, bytes, record, &why) == 0 && record->type == DELTA_END)
		return true;
	/* The file is torn: the error says where. */
	plan = delta_plan(fd, path, header, error);
	return plan && delta_is_torn(path, (uint64_t)st.st_size, "it has no end", error);
}
