/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where messages go.  The program chooses one sink (standard error unless it
 * says otherwise); everybody else calls log_error() and its kin.  A message is
 * one line without its newline.  Thread-safe; errno is preserved.
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

/* Called with a complete, NUL-terminated line that it doesn't own. */
typedef void (*log_sink)(enum log_level level, const char *text);

/* NULL restores the default: "error: ", "warning: " or nothing, and the text,
 * on standard error; debug messages are dropped. */
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
 * A limit for messages that a request path can repeat without end: in each
 * window of `seconds`, the first `burst` pass and the rest are only counted.
 */
struct log_limit {
	pthread_mutex_t lock;
	unsigned int burst;    /* messages that pass per window, >= 1 */
	unsigned int seconds;  /* length of a window, >= 1 */
	uint64_t window_start; /* CLOCK_MONOTONIC, ns; guarded by lock, as what follows */
	unsigned int passed;
	unsigned int suppressed;
};

#define LOG_LIMIT_INIT(burst_, seconds_)                                                           \
	{                                                                                          \
		.lock = PTHREAD_MUTEX_INITIALIZER, .burst = (burst_), .seconds = (seconds_)        \
	}

/* True when this message may be logged; *suppressed (may be NULL) then gets how many
 * were dropped since the last one that passed, for log_left_out(). */
bool
log_limit_pass(struct log_limit *limit, unsigned int *suppressed);

/* Room for what log_left_out() writes. */
#define LOG_LEFT_OUT 64

/* The end of a limited message: " (3 similar messages were left out)", or nothing.  Returns `text`.
 */
const char *
log_left_out(unsigned int suppressed, char text[LOG_LEFT_OUT]);

#endif
