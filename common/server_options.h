/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The option rows that nbdloopd and the plugin have in common, besides those of an image.
 */
#ifndef COMMON_SERVER_OPTIONS_H
#define COMMON_SERVER_OPTIONS_H

#include "common/option_row.h"

#define SERVER_OPTION_CONTROL(field_)                                                               \
	{                                                                                           \
		.name = "control", .type = OPTION_STRING, .field = (field_), .arg = "PATH",         \
		.help = "listen on this unix socket for requests for the status and for changes",   \
		.manual =                                                                           \
			"Listen on a unix socket with this path for requests for the status, and\n" \
			"for changes while clients are connected.  See L</CONTROL SOCKET>.\n",      \
	}

#define SERVER_OPTION_SWAP(field_)                                                                          \
	{                                                                                                   \
		.name = "swap", .type = OPTION_CHOICE, .field = (field_), .initial = "off",                 \
		.choices = option_off_on, .alone = "on", .arg = "on|off",                                   \
		.help = "prepare for a disk that this machine itself swaps or writes back to",              \
		.manual =                                                                                   \
			"Use this option if the image is a disk of the machine that serves it.\n"           \
			"It makes the server able to go on when memory is short; see\n"                     \
			"L</An image that this machine uses itself>.  It needs root, or the capabilities\n" \
			"C<CAP_SYS_RESOURCE> and C<CAP_IPC_LOCK>, and fails without them.\n",               \
	}

#endif
