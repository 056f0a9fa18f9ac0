/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/stdio.h"

#include "tests/simulation/call.h"
#include "tests/simulation/disk.h"
#include "tests/simulation/memory.h"
#include "tests/simulation/process.h"
#include "tests/simulation/trace.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A stream of memory writes to the owner's variables; of a killed process, they are gone. */
struct stream_file {
	FILE *file;
	bool dead;
	char **bytes; /* NULL: a file that is read */
	size_t *size, room;
	struct stream_file *next;
};

static ssize_t
memory_stream_write(void *cookie, const char *bytes, size_t size)
{
	struct stream_file *stream = cookie;

	if (stream->dead)
		return (ssize_t)size;
	while (*stream->size + size + 1 > stream->room) {
		stream->room *= 2;
		*stream->bytes = memory_resize(*stream->bytes, stream->room);
	}
	memcpy(*stream->bytes + *stream->size, bytes, size);
	*stream->size += size;
	(*stream->bytes)[*stream->size] = '\0';
	return (ssize_t)size;
}

static struct stream_file *
stream_file_new(void)
{
	struct process *process = process_self();
	struct stream_file *stream = calloc(1, sizeof(*stream));

	stream->next = process->stream_files;
	process->stream_files = stream;
	return stream;
}

CALL(FILE *, open_memstream, char **bytes, size_t *size)
{
	struct stream_file *stream = stream_file_new();

	stream->bytes = bytes;
	stream->size = size;
	stream->room = 256;
	*bytes = memory_take(stream->room);
	(*bytes)[0] = '\0';
	*size = 0;
	stream->file =
		fopencookie(stream, "w", (cookie_io_functions_t){.write = memory_stream_write});
	return stream->file;
}

/* Only files of the simulated disk are there: /proc and /sys are empty. */
CALL(FILE *, fopen, const char *path, const char *mode)
{
	const struct file *file = disk_find(path);
	struct stream_file *stream;

	(void)mode;
	if (!file)
		return errno = ENOENT, NULL;
	stream = stream_file_new();
	stream->file = fmemopen(NULL, file->size + 1, "w+");
	fwrite(file->bytes, 1, file->size, stream->file);
	rewind(stream->file);
	return stream->file;
}

static int
stream_file_close(struct stream_file *stream)
{
	const int r = fclose(stream->file);

	free(stream);
	return r;
}

CALL(int, fclose, FILE *file)
{
	struct stream_file **at = &process_self()->stream_files;

	while (*at) {
		struct stream_file *stream = *at;

		if (stream->file == file) {
			*at = stream->next;
			return stream_file_close(stream);
		}
		at = &stream->next;
	}
	if (file == stdout)
		return 0;
	trace_fail("a stream is closed that is not open");
}

void
stream_files_close(struct process *process, bool well)
{
	while (process->stream_files) {
		struct stream_file *stream = process->stream_files;

		if (well)
			trace_fail("the server ended and left a stream open");
		process->stream_files = stream->next;
		stream->dead = true;
		stream_file_close(stream);
	}
}

CALL(ssize_t, __getdelim, char **line, size_t *room, int end, FILE *file)
{
	size_t length = 0;
	int c;

	while ((c = getc(file)) != EOF) {
		if (length + 2 > *room || !*line) {
			*room = 2 * (length + 64);
			*line = memory_resize(*line, *room);
		}
		(*line)[length++] = (char)c;
		(*line)[length] = '\0';
		if (c == end)
			break;
	}
	return length ? (ssize_t)length : -1;
}

CALL(int, fprintf, FILE *file, const char *format, ...)
{
	va_list arguments;
	char text[512];
	int n;

	va_start(arguments, format);
	if (file == stderr) {
		n = vsnprintf(text, sizeof(text), format, arguments);
		text[strcspn(text, "\n")] = '\0';
		trace("%s", text);
	} else {
		n = vfprintf(file, format, arguments);
	}
	va_end(arguments);
	return n;
}

CALL(int, setvbuf, FILE *file, char *buffer, int mode, size_t size)
{
	(void)file;
	(void)buffer;
	(void)mode;
	(void)size;
	return 0;
}

CALL(DIR *, opendir, const char *path)
{
	(void)path;
	errno = ENOENT;
	return NULL;
}

CALL(char *, realpath, const char *path, char *resolved)
{
	char *copy = memory_take(strlen(path) + 1);

	(void)resolved;
	return strcpy(copy, path);
}

CALL(char *, getcwd, char *path, size_t size)
{
	(void)path;
	(void)size;
	return strcpy(memory_take(2), "/");
}
