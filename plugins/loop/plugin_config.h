/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a user of the plugin can choose: the plugin's own parameters, and those of an image.
 */
#ifndef PLUGIN_CONFIG_H
#define PLUGIN_CONFIG_H

#include "engine/image_config.h"

struct loop_config {
	char *file;
	char *dir;
	char *control;
	unsigned int swap; /* TRISTATE_OFF or TRISTATE_ON */
	struct image_config image;
};

/* The plugin's own rows; their fields are offsets in struct loop_config. The others are
 * image_option_rows, with fields in its .image. */
extern const struct option_row loop_option_rows[];

#endif
