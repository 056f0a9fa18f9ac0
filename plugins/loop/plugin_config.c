/* SPDX-License-Identifier: BSD-3-Clause */
#include "plugins/loop/plugin_config.h"

#define FIELD(name_) offsetof(struct loop_config, name_)

const struct option_row loop_option_rows[] = {
	{
		.name = "file",
		.type = OPTION_STRING,
		.field = FIELD(file),
		.arg = "PATH",
		.help = "the image file or block device to serve",
		.manual = "The image to serve: a regular file or a block device.  It is served as\n"
			  "raw bytes; the plugin warns if they look like another format, such as\n"
			  "qcow2.\n\n"
			  "C<file=> can be omitted: C<nbdkit loop disk.img>.  Either C<file> or\n"
			  "C<dir> is required.\n",
	},
	{
		.name = "dir",
		.type = OPTION_STRING,
		.field = FIELD(dir),
		.arg = "PATH",
		.help = "serve each file of this directory as an export with the name of the file",
		.manual =
			"Serve each regular file of this directory as an export with the name of\n"
			"the file; the client chooses one.  No name and no symbolic link leads\n"
			"out of the directory.  A client that asks for the default export gets\n"
			"the only file, if there is just one.  Files that are added later can be\n"
			"used at once.  See L</A directory of images>.\n",
	},
	{
		.name = "control",
		.type = OPTION_STRING,
		.field = FIELD(control),
		.arg = "PATH",
		.help = "listen on this unix socket for requests for the status and for changes",
		.manual =
			"Listen on a unix socket with this path for requests for the status, and\n"
			"for changes while clients are connected.  See L</CONTROL SOCKET>.\n",
	},
	{
		.name = "swap",
		.type = OPTION_CHOICE,
		.field = FIELD(swap),
		.initial = "off",
		.choices = option_off_on,
		.arg = "on|off",
		.help = "prepare for a disk that this machine itself swaps or writes back to",
		.manual =
			"Use C<on> if the image is a disk of the machine that serves it.  It\n"
			"makes the server able to go on when memory is short; see\n"
			"L</An image that this machine uses itself>.  It needs root, or the capabilities\n"
			"C<CAP_SYS_RESOURCE> and C<CAP_IPC_LOCK>, and fails without them.\n",
	},
	{.name = NULL},
};
