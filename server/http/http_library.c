/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/http/http_library.h"

#include "common/error.h"

#include <dlfcn.h>
#include <errno.h>

/* Of libmicrohttpd 0.9.34 and later. */
#define LIBRARY "libmicrohttpd.so.12"

struct mhd_functions mhd;

static int
cannot_load(char **error)
{
	const char *why = dlerror();

	return error_set(error, -ENOTSUP,
			 "--http is not possible: libmicrohttpd can't be loaded: %s (Debian "
			 "package: libmicrohttpd12)",
			 why ? why : LIBRARY);
}

int
http_library_load(char **error)
{
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return cannot_load(error);
#define FIND(name)                                                                                 \
	if (!(*(void **)&mhd.name = dlsym(library, "MHD_" #name)))                                 \
		return cannot_load(error);
	MHD_FUNCTIONS(FIND)
#undef FIND
	return 0;
}
