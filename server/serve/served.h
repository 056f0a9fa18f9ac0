/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A served export: an image, and what clients are told of it.
 */
#ifndef SERVER_SERVE_SERVED_H
#define SERVER_SERVE_SERVED_H

#include "server/serve/traffic.h"

#include "engine/image/image.h"
#include "nbd/export.h"

#include <stdbool.h>

struct served {
	struct nbd_export
		facts; /* const while it is served; its strings are owned by this structure */
	struct image *image;
	struct traffic *traffic; /* the image's, one for each worker, by its number */
	_Atomic unsigned int connections;
};

#endif
