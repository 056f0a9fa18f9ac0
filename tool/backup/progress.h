/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How far a copy has come: a bar on a terminal, lines of JSON, or nothing.
 */
#ifndef TOOL_BACKUP_PROGRESS_H
#define TOOL_BACKUP_PROGRESS_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum progress_form {
	PROGRESS_NONE,
	PROGRESS_BAR,  /* a line of the terminal that is written again */
	PROGRESS_JSON, /* a line for each second */
};

/* Its counters are for everybody to read. */
struct progress {
	enum progress_form form;
	FILE *out;
	const char *step;     /* "copy", "verify", "apply" */
	uint64_t total, done; /* bytes of this step: data that is read, and zeroes are none */
	uint64_t copied;      /* bytes of data, in all steps "copy" */
	gint64 begun, shown;  /* us, monotonic: this step, and what was shown last; 0: nothing */
};

/* Begins a step; `step` is not copied. */
void
progress_begin(struct progress *progress, const char *step, uint64_t total);

/* Counts, and shows it if the last time was a while ago. */
void
progress_add(struct progress *progress, uint64_t bytes);
void
progress_show(struct progress *progress);

/* The step is done: shows that, and ends the line. */
void
progress_end(struct progress *progress);

/* The step has failed: an error can follow on a line of its own. */
void
progress_fail(struct progress *progress);

/* "1:02:03", "2:05".  Writes at most 32 bytes. */
const char *
progress_duration(double seconds, char text[32]);

/* The text of the bar, without its line's begin and end, at this time after the step's begin.  It
 * has at most `columns` characters: what is missing then is first a part of the bar, then the rate,
 * the bar, and the time.  Caller frees (g_free). */
char *
progress_bar(const struct progress *progress, double seconds, int columns);

#endif
