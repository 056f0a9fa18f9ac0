/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/event_capture.h"

#include "common/cleanup.h"

#include <check.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static int captured = -1;
static char text[64 << 10];
static size_t length;

int
event_capture_begin(void)
{
	char *error;
	int ends[2];

	ck_assert_int_eq(pipe2(ends, O_NONBLOCK), 0);
	ck_assert_int_eq(event_open((unsigned int)ends[1], &error), 0);
	captured = ends[0];
	length = 0;
	return captured;
}

void
event_capture_end(void)
{
	event_close();
	close(captured);
}

bool
event_capture_has(const struct event *event)
{
	size_t size;
	char *CLEANUP_FREE line = event_line(event, &size);
	ssize_t n;

	ck_assert_ptr_nonnull(line);
	line[size - strlen("}\n")] = '\0';
	while ((n = read(captured, text + length, sizeof(text) - length - 1)) > 0)
		length += (size_t)n;
	text[length] = '\0';
	return strstr(text, line) != NULL;
}
