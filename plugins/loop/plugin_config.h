/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The user's choices: the plugin's own parameters, and those of an image.
 */
#ifndef PLUGIN_CONFIG_H
#define PLUGIN_CONFIG_H

#include "engine/image_config.h"

struct loop_config {
	char *file;
	char *dir;
	char *control;
	unsigned int notify_fd; /* 0: none */
	unsigned int swap;      /* TRISTATE_OFF or TRISTATE_ON */
	struct image_config image;
};

/* The plugin's own rows and those of an image. Their fields are offsets in struct loop_config. */
const struct option_row *
loop_option_rows(void);

#endif
