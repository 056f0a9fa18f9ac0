/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/rbd_load.h"

#include "common/error.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

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
