/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The option rows that nbdloopd and the plugin have in common, besides those of an image.
 */
#ifndef COMMON_SERVER_OPTIONS_H
#define COMMON_SERVER_OPTIONS_H

#include "common/option_row.h"

#define SERVER_OPTION_CONTROL(field_)                                                              \
	{                                                                                          \
		.name = "control", .type = OPTION_STRING, .field = (field_), .arg = "PATH",        \
		.help = "listen on this unix socket for requests for the status and for changes",  \
	}

#define SERVER_OPTION_NOTIFY_FD(field_)                                                            \
	{                                                                                          \
		.name = "notify-fd", .type = OPTION_UINT, .field = (field_), .min = 3,             \
		.max = 1 << 20, .arg = "N",                                                        \
		.help = "write a line of JSON for each event to file descriptor N",                \
	}

#define SERVER_OPTION_SWAP(field_)                                                                 \
	{                                                                                          \
		.name = "swap", .type = OPTION_CHOICE, .field = (field_), .initial = "off",        \
		.choices = option_off_on, .alone = "on", .arg = "on|off",                          \
		.help = "prepare for a disk that this machine itself swaps or writes back to",     \
	}

#endif
