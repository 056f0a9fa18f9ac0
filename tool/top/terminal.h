/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The terminal of nbdloop top: a screen of its own, which is drawn whole, and keys.  It needs no
 * more than the control sequences that all terminals of the last decades know.
 */
#ifndef TOOL_TOP_TERMINAL_H
#define TOOL_TOP_TERMINAL_H

#include <glib.h>
#include <stdbool.h>

enum terminal_key {
	/* All others are characters. */
	KEY_UP = 256,
	KEY_DOWN,
	KEY_LEFT,
	KEY_RIGHT,
	KEY_PAGE_UP,
	KEY_PAGE_DOWN,
	KEY_HOME,
	KEY_END,
	KEY_UNKNOWN,
	KEY_ESCAPE = 27,
	KEY_RUBOUT = 127,
};

/* Whether standard input and output are one: only then the functions below may be called. */
bool
terminal_is_there(void);

/* Takes the terminal: keys are not shown, and come one by one.  A crash gives it back, too.  False:
 * *error is set. */
bool
terminal_enter(GError **error);

/* Gives it back as it was. */
void
terminal_leave(void);

/* Its size; 80 and 24 if it doesn't know. */
void
terminal_size(unsigned int *columns, unsigned int *lines);

/* Writes all of it: what fails now fails again, and ends the program by a signal. */
void
terminal_write(const char *text, size_t length);

/* Reads what has been typed, and appends the keys (int).  False: the terminal is gone. */
bool
terminal_read(GArray *keys);

/* Takes keys out of bytes: escape sequences are one key.  Returns how many bytes they were; the
 * rest is the beginning of a sequence. */
size_t
terminal_decode(const char *bytes, size_t count, GArray *keys);

#endif
