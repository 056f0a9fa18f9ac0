/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/backup/libnbd_library.h"

#include "tool/failure.h"

#include <dlfcn.h>
#include <errno.h>

#define LIBRARY "libnbd.so.0"

struct libnbd_functions libnbd;

static void *loaded;

/* The first function that the library lacks; NULL: it has all. */
static const char *
find_all(void *library)
{
	const char *missing = NULL;

#define FIND(name)                                                                                 \
	if (!(*(void **)&libnbd.name = dlsym(library, "nbd_" #name)))                              \
		missing = "nbd_" #name;
	LIBNBD_FUNCTIONS(FIND)
#undef FIND
	return missing;
}

bool
libnbd_library_load(GError **error)
{
	const char *missing;
	void *library;

	if (loaded)
		return true;
	library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	missing = library ? find_all(library) : NULL;
	if (library && !missing) {
		loaded = library;
		return true;
	}
	return failure(error, ENOTSUP,
		       "backups need libnbd, version 1.14 or later: %s%s (Debian package: libnbd0)",
		       library ? "it lacks " : dlerror(), library ? missing : "");
}

bool
libnbd_library_knows_hostname(void)
{
	return dlsym(loaded, "nbd_set_tls_hostname");
}
