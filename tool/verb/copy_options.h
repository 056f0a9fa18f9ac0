/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The options that backup and restore have in common.
 */
#ifndef TOOL_VERB_COPY_OPTIONS_H
#define TOOL_VERB_COPY_OPTIONS_H

#include "tool/backup/end.h"
#include "tool/backup/progress.h"

#include "common/option_row.h"

#include <stddef.h>

struct copy_verb_options {
	unsigned int connections;
	unsigned int seconds; /* without an answer */
	unsigned int json, force;
};

/* Their rows, in the table of a verb whose options have them as `member`. */
#define COPY_OPTION_ROWS(type_, member)                                                            \
	{                                                                                          \
		.name = "connections",                                                             \
		.type = OPTION_UINT,                                                               \
		.field = offsetof(type_, member.connections),                                      \
		.initial = "4",                                                                    \
		.min = 1,                                                                          \
		.max = END_POLLED_MAX,                                                             \
		.arg = "N",                                                                        \
		.help = "how many connections to make to a server",                                \
	},                                                                                         \
		{                                                                                  \
			.name = "timeout",                                                         \
			.type = OPTION_UINT,                                                       \
			.field = offsetof(type_, member.seconds),                                  \
			.initial = "60",                                                           \
			.min = 2,                                                                  \
			.max = 86400,                                                              \
			.arg = "SECONDS",                                                          \
			.help = "how long a server may be lost or silent",                         \
		},                                                                                 \
		OPTION_SWITCH("json", 0, offsetof(type_, member.json),                             \
			      "print the progress as JSON, a line for each second")

/* The progress that the options and the terminal ask for. */
void
copy_verb_progress(const struct copy_verb_options *options, struct progress *progress);

#endif
