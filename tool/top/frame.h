/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The text that nbdloop top shows: its columns, and the lines of a report or a screen.  Each line
 * has no more cells than the screen is wide.
 */
#ifndef TOOL_TOP_FRAME_H
#define TOOL_TOP_FRAME_H

#include "tool/top/row.h"

#include <glib.h>

struct frame {
	const GPtrArray *rows; /* struct row *, sorted */
	enum row_order order;
	bool reverse;
	double delay;         /* seconds */
	bool lacks_servers;   /* not all have been found */
	unsigned int denied;  /* servers that answer only other users */
	unsigned int hidden;  /* rows that are left out because nothing happens */
	unsigned int columns; /* of the screen; 0: lines may have any length */
	unsigned int left;    /* how many cells of the lines are left of the screen */
};

/* Appends lines without their ends as one text each (char *). */

/* Two lines: what this is, and sums. */
void
frame_summary(const struct frame *frame, GPtrArray *lines);

/* What the list lacks, and why.  Caller frees (g_free). */
char *
frame_remarks(const struct frame *frame);

/* One line: the headings. */
void
frame_headings(const struct frame *frame, GPtrArray *lines);

/* How many lines frame_row() appends: a second one has trouble, or a limit that is reached. */
unsigned int
frame_row_lines(const struct row *row);
void
frame_row(const struct frame *frame, const struct row *row, GPtrArray *lines);

/* What the keys do. */
void
frame_help(const struct frame *frame, GPtrArray *lines);

/* The part of `text` from the cell `left` on that has at most `columns` cells (0: all of it), with
 * what a terminal could take for a command replaced.  Caller frees (g_free). */
char *
frame_cut(const char *text, unsigned int left, unsigned int columns);

/* How many cells a text of frame_cut() takes. */
unsigned int
frame_cells(const char *text);

#endif
