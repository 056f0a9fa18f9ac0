/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log. A program may choose a sink for its messages; the default is standard error. A message
 * is one line, without its newline. Any thread may call these functions, and they preserve errno.
 */
#ifndef COMMON_LOG_H
#define COMMON_LOG_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum log_level {
	LOG_LEVEL_ERROR,
	LOG_LEVEL_WARNING,
	LOG_LEVEL_INFO,
	LOG_LEVEL_DEBUG,
};

/* Gets a complete line. `text` is valid only during the call. */
typedef void (*log_sink)(enum log_level level, const char *text);

/* Sets the sink. NULL restores the default, which writes the text to standard error after "error:
 * ", "warning: " or nothing, and drops debug messages. */
void
log_set_sink(log_sink sink);

void
log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void
log_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));
void
log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void
log_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * A limit for messages that requests can cause again and again: in each window of `seconds`, the
 * first `burst` messages pass, and the others are only counted.
 */
struct log_limit {
	pthread_mutex_t lock;
	unsigned int burst;    /* number of messages that pass in a window, at least 1 */
	unsigned int seconds;  /* length of a window, at least 1 */
	uint64_t window_start; /* CLOCK_MONOTONIC, ns; guarded by lock, like the members below */
	unsigned int passed;
	unsigned int suppressed;
};

#define LOG_LIMIT_INIT(burst_, seconds_)                                                           \
	{                                                                                          \
		.lock = PTHREAD_MUTEX_INITIALIZER, .burst = (burst_), .seconds = (seconds_)        \
	}

/* Returns whether a message may be logged now. If so, sets *suppressed (may be NULL), for
 * log_left_out(), to the number of messages that were dropped since the last one that passed. */
bool
log_limit_pass(struct log_limit *limit, unsigned int *suppressed);

/* Size of the text of log_left_out(), in bytes, with its NUL. */
#define LOG_LEFT_OUT 64

/* Writes the end of a limited message: " (3 similar messages were left out)", or "". Returns
 * `text`.
 */
const char *
log_left_out(unsigned int suppressed, char text[LOG_LEFT_OUT]);

#endif
