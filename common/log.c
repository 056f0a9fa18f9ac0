/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages: formatting, the sink, and the limit for those that could repeat without end.
 */
#include "common/log.h"

#include "common/cleanup.h"
#include "common/clock.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

/* In bytes, with the NUL. Longer messages need memory, and are cut if there is none. */
#define SHORT_MESSAGE 512

static _Atomic(log_sink) current_sink;

static void
sink_stderr(enum log_level level, const char *text)
{
	static const char *const prefixes[] = {
		[LOG_LEVEL_ERROR] = "error: ",
		[LOG_LEVEL_WARNING] = "warning: ",
		[LOG_LEVEL_INFO] = "",
	};

	assert(level != LOG_LEVEL_DEBUG);
	fprintf(stderr, "%s%s\n", prefixes[level], text);
}

void
log_set_sink(log_sink sink)
{
	atomic_store(&current_sink, sink);
}

/* Makes a message one line of plain text: a file name may contain newlines and escape sequences. */
static void
text_disarm(char *text)
{
	for (; *text; text++)
		if (((unsigned char)*text < ' ' && *text != '\t') || *text == 0x7f)
			*text = '?';
}

static void __attribute__((format(printf, 2, 0)))
log_message(enum log_level level, const char *format, va_list arguments)
{
	int saved = errno;
	log_sink sink = atomic_load(&current_sink);
	char short_text[SHORT_MESSAGE];
	char *CLEANUP_FREE long_text = NULL;
	char *text = short_text;
	va_list again;
	int length;

	if (!sink && level == LOG_LEVEL_DEBUG)
		return;

	va_copy(again, arguments);
	length = vsnprintf(short_text, sizeof(short_text), format, arguments);
	if (length < 0)
		short_text[0] = '\0';
	if (length >= (int)sizeof(short_text)) {
		errno = saved; /* the format may contain %m */
		if (vasprintf(&long_text, format, again) >= 0)
			text = long_text;
		else
			long_text = NULL;
	}
	va_end(again);

	text_disarm(text);
	if (sink)
		sink(level, text);
	else
		sink_stderr(level, text);
	errno = saved;
}

#define LOG_FORMATTED(level)                                                                       \
	do {                                                                                       \
		va_list arguments;                                                                 \
                                                                                                   \
		va_start(arguments, format);                                                       \
		log_message((level), format, arguments);                                           \
		va_end(arguments);                                                                 \
	} while (0)

void
log_error(const char *format, ...)
{
	LOG_FORMATTED(LOG_LEVEL_ERROR);
}

void
log_warning(const char *format, ...)
{
	LOG_FORMATTED(LOG_LEVEL_WARNING);
}

void
log_info(const char *format, ...)
{
	LOG_FORMATTED(LOG_LEVEL_INFO);
}

void
log_debug(const char *format, ...)
{
	LOG_FORMATTED(LOG_LEVEL_DEBUG);
}

bool
log_limit_pass(struct log_limit *limit, unsigned int *suppressed)
{
	uint64_t length = (uint64_t)limit->seconds * 1000000000;
	uint64_t now;
	bool pass;

	assert(limit->burst >= 1 && limit->seconds >= 1);

	pthread_mutex_lock(&limit->lock);
	now = clock_ns(CLOCK_MONOTONIC);
	/* The first window begins with the first message, not at 0. */
	if (limit->passed == 0 || now - limit->window_start >= length) {
		limit->window_start = now;
		limit->passed = 0;
	}
	pass = limit->passed < limit->burst;
	if (pass) {
		limit->passed++;
		if (suppressed)
			*suppressed = limit->suppressed;
		limit->suppressed = 0;
	} else {
		limit->suppressed++;
	}
	pthread_mutex_unlock(&limit->lock);
	return pass;
}

const char *
log_left_out(unsigned int suppressed, char text[LOG_LEFT_OUT])
{
	text[0] = '\0';
	if (suppressed)
		snprintf(text, LOG_LEFT_OUT, " (%u similar messages were left out)", suppressed);
	return text;
}
