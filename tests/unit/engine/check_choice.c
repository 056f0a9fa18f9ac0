/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choice of a backend for an image, and the reasons that a user is told.
 */
#include "engine/backend/choice.h"

#include "tests/lib/suite.h"

#include <check.h>
#include <dlfcn.h>
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static const struct backend *chosen;
static char engine_reason[REASON_MAX], poll_reason[REASON_MAX], *choice_error;

/* Signals that come before a submission. */
static unsigned int signals;

int
io_uring_submit_and_wait(struct io_uring *ring, unsigned int count)
{
	int (*next)(struct io_uring *, unsigned int);

	if (signals > 0) {
		signals--;
		return -EINTR;
	}
	*(void **)&next = dlsym(RTLD_NEXT, "io_uring_submit_and_wait");
	return next(ring, count);
}

static int
choose(enum engine_choice engine, enum tristate poll, bool direct)
{
	const struct image_config config = {.engine = engine, .poll = poll};
	char path[] = "disk.img";
	const struct backing backing = {.path = path,
					.fd = 0,
					.direct_fd = -1,
					.direct_reason = "the file system does not support it"};

	chosen = NULL;
	choice_error = NULL;
	return backend_choose(&config, &backing, direct, &chosen, engine_reason, poll_reason,
			      &choice_error);
}

START_TEST(auto_takes_the_first_engine_that_works)
{
	char why[REASON_MAX];

	ck_assert_int_eq(choose(ENGINE_AUTO, TRISTATE_OFF, false), 0);
	if (backend_works(ENGINE_IO_URING, why) == 0) {
		ck_assert_ptr_eq(chosen, &backend_uring);
		ck_assert_str_eq(engine_reason, "");
	} else {
		ck_assert_ptr_eq(chosen, backend_works(ENGINE_AIO, why) == 0 ? &backend_aio
									     : &backend_calls);
		ck_assert_int_eq(strncmp(engine_reason, "io_uring: ", 10), 0);
	}
	ck_assert_str_eq(poll_reason, "");
	ck_assert_ptr_null(choice_error);
}
END_TEST

START_TEST(auto_makes_plain_calls_where_the_image_is_in_memory)
{
	const struct image_config config = {.engine = ENGINE_AUTO, .poll = TRISTATE_OFF};
	const struct backing backing = {.fd = 0, .direct_fd = -1, .in_memory = true};

	ck_assert_int_eq(backend_choose(&config, &backing, false, &chosen, engine_reason,
					poll_reason, &choice_error),
			 0);
	ck_assert_ptr_eq(chosen, &backend_calls);
	ck_assert_str_eq(engine_reason, "the image is in memory");
}
END_TEST

START_TEST(threads_always_work)
{
	char why[REASON_MAX];

	ck_assert_int_eq(backend_works(ENGINE_THREADS, why), 0);
	ck_assert_int_eq(choose(ENGINE_THREADS, TRISTATE_OFF, false), 0);
	ck_assert_ptr_eq(chosen, &backend_calls);
	ck_assert_str_eq(engine_reason, "");
}
END_TEST

static void
forbid_descriptors(struct rlimit *before)
{
	struct rlimit none;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, before), 0);
	none = *before;
	none.rlim_cur = 0;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
}

START_TEST(engine_that_does_not_work_is_passed_over_with_its_reason)
{
	struct rlimit before;
	int r;

	forbid_descriptors(&before);
	r = choose(ENGINE_AUTO, TRISTATE_OFF, false);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	ck_assert_int_eq(r, 0);
	ck_assert_ptr_ne(chosen, &backend_uring);
	ck_assert_msg(strncmp(engine_reason, "io_uring: ", 10) == 0, "%s", engine_reason);
}
END_TEST

START_TEST(engine_that_was_asked_for_and_does_not_work_is_an_error)
{
	struct rlimit before;
	int r;

	forbid_descriptors(&before);
	r = choose(ENGINE_IO_URING, TRISTATE_OFF, false);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	ck_assert_int_lt(r, 0);
	ck_assert_msg(strncmp(choice_error,
			      "disk.img: engine=io_uring is not possible: io_uring: ", 53) == 0,
		      "%s", choice_error);
	free(choice_error);
}
END_TEST

START_TEST(polling_is_refused_with_the_reason_where_it_cannot_be)
{
	ck_assert_int_eq(choose(ENGINE_THREADS, TRISTATE_AUTO, true), 0);
	ck_assert_ptr_eq(chosen, &backend_calls);
	ck_assert_str_eq(poll_reason, "it needs the io_uring engine");
	ck_assert_int_eq(choose(ENGINE_THREADS, TRISTATE_ON, true), -EOPNOTSUPP);
	ck_assert_msg(strstr(choice_error,
			     "disk.img: poll=on is not possible: it needs the io_uring engine") ==
			      choice_error,
		      "%s", choice_error);
	free(choice_error);
}
END_TEST

START_TEST(polling_needs_direct_io)
{
	char why[REASON_MAX];

	ck_assert_int_eq(
		backend_polled.probe(&(struct backing){.direct_fd = -1, .direct_reason = "because"},
				     why),
		-EOPNOTSUPP);
	ck_assert_str_eq(why, "it needs direct I/O: because");
	if (backend_works(ENGINE_IO_URING, why) < 0) {
		ck_assert_int_lt(choose(ENGINE_IO_URING, TRISTATE_AUTO, false), 0);
		free(choice_error);
		return;
	}
	ck_assert_int_eq(choose(ENGINE_IO_URING, TRISTATE_AUTO, false), 0);
	ck_assert_ptr_eq(chosen, &backend_uring);
	ck_assert_str_eq(poll_reason, "it needs direct I/O, which is off");
	ck_assert_int_eq(choose(ENGINE_IO_URING, TRISTATE_AUTO, true), 0);
	ck_assert_ptr_eq(chosen, &backend_uring);
	ck_assert_str_eq(poll_reason, "it needs direct I/O: the file system does not support it");
}
END_TEST

START_TEST(signal_during_a_trial_says_nothing_about_the_machine)
{
	struct backing backing = {.direct_fd = memfd_create("image", 0), .direct_align = 4096};
	char first[REASON_MAX], then[REASON_MAX];
	int r;

	backing.fd = backing.direct_fd;
	ck_assert_int_eq(ftruncate(backing.fd, 4096), 0);
	if (backend_works(ENGINE_IO_URING, first) == 0) {
		r = backend_polled.probe(&backing, first);
		signals = 2;
		ck_assert_int_eq(backend_polled.probe(&backing, then), r);
		ck_assert_uint_eq(signals, 0);
		if (r < 0)
			ck_assert_str_eq(then, first);
		signals = 2;
		ck_assert_int_eq(backend_uring.probe(&backing, then), 0);
		ck_assert_uint_eq(signals, 0);
	}
	close(backing.fd);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "choice"},
		{.test = auto_takes_the_first_engine_that_works},
		{.test = auto_makes_plain_calls_where_the_image_is_in_memory},
		{.test = threads_always_work},
		{.test = engine_that_does_not_work_is_passed_over_with_its_reason},
		{.test = engine_that_was_asked_for_and_does_not_work_is_an_error},
		{.test = polling_is_refused_with_the_reason_where_it_cannot_be},
		{.test = polling_needs_direct_io},
		{.test = signal_during_a_trial_says_nothing_about_the_machine},
		{0},
	};

	return suite_run("choice", cases);
}
