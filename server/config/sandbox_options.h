/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The option rows of the sandbox (server/sandbox/sandbox.h).
 */
#ifndef SERVER_CONFIG_SANDBOX_OPTIONS_H
#define SERVER_CONFIG_SANDBOX_OPTIONS_H

#include "common/option_row.h"

#define SERVER_OPTION_SANDBOX(field_)                                                                 \
	{                                                                                             \
		.name = "sandbox", OPTION_OFF_ON_AUTO, .field = (field_), .initial = "auto",          \
		.help = "give up what a running server doesn't need; auto: as far as possible",       \
		.manual =                                                                             \
			"Once its images are open and its sockets are bound, the server gives up\n"   \
			"what it doesn't need any more, so that somebody who takes it over can do\n"  \
			"little: see L</Sandbox>.  C<auto> does that as far as the kernel and this\n" \
			"build can, and tells in the log and in the status what is in force; with\n"  \
			"C<on>, the server doesn't start if a part is missing.\n",                    \
	}

#define SERVER_OPTION_SANDBOX_PATH(field_)                                                              \
	{                                                                                               \
		.name = "sandbox-path", .type = OPTION_LIST, .field = (field_), .arg = "DIR",           \
		.help = "a directory in which images and snapshots may also be, later",                 \
		.manual =                                                                               \
			"A directory, or a device, that the server may open in its sandbox, besides\n"  \
			"those that its configuration names at the start: for exports and snapshots\n"  \
			"that are added later.  It must be there when the server starts.  The option\n" \
			"may be given several times.\n",                                                \
	}

#endif
