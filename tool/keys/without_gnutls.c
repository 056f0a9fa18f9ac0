/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * In place of certificates.c in a program that is built without GnuTLS.
 */
#include "tool/failure.h"
#include "tool/keys/certificates.h"

#include <errno.h>

bool
certificates_make(const struct certificates_wanted *wanted, GError **error)
{
	return failure(error, EOPNOTSUPP,
		       "%s: this nbdloop was built without GnuTLS and can't make certificates; "
		       "build it with --with-gnutls (Debian package: libgnutls28-dev)",
		       wanted->directory);
}
