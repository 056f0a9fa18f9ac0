/* SPDX-License-Identifier: BSD-3-Clause */
#include "nbd/tls/gnutls_library.h"

#include "common/error.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>

/* Of GnuTLS 3.6 and later. */
#define LIBRARY "libgnutls.so.30"

struct gnutls_functions gnutls;

static char failed[256]; /* why it can't be loaded; "": it is */

static void
remember_failure(void)
{
	const char *why = dlerror();

	snprintf(failed, sizeof(failed), "%s", why ? why : LIBRARY);
}

static void
gnutls_load_once(void)
{
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		remember_failure();
		return;
	}
#define FIND(name)                                                                                 \
	if (!*failed && !(*(void **)&gnutls.name = dlsym(library, "gnutls_" #name)))               \
		remember_failure();
	GNUTLS_FUNCTIONS(FIND)
#undef FIND
}

int
gnutls_library_load(char **error)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, gnutls_load_once);
	return *failed ? error_set(
				 error, -ENOTSUP,
				 "TLS is not possible: GnuTLS can't be loaded: %s (Debian package: "
				 "libgnutls30)",
				 failed)
		       : 0;
}
