/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the user of nbdloop top sees, and how keys change it: order, place in the list, help, and
 * the question for another delay.
 */
#ifndef TOOL_TOP_VIEW_H
#define TOOL_TOP_VIEW_H

#include "tool/top/row.h"

#include <glib.h>

#define VIEW_DELAY_LEAST 0.1
#define VIEW_DELAY_MOST  86400.0

struct view {
	enum row_order order;
	bool reverse;
	bool hides_idle;
	bool lacks_servers;  /* not all have been found */
	unsigned int denied; /* servers that answer only other users */
	bool helps;          /* the help is shown */
	GString *question;   /* the delay that is being typed; NULL: none */
	double delay;        /* seconds */
	char *message;       /* until the next key; NULL: none */
	unsigned int first;  /* row at the top */
	unsigned int left;   /* cells that are left of the screen */
	GPtrArray *rows;     /* struct row *, owned; sorted by view_sort() */
};

enum view_wish {
	VIEW_DRAW,
	VIEW_MEASURE, /* now */
	VIEW_END,
};

void
view_init(struct view *view, enum row_order order, double delay);
void
view_fini(struct view *view);

/* The delay that a text means.  False: it is none. */
bool
view_parse_delay(const char *text, double *delay);

void
view_sort(struct view *view);

enum view_wish
view_key(struct view *view, int key);

/* The whole screen as bytes for a terminal of that size: it is drawn over the last one, so that
 * nothing flickers.  Caller frees (g_string_free). */
GString *
view_screen(struct view *view, unsigned int columns, unsigned int lines);

/* Prints a report. */
void
view_print(struct view *view, FILE *out);

#endif
