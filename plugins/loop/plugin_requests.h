/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The requests of a connection: nbdkit's callbacks that read and change data.
 */
#ifndef PLUGIN_REQUESTS_H
#define PLUGIN_REQUESTS_H

#include "plugins/loop/nbdkit_api.h"

#include "plugins/loop/plugin_exports.h"

/* nbdkit's handle. */
struct connection {
	struct export_image *export_image;
	bool writable; /* by the server's and by the file's leave */
};

int
loop_pread(void *handle, void *buffer, uint32_t count, uint64_t offset, uint32_t flags);
int
loop_pwrite(void *handle, const void *buffer, uint32_t count, uint64_t offset, uint32_t flags);
int
loop_flush(void *handle, uint32_t flags);
int
loop_trim(void *handle, uint32_t count, uint64_t offset, uint32_t flags);
int
loop_zero(void *handle, uint32_t count, uint64_t offset, uint32_t flags);
int
loop_cache(void *handle, uint32_t count, uint64_t offset, uint32_t flags);
int
loop_extents(void *handle, uint32_t count, uint64_t offset, uint32_t flags,
	     struct nbdkit_extents *extents);

#endif
