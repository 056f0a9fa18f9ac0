/* SPDX-License-Identifier: BSD-3-Clause */
#include "plugins/loop/config.h"

#define FIELD(name_) offsetof(struct loop_config, name_)

const struct option_row loop_option_rows[] = {
	{
		.name = "file",
		.type = OPTION_STRING,
		.field = FIELD(file),
		.arg = "PATH",
		.help = "the image file or block device to serve",
		.manual =
			"The image to serve: a regular file or a block device.  It is served as raw bytes;\n"
			"a warning tells when they look like another format, such as qcow2.\n\n"
			"C<file=> may be left out: C<nbdkit loop disk.img>.  Either C<file> or\n"
			"C<dir> must be given.\n",
	},
	{
		.name = "dir",
		.type = OPTION_STRING,
		.field = FIELD(dir),
		.arg = "PATH",
		.help = "serve each file of a directory as the export of that name",
		.manual =
			"Serve each regular file of the directory as the export of that name; the client\n"
			"chooses one.  No name and no symbolic link leads out of the directory.  A client that\n"
			"asks for the default export gets the only file, if there is just one.  Files that are\n"
			"added later can be used at once.  See L</A directory of images>.\n",
	},
	{
		.name = "control",
		.type = OPTION_STRING,
		.field = FIELD(control),
		.arg = "PATH",
		.help = "a socket for the status and for changes at run time",
		.manual =
			"Answer requests for the status, and for changes while clients are connected, on a\n"
			"unix socket with this path.  See L</CONTROL SOCKET>.\n",
	},
	{
		.name = "swap",
		.type = OPTION_CHOICE,
		.field = FIELD(swap),
		.initial = "off",
		.choices = option_off_on,
		.arg = "on|off",
		.help = "be ready for a disk that this machine itself swaps to or writes to when memory is short",
		.manual =
			"For an image that is a disk of the machine that serves it.  C<on> takes precautions\n"
			"so that the server goes on when memory is short; see\n"
			"L</An image that this machine uses itself>.  It needs root, or the capabilities\n"
			"C<CAP_SYS_RESOURCE> and C<CAP_IPC_LOCK>, and fails where they are missing.\n",
	},
	{.name = NULL},
};
