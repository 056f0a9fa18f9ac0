/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/ceph/rbd_load.h"

#include "common/error.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* From this size on, in bytes, memory still goes back at once. */
#define MAPPED_MIN (16 << 20)

/* Guards `loaded`. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static const struct rbd_module *loaded;

/* $NBDLOOP_MODULES is for a build that is not installed. */
static const char *
directory(void)
{
	const char *chosen = secure_getenv("NBDLOOP_MODULES");

	return chosen && chosen[0] ? chosen : MODULE_DIRECTORY;
}

/*
 * Ceph's library takes memory for the data of each request, and gives it back after it, which must
 * not cost a page fault for each 4 KiB: of reads of 1 MiB, nbdloopd's own setting, by which large
 * memory goes back to the kernel at once, made 260.  The process keeps what it needed at once; a
 * server with swap (common/reclaim.c) does anyway.
 */
static void
keep_freed_memory(void)
{
#ifdef __GLIBC__
	mallopt(M_MMAP_THRESHOLD, MAPPED_MIN);
	mallopt(M_TRIM_THRESHOLD, INT_MAX);
#endif
}

/* The caller holds the mutex. */
static const struct rbd_module *
load(const char *path, char **error)
{
	char *file;
	void *library;
	const struct rbd_module *module;

	if (asprintf(&file, "%s/" RBD_MODULE_FILE, directory()) < 0)
		return NULL;
	/* Never closed: Ceph's libraries leave threads and handlers behind. */
	library = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (library)
		keep_freed_memory();
	module = library ? dlsym(library, RBD_MODULE_SYMBOL) : NULL;
	free(file);
	if (!module)
		error_set(
			error, -ENOENT,
			"%s: images in Ceph need nbdloop's module for them, which can't be loaded: %s; "
			"it is Debian's package nbdloop-rbd, or configure --with-rbd builds it",
			path, dlerror());
	return module;
}

const struct rbd_module *
rbd_load(const char *path, char **error)
{
	const struct rbd_module *module;

	pthread_mutex_lock(&mutex);
	if (!loaded)
		loaded = load(path, error);
	module = loaded;
	pthread_mutex_unlock(&mutex);
	return module;
}
