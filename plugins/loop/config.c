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
			"Serve each regular file of the directory as the export of that name.  No name and\n"
			"no symbolic link leads out of the directory.  A client that asks for the default\n"
			"export gets the only file, if there is just one.  Files that are added later\n"
			"can be used at once.\n",
	},
	{
		.name = "control",
		.type = OPTION_STRING,
		.field = FIELD(control),
		.arg = "PATH",
		.help = "a socket for the status and for changes at run time",
		.manual =
			"Listen on a unix socket with this path (mode 0600) for requests, a line each,\n"
			"and answer each with a line of JSON.  See L</CONTROL SOCKET>.\n",
	},
	{.name = NULL},
};
