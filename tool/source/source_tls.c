/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/source/source_tls.h"

#include "tool/failure.h"

#include "common/cleanup.h"
#include "nbd/tls/ktls.h"

#include <errno.h>
#include <time.h>

struct tls_credentials *
source_tls_credentials(const struct source_tls *tls, GError **error)
{
	const struct tls_files files = {
		.side = TLS_CLIENT,
		.certificates = tls->certificates,
		.psk = tls->psk,
		.user = tls->user,
		.verify = tls->verify ? TLS_VERIFY_ON : TLS_VERIFY_OFF,
	};
	/* A guard reads the files for each new connection, and tries that again and again: each
	 * warning is for the first time only. */
	static time_t warned;
	const time_t now = time(NULL);
	struct tls_credentials *credentials;
	char reason[KTLS_REASON_MAX], *CLEANUP_FREE why = NULL;
	int r = tls_credentials_load(&files, &credentials, &why);

	if (r < 0)
		return FAILURE_NULL(error, -r, "%s", why ? why : g_strerror(-r));
	tls_credentials_warn(credentials, warned, now);
	warned = now;
	if (tls->proxy || ktls_missing(reason) == 0)
		return credentials;
	tls_credentials_unref(credentials);
	return FAILURE_NULL(
		error, EOPNOTSUPP,
		"%s, which encrypts what the nbd driver sends.  Load the module tls (modprobe "
		"tls), use a kernel with CONFIG_TLS, or let a process encrypt: --tls=proxy",
		reason);
}

void
source_tls_fini(struct source_tls *tls)
{
	g_free(tls->certificates);
	g_free(tls->psk);
	g_free(tls->user);
	g_free(tls->hostname);
	*tls = (struct source_tls){.wanted = false};
}
