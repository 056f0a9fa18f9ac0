/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Figures that servers tell. One row describes a figure for all uses: its name in the status, its
 * metric, and its entry in the manual.
 */
#ifndef COMMON_FIGURE_ROW_H
#define COMMON_FIGURE_ROW_H

#include <stddef.h>

struct figure_row {
	const char *metric; /* a family of metrics; ends with the unit, if there is one. NULL: the
			       figure is in the status only */
	const char *type;   /* of the family: "counter", "gauge", "histogram" or "info" */
	const char *unit;   /* a base unit: "seconds", "bytes"; NULL: none */
	const char *help;   /* one line, without a backslash */
	const char *op; /* of several figures of a family: which one this is; NULL: the only one */
	const char *name; /* in the status; NULL: the status has it in another form */
	size_t field;     /* offsetof() in the structure that has the figures: a uint64_t; of the
			     unit "seconds", in microseconds */
};

#endif
