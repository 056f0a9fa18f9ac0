/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An option table with each type of option, and the structure that it fills in.
 */
#ifndef TESTS_UNIT_COMMON_PAINT_OPTIONS_H
#define TESTS_UNIT_COMMON_PAINT_OPTIONS_H

#include "common/option_row.h"

#include <stdint.h>

enum color {
	COLOR_RED,
	COLOR_GREEN,
	COLOR_BLUE
};

struct paint {
	unsigned int guard_before;
	char *file;
	unsigned int color;
	unsigned int guard_color;
	uint64_t offset;
	uint64_t chunk;
	uint64_t sector;
	unsigned int depth;
	unsigned int guard_depth;
	unsigned int any;
	unsigned int port;
	char *label;
	char **coats;
	unsigned int wet;
};

extern const struct option_row rows[];
extern struct paint paint;

/* For a checked fixture: all defaults; and that nothing was written between the fields. */
void
paint_init(void);
void
paint_fini(void);

/* Sets an option, or fails the test. */
void
assert_set(const char *name, const char *value);

#endif
