/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The command line of the program that serves an image: nbdloopd, or nbdkit with the loop plugin.
 */
#ifndef TOOL_LINK_SERVER_COMMAND_H
#define TOOL_LINK_SERVER_COMMAND_H

#include <glib.h>
#include <stdbool.h>

enum server_kind {
	SERVER_NBDLOOPD, /* inherits a socket of tool/link/server_supply.h */
	SERVER_NBDKIT,   /* inherits a listening socket, and ends with its last client */
};

/* The descriptor of that socket in the server, the same as of the first one of sd_listen_fds(3). */
#define SERVER_SOCKET 3

/* The one to which it writes its events (notify-fd). */
#define SERVER_EVENTS 4

struct server_command {
	enum server_kind kind;
	const char *control;                      /* path of its control socket; NULL: none */
	const char *direct_io;                    /* "on", "off", "auto" */
	const char *iops_limit, *bandwidth_limit; /* in nbdloopd's form; NULL: none */
	const GPtrArray *options;                 /* in nbdloopd's form: "--offset=512" */
	bool read_only;                           /* whatever the options say */
	bool force;                               /* the same */
	const char *ceph_fence;                   /* in nbdloopd's form; NULL: none */
	const char *image;                        /* absolute path */
};

/* As users write them; in the order of enum server_kind. */
extern const char *const server_kinds[];

/* The path of the program: from PATH, or where it was installed.  Caller frees. */
char *
server_command_program(enum server_kind kind);

/* The path of the program, and all of its argv[].  Caller frees (g_strfreev). */
char **
server_command_words(const struct server_command *command);

#endif
