/* SPDX-License-Identifier: BSD-3-Clause */
#include "plugins/loop/plugin_config.h"

#include "common/server_options.h"

#define FIELD(name_) offsetof(struct loop_config, name_)

/* Room for the plugin's rows and those of an image, and for the one that ends them. */
#define ROWS_MAX 40

static const struct option_row own_rows[] = {
	{
		.name = "file",
		.type = OPTION_STRING,
		.field = FIELD(file),
		.arg = "PATH",
		.help = "the image file or block device to serve",
	},
	{
		.name = "dir",
		.type = OPTION_STRING,
		.field = FIELD(dir),
		.arg = "PATH",
		.help = "serve each file of this directory as an export with the name of the file",
	},
	SERVER_OPTION_CONTROL(FIELD(control)),
	SERVER_OPTION_NOTIFY_FD(FIELD(notify_fd)),
	SERVER_OPTION_SWAP(FIELD(swap)),
	{.name = NULL},
};

const struct option_row *
loop_option_rows(void)
{
	static struct option_row rows[ROWS_MAX];

	if (!rows[0].name) {
		options_append(rows, ROWS_MAX, own_rows, 0);
		options_append(rows, ROWS_MAX, image_option_rows, FIELD(image));
	}
	return rows;
}
