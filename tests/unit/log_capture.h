/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keeps what is logged, for tests of messages.
 */
#ifndef TESTS_UNIT_LOG_CAPTURE_H
#define TESTS_UNIT_LOG_CAPTURE_H

#include "common/log.h"

#include <stdbool.h>

/* Starts anew with nothing kept. */
void
log_capture_begin(void);
void
log_capture_end(void);

/* How many messages of a level there were. */
unsigned int
log_capture_count(enum log_level level);

/* The n-th message of a level, or "". */
const char *
log_capture_text(enum log_level level, unsigned int n);

/* Whether a message holds that text. */
bool
log_capture_has(enum log_level level, const char *text);

#endif
