/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdkit's callbacks for requests, which read and change data.
 */
#ifndef PLUGIN_REQUESTS_H
#define PLUGIN_REQUESTS_H

#include "plugins/loop/nbdkit_api.h"

#include "plugins/loop/plugin_exports.h"

/* nbdkit's handle of a connection. */
struct connection {
	struct export *export;
	bool writable; /* the server (-r) and the file allow writing */
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
