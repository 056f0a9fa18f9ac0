/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keeps what is told as events, for tests of them.
 */
#ifndef TESTS_UNIT_EVENT_CAPTURE_H
#define TESTS_UNIT_EVENT_CAPTURE_H

#include "common/event.h"

#include <stdbool.h>

/* Opens a pipe for events, and returns the end to read, non-blocking.  event_capture_end() closes
 * both. */
int
event_capture_begin(void);
void
event_capture_end(void);

/* Whether that event was told, with these members, and perhaps a text besides. */
bool
event_capture_has(const struct event *event);

#endif
