/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages and their limit.
 */
#include "common/log.h"

#include "tests/lib/suite.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum log_level seen_level;
static char seen_text[8192];
static unsigned int seen_count;

static void
sink_remember(enum log_level level, const char *text)
{
	seen_level = level;
	snprintf(seen_text, sizeof(seen_text), "%s", text);
	seen_count++;
	errno = EDOM;
}

static void
sink_begin(void)
{
	seen_count = 0;
	log_set_sink(NULL);
}

static void
sink_end(void)
{
	log_set_sink(NULL);
}

static void
assert_seen(enum log_level level, const char *text)
{
	ck_assert_uint_eq(seen_count, 1);
	ck_assert_int_eq(seen_level, level);
	ck_assert_str_eq(seen_text, text);
	seen_count = 0;
}

START_TEST(sink_gets_the_level_and_the_formatted_line)
{
	log_set_sink(sink_remember);
	log_error("%s: %d", "disk.img", 1);
	assert_seen(LOG_LEVEL_ERROR, "disk.img: 1");
	log_warning("w%d", 2);
	assert_seen(LOG_LEVEL_WARNING, "w2");
	log_info("i%d", 3);
	assert_seen(LOG_LEVEL_INFO, "i3");
	log_debug("d%d", 4);
	assert_seen(LOG_LEVEL_DEBUG, "d4");
}
END_TEST

START_TEST(long_message_arrives_whole)
{
	char name[5000];

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	log_set_sink(sink_remember);
	errno = ENOSPC;
	log_error("%s: %m", name);
	ck_assert_uint_eq(strlen(seen_text),
			  sizeof(name) - 1 + strlen(": No space left on device"));
	ck_assert_int_eq(strncmp(seen_text, name, sizeof(name) - 1), 0);
	ck_assert_str_eq(seen_text + sizeof(name) - 1, ": No space left on device");
}
END_TEST

START_TEST(every_length_around_the_short_buffer_arrives_whole)
{
	char name[1100];

	log_set_sink(sink_remember);
	for (size_t length = 500; length < sizeof(name); length++) {
		memset(name, 'x', length);
		name[length] = '\0';
		log_info("%s", name);
		ck_assert_str_eq(seen_text, name);
	}
}
END_TEST

START_TEST(control_characters_cannot_make_a_second_line)
{
	log_set_sink(sink_remember);
	log_info("%s", "a\nb\rc\033[31md\x7f\te\xc3\xa4");
	assert_seen(LOG_LEVEL_INFO, "a?b?c?[31md?\te\xc3\xa4");
}
END_TEST

START_TEST(errno_is_preserved)
{
	log_set_sink(sink_remember);
	errno = EUCLEAN;
	log_error("%s", "x");
	ck_assert_int_eq(errno, EUCLEAN);
	log_set_sink(NULL);
	log_debug("%s", "x");
	ck_assert_int_eq(errno, EUCLEAN);
}
END_TEST

/* Runs talk() with standard error in a file; text gets what was written. */
static void
stderr_capture(void (*talk)(void), char *text, size_t size)
{
	FILE *file = tmpfile();
	int saved = dup(STDERR_FILENO);
	size_t length;

	ck_assert_ptr_nonnull(file);
	ck_assert_int_ge(saved, 0);
	ck_assert_int_ge(dup2(fileno(file), STDERR_FILENO), 0);
	talk();
	ck_assert_int_ge(dup2(saved, STDERR_FILENO), 0);
	close(saved);
	rewind(file);
	length = fread(text, 1, size - 1, file);
	text[length] = '\0';
	fclose(file);
}

static void
talk_all_levels(void)
{
	log_error("broken: %d", 1);
	log_warning("odd");
	log_info("hello");
	log_debug("nobody sees this");
}

START_TEST(default_sink_writes_prefixed_lines_to_stderr_and_drops_debug)
{
	char text[256];

	stderr_capture(talk_all_levels, text, sizeof(text));
	ck_assert_str_eq(text, "error: broken: 1\nwarning: odd\nhello\n");
}
END_TEST

START_TEST(null_sink_restores_the_default)
{
	char text[256];

	log_set_sink(sink_remember);
	stderr_capture(talk_all_levels, text, sizeof(text));
	ck_assert_str_eq(text, "");
	ck_assert_uint_eq(seen_count, 4);

	log_set_sink(NULL);
	stderr_capture(talk_all_levels, text, sizeof(text));
	ck_assert_str_eq(text, "error: broken: 1\nwarning: odd\nhello\n");
	ck_assert_uint_eq(seen_count, 4);
}
END_TEST

START_TEST(burst_passes_and_the_rest_of_the_window_does_not)
{
	struct log_limit limit = LOG_LIMIT_INIT(3, 3600);
	unsigned int suppressed = 99;

	for (int i = 0; i < 3; i++) {
		ck_assert(log_limit_pass(&limit, &suppressed));
		ck_assert_uint_eq(suppressed, 0);
	}
	for (int i = 0; i < 10; i++)
		ck_assert(!log_limit_pass(&limit, &suppressed));
}
END_TEST

START_TEST(next_window_passes_and_tells_how_many_were_dropped)
{
	struct log_limit limit = LOG_LIMIT_INIT(1, 10);
	unsigned int suppressed = 99;

	ck_assert(log_limit_pass(&limit, NULL));
	ck_assert(!log_limit_pass(&limit, NULL));
	ck_assert(!log_limit_pass(&limit, NULL));

	/* As if 9 of the 10 seconds had gone by, then all of them. */
	limit.window_start -= UINT64_C(9) * 1000000000;
	ck_assert(!log_limit_pass(&limit, NULL));
	limit.window_start -= UINT64_C(1) * 1000000000;
	ck_assert(log_limit_pass(&limit, &suppressed));
	ck_assert_uint_eq(suppressed, 3);

	/* The new window has its own count. */
	ck_assert(!log_limit_pass(&limit, NULL));
	limit.window_start -= UINT64_C(10) * 1000000000;
	ck_assert(log_limit_pass(&limit, &suppressed));
	ck_assert_uint_eq(suppressed, 1);
}
END_TEST

START_TEST(first_window_begins_with_the_first_message)
{
	struct log_limit limit = LOG_LIMIT_INIT(1, 3600);
	struct timespec now;
	uint64_t ns;

	ck_assert(log_limit_pass(&limit, NULL));
	clock_gettime(CLOCK_MONOTONIC, &now);
	ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	ck_assert_uint_le(limit.window_start, ns);
	ck_assert_uint_gt(limit.window_start + UINT64_C(10) * 1000000000, ns);
}
END_TEST

#define RACERS         4
#define RACER_MESSAGES 50000

static pthread_barrier_t race_start;
static struct log_limit race_limit = LOG_LIMIT_INIT(5, 3600);

static void *
race_messages(void *data)
{
	unsigned int *passed = data;

	pthread_barrier_wait(&race_start);
	for (int i = 0; i < RACER_MESSAGES; i++)
		*passed += log_limit_pass(&race_limit, NULL);
	return NULL;
}

START_TEST(threads_together_pass_exactly_the_burst)
{
	pthread_t threads[RACERS];
	unsigned int passed[RACERS] = {0}, total = 0;

	pthread_barrier_init(&race_start, NULL, RACERS);
	for (int i = 0; i < RACERS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, race_messages, &passed[i]), 0);
	for (int i = 0; i < RACERS; i++) {
		pthread_join(threads[i], NULL);
		total += passed[i];
	}
	ck_assert_uint_eq(total, 5);
	ck_assert_uint_eq(race_limit.suppressed, RACERS * RACER_MESSAGES - 5);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "messages", .begin = sink_begin, .end = sink_end},
		{.test = sink_gets_the_level_and_the_formatted_line},
		{.test = long_message_arrives_whole},
		{.test = every_length_around_the_short_buffer_arrives_whole},
		{.test = control_characters_cannot_make_a_second_line},
		{.test = errno_is_preserved},
		{.test = default_sink_writes_prefixed_lines_to_stderr_and_drops_debug},
		{.test = null_sink_restores_the_default},
		{.name = "limits"},
		{.test = burst_passes_and_the_rest_of_the_window_does_not},
		{.test = next_window_passes_and_tells_how_many_were_dropped},
		{.test = first_window_begins_with_the_first_message},
		{.test = threads_together_pass_exactly_the_burst},
		{0},
	};

	return suite_run("log", cases);
}
