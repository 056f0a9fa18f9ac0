/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RWF_DONTCACHE: a read or write through the page cache that drops the pages which it has brought
 * there.
 */
#ifndef ENGINE_BACKING_DONTCACHE_H
#define ENGINE_BACKING_DONTCACHE_H

#include "engine/backing/backing.h"

#include <sys/uio.h>

/* The C libraries of Debian 12 and 13 do not know the flag. */
#ifndef RWF_DONTCACHE
#define RWF_DONTCACHE 0x00000080
#endif

/* Tests whether reads and writes of an open file may have the flag. Returns 0, or -EOPNOTSUPP with
 * the reason. */
int
dontcache_learn(int fd, char reason[REASON_MAX]);

/* The part of the test that looks only at the kernel: `release` is uname(2)'s. */
int
dontcache_kernel(const char *release, char reason[REASON_MAX]);

#endif
