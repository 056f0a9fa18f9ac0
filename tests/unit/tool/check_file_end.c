/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A raw file as the target of a copy, on a machine that has no room for a thread.
 */
#include "tool/backup/file_end.h"

#include "tests/lib/suite.h"
#include "tests/unit/scratch_file.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define WRITES 3

static int failures;

/* In the place of the C library's: GLib calls this one. */
__attribute__((visibility("default"))) int
pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *data),
	       void *data)
{
	(void)thread, (void)attributes, (void)run, (void)data;
	return EAGAIN;
}

static void
note_failure(struct end_request *request, GError *error)
{
	(void)request;
	ck_assert_ptr_nonnull(error);
	ck_assert_msg(strstr(error->message, "image: writing 4096 bytes at 0: "), "%s",
		      error->message);
	g_error_free(error);
	failures++;
}

/* The lowest descriptor that is free. */
static int
next_descriptor(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	close(fd);
	return fd;
}

START_TEST(writes_fail_without_threads_and_leave_no_descriptor_open)
{
	static unsigned char data[FILE_END_ALIGNMENT];
	struct end_request request = {
		.operation = END_WRITE,
		.piece = {.length = sizeof(data)},
		.data = data,
		.done = note_failure,
	};
	struct end *END_CLEANUP end = file_end_new(scratch_file(sizeof(data)), "image", false);
	int before = -1;

	for (int i = 0; i < WRITES; i++) {
		end->kind->start(end, &request);
		/* GLib may have opened something for itself, once. */
		if (i == 0)
			before = next_descriptor();
	}
	ck_assert_int_eq(failures, WRITES);
	ck_assert_int_eq(next_descriptor(), before);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "file_end"},
		{.test = writes_fail_without_threads_and_leave_no_descriptor_open},
		{0},
	};

	return suite_run("file_end", cases);
}
