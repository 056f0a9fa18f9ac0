/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The options of `nbdloop attach': losetup's, and those of a server.
 */
#ifndef TOOL_ATTACH_ATTACH_OPTIONS_H
#define TOOL_ATTACH_ATTACH_OPTIONS_H

#include "tool/guard/guard_plan.h"
#include "tool/attach/attach_tls.h"

#include "common/option_row.h"

#include <stdint.h>

enum swap_choice {
	SWAP_OFF,
	SWAP_ON,
	SWAP_RAISE, /* and raise the kernel's reserve of memory, if it is too small */
};

struct attach_options {
	unsigned int read_only, partscan, nooverlap, find, show, force; /* 0 or 1 */
	unsigned int swap;                                              /* enum swap_choice */
	uint64_t offset, sizelimit, sector_size; /* bytes; 0: none, none, the server's choice */
	unsigned int temporary;                  /* 0 or 1 */
	char *scratch;                           /* a directory; NULL: the default */
	unsigned int direct_io, page_cache, engine, poll; /* of the rows' choices */
	unsigned int connections;
	unsigned int timeout, dead_timeout; /* seconds; timeout 0: the default */
	unsigned int server;                /* enum server_kind */
	unsigned int threads;               /* 0: the server's default */
	char *iops_limit, *bandwidth_limit; /* NULL: none */
	struct attach_tls tls;
	char *ceph_conf, *ceph_user, *ceph_keyring; /* NULL: the default */
	unsigned int cluster_timeout;               /* seconds; 0: none */
	char *base_ca;                              /* NULL: the default */
	unsigned int base_timeout;                  /* seconds */
	unsigned int fenced;                        /* 0 or 1 */
};

extern const struct option_row attach_option_rows[];

#endif
