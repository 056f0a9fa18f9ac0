/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Changes of who may use an export.
 */
#include "server/exports/exports.h"

#include "server/access/access.h"
#include "server/exports/exports_state.h"

#include "common/cleanup.h"
#include "common/log.h"

#include <errno.h>

int
exports_follow_access(struct exports *exports, struct offer *offer, struct access *access)
{
	const struct export *export = offer->export;
	int r;

	/* A snapshot may lack them, if there was no memory for them before. */
	if (access_same(offer->access, access))
		return exports_follow_origin(exports, export, access);
	r = exports_renew(exports, offer, access);
	if (r < 0)
		return r;
	access_log(access, export->config->name);
	return exports_follow_origin(exports, export, access);
}

/* changing held.  An option that is not given stays. */
static int
change_access(struct exports *exports, struct offer *offer, const char *allow,
	      const char *allow_write, unsigned int proofs, char **error)
{
	const struct access *old = offer->access;
	struct access *access;
	int r;

	if (old && !allow)
		allow = old->allow;
	if (old && !allow_write)
		allow_write = old->allow_write;
	r = access_new(allow, allow_write, proofs, &access, error);
	if (r == 0)
		r = exports_follow_access(exports, offer, access);
	access_release(access);
	return r;
}

int
exports_set_access(struct exports *exports, const char *name, const char *allow,
		   const char *allow_write, unsigned int proofs, char **error)
{
	struct offer **at;
	int r;

	*error = NULL;
	pthread_mutex_lock(&exports->changing);
	pthread_mutex_lock(&exports->mutex);
	at = exports_find_or_only(exports, name);
	pthread_mutex_unlock(&exports->mutex);
	/* A listed offer stays while `changing` is held. */
	r = at ? change_access(exports, *at, allow, allow_write, proofs, error) : -ENOENT;
	exports_end_change(exports);
	return r;
}
