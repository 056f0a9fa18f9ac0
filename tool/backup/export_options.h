/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which export is an end of a copy, and how it is used.
 */
#ifndef TOOL_BACKUP_EXPORT_OPTIONS_H
#define TOOL_BACKUP_EXPORT_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#define EXPORT_END_BITMAPS 2 /* that one end can ask for */

struct export_end_options {
	const char *uri;                         /* of one server */
	const char *bitmaps[EXPORT_END_BITMAPS]; /* whose changes are wanted; NULL: none */
	unsigned int connections;                /* at most; 1 to END_POLLED_MAX */
	unsigned int seconds; /* that it may be without an answer, or lost; at least 1 */
	bool writable;        /* it is to be written to */
	uint64_t least_size;  /* bytes that it must have; 0: any number */
};

#endif
