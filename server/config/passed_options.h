/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The option rows of connected sockets that another program passes (server/daemon/supply.h).
 */
#ifndef SERVER_CONFIG_PASSED_OPTIONS_H
#define SERVER_CONFIG_PASSED_OPTIONS_H

#include "common/option_row.h"

#define SERVER_OPTION_FD(field_)                                                                           \
	{                                                                                                  \
		.name = "fd", .type = OPTION_LIST, .field = (field_), .arg = "N",                          \
		.help = "serve the client on the connected socket that is inherited as file descriptor N", \
		.manual =                                                                                  \
			"Serve the client at the other end of a connected socket that the server\n"        \
			"inherits as file descriptor N.  The option may be given several times.\n"         \
			"If no other option tells the server where to listen, it listens nowhere,\n"       \
			"and ends when these connections have ended.\n",                                   \
	}

#define SERVER_OPTION_FD_FROM(field_)                                                                         \
	{                                                                                                     \
		.name = "fd-from", .type = OPTION_UINT, .field = (field_), .min = 1,                          \
		.max = 1 << 20, .arg = "N",                                                                   \
		.help = "take connected sockets from the unix socket that is inherited as file descriptor N", \
		.manual =                                                                                     \
			"Take connected sockets from a unix socket (C<SOCK_SEQPACKET>) that the\n"            \
			"server inherits as file descriptor N.  Each message there has up to 253\n"           \
			"sockets (C<SCM_RIGHTS>).  The server serves the clients at their other\n"            \
			"ends.  When all connections have ended, and their requests are completed,\n"         \
			"it sends the message C<idle>.  Only then does it take the next message,\n"           \
			"so a program that has lost its connections can repeat its requests over\n"           \
			"new ones: the server carries them out after the lost ones.\n\n"                      \
			"If no other option tells the server where to listen, it listens nowhere.\n"          \
			"It ends when its connections have ended and the other end of the unix\n"             \
			"socket is closed.\n",                                                                \
	}

#endif
